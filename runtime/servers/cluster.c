/* A cluster of TensorFlow's with parameter servers: its tasks and addresses, and who of them this
 * is; see runtime/servers.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/launch/json.h"
#include "runtime/launch/source.h"
#include "runtime/servers.h"

enum { TYPE_BYTES = 32 };

struct task {
    char type; /* 'c'hief, 'w'orker, 'p'arameter server, 'e'valuator; 0: none */
    uint32_t index;
    const char *address;
};

struct reading {
    struct tutti_arena *arena;
    struct task *tasks;
    uint32_t count;
    uint32_t room;
    char own_type[TYPE_BYTES];
    uint32_t own_index;
};

static const char *name_of(char type)
{
    return type == 'c' ? "chief" : type == 'w' ? "worker" : type == 'p' ? "ps" : "evaluator";
}

/* A list of workers that was made of that of the servers, as has been done, is seen here. */
static int add(void *context, const char *type, uint32_t index, const char *address,
               struct tutti_err *err)
{
    struct reading *r = context;
    void *list = r->tasks;
    char kind;
    int status = tutti_tf_find_kind(type, &kind, err);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < r->count; i++)
        if (strcmp(r->tasks[i].address, address) == 0)
            return tutti_fail(err, TUTTI_EINVAL, "'%.200s' is both %s %u and %s %u of its cluster",
                              address, name_of(r->tasks[i].type), r->tasks[i].index, name_of(kind),
                              index);
    status = tutti_tf_room(&list, r->count, &r->room, sizeof(*r->tasks), err);
    r->tasks = list;
    if (status < 0)
        return status;
    r->tasks[r->count] = (struct task){kind, index, tutti_arena_copy_text(r->arena, address)};
    return r->tasks[r->count++].address == NULL ? tutti_nomem(err) : 0;
}

/* {"type": "ps", "index": 0}, in either order; that it is well-formed has been seen. */
static int read_task(struct tutti_json_reader *json, struct reading *r, struct tutti_err *err)
{
    enum tutti_json_event event = TUTTI_JSON_DONE;
    int status = tutti_json_next(json, &event, err);

    if (status == 0 && event != TUTTI_JSON_OBJECT)
        return tutti_fail(err, TUTTI_EINVAL, "its task is no object");
    while (status == 0 && (status = tutti_json_next(json, &event, err)) == 0 &&
           event == TUTTI_JSON_KEY) {
        const bool is_type = strcmp(json->text, "type") == 0;

        if (!is_type && strcmp(json->text, "index") != 0) {
            status = tutti_json_skip(json, err);
            continue;
        }
        status = tutti_json_next(json, &event, err);
        if (status == 0 && is_type)
            (void)snprintf(r->own_type, sizeof(r->own_type), "%.30s", json->text);
        else if (status == 0)
            r->own_index = (uint32_t)strtoul(json->text, NULL, 10);
    }
    return status;
}

static int find_task(const char *text, struct reading *r, struct tutti_err *err)
{
    enum tutti_json_event event = TUTTI_JSON_DONE;
    struct tutti_json_reader json;
    int status;

    tutti_json_read(&json, text);
    status = tutti_json_next(&json, &event, err);
    while (status == 0 && (status = tutti_json_next(&json, &event, err)) == 0 &&
           event == TUTTI_JSON_KEY)
        status =
            strcmp(json.text, "task") == 0 ? read_task(&json, r, err) : tutti_json_skip(&json, err);
    return status;
}

static uint32_t count_of(const struct reading *r, char type)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < r->count; i++)
        count += r->tasks[i].type == type;
    return count;
}

/* Who this is; an evaluator may stand beside the cluster. */
static int fill_own(const struct reading *r, struct tutti_servers_cluster *c, struct tutti_err *err)
{
    const char type = tutti_tf_kind(r->own_type);

    if (r->own_type[0] == '\0')
        return tutti_fail(err, TUTTI_EINVAL,
                          "it has a cluster, and no task that says which of it this is");
    c->role = type == 'p'   ? TUTTI_SERVERS_SERVER
              : type == 'c' ? TUTTI_SERVERS_CHIEF
              : type == 'w' ? TUTTI_SERVERS_WORKER
                            : 0;
    c->index = r->own_index;
    if (type == 'e' || (type != '\0' && r->own_index < count_of(r, type)))
        return 0;
    return tutti_fail(err, TUTTI_EINVAL, "its task is '%s' %u, and its cluster has %u of these",
                      r->own_type, r->own_index, count_of(r, type));
}

static int fill(const struct reading *r, struct tutti_servers_cluster *c, struct tutti_err *err)
{
    const char **servers;

    c->arena = r->arena;
    c->server_count = count_of(r, 'p');
    c->worker_count = count_of(r, 'w');
    c->has_chief = count_of(r, 'c') > 0;
    if (count_of(r, 'c') > 1)
        return tutti_fail(err, TUTTI_EINVAL, "its cluster has '%u' chiefs (at most 1)",
                          count_of(r, 'c'));
    if (c->worker_count == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "its cluster has no worker, and a 'ps' computes "
                          "nothing");
    servers = tutti_arena_take(r->arena, c->server_count, sizeof(*servers));
    if (servers == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < r->count; i++)
        if (r->tasks[i].type == 'p' && r->tasks[i].index < c->server_count)
            servers[r->tasks[i].index] = r->tasks[i].address;
    for (uint32_t i = 0; i < c->server_count; i++)
        if (servers[i] == NULL)
            return tutti_fail(err, TUTTI_EINVAL, "its cluster has no ps '%u'", i);
    c->servers = servers;
    return fill_own(r, c, err);
}

static int read_all(const char *text, struct reading *r, struct tutti_servers_cluster **ret,
                    struct tutti_err *err)
{
    struct tutti_servers_cluster *c;
    int status = tutti_tf_config_entries(text, add, r, err);

    if (status < 0 || count_of(r, 'p') == 0)
        return status;
    status = find_task(text, r, err);
    c = tutti_arena_take(r->arena, 1, sizeof(*c));
    if (status == 0 && c == NULL)
        status = tutti_nomem(err);
    if (status == 0)
        status = fill(r, c, err);
    *ret = status == 0 ? c : NULL;
    return status;
}

int tutti_servers_cluster_read(const struct tutti_env *env, struct tutti_servers_cluster **ret,
                               struct tutti_err *err)
{
    const char *text = tutti_env_get(env, "TF_CONFIG");
    struct reading r = {.count = 0};
    struct tutti_servers_cluster *found = NULL;
    int status;

    *ret = NULL;
    if (text == NULL)
        return 0;
    r.arena = tutti_arena_new();
    status = r.arena == NULL ? tutti_nomem(err) : read_all(text, &r, &found, err);
    free(r.tasks);
    if (found == NULL)
        tutti_arena_free(r.arena);
    *ret = found;
    return status < 0 ? tutti_wrap(err, status, "variable 'TF_CONFIG'") : 0;
}

void tutti_servers_cluster_free(struct tutti_servers_cluster *cluster)
{
    if (cluster != NULL)
        tutti_arena_free(cluster->arena);
}
