/* Data flow, and playing by the clock, against the stage: random machines and programs, played all
 * ways, must agree on every event to the picosecond, with rates, sizes and times up to what 64 bits
 * hold. */
#include "runtime/backend.h"
#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/record.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/play/clocked.h"
#include "sim/play/flow.h"
#include "sim/sim.h"
#include "tests/sim/paced.h"
#include "tests/test.h"
#include "topo/topo.h"

enum { RANKS_MAX = 6, LANES_MAX = 3, MESSAGES_MAX = 120, FAR_BACK = 60 };

struct scene {
    struct tutti_random random;
    struct tutti_topo *topo;
    struct tutti_schedule *plain;  /* suits data flow, if the links do */
    struct tutti_schedule *forced; /* the same, but for a step of as many flops as it has
                                      picoseconds: only the stage knows the speed of devices */
    struct tutti_builder *builders[2];
    uint32_t step_counts[RANKS_MAX][LANES_MAX + 1];
    struct tutti_protocol protocol;
    struct tutti_sim_opts opts;
    tutti_ps start_ps[RANKS_MAX];
    bool extreme;
};

struct outcome {
    tutti_ps end_ps;
    uint64_t step_count;
    uint64_t hash;
};

static uint64_t draw(struct scene *scene, uint64_t below)
{
    return tutti_random_below(&scene->random, below);
}

/* Mostly what machines have; in extreme scenes of any order of magnitude below 2^bits. */
static uint64_t draw_size(struct scene *scene, uint64_t usual, uint64_t bits)
{
    if (!scene->extreme || draw(scene, 2) == 0)
        return draw(scene, usual);
    return draw(scene, UINT64_C(1) << (1 + draw(scene, bits)));
}

static void add_cable(struct scene *scene, struct tutti_topo_builder *builder, uint32_t a,
                      uint32_t b)
{
    struct tutti_link link = {.from = a, .to = b, .cable_count = 1};
    struct tutti_err err = {""};

    link.bytes_per_s = 1 + draw_size(scene, 50000000000, 62);
    link.latency_ps = (tutti_ps)draw_size(scene, 2000000, 62);
    CHECK_OK(tutti_topo_add_link(builder, &link, &err), err);
    link.from = b;
    link.to = a;
    CHECK_OK(tutti_topo_add_link(builder, &link, &err), err);
}

/* Everybody wired to everybody, or round one switch, or in a ring. */
static void build_machine(struct scene *scene)
{
    uint32_t ranks = 2 + (uint32_t)draw(scene, RANKS_MAX - 1);
    uint64_t form = draw(scene, 3);
    struct tutti_topo_builder *builder = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_builder_new("random", "a test", &builder, &err), err);
    for (uint32_t i = 0; i < ranks + (form == 1); i++) {
        struct tutti_node node = {.rank = i < ranks ? i : TUTTI_RANK_NONE,
                                  .host = UINT32_MAX,
                                  .kind = i < ranks ? TUTTI_NODE_DEVICE : TUTTI_NODE_SWITCH,
                                  .flops_per_s = (uint64_t)TUTTI_PS_PER_S};
        char name[16];
        uint32_t index;

        snprintf(name, sizeof(name), "n%u", i);
        node.name = name;
        CHECK_OK(tutti_topo_add_node(builder, &node, &index, &err), err);
    }
    for (uint32_t a = 0; a < ranks; a++) {
        if (form == 1)
            add_cable(scene, builder, a, ranks);
        for (uint32_t b = a + 1; b < ranks && form != 1; b++)
            if (form == 0 || b == a + 1 || (a == 0 && b + 1 == ranks))
                add_cable(scene, builder, a, b);
    }
    CHECK_OK(tutti_topo_freeze(builder, &scene->topo, &err), err);
}

/* Both schedules get the step; some wait for an earlier one of their lane or another. */
static void add(struct scene *scene, uint32_t rank, uint32_t lane, struct tutti_step step)
{
    uint32_t other = draw(scene, 3) == 0 ? (uint32_t)draw(scene, LANES_MAX) : lane;
    uint32_t *count = &scene->step_counts[rank][lane];
    uint32_t there = scene->step_counts[rank][other];
    struct tutti_err err = {""};

    if (there > 0 && draw(scene, 5) == 0) {
        uint32_t back = 1 + (uint32_t)draw(scene, there < FAR_BACK ? there : FAR_BACK);

        step.flags |= TUTTI_STEP_DEP;
        step.dep_lane = (uint16_t)other;
        step.dep_step = there - back;
    }
    for (int i = 0; i < 2; i++)
        CHECK_OK(tutti_builder_add(scene->builders[i], rank, lane, &step, &err), err);
    ++*count;
}

