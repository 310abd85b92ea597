/* Jobs that repeat their steps, and share links; see jobs.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/jobs/fluid.h"

enum { STEPS = 20, CALLS_MAX = 4096, UNDER_WAY_MAX = 1024 };

/* An item of a lane: a call, or work. */
struct item {
    uint32_t call; /* UINT32_MAX: work */
    tutti_ps work_ps;
    uint32_t dep_lane; /* UINT32_MAX: none */
    uint32_t dep_item;
};

struct lane {
    struct item *items;
    uint32_t count;
    uint32_t done;
    bool runs;
    double rest_ps; /* at full rate */
    double rate;
};

struct job {
    const struct tutti_job_on_ranks *of;
    tutti_ps start_ps;
    struct lane *lanes;
    uint32_t lane_count;
    struct tutti_job_call *calls; /* by order of first use */
    uint32_t *keys;               /* of each: callee, axis */
    uint32_t call_count;
    uint64_t steps;
    double begun_ps; /* first step */
    double ended_ps; /* last one */
    double calls_ps; /* of a step, alone */
};

struct fabric {
    const struct tutti_jobs_opts *opts;
    struct job *jobs;
    uint32_t job_count;
    struct tutti_job_links links;
    double now_ps;
};

/* ---- reading --------------------------------------------------------------------------------- */

static int find_call(const struct fabric *f, struct job *job, const struct tutti_step *step,
                     uint32_t *ret, struct tutti_err *err)
{
    int status;

    for (*ret = 0; *ret < job->call_count; (*ret)++)
        if (job->keys[2 * *ret] == step->peer && job->keys[2 * *ret + 1] == step->axis)
            return 0;
    if (job->call_count == CALLS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "job '%s' has more than '%d' collectives",
                          job->of->name, CALLS_MAX);
    status = tutti_job_call_of(f->opts, job->of, step->peer, step->axis, &job->calls[*ret], err);
    if (status < 0)
        return status;
    job->keys[2 * *ret] = step->peer;
    job->keys[2 * *ret + 1] = step->axis;
    job->call_count++;
    return 0;
}

static int read_item(const struct fabric *f, struct job *job, const struct tutti_step *step,
                     struct item *ret, struct tutti_err *err)
{
    const struct tutti_topo *topo = f->opts->topo;
    const uint64_t flops_per_s =
        tutti_topo_node(topo, tutti_topo_rank_node(topo, job->of->ranks[0])).flops_per_s;
    int status = 0;

    *ret = (struct item){.call = UINT32_MAX, .dep_lane = UINT32_MAX};
    if ((step->flags & TUTTI_STEP_DEP) != 0) {
        ret->dep_lane = step->dep_lane;
        ret->dep_item = step->dep_step;
    }
    if (step->kind == TUTTI_SEND || step->kind == TUTTI_RECV)
        return tutti_fail(err, TUTTI_ELACK,
                          "job '%s': messages between ranks beside collectives (pipelines) are not "
                          "modelled",
                          job->of->name);
    if (step->kind == TUTTI_CALL) {
        status = find_call(f, job, step, &ret->call, err);
        if (status == 0)
            job->calls_ps += (double)job->calls[ret->call].alone_ps;
    } else if (step->kind == TUTTI_COMPUTE) {
        ret->work_ps = step->duration_ps;
        if (step->duration_ps == 0 && step->flops > 0 && flops_per_s > 0)
            ret->work_ps = (tutti_ps)((double)step->flops / (double)flops_per_s * 1e12);
    }
    return status;
}

static bool alike(const struct tutti_step *a, const struct tutti_step *b)
{
    return a != NULL && b != NULL && a->kind == b->kind && a->peer == b->peer &&
           a->axis == b->axis && a->flags == b->flags && a->dep_lane == b->dep_lane &&
           a->dep_step == b->dep_step &&
           (a->kind != TUTTI_COMPUTE || (a->duration_ps == b->duration_ps && a->flops == b->flops));
}

