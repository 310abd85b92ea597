/* The kernel for plans of several types or operators: each is a function, which a switch calls.
 * Slower than a kernel of one type, and small. The end of player.h, whose words it uses. */
#ifndef TUTTI_RUNTIME_EXEC_CUDA_PLAYER_MIXED_H
#define TUTTI_RUNTIME_EXEC_CUDA_PLAYER_MIXED_H

#define PLAYER_MIXED(NAME)                                                                     \
    P_APART void NAME##_apart(P_CTX const struct tutti_cuda_op *op)                            \
    {                                                                                          \
        uint64_t head = player_head(op);                                                       \
        uint64_t count = (op->bytes - head) / 16;                                              \
        NAME##_some(P_PASS op, 0, head);                                                       \
        for (uint64_t i = P_TID; i < count; i += P_NTID) {                                     \
            p_vec value = ((const p_vec *)(uintptr_t)(op->src[0] + head))[i];                  \
            for (uint32_t s = 1; s < op->src_count; s++)                                       \
                value = NAME##_two(value, ((const p_vec *)(uintptr_t)(op->src[s] + head))[i]); \
            if (op->divide_by > 0)                                                             \
                value = NAME##_finish(value, op->divide_by);                                   \
            for (uint32_t d = 0; d < op->dst_count; d++)                                       \
                ((p_vec *)(uintptr_t)(op->dst[d] + head))[i] = value;                          \
        }                                                                                      \
        NAME##_some(P_PASS op, head + count * 16, op->bytes);                                  \
    }

#define PLAYER_MIXED_TYPE(NAME) \
    PLAYER_MIXED(NAME##_avg)    \
    PLAYER_MIXED(NAME##_prod)   \
    PLAYER_MIXED(NAME##_min)    \
    PLAYER_MIXED(NAME##_max)

PLAYER_MIXED_TYPE(float)
PLAYER_MIXED_TYPE(double)
PLAYER_MIXED_TYPE(half)
PLAYER_MIXED_TYPE(bfloat16)
PLAYER_MIXED_TYPE(int32)
PLAYER_MIXED_TYPE(int64)
PLAYER_MIXED_TYPE(int8)
PLAYER_MIXED_TYPE(uint8)

#define PLAYER_CASES(DTYPE, NAME)             \
    case (DTYPE)*TUTTI_OP_COUNT + TUTTI_SUM:  \
        NAME##_avg_apart(P_PASS op);          \
        break;                                \
    case (DTYPE)*TUTTI_OP_COUNT + TUTTI_PROD: \
        NAME##_prod_apart(P_PASS op);         \
        break;                                \
    case (DTYPE)*TUTTI_OP_COUNT + TUTTI_MIN:  \
        NAME##_min_apart(P_PASS op);          \
        break;                                \
    case (DTYPE)*TUTTI_OP_COUNT + TUTTI_MAX:  \
        NAME##_max_apart(P_PASS op);          \
        break;

static P_DEV void mixed_data(P_CTX const struct tutti_cuda_op *op)
{
    if (op->src_count == 1 && op->divide_by == 0) {
        player_copy(P_PASS op);
        return;
    }
    switch (op->code) {
        PLAYER_CASES(TUTTI_FLOAT32, float)
        PLAYER_CASES(TUTTI_FLOAT64, double)
        PLAYER_CASES(TUTTI_FLOAT16, half)
        PLAYER_CASES(TUTTI_BFLOAT16, bfloat16)
        PLAYER_CASES(TUTTI_INT32, int32)
        PLAYER_CASES(TUTTI_INT64, int64)
        PLAYER_CASES(TUTTI_INT8, int8)
        PLAYER_CASES(TUTTI_UINT8, uint8)
    default:
        break;
    }
}

/* Such a plan has no lines. */
static P_DEV int mixed_lines(P_CTX const struct tutti_cuda_args *args,
                             const struct tutti_cuda_op *op, uint32_t number, uint32_t iteration)
{
    (void)P_TID;
    (void)args;
    (void)op;
    (void)number;
    (void)iteration;
    return 0;
}

PLAYER_PROGRAM(mixed)

#endif
