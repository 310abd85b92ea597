/* Plays one collective on a backend and checks what comes out; see perform.h. */
#include "tools/run/perform.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
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

/* A play as asked for, still without buffers. */
static struct tutti_play play_of(const struct tutti_perform *ask,
                                 const struct tutti_schedule *schedule)
{
    return (struct tutti_play){
        .size = sizeof(struct tutti_play),
        .schedule = schedule,
        .warmup_count = ask->warmup_count,
        .iteration_count = ask->iteration_count,
        .barrier = !ask->back_to_back,
        .deadline_ps = ask->deadline_ps,
        .record = ask->record,
    };
}

/* Plays a schedule; `buffers` NULL: without data. */
static int play(const struct tutti_perform *ask, const struct tutti_schedule *schedule,
                struct tutti_buffers *buffers, struct tutti_played *ret, struct tutti_err *err)
{
    struct tutti_play play = play_of(ask, schedule);

    play.in = buffers != NULL ? (const void *const *)buffers->in : NULL;
    play.out = buffers != NULL ? buffers->out : NULL;
    return tutti_backend_play(ask->backend, &play, ret, err);
}

static void fill_timed(const struct tutti_perform *ask, const struct tutti_played *played,
                       uint64_t bytes, struct tutti_timed *timed)
{
    double seconds = (double)played->median_ps / (double)TUTTI_PS_PER_S;

    timed->time_ps = played->median_ps;
    timed->best_ps = played->best_ps;
    timed->host_ps = played->host_ps;
    timed->record_error_ps = played->record_error_ps;
    timed->algbw_GBps = NAN;
    if (played->median_ps > 0)
        timed->algbw_GBps = (double)bytes / seconds / 1e9;
    timed->busbw_GBps = timed->algbw_GBps *
                        tutti_collective_bus_factor(ask->params.collective, ask->shape->rank_count);
}

/* ---- in place -------------------------------------------------------------------------------- */

/* What is played where in and out are one buffer: the schedule's steps on `state`, or, by contract,
 * `in` and `out` that overlap. */
struct placed {
    struct tutti_schedule *aliased;
    void **in;
    void **out;
};

static int overlap(const struct tutti_perform *ask, const struct tutti_schedule *schedule,
                   struct placed *ret, struct tutti_err *err)
{
    uint64_t in = 0;
    uint64_t out = 0;

    if (!tutti_schedule_place(schedule, schedule->rank_count - 1, &in, &out))
        return tutti_fail(err, TUTTI_EINVAL, "'%s' has no place for in and out both",
                          tutti_collective_name(ask->params.collective));
    if (ask->one_address && in != out)
        return tutti_fail(err, TUTTI_EINVAL,
                          "the library takes in and out at one address only, or apart");
    ret->in = calloc(schedule->rank_count, sizeof(ret->in[0]));
    ret->out = calloc(schedule->rank_count, sizeof(ret->out[0]));
    return ret->in == NULL || ret->out == NULL ? tutti_nomem(err) : 0;
}

static void close_placed(struct placed *placed)
{
    tutti_schedule_free(placed->aliased);
    free(placed->in);
    free(placed->out);
}

/* From fresh inputs. */
static int play_placed(const struct tutti_perform *ask, const struct tutti_schedule *schedule,
                       const struct placed *placed, struct tutti_buffers *buffers,
                       struct tutti_played *ret, struct tutti_err *err)
{
    bool by_contract = placed->aliased == NULL;
    struct tutti_play play = play_of(ask, by_contract ? schedule : placed->aliased);
    int status = agree(ask, tutti_buffers_put_in_place(schedule, buffers, err), err);

    for (uint32_t i = 0; status == 0 && by_contract && i < buffers->own_count; i++) {
        uint32_t rank = buffers->first_rank + i;

        placed->in[rank] = (char *)buffers->state[rank] + buffers->places[rank][0];
        placed->out[rank] = (char *)buffers->state[rank] + buffers->places[rank][1];
    }
    play.in = (const void *const *)placed->in;
    play.out = placed->out;
    play.state = by_contract ? NULL : buffers->state;
    return status < 0 ? status : tutti_backend_play(ask->backend, &play, ret, err);
}

/* Times first, and then, as what one iteration leaves the next one takes, one from fresh inputs for
 * the check. That a schedule cannot be played so is told, and no error. */
static int perform_in_place(const struct tutti_perform *ask, const struct tutti_schedule *schedule,
                            struct tutti_buffers *buffers, struct tutti_performed *performed,
                            struct tutti_err *err)
{
    struct tutti_perform once = *ask;
    struct tutti_timed *timed = &performed->in_place;
    struct placed placed = {.aliased = NULL};
    struct tutti_played played = {0};
    struct tutti_err why = {.text = ""};
    int status = ask->by_contract ? overlap(ask, schedule, &placed, &why)
                                  : tutti_schedule_in_place(schedule, &placed.aliased, &why);
    bool refused = status == -TUTTI_EINVAL || status == -TUTTI_ECHECK || status == -TUTTI_ELACK;

    once.record = NULL;
    if (refused)
        (void)snprintf(performed->why_not, sizeof(performed->why_not), "%.255s", why.text);
    else if (status < 0)
        *err = why;
    status = agree(ask, refused ? 0 : status, err);
    if (status < 0 || refused) {
        close_placed(&placed);
        return status;
    }
    status = play_placed(&once, schedule, &placed, buffers, &played, err);
    fill_timed(ask, &played, performed->bytes, timed);
    once.warmup_count = 0;
    once.iteration_count = 1;
    if (status == 0 && ask->check)
        status = play_placed(&once, schedule, &placed, buffers, &played, err);
    if (status == 0 && ask->check)
        status = count_wrong(ask, buffers, &timed->wrong_count, err);
    performed->done_in_place = status == 0;
    close_placed(&placed);
    return status;
}

/* ---- both ------------------------------------------------------------------------------------ */

int tutti_perform(const struct tutti_perform *ask, const char *algorithm,
                  struct tutti_performed *ret, struct tutti_err *err)
{
    const struct tutti_coll_params *params = &ask->params;
    struct tutti_performed performed = {
        .algorithm = algorithm,
        .bytes = tutti_collective_bytes(params->collective, params->count, params->dtype,
                                        ask->shape->rank_count)};
    struct tutti_schedule *schedule = NULL;
    struct tutti_buffers buffers = {0};
    struct tutti_played played = {0};
    int status = generate(ask, algorithm, &schedule, err);

    assert(ask->carry || (!ask->check && !ask->in_place));
    if (status == 0 && ask->carry)
        status = open_buffers(ask, schedule, &buffers, err);
    if (status == 0)
        status = play(ask, schedule, ask->carry ? &buffers : NULL, &played, err);
    fill_timed(ask, &played, performed.bytes, &performed.out_of_place);
    if (status == 0 && ask->check)
        status = count_wrong(ask, &buffers, &performed.out_of_place.wrong_count, err);
    if (status == 0 && ask->in_place)
        status = perform_in_place(ask, schedule, &buffers, &performed, err);
    if (ask->carry)
        tutti_buffers_close(&buffers);
    tutti_schedule_free(schedule);
    if (status < 0)
        return status;
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
