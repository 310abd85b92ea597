/* A step before it is written: layers one by one, packs, and where everything lies. */
#include "runtime/workload/strategy_plan.h"

#include <assert.h>
#include <inttypes.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/wide.h"

enum {
    INDEX_BYTES = 8,  /* of a row of IndexedSlices */
    LENGTH_BYTES = 4, /* how many of them there are, which ranks tell each other first */
    LINE = 64
};

bool tutti_strategy_gathers_rows(const struct tutti_strategy *s, const struct tutti_variable *v)
{
    return v->touched_rows > 0 && s->sharding == TUTTI_SHARD_NONE && s->local_steps == 0 &&
           !s->densify;
}

static bool is_sparse(const struct tutti_plan *plan, const struct tutti_variable *v)
{
    return tutti_strategy_gathers_rows(plan->strategy, v);
}

uint64_t tutti_plan_touched_rows(const struct tutti_plan *plan, const struct tutti_variable *v)
{
    uint64_t rows = v->rows > 0 ? v->rows : 1;
    uint64_t samples = plan->params.samples;

    return v->touched_rows > rows / samples ? rows : v->touched_rows * samples;
}

/* What of a variable is reduced: of a sparse gradient the rows that the samples touch, with their
 * indices. */
static uint64_t reduced_elements(const struct tutti_plan *plan, const struct tutti_variable *v)
{
    const uint64_t element_bytes = plan->params.gradient_bytes;
    uint64_t rows = v->rows > 0 ? v->rows : 1;
    uint64_t touched;

    if (v->unreduced)
        return 0;
    if (!is_sparse(plan, v))
        return v->elements;
    touched = tutti_plan_touched_rows(plan, v);
    return tutti_muldiv(v->elements, touched, rows) +
           touched * ((INDEX_BYTES + element_bytes - 1) / element_bytes);
}

/* ---- layers ---------------------------------------------------------------------------------- */

static int count_layers(const struct tutti_workload *model, uint32_t *ret, struct tutti_err *err)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < model->layer_count; i++)
        count += model->layers[i].repeat;
    if (count == 0 || count > TUTTI_PLAN_LAYERS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "model '%s' has '%" PRIu64 "' layers (1 to %d)",
                          model->name, count, TUTTI_PLAN_LAYERS_MAX);
    *ret = (uint32_t)count;
    return 0;
}

static void add_layer(struct tutti_plan *plan, const struct tutti_layer *layer,
                      const struct tutti_layer_times *times, uint32_t repeat_index,
                      uint64_t total[2])
{
    struct tutti_plan_layer *l = &plan->layers[plan->layer_count++];

    *l = (struct tutti_plan_layer){
        .layer = layer, .times = times, .repeat_index = repeat_index, .gather = UINT32_MAX};
    for (uint32_t v = 0; v < layer->variable_count; v++)
        l->elements[is_sparse(plan, &layer->variables[v])] +=
            reduced_elements(plan, &layer->variables[v]);
    for (int kind = 0; kind < 2; kind++) {
        l->first[kind] = total[kind];
        total[kind] += l->elements[kind];
    }
}

static int expand(struct tutti_plan *plan, struct tutti_err *err)
{
    const struct tutti_workload *model = plan->params.model;
    uint64_t total[2] = {0, 0};
    uint32_t count = 0;
    int status = count_layers(model, &count, err);

    if (status < 0)
        return status;
    plan->layers = tutti_arena_take(plan->arena, count, sizeof(*plan->layers));
    if (plan->layers == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < model->layer_count; i++)
        for (uint32_t k = 0; k < model->layers[i].repeat; k++)
            add_layer(plan, &model->layers[i], &plan->params.times[i], k, total);
    plan->elements = total[0] + total[1];
    for (uint32_t i = 0; i < plan->layer_count; i++)
        for (uint32_t v = 0; v < plan->layers[i].layer->variable_count; v++)
            plan->weights += plan->layers[i].layer->variables[v].elements;
    return 0;
}

/* ---- packs ----------------------------------------------------------------------------------- */

/* The layer that a variable, counted over all layers, belongs to. */
static uint32_t layer_of(const struct tutti_plan *plan, uint32_t variable)
{
    uint32_t layer = 0;

    while (variable >= plan->layers[layer].layer->variable_count)
        variable -= plan->layers[layer++].layer->variable_count;
    return layer;
}

