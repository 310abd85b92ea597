/* Predictions of many points by all processes of a job; see spread.h. */
#include "tools/sweep/spread.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "runtime/random.h"
#include "sim/protocol.h"

enum { NAME_BYTES = 64 };

/* What one process tells the others of a point. Its names are found again in the tables. */
struct result {
    int32_t status;
    struct tutti_answer answer; /* but for its names */
    char algorithm[NAME_BYTES];
    char protocol[NAME_BYTES];
    struct tutti_err err;
};

/* Costs grow with the size and differ by algorithm. Points stand by size, then by algorithm, so
 * that turns by index alone would give a process the same algorithms at each size; one more is
 * skipped every `count` points. */
static bool is_mine(const struct tutti_job *job, size_t index)
{
    return (index + index / job->count) % job->count == job->index;
}

static const char *find_name(const struct tutti_ask *ask, const char *name)
{
    const char *lasting = tutti_predict_name(ask, name);

    assert(lasting[0] != '\0' || strcmp(name, "none") == 0);
    return lasting[0] != '\0' ? lasting : "none";
}

static void copy_name(char *to, const char *name)
{
    size_t bytes = strlen(name);

    assert(bytes < NAME_BYTES);
    memcpy(to, name, bytes + 1);
}

static void put(struct result *result, const struct tutti_point *point)
{
    result->status = point->status;
    if (point->status < 0) {
        result->err = point->err;
        return;
    }
    result->answer = point->answer;
    copy_name(result->algorithm, point->answer.algorithm);
    copy_name(result->protocol, point->answer.protocol);
}

static void take(const struct tutti_ask *ask, const struct result *result,
                 struct tutti_point *point)
{
    point->status = result->status;
    point->err = result->err;
    if (point->status < 0)
        return;
    point->answer = result->answer;
    point->answer.algorithm = find_name(ask, result->algorithm);
    point->answer.protocol = find_name(ask, result->protocol);
}

static void predict_share(const struct tutti_job *job, const struct tutti_ask *ask,
                          const char *command, uint32_t thread_count, struct tutti_point *share,
                          const struct tutti_point *points, size_t point_count,
                          struct tutti_sink *sink)
{
    size_t share_count = 0;

    for (size_t i = 0; i < point_count; i++) {
        if (is_mine(job, i))
            share[share_count++] = points[i];
    }
    tutti_points_predict(ask, job->index == 0 ? command : NULL, thread_count, share, share_count,
                         sink);
}

int tutti_spread_predict(const struct tutti_job *job, const struct tutti_ask *ask,
                         const char *command, uint32_t thread_count, struct tutti_point *points,
                         size_t point_count, struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_point *share;
    struct result *results;
    int status = 0;

    if (job->count == 1) {
        tutti_points_predict(ask, command, thread_count, points, point_count, sink);
        return 0;
    }
    if (thread_count == 0)
        thread_count = tutti_job_processors(job);
    share = calloc(point_count + 1, sizeof(*share)); /* there may be none: not an error */
    results = calloc(point_count + 1, sizeof(*results));
    if (share == NULL || results == NULL)
        status = tutti_nomem(err);
    status = tutti_job_agree(job, status, err);
    if (status == 0) {
        size_t done = 0;

        predict_share(job, ask, command, thread_count, share, points, point_count, sink);
        for (size_t i = 0; i < point_count; i++) {
            if (is_mine(job, i))
                put(&results[i], &share[done++]);
        }
        tutti_job_merge(job, results, point_count * sizeof(*results));
        for (size_t i = 0; i < point_count; i++)
            take(ask, &results[i], &points[i]);
    }
    free(share);
    free(results);
    return status;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (size_t i = 0; text != NULL && text[i] != '\0'; i++)
        hash = tutti_random_hash(hash, (unsigned char)text[i], i, 0);
    return tutti_random_hash(hash, text != NULL, 0, 0);
}

static uint64_t hash_machine(uint64_t hash, const struct tutti_topo *topo)
{
    hash = tutti_random_hash(hash, topo->rank_count, topo->host_count, topo->node_count);
    hash = tutti_random_hash(hash, topo->shape.level_count, topo->shape.dim_count,
                             topo->shape.order_count);
    for (uint32_t i = 0; i < topo->shape.level_count; i++)
        hash = tutti_random_hash(hash, topo->shape.level[i], 0, 0);
    for (uint32_t i = 0; i < topo->shape.dim_count; i++)
        hash = tutti_random_hash(hash, topo->shape.dim[i], 0, 0);
    for (uint32_t i = 0; i < topo->link_count; i++) {
        struct tutti_link link = tutti_topo_link(topo, i);

        hash = tutti_random_hash(hash, link.from, link.to, link.kind);
        hash = tutti_random_hash(hash, link.bytes_per_s, (uint64_t)link.latency_ps,
                                 (uint64_t)link.burst_bytes << 32 | link.cable_count);
    }
    return hash;
}

