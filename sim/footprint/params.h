/* What was asked of a footprint, with what is usual filled in, and what its parts share. */
#ifndef TUTTI_SIM_FOOTPRINT_PARAMS_H
#define TUTTI_SIM_FOOTPRINT_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/wide.h"
#include "sim/footprint.h"

struct tutti_layer;

/* Fills in what was left at 0; -TUTTI_EINVAL for what does not go together. */
int tutti_footprint_params_complete(const struct tutti_footprint_params *params,
                                    struct tutti_footprint_params *ret, struct tutti_err *err);

/* The layers that pipelines are cut between. */
uint32_t tutti_footprint_equal_layers(const struct tutti_workload *model);
/* How many of the repeats of a layer a stage has, over all of its chunks; `first` of the `equal`
 * layers come before it. */
uint32_t tutti_footprint_repeats(const struct tutti_footprint_params *params, uint32_t stage,
                                 const struct tutti_layer *layer, uint32_t first, uint32_t equal);
/* Fills in activations, what is recomputed, logits, temporaries and input. -TUTTI_ENOMEM. */
int tutti_footprint_activations(const struct tutti_footprint_params *params, uint32_t stage,
                                struct tutti_footprint *footprint, struct tutti_err *err);
/* The most that a device holds at once, of whose chunks each takes so many bytes a micro-batch.
 * -TUTTI_ENOMEM. */
int tutti_footprint_held(const struct tutti_parallel *parallel, uint32_t device,
                         const uint64_t *chunk_bytes, uint64_t *ret, struct tutti_err *err);

/* ---- sums that saturate ---------------------------------------------------------------------- */

static inline uint64_t times(uint64_t a, uint64_t b)
{
    return tutti_muldiv(a, b, 1);
}

static inline uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline uint64_t part(uint64_t value, uint64_t by)
{
    return value / by + (value % by != 0);
}

static inline uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline bool is_mixed(const struct tutti_footprint_params *p)
{
    return p->precision != TUTTI_PRECISION_FP32 && p->precision != TUTTI_PRECISION_TF32;
}

/* Parts of a sample's tokens. */
static inline uint32_t context_of(const struct tutti_footprint_params *p)
{
    return p->parallel != NULL && p->parallel->context > 0 ? p->parallel->context : 1;
}

/* Of activations, and of weights as they are gathered. */
static inline uint64_t element_bytes(const struct tutti_footprint_params *p)
{
    return is_mixed(p) ? 2 : 4;
}

#endif
