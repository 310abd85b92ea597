/* The simulator with `alphabeta` equals closed forms and max-plus recurrences of trees: binomial,
 * chain, star and double binary tree, whole and in a pipeline, to the picosecond.
 *
 * a is the latency of a message, b the time of one item on the wire, n the ranks, L = log2 n, q the
 * items of a pipeline, Q the messages a connection holds. */
#include "tests/sim/closed_form.h"

enum { ITEMS_MAX = 64, SLOTS = 8 };

/* ---- trees by their definition --------------------------------------------------------------- */

struct tree {
    uint32_t n;
    uint32_t child_count[CASE_RANKS_MAX];
    uint32_t child[CASE_RANKS_MAX][CASE_RANKS_MAX]; /* in the order in which they are heard */
    uint32_t order[CASE_RANKS_MAX];                 /* of the nodes, children before parents */
    uint32_t order_count;
};

static void adopt(struct tree *tree, uint32_t node, uint32_t child)
{
    tree->child[node][tree->child_count[node]++] = child;
}

static void sort_tree(struct tree *tree, uint32_t node)
{
    for (uint32_t i = 0; i < tree->child_count[node]; i++)
        sort_tree(tree, tree->child[node][i]);
    tree->order[tree->order_count++] = node;
}

/* Node v hears v + 1, v + 2, v + 4, ... up to its lowest bit. */
static void binomial_tree(struct tree *tree)
{
    for (uint32_t v = 0; v < tree->n; v++)
        for (uint32_t bit = 1; (v == 0 || bit < (v & (~v + 1))) && v + bit < tree->n; bit *= 2)
            adopt(tree, v, v + bit);
}

static void chain_tree(struct tree *tree)
{
    for (uint32_t v = 0; v + 1 < tree->n; v++)
        adopt(tree, v, v + 1);
}

static void star_tree(struct tree *tree)
{
    for (uint32_t v = 1; v < tree->n; v++)
        adopt(tree, 0, v);
}

/* NCCL's: below node 0 hangs an in-order binary tree over 1 .. n-1, whose root is the largest power
 * of two in it; what is to the right of a root is such a tree again. */
static uint32_t plant(struct tree *tree, uint32_t first, uint32_t end)
{
    uint32_t size = end - first;
    uint32_t root = 1;

    while (root * 2 <= size)
        root *= 2;
    if (root > 1)
        adopt(tree, first + root - 1, plant(tree, first, first + root - 1));
    if (root < size)
        adopt(tree, first + root - 1, plant(tree, first + root, end));
    return first + root - 1;
}

static void balanced_tree(struct tree *tree)
{
    adopt(tree, 0, plant(tree, 1, tree->n));
}

static void grow(struct tree *tree, uint32_t n, void (*form)(struct tree *tree))
{
    memset(tree, 0, sizeof(*tree));
    tree->n = n;
    form(tree);
    sort_tree(tree, 0);
}

/* ---- a pipeline on a tree -------------------------------------------------------------------- */

enum links { ONE_LINK, LINK_EACH }; /* out of a rank: to the switch, or to everybody */

struct pipeline {
    const struct tree *tree;
    enum links links;
    tutti_ps a;
    uint32_t item_count;
    tutti_ps b[ITEMS_MAX];
    tutti_ps taken[CASE_RANKS_MAX][ITEMS_MAX]; /* when the item was taken at the end of the edge */
    tutti_ps link_free[CASE_RANKS_MAX];        /* of the edge above a node, or of the node */
    tutti_ps now[CASE_RANKS_MAX];
    tutti_ps summed[ITEMS_MAX]; /* at the root */
};

/* Item i crosses the edge above `node`, sent at `start` or when there is a slot: it arrives at.. */
static tutti_ps cross(struct pipeline *p, uint32_t sender, uint32_t node, uint32_t i)
{
    tutti_ps *link_free = &p->link_free[p->links == ONE_LINK ? sender : node];

    if (i >= SLOTS)
        p->now[sender] = later(p->now[sender], p->taken[node][i - SLOTS]);
    *link_free = later(*link_free, p->now[sender]) + p->b[i];
    return *link_free + p->a;
}