/* Rank 0 stands for all: they have to do the same. */
static int check_alike(const struct tutti_job_on_ranks *of, struct tutti_err *err)
{
    for (uint32_t rank = 1; rank < of->step->rank_count; rank++)
        for (uint32_t lane = 0; lane < of->step->lane_count; lane++) {
            struct tutti_cursor first, other;
            const struct tutti_step *a, *b;

            tutti_cursor_open(&first, of->step, 0, lane);
            tutti_cursor_open(&other, of->step, rank, lane);
            do {
                a = tutti_cursor_next(&first);
                b = tutti_cursor_next(&other);
                if ((a != NULL || b != NULL) && !alike(a, b))
                    return tutti_fail(err, TUTTI_ELACK,
                                      "job '%s': rank '%u' does other than rank 0, which is not "
                                      "modelled (data parallelism, where all do the same)",
                                      of->name, rank);
            } while (a != NULL);
        }
    return 0;
}

static int read_job(const struct fabric *f, struct job *job, struct tutti_err *err)
{
    const struct tutti_schedule *step = job->of->step;
    int status = check_alike(job->of, err);

    if (status < 0)
        return status;
    job->lane_count = step->lane_count;
    job->lanes = calloc(step->lane_count, sizeof(*job->lanes));
    job->calls = calloc(CALLS_MAX, sizeof(*job->calls));
    job->keys = calloc((size_t)2 * CALLS_MAX, sizeof(*job->keys));
    if (job->lanes == NULL || job->calls == NULL || job->keys == NULL)
        return tutti_nomem(err);
    for (uint32_t l = 0; l < step->lane_count && status == 0; l++) {
        const uint64_t count = tutti_schedule_step_count(step, 0, l);
        struct tutti_cursor cursor;

        if (count == 0)
            continue;
        job->lanes[l].items = calloc((size_t)count, sizeof(*job->lanes[l].items));
        if (job->lanes[l].items == NULL)
            return tutti_nomem(err);
        job->lanes[l].count = (uint32_t)count;
        tutti_cursor_open(&cursor, step, 0, l);
        for (uint64_t i = 0; i < count && status == 0; i++)
            status = read_item(f, job, tutti_cursor_next(&cursor), &job->lanes[l].items[i], err);
    }
    return status;
}

/* ---- playing --------------------------------------------------------------------------------- */

static uint32_t step_count(const struct fabric *f)
{
    return f->opts->steps > 0 ? f->opts->steps : STEPS;
}

static bool may_begin(const struct job *job, const struct lane *lane)
{
    const struct item *item = &lane->items[lane->done];

    return item->dep_lane == UINT32_MAX || job->lanes[item->dep_lane].done > item->dep_item;
}

/* Begins what it can at this time, and ends what takes none; a step that has ended begins anew. */
static void go_on(struct fabric *f, struct job *job)
{
    bool moved =
        f->now_ps >= (double)job->start_ps && !(f->opts->ends && job->steps >= step_count(f));

    while (moved) {
        bool all = true;

        moved = false;
        for (uint32_t l = 0; l < job->lane_count; l++) {
            struct lane *lane = &job->lanes[l];

            while (!lane->runs && lane->done < lane->count && may_begin(job, lane)) {
                const struct item *item = &lane->items[lane->done];

                lane->rest_ps =
                    (double)(item->call == UINT32_MAX ? item->work_ps
                                                      : job->calls[item->call].alone_ps);
                lane->runs = lane->rest_ps > 0;
                lane->done += !lane->runs;
                moved = true;
            }
            all &= lane->done == lane->count;
        }
        if (!all)
            continue;
        job->steps++;
        job->ended_ps = f->now_ps;
        for (uint32_t l = 0; l < job->lane_count; l++)
            job->lanes[l].done = 0;
        return; /* the next step begins at the same time, by the next event */
    }
}

/* Sets rates of all that is under way; returns when the next of it ends. */
static double set_rates(struct fabric *f)
{
    const struct tutti_job_call *calls[UNDER_WAY_MAX];
    struct lane *lanes[UNDER_WAY_MAX];
    double rates[UNDER_WAY_MAX];
    double next_ps = INFINITY;
    uint32_t count = 0;

    for (uint32_t j = 0; j < f->job_count; j++) {
        struct job *job = &f->jobs[j];

        if (f->now_ps < (double)job->start_ps)
            next_ps = fmin(next_ps, (double)job->start_ps - f->now_ps);
        for (uint32_t l = 0; l < job->lane_count; l++) {
            struct lane *lane = &job->lanes[l];
            const uint32_t call = lane->runs ? lane->items[lane->done].call : UINT32_MAX;

            lane->rate = 1;
            if (call == UINT32_MAX || count == UNDER_WAY_MAX)
                continue;
            calls[count] = &job->calls[call];
            lanes[count++] = lane;
        }
    }
    if (count > 0)
        tutti_job_rates(&f->links, calls, count, rates);
    for (uint32_t i = 0; i < count; i++)
        lanes[i]->rate = rates[i];
    for (uint32_t j = 0; j < f->job_count; j++)
        for (uint32_t l = 0; l < f->jobs[j].lane_count; l++) {
            const struct lane *lane = &f->jobs[j].lanes[l];

            if (lane->runs && lane->rate > 0)
                next_ps = fmin(next_ps, lane->rest_ps / lane->rate);
        }
    return next_ps;
}

