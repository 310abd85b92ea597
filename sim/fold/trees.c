/* The folded play of trees; see trees.h. The shape of a subtree is that of its children's subtrees
 * in their order. On the way up a rank and its children are a star, whose messages start when the
 * children have their sums: it is played once for each shape, on the network model itself. On the
 * way down a rank sends to all children at once, at a time that only shifts what follows.
 *
 * That is exact as long as no link is wanted at the same time by messages of two stars. Within a
 * tree it is not: a rank sends up before the root has the sum, and down after. Of two trees it has
 * to be looked at: at first by the extremes of all leaves and all others, where each rank is a leaf
 * in one tree, then rank by rank.
 *
 * Price: shapes times children, some hundreds where there are a million ranks. */
#include "sim/fold/trees.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "sim/fold/tree_shape.h"
#include "sim/net/net.h"
#include "sim/play/start.h"
#include "topo/topo.h"

#define NONE UINT32_MAX

/* ---- programs -------------------------------------------------------------------------------- */

static int refuse(const struct tutti_tree_play *play, struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_ELACK, "'%s': its programs are not those of trees",
                      play->schedule->name);
}

/* From the children, each time with a REDUCE or never, then to the parent. */
static bool read_up(struct tutti_cursor *cursor, struct tutti_tree_part *part, bool root)
{
    const struct tutti_step *step = tutti_cursor_next(cursor);

    while (step != NULL && step->kind == TUTTI_RECV) {
        bool fused = (step->flags & TUTTI_STEP_FUSE) != 0;

        if (part->child_count == TUTTI_TREE_CHILDREN_MAX || (step->flags & TUTTI_STEP_DEP) != 0 ||
            (part->child_count > 0 && (fused != part->reduces || step->bytes != part->bytes)))
            return false;
        part->children[part->child_count++] = step->peer;
        part->bytes = step->bytes;
        part->reduces = fused;
        step = tutti_cursor_next(cursor);
        if (!fused)
            continue;
        if (step == NULL || step->kind != TUTTI_REDUCE || step->bytes != part->bytes ||
            (step->flags & TUTTI_STEP_DEP) != 0)
            return false;
        step = tutti_cursor_next(cursor);
    }
    if (root)
        return step == NULL && part->child_count > 0;
    if (step == NULL || step->kind != TUTTI_SEND || (step->flags & TUTTI_STEP_DEP) != 0 ||
        (part->child_count > 0 && step->bytes != part->bytes))
        return false;
    part->bytes = step->bytes;
    return tutti_cursor_next(cursor) == NULL;
}

/* Which child a SEND down is to; one that is new is put in. */
static bool find_child(struct tutti_tree_part *part, uint32_t peer, bool goes_up, uint32_t turn)
{
    uint32_t child = 0;

    if (!goes_up) {
        if (part->child_count == TUTTI_TREE_CHILDREN_MAX)
            return false;
        part->children[part->child_count++] = peer;
    }
    while (child < part->child_count && part->children[child] != peer)
        child++;
    part->turn[turn] = (uint8_t)child;
    return child < part->child_count;
}

/* From the parent, then to the children; the root waits for its sum and may copy. */
static bool read_down(const struct tutti_tree_play *play, struct tutti_cursor *cursor,
                      struct tutti_tree_part *part, bool root, uint64_t up_steps)
{
    const struct tutti_step *step = tutti_cursor_next(cursor);
    bool goes_up = play->tree.up_lane != TUTTI_LANE_NONE;
    uint32_t sent = 0;

    if (!root) {
        if (step == NULL || step->kind != TUTTI_RECV ||
            (step->flags & (TUTTI_STEP_DEP | TUTTI_STEP_FUSE)) != 0 ||
            (goes_up && step->bytes != part->bytes))
            return false;
        part->bytes = step->bytes;
        step = tutti_cursor_next(cursor);
    }
    for (; step != NULL && step->kind == TUTTI_SEND; step = tutti_cursor_next(cursor)) {
        bool waits = (step->flags & TUTTI_STEP_DEP) != 0;

        if (waits != (root && goes_up && sent == 0) ||
            (waits && (step->dep_lane != play->tree.up_lane || step->dep_step + 1 != up_steps)) ||
            ((goes_up || !root || sent > 0) && step->bytes != part->bytes) ||
            !find_child(part, step->peer, goes_up, sent++))
            return false;
        part->bytes = step->bytes;
    }
    if (step != NULL && root && step->kind == TUTTI_COPY && (step->flags & TUTTI_STEP_DEP) == 0 &&
        step->bytes == part->bytes) {
        part->copies = true;
        step = tutti_cursor_next(cursor);
    }
    return step == NULL && sent == part->child_count;
}

