/* NCCL's choice: the least of its own estimates (NCCL 2.28 graph/tuning.cc ncclTopoGetAlgoTime,
 * enqueue.cc topoGetAlgoInfo). */
#include <assert.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/nccl/cut.h"
#include "sim/nccl/plugin.h"
#include "sim/nccl/rccl.h"
#include "topo/hardware.h"

enum { COLLNET_RANKS_MAX = 8, NVLS_RANKS_MAX = 32 };

/* What an operation is, and of what. */
struct question {
    const struct tutti_nccl_comm *comm;
    struct tutti_nccl_operation operation;
    enum tutti_dtype dtype;
    enum tutti_op op;
};

/* ---- what data forbid ---------------------------------------------------------------------- */

/* NVSwitch adds what it can: sum, min and max of whole numbers and 16-bit floats, sums of the
 * wider floats. */
static bool switch_reduces(enum tutti_dtype dtype, enum tutti_op op)
{
    switch (dtype) {
    case TUTTI_FLOAT32:
    case TUTTI_FLOAT64:
        return op == TUTTI_SUM;
    case TUTTI_INT8:
    case TUTTI_UINT8:
        return false;
    default:
        return op == TUTTI_SUM || op == TUTTI_MIN || op == TUTTI_MAX;
    }
}

static const char *forbidden(const struct question *q, int algorithm)
{
    uint32_t ranks = q->comm->rank_count / q->comm->node_count;
    uint32_t function = q->operation.function;
    bool adds = function != TUTTI_NCCL_ALLGATHER && function != TUTTI_NCCL_BROADCAST;

    if (algorithm == TUTTI_NCCL_NVLS || algorithm == TUTTI_NCCL_NVLS_TREE) {
        if (adds && !switch_reduces(q->dtype, q->op))
            return "NVSwitch does not reduce this type and operator";
        if (function != TUTTI_NCCL_ALLREDUCE && ranks > NVLS_RANKS_MAX)
            return "needs at most 32 ranks a node";
    }
    if ((algorithm == TUTTI_NCCL_COLLNET_DIRECT || algorithm == TUTTI_NCCL_COLLNET_CHAIN) &&
        ranks > COLLNET_RANKS_MAX)
        return "needs at most 8 ranks a node";
    if (algorithm == TUTTI_NCCL_PAT && function == TUTTI_NCCL_REDUCESCATTER && q->op == TUTTI_AVG)
        return "not for averages";
    return NULL;
}

/* ---- times --------------------------------------------------------------------------------- */

/* The tree's bandwidth by size: measured by NCCL's makers, "not ideal but works quite well". */
static float corrected(const struct question *q, int algorithm, int protocol, float algbw_GBps)
{
    const struct tutti_nccl_version *version = q->comm->version;
    const struct tutti_nccl_facts *facts = &q->comm->tables->facts;
    int size = tutti_nccl_log2(q->operation.bytes >> 6);
    bool tree = algorithm == TUTTI_NCCL_TREE && size < 23;
    bool nvls_tree = algorithm == TUTTI_NCCL_NVLS_TREE && version->changes.nvls_tree_corrected &&
                     facts->compute_min >= 100 && facts->cpu_arch == TUTTI_ARCH_X86_64 &&
                     size < TUTTI_NCCL_CORRECTIONS_MAX;

    if (q->comm->tables->rccl != NULL)
        return (float)((double)algbw_GBps * tutti_rccl_correction(q->comm->tables->rccl, algorithm,
                                                                  protocol, q->operation.bytes));
    if (q->operation.function != TUTTI_NCCL_ALLREDUCE || size < 0 || !(tree || nvls_tree))
        return algbw_GBps;
    return (float)((double)algbw_GBps * version->constants->tree_correction[protocol][size]);
}

