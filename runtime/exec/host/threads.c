/* Backends of the host's player: by itself, or with the other processes of a group. */
#include "runtime/threads.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/exec/host/execution.h"

static int fill(struct tutti_host_player *player, const struct tutti_host_backend_opts *opts,
                struct tutti_err *err)
{
    player->base =
        (struct tutti_player){.ops = &tutti_host_player_ops, .device = &tutti_device_host};
    player->pin = opts->pin;
    player->shaper = opts->shaper;
    player->slowdown = opts->slowdown;
    player->thread_count = opts->thread_count;
    player->transport = opts->transport;
    assert(player->transport == NULL ||
           player->transport->ops->size == sizeof(struct tutti_transport_ops));
    if (sched_getaffinity(0, sizeof(player->processors), &player->processors) != 0 ||
        CPU_COUNT(&player->processors) == 0)
        return tutti_fail(err, TUTTI_EIO, "cannot find out which processors may be used");
    return 0;
}

int tutti_host_backend_open(const struct tutti_host_backend_opts *opts, struct tutti_backend **ret,
                            struct tutti_err *err)
{
    struct tutti_host_player *player = calloc(1, sizeof(*player));
    int status = player == NULL ? tutti_nomem(err) : fill(player, opts, err);

    assert((opts->group == NULL) == (opts->transport == NULL));
    if (status == 0)
        return tutti_player_backend_open(opts->name, &player->base, opts->group, ret, err);
    if (opts->transport != NULL)
        opts->transport->ops->close(opts->transport);
    free(player);
    return opts->group == NULL ? status : tutti_group_agree(opts->group, status, INT64_MAX, err);
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
    return ((const struct tutti_host_player *)tutti_backend_player(backend))->lateness;
}
