/* A step of a model that is cut, while it is being predicted. */
#ifndef TUTTI_SIM_PARALLEL_RUN_H
#define TUTTI_SIM_PARALLEL_RUN_H

#include "sim/parallel.h"
#include "sim/parallel/groups.h"

/* What a pass is made of. */
enum tutti_pass_part {
    TUTTI_PART_COMPUTE,
    TUTTI_PART_HOST,
    TUTTI_PART_TENSOR,
    TUTTI_PART_CONTEXT,
    TUTTI_PART_EXPERT,
    TUTTI_PART_COUNT
};

struct tutti_pass_cost {
    tutti_ps ps[TUTTI_PART_COUNT];
};
tutti_ps tutti_pass_sum(const struct tutti_pass_cost *cost);

enum { TUTTI_PASSES = 3 }; /* enum tutti_pass */

/* A layer, or all layers of a stage, for one micro-batch. */
struct tutti_passes {
    struct tutti_pass_cost pass[TUTTI_PASSES];
};

struct tutti_cut_device {
    tutti_ps begin_ps;   /* its first task */
    tutti_ps end_ps;     /* its last */
    tutti_ps hopless_ps; /* the same where messages take no time */
    tutti_ps passes_ps;  /* what its passes take longer, for weights gathered in each of them */
    tutti_ps data_ps;    /* gradients, behind it */
    tutti_ps optimizer_ps;
    tutti_ps gather_ps; /* weights, behind that */
};

/* How a step ends. */
struct tutti_cut_end {
    uint32_t last;       /* the device whose gradients are reduced last */
    tutti_ps first_ps;   /* when the first task can begin */
    tutti_ps reduced_ps; /* when the optimizer begins */
    tutti_ps behind_ps;  /* optimizer and weights, of the device that needs most */
    tutti_ps gather_ps;  /* of it weights */
    tutti_ps step_ps;
};

struct tutti_cut_run {
    struct tutti_parallel_ask ask; /* whole: nothing is left to choose */
    struct tutti_parallel p;       /* filled in */
    struct tutti_pipeline_params pipeline;
    uint32_t stage_count;
    struct tutti_groups groups;
    uint32_t *repeats;           /* [stage][layer of the model] */
    struct tutti_passes *layers; /* [layer of the model] */
    struct tutti_passes *passes; /* [stage] */
    struct tutti_stage_times *stages;
    struct tutti_cut_device *devices;
    tutti_ps hop_ps; /* of a message between stages */
    tutti_ps input_ps;
    struct tutti_train_memory *own_memory; /* where the question has none */
};

bool tutti_cut_is_half(const struct tutti_cut_run *run);

/* -TUTTI_EINVAL for what takes longer than times can say. */
int tutti_cut_check_length(double ps, struct tutti_err *err);

/* The question made whole, checked, and room for the answer. */
int tutti_cut_open(const struct tutti_parallel_ask *given, struct tutti_cut_run *ret,
                   struct tutti_err *err);
void tutti_cut_close(struct tutti_cut_run *run);

/* What layers and stages take, with the collectives within them. */
int tutti_cut_time_stages(struct tutti_cut_run *run, struct tutti_err *err);
/* How each device goes through its tasks. */
int tutti_cut_play(struct tutti_cut_run *run, struct tutti_err *err);
/* Gradients, the optimizer and weights of each device. */
int tutti_cut_time_data(struct tutti_cut_run *run, struct tutti_err *err);
/* Of the collectives that run beside a device's passes what they cost all the same. */
struct tutti_cut_lanes {
    tutti_ps passes_ps; /* passes take so much longer, all micro-batches together */
    tutti_ps reduce_ps; /* of gradients, behind them */
    tutti_ps gather_ps; /* of weights, behind the optimizer */
};
int tutti_cut_time_lanes(struct tutti_cut_run *run, uint32_t device, struct tutti_cut_lanes *ret,
                         struct tutti_err *err);
/* Tells of tasks; after all of the above. */
int tutti_cut_note(struct tutti_cut_run *run, const struct tutti_cut_end *end,
                   struct tutti_err *err);

/* The bottleneck in words. */
void tutti_cut_say_limit(const struct tutti_cut_run *run, struct tutti_parallel_answer *answer);

#endif