static void advance(struct fabric *f, double ps)
{
    f->now_ps += ps;
    for (uint32_t j = 0; j < f->job_count; j++)
        for (uint32_t l = 0; l < f->jobs[j].lane_count; l++) {
            struct lane *lane = &f->jobs[j].lanes[l];

            if (!lane->runs)
                continue;
            lane->rest_ps -= ps * lane->rate;
            if (lane->rest_ps > 1e-3) /* of a picosecond: what doubles leave over */
                continue;
            lane->runs = false;
            lane->done++;
        }
}

static bool goes_on(const struct fabric *f)
{
    for (uint32_t j = 0; j < f->job_count; j++)
        if (f->jobs[j].steps < step_count(f))
            return true;
    return false;
}

static int play(struct fabric *f, struct tutti_err *err)
{
    f->now_ps = 0;
    for (uint32_t j = 0; j < f->job_count; j++) {
        struct job *job = &f->jobs[j];

        job->steps = 0;
        job->begun_ps = (double)job->start_ps;
        for (uint32_t l = 0; l < job->lane_count; l++)
            job->lanes[l].done = job->lanes[l].runs = 0;
    }
    while (goes_on(f)) {
        double ps;

        for (uint32_t j = 0; j < f->job_count; j++)
            go_on(f, &f->jobs[j]);
        for (uint32_t j = 0; j < f->job_count; j++) /* steps that begin */
            go_on(f, &f->jobs[j]);
        ps = set_rates(f);
        if (!isfinite(ps) && goes_on(f))
            return tutti_fail(err, TUTTI_ECHECK,
                              "the jobs stand still: a step waits for what does not come, or takes "
                              "no time");
        if (isfinite(ps))
            advance(f, ps);
    }
    return 0;
}

/* ---- what comes out -------------------------------------------------------------------------- */

/* What a step of a job sends over each link, in parts of the link's rate times picoseconds. */
static void add_asked(const struct job *job, double alone_ps, double *asked)
{
    for (uint32_t l = 0; l < job->lane_count; l++)
        for (uint32_t i = 0; i < job->lanes[l].count; i++) {
            const uint32_t call = job->lanes[l].items[i].call;

            for (uint32_t k = 0; call != UINT32_MAX && k < job->calls[call].use_count; k++)
                asked[job->calls[call].uses[k].link] +=
                    job->calls[call].uses[k].share * (double)job->calls[call].alone_ps / alone_ps;
        }
}

static void find_shared(struct fabric *f, double *all, struct tutti_job_shared *ret)
{
    const uint32_t link_count = f->opts->topo->link_count;
    double *own = f->links.free; /* no rates are needed any more */

    for (uint32_t j = 0; j < f->job_count; j++)
        add_asked(&f->jobs[j], (double)ret[j].alone_ps, all);
    for (uint32_t j = 0; j < f->job_count; j++) {
        ret[j].link = UINT32_MAX;
        memset(own, 0, link_count * sizeof(*own));
        add_asked(&f->jobs[j], (double)ret[j].alone_ps, own);
        for (uint32_t link = 0; link < link_count; link++)
            if (own[link] > 0 && all[link] > own[link] * (1 + 1e-9) &&
                all[link] > ret[j].asked_by_all) {
                ret[j].link = link;
                ret[j].asked = own[link];
                ret[j].asked_by_all = all[link];
            }
    }
}

static tutti_ps step_of(const struct job *job)
{
    return (tutti_ps)llround((job->ended_ps - job->begun_ps) / (double)job->steps);
}

static double lost(const struct tutti_job_shared *ret, tutti_ps first_ps, tutti_ps second_ps)
{
    return (double)first_ps / (double)ret[0].alone_ps + (double)second_ps / (double)ret[1].alone_ps;
}

