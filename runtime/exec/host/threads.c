/* Backends that play the execution: by themselves, or with the other processes of a group. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/exec/host/execution.h"
#include "runtime/threads.h"

static void host_backend_ranks(const struct tutti_backend *backend, uint32_t rank_count,
                               uint32_t *ret_first, uint32_t *ret_count)
{
    const struct tutti_group *group = ((const struct tutti_host_backend *)backend)->group;

    *ret_first = tutti_group_first_rank(rank_count, group->count, group->index);
    *ret_count = tutti_group_first_rank(rank_count, group->count, group->index + 1) - *ret_first;
}

static void host_backend_close(struct tutti_backend *backend)
{
    struct tutti_host_backend *host_backend = (struct tutti_host_backend *)backend;

    if (host_backend->transport != NULL)
        host_backend->transport->ops->close(host_backend->transport);
    free(host_backend->homes);
    free(host_backend);
}

static uint64_t host_number(void)
{
    char text[256] = "";
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, sizeof(text) - 1);

    if (file >= 0)
        close(file);
    if (got <= 0)
        (void)gethostname(text, sizeof(text) - 1);
    for (size_t i = 0; i < sizeof(text) && text[i] != '\0'; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Processes of one host may still be apart, as containers are. */
static struct tutti_home find_home(void)
{
    struct tutti_home home = {.host = host_number()};
    struct stat space;

    if (stat("/proc/self/ns/net", &space) == 0)
        home.network = space.st_ino;
    return home;
}

static int fill(struct tutti_host_backend *host_backend, struct tutti_err *err)
{
    static const tutti_ps wait_ps = 30 * TUTTI_PS_PER_S;
    struct tutti_home mine = find_home();
    int status = 0;

    if (sched_getaffinity(0, sizeof(host_backend->processors), &host_backend->processors) != 0 ||
        CPU_COUNT(&host_backend->processors) == 0)
        status = tutti_fail(err, TUTTI_EIO, "cannot find out which processors may be used");
    if (host_backend->group->count == 1)
        return status;
    host_backend->homes = calloc(host_backend->group->count, sizeof(host_backend->homes[0]));
    if (status == 0 && host_backend->homes == NULL)
        status = tutti_nomem(err);
    status = tutti_group_agree(host_backend->group, status, wait_ps, err);
    if (status == 0)
        status = tutti_group_exchange(host_backend->group, &mine, sizeof(mine), host_backend->homes,
                                      wait_ps, err);
    return status;
}

int tutti_host_backend_open(const struct tutti_host_backend_opts *opts, struct tutti_backend **ret,
                            struct tutti_err *err)
{
    struct tutti_host_backend *host_backend = calloc(1, sizeof(*host_backend));
    int status;

    assert((opts->group == NULL) == (opts->transport == NULL));
    if (host_backend == NULL) {
        status = tutti_nomem(err);
        if (opts->transport != NULL)
            opts->transport->ops->close(opts->transport);
        return opts->group == NULL ? status
                                   : tutti_group_agree(opts->group, status, INT64_MAX, err);
    }
    host_backend->ops = (struct tutti_backend_ops){
        .size = sizeof(struct tutti_backend_ops),
        .name = opts->name,
        .close = host_backend_close,
        .ranks = host_backend_ranks,
        .open_run = tutti_execution_open,
        .step_run = tutti_execution_step,
        .close_run = tutti_execution_close,
    };
    host_backend->base.ops = &host_backend->ops;
    host_backend->pin = opts->pin;
    host_backend->shaper = opts->shaper;
    host_backend->slowdown = opts->slowdown;
    host_backend->thread_count = opts->thread_count;
    host_backend->alone = (struct tutti_group){.count = 1};
    host_backend->group = opts->group != NULL ? opts->group : &host_backend->alone;
    host_backend->transport = opts->transport;
    assert(host_backend->transport == NULL ||
           host_backend->transport->ops->size == sizeof(struct tutti_transport_ops));
    status = fill(host_backend, err);
    if (status < 0) {
        host_backend_close(&host_backend->base);
        return status;
    }
    *ret = &host_backend->base;
    return 0;
}

int tutti_threads_open(const struct tutti_threads_opts *opts, struct tutti_backend **ret,
                       struct tutti_err *err)
{
    struct tutti_host_backend_opts host_backend = {.name = "threads"};
    struct tutti_threads_opts own;
    int status;

    if (opts != NULL) {
        status = tutti_take("tutti_threads_opts", &own, sizeof(own), opts,
                            TUTTI_BYTES_TO(struct tutti_threads_opts, thread_count), err);
        if (status < 0)
            return status;
        host_backend.pin = own.pin;
        host_backend.shaper = own.shaper;
        host_backend.slowdown = own.slowdown;
        host_backend.thread_count = own.thread_count;
    }
    return tutti_host_backend_open(&host_backend, ret, err);
}

struct tutti_lateness tutti_threads_lateness(const struct tutti_backend *backend)
{
    return ((const struct tutti_host_backend *)backend)->lateness;
}
