/* What the parts of parallelism share. */
#ifndef TUTTI_RUNTIME_PARALLEL_PARTS_H
#define TUTTI_RUNTIME_PARALLEL_PARTS_H

#include "runtime/parallel.h"

/* What tutti_parallel_check has taken, filled in. */
struct tutti_parallel tutti_parallel_filled(const struct tutti_parallel *parallel);

/* Ranks of each dimension, as dense layers see them: `expert` is 1. */
uint32_t tutti_parallel_size_of(const struct tutti_parallel *filled, enum tutti_dimension dim);

#endif
