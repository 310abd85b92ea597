/* One prediction: write the schedule, play it in the simulator, hold it against the bound. */
#include "sim/predict.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/record.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/fold/fold.h"
#include "sim/fold/ring_chunks.h"
#include "sim/net/net.h"
#include "sim/play/drained.h"
#include "sim/play/estimate.h"
#include "sim/predict/ask.h"
#include "sim/predict/stretch.h"
#include "sim/shape/channels.h"
#include "sim/shape/memory.h"
#include "sim/shape/nccl_run.h"
#include "sim/shape/nccl_switch.h"

/* What is tried: one algorithm under one protocol. */
struct entry {
    const struct tutti_algorithm *algorithm;
    const struct tutti_protocol *protocol; /* NULL: none */
};

struct outcome {
    struct entry entry;
    struct tutti_played played;
    tutti_ps copy_ps;          /* more, for what is copied besides: see struct tutti_nccl_run */
    uint32_t channel_count;    /* of NCCL's choice; else 0 */
    uint32_t class_count;      /* ranks simulated, each for all that do the same; 0: not folded */
    struct tutti_protocol own; /* that of the entry may be this one, of the best outcome */
};

static const char *protocol_name(const struct tutti_protocol *protocol)
{
    return protocol != NULL ? protocol->name : "none";
}

static int generate_nccl(const struct tutti_ask *ask, struct tutti_schedule **ret,
                         struct tutti_err *err)
{
    struct tutti_nccl_run run;
    int status = tutti_nccl_run_new(ask, &run, err);

    if (status < 0)
        return status;
    if (run.schedule == NULL)
        return tutti_fail(err, TUTTI_ELACK,
                          "NCCL would let the switches add up ('%s'), which is no schedule of "
                          "messages (nccl:ring, or NCCL_ALGO without it)",
                          run.algorithm->name);
    *ret = run.schedule;
    return 0;
}

/* Writes the schedule of an algorithm. Those that do not run on rings get one channel, as they do
 * not spread over links by more. */
static int generate(const struct tutti_ask *ask, const struct tutti_algorithm *algorithm,
                    struct tutti_schedule **ret, struct tutti_err *err)
{
    struct tutti_coll_params params = ask->params;
    struct tutti_shape shape = ask->topo->shape;
    uint32_t *orders = NULL;
    int status;

    if (tutti_is_nccl(algorithm->name))
        return generate_nccl(ask, ret, err);
    status = tutti_shape_channels(ask->topo, algorithm->name, &params, &shape, &orders, err);
    if (status < 0)
        return status;
    status = tutti_coll_generate(algorithm->name, &params, &shape, ret, err);
    free(orders);
    return status;
}

/* "50.3 million", or the number itself where it is small. */
static const char *print_steps(double steps, char *buf, size_t buf_bytes)
{
    if (steps < 1e5)
        (void)snprintf(buf, buf_bytes, "%.0f", steps);
    else
        (void)snprintf(buf, buf_bytes, "%.3g million", steps / 1e6);
    return buf;
}

/* Steps that take much less time than most: those of folded ranks, and of rings on one lane, whose
 * data mostly flow. There may be more of them. */
static uint64_t eightfold(uint64_t step_count_max)
{
    return step_count_max > UINT64_MAX / 8 ? UINT64_MAX : 8 * step_count_max;
}

/* Refuses what takes too many steps. */
static int check_steps(const struct tutti_ask *ask, const struct tutti_schedule *schedule,
                       struct tutti_err *err)
{
    uint64_t steps_max = ask->step_count_max;
    double steps;
    char seen[32];
    char limit[32];

    if (steps_max == 0)
        return 0;
    if (schedule->ops->relays != NULL && schedule->lane_count == 1)
        steps_max = eightfold(steps_max);
    steps = tutti_play_steps(schedule);
    if (steps <= (double)steps_max)
        return 0;
    return tutti_fail(err, TUTTI_ELACK, "it takes about %s steps to simulate (at most %s)",
                      print_steps(steps, seen, sizeof(seen)),
                      print_steps((double)steps_max, limit, sizeof(limit)));
}

/* Plays every rank; `known` may be NULL. */
static int play_all(const struct tutti_ask *ask, const struct tutti_sim_opts *opts,
                    const struct tutti_schedule *schedule, struct tutti_fold_known *known,
                    struct tutti_record *record, struct tutti_played *ret, struct tutti_err *err)
{
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .schedule = schedule,
                              .iteration_count = 1,
                              .record = record};
    struct tutti_backend *backend = NULL;
    int status = check_steps(ask, schedule, err);

    if (status == 0)
        status = tutti_sim_open(opts, &backend, err);
    if (status == 0)
        status = tutti_backend_play(backend, &play, ret, err);
    if (status == 0 && known != NULL)
        tutti_fold_note_took(known, opts, ret->total_ps, tutti_sim_drain_ps_max(backend));
    tutti_backend_close(backend);
    return status;
}

