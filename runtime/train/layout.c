/* Where everything of a training step lies, read off the plan of its schedule. */
#include <inttypes.h>
#include <math.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/train/replica.h"

uint32_t tutti_report_elements(const struct tutti_trainer_params *params)
{
    return TUTTI_REPORT_RANKS + params->rank_count * (params->check_sync ? 3 : 2);
}

/* The pack with an element of its kind. */
static const struct tutti_plan_pack *pack_of(const struct tutti_plan *plan, uint64_t element,
                                             bool sparse)
{
    for (uint32_t i = 0; i < plan->pack_count; i++) {
        const struct tutti_plan_pack *p = &plan->packs[i];

        if (p->sparse == sparse && element >= p->first && element - p->first < p->elements)
            return p;
    }
    return NULL;
}

/* Where an element's gradient is, and its weight as the learner reads it. */
static void find(const struct tutti_layout *l, uint64_t element, uint64_t *ret_gradient,
                 uint64_t *ret_weight)
{
    const struct tutti_plan_pack *p = pack_of(&l->plan, element, false);
    uint64_t before = element - p->first;

    *ret_gradient = p->offset + before * l->plan.params.gradient_bytes;
    *ret_weight = (l->weights_gathered ? p->gather_offset : p->state_offset) +
                  before * l->plan.params.weight_bytes;
}

/* A variable is one stretch of memory, as a learner needs it; `first` of all dense ones. */
static int place(const struct tutti_layout *l, const char *layer,
                 const struct tutti_variable *variable, uint64_t first,
                 struct tutti_variable_place *ret, struct tutti_err *err)
{
    uint64_t gradient_end;
    uint64_t weight_end;
    uint64_t last = variable->elements - 1;

    find(l, first, &ret->gradient, &ret->weight);
    find(l, first + last, &gradient_end, &weight_end);
    if (gradient_end - ret->gradient == last * l->plan.params.gradient_bytes &&
        weight_end - ret->weight == last * l->plan.params.weight_bytes)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "variable '%s' of layer '%s' lies in several packs of weights that are "
                      "divided (packs of whole variables)",
                      variable->name, layer);
}

/* Of a sparse variable; `first` of all that is sent of sparse ones, whose place follows. */
static int place_sparse(struct tutti_layout *l, const char *layer,
                        const struct tutti_variable *variable, uint64_t *first,
                        struct tutti_variable_place *ret, struct tutti_err *err)
{
    const uint64_t asked = variable->touched_rows * (l->params.samples > 0 ? l->params.samples : 1);
    const struct tutti_plan_pack *p = pack_of(&l->plan, *first, true);

    if (TUTTI_BYTES_TO(struct tutti_learner, slices) > l->learner->size ||
        l->learner->slices == NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "variable '%s' of layer '%s' has a sparse gradient, and the learner has "
                          "no slices (slices, or dense ones)",
                          variable->name, layer);
    if (l->narrow || variable->rows == 0 || variable->elements % variable->rows != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "variable '%s' of layer '%s': a sparse gradient of 16 bits, or of no "
                          "rows of equal length (of 32 bits, or dense)",
                          variable->name, layer);
    ret->pack = p;
    ret->gradient = p->offset;
    ret->weight = p->state_offset;
    ret->rows = variable->rows;
    ret->columns = variable->elements / variable->rows;
    ret->slice_count = tutti_plan_touched_rows(&l->plan, variable);
    if (asked > l->slice_most)
        l->slice_most = asked;
    if (asked * ret->columns > l->slice_elements)
        l->slice_elements = asked * ret->columns;
    *first += p->elements;
    return 0;
}

