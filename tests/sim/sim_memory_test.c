/* A play in memory that the caller gives: no other is asked for, and it takes as long as on the
 * heap, to the picosecond. Here malloc and its like end the program while such a play goes on. */
#include <stdlib.h>

#include "tests/alloc_fail.h"

#include "runtime/backend.h"
#include "runtime/coll.h"
#include "runtime/record.h"
#include "runtime/schedule.h"
#include "sim/sim.h"
#include "topo/topo.h"

struct world {
    struct tutti_topo *topo;
    struct tutti_schedule *schedule;
    struct tutti_sim_opts opts;
    uint32_t iteration_count;
};

/* What a play came to. */
struct result {
    struct tutti_played played;
    int status;
    struct tutti_err err;
};

static void setup(struct world *world, const char *spec, const char *algorithm, uint64_t count,
                  enum tutti_model model)
{
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_FLOAT32,
                                       .op = TUTTI_SUM,
                                       .count = count,
                                       .chunk_bytes = 1 << 12};
    struct tutti_err err;

    *world = (struct world){.iteration_count = 1};
    CHECK_OK(tutti_topo_from_spec(spec, &world->topo, &err), err);
    CHECK_OK(tutti_coll_generate(algorithm, &params, &world->topo->shape, &world->schedule, &err),
             err);
    world->opts = (struct tutti_sim_opts){.size = sizeof(world->opts),
                                          .topo = world->topo,
                                          .model = model,
                                          .protocol = &tutti_protocols(NULL)[TUTTI_PROTOCOLS - 1],
                                          .seed = 42};
}

static void teardown(struct world *world)
{
    tutti_schedule_free(world->schedule);
    tutti_topo_free(world->topo);
}

/* Opens, plays twice and closes; `memory` NULL: on the heap. */
static struct result play(const struct world *world, struct tutti_memory *memory)
{
    struct result result = {.status = 0};
    struct tutti_sim_opts opts = world->opts;
    struct tutti_play play = {.size = sizeof(play),
                              .schedule = world->schedule,
                              .iteration_count = world->iteration_count,
                              .barrier = true};
    struct tutti_backend *backend = NULL;

    opts.memory = memory;
    result.status = tutti_sim_open(&opts, &backend, &result.err);
    for (int i = 0; i < 2 && result.status == 0; i++)
        result.status = tutti_backend_play(backend, &play, &result.played, &result.err);
    tutti_backend_close(backend);
    return result;
}

/* The same while no function of the heap may be called, freeing what is not NULL included. */
static struct result play_without_heap(const struct world *world, struct tutti_memory *memory)
{
    struct result result;

    alloc_fail_forbid(true);
    result = play(world, memory);
    alloc_fail_forbid(false);
    return result;
}

/* Plays on the heap, counted, and in just as much memory, dirty before. */
static void check_equal(const struct world *world)
{
    struct tutti_memory memory = {.bytes = 0};
    struct result heap = play(world, NULL);
    struct result counted = play(world, &memory);
    struct result given;
    size_t needed = memory.needed;

    CHECK_OK(heap.status, heap.err);
    CHECK_OK(counted.status, counted.err);
    CHECK(needed > 0);
    CHECK_INT(memory.used, 0);
    memory =
        (struct tutti_memory){.bytes = needed, .start = aligned_alloc(TUTTI_MEMORY_ALIGN, needed)};
    CHECK(memory.start != NULL);
    memset(memory.start, 0xa5, needed);
    for (int i = 0; i < 2; i++) { /* what a backend has left behind serves the next */
        given = play_without_heap(world, &memory);
        CHECK_OK(given.status, given.err);
        CHECK_INT(memory.needed, needed);
        CHECK_INT(memory.used, 0);
        CHECK_INT(given.played.total_ps, heap.played.total_ps);
        CHECK_INT(given.played.best_ps, heap.played.best_ps);
        CHECK_INT(given.played.median_ps, heap.played.median_ps);
        CHECK_INT(given.played.step_count, heap.played.step_count);
        CHECK_INT(counted.played.total_ps, heap.played.total_ps);
    }
    memory.bytes = needed - TUTTI_MEMORY_ALIGN;
    memory.needed = 0;
    given = play_without_heap(world, &memory);
    CHECK_INT(given.status, -TUTTI_ENOMEM);
    CHECK(memory.needed > memory.bytes);
    free(memory.start);
}

