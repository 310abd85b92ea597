/* Arithmetic of the player's kernel, equal to runtime/data.h to the bit; a part of player.h, whose
 * words it uses. */
#ifndef TUTTI_RUNTIME_EXEC_CUDA_PLAYER_ARITHMETIC_H
#define TUTTI_RUNTIME_EXEC_CUDA_PLAYER_ARITHMETIC_H

#include <stdint.h>

#define PLAYER_NAN32 p_float(0x7fc00000u)
#define PLAYER_NAN64 p_double(0x7ff8000000000000u)

#define PLAYER_FLOAT_OPS(T, TYPE, NOT_A_NUMBER)                 \
    static P_DEV TYPE sum_##T(TYPE a, TYPE b)                   \
    {                                                           \
        TYPE c = a + b;                                         \
        return c == c ? c : NOT_A_NUMBER;                       \
    }                                                           \
    static P_DEV TYPE prod_##T(TYPE a, TYPE b)                  \
    {                                                           \
        TYPE c = a * b;                                         \
        return c == c ? c : NOT_A_NUMBER;                       \
    }                                                           \
    static P_DEV TYPE min_##T(TYPE a, TYPE b)                   \
    {                                                           \
        return a != a || b != b ? NOT_A_NUMBER : a < b ? a : b; \
    }                                                           \
    static P_DEV TYPE max_##T(TYPE a, TYPE b)                   \
    {                                                           \
        return a != a || b != b ? NOT_A_NUMBER : a > b ? a : b; \
    }

PLAYER_FLOAT_OPS(f32, float, PLAYER_NAN32)
PLAYER_FLOAT_OPS(f64, double, PLAYER_NAN64)

#define PLAYER_INTEGER_OPS(T, TYPE, UNSIGNED)               \
    static P_DEV TYPE sum_##T(TYPE a, TYPE b)               \
    {                                                       \
        return (TYPE)(UNSIGNED)((UNSIGNED)a + (UNSIGNED)b); \
    }                                                       \
    static P_DEV TYPE prod_##T(TYPE a, TYPE b)              \
    {                                                       \
        return (TYPE)(UNSIGNED)((UNSIGNED)a * (UNSIGNED)b); \
    }                                                       \
    static P_DEV TYPE min_##T(TYPE a, TYPE b)               \
    {                                                       \
        return a < b ? a : b;                               \
    }                                                       \
    static P_DEV TYPE max_##T(TYPE a, TYPE b)               \
    {                                                       \
        return a > b ? a : b;                               \
    }                                                       \
    static P_DEV TYPE divide_##T(TYPE a, uint32_t ranks)    \
    {                                                       \
        return (TYPE)((int64_t)a / (int64_t)ranks);         \
    }

PLAYER_INTEGER_OPS(i32, int32_t, uint32_t)
PLAYER_INTEGER_OPS(i64, int64_t, uint64_t)
PLAYER_INTEGER_OPS(i8, int8_t, uint8_t)
PLAYER_INTEGER_OPS(u8, uint8_t, uint8_t)

/* A NaN keeps its bits and becomes quiet, as the host's processors do. */
static P_DEV float divide_f32(float a, uint32_t ranks)
{
    return a == a ? a / (float)ranks : p_float(p_float_bits(a) | 0x400000u);
}

static P_DEV double divide_f64(double a, uint32_t ranks)
{
    return a == a ? a / (double)ranks : p_double(p_double_bits(a) | 0x8000000000000u);
}

static P_DEV float player_brain_widen(uint16_t brain)
{
    return p_float((uint32_t)brain << 16);
}

static P_DEV uint16_t player_brain_narrow(float value)
{
    uint32_t bits = p_float_bits(value);

    if (value != value)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define PLAYER_WIDE_OP(NAME, T, WIDEN, NARROW)               \
    static P_DEV uint16_t NAME##_##T(uint16_t a, uint16_t b) \
    {                                                        \
        return NARROW(NAME##_f32(WIDEN(a), WIDEN(b)));       \
    }

#define PLAYER_WIDE_OPS(T, WIDEN, NARROW)  \
    PLAYER_WIDE_OP(sum, T, WIDEN, NARROW)  \
    PLAYER_WIDE_OP(prod, T, WIDEN, NARROW) \
    PLAYER_WIDE_OP(min, T, WIDEN, NARROW)  \
    PLAYER_WIDE_OP(max, T, WIDEN, NARROW)

PLAYER_WIDE_OPS(f16, p_half_widen, p_half_narrow)
PLAYER_WIDE_OPS(b16, player_brain_widen, player_brain_narrow)

static P_DEV uint16_t divide_f16(uint16_t a, uint32_t ranks)
{
    if ((a & 0x7fff) > 0x7c00)
        return (uint16_t)(a | 0x200);
    return p_half_narrow(p_half_widen(a) / (float)ranks);
}

static P_DEV uint16_t divide_b16(uint16_t a, uint32_t ranks)
{
    if ((a & 0x7fff) > 0x7f80)
        return (uint16_t)(a | 0x40);
    return player_brain_narrow(player_brain_widen(a) / (float)ranks);
}

#define PLAYER_KEEP(VALUE, RANKS) (VALUE)

#endif
