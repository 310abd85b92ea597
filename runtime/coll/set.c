/* Algorithms by name: those of the table, and those that somebody has added to a set. */
#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/coll.h"
#include "runtime/coll/plugin.h"
#include "runtime/status.h"

/* More than anybody names; columns of a comparison are letters. */
enum { ADDED_MAX = 64, NAME_BYTES_MAX = 31 };

struct tutti_algorithm_set {
    struct tutti_arena *arena; /* of the names and summaries */
    uint32_t count;
    uint32_t schedule_count;
    uint32_t handle_count;
    struct tutti_algorithm algorithms[ADDED_MAX];
    struct tutti_schedule *schedules[ADDED_MAX]; /* that were taken over */
    void *handles[ADDED_MAX];                    /* of plugins */
};

/* ---- finding --------------------------------------------------------------------------------- */

const struct tutti_algorithm *tutti_algorithm_at(const struct tutti_algorithm_set *set,
                                                 size_t index)
{
    size_t count;
    const struct tutti_algorithm *table = tutti_algorithms(&count);

    if (index < count)
        return &table[index];
    index -= count;
    return set != NULL && index < set->count ? &set->algorithms[index] : NULL;
}

/* Algorithms whose names have `name` in them: "tree" is in two, and NCCL has one of its own;
 * and the nearest to those of TensorFlow. */
static void find_alike(const char *name, const struct tutti_coll_params *params, char *text,
                       size_t text_bytes)
{
    static const char *const of_nccl[] = {"ring", "tree", "pat", "nvls", "nvlstree"};
    static const char *const of_tensorflow[][2] = {{"NcclAllReduce", "nccl"},
                                                   {"ReductionToOneDevice", "reduce-broadcast"},
                                                   {"HierarchicalCopyAllReduce", "binomial"}};
    const struct tutti_algorithm *algorithm;
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; (algorithm = tutti_algorithm_at(params->added, i)) != NULL; i++) {
        if ((algorithm->collectives & (1u << (unsigned)params->collective)) != 0 &&
            strlen(name) >= 3 && strstr(algorithm->name, name) != NULL && used < text_bytes)
            used += (size_t)snprintf(text + used, text_bytes - used, "%s'%s'", used > 0 ? ", " : "",
                                     algorithm->name);
    }
    for (size_t i = 0; i < sizeof(of_nccl) / sizeof(of_nccl[0]); i++) {
        if (strcmp(name, of_nccl[i]) == 0 && used < text_bytes)
            used += (size_t)snprintf(text + used, text_bytes - used, "%s'nccl:%s'",
                                     used > 0 ? " or " : "", name);
    }
    for (size_t i = 0; i < sizeof(of_tensorflow) / sizeof(of_tensorflow[0]); i++) {
        if (params->collective == TUTTI_ALLREDUCE && strcmp(name, of_tensorflow[i][0]) == 0)
            (void)snprintf(text, text_bytes, "'%s'", of_tensorflow[i][1]);
    }
}

int tutti_algorithm_find_for(const char *name, const struct tutti_coll_params *params,
                             const struct tutti_algorithm **ret, struct tutti_err *err)
{
    const struct tutti_algorithm *algorithm;
    char names[512] = "";
    char alike[256];
    char hint[TUTTI_HINT_BYTES];
    size_t used = 0;

    for (size_t i = 0; (algorithm = tutti_algorithm_at(params->added, i)) != NULL; i++) {
        int length;

        if ((algorithm->collectives & (1u << (unsigned)params->collective)) == 0)
            continue;
        if (strcmp(algorithm->name, name) == 0) {
            *ret = algorithm;
            return 0;
        }
        length = snprintf(names + used, sizeof(names) - used, "%s%s", used == 0 ? "" : " ",
                          algorithm->name);
        used += length < 0 ? 0 : (size_t)length;
        if (used >= sizeof(names))
            used = sizeof(names) - 1;
    }
    find_alike(name, params, alike, sizeof(alike));
    if (alike[0] != '\0')
        return tutti_fail(err, TUTTI_EINVAL, "no algorithm '%s' for %s (did you mean %s?)", name,
                          tutti_collective_name(params->collective), alike);
    return tutti_fail(err, TUTTI_EINVAL, "no algorithm '%s' for %s (%s%s)", name,
                      tutti_collective_name(params->collective),
                      tutti_nearest_hint(name, names, hint), names);
}

