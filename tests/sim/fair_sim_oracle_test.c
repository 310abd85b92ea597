/* The whole simulator with `fair` against the oracle: random machines, random flows that come and
 * go, every message's end to the picosecond. */
#include "runtime/backend.h"
#include "runtime/random.h"
#include "runtime/record.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/sim.h"
#include "tests/sim/fair_oracle.h"
#include "topo/topo.h"

enum { RANKS_MAX = 8, SWITCHES_MAX = 4, FLOWS = 12, EACH_MAX = 5 };

/* One machine, its flows, and what the simulator did with them. */
struct scene {
    struct tutti_random random;
    struct tutti_topo *topo;
    struct world world; /* for the oracle: links and the routes of the flows */
    uint32_t from[FLOWS];
    uint32_t to[FLOWS];
    tutti_ps latency_ps[FLOWS];
    struct transfer transfers[FLOWS * EACH_MAX];
    uint32_t transfer_count;
};

static uint64_t draw(struct scene *scene, uint64_t below)
{
    return tutti_random_below(&scene->random, below);
}

/* Both ways alike or not; rates repeat, as equal shares at several links are the delicate case. */
static void add_cable(struct scene *scene, struct tutti_topo_builder *builder, uint32_t a,
                      uint32_t b)
{
    static const uint64_t usual[] = {12500000000, 25000000000, 50000000000, 450000000000};
    struct tutti_link link = {.from = a, .to = b, .cable_count = 1};
    struct tutti_err err = {""};

    for (int way = 0; way < 2; way++) {
        if (way == 0 || draw(scene, 3) == 0) {
            link.bytes_per_s =
                draw(scene, 3) > 0 ? usual[draw(scene, 4)] : 5000000000 + draw(scene, 10000000000);
            link.latency_ps = (tutti_ps)(draw(scene, 2) * draw(scene, 200000));
        }
        CHECK_OK(tutti_topo_add_link(builder, &link, &err), err);
        link.from = b;
        link.to = a;
    }
}

/* A random tree of devices and switches, and some cables more. */
static void build_machine(struct scene *scene)
{
    uint32_t ranks = 2 + (uint32_t)draw(scene, RANKS_MAX - 1);
    uint32_t nodes = ranks + (uint32_t)draw(scene, SWITCHES_MAX + 1);
    struct tutti_topo_builder *builder = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_builder_new("random", "a test", &builder, &err), err);
    for (uint32_t i = 0; i < nodes; i++) {
        struct tutti_node node = {.rank = i < ranks ? i : TUTTI_RANK_NONE,
                                  .host = UINT32_MAX,
                                  .kind = i < ranks ? TUTTI_NODE_DEVICE : TUTTI_NODE_SWITCH};
        char name[16];
        uint32_t index;

        snprintf(name, sizeof(name), "n%u", i);
        node.name = name;
        CHECK_OK(tutti_topo_add_node(builder, &node, &index, &err), err);
    }
    for (uint32_t i = 1; i < nodes; i++)
        add_cable(scene, builder, i, (uint32_t)draw(scene, i));
    for (uint64_t more = draw(scene, nodes); more > 0; more--) {
        uint32_t a = (uint32_t)draw(scene, nodes);

        add_cable(scene, builder, a, (a + 1 + (uint32_t)draw(scene, nodes - 1)) % nodes);
    }
    CHECK_OK(tutti_topo_freeze(builder, &scene->topo, &err), err);
}

static void choose_flows(struct scene *scene)
{
    const struct tutti_topo *topo = scene->topo;
    struct world *world = &scene->world;

    world->link_count = topo->link_count;
    world->flow_count = 1 + (uint32_t)draw(scene, FLOWS);
    for (uint32_t i = 0; i < topo->link_count; i++)
        world->rate[i] = tutti_topo_link(topo, i).bytes_per_s;
    for (uint32_t f = 0; f < world->flow_count; f++) {
        uint32_t links[RANKS_MAX + SWITCHES_MAX];

        scene->from[f] = (uint32_t)draw(scene, topo->rank_count);
        scene->to[f] =
            (scene->from[f] + 1 + (uint32_t)draw(scene, topo->rank_count - 1)) % topo->rank_count;
        world->hop_count[f] =
            tutti_topo_route(topo, scene->from[f], scene->to[f], links, RANKS_MAX + SWITCHES_MAX);
        CHECK(world->hop_count[f] <= HOPS_MAX);
        for (uint32_t i = 0; i < world->hop_count[f]; i++) {
            world->hops[f][i] = links[i];
            scene->latency_ps[f] += tutti_topo_link(topo, links[i]).latency_ps;
        }
    }
}

static void add_step(struct tutti_builder *builder, uint32_t rank, uint32_t lane,
                     struct tutti_step step)
{
    struct tutti_err err = {""};

    CHECK_OK(tutti_builder_add(builder, rank, lane, &step, &err), err);
}

/* Each flow has a lane: its sender computes for a while before each message (often not at all), its
 * receiver waits. What the sender has computed so far is when the message starts. */
