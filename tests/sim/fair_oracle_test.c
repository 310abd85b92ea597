/* The network model `fair` against a brute-force oracle: progressive filling in long doubles. */
#include "runtime/random.h"
#include "sim/net/maxmin.h"
#include "sim/net/net.h"
#include "tests/sim/fair_oracle.h"

/* Rates repeat on purpose: equal shares at several links are the delicate case. */
static uint64_t random_rate(struct tutti_random *random)
{
    static const uint64_t usual[] = {1, 12500000000, 25000000000, 50000000000, 450000000000, 7};

    if (tutti_random_below(random, 2) == 0)
        return usual[tutti_random_below(random, 5)];
    return 1 + tutti_random_below(random, UINT64_C(1) << (1 + tutti_random_below(random, 40)));
}

static void random_world(struct world *world, struct tutti_random *random)
{
    world->link_count = 1 + (uint32_t)tutti_random_below(random, 24);
    for (uint32_t i = 0; i < world->link_count; i++)
        world->rate[i] = random_rate(random);
    world->flow_count = 1 + (uint32_t)tutti_random_below(random, FLOWS_MAX);
    for (uint32_t f = 0; f < world->flow_count; f++) {
        uint32_t most = world->link_count < 6 ? world->link_count : 6;
        uint32_t want = 1 + (uint32_t)tutti_random_below(random, most);
        uint32_t first = (uint32_t)tutti_random_below(random, world->link_count);
        uint32_t stride = 1 + (uint32_t)tutti_random_below(random, 3);

        world->hop_count[f] = 0;
        for (uint32_t i = 0; i < want; i++) {
            uint32_t link = (first + i * stride) % world->link_count;
            bool seen = false;

            for (uint32_t j = 0; j < world->hop_count[f]; j++)
                seen = seen || world->hops[f][j] == link;
            if (!seen)
                world->hops[f][world->hop_count[f]++] = link;
        }
    }
}

static bool close_to(double seen, long double expected)
{
    return fabsl((long double)seen - expected) <= 1e-9L * expected;
}

static struct tutti_maxmin solver_of(const struct world *world)
{
    struct tutti_maxmin maxmin;

    CHECK(tutti_maxmin_init(&maxmin, world->rate, world->link_count) == 0);
    for (uint32_t f = 0; f < world->flow_count; f++)
        CHECK(tutti_maxmin_add(&maxmin, world->hops[f], NULL, world->hop_count[f], 0) == 0);
    return maxmin;
}

TEST(rates_equal_progressive_filling_on_1000_random_worlds)
{
    for (uint64_t round = 0; round < 1000; round++) {
        struct tutti_random random;
        struct world world;
        struct tutti_maxmin maxmin;
        bool active[FLOWS_MAX];
        long double rates[FLOWS_MAX];

        tutti_random_seed(&random, tutti_random_hash(test_seed, round, 1, 0));
        random_world(&world, &random);
        maxmin = solver_of(&world);
        for (uint32_t f = 0; f < world.flow_count; f++) {
            active[f] = true;
            tutti_maxmin_enter(&maxmin, f);
        }
        tutti_maxmin_solve(&maxmin);
        fill(&world, active, rates);
        for (uint32_t f = 0; f < world.flow_count; f++) {
            if (!close_to(maxmin.flows[f].rate, rates[f]))
                TEST_FAIL("world %" PRIu64 " flow %u: %.17g, oracle %.17Lg", round, f,
                          maxmin.flows[f].rate, rates[f]);
        }
        tutti_maxmin_done(&maxmin);
    }
}