/* A message, and what its receiver does with it; written message by message, so that there is an
 * order in which all can be played. */
static void add_message(struct scene *scene, uint32_t lane_count)
{
    uint32_t ranks = scene->topo->rank_count;
    uint32_t from = (uint32_t)draw(scene, ranks);
    uint32_t to = (from + 1 + (uint32_t)draw(scene, ranks - 1)) % ranks;
    uint32_t lane = (from + to) % lane_count;
    uint64_t bytes = draw(scene, 8) == 0 ? 0 : draw_size(scene, 40000, 62);
    bool fuse = draw(scene, 3) == 0;

    if (draw(scene, 3) == 0)
        add(scene, from, lane,
            (struct tutti_step){.kind = TUTTI_COMPUTE,
                                .duration_ps = (tutti_ps)draw_size(scene, 900000, 62)});
    add(scene, from, lane,
        (struct tutti_step){
            .kind = TUTTI_SEND, .peer = to, .src_buf = TUTTI_BUF_IN, .bytes = bytes});
    add(scene, to, lane,
        (struct tutti_step){.kind = TUTTI_RECV,
                            .flags = fuse ? TUTTI_STEP_FUSE : 0,
                            .peer = from,
                            .dst_buf = TUTTI_BUF_SCRATCH,
                            .bytes = bytes});
    if (fuse || draw(scene, 3) == 0)
        add(scene, to, lane,
            (struct tutti_step){.kind = fuse ? TUTTI_REDUCE : TUTTI_COPY,
                                .src_buf = TUTTI_BUF_SCRATCH,
                                .acc_buf = TUTTI_BUF_OUT,
                                .dst_buf = TUTTI_BUF_OUT,
                                .bytes = bytes});
}

static void write_programs(struct scene *scene)
{
    struct tutti_schedule_desc desc = {
        .name = "messages",
        .contract = {.collective = TUTTI_CUSTOM, .dtype = TUTTI_INT8},
        .rank_count = scene->topo->rank_count,
        .lane_count = 2 + (uint32_t)draw(scene, LANES_MAX),
        .slot_count = 1 + (uint32_t)draw(scene, 3),
        .in_bytes = INT64_MAX,
        .out_bytes = INT64_MAX,
        .scratch_bytes = INT64_MAX,
    };
    uint32_t spare = desc.lane_count - 1;
    struct tutti_step moment = {.kind = TUTTI_COMPUTE, .duration_ps = 1};
    struct tutti_err err = {""};

    for (int i = 0; i < 2; i++) {
        CHECK_OK(tutti_builder_new(&desc, &scene->builders[i], &err), err);
        CHECK_OK(tutti_builder_add(scene->builders[i], 0, spare, &moment, &err), err);
        moment.duration_ps = 0;
        moment.flops = 1;
    }
    for (uint64_t more = 1 + draw(scene, MESSAGES_MAX); more > 0; more--)
        add_message(scene, desc.lane_count - 1);
    CHECK_OK(tutti_builder_finish(scene->builders[0], &scene->plain, &err), err);
    CHECK_OK(tutti_builder_finish(scene->builders[1], &scene->forced, &err), err);
}

static void choose_opts(struct scene *scene)
{
    scene->protocol = (struct tutti_protocol){.name = "drawn",
                                              .launch_ps = (tutti_ps)draw(scene, 5000000),
                                              .message_ps = {1000000, 2000000, 3000000},
                                              .wire_num = 1 + (uint32_t)draw(scene, 16),
                                              .wire_den = 1 + (uint32_t)draw(scene, 15)};
    for (int hop = 0; hop < TUTTI_HOP_COUNT && draw(scene, 2) == 0; hop++)
        draw_pace(&scene->random, &scene->protocol, hop);
    scene->opts = (struct tutti_sim_opts){
        .size = sizeof(struct tutti_sim_opts),
        .topo = scene->topo,
        .model = draw(scene, 2) == 0 ? TUTTI_MODEL_FAIR : TUTTI_MODEL_ALPHABETA,
        .protocol = draw(scene, 2) == 0 ? &scene->protocol : NULL,
        .seed = draw(scene, 1000),
        .jitter = draw(scene, 2) == 0 ? 0 : 2 * tutti_random_unit(&scene->random),
        .reduce_bytes_per_s = draw(scene, 2) * (1 + draw_size(scene, 100000000000, 62)),
    };
    for (uint32_t rank = 0; rank < RANKS_MAX; rank++)
        scene->start_ps[rank] = (tutti_ps)draw_size(scene, 3000000, 62);
    if (draw(scene, 2) == 0)
        scene->opts.start_ps = scene->start_ps;
}