static struct tutti_schedule *write_programs(struct scene *scene)
{
    struct tutti_schedule_desc desc = {.name = "flows",
                                       .contract = {.collective = TUTTI_CUSTOM},
                                       .rank_count = scene->topo->rank_count,
                                       .lane_count = FLOWS,
                                       .in_bytes = 1 << 20,
                                       .out_bytes = 1 << 20};
    struct tutti_builder *builder = NULL;
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_builder_new(&desc, &builder, &err), err);
    for (uint32_t f = 0; f < scene->world.flow_count; f++) {
        tutti_ps now = 0;

        for (uint64_t k = 1 + draw(scene, EACH_MAX); k > 0; k--) {
            uint64_t bytes = draw(scene, 8) == 0 ? 0 : draw(scene, 40000);
            tutti_ps pause = (tutti_ps)(draw(scene, 2) * draw(scene, 2000000));

            now += pause;
            add_step(builder, scene->from[f], f,
                     (struct tutti_step){.kind = TUTTI_COMPUTE, .duration_ps = pause});
            add_step(builder, scene->from[f], f,
                     (struct tutti_step){.kind = TUTTI_SEND,
                                         .peer = scene->to[f],
                                         .src_buf = TUTTI_BUF_IN,
                                         .bytes = bytes});
            add_step(builder, scene->to[f], f,
                     (struct tutti_step){.kind = TUTTI_RECV,
                                         .peer = scene->from[f],
                                         .dst_buf = TUTTI_BUF_OUT,
                                         .bytes = bytes});
            scene->transfers[scene->transfer_count++] =
                (struct transfer){.connection = f,
                                  .bytes = bytes,
                                  .start_ps = now,
                                  .ready_ps = now + scene->latency_ps[f],
                                  .seen_ps = -1};
        }
    }
    CHECK_OK(tutti_builder_finish(builder, &schedule, &err), err);
    return schedule;
}

/* Finds what the record says of every message: transfers of a flow are in its order. */
static void read_record(struct scene *scene, const struct tutti_record *record)
{
    for (size_t i = 0; i < record->event_count; i++) {
        const struct tutti_event *event = &record->events[i];
        uint32_t p = 0;

        if (event->kind != TUTTI_SEND)
            continue;
        while (scene->transfers[p].connection != event->lane)
            p++;
        p += (uint32_t)(event->step / 2); /* a COMPUTE before each */
        CHECK_INT(event->start_ps, scene->transfers[p].start_ps);
        CHECK_INT(event->bytes, scene->transfers[p].bytes);
        scene->transfers[p].seen_ps = event->end_ps;
    }
    for (uint32_t p = 0; p < scene->transfer_count; p++)
        CHECK(scene->transfers[p].seen_ps >= 0);
}

static void play(struct scene *scene, const struct tutti_schedule *schedule)
{
    struct tutti_sim_opts opts = {
        .size = sizeof(struct tutti_sim_opts), .topo = scene->topo, .model = TUTTI_MODEL_FAIR};
    struct tutti_backend *sim = NULL;
    struct tutti_record record;
    struct tutti_played played = {.total_ps = 0};
    struct tutti_err err = {""};
    tutti_ps latest = 0;

    tutti_record_init(&record);
    CHECK_OK(tutti_sim_open(&opts, &sim, &err), err);
    CHECK_OK(tutti_backend_play(sim,
                                &(struct tutti_play){.size = sizeof(struct tutti_play),
                                                     .schedule = schedule,
                                                     .iteration_count = 1,
                                                     .record = &record},
                                &played, &err),
             err);
    read_record(scene, &record);
    for (uint32_t p = 0; p < scene->transfer_count; p++)
        latest = scene->transfers[p].seen_ps > latest ? scene->transfers[p].seen_ps : latest;
    CHECK_INT(played.total_ps, latest);
    tutti_backend_close(sim);
    tutti_record_done(&record);
}

/* Against the oracle's own times. Rounding one end to a picosecond may move a slow neighbour by the
 * ratio of their rates, which is at most 90 here, and so on. Returns how many are exactly equal. */
static uint32_t compare_runs(struct scene *scene, uint64_t round, tutti_ps *worst)
{
    tutti_ps ends[FLOWS * EACH_MAX];
    uint32_t equal = 0;

    oracle_run(&scene->world, scene->transfers, scene->transfer_count, ends);
    for (uint32_t p = 0; p < scene->transfer_count; p++) {
        tutti_ps apart = llabs(ends[p] - scene->transfers[p].seen_ps);

        equal += apart == 0;
        *worst = apart > *worst ? apart : *worst;
        if (apart > 100)
            TEST_FAIL("machine %" PRIu64 " message %u ends at %" PRId64
                      " ps, by the oracle at %" PRId64,
                      round, p, scene->transfers[p].seen_ps, ends[p]);
    }
    return equal;
}

TEST(messages_end_when_the_oracle_says_on_1000_random_machines)
{
    uint64_t rounds = test_full ? 20000 : 1000;
    uint64_t message_count = 0;
    uint64_t equal_count = 0;
    tutti_ps worst = 0;

    for (uint64_t round = 0; round < rounds && test_failures == 0; round++) {
        struct scene scene = {.transfer_count = 0};
        struct tutti_schedule *schedule;

        tutti_random_seed(&scene.random, tutti_random_hash(test_seed, round, 4, 0));
        build_machine(&scene);
        REQUIRE(scene.topo != NULL);
        choose_flows(&scene);
        schedule = write_programs(&scene);
        play(&scene, schedule);
        if (test_failures == 0)
            oracle_replay(&scene.world, scene.transfers, scene.transfer_count, round);
        if (test_failures == 0)
            equal_count += compare_runs(&scene, round, &worst);
        message_count += scene.transfer_count;
        tutti_schedule_free(schedule);
        tutti_topo_free(scene.topo);
    }
    printf("%" PRIu64 " machines, %" PRIu64 " messages; the oracle alone: %" PRIu64
           " equal to the picosecond, the others within %" PRId64 " ps\n",
           rounds, message_count, equal_count, worst);
}
