/* One prediction: write the schedule, play it in the simulator, hold it against the bound. */
#include "sim/predict.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/record.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/net/net.h"
#include "sim/predict/ask.h"
#include "sim/predict/auto.h"
#include "sim/predict/stretch.h"
#include "sim/predict/trial.h"
#include "sim/shape/nccl_run.h"
#include "sim/shape/nccl_switch.h"

static const char *protocol_name(const struct tutti_protocol *protocol)
{
    return protocol != NULL ? protocol->name : "none";
}

/* Writes the names of the algorithms that can be laid out on the topology, "a, b or c". Fails only
 * where memory runs out: then nobody knows which fit. */
static int name_fitting(const struct tutti_ask *ask, char *text, size_t text_bytes,
                        struct tutti_err *err)
{
    const char *names[32];
    size_t name_count = 0;
    size_t used = 0;
    const struct tutti_algorithm *algorithm;

    for (size_t i = 0; (algorithm = tutti_algorithm_at(ask->params.added, i)) != NULL; i++) {
        struct tutti_schedule *schedule = NULL;
        int status;

        if (!tutti_algorithm_serves(algorithm, ask) ||
            name_count == sizeof(names) / sizeof(names[0]))
            continue;
        status = tutti_trial_schedule(ask, algorithm, &schedule, NULL);
        if (status == -TUTTI_ENOMEM)
            return tutti_nomem(err);
        if (status < 0)
            continue;
        tutti_schedule_free(schedule);
        names[name_count++] = algorithm->name;
    }
    text[0] = '\0';
    for (size_t i = 0; i < name_count && used < text_bytes; i++)
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%s",
                                 i == 0                ? ""
                                 : i + 1 == name_count ? " or "
                                                       : ", ",
                                 names[i]);
    return 0;
}

/* One algorithm by name; if it does not fit, the message tells which do. */
static int try_one(const struct tutti_trial *trial, const struct tutti_algorithm *algorithm,
                   struct tutti_outcome *best, struct tutti_err *err)
{
    const struct tutti_ask *ask = trial->ask;
    char fitting[512] = "";
    struct tutti_err why = {.text = ""};
    int status = tutti_trial_algorithm(trial, algorithm, best, &why);

    if (status == 0)
        return 0;
    if (status == -TUTTI_EINVAL && name_fitting(ask, fitting, sizeof(fitting), err) < 0)
        return -TUTTI_ENOMEM;
    if (status != -TUTTI_EINVAL || fitting[0] == '\0')
        return tutti_fail(err, (enum tutti_status) - status, "%s", why.text);
    return tutti_fail(err, TUTTI_EINVAL, "algorithm '%s' does not fit '%s': %s (%s)",
                      algorithm->name, ask->topo->name, why.text, fitting);
}

static int refuse_unknown(const struct tutti_ask *ask, struct tutti_err *err)
{
    const char *fold = ask->fold;

    if (strcmp(fold, "auto") != 0 && strcmp(fold, "on") != 0 && strcmp(fold, "off") != 0)
        return tutti_fail(err, TUTTI_EINVAL, "unknown fold '%s' (auto, on or off)", fold);
    return 0;
}

/* Along a chain each iteration after the first adds a launch, which every rank pays for, and what
 * the slowest rank needs for its part: by so much two played in a row take longer than one. */
static int repeat(const struct tutti_ask *ask, struct tutti_outcome *best, struct tutti_err *err)
{
    const struct tutti_protocol *protocol = best->entry.protocol;
    struct tutti_outcome twice = *best;
    struct tutti_nccl_run run;
    uint64_t more_ps = (uint64_t)(protocol != NULL ? protocol->launch_ps : 0);
    int status;

    if (ask->iteration_count <= 1 || best->played.total_ps == 0)
        return 0;
    status = tutti_nccl_run_twice(ask, &run, err);
    if (status < 0)
        return status;
    status = tutti_trial_protocols(&(struct tutti_trial){.ask = ask, .only = protocol},
                                   run.schedule, &twice, err);
    tutti_schedule_free(run.schedule);
    more_ps += (uint64_t)(twice.played.total_ps - best->played.total_ps);
    best->played.total_ps = (tutti_ps)tutti_muldiv_add(
        more_ps, ask->iteration_count - 1, (uint64_t)best->played.total_ps, ask->iteration_count);
    if (twice.played.total_ps == INT64_MAX) /* saturated: nobody knows how much longer */
        best->played.total_ps = INT64_MAX;
    return status;
}

