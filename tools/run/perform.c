/* Plays one collective on a backend and checks what comes out; see perform.h. */
#include "tools/run/perform.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/group.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/predict.h"
#include "tools/run/buffers.h"

/* Trial runs of `auto`: enough that a first, cold iteration decides nothing. */
enum { TRIAL_WARMUP = 1, TRIAL_ITERATIONS = 3 };

/* Tests hold the algorithms of the table, a schedule of one's own was checked when it was read: a
 * plugin's generator, which nobody has looked at, could write past the ends of our buffers. */
static bool is_unchecked(const struct tutti_perform *ask, const char *algorithm)
{
    const struct tutti_algorithm *found = NULL;

    return tutti_algorithm_find(algorithm, ask->params.collective, &found, NULL) < 0 &&
           tutti_algorithm_find_for(algorithm, &ask->params, &found, NULL) == 0 &&
           found->generate != NULL;
}

static int generate(const struct tutti_perform *ask, const char *algorithm,
                    struct tutti_schedule **ret, struct tutti_err *err)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_ask predicted;
    int status;

    if (ask->predicted == NULL) {
        status = tutti_coll_generate(algorithm, &ask->params, ask->shape, &schedule, err);
    } else {
        predicted = *ask->predicted;
        predicted.algorithm = algorithm;
        status = tutti_predict_schedule(&predicted, &schedule, err);
    }
    if (status == 0 && is_unchecked(ask, algorithm)) {
        status = tutti_schedule_check(schedule, err);
        if (status < 0)
            (void)tutti_wrap(err, status, "algorithm '%s'", algorithm);
    }
    if (status < 0)
        tutti_schedule_free(schedule);
    else
        *ret = schedule;
    return status;
}

/* No process plays alone: what has gone wrong in one is known to all before they begin. */
static int agree(const struct tutti_perform *ask, int status, struct tutti_err *err)
{
    return ask->group == NULL ? status
                              : tutti_group_agree(ask->group, status, ask->deadline_ps, err);
}

/* The data of the ranks that this process has. */
static int open_buffers(const struct tutti_perform *ask, const struct tutti_schedule *schedule,
                        struct tutti_buffers *ret, struct tutti_err *err)
{
    uint32_t first;
    uint32_t count;

    tutti_backend_ranks(ask->backend, schedule->rank_count, &first, &count);
    return agree(ask, tutti_buffers_open_part(schedule, ask->seed, first, count, ret, err), err);
}

/* The sum over all processes. */
static int count_wrong(const struct tutti_perform *ask, const struct tutti_buffers *buffers,
                       uint64_t *ret, struct tutti_err *err)
{
    uint64_t mine = 0;
    uint64_t *all;
    int status = agree(ask, tutti_buffers_wrong(buffers, &mine, err), err);

    *ret = mine;
    if (status < 0 || ask->group == NULL)
        return status;
    all = calloc(ask->group->count, sizeof(all[0]));
    status = agree(ask, all == NULL ? tutti_nomem(err) : 0, err);
    if (status == 0)
        status = tutti_group_exchange(ask->group, &mine, sizeof(mine), all, ask->deadline_ps, err);
    *ret = 0;
    for (uint32_t i = 0; status == 0 && i < ask->group->count; i++)
        *ret += all[i];
    free(all);
    return status;
}

/* Plays a schedule; `buffers` NULL: without data. */
static int play(const struct tutti_perform *ask, const struct tutti_schedule *schedule,
                struct tutti_buffers *buffers, struct tutti_played *ret, struct tutti_err *err)
{
    struct tutti_play play = {
        .size = sizeof(struct tutti_play),
        .schedule = schedule,
        .in = buffers != NULL ? (const void *const *)buffers->in : NULL,
        .out = buffers != NULL ? buffers->out : NULL,
        .warmup_count = ask->warmup_count,
        .iteration_count = ask->iteration_count,
        .barrier = !ask->back_to_back,
        .deadline_ps = ask->deadline_ps,
        .record = ask->record,
    };

