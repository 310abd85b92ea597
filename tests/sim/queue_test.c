/* The event queue against a list that is searched: the same order, whatever is put, moved, dropped.
 */
#include "runtime/random.h"
#include "sim/queue/queue.h"
#include "tests/test.h"

enum { IDS = 40, STEPS = 20000 };

/* The oracle: earliest first, and of equal times the one put first. */
struct naive {
    tutti_ps at_ps[IDS];
    uint64_t seq[IDS]; /* 0: not there */
    uint64_t seq_next;
};

static uint32_t earliest(const struct naive *naive)
{
    uint32_t best = IDS;

    for (uint32_t id = 0; id < IDS; id++) {
        if (naive->seq[id] == 0)
            continue;
        if (best == IDS || naive->at_ps[id] < naive->at_ps[best] ||
            (naive->at_ps[id] == naive->at_ps[best] && naive->seq[id] < naive->seq[best]))
            best = id;
    }
    return best;
}

static void put(struct tutti_queue *queue, struct naive *naive, uint32_t id, tutti_ps at_ps)
{
    tutti_queue_put(queue, id, at_ps);
    naive->at_ps[id] = at_ps;
    naive->seq[id] = ++naive->seq_next;
}

/* Times ahead: none, the same few again and again, near, or far beyond. */
static tutti_ps draw_gap(struct tutti_random *random)
{
    switch (tutti_random_below(random, 5)) {
    case 0:
        return 0;
    case 1:
        return 1000;
    case 2:
        return (tutti_ps)tutti_random_below(random, 16);
    case 3:
        return (tutti_ps)tutti_random_below(random, 1000000);
    default:
        return (tutti_ps)tutti_random_below(random, UINT64_C(1) << 44);
    }
}

static void check_next(struct tutti_queue *queue, const struct naive *naive)
{
    uint32_t best = earliest(naive);
    tutti_ps at_ps = -1;

    CHECK(tutti_queue_next(queue, &at_ps) == (best < IDS));
    if (best < IDS)
        CHECK_INT(at_ps, naive->at_ps[best]);
}

static void play(struct tutti_queue *queue, struct tutti_random *random)
{
    struct naive naive = {.seq_next = 0};
    tutti_ps now_ps = 0;

    for (uint32_t i = 0; i < STEPS && test_failures < 10; i++) {
        uint64_t what = tutti_random_below(random, 8);
        uint32_t id = (uint32_t)tutti_random_below(random, IDS);

        if (what < 4) {
            put(queue, &naive, id, now_ps + draw_gap(random)); /* or moves it */
        } else if (what == 4) {
            tutti_queue_drop(queue, id);
            naive.seq[id] = 0;
        } else if (earliest(&naive) < IDS) {
            uint32_t best = earliest(&naive);

            now_ps = naive.at_ps[best];
            CHECK_INT(tutti_queue_pop(queue), best);
            naive.seq[best] = 0;
        }
        if (tutti_random_below(random, 3) > 0) /* asked for now and then only */
            check_next(queue, &naive);
    }
}

TEST(the_order_is_that_of_a_searched_list)
{
    struct tutti_queue queue = {.capacity = 0};
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    CHECK_INT(tutti_queue_reserve(&queue, IDS / 2), 0);
    CHECK_INT(tutti_queue_reserve(&queue, IDS), 0);
    for (int round = 0; round < 5; round++) {
        play(&queue, &random);
        tutti_queue_clear(&queue); /* time starts anew */
        CHECK(!tutti_queue_next(&queue, &(tutti_ps){0}));
    }
    tutti_queue_done(&queue);
}

TEST(the_end_of_time_is_a_time)
{
    struct tutti_queue queue = {.capacity = 0};
    tutti_ps at_ps = 0;

    CHECK_INT(tutti_queue_reserve(&queue, 3), 0);
    tutti_queue_put(&queue, 0, INT64_MAX);
    tutti_queue_put(&queue, 2, INT64_MAX);
    tutti_queue_put(&queue, 1, 0);
    CHECK_INT(tutti_queue_pop(&queue), 1);
    CHECK(tutti_queue_next(&queue, &at_ps));
    CHECK_INT(at_ps, INT64_MAX);
    CHECK_INT(tutti_queue_pop(&queue), 0);
    CHECK_INT(tutti_queue_pop(&queue), 2);
    CHECK(!tutti_queue_next(&queue, &at_ps));
    tutti_queue_done(&queue);
}
