/* The fastest of all algorithms; see auto.h.
 *
 * First those are played that fold, for they take least. What every rank has to be played for
 * comes after, in the order of a time that it cannot go below: once that is above the best so far
 * nothing else has to be played. That time is the one that the busiest link takes for what it
 * carries, which is counted at a fraction of the price of a play. */
#include "sim/predict/auto.h"

#include <stdlib.h>

#include "runtime/status.h"
#include "sim/net/net.h"
#include "sim/play/busiest.h"
#include "sim/play/estimate.h"
#include "sim/predict/ask.h"

/* More are not counted: that would take tenths of a second. */
enum { STEPS_COUNTED_MAX = 1 << 22 };

struct candidate {
    const struct tutti_algorithm *algorithm;
    int status;                /* of its trial; TUTTI_TRIAL_NOT_FOLDED: still to be played */
    tutti_ps least_ps;         /* what it does not go below */
    struct tutti_err why;      /* it failed, */
    struct tutti_err unfolded; /* or does not fold */
};

bool tutti_algorithm_serves(const struct tutti_algorithm *algorithm, const struct tutti_ask *ask)
{
    return (algorithm->collectives & 1u << (unsigned)ask->params.collective) != 0;
}

bool tutti_is_left_out(int status)
{
    return status == -TUTTI_EINVAL || status == -TUTTI_ELACK || status == -TUTTI_ETIME;
}

/* All that serve, in the order of the table. */
static struct candidate *list(const struct tutti_ask *ask, size_t *ret_count)
{
    const struct tutti_algorithm *algorithm;
    struct candidate *candidates;
    size_t count = 0;

    while (tutti_algorithm_at(ask->params.added, count) != NULL)
        count++;
    candidates = calloc(count + 1, sizeof(*candidates));
    *ret_count = 0;
    for (size_t i = 0; i < count && candidates != NULL; i++) {
        algorithm = tutti_algorithm_at(ask->params.added, i);
        if (tutti_algorithm_serves(algorithm, ask))
            candidates[(*ret_count)++].algorithm = algorithm;
    }
    return candidates;
}

/* Tries a candidate in a way; *best_at: which of them the best outcome is of. */
static int try(const struct tutti_trial *trial, enum tutti_trial_way way,
               struct candidate *candidates, size_t at, struct tutti_outcome *best, size_t *best_at)
{
    struct candidate *candidate = &candidates[at];
    struct tutti_outcome outcome = {.entry = {.algorithm = NULL}};
    struct tutti_trial mine = *trial;

    mine.way = way;
    mine.unfolded = way == TUTTI_TRIAL_ANY ? NULL : &candidate->unfolded;
    candidate->status =
        tutti_trial_algorithm(&mine, candidate->algorithm, &outcome, &candidate->why);
    if (candidate->status != 0)
        return candidate->status > 0 || tutti_is_left_out(candidate->status) ? 0
                                                                             : candidate->status;
    if (best->entry.algorithm == NULL || outcome.played.total_ps < best->played.total_ps ||
        (outcome.played.total_ps == best->played.total_ps && at < *best_at)) {
        *best = outcome;
        *best_at = at;
    }
    return 0;
}

/* The one to be played next, or `count`: none that can be the best. */
static size_t next_of(const struct candidate *candidates, size_t count,
                      const struct tutti_outcome *best)
{
    size_t next = count;

    for (size_t i = 0; i < count; i++) {
        if (candidates[i].status == TUTTI_TRIAL_NOT_FOLDED &&
            (next == count || candidates[i].least_ps < candidates[next].least_ps))
            next = i;
    }
    if (next == count || best->entry.algorithm == NULL ||
        candidates[next].least_ps <= best->played.total_ps)
        return next;
    return count;
}

static int try_list(const struct tutti_trial *trial, struct candidate *candidates, size_t count,
                    struct tutti_outcome *best, struct tutti_err *err)
{
    enum tutti_trial_way way = trial->all_protocols ? TUTTI_TRIAL_ANY : TUTTI_TRIAL_UNFOLDED;
    size_t best_at = count;
    int status = 0;

    for (size_t i = 0; i < count && status == 0; i++) {
        status = try(trial, TUTTI_TRIAL_FOLDED, candidates, i, best, &best_at);
        if (status < 0 && err != NULL)
            *err = candidates[i].why;
    }
    for (size_t i = 0; i < count && status == 0; i++) {
        if (candidates[i].status == TUTTI_TRIAL_NOT_FOLDED)
            status =
                tutti_trial_least(trial, candidates[i].algorithm, &candidates[i].least_ps, err);
    }
    while (status == 0) {
        size_t next = next_of(candidates, count, best);

        if (next == count)
            break;
        status = try(trial, way, candidates, next, best, &best_at);
        if (status < 0 && err != NULL)
            *err = candidates[next].why;
    }
    return status;
}

int tutti_trial_least(const struct tutti_trial *trial, const struct tutti_algorithm *algorithm,
                      tutti_ps *ret, struct tutti_err *err)
{
    const struct tutti_ask *ask = trial->ask;
    size_t count = trial->all_protocols ? TUTTI_PROTOCOLS : 1;
    struct tutti_sim_opts opts = tutti_trial_opts(ask, NULL);
    struct tutti_schedule *schedule = NULL;
    uint64_t *loads = NULL;
    int status = tutti_trial_schedule(ask, algorithm, &schedule, err);

    *ret = 0;
    if (status == 0 && ask->stretch == NULL && tutti_play_steps(schedule) <= STEPS_COUNTED_MAX)
        status = tutti_busiest_loads(&opts, schedule, &loads, err);
    for (size_t i = 0; i < count && loads != NULL; i++) {
        tutti_ps least_ps;

        opts.protocol = trial->all_protocols ? &ask->protocols[i] : trial->only;
        least_ps = tutti_busiest_least_ps(&opts, loads);
        if (i == 0 || least_ps < *ret)
            *ret = least_ps;
    }
    free(loads);
    tutti_schedule_free(schedule);
    return status;
}

int tutti_try_all(const struct tutti_trial *trial, struct tutti_outcome *best,
                  struct tutti_left_out *left_out, struct tutti_err *err)
{
    const struct tutti_ask *ask = trial->ask;
    struct tutti_err why = {.text = ""};
    size_t count;
    struct candidate *candidates = list(ask, &count);
    int status = candidates == NULL ? tutti_nomem(err) : 0;
    int last = -TUTTI_EINVAL;

    if (status == 0)
        status = try_list(trial, candidates, count, best, err);
    for (size_t i = 0; i < count && status == 0; i++) {
        if (candidates[i].status >= 0)
            continue;
        last = candidates[i].status;
        why = candidates[i].why;
        tutti_left_out_note(left_out, candidates[i].algorithm->name, last, &why);
    }
    free(candidates);
    if (status < 0 || best->entry.algorithm != NULL)
        return status;
    return tutti_fail(err, (enum tutti_status) - last, "no algorithm for %s fits '%s'%s%s",
                      tutti_collective_name(ask->params.collective), ask->topo->name,
                      why.text[0] != '\0' ? ": " : "", why.text);
}