/* What it comes to if the second begins later. */
static int shift(struct fabric *f, struct tutti_job_shared *ret, struct tutti_err *err)
{
    const uint32_t shifts = f->job_count == 2 ? f->opts->shifts : 0;
    double least = lost(ret, ret[0].step_ps, ret[1].step_ps) * (1 - 1e-6);
    int status = 0;

    for (uint32_t k = 1; k < shifts && status == 0; k++) {
        const tutti_ps later_ps = ret[0].alone_ps / shifts * k;
        double now;

        f->jobs[1].start_ps = f->jobs[1].of->start_ps + later_ps;
        status = play(f, err);
        now = status == 0 ? lost(ret, step_of(&f->jobs[0]), step_of(&f->jobs[1])) : least;
        if (now >= least)
            continue;
        least = now;
        for (int j = 0; j < 2; j++)
            ret[j].shifted_ps = step_of(&f->jobs[j]);
        ret[1].shift_ps = later_ps;
    }
    return status;
}

/* Alone, each, and then together. */
static int play_all(struct fabric *f, struct tutti_job_shared *ret, struct tutti_err *err)
{
    struct job *jobs = f->jobs;
    const uint32_t count = f->job_count;
    int status = 0;

    for (uint32_t j = 0; j < count && status == 0; j++) {
        f->jobs = &jobs[j];
        f->job_count = 1;
        status = play(f, err);
        if (status == 0)
            ret[j] = (struct tutti_job_shared){.alone_ps = step_of(&jobs[j]),
                                               .calls_ps = (tutti_ps)llround(jobs[j].calls_ps)};
    }
    f->jobs = jobs;
    f->job_count = count;
    if (status == 0)
        status = play(f, err);
    for (uint32_t j = 0; j < count && status == 0; j++) {
        ret[j].steps = jobs[j].steps;
        ret[j].step_ps = step_of(&jobs[j]);
    }
    return status < 0 ? status : shift(f, ret, err);
}

static void close_all(struct fabric *f)
{
    for (uint32_t j = 0; f->jobs != NULL && j < f->job_count; j++) {
        struct job *job = &f->jobs[j];

        for (uint32_t l = 0; job->lanes != NULL && l < job->lane_count; l++)
            free(job->lanes[l].items);
        for (uint32_t i = 0; job->calls != NULL && i < job->call_count; i++)
            free(job->calls[i].uses);
        free(job->lanes);
        free(job->calls);
        free(job->keys);
    }
    free(f->jobs);
    free(f->links.free);
    free(f->links.waiting);
}

int tutti_jobs_play(const struct tutti_jobs_opts *opts, struct tutti_job_shared *ret,
                    struct tutti_err *err)
{
    struct tutti_jobs_opts taken;
    struct fabric f = {.opts = &taken};
    double *asked = NULL;
    int status = tutti_take("tutti_jobs_opts", &taken, sizeof(taken), opts,
                            TUTTI_BYTES_TO(struct tutti_jobs_opts, shifts), err);

    if (status < 0)
        return status;
    if (taken.job_count == 0 || taken.job_count > TUTTI_JOBS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' jobs (1 to %d)", taken.job_count,
                          TUTTI_JOBS_MAX);
    status = tutti_jobs_check(taken.topo->rank_count, taken.jobs, taken.job_count, err);
    if (status < 0)
        return status;
    f.job_count = taken.job_count;
    f.jobs = calloc(f.job_count, sizeof(*f.jobs));
    f.links.free = calloc(taken.topo->link_count, sizeof(*f.links.free));
    f.links.waiting = calloc(taken.topo->link_count, sizeof(*f.links.waiting));
    asked = calloc(taken.topo->link_count, sizeof(*asked));
    if (f.jobs == NULL || f.links.free == NULL || f.links.waiting == NULL || asked == NULL)
        status = tutti_nomem(err);
    for (uint32_t j = 0; j < f.job_count && status == 0; j++) {
        f.jobs[j].of = &taken.jobs[j];
        f.jobs[j].start_ps = taken.jobs[j].start_ps;
        status = read_job(&f, &f.jobs[j], err);
    }
    if (status == 0)
        status = play_all(&f, ret, err);
    if (status == 0)
        find_shared(&f, asked, ret);
    free(asked);
    close_all(&f);
    return status;
}
