/* What it takes to simulate a training step of many ranks: fold_step_bench [NODES] [LAYERS] [SLOW].
 * LAYERS COMPUTE and as many CALL on nodes of 8 H100: all-reduces of 64 MiB in the node (tensor
 * parallel) and of 256 MiB across nodes (data parallel), in turns, written on demand; SLOW ranks
 * are slower by 1 %, evenly spread. Prints CPU seconds, memory, classes and the step's time. */
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "runtime/coll.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/step.h"
#include "tests/bench/bench.h"
#include "topo/topo.h"

enum { GPUS = 8, WORK = 0, CALLS = 1 };

static void give_up(const char *what, const struct tutti_err *err)
{
    fprintf(stderr, "fold_step_bench: %s: %s\n", what, err->text);
    exit(1);
}

static double cpu_s(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* The step, which is computed and not stored. */
struct step_schedule {
    struct tutti_schedule base;
    uint32_t layer_count;
    const struct tutti_schedule *callees[2];
    struct tutti_axis axes[2];
};

static uint64_t round_count(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane)
{
    (void)rank;
    (void)lane;
    return ((const struct step_schedule *)schedule)->layer_count;
}

/* COMPUTE k, and CALL k when it is done; COMPUTE k + 2 waits for CALL k. */
static void emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                 uint64_t round, struct tutti_round *out)
{
    struct tutti_step step;

    (void)schedule;
    (void)rank;
    if (lane == WORK) {
        step = (struct tutti_step){.kind = TUTTI_COMPUTE,
                                   .duration_ps = TUTTI_PS_PER_MS,
                                   .dep_lane = CALLS,
                                   .dep_step = (uint32_t)round - 2};
        step.flags = round >= 2 ? TUTTI_STEP_DEP : 0;
    } else {
        step = tutti_step_call(round % 2, (uint8_t)(1 + round % 2),
                               (struct tutti_buf_at){TUTTI_BUF_IN, 0},
                               (struct tutti_buf_at){TUTTI_BUF_OUT, 0}, 0);
        step.flags = TUTTI_STEP_DEP;
        step.dep_lane = WORK;
        step.dep_step = (uint32_t)round;
    }
    out->step[0] = step;
    out->step_count = 1;
}

static uint64_t program(const struct tutti_schedule *schedule, uint32_t rank)
{
    (void)schedule;
    (void)rank;
    return 0;
}

static const struct tutti_schedule_ops ops = {.size = sizeof(struct tutti_schedule_ops),
                                              .round_count = round_count,
                                              .emit = emit,
                                              .program = program};

static struct tutti_schedule *ring(uint32_t rank_count, uint64_t bytes)
{
    const struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE, .count = bytes / 4};
    const struct tutti_shape shape = tutti_shape_flat(rank_count);
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err;

    if (tutti_coll_generate("ring", &params, &shape, &schedule, &err) < 0)
        give_up("ring", &err);
    return schedule;
}

static uint32_t number(int argc, char **argv, int at, uint32_t standard)
{
    return argc > at ? (uint32_t)strtoul(argv[at], NULL, 10) : standard;
}

int main(int argc, char **argv)
{
    const uint32_t node_count = number(argc, argv, 1, 2048);
    const uint32_t slow_count = number(argc, argv, 3, 0);
    const uint32_t n = node_count * GPUS;
    const uint32_t sizes[2] = {node_count, GPUS};
    struct step_schedule step = {.layer_count = number(argc, argv, 2, 4)};
    uint32_t *pace = malloc((size_t)n * sizeof(*pace));
    struct tutti_step_opts opts = {.size = sizeof(opts), .pace_ppm = pace};
    struct tutti_topo *topo = NULL;
    struct tutti_stepped stepped;
    struct rusage usage;
    struct tutti_err err;
    char spec[64];
    double start_s;

    snprintf(spec, sizeof(spec), "dgx-h100:nodes=%u", node_count);
    if (pace == NULL || tutti_topo_from_spec(spec, &topo, &err) < 0)
        give_up(spec, &err);
    start_s = cpu_s();
    step.callees[0] = ring(GPUS, UINT64_C(64) << 20);
    step.callees[1] = ring(node_count, UINT64_C(256) << 20);
    step.axes[0] = tutti_mesh_axis("tp", 0, sizes, 2, 1);
    step.axes[1] = tutti_mesh_axis("dp", 0, sizes, 2, 0);
    step.base = (struct tutti_schedule){.ops = &ops,
                                        .name = "step",
                                        .contract = {.collective = TUTTI_CUSTOM},
                                        .rank_count = n,
                                        .lane_count = 2,
                                        .slot_count = TUTTI_SLOTS_DEFAULT,
                                        .callee_count = 2,
                                        .callees = step.callees,
                                        .axis_count = 2,
                                        .axes = step.axes};
    for (uint32_t rank = 0; rank < n; rank++)
        pace[rank] = TUTTI_PACE;
    for (uint32_t i = 0; i < slow_count; i++)
        pace[(uint64_t)i * n / slow_count] = TUTTI_PACE / 100 * 101;
    opts.topo = topo;
    opts.schedule = &step.base;
    if (tutti_step_play(&opts, &stepped, &err) < 0)
        give_up("play", &err);
    (void)getrusage(RUSAGE_SELF, &usage);
    printf("%u ranks, %u COMPUTE and %u CALL each, %u slow: %.1f us, %u classes, %u collectives "
           "simulated, %.3f CPU-s, %.1f MiB at most\n",
           n, step.layer_count, step.layer_count, slow_count, (double)stepped.total_ps * 1e-6,
           stepped.class_count, stepped.price_count, cpu_s() - start_s,
           (double)usage.ru_maxrss / 1024);
    tutti_schedule_free((struct tutti_schedule *)(uintptr_t)step.callees[0]);
    tutti_schedule_free((struct tutti_schedule *)(uintptr_t)step.callees[1]);
    tutti_topo_free(topo);
    free(pace);
    return 0;
}
