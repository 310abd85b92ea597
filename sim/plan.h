/* Plans of a training: all ways to divide a model over machines that go together, those that fit
 * into their devices, and of these the fastest, the cheapest and what lies between; and what would
 * have to change for another to win. What a step takes is what sim/parallel.h says of it. */
#ifndef TUTTI_SIM_PLAN_H
#define TUTTI_SIM_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/parallel.h"
#include "sim/device.h"
#include "sim/footprint.h"
#include "sim/parallel.h"
#include "sim/prices.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_protocol;
struct tutti_topo;
struct tutti_train_memory;
struct tutti_workload;

/* ---- what is searched ------------------------------------------------------------------------ */

enum { TUTTI_PLAN_VALUES_MAX = 32 };

/* What a degree may be; of 0 values: all that divide what they must, within usual limits. */
struct tutti_plan_values {
    uint32_t count;
    uint32_t values[TUTTI_PLAN_VALUES_MAX];
};

/* 0 everywhere: everything. Usual limits: tensor parallelism within a host, of 1 device a
 * micro-batch of 1024 samples at most, 2 and more chunks up to 16. Bits are 1u << value. */
struct tutti_plan_space {
    size_t size; /* sizeof(struct tutti_plan_space): runtime/api.h */
    struct tutti_plan_values tensor;
    struct tutti_plan_values context;
    struct tutti_plan_values expert;
    struct tutti_plan_values data;
    struct tutti_plan_values pipeline;
    struct tutti_plan_values virtual_stages;
    struct tutti_plan_values micro_batch;
    uint32_t schedules; /* of enum tutti_pipeline; 0: 1f1b, interleaved */
    uint32_t shardings; /* of enum tutti_sharding; 0: all, ZeRO-3 of pipelines of PyTorch's alone */
    uint32_t recomputes;        /* of enum tutti_recompute; 0: all */
    uint32_t sequence_parallel; /* of bool; 0: both, where tensor > 1 */
    uint32_t context_kinds;     /* of enum tutti_context_kind; 0: ring */
};

/* One way to do it. */
struct tutti_plan_setting {
    uint32_t machine; /* of those of the question */
    struct tutti_parallel parallel;
    enum tutti_recompute recompute;
};

/* All its devices are used. */
struct tutti_plan_machine {
    const struct tutti_topo *topo;
    const struct tutti_protocol *protocols; /* as in struct tutti_ask */
};

enum tutti_plan_goal {
    TUTTI_PLAN_TIME,    /* the least, */
    TUTTI_PLAN_MONEY,   /* of what the devices cost for that time; device hours without a price */
    TUTTI_PLAN_DEVICES, /* the fewest */
    TUTTI_PLAN_GOAL_COUNT
};

/* How far a search is. */
struct tutti_plan_progress {
    uint32_t machine; /* in work */
    uint64_t done;    /* of its configurations */
    uint64_t count;
};

struct tutti_plan_ask {
    size_t size; /* sizeof(struct tutti_plan_ask): runtime/api.h */
    const struct tutti_plan_machine *machines;
    uint32_t machine_count;
    const struct tutti_workload *model;
    /* accelerator NULL: each machine's; batch, tensor and recompute are the plans'. */
    struct tutti_device_use use;
    enum tutti_optimizer optimizer;
    uint32_t gradient_bytes; /* as in struct tutti_parallel_ask */
    uint32_t weight_bytes;
    uint64_t global_batch;                /* samples of a step */
    uint64_t steps;                       /* of the whole training; 0: 1 */
    const struct tutti_plan_space *space; /* NULL: everything */
    /* NULL, or the plans to choose among, of that batch, each once, instead of a space. */
    const struct tutti_plan_setting *given;
    uint32_t given_count;
    uint64_t deadline_us; /* 0: none */
    uint64_t budget;      /* millionths of the currency; 0: none. Needs a price of the device */
    const struct tutti_prices *prices; /* NULL: devices have no price */
    enum tutti_plan_goal goal;
    uint32_t best_count; /* plans wanted, of different divisions; 0: 5 */
    uint64_t memory_ppm; /* of each device's memory, in millionths, that may be used; 0: all */
    bool unpruned;       /* all that fit are predicted: the same answer, later */
    bool exact;          /* collectives are simulated at their sizes, not between a few of them */
    struct tutti_train_memory *memory; /* as in struct tutti_parallel_ask; NULL: its own */
    void (*tell)(void *context, const struct tutti_plan_progress *progress); /* NULL: nobody */
    void *tell_context;
    bool synthetic; /* data are made up, not read */
};

/* ---- what is found --------------------------------------------------------------------------- */

/* Why a prediction may be farther off than others: nothing of the kind is among what was ever
 * measured (traces/measured/training), or too little. Bits are 1u << value. */
enum tutti_plan_caution {
    TUTTI_PLAN_TENSOR_BEYOND_HOST,
    TUTTI_PLAN_MANY_HOSTS,
    TUTTI_PLAN_WIDE_CONTEXT,
    TUTTI_PLAN_ZERO_BUBBLE,
    TUTTI_PLAN_OTHER_DEVICE,
    TUTTI_PLAN_CAUTION_COUNT
};
/* "tensor parallelism beyond a host: measured steps lie 30 % around what is predicted" */
const char *tutti_plan_caution_text(enum tutti_plan_caution caution);

