/* Cases for tests of folding: random schedules on random machines with unequal links. */
#ifndef TUTTI_TESTS_SIM_FOLD_CASES_H
#define TUTTI_TESTS_SIM_FOLD_CASES_H

#include "runtime/backend.h"
#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/sim.h"
#include "tests/sim/play_all.h"
#include "tests/test.h"
#include "tests/topo/links.h"
#include "topo/topo.h"

static const enum tutti_collective collectives[] = {TUTTI_ALLREDUCE, TUTTI_REDUCESCATTER,
                                                    TUTTI_ALLGATHER};

static inline uint32_t below(struct tutti_random *random, uint32_t bound)
{
    return (uint32_t)tutti_random_below(random, bound);
}

/* A random schedule for a machine, or NULL where the algorithm does not fit. */
static inline struct tutti_schedule *draw_schedule(struct tutti_random *random,
                                                   const struct tutti_topo *topo, bool even)
{
    size_t count = 0;
    const struct tutti_algorithm *algorithms = tutti_algorithms(&count);
    static const char *const nests[] = {"ring", "ring-bidirectional", "torus", "hierarchical"};
    uint32_t any = below(random, (uint32_t)count);
    const char *name = below(random, 4) == 0 ? algorithms[any].name : nests[below(random, 4)];
    struct tutti_coll_params params = {
        .collective = collectives[below(random, 3)],
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .channel_count = 1 + below(random, 2),
        .slice_count = 1 + below(random, 3),
        .slot_count = 1 + below(random, 8),
    };
    struct tutti_schedule *schedule = NULL;

    params.count = below(random, 5000);
    if (even)
        params.count = (uint64_t)topo->rank_count * 12 * params.channel_count * below(random, 200);
    if (below(random, 3) == 0)
        params.chunk_bytes = 4 + 4 * below(random, 2000);
    if (tutti_coll_generate(name, &params, &topo->shape, &schedule, NULL) < 0)
        return NULL;
    return schedule;
}

static const char *const machines[] = {
    "ring:n=2",
    "ring:n=3",
    "ring:n=12",
    "ring:n=24,bw=7GB/s",
    "switch:n=2",
    "switch:n=9",
    "switch:n=16",
    "torus:4x4",
    "torus:4x6",
    "torus:3x4x5",
    "torus:2x4",
    "torus:8x3",
    "mesh:4x4",
    "dgx-h100",
    "dgx-h100:nodes=2",
    "dgx-h100:nodes=4",
    "tpu-v4:2x2x4",
    "tpu-v4:4x4x4",
    "full:n=6",
    "fattree:arity=3,levels=2",
    "rail:nodes=6,gpus=4,group=2",
    "torus:5x5,lat=0ns",
    "ring:n=16,lat=13us,bw=900MB/s",
};

static inline struct tutti_topo *draw_machine(struct tutti_random *random)
{
    uint32_t count = (uint32_t)(sizeof(machines) / sizeof(machines[0]));
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_topo_from_spec(machines[below(random, count)], &topo, &err), err);
    return topo;
}

/* Makes links unequal, in a pattern that repeats every few nodes, or one link. */
static inline void disturb(struct tutti_random *random, struct tutti_topo *topo)
{
    struct tutti_link *links = take_links(topo);
    uint32_t period = 1 + below(random, 4);
    uint32_t phase = below(random, period);
    uint32_t one = below(random, topo->link_count);
    uint32_t what = below(random, 5);

    for (uint32_t i = 0; i < topo->link_count; i++) {
        bool hit = what <= 2 ? links[i].from % period == phase : i == one;

        if (!hit || what == 0)
            continue;
        links[i].latency_ps += 777;
        if (what % 2 == 0)
            links[i].bytes_per_s = links[i].bytes_per_s / 3 + 1;
    }
    put_links(topo, links);
}

#endif
