/* The tree engine: the share is cut into items (slices of pieces), and every item is reduced up the
 * tree and broadcast down it, all items in a pipeline.
 *
 * Up and down are lanes of their own, as they are groups of warps of their own in NCCL 2.28: an
 * item may go up while an earlier one comes down. They meet at the root alone, where the first
 * send down waits for the sum. The two lanes never touch an item in `out` at once: its way down
 * begins after its way up has ended everywhere. */
#include "runtime/coll/tree.h"

#include "runtime/coll/nccl_cut.h"
#include "runtime/coll/ring_order.h"
#include "runtime/coll/tree_hosts.h"
#include "runtime/wide.h"

struct tree {
    struct coll coll;
    struct tree_plan plan;
    struct ring_orders orders; /* a chain follows the ring of its channel */
    struct tree_hosts hosts;   /* TREE_HOSTS: how they are joined, */
    struct nccl_cut cut;       /* and how the data are cut */
    bool up;
    bool down;
    uint64_t item_count;    /* items of a share; the most where shares are not equal */
    uint64_t item_elements; /* the longest */
    uint64_t keep_count;    /* reduce: sums under way that a rank can keep in scratch */
};

/* One rank in one tree. */
struct node {
    uint32_t share;
    uint32_t tree;
    uint32_t id;
    uint32_t child_count;
    bool root;
    bool up;                 /* which lane */
    struct tree_family host; /* TREE_HOSTS */
};

/* The ring of a chain's channel. */
static uint32_t ring_of(const struct tree *tree, const struct node *node)
{
    return node->share / tree->plan.tree_count;
}

/* A chain broadcasts along the ring and reduces along it too, so its nodes are numbered from the
 * root with the ring on the way down and against it on the way up; those of a second one, which
 * goes round the other way, the other way round. */
static bool is_with_ring(const struct node *node)
{
    return node->up == (node->tree == 1);
}

static uint32_t node_id(const struct tree *tree, const struct node *node, uint32_t rank)
{
    uint32_t n = tree->coll.schedule.rank_count;
    uint32_t root = tree->coll.schedule.contract.root;

    if (tree->plan.kind == TREE_BALANCED)
        return tutti_tree_double_node(node->tree, n, rank);
    if (tree->plan.kind != TREE_CHAIN)
        return ring_sub(rank, root, n);
    rank = ring_position(&tree->orders, ring_of(tree, node), rank);
    root = ring_position(&tree->orders, ring_of(tree, node), root);
    return is_with_ring(node) ? ring_sub(rank, root, n) : ring_sub(root, rank, n);
}

static uint32_t node_rank(const struct tree *tree, const struct node *node, uint32_t id)
{
    uint32_t n = tree->coll.schedule.rank_count;
    uint32_t root = tree->coll.schedule.contract.root;

    if (tree->plan.kind == TREE_BALANCED)
        return tutti_tree_double_rank(node->tree, n, id);
    if (tree->plan.kind != TREE_CHAIN)
        return ring_add(root, id, n);
    root = ring_position(&tree->orders, ring_of(tree, node), root);
    return ring_rank(&tree->orders, ring_of(tree, node),
                     is_with_ring(node) ? ring_add(root, id, n) : ring_sub(root, id, n));
}

static struct node find_node(const struct tree *tree, uint32_t rank, uint32_t lane)
{
    uint32_t lanes = tree->up && tree->down ? 2 : 1;
    struct node node = {.share = lane / lanes};

    node.tree = node.share % tree->plan.tree_count;
    node.up = tree->up && lane % lanes == 0;
    if (tree->plan.kind == TREE_HOSTS) {
        node.host = tutti_tree_family(&tree->hosts, node.share, rank);
        node.root = node.host.parent == TREE_NONE;
        node.child_count = node.host.child_count;
        return node;
    }
    node.id = node_id(tree, &node, rank);
    node.root = node.id == 0;
    node.child_count =
        tutti_tree_child_count(tree->plan.kind, tree->coll.schedule.rank_count, node.id);
    return node;
}

static uint32_t parent_rank(const struct tree *tree, const struct node *node)
{
    uint32_t n = tree->coll.schedule.rank_count;

    if (tree->plan.kind == TREE_HOSTS)
        return node->host.parent;
    return node_rank(tree, node, tutti_tree_parent(tree->plan.kind, n, node->id));
}