static int place_all(struct tutti_layout *l, struct tutti_arena *arena, struct tutti_err *err)
{
    const struct tutti_plan *plan = &l->plan;
    uint32_t count = 0;
    uint64_t flat = 0;
    uint64_t sent = 0;
    int status = 0;

    for (uint32_t i = 0; i < plan->layer_count; i++)
        count += plan->layers[i].layer->variable_count;
    l->places = tutti_arena_take(arena, (size_t)count + 1, sizeof(l->places[0]));
    l->first_place = tutti_arena_take(arena, (size_t)plan->layer_count + 1, sizeof(uint32_t));
    if (l->places == NULL || l->first_place == NULL)
        return tutti_nomem(err);
    count = 0;
    for (uint32_t i = 0; i < plan->layer_count; i++) {
        const struct tutti_layer *layer = plan->layers[i].layer;

        l->first_place[i] = count;
        if (layer->variable_count > l->layer_most)
            l->layer_most = layer->variable_count;
        for (uint32_t v = 0; v < layer->variable_count && status == 0; v++) {
            const struct tutti_variable *variable = &layer->variables[v];
            struct tutti_variable_place *to = &l->places[count++];

            if (variable->unreduced || variable->elements == 0)
                return tutti_fail(err, TUTTI_EINVAL,
                                  "variable '%s' of layer '%s' is not trained (those that are)",
                                  variable->name, layer->name);
            *to = (struct tutti_variable_place){.elements = variable->elements, .flat = flat};
            flat += variable->elements;
            if (tutti_strategy_gathers_rows(plan->strategy, variable)) {
                status = place_sparse(l, layer->name, variable, &sent, to, err);
                continue;
            }
            status = place(l, layer->name, variable, l->dense_elements, to, err);
            l->dense_elements += variable->elements;
        }
    }
    l->first_place[plan->layer_count] = count;
    return status;
}

/* Weights that are not divided: dense variables in their order, then sparse ones. */
static int list_runs(struct tutti_layout *l, struct tutti_arena *arena, struct tutti_err *err)
{
    const uint32_t count = l->first_place[l->plan.layer_count];

    l->runs = tutti_arena_take(arena, (size_t)count + 1, sizeof(l->runs[0]));
    if (l->runs == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < count && !l->weights_gathered; i++) {
        const struct tutti_variable_place *place = &l->places[i];
        const uint64_t state = place->weight / sizeof(float);
        struct tutti_flat_run *last = l->run_count > 0 ? &l->runs[l->run_count - 1] : NULL;

        if (last != NULL && last->state + last->count == state &&
            last->flat + last->count == place->flat)
            last->count += place->elements;
        else
            l->runs[l->run_count++] =
                (struct tutti_flat_run){place->flat, state, place->elements, false};
    }
    return 0;
}

int tutti_layout_make(const struct tutti_trainer_params *params,
                      const struct tutti_strategy_params *step, struct tutti_arena *arena,
                      struct tutti_layout *ret, struct tutti_err *err)
{
    struct tutti_layout l = {.params = *params, .learner = params->learner};
    int status = tutti_plan_make(step, arena, &l.plan, err);

    if (status < 0)
        return status;
    l.entries = tutti_plan_entries(&l.plan);
    l.alone = step->rank_count == 1;
    l.averages = l.plan.strategy->local_steps > 0;
    l.weights_gathered = l.plan.strategy->sharding != TUTTI_SHARD_NONE && !l.alone;
    l.narrow = step->gradient_bytes == 2;
    if (l.plan.strategy->compression != TUTTI_COMPRESS_NONE && l.narrow)
        return tutti_fail(err, TUTTI_EINVAL, "compressed gradients of 16 bits (of 32)");
    for (uint32_t i = 0; i < l.plan.pack_count; i++)
        if (l.plan.packs[i].kept > 0 && l.plan.packs[i].elements > UINT32_MAX)
            return tutti_fail(err, TUTTI_EINVAL,
                              "a pack of '%" PRIu64 "' gradients, of which the largest are sent by "
                              "indices of 4 bytes (at most 2^32 - 1)",
                              l.plan.packs[i].elements);
    status = place_all(&l, arena, err);
    if (status == 0)
        status = list_runs(&l, arena, err);
    *ret = l;
    return status;
}
