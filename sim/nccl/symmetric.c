/* Symmetric kernels (NCCL 2.27 on): what would run were buffers registered as symmetric windows, by
 * a model of its own that no table knows (2.28 sym_kernels.cc, queryModel). */
#include <math.h>
#include <stddef.h>

#include "runtime/status.h"
#include "sim/nccl/tables.h"

enum { BLOCKS_MAX = 64, FIRST_VERSION = 22700 };

static const double gbyte_per_us = (1 << 30) / 1e6; /* NCCL's GB: 2^30 bytes, a second in us */

struct kernel {
    const char *name;
    uint8_t function; /* enum tutti_nccl_function */
    bool ll;
    bool multicast;                                  /* through the switch: needs NVLS */
    double (*bus_bytes)(double bytes, double ranks); /* of a rank's bytes */
    double share, share_by_rank; /* of a block's rate: their sum, the second times the ranks */
};

static double gathered_ll(double bytes, double ranks)
{
    return 9 * ranks * bytes; /* twice the bytes, and work beside */
}

static double all_reduced(double bytes, double ranks)
{
    return 2 * bytes * (ranks - 1) / ranks;
}

static double all_reduced_by_switch(double bytes, double ranks)
{
    return bytes / ranks + bytes;
}

static double moved(double bytes, double ranks)
{
    return (ranks - 1) * bytes;
}

static const struct kernel kernels[] = {
    {"AllReduce_AGxLL_R", TUTTI_NCCL_ALLREDUCE, true, false, gathered_ll, 1, 0},
    {"AllReduce_AGxLLMC_R", TUTTI_NCCL_ALLREDUCE, true, true, gathered_ll, 1.1, 0},
    {"AllReduce_RSxLD_AGxST", TUTTI_NCCL_ALLREDUCE, false, false, all_reduced, 1, 0},
    {"AllReduce_RSxLDMC_AGxSTMC", TUTTI_NCCL_ALLREDUCE, false, true, all_reduced_by_switch, 0, 1},
    {"AllGather_LL", TUTTI_NCCL_ALLGATHER, true, false, gathered_ll, 1, 0},
    {"AllGather_LLMC", TUTTI_NCCL_ALLGATHER, true, true, gathered_ll, 1.1, 0},
    {"AllGather_ST", TUTTI_NCCL_ALLGATHER, false, false, moved, 1, 0},
    {"AllGather_STMC", TUTTI_NCCL_ALLGATHER, false, true, moved, 0, 0.55},
    {"ReduceScatter_LL", TUTTI_NCCL_REDUCESCATTER, true, false, gathered_ll, 1, 0},
    {"ReduceScatter_LD", TUTTI_NCCL_REDUCESCATTER, false, false, moved, 1, 0},
    {"ReduceScatter_LDMC", TUTTI_NCCL_REDUCESCATTER, false, true, moved, 0, 0.55},
};

/* Smooth forms of min(x, ceiling) and max(0, x). */
static double soft_min(double x, double ceiling, double softness)
{
    return ceiling - softness * log1p((exp(ceiling / softness) - 1) * exp(-x / softness));
}

static double soft_plus(double x)
{
    return x >= 100 ? x : log1p(exp(x));
}

/* Rates of a GPU: of a block, and of all at most, in bytes a us. */
static double block_rate(const struct kernel *kernel, bool blackwell)
{
    if (blackwell)
        return 55 * gbyte_per_us;
    return (kernel->function == TUTTI_NCCL_ALLREDUCE ? 65 : 44) * gbyte_per_us;
}

static double peak_rate(const struct kernel *kernel, bool blackwell)
{
    bool fused = kernel->function == TUTTI_NCCL_ALLREDUCE && kernel->multicast && !kernel->ll;

    if (blackwell)
        return (fused ? 1000 : 600) * gbyte_per_us;
    return (fused ? 480 : 320) * gbyte_per_us;
}

static double base_us(const struct kernel *kernel, bool blackwell)
{
    if (!blackwell)
        return kernel->ll ? 4.5 : 7.8;
    if (kernel->ll)
        return kernel->function == TUTTI_NCCL_ALLGATHER ? 8.5 : 11;
    return kernel->function == TUTTI_NCCL_ALLREDUCE ? 19.5 : 13;
}