TEST(rates_stay_right_while_flows_come_and_go)
{
    for (uint64_t round = 0; round < 200; round++) {
        struct tutti_random random;
        struct world world;
        struct tutti_maxmin maxmin;
        bool active[FLOWS_MAX] = {false};
        long double rates[FLOWS_MAX];

        tutti_random_seed(&random, tutti_random_hash(test_seed, round, 2, 0));
        random_world(&world, &random);
        maxmin = solver_of(&world);
        for (uint32_t change = 0; change < 30; change++) {
            for (uint32_t i = 0; i < 1 + change % 3; i++) {
                uint32_t f = (uint32_t)tutti_random_below(&random, world.flow_count);

                if (active[f])
                    tutti_maxmin_leave(&maxmin, f);
                else
                    tutti_maxmin_enter(&maxmin, f);
                active[f] = !active[f];
            }
            tutti_maxmin_solve(&maxmin);
            fill(&world, active, rates);
            for (uint32_t f = 0; f < world.flow_count; f++) {
                if (active[f] && !close_to(maxmin.flows[f].rate, rates[f]))
                    TEST_FAIL("world %" PRIu64 " change %u flow %u: %.17g, oracle %.17Lg", round,
                              change, f, maxmin.flows[f].rate, rates[f]);
            }
        }
        tutti_maxmin_done(&maxmin);
    }
}

/* Many flows on many links, of which one or two come or go at a time: what is solved near them is
 * what is found when all flows enter a solver at once. Rates repeat: levels often coincide. */
enum { NEAR_LINKS = 120, NEAR_FLOWS = 260, NEAR_HOPS = 3, NEAR_CHANGES = 150 };

static void add_flows(struct tutti_maxmin *one, struct tutti_maxmin *other,
                      struct tutti_random *random)
{
    for (uint32_t f = 0; f < NEAR_FLOWS; f++) {
        uint32_t first = (uint32_t)tutti_random_below(random, NEAR_LINKS);
        uint32_t stride = 1 + (uint32_t)tutti_random_below(random, NEAR_LINKS / NEAR_HOPS - 1);
        uint32_t count = 1 + (uint32_t)tutti_random_below(random, NEAR_HOPS);
        uint32_t links[NEAR_HOPS];

        for (uint32_t i = 0; i < NEAR_HOPS; i++)
            links[i] = (first + i * stride) % NEAR_LINKS;
        CHECK(tutti_maxmin_add(one, links, NULL, count, 0) == 0);
        CHECK(tutti_maxmin_add(other, links, NULL, count, 0) == 0);
    }
}

static void check_rates(const struct tutti_maxmin *near, struct tutti_maxmin *all, uint64_t round,
                        uint32_t change)
{
    tutti_maxmin_reset(all);
    for (uint32_t f = 0; f < NEAR_FLOWS; f++) {
        if (near->flows[f].active)
            tutti_maxmin_enter(all, f);
    }
    tutti_maxmin_solve(all);
    for (uint32_t f = 0; f < NEAR_FLOWS; f++) {
        if (near->flows[f].active && !close_to(near->flows[f].rate, all->flows[f].rate))
            TEST_FAIL("world %" PRIu64 " change %u flow %u: near %.17g, of all %.17g", round,
                      change, f, near->flows[f].rate, all->flows[f].rate);
    }
}

TEST(rates_found_near_a_change_are_those_of_all_flows_solved_at_once)
{
    uint64_t solved = 0;
    uint64_t active = 0;

    for (uint64_t round = 0; round < (test_full ? 400 : 20); round++) {
        uint64_t rates[NEAR_LINKS];
        struct tutti_maxmin near;
        struct tutti_maxmin all;
        struct tutti_random random;

        tutti_random_seed(&random, tutti_random_hash(test_seed, round, 4, 0));
        for (uint32_t i = 0; i < NEAR_LINKS; i++)
            rates[i] = random_rate(&random);
        CHECK(tutti_maxmin_init(&near, rates, NEAR_LINKS) == 0);
        CHECK(tutti_maxmin_init(&all, rates, NEAR_LINKS) == 0);
        add_flows(&near, &all, &random);
        for (uint32_t change = 0; change < NEAR_CHANGES && test_failures == 0; change++) {
            for (uint64_t more = 1 + tutti_random_below(&random, 2); more > 0; more--) {
                uint32_t f = (uint32_t)tutti_random_below(&random, NEAR_FLOWS);

                (near.flows[f].active ? tutti_maxmin_leave : tutti_maxmin_enter)(&near, f);
            }
            tutti_maxmin_solve(&near);
            solved += near.some_flow_count;
            check_rates(&near, &all, round, change);
            active += all.some_flow_count;
        }
        tutti_maxmin_done(&near);
        tutti_maxmin_done(&all);
    }
    printf("%" PRIu64 " rates found, where there were %" PRIu64 "\n", solved, active);
    CHECK(2 * solved < active);
}

