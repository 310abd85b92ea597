/* A backend that emulates a machine, which it owns along with the shaper. */
#ifndef TUTTI_TESTS_RUNTIME_EMULATED_H
#define TUTTI_TESTS_RUNTIME_EMULATED_H

#include <stdlib.h>

#include "runtime/shaper.h"
#include "runtime/status.h"
#include "runtime/threads.h"
#include "sim/shaper.h"
#include "sim/sim.h"
#include "topo/topo.h"

struct emulated {
    struct tutti_backend backend;
    struct tutti_backend *inner; /* plays */
    struct tutti_shaper *shaper;
    struct tutti_topo *topo;
};

static void emulated_close(struct tutti_backend *backend)
{
    struct emulated *emulated = (struct emulated *)backend;

    tutti_backend_close(emulated->inner);
    tutti_shaper_close(emulated->shaper);
    tutti_topo_free(emulated->topo);
    free(emulated);
}

static int emulated_play(struct tutti_backend *backend, const struct tutti_play *play,
                         struct tutti_played *ret, struct tutti_err *err)
{
    return tutti_backend_play(((struct emulated *)backend)->inner, play, ret, err);
}

static void emulated_ranks(const struct tutti_backend *backend, uint32_t rank_count,
                           uint32_t *ret_first, uint32_t *ret_count)
{
    tutti_backend_ranks(((const struct emulated *)backend)->inner, rank_count, ret_first,
                        ret_count);
}

static const struct tutti_backend_ops emulated_ops = {
    .size = sizeof(struct tutti_backend_ops),
    .name = "emulating",
    .close = emulated_close,
    .play = emulated_play,
    .ranks = emulated_ranks,
};

/* Opens the backend that plays; `shaper` is borrowed until it is closed. */
typedef int emulated_inner(struct tutti_shaper *shaper, uint32_t rank_count, void *data,
                           struct tutti_backend **ret, struct tutti_err *err);

/* `opts` without a topology: that is made of the SPEC. `data` is for open_inner. */
static int emulated_open_over(const char *spec, struct tutti_sim_opts opts,
                              emulated_inner *open_inner, void *data, struct tutti_backend **ret,
                              struct tutti_err *err)
{
    struct emulated *emulated = calloc(1, sizeof(*emulated));
    int status;

    if (emulated == NULL)
        return tutti_nomem(err);
    emulated->backend.ops = &emulated_ops;
    status = tutti_topo_from_spec(spec, &emulated->topo, err);
    opts.topo = emulated->topo;
    if (status == 0)
        status = tutti_sim_shaper_open(&opts, &emulated->shaper, err);
    if (status == 0)
        status =
            open_inner(emulated->shaper, emulated->topo->rank_count, data, &emulated->inner, err);
    if (status < 0)
        emulated_close(&emulated->backend);
    else
        *ret = &emulated->backend;
    return status;
}

static inline int emulated_threads(struct tutti_shaper *shaper, uint32_t rank_count, void *data,
                                   struct tutti_backend **ret, struct tutti_err *err)
{
    struct tutti_threads_opts threads = {
        .size = sizeof(struct tutti_threads_opts),
        .shaper = shaper,
        .slowdown = *(const double *)data,
        .thread_count = rank_count % 3 /* as many as it chooses, one, or two, that also wait for
                                          each other */
    };

    return tutti_threads_open(&threads, ret, err);
}

/* By threads. */
static inline int emulated_open(const char *spec, struct tutti_sim_opts opts, double slowdown,
                                struct tutti_backend **ret, struct tutti_err *err)
{
    return emulated_open_over(spec, opts, emulated_threads, &slowdown, ret, err);
}

#endif
