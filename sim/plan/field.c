/* The configurations of one machine, and the fastest of those that fit: looked at by the time that
 * they take at least, which is found more closely for those that come first, until the next cannot
 * be among the best. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/net/net.h"
#include "sim/plan/search.h"
#include "topo/topo.h"

enum { PPM = 1000000, TELL_EVERY = 256 };

/* ---- what there is --------------------------------------------------------------------------- */

static void refuse(struct plan_field *field, const struct tutti_err *why)
{
    field->counts.refused++;
    (void)snprintf(field->refusal, sizeof(field->refusal), "%.*s", (int)sizeof(field->refusal) - 1,
                   why->text);
}

/* Keeps it if it goes together, with its bound. */
static int take(struct plan_field *field, struct plan_candidate candidate, uint32_t *kept,
                struct tutti_err *err)
{
    struct tutti_err why = {""};
    struct tutti_plan_setting plan;
    int status;

    plan_of_candidate(field, &candidate, &plan);
    status = tutti_parallel_check(&plan.parallel, field->ask->model, &why);
    if (status == -TUTTI_EINVAL) {
        refuse(field, &why);
        return 0;
    }
    if (status == 0)
        status = plan_bound(field, &plan, &candidate.bound_ps, err);
    if (status == 0)
        field->candidates[(*kept)++] = candidate;
    return status;
}

static bool same_stages(const struct tutti_parallel *a, const struct tutti_parallel *b)
{
    size_t bytes = sizeof(*a->stage_layers) * a->pipeline * a->virtual_stages;

    if (a->stage_layers == NULL || b->stage_layers == NULL)
        return a->stage_layers == b->stage_layers;
    return memcmp(a->stage_layers, b->stage_layers, bytes) == 0;
}

/* Of two that are complete. */
static bool same_parallel(const struct tutti_parallel *a, const struct tutti_parallel *b)
{
    return a->tensor == b->tensor && a->context == b->context && a->expert == b->expert &&
           a->data == b->data && a->pipeline == b->pipeline &&
           a->virtual_stages == b->virtual_stages && a->schedule == b->schedule &&
           a->sequence_parallel == b->sequence_parallel && a->async_tensor == b->async_tensor &&
           a->scatter_gather == b->scatter_gather && a->context_kind == b->context_kind &&
           a->sharding == b->sharding && a->shard_ranks == b->shard_ranks &&
           a->keep_weights == b->keep_weights &&
           memcmp(a->order, b->order, sizeof(a->order)) == 0 &&
           a->micro_batches == b->micro_batches && a->micro_batch == b->micro_batch &&
           !(a->imbalance < b->imbalance || a->imbalance > b->imbalance) && same_stages(a, b);
}

/* Whether a given plan of this machine stands before it a first time. */
static bool was_given(const struct plan_field *field, const struct tutti_plan_setting *setting,
                      const struct tutti_parallel *parallel)
{
    for (uint32_t i = 0; i < field->count; i++) {
        const struct tutti_plan_setting *before = &field->ask->given[field->candidates[i].number];
        struct tutti_parallel p;

        if (field->candidates[i].data == parallel->data &&
            before->recompute == setting->recompute &&
            tutti_parallel_complete(&before->parallel, &p, NULL) == 0 &&
            same_parallel(&p, parallel))
            return true;
    }
    return false;
}

/* Given plans of this machine, each once. */
static int take_given(struct plan_field *field, struct tutti_err *err)
{
    const struct tutti_plan_ask *ask = field->ask;

    for (uint32_t i = 0; i < ask->given_count; i++) {
        struct tutti_parallel p;

        if (ask->given[i].machine != field->machine)
            continue;
        if (tutti_grow(&field->candidates, &field->capacity, (uint64_t)field->count + 1,
                       sizeof(*field->candidates)) < 0)
            return tutti_nomem(err);
        if (tutti_parallel_complete(&ask->given[i].parallel, &p, err) < 0)
            return -TUTTI_EINVAL;
        if (tutti_parallel_samples(&p) != ask->global_batch)
            return tutti_fail(err, TUTTI_EINVAL,
                              "plan %" PRIu32 " has %" PRIu64 " samples a step (all have %" PRIu64
                              ")",
                              i, tutti_parallel_samples(&p), ask->global_batch);
        if (was_given(field, &ask->given[i], &p)) {
            field->counts.folded++;
            continue;
        }
        field->candidates[field->count++] = (struct plan_candidate){.number = i,
                                                                    .tensor = p.tensor,
                                                                    .context = p.context,
                                                                    .expert = p.expert,
                                                                    .data = p.data,
                                                                    .pipeline = p.pipeline};
    }
    return 0;
}

struct plan_field plan_field_of(const struct tutti_plan_ask *filled, uint32_t machine)
{
    struct plan_field field = {.ask = filled, .machine = machine};

