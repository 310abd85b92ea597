/* Generators as plain loops: a function appends the steps of a rank from the first to the last, and
 * any stretch of them can be asked for without those before it. Nothing is stored. */
#ifndef TUTTI_RUNTIME_LOOP_H
#define TUTTI_RUNTIME_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/schedule.h"

TUTTI_API_BEGIN

/* A schedule falls into shares that know nothing of each other (channels): share s has the lanes
 * s * lane_count, ..., and one function writes all lanes of one share of one rank:
 *
 *     static void write(struct tutti_loop *w)
 *     {
 *         const struct mine *m = w->context;
 *
 *         TUTTI_REPEAT(w, t, m->round_count) {
 *             tutti_loop_append(w, tutti_step_send(..., next));
 *             tutti_loop_append(w, tutti_step_recv(..., previous));
 *         }
 *     }
 *
 * It is called again and again, each time for another stretch: what it appends outside of that is
 * dropped, and TUTTI_REPEAT goes by multiplication to the turns that are asked for. So in the body
 * of a TUTTI_REPEAT the number of steps must be the same in each turn, on every lane, and nothing
 * may be changed that the next turn looks at; `continue` is allowed, `break` is not. Turns that
 * differ are a plain `for`. The function must be pure: it may be called from any thread. */
enum { TUTTI_LOOP_LANES_MAX = 8 };

struct tutti_loop {
    uint32_t rank;
    uint32_t rank_count;
    uint32_t share;
    const void *context; /* of the description */
    /* These are the writer's own: */
    uint32_t lane;
    uint32_t lane_count;
    uint32_t wanted;                   /* the lane of which steps are asked for, */
    uint64_t first;                    /* from this one */
    uint64_t end;                      /* to that one, exclusive */
    uint64_t at[TUTTI_LOOP_LANES_MAX]; /* steps appended to each lane */
    struct tutti_round *rounds;        /* where they go */
    struct tutti_step spare;           /* and where the others go */
};

/* Appends a step to the lane in hand, and returns it, to be changed until the next is appended. */
struct tutti_step *tutti_loop_append(struct tutti_loop *w, struct tutti_step step);
/* RECV into `staging` and REDUCE dst = acc op staging, fused; returns the REDUCE. */
struct tutti_step *tutti_loop_recv_reduce(struct tutti_loop *w, uint32_t from,
                                          struct tutti_buf_at dst, struct tutti_buf_at acc,
                                          struct tutti_buf_at staging, uint64_t bytes);
/* What is appended from now on goes to lane `lane` of the share; at first it is 0. */
void tutti_loop_on(struct tutti_loop *w, uint32_t lane);

/* A step that others may depend on: the next of the lane in hand, or the last. */
struct tutti_loop_mark {
    uint32_t lane;
    uint64_t step;
};
struct tutti_loop_mark tutti_loop_next(const struct tutti_loop *w);
struct tutti_loop_mark tutti_loop_last(const struct tutti_loop *w); /* there is one */
/* `step`, which has just been appended, waits for the step that is marked. */
void tutti_loop_after(const struct tutti_loop *w, struct tutti_step *step,
                      struct tutti_loop_mark mark);

struct tutti_loop_turns {
    uint64_t turn;
    uint64_t times;
    uint64_t before[TUTTI_LOOP_LANES_MAX];
    uint64_t a_turn[TUTTI_LOOP_LANES_MAX]; /* steps, known after the first */
};
struct tutti_loop_turns tutti_loop_begin(const struct tutti_loop *w, uint64_t times);
void tutti_loop_turn(struct tutti_loop *w, struct tutti_loop_turns *turns);
#define TUTTI_REPEAT(w, t, how_often)                                            \
    for (struct tutti_loop_turns t##_turns = tutti_loop_begin((w), (how_often)); \
         t##_turns.turn < t##_turns.times; tutti_loop_turn((w), &t##_turns))     \
        for (uint64_t t = t##_turns.turn, t##_again = 1; t##_again != 0; t##_again = 0)

struct tutti_loop_desc {
    size_t size; /* sizeof(struct tutti_loop_desc): runtime/api.h */
    /* Name, contract, ranks, slots and sizes; its lane_count is that of all shares together. */
    struct tutti_schedule_desc head;
    uint32_t share_lanes; /* lanes of a share, 1 to TUTTI_LOOP_LANES_MAX, dividing the former */
    void (*write)(struct tutti_loop *w);
    const void *context; /* copied: so many bytes, */
    size_t context_bytes;
};

/* The schedule of such a function; -TUTTI_EINVAL for a description that makes no sense. */
int tutti_loop_schedule(const struct tutti_loop_desc *desc, struct tutti_schedule **ret,
                        struct tutti_err *err);

TUTTI_API_END

#endif
