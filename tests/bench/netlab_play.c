/* Plays all-reduces with the backend tcp on a network of tools/netlab, one process a host, and
 * prints the median and the best of what each took, in us: what tests/bench/netlab.sh holds
 * predictions against.
 *
 *   netlab_play RANKS TIMES ALGORITHM,... BYTES,... [TIMES ALGORITHM,... BYTES,...]
 *
 * Algorithms "pairN", "crossN", "swapN" and "turnN" are no all-reduces. pairN: each rank and the
 * one n/2 further on pass a message to each other N times there and back; its time is that of one
 * message one way. crossN: they do so N times at once, as ranks do in all-reduces. swapN: so do
 * each rank and its neighbour, 0 and 1, 2 and 3, .... turnN: with neighbour and the other in turn.
 * RANKS are those of all processes together, blocks in order; more than processes are taken as a
 * level of their own, the host. All processes run on one machine and have one clock: each time
 * starts at a moment that all know, PAUSE_PS after they have met, so that token buckets are full
 * and nobody begins later than another because word of the barrier has come to him later. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/coll.h"
#include "runtime/group_tcp.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/tcp.h"

enum { LIST_MAX = 32, PAIRS_MAX = 1000 };

static const tutti_ps PAUSE_PS = 30 * TUTTI_PS_PER_MS;

struct stage {
    struct tutti_group *group;
    struct tutti_backend *backend;
    struct tutti_shape shape;
};

struct pattern {
    const char *name;
    enum { WITH_ACROSS, WITH_NEIGHBOUR, IN_TURN } whom;
    bool at_once;
};

static const struct pattern *pattern_of(const char *algorithm)
{
    static const struct pattern patterns[] = {{"pair", WITH_ACROSS, false},
                                              {"cross", WITH_ACROSS, true},
                                              {"swap", WITH_NEIGHBOUR, true},
                                              {"turn", IN_TURN, true}};

    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        if (strncmp(algorithm, patterns[i].name, strlen(patterns[i].name)) == 0)
            return &patterns[i];
    }
    return NULL;
}

static int pair_rank(struct tutti_builder *builder, uint32_t rank, uint32_t count,
                     const struct pattern *pattern, uint64_t bytes, uint64_t rounds,
                     struct tutti_err *err)
{
    int status = 0;

    for (uint64_t i = 0; i < rounds && status == 0; i++) {
        bool near = pattern->whom == WITH_NEIGHBOUR || (pattern->whom == IN_TURN && i % 2 == 0);
        uint32_t peer = near ? rank ^ 1 : (rank + count / 2) % count;
        bool first = pattern->at_once || rank < peer;
        struct tutti_step send = {
            .kind = TUTTI_SEND, .peer = peer, .src_buf = TUTTI_BUF_IN, .bytes = bytes};
        struct tutti_step receive = {
            .kind = TUTTI_RECV, .peer = peer, .dst_buf = TUTTI_BUF_OUT, .bytes = bytes};

        status = tutti_builder_add(builder, rank, 0, first ? &send : &receive, err);
        if (status == 0)
            status = tutti_builder_add(builder, rank, 0, first ? &receive : &send, err);
    }
    return status;
}

static int make_pair(uint32_t count, const struct pattern *pattern, uint64_t bytes, uint64_t rounds,
                     struct tutti_schedule **ret, struct tutti_err *err)
{
    struct tutti_schedule_desc desc = {
        .name = "pair",
        .contract = {.collective = TUTTI_CUSTOM, .dtype = TUTTI_FLOAT32, .op = TUTTI_SUM},
        .rank_count = count,
        .lane_count = 1,
        .in_bytes = bytes,
        .out_bytes = bytes,
    };
    struct tutti_builder *builder = NULL;
    int status = count % 2 == 0
                     ? tutti_builder_new(&desc, &builder, err)
                     : tutti_fail(err, TUTTI_EINVAL, "pairs of %u ranks (an even number)", count);

    for (uint32_t rank = 0; rank < count && status == 0; rank++)
        status = pair_rank(builder, rank, count, pattern, bytes, rounds, err);
    if (status == 0)
        return tutti_builder_finish(builder, ret, err);
    tutti_builder_free(builder);
    return status;
}

static int play(struct stage *stage, uint64_t times, const char *algorithm, uint64_t bytes,
                struct tutti_err *err)
{
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_FLOAT32,
                                       .op = TUTTI_SUM,
                                       .count = bytes / 4,
                                       .slot_count = TUTTI_SLOTS_DEFAULT};
    struct tutti_schedule *schedule = NULL;
    const struct pattern *pattern = pattern_of(algorithm);
    uint64_t rounds = 0;
    double parts = 1;
    int status;

    if (pattern != NULL) {
        status = tutti_read_count(algorithm + strlen(pattern->name), 1, PAIRS_MAX, &rounds, err);
        parts = (pattern->at_once ? 1 : 2) * (double)rounds;
        if (status == 0)
            status = make_pair(stage->shape.rank_count, pattern, bytes, rounds, &schedule, err);
    } else {
        status = tutti_coll_generate(algorithm, &params, &stage->shape, &schedule, err);
    }
    if (status == 0) {
        /* The first makes the connections, and touches the memory. */
        struct tutti_play plays = {.size = sizeof(struct tutti_play),
                                   .schedule = schedule,
                                   .warmup_count = 1,
                                   .iteration_count = (uint32_t)times,
                                   .barrier = true,
                                   .lead_ps = PAUSE_PS};
        struct tutti_played played = {.total_ps = 0};

        status = tutti_backend_play(stage->backend, &plays, &played, err);
        if (status == 0 && stage->group->index == 0)
            printf("play %s %" PRIu64 " %.1f %.1f\n", algorithm, bytes,
                   (double)played.median_ps / (double)TUTTI_PS_PER_US / parts,
                   (double)played.best_ps / (double)TUTTI_PS_PER_US / parts);
    }
    tutti_schedule_free(schedule);
    return status;
}