int tutti_tree_read(const struct tutti_tree_play *play, uint32_t rank, struct tutti_tree_part *ret,
                    struct tutti_err *err)
{
    bool root = rank == play->tree.root;
    struct tutti_cursor cursor;
    uint64_t up_steps = 0;

    *ret = (struct tutti_tree_part){.child_count = 0};
    if (play->tree.up_lane != TUTTI_LANE_NONE) {
        tutti_cursor_open(&cursor, play->schedule, rank, play->tree.up_lane);
        if (!read_up(&cursor, ret, root))
            return refuse(play, err);
        ret->step_count = up_steps = cursor.step_index;
    }
    if (play->tree.down_lane != TUTTI_LANE_NONE) {
        tutti_cursor_open(&cursor, play->schedule, rank, play->tree.down_lane);
        if (!read_down(play, &cursor, ret, root, up_steps))
            return refuse(play, err);
        ret->step_count += cursor.step_index;
    }
    return 0;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

uint32_t tutti_tree_find(const struct tutti_tree_play *play, uint64_t key)
{
    for (uint32_t i = 0; i < play->shape_count; i++) {
        if (play->shapes[i].key == key)
            return i;
    }
    return NONE;
}

static int add_shape(struct tutti_tree_play *play, uint32_t rank, uint32_t *ret,
                     struct tutti_err *err)
{
    uint64_t key = play->schedule->ops->subtree(play->schedule, play->number, rank);

    *ret = tutti_tree_find(play, key);
    if (*ret != NONE)
        return 0;
    if (play->shape_count == TUTTI_TREE_SHAPES_MAX)
        return tutti_fail(err, TUTTI_ELACK, "'%s': its subtrees have too many shapes",
                          play->schedule->name);
    *ret = play->shape_count++;
    play->shapes[*ret].key = key;
    play->shapes[*ret].rank = rank;
    return 0;
}

static int find_shapes(struct tutti_tree_play *play, struct tutti_err *err)
{
    uint32_t root;
    int status = add_shape(play, play->tree.root, &root, err);

    for (uint32_t i = 0; i < play->shape_count && status == 0; i++) {
        struct tutti_tree_shape *shape = &play->shapes[i];

        status = tutti_tree_read(play, shape->rank, &shape->part, err);
        for (uint32_t k = 0; k < shape->part.child_count && status == 0; k++)
            status = add_shape(play, shape->part.children[k], &shape->children[k], err);
    }
    return status;
}

/* ---- the way up ------------------------------------------------------------------------------ */

static tutti_ps local_ps(const struct tutti_tree_play *play, uint64_t bytes)
{
    uint64_t rate = play->star->opts->reduce_bytes_per_s;

    return rate > 0 ? tutti_wire_ps(bytes, rate) : 0;
}

/* By the model: from the end of the latency on, or until it begins. */
static struct tutti_tree_use use_of(const struct tutti_tree_play *play, tutti_ps start_ps,
                                    tutti_ps arrive_ps)
{
    tutti_ps latency_ps = play->star->latency_ps;

    if (play->star->opts->model == TUTTI_MODEL_FAIR)
        return (struct tutti_tree_use){tutti_add_ps(start_ps, latency_ps), arrive_ps};
    return (struct tutti_tree_use){start_ps, arrive_ps - latency_ps};
}

static bool is_leaf(const struct tutti_tree_shape *shape)
{
    return shape->part.child_count == 0;
}

static int play_up(struct tutti_tree_play *play, struct tutti_tree_shape *shape,
                   struct tutti_err *err)
{
    uint32_t count = shape->part.child_count;
    tutti_ps reduce_ps = shape->part.reduces ? local_ps(play, shape->part.bytes) : 0;
    tutti_ps start_ps[TUTTI_TREE_CHILDREN_MAX];
    tutti_ps arrive_ps[TUTTI_TREE_CHILDREN_MAX];
    int status = 0;

