/* The player's kernel, in the common part of C11 and CUDA C++: a block plays a lane. Whoever
 * includes it has defined its words (device.h for nvcc, tests/gpu/player_cpu.h for a C compiler):
 *
 *   P_DEV P_KERNEL(name)                  how functions and kernels begin
 *   P_APART                               before a function that is not put in its callers' place
 *   P_CTX P_PASS                          what a function gets first and passes on; a device: none
 *   P_TID P_NTID P_BID P_NBLOCKS          which thread and block of how many
 *   P_SYNC()                              the threads of a block meet; what each wrote, all see
 *   P_SHARED(type, name)                  memory of the block
 *   P_SPINS                               looks at a counter between two looks at the clock
 *   P_UNROLL                              before a loop of constant length
 *   p_vec                                 16 bytes, moved at once
 *   p_ld_acquire p_st_release p_add_release  counters that other blocks read
 *   p_ld_acquire_system p_st_release_system  those that the host or another device reads and stores
 *   p_ld_flag p_st_flag p_claim           words where order does not matter; who is first
 *   p_ld_line p_st_line                   16 bytes of 2 words and their flags, each pair at once
 *   p_ld_host                             a word of the host's
 *   p_now_ns p_pause                      the clock; between two looks
 *   p_half_widen p_half_narrow            binary16
 *   p_float p_double                      floats of their bits
 *
 * One thread looks at each counter that an operation waits for; the block's barrier passes on what
 * that thread acquired. After the data another barrier, and threads store with release: all that
 * the block wrote comes before. Operations are fetched in batches: to read each from the device's
 * memory when its turn comes would take as long as what it does. */
#ifndef TUTTI_RUNTIME_EXEC_CUDA_PLAYER_H
#define TUTTI_RUNTIME_EXEC_CUDA_PLAYER_H

#include "runtime/exec/cuda/op.h"
#include "runtime/exec/cuda/player_arithmetic.h"

enum { PLAYER_BATCH = 32 }; /* operations fetched at a time */

struct player_shared {
    union {
        struct tutti_cuda_op op;
        p_vec words[sizeof(struct tutti_cuda_op) / 16];
    } ops[PLAYER_BATCH];
    uint32_t stop[2];      /* by the parity of the operation: somebody has given up waiting */
    uint32_t line_stop[2]; /* likewise, for a line */
};

/* ---- waiting --------------------------------------------------------------------------------- */

static P_DEV uint64_t player_value(uint32_t iteration, uint32_t value)
{
    return (uint64_t)iteration << 32 | value;
}

/* Whether to leave, who has waited so long; then it is written down for what. */
static P_DEV int player_leaves(P_CTX const struct tutti_cuda_args *args, uint64_t waited_ns,
                               uint32_t op, uint32_t wait)
{
    struct tutti_cuda_verdict *verdict = &args->verdicts[P_BID];

    if (waited_ns > args->deadline_ns)
        p_st_flag(args->stop, 1);
    if (p_ld_host(args->abort) == 0 && p_ld_flag(args->stop) == 0)
        return 0;
    if (p_claim(&verdict->given)) {
        verdict->op = op;
        verdict->wait = wait;
    }
    return 1;
}

/* 0: the counter has come; else to leave. `far`: another device, or the host, stores it. */
static P_DEV int player_wait(P_CTX const struct tutti_cuda_args *args, const uint64_t *counter,
                             int far, uint64_t value, uint32_t op, uint32_t wait)
{
    uint64_t since_ns = 0;
    uint32_t spins = 0;

    while ((far ? p_ld_acquire_system(counter) : p_ld_acquire(counter)) < value) {
        uint64_t now_ns;

        if (++spins % P_SPINS != 0) {
            p_pause();
            continue;
        }
        now_ns = p_now_ns();
        since_ns = since_ns == 0 ? now_ns : since_ns;
        if (player_leaves(P_PASS args, now_ns - since_ns, op, wait))
            return 1;
    }
    return 0;
}

