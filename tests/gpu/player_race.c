/* The CUDA player's kernel under ThreadSanitizer, whatever the rest of the build is compiled with:
 * as it is it must be quiet; without barriers, or with relaxed counters, it must be caught.
 * Usage: player_race right|no-barrier|relaxed */
#include <stdio.h>
#include <string.h>

#include "tests/gpu/player_world.h"

static int play(const char *algorithm, uint32_t n, uint32_t threads,
                enum tutti_cuda_planning planning, enum player_cpu_mutant mutant)
{
    const struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .count = 1000, .channel_count = 2};
    const struct tutti_shape shape = tutti_shape_flat(n);
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {{0}};
    struct world w = {0};
    int status = tutti_coll_generate(algorithm, &params, &shape, &schedule, &err);

    if (status == 0)
        status = world_open(&w, schedule, planning, &err);
    if (status == 0)
        status = world_refer(&w, &err);
    if (status == 0 && !world_play(&w, 3, threads, UINT32_MAX, mutant, 20000000000u))
        status = tutti_fail(&err, TUTTI_EIO, "cannot start threads");
    if (status < 0)
        (void)fprintf(stderr, "player_race: %s: %s\n", algorithm, err.text);
    else if (world_wrong_ranks(&w) > 0 || w.stop != 0)
        (void)printf("%s, %u ranks, %u threads: %u ranks wrong, verdict %u\n", algorithm, n,
                     threads, world_wrong_ranks(&w), w.stop);
    status = status < 0 || world_wrong_ranks(&w) > 0 || w.stop != 0;
    world_close(&w);
    return status;
}

int main(int argc, char **argv)
{
    static const char *const algorithms[] = {"ring", "two-shot", "one-shot", "halving-doubling",
                                             "double-binary-tree"};
    enum player_cpu_mutant mutant = PLAYER_CPU_RIGHT;
    int failed = 0;

    if (argc > 1 && strcmp(argv[1], "no-barrier") == 0)
        mutant = PLAYER_CPU_NO_BARRIER;
    else if (argc > 1 && strcmp(argv[1], "relaxed") == 0)
        mutant = PLAYER_CPU_RELAXED;
    else if (argc < 2 || strcmp(argv[1], "right") != 0)
        return 2;
    for (size_t a = 0; a < sizeof(algorithms) / sizeof(algorithms[0]); a++)
        for (uint32_t threads = 1; threads <= 4; threads += 3)
            for (int p = TUTTI_CUDA_PLAIN; p <= TUTTI_CUDA_LINED; p++)
                failed |= play(algorithms[a], 4, threads, (enum tutti_cuda_planning)p, mutant);
    return failed;
}
