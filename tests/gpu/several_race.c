/* The CUDA player's kernel on two devices under ThreadSanitizer: each is a host thread that
 * launches its part again and again. As it is it must be quiet; where devices do not meet before
 * each launch, or with relaxed counters, it must be caught.
 * Usage: several_race right|no-meeting|relaxed */
#include <stdio.h>
#include <string.h>

#include "tests/gpu/player_world.h"

enum { GPUS = 2, RANKS = 4, LAUNCHES = 3, THREADS = 2, LINE = 64 };

/* Of all launches of a play. */
struct several {
    struct world w;
    struct tutti_cuda_flag *flags; /* waits, then signals, as devices read them */
    uint64_t homes[GPUS + 1];
    struct tutti_cuda_counter meetings[GPUS];
    struct tutti_cuda_counter gates[GPUS];
    struct launches {
        const struct several *all;
        struct tutti_cuda_args args;
        struct player_cpu_pool pool;
        uint64_t meetings_ns[1];
        uint32_t lane_count;
        enum player_cpu_mutant mutant;
        bool met; /* devices meet before each launch */
        bool complete;
    } launches[GPUS];
};

static int open_memory(struct several *s, struct tutti_err *err)
{
    const struct tutti_cuda_plan *plan = &s->w.plan;
    size_t counters = (size_t)tutti_cuda_counter_count(plan);
    uint64_t bytes = 0;

    for (uint32_t h = 0; h <= GPUS; h++)
        bytes += (plan->home_bytes[h] + LINE - 1) / LINE * LINE;
    s->w.lines = aligned_alloc(LINE, (size_t)bytes + LINE);
    s->w.ops = calloc((size_t)plan->op_count + 1, sizeof(*s->w.ops));
    s->w.lanes = calloc((size_t)plan->lane_total + 1, sizeof(*s->w.lanes));
    s->w.counters = calloc((GPUS + 1) * counters, sizeof(*s->w.counters));
    s->w.verdicts = calloc((size_t)plan->lane_total + 1, sizeof(*s->w.verdicts));
    s->flags = calloc((size_t)plan->wait_count + plan->signal_count + 1, sizeof(*s->flags));
    if (s->w.lines == NULL || s->w.ops == NULL || s->w.lanes == NULL || s->w.counters == NULL ||
        s->w.verdicts == NULL || s->flags == NULL)
        return tutti_nomem(err);
    memset(s->w.lines, 0, (size_t)bytes + LINE);
    for (uint32_t i = 0; i < plan->wait_count; i++)
        s->flags[i] = tutti_cuda_resolve_flag(plan, plan->waits[i]);
    for (uint32_t i = 0; i < plan->signal_count; i++)
        s->flags[plan->wait_count + i] = tutti_cuda_resolve_flag(plan, plan->signals[i]);
    bytes = 0;
    for (uint32_t h = 0; h <= GPUS; h++) {
        s->homes[h] = (uintptr_t)s->w.lines + bytes;
        bytes += (plan->home_bytes[h] + LINE - 1) / LINE * LINE;
    }
    return 0;
}

static void open_launches(struct several *s, uint32_t gpu, enum player_cpu_mutant mutant, bool met)
{
    struct world *w = &s->w;
    const struct tutti_cuda_part part = tutti_cuda_part_of(&w->plan, gpu);
    const uint64_t *bases[TUTTI_CUDA_BASES] = {w->addresses[0], w->addresses[1], w->addresses[2],
                                               w->addresses[3], w->addresses[4], s->homes};
    struct launches *l = &s->launches[gpu];
    size_t counters = (size_t)tutti_cuda_counter_count(&w->plan);

    tutti_cuda_resolve(&w->plan, &part, bases, w->ops + part.op_first, w->lanes + part.lane_first);
    *l = (struct launches){
        .all = s, .lane_count = part.lane_count, .mutant = mutant, .met = met, .complete = true};
    l->args = (struct tutti_cuda_args){
        .ops = w->ops + part.op_first,
        .lanes = w->lanes + part.lane_first,
        .waits = s->flags,
        .signals = s->flags + w->plan.wait_count,
        .counters = w->counters + gpu * counters,
        .meeting = &s->meetings[gpu],
        .verdicts = w->verdicts + part.lane_first,
        .stop = &w->stop,
        .abort = &w->abort,
        .meetings_ns = l->meetings_ns,
        .deadline_ns = met ? 20000000000u : 500000000u, /* a line may be missed for ever */
        .iteration = 1,
        .iteration_count = 1,
        .gpu_count = met ? GPUS : 1,
        .gpu = gpu,
        .gates = s->gates,
    };
    for (uint32_t h = 0; h <= GPUS; h++)
        l->args.far[h] = w->counters + h * counters;
}