    field.topo = filled->machines[machine].topo;
    field.accelerator = filled->use.accelerator != NULL ? filled->use.accelerator
                                                        : tutti_topo_accelerator(field.topo);
    if (field.accelerator != NULL)
        field.capacity_bytes = tutti_muldiv(field.accelerator->mem_bytes, filled->memory_ppm, PPM);
    return field;
}

int plan_field_new(const struct tutti_plan_ask *filled, uint32_t machine, struct plan_field *ret,
                   struct tutti_err *err)
{
    struct plan_field field = plan_field_of(filled, machine);
    uint32_t kept = 0;
    int status;

    if (field.accelerator == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "which devices '%s' has is not known (--device NAME)",
                          field.topo->name);
    status = filled->given != NULL ? take_given(&field, err) : plan_enumerate(&field, err);
    for (uint32_t i = 0; i < field.count && status == 0; i++)
        status = take(&field, field.candidates[i], &kept, err);
    if (status < 0) {
        plan_field_done(&field);
        return status;
    }
    field.counts.tried += field.count;
    field.count = kept;
    *ret = field;
    return 0;
}

void plan_field_done(struct plan_field *field)
{
    free(field->candidates);
    plan_layers_free(field->layers);
    field->candidates = NULL;
    field->layers = NULL;
}

/* ---- which comes first ----------------------------------------------------------------------- */

static bool is_less(const struct plan_candidate *a, const struct plan_candidate *b)
{
    return a->bound_ps != b->bound_ps ? a->bound_ps < b->bound_ps : a->number < b->number;
}

/* A heap: no candidate is less than number (i - 1) / 2. */
static void sink_down(struct plan_candidate *heap, uint32_t count, uint32_t at)
{
    struct plan_candidate moved = heap[at];

    for (uint64_t child = 2 * (uint64_t)at + 1; child < count; child = 2 * (uint64_t)at + 1) {
        if (child + 1 < count && is_less(&heap[child + 1], &heap[child]))
            child++;
        if (!is_less(&heap[child], &moved))
            break;
        heap[at] = heap[child];
        at = (uint32_t)child;
    }
    heap[at] = moved;
}

static void make_heap(struct plan_candidate *heap, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;)
        sink_down(heap, count, i);
}

/* The first goes behind the others, which are one fewer. */
static void take_first(struct plan_candidate *heap, uint32_t *count)
{
    struct plan_candidate first = heap[0];

    (*count)--;
    heap[0] = heap[*count];
    heap[*count] = first;
    sink_down(heap, *count, 0);
}

/* ---- the search ------------------------------------------------------------------------------ */

struct best {
    struct tutti_plan_found *found; /* by step, then number */
    uint32_t *numbers;
    uint32_t count;
    uint32_t most;
};

static bool is_before(tutti_ps step_ps, uint32_t number, const struct best *best, uint32_t at)
{
    if (step_ps != best->found[at].step_ps)
        return step_ps < best->found[at].step_ps;
    return number < best->numbers[at];
}

static void take_out(struct best *best, uint32_t at)
{
    best->count--;
    memmove(&best->found[at], &best->found[at + 1], (best->count - at) * sizeof(*best->found));
    memmove(&best->numbers[at], &best->numbers[at + 1],
            (best->count - at) * sizeof(*best->numbers));
}

static void put_in(struct best *best, const struct tutti_plan_found *found, uint32_t number)
{
    uint32_t at = 0;

    while (at < best->count && !is_before(found->step_ps, number, best, at))
        at++;
    if (at == best->most)
        return;
    if (best->count == best->most)
        best->count--;
    memmove(&best->found[at + 1], &best->found[at], (best->count - at) * sizeof(*best->found));
    memmove(&best->numbers[at + 1], &best->numbers[at],
            (best->count - at) * sizeof(*best->numbers));
    best->found[at] = *found;
    best->numbers[at] = number;
    best->count++;
}

/* Of one division the best alone stays. */
static void offer(struct best *best, const struct tutti_plan_found *found, uint32_t number)
{
    for (uint32_t i = 0; i < best->count; i++) {
        if (!tutti_plan_same_division(&best->found[i].plan, &found->plan))
            continue;
        if (!is_before(found->step_ps, number, best, i))
            return;
        take_out(best, i);
        break;
    }
    put_in(best, found, number);
}

static void note_miss(struct plan_field *field, const struct tutti_plan_setting *plan,
                      const struct tutti_footprint *footprint)
{
    if (field->has_nearest && field->nearest_footprint.total_bytes <= footprint->total_bytes)
        return;
    field->has_nearest = true;
    field->nearest = *plan;
    field->nearest_footprint = *footprint;
}

