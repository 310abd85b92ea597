/* When the ranks of a ring finish: in closed form as message by message, on random rings. */
#include "sim/fold/ring_times.h"

#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { RANKS_MAX = 12, ROUNDS_MAX = 4 * RANKS_MAX };

struct tally {
    uint32_t by_hops;
    uint32_t by_messages;
};

static tutti_ps later(tutti_ps a, tutti_ps b)
{
    return a > b ? a : b;
}

/* The recurrence as ring_times.h has it, for all rounds. */
static void reckon(const struct tutti_ring *ring, tutti_ps *finish)
{
    static tutti_ps posted[ROUNDS_MAX][RANKS_MAX];
    static tutti_ps sent[ROUNDS_MAX][RANKS_MAX];
    static tutti_ps taken[ROUNDS_MAX][RANKS_MAX];
    uint32_t d = ring->size;

    for (uint32_t t = 0; t < ring->round_count; t++) {
        for (uint32_t i = 0; i < d; i++) {
            posted[t][i] = t > 0 ? taken[t - 1][i] : ring->ready_ps[i];
            if (t >= ring->slot_count)
                posted[t][i] = later(posted[t][i], taken[t - ring->slot_count][(i + 1) % d]);
            sent[t][i] = posted[t][i];
            if (t > 0)
                sent[t][i] = later(sent[t][i], sent[t - 1][i] + ring->busy_ps[i]);
        }
        for (uint32_t i = 0; i < d; i++) {
            uint32_t before = (i + d - 1) % d;

            taken[t][i] = later(posted[t][i], sent[t][before] + ring->hop_ps[before]);
            if (t < ring->reduce_count)
                taken[t][i] += ring->reduce_ps;
        }
    }
    for (uint32_t i = 0; i < d; i++)
        finish[i] = taken[ring->round_count - 1][i];
}

static uint32_t below(struct tutti_random *random, uint64_t bound)
{
    return (uint32_t)tutti_random_below(random, bound);
}

/* Mostly as phases have it: d-1 rounds, or twice as many. */
static uint64_t draw_rounds(struct tutti_random *random, uint32_t size)
{
    uint32_t draw = below(random, 4);

    return draw == 0 ? size - 1 + below(random, 2 * size) : (1 + draw % 2) * (size - UINT64_C(1));
}

TEST(closed_forms_are_what_messages_take)
{
    static const uint32_t many[] = {1, 5, 40, 1000};
    struct tutti_random random;
    struct tutti_ring_desk desk = {.memory = NULL};
    struct tally tally = {.by_hops = 0};

    tutti_random_seed(&random, test_seed);
    for (int i = 0; i < (test_full ? 20000000 : 1000000); i++) {
        tutti_ps busy[RANKS_MAX];
        tutti_ps hop[RANKS_MAX];
        tutti_ps ready[RANKS_MAX];
        tutti_ps expected[RANKS_MAX];
        tutti_ps seen[RANKS_MAX];
        struct tutti_ring ring = {.size = 2 + below(&random, RANKS_MAX - 1),
                                  .slot_count = 1 + below(&random, 9),
                                  .links_alike = below(&random, 2) == 0,
                                  .busy_ps = busy,
                                  .hop_ps = hop,
                                  .ready_ps = ready,
                                  .finish_ps = seen};
        uint32_t busy_below = many[below(&random, 4)];
        uint32_t latency = many[below(&random, 4)];
        uint32_t latency_below = many[below(&random, 4)];
        uint32_t ready_below = many[below(&random, 4)];
        uint64_t spent = desk.update_count;
        struct tutti_err err = {.text = ""};

        ring.round_count = draw_rounds(&random, ring.size);
        if (below(&random, 4) == 0) {
            ring.reduce_count = below(&random, ring.round_count + 1);
            ring.reduce_ps = below(&random, 50);
        }
        for (uint32_t k = 0; k < ring.size; k++) {
            bool same = k > 0 && ring.links_alike;

            busy[k] = same ? busy[0] : below(&random, busy_below);
            hop[k] = same ? hop[0] : busy[k] + latency + below(&random, latency_below);
            ready[k] = below(&random, 3) == 0 ? 0 : below(&random, ready_below);
        }
        reckon(&ring, expected);
        CHECK_OK(tutti_ring_run(&desk, &ring, UINT64_MAX, &err), err);
        if (desk.update_count - spent < ring.size * ring.round_count)
            tally.by_hops++;
        else
            tally.by_messages++;
        for (uint32_t k = 0; k < ring.size; k++) {
            if (seen[k] != expected[k])
                TEST_FAIL("case %d: %u ranks, %" PRIu64 " rounds, %u slots: rank %u at %" PRId64
                          " ps; message by message %" PRId64,
                          i, ring.size, ring.round_count, ring.slot_count, k, seen[k], expected[k]);
        }
    }
    tutti_ring_desk_done(&desk);
    printf("%u by hops, %u by messages\n", tally.by_hops, tally.by_messages);
    CHECK(tally.by_hops > 10000);
    CHECK(tally.by_messages > 10000);
}

TEST(what_is_too_much_is_refused)
{
    tutti_ps busy[] = {500, 700, 600};
    tutti_ps hop[] = {600, 800, 700};
    tutti_ps ready[] = {0, 0, 0};
    tutti_ps finish[3];
    struct tutti_ring_desk desk = {.memory = NULL};
    struct tutti_ring ring = {.size = 3,
                              .slot_count = 8,
                              .round_count = 4,
                              .busy_ps = busy,
                              .hop_ps = hop,
                              .ready_ps = ready,
                              .finish_ps = finish};
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_ring_run(&desk, &ring, 12, &err), err);
    CHECK_INT(tutti_ring_run(&desk, &ring, 23, &err), -TUTTI_ELACK);
    CHECK_TEXT(err.text, "a ring of 3 whose links or starts differ too much to be gone through by "
                         "hops has too many messages (23 in all)");
    tutti_ring_desk_done(&desk);
}