static void *launch(void *data)
{
    struct launches *l = data;

    for (uint32_t i = 0; i < LAUNCHES && l->complete; i++) {
        l->complete = player_cpu_launch(&l->pool, world_kernel(&l->all->w), &l->args, l->lane_count,
                                        THREADS, UINT32_MAX, l->mutant);
        l->args.iteration++;
        l->args.gate_base++;
        l->args.meeting_base += l->lane_count + 1;
    }
    return NULL;
}

static bool play_all(struct several *s)
{
    pthread_t threads[GPUS];
    bool started[GPUS] = {false};
    bool complete = true;

    for (uint32_t g = 0; g < GPUS; g++)
        started[g] = pthread_create(&threads[g], NULL, launch, &s->launches[g]) == 0;
    for (uint32_t g = 0; g < GPUS; g++) {
        if (started[g])
            (void)pthread_join(threads[g], NULL);
        complete = complete && started[g] && s->launches[g].complete;
        player_cpu_pool_close(&s->launches[g].pool);
    }
    return complete;
}

static int play(const char *algorithm, bool direct, enum tutti_cuda_planning planning,
                enum player_cpu_mutant mutant, bool met)
{
    const struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .count = 1000, .channel_count = 2, .slot_count = 1};
    const struct tutti_cuda_spread spread = {.gpu_count = GPUS,
                                             .direct = {{false, direct}, {direct, false}}};
    const struct tutti_shape shape = tutti_shape_flat(RANKS);
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {{0}};
    struct several s = {.flags = NULL};
    int status = tutti_coll_generate(algorithm, &params, &shape, &schedule, &err);

    if (status == 0)
        status = world_plan(&s.w, schedule, planning, &spread, &err);
    if (status == 0)
        status = world_refer(&s.w, &err);
    if (status == 0)
        status = open_memory(&s, &err);
    for (uint32_t g = 0; g < GPUS && status == 0; g++)
        open_launches(&s, g, mutant, met);
    if (status == 0 && !play_all(&s))
        status = tutti_fail(&err, TUTTI_EIO, "cannot start threads");
    if (status < 0)
        (void)fprintf(stderr, "several_race: %s: %s\n", algorithm, err.text);
    else if (world_wrong_ranks(&s.w) > 0 || s.w.stop != 0)
        (void)printf("%s: %u ranks wrong, verdict %u\n", algorithm, world_wrong_ranks(&s.w),
                     s.w.stop);
    status = status < 0 || world_wrong_ranks(&s.w) > 0 || s.w.stop != 0;
    free(s.flags);
    world_close(&s.w);
    return status;
}

int main(int argc, char **argv)
{
    static const char *const algorithms[] = {"ring", "two-shot", "one-shot", "halving-doubling"};
    bool relaxed = argc > 1 && strcmp(argv[1], "relaxed") == 0;
    bool met = argc < 2 || strcmp(argv[1], "no-meeting") != 0;
    int failed = 0;

    if (argc < 2 || (met && !relaxed && strcmp(argv[1], "right") != 0))
        return 2;
    for (size_t a = 0; a < sizeof(algorithms) / sizeof(algorithms[0]); a++)
        for (int direct = 0; direct < 2; direct++)
            for (int p = TUTTI_CUDA_JOINED; p <= TUTTI_CUDA_LINED; p++)
                failed |= play(algorithms[a], direct, (enum tutti_cuda_planning)p,
                               relaxed ? PLAYER_CPU_RELAXED : PLAYER_CPU_RIGHT, met);
    return failed;
}
