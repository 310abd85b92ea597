/* Jobs on ranks: which they get, and all their messages as one schedule. */
#include <stdlib.h>
#include <string.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/jobs/fluid.h"

/* ---- ranks ----------------------------------------------------------------------------------- */

static uint32_t host_of(const struct tutti_topo *topo, uint32_t rank)
{
    return tutti_topo_node(topo, tutti_topo_rank_node(topo, rank)).host;
}

/* The first free rank behind `after`, on another host if `spread`; UINT32_MAX: none. */
static uint32_t next_free(const struct tutti_topo *topo, const bool *taken, uint32_t after,
                          bool spread)
{
    const uint32_t host = after != UINT32_MAX && spread ? host_of(topo, after) : UINT32_MAX;
    uint32_t rank = after + 1;

    for (; rank < topo->rank_count; rank++)
        if (!taken[rank] && (host == UINT32_MAX || host_of(topo, rank) != host))
            return rank;
    return UINT32_MAX;
}

static int compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

int tutti_jobs_place(const struct tutti_topo *topo, enum tutti_jobs_placement placement,
                     uint32_t count, bool *taken, uint32_t *ret_ranks, struct tutti_err *err)
{
    uint32_t left = 0, at = UINT32_MAX;

    for (uint32_t i = 0; i < topo->rank_count; i++)
        left += !taken[i];
    if (count > left || count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' ranks of %u that are left (1 or more of these)",
                          count, left);
    for (uint32_t i = 0; i < count; i++) {
        at = next_free(topo, taken, at, placement == TUTTI_JOBS_SPREAD);
        if (at == UINT32_MAX) /* once more from the first host */
            at = next_free(topo, taken, UINT32_MAX, false);
        taken[at] = true;
        ret_ranks[i] = at;
    }
    qsort(ret_ranks, count, sizeof(*ret_ranks), compare);
    return 0;
}

/* ---- one schedule ---------------------------------------------------------------------------- */

/* A rank's steps of a job, again and again; the last lane holds what joins and forks them. */
struct copy {
    struct tutti_builder *builder;
    const struct tutti_schedule *flat;
    const uint32_t *ranks;
    uint32_t rank;     /* of the job */
    uint32_t join;     /* lane */
    uint32_t base;     /* lane of its first */
    uint32_t parts;    /* of the data, of which it moves one */
    uint32_t *lengths; /* [join + 1]: steps so far */
};

static void add(struct copy *c, uint32_t lane, struct tutti_step step)
{
    /* finish() tells of errors */
    (void)tutti_builder_add(c->builder, c->ranks[c->rank], c->base + lane, &step, NULL);
    c->lengths[lane]++;
}

static struct tutti_step after(const struct copy *c, uint32_t lane, uint32_t index)
{
    return (struct tutti_step){.kind = TUTTI_COPY,
                               .flags = TUTTI_STEP_DEP,
                               .dst_buf = TUTTI_BUF_OUT,
                               .src_buf = TUTTI_BUF_IN,
                               .dep_lane = (uint16_t)(c->base + lane),
                               .dep_step = index};
}

/* As it is for who keeps time: reductions take none. */
static struct tutti_step placed(const struct copy *c, const struct tutti_step *step,
                                const uint32_t *begins)
{
    struct tutti_step ret = *step;

    if (step->kind == TUTTI_SEND || step->kind == TUTTI_RECV) {
        ret.peer = c->ranks[step->peer];
        ret.bytes = step->bytes / c->parts;
    }
    if (step->kind == TUTTI_REDUCE || step->kind == TUTTI_COPY)
        ret = (struct tutti_step){.kind = TUTTI_COPY,
                                  .dst_buf = TUTTI_BUF_OUT,
                                  .src_buf = TUTTI_BUF_IN,
                                  .flags = step->flags & TUTTI_STEP_DEP,
                                  .dep_lane = step->dep_lane};
    ret.flags &= TUTTI_STEP_DEP;
    if (ret.flags != 0) {
        ret.dep_step = begins[step->dep_lane] + step->dep_step;
        ret.dep_lane = (uint16_t)(c->base + step->dep_lane);
    }
    if (ret.kind == TUTTI_COMPUTE)
        ret.peer = 0;
    return ret;
}

