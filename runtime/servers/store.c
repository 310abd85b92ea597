/* Variables on servers; see store.h. */
#include "runtime/servers/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/model.h"
#include "runtime/status.h"

/* ---- where they lie -------------------------------------------------------------------------- */

struct listing {
    uint64_t *rows;
    uint64_t *elements;
    uint32_t count;
    uint32_t layers;
};

/* All variables of all layers, each repeat for itself; of no arrays, how many there are. */
static int list(const struct tutti_workload *model, struct tutti_server_layout *l,
                struct listing *list, struct tutti_err *err)
{
    list->count = list->layers = 0;
    for (uint32_t i = 0; i < model->layer_count; i++)
        for (uint32_t k = 0; k < model->layers[i].repeat; k++) {
            if (list->rows != NULL)
                l->first_variable[list->layers] = list->count;
            list->layers++;
            for (uint32_t v = 0; v < model->layers[i].variable_count; v++) {
                const struct tutti_variable *variable = &model->layers[i].variables[v];

                if (variable->unreduced || variable->elements == 0)
                    return tutti_fail(err, TUTTI_EINVAL,
                                      "variable '%s' of layer '%s' is not trained (those that are)",
                                      variable->name, model->layers[i].name);
                if (list->rows != NULL) {
                    list->elements[list->count] = variable->elements;
                    list->rows[list->count] =
                        variable->rows > 0 && variable->elements % variable->rows == 0
                            ? variable->rows
                            : 1;
                }
                list->count++;
            }
        }
    return 0;
}

static int place(const struct tutti_servers_params *p, const struct listing *all,
                 struct tutti_placed **ret, struct tutti_err *err)
{
    struct tutti_placement_params params = {.size = sizeof(params),
                                            .placement = p->placement,
                                            .partition = p->partition,
                                            .server_count = p->server_count,
                                            .element_bytes = sizeof(float),
                                            .variable_count = all->count,
                                            .rows = all->rows,
                                            .elements = all->elements};

    if (params.partition.kind == TUTTI_PARTITION_MIN_SIZE && params.partition.shards == 0)
        params.partition.shards = p->server_count;
    return tutti_placed_new(&params, ret, err);
}

static void list_runs(struct tutti_server_layout *l, const struct listing *all,
                      const struct tutti_placed *placed)
{
    uint32_t count = 0;

    for (uint32_t s = 0; s < l->server_count; s++) {
        l->first_run[s] = count;
        l->server_elements[s] = 0;
        for (uint32_t i = 0; i < placed->shard_count; i++) {
            const struct tutti_shard *shard = &placed->shard[i];
            const uint64_t columns = all->elements[shard->variable] / all->rows[shard->variable];

            if (shard->server != s)
                continue;
            l->runs[count++] = (struct tutti_server_run){.flat = l->variable_at[shard->variable] +
                                                                 shard->first_row * columns,
                                                         .at = l->server_elements[s],
                                                         .count = shard->bytes / sizeof(float)};
            l->server_elements[s] += shard->bytes / sizeof(float);
        }
    }
    l->first_run[l->server_count] = count;
}

static int lay_out(const struct tutti_servers_params *params, struct tutti_server_layout *l,
                   struct tutti_err *err)
{
    struct listing all = {.rows = NULL};
    struct tutti_placed *placed = NULL;
    int status = list(params->model, l, &all, err);