static int list_variables(const struct tutti_plan *plan, uint64_t **ret_elements, bool **ret_sparse,
                          uint32_t *ret_count, struct tutti_err *err)
{
    uint32_t count = 0;
    uint32_t at = 0;

    for (uint32_t i = 0; i < plan->layer_count; i++)
        count += plan->layers[i].layer->variable_count;
    *ret_elements = tutti_arena_take(plan->arena, count, sizeof(**ret_elements));
    *ret_sparse = tutti_arena_take(plan->arena, count, sizeof(**ret_sparse));
    if (*ret_elements == NULL || *ret_sparse == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < plan->layer_count; i++) {
        const struct tutti_layer *layer = plan->layers[i].layer;

        for (uint32_t v = 0; v < layer->variable_count; v++, at++) {
            (*ret_elements)[at] = reduced_elements(plan, &layer->variables[v]);
            (*ret_sparse)[at] = is_sparse(plan, &layer->variables[v]);
        }
    }
    *ret_count = count;
    return 0;
}

/* Of a sparse variable, which is a pack alone, all of it; of dense ones what is reduced. */
static void note_weights(const struct tutti_plan *plan, struct tutti_plan_pack *pack)
{
    uint32_t number = 0;

    pack->weights = pack->elements;
    for (uint32_t i = 0; i < plan->layer_count && pack->sparse; i++)
        for (uint32_t v = 0; v < plan->layers[i].layer->variable_count; v++, number++) {
            const struct tutti_variable *variable = &plan->layers[i].layer->variables[v];

            if (number == pack->first_variable)
                pack->weights = variable->elements;
            else if (number < pack->first_variable && is_sparse(plan, variable))
                pack->first_weight += variable->elements;
        }
}

/* By the rule of the strategy. */
static int pack_by_rule(struct tutti_plan *plan, struct tutti_err *err)
{
    struct tutti_pack_params params = {.size = sizeof(params),
                                       .rule = plan->strategy->rule,
                                       .element_bytes = plan->params.gradient_bytes,
                                       .limit = plan->strategy->limit,
                                       .first_limit = plan->strategy->first_limit};
    struct tutti_packs *packs = NULL;
    uint64_t *elements = NULL;
    bool *sparse = NULL;
    int status = list_variables(plan, &elements, &sparse, &params.variable_count, err);

    params.elements = elements;
    params.sparse = sparse;
    if (status == 0)
        status = tutti_packs_new(&params, &packs, err);
    if (status < 0)
        return status;
    plan->packs = tutti_arena_take(plan->arena, packs->pack_count, sizeof(*plan->packs));
    if (plan->packs == NULL)
        status = tutti_nomem(err);
    for (uint32_t i = 0; i < packs->pack_count && status == 0; i++) {
        const struct tutti_pack *pack = &packs->pack[i];

        struct tutti_plan_pack *p = &plan->packs[plan->pack_count];

        if (pack->elements == 0) /* a variable that is not trained */
            continue;
        plan->pack_count++;
        *p = (struct tutti_plan_pack){.first = pack->first_element,
                                      .elements = pack->elements,
                                      .ready_layer = layer_of(plan, pack->ready_variable),
                                      .first_layer = layer_of(plan, pack->first_variable),
                                      .first_variable = pack->first_variable,
                                      .last_variable = pack->last_variable,
                                      .sparse = pack->sparse,
                                      .gathered = pack->sparse};
        note_weights(plan, p);
        tutti_plan_compress(plan, p);
    }
    tutti_packs_free(packs);
    return status;
}

