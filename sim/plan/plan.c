/* All machines searched, what was found ranked, and what no other plan is better than in all. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/plan/search.h"
#include "sim/train.h"
#include "topo/topo.h"

enum { BEST_STANDARD = 5, BEST_MAX = 1024, PPM = 1000000 };

/* ---- the question ---------------------------------------------------------------------------- */

int plan_space_take(const struct tutti_plan_space *given, struct tutti_plan_space *ret,
                    struct tutti_err *err)
{
    struct tutti_plan_space s = {.size = sizeof(s)};
    const struct tutti_plan_values *lists[] = {
        &s.tensor, &s.context, &s.expert, &s.data, &s.pipeline, &s.virtual_stages, &s.micro_batch};
    int status = given == NULL
                     ? 0
                     : tutti_take("tutti_plan_space", &s, sizeof(s), given,
                                  TUTTI_BYTES_TO(struct tutti_plan_space, context_kinds), err);

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && status == 0; i++)
        if (lists[i]->count > TUTTI_PLAN_VALUES_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "%" PRIu32 " values of a degree (%d at most)",
                              lists[i]->count, TUTTI_PLAN_VALUES_MAX);
    if (status == 0)
        *ret = s;
    return status;
}

int plan_ask_take(const struct tutti_plan_ask *ask, struct tutti_plan_ask *ret,
                  struct tutti_err *err)
{
    struct tutti_plan_space space;
    struct tutti_plan_ask a;
    int status = tutti_take("tutti_plan_ask", &a, sizeof(a), ask,
                            TUTTI_BYTES_TO(struct tutti_plan_ask, tell_context), err);

    if (status < 0)
        return status;
    a.size = sizeof(a);
    a.steps = a.steps > 0 ? a.steps : 1;
    a.best_count = a.best_count > 0 ? a.best_count : BEST_STANDARD;
    a.memory_ppm = a.memory_ppm > 0 ? a.memory_ppm : PPM;
    if (a.machine_count == 0 || a.machines == NULL || a.model == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "no %s to plan",
                          a.model == NULL ? "model" : "machine");
    if (a.global_batch == 0)
        return tutti_fail(err, TUTTI_EINVAL, "a global batch of 0 samples (1 or more)");
    if (a.best_count > BEST_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "%" PRIu32 " best plans (%d at most)", a.best_count,
                          BEST_MAX);
    if (a.use.framework == NULL)
        status = tutti_framework_find("megatron", &a.use.framework, err);
    if (status == 0)
        status = plan_space_take(a.space, &space, err);
    if (status == 0)
        *ret = a;
    return status;
}

/* ---- ranking --------------------------------------------------------------------------------- */

bool tutti_plan_same_division(const struct tutti_plan_setting *a,
                              const struct tutti_plan_setting *b)
{
    const struct tutti_parallel *p = &a->parallel;
    const struct tutti_parallel *q = &b->parallel;

    return a->machine == b->machine && p->tensor == q->tensor && p->context == q->context &&
           p->expert == q->expert && p->data == q->data && p->pipeline == q->pipeline;
}

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_time(const struct tutti_plan_found *a, const struct tutti_plan_found *b)
{
    int order = compare(a->time_us, b->time_us);

    return order != 0 ? order : compare((uint64_t)a->step_ps, (uint64_t)b->step_ps);
}

/* In money, or in device hours where neither has a price; who has one comes before who has none. */
static int by_money(const struct tutti_plan_found *a, const struct tutti_plan_found *b)
{
    if (a->cost.has_money != b->cost.has_money)
        return a->cost.has_money ? -1 : 1;
    if (a->cost.has_money)
        return compare(a->cost.money, b->cost.money);
    return compare(tutti_times(a->time_us, a->device_count),
                   tutti_times(b->time_us, b->device_count));
}

static int by_devices(const struct tutti_plan_found *a, const struct tutti_plan_found *b)
{
    return compare(a->device_count, b->device_count);
}

/* Those of one machine and equal time keep the order in which they were tried: the sort below is
 * stable. */
static int by_goal(enum tutti_plan_goal goal, const struct tutti_plan_found *a,
                   const struct tutti_plan_found *b)
{
    bool good_a = a->in_time && a->in_budget;
    bool good_b = b->in_time && b->in_budget;
    int time = by_time(a, b);
    int money = by_money(a, b);
    int devices = by_devices(a, b);

    if (good_a != good_b)
        return good_a ? -1 : 1;
    if (goal == TUTTI_PLAN_MONEY && money != 0)
        return money;
    if (goal == TUTTI_PLAN_DEVICES && devices != 0)
        return devices;
    if (time != 0)
        return time;
    return money != 0 ? money : devices;
}