TEST(memory_of_the_callers_is_all_that_a_play_takes)
{
    static const struct {
        const char *spec;
        const char *algorithm;
        double jitter;
        uint64_t reduce_bytes_per_s;
        uint32_t seconds_max;
    } cases[] = {
        {"ring:n=8,bw=50GB/s,lat=500ns", "ring", 0, 0, 0}, /* by data flow */
        {"ring:n=8,bw=50GB/s,lat=500ns", "ring", 0.5, 10000000000, 600},
        {"switch:n=9", "two-shot", 0, 0, 600}, /* by the clock */
        {"switch:n=9", "double-binary-tree", 0.25, 0, 0},
        {"dgx-h100:nodes=2", "hierarchical", 0, 0, 600},
        {"dgx-h100:nodes=2", "recursive-doubling", 0.1, 0, 0},
        {"torus:4x4", "torus", 0, 0, 600},
        {"ring:n=6,bw=50GB/s,lat=500ns,burst=64KiB", "ring", 0, 0, 0}, /* token buckets */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int model = 0; model < 2; model++) {
            struct world world;

            setup(&world, cases[i].spec, cases[i].algorithm, 5000, (enum tutti_model)model);
            world.opts.jitter = cases[i].jitter;
            world.opts.reduce_bytes_per_s = cases[i].reduce_bytes_per_s;
            world.opts.seconds_max = cases[i].seconds_max;
            world.iteration_count = i == 1 ? 200 : 5;
            check_equal(&world);
            teardown(&world);
        }
    }
}

/* From nothing to enough: each time the message says how many bytes it would have taken so far. */
TEST(too_little_memory_is_refused_with_what_it_takes)
{
    static _Alignas(TUTTI_MEMORY_ALIGN) char bytes[1 << 18];
    struct tutti_memory memory = {.start = bytes, .bytes = 0};
    struct world world;
    struct result result;
    int tries = 0;

    setup(&world, "switch:n=9", "two-shot", 5000, TUTTI_MODEL_FAIR);
    do {
        memory.needed = 0;
        result = play_without_heap(&world, &memory);
        CHECK_INT(memory.used, 0);
        if (result.status == 0)
            break;
        CHECK_INT(result.status, -TUTTI_ENOMEM);
        CHECK(strstr(result.err.text, "of memory are too few") != NULL);
        CHECK(memory.needed > memory.bytes);
        memory.bytes = memory.needed;
    } while (memory.bytes <= sizeof(bytes) && ++tries < 10000);
    CHECK_OK(result.status, result.err);
    CHECK(tries > 10);
    CHECK_INT(memory.needed, memory.bytes);
    teardown(&world);
}

/* What it does not serve is refused before anything is played, or where it is found. */
TEST(what_memory_of_the_callers_does_not_serve_is_refused)
{
    static _Alignas(TUTTI_MEMORY_ALIGN) char bytes[1 << 18];
    struct tutti_memory memory = {.start = bytes, .bytes = sizeof(bytes)};
    struct tutti_backend *backend = NULL;
    struct tutti_played played = {.total_ps = 7};
    struct tutti_record record;
    struct tutti_err err;
    struct world world;
    struct tutti_play play = {.size = sizeof(play), .iteration_count = 1};

    setup(&world, "switch:n=4", "ring", 1000, TUTTI_MODEL_FAIR);
    tutti_record_init(&record);
    world.opts.memory = &memory;
    play.schedule = world.schedule;
    play.record = &record;
    CHECK_OK(tutti_sim_open(&world.opts, &backend, &err), err);
    CHECK_INT(tutti_backend_play(backend, &play, &played, &err), -TUTTI_ELACK);
    CHECK_TEXT(err.text, "memory of the caller's has no room for a record of 'ring' (memory NULL)");
    CHECK_INT(played.total_ps, 7);
    tutti_backend_close(backend);
    world.opts.carry = true;
    play.record = NULL;
    CHECK_OK(tutti_sim_open(&world.opts, &backend, &err), err);
    CHECK_INT(tutti_backend_play(backend, &play, &played, &err), -TUTTI_ELACK);
    tutti_backend_close(backend);
    memory.start = bytes + 1;
    CHECK_INT(tutti_sim_open(&world.opts, &backend, &err), -TUTTI_EINVAL);
    tutti_record_done(&record);
    teardown(&world);
}

/* On the heap the message tells who waits for what. */
TEST(a_standstill_is_told_without_its_reason)
{
    static const char text[] =
        "schedule stuck\ncontract allreduce float sum count 2\nranks 2\n"
        "lanes 1\nslots 8\nscratch 0 B\nrank 0 lane 0\n  SEND in+0 8 B to 1\n"
        "rank 1 lane 0\n  RECV out+0 8 B from 0\n  RECV out+0 8 B from 0\n";
    static _Alignas(TUTTI_MEMORY_ALIGN) char bytes[1 << 18];
    struct tutti_memory memory = {.start = bytes, .bytes = sizeof(bytes)};
    struct world world;
    struct result result;
    struct tutti_err err;

    setup(&world, "switch:n=2", "ring", 1000, TUTTI_MODEL_FAIR);
    tutti_schedule_free(world.schedule);
    CHECK_OK(tutti_schedule_parse("stuck", text, strlen(text), &world.schedule, &err), err);
    result = play(&world, NULL);
    CHECK_INT(result.status, -TUTTI_ECHECK);
    CHECK(strstr(result.err.text, "deadlock: rank 1, lane 0, step 1") != NULL);
    result = play_without_heap(&world, &memory);
    CHECK_INT(result.status, -TUTTI_ECHECK);
    CHECK_TEXT(result.err.text,
               "'stuck' cannot be played to its end (a play with memory NULL says why)");
    CHECK_INT(memory.used, 0);
    teardown(&world);
}
