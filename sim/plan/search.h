/* For the parts of the search: the configurations of one machine, and what is known of each. */
#ifndef TUTTI_SIM_PLAN_SEARCH_H
#define TUTTI_SIM_PLAN_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/plan.h"

enum { PLAN_CANDIDATES_MAX = 1 << 21 };

/* What is known of a configuration's step. */
enum plan_bound_kind {
    PLAN_BOUND_FAR,   /* plan_bound(), to sort by */
    PLAN_BOUND_CLOSE, /* plan_close_bound(), once it comes first */
};

/* A configuration; of given plans those hold their settings, and these here are for what compares
 * them alone. */
struct plan_candidate {
    tutti_ps bound_ps;    /* no step is shorter */
    tutti_ps step_ps;     /* 0: not predicted; -1: it cannot be */
    uint64_t total_bytes; /* of the fullest device; 0: not known */
    uint32_t number;      /* in the order of trying */
    uint32_t tensor;
    uint32_t context;
    uint32_t expert;
    uint32_t data;
    uint32_t pipeline;
    uint32_t micro_batch;
    uint32_t micro_batches;
    uint16_t virtual_stages;
    uint8_t schedule;
    uint8_t sharding;
    uint8_t recompute;
    bool sequence_parallel;
    uint8_t context_kind;
    uint8_t bound; /* enum plan_bound_kind */
};

/* One machine's. */
struct plan_field {
    const struct tutti_plan_ask *ask; /* filled in */
    uint32_t machine;
    const struct tutti_topo *topo;
    const struct tutti_accelerator *accelerator; /* NULL: not known */
    uint64_t capacity_bytes;                     /* that may be used; 0: not known */
    struct plan_candidate *candidates;           /* in any order */
    uint32_t count;
    uint32_t capacity;
    struct plan_layers *layers; /* what layers take, remembered (bound.c) */
    struct tutti_plan_counts counts;
    bool has_nearest;
    struct tutti_plan_setting nearest;
    struct tutti_footprint nearest_footprint;
    char refusal[256];
};

/* ---- enumerate.c: what there is to try ------------------------------------------------------- */

/* NULL: everything. */
int plan_space_take(const struct tutti_plan_space *given, struct tutti_plan_space *ret,
                    struct tutti_err *err);
/* Fills in candidates without bounds, in the order of trying. */
int plan_enumerate(struct plan_field *field, struct tutti_err *err);
void plan_of_candidate(const struct plan_field *field, const struct plan_candidate *candidate,
                       struct tutti_plan_setting *ret);

/* ---- bound.c: what no step is below ---------------------------------------------------------- */

/* From what layers take on a device and the order of a pipeline alone: some 100 ns. */
int plan_bound(struct plan_field *field, const struct tutti_plan_setting *plan, tutti_ps *ret,
               struct tutti_err *err);
/* With the collectives within layers, stage by stage: some 10 us. -TUTTI_EINVAL, -TUTTI_ELACK: it
 * is not modelled. */
int plan_close_bound(const struct plan_field *field, const struct tutti_plan_setting *plan,
                     tutti_ps *ret, struct tutti_err *err);
void plan_layers_free(struct plan_layers *layers);

/* ---- price.c: what one takes and holds ------------------------------------------------------- */

/* Of one layer, once, for one micro-batch. */
int plan_layer_parts(const struct plan_field *field, const struct tutti_plan_setting *plan,
                     const struct tutti_layer *layer, struct tutti_layer_parts *ret,
                     struct tutti_err *err);
int plan_footprint(const struct plan_field *field, const struct tutti_plan_setting *plan,
                   struct tutti_footprint *ret, struct tutti_err *err);
/* In *parallel is what it asks about, as the framework does it. */
struct tutti_parallel_ask plan_parallel_ask(const struct plan_field *field,
                                            const struct tutti_plan_setting *plan,
                                            struct tutti_parallel *parallel);
/* *ret without cost and cautions. -TUTTI_EINVAL, -TUTTI_ELACK: it is not modelled. */
int plan_price(const struct plan_field *field, const struct tutti_plan_setting *plan,
               struct tutti_plan_found *ret, struct tutti_err *err);
/* Cost, deadline and budget, cautions. */
void plan_judge(const struct plan_field *field, struct tutti_plan_found *found);

/* ---- exact.c: what comes first, looked at exactly -------------------------------------------- */

/* Plans that are looked at behind those wanted: exact prices may bring them forward. */
enum { PLAN_MARGIN = 7 };

bool plan_is_alike(const struct tutti_plan_found *a, const struct tutti_plan_found *b);
/* The plan at `at` of *count; it is taken out if it is refused. */
int plan_price_exactly(const struct tutti_plan_ask *filled, struct tutti_plan_found *found,
                       uint32_t at, uint32_t *count, struct tutti_err *err);
/* Those of all machines, ranked: what is wanted is priced exactly, and ranked again; what is alike
 * is folded. */
int plan_rank_exactly(const struct tutti_plan_ask *filled, struct tutti_plan_found *found,
                      uint32_t *count, struct tutti_err *err);
/* The fastest, exactly: of a few that come first by coarse prices. */
int plan_field_first(struct plan_field *field, struct tutti_plan_found *ret, bool *ret_any,
                     struct tutti_err *err);

/* ---- plan.c and field.c ---------------------------------------------------------------------- */

int plan_ask_take(const struct tutti_plan_ask *ask, struct tutti_plan_ask *ret,
                  struct tutti_err *err);
void plan_rank(enum tutti_plan_goal goal, struct tutti_plan_found *found, uint32_t count);
/* Without configurations. */
struct plan_field plan_field_of(const struct tutti_plan_ask *filled, uint32_t machine);
/* Enumerates, checks and bounds. */
int plan_field_new(const struct tutti_plan_ask *filled, uint32_t machine, struct plan_field *ret,
                   struct tutti_err *err);
void plan_field_done(struct plan_field *field);
/* The `most` fastest of different divisions, best first, into ret; *ret_count of them. Counts what
 * it did in field->counts. */
int plan_field_search(struct plan_field *field, uint32_t most, struct tutti_plan_found *ret,
                      uint32_t *ret_count, struct tutti_err *err);

/* ---- network.c ------------------------------------------------------------------------------- */

/* The machine with another rate between its hosts: *ret is NULL where that cannot be said. */
int plan_network_scaled(const struct tutti_topo *topo, double factor, struct tutti_topo **ret,
                        struct tutti_err *err);

#endif
