/* Floats to and from 16 bits, and sums of squares, by the best loops of this processor; private to
 * the room runtime. */
#ifndef TUTTI_RUNTIME_TRAIN_CONVERT_H
#define TUTTI_RUNTIME_TRAIN_CONVERT_H

#include <stddef.h>

#include "runtime/data.h"

struct tutti_loops;

/* `count` floats as `dtype` (FLOAT32, FLOAT16 or BFLOAT16), to nearest, ties to even; and back,
 * exactly. */
void tutti_train_narrow(enum tutti_dtype dtype, void *to, const float *from, size_t count);
void tutti_train_widen(enum tutti_dtype dtype, float *to, const void *from, size_t count);
/* Rounded to what `dtype` has, and floats still. `to` may be `from`. */
void tutti_train_round(const struct tutti_loops *loops, enum tutti_dtype dtype, float *to,
                       const float *from, size_t count);

/* In double precision, in an order that depends on nothing but `count`. Infinite or NaN exactly if
 * one of the values is: so ranks that add theirs up find a non-finite gradient anywhere. */
double tutti_train_square_sum(const float *values, size_t count);

#endif
