/* A rank that trains: where its weights, gradients and moments lie, and what it does at each
 * COMPUTE of the step. Private to runtime/train. */
#ifndef TUTTI_RUNTIME_TRAIN_REPLICA_H
#define TUTTI_RUNTIME_TRAIN_REPLICA_H

#include <stdatomic.h>

#include "runtime/status.h"
#include "runtime/train.h"
#include "runtime/workload/strategy_plan.h"

/* Where a variable is. */
struct tutti_variable_place {
    uint64_t elements;
    uint64_t gradient; /* bytes, in scratch */
    uint64_t weight;   /* bytes, in state, or where weights are gathered in scratch */
    uint64_t flat;     /* elements, in the concatenation of all variables of all layers */
    /* Of a sparse gradient: the slices that there is room for (values at `gradient`, then their
     * rows), 0: it is dense; the elements of each, all rows, and its pack. Where there is room for
     * as many as rows, each row has its place. */
    uint64_t slice_count;
    uint64_t columns;
    uint64_t rows;
    const struct tutti_plan_pack *pack;
};

/* A stretch of all variables one behind the other, and where a rank that has all of them keeps
 * it. */
struct tutti_flat_run {
    uint64_t flat;
    uint64_t state; /* elements */
    uint64_t count;
    bool is_alike; /* where ranks have parts: all that divide layers have this one (cut.h) */
};

/* What all ranks know alike: the plan of the step, and how to read it. */
struct tutti_layout {
    struct tutti_plan plan;
    struct tutti_plan_entries entries;
    const struct tutti_learner *learner;
    struct tutti_trainer_params params;
    struct tutti_variable_place *places; /* of all layers, one behind the other */
    uint32_t *first_place;               /* [layer_count + 1] */
    uint32_t layer_most;                 /* variables of the layer that has most */
    struct tutti_flat_run *runs;         /* weights that are not divided: sparse ones lie last */
    uint32_t run_count;
    uint64_t dense_elements; /* before those of sparse variables */
    uint64_t slice_most;     /* of a micro-batch, of any variable, */
    uint64_t slice_elements; /* and their values */
    bool weights_gathered;   /* compute reads them from scratch */
    bool averages;           /* weights, not gradients */
    bool alone;
    bool narrow; /* gradients are reduced at 16 bits */
};

/* What ranks tell each other, in doubles that are added up; behind these, with each rank's own in
 * its place: the seconds that it has computed, those of them that no layer took, then with
 * check_sync what its weights hash to. */
enum {
    TUTTI_REPORT_LOSS,
    TUTTI_REPORT_CORRECT,
    TUTTI_REPORT_EXAMPLES,
    TUTTI_REPORT_SQUARES,    /* of the gradient, summed; scaled by the loss scale */
    TUTTI_REPORT_NOT_FINITE, /* ranks that saw such a gradient */
    TUTTI_REPORT_STOP,       /* ranks that were asked to stop */
    TUTTI_REPORT_SAVE,       /* ranks that want this step to be saved */
    TUTTI_REPORT_SAVED,      /* ranks whose part of the checkpoint is written */
    TUTTI_REPORT_RANKS,      /* the first of those by rank */
};

struct tutti_train_cut_rank;
struct tutti_gpu_replica;
struct tutti_saver;

struct tutti_replica {
    const struct tutti_layout *layout;
    uint32_t rank;
    void *learning; /* the learner's */
    float *state;   /* weights, or the rank's part of them */
    uint64_t state_elements;
    float *moments[2]; /* as long as state; NULL: the optimizer has none */
    float *gradients;  /* narrow: all of them, before they are rounded; as places[].flat */
    float *widened;    /* narrow: what is reduced, after; as state */
    /* Sparse: sums of all ranks' slices, as the weights of sparse variables lie; slices as the
     * learner has them, and their rows. */
    float *tables;
    float *slices;
    int64_t *rows;
    /* Compressed: what gradients were left out, of all ranks each its own, and what this step
     * leaves out (as state); the second factors, of which all ranks have the same. */
    float *left_out;
    float *left_out_next;
    float *factors;
    float *anchor; /* outer optimizer: weights of the last average */
    float *outer_moment;
    const float **weights; /* of a layer's variables, for the learner */
    float **slopes;
    double *said; /* [report elements]: the sum of what all have said */
    uint32_t micro_batch;
    uint64_t step;         /* forward and backward passes of whole batches begun, local ones too */
    uint64_t update_count; /* of weights */
    struct tutti_loss_scale scale;
    double norm; /* of the last step */
    double rate;
    bool skipped;
    struct tutti_sums sums;           /* of this step, all micro-batches, all local steps */
    double compute_s;                 /* likewise: all of its work, */
    double input_s;                   /* of it the examples of the first micro-batch, */
    double update_s;                  /* and all that is no layer's */
    bool has_input;                   /* examples of the micro-batch that begins next are there */
    bool begins;                      /* the step has not begun */
    double hash;                      /* of the weights then */
    struct tutti_gpu_replica *gpu;    /* what it has on a device; NULL: nothing */
    struct tutti_train_cut_rank *cut; /* which part of the model it has; NULL: all */
    atomic_bool stop;
    struct tutti_saver *saver; /* NULL: nothing is saved */
    bool wants_save;
    int saver_status; /* what polling it came to, and said */
    struct tutti_err saver_err;
};

