/* Whether the messages of two trees meet on a link: every rank is looked at, in time that grows
 * with their number. */
#include <assert.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "sim/fold/tree_shape.h"
#include "sim/net/net.h"
#include "sim/sim.h"

enum { RANKS_MAX = 1 << 18 }; /* tenths of a second */

/* What a rank wants of its links in a tree: of the one out to its parent and its children, of the
 * one in from its children and its parent. What it does not do begins at INT64_MAX. */
enum { OUT_UP, OUT_DOWN, IN_UP, IN_DOWN, USES };

struct rank_uses {
    struct tutti_tree_use use[USES];
};

struct walk {
    const struct tutti_tree_play *play;
    uint32_t *queue;   /* [rank_count] ranks whose parents have been looked at */
    tutti_ps *down_ps; /* [rank]: when it has what goes down */
    struct rank_uses *uses;
    uint32_t count; /* in the queue */
};

/* Stretches a use over another. */
static void add(struct tutti_tree_use *use, tutti_ps begin_ps, tutti_ps end_ps)
{
    if (begin_ps < use->begin_ps)
        use->begin_ps = begin_ps;
    use->end_ps = tutti_later_ps(use->end_ps, end_ps);
}

/* Notes the messages between a rank and its children, and puts these into the queue. */
static int look_at(struct walk *walk, uint32_t rank, struct tutti_err *err)
{
    const struct tutti_tree_play *play = walk->play;
    bool fair = play->star->opts->model == TUTTI_MODEL_FAIR;
    tutti_ps latency_ps = play->star->latency_ps;
    uint32_t number =
        tutti_tree_find(play, play->schedule->ops->subtree(play->schedule, play->number, rank));
    const struct tutti_tree_shape *shape = &play->shapes[number];
    struct tutti_tree_part part;
    int status = tutti_tree_read(play, rank, &part, err);

    if (status < 0)
        return status;
    assert(part.child_count == shape->part.child_count);
    for (uint32_t i = 0; i < part.child_count; i++) {
        uint32_t child = part.children[i];
        const struct tutti_tree_use *up = &shape->up[i];
        tutti_ps begin_ps = walk->down_ps[rank] + (fair ? latency_ps : 0);
        tutti_ps arrive_ps = walk->down_ps[rank] + shape->down_ps[i];
        tutti_ps end_ps = arrive_ps - (fair ? 0 : latency_ps);

        assert(walk->count < play->schedule->rank_count);
        walk->queue[walk->count++] = child;
        walk->down_ps[child] = arrive_ps;
        if (play->tree.up_lane != TUTTI_LANE_NONE) {
            add(&walk->uses[child].use[OUT_UP], up->begin_ps, up->end_ps);
            add(&walk->uses[rank].use[IN_UP], up->begin_ps, up->end_ps);
        }
        if (play->tree.down_lane != TUTTI_LANE_NONE) {
            add(&walk->uses[rank].use[OUT_DOWN], begin_ps, end_ps);
            add(&walk->uses[child].use[IN_DOWN], begin_ps, end_ps);
        }
    }
    return 0;
}

static int walk_tree(const struct tutti_tree_play *play, struct rank_uses *uses,
                     struct tutti_err *err)
{
    uint32_t n = play->schedule->rank_count;
    struct walk walk = {.play = play, .uses = uses, .count = 1};
    int status = 0;

    walk.queue = calloc(n, sizeof(*walk.queue));
    walk.down_ps = calloc(n, sizeof(*walk.down_ps));
    if (walk.queue == NULL || walk.down_ps == NULL)
        status = tutti_nomem(err);
    for (uint32_t rank = 0; rank < n; rank++) {
        for (int i = 0; i < USES; i++)
            uses[rank].use[i] = (struct tutti_tree_use){INT64_MAX, -1};
    }
    if (status == 0) {
        walk.queue[0] = play->tree.root;
        walk.down_ps[play->tree.root] = play->root_ps;
    }
    for (uint32_t i = 0; status == 0 && i < walk.count; i++)
        status = look_at(&walk, walk.queue[i], err);
    free(walk.queue);
    free(walk.down_ps);
    return status;
}

static bool meet(const struct tutti_tree_use *a, const struct tutti_tree_use *b)
{
    return a->begin_ps <= b->end_ps && b->begin_ps <= a->end_ps;
}

/* `alphabeta` has no queue but at the links out of ranks. */
static bool uses_meet(const struct rank_uses *a, const struct rank_uses *b, bool fair)
{
    bool out = meet(&a->use[OUT_UP], &b->use[OUT_UP]) || meet(&a->use[OUT_UP], &b->use[OUT_DOWN]) ||
               meet(&a->use[OUT_DOWN], &b->use[OUT_UP]) ||
               meet(&a->use[OUT_DOWN], &b->use[OUT_DOWN]);
    bool in = meet(&a->use[IN_UP], &b->use[IN_UP]) || meet(&a->use[IN_UP], &b->use[IN_DOWN]) ||
              meet(&a->use[IN_DOWN], &b->use[IN_UP]) || meet(&a->use[IN_DOWN], &b->use[IN_DOWN]);

    return out || (fair && in);
}

int tutti_tree_meet(const struct tutti_tree_play *plays, struct tutti_err *err)
{
    uint32_t n = plays[0].schedule->rank_count;
    bool fair = plays[0].star->opts->model == TUTTI_MODEL_FAIR;
    struct rank_uses *uses;
    bool apart = true;
    int status = 0;

    if (n > RANKS_MAX)
        return tutti_fail(err, TUTTI_ELACK, "'%s': too many ranks to look at links of each",
                          plays[0].schedule->name);
    uses = calloc(2 * (size_t)n, sizeof(*uses));
    if (uses == NULL)
        return tutti_nomem(err);
    for (int i = 0; i < 2 && status == 0; i++)
        status = walk_tree(&plays[i], uses + (size_t)i * n, err);
    for (uint32_t rank = 0; rank < n && status == 0; rank++)
        apart = apart && !uses_meet(&uses[rank], &uses[n + rank], fair);
    free(uses);
    if (status == 0 && !apart)
        status = tutti_fail(err, TUTTI_ELACK, "'%s': messages of two trees want a link at a time",
                            plays[0].schedule->name);
    return status;
}
