/* Derives replicas, micro-batches and who shares states on a machine; see parallel.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/train/parallel.h"
#include "topo/topo.h"

enum { TEXT_BYTES = 96, TASKS_SHOWN_MAX = 1 << 22 };

/* ---- replicas -------------------------------------------------------------------------------- */

/* Devices that one replica takes. */
static uint64_t replica_ranks(const struct tutti_parallel *cut)
{
    return (uint64_t)cut->tensor * cut->context * cut->pipeline;
}

/* "tp 8 x pp 4 = 32"; degrees of 1 are left out. */
static const char *degrees_text(const struct tutti_parallel *cut, uint32_t data,
                                char buf[TEXT_BYTES])
{
    const struct {
        const char *name;
        uint32_t degree;
    } degrees[] = {{"tp", cut->tensor}, {"cp", cut->context}, {"pp", cut->pipeline}, {"dp", data}};
    size_t at = 0;
    int count = 0;

    for (size_t i = 0; i < sizeof(degrees) / sizeof(degrees[0]); i++)
        if (degrees[i].degree > 1)
            at += (size_t)snprintf(buf + at, TEXT_BYTES - at, "%s%s %u", count++ > 0 ? " x " : "",
                                   degrees[i].name, degrees[i].degree);
    if (count > 1)
        (void)snprintf(buf + at, TEXT_BYTES - at, " = %" PRIu64, replica_ranks(cut) * data);
    if (count == 0)
        (void)snprintf(buf, TEXT_BYTES, "dp %u", data);
    return buf;
}

/* "--pp 2": the largest degree below the one said with which all divides; the first of pp, cp and
 * tp that has one. */
static void smaller_degree(const struct tutti_parallel *cut, uint32_t ranks, char buf[TEXT_BYTES])
{
    const struct {
        const char *name;
        uint32_t degree;
    } degrees[] = {{"pp", cut->pipeline}, {"cp", cut->context}, {"tp", cut->tensor}};

    buf[0] = '\0';
    for (size_t i = 0; i < sizeof(degrees) / sizeof(degrees[0]); i++) {
        uint64_t others = replica_ranks(cut) / degrees[i].degree;

        for (uint32_t d = degrees[i].degree - 1; d > 0 && ranks % others == 0; d--)
            if (ranks % (others * d) == 0) {
                (void)snprintf(buf, TEXT_BYTES, ", --%s %u", degrees[i].name, d);
                return;
            }
    }
}

/* Experts are divided among the ranks of context and data. */
static int derive_experts(const struct tutti_parallel *cut, struct tutti_err *err)
{
    const uint64_t ranks = (uint64_t)cut->context * cut->data;
    uint64_t fits = cut->expert;

    while (ranks % fits != 0)
        fits--;
    if (fits == cut->expert)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--ep': '%u' does not divide cp %u x dp %u = %" PRIu64
                      " (--ep %" PRIu64 ")",
                      cut->expert, cut->context, cut->data, ranks, fits);
}

static int derive_replicas(const struct tutti_train_parallel_question *q, uint32_t ranks,
                           struct tutti_parallel *ret, struct tutti_err *err)
{
    const uint64_t each = replica_ranks(ret);
    const uint64_t more = (ranks / each + 1) * each;
    char degrees[TEXT_BYTES], smaller[TEXT_BYTES], fewer[TEXT_BYTES] = "";

    if (ranks % each != 0) {
        smaller_degree(ret, ranks, smaller);
        if (ranks > each)
            (void)snprintf(fewer, sizeof(fewer), "%" PRIu64 " or ", ranks / each * each);
        return tutti_fail(
            err, TUTTI_EINVAL, "%u device%s no multiple of %s (--devices %s%" PRIu64 "%s)", ranks,
            ranks == 1 ? " is" : "s are", degrees_text(ret, 1, degrees), fewer, more, smaller);
    }
    ret->data = (uint32_t)(ranks / each);
    if (q->data > 0 && q->data != ret->data)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--dp': %s, and there are %u devices (--devices %" PRIu64
                          ", --dp %u, or leave it out)",
                          degrees_text(ret, q->data, degrees), ranks, each * q->data, ret->data);
    return derive_experts(ret, err);
}

/* ---- micro-batches --------------------------------------------------------------------------- */

/* How many micro-batches, or how large ones, make up `samples` of a replica. */
static int divide(const struct tutti_train_parallel_question *q, struct tutti_parallel *ret,
                  struct tutti_err *err)
{
    const uint32_t data = q->global_batch > 0 ? ret->data : 1;
    const uint64_t samples = q->global_batch > 0 ? q->global_batch : q->replica_batch;
    const uint64_t part = q->micro_batch > 0 ? q->micro_batch : q->accumulate;
    const uint64_t parts = data * (part > 0 ? part : 1);
    char replicas[TEXT_BYTES] = "", fewer[TEXT_BYTES] = "";

