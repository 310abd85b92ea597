/* Floats to and from 16 bits. */
#include "runtime/train/convert.h"

#include <assert.h>
#include <string.h>

#include "runtime/train/loops.h"

void tutti_train_narrow(enum tutti_dtype dtype, void *to, const float *from, size_t count)
{
    const struct tutti_loops *loops = tutti_loops_at(0);

    assert(dtype == TUTTI_FLOAT32 || dtype == TUTTI_FLOAT16 || dtype == TUTTI_BFLOAT16);
    if (dtype == TUTTI_FLOAT16)
        loops->narrow_half(to, from, count);
    else if (dtype == TUTTI_BFLOAT16)
        loops->narrow_brain(to, from, count);
    else if (to != from)
        memcpy(to, from, count * sizeof(*from));
}

void tutti_train_widen(enum tutti_dtype dtype, float *to, const void *from, size_t count)
{
    const struct tutti_loops *loops = tutti_loops_at(0);

    assert(dtype == TUTTI_FLOAT32 || dtype == TUTTI_FLOAT16 || dtype == TUTTI_BFLOAT16);
    if (dtype == TUTTI_FLOAT16)
        loops->widen_half(to, from, count);
    else if (dtype == TUTTI_BFLOAT16)
        loops->widen_brain(to, from, count);
    else if (to != from)
        memcpy(to, from, count * sizeof(*to));
}

void tutti_train_round(const struct tutti_loops *loops, enum tutti_dtype dtype, float *to,
                       const float *from, size_t count)
{
    enum { BLOCK = 1024 };
    uint16_t narrow[BLOCK];

    if (dtype == TUTTI_FLOAT32) {
        if (to != from)
            memcpy(to, from, count * sizeof(*to));
        return;
    }
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t now = count - at < BLOCK ? count - at : BLOCK;

        if (dtype == TUTTI_FLOAT16) {
            loops->narrow_half(narrow, from + at, now);
            loops->widen_half(to + at, narrow, now);
        } else {
            loops->narrow_brain(narrow, from + at, now);
            loops->widen_brain(to + at, narrow, now);
        }
    }
}

double tutti_train_square_sum(const float *values, size_t count)
{
    return tutti_loops_at(0)->square_sum(values, count);
}