/* ---- messages over time ---------------------------------------------------------------------- */

static void random_transfers(const struct world *world, struct transfer *transfers, uint32_t count,
                             struct tutti_random *random)
{
    tutti_ps now = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (tutti_random_below(random, 3) > 0) /* many start at the same instant */
            now += (tutti_ps)tutti_random_below(random, 300000);
        transfers[i] = (struct transfer){
            .connection = (uint32_t)tutti_random_below(random, world->flow_count),
            .bytes = tutti_random_below(random, 8) == 0 ? 0 : tutti_random_below(random, 20000),
            .start_ps = now,
        };
        transfers[i].ready_ps = now + (tutti_ps)tutti_random_below(random, 2) *
                                          (tutti_ps)tutti_random_below(random, 200000);
    }
}

/* `paces`: of each flow, or NULL. */
static void model_run(const struct world *world, const struct tutti_pace *paces,
                      struct transfer *transfers, uint32_t count)
{
    struct tutti_net *net = NULL;
    uint32_t started = 0;
    uint32_t arrived = 0;
    tutti_ps now = 0;

    CHECK(tutti_net_fair.open(&(struct tutti_net_links){.link_count = world->link_count,
                                                        .bytes_per_s = world->rate},
                              &net, NULL) == 0);
    for (uint32_t f = 0; f < world->flow_count; f++)
        CHECK(net->ops->connect(net, world->hops[f], world->hop_count[f],
                                paces != NULL ? paces[f] : (struct tutti_pace){.slice_ps = 0}) ==
              0);
    CHECK(net->ops->reserve(net, count) == 0);
    while (arrived < count) {
        tutti_ps next;
        uint32_t message;

        for (; started < count && transfers[started].start_ps == now; started++) {
            const struct transfer *transfer = &transfers[started];

            net->ops->start(
                net,
                &(struct tutti_net_send){.message = started,
                                         .connection = transfer->connection,
                                         .bytes = transfer->bytes,
                                         .latency_ps = transfer->ready_ps - transfer->start_ps},
                now);
        }
        if (!net->ops->next(net, now, &next))
            next = INT64_MAX;
        if (started < count && transfers[started].start_ps < next)
            next = transfers[started].start_ps;
        REQUIRE(next >= now && next < INT64_MAX);
        now = next;
        while ((message = net->ops->arrived(net, now)) != TUTTI_MESSAGE_NONE) {
            transfers[message].seen_ps = now;
            arrived++;
        }
    }
    net->ops->close(net);
}

/* A world whose runs take microseconds, and what happens there; returns how many messages. */
static uint32_t draw_run(struct tutti_random *random, struct world *world,
                         struct transfer *transfers)
{
    uint32_t count;

    random_world(world, random);
    for (uint32_t i = 0; i < world->link_count; i++) {
        if (world->rate[i] < 5000000000)
            world->rate[i] = 5000000000 + tutti_random_below(random, 10000000000);
    }
    count = 1 + (uint32_t)tutti_random_below(random, MESSAGES_MAX);
    random_transfers(world, transfers, count, random);
    return count;
}

