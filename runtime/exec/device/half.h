/* IEEE binary16 to and from float32 in plain C, one value at a time; private to the room. */
#ifndef TUTTI_RUNTIME_EXEC_DEVICE_HALF_H
#define TUTTI_RUNTIME_EXEC_DEVICE_HALF_H

#include <stdint.h>

union tutti_float_bits {
    float f;
    uint32_t u;
};

/* Exact. A NaN keeps its payload and becomes quiet, as the F16C instructions do. */
static inline float tutti_half_widen(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t magnitude = half & 0x7fff;
    union tutti_float_bits bits;

    if (magnitude >= 0x7c00) { /* infinity or NaN */
        bits.u = sign | 0x7f800000 | (magnitude & 0x3ff) << 13;
        if (magnitude > 0x7c00)
            bits.u |= 0x400000;
        return bits.f;
    }
    if (magnitude < 0x400) { /* zero or subnormal: magnitude * 2^-24, exactly */
        bits.f = (float)magnitude * 0x1p-24f;
        bits.u |= sign;
        return bits.f;
    }
    bits.u = sign | ((magnitude << 13) + ((127 - 15) << 23));
    return bits.f;
}

/* To nearest, ties to even; beyond 65504 to infinity. */
static inline uint16_t tutti_half_narrow(float value)
{
    union tutti_float_bits bits = {.f = value};
    uint32_t sign = bits.u >> 16 & 0x8000;
    uint32_t magnitude = bits.u & 0x7fffffff;

    if (magnitude > 0x7f800000) /* NaN: quiet, upper payload kept */
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x1ff));
    if (magnitude >= 0x477ff000) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* below 2^-14: subnormal. 0.5f has an ulp of 2^-24, so adding */
        bits.u = magnitude;       /* it lets the processor round to a multiple of that. */
        bits.f += 0.5f;
        return (uint16_t)(sign | (bits.u - 0x3f000000));
    }
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (magnitude - ((127 - 15) << 23)) >> 13);
}

#endif