static double time_us(const struct kernel *kernel, bool blackwell, double bytes, double ranks,
                      uint32_t block_count)
{
    double block = block_rate(kernel, blackwell);
    double share = kernel->share + kernel->share_by_rank * ranks;
    double rate = soft_min(block_count * block * share, peak_rate(kernel, blackwell), block);

    return base_us(kernel, blackwell) + soft_plus(kernel->bus_bytes(bytes, ranks) / rate - 1);
}

static uint32_t block_limit(const struct kernel *kernel, bool blackwell, uint32_t rank_count)
{
    uint32_t blocks = blackwell ? 32 : 16;

    if (!kernel->multicast || kernel->ll)
        return BLOCKS_MAX;
    return (blocks + rank_count - 1) / rank_count;
}

/* The fewest blocks that come within 2.5 % of what all of them take. */
static struct tutti_nccl_symmetric fit_blocks(const struct kernel *kernel, bool blackwell,
                                              double bytes, uint32_t rank_count)
{
    struct tutti_nccl_symmetric fit = {.kernel = kernel->name};
    uint32_t limit = block_limit(kernel, blackwell, rank_count);
    double all = time_us(kernel, blackwell, bytes, rank_count, limit);

    fit.block_count = 1;
    while (fit.block_count < limit &&
           time_us(kernel, blackwell, bytes, rank_count, fit.block_count) > 1.025 * all)
        fit.block_count++;
    fit.time_us = time_us(kernel, blackwell, bytes, rank_count, fit.block_count);
    return fit;
}

static const char *barred(const struct tutti_nccl_comm *comm, int function, enum tutti_dtype dtype,
                          enum tutti_op op)
{
    bool adds = function == TUTTI_NCCL_ALLREDUCE || function == TUTTI_NCCL_REDUCESCATTER;
    bool added = dtype == TUTTI_FLOAT32 || dtype == TUTTI_FLOAT16 || dtype == TUTTI_BFLOAT16;

    if (comm->version->number < FIRST_VERSION)
        return "this version has none (2.27 on)";
    if (!adds && function != TUTTI_NCCL_ALLGATHER)
        return "not for this collective (allreduce, reducescatter or allgather)";
    if (adds && (op != TUTTI_SUM || !added))
        return "not for this type and operator (sum of float, half or bfloat16)";
    if (comm->node_count > 1 || comm->rank_count < 2 || !comm->tables->facts.nvlink_all)
        return "not here (several GPUs of one node, all reached over NVLink)";
    return NULL;
}

/* NCCL bars LL kernels from 2^31 bytes on, where they move 18 times the bytes of others and more,
 * and so are never the best anyway. */
int tutti_nccl_symmetric(const struct tutti_nccl_comm *comm, enum tutti_collective collective,
                         enum tutti_dtype dtype, enum tutti_op op, uint64_t bytes,
                         struct tutti_nccl_symmetric *ret, struct tutti_err *err)
{
    int function = tutti_nccl_function_of(collective);
    const char *why = barred(comm, function, dtype, op);
    bool blackwell = comm->tables->facts.compute_min >= 100;
    struct tutti_nccl_symmetric best = {.kernel = NULL};

    if (why != NULL)
        return tutti_fail(err, TUTTI_EINVAL, "no symmetric kernel for '%s': %s",
                          tutti_collective_name(collective), why);
    if (function != TUTTI_NCCL_ALLREDUCE)
        bytes /= comm->rank_count;
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        struct tutti_nccl_symmetric fit;

        if (kernels[i].function != function ||
            (kernels[i].multicast && comm->nvls_channel_count == 0))
            continue;
        fit = fit_blocks(&kernels[i], blackwell, (double)bytes, comm->rank_count);
        if (best.kernel == NULL || fit.time_us * (1 + 0.025 * fit.block_count) <
                                       best.time_us * (1 + 0.025 * best.block_count))
            best = fit;
    }
    *ret = best;
    return 0;
}