static struct tutti_sim_opts opts_of(const struct tutti_ask *ask,
                                     const struct tutti_protocol *protocol)
{
    return (struct tutti_sim_opts){
        .size = sizeof(struct tutti_sim_opts),
        .topo = ask->topo,
        .model = ask->model,
        .protocol = protocol,
        .seed = ask->seed,
        .jitter = ask->jitter,
        .start_ps = ask->start_ps,
        .reduce_bytes_per_s = ask->reduce_bytes_per_s,
        .seconds_max = ask->seconds_max,
        .strict = ask->strict,
        .force = ask->force,
    };
}

/* Plays folded, or, where that cannot be and need not be, every rank. A record wants them all. */
static int play_entry(const struct tutti_ask *ask, const struct tutti_schedule *schedule,
                      struct tutti_fold_known *known, struct tutti_record *record,
                      struct outcome *outcome, struct tutti_err *err)
{
    const struct entry *entry = &outcome->entry;
    const char *fold = ask->fold;
    struct tutti_folded folded = {.class_count = 0};
    struct tutti_protocol stretched;
    struct tutti_err why = {.text = "fold is off"};
    struct tutti_err text = {.text = ""};
    struct tutti_sim_opts opts =
        opts_of(ask, tutti_stretch_costs(ask->stretch, entry->protocol, &stretched));
    int status = 0;
    int folding = -TUTTI_ELACK;

    if (record != NULL)
        (void)tutti_fail(&why, TUTTI_ELACK, "a record is to hold the events of every rank");
    else if (strcmp(fold, "off") != 0)
        folding = tutti_fold_play_known(&opts, schedule, eightfold(ask->step_count_max), known,
                                        &folded, &why);
    outcome->class_count = folded.class_count;
    if (folding == 0)
        outcome->played =
            (struct tutti_played){.total_ps = folded.end_ps, .step_count = folded.step_count};
    else if (folding != -TUTTI_ELACK)
        status = tutti_fail(err, (enum tutti_status) - folding, "%s", why.text);
    else if (strcmp(fold, "on") == 0)
        status =
            tutti_fail(err, TUTTI_ELACK, "fold 'on' is not possible for '%s': %s (auto or off)",
                       entry->algorithm->name, why.text);
    else
        status = play_all(ask, &opts, schedule, known, record, &outcome->played, &text);
    if (status == -TUTTI_ETIME && folding == -TUTTI_ELACK)
        status = tutti_fail(err, TUTTI_ETIME, "%s; not folded: %s", text.text, why.text);
    else if (status < 0 && text.text[0] != '\0')
        status = tutti_fail(err, (enum tutti_status) - status, "%s", text.text);
    return status;
}

/* ---- which protocols are worth playing ------------------------------------------------------- */

/* Writes a time that no play goes below: the launch, and the larger of the longest way around a
 * ring and, where links are shared as they are in fact, the bytes that have to cross the machine.
 * 0 or -TUTTI_ENOMEM. */
static int least_ps(const struct tutti_ask *ask, const struct tutti_schedule *schedule,
                    const struct tutti_protocol *protocol, tutti_ps *ret)
{
    struct tutti_sim_opts opts = opts_of(ask, protocol);
    struct tutti_bound bound = {.bandwidth_ps = 0};
    tutti_ps way_ps = 0;
    uint64_t least;
    int status;

    *ret = 0;
    if (protocol == NULL)
        return 0;
    status = tutti_ring_chunks_least(&opts, schedule, &way_ps);
    if (status < 0)
        return status;
    if (ask->bound_law == NULL || ask->model != TUTTI_MODEL_FAIR ||
        tutti_bound_law_at(ask->bound_law, ask->params.count, ask->params.dtype, &bound, NULL) < 0)
        bound.bandwidth_ps = 0;
    least = tutti_muldiv((uint64_t)bound.bandwidth_ps, protocol->wire_num, protocol->wire_den);
    least = least > INT64_MAX ? INT64_MAX : least;
    *ret = tutti_add_ps(protocol->launch_ps, tutti_later_ps((tutti_ps)least, way_ps));
    return 0;
}

/* The protocol, of those not done, of the smallest least time; of equals the first. */
static size_t next_protocol(const tutti_ps *least, const bool *done, size_t count)
{
    size_t next = count;

    for (size_t i = 0; i < count; i++) {
        if (!done[i] && (next == count || least[i] < least[next]))
            next = i;
    }
    return next;
}