int tutti_algorithm_find(const char *name, enum tutti_collective collective,
                         const struct tutti_algorithm **ret, struct tutti_err *err)
{
    struct tutti_coll_params params = {.collective = collective};

    return tutti_algorithm_find_for(name, &params, ret, err);
}

/* ---- writing schedules ----------------------------------------------------------------------- */

/* A schedule as it stands is for what its contract says, and nothing else. */
static int lay_out(const struct tutti_algorithm *algorithm, const struct tutti_coll_params *params,
                   const struct tutti_shape *shape, struct tutti_schedule **ret,
                   struct tutti_err *err)
{
    const struct tutti_schedule *schedule = algorithm->schedule;
    const struct tutti_contract *own = &schedule->contract;

    if (shape->rank_count != schedule->rank_count)
        return tutti_fail(err, TUTTI_EINVAL, "schedule '%s' has %u ranks, not %u", algorithm->name,
                          schedule->rank_count, shape->rank_count);
    if (params->dtype != own->dtype)
        return tutti_fail(err, TUTTI_EINVAL, "schedule '%s' is of type %s, not '%s'",
                          algorithm->name, tutti_dtype_name(own->dtype),
                          tutti_dtype_name(params->dtype));
    if (tutti_collective_reduces(own->collective) && params->op != own->op)
        return tutti_fail(err, TUTTI_EINVAL, "schedule '%s' has the operator %s, not '%s'",
                          algorithm->name, tutti_op_name(own->op), tutti_op_name(params->op));
    if (tutti_collective_is_rooted(own->collective) && params->root != own->root)
        return tutti_fail(err, TUTTI_EINVAL, "schedule '%s' has root %u, not '%u'", algorithm->name,
                          own->root, params->root);
    return tutti_schedule_scale(schedule, params->count, ret, err);
}

/* What an added generator has made is for what it was asked: backends and bounds go by that. */
static int check_made(const char *name, const struct tutti_coll_params *params,
                      const struct tutti_shape *shape, const struct tutti_schedule *made,
                      struct tutti_err *err)
{
    const struct tutti_contract *c = &made->contract;

    if (made->rank_count != shape->rank_count)
        return tutti_fail(err, TUTTI_ECHECK, "algorithm '%s' made a schedule of '%u' ranks (%u)",
                          name, made->rank_count, shape->rank_count);
    if (c->collective != params->collective || c->count != params->count)
        return tutti_fail(err, TUTTI_ECHECK,
                          "algorithm '%s' made a schedule of %s of '%llu' elements (%s of %llu)",
                          name, tutti_collective_name(c->collective), (unsigned long long)c->count,
                          tutti_collective_name(params->collective),
                          (unsigned long long)params->count);
    if (c->dtype != params->dtype ||
        (tutti_collective_reduces(c->collective) && c->op != params->op) ||
        (tutti_collective_is_rooted(c->collective) && c->root != params->root))
        return tutti_fail(err, TUTTI_ECHECK,
                          "algorithm '%s' made a schedule of another type, operator or root than "
                          "it was asked for",
                          name);
    return 0;
}

static int generate_added(const struct tutti_algorithm *algorithm,
                          const struct tutti_coll_params *params, const struct tutti_shape *shape,
                          struct tutti_schedule **ret, struct tutti_err *err)
{
    struct tutti_schedule *made = NULL;
    int status = algorithm->generate(params, shape, &made, err);

    if (status < 0)
        return status;
    status = check_made(algorithm->name, params, shape, made, err);
    if (status < 0)
        tutti_schedule_free(made);
    else
        *ret = made;
    return status;
}