static void add_step(struct copy *c, bool first, tutti_ps start_ps, uint32_t *begins)
{
    struct tutti_cursor cursor;
    const struct tutti_step *step;
    const bool waits = !first || start_ps > 0;

    if (first && start_ps > 0)
        add(c, c->join, (struct tutti_step){.kind = TUTTI_COMPUTE, .duration_ps = start_ps});
    for (uint32_t lane = 0; lane < c->join; lane++) {
        if (waits)
            add(c, lane, after(c, c->join, c->lengths[c->join] - 1));
        begins[lane] = c->lengths[lane];
        /* Indices of all lanes are known before any dependency is: each begins with one step. */
    }
    for (uint32_t lane = 0; lane < c->join; lane++) {
        tutti_cursor_open(&cursor, c->flat, c->rank, lane);
        while ((step = tutti_cursor_next(&cursor)) != NULL)
            add(c, lane, placed(c, step, begins));
    }
    for (uint32_t lane = 0; lane < c->join; lane++)
        if (c->lengths[lane] > 0)
            add(c, c->join, after(c, lane, c->lengths[lane] - 1));
}

static int add_job(struct tutti_builder *builder, const struct tutti_job_on_ranks *job,
                   const struct tutti_schedule *flat, uint32_t join, uint32_t steps,
                   struct tutti_err *err)
{
    uint32_t *lengths = calloc(2 * ((size_t)join + 1), sizeof(*lengths));
    struct copy c = {.builder = builder,
                     .flat = flat,
                     .ranks = job->ranks,
                     .join = flat->lane_count,
                     .parts = 1,
                     .lengths = lengths};

    if (lengths == NULL)
        return tutti_nomem(err);
    for (c.rank = 0; c.rank < flat->rank_count; c.rank++) {
        memset(lengths, 0, (join + 1) * sizeof(*lengths));
        for (uint32_t i = 0; i < steps; i++)
            add_step(&c, i == 0, job->start_ps, lengths + join + 1);
    }
    free(lengths);
    return 0;
}

static void widen(struct tutti_schedule_desc *desc, const struct tutti_schedule *flat)
{
    const uint64_t in = flat->in_bytes, out = flat->out_bytes, scratch = flat->scratch_bytes;

    desc->in_bytes = in > desc->in_bytes ? in : desc->in_bytes;
    desc->out_bytes = out > desc->out_bytes ? out : desc->out_bytes;
    desc->scratch_bytes = scratch > desc->scratch_bytes ? scratch : desc->scratch_bytes;
    desc->state_bytes =
        flat->state_bytes > desc->state_bytes ? flat->state_bytes : desc->state_bytes;
    desc->lane_count =
        flat->lane_count + 1 > desc->lane_count ? flat->lane_count + 1 : desc->lane_count;
    desc->slot_count = flat->slot_count > desc->slot_count ? flat->slot_count : desc->slot_count;
}

int tutti_jobs_check(uint32_t rank_count, const struct tutti_job_on_ranks *jobs, uint32_t job_count,
                     struct tutti_err *err)
{
    bool *taken = calloc(rank_count, sizeof(*taken));
    int status = taken == NULL ? tutti_nomem(err) : 0;

    for (uint32_t j = 0; j < job_count && status == 0; j++)
        for (uint32_t i = 0; i < jobs[j].step->rank_count && status == 0; i++) {
            const uint32_t rank = jobs[j].ranks[i];

            if (rank >= rank_count || taken[rank])
                status = tutti_fail(err, TUTTI_EINVAL,
                                    "job '%s' has rank '%u', which %s (each has ranks of its own)",
                                    jobs[j].name, rank,
                                    rank >= rank_count ? "there is not" : "is taken");
            else
                taken[rank] = true;
        }
    free(taken);
    return status;
}

