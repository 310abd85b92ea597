/* The inside of a trainer: what its parts share. Private to runtime/train. */
#ifndef TUTTI_RUNTIME_TRAIN_TRAINER_H
#define TUTTI_RUNTIME_TRAIN_TRAINER_H

#include "runtime/backend.h"
#include "runtime/train/replica.h"

struct tutti_trainer {
    struct tutti_trainer_params params;
    struct tutti_strategy strategy;
    struct tutti_layout layout;
    struct tutti_arena *arena;
    struct tutti_schedule *schedule;
    struct tutti_replica **replicas; /* [rank]; NULL: of another process */
    void **states;                   /* [rank] likewise */
    uint32_t first_rank;             /* of this process */
    uint32_t own_count;
    struct tutti_run *run; /* NULL: closed meanwhile */
    uint64_t step_count;
};

/* The first of this process. */
struct tutti_replica *tutti_trainer_first(const struct tutti_trainer *trainer);
/* Plays `schedule` once, with the states of the ranks; the run of the steps is closed before, and
 * opens with the next step. */
int tutti_trainer_play(struct tutti_trainer *trainer, const struct tutti_schedule *schedule,
                       struct tutti_err *err);

#endif