/* 1: played, 0: not suited. First without a record: what that leaves behind must not show, but for
 * links whose users are known now from the start, so that turns on them are seen apart. */
static int play_flow(const struct scene *scene, struct outcome *ret)
{
    tutti_ps start_ps = scene->opts.protocol != NULL ? scene->protocol.launch_ps : 0;
    struct outcome bare = {0};
    struct tutti_flow *flow = NULL;
    struct tutti_record record;
    struct tutti_err err = {""};
    int status;

    CHECK_OK(tutti_flow_new(&scene->opts, scene->plain, &flow, &err), err);
    tutti_record_init(&record);
    status = tutti_flow_play(flow, scene->opts.seed, start_ps, NULL, &bare.end_ps, &bare.step_count,
                             &err);
    if (status == 1) {
        status = tutti_flow_play(flow, scene->opts.seed, start_ps, &record, &ret->end_ps,
                                 &ret->step_count, &err);
    }
    if (status == 1) {
        CHECK_INT(bare.end_ps, ret->end_ps);
        CHECK_INT(bare.step_count, ret->step_count);
        CHECK_INT(record.event_count, ret->step_count);
        ret->hash = tutti_record_hash(&record, 1);
    }
    CHECK(status >= 0);
    tutti_record_done(&record);
    tutti_flow_free(flow);
    return status;
}

/* The same for playing by the clock, which suits all of these; twice, for what the first leaves
 * behind must not show. */
static struct outcome play_clocked(const struct scene *scene)
{
    tutti_ps start_ps = scene->opts.protocol != NULL ? scene->protocol.launch_ps : 0;
    struct outcome bare = {0};
    struct outcome outcome = {0};
    struct tutti_clocked *clocked = NULL;
    struct tutti_record record;
    struct tutti_err err = {""};

    CHECK_OK(tutti_clocked_new(&scene->opts, scene->plain, &clocked, &err), err);
    tutti_record_init(&record);
    CHECK_INT(tutti_clocked_play(clocked, scene->opts.seed, start_ps, NULL, &bare.end_ps,
                                 &bare.step_count, &err),
              1);
    CHECK_INT(tutti_clocked_play(clocked, scene->opts.seed, start_ps, &record, &outcome.end_ps,
                                 &outcome.step_count, &err),
              1);
    CHECK_INT(bare.end_ps, outcome.end_ps);
    CHECK_INT(bare.step_count, outcome.step_count);
    outcome.hash = tutti_record_hash(&record, 1);
    tutti_record_done(&record);
    tutti_clocked_free(clocked);
    return outcome;
}

static struct outcome play_stage(const struct scene *scene)
{
    struct tutti_backend *sim = NULL;
    struct tutti_played played = {.total_ps = 0};
    struct tutti_record record;
    struct tutti_err err = {""};
    struct outcome outcome;

    tutti_record_init(&record);
    CHECK_OK(tutti_sim_open(&scene->opts, &sim, &err), err);
    CHECK_OK(tutti_backend_play(sim,
                                &(struct tutti_play){.size = sizeof(struct tutti_play),
                                                     .schedule = scene->forced,
                                                     .iteration_count = 1,
                                                     .record = &record},
                                &played, &err),
             err);
    outcome = (struct outcome){.end_ps = played.total_ps,
                               .step_count = played.step_count,
                               .hash = tutti_record_hash(&record, 1)};
    tutti_backend_close(sim);
    tutti_record_done(&record);
    return outcome;
}

static void check_same(const struct outcome *seen, const struct outcome *stage)
{
    CHECK_INT(seen->end_ps, stage->end_ps);
    CHECK_INT(seen->step_count, stage->step_count);
    CHECK(seen->hash == stage->hash);
}

