/* What failures and checkpoints leave of a run, under the coordinator of a supervisor. */
#include <math.h>

#include "runtime/coordinator.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/servers.h"

enum { CHIEF = 0 };

struct job {
    struct tutti_goodput_opts opts;
    struct tutti_coordinator *coordinator;
    struct tutti_random random;
    int64_t now_ns;
    int64_t failure_ns; /* the next one */
    uint64_t step;      /* that has been done */
    uint64_t most;      /* the highest that ever was */
    uint64_t saving;    /* the episode of the checkpoint to be written; 0 none */
    bool training;
    bool finished;
    struct tutti_goodput result;
};

/* Jobs may last longer than 2^63 ps, 107 days. */
static const int64_t FOREVER_NS = INT64_MAX / 4;

static int64_t draw_failure(struct job *job)
{
    double life_ns = -log(1 - tutti_random_unit(&job->random)) * (double)job->opts.mtbf_ps / 1000;

    return job->opts.mtbf_ps > 0 && life_ns < 1e18 ? (int64_t)life_ns + 1 : FOREVER_NS;
}

static int64_t steps_ns(const struct job *job, uint64_t steps)
{
    return (int64_t)tutti_muldiv_near(steps, (uint64_t)job->opts.step_ps, 1000);
}

static void feed(struct job *job, enum tutti_coord_event_kind kind, uint64_t number);

static void obey(struct job *job, const struct tutti_coord_action *action)
{
    switch (action->kind) {
    case TUTTI_ACTION_INITIALISE:
    case TUTTI_ACTION_RESTORE:
        job->step = action->step;
        job->training = false;
        break;
    case TUTTI_ACTION_START:
        job->training = true;
        break;
    case TUTTI_ACTION_SAVE:
        job->saving = action->episode;
        break;
    case TUTTI_ACTION_FINISH:
        job->finished = true;
        break;
    default:
        break;
    }
}

static void feed(struct job *job, enum tutti_coord_event_kind kind, uint64_t number)
{
    const struct tutti_coord_member *chief = tutti_coordinator_member(job->coordinator, CHIEF);
    struct tutti_coord_event event = {kind, CHIEF, chief->incarnation,
                                      kind == TUTTI_EVENT_SAVED ? job->saving : chief->episode,
                                      number};
    uint32_t count;
    const struct tutti_coord_action *action =
        tutti_coordinator_event(job->coordinator, &event, &count);

    for (uint32_t i = 0; i < count; i++)
        obey(job, &action[i]);
}

/* The job is there, and set up; what that takes is in restart_ps. */
static void begin(struct job *job)
{
    feed(job, TUTTI_EVENT_JOINED, 0);
    feed(job, TUTTI_EVENT_DONE, 0);
}

/* Failures while it restarts make it restart again. */
static void fail(struct job *job)
{
    int64_t back_ns;

    job->now_ns = job->failure_ns;
    job->saving = 0;
    feed(job, TUTTI_EVENT_LOST, 0);
    do {
        job->result.failures++;
        back_ns = job->failure_ns + job->opts.restart_ps / 1000;
        job->failure_ns += draw_failure(job);
    } while (job->failure_ns < back_ns);
    job->now_ns = back_ns;
    begin(job);
}

/* Steps until the next checkpoint, or the last. */
static uint64_t steps_ahead(const struct job *job)
{
    uint64_t left = job->opts.steps - job->step;
    uint64_t every = job->opts.save_steps;

    return every > 0 && every < left ? every : left;
}

static void train(struct job *job)
{
    uint64_t steps = steps_ahead(job);
    int64_t end_ns = job->now_ns + steps_ns(job, steps);
    uint64_t repeated = job->step < job->most ? job->most - job->step : 0;

    if (job->failure_ns < end_ns) {
        steps = tutti_muldiv((uint64_t)(job->failure_ns - job->now_ns), 1000,
                             (uint64_t)job->opts.step_ps);
        job->result.repeated_steps += steps < repeated ? steps : repeated;
        job->most = job->step + steps > job->most ? job->step + steps : job->most;
        fail(job);
        return;
    }
    job->result.repeated_steps += steps < repeated ? steps : repeated;
    job->now_ns = end_ns;
    job->step += steps;
    job->most = job->step > job->most ? job->step : job->most;
    feed(job, TUTTI_EVENT_PROGRESS, job->step);
    if (job->saving == 0 && !job->finished)
        feed(job, TUTTI_EVENT_SAVE_DUE, 0);
}

static void save(struct job *job)
{
    int64_t end_ns = job->now_ns + (job->opts.save_steps > 0 ? job->opts.save_ps / 1000 : 0);

    if (job->failure_ns < end_ns) {
        fail(job);
        return;
    }
    job->now_ns = end_ns;
    job->result.checkpoints++;
    feed(job, TUTTI_EVENT_SAVED, job->step);
    job->saving = 0;
}

static int check(const struct tutti_goodput_opts *opts, struct tutti_err *err)
{
    if (opts->steps == 0 || opts->step_ps <= 0 || opts->save_ps < 0 || opts->restart_ps < 0 ||
        opts->mtbf_ps < 0 ||
        tutti_muldiv(opts->steps, (uint64_t)opts->step_ps, 1000) > (uint64_t)FOREVER_NS / 8)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a job of '%llu' steps: it needs some, of more than no time, that end",
                          (unsigned long long)opts->steps);
    return 0;
}

int tutti_goodput_play(const struct tutti_goodput_opts *opts, struct tutti_goodput *ret,
                       struct tutti_err *err)
{
    struct job job = {.now_ns = 0};
    struct tutti_coordinator_params params = {.size = sizeof(params), .member_count = 1};
    const struct tutti_coordinator_ops *ops = NULL;
    int status = tutti_take("tutti_goodput_opts", &job.opts, sizeof(job.opts), opts,
                            TUTTI_BYTES_TO(struct tutti_goodput_opts, seed), err);

    if (status == 0)
        status = check(&job.opts, err);
    if (status == 0)
        status = tutti_coordinator_find("supervisor", &ops, err);
    params.last_step = job.opts.steps;
    if (status == 0)
        status = tutti_coordinator_new(ops, &params, &job.coordinator, err);
    if (status < 0)
        return status;
    tutti_random_seed(&job.random, job.opts.seed);
    job.failure_ns = draw_failure(&job);
    begin(&job);
    while (!job.finished && job.now_ns < FOREVER_NS) {
        if (job.saving != 0)
            save(&job);
        else
            train(&job);
    }
    tutti_coordinator_free(job.coordinator);
    if (!job.finished)
        return tutti_fail(err, TUTTI_ECHECK, "the job fails more often than it gets on: step %llu",
                          (unsigned long long)job.step);
    job.result.total_s = (double)job.now_ns / 1e9;
    job.result.goodput =
        (double)job.opts.steps * (double)job.opts.step_ps / ((double)job.now_ns * 1000);
    *ret = job.result;
    return 0;
}

double tutti_goodput_expected(tutti_ps every_ps, tutti_ps save_ps, tutti_ps mtbf_ps,
                              tutti_ps restart_ps)
{
    double every = (double)every_ps;
    double m = (double)mtbf_ps;

    if (mtbf_ps == 0)
        return every / (every + (double)save_ps);
    return every / (m * exp((double)restart_ps / m) * expm1((every + (double)save_ps) / m));
}

tutti_ps tutti_goodput_interval(tutti_ps save_ps, tutti_ps mtbf_ps)
{
    return (tutti_ps)llround(sqrt(2 * (double)save_ps * (double)mtbf_ps));
}