/* Where weights are divided as well, a layer is a pack. */
static int pack_by_layer(struct tutti_plan *plan, struct tutti_err *err)
{
    plan->packs =
        tutti_arena_take(plan->arena, 2 * (size_t)plan->layer_count, sizeof(*plan->packs));
    if (plan->packs == NULL)
        return tutti_nomem(err);
    for (uint32_t i = plan->layer_count; i-- > 0;) {
        const struct tutti_plan_layer *l = &plan->layers[i];

        for (int kind = 0; kind < 2; kind++)
            if (l->elements[kind] > 0)
                plan->packs[plan->pack_count++] =
                    (struct tutti_plan_pack){.first = l->first[kind],
                                             .elements = l->elements[kind],
                                             .weights = l->elements[kind],
                                             .ready_layer = i,
                                             .first_layer = i,
                                             .sparse = kind == 1};
    }
    return 0;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* The pack that has an element of its kind. */
static const struct tutti_plan_pack *pack_of(const struct tutti_plan *plan, uint64_t element,
                                             bool sparse)
{
    for (uint32_t i = 0; i < plan->pack_count; i++)
        if (plan->packs[i].sparse == sparse && element >= plan->packs[i].first &&
            element - plan->packs[i].first < plan->packs[i].elements)
            return &plan->packs[i];
    return NULL;
}

static uint64_t place_of(const struct tutti_plan *plan, uint64_t element, bool sparse)
{
    const struct tutti_plan_pack *pack = pack_of(plan, element, sparse);

    assert(pack != NULL);
    return pack->offset + (element - pack->first) * plan->params.gradient_bytes;
}

/* Packs one behind the other in forward order, so that what a layer has lies in a row. */
static void place_packs(struct tutti_plan *plan)
{
    const uint64_t element_bytes = plan->params.gradient_bytes;
    const bool shares = plan->strategy->sharding != TUTTI_SHARD_NONE;
    uint64_t sizes[2] = {0, 0};

    for (uint32_t i = 0; i < plan->pack_count; i++) {
        struct tutti_plan_pack *p = &plan->packs[i];
        uint64_t n = shares && !p->sparse ? plan->shard_ranks : 1;

        p->padded = (p->elements + n - 1) / n * n;
        if (p->sparse) {
            p->sent[0] = (LENGTH_BYTES + element_bytes - 1) / element_bytes;
            p->sent[1] = p->elements;
            p->padded += p->sent[0];
        } else if (!p->compressed) {
            p->sent[0] = p->padded / (plan->strategy->full_reduce ? 1 : n);
        }
        sizes[p->sparse] += p->padded * element_bytes;
    }
    for (uint32_t i = 0; i < plan->pack_count; i++) {
        struct tutti_plan_pack *p = &plan->packs[i];
        uint64_t before = p->sparse ? sizes[0] : 0;

        for (uint32_t k = 0; k < plan->pack_count; k++)
            if (plan->packs[k].sparse == p->sparse && plan->packs[k].first < p->first)
                before += plan->packs[k].padded * element_bytes;
        p->offset = before;
    }
    plan->scratch_bytes = sizes[0] + sizes[1];
}

static void place_gradients(struct tutti_plan *plan)
{
    for (uint32_t i = 0; i < plan->layer_count; i++) {
        struct tutti_plan_layer *l = &plan->layers[i];

        for (int kind = 0; kind < 2; kind++) {
            uint64_t last = l->first[kind] + l->elements[kind] - 1;
            const struct tutti_plan_pack *pack;
            uint64_t from;
            uint64_t end;

            if (l->elements[kind] == 0)
                continue;
            pack = pack_of(plan, last, kind == 1);
            from = place_of(plan, l->first[kind], kind == 1);
            end = place_of(plan, last, kind == 1) + plan->params.gradient_bytes;
            if (last + 1 == pack->first + pack->elements) /* the padding is its, too */
                end = pack->offset + pack->padded * plan->params.gradient_bytes;
            l->gradients[kind] = (struct tutti_region){
                .buf = TUTTI_BUF_SCRATCH, .offset = from, .bytes = end - from};
        }
    }
}

static uint64_t dense_elements(const struct tutti_plan *plan)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < plan->pack_count; i++)
        count += plan->packs[i].sparse ? 0 : plan->packs[i].elements;
    return count;
}

/* Results, own parts of weights and gathered weights, pack by pack. Weights that are not divided
 * lie in the order of the model: a layer has its own in a row. */
