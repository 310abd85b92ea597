/* What the settings of a row of training steps come down to: machine, model, strategy, device. */
#ifndef TUTTI_TOOLS_VALIDATE_TRAINING_PLAN_H
#define TUTTI_TOOLS_VALIDATE_TRAINING_PLAN_H

#include "runtime/model.h"
#include "runtime/parallel.h"
#include "runtime/strategy.h"
#include "sim/calib.h"
#include "sim/footprint.h"
#include "sim/train.h"
#include "topo/topo.h"
#include "traces/training.h"

struct tutti_training_plan {
    struct tutti_train_ask ask; /* of what follows; of parameter servers one host's devices */
    struct tutti_strategy strategy;
    struct tutti_workload *model;
    struct tutti_topo *topo;
    struct tutti_footprint_params memory;
    /* Of a model that is divided over devices (is_divided), which then takes the place of
     * `strategy`; stage_layers is its. A micro-batch that is not stated is open: `parallel` has 1,
     * until tutti_training_plan_micro_batch() says otherwise, and so are the stages of a device of
     * an interleaved pipeline. */
    bool is_divided;
    bool open_chunks;
    bool open_micro_batch;
    bool full_reduce; /* ZeRO-1 reduces gradients as if nothing were shared */
    struct tutti_parallel parallel;
    uint32_t *stage_layers;
    uint64_t global_batch;
    uint32_t rank_count; /* of all hosts */
    uint32_t host_count;
    uint32_t server_count;   /* parameter servers, on as many hosts; 0: none */
    double host_bytes_per_s; /* of a host's network, one way; 0: one host, or not stated */
    bool gibi;               /* the framework prints GiB and calls them GB */
    bool reports_first;      /* and the memory of a pipeline's first device, not of the fullest */
    /* Of tutti_training_plan_calibrate(): what `ask` then points to. */
    struct tutti_framework framework;
    struct tutti_calibrated costs;
};

/* -TUTTI_EINVAL for what is not stated or not known, -TUTTI_ELACK for what is not modelled. */
int tutti_training_plan_open(const struct tutti_training_row_settings *settings,
                             struct tutti_training_plan *ret, struct tutti_err *err);
void tutti_training_plan_done(struct tutti_training_plan *plan);

/* Goes by a calibration from now on: for devices, and for protocols if layers[0] says anything of
 * them. */
void tutti_training_plan_calibrate(struct tutti_training_plan *plan,
                                   const struct tutti_calib *const layers[], size_t layer_count);

/* What its step takes, beyond a few micro-batches each as the last one before. */
int tutti_training_plan_step(const struct tutti_training_plan *plan, double *ret_step_s,
                             struct tutti_err *err);
/* What its devices take of that, by themselves, by the constants of `framework`. NAN: a rate is not
 * known. */
double tutti_training_plan_device_s(const struct tutti_training_plan *plan,
                                    const struct tutti_framework *framework);

/* What the allocator has at its peak on the device that is reported, and whether the fullest has
 * room: 1, 0; -1: of no known capacity. */
int tutti_training_plan_memory(const struct tutti_training_plan *plan, uint64_t *ret_bytes,
                               int *ret_fits, struct tutti_err *err);

/* Takes so many samples in a pass of a divided model. -TUTTI_EINVAL: they do not divide the batch.
 */
int tutti_training_plan_micro_batch(struct tutti_training_plan *plan, uint64_t global_batch,
                                    uint32_t micro_batch, struct tutti_err *err);

/* A step of a divided model by the constants of `framework`, devices taking `pace` times what is
 * modelled. */
struct tutti_training_divided {
    double step_s;
    double device_s; /* of it what a device computes, and waits for its host */
    double flops;
};
int tutti_training_plan_divided(const struct tutti_training_plan *plan,
                                const struct tutti_framework *framework, double pace,
                                struct tutti_training_divided *ret, struct tutti_err *err);

/* Settles a micro-batch that is open: the one that is predicted to be the fastest, of powers of two
 * that fit. */
int tutti_training_plan_choose(struct tutti_training_plan *plan, struct tutti_err *err);

/* The parts of it, each in a file of its own. */
int tutti_training_plan_machine(const struct tutti_training_row_settings *settings,
                                struct tutti_training_plan *plan, struct tutti_err *err);
int tutti_training_plan_model(const struct tutti_training_row_settings *settings,
                              struct tutti_training_plan *plan, struct tutti_err *err);
int tutti_training_plan_strategy(const struct tutti_training_row_settings *settings,
                                 struct tutti_training_plan *plan, struct tutti_err *err);
int tutti_training_plan_parallel(const struct tutti_training_row_settings *settings,
                                 struct tutti_training_plan *plan, struct tutti_err *err);

/* -TUTTI_EINVAL: a row is of another model than the one asked for, as far as it says, or does not
 * say of which. */
int tutti_training_check_model(const struct tutti_training_row_settings *settings,
                               const struct tutti_workload *asked, struct tutti_err *err);

/* Whether a row is of a model that is divided over devices, or of a framework made for that. */
bool tutti_training_is_divided(const struct tutti_training_row_settings *settings);

/* Whether a text has a word in it, in any case. */
bool tutti_training_says(const char *text, const char *word);

#endif