/* Plays a schedule under the protocols asked for, but those that cannot be as fast as one played
 * before; keeps the fastest in *ret, and of equals the first of the table. */
static int try_protocols(const struct tutti_ask *ask, const struct tutti_schedule *schedule,
                         const struct tutti_protocol *only, bool all_protocols, struct outcome *ret,
                         struct tutti_err *err)
{
    struct tutti_fold_known known = {.memory = ask->memory != NULL ? ask->memory->fold : NULL};
    size_t count = all_protocols ? TUTTI_PROTOCOLS : 1;
    const struct tutti_protocol *protocols = all_protocols ? ask->protocols : only;
    tutti_ps least[TUTTI_PROTOCOLS] = {0};
    bool done[TUTTI_PROTOCOLS] = {false};
    size_t best = count;
    int status = 0;

    for (size_t i = 0; i < count && all_protocols && status == 0; i++)
        status = least_ps(ask, schedule, &protocols[i], &least[i]);
    if (status < 0)
        return tutti_nomem(err);
    for (size_t i = next_protocol(least, done, count); i < count && status == 0;
         i = next_protocol(least, done, count)) {
        struct outcome outcome = *ret;

        done[i] = true;
        if (best < count &&
            (least[i] > ret->played.total_ps ||
             tutti_fold_least_ps(&known, schedule, &protocols[i]) > ret->played.total_ps))
            continue;
        outcome.entry.protocol = all_protocols ? &protocols[i] : only;
        status = play_entry(ask, schedule, &known, NULL, &outcome, err);
        if (status < 0)
            break;
        if (best == count || outcome.played.total_ps < ret->played.total_ps ||
            (outcome.played.total_ps == ret->played.total_ps && i < best)) {
            *ret = outcome;
            best = i;
        }
    }
    tutti_fold_known_done(&known);
    return status;
}

/* Tries one algorithm under the protocols asked for; keeps the faster of it and the best so far. */
static int try_algorithm(const struct tutti_ask *ask, const struct tutti_algorithm *algorithm,
                         const struct tutti_protocol *only, bool all_protocols,
                         struct outcome *best, struct tutti_err *err)
{
    struct outcome outcome = {.entry = {.algorithm = algorithm}};
    struct tutti_schedule *schedule = NULL;
    int status = generate(ask, algorithm, &schedule, err);

    if (status == 0)
        status = try_protocols(ask, schedule, only, all_protocols, &outcome, err);
    tutti_schedule_free(schedule);
    if (status == 0 &&
        (best->entry.algorithm == NULL || outcome.played.total_ps < best->played.total_ps))
        *best = outcome;
    return status;
}

static bool serves(const struct tutti_algorithm *algorithm, const struct tutti_ask *ask)
{
    return (algorithm->collectives & 1u << (unsigned)ask->params.collective) != 0;
}

/* Does not fit, is more than this machine can hold, or takes too long: `auto` does without it. */
static bool is_left_out(int status)
{
    return status == -TUTTI_EINVAL || status == -TUTTI_ELACK || status == -TUTTI_ETIME;
}

/* The fastest of all algorithms that fit. */
static int try_all(const struct tutti_ask *ask, const struct tutti_protocol *only,
                   bool all_protocols, struct outcome *best, struct tutti_left_out *left_out,
                   struct tutti_err *err)
{
    const struct tutti_algorithm *algorithm;
    struct tutti_err why = {.text = ""};
    int status = -TUTTI_EINVAL;

    for (size_t i = 0; (algorithm = tutti_algorithm_at(ask->params.added, i)) != NULL; i++) {
        if (!serves(algorithm, ask))
            continue;
        status = try_algorithm(ask, algorithm, only, all_protocols, best, &why);
        if (status < 0 && !is_left_out(status)) {
            if (err != NULL)
                *err = why;
            return status;
        }
        tutti_left_out_note(left_out, algorithm->name, status, &why);
    }
    if (best->entry.algorithm != NULL)
        return 0;
    return tutti_fail(err, (enum tutti_status) - status, "no algorithm for %s fits '%s'%s%s",
                      tutti_collective_name(ask->params.collective), ask->topo->name,
                      why.text[0] != '\0' ? ": " : "", why.text);
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