static void place_results(struct tutti_plan *plan)
{
    const bool shares = plan->strategy->sharding != TUTTI_SHARD_NONE;
    const uint64_t element_bytes =
        plan->strategy->local_steps > 0 ? plan->params.weight_bytes : plan->params.gradient_bytes;

    for (uint32_t i = 0; i < plan->pack_count; i++) {
        struct tutti_plan_pack *p = &plan->packs[i];
        uint64_t n = shares && !p->sparse ? plan->shard_ranks : 1;
        uint64_t sent = p->sent[0] + p->sent[1];
        uint64_t results = p->gathered ? sent * plan->params.rank_count : sent;

        p->sent_offset = p->offset;
        if (p->compressed) {
            p->sent_offset = plan->scratch_bytes;
            plan->scratch_bytes += sent * element_bytes;
        }
        p->result_offset = plan->scratch_bytes;
        plan->scratch_bytes += results * element_bytes;
        p->sum_offset = p->compressed ? p->offset : p->result_offset; /* expanded in place */
        if (plan->micro_batches > 1 && plan->strategy->sharding >= TUTTI_SHARD_ZERO2) {
            p->sum_offset = plan->scratch_bytes;
            plan->scratch_bytes += results * element_bytes;
        }
        p->state_offset = shares ? plan->state_bytes
                                 : (p->sparse ? dense_elements(plan) + p->first_weight : p->first) *
                                       plan->params.weight_bytes;
        plan->state_bytes += (p->sparse ? p->weights : p->padded / n) * plan->params.weight_bytes;
        if (plan->params.run != NULL) /* floats, behind gradients of perhaps 16 bits */
            plan->scratch_bytes = (plan->scratch_bytes + LINE - 1) / LINE * LINE;
        p->gather_offset = plan->scratch_bytes;
        if (shares && !p->sparse)
            plan->scratch_bytes += p->padded * plan->params.weight_bytes;
    }
}

/* The number of slices lies behind them, and is sent first. */
struct tutti_region tutti_plan_sent(const struct tutti_plan *plan, const struct tutti_plan_pack *p,
                                    uint32_t part)
{
    const bool behind = p->sparse ? part == 0 : part == 1;
    uint64_t before = behind ? p->sent[1 - part] * plan->params.gradient_bytes : 0;

    return (struct tutti_region){.buf = TUTTI_BUF_SCRATCH,
                                 .offset = p->sent_offset + before,
                                 .bytes = p->sent[part] * plan->params.gradient_bytes};
}

struct tutti_region tutti_plan_result(const struct tutti_plan *plan,
                                      const struct tutti_plan_pack *p, uint32_t part)
{
    const uint64_t times = p->gathered ? plan->params.rank_count : 1;
    const uint64_t element_bytes = plan->params.gradient_bytes * times;
    uint64_t before = part > 0 ? p->sent[0] * element_bytes : 0;

    return (struct tutti_region){.buf = TUTTI_BUF_SCRATCH,
                                 .whole = p->gathered ? 0 : 1 + TUTTI_AXIS_ALL,
                                 .offset = p->result_offset + before,
                                 .bytes = p->sent[part] * element_bytes};
}

/* What ranks report, in lines of its own. */
static void place_report(struct tutti_plan *plan)
{
    uint64_t bytes = 8 * (uint64_t)plan->params.report_elements;
    bool alone = plan->params.rank_count == 1;

    if (bytes == 0)
        return;
    plan->scratch_bytes = (plan->scratch_bytes + LINE - 1) / LINE * LINE;
    plan->report = (struct tutti_region){
        .buf = TUTTI_BUF_SCRATCH, .offset = plan->scratch_bytes, .bytes = bytes};
    plan->report_sum = plan->report;
    if (!alone)
        plan->report_sum.offset += (bytes + LINE - 1) / LINE * LINE;
    plan->scratch_bytes = plan->report_sum.offset + bytes;
}

/* Each layer waits for the weights of the last of its packs to be gathered; that is, since packs
 * are gathered in forward order, of the one with its last dense element. */
