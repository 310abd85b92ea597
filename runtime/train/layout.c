/* Where everything of a training step lies, read off the plan of its schedule. */
#include <inttypes.h>
#include <math.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/train/replica.h"

uint32_t tutti_report_elements(const struct tutti_trainer_params *params)
{
    return TUTTI_REPORT_RANKS + params->rank_count * (params->check_sync ? 2 : 1);
}

/* The pack with an element of the dense variables. */
static const struct tutti_plan_pack *pack_of(const struct tutti_plan *plan, uint64_t element)
{
    for (uint32_t i = 0; i < plan->pack_count; i++) {
        const struct tutti_plan_pack *p = &plan->packs[i];

        if (!p->sparse && element >= p->first && element - p->first < p->elements)
            return p;
    }
    return NULL;
}

/* Where an element's gradient is, and its weight as the learner reads it. */
static void find(const struct tutti_layout *l, uint64_t element, uint64_t *ret_gradient,
                 uint64_t *ret_weight)
{
    const struct tutti_plan_pack *p = pack_of(&l->plan, element);
    uint64_t before = element - p->first;

    *ret_gradient = p->offset + before * l->plan.params.gradient_bytes;
    *ret_weight = (l->weights_gathered ? p->gather_offset : p->state_offset) +
                  before * l->plan.params.weight_bytes;
}

/* A variable is one stretch of memory, as a learner needs it. */
static int place(const struct tutti_layout *l, const char *layer,
                 const struct tutti_variable *variable, uint64_t first,
                 struct tutti_variable_place *ret, struct tutti_err *err)
{
    uint64_t gradient_end;
    uint64_t weight_end;
    uint64_t last = variable->elements - 1;

    *ret = (struct tutti_variable_place){.elements = variable->elements, .flat = first};
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

static int place_all(struct tutti_layout *l, struct tutti_arena *arena, struct tutti_err *err)
{
    const struct tutti_plan *plan = &l->plan;
    uint32_t count = 0;
    uint64_t flat = 0;
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

            if (variable->unreduced || tutti_strategy_gathers_rows(plan->strategy, variable) ||
                variable->elements == 0)
                return tutti_fail(err, TUTTI_EINVAL,
                                  "variable '%s' of layer '%s' cannot be trained for real: it is "
                                  "not trained, or its gradient is sparse (dense ones)",
                                  variable->name, layer->name);
            status = place(l, layer->name, variable, flat, &l->places[count++], err);
            flat += variable->elements;
        }
    }
    l->first_place[plan->layer_count] = count;
    return status;
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
    *ret = l;
    return status;
}
