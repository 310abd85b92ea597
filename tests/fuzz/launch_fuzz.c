/* Fuzzes environments: lines NAME=VALUE tell who a process is, or are refused in one line, by any
 * launcher. */
#include "runtime/launch.h"
#include "runtime/launch/hostlist.h"
#include "runtime/launch/share.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge.h"

enum { BYTES_MAX = 4000, VARIABLES_MAX = 64 };

struct world {
    char text[BYTES_MAX + 1];
    const char *names[VARIABLES_MAX];
    const char *values[VARIABLES_MAX];
    size_t count;
};

static const char *get(const void *context, const char *name)
{
    const struct world *world = context;

    for (size_t i = 0; i < world->count; i++) {
        if (strcmp(world->names[i], name) == 0)
            return world->values[i];
    }
    return NULL;
}

static void split(struct world *world)
{
    for (char *line = world->text; *line != '\0' && world->count < VARIABLES_MAX;) {
        char *end = line + strcspn(line, "\n");
        char *equals = memchr(line, '=', (size_t)(end - line));
        bool last = *end == '\0';

        *end = '\0';
        if (equals != NULL) {
            *equals = '\0';
            world->names[world->count] = line;
            world->values[world->count++] = equals + 1;
        }
        line = last ? end : end + 1;
    }
}

static void judge_launch(const struct tutti_launch *launch)
{
    JUDGE(launch->name != NULL && launch->by != NULL);
    JUDGE(launch->count <= TUTTI_LAUNCH_COUNT_MAX);
    JUDGE(!launch->member || launch->count == 0 || launch->index < launch->count);
    JUDGE(launch->local_count == 0 || launch->local_index < launch->local_count);
    JUDGE(memchr(launch->root_host, '\0', sizeof(launch->root_host)) != NULL);
    JUDGE(memchr(launch->role, '\0', sizeof(launch->role)) != NULL);
    JUDGE(memchr(launch->job, '\0', sizeof(launch->job)) != NULL);
}

/* Every task is on one of the hosts, and each host has one. */
static void judge_tasks(const struct tutti_env *env)
{
    const char *text = env->get(env->context, "TF_CONFIG");
    struct tutti_tf_tasks *t = NULL;
    struct tutti_err err = {""};

    if (text == NULL || tutti_tf_tasks_parse(text, &t, &err) < 0) {
        JUDGE(text == NULL || err.text[0] != '\0');
        return;
    }
    JUDGE(t->chief_count <= 1 && t->chief_count + t->worker_count > 0);
    JUDGE(t->host_count <= t->chief_count + t->worker_count + t->server_count);
    JUDGE(t->server_count > 0 || t->chief_count == 0 || t->chief_host < t->host_count);
    for (uint32_t i = 0; i < t->worker_count; i++)
        JUDGE(t->worker_host[i] < t->host_count);
    for (uint32_t i = 0; i < t->server_count; i++)
        JUDGE(t->server_host[i] < t->host_count);
    tutti_tf_tasks_free(t);
}

static void read_by(const struct tutti_env *env, const char *launcher)
{
    struct tutti_launch launch;
    struct tutti_err err = {""};
    int status = tutti_launch_read(env, launcher, &launch, &err);

    if (status < 0)
        judge_refusal(status, &err);
    else
        judge_launch(&launch);
}

/* The first host is in the list, however long it is. */
static void read_hosts(const char *list)
{
    struct tutti_err err = {""};
    char host[64];
    uint32_t count = 0;
    int status = tutti_hostlist_count(list, &count, &err);

    if (status < 0) {
        judge_refusal(status, &err);
        return;
    }
    JUDGE(count >= 1 && count <= TUTTI_HOSTLIST_COUNT_MAX);
    JUDGE(tutti_hostlist_at(list, 0, host, sizeof(host), &err) == 0 && host[0] != '\0');
    JUDGE(tutti_hostlist_at(list, count - 1, host, sizeof(host), &err) == 0 && host[0] != '\0');
    JUDGE(tutti_hostlist_at(list, count, host, sizeof(host), &err) < 0);
}

/* What a launcher may answer. */
static void read_pmi(const char *line)
{
    char value[16];

    if (tutti_pmi_value(line, "value", value, sizeof(value)))
        JUDGE(strlen(value) < sizeof(value) && strchr(value, ' ') == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct world world; /* large */
    struct tutti_env env = {.get = get, .context = &world};
    const char *names = tutti_launch_names();

    if (bytes > BYTES_MAX)
        return 0;
    if (bytes > 0)
        memcpy(world.text, data, bytes);
    world.text[bytes] = '\0';
    world.count = 0;
    split(&world);
    read_by(&env, NULL);
    judge_tasks(&env);
    for (const char *p = names; *p != '\0'; p += *p == '|') {
        char name[32];
        size_t length = strcspn(p, "|");

        (void)snprintf(name, sizeof(name), "%.*s", (int)length, p);
        read_by(&env, name);
        p += length;
    }
    for (size_t i = 0; i < world.count; i++) {
        read_hosts(world.values[i]);
        read_pmi(world.values[i]);
    }
    return 0;
}