    return tutti_backend_play(ask->backend, &play, ret, err);
}

static void fill_performed(const struct tutti_perform *ask, const struct tutti_played *played,
                           struct tutti_performed *performed)
{
    const struct tutti_coll_params *params = &ask->params;
    uint32_t rank_count = ask->shape->rank_count;
    double seconds = (double)played->median_ps / (double)TUTTI_PS_PER_S;

    performed->bytes =
        tutti_collective_bytes(params->collective, params->count, params->dtype, rank_count);
    performed->time_ps = played->median_ps;
    performed->best_ps = played->best_ps;
    performed->algbw_GBps = NAN;
    if (played->median_ps > 0)
        performed->algbw_GBps = (double)performed->bytes / seconds / 1e9;
    performed->busbw_GBps =
        performed->algbw_GBps * tutti_collective_bus_factor(params->collective, rank_count);
}

int tutti_perform(const struct tutti_perform *ask, const char *algorithm,
                  struct tutti_performed *ret, struct tutti_err *err)
{
    struct tutti_performed performed = {.algorithm = algorithm};
    struct tutti_schedule *schedule = NULL;
    struct tutti_buffers buffers = {0};
    struct tutti_played played = {0};
    int status = generate(ask, algorithm, &schedule, err);

    assert(ask->carry || !ask->check);
    if (status == 0 && ask->carry)
        status = open_buffers(ask, schedule, &buffers, err);
    if (status == 0)
        status = play(ask, schedule, ask->carry ? &buffers : NULL, &played, err);
    if (status == 0 && ask->check)
        status = count_wrong(ask, &buffers, &performed.wrong_count, err);
    if (ask->carry)
        tutti_buffers_close(&buffers);
    tutti_schedule_free(schedule);
    if (status < 0)
        return status;
    fill_performed(ask, &played, &performed);
    *ret = performed;
    return 0;
}

/* The shortest of a few iterations; the buffers are taken once for all algorithms. */
static int try_one(const struct tutti_perform *trial, const char *algorithm,
                   struct tutti_buffers *buffers, tutti_ps *ret_ps, struct tutti_err *err)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_played played = {0};
    int status = generate(trial, algorithm, &schedule, err);

    if (status == 0 && trial->carry && buffers->in == NULL)
        status = open_buffers(trial, schedule, buffers, err);
    if (status == 0)
        status = play(trial, schedule, trial->carry ? buffers : NULL, &played, err);
    tutti_schedule_free(schedule);
    *ret_ps = played.best_ps;
    return status;
}

int tutti_perform_find_best(const struct tutti_perform *ask, const char **ret,
                            struct tutti_err *err)
{
    const struct tutti_algorithm_set *added = ask->params.added;
    const struct tutti_algorithm *algorithm;
    struct tutti_perform trial = *ask;
    struct tutti_buffers buffers = {0};
    const char *best = NULL;
    tutti_ps best_ps = 0;
    int status = 0;

    trial.warmup_count = TRIAL_WARMUP;
    trial.iteration_count = TRIAL_ITERATIONS;
    trial.back_to_back = false;
    trial.record = NULL;
    for (size_t i = 0; (algorithm = tutti_algorithm_at(added, i)) != NULL; i++) {
        tutti_ps took_ps = 0;

        if ((algorithm->collectives >> ask->params.collective & 1) == 0)
            continue;
        status = try_one(&trial, algorithm->name, &buffers, &took_ps, err);
        if (status < 0 && status != -TUTTI_EINVAL) /* EINVAL: does not fit this shape */
            break;
        if (status == 0 && (best == NULL || took_ps < best_ps)) {
            best = algorithm->name;
            best_ps = took_ps;
        }
    }
    tutti_buffers_close(&buffers);
    if (best == NULL || (status < 0 && status != -TUTTI_EINVAL))
        return status;
    *ret = best;
    return 0;
}