/* What NCCL would run, under the protocol that it would; without one if none is asked for. */
static int try_nccl(const struct tutti_ask *ask, bool any_protocol, struct tutti_outcome *best,
                    struct tutti_err *err)
{
    const struct tutti_protocol *protocol = NULL;
    struct tutti_protocol stretched;
    struct tutti_nccl_run run;
    int status = tutti_nccl_run_new(ask, &run, err);

    if (status < 0)
        return status;
    if (any_protocol)
        status = tutti_ask_find_protocol(ask, run.protocol, &protocol, err);
    assert(status == 0);
    if (protocol != NULL && tutti_nccl_run_costs(&run, protocol, &best->own))
        protocol = &best->own;
    best->entry = (struct tutti_trial_entry){.algorithm = run.algorithm, .protocol = protocol};
    best->channel_count = run.channel_count;
    if (run.schedule == NULL) {
        best->played.total_ps = tutti_nccl_switch_time(
            ask->topo, &run.in_network, tutti_stretch_costs(ask->stretch, protocol, &stretched));
        return 0;
    }
    status = tutti_trial_protocols(&(struct tutti_trial){.ask = ask, .only = protocol},
                                   run.schedule, best, err);
    tutti_schedule_free(run.schedule);
    best->copy_ps = protocol != NULL ? run.copy_ps : 0;
    return status == 0 && run.chain ? repeat(ask, best, err) : status;
}

/* What is asked for of protocols. */
static int read_protocol(const struct tutti_ask *ask, struct tutti_trial *trial,
                         struct tutti_err *err)
{
    static const char protocols[] = "none, ll, ll128, simple or auto";
    char hint[TUTTI_HINT_BYTES];

    *trial = (struct tutti_trial){.ask = ask, .all_protocols = strcmp(ask->protocol, "auto") == 0};
    if (trial->all_protocols ||
        tutti_ask_find_protocol(ask, ask->protocol, &trial->only, NULL) == 0)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL, "unknown protocol '%s' (%s%s)", ask->protocol,
                      tutti_nearest_hint(ask->protocol, protocols, hint), protocols);
}

static int find_best(const struct tutti_ask *ask, struct tutti_outcome *best,
                     struct tutti_left_out *left_out, struct tutti_err *err)
{
    const struct tutti_algorithm *algorithm = NULL;
    struct tutti_trial trial;
    int status = refuse_unknown(ask, err);

    if (status == 0)
        status = read_protocol(ask, &trial, err);
    if (status < 0)
        return status;
    if (tutti_is_nccl(ask->algorithm))
        return try_nccl(ask, strcmp(ask->protocol, "none") != 0, best, err);
    if (strcmp(ask->algorithm, "auto") == 0)
        return tutti_try_all(&trial, best, left_out, err);
    status = tutti_algorithm_find_for(ask->algorithm, &ask->params, &algorithm, err);
    return status < 0 ? status : try_one(&trial, algorithm, best, err);
}

static int fill_answer(const struct tutti_ask *ask, const struct tutti_outcome *best,
                       struct tutti_answer *answer, struct tutti_err *err)
{
    const struct tutti_coll_params *params = &ask->params;
    uint32_t n = ask->topo->rank_count;
    struct tutti_bound_law law;
    int status = 0;
    tutti_ps time_ps = tutti_add_ps(best->played.total_ps, best->copy_ps);
    double seconds = (double)time_ps / (double)TUTTI_PS_PER_S;

    if (time_ps == INT64_MAX) /* saturated: this is no figure */
        return tutti_fail(err, TUTTI_ELACK,
                          "algorithm '%s' takes more than 106 days, beyond what the virtual clock "
                          "counts (less data, larger rates)",
                          best->entry.algorithm->name);
    if (params->collective == TUTTI_CUSTOM)
        law = tutti_bound_law_none(ask->topo);
    else if (ask->bound_law == NULL)
        status = tutti_topo_bound_law(ask->topo, params->collective, params->root, &law, err);
    if (status == 0)
        status = tutti_bound_law_at(ask->bound_law != NULL ? ask->bound_law : &law, params->count,
                                    params->dtype, &answer->bound, err);
    answer->algorithm = best->entry.algorithm->name;
    answer->protocol = protocol_name(best->entry.protocol);
    answer->channel_count = best->channel_count;
    answer->time_ps = time_ps;
    answer->event_count = best->played.step_count;
    answer->folded = best->class_count > 0;
    answer->class_count = best->class_count;
    answer->bytes = tutti_collective_bytes(params->collective, params->count, params->dtype, n);
    if (status < 0 || answer->time_ps == 0)
        return status; /* or nothing to move: no rate, and no share of a bound */
    answer->beats_bound = answer->time_ps < answer->bound.time_ps;
    answer->algbw_GBps = (double)answer->bytes / seconds / 1e9;
    answer->busbw_GBps = answer->algbw_GBps * tutti_collective_bus_factor(params->collective, n);
    answer->percent_of_bound = 100.0 * (double)answer->bound.time_ps / (double)answer->time_ps;
    return 0;
}