/* What a call says of one candidate: of -TUTTI_EINVAL and -TUTTI_ELACK it cannot be. */
static int refuse_candidate(struct plan_field *field, struct plan_candidate *candidate, int status,
                            const struct tutti_err *why, struct tutti_err *err)
{
    if (status == -TUTTI_ENOMEM)
        return tutti_nomem(err);
    candidate->step_ps = -1;
    refuse(field, why);
    return 0;
}

/* *ret_fits: it does; else it is counted. */
static int look_at_memory(struct plan_field *field, struct plan_candidate *candidate,
                          const struct tutti_plan_setting *plan, struct tutti_footprint *footprint,
                          bool *ret_fits, struct tutti_err *err)
{
    struct tutti_err why = {""};
    int status;

    *ret_fits = false;
    if (field->capacity_bytes > 0 && candidate->total_bytes > field->capacity_bytes) {
        field->counts.too_large++;
        return 0;
    }
    status = plan_footprint(field, plan, footprint, &why);
    if (status < 0)
        return refuse_candidate(field, candidate, status, &why, err);
    candidate->total_bytes = footprint->total_bytes;
    *ret_fits = footprint->fits;
    if (footprint->fits)
        return 0;
    note_miss(field, plan, footprint);
    field->counts.too_large++;
    return 0;
}

/* *ret_ready: it is known as closely as need be for it to be predicted. Else it is refused, or has
 * a bound by which others may come first. */
static int look_closer(struct plan_field *field, struct plan_candidate *candidate,
                       const struct tutti_plan_setting *plan, bool *ret_ready,
                       struct tutti_err *err)
{
    struct tutti_err why = {""};
    tutti_ps bound_ps = 0;
    int status;

    *ret_ready = candidate->bound == PLAN_BOUND_CLOSE;
    if (*ret_ready)
        return 0;
    status = plan_close_bound(field, plan, &bound_ps, &why);
    if (status < 0)
        return refuse_candidate(field, candidate, status, &why, err);
    candidate->bound = PLAN_BOUND_CLOSE;
    candidate->bound_ps = bound_ps > candidate->bound_ps ? bound_ps : candidate->bound_ps;
    return 0;
}

static int price(struct plan_field *field, struct plan_candidate *candidate,
                 const struct tutti_plan_setting *plan, const struct tutti_footprint *footprint,
                 struct best *best, struct tutti_err *err)
{
    struct tutti_plan_found found = {.step_ps = 0};
    struct tutti_err why = {""};
    int status = plan_price(field, plan, &found, &why);

    if (status < 0)
        return refuse_candidate(field, candidate, status, &why, err);
    field->counts.predicted++;
    candidate->step_ps = found.step_ps;
    found.footprint = *footprint;
    offer(best, &found, candidate->number);
    return 0;
}

/* *ret_done: nothing more is to be found out about it in this search. */
static int consider(struct plan_field *field, struct plan_candidate *candidate, struct best *best,
                    bool *ret_done, struct tutti_err *err)
{
    struct tutti_footprint footprint = {.total_bytes = 0};
    struct tutti_plan_setting plan;
    bool fits = false;
    bool ready = false;
    int status;

    *ret_done = true;
    if (candidate->step_ps < 0) {
        field->counts.refused++;
        return 0;
    }
    plan_of_candidate(field, candidate, &plan);
    status = look_at_memory(field, candidate, &plan, &footprint, &fits, err);
    if (status < 0 || !fits)
        return status;
    status = look_closer(field, candidate, &plan, &ready, err);
    if (status == 0 && ready)
        return price(field, candidate, &plan, &footprint, best, err);
    *ret_done = candidate->step_ps < 0;
    return status;
}

static void tell(const struct plan_field *field, uint32_t done)
{
    const struct tutti_plan_progress progress = {field->machine, done, field->count};

    if (field->ask->tell != NULL && done % TELL_EVERY == 0)
        field->ask->tell(field->ask->tell_context, &progress);
}

int plan_field_search(struct plan_field *field, uint32_t most, struct tutti_plan_found *ret,
                      uint32_t *ret_count, struct tutti_err *err)
{
    struct best best = {.found = ret, .most = most};
    struct plan_candidate *heap = field->candidates;
    uint32_t left = field->count;
    int status = 0;

    best.numbers = calloc(most, sizeof(*best.numbers));
    if (best.numbers == NULL)
        return tutti_nomem(err);
    make_heap(heap, left);
    while (left > 0 && status == 0) {
        bool done = true;

        if (!field->ask->unpruned && best.count == most &&
            heap[0].bound_ps > best.found[most - 1].step_ps) {
            field->counts.pruned += left;
            break;
        }
        tell(field, field->count - left);
        status = consider(field, &heap[0], &best, &done, err);
        if (done)
            take_first(heap, &left);
        else
            sink_down(heap, left, 0);
    }
    free(best.numbers);
    for (uint32_t i = 0; i < best.count && status == 0; i++)
        plan_judge(field, &ret[i]);
    *ret_count = best.count;
    return status;
}