static uint32_t child_rank(const struct tree *tree, const struct node *node, uint32_t index)
{
    uint32_t n = tree->coll.schedule.rank_count;

    if (tree->plan.kind == TREE_HOSTS)
        return node->host.children[index];
    return node_rank(tree, node, tutti_tree_child(tree->plan.kind, n, node->id, index));
}

static bool carries_data(const struct tree *tree)
{
    return tree->coll.schedule.contract.collective != TUTTI_BARRIER;
}

static bool copies_root(const struct tree *tree, const struct node *node)
{
    return node->root && !tree->up;
}

/* NCCL's shares are not equal, and cut into as many chunks as there are in each. */
static uint64_t items_of(const struct tree *tree, uint32_t share)
{
    if (tree->plan.kind != TREE_HOSTS)
        return tree->item_count;
    return nccl_chunk_count(&tree->cut, share) * tree->coll.slice_count;
}

/* A round is one child or the parent; a broadcast's root has one more to copy its own data. */
static uint64_t rounds_of_item(const struct tree *tree, const struct node *node)
{
    return (uint64_t)node->child_count + (node->root && !copies_root(tree, node) ? 0 : 1);
}

static uint64_t tree_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                 uint32_t lane)
{
    const struct tree *tree = (const struct tree *)schedule;
    struct node node = find_node(tree, rank, lane);

    return items_of(tree, node.share) * rounds_of_item(tree, &node);
}

static struct range item_range(const struct tree *tree, const struct node *node, uint64_t item)
{
    uint32_t slice_count = tree->coll.slice_count;
    struct range piece;

    if (tree->plan.kind == TREE_HOSTS) {
        piece = nccl_piece(nccl_share(&tree->cut, node->share), item / slice_count,
                           nccl_chunk(&tree->cut, node->share));
        return nccl_slice(&tree->cut, piece, (uint32_t)(item % slice_count));
    }
    piece = coll_piece(&tree->coll, node->share, item / slice_count);
    return part_of(piece, item % slice_count, slice_count);
}

/* Steps of one item in an up lane. */
static uint64_t up_steps(const struct tree *tree, const struct node *node)
{
    return (uint64_t)node->child_count * (carries_data(tree) ? 2 : 1) + (node->root ? 0 : 1);
}

/* Where the partial sum of an item grows: in `out`, where the result will be too; a reduce leaves
 * the `out` of the others alone and keeps a few sums in scratch. */
static struct place sum_place(const struct tree *tree, const struct node *node, uint64_t item,
                              struct range range)
{
    uint64_t slot;

    if (tree->down || node->root)
        return at(&tree->coll, TUTTI_BUF_OUT, range.first);
    slot = (uint64_t)node->share * (tree->keep_count + 1) + 1 + item % tree->keep_count;
    return at(&tree->coll, TUTTI_BUF_SCRATCH, slot * tree->item_elements);
}

static void emit_up(const struct tree *tree, const struct node *node, uint64_t item, uint32_t index,
                    struct tutti_round *out)
{
    const struct coll *coll = &tree->coll;
    struct range range = item_range(tree, node, item);
    uint64_t bytes = range.count * coll->element_bytes;
    struct place in = at(coll, TUTTI_BUF_IN, range.first);
    struct place sum = sum_place(tree, node, item, range);
    uint64_t staging = tree->item_elements * node->share * (tree->keep_count + 1);
    struct tutti_step *step;

    if (index == node->child_count) {
        emit_send(out, parent_rank(tree, node), node->child_count == 0 ? in : sum, bytes);
        return;
    }
    if (!carries_data(tree)) {
        emit_recv(out, child_rank(tree, node, index), at(coll, TUTTI_BUF_OUT, 0), 0);
        return;
    }
    step =
        emit_recv_reduce(out, child_rank(tree, node, index), at(coll, TUTTI_BUF_SCRATCH, staging),
                         sum, index == 0 ? in : sum, bytes);
    if (node->root && index + 1 == node->child_count)
        emit_last(step);
    if (sum.buf == TUTTI_BUF_SCRATCH && index == 0 && item >= tree->keep_count)
        emit_dep(step, node->share,
                 (item - tree->keep_count + 1) * up_steps(tree, node) - 1); /* its SEND */
}

