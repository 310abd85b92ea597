/* What would change the order: the search once more, with less or more memory, another network,
 * another batch, until another division of the model wins. */
#include <string.h>

#include "runtime/status.h"
#include "sim/plan/search.h"
#include "sim/train.h"
#include "topo/topo.h"

enum { STEPS = 4, MEMORY_TRIES = 16 };

/* By how much at least, and how far is looked. */
static const double network_steps[STEPS] = {1.25, 1.5, 2, 4};
static const double batch_steps[STEPS] = {2, 4, 8, 16};

static bool is_of_batch(enum tutti_plan_turn_kind kind)
{
    return kind == TUTTI_PLAN_SMALLER_BATCH || kind == TUTTI_PLAN_LARGER_BATCH;
}

/* One machine of the question, asked about again. */
struct scene {
    struct tutti_plan_ask ask;
    struct tutti_plan_machine machine;
    struct tutti_plan_space space;
    const struct tutti_plan_found *best;
};

/* ---- asking again ---------------------------------------------------------------------------- */

/* The fastest of the scene, or nothing: *ret_any. */
static int ask_again(const struct tutti_plan_ask *ask, struct tutti_plan_found *ret, bool *ret_any,
                     struct tutti_err *err)
{
    struct plan_field field;
    int status = plan_field_new(ask, 0, &field, err);

    if (status < 0)
        return status;
    status = plan_field_first(&field, ret, ret_any, err);
    plan_field_done(&field);
    return status;
}

/* What the best plan's division takes there, with whatever settings are best for it. */
static int ask_best(const struct scene *scene, tutti_ps *ret, struct tutti_err *err)
{
    const struct tutti_parallel *p = &scene->best->plan.parallel;
    struct tutti_plan_ask ask = scene->ask;
    struct tutti_plan_space space = scene->space;
    struct tutti_plan_found found;
    bool any = false;
    int status;

    space.tensor = (struct tutti_plan_values){1, {p->tensor}};
    space.context = (struct tutti_plan_values){1, {p->context}};
    space.expert = (struct tutti_plan_values){1, {p->expert}};
    space.data = (struct tutti_plan_values){1, {p->data}};
    space.pipeline = (struct tutti_plan_values){1, {p->pipeline}};
    ask.space = &space;
    status = ask_again(&ask, &found, &any, err);
    *ret = status == 0 && any ? found.step_ps : 0;
    return status;
}

static bool is_other(const struct scene *scene, const struct tutti_plan_found *found)
{
    struct tutti_plan_setting best = scene->best->plan;

    best.machine = found->plan.machine;
    return !tutti_plan_same_division(&best, &found->plan);
}

