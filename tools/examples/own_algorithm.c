/* An algorithm of one's own, as a plugin: Swing, its form of lowest latency (De Sensi, Bonato,
 * Saam, Hoefler: "Swing: Short-cutting Rings for Higher Bandwidth Allreduce", NSDI 2024).
 *
 * As in recursive doubling the ranks, a power of two of them, exchange all data pairwise in log2(n)
 * rounds, and after each a rank holds the sum of twice as many. But the partners of round s are
 * d(s) = 1, -1, 3, -5, 11, ... apart on a ring, not 1, 2, 4, 8: on a torus they are closer.
 *
 *   cc -shared -fPIC -I PREFIX/include/tutti -o swing.so own_algorithm.c
 *   tutti schedule prove -a ./swing.so -g 16 -b 1M
 *   tutti predict torus:16,bw=50GB/s,lat=1us -a recursive-doubling,./swing.so -b 4K
 *   tutti compare torus:16,bw=50GB/s,lat=1us -a all,./swing.so -b 1K -e 64M -f 4
 *   tutti run -B threads -g 4 -a ./swing.so -b 64K
 *
 * Price: log2(n) rounds, in each of which a rank sends all of its data. */
#include "runtime/coll.h"
#include "runtime/loop.h"
#include "runtime/status.h"

/* The partner of a rank in round `round`: even ranks look d(round) ahead, odd ones as far back.
 * d(s) = (1 - (-2)^(s + 1)) / 3 is odd, so each is the other's partner. */
static uint32_t partner(uint32_t rank, uint32_t round, uint32_t rank_count)
{
    int64_t power = (int64_t)1 << (round + 1); /* of -2, but for its sign */
    int64_t distance = (1 - (round % 2 == 0 ? -power : power)) / 3;
    int64_t seat = (int64_t)rank + (rank % 2 == 0 ? distance : -distance);

    return (uint32_t)((seat % rank_count + rank_count) % rank_count);
}

struct swing {
    uint32_t round_count;
    uint64_t bytes;
};

/* The steps of a rank: a plain loop, whose rounds differ in their peers and places. */
static void write_swing(struct tutti_loop *w)
{
    const struct swing *s = w->context;
    const struct tutti_buf_at arrived = {TUTTI_BUF_SCRATCH, 0};
    struct tutti_buf_at have = {TUTTI_BUF_IN, 0};

    for (uint32_t round = 0; round < s->round_count; round++) {
        uint32_t peer = partner(w->rank, round, w->rank_count);
        bool last = round + 1 == s->round_count;
        /* A sum of its own for each round: the one before may still be on its way. */
        struct tutti_buf_at sum = {last ? TUTTI_BUF_OUT : TUTTI_BUF_SCRATCH,
                                   last ? 0 : (round + 1) * s->bytes};

        tutti_loop_append(w, tutti_step_send(have, s->bytes, peer));
        tutti_loop_recv_reduce(w, peer, sum, have, arrived, s->bytes)->flags |=
            last ? TUTTI_STEP_LAST : 0;
        have = sum;
    }
}

static int swing(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                 struct tutti_schedule **ret, struct tutti_err *err)
{
    uint32_t n = shape->rank_count;
    struct swing s = {.bytes = params->count * tutti_dtype_bytes(params->dtype)};

    while ((uint64_t)1 << s.round_count < n)
        s.round_count++;
    if (n < 2 || (uint64_t)1 << s.round_count != n)
        return tutti_fail(err, TUTTI_EINVAL, "swing is for 2, 4, 8, ... ranks, not '%u'", n);
    return tutti_loop_schedule(
        &(struct tutti_loop_desc){.size = sizeof(struct tutti_loop_desc),
                                  .head = {.name = "swing",
                                           .contract = {.collective = params->collective,
                                                        .dtype = params->dtype,
                                                        .op = params->op,
                                                        .count = params->count},
                                           .rank_count = n,
                                           .lane_count = 1,
                                           .slot_count = params->slot_count,
                                           /* what arrives, and all sums but the last */
                                           .scratch_bytes = s.round_count * s.bytes},
                                  .share_lanes = 1,
                                  .write = write_swing,
                                  .context = &s,
                                  .context_bytes = sizeof(s)},
        ret, err);
}

static const struct tutti_algorithm algorithms[] = {
    {.size = sizeof(struct tutti_algorithm),
     .name = "swing",
     .summary = "pairs at distance 1, -1, 3, -5, ... of a ring: lowest latency on a torus",
     .collectives = 1u << TUTTI_ALLREDUCE,
     .generate = swing},
};

extern const struct tutti_plugin tutti_plugin; /* the name by which it is found */

__attribute__((visibility("default"))) const struct tutti_plugin tutti_plugin = {
    .size = sizeof(struct tutti_plugin),
    .version = TUTTI_PLUGIN_VERSION,
    .algorithm_count = sizeof(algorithms) / sizeof(algorithms[0]),
    .algorithms = algorithms,
};