    shape->up_ps = play->begin_ps;
    for (uint32_t i = 0; i < count; i++)
        start_ps[i] = play->shapes[shape->children[i]].up_ps;
    if (count > 0)
        status =
            tutti_star_play(play->star, true, count, shape->part.bytes, start_ps, arrive_ps, err);
    for (uint32_t i = 0; i < count && status == 0; i++) {
        const struct tutti_tree_shape *child = &play->shapes[shape->children[i]];

        if (child->part.bytes != shape->part.bytes)
            return refuse(play, err);
        shape->up[i] = use_of(play, start_ps[i], arrive_ps[i]);
        if (is_leaf(child))
            shape->leaf_up_end_ps = tutti_later_ps(shape->leaf_up_end_ps, shape->up[i].end_ps);
        else if (shape->up[i].begin_ps < shape->inner_up_begin_ps)
            shape->inner_up_begin_ps = shape->up[i].begin_ps;
        shape->up_ps = tutti_add_ps(tutti_later_ps(shape->up_ps, arrive_ps[i]), reduce_ps);
    }
    return status;
}

/* ---- the way down ---------------------------------------------------------------------------- */

static int play_down(struct tutti_tree_play *play, struct tutti_tree_shape *shape,
                     struct tutti_err *err)
{
    uint32_t count = shape->part.child_count;
    tutti_ps start_ps[TUTTI_TREE_CHILDREN_MAX] = {0};
    tutti_ps arrive_ps[TUTTI_TREE_CHILDREN_MAX];
    int status = 0;

    if (shape->part.copies)
        shape->last_ps = local_ps(play, shape->part.bytes);
    if (count > 0)
        status =
            tutti_star_play(play->star, false, count, shape->part.bytes, start_ps, arrive_ps, err);
    for (uint32_t k = 0; k < count && status == 0; k++) {
        uint32_t i = shape->part.turn[k];
        const struct tutti_tree_shape *child = &play->shapes[shape->children[i]];
        tutti_ps at_ps = arrive_ps[k];
        struct tutti_tree_use use = use_of(play, 0, at_ps);
        tutti_ps first_ps = is_leaf(child) ? use.begin_ps : child->leaf_down_begin_ps;

        if (child->part.bytes != shape->part.bytes)
            return refuse(play, err);
        shape->down_ps[i] = at_ps;
        shape->last_ps = tutti_later_ps(shape->last_ps, tutti_add_ps(at_ps, child->last_ps));
        if (!is_leaf(child)) {
            first_ps = tutti_add_ps(first_ps, at_ps);
            shape->inner_down_end_ps = tutti_later_ps(shape->inner_down_end_ps, at_ps);
            if (child->inner_down_end_ps >= 0)
                shape->inner_down_end_ps = tutti_later_ps(
                    shape->inner_down_end_ps, tutti_add_ps(at_ps, child->inner_down_end_ps));
        }
        if (first_ps < shape->leaf_down_begin_ps)
            shape->leaf_down_begin_ps = first_ps;
    }
    return status;
}

/* ---- a tree ---------------------------------------------------------------------------------- */

static bool children_are_done(const struct tutti_tree_play *play,
                              const struct tutti_tree_shape *shape)
{
    bool done = true;

    for (uint32_t i = 0; i < shape->part.child_count; i++)
        done &= play->shapes[shape->children[i]].done;
    return done;
}

/* Plays a shape whose children have been played. */
static int play_shape(struct tutti_tree_play *play, struct tutti_tree_shape *shape,
                      struct tutti_err *err)
{
    int status = 0;

