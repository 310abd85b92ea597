/* What weights hash to, for ranks to tell each other in a double. Private to runtime/train. */
#ifndef TUTTI_RUNTIME_TRAIN_HASH_H
#define TUTTI_RUNTIME_TRAIN_HASH_H

#include <stdint.h>

/* The upper 48 bits of tutti_weights_hash: exact in a double. */
double tutti_weights_hash_exact(const float *values, uint64_t count);

#endif
