/* What the parts of parallelism share. */
#ifndef TUTTI_RUNTIME_PARALLEL_PARTS_H
#define TUTTI_RUNTIME_PARALLEL_PARTS_H

#include "runtime/parallel.h"

/* What tutti_parallel_check has taken, filled in. */
struct tutti_parallel tutti_parallel_filled(const struct tutti_parallel *parallel);

/* Ranks of each dimension, as dense layers see them: `expert` is 1. */
uint32_t tutti_parallel_size_of(const struct tutti_parallel *filled, enum tutti_dimension dim);

/* Whether it is a transformer, which is cut between its equal layers alone. */
bool tutti_parallel_has_equal_layers(const struct tutti_workload *model);
/* Whether the first stage, or the last, has something to do without any of those layers. */
bool tutti_parallel_may_be_bare(const struct tutti_workload *model, bool last);

/* Whether tied weights are held by two devices. */
bool tutti_parallel_ties(const struct tutti_parallel *filled, const struct tutti_workload *model);

/* How many of the repeats of each layer a stage has, asked for layer after layer. */
struct tutti_stage_cut {
    const struct tutti_workload *model;
    uint64_t low; /* of the layers that pipelines are cut between, those from `low` to `high` */
    uint64_t high;
    uint64_t before; /* of those, how many came in the layers asked for */
    uint32_t next;   /* layer */
    bool equal;      /* cut between equal layers alone */
    bool is_first;   /* stage of all */
    bool is_last;
};
struct tutti_stage_cut tutti_parallel_cut(const struct tutti_parallel *filled,
                                          const struct tutti_workload *model, uint32_t stage);
uint32_t tutti_parallel_next_repeats(struct tutti_stage_cut *cut);

#endif