    shape->leaf_up_end_ps = shape->inner_down_end_ps = -1;
    shape->inner_up_begin_ps = shape->leaf_down_begin_ps = INT64_MAX;
    shape->step_count = shape->part.step_count;
    shape->rank_count = 1;
    for (uint32_t i = 0; i < shape->part.child_count; i++) {
        const struct tutti_tree_shape *child = &play->shapes[shape->children[i]];

        shape->step_count += child->step_count;
        shape->rank_count += child->rank_count;
        shape->leaf_up_end_ps = tutti_later_ps(shape->leaf_up_end_ps, child->leaf_up_end_ps);
        if (child->inner_up_begin_ps < shape->inner_up_begin_ps)
            shape->inner_up_begin_ps = child->inner_up_begin_ps;
    }
    if (play->tree.up_lane != TUTTI_LANE_NONE)
        status = play_up(play, shape, err);
    if (status == 0 && play->tree.down_lane != TUTTI_LANE_NONE)
        status = play_down(play, shape, err);
    shape->done = true;
    return status;
}

static int play_tree(struct tutti_tree_play *play, struct tutti_err *err)
{
    const struct tutti_tree_shape *all;
    int status;

    play->shapes = calloc(TUTTI_TREE_SHAPES_MAX, sizeof(*play->shapes));
    if (play->shapes == NULL)
        return tutti_nomem(err);
    status = find_shapes(play, err);
    all = &play->shapes[0];
    while (status == 0 && !all->done) {
        bool some = false;

        for (uint32_t i = play->shape_count; i-- > 0 && status == 0;) {
            struct tutti_tree_shape *shape = &play->shapes[i];

            if (shape->done || !children_are_done(play, shape))
                continue;
            status = play_shape(play, shape, err);
            some = true;
        }
        if (status == 0 && !some) /* a subtree within itself */
            return refuse(play, err);
    }
    if (status < 0)
        return status;
    if (all->rank_count != play->schedule->rank_count)
        return refuse(play, err);
    play->root_ps = play->tree.up_lane != TUTTI_LANE_NONE ? all->up_ps : play->begin_ps;
    return 0;
}

/* ---- two trees ------------------------------------------------------------------------------- */

/* Whether what ranks that have children in `of` want of their links lies apart from what they want
 * as leaves of `other`: what they send up as leaves lies before all else, and what they receive as
 * leaves behind. */
static bool lies_apart(const struct tutti_tree_play *of, const struct tutti_tree_play *other)
{
    const struct tutti_tree_shape *inner = &of->shapes[0];
    const struct tutti_tree_shape *leaf = &other->shapes[0];
    tutti_ps leaf_begin_ps = tutti_add_ps(other->root_ps, leaf->leaf_down_begin_ps);
    bool goes_up = of->tree.up_lane != TUTTI_LANE_NONE;
    bool goes_down = of->tree.down_lane != TUTTI_LANE_NONE;

    if (goes_up && leaf->leaf_up_end_ps >= inner->inner_up_begin_ps)
        return false;
    if (goes_up && goes_down && leaf->leaf_up_end_ps >= of->root_ps)
        return false;
    if (of->star->opts->model != TUTTI_MODEL_FAIR || !goes_down)
        return true;
    if (goes_up && leaf_begin_ps <= of->root_ps)
        return false;
    return inner->inner_down_end_ps < 0 ||
           leaf_begin_ps > tutti_add_ps(of->root_ps, inner->inner_down_end_ps);
}

static int look_at_trees(const struct tutti_tree_play *plays, uint32_t count, struct tutti_err *err)
{
    if (count == 1 || (plays[0].tree.alternates && lies_apart(&plays[0], &plays[1]) &&
                       lies_apart(&plays[1], &plays[0])))
        return 0;
    return tutti_tree_meet(plays, err);
}

static int play_trees(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                      struct tutti_tree_play plays[2], struct tutti_folded *ret,
                      struct tutti_err *err)
{
    struct tutti_star star;
    struct tutti_folded folded = {.end_ps = 0};
    uint32_t count = 1;
    int status = tutti_star_find(opts, &star, err);

    if (status == 0 && star.latency_ps <= 0)
        status = tutti_fail(err, TUTTI_ELACK, "messages have no latency");
    for (uint32_t i = 0; i < count && status == 0; i++) {
        const struct tutti_tree_shape *all;

        plays[i] = (struct tutti_tree_play){
            .schedule = schedule,
            .star = &star,
            .number = i,
            .begin_ps = tutti_rank_begin_ps(
                opts, 0, opts->protocol != NULL ? opts->protocol->launch_ps : 0)};
        if (!schedule->ops->tree(schedule, i, &plays[i].tree) || plays[i].tree.tree_count > 2)
            return tutti_fail(err, TUTTI_ELACK, "'%s': its trees carry several items, or are many",
                              schedule->name);
        count = plays[i].tree.tree_count;
        status = play_tree(&plays[i], err);
        if (status < 0)
            break;
        all = &plays[i].shapes[0];
        folded.end_ps = tutti_later_ps(folded.end_ps, tutti_add_ps(plays[i].root_ps, all->last_ps));
        folded.step_count += all->step_count;
        if (plays[i].shape_count > folded.class_count)
            folded.class_count = plays[i].shape_count;
    }
    if (status == 0)
        status = look_at_trees(plays, count, err);
    if (status == 0)
        *ret = folded;
    return status;
}

int tutti_trees_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                     struct tutti_folded *ret, struct tutti_err *err)
{
    struct tutti_tree_play plays[2] = {{.shapes = NULL}, {.shapes = NULL}};
    int status;

    if (schedule->ops->tree == NULL)
        return tutti_fail(err, TUTTI_ELACK, "'%s' is no tree", schedule->name);
    status = play_trees(opts, schedule, plays, ret, err);
    free(plays[0].shapes);
    free(plays[1].shapes);
    return status;
}