    if (status < 0)
        return status;
    l->layer_count = all.layers;
    l->server_count = params->server_count;
    l->first_variable = tutti_arena_take(l->arena, (size_t)all.layers + 1, sizeof(uint32_t));
    l->variable_at = tutti_arena_take(l->arena, (size_t)all.count + 1, sizeof(uint64_t));
    l->server_elements = tutti_arena_take(l->arena, params->server_count, sizeof(uint64_t));
    l->first_run = tutti_arena_take(l->arena, (size_t)params->server_count + 1, sizeof(uint32_t));
    all.elements = tutti_arena_take(l->arena, (size_t)all.count + 1, sizeof(uint64_t));
    all.rows = tutti_arena_take(l->arena, (size_t)all.count + 1, sizeof(uint64_t));
    if (l->first_variable == NULL || l->variable_at == NULL || l->server_elements == NULL ||
        l->first_run == NULL || all.elements == NULL || all.rows == NULL)
        return tutti_nomem(err);
    (void)list(params->model, l, &all, err);
    l->first_variable[all.layers] = all.count;
    for (uint32_t v = 0; v < all.count; v++)
        l->variable_at[v + 1] = l->variable_at[v] + all.elements[v];
    l->elements = l->variable_at[all.count];
    status = place(params, &all, &placed, err);
    if (status < 0)
        return status;
    l->runs = tutti_arena_take(l->arena, (size_t)placed->shard_count + 1, sizeof(l->runs[0]));
    if (l->runs == NULL)
        status = tutti_nomem(err);
    else
        list_runs(l, &all, placed);
    tutti_placed_free(placed);
    return status;
}

int tutti_server_layout_new(const struct tutti_servers_params *params,
                            struct tutti_server_layout **ret, struct tutti_err *err)
{
    struct tutti_arena *arena = tutti_arena_new();
    struct tutti_server_layout *l = arena == NULL ? NULL : tutti_arena_take(arena, 1, sizeof(*l));
    int status;

    if (l == NULL) {
        tutti_arena_free(arena);
        return tutti_nomem(err);
    }
    l->arena = arena;
    status = lay_out(params, l, err);
    if (status < 0)
        tutti_arena_free(arena);
    else
        *ret = l;
    return status;
}

void tutti_server_layout_free(struct tutti_server_layout *l)
{
    if (l != NULL)
        tutti_arena_free(l->arena);
}

void tutti_server_gather(const struct tutti_server_layout *l, uint32_t server, const float *all,
                         float *part)
{
    for (uint32_t i = l->first_run[server]; i < l->first_run[server + 1]; i++)
        memcpy(part + l->runs[i].at, all + l->runs[i].flat, l->runs[i].count * sizeof(float));
}

void tutti_server_scatter(const struct tutti_server_layout *l, uint32_t server, const float *part,
                          float *all)
{
    for (uint32_t i = l->first_run[server]; i < l->first_run[server + 1]; i++)
        memcpy(all + l->runs[i].flat, part + l->runs[i].at, l->runs[i].count * sizeof(float));
}

/* ---- a server -------------------------------------------------------------------------------- */

int tutti_store_new(const struct tutti_servers_params *params,
                    const struct tutti_server_layout *layout, uint32_t server,
                    struct tutti_store **ret, struct tutti_err *err)
{
    struct tutti_store *s = calloc(1, sizeof(*s));
    bool is_whole = true;

    if (s == NULL)
        return tutti_nomem(err);
    s->rule = params->optimizer;
    s->rate = params->rate;
    s->count = layout->server_elements[server];
    s->moment_count = tutti_update_moments(&params->optimizer);
    s->worker_count = params->worker_count;
    assert(s->moment_count <= TUTTI_SERVER_MOMENTS);
    s->weights = calloc(s->count + 1, sizeof(float));
    s->sum = calloc(s->count + 1, sizeof(float));
    s->copy = calloc(tutti_store_row(s) + 1, sizeof(float));
    s->staged = calloc(s->worker_count + 1, sizeof(s->staged[0]));
    is_whole = s->weights != NULL && s->sum != NULL && s->copy != NULL && s->staged != NULL;
    for (uint32_t i = 0; i < s->moment_count && is_whole; i++)
        is_whole = (s->moments[i] = calloc(s->count + 1, sizeof(float))) != NULL;
    for (uint32_t i = 0; i < s->worker_count && is_whole; i++)
        is_whole = (s->staged[i].values = calloc(s->count + 1, sizeof(float))) != NULL;
    if (!is_whole) {
        tutti_store_free(s);
        return tutti_nomem(err);
    }
    *ret = s;
    return 0;
}

void tutti_store_free(struct tutti_store *s)
{
    if (s == NULL)
        return;
    for (uint32_t i = 0; i < s->worker_count && s->staged != NULL; i++)
        free(s->staged[i].values);
    for (uint32_t i = 0; i < TUTTI_SERVER_MOMENTS; i++)
        free(s->moments[i]);
    free(s->staged);
    free(s->copy);
    free(s->sum);
    free(s->weights);
    free(s);
}

