/* When the ranks of a ring finish: in closed form as message by message, on random rings. */
#include "sim/fold/ring_times.h"

#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { RANKS_MAX = 12, ROUNDS_MAX = 4 * RANKS_MAX };

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

/* A ring with its own memory. */
struct example {
    struct tutti_ring ring;
    tutti_ps busy[RANKS_MAX];
    tutti_ps hop[RANKS_MAX];
    tutti_ps ready[RANKS_MAX];
    tutti_ps finish[RANKS_MAX];
};

static void draw_links(struct tutti_random *random, struct example *example)
{
    static const uint32_t many[] = {1, 5, 40, 1000};
    uint32_t busy_below = many[below(random, 4)];
    uint32_t latency = many[below(random, 4)];
    uint32_t latency_below = many[below(random, 4)];
    uint32_t ready_below = many[below(random, 4)];
    uint32_t ready_part = 1 + below(random, 6);
    bool few_slow = below(random, 3) == 0;

    for (uint32_t k = 0; k < example->ring.size; k++) {
        bool same = k > 0 && (example->ring.links_alike || (few_slow && below(random, 6) > 0));

        example->busy[k] = same ? example->busy[0] : below(random, busy_below);
        example->hop[k] =
            same ? example->hop[0] : example->busy[k] + latency + below(random, latency_below);
        example->ready[k] = below(random, ready_part) > 0 ? 0 : below(random, ready_below);
    }
}

static void draw_example(struct tutti_random *random, struct example *example)
{
    struct tutti_ring *ring = &example->ring;

    *ring = (struct tutti_ring){.size = 2 + below(random, RANKS_MAX - 1),
                                .slot_count = 1 + below(random, 9),
                                .only_last = below(random, 2) == 0,
                                .links_alike = below(random, 2) == 0,
                                .busy_ps = example->busy,
                                .hop_ps = example->hop,
                                .ready_ps = example->ready,
                                .finish_ps = example->finish};
    ring->round_count = draw_rounds(random, ring->size);
    if (below(random, 4) == 0) {
        ring->reduce_count = below(random, ring->round_count + 1);
        ring->reduce_ps = below(random, 50);
    }
    draw_links(random, example);
}

/* All ranks as expected, or, if that was asked for, the last of them. */
static bool is_right(const struct tutti_ring *ring, const tutti_ps *expected)
{
    tutti_ps last = 0;
    tutti_ps seen = 0;
    bool all = true;

    for (uint32_t k = 0; k < ring->size; k++) {
        all &= ring->finish_ps[k] == expected[k];
        last = later(last, expected[k]);
        seen = later(seen, ring->finish_ps[k]);
    }
    return all || (ring->only_last && seen == last);
}

TEST(closed_forms_are_what_messages_take)
{
    struct tutti_random random;
    struct tutti_ring_context context = {.memory = NULL};
    uint32_t by_form[2] = {0, 0};
    uint32_t by_messages = 0;

    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < test_cheap_count(20000000, 1000000); i++) {
        struct example example;
        const struct tutti_ring *ring = &example.ring;
        tutti_ps expected[RANKS_MAX];
        uint64_t spent = context.update_count;
        struct tutti_err err = {.text = ""};

        draw_example(&random, &example);
        reckon(ring, expected);
        CHECK_OK(tutti_ring_run(&context, ring, UINT64_MAX, &err), err);
        if (context.update_count - spent < ring->size * ring->round_count)
            by_form[ring->only_last]++;
        else
            by_messages++;
        if (!is_right(ring, expected))
            TEST_FAIL("case %" PRIu64 ": %u ranks, %" PRIu64
                      " rounds, %u slots: not as message by message",
                      i, ring->size, ring->round_count, ring->slot_count);
    }
    tutti_ring_context_done(&context);
    printf("%u all ranks and %u the last one by form, %u by messages\n", by_form[0], by_form[1],
           by_messages);
    CHECK(by_form[0] > test_cheap_count(100000, 100000));
    CHECK(by_form[1] > by_form[0] + test_cheap_count(10000, 10000));
    CHECK(by_messages > test_cheap_count(10000, 10000));
}

TEST(what_is_too_much_is_refused)
{
    tutti_ps busy[] = {500, 700, 600};
    tutti_ps hop[] = {600, 800, 700};
    tutti_ps ready[] = {0, 0, 0};
    tutti_ps finish[3];
    struct tutti_ring_context context = {.memory = NULL};
    struct tutti_ring ring = {.size = 3,
                              .slot_count = 8,
                              .round_count = 4,
                              .busy_ps = busy,
                              .hop_ps = hop,
                              .ready_ps = ready,
                              .finish_ps = finish};
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_ring_run(&context, &ring, 12, &err), err);
    CHECK_INT(tutti_ring_run(&context, &ring, 23, &err), -TUTTI_ELACK);
    CHECK_TEXT(err.text, "a ring of 3 whose links or starts differ too much to be gone through by "
                         "hops has too many messages (23 in all)");
    tutti_ring_context_done(&context);
}