/* Cuts a list at its commas, in place. */
static size_t cut(char *list, char *items[LIST_MAX])
{
    size_t count = 0;

    for (char *at = list; at != NULL && count < LIST_MAX; count++) {
        char *comma = strchr(at, ',');

        items[count] = at;
        if (comma != NULL)
            *comma++ = '\0';
        at = comma;
    }
    return count;
}

static int number_of(const char *name, uint64_t max, uint64_t *ret, struct tutti_err *err)
{
    const char *text = getenv(name);

    return tutti_read_count(text != NULL ? text : "", 0, max, ret, err);
}

static int open_stage(struct stage *stage, uint64_t ranks, struct tutti_err *err)
{
    const char *secret = getenv("TUTTI_SECRET");
    struct tutti_group_tcp_opts group = {.size = sizeof(struct tutti_group_tcp_opts),
                                         .root = getenv("TUTTI_ROOT"),
                                         .bind = "eth0",
                                         .secret = secret,
                                         .secret_bytes = secret != NULL ? strlen(secret) : 0};
    struct tutti_tcp_opts tcp = {.size = sizeof(struct tutti_tcp_opts), .congestion = "reno"};
    uint64_t index = 0;
    uint64_t count = 0;
    int status = number_of("TUTTI_SIZE", 64, &count, err);

    if (status == 0)
        status = number_of("TUTTI_RANK", 63, &index, err);
    group.index = (uint32_t)index;
    group.count = (uint32_t)count;
    if (status == 0)
        status = tutti_group_tcp_open(&group, &stage->group, err);
    tcp.group = stage->group;
    if (status == 0)
        status = tutti_tcp_open(&tcp, &stage->backend, err);
    stage->shape = tutti_shape_flat((uint32_t)ranks);
    if (status == 0 && ranks > count)
        stage->shape = (struct tutti_shape){.rank_count = (uint32_t)ranks,
                                            .level_count = 2,
                                            .level = {(uint32_t)(ranks / count), (uint32_t)count}};
    return status;
}

/* All of one group of words: how many times, algorithms, and sizes. */
static int play_group(char **words, struct stage *stage, struct tutti_err *err)
{
    char *algorithms[LIST_MAX];
    char *sizes[LIST_MAX];
    size_t algorithm_count = cut(words[1], algorithms);
    size_t size_count = cut(words[2], sizes);
    uint64_t times = 0;
    int status = tutti_read_count(words[0], 1, 1000, &times, err);

    for (size_t s = 0; s < size_count && status == 0; s++) {
        for (size_t a = 0; a < algorithm_count && status == 0; a++) {
            uint64_t bytes = 0;

            status = tutti_read_size(sizes[s], &bytes, err);
            if (status == 0)
                status = play(stage, times, algorithms[a], bytes, err);
        }
        (void)fflush(stdout);
    }
    return status;
}

static int run(char **words, int count, struct stage *stage, struct tutti_err *err)
{
    uint64_t ranks = 0;
    int status = tutti_read_count(words[0], 2, 64, &ranks, err);

    if (status == 0)
        status = open_stage(stage, ranks, err);
    for (int i = 1; i + 2 < count && status == 0; i += 3)
        status = play_group(words + i, stage, err);
    return status;
}

int main(int argc, char **argv)
{
    struct stage stage = {.group = NULL};
    struct tutti_err err = {.text = ""};
    int status = argc >= 5 && argc % 3 == 2
                     ? run(argv + 1, argc - 1, &stage, &err)
                     : tutti_fail(&err, TUTTI_EINVAL,
                                  "usage: netlab_play RANKS TIMES ALGORITHM,... BYTES,... "
                                  "[TIMES ALGORITHM,... BYTES,...]");

    tutti_backend_close(stage.backend);
    tutti_group_close(stage.group);
    if (status < 0)
        fprintf(stderr, "netlab_play: %s\n", err.text);
    return status == 0 ? 0 : status == -TUTTI_EINVAL ? 2 : status == -TUTTI_ELACK ? 77 : 1;
}
