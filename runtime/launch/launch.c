/* Chooses the launcher that says who this process is, and holds the others against it. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/launch/source.h"

static const char *get_process(const void *context, const char *name)
{
    (void)context;
    return getenv(name);
}

const struct tutti_env tutti_env_process = {.get = get_process};

static bool is_mpi(const struct tutti_launch *launch)
{
    return strcmp(launch->name, "openmpi") == 0 || strcmp(launch->name, "hydra") == 0;
}

/* A variable without which `source` has not started this process. */
static const char *lacking(const struct tutti_env *env, const struct tutti_launch_source *source,
                           char name[64])
{
    const char *at = source->present;

    while (strchr(at, '+') != NULL && tutti_env_first(env, at, name) != NULL)
        at = strchr(at, '+') + 1;
    (void)snprintf(name, 64, "%.*s", (int)strcspn(at, "|+"), at);
    return name;
}

/* May `outer` be what started the processes of `inner`, or the same said twice? An mpirun within an
 * allocation of Slurm starts its own agents as steps, of as many tasks as it likes. */
static bool fits(const struct tutti_launch *inner, const struct tutti_launch *outer)
{
    if (outer->count == 0 || outer->count == 1 || inner->count == 0)
        return true;
    if (strcmp(outer->name, "slurm") == 0 && is_mpi(inner))
        return true;
    if (inner->local_count > 1 &&
        (uint64_t)outer->count * inner->local_count == (uint64_t)inner->count)
        return true;
    if (outer->count != inner->count)
        return false;
    /* torchrun numbers its agents as they come */
    return outer->index == inner->index || strcmp(inner->name, "torchrun") == 0;
}

/* The same processes by another name: what it knows of process 0 holds as well. */
static void take_root(struct tutti_launch *launch, const struct tutti_launch *other)
{
    if (launch->root_port != 0 || other->root_host[0] == '\0' || other->root_port == 0 ||
        other->count != launch->count || other->index != launch->index)
        return;
    if (strcmp(other->name, "slurm") == 0 && is_mpi(launch))
        return; /* which lays its processes out as it likes */
    memcpy(launch->root_host, other->root_host, sizeof(launch->root_host));
    launch->root_port = other->root_port;
}

static int hold_others(const struct tutti_env *env, const struct tutti_launch_source *chosen,
                       struct tutti_launch *launch, struct tutti_err *err)
{
    for (const struct tutti_launch_source *s = tutti_launch_sources; s->name != NULL; s++) {
        struct tutti_launch other;

        if (s == chosen || !tutti_launch_present(env, s) ||
            tutti_launch_source_read(env, s, &other, NULL) < 0)
            continue;
        if (!fits(launch, &other))
            return tutti_fail(err, TUTTI_EINVAL,
                              "%s says that this is process %u of %u, and %s that it is process %u "
                              "of %u ('--launcher %s' or '--launcher %s' chooses)",
                              launch->by, launch->index, launch->count, other.by, other.index,
                              other.count, launch->name, other.name);
        take_root(launch, &other);
    }
    return 0;
}

/* TUTTI_SIZE and TUTTI_ROOT, for launchers that do not know. */
static int complete(const struct tutti_env *env, bool asked_for, struct tutti_launch *launch,
                    struct tutti_err *err)
{
    const char *root = tutti_env_get(env, "TUTTI_ROOT");
    uint32_t size = 0;
    bool set = false;
    int status = tutti_env_count(env, "TUTTI_SIZE", &size, &set, err);

    if (status < 0)
        return status;
    if (set && size == 0)
        return tutti_fail(err, TUTTI_EINVAL, "variable 'TUTTI_SIZE': '0' processes (1 or more)");
    if (set && strcmp(launch->name, "none") == 0 && size > 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "variable 'TUTTI_SIZE' is set to '%u' without 'TUTTI_RANK' (both)", size);
    if (set && launch->count == 0 && launch->index >= size)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s says that this is process %u, and 'TUTTI_SIZE' that there are %u",
                          launch->by, launch->index, size);
    if (set && launch->count == 0)
        launch->count = size;
    if (set && !asked_for && launch->count != size)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s says that there are %u processes, and 'TUTTI_SIZE' that there are %u "
                          "('--launcher %s' chooses the former)",
                          launch->by, launch->count, size, launch->name);
    if (root != NULL)
        return tutti_launch_address("variable 'TUTTI_ROOT'", root, launch->root_host,
                                    &launch->root_port, err);
    return 0;
}