bool tutti_plan_is_better(enum tutti_plan_goal goal, const struct tutti_plan_found *a,
                          const struct tutti_plan_found *b)
{
    return by_goal(goal, a, b) < 0;
}

void plan_rank(enum tutti_plan_goal goal, struct tutti_plan_found *found, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        struct tutti_plan_found moved = found[i];
        uint32_t at = i;

        for (; at > 0 && by_goal(goal, &moved, &found[at - 1]) < 0; at--)
            found[at] = found[at - 1];
        found[at] = moved;
    }
}

/* ---- the front ------------------------------------------------------------------------------- */

/* Whether a is as good as b in all, and better in one; or equal, and tried before. */
static bool dominates(const struct tutti_plan_found *a, const struct tutti_plan_found *b,
                      bool earlier)
{
    int time = by_time(a, b);
    int money = by_money(a, b);
    int devices = by_devices(a, b);

    if (a->cost.has_money != b->cost.has_money || time > 0 || money > 0 || devices > 0)
        return false;
    return time < 0 || money < 0 || devices < 0 || earlier;
}

static int by_front(const struct tutti_plan_found *a, const struct tutti_plan_found *b)
{
    int devices = by_devices(a, b);

    return devices != 0 ? devices : by_time(a, b);
}

static int take_front(const struct tutti_plan_found *found, uint32_t count, bool good_alone,
                      struct tutti_plan_answer *answer, struct tutti_err *err)
{
    answer->front = calloc((size_t)count + 1, sizeof(*answer->front));
    if (answer->front == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < count; i++) {
        bool dominated = good_alone && !(found[i].in_time && found[i].in_budget);
        uint32_t at = answer->front_count;

        for (uint32_t k = 0; k < count && !dominated; k++)
            dominated = k != i && dominates(&found[k], &found[i], k < i) &&
                        (!good_alone || (found[k].in_time && found[k].in_budget));
        if (dominated)
            continue;
        for (; at > 0 && by_front(&found[i], &answer->front[at - 1]) < 0; at--)
            answer->front[at] = answer->front[at - 1];
        answer->front[at] = found[i];
        answer->front_count++;
    }
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void add_counts(struct tutti_plan_counts *sum, const struct tutti_plan_counts *more)
{
    sum->tried += more->tried;
    sum->refused += more->refused;
    sum->too_large += more->too_large;
    sum->pruned += more->pruned;
    sum->predicted += more->predicted;
    sum->folded += more->folded;
}

/* By what part of its capacity it lacks: 128 bits are not needed, a double is exact enough to say
 * which of two machines is nearer. */
static void note_field(const struct plan_field *field, struct tutti_plan_answer *answer)
{
    const struct tutti_footprint *now = &field->nearest_footprint;
    const struct tutti_footprint *best = &answer->nearest_footprint;

    add_counts(&answer->counts, &field->counts);
    if (field->refusal[0] != '\0')
        memcpy(answer->refusal, field->refusal, sizeof(answer->refusal));
    if (!field->has_nearest ||
        (answer->has_nearest && (double)best->total_bytes / (double)best->capacity_bytes <=
                                    (double)now->total_bytes / (double)now->capacity_bytes))
        return;
    answer->has_nearest = true;
    answer->nearest = field->nearest;
    answer->nearest_footprint = *now;
}

/* The best of each machine, one behind the other: of each at most as many as are wanted. */
static int search_all(const struct tutti_plan_ask *ask, struct tutti_plan_answer *answer,
                      struct tutti_plan_found *found, uint32_t *ret_count, struct tutti_err *err)
{
    uint32_t count = 0;
    int status = 0;

