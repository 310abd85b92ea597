/* Training in which ranks have parts of the model: layers by pipeline, and of dense layers a share
 * by tensor parallelism; those that have the same part are replicas. What stands beside a trainer
 * whose ranks have all of it. Private to runtime/train. */
#ifndef TUTTI_RUNTIME_TRAIN_CUT_H
#define TUTTI_RUNTIME_TRAIN_CUT_H

#include "runtime/parallel.h"
#include "runtime/train/net_worker.h"
#include "runtime/train/replica.h"
#include "runtime/train/trainer.h"
#include "runtime/workload/parallel_plan.h"

/* What all ranks know alike. */
struct tutti_train_cut {
    struct tutti_parallel parallel; /* nothing of it 0 */
    struct tutti_pipeline_params pipeline;
    struct tutti_axis axes[3]; /* by enum tutti_train_cut_axis */
    struct tutti_parallel_stage *stages;
    struct tutti_parallel_schedule_params params; /* of the step */
    struct tutti_parallel_plan plan;
    struct tutti_net_parts *parts;
    struct tutti_layout
        *layouts; /* [device][member]: weights of a rank, and where they are in all */
};

enum tutti_train_cut_axis {
    TUTTI_TRAIN_CUT_TENSOR,
    TUTTI_TRAIN_CUT_DATA,
    TUTTI_TRAIN_CUT_PIPELINE
};

/* What a rank is, beside a replica. */
struct tutti_train_cut_rank {
    const struct tutti_train_cut *cut;
    uint32_t device;
    uint32_t member;    /* of those that divide layers */
    uint32_t data_rank; /* of those that have the same part */
    struct tutti_net_worker *worker;
};

/* The plan and schedule of the step; t->layout is that of all weights. -TUTTI_EINVAL for what
 * cannot be cut, or does not go together. */
int tutti_train_cut_open(struct tutti_trainer *trainer, struct tutti_err *err);
void tutti_train_cut_close(struct tutti_trainer *trainer); /* nothing where nothing is cut */

int tutti_train_cut_open_rank(struct tutti_trainer *trainer, uint32_t rank,
                              struct tutti_replica *ret, struct tutti_err *err);
void tutti_train_cut_close_rank(struct tutti_replica *replica);
/* The layout of any rank, of this process or not; that of all where nothing is cut. */
const struct tutti_layout *tutti_trainer_layout(const struct tutti_trainer *trainer, uint32_t rank);
/* The lowest rank that has the same weights. */
uint32_t tutti_train_cut_first_alike(const struct tutti_trainer *trainer, uint32_t rank);
/* Whether a rank, or one that is its replica, answers for a run of its layout: of what several
 * members have alike the first does. */
bool tutti_train_cut_owns(const struct tutti_train_cut_rank *rank,
                          const struct tutti_flat_run *run);

/* The entries of the step's work table; context: the replicas by rank. */
int tutti_train_cut_run(const struct tutti_work_call *call, struct tutti_err *err);

#endif