/* The 8 bytes of a line, once both halves are of this iteration; false: to leave. */
static P_DEV int player_read_line(P_CTX const struct tutti_cuda_args *args, uint64_t at,
                                  uint32_t iteration, uint32_t op, uint32_t wait, uint64_t *ret)
{
    uint64_t since_ns = 0;
    uint32_t spins = 0;

    while (!p_ld_line(at, iteration, ret)) {
        uint64_t now_ns;

        if (++spins % P_SPINS != 0) {
            p_pause();
            continue;
        }
        now_ns = p_now_ns();
        since_ns = since_ns == 0 ? now_ns : since_ns;
        if (player_leaves(P_PASS args, now_ns - since_ns, op, wait))
            return 0;
    }
    return 1;
}

/* ---- moving bytes ---------------------------------------------------------------------------- */

/* Bytes from the first place on until it is a multiple of 16; all of them if places differ. */
static P_DEV uint64_t player_head(const struct tutti_cuda_op *op)
{
    uint64_t first = op->dst[0];
    uint64_t differ = 0;
    uint64_t head = (16 - first % 16) % 16;

    for (uint32_t i = 0; i < op->src_count; i++)
        differ |= first ^ op->src[i];
    for (uint32_t i = 0; i < op->dst_count; i++)
        differ |= first ^ op->dst[i];
    return differ % 16 != 0 || head > op->bytes ? op->bytes : head;
}

static P_DEV void player_copy_vectors(P_CTX const struct tutti_cuda_op *op, uint64_t from,
                                      uint64_t count)
{
    const p_vec *src = (const p_vec *)(uintptr_t)(op->src[0] + from);
    uint64_t i = P_TID;

    for (; i + 3 * (uint64_t)P_NTID < count; i += 4 * (uint64_t)P_NTID) {
        p_vec value[4];

        P_UNROLL
        for (int k = 0; k < 4; k++)
            value[k] = src[i + (uint64_t)k * P_NTID];
        for (uint32_t d = 0; d < op->dst_count; d++) {
            p_vec *dst = (p_vec *)(uintptr_t)(op->dst[d] + from);

            P_UNROLL
            for (int k = 0; k < 4; k++)
                dst[i + (uint64_t)k * P_NTID] = value[k];
        }
    }
    for (; i < count; i += P_NTID)
        for (uint32_t d = 0; d < op->dst_count; d++)
            ((p_vec *)(uintptr_t)(op->dst[d] + from))[i] = src[i];
}

/* Bytes [from, end), by words of 4 if places are such. */
static P_DEV void player_copy_bytes(P_CTX const struct tutti_cuda_op *op, uint64_t from,
                                    uint64_t end)
{
    uint64_t places = op->src[0] + from;
    uint64_t word = 0;

    for (uint32_t d = 0; d < op->dst_count; d++)
        places |= op->dst[d] + from;
    if (places % 4 == 0)
        word = (end - from) / 4;
    for (uint64_t i = P_TID; i < word; i += P_NTID)
        for (uint32_t d = 0; d < op->dst_count; d++)
            ((uint32_t *)(uintptr_t)(op->dst[d] + from))[i] =
                ((const uint32_t *)(uintptr_t)(op->src[0] + from))[i];
    for (uint64_t i = from + word * 4 + P_TID; i < end; i += P_NTID)
        for (uint32_t d = 0; d < op->dst_count; d++)
            *(uint8_t *)(uintptr_t)(op->dst[d] + i) = *(const uint8_t *)(uintptr_t)(op->src[0] + i);
}

static P_DEV void player_copy(P_CTX const struct tutti_cuda_op *op)
{
    uint64_t head = player_head(op);
    uint64_t vectors = (op->bytes - head) / 16;

    player_copy_bytes(P_PASS op, 0, head);
    player_copy_vectors(P_PASS op, head, vectors);
    player_copy_bytes(P_PASS op, head + vectors * 16, op->bytes);
}

/* ---- an operation with data, for each type and operator -------------------------------------- */