static bool is_of_table(const struct tutti_algorithm *algorithm)
{
    size_t count;
    const struct tutti_algorithm *table = tutti_algorithms(&count);
    bool found = false;

    for (size_t i = 0; i < count; i++)
        found = found || algorithm == &table[i];
    return found;
}

int tutti_coll_generate(const char *algorithm, const struct tutti_coll_params *params,
                        const struct tutti_shape *shape, struct tutti_schedule **ret,
                        struct tutti_err *err)
{
    const struct tutti_algorithm *found = NULL;
    bool custom = params->collective == TUTTI_CUSTOM && params->added != NULL;
    int status;

    if ((unsigned)params->collective >= TUTTI_CUSTOM && !custom)
        return tutti_fail(err, TUTTI_EINVAL, "no algorithm makes collective number '%d'",
                          (int)params->collective);
    status = tutti_algorithm_find_for(algorithm, params, &found, err);
    if (status < 0)
        return status;
    if (found->generate == NULL)
        return lay_out(found, params, shape, ret, err);
    return is_of_table(found) ? found->generate(params, shape, ret, err)
                              : generate_added(found, params, shape, ret, err);
}

/* ---- sets ------------------------------------------------------------------------------------ */

int tutti_algorithm_set_new(struct tutti_algorithm_set **ret, struct tutti_err *err)
{
    struct tutti_algorithm_set *set = calloc(1, sizeof(*set));

    if (set == NULL)
        return tutti_nomem(err);
    set->arena = tutti_arena_new();
    if (set->arena == NULL) {
        free(set);
        return tutti_nomem(err);
    }
    *ret = set;
    return 0;
}

void tutti_algorithm_set_free(struct tutti_algorithm_set *set)
{
    if (set == NULL)
        return;
    for (uint32_t i = 0; i < set->schedule_count; i++)
        tutti_schedule_free(set->schedules[i]);
    for (uint32_t i = 0; i < set->handle_count; i++)
        tutti_plugin_close(set->handles[i]);
    tutti_arena_free(set->arena);
    free(set);
}

/* Names stand in lists with commas, in tables and in the text form of schedules. */
static int check_name(const struct tutti_algorithm_set *set, const char *name,
                      struct tutti_err *err)
{
    static const char *const words[] = {"auto", "all", "nccl"};
    const struct tutti_algorithm *algorithm;
    size_t bytes = name == NULL ? 0 : strlen(name);
    bool good = bytes > 0 && bytes <= NAME_BYTES_MAX;

    for (size_t i = 0; i < bytes && good; i++)
        good = isgraph((unsigned char)name[i]) && strchr(",#:/", name[i]) == NULL;
    if (!good)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%.40s' is no name of an algorithm (a word of at most %d characters, "
                          "without , # : /)",
                          name == NULL ? "" : name, NAME_BYTES_MAX);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i], name) == 0)
            return tutti_fail(err, TUTTI_EINVAL,
                              "the name '%s' stands for something else (another)", name);
    for (size_t i = 0; (algorithm = tutti_algorithm_at(set, i)) != NULL; i++)
        if (strcmp(algorithm->name, name) == 0)
            return tutti_fail(err, TUTTI_EINVAL,
                              "there is an algorithm '%s' already (another name)", name);
    return 0;
}

static int check_algorithm(const struct tutti_algorithm_set *set,
                           const struct tutti_algorithm *algorithm, struct tutti_err *err)
{
    if ((algorithm->generate == NULL) == (algorithm->schedule == NULL))
        return tutti_fail(err, TUTTI_EINVAL,
                          "algorithm '%.40s' neither generates nor is a schedule, or both (one)",
                          algorithm->name == NULL ? "" : algorithm->name);
    if (algorithm->collectives == 0 || algorithm->collectives >> TUTTI_COLLECTIVE_COUNT != 0)
        return tutti_fail(err, TUTTI_EINVAL, "algorithm '%.40s' serves no collective",
                          algorithm->name == NULL ? "" : algorithm->name);
    if (set->count == ADDED_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "too many algorithms are added (at most %d)",
                          ADDED_MAX);
    return check_name(set, algorithm->name, err);
}