uint64_t tutti_store_row(const struct tutti_store *s)
{
    return s->count * (1 + s->moment_count);
}

void tutti_store_assign(struct tutti_store *s, const struct tutti_server_head *head,
                        const float *row)
{
    memcpy(s->weights, row, s->count * sizeof(float));
    for (uint32_t i = 0; i < s->moment_count; i++)
        memcpy(s->moments[i], row + s->count * (i + 1), s->count * sizeof(float));
    memset(s->sum, 0, s->count * sizeof(float));
    s->sum_count = 0;
    for (uint32_t i = 0; i < s->worker_count; i++) {
        s->dropped += s->staged[i].is_there;
        s->staged[i].is_there = false;
    }
    s->generation = head->generation;
    s->step = head->step;
    s->updates = head->number;
    s->sequence = head->sequence; /* no verdict of this generation has been given yet */
}

void tutti_store_stage(struct tutti_store *s, uint32_t worker, const struct tutti_server_head *head,
                       const float *gradient)
{
    struct tutti_server_staged *staged = &s->staged[worker];

    assert(worker < s->worker_count);
    s->dropped += staged->is_there;
    staged->is_there = head->generation == s->generation;
    s->dropped += !staged->is_there;
    staged->of = *head;
    memcpy(staged->values, gradient, s->count * sizeof(float));
}

static void update(struct tutti_store *s, const float *gradient, double scale)
{
    const double rate = s->rule.rate * tutti_rate_at(&s->rate, s->updates);

    s->updates++;
    tutti_update_weights(&s->rule, rate, s->updates, scale, s->weights, gradient, s->moments,
                         s->count);
}

static bool is_of(const struct tutti_server_staged *staged, const struct tutti_server_head *verdict)
{
    return staged->is_there && staged->of.generation == verdict->generation &&
           staged->of.incarnation == verdict->incarnation && staged->of.episode == verdict->episode;
}

static void mark(struct tutti_store *s, const struct tutti_server_head *verdict)
{
    memcpy(s->copy, s->weights, s->count * sizeof(float));
    for (uint32_t i = 0; i < s->moment_count; i++)
        memcpy(s->copy + s->count * (i + 1), s->moments[i], s->count * sizeof(float));
    s->copied = *verdict;
    s->copied.step = s->step;
    s->copied.number = s->updates;
    s->copied.member = s->moment_count;
}

/* Asynchronous: into the weights. */
static void apply(struct tutti_store *s, bool synchronous, const struct tutti_server_staged *staged)
{
    if (!synchronous) {
        update(s, staged->values, 1);
        return;
    }
    for (uint64_t i = 0; i < s->count; i++)
        s->sum[i] += staged->values[i];
    s->sum_count++;
}

bool tutti_store_carry_out(struct tutti_store *s, bool synchronous,
                           const struct tutti_server_head *verdict)
{
    struct tutti_server_staged *staged =
        verdict->member < s->worker_count ? &s->staged[verdict->member] : NULL;
    const bool found = staged != NULL && is_of(staged, verdict);

    s->sequence = verdict->sequence;
    if (verdict->generation != s->generation)
        return true;
    switch ((enum tutti_server_verdict)verdict->number) {
    case TUTTI_VERDICT_APPLY:
        if (!found)
            return false;
        apply(s, synchronous, staged);
        staged->is_there = false;
        if (!synchronous)
            s->step = verdict->step;
        return true;
    case TUTTI_VERDICT_ADVANCE:
        update(s, s->sum, s->sum_count > 0 ? 1.0 / s->sum_count : 0);
        memset(s->sum, 0, s->count * sizeof(float));
        s->sum_count = 0;
        s->step = verdict->step;
        return true;
    case TUTTI_VERDICT_DROP:
        if (found)
            staged->is_there = false;
        return true;
    case TUTTI_VERDICT_MARK:
        mark(s, verdict);
        return true;
    }
    return false;
}