struct tutti_plan_found {
    struct tutti_plan_setting plan;
    uint32_t device_count;
    tutti_ps step_ps;
    struct tutti_parallel_split split;
    double tokens_per_s;
    double mfu_percent;
    struct tutti_footprint footprint; /* of the fullest stage */
    uint64_t time_us;                 /* of the whole training */
    struct tutti_cost cost;
    bool exact;           /* priced as tutti_parallel_predict() does, not coarsely */
    uint32_t coarse_rank; /* from 0, by the coarse prices that the search goes by */
    uint32_t alike_count; /* plans left out that differ from it in context parallelism, and so in
                           * replicas, alone, and take as long to 0.1 % */
    bool in_time;         /* there is no deadline, or it is met */
    bool in_budget;       /* likewise */
    uint32_t cautions;
};

struct tutti_plan_counts {
    uint64_t tried;     /* configurations; all that follow but `folded` add up to it */
    uint64_t refused;   /* what does not go together */
    uint64_t too_large; /* does not fit into a device */
    uint64_t pruned;    /* cannot be among the best: neither its memory nor its time was needed */
    uint64_t predicted;
    uint64_t folded; /* not counted among `tried`: the same as one of them, spelt otherwise */
};

/* Plans that are equally good stand in the order in which they are tried: fewer stages first, then
 * less tensor, context and expert parallelism, fewer chunks, larger micro-batches, less recomputed,
 * less sharded. Of plans that divide the model alike (tensor, context, expert, data, pipeline) on
 * one machine the best alone is among them. Those that come first, and some behind them, are priced
 * exactly and ranked again; of machines of very many devices, all together, not all. */
struct tutti_plan_answer {
    struct tutti_plan_found *best; /* those in time and budget first, then by the goal */
    uint32_t best_count;
    /* No other plan is better in one of time, money and devices and as good in the others; by
     * devices, then time. */
    struct tutti_plan_found *front;
    uint32_t front_count;
    struct tutti_plan_found *each; /* the best of each machine that has one, in their order */
    uint32_t each_count;
    struct tutti_plan_counts counts;
    /* Where nothing fits: what comes nearest, memory over capacity. */
    bool has_nearest;
    struct tutti_plan_setting nearest;
    struct tutti_footprint nearest_footprint;
    /* The last reason for which a configuration was refused; "": none was. */
    char refusal[256];
};

/* 0 also where nothing fits, or nothing goes together: then there is no best. -TUTTI_EINVAL: a
 * question that is none, or has more than 2^22 configurations. */
int tutti_plan_search(const struct tutti_plan_ask *ask, struct tutti_plan_answer *ret,
                      struct tutti_err *err);
void tutti_plan_answer_done(struct tutti_plan_answer *answer);

/* Whether a stands before b: in time and budget first, then by the goal. */
bool tutti_plan_is_better(enum tutti_plan_goal goal, const struct tutti_plan_found *a,
                          const struct tutti_plan_found *b);

/* 0 without a best plan: never. Else -TUTTI_EINVAL in one line: what of the nearest miss is too
 * large, its three largest terms, or why nothing goes together. */
int tutti_plan_refuse(const struct tutti_plan_ask *ask, const struct tutti_plan_answer *answer,
                      struct tutti_err *err);

/* ---- what would change the order ------------------------------------------------------------- */

enum tutti_plan_turn_kind {
    TUTTI_PLAN_LESS_MEMORY,
    TUTTI_PLAN_MORE_MEMORY,
    TUTTI_PLAN_SLOWER_NETWORK, /* between hosts */
    TUTTI_PLAN_FASTER_NETWORK,
    TUTTI_PLAN_SMALLER_BATCH,
    TUTTI_PLAN_LARGER_BATCH,
    TUTTI_PLAN_TURN_COUNT
};

/* On the best plan's machine, found by searching anew. */
struct tutti_plan_turn {
    enum tutti_plan_turn_kind kind;
    bool is_asked; /* false: it cannot be: of a machine with no such part, of given plans */
    bool turns;    /* another division wins, */
    /* where the quantity is so many times what it is; the least change found. Where nothing turns:
     * how far was looked. */
    double factor;
    struct tutti_plan_found first; /* then; where nothing turns, at that factor */
    tutti_ps best_ps;              /* what the best plan takes there; 0: it is not possible there */
};

/* ret: [TUTTI_PLAN_TURN_COUNT]. Takes some searches. */
int tutti_plan_turns(const struct tutti_plan_ask *ask, const struct tutti_plan_answer *answer,
                     struct tutti_plan_turn *ret, struct tutti_err *err);

/* Whether two plans divide the model alike. */
bool tutti_plan_same_division(const struct tutti_plan_setting *a,
                              const struct tutti_plan_setting *b);

TUTTI_API_END

#endif
