/* A training step while it is being predicted. */
#ifndef TUTTI_SIM_TRAIN_TRAIN_H
#define TUTTI_SIM_TRAIN_TRAIN_H

#include "sim/train.h"

enum { TUTTI_TRAIN_AXES = 3 };

struct tutti_train {
    struct tutti_train_ask ask;      /* whole: nothing is left to choose */
    struct tutti_layer_times *times; /* [layer of the model] */
    tutti_ps optimizer_ps;
    tutti_ps device_ps;  /* forward, backward and optimizer of all micro-batches */
    tutti_ps input_ps;   /* that the host needs for a step's samples; 0: no time */
    uint32_t host_ranks; /* that share a host's input pipeline */
    struct tutti_schedule *schedule;
    struct tutti_train_memory *own_memory;                 /* where the question has none */
    struct tutti_predict_memory *memory[TUTTI_TRAIN_AXES]; /* of the machines of the axes */
    struct tutti_topo *parts[TUTTI_TRAIN_AXES];            /* NULL: axis 0, or not made yet */
    bool simulated[TUTTI_TRAIN_AXES];                      /* its groups are no such machine */
    struct tutti_train_answer *answer;
    uint64_t largest_bytes; /* of a collective priced so far */
};

/* A question made whole, what its device takes, and what its host: without the schedule. */
int tutti_train_open(const struct tutti_train_ask *given, struct tutti_train *ret,
                     struct tutti_err *err);
void tutti_train_close(struct tutti_train *train);
/* Of a device; -TUTTI_EINVAL where it has not so much memory. */
int tutti_train_fill_memory(const struct tutti_train *train, struct tutti_train_answer *answer,
                            struct tutti_err *err);
/* Of a sample in a step: three times the forward pass; what is frozen has that alone. */
double tutti_train_flops(const struct tutti_workload *model);
/* What follows from the samples of a step and the time that it takes. */
void tutti_train_fill_rates(const struct tutti_train *train, struct tutti_train_answer *answer);

/* The price of a callee on an axis: what the library of the machine would run, or the algorithm
 * that was asked for, on the part of the machine that a group is. */
int tutti_train_price(void *context, uint32_t callee, uint32_t axis, struct tutti_call_price *ret,
                      struct tutti_err *err);

/* Steps of rank 0 as they end, and what they come to. */
struct tutti_train_notes {
    const struct tutti_train *train;
    struct tutti_train_split split;
    tutti_ps work_end_ps;
    tutti_ps lane_end_ps[TUTTI_STRATEGY_LANES];
    tutti_ps late_ps[TUTTI_STRATEGY_LANES]; /* since work ended: until others came to its calls */
    tutti_ps communication_ps;
};
void tutti_train_note(void *context, const struct tutti_step_note *note);
/* The step has ended. */
void tutti_train_notes_end(struct tutti_train_notes *notes, tutti_ps total_ps);

/* The bottleneck in words. */
void tutti_train_say_limit(const struct tutti_train *train, struct tutti_train_answer *answer);

#endif
