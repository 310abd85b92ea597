/* The tasks of a cluster object, in the order in which TensorFlow counts them; see cluster.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cluster.h"
#include "runtime/launch.h"
#include "runtime/launch/json.h"
#include "runtime/launch/source.h"
#include "runtime/status.h"

/* In this order. */
static const char *const types[] = {"chief", "worker", "ps", "evaluator"};
enum { TYPE_COUNT = sizeof(types) / sizeof(types[0]) };

struct reading {
    struct tutti_cluster_task *tasks;
    uint32_t count;
    uint32_t room;
};

static int place_of(const char *type)
{
    for (int i = 0; i < TYPE_COUNT; i++)
        if (strcmp(types[i], type) == 0)
            return i;
    return TYPE_COUNT;
}

static int add(void *context, const char *type, uint32_t index, const char *address,
               struct tutti_err *err)
{
    struct reading *r = context;
    const char *name = strcmp(type, "master") == 0 ? "chief" : type; /* as TF 1 calls it */
    char host[TUTTI_LAUNCH_HOST_BYTES];
    struct tutti_cluster_task *task;
    void *list = r->tasks;
    uint16_t port;
    char kind;
    int status = tutti_tf_find_kind(name, &kind, err);

    if (status < 0)
        return status;
    if (tutti_launch_address("an address of its cluster", address, host, &port, err) < 0)
        return -TUTTI_EINVAL;
    status = tutti_tf_room(&list, r->count, &r->room, sizeof(*r->tasks), err);
    r->tasks = list;
    if (status < 0)
        return status;
    task = &r->tasks[r->count++];
    task->index = index;
    (void)snprintf(task->type, sizeof(task->type), "%s", name);
    (void)snprintf(task->address, sizeof(task->address), "%s", address);
    return 0;
}

static int compare(const void *a, const void *b)
{
    const struct tutti_cluster_task *left = a;
    const struct tutti_cluster_task *right = b;
    int by_type = place_of(left->type) - place_of(right->type);

    if (by_type != 0)
        return by_type;
    return (left->index > right->index) - (left->index < right->index);
}

/* Sorted. Each task has the number that it should, and a worker of its own. */
static int check(const struct reading *r, struct tutti_err *err)
{
    uint32_t expected = 0;

    if (r->count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "its cluster is empty");
    for (uint32_t i = 0; i < r->count; i++) {
        const struct tutti_cluster_task *task = &r->tasks[i];

        expected = i > 0 && strcmp(task->type, r->tasks[i - 1].type) == 0 ? expected + 1 : 0;
        if (task->index != expected)
            return tutti_fail(err, TUTTI_EINVAL, "its cluster has %s %s %u",
                              task->index > expected ? "no" : "twice", task->type,
                              task->index > expected ? expected : task->index);
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(r->tasks[k].address, task->address) == 0)
                return tutti_fail(err, TUTTI_EINVAL,
                                  "its cluster has '%s' twice, as %s %u and %s %u", task->address,
                                  r->tasks[k].type, r->tasks[k].index, task->type, task->index);
    }
    if (strcmp(r->tasks[0].type, "chief") == 0 && r->count > 1 &&
        strcmp(r->tasks[1].type, "chief") == 0)
        return tutti_fail(err, TUTTI_EINVAL, "its cluster has more than one chief");
    return 0;
}

/* Whether the object is a whole TF_CONFIG: one of its own keys is "cluster". */
static bool has_cluster(const char *text)
{
    enum tutti_json_event event = TUTTI_JSON_DONE;
    struct tutti_json_reader reader;

    tutti_json_read(&reader, text);
    if (tutti_json_next(&reader, &event, NULL) < 0 || event != TUTTI_JSON_OBJECT)
        return false;
    while (tutti_json_next(&reader, &event, NULL) == 0 && event == TUTTI_JSON_KEY) {
        if (strcmp(reader.text, "cluster") == 0)
            return true;
        if (tutti_json_skip(&reader, NULL) < 0)
            return false;
    }
    return false;
}

int tutti_cluster_read(const char *text, struct tutti_cluster_task **ret, uint32_t *ret_count,
                       struct tutti_err *err)
{
    struct reading r = {.tasks = NULL};
    int status = 0;

    if (text[strspn(text, " \t\r\n")] == '\0')
        status = tutti_fail(err, TUTTI_EINVAL, "it is empty ({\"worker\": [\"host:port\", ...]})");
    else if (has_cluster(text))
        status = tutti_tf_config_entries(text, add, &r, err);
    else
        status = tutti_tf_cluster_entries(text, add, &r, err);
    if (status == 0 && r.count > 0)
        qsort(r.tasks, r.count, sizeof(*r.tasks), compare);
    if (status == 0)
        status = check(&r, err);
    if (status < 0) {
        free(r.tasks);
        return status;
    }
    *ret = r.tasks;
    *ret_count = r.count;
    return 0;
}