/* Up: every node hears its children one after another, then sends on. */
static void go_up(struct pipeline *p)
{
    tutti_ps arrival[CASE_RANKS_MAX];
    const struct tree *tree = p->tree;

    memset(p->now, 0, sizeof(p->now));
    memset(p->link_free, 0, sizeof(p->link_free));
    for (uint32_t i = 0; i < p->item_count; i++) {
        for (uint32_t o = 0; o < tree->n; o++) {
            uint32_t v = tree->order[o];

            for (uint32_t c = 0; c < tree->child_count[v]; c++) {
                uint32_t child = tree->child[v][c];

                p->now[v] = later(p->now[v], arrival[child]);
                p->taken[child][i] = p->now[v];
            }
            if (v != 0)
                arrival[v] = cross(p, v, v, i);
        }
        p->summed[i] = p->now[0];
    }
}

/* Down: every node hears its parent, then sends to its last child first. The root may begin with
 * item i at summed[i]. Returns when all is over. */
static tutti_ps go_down(struct pipeline *p)
{
    tutti_ps arrival[CASE_RANKS_MAX];
    const struct tree *tree = p->tree;
    tutti_ps latest = p->summed[p->item_count - 1];

    memset(p->now, 0, sizeof(p->now));
    memset(p->link_free, 0, sizeof(p->link_free));
    for (uint32_t i = 0; i < p->item_count; i++) {
        for (uint32_t o = tree->n; o-- > 0;) {
            uint32_t v = tree->order[o];

            p->now[v] = later(p->now[v], v == 0 ? p->summed[i] : arrival[v]);
            p->taken[v][i] = p->now[v];
            latest = later(latest, p->now[v]);
            for (uint32_t c = tree->child_count[v]; c-- > 0;)
                arrival[tree->child[v][c]] = cross(p, v, tree->child[v][c], i);
        }
    }
    return latest;
}

/* Up, down or both, for a share cut into pieces and these into slices. */
static tutti_ps pipelined(const struct tree *tree, enum tutti_collective collective,
                          enum links links, uint64_t share, uint64_t pieces, uint32_t slices,
                          const struct cost *cost)
{
    static struct pipeline p; /* large */

    p = (struct pipeline){.tree = tree, .links = links, .a = alpha(cost)};
    for (uint64_t piece = 0; piece < pieces; piece++)
        for (uint32_t s = 0; s < slices; s++)
            p.b[p.item_count++] = beta(cost, part(part(share, piece, pieces), s, slices));
    if (collective != TUTTI_BROADCAST)
        go_up(&p);
    if (collective == TUTTI_REDUCE_TO_ROOT)
        return p.summed[p.item_count - 1];
    return go_down(&p);
}

/* ---- questions ------------------------------------------------------------------------------- */

static void question(const struct tutti_topo *topo, const char *algorithm,
                     struct tutti_coll_params params, const struct cost *cost, tutti_ps time)
{
    struct tutti_shape shape = tutti_shape_flat(topo->rank_count);

    params.dtype = TUTTI_FLOAT32;
    params.chunk_bytes = params.chunk_bytes == 0 ? GIANT_CHUNK : params.chunk_bytes;
    expect(topo, algorithm, &params, &shape, cost, launch(cost) + time);
}

static const struct {
    const char *name;
    enum tutti_collective collective;
    void (*form)(struct tree *tree);
} trees[] = {
    {"binomial", TUTTI_BROADCAST, binomial_tree},
    {"binomial", TUTTI_REDUCE_TO_ROOT, binomial_tree},
    {"binomial", TUTTI_ALLREDUCE, binomial_tree},
    {"binomial", TUTTI_BARRIER, binomial_tree},
    {"ring", TUTTI_BROADCAST, chain_tree},
    {"ring", TUTTI_REDUCE_TO_ROOT, chain_tree},
    {"reduce-broadcast", TUTTI_ALLREDUCE, star_tree},
};

enum { TREE_COUNT = sizeof(trees) / sizeof(trees[0]) };

static bool both_ways(size_t t)
{
    return trees[t].collective == TUTTI_ALLREDUCE || trees[t].collective == TUTTI_BARRIER;
}

/* All trees for any n, any root, any count, whole: on a switch too, as nothing goes up any more
 * when it comes down. */
