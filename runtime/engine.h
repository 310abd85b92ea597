/* The engine: keeps the program counters of some ranks and says which steps may start. It has no
 * clock and does no I/O: a stage (the inside of a backend) starts steps and says which have
 * finished. A thread of the host backends runs its ranks in one engine; the simulator uses the
 * engine where data are carried or an error is put into words, and plays faster without it
 * elsewhere. */
#ifndef TUTTI_RUNTIME_ENGINE_H
#define TUTTI_RUNTIME_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/schedule.h"

TUTTI_API_BEGIN

struct tutti_record;

/* A step handed to the stage. `step` is valid until the stage reports the step finished. */
struct tutti_post {
    uint32_t rank;
    uint32_t lane;
    uint64_t index; /* in the lane */
    const struct tutti_step *step;
    const struct tutti_step *next; /* after it in its lane, where that is stored; else NULL */
};

enum tutti_done_what {
    TUTTI_DONE_STARTED = 1,  /* SEND only: has its slot; the lane may go on */
    TUTTI_DONE_FINISHED = 2, /* completed; for a SEND it follows STARTED */
};

struct tutti_done {
    uint32_t rank;
    uint32_t lane;
    uint64_t index;
    enum tutti_done_what what;
    tutti_ps start_ps; /* with FINISHED: for the record */
    tutti_ps end_ps;
};

/* The inside of a backend. The engine posts every step that may start (at most one unfinished or
 * not yet started step a lane, plus SENDs under way), then polls. Slots are the stage's business:
 * it delays STARTED until the connection has room. */
struct tutti_stage_ops {
    size_t size; /* sizeof(struct tutti_stage_ops) */
    /* Starts a step. 0, or a negative status that ends the run. */
    int (*post)(void *stage, const struct tutti_post *post, struct tutti_err *err);
    /* Reports up to `max` events, in a deterministic order where the stage can; waits for at least
     * one. Returns how many, 0 if nothing posted can ever finish (the engine then names the
     * culprit), or a negative status (deadline, abort). */
    int (*poll)(void *stage, struct tutti_done *done, uint32_t max, struct tutti_err *err);
};

struct tutti_engine;

/* An engine for ranks [first_rank, first_rank + rank_count) of a flat schedule, which must outlive
 * it. All memory is taken here: running allocates nothing. */
int tutti_engine_new(const struct tutti_schedule *schedule, uint32_t first_rank,
                     uint32_t rank_count, struct tutti_engine **ret, struct tutti_err *err);
void tutti_engine_free(struct tutti_engine *engine);

/* Plays the programs once from the start: until every step, SENDs included, has finished. Can be
 * called again. `record` may be NULL. A deadlock is -TUTTI_ECHECK and names rank, lane, step. */
int tutti_engine_run(struct tutti_engine *engine, const struct tutti_stage_ops *ops, void *stage,
                     struct tutti_record *record, struct tutti_err *err);

/* Steps finished in the last run. */
uint64_t tutti_engine_step_count(const struct tutti_engine *engine);

/* Lanes of the run going on that have not come to their end. */
uint32_t tutti_engine_lanes_left(const struct tutti_engine *engine);

/* "rank 3, lane 0, step 17 (RECV out+64 128 B from 2)": the first step of the lowest rank that has
 * started but not finished, or should start next; for messages about deadlines. */
void tutti_engine_waiting_for(const struct tutti_engine *engine, char *buf, size_t buf_bytes);

TUTTI_API_END

#endif