TEST(messages_end_when_the_oracle_says_on_1000_random_worlds)
{
    for (uint64_t round = 0; round < test_cheap_count(1000, 1000); round++) {
        struct tutti_random random;
        struct world world;
        struct transfer transfers[MESSAGES_MAX];
        uint32_t count;

        tutti_random_seed(&random, tutti_random_hash(test_seed, round, 3, 0));
        count = draw_run(&random, &world, transfers);
        model_run(&world, NULL, transfers, count);
        oracle_replay(&world, transfers, count, round);
    }
}

/* Gives flows a pace; the oracle knows it as a link more, and as a time before each transfer. */
static void add_paces(struct tutti_random *random, struct world *world, struct tutti_pace *paces,
                      struct transfer *transfers, uint32_t count)
{
    for (uint32_t f = 0; f < world->flow_count; f++) {
        paces[f] = (struct tutti_pace){.bytes_per_s = 0};
        if (tutti_random_below(random, 2) == 0)
            paces[f].slice_ps = (tutti_ps)tutti_random_below(random, 300000);
        if (tutti_random_below(random, 3) == 0)
            continue;
        paces[f].bytes_per_s = 2000000000 + tutti_random_below(random, 10000000000);
        world->rate[world->link_count] = paces[f].bytes_per_s;
        world->hops[f][world->hop_count[f]++] = world->link_count++;
    }
    for (uint32_t i = 0; i < count; i++)
        transfers[i].slice_ps = paces[transfers[i].connection].slice_ps;
}

TEST(so_do_those_of_paced_connections)
{
    for (uint64_t round = 0; round < test_cheap_count(1000, 1000); round++) {
        struct tutti_random random;
        struct world links;
        struct world world;
        struct tutti_pace paces[FLOWS_MAX];
        struct transfer transfers[MESSAGES_MAX];
        uint32_t count;

        tutti_random_seed(&random, tutti_random_hash(test_seed, round, 5, 0));
        count = draw_run(&random, &links, transfers);
        world = links;
        add_paces(&random, &world, paces, transfers, count);
        model_run(&links, paces, transfers, count);
        oracle_replay(&world, transfers, count, round);
    }
}

TEST(two_flows_share_a_link_and_the_rest_gets_what_is_left)
{
    struct world world = {.link_count = 2,
                          .rate = {100, 1000},
                          .flow_count = 3,
                          .hop_count = {2, 1, 1},
                          .hops = {{0, 1}, {0}, {1}}};
    struct tutti_maxmin maxmin = solver_of(&world);

    for (uint32_t f = 0; f < 3; f++)
        tutti_maxmin_enter(&maxmin, f);
    tutti_maxmin_solve(&maxmin);
    CHECK_INT(maxmin.flows[0].rate, 50);
    CHECK_INT(maxmin.flows[1].rate, 50);
    CHECK_INT(maxmin.flows[2].rate, 950);
    tutti_maxmin_leave(&maxmin, 1);
    tutti_maxmin_solve(&maxmin);
    CHECK_INT(maxmin.flows[0].rate, 100);
    CHECK_INT(maxmin.flows[2].rate, 900);
    tutti_maxmin_done(&maxmin);
}

TEST(only_the_touched_component_is_solved_anew)
{
    struct world world = {.link_count = 2,
                          .rate = {100, 1000},
                          .flow_count = 3,
                          .hop_count = {1, 1, 1},
                          .hops = {{0}, {1}, {1}}};
    struct tutti_maxmin maxmin = solver_of(&world);

    tutti_maxmin_enter(&maxmin, 0);
    tutti_maxmin_enter(&maxmin, 1);
    tutti_maxmin_solve(&maxmin);
    CHECK_INT(maxmin.some_flow_count, 2);
    tutti_maxmin_enter(&maxmin, 2);
    tutti_maxmin_solve(&maxmin);
    CHECK_INT(maxmin.some_flow_count, 2); /* 1 and 2, not 0 */
    CHECK_INT(maxmin.flows[1].rate, 500);
    tutti_maxmin_done(&maxmin);
}