static void note_gathers(struct tutti_plan *plan)
{
    for (uint32_t i = 0; i < plan->layer_count; i++) {
        struct tutti_plan_layer *l = &plan->layers[i];

        if (l->elements[0] > 0)
            l->gather =
                (uint32_t)(pack_of(plan, l->first[0] + l->elements[0] - 1, false) - plan->packs);
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int check(const struct tutti_plan *plan, struct tutti_err *err)
{
    const struct tutti_strategy_params *p = &plan->params;

    if (p->strategy == NULL || p->model == NULL || p->times == NULL || p->rank_count == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a step without strategy, model, times or ranks (all of them)");
    if (p->strategy->coordinated)
        return tutti_fail(err, TUTTI_EINVAL,
                          "strategy '%s' has no schedule of one step: a coordinator says while it "
                          "runs who does what",
                          p->strategy->name);
    if (plan->shard_ranks == 0 || p->rank_count % plan->shard_ranks != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "groups of '%u' of %u devices (a divisor of their number)",
                          plan->shard_ranks, p->rank_count);
    if ((p->gradient_bytes != 1 && p->gradient_bytes != 2 && p->gradient_bytes != 4) ||
        (p->weight_bytes != 1 && p->weight_bytes != 2 && p->weight_bytes != 4))
        return tutti_fail(err, TUTTI_EINVAL,
                          "gradients of '%u' and weights of '%u' bytes (1, 2 or 4)",
                          p->gradient_bytes, p->weight_bytes);
    if (p->strategy->compression != TUTTI_COMPRESS_NONE &&
        (p->strategy->sharding != TUTTI_SHARD_NONE || p->strategy->local_steps > 0 ||
         p->strategy->to_one_device))
        return tutti_fail(err, TUTTI_EINVAL,
                          "strategy '%s' all-reduces no gradients that could be compressed (ddp, "
                          "horovod, mirrored, multiworkermirrored or tpu)",
                          p->strategy->name);
    if (p->strategy->compression == TUTTI_COMPRESS_POWER_SGD &&
        p->strategy->rule == TUTTI_PACK_PIECES && p->strategy->limit > 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "factors of matrices in '%" PRIu64 "' pieces of gradients (1 or 0)",
                          p->strategy->limit);
    if (plan->micro_batches > TUTTI_PLAN_MICRO_BATCHES_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' micro-batches (at most %d)", plan->micro_batches,
                          TUTTI_PLAN_MICRO_BATCHES_MAX);
    if (p->run != NULL && (p->gradient_bytes == 1 || p->weight_bytes != 4))
        return tutti_fail(
            err, TUTTI_EINVAL,
            "real work on gradients of '%u' and weights of '%u' bytes (4 or 2, and 4)",
            p->gradient_bytes, p->weight_bytes);
    return 0;
}

int tutti_plan_make(const struct tutti_strategy_params *params, struct tutti_arena *arena,
                    struct tutti_plan *ret, struct tutti_err *err)
{
    struct tutti_plan plan = {.params = *params, .strategy = params->strategy, .arena = arena};
    int status;

    plan.shard_ranks = params->shard_ranks > 0 ? params->shard_ranks : params->rank_count;
    plan.micro_batches = params->micro_batches > 0 ? params->micro_batches : 1;
    plan.params.samples = params->samples > 0 ? params->samples : 1;
    status = check(&plan, err);
    if (status == 0)
        status = expand(&plan, err);
    if (status == 0)
        status = tutti_plan_list_matrices(&plan, err);
    if (status == 0)
        status = plan.strategy->sharding == TUTTI_SHARD_ZERO3 ? pack_by_layer(&plan, err)
                                                              : pack_by_rule(&plan, err);
    if (status < 0)
        return status;
    place_packs(&plan);
    place_gradients(&plan);
    place_results(&plan);
    place_report(&plan);
    note_gathers(&plan);
    *ret = plan;
    return 0;
}

struct tutti_plan_entries tutti_plan_entries(const struct tutti_plan *plan)
{
    const struct tutti_strategy *s = plan->strategy;
    const bool several = plan->params.rank_count > 1;
    struct tutti_plan_entries e = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX,
                                   UINT32_MAX, UINT32_MAX, UINT32_MAX, 3 * plan->layer_count};

    if (several && s->sharding >= TUTTI_SHARD_ZERO2 && plan->micro_batches > 1) {
        e.sum = e.count;
        e.count += 2 * plan->pack_count;
    }
    if (several && s->compression != TUTTI_COMPRESS_NONE) {
        e.compress = e.count;
        e.count += TUTTI_PLAN_COMPRESSIONS * plan->pack_count;
    }
    e.input = e.count++;
    if (plan->params.report_elements > 0)
        e.report = e.count++;
    e.optimizer = e.count++;
    if (s->local_steps > 0 && plan->params.run != NULL)
        e.local = e.count++;
    if (several && s->local_steps > 0 && plan->params.run != NULL)
        e.outer = e.count++;
    return e;
}
