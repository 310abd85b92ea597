/* Jobs on ranks: which they get, and all their messages as one schedule. */
#include <stdlib.h>
#include <string.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/jobs.h"

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
    uint32_t *lengths; /* [join + 1]: steps so far */
};

static void add(struct copy *c, uint32_t lane, struct tutti_step step)
{
    (void)tutti_builder_add(c->builder, c->ranks[c->rank], lane, &step, NULL); /* finish tells */
    c->lengths[lane]++;
}

static struct tutti_step after(uint32_t lane, uint32_t index)
{
    return (struct tutti_step){.kind = TUTTI_COPY,
                               .flags = TUTTI_STEP_DEP,
                               .dst_buf = TUTTI_BUF_OUT,
                               .src_buf = TUTTI_BUF_IN,
                               .dep_lane = (uint16_t)lane,
                               .dep_step = index};
}

/* As it is for who keeps time: reductions take none. */
static struct tutti_step placed(const struct copy *c, const struct tutti_step *step,
                                const uint32_t *begins)
{
    struct tutti_step ret = *step;

    if (step->kind == TUTTI_SEND || step->kind == TUTTI_RECV)
        ret.peer = c->ranks[step->peer];
    if (step->kind == TUTTI_REDUCE || step->kind == TUTTI_COPY)
        ret = (struct tutti_step){.kind = TUTTI_COPY,
                                  .dst_buf = TUTTI_BUF_OUT,
                                  .src_buf = TUTTI_BUF_IN,
                                  .flags = step->flags & TUTTI_STEP_DEP,
                                  .dep_lane = step->dep_lane};
    ret.flags &= TUTTI_STEP_DEP;
    if (ret.flags != 0)
        ret.dep_step = begins[step->dep_lane] + step->dep_step;
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
            add(c, lane, after(c->join, c->lengths[c->join] - 1));
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
            add(c, c->join, after(lane, c->lengths[lane] - 1));
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

static int check(uint32_t rank_count, const struct tutti_job_on_ranks *jobs, uint32_t job_count,
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
    status = check(rank_count, jobs, job_count, err);
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
