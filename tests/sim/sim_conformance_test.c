/* The backend `sim` under the conformance suite: the same bytes and steps as everywhere, whatever
 * the network model and the jitter (SIM_MODEL and SIM_JITTER come from sim_conformance.cmake), and
 * whether or not the ranks start together. */
#include "sim/sim.h"
#include "tests/runtime/conformance_nccl.h"
#include "topo/topo.h"

/* A simulator that owns its topology, which the one inside only borrows. */
struct owner {
    struct tutti_backend backend;
    struct tutti_backend *sim;
    struct tutti_topo *topo;
    tutti_ps start_ps[PERFORMANCE_RANKS_MAX];
};

static void owner_close(struct tutti_backend *backend)
{
    struct owner *owner = (struct owner *)backend;

    tutti_backend_close(owner->sim);
    tutti_topo_free(owner->topo);
    free(owner);
}

static int owner_play(struct tutti_backend *backend, const struct tutti_play *play,
                      struct tutti_played *ret, struct tutti_err *err)
{
    return tutti_backend_play(((struct owner *)backend)->sim, play, ret, err);
}

static const struct tutti_backend_ops owner_ops = {
    .size = sizeof(struct tutti_backend_ops),
    .name = "sim",
    .close = owner_close,
    .play = owner_play,
};

static int open_sim(uint32_t rank_count, struct tutti_backend **ret, struct tutti_err *err)
{
    struct owner *owner = calloc(1, sizeof(*owner));
    struct tutti_sim_opts opts = {
        .size = sizeof(struct tutti_sim_opts),
        .model = SIM_MODEL,
        .jitter = SIM_JITTER,
        .seed = test_seed,
        .reduce_bytes_per_s = rank_count % 2 * UINT64_C(100000000000), /* free now and then */
    };
    char spec[64];
    int status;

    if (owner == NULL)
        return tutti_nomem(err);
    owner->backend.ops = &owner_ops;
    for (uint32_t rank = 0; rank < PERFORMANCE_RANKS_MAX; rank++)
        owner->start_ps[rank] = (tutti_ps)(tutti_random_hash(test_seed, rank, 0, 0) % 1000000);
    if (rank_count % 3 != 0) /* now and then, all at once */
        opts.start_ps = owner->start_ps;
    snprintf(spec, sizeof(spec), "ring:n=%u,bw=10GB/s,lat=100ns", rank_count);
    status = tutti_topo_from_spec(spec, &owner->topo, err);
    if (status == 0) {
        opts.topo = owner->topo;
        status = tutti_sim_open(&opts, &owner->sim, err);
    }
    if (status < 0)
        owner_close(&owner->backend);
    else
        *ret = &owner->backend;
    return status;
}

static const struct conformance_subject subject = {.name = "sim", .open = open_sim};