/* A ring of Simple over several nodes waits more once every channel and rank has 64 bytes. */
static float plateau(const struct question *q, int algorithm, int protocol, float latency_us)
{
    const struct tutti_nccl_comm *comm = q->comm;
    bool by_ranks = comm->version->changes.plateau_by_ranks;
    uint64_t bytes = q->operation.bytes;
    uint32_t low_from = by_ranks ? 90 : 80; /* compute capability */
    uint64_t begins;

    if (comm->tables->rccl != NULL || algorithm != TUTTI_NCCL_RING ||
        protocol != TUTTI_NCCL_SIMPLE || comm->node_count == 1 ||
        q->operation.function != TUTTI_NCCL_ALLREDUCE || comm->version->changes.no_plateau)
        return latency_us;
    begins = by_ranks ? 4096 : (uint64_t)comm->channel_count * 64;
    if (bytes / comm->rank_count < begins)
        return latency_us;
    if (comm->tables->facts.compute_min < low_from)
        return (float)((double)latency_us * 1.9);
    return (float)((double)latency_us * (by_ranks ? 1.5 : 1.4));
}

/* Fills the row as it is corrected, and returns the time. */
static float time_us(const struct question *q, int algorithm, int protocol,
                     struct tutti_nccl_estimate *ret)
{
    const struct tutti_nccl_entry *entry =
        &q->comm->tables->entries[q->operation.function][algorithm][protocol];
    float algbw_GBps = corrected(q, algorithm, protocol, entry->algbw_GBps);
    float latency_us = plateau(q, algorithm, protocol, entry->latency_us);

    ret->latency_us = (double)latency_us;
    ret->algbw_GBps = (double)algbw_GBps;
    return latency_us + (float)q->operation.bytes / (1000 * algbw_GBps);
}

/* ---- the choice ---------------------------------------------------------------------------- */

/* Ring, or what NCCL_ALGO asks for instead. */
static int first_asked(const struct question *q)
{
    const uint8_t *states = q->comm->tables->env.algorithms[q->operation.function];

    for (int a = 0; states[TUTTI_NCCL_RING] == TUTTI_NCCL_OFF && a < TUTTI_NCCL_ALGORITHM_COUNT;
         a++) {
        if (states[a] != TUTTI_NCCL_OFF)
            return a;
    }
    return TUTTI_NCCL_RING;
}

static int nothing_left(const struct question *q, const struct tutti_nccl_choice *choice,
                        enum tutti_collective collective, struct tutti_err *err)
{
    int a = first_asked(q);

    return tutti_fail(err, TUTTI_EINVAL,
                      "NCCL finds nothing to run for '%s' of %s, %s: %s with LL: %s; with LL128: "
                      "%s; with Simple: %s (NCCL_ALGO and NCCL_PROTO must leave one)",
                      tutti_collective_name(collective), tutti_dtype_name(q->dtype),
                      tutti_op_name(q->op), tutti_nccl_algorithm_name((enum tutti_nccl_algorithm)a),
                      choice->missing[a][TUTTI_NCCL_LL], choice->missing[a][TUTTI_NCCL_LL128],
                      choice->missing[a][TUTTI_NCCL_SIMPLE]);
}

/* Fills times and what is missing; the first of equal times wins. False: nothing may run. */
static bool weigh(const struct question *q, struct tutti_nccl_choice *choice)
{
    float best = -1;

    for (int a = 0; a < TUTTI_NCCL_ALGORITHM_COUNT; a++) {
        for (int p = 0; p < TUTTI_NCCL_PROTOCOL_COUNT; p++) {
            const char *why = q->comm->tables->entries[q->operation.function][a][p].missing;
            float time;

            if (why == NULL)
                why = forbidden(q, a);
            choice->times_us[a][p] = -1;
            choice->missing[a][p] = why;
            if (why != NULL)
                continue;
            time = time_us(q, a, p, &choice->rows[a][p]);
            choice->times_us[a][p] = (double)time;
            if (best < 0 || time < best) {
                best = time;
                choice->algorithm = (uint8_t)a;
                choice->protocol = (uint8_t)p;
            }
        }
    }
    choice->time_us = (double)best;
    if (best >= 0 &&
        tutti_nccl_plugin_picks(q->comm, q->operation.function, q->operation.bytes, choice)) {
        choice->tuned = true;
        choice->time_us = choice->times_us[choice->algorithm][choice->protocol];
    }
    return best >= 0;
}

