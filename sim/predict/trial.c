/* One schedule, or one algorithm, under the protocols asked for; see trial.h. */
#include "sim/predict/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/fold/fold.h"
#include "sim/fold/memory.h"
#include "sim/fold/ring_chunks.h"
#include "sim/net/net.h"
#include "sim/play/drained.h"
#include "sim/play/estimate.h"
#include "sim/predict/stretch.h"
#include "sim/shape/channels.h"
#include "sim/shape/memory.h"
#include "sim/shape/nccl_run.h"

int tutti_trial_nccl_schedule(const struct tutti_ask *ask, struct tutti_schedule **ret,
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

int tutti_trial_schedule(const struct tutti_ask *ask, const struct tutti_algorithm *algorithm,
                         struct tutti_schedule **ret, struct tutti_err *err)
{
    struct tutti_coll_params params = ask->params;
    struct tutti_shape shape = ask->topo->shape;
    uint32_t *orders = NULL;
    int status;

    if (tutti_is_nccl(algorithm->name))
        return tutti_trial_nccl_schedule(ask, ret, err);
    status = tutti_shape_channels(ask->topo, ask->memory, algorithm->name, &params, &shape, &orders,
                                  err);
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

static int refuse_steps(double steps, uint64_t steps_max, struct tutti_err *err)
{
    char seen[32];
    char limit[32];

    return tutti_fail(err, TUTTI_ELACK, "it takes about %s steps to simulate (at most %s)",
                      print_steps(steps, seen, sizeof(seen)),
                      print_steps((double)steps_max, limit, sizeof(limit)));
}

/* Refuses what takes too many steps. *ret_flows: they are so many that nothing but data flow will
 * do, which passes messages on by the run, at a tenth of the price of a step by the clock. */
static int check_steps(const struct tutti_ask *ask, const struct tutti_schedule *schedule,
                       double steps, const struct tutti_record *record, bool *ret_flows,
                       struct tutti_err *err)
{
    uint64_t steps_max = ask->step_count_max;

    *ret_flows = false;
    if (steps_max == 0)
        return 0;
    if (schedule->ops->relays != NULL && schedule->lane_count == 1) {
        steps_max = eightfold(steps_max);
    } else if (schedule->ops->relays != NULL && record == NULL && ask->stretch == NULL &&
               steps > (double)steps_max) {
        steps_max = steps_max > UINT64_MAX / 16 ? UINT64_MAX : 16 * steps_max;
        *ret_flows = true;
    }
    return steps <= (double)steps_max ? 0 : refuse_steps(steps, steps_max, err);
}

/* Plays every rank; `known` may be NULL. */
static int play_all(const struct tutti_ask *ask, struct tutti_sim_opts *opts,
                    const struct tutti_schedule *schedule, struct tutti_fold_known *known,
                    struct tutti_record *record, struct tutti_played *ret, struct tutti_err *err)
{
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .schedule = schedule,
                              .iteration_count = 1,
                              .record = record};
    struct tutti_backend *backend = NULL;
    double steps = ask->step_count_max > 0 ? tutti_play_steps(schedule) : 0;
    int status = check_steps(ask, schedule, steps, record, &opts->flows, err);

    if (status == 0)
        status = tutti_sim_open(opts, &backend, err);
    if (status == 0)
        status = tutti_backend_play(backend, &play, ret, err);
    if (status == -TUTTI_ELACK && opts->flows)
        status = refuse_steps(steps, ask->step_count_max, err);
    if (status == 0 && known != NULL)
        tutti_fold_note_took(known, opts, ret->total_ps, tutti_sim_drain_ps_max(backend));
    tutti_backend_close(backend);
    return status;
}

struct tutti_sim_opts tutti_trial_opts(const struct tutti_ask *ask,
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

int tutti_trial_play(const struct tutti_trial *trial, const struct tutti_schedule *schedule,
                     struct tutti_fold_known *known, struct tutti_record *record,
                     struct tutti_outcome *outcome, struct tutti_err *err)
{
    const struct tutti_ask *ask = trial->ask;
    const struct tutti_trial_entry *entry = &outcome->entry;
    const char *fold = ask->fold;
    struct tutti_folded folded = {.class_count = 0};
    struct tutti_protocol stretched;
    struct tutti_err why = {.text = "fold is off"};
    struct tutti_err text = {.text = ""};
    struct tutti_sim_opts opts =
        tutti_trial_opts(ask, tutti_stretch_costs(ask->stretch, entry->protocol, &stretched));
    int status = 0;
    int folding = -TUTTI_ELACK;

    if (record != NULL)
        (void)tutti_fail(&why, TUTTI_ELACK, "a record is to hold the events of every rank");
    else if (trial->way == TUTTI_TRIAL_UNFOLDED)
        why = *trial->unfolded;
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
    else if (trial->way == TUTTI_TRIAL_FOLDED)
        status = TUTTI_TRIAL_NOT_FOLDED;
    else
        status = play_all(ask, &opts, schedule, known, record, &outcome->played, &text);
    if (status == -TUTTI_ETIME && folding == -TUTTI_ELACK)
        status = tutti_fail(err, TUTTI_ETIME, "%s; not folded: %s", text.text, why.text);
    else if (status < 0 && text.text[0] != '\0')
        status = tutti_fail(err, (enum tutti_status) - status, "%s", text.text);
    if (status == TUTTI_TRIAL_NOT_FOLDED)
        *trial->unfolded = why;
    return status;
}

/* ---- which protocols are worth playing ------------------------------------------------------- */

/* Writes a time that no play goes below: the launch, and the larger of the longest way around a
 * ring and, where links are shared as they are in fact, the bytes that have to cross the machine.
 * 0 or -TUTTI_ENOMEM. */
static int least_ps(const struct tutti_ask *ask, const struct tutti_schedule *schedule,
                    const struct tutti_protocol *protocol, struct tutti_fold_known *known,
                    tutti_ps *ret)
{
    struct tutti_sim_opts opts = tutti_trial_opts(ask, protocol);
    struct tutti_bound bound = {.bandwidth_ps = 0};
    tutti_ps way_ps = 0;
    uint64_t least;
    int status;

    *ret = 0;
    if (protocol == NULL)
        return 0;
    status = tutti_fold_known_memory(known, NULL);
    if (status == 0)
        status = tutti_ring_chunks_least(&opts, schedule, tutti_fold_memory_hops(known->memory),
                                         &way_ps);
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

int tutti_trial_protocols(const struct tutti_trial *trial, const struct tutti_schedule *schedule,
                          struct tutti_outcome *ret, struct tutti_err *err)
{
    const struct tutti_ask *ask = trial->ask;
    struct tutti_fold_known known = {.memory = ask->memory != NULL ? ask->memory->fold : NULL};
    bool all_protocols = trial->all_protocols;
    size_t count = all_protocols ? TUTTI_PROTOCOLS : 1;
    const struct tutti_protocol *protocols = all_protocols ? ask->protocols : trial->only;
    tutti_ps least[TUTTI_PROTOCOLS] = {0};
    bool done[TUTTI_PROTOCOLS] = {false};
    size_t best = count;
    int status = 0;

    for (size_t i = 0; i < count && all_protocols && status == 0; i++)
        status = least_ps(ask, schedule, &protocols[i], &known, &least[i]);
    if (status < 0)
        (void)tutti_nomem(err);
    for (size_t i = next_protocol(least, done, count); i < count && status == 0;
         i = next_protocol(least, done, count)) {
        struct tutti_outcome outcome = *ret;

        done[i] = true;
        if (best < count &&
            (least[i] > ret->played.total_ps ||
             tutti_fold_least_ps(&known, schedule, &protocols[i]) > ret->played.total_ps))
            continue;
        outcome.entry.protocol = all_protocols ? &protocols[i] : trial->only;
        status = tutti_trial_play(trial, schedule, &known, NULL, &outcome, err);
        if (status != 0)
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

int tutti_trial_algorithm(const struct tutti_trial *trial, const struct tutti_algorithm *algorithm,
                          struct tutti_outcome *ret, struct tutti_err *err)
{
    struct tutti_outcome outcome = {.entry = {.algorithm = algorithm}};
    struct tutti_schedule *schedule = NULL;
    int status = tutti_trial_schedule(trial->ask, algorithm, &schedule, err);

    if (status == 0)
        status = tutti_trial_protocols(trial, schedule, &outcome, err);
    tutti_schedule_free(schedule);
    if (status == 0)
        *ret = outcome;
    return status;
}