static void emit_down(const struct tree *tree, const struct node *node, uint64_t item,
                      uint32_t index, struct tutti_round *out)
{
    const struct coll *coll = &tree->coll;
    struct range range = item_range(tree, node, item);
    uint64_t bytes = range.count * coll->element_bytes;
    struct place in = at(coll, TUTTI_BUF_IN, range.first);
    struct place result = at(coll, TUTTI_BUF_OUT, range.first);
    struct tutti_step *step;

    if (!node->root && index == 0) {
        emit_recv(out, parent_rank(tree, node), result, bytes);
        return;
    }
    if (!node->root)
        index--;
    if (index == node->child_count) {
        emit_copy(out, result, in, bytes);
        return;
    }
    /* The last child has the largest subtree. */
    step = emit_send(out, child_rank(tree, node, node->child_count - 1 - index),
                     copies_root(tree, node) ? in : result, bytes);
    if (node->root && tree->up && index == 0)
        emit_dep(step, 2 * node->share, (item + 1) * up_steps(tree, node) - 1);
}

static void tree_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                      uint64_t round, struct tutti_round *out)
{
    const struct tree *tree = (const struct tree *)schedule;
    struct node node = find_node(tree, rank, lane);
    uint64_t rounds = rounds_of_item(tree, &node);

    (node.up ? emit_up : emit_down)(tree, &node, round / rounds, (uint32_t)(round % rounds), out);
}

/* How many items of a share, from one on, repeat, and after how many. Of NCCL's chunks, all but the
 * last are alike; so are their slices, but the last, which may be shorter. */
static uint64_t like_items(const struct tree *tree, uint32_t share, uint64_t item, uint32_t *period)
{
    uint64_t parts = (uint64_t)tree->coll.share_count * tree->item_count;
    uint32_t slices = tree->coll.slice_count;
    uint64_t whole, length;
    struct range piece;

    *period = 1;
    if (tree->plan.kind != TREE_HOSTS)
        return tree->coll.schedule.contract.count % parts == 0 ? tree->item_count - item : 0;
    piece = nccl_piece(nccl_share(&tree->cut, share), item / slices, nccl_chunk(&tree->cut, share));
    whole = nccl_share(&tree->cut, share).count / nccl_chunk(&tree->cut, share) * slices;
    length = nccl_slice(&tree->cut, piece, 0).count;
    if (item < whole) {
        *period = length * slices == piece.count ? 1 : slices;
        return whole - item;
    }
    whole = piece.count / length;
    return item % slices < whole ? whole - item % slices : 0;
}

/* Where items are of one length they repeat; a reduce begins to wait for its own sums only when
 * those it can keep are all under way. */
static uint64_t tree_steady(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                            uint64_t round, uint64_t *ret_period)
{
    const struct tree *tree = (const struct tree *)schedule;
    struct node node = find_node(tree, rank, lane);
    uint64_t rounds = rounds_of_item(tree, &node);
    uint64_t first = tree->keep_count * rounds;
    uint64_t end;
    uint32_t period;

    if (round >= items_of(tree, node.share) * rounds)
        return 0;
    end = rounds * (round / rounds + like_items(tree, node.share, round / rounds, &period));
    if (round >= end)
        return 0;
    *ret_period = rounds * period;
    return (round < first && first < end ? first : end) - round;
}

/* One item goes up and down a tree. Where n is even, what has children in one of two balanced trees
 * has none in the other: nodes that have are even, and a rank is an even one and an odd one. */
static bool tree_form(const struct tutti_schedule *schedule, uint32_t number,
                      struct tutti_rank_tree *ret)
{
    const struct tree *tree = (const struct tree *)schedule;
    struct node node = {.share = number, .tree = number % tree->plan.tree_count};
    uint32_t lanes = tree->up && tree->down ? 2 : 1;

    if ((tree->plan.kind != TREE_BINOMIAL && tree->plan.kind != TREE_BALANCED) ||
        tree->item_count != 1 || number >= tree->coll.share_count)
        return false;
    *ret = (struct tutti_rank_tree){
        .root = node_rank(tree, &node, 0),
        .up_lane = tree->up ? number * lanes : TUTTI_LANE_NONE,
        .down_lane = tree->down ? number * lanes + lanes - 1 : TUTTI_LANE_NONE,
        .tree_count = tree->coll.share_count,
        .alternates = tree->coll.share_count == 1 ||
                      (tree->coll.share_count == 2 && tree->plan.tree_count == 2 &&
                       schedule->rank_count % 2 == 0),
    };
    return true;
}