/* One rank copies: Ring, Simple, no time. */
static void alone(struct tutti_nccl_choice *choice)
{
    for (int a = 0; a < TUTTI_NCCL_ALGORITHM_COUNT; a++) {
        for (int p = 0; p < TUTTI_NCCL_PROTOCOL_COUNT; p++) {
            choice->times_us[a][p] = -1;
            choice->missing[a][p] = "one rank alone copies";
        }
    }
    choice->algorithm = TUTTI_NCCL_RING;
    choice->protocol = TUTTI_NCCL_SIMPLE;
    choice->times_us[TUTTI_NCCL_RING][TUTTI_NCCL_SIMPLE] = 0;
    choice->missing[TUTTI_NCCL_RING][TUTTI_NCCL_SIMPLE] = NULL;
}

static void messages(const struct question *q, enum tutti_collective collective,
                     struct tutti_nccl_choice *choice)
{
    uint64_t bytes = q->operation.count * q->operation.element_bytes;

    for (int a = 0; a < TUTTI_NCCL_ALGORITHM_COUNT; a++) {
        for (int p = 0; p < TUTTI_NCCL_PROTOCOL_COUNT; p++) {
            choice->times_us[a][p] = -1;
            choice->missing[a][p] = "not tuned: sends and receives";
        }
    }
    assert(collective == TUTTI_ALLTOALL || collective == TUTTI_SENDRECV);
    tutti_nccl_cut_message(q->comm, bytes, q->operation.element_bytes, choice);
}

int tutti_nccl_choose(const struct tutti_nccl_comm *comm, enum tutti_collective collective,
                      enum tutti_dtype dtype, enum tutti_op op, uint64_t bytes,
                      struct tutti_nccl_choice *ret, struct tutti_err *err)
{
    int function = tutti_nccl_function_of(collective);
    struct tutti_nccl_choice choice = {.time_us = 0};
    struct question q = {.comm = comm, .dtype = dtype, .op = op};

    assert(comm->tables != NULL);
    if (function < 0 && collective != TUTTI_ALLTOALL && collective != TUTTI_SENDRECV)
        return tutti_fail(err, TUTTI_EINVAL,
                          "NCCL has no '%s' (allreduce, reducescatter, allgather, broadcast, "
                          "reduce, alltoall, sendrecv)",
                          tutti_collective_name(collective));
    q.operation.function = function >= 0 ? (uint32_t)function : 0;
    q.operation.element_bytes = (uint32_t)tutti_dtype_bytes(dtype);
    q.operation.count = tutti_collective_count_for(collective, bytes, dtype, comm->rank_count);
    q.operation.bytes =
        tutti_collective_bytes(collective, q.operation.count, dtype, comm->rank_count);
    if (function < 0) {
        messages(&q, collective, &choice);
        *ret = choice;
        return 0;
    }
    if (comm->rank_count == 1)
        alone(&choice);
    else if (!weigh(&q, &choice))
        return nothing_left(&q, &choice, collective, err);
    if (comm->tables->rccl != NULL && comm->rank_count > 1) {
        choice.protocol =
            tutti_rccl_protocol(comm, q.operation.function, q.operation.bytes, choice.protocol);
        choice.time_us = choice.times_us[choice.algorithm][choice.protocol];
    }
    tutti_nccl_allow_channels(comm, &q.operation, &choice);
    tutti_nccl_share(comm, &q.operation, &choice);
    tutti_nccl_chunk(comm, &q.operation, &choice);
    *ret = choice;
    return 0;
}