static int record_winner(const struct tutti_ask *ask, struct tutti_outcome *best,
                         struct tutti_err *err)
{
    struct tutti_schedule *schedule = NULL;
    int status = tutti_trial_schedule(ask, best->entry.algorithm, &schedule, err);

    if (status == 0)
        status = tutti_trial_play(&(struct tutti_trial){.ask = ask}, schedule, NULL, ask->record,
                                  best, err);
    tutti_schedule_free(schedule);
    return status;
}

/* Where nobody has named NCCL, and it does not do what is asked for, the others may. */
static int find_chosen(struct tutti_whole_ask *whole, struct tutti_outcome *best,
                       struct tutti_left_out *left_out, struct tutti_err *err)
{
    struct tutti_err why;
    int status = find_best(&whole->ask, best, left_out, &why);

    if (whole->chosen && tutti_is_left_out(status)) {
        tutti_left_out_note(left_out, whole->ask.algorithm, status, &why);
        tutti_ask_do_without(whole);
        *best = (struct tutti_outcome){.entry = {.algorithm = NULL}};
        status = find_best(&whole->ask, best, left_out, &why);
    }
    if (status < 0 && err != NULL)
        *err = why;
    return status;
}

/* Nothing is priced by mistake. */
static int refuse_none(const struct tutti_ask *ask, struct tutti_err *err)
{
    if (ask->params.count > 0 || ask->empty || ask->params.collective == TUTTI_BARRIER)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "%s of 0 elements (params.count; set .empty if that is meant)",
                      tutti_collective_name(ask->params.collective));
}

int tutti_predict(const struct tutti_ask *given, struct tutti_answer *ret, struct tutti_err *err)
{
    struct tutti_answer answer = {.left_out = {.count = 0}};
    struct tutti_outcome best = {.entry = {.algorithm = NULL}};
    struct tutti_whole_ask whole;
    const struct tutti_ask *ask = &whole.ask;
    int status = tutti_ask_make_whole(given, &whole, err);

    if (status == 0)
        status = refuse_none(ask, err);
    if (status == 0)
        status = find_chosen(&whole, &best, &answer.left_out, err);
    if (status == 0 && ask->record != NULL) /* the winner once more: records are large */
        status = record_winner(ask, &best, err);
    if (status == 0)
        status = fill_answer(ask, &best, &answer, err);
    if (status == 0)
        *ret = answer;
    return status;
}

int tutti_predict_schedule(const struct tutti_ask *given, struct tutti_schedule **ret,
                           struct tutti_err *err)
{
    const struct tutti_algorithm *algorithm = NULL;
    struct tutti_whole_ask whole;
    const struct tutti_ask *ask = &whole.ask;
    int status = tutti_ask_make_whole(given, &whole, err);

    if (status < 0)
        return status;
    if (tutti_is_nccl(ask->algorithm))
        return tutti_trial_nccl_schedule(ask, ret, err);
    status = tutti_algorithm_find_for(ask->algorithm, &ask->params, &algorithm, err);
    return status < 0 ? status : tutti_trial_schedule(ask, algorithm, ret, err);
}

int tutti_predict_least(const struct tutti_ask *given, tutti_ps *ret, struct tutti_err *err)
{
    const struct tutti_algorithm *algorithm = NULL;
    struct tutti_whole_ask whole;
    struct tutti_trial trial;
    tutti_ps least_ps = 0;
    int status = tutti_ask_make_whole(given, &whole, err);

    if (status == 0)
        status = read_protocol(&whole.ask, &trial, err);
    if (status == 0 && !tutti_is_nccl(whole.ask.algorithm))
        status = tutti_algorithm_find_for(whole.ask.algorithm, &whole.ask.params, &algorithm, err);
    if (status == 0 && algorithm != NULL)
        status = tutti_trial_least(&trial, algorithm, &least_ps, err);
    if (status == 0)
        *ret = least_ps;
    return status;
}