int tutti_jobs_merge(uint32_t rank_count, const struct tutti_job_on_ranks *jobs, uint32_t job_count,
                     uint32_t steps, struct tutti_schedule **ret, struct tutti_err *err)
{
    struct tutti_schedule_desc desc = {
        .name = "jobs", .contract = {.collective = TUTTI_CUSTOM}, .rank_count = rank_count};
    struct tutti_schedule *flat[TUTTI_JOBS_MAX] = {NULL};
    struct tutti_builder *builder = NULL;
    int status;

    if (job_count == 0 || job_count > TUTTI_JOBS_MAX || steps == 0)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' jobs of '%u' steps (1 to %d, 1 or more)",
                          job_count, steps, TUTTI_JOBS_MAX);
    status = tutti_jobs_check(rank_count, jobs, job_count, err);
    for (uint32_t j = 0; j < job_count && status == 0; j++) {
        status = tutti_schedule_flatten(jobs[j].step, &flat[j], err);
        if (status == 0)
            widen(&desc, flat[j]);
    }
    if (status == 0)
        status = tutti_builder_new(&desc, &builder, err);
    for (uint32_t j = 0; j < job_count && status == 0; j++)
        status = add_job(builder, &jobs[j], flat[j], desc.lane_count, steps, err);
    if (status == 0)
        status = tutti_builder_finish(builder, ret, err);
    else
        tutti_builder_free(builder);
    for (uint32_t j = 0; j < job_count; j++)
        tutti_schedule_free(flat[j]);
    return status;
}

/* ---- rails ----------------------------------------------------------------------------------- */

/* Ranks of the job on each of its hosts, of several, as many on each and next to each other in its
 * order; 1: it is not so. */
static uint32_t ranks_of_host(const struct tutti_topo *topo, const uint32_t *ranks, uint32_t count)
{
    uint32_t each = 0;

    while (each < count && host_of(topo, ranks[each]) == host_of(topo, ranks[0]))
        each++;
    if (each == count || count % each != 0 || host_of(topo, ranks[0]) == UINT32_MAX)
        return 1;
    for (uint32_t i = each; i < count; i++)
        if ((host_of(topo, ranks[i]) == host_of(topo, ranks[i - 1])) != (i % each != 0))
            return 1;
    return each;
}

int tutti_job_rails(const struct tutti_topo *topo, const struct tutti_schedule *call,
                    const uint32_t *ranks, bool rails, struct tutti_schedule **ret,
                    struct tutti_err *err)
{
    const uint32_t count = call->rank_count;
    const uint32_t of_host = rails ? ranks_of_host(topo, ranks, count) : 1;
    const uint32_t parts = of_host * call->lane_count < TUTTI_LANES_MAX ? of_host : 1;
    struct tutti_schedule_desc desc = {.name = call->name,
                                       .contract = {.collective = TUTTI_CUSTOM},
                                       .rank_count = topo->rank_count};
    uint32_t *turned = calloc((size_t)count + 2 * ((size_t)call->lane_count + 1), sizeof(*turned));
    struct tutti_builder *builder = NULL;
    int status = turned == NULL ? tutti_nomem(err) : 0;

    widen(&desc, call);
    desc.lane_count = parts * (call->lane_count + 1);
    if (status == 0)
        status = tutti_builder_new(&desc, &builder, err);
    for (uint32_t part = 0; part < parts && status == 0; part++) {
        struct copy c = {.builder = builder,
                         .flat = call,
                         .ranks = turned,
                         .join = call->lane_count,
                         .base = part * (call->lane_count + 1),
                         .parts = parts,
                         .lengths = turned + count};

        for (uint32_t i = 0; i < count; i++) {
            const uint32_t host = i / parts;
            const uint32_t seat = host % 2 == 0 ? i % parts : parts - 1 - i % parts;

            turned[i] = ranks[host * parts + (seat + part) % parts];
        }
        for (c.rank = 0; c.rank < count; c.rank++) {
            memset(c.lengths, 0, ((size_t)c.join + 1) * sizeof(*c.lengths));
            add_step(&c, true, 0, c.lengths + c.join + 1);
        }
    }
    free(turned);
    return status < 0 ? status : tutti_builder_finish(builder, ret, err);
}