static uint64_t hash_protocol(uint64_t hash, const struct tutti_protocol *protocol)
{
    hash = tutti_random_hash(hash, (uint64_t)protocol->launch_ps, protocol->wire_num,
                             protocol->wire_den);
    hash = tutti_random_hash(hash, (uint64_t)protocol->channel_ps,
                             (uint64_t)protocol->early_channel_ps, 0);
    for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++) {
        hash = tutti_random_hash(hash, (uint64_t)protocol->message_ps[hop],
                                 (uint64_t)protocol->slice_ps[hop], protocol->link_ppm[hop]);
        hash = tutti_random_hash(hash, protocol->lane_bytes_per_s[hop],
                                 (uint64_t)protocol->p2p_message_ps[hop],
                                 protocol->p2p_lane_bytes_per_s[hop]);
        hash = tutti_random_hash(hash, protocol->p2p_link_ppm[hop], 0, 0);
    }
    hash = tutti_random_hash(hash, (uint64_t)protocol->p2p_launch_ps, 0, 0);
    hash = tutti_random_hash(hash, (uint64_t)protocol->nvls.launch_ps, protocol->nvls.link_ppm,
                             protocol->nvls.tree_link_ppm);
    hash = tutti_random_hash(hash, (uint64_t)protocol->nvls.stage_ps,
                             (uint64_t)protocol->nvls.loop_ps, 0);
    return hash;
}

static uint64_t hash_ask(uint64_t hash, const struct tutti_ask *ask)
{
    const struct tutti_coll_params *params = &ask->params;
    uint64_t jitter = 0;

    memcpy(&jitter, &ask->jitter, sizeof(jitter));
    hash = tutti_random_hash(hash, ask->model, ask->seed, jitter);
    hash = tutti_random_hash(hash, ask->reduce_bytes_per_s, ask->step_count_max, ask->force);
    hash = tutti_random_hash(hash, params->collective, params->dtype, params->op);
    hash = tutti_random_hash(hash, params->root, params->channel_count, params->chunk_bytes);
    hash = tutti_random_hash(hash, params->slice_count, params->slot_count, 0);
    for (int i = 0; i < TUTTI_PROTOCOLS && ask->protocols != NULL; i++)
        hash = hash_protocol(hash, &ask->protocols[i]);
    if (ask->as_nccl != NULL)
        hash = hash_text(hash, tutti_nccl_version_name(ask->as_nccl));
    hash = tutti_random_hash(hash, tutti_nccl_env_hash(ask->env), 0, 0);
    return hash_text(hash_text(hash, ask->protocol), ask->fold);
}

/* Schedules of one's own, which each process has read for itself, to the last step. */
static int hash_own(const struct tutti_algorithm_set *added, uint64_t *hash, struct tutti_err *err)
{
    const struct tutti_algorithm *algorithm;
    int status = 0;

    for (size_t i = 0; status == 0 && (algorithm = tutti_algorithm_at(added, i)) != NULL; i++) {
        char *text = NULL;

        if (algorithm->schedule != NULL)
            status = tutti_schedule_print(algorithm->schedule, &text, err);
        *hash = hash_text(*hash, text);
        free(text);
    }
    return status;
}

int tutti_spread_check(const struct tutti_job *job, const struct tutti_ask *ask,
                       const struct tutti_perturb *perturb, const struct tutti_point *points,
                       size_t point_count, struct tutti_err *err)
{
    uint64_t hash = tutti_random_hash(sizeof(struct result), point_count, 0, 0);
    int status;

    if (job->count == 1)
        return 0;
    hash = hash_text(hash_text(hash, TUTTI_BUILD_VERSION), TUTTI_BUILD_COMPILER);
    hash = hash_ask(hash_machine(hash, ask->topo), ask);
    for (uint32_t i = 0; i < perturb->item_count; i++)
        hash = hash_text(hash, perturb->items[i].text);
    status = tutti_job_agree(job, hash_own(ask->params.added, &hash, err), err);
    if (status < 0)
        return status;
    for (size_t i = 0; i < point_count; i++)
        hash = tutti_random_hash(hash_text(hash, points[i].algorithm), points[i].count, 0, 0);
    if (tutti_job_min(job, hash) == ~tutti_job_min(job, ~hash)) /* the least is the greatest */
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "the %u processes of this job do not share one sweep: their machines, "
                      "options or builds differ (the same of each in all)",
                      job->count);
}
