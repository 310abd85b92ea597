/* Training strategies as step schedules: what each device computes, which collectives run when, and
 * what waits for what. Neutral to machines: times of layers come from the caller. */
#ifndef TUTTI_RUNTIME_STRATEGY_H
#define TUTTI_RUNTIME_STRATEGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/model.h"
#include "runtime/pack.h"
#include "runtime/schedule.h"
#include "runtime/traffic.h"

TUTTI_API_BEGIN

struct tutti_coll_params;
struct tutti_err;

/* Lanes of every rank: work; what is reduced; what is gathered; what is reduced across groups. */
enum {
    TUTTI_LANE_WORK,
    TUTTI_LANE_REDUCE,
    TUTTI_LANE_GATHER,
    TUTTI_LANE_ACROSS,
    TUTTI_STRATEGY_LANES
};

/* Axes: all replicas are axis 0; groups that share states and weights, and the ranks of equal
 * number of those groups. */
enum { TUTTI_AXIS_ALL, TUTTI_AXIS_SHARD, TUTTI_AXIS_ACROSS };

/* What a strategy comes down to. tutti_strategy_named() fills it; fields may be changed after. */
struct tutti_strategy {
    size_t size;                  /* sizeof(struct tutti_strategy): runtime/api.h */
    const char *name;             /* "mirrored" */
    enum tutti_sharding sharding; /* NONE: gradients are all-reduced */
    enum tutti_pack_rule rule;
    uint64_t limit;       /* of the rule */
    uint64_t first_limit; /* of the rule */
    bool overlap;         /* collectives of gradients begin as soon as theirs are there; else after
                             the whole backward pass */
    bool to_one_device;   /* ReductionToOneDevice: reduced at one, which sends the sum to all */
    /* What is sent instead of the gradients of a pack: TOP_K or POWER_SGD; what is left out stays
     * with the rank, which adds it to those of the next step. Of gradients that are all-reduced.
     * POWER_SGD computes between its two collectives, on their lane, beside the backward pass: that
     * both then take longer on one device is not modelled. ONE_BIT and ADASUM are not modelled. */
    enum tutti_compression compression;
    uint32_t keep_ppm;    /* TOP_K: of a pack's elements, in millionths; at least one */
    uint32_t factor_rank; /* POWER_SGD: of the factors of each variable that is a matrix */
    bool densify;         /* sparse gradients are reduced as if they were dense */
    bool full_reduce; /* ZeRO-1 as nanotron has it: an all-reduce where a reduce-scatter would do */
    /* Weights of ZeRO-1 and -2 are broadcast by whoever owns them, whole variables, one owner after
     * another, each broadcast passing all ranks of the group at so many ns a rank; 0: all-gathers.
     * Of prices alone: the schedule is that of all-gathers. */
    uint32_t broadcast_ns;
    bool keep_weights;    /* ZeRO-3: gathered once a micro-batch, not twice */
    uint32_t prefetch;    /* ZeRO-3: layers gathered ahead of the one in work */
    uint32_t local_steps; /* local SGD: weights are averaged every so many steps; 0: gradients are
                             reduced at every step */
    /* Once a step of several devices: until their hosts agree on what is reduced. */
    uint32_t sync_us;
    bool whole_hosts; /* devices of one host alone: Mirrored, CentralStorage */
    bool coordinated; /* who does what next is decided while it runs: no schedule of one step, but
                         episodes under a coordinator (coordinator.h) */
    const char *framework;  /* that it is of: "tensorflow", "pytorch", "xla" */
    const char *all_reduce; /* algorithm that it asks for; NULL: the machine's */
    bool forgets; /* what compression leaves out is lost, and not added to the next step's */
    /* What is gathered of gradients (rows of sparse ones, the largest) goes to one device, which
     * sends all of it to each: MirroredStrategy's way with IndexedSlices. */
    bool gathers_at_one;
};

/* The names there are: "onedevice" "mirrored" "multiworkermirrored" "parameter-server"
 * "central-storage" "tpu" "ddp" "horovod" "zero1" "zero2" "fsdp" "hsdp" "local-sgd" "diloco";
 * *ret_count of them, each with a line. */
struct tutti_strategy_entry {
    const char *name;
    const char *summary;
};
const struct tutti_strategy_entry *tutti_strategies(size_t *ret_count);
/* -TUTTI_EINVAL with the nearest names. Sources: facts of each in runtime/workload/strategies.c. */
int tutti_strategy_named(const char *name, struct tutti_strategy *ret, struct tutti_err *err);

/* Whether of a variable's gradient the touched rows alone are gathered: not where states are
 * divided or weights averaged, which are so whole. */
bool tutti_strategy_gathers_rows(const struct tutti_strategy *strategy,
                                 const struct tutti_variable *variable);

/* What one layer of the model takes on a device, for one micro-batch. */
struct tutti_layer_times {
    tutti_ps forward_ps;
    tutti_ps backward_ps; /* what is recomputed for it included */
};

struct tutti_strategy_params {
    size_t size; /* sizeof(struct tutti_strategy_params): runtime/api.h */
    const struct tutti_strategy *strategy;
    const struct tutti_workload *model;
    uint32_t rank_count;
    uint32_t shard_ranks;    /* of a group that shares; 0: all. A divisor of rank_count */
    uint32_t samples;        /* of a rank in a step, all micro-batches: what sparse gradients touch;
                                0: 1 */
    uint32_t micro_batches;  /* gradient accumulation; 0: 1 */
    uint32_t gradient_bytes; /* of an element as it is reduced: 4, 2 or 1 */
    uint32_t weight_bytes;   /* of an element as it is gathered, or averaged: 4, 2 or 1 */
    const struct tutti_layer_times *times; /* [layer of the model]: of each of its repeats */
    tutti_ps input_ps;                     /* until the first micro-batch is there */
    tutti_ps optimizer_ps;                 /* of what a device owns */
    tutti_ps compress_ps; /* of all gradients, to compress them and back; packs share it */
    /* Makes the schedule of a collective among `size` ranks of an axis; NULL: "ring". */
    int (*collective)(void *context, const struct tutti_coll_params *params, uint32_t axis,
                      uint32_t size, struct tutti_schedule **ret, struct tutti_err *err);
    void *context;
    /* What really does the work of every COMPUTE step (runtime/train.h); NULL: they take their time
     * alone. Then there is an entry "input" at the head of each step, and local SGD plays all its
     * local steps: forward, backward and optimizer so many times, then what averages, then an entry
     * "outer" for what becomes of the average. */
    int (*run)(const struct tutti_work_call *call, struct tutti_err *err);
    void *run_context;
    /* FLOAT64 sums that all ranks share before the optimizer runs: losses, counts, whether to go
     * on. An entry "report" writes the rank's own, once its gradients are reduced. 0: none */
    uint32_t report_elements;
    bool ieee_half; /* gradients of 2 bytes are FLOAT16; else BFLOAT16 */
    bool queued;    /* as in struct tutti_work, of all entries */
};

/* One step of all ranks, which run one program. Buffers: in scratch the gradients of all layers in
 * forward order, then what becomes of them, then what collectives need; in state weights, and
 * their gathered copies. tutti_schedule_check and _prove hold it to that the optimiser sees whole
 * sums. Local SGD: the step that averages. -TUTTI_EINVAL for what does not fit together, and for
 * strategies that a coordinator leads. */
int tutti_strategy_schedule(const struct tutti_strategy_params *params, struct tutti_schedule **ret,
                            struct tutti_err *err);

TUTTI_API_END

#endif