static void compare(uint64_t rounds, bool extreme)
{
    uint64_t suited = 0;

    for (uint64_t round = 0; round < rounds && test_failures == 0; round++) {
        struct scene scene = {.extreme = extreme};
        struct outcome flow = {0};
        struct outcome clocked;
        struct outcome stage;

        tutti_random_seed(&scene.random, tutti_random_hash(test_seed, round, 11, extreme));
        build_machine(&scene);
        REQUIRE(scene.topo != NULL);
        write_programs(&scene);
        choose_opts(&scene);
        stage = play_stage(&scene);
        clocked = play_clocked(&scene);
        if (play_flow(&scene, &flow) == 1) {
            suited++;
            check_same(&flow, &stage);
        }
        if (scene.opts.start_ps != NULL)
            clocked.end_ps = stage.end_ps; /* idle ranks, which may begin last, are not played */
        check_same(&clocked, &stage);
        if (test_failures > 0)
            printf("round %" PRIu64 ", %s, jitter %g\n", round, tutti_model_name(scene.opts.model),
                   scene.opts.jitter);
        tutti_schedule_free(scene.plain);
        tutti_schedule_free(scene.forced);
        tutti_topo_free(scene.topo);
    }
    printf("%" PRIu64 " of %" PRIu64 " suited data flow\n", suited, rounds);
    CHECK(test_failures > 0 || suited > rounds / 4);
}

TEST(all_ways_agree_on_1000_random_plays)
{
    compare(test_cheap_count(50000, 1000), false);
}

TEST(all_ways_agree_at_the_ends_of_64_bits)
{
    compare(test_cheap_count(50000, 1000), true);
}

/* Plays a collective by data flow alone; its time, or -1 if that does not suit it. */
static tutti_ps flow_alone(const char *spec, const char *algorithm, struct tutti_sim_opts opts,
                           tutti_ps *ret_stage_ps)
{
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_INT32, .op = TUTTI_SUM, .count = 38400};
    struct tutti_play play = {.size = sizeof(struct tutti_play), .iteration_count = 1};
    struct tutti_played played = {.total_ps = -1};
    struct tutti_schedule *schedule = NULL;
    struct tutti_backend *sim = NULL;
    struct tutti_flow *flow = NULL;
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    tutti_ps end_ps = -1;
    uint64_t step_count;

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    CHECK_OK(tutti_coll_generate(algorithm, &params, &topo->shape, &schedule, &err), err);
    opts.topo = topo;
    play.schedule = schedule;
    CHECK_OK(tutti_flow_new(&opts, schedule, &flow, &err), err);
    CHECK(tutti_flow_play(flow, 1, 0, NULL, &end_ps, &step_count, &err) >= 0);
    opts.carry = true;
    CHECK_OK(tutti_sim_open(&opts, &sim, &err), err);
    CHECK_OK(tutti_backend_play(sim, &play, &played, &err), err);
    *ret_stage_ps = played.total_ps;
    tutti_backend_close(sim);
    tutti_flow_free(flow);
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
    return end_ps;
}

TEST(lanes_and_connections_that_take_turns_on_links_suit_data_flow)
{
    static const char *const cases[][2] = {{"torus:4x4x4", "torus"},
                                           {"torus:4x4", "torus"},
                                           {"switch:n=16", "halving-doubling"},
                                           {"switch:n=16", "recursive-doubling"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int model = TUTTI_MODEL_FAIR; model <= TUTTI_MODEL_ALPHABETA; model++) {
            tutti_ps stage_ps;
            tutti_ps flow_ps =
                flow_alone(cases[i][0], cases[i][1],
                           (struct tutti_sim_opts){.size = sizeof(struct tutti_sim_opts),
                                                   .model = (enum tutti_model)model},
                           &stage_ps);

            CHECK_INT(flow_ps, stage_ps);
        }
    }
}

TEST(lanes_that_want_a_link_at_once_do_not_suit_it)
{
    tutti_ps stage_ps;

    CHECK_INT(flow_alone("switch:n=16", "double-binary-tree",
                         (struct tutti_sim_opts){.size = sizeof(struct tutti_sim_opts),
                                                 .model = TUTTI_MODEL_ALPHABETA,
                                                 .seed = 1},
                         &stage_ps),
              -1);
    CHECK(stage_ps > 0);
}