int tutti_algorithm_add(struct tutti_algorithm_set *set, const struct tutti_algorithm *algorithm,
                        struct tutti_err *err)
{
    struct tutti_algorithm taken;
    const char *summary;
    int status = tutti_take("tutti_algorithm", &taken, sizeof(taken), algorithm,
                            TUTTI_BYTES_TO(struct tutti_algorithm, schedule), err);

    if (status == 0)
        status = check_algorithm(set, &taken, err);
    if (status < 0)
        return status;
    summary = taken.summary != NULL ? taken.summary : "";
    taken.size = sizeof(taken);
    taken.name = tutti_arena_copy_text(set->arena, taken.name);
    taken.summary = tutti_arena_copy_text(set->arena, summary);
    if (taken.name == NULL || taken.summary == NULL)
        return tutti_nomem(err);
    set->algorithms[set->count++] = taken;
    return 0;
}

int tutti_algorithm_add_schedule(struct tutti_algorithm_set *set, const char *name,
                                 struct tutti_schedule *schedule, struct tutti_err *err)
{
    struct tutti_algorithm algorithm = {
        .size = sizeof(algorithm),
        .name = name,
        .summary = "a schedule as it stands",
        .collectives = 1u << (unsigned)schedule->contract.collective,
        .schedule = schedule,
    };
    int status = tutti_algorithm_add(set, &algorithm, err);

    if (status == 0)
        set->schedules[set->schedule_count++] = schedule;
    return status;
}

/* ---- plugins --------------------------------------------------------------------------------- */

static int check_plugin(const struct tutti_plugin *plugin, struct tutti_err *err)
{
    if (plugin->size < sizeof(*plugin) || plugin->version != TUTTI_PLUGIN_VERSION)
        return tutti_fail(
            err, TUTTI_EINVAL,
            "it is a plugin of version '%u', of %zu bytes (version %d, of %zu: compile "
            "it with the headers of this library)",
            plugin->size < sizeof(*plugin) ? 0 : plugin->version, plugin->size,
            TUTTI_PLUGIN_VERSION, sizeof(*plugin));
    if (plugin->algorithm_count == 0 || plugin->algorithms == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "it has no algorithm (one or more)");
    return 0;
}

static int add_all(struct tutti_algorithm_set *set, const struct tutti_plugin *plugin,
                   struct tutti_err *err)
{
    const char *next = (const char *)plugin->algorithms;
    size_t stride = plugin->algorithms->size; /* as the plugin was compiled */
    uint32_t before = set->count;
    int status = 0;

    for (uint32_t i = 0; status == 0 && i < plugin->algorithm_count; i++, next += stride)
        status = tutti_algorithm_add(set, (const struct tutti_algorithm *)(const void *)next, err);
    if (status < 0)
        set->count = before;
    return status;
}

int tutti_algorithm_load(struct tutti_algorithm_set *set, const char *path, size_t *ret_first,
                         size_t *ret_count, struct tutti_err *err)
{
    const struct tutti_plugin *plugin = NULL;
    uint32_t before = set->count;
    void *handle = NULL;
    size_t built_in;
    int status = 0;

    (void)tutti_algorithms(&built_in);
    if (set->handle_count == ADDED_MAX)
        status = tutti_fail(err, TUTTI_EINVAL, "too many plugins (at most %d)", ADDED_MAX);
    if (status == 0)
        status = tutti_plugin_open(path, &handle, &plugin, err);
    if (status == 0)
        status = check_plugin(plugin, err);
    if (status == 0)
        status = add_all(set, plugin, err);
    if (status < 0) {
        tutti_plugin_close(handle);
        return tutti_wrap(err, status, "plugin '%s'", path);
    }
    set->handles[set->handle_count++] = handle;
    if (ret_first != NULL)
        *ret_first = built_in + before;
    if (ret_count != NULL)
        *ret_count = set->count - before;
    return 0;
}