        if (!serves(algorithm, ask) || name_count == sizeof(names) / sizeof(names[0]))
            continue;
        status = generate(ask, algorithm, &schedule, NULL);
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
static int try_one(const struct tutti_ask *ask, const struct tutti_algorithm *algorithm,
                   const struct tutti_protocol *only, bool all_protocols, struct outcome *best,
                   struct tutti_err *err)
{
    char fitting[512] = "";
    struct tutti_err why = {.text = ""};
    int status = try_algorithm(ask, algorithm, only, all_protocols, best, &why);

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
static int repeat(const struct tutti_ask *ask, struct outcome *best, struct tutti_err *err)
{
    const struct tutti_protocol *protocol = best->entry.protocol;
    struct outcome twice = *best;
    struct tutti_nccl_run run;
    uint64_t more_ps = (uint64_t)(protocol != NULL ? protocol->launch_ps : 0);
    int status;

    if (ask->iteration_count <= 1 || best->played.total_ps == 0)
        return 0;
    status = tutti_nccl_run_twice(ask, &run, err);
    if (status < 0)
        return status;
    status = try_protocols(ask, run.schedule, protocol, false, &twice, err);
    tutti_schedule_free(run.schedule);
    more_ps += (uint64_t)(twice.played.total_ps - best->played.total_ps);
    best->played.total_ps = (tutti_ps)tutti_muldiv_add(
        more_ps, ask->iteration_count - 1, (uint64_t)best->played.total_ps, ask->iteration_count);
    if (twice.played.total_ps == INT64_MAX) /* saturated: nobody knows how much longer */
        best->played.total_ps = INT64_MAX;
    return status;
}

/* What NCCL would run, under the protocol that it would; without one if none is asked for. */
static int try_nccl(const struct tutti_ask *ask, bool any_protocol, struct outcome *best,
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
    best->entry = (struct entry){.algorithm = run.algorithm, .protocol = protocol};
    best->channel_count = run.channel_count;
    if (run.schedule == NULL) {
        best->played.total_ps = tutti_nccl_switch_time(
            ask->topo, &run.in_network, tutti_stretch_costs(ask->stretch, protocol, &stretched));
        return 0;
    }
    status = try_protocols(ask, run.schedule, protocol, false, best, err);
    tutti_schedule_free(run.schedule);
    best->copy_ps = protocol != NULL ? run.copy_ps : 0;
    return status == 0 && run.chain ? repeat(ask, best, err) : status;
}

static int find_best(const struct tutti_ask *ask, struct outcome *best,
                     struct tutti_left_out *left_out, struct tutti_err *err)
{
    const char *protocol = ask->protocol;
    static const char protocols[] = "none, ll, ll128, simple or auto";
    char hint[TUTTI_HINT_BYTES];
    bool all_protocols = strcmp(protocol, "auto") == 0;
    const struct tutti_protocol *only = NULL;
    const struct tutti_algorithm *algorithm = NULL;
    int status = refuse_unknown(ask, err);

    if (status < 0)
        return status;
    if (!all_protocols && tutti_ask_find_protocol(ask, protocol, &only, NULL) < 0)
        return tutti_fail(err, TUTTI_EINVAL, "unknown protocol '%s' (%s%s)", protocol,
                          tutti_nearest_hint(protocol, protocols, hint), protocols);
    if (tutti_is_nccl(ask->algorithm))
        return try_nccl(ask, strcmp(protocol, "none") != 0, best, err);
    if (strcmp(ask->algorithm, "auto") == 0)
        return try_all(ask, only, all_protocols, best, left_out, err);
    status = tutti_algorithm_find_for(ask->algorithm, &ask->params, &algorithm, err);
    return status < 0 ? status : try_one(ask, algorithm, only, all_protocols, best, err);
}

static int fill_answer(const struct tutti_ask *ask, const struct outcome *best,
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

static int record_winner(const struct tutti_ask *ask, struct outcome *best, struct tutti_err *err)
{
    struct tutti_schedule *schedule = NULL;
    int status = generate(ask, best->entry.algorithm, &schedule, err);

    if (status == 0)
        status = play_entry(ask, schedule, NULL, ask->record, best, err);
    tutti_schedule_free(schedule);
    return status;
}

/* Where nobody has named NCCL, and it does not do what is asked for, the others may. */
static int find_chosen(struct tutti_whole_ask *whole, struct outcome *best,
                       struct tutti_left_out *left_out, struct tutti_err *err)
{
    struct tutti_err why;
    int status = find_best(&whole->ask, best, left_out, &why);

    if (whole->chosen && is_left_out(status)) {
        tutti_left_out_note(left_out, whole->ask.algorithm, status, &why);
        tutti_ask_do_without(whole);
        *best = (struct outcome){.entry = {.algorithm = NULL}};
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
    struct outcome best = {.entry = {.algorithm = NULL}};
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
        return generate_nccl(ask, ret, err);
    status = tutti_algorithm_find_for(ask->algorithm, &ask->params, &algorithm, err);
    return status < 0 ? status : generate(ask, algorithm, ret, err);
}
