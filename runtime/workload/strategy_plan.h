/* A step before it is written: layers one by one, packs, and where everything lies. */
#ifndef TUTTI_RUNTIME_WORKLOAD_STRATEGY_PLAN_H
#define TUTTI_RUNTIME_WORKLOAD_STRATEGY_PLAN_H

#include "runtime/strategy.h"

struct tutti_arena;

enum { TUTTI_PLAN_LAYERS_MAX = 4096, TUTTI_PLAN_MICRO_BATCHES_MAX = 65536 };

/* A layer of the model, each repeat by itself. */
struct tutti_plan_layer {
    const struct tutti_layer *layer;
    const struct tutti_layer_times *times;
    uint32_t repeat_index;
    uint64_t elements[2];             /* that are reduced: dense ones, and of sparse gradients */
    uint64_t first[2];                /* in the concatenation of all of them */
    struct tutti_region gradients[2]; /* in scratch; 0 bytes: none */
    uint32_t gather;                  /* the pack whose gathered weights it needs, or UINT32_MAX */
};

/* A dense variable as POWER_SGD takes it: a matrix, or what stays whole. */
struct tutti_plan_matrix {
    uint64_t first;    /* in the concatenation of all dense variables */
    uint64_t elements; /* 0: it is not reduced, or its gradient is sparse */
    uint64_t rows;
    uint64_t columns; /* 0: it stays whole */
    uint64_t sent[2]; /* elements before its own in both parts of what its pack sends */
    uint64_t factor;  /* elements before its second factor in those of all variables */
};

/* What is reduced at once, with the padding that equal shards ask for. */
struct tutti_plan_pack {
    uint64_t first; /* in the concatenation of its kind */
    uint64_t elements;
    uint64_t padded;       /* elements, so that equal shards can be made of them; of slices with
                               their number behind them */
    uint64_t weights;      /* elements of its variables: of sparse ones more than of gradients */
    uint64_t first_weight; /* sparse: in the concatenation of all sparse variables */
    /* Elements of its collectives, one after the other; 0: there is none. Sparse: how many slices
     * there are, then the slices. */
    uint64_t sent[2];
    uint64_t sent_offset;   /* of what is sent; that of its gradients, unless it is compressed */
    uint64_t offset;        /* of its gradients in scratch */
    uint64_t result_offset; /* of what becomes of them */
    uint64_t sum_offset; /* of that of all micro-batches; that place, where they are reduced once */
    uint64_t gather_offset;  /* of the weights gathered */
    uint64_t state_offset;   /* of the rank's own part of them, in state */
    uint32_t ready_layer;    /* once its backward pass has ended, all is there */
    uint32_t first_layer;    /* that needs its weights */
    uint32_t first_variable; /* the lowest that it has elements of, counted over all layers, */
    uint32_t last_variable;  /* and the highest */
    uint64_t kept;           /* TOP_K: elements that are sent: their values, then their indices */
    bool sparse;
    bool gathered;   /* from all ranks, not reduced: sparse gradients, and the largest elements */
    bool compressed; /* what is sent is made of the gradients */
};

struct tutti_plan {
    struct tutti_strategy_params params;
    const struct tutti_strategy *strategy;
    uint32_t shard_ranks;
    uint32_t micro_batches;
    struct tutti_plan_layer *layers;
    uint32_t layer_count;
    struct tutti_plan_pack *packs; /* in the order in which they are reduced */
    uint32_t pack_count;
    uint64_t weights;                   /* elements of all variables */
    uint64_t elements;                  /* that are reduced, without padding */
    struct tutti_plan_matrix *matrices; /* POWER_SGD: [variables of all layers]; else NULL */
    uint64_t factor_elements;           /* of all second factors */
    uint64_t scratch_bytes;             /* so far; then what collectives need, lane by lane */
    struct tutti_region report;         /* of a rank, in scratch, and what becomes of it */
    struct tutti_region report_sum;
    uint64_t state_bytes;
    struct tutti_arena *arena;
};

/* Everything in `arena`. -TUTTI_EINVAL for what does not fit together. */
int tutti_plan_make(const struct tutti_strategy_params *params, struct tutti_arena *arena,
                    struct tutti_plan *ret, struct tutti_err *err);

/* Entries of the work table, in their order: 3 l, 3 l + 1 and 3 l + 2 of layer l are forward,
 * backward, and backward that adds to what is there; two of each pack, its sum begun and added to;
 * three of each pack, compressed, its sum of first factors orthogonalized, and expanded; then those
 * of the whole step. UINT32_MAX: there are none. */
struct tutti_plan_entries {
    uint32_t sum;
    uint32_t compress;
    uint32_t input;
    uint32_t report;
    uint32_t optimizer;
    uint32_t local; /* the optimizer of a step of which nothing is reported */
    uint32_t outer;
    uint32_t count;
};
struct tutti_plan_entries tutti_plan_entries(const struct tutti_plan *plan);

/* Where each part of what is sent of a pack lies, and what comes of it, in scratch. */
struct tutti_region tutti_plan_sent(const struct tutti_plan *plan,
                                    const struct tutti_plan_pack *pack, uint32_t part);
struct tutti_region tutti_plan_result(const struct tutti_plan *plan,
                                      const struct tutti_plan_pack *pack, uint32_t part);
/* Rows of a sparse gradient that all samples of a rank touch at most. */
uint64_t tutti_plan_touched_rows(const struct tutti_plan *plan,
                                 const struct tutti_variable *variable);

enum { TUTTI_PLAN_COMPRESS, TUTTI_PLAN_ORTHOGONALIZE, TUTTI_PLAN_EXPAND, TUTTI_PLAN_COMPRESSIONS };

/* POWER_SGD: which variables are matrices; before packs are compressed. */
int tutti_plan_list_matrices(struct tutti_plan *plan, struct tutti_err *err);
/* What is sent of a pack. */
void tutti_plan_compress(struct tutti_plan *plan, struct tutti_plan_pack *pack);

#endif