/* NULL: by none. */
static const struct tutti_launch_source *innermost(const struct tutti_env *env)
{
    for (const struct tutti_launch_source *s = tutti_launch_sources; s->name != NULL; s++) {
        if (tutti_launch_present(env, s))
            return s;
    }
    return NULL;
}

static int find(const struct tutti_env *env, const char *launcher,
                const struct tutti_launch_source **ret, struct tutti_err *err)
{
    char name[64];
    char hint[TUTTI_HINT_BYTES];

    for (const struct tutti_launch_source *s = tutti_launch_sources; s->name != NULL; s++) {
        if (strcmp(s->name, launcher) != 0)
            continue;
        if (!tutti_launch_present(env, s))
            return tutti_fail(err, TUTTI_EINVAL,
                              "launcher '%s': %s has not started this process (variable '%s' is "
                              "not set)",
                              launcher, s->by, lacking(env, s, name));
        *ret = s;
        return 0;
    }
    return tutti_fail(err, TUTTI_EINVAL, "unknown launcher '%s' (%s%s)", launcher,
                      tutti_nearest_hint(launcher, tutti_launch_names(), hint),
                      tutti_launch_names());
}

int tutti_launch_read(const struct tutti_env *env, const char *launcher, struct tutti_launch *ret,
                      struct tutti_err *err)
{
    struct tutti_launch launch = {
        .name = "none", .by = "no launcher", .member = true, .count = 1, .local_count = 1};
    const struct tutti_launch_source *source = NULL;
    int status = 0;

    if (launcher == NULL)
        source = innermost(env);
    else if (strcmp(launcher, "none") != 0)
        status = find(env, launcher, &source, err);
    if (status == 0 && source != NULL)
        status = tutti_launch_source_read(env, source, &launch, err);
    if (status == 0 && launcher == NULL && source != NULL)
        status = hold_others(env, source, &launch, err);
    if (status == 0 && (source != NULL || launcher == NULL))
        status = complete(env, launcher != NULL, &launch, err);
    if (status < 0)
        return status;
    assert(launch.count == 0 || !launch.member || launch.index < launch.count);
    *ret = launch;
    return 0;
}

bool tutti_launch_by(const struct tutti_env *env, const char *launcher, struct tutti_launch *ret)
{
    const struct tutti_launch_source *source = NULL;

    return find(env, launcher, &source, NULL) == 0 &&
           tutti_launch_source_read(env, source, ret, NULL) == 0;
}

const char *tutti_launch_names(void)
{
    return "tutti|torchrun|horovod|openmpi|hydra|lsf|slurm|pmix|tf_config|plain|pytorchjob|jax|"
           "indexed|none";
}

int tutti_launch_address(const char *what, const char *text, char host[TUTTI_LAUNCH_HOST_BYTES],
                         uint16_t *ret_port, struct tutti_err *err)
{
    const char *first = text + (text[0] == '[');
    const char *colon = strrchr(text, ':');
    size_t bytes = colon == NULL ? 0 : (size_t)(colon - first);
    uint32_t port = 0;
    size_t digits = 0;

    if (colon != NULL && text[0] == '[') {
        if (bytes == 0 || first[bytes - 1] != ']')
            bytes = 0;
        else
            bytes--;
    } else if (colon != NULL && memchr(text, ':', (size_t)(colon - text)) != NULL) {
        bytes = 0; /* an IPv6 address without brackets: who knows what is its port */
    }
    if (colon != NULL)
        for (digits = 0; digits < 6 && colon[1 + digits] >= '0' && colon[1 + digits] <= '9';)
            port = 10 * port + (uint32_t)(colon[1 + digits++] - '0');
    for (size_t i = 0; i < bytes; i++) {
        if ((unsigned char)first[i] <= ' ' || (unsigned char)first[i] >= 0x7f ||
            strchr("[]/@'\"\\", first[i]) != NULL)
            bytes = 0;
    }
    if (bytes == 0 || bytes >= TUTTI_LAUNCH_HOST_BYTES || digits == 0 || port == 0 ||
        port > UINT16_MAX || colon[1 + digits] != '\0')
        return tutti_fail(err, TUTTI_EINVAL, "%s: not an address '%.300s' (HOST:PORT, [IPV6]:PORT)",
                          what, text);
    memcpy(host, first, bytes);
    host[bytes] = '\0';
    *ret_port = (uint16_t)port;
    return 0;
}
