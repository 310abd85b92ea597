/* The shapes of subtrees, of which each is played once; shared by what plays a tree and what looks
 * whether the messages of two trees meet. */
#ifndef TUTTI_SIM_FOLD_TREE_SHAPE_H
#define TUTTI_SIM_FOLD_TREE_SHAPE_H

#include <stdbool.h>

#include "runtime/schedule.h"
#include "sim/fold/star.h"

enum { TUTTI_TREE_CHILDREN_MAX = 32 };

/* What a rank does in a tree, as its programs say. */
struct tutti_tree_part {
    uint32_t child_count;
    uint32_t children[TUTTI_TREE_CHILDREN_MAX]; /* ranks, as it receives from them, or, where
                                                   nothing goes up, the last it sends to first */
    uint8_t turn[TUTTI_TREE_CHILDREN_MAX];      /* [k]: the child it sends to k-th */
    uint64_t bytes;                             /* of a message */
    uint64_t step_count;
    bool reduces;
    bool copies;
};

/* From when on a link is wanted, to when it is free. */
struct tutti_tree_use {
    tutti_ps begin_ps;
    tutti_ps end_ps;
};

/* A subtree. Times of the way down count from when its root has the data. */
struct tutti_tree_shape {
    uint64_t key;
    uint32_t rank; /* that stands for all */
    struct tutti_tree_part part;
    uint32_t children[TUTTI_TREE_CHILDREN_MAX]; /* shapes */
    bool done;
    tutti_ps up_ps;                                    /* when its root has the sum */
    tutti_ps down_ps[TUTTI_TREE_CHILDREN_MAX];         /* after which a child has the data */
    tutti_ps last_ps;                                  /* the last step of all of it, */
    uint64_t step_count;                               /* their number, */
    uint64_t rank_count;                               /* and that of its ranks */
    struct tutti_tree_use up[TUTTI_TREE_CHILDREN_MAX]; /* of links, by messages from children */
    tutti_ps leaf_up_end_ps;     /* of all leaves the last; -1: there are none but itself */
    tutti_ps inner_up_begin_ps;  /* of all others but itself the first; INT64_MAX: there are none */
    tutti_ps leaf_down_begin_ps; /* likewise on the way down: when a leaf is first sent to, */
    tutti_ps inner_down_end_ps;  /* and another last; -1 */
};

enum { TUTTI_TREE_SHAPES_MAX = 256 };

struct tutti_tree_play {
    const struct tutti_schedule *schedule;
    const struct tutti_star *star;
    uint32_t number;
    struct tutti_rank_tree tree;
    tutti_ps begin_ps;               /* when ranks begin */
    tutti_ps root_ps;                /* when the root has what goes down */
    struct tutti_tree_shape *shapes; /* shape 0 is all of the tree */
    uint32_t shape_count;
};

/* Reads what a rank does; -TUTTI_ELACK if that is something else. */
int tutti_tree_read(const struct tutti_tree_play *play, uint32_t rank, struct tutti_tree_part *ret,
                    struct tutti_err *err);

/* The shape of a key; UINT32_MAX: none. */
uint32_t tutti_tree_find(const struct tutti_tree_play *play, uint64_t key);

/* Looks, rank by rank, whether messages of two trees want a link at the same time, which would
 * delay one of them: -TUTTI_ELACK. */
int tutti_tree_meet(const struct tutti_tree_play *plays, struct tutti_err *err);

#endif