    (void)snprintf(replicas, sizeof(replicas), "dp %u x ", data);
    if (samples % parts != 0) {
        if (samples > parts)
            (void)snprintf(fewer, sizeof(fewer), "%" PRIu64 " or ", samples / parts * parts);
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--%s': '%" PRIu64 "' is no multiple of %s%s %" PRIu64
                          " = %" PRIu64 " (%s%" PRIu64 ")",
                          q->global_batch > 0 ? "global-batch" : "batch", samples,
                          q->global_batch > 0 ? replicas : "",
                          q->accumulate > 0 && q->micro_batch == 0 ? "accumulate" : "micro-batch",
                          part > 0 ? part : 1, parts, fewer, (samples / parts + 1) * parts);
    }
    if (samples / parts > UINT32_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "'%" PRIu64 "' micro-batches (at most %" PRIu32 ")",
                          samples / parts, UINT32_MAX);
    ret->micro_batch = q->micro_batch > 0 ? q->micro_batch : (uint32_t)(samples / parts);
    ret->micro_batches = q->micro_batch > 0  ? (uint32_t)(samples / parts)
                         : q->accumulate > 0 ? q->accumulate
                                             : 1;
    return 0;
}

static int derive_batch(const struct tutti_train_parallel_question *q, struct tutti_parallel *ret,
                        struct tutti_err *err)
{
    uint64_t example = 0;

    if (q->global_batch > 0 || q->replica_batch > 0) {
        if (q->micro_batch == 0 && q->accumulate == 0 && ret->pipeline > 1)
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--pp': how many %ss pass through it at once is not said "
                              "(--micro-batch N)",
                              tutti_sample_name(q->of_train.model->sample));
        return divide(q, ret, err);
    }
    ret->micro_batch = q->micro_batch > 0 ? q->micro_batch : q->of_train.ask.use.batch;
    ret->micro_batches = q->accumulate > 0 ? q->accumulate : 1;
    if (q->accumulate > 0 || ret->pipeline == 1)
        return 0;
    /* Four micro-batches a stage keep the idle part of 1F1B below a fifth. */
    example = (uint64_t)4 * ret->pipeline * ret->micro_batch * ret->data;
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--pp': how many micro-batches pass through %u stages is not said "
                      "(--global-batch N, a multiple of dp %u x micro-batch %u: '--global-batch "
                      "%" PRIu64 "' makes %u)",
                      ret->pipeline, ret->data, ret->micro_batch, example, 4 * ret->pipeline);
}

/* ---- states ---------------------------------------------------------------------------------- */

/* Of hsdp the replicas of a host share them, unless it is said how many do. */
static int derive_shards(const struct tutti_train_parallel_question *q,
                         const struct tutti_topo *topo, struct tutti_parallel *ret,
                         struct tutti_err *err)
{
    struct tutti_train_parallel_groups groups;

    if (strcmp(q->of_train.strategy.name, "hsdp") != 0 || ret->shard_ranks > 0)
        return 0;
    tutti_train_parallel_groups(ret, topo, &groups);
    for (uint32_t i = 0; i < groups.count; i++)
        if (groups.group[i].kind == TUTTI_GROUP_DATA && groups.group[i].of_host > 1) {
            ret->shard_ranks = groups.group[i].of_host;
            return 0;
        }
    return tutti_fail(err, TUTTI_EINVAL,
                      "strategy 'hsdp' shares states inside a host, and each has one replica of a "
                      "part at most: tp %u x cp %u (--shard N, or fsdp)",
                      ret->tensor, ret->context);
}

/* What is drawn, or written as a trace, is kept task by task. */
static int check_watch(const struct tutti_train_parallel_question *q,
                       const struct tutti_parallel *cut, struct tutti_err *err)
{
    const uint64_t tasks = (uint64_t)2 * cut->pipeline * cut->virtual_stages * cut->micro_batches;

    if (q->watch == NULL || tasks <= TASKS_SHOWN_MAX)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--%s': a step of %" PRIu64
                      " tasks (at most %d: fewer micro-batches)",
                      q->of_train.explains ? "explain" : "trace", tasks, TASKS_SHOWN_MAX);
}

int tutti_train_parallel_derive(const struct tutti_train_parallel_question *q,
                                const struct tutti_topo *topo, struct tutti_parallel *ret,
                                struct tutti_err *err)
{
    struct tutti_parallel cut = q->cut;
    int status = derive_replicas(q, topo->rank_count, &cut, err);

    if (status == 0)
        status = derive_batch(q, &cut, err);
    if (status == 0 && cut.sharding == TUTTI_SHARD_ZERO3 && cut.pipeline > 1 && !cut.keep_weights)
        status = tutti_fail(err, TUTTI_EINVAL,
                            "strategy '%s' with --pp %u would gather weights for each micro-batch "
                            "(--strategy zero1, or --keep-weights: gathered once a step)",
                            q->of_train.strategy.name, cut.pipeline);
    if (status == 0)
        status = tutti_parallel_check(&cut, q->of_train.model, err);
    if (status == 0)
        status = derive_shards(q, topo, &cut, err);
    if (status == 0)
        status = check_watch(q, &cut, err);
    if (status == 0)
        *ret = cut;
    return status;
}

const char *tutti_train_order_text(const struct tutti_parallel *cut,
                                   char buf[TUTTI_TRAIN_ORDER_BYTES])
{
    int at = 0;

    for (int i = 0; i < TUTTI_DIM_COUNT; i++)
        at += snprintf(buf + at, (size_t)(TUTTI_TRAIN_ORDER_BYTES - at), "%s%s", i > 0 ? "-" : "",
                       tutti_dimension_name((enum tutti_dimension)cut->order[i]));
    return buf;
}
