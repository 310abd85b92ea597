/* A backend `threads` that emulates a machine, which it owns along with the shaper. */
#ifndef TUTTI_TESTS_EMULATED_H
#define TUTTI_TESTS_EMULATED_H

#include <stdlib.h>

#include "runtime/shaper.h"
#include "runtime/status.h"
#include "runtime/threads.h"
#include "sim/shaper.h"
#include "sim/sim.h"
#include "topo/topo.h"

struct emulated {
    struct tutti_backend backend;
    struct tutti_backend *threads;
    struct tutti_shaper *shaper;
    struct tutti_topo *topo;
};

static void emulated_close(struct tutti_backend *backend)
{
    struct emulated *emulated = (struct emulated *)backend;

    tutti_backend_close(emulated->threads);
    tutti_shaper_close(emulated->shaper);
    tutti_topo_free(emulated->topo);
    free(emulated);
}

static int emulated_play(struct tutti_backend *backend, const struct tutti_play *play,
                         struct tutti_played *ret, struct tutti_err *err)
{
    return tutti_backend_play(((struct emulated *)backend)->threads, play, ret, err);
}

static const struct tutti_backend_ops emulated_ops = {
    .size = sizeof(struct tutti_backend_ops),
    .name = "threads, emulating",
    .close = emulated_close,
    .play = emulated_play,
};

/* `opts` without a topology: that is made of the SPEC. */
static int emulated_open(const char *spec, struct tutti_sim_opts opts, double slowdown,
                         struct tutti_backend **ret, struct tutti_err *err)
{
    struct emulated *emulated = calloc(1, sizeof(*emulated));
    struct tutti_threads_opts threads = {.slowdown = slowdown};
    int status;

    if (emulated == NULL)
        return tutti_nomem(err);
    emulated->backend.ops = &emulated_ops;
    status = tutti_topo_from_spec(spec, &emulated->topo, err);
    opts.topo = emulated->topo;
    if (status == 0)
        status = tutti_sim_shaper_open(&opts, &emulated->shaper, err);
    threads.shaper = emulated->shaper;
    if (status == 0) /* as many as it chooses, one, or two, that also wait for each other */
        threads.thread_count = emulated->topo->rank_count % 3;
    if (status == 0)
        status = tutti_threads_open(&threads, &emulated->threads, err);
    if (status < 0)
        emulated_close(&emulated->backend);
    else
        *ret = &emulated->backend;
    return status;
}

#endif