    for (uint32_t m = 0; m < ask->machine_count && status == 0; m++) {
        struct plan_field field;
        uint32_t more = 0;

        status = plan_field_new(ask, m, &field, err);
        if (status < 0)
            return status;
        status =
            plan_field_search(&field, ask->best_count + PLAN_MARGIN, found + count, &more, err);
        count += more;
        note_field(&field, answer);
        plan_field_done(&field);
    }
    *ret_count = count;
    return status;
}

static int keep_best(const struct tutti_plan_ask *ask, struct tutti_plan_found *found,
                     uint32_t count, struct tutti_plan_answer *answer, struct tutti_err *err)
{
    for (uint32_t m = 0; m < ask->machine_count; m++) {
        uint32_t i = 0;

        while (i < count && found[i].plan.machine != m)
            i++;
        if (i < count)
            answer->each[answer->each_count++] = found[i];
    }
    answer->best_count = count < ask->best_count ? count : ask->best_count;
    answer->best = calloc((size_t)answer->best_count + 1, sizeof(*answer->best));
    if (answer->best == NULL)
        return tutti_nomem(err);
    memcpy(answer->best, found, answer->best_count * sizeof(*answer->best));
    return take_front(found, count, count > 0 && found[0].in_time && found[0].in_budget, answer,
                      err);
}

int tutti_plan_search(const struct tutti_plan_ask *ask, struct tutti_plan_answer *ret,
                      struct tutti_err *err)
{
    struct tutti_plan_answer answer = {.best = NULL};
    struct tutti_train_memory *own = NULL;
    struct tutti_plan_found *found = NULL;
    struct tutti_plan_ask a;
    uint32_t count = 0;
    int status = plan_ask_take(ask, &a, err);

    if (status < 0)
        return status;
    if (a.memory == NULL)
        status = tutti_train_memory_new(&own, err);
    a.memory = a.memory != NULL ? a.memory : own;
    if (status == 0 && (found = calloc((size_t)a.machine_count * (a.best_count + PLAN_MARGIN),
                                       sizeof(*found))) == NULL)
        status = tutti_nomem(err);
    if (status == 0 && (answer.each = calloc(a.machine_count, sizeof(*answer.each))) == NULL)
        status = tutti_nomem(err);
    if (status == 0)
        status = search_all(&a, &answer, found, &count, err);
    if (status == 0)
        plan_rank(a.goal, found, count);
    if (status == 0)
        status = plan_rank_exactly(&a, found, &count, err);
    if (status == 0)
        status = keep_best(&a, found, count, &answer, err);
    free(found);
    tutti_train_memory_free(own);
    if (status < 0)
        tutti_plan_answer_done(&answer);
    else
        *ret = answer;
    return status;
}

void tutti_plan_answer_done(struct tutti_plan_answer *answer)
{
    free(answer->best);
    free(answer->front);
    free(answer->each);
    answer->each = NULL;
    answer->best = NULL;
    answer->front = NULL;
}

/* ---- where there is none --------------------------------------------------------------------- */

static void name_largest(const struct tutti_footprint *f, char *text, size_t text_bytes)
{
    static const char *const before[] = {"", ", ", " and "};
    bool shown[TUTTI_MEMORY_TERM_COUNT] = {false};
    size_t used = 0;

    for (size_t i = 0; i < 3 && used < text_bytes; i++) {
        int most = -1;

        for (int t = 0; t < TUTTI_MEMORY_TERM_COUNT; t++)
            if (!shown[t] && (most < 0 || f->bytes[t] > f->bytes[most]))
                most = t;
        shown[most] = true;
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%s %.1fGiB", before[i],
                                 tutti_memory_term_name((enum tutti_memory_term)most),
                                 (double)f->bytes[most] / 0x1p30);
    }
}

int tutti_plan_refuse(const struct tutti_plan_ask *ask, const struct tutti_plan_answer *answer,
                      struct tutti_err *err)
{
    const struct tutti_footprint *f = &answer->nearest_footprint;
    const struct tutti_parallel *p = &answer->nearest.parallel;
    char largest[160];

    if (answer->best_count > 0)
        return 0;
    if (!answer->has_nearest)
        return answer->refusal[0] != '\0'
                   ? tutti_fail(err, TUTTI_EINVAL,
                                "none of %" PRIu64 " configurations goes together: %s",
                                answer->counts.tried, answer->refusal)
                   : tutti_fail(err, TUTTI_EINVAL,
                                "no configuration is as asked (degrees multiply to the devices of "
                                "a machine, replicas divide the batch, chunks of all stages are no "
                                "more than layers)");
    name_largest(f, largest, sizeof(largest));
    return tutti_fail(err, TUTTI_EINVAL,
                      "nothing fits: the nearest of %" PRIu64 ", TP%" PRIu32 " PP%" PRIu32
                      " CP%" PRIu32 " DP%" PRIu32 " with micro-batches of %" PRIu32
                      " on '%s', needs %.1fGiB of %.1fGiB a device: %s",
                      answer->counts.too_large, p->tensor, p->pipeline, p->context, p->data,
                      p->micro_batch, ask->machines[answer->nearest.machine].topo->name,
                      (double)f->total_bytes / 0x1p30, (double)f->capacity_bytes / 0x1p30, largest);
}
