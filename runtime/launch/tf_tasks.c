/* The tasks of a TF_CONFIG and the hosts that they are on, for who asks about the whole cluster. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/launch/source.h"

struct entry {
    char type;        /* 'c'hief, 'w'orker, 'p'arameter server, 'e'valuator */
    const char *host; /* without the port */
};

struct reading {
    struct tutti_tf_tasks tasks;
    struct entry *entry;
    uint32_t count;
    uint32_t room;
};

char tutti_tf_kind(const char *type)
{
    if (strcmp(type, "chief") == 0 || strcmp(type, "master") == 0)
        return 'c';
    return strcmp(type, "worker") == 0      ? 'w'
           : strcmp(type, "ps") == 0        ? 'p'
           : strcmp(type, "evaluator") == 0 ? 'e'
                                            : '\0';
}

int tutti_tf_find_kind(const char *type, char *ret, struct tutti_err *err)
{
    *ret = tutti_tf_kind(type);
    if (*ret != '\0')
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "its cluster has tasks of type '%.40s' (chief, worker, ps or evaluator)",
                      type);
}

int tutti_tf_room(void **list, uint32_t count, uint32_t *room, size_t bytes, struct tutti_err *err)
{
    uint32_t more = *room > 0 ? 2 * *room : 16;
    void *grown;

    if (count == TUTTI_TASKS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "its cluster has more than %d tasks", TUTTI_TASKS_MAX);
    if (count < *room)
        return 0;
    grown = realloc(*list, more * bytes);
    if (grown == NULL)
        return tutti_nomem(err);
    *list = grown;
    *room = more;
    return 0;
}

static int add(void *context, const char *type, uint32_t index, const char *address,
               struct tutti_err *err)
{
    struct reading *r = context;
    const char *port = strrchr(address, ':');
    size_t bytes = port == NULL ? strlen(address) : (size_t)(port - address);
    char host[TUTTI_LAUNCH_HOST_BYTES];
    void *list = r->entry;
    char kind;
    int status;

    (void)index;
    if (tutti_tf_find_kind(type, &kind, err) < 0)
        return -TUTTI_EINVAL;
    if (bytes == 0 || bytes >= sizeof(host))
        return tutti_fail(err, TUTTI_EINVAL, "its cluster has '%.100s' for an address (host:port)",
                          address);
    status = tutti_tf_room(&list, r->count, &r->room, sizeof(*r->entry), err);
    r->entry = list;
    if (status < 0)
        return status;
    (void)snprintf(host, sizeof(host), "%.*s", (int)bytes, address);
    r->entry[r->count].type = kind;
    r->entry[r->count].host = tutti_arena_copy_text(r->tasks.arena, host);
    return r->entry[r->count++].host == NULL ? tutti_nomem(err) : 0;
}

/* ---- hosts ----------------------------------------------------------------------------------- */

/* Entries of one type, one after the other, their hosts numbered on. */
static void number(struct reading *r, char type, uint32_t *order, uint32_t *ordered, uint32_t *ret)
{
    for (uint32_t i = 0; i < r->count; i++) {
        uint32_t same = 0;

        if (r->entry[i].type != type)
            continue;
        while (same < *ordered && strcmp(r->entry[order[same]].host, r->entry[i].host) != 0)
            same++;
        if (same == *ordered)
            order[(*ordered)++] = i;
        *ret++ = same;
    }
}

static uint32_t count_of(const struct reading *r, char type)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < r->count; i++)
        count += r->entry[i].type == type;
    return count;
}

static int number_hosts(struct reading *r, struct tutti_err *err)
{
    struct tutti_tf_tasks *t = &r->tasks;
    uint32_t *order = tutti_arena_take(t->arena, r->count, sizeof(*order)); /* an entry of each */
    uint32_t *worker;
    uint32_t *server;
    uint32_t chiefs[2] = {0, 0};

    t->chief_count = count_of(r, 'c');
    t->worker_count = count_of(r, 'w');
    t->server_count = count_of(r, 'p');
    t->evaluator_count = count_of(r, 'e');
    if (t->chief_count > 1)
        return tutti_fail(err, TUTTI_EINVAL, "its cluster has '%u' chiefs (at most 1)",
                          t->chief_count);
    if (t->chief_count + t->worker_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "its cluster has neither chief nor worker");
    worker = tutti_arena_take(t->arena, t->worker_count, sizeof(*worker));
    server = tutti_arena_take(t->arena, t->server_count, sizeof(*server));
    if (order == NULL || worker == NULL || server == NULL)
        return tutti_nomem(err);
    if (t->server_count == 0) /* beside servers it computes nothing */
        number(r, 'c', order, &t->host_count, chiefs);
    number(r, 'w', order, &t->host_count, worker);
    number(r, 'p', order, &t->host_count, server);
    t->chief_host = chiefs[0];
    t->worker_host = worker;
    t->server_host = server;
    return 0;
}

int tutti_tf_tasks_parse(const char *text, struct tutti_tf_tasks **ret, struct tutti_err *err)
{
    struct reading r = {.tasks = {.arena = tutti_arena_new()}};
    struct tutti_tf_tasks *made = NULL;
    int status = r.tasks.arena == NULL ? tutti_nomem(err) : 0;

    if (status == 0)
        status = tutti_tf_config_entries(text, add, &r, err);
    if (status == 0)
        status = number_hosts(&r, err);
    if (status == 0) {
        made = tutti_arena_take(r.tasks.arena, 1, sizeof(*made));
        status = made == NULL ? tutti_nomem(err) : 0;
    }
    free(r.entry);
    if (status < 0) {
        tutti_arena_free(r.tasks.arena);
        return tutti_wrap(err, status, "variable 'TF_CONFIG'");
    }
    *made = r.tasks;
    *ret = made;
    return 0;
}

void tutti_tf_tasks_free(struct tutti_tf_tasks *tasks)
{
    if (tasks != NULL)
        tutti_arena_free(tasks->arena);
}