/* By the lowest set bit of a node, and how many nodes there are from it on, if fewer: a binomial
 * subtree has nodes from its root on, a balanced one as many more before it. */
static uint64_t tree_subtree(const struct tutti_schedule *schedule, uint32_t number, uint32_t rank)
{
    const struct tree *tree = (const struct tree *)schedule;
    struct node node = {.share = number, .tree = number % tree->plan.tree_count};
    uint32_t id = node_id(tree, &node, rank);
    uint32_t bit = id & (~id + 1);
    uint32_t left = schedule->rank_count - id;

    return (uint64_t)bit << 32 | (left < bit ? left : bit);
}

static const struct tutti_schedule_ops tree_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = tree_round_count,
    .emit = tree_emit,
    .steady = tree_steady,
    .tree = tree_form,
    .subtree = tree_subtree,
};

/* Dependencies name steps with 32 bits. */
static int check_steps(const struct tree *tree, struct tutti_err *err)
{
    uint32_t n = tree->coll.schedule.rank_count;
    uint64_t children =
        tree->plan.kind == TREE_HOSTS ? 0 : tutti_tree_child_count(tree->plan.kind, n, 0);

    if (tree->plan.kind == TREE_BALANCED || tree->plan.kind == TREE_HOSTS)
        children = TREE_CHILDREN_MAX;
    if (tutti_times(tree->item_count, 2 * children + 1) > UINT32_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%llu' messages a lane are too many (larger chunks, fewer slices)",
                          (unsigned long long)tree->item_count);
    return 0;
}

/* Items of shares that are not equal. */
static int cut_hosts(struct tree *tree, const struct tree_plan *plan, struct tutti_err *err)
{
    struct coll *coll = &tree->coll;
    struct range chunk;
    int status = tutti_nccl_cut_init(&tree->cut, plan->nccl, err);

    if (status == 0)
        status = tutti_tree_hosts_init(&tree->hosts, plan, coll->schedule.rank_count,
                                       coll->schedule.arena, err);
    if (status < 0)
        return status;
    chunk.first = 0;
    chunk.count = nccl_share_max(&tree->cut);
    coll->piece_count = nccl_chunk_count_max(&tree->cut);
    chunk.count = chunk.count < tree->cut.chunk ? chunk.count : tree->cut.chunk;
    tree->item_elements = nccl_slice(&tree->cut, chunk, 0).count;
    return 0;
}

int tutti_tree_new(const struct tree_plan *plan, const struct tutti_coll_params *params,
                   const struct tutti_shape *shape, struct tutti_schedule **ret,
                   struct tutti_err *err)
{
    bool up = params->collective != TUTTI_BROADCAST;
    bool down = params->collective != TUTTI_REDUCE_TO_ROOT;
    struct coll_layout layout = {.name = plan->name,
                                 .ops = &tree_ops,
                                 .struct_bytes = sizeof(struct tree),
                                 .shares_per_channel = plan->tree_count,
                                 .lanes_per_share = up && down ? 2 : 1,
                                 .grain_bytes = plan->grain_bytes,
                                 .whole = plan->kind == TREE_HOSTS};
    struct coll *coll = NULL;
    struct tree *tree;
    int status = tutti_coll_new(&layout, params, shape, &coll, err);

    if (status < 0)
        return status;
    assert(shape->rank_count >= 2);
    tree = (struct tree *)coll;
    tree->plan = *plan;
    tree->up = up;
    tree->down = down;
    tree->item_elements = div_up(coll_piece_max(coll), coll->slice_count);
    if (plan->kind == TREE_HOSTS)
        status = cut_hosts(tree, plan, err);
    if (status < 0) {
        tutti_schedule_free(&coll->schedule);
        return status;
    }
    tree->item_count = coll->piece_count * coll->slice_count;
    tree->keep_count = down ? 0 : coll->schedule.slot_count;
    if (tree->keep_count > tree->item_count)
        tree->keep_count = tree->item_count;
    status = check_steps(tree, err);
    if (status == 0 && plan->kind == TREE_CHAIN)
        status = tutti_ring_orders_init(&tree->orders, shape, coll->schedule.arena, err);
    if (status < 0) {
        tutti_schedule_free(&coll->schedule);
        return status;
    }
    return tutti_coll_finish(coll, up ? tree->item_elements * (tree->keep_count + 1) : 0, 0,
                             shape->rank_count + UINT64_C(1), ret, err);
}