/* What is as good to 0.1 % wins nothing. */
static bool is_faster(tutti_ps step_ps, tutti_ps than_ps)
{
    return than_ps - step_ps > step_ps / 1000;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void turned(struct tutti_plan_turn *turn, double factor,
                   const struct tutti_plan_found *first)
{
    turn->turns = true;
    turn->factor = factor;
    turn->first = *first;
}

/* Ever less, so that what has won just now no longer fits, down to half. */
static int less_memory(const struct scene *scene, struct plan_field *field,
                       struct tutti_plan_turn *turn, struct tutti_err *err)
{
    uint64_t all = field->capacity_bytes;
    uint64_t fullest = scene->best->footprint.total_bytes;

    turn->factor = 0.5;
    turn->first = *scene->best;
    for (int i = 0; i < MEMORY_TRIES && fullest > all / 2; i++) {
        struct tutti_plan_found found;
        bool any = false;
        int status;

        field->capacity_bytes = fullest - 1;
        status = plan_field_first(field, &found, &any, err);
        if (status < 0)
            return status;
        turn->factor = (double)field->capacity_bytes / (double)all;
        if (!any)
            return 0; /* nothing at all fits */
        turn->first = found;
        if (is_other(scene, &found)) {
            turned(turn, turn->factor, &found);
            return 0;
        }
        fullest = found.footprint.total_bytes;
    }
    return 0;
}

/* From twice as much down, as long as another wins. */
static int more_memory(const struct scene *scene, struct plan_field *field,
                       struct tutti_plan_turn *turn, struct tutti_err *err)
{
    uint64_t all = field->capacity_bytes;

    turn->factor = 2;
    turn->first = *scene->best;
    field->capacity_bytes = all > UINT64_MAX / 2 ? UINT64_MAX : 2 * all;
    for (int i = 0; i < MEMORY_TRIES; i++) {
        struct tutti_plan_found found;
        bool any = false;
        int status = plan_field_first(field, &found, &any, err);

        if (status < 0 || !any)
            return status;
        if (!is_other(scene, &found) || found.footprint.total_bytes <= all ||
            !is_faster(found.step_ps, scene->best->step_ps)) {
            turn->first = turn->turns ? turn->first : found;
            return 0;
        }
        turned(turn, (double)found.footprint.total_bytes / (double)all, &found);
        field->capacity_bytes = found.footprint.total_bytes - 1;
    }
    return 0;
}

static int turn_memory(const struct scene *scene, struct tutti_plan_turn *ret,
                       struct tutti_err *err)
{
    struct plan_field field;
    uint64_t all;
    int status = plan_field_new(&scene->ask, 0, &field, err);

    if (status < 0)
        return status;
    all = field.capacity_bytes;
    for (int kind = TUTTI_PLAN_LESS_MEMORY;
         kind <= TUTTI_PLAN_MORE_MEMORY && status == 0 && all > 0; kind++) {
        struct tutti_plan_turn *turn = &ret[kind];

        turn->is_asked = true;
        field.capacity_bytes = all;
        status = kind == TUTTI_PLAN_LESS_MEMORY ? less_memory(scene, &field, turn, err)
                                                : more_memory(scene, &field, turn, err);
    }
    plan_field_done(&field);
    return status;
}

/* ---- network and batch ----------------------------------------------------------------------- */

/* So many times the batch, of whole passes of the best plan's replicas, smaller ones if need be:
 * what does not divide says nothing of what is faster. */
static uint64_t batch_near(const struct scene *scene, double factor)
{
    const struct tutti_parallel *p = &scene->best->plan.parallel;
    uint64_t wanted = (uint64_t)((double)scene->ask.global_batch * factor);
    uint64_t pass = (uint64_t)p->data * p->micro_batch;
    uint64_t unit = wanted < pass ? p->data : pass;
    uint64_t units = (wanted + unit / 2) / unit;

    return unit * (units > 0 ? units : 1);
}

/* *ret: there is such a scene; *ret_topo is the caller's to free. */
static int change(struct scene *scene, enum tutti_plan_turn_kind kind, double *factor,
                  struct tutti_topo **ret_topo, bool *ret, struct tutti_err *err)
{
    uint64_t batch = scene->ask.global_batch;
    int status;

    if (is_of_batch(kind)) {
        scene->ask.global_batch = batch_near(scene, *factor);
        *ret = kind == TUTTI_PLAN_SMALLER_BATCH ? scene->ask.global_batch < batch
                                                : scene->ask.global_batch > batch;
        *factor = (double)scene->ask.global_batch / (double)batch;
        return 0;
    }
    status = plan_network_scaled(scene->machine.topo, *factor, ret_topo, err);
    *ret = status == 0 && *ret_topo != NULL;
    if (*ret)
        scene->machine.topo = *ret_topo;
    return status;
}

/* The scene with the quantity some `factor` times what it is; *ret_any: there is such a scene, and
 * the best plan's division is possible there. */
static int try_factor(const struct scene *scene, enum tutti_plan_turn_kind kind, double factor,
                      struct tutti_plan_turn *ret, bool *ret_any, struct tutti_err *err)
{
    struct scene other = *scene;
    struct tutti_topo *topo = NULL;
    int status = change(&other, kind, &factor, &topo, ret_any, err);

    if (status < 0 || !*ret_any)
        return status;
    other.ask.machines = &other.machine;
    ret->factor = factor;
    status = ask_again(&other.ask, &ret->first, ret_any, err);
    ret->turns = false;
    if (status == 0 && *ret_any && is_other(scene, &ret->first)) {
        status = ask_best(&other, &ret->best_ps, err);
        *ret_any = status == 0 && ret->best_ps > 0;
        ret->turns = *ret_any && is_faster(ret->first.step_ps, ret->best_ps);
    }
    tutti_topo_free(topo);
    return status;
}

/* The farthest that can be first; where that turns the order, the nearest that does by halving. */
static int turn_factor(const struct scene *scene, enum tutti_plan_turn_kind kind, bool up,
                       struct tutti_plan_turn *ret, struct tutti_err *err)
{
    const double *steps = is_of_batch(kind) ? batch_steps : network_steps;
    int low = -1; /* turns nothing */
    int high = STEPS;
    bool any = false;
    int status = 0;

    while (high > 0 && !any && status == 0) {
        high--;
        status = try_factor(scene, kind, up ? steps[high] : 1 / steps[high], ret, &any, err);
    }
    ret->is_asked = any;
    while (status == 0 && any && ret->turns && high - low > 1) {
        int middle = (low + high) / 2;
        struct tutti_plan_turn nearer = {.kind = kind, .is_asked = true};

        status =
            try_factor(scene, kind, up ? steps[middle] : 1 / steps[middle], &nearer, &any, err);
        if (status == 0 && any && nearer.turns) {
            *ret = nearer;
            high = middle;
        } else {
            any = true;
            low = middle;
        }
    }
    return status;
}

int tutti_plan_turns(const struct tutti_plan_ask *ask, const struct tutti_plan_answer *answer,
                     struct tutti_plan_turn *ret, struct tutti_err *err)
{
    struct scene scene = {.best = NULL};
    struct tutti_train_memory *own = NULL;
    int status = plan_ask_take(ask, &scene.ask, err);

    for (int kind = 0; kind < TUTTI_PLAN_TURN_COUNT; kind++)
        ret[kind] = (struct tutti_plan_turn){.kind = (enum tutti_plan_turn_kind)kind};
    if (status < 0 || answer->best_count == 0)
        return status;
    scene.best = &answer->best[0];
    scene.machine = ask->machines[scene.best->plan.machine];
    status = plan_space_take(ask->space, &scene.space, err);
    if (status < 0)
        return status;
    scene.ask.machines = &scene.machine;
    scene.ask.machine_count = 1;
    scene.ask.space = &scene.space;
    scene.ask.best_count = 1;
    if (scene.ask.given != NULL)
        return 0; /* those are what was measured, as it was */
    if (scene.ask.memory == NULL)
        status = tutti_train_memory_new(&own, err);
    scene.ask.memory = scene.ask.memory != NULL ? scene.ask.memory : own;
    if (status == 0)
        status = turn_memory(&scene, ret, err);
    for (int kind = TUTTI_PLAN_SLOWER_NETWORK; kind < TUTTI_PLAN_TURN_COUNT && status == 0; kind++)
        status = turn_factor(&scene, (enum tutti_plan_turn_kind)kind,
                             kind == TUTTI_PLAN_FASTER_NETWORK || kind == TUTTI_PLAN_LARGER_BATCH,
                             &ret[kind], err);
    tutti_train_memory_free(own);
    return status;
}