/* Adds what the learner has of a sparse gradient to what the rank sends. */
int tutti_replica_take_slices(struct tutti_replica *replica, uint32_t layer, uint32_t variable,
                              bool add, const struct tutti_work_call *call, struct tutti_err *err);
/* Adds up the slices of all ranks, rank after rank. */
int tutti_replica_sum_slices(struct tutti_replica *replica, const struct tutti_work_call *call,
                             struct tutti_err *err);

uint32_t tutti_report_elements(const struct tutti_trainer_params *params);

/* -TUTTI_EINVAL for what does not fit together. Memory from `arena`. */
int tutti_layout_make(const struct tutti_trainer_params *params,
                      const struct tutti_strategy_params *step, struct tutti_arena *arena,
                      struct tutti_layout *ret, struct tutti_err *err);

int tutti_replica_open(const struct tutti_layout *layout, uint32_t rank, struct tutti_replica *ret,
                       struct tutti_err *err);
void tutti_replica_close(struct tutti_replica *replica);

/* The entries of compressed packs (struct tutti_plan_entries, counted from `compress` on). */
void tutti_replica_compress(struct tutti_replica *replica, uint32_t entry,
                            const struct tutti_work_call *call);
/* The step is not skipped: what it has left out is kept. */
void tutti_replica_keep_left_out(struct tutti_replica *replica, const struct tutti_work_call *call);
void tutti_replica_begin_factors(struct tutti_replica *replica);

/* ---- what ranks on devices need, too ---- */

const struct tutti_variable_place *tutti_replica_places(const struct tutti_replica *replica,
                                                        uint32_t layer, uint32_t *ret_count);
/* A layer's weights, in the memory of the call. */
const float *const *tutti_replica_weights(struct tutti_replica *replica, uint32_t layer,
                                          const struct tutti_work_call *call);
/* What a rank does at the COMPUTEs of a step, on the host or on a device. */
struct tutti_replica_ops {
    int (*forward)(struct tutti_replica *replica, uint32_t layer,
                   const struct tutti_work_call *call, struct tutti_err *err);
    int (*backward)(struct tutti_replica *replica, uint32_t layer, bool add,
                    const struct tutti_work_call *call, struct tutti_err *err);
    int (*input)(struct tutti_replica *replica, const struct tutti_work_call *call,
                 struct tutti_err *err);
    int (*report)(struct tutti_replica *replica, const struct tutti_work_call *call,
                  struct tutti_err *err);
    int (*optimize)(struct tutti_replica *replica, const struct tutti_work_call *call,
                    struct tutti_err *err);
    int (*optimize_locally)(struct tutti_replica *replica, const struct tutti_work_call *call,
                            struct tutti_err *err);
    int (*outer)(struct tutti_replica *replica, const struct tutti_work_call *call,
                 struct tutti_err *err);
    int (*add_up)(struct tutti_replica *replica, uint32_t entry, const struct tutti_work_call *call,
                  struct tutti_err *err);
    void (*compress)(struct tutti_replica *replica, uint32_t entry,
                     const struct tutti_work_call *call); /* NULL: there is none */
};
/* The one that the call's entry of the work table is. */
int tutti_replica_do(struct tutti_replica *replica, const struct tutti_work_call *call,
                     const struct tutti_replica_ops *ops, struct tutti_err *err);
/* Elements of a pack that the rank has, with those that make shards equal and are nothing; without
 * them; and where their summed gradient is in scratch. */
uint64_t tutti_replica_own(const struct tutti_layout *layout, const struct tutti_plan_pack *pack);
uint64_t tutti_replica_count(const struct tutti_replica *replica,
                             const struct tutti_plan_pack *pack);
uint64_t tutti_replica_gradient(const struct tutti_replica *replica,
                                const struct tutti_plan_pack *pack);
/* Of these, those whose squares the rank adds up: where all have all of it, each a share. */
void tutti_replica_share(const struct tutti_replica *replica, const struct tutti_plan_pack *pack,
                         uint64_t *ret_first, uint64_t *ret_end);
/* What the rank says, with that sum of squares. */
void tutti_replica_report(struct tutti_replica *replica, double squares, double *said);
/* What all have said, which is in replica->said: the norm, and whether the step is skipped. */
void tutti_replica_hear(struct tutti_replica *replica);
/* One update comes: its rate; and what gradients are multiplied by. */
double tutti_replica_next_update(struct tutti_replica *replica, double norm);

/* What the entries of the work table do; call->work->context is an array of replicas by rank. */
int tutti_replica_run(const struct tutti_work_call *call, struct tutti_err *err);

#endif