/* NAME_two: 16 bytes of elements combined. NAME_some: elements one by one, where places are badly
 * aligned, and before and behind the vectors. NAME_pairs: two sources into one place, several
 * vectors on their way at a time. NAME_vectors: any number. NAME_lines: 8 bytes at a time, where
 * some places are lines; true: to leave. */
#define PLAYER_REDUCE(NAME, TYPE, TWO, FINISH)                                                  \
    union NAME##_vector {                                                                       \
        p_vec vector;                                                                           \
        TYPE at[16 / sizeof(TYPE)];                                                             \
    };                                                                                          \
    union NAME##_unit {                                                                         \
        uint64_t word;                                                                          \
        TYPE at[8 / sizeof(TYPE)];                                                              \
    };                                                                                          \
    static P_DEV p_vec NAME##_two(p_vec left, p_vec right)                                      \
    {                                                                                           \
        union NAME##_vector a;                                                                  \
        union NAME##_vector b;                                                                  \
        a.vector = left;                                                                        \
        b.vector = right;                                                                       \
        P_UNROLL                                                                                \
        for (int i = 0; i < (int)(16 / sizeof(TYPE)); i++)                                      \
            a.at[i] = TWO(a.at[i], b.at[i]);                                                    \
        return a.vector;                                                                        \
    }                                                                                           \
    static P_DEV p_vec NAME##_finish(p_vec value, uint32_t ranks)                               \
    {                                                                                           \
        union NAME##_vector a;                                                                  \
        (void)ranks;                                                                            \
        a.vector = value;                                                                       \
        P_UNROLL                                                                                \
        for (int i = 0; i < (int)(16 / sizeof(TYPE)); i++)                                      \
            a.at[i] = FINISH(a.at[i], ranks);                                                   \
        return a.vector;                                                                        \
    }                                                                                           \
    static P_DEV void NAME##_some(P_CTX const struct tutti_cuda_op *op, uint64_t from,          \
                                  uint64_t end)                                                 \
    {                                                                                           \
        for (uint64_t i = from + P_TID * sizeof(TYPE); i < end; i += P_NTID * sizeof(TYPE)) {   \
            TYPE value = *(const TYPE *)(uintptr_t)(op->src[0] + i);                            \
            for (uint32_t s = 1; s < op->src_count; s++)                                        \
                value = TWO(value, *(const TYPE *)(uintptr_t)(op->src[s] + i));                 \
            if (op->divide_by > 0)                                                              \
                value = FINISH(value, op->divide_by);                                           \
            for (uint32_t d = 0; d < op->dst_count; d++)                                        \
                *(TYPE *)(uintptr_t)(op->dst[d] + i) = value;                                   \
        }                                                                                       \
    }                                                                                           \
    static P_DEV uint64_t NAME##_pairs(P_CTX const struct tutti_cuda_op *op, uint64_t from,     \
                                       uint64_t count)                                          \
    {                                                                                           \
        const p_vec *left = (const p_vec *)(uintptr_t)(op->src[0] + from);                      \
        const p_vec *right = (const p_vec *)(uintptr_t)(op->src[1] + from);                     \
        p_vec *dst = (p_vec *)(uintptr_t)(op->dst[0] + from);                                   \
        uint64_t i = P_TID;                                                                     \
        for (; i + 3 * (uint64_t)P_NTID < count; i += 4 * (uint64_t)P_NTID) {                   \
            p_vec a[4];                                                                         \
            p_vec b[4];                                                                         \
            P_UNROLL                                                                            \
            for (int k = 0; k < 4; k++) {                                                       \
                a[k] = left[i + (uint64_t)k * P_NTID];                                          \
                b[k] = right[i + (uint64_t)k * P_NTID];                                         \
            }                                                                                   \
            P_UNROLL                                                                            \
            for (int k = 0; k < 4; k++)                                                         \
                dst[i + (uint64_t)k * P_NTID] = NAME##_two(a[k], b[k]);                         \
        }                                                                                       \
        return i;                                                                               \
    }                                                                                           \
    static P_DEV void NAME##_vectors(P_CTX const struct tutti_cuda_op *op, uint64_t from,       \
                                     uint64_t begin, uint64_t count)                            \
    {                                                                                           \
        uint32_t sources = op->src_count;                                                       \
        uint32_t targets = op->dst_count;                                                       \
        for (uint64_t i = begin; i < count; i += P_NTID) {                                      \
            p_vec value[TUTTI_CUDA_SOURCES_MAX];                                                \
            P_UNROLL                                                                            \
            for (int s = 0; s < TUTTI_CUDA_SOURCES_MAX; s++)                                    \
                if (s == 0 || (uint32_t)s < sources)                                            \
                    value[s] = ((const p_vec *)(uintptr_t)(op->src[s] + from))[i];              \
            P_UNROLL                                                                            \
            for (int s = 1; s < TUTTI_CUDA_SOURCES_MAX; s++)                                    \
                if ((uint32_t)s < sources)                                                      \
                    value[0] = NAME##_two(value[0], value[s]);                                  \
            if (op->divide_by > 0)                                                              \
                value[0] = NAME##_finish(value[0], op->divide_by);                              \
            P_UNROLL                                                                            \
            for (int d = 0; d < TUTTI_CUDA_TARGETS_MAX; d++)                                    \
                if (d == 0 || (uint32_t)d < targets)                                            \
                    ((p_vec *)(uintptr_t)(op->dst[d] + from))[i] = value[0];                    \
        }                                                                                       \
    }                                                                                           \
    static P_DEV int NAME##_source(P_CTX const struct tutti_cuda_args *args,                    \
                                   const struct tutti_cuda_op *op, uint32_t s, uint64_t i,      \
                                   uint32_t number, uint32_t iteration, union NAME##_unit *ret) \
    {                                                                                           \
        const TYPE *from = (const TYPE *)(uintptr_t)(op->src[s] + i);                           \
        uint64_t left = op->bytes - i;                                                          \
        ret->word = 0;                                                                          \
        if ((op->lines >> s & 1) != 0)                                                          \
            return player_read_line(P_PASS args, op->src[s] + 2 * i, iteration, number,         \
                                    TUTTI_CUDA_LINE | s, &ret->word);                           \
        P_UNROLL                                                                                \
        for (int k = 0; k < (int)(8 / sizeof(TYPE)); k++)                                       \
            if ((uint64_t)k * sizeof(TYPE) < left)                                              \
                ret->at[k] = from[k];                                                           \
        return 1;                                                                               \
    }                                                                                           \
    static P_DEV int NAME##_lines(P_CTX const struct tutti_cuda_args *args,                     \
                                  const struct tutti_cuda_op *op, uint32_t number,              \
                                  uint32_t iteration)                                           \
    {                                                                                           \
        for (uint64_t i = P_TID * 8; i < op->bytes || i == 0; i += P_NTID * 8) {                \
            union NAME##_unit value;                                                            \
            union NAME##_unit next;                                                             \
            uint64_t left = op->bytes - i;                                                      \
            value.word = 0;                                                                     \
            if (op->src_count > 0 &&                                                            \
                !NAME##_source(P_PASS args, op, 0, i, number, iteration, &value))               \
                return 1;                                                                       \
            for (uint32_t s = 1; s < op->src_count; s++) {                                      \
                if (!NAME##_source(P_PASS args, op, s, i, number, iteration, &next))            \
                    return 1;                                                                   \
                P_UNROLL                                                                        \
                for (int k = 0; k < (int)(8 / sizeof(TYPE)); k++)                               \
                    value.at[k] = TWO(value.at[k], next.at[k]);                                 \
            }                                                                                   \
            P_UNROLL                                                                            \
            for (int k = 0; k < (int)(8 / sizeof(TYPE)); k++)                                   \
                if (op->divide_by > 0)                                                          \
                    value.at[k] = FINISH(value.at[k], op->divide_by);                           \
            for (uint32_t d = 0; d < op->dst_count; d++) /* others wait for lines */            \
                if ((op->lines >> (16 + d) & 1) != 0)                                           \
                    p_st_line(op->dst[d] + 2 * i, value.word, iteration);                       \
            if (op->dst_count == 0 || (op->lines >> 16 & 1) != 0)                               \
                continue;                                                                       \
            P_UNROLL                                                                            \
            for (int k = 0; k < (int)(8 / sizeof(TYPE)); k++)                                   \
                if ((uint64_t)k * sizeof(TYPE) < left)                                          \
                    ((TYPE *)(uintptr_t)(op->dst[0] + i))[k] = value.at[k];                     \
        }                                                                                       \
        return 0;                                                                               \
    }                                                                                           \
    static P_DEV void NAME##_data(P_CTX const struct tutti_cuda_op *op)                         \
    {                                                                                           \
        uint64_t head = player_head(op);                                                        \
        uint64_t count = (op->bytes - head) / 16;                                               \
        uint64_t begin = P_TID;                                                                 \
        if (op->src_count == 1 && op->divide_by == 0) {                                         \
            player_copy(P_PASS op);                                                             \
            return;                                                                             \
        }                                                                                       \
        NAME##_some(P_PASS op, 0, head);                                                        \
        if (op->src_count == 2 && op->dst_count == 1 && op->divide_by == 0)                     \
            begin = NAME##_pairs(P_PASS op, head, count);                                       \
        NAME##_vectors(P_PASS op, head, begin, count);                                          \
        NAME##_some(P_PASS op, head + count * 16, op->bytes);                                   \
    }

/* ---- a lane ---------------------------------------------------------------------------------- */

/* The operations from `first` on. All threads are done with those before. */
static P_DEV void player_fetch(P_CTX struct player_shared *shared,
                               const struct tutti_cuda_args *args,
                               const struct tutti_cuda_lane *lane, uint32_t first)
{
    const uint32_t words = sizeof(struct tutti_cuda_op) / 16;
    const p_vec *from = (const p_vec *)&args->ops[lane->op_first + first];
    uint32_t count = lane->op_count - first < PLAYER_BATCH ? lane->op_count - first : PLAYER_BATCH;

    P_SYNC();
    for (uint32_t i = P_TID; i < count * words; i += P_NTID)
        shared->ops[i / words].words[i % words] = from[i];
    P_SYNC();
}

/* Asks the host and waits until it has done it, however long that takes; true: to leave. */
static P_DEV int player_ask(P_CTX struct player_shared *shared, const struct tutti_cuda_args *args,
                            uint32_t number, uint32_t iteration)
{
    struct tutti_cuda_request *request = &args->requests[P_BID];
    const uint64_t asked = player_value(iteration, number + 1);

    P_SYNC();
    if (P_TID == 0) {
        p_st_release_system(&request->asked, asked);
        while (p_ld_acquire_system(&request->answered) < asked) {
            p_pause();
            if (player_leaves(P_PASS args, 0, number, TUTTI_CUDA_HOST)) {
                p_st_flag(&shared->stop[number % 2], 1);
                break;
            }
        }
    }
    P_SYNC();
    return p_ld_flag(&shared->stop[number % 2]) != 0;
}

/* Whether it is stored by one device and waited for by another. */
static P_DEV int player_is_far(uint32_t counter)
{
    return counter >> TUTTI_CUDA_COUNTER_BITS != 0;
}

static P_DEV uint64_t *player_counter(const struct tutti_cuda_args *args, uint32_t counter)
{
    const uint32_t number = counter & (TUTTI_CUDA_COUNTERS_MAX - 1);

    if (!player_is_far(counter))
        return &args->counters[number].value;
    return &args->far[(counter >> TUTTI_CUDA_COUNTER_BITS) - 1][number].value;
}

static P_DEV void player_pass_time(uint64_t duration_ns)
{
    uint64_t since_ns = duration_ns > 0 ? p_now_ns() : 0;

    while (duration_ns > 0 && p_now_ns() - since_ns < duration_ns)
        p_pause();
}

/* Waits; true: to leave. All threads get the same answer. */
static P_DEV int player_begin(P_CTX struct player_shared *shared,
                              const struct tutti_cuda_args *args, const struct tutti_cuda_op *op,
                              uint32_t number, uint32_t iteration)
{
    if (op->wait_count == 0) /* what came before is there since the barrier at its end */
        return 0;
    for (uint32_t i = P_TID; i < op->wait_count; i += P_NTID) {
        const struct tutti_cuda_flag flag =
            op->flagged ? op->flags[i] : args->waits[op->wait_first + i];

        if (player_wait(P_PASS args, player_counter(args, flag.counter),
                        player_is_far(flag.counter), player_value(iteration, flag.value), number,
                        i) == 0)
            continue;
        p_st_flag(&shared->stop[number % 2], 1);
        break;
    }
    P_SYNC();
    return p_ld_flag(&shared->stop[number % 2]) != 0;
}

static P_DEV void player_end(P_CTX const struct tutti_cuda_args *args,
                             const struct tutti_cuda_op *op, uint32_t iteration)
{
    for (uint32_t i = P_TID; i < op->signal_count; i += P_NTID) {
        const struct tutti_cuda_flag flag =
            op->flagged ? op->flags[op->wait_count + i] : args->signals[op->signal_first + i];

        if (player_is_far(flag.counter))
            p_st_release_system(player_counter(args, flag.counter),
                                player_value(iteration, flag.value));
        else
            p_st_release(player_counter(args, flag.counter), player_value(iteration, flag.value));
    }
}

/* The first block of each device, once all of its device have come, meets those of the others, and
 * then comes a second time. Nobody waits for a launch that is not yet put on a stream: the host
 * launches on all devices before it looks at any. True: to leave. */
static P_DEV int player_meet_far(P_CTX const struct tutti_cuda_args *args, uint64_t all,
                                 uint32_t number)
{
    const uint64_t round = args->gate_base + number + 1;
    int leaves = player_wait(P_PASS args, &args->meeting->value, 0, all, TUTTI_CUDA_MEETING, 0);

    if (!leaves)
        p_st_release_system(&args->gates[args->gpu].value, round);
    for (uint32_t g = 0; g < args->gpu_count && !leaves; g++)
        leaves =
            player_wait(P_PASS args, &args->gates[g].value, 1, round, TUTTI_CUDA_MEETING, 1 + g);
    if (!leaves)
        p_add_release(&args->meeting->value);
    return leaves;
}

/* All blocks meet; true: to leave. */
static P_DEV int player_meet(P_CTX struct player_shared *shared, const struct tutti_cuda_args *args,
                             uint32_t number)
{
    P_SYNC();
    if (P_TID == 0) {
        const uint32_t far = args->gpu_count > 1;
        const uint64_t all = args->meeting_base + (uint64_t)(number + 1) * (P_NBLOCKS + far);

        shared->stop[0] = shared->stop[1] = shared->line_stop[0] = shared->line_stop[1] = 0;
        p_add_release(&args->meeting->value);
        if (far && P_BID == 0 && player_meet_far(P_PASS args, all - 1, number))
            shared->stop[0] = 1;
        else if (player_wait(P_PASS args, &args->meeting->value, 0, all, TUTTI_CUDA_MEETING, 0))
            shared->stop[0] = 1;
        else if (P_BID == 0)
            args->meetings_ns[number] = p_now_ns();
    }
    P_SYNC();
    return shared->stop[0] != 0;
}

/* The lane once; true: to leave. */
#define PLAYER_LANE(NAME)                                                                          \
    static P_DEV int NAME##_lane(P_CTX struct player_shared *shared,                               \
                                 const struct tutti_cuda_args *args, uint32_t iteration, int last) \
    {                                                                                              \
        const struct tutti_cuda_lane lane = args->lanes[P_BID];                                    \
        for (uint32_t i = 0; i < lane.op_count; i++) {                                             \
            const struct tutti_cuda_op *op = &shared->ops[i % PLAYER_BATCH].op;                    \
            uint64_t begin_ns;                                                                     \
            if (i % PLAYER_BATCH == 0)                                                             \
                player_fetch(P_PASS shared, args, &lane, i);                                       \
            if (player_begin(P_PASS shared, args, op, i, iteration))                               \
                return 1;                                                                          \
            begin_ns = args->stamps != P_NULL && last ? p_now_ns() : 0;                            \
            if (op->lines != 0 && NAME##_lines(P_PASS args, op, i, iteration))                     \
                p_st_flag(&shared->line_stop[i % 2], 1);                                           \
            else if (op->lines == 0 && op->src_count > 0)                                          \
                NAME##_data(P_PASS op);                                                            \
            player_pass_time(op->duration_ns);                                                     \
            if (op->asks && player_ask(P_PASS shared, args, i, iteration))                         \
                return 1;                                                                          \
            P_SYNC();                                                                              \
            if (op->lines != 0 && p_ld_flag(&shared->line_stop[i % 2]) != 0)                       \
                return 1;                                                                          \
            if (args->stamps != P_NULL && last && P_TID == 0) {                                    \
                args->stamps[lane.op_first + i].begin_ns = begin_ns;                               \
                args->stamps[lane.op_first + i].end_ns = p_now_ns();                               \
            }                                                                                      \
            player_end(P_PASS args, op, iteration);                                                \
        }                                                                                          \
        return 0;                                                                                  \
    }

#define PLAYER_PROGRAM(NAME)                                                                     \
    PLAYER_LANE(NAME)                                                                            \
    P_KERNEL(tutti_play_##NAME)                                                                  \
    {                                                                                            \
        P_SHARED(struct player_shared, shared);                                                  \
        if (P_TID == 0)                                                                          \
            shared->stop[0] = shared->stop[1] = shared->line_stop[0] = shared->line_stop[1] = 0; \
        P_SYNC();                                                                                \
        if ((args.iteration_count > 1 || args.gpu_count > 1) &&                                  \
            player_meet(P_PASS shared, &args, 0))                                                \
            return;                                                                              \
        for (uint32_t i = 0; i < args.iteration_count; i++) {                                    \
            if (NAME##_lane(P_PASS shared, &args, args.iteration + i,                            \
                            i + 1 == args.iteration_count))                                      \
                return;                                                                          \
            if (args.iteration_count > 1 && player_meet(P_PASS shared, &args, i + 1))            \
                return;                                                                          \
        }                                                                                        \
    }

#define PLAYER_INSTANCE(NAME, TYPE, TWO, FINISH) \
    PLAYER_REDUCE(NAME, TYPE, TWO, FINISH)       \
    PLAYER_PROGRAM(NAME)

#define PLAYER_TYPE(NAME, T, TYPE)                            \
    PLAYER_INSTANCE(NAME##_sum, TYPE, sum_##T, PLAYER_KEEP)   \
    PLAYER_INSTANCE(NAME##_prod, TYPE, prod_##T, PLAYER_KEEP) \
    PLAYER_INSTANCE(NAME##_min, TYPE, min_##T, PLAYER_KEEP)   \
    PLAYER_INSTANCE(NAME##_max, TYPE, max_##T, PLAYER_KEEP)   \
    PLAYER_INSTANCE(NAME##_avg, TYPE, sum_##T, divide_##T)

PLAYER_TYPE(float, f32, float)
PLAYER_TYPE(double, f64, double)
PLAYER_TYPE(half, f16, uint16_t)
PLAYER_TYPE(bfloat16, b16, uint16_t)
PLAYER_TYPE(int32, i32, int32_t)
PLAYER_TYPE(int64, i64, int64_t)
PLAYER_TYPE(int8, i8, int8_t)
PLAYER_TYPE(uint8, u8, uint8_t)

#include "runtime/exec/cuda/player_mixed.h"

#endif