TEST(trees_of_one_item)
{
    static struct tree tree;

    for (uint32_t n = 2; n <= CASE_RANKS_MAX; n++) {
        for (unsigned i = 0; i < COST_COUNT; i++) {
            struct cost cost = cost_number(i, TUTTI_HOP_NET);
            struct tutti_topo *one = machine_switch(n, &cost);
            struct tutti_topo *each = machine_mesh(n, &cost);

            for (size_t t = 0; t < TREE_COUNT; t++) {
                uint64_t count = trees[t].collective == TUTTI_BARRIER
                                     ? 0
                                     : size_number((unsigned)(t + n + i) % FORM_SIZES, n);
                struct tutti_coll_params params = {
                    .collective = trees[t].collective, .root = n / 2, .count = count};

                grow(&tree, n, trees[t].form);
                question(one, trees[t].name, params, &cost,
                         pipelined(&tree, trees[t].collective, ONE_LINK, count, 1, 1, &cost));
                question(each, trees[t].name, params, &cost,
                         pipelined(&tree, trees[t].collective, LINK_EACH, count, 1, 1, &cost));
            }
            tutti_topo_free(one);
            tutti_topo_free(each);
        }
    }
}

/* Binomial, n = 2^L: L (a + b) up, as much down (Thakur, Rabenseifner & Gropp 2005, 3); star: all
 * up at once, down one behind the other. */
TEST(trees_of_one_item_in_closed_form)
{
    for (uint32_t n = 2; n <= CASE_RANKS_MAX; n++) {
        struct cost cost = cost_number(n % COST_COUNT, TUTTI_HOP_NVLINK);
        struct tutti_topo *one = machine_switch(n, &cost);
        tutti_ps a = alpha(&cost);
        tutti_ps b = beta(&cost, 100003);
        struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE, .count = 100003};

        question(one, "reduce-broadcast", params, &cost, a + b + (n - 1) * b + a);
        if (power_of_two(n)) {
            question(one, "binomial", params, &cost, 2 * log_up(n) * (a + b));
            params.collective = TUTTI_BROADCAST;
            question(one, "binomial", params, &cost, log_up(n) * (a + b));
            params.collective = TUTTI_REDUCE_TO_ROOT;
            question(one, "binomial", params, &cost, log_up(n) * (a + b));
        }
        tutti_topo_free(one);
    }
}

/* q equal items behind each other: Q leave in Q b, then the next waits for the first to have come.
 * So item i leaves at (i mod Q) b + floor(i / Q) max(Q b, a + b), and goes n-1 hops. */
static tutti_ps departure(uint32_t i, tutti_ps a, tutti_ps b)
{
    return i % SLOTS * b + i / SLOTS * later(SLOTS * b, a + b);
}

TEST(chains_in_closed_form)
{
    for (uint32_t n = 2; n <= CASE_RANKS_MAX; n++) {
        for (uint32_t q = 1; q <= 31; q += 6) {
            struct cost cost = cost_number((n + q) % COST_COUNT, TUTTI_HOP_NVLINK);
            struct tutti_topo *one = machine_switch(n, &cost);
            uint64_t chunk = n % 2 == 0 ? 4000 : 400000;
            tutti_ps a = alpha(&cost);
            tutti_ps b = beta(&cost, chunk);
            struct tutti_coll_params params = {.collective = TUTTI_BROADCAST,
                                               .root = n - 1,
                                               .count = q * chunk,
                                               .chunk_bytes = chunk * ELEMENT_BYTES};

            question(one, "ring", params, &cost, (n - 1) * (a + b) + departure(q - 1, a, b));
            params.collective = TUTTI_REDUCE_TO_ROOT;
            question(one, "ring", params, &cost, (n - 1) * (a + b) + departure(q - 1, a, b));
            if (q <= SLOTS) { /* on 3 channels: 3 q messages share the link */
                params.count *= 3;
                params.channel_count = 3;
                question(one, "ring", params, &cost, (n - 1) * (a + b) + (3 * q - 1) * b);
            }
            tutti_topo_free(one);
        }
    }
}

/* Any tree, any count, in pieces and slices. Where items go both ways at once each edge has links
 * of its own. */
