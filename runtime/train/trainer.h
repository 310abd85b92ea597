/* The inside of a trainer: what its parts share. Private to runtime/train. */
#ifndef TUTTI_RUNTIME_TRAIN_TRAINER_H
#define TUTTI_RUNTIME_TRAIN_TRAINER_H

#include "runtime/backend.h"
#include "runtime/train/replica.h"

enum { TUTTI_TRAINER_SUMS = 8 };

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
    struct tutti_run *run;       /* NULL: closed meanwhile */
    uint64_t step_count;         /* of the inner optimizer, where there are two */
    struct tutti_saving *saving; /* NULL: nothing is saved */
    struct tutti_train_cut *cut; /* NULL: each rank has all of the model */
};

/* The first of this process. */
struct tutti_replica *tutti_trainer_first(const struct tutti_trainer *trainer);
/* Plays `schedule` once, with the states of the ranks; the run of the steps is closed before, and
 * opens with the next step. */
int tutti_trainer_play(struct tutti_trainer *trainer, const struct tutti_schedule *schedule,
                       struct tutti_err *err);
/* The run of the steps is closed, and opens with the next one: weights are in the replicas. */
void tutti_trainer_rest(struct tutti_trainer *trainer);
/* Steps of a play: one, of local SGD as many as lie between averages. */
uint32_t tutti_trainer_stride(const struct tutti_trainer *trainer);
/* Weights and moments of the ranks here are in their replicas, on devices, too. */
int tutti_trainer_fetch(struct tutti_trainer *trainer, struct tutti_err *err);
/* What processes say, added up: sums[TUTTI_TRAINER_SUMS], of this one before and of all after. */
int tutti_trainer_add_up(struct tutti_trainer *trainer, double *sums, struct tutti_err *err);

/* ---- checkpoints ---- */

/* Restores, and makes ready to save; nothing where there is no folder. */
int tutti_saving_open(struct tutti_trainer *trainer, struct tutti_err *err);
/* Finishes what is being written. */
void tutti_saving_close(struct tutti_trainer *trainer);
/* Before a step: whether this process wants it saved. */
void tutti_saving_ask(struct tutti_trainer *trainer);
/* After it: commits what all have written, and begins to save what all want saved. */
int tutti_saving_step(struct tutti_trainer *trainer, const double *said, struct tutti_err *err);

#endif