TEST(trees_in_a_pipeline)
{
    static struct tree tree;

    for (uint32_t n = 2; n <= CASE_RANKS_MAX; n++) {
        for (unsigned i = 0; i < 4; i++) {
            struct cost cost = cost_number((i + n) % COST_COUNT, TUTTI_HOP_NVLINK);
            struct tutti_topo *one = machine_switch(n, &cost);
            struct tutti_topo *each = machine_mesh(n, &cost);
            uint32_t slices = 1 + i % 3;
            uint64_t pieces = 20 / slices - i;
            uint64_t count = (i % 2 == 0 ? 1003 : 262145) * pieces - 3;

            for (size_t t = 0; t < TREE_COUNT; t++) {
                enum links links = both_ways(t) ? LINK_EACH : ONE_LINK;
                struct tutti_coll_params params = {.collective = trees[t].collective,
                                                   .root = n - 1,
                                                   .count = count,
                                                   .chunk_bytes = up(count, pieces) * ELEMENT_BYTES,
                                                   .slice_count = slices};

                if (trees[t].collective == TUTTI_BARRIER)
                    continue;
                grow(&tree, n, trees[t].form);
                question(
                    links == ONE_LINK ? one : each, trees[t].name, params, &cost,
                    pipelined(&tree, trees[t].collective, links, count, pieces, slices, &cost));
            }
            tutti_topo_free(one);
            tutti_topo_free(each);
        }
    }
}

/* ---- the double binary tree ------------------------------------------------------------------ */

/* Each tree has half of the data. A rank that passes on in one tree is a leaf in the other, and
 * sends there at the start alone (but for rank 0 in odd n, root of one and inner in the other). So
 * on a mesh, and for even n on a switch, the trees do not meet as long as q b < a. */
static void ask_double_tree(uint32_t n, enum links links, uint64_t count, uint32_t q,
                            const struct cost *cost)
{
    static struct tree tree;
    struct tutti_topo *topo = links == ONE_LINK ? machine_switch(n, cost) : machine_mesh(n, cost);
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                       .count = count,
                                       .chunk_bytes = up(up(count, 2), q) * ELEMENT_BYTES};
    tutti_ps time;

    CHECK(q * beta(cost, up(up(count, 2), q)) < alpha(cost));
    grow(&tree, n, balanced_tree);
    time = later(pipelined(&tree, TUTTI_ALLREDUCE, links, part(count, 0, 2), q, 1, cost),
                 pipelined(&tree, TUTTI_ALLREDUCE, links, part(count, 1, 2), q, 1, cost));
    question(topo, "double-binary-tree", params, cost, time);
    tutti_topo_free(topo);
}

TEST(double_binary_trees)
{
    for (uint32_t n = 2; n <= CASE_RANKS_MAX; n++) {
        for (unsigned i = 0; i < COST_COUNT; i++) {
            struct cost cost = cost_number(i, TUTTI_HOP_NVLINK);
            enum links links = n % 2 == 0 && i % 2 == 0 ? ONE_LINK : LINK_EACH;

            ask_double_tree(n, links, i < 2 ? i : 251, 1, &cost);
            ask_double_tree(n, links, 161, 1 + i, &cost);
        }
    }
}

/* n = 2^L, equal items of b: L hops up and L hops down; down, a rank has two to send to, the second
 * b behind the first, in all but the first hop, and items 2 b apart:
 * 2 L a + (3 L - 1) b + (q - 1) 2 b (one apart where L = 1). */
TEST(double_binary_trees_in_closed_form)
{
    for (uint32_t n = 2; n <= CASE_RANKS_MAX; n *= 2) {
        for (uint32_t q = 1; q <= SLOTS; q++) {
            struct cost cost = cost_number(q % COST_COUNT, TUTTI_HOP_NVLINK);
            struct tutti_topo *one = machine_switch(n, &cost);
            uint32_t log = log_up(n);
            tutti_ps b = beta(&cost, 15);
            tutti_ps time =
                2 * log * alpha(&cost) + (3 * log - 1) * b + (q - 1) * (log == 1 ? 1 : 2) * b;
            struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                               .count = UINT64_C(2) * q * 15,
                                               .chunk_bytes = 15 * ELEMENT_BYTES};

            question(one, "double-binary-tree", params, &cost, time);
            params.channel_count = 2; /* where each rank is a host of its own: one for each tree */
            question(one, "chain-tree", params, &cost, time);
            tutti_topo_free(one);
        }
    }
}
