/* The simulator's stories: a small world, what its ranks do, and the trace one expects. */
#include "tests/sim/sim_world.h"

#define TWO_RANKS  "2 ranks, 0-1 50GB/s 1.5us"
#define ONE_SWITCH "3 ranks 1 switches, 0-3 50GB/s 1us, 1-3 50GB/s 1us, 2-3 50GB/s 1us"

TEST(a_message_takes_its_latency_and_its_bytes)
{
    struct story story = story_begin(TWO_RANKS);

    sends(&story, 0, 1, 4096); /* 4096 B at 50 GB/s: 81.92 ns */
    receives(&story, 1, 0, 4096);
    EXPECT(&story, "0ps..1.58192us 0 send->1 4096 B\n"
                   "0ps..1.58192us 1 recv<-0 4096 B\n");
    CHECK_INT(story.played.total_ps, 1581920);
    CHECK_INT(story.played.step_count, 2);
    story_end(&story);
}

TEST(the_first_link_serves_one_message_at_a_time_and_latencies_overlap)
{
    struct story story = story_begin(TWO_RANKS);

    sends(&story, 0, 1, 50000); /* 1 us on the wire each */
    sends(&story, 0, 1, 50000);
    receives(&story, 1, 0, 50000);
    receives(&story, 1, 0, 50000);
    EXPECT(&story, "0ps..2.5us 0 send->1 50000 B\n"
                   "0ps..2.5us 1 recv<-0 50000 B\n"
                   "0ps..3.5us 0 send->1 50000 B\n"
                   "2.5us..3.5us 1 recv<-0 50000 B\n");
    story_end(&story);
}

TEST(a_send_waits_for_a_slot)
{
    struct story story = story_begin(TWO_RANKS);

    story.slot_count = 1;
    sends(&story, 0, 1, 50000);
    sends(&story, 0, 1, 50000);
    receives(&story, 1, 0, 50000);
    computes(&story, 1, 1000000, 0); /* holds up the second RECV, not the slot */
    receives(&story, 1, 0, 50000);
    EXPECT(&story, "0ps..2.5us 0 send->1 50000 B\n"
                   "0ps..2.5us 1 recv<-0 50000 B\n"
                   "2.5us..3.5us 1 compute 0 B\n"
                   "2.5us..5us 0 send->1 50000 B\n"
                   "3.5us..5us 1 recv<-0 50000 B\n");
    story_end(&story);
}

TEST(a_late_receiver_finds_the_message_waiting)
{
    struct story story = story_begin(TWO_RANKS);

    sends(&story, 0, 1, 50000);
    computes(&story, 1, 10000000, 0);
    receives(&story, 1, 0, 50000);
    EXPECT(&story, "0ps..10us 0 send->1 50000 B\n"
                   "0ps..10us 1 compute 0 B\n"
                   "10us..10us 1 recv<-0 50000 B\n");
    story_end(&story);
}

TEST(a_rank_that_starts_late_finds_its_messages_waiting_and_sends_late)
{
    for (int carry = 0; carry < 2; carry++) {
        struct story story = story_begin("3 ranks, 0-1 50GB/s 1.5us, 1-2 50GB/s 1.5us");
        const tutti_ps starts[] = {0, 10000000, 20000000};

        story.opts.start_ps = starts;
        story.opts.carry = carry > 0; /* data flow, then the stage */
        sends(&story, 0, 1, 50000);
        receives(&story, 0, 1, 50000);
        sends(&story, 1, 0, 50000);
        receives(&story, 1, 0, 50000);
        EXPECT(&story, "0ps..10us 0 send->1 50000 B\n"
                       "10us..10us 1 recv<-0 50000 B\n"
                       "0ps..12.5us 0 recv<-1 50000 B\n"
                       "10us..12.5us 1 send->0 50000 B\n");
        CHECK_INT(story.played.total_ps, 20000000); /* rank 2 starts last, and ends at once */
        story_end(&story);
    }
}

TEST(a_start_before_the_clock_is_refused)
{
    struct story story = story_begin(TWO_RANKS);
    const tutti_ps starts[] = {0, -1};

    story.opts.start_ps = starts;
    sends(&story, 0, 1, 8);
    receives(&story, 1, 0, 8);
    EXPECT_REFUSED(&story, TUTTI_EINVAL, "rank 1 starts at '-1' ps (0 or more)");
    story_end(&story);
}

TEST(a_fused_reduction_gives_the_bytes_back_when_it_has_read_them)
{
    struct story story = story_begin(TWO_RANKS);

    story.opts.reduce_bytes_per_s = 10000000000; /* 10 GB/s: 5 us for 50000 B */
    sends(&story, 0, 1, 50000);
    receives_fused(&story, 1, 0, 50000);
    reduces(&story, 1, 50000);
    EXPECT(&story, "0ps..2.5us 1 recv<-0 50000 B\n"
                   "0ps..7.5us 0 send->1 50000 B\n"
                   "2.5us..7.5us 1 reduce 50000 B\n");
    story_end(&story);
}

TEST(two_senders_to_one_receiver_share_its_port_in_fair_but_not_in_alphabeta)
{
    struct story story = story_begin(ONE_SWITCH);

    for (int model = TUTTI_MODEL_FAIR; model <= TUTTI_MODEL_ALPHABETA; model++) {
        story.opts.model = (enum tutti_model)model;
        story.lane = 0;
        sends(&story, 0, 2, 50000);
        sends(&story, 1, 2, 50000);
        receives(&story, 2, 0, 50000);
        story.lane = 1;
        computes(&story, 0, 0, 0);
        story.lane = 0;
        receives(&story, 2, 1, 50000);
        story_play(&story);
        CHECK_OK(story.status, story.err);
        /* two links of 1 us; 1 us on the wire alone, 2 us at half the rate */
        CHECK_INT(story.played.total_ps, model == TUTTI_MODEL_FAIR ? 4000000 : 3000000);
    }
    story_end(&story);
}

TEST(in_fair_who_comes_later_slows_who_is_there)
{
    struct story story = story_begin(ONE_SWITCH);

    story.opts.model = TUTTI_MODEL_FAIR;
    sends(&story, 0, 2, 100000); /* 2..4 us alone: half is done at 3 us */
    computes(&story, 1, 1000000, 0);
    sends(&story, 1, 2, 100000); /* joins at 3 us; both at 25 GB/s until 5 us; then alone */
    receives(&story, 2, 0, 100000);
    receives(&story, 2, 1, 100000);
    EXPECT(&story, "0ps..1us 1 compute 0 B\n"
                   "0ps..5us 0 send->2 100000 B\n"
                   "0ps..5us 2 recv<-0 100000 B\n"
                   "1us..6us 1 send->2 100000 B\n"
                   "5us..6us 2 recv<-1 100000 B\n");
    story_end(&story);
}

TEST(messages_of_one_connection_drain_one_after_another)
{
    struct story story = story_begin(TWO_RANKS);

    story.opts.model = TUTTI_MODEL_FAIR;
    sends(&story, 0, 1, 50000);
    sends(&story, 0, 1, 0);
    sends(&story, 0, 1, 50000);
    receives(&story, 1, 0, 50000);
    receives(&story, 1, 0, 0);
    receives(&story, 1, 0, 50000);
    EXPECT(&story, "0ps..2.5us 0 send->1 50000 B\n"
                   "0ps..2.5us 0 send->1 0 B\n"
                   "0ps..2.5us 1 recv<-0 50000 B\n"
                   "2.5us..2.5us 1 recv<-0 0 B\n"
                   "0ps..3.5us 0 send->1 50000 B\n"
                   "2.5us..3.5us 1 recv<-0 50000 B\n");
    story_end(&story);
}

TEST(flops_take_as_long_as_the_device_needs)
{
    struct story story = {.iteration_count = 1, .opts = {.model = TUTTI_MODEL_ALPHABETA}};

    story_machine(&story, TWO_RANKS, TUTTI_LINK_GENERIC, 1000000000000);
    computes(&story, 0, 0, 5000000); /* 5e6 at 1e12 a second */
    EXPECT(&story, "0ps..5us 0 compute 0 B\n");
    story_end(&story);
}

TEST(flops_on_an_unknown_device_are_refused)
{
    struct story story = story_begin(TWO_RANKS);

    computes(&story, 1, 0, 5);
    EXPECT_REFUSED(&story, TUTTI_EINVAL,
                   "rank 1, lane 0, step 0 (COMPUTE 5 flops): the rate of device 'gpu1' is not "
                   "known (COMPUTE with a "
                   "duration, or a topology whose devices state flops)");
    story_end(&story);
}

TEST(a_protocol_costs_a_launch_a_hop_and_wire_bytes)
{
    static const enum tutti_link_kind kinds[] = {TUTTI_LINK_NVLINK, TUTTI_LINK_PCIE,
                                                 TUTTI_LINK_NET};
    static const tutti_ps hop_ps[] = {600000, 1000000, 2700000};

    for (int i = 0; i < 3; i++) {
        struct story story = {.iteration_count = 1, .opts = {.model = TUTTI_MODEL_ALPHABETA}};

        story_machine(&story, TWO_RANKS, kinds[i], 0);
        CHECK_OK(tutti_protocol_find("ll", &story.opts.protocol, &story.err), story.err);
        sends(&story, 0, 1, 50000); /* LL sends twice the bytes: 2 us */
        receives(&story, 1, 0, 50000);
        story_play(&story);
        CHECK_OK(story.status, story.err);
        CHECK_INT(story.played.total_ps, 6600000 + 1500000 + hop_ps[i] + 2000000);
        story_end(&story);
    }
}

TEST(ll128_rounds_its_lines_up)
{
    struct story story = story_begin(TWO_RANKS);

    CHECK_OK(tutti_protocol_find("ll128", &story.opts.protocol, &story.err), story.err);
    sends(&story, 0, 1, 16); /* 16 * 16 / 15 = 17.07: 18 B, 360 ps at 50 GB/s */
    receives(&story, 1, 0, 16);
    story_play(&story);
    CHECK_OK(story.status, story.err);
    CHECK_INT(story.played.total_ps, 14000000 + 1900000 + 1500000 + 360);
    story_end(&story);
}

static void two_messages(struct story *story)
{
    sends(story, 0, 1, 50000);
    receives(story, 0, 1, 50000);
    receives(story, 1, 0, 50000);
    sends(story, 1, 0, 50000);
    story_play(story);
    CHECK_OK(story->status, story->err);
}

TEST(jitter_stretches_within_its_limits_and_follows_the_seed)
{
    struct story story = story_begin(TWO_RANKS);
    tutti_ps first_ps;

    story.opts.jitter = 0.5;
    story.opts.seed = 1;
    two_messages(&story);
    first_ps = story.played.total_ps;
    CHECK(first_ps > 5000000 && first_ps <= 7500000);
    two_messages(&story);
    CHECK_INT(story.played.total_ps, first_ps);
    story.opts.seed = 2;
    two_messages(&story);
    CHECK(story.played.total_ps != first_ps);
    story_end(&story);
}

TEST(iteration_i_draws_from_seed_plus_i)
{
    struct story story = story_begin(TWO_RANKS);
    tutti_ps one_ps[3];
    tutti_ps sum_ps = 0;
    tutti_ps best_ps = INT64_MAX;

    story.opts.jitter = 0.5;
    for (uint64_t i = 0; i < 3; i++) {
        story.opts.seed = 7 + i;
        two_messages(&story);
        one_ps[i] = story.played.total_ps;
        sum_ps += one_ps[i];
        best_ps = one_ps[i] < best_ps ? one_ps[i] : best_ps;
    }
    story.opts.seed = 7;
    story.iteration_count = 3;
    story.barrier = true;
    two_messages(&story);
    CHECK_INT(story.played.total_ps, sum_ps);
    CHECK_INT(story.played.best_ps, best_ps);
    CHECK(story.played.median_ps >= best_ps && story.played.median_ps <= sum_ps - 2 * best_ps);
    story_end(&story);
}

TEST(without_jitter_iterations_are_equal)
{
    struct story story = story_begin(TWO_RANKS);

    story.iteration_count = 1000000000; /* and cost nothing */
    two_messages(&story);
    CHECK_INT(story.played.total_ps, 5000000 * INT64_C(1000000000));
    CHECK_INT(story.played.best_ps, 5000000);
    story_end(&story);
}

TEST(data_is_carried_when_there_are_buffers)
{
    struct story story = story_begin(TWO_RANKS);
    static int32_t in[2][WORLD_BYTES / 4];
    static int32_t out[2][WORLD_BYTES / 4];
    const void *const ins[] = {in[0], in[1]};
    void *const outs[] = {out[0], out[1]};

    for (int32_t i = 0; i < WORLD_BYTES / 4; i++) {
        in[0][i] = i;
        in[1][i] = 1000 * i;
    }
    story.in = ins;
    story.out = outs;
    sends(&story, 0, 1, WORLD_BYTES);
    receives_fused(&story, 1, 0, WORLD_BYTES);
    reduces(&story, 1, WORLD_BYTES);
    sends(&story, 1, 0, WORLD_BYTES);
    receives(&story, 0, 1, WORLD_BYTES);
    story_play(&story);
    CHECK_OK(story.status, story.err);
    for (int32_t i = 0; i < WORLD_BYTES / 4; i++) {
        REQUIRE(out[1][i] == 1001 * i);
        REQUIRE(out[0][i] == 1000 * i);
    }
    story_end(&story);
}

TEST(a_receive_that_nobody_sends_is_a_deadlock)
{
    struct story story = story_begin(TWO_RANKS);

    sends(&story, 0, 1, 8);
    receives(&story, 1, 0, 8);
    receives(&story, 1, 0, 8);
    EXPECT_REFUSED(&story, TUTTI_ECHECK,
                   "deadlock: rank 1, lane 0, step 1 (RECV out+0 8 B from 0) can never finish");
    story_end(&story);
}

/* Rank 0 goes on once its SEND from `lane` is complete, but rank 1 first waits for rank 2, and that
 * for rank 0. */
static void wait_in_a_circle(uint32_t lane, const char *message)
{
    struct story story =
        story_begin("3 ranks 0 switches, 0-1 50GB/s 1us, 1-2 50GB/s 1us, 2-0 50GB/s 1us");

    sends(&story, 0, 1, 8);
    receives(&story, 1, 2, 8);
    receives(&story, 1, 0, 8);
    receives(&story, 2, 0, 8);
    sends(&story, 2, 1, 8);
    for (uint32_t i = 0; i < 1 + lane; i++) { /* on two lanes each waits for the other's SEND */
        story.lane = i;
        if (i == 1)
            sends(&story, 0, 1, 8);
        story_step(&story, 0,
                   (struct tutti_step){.kind = TUTTI_COMPUTE,
                                       .flags = TUTTI_STEP_DEP,
                                       .dep_lane = (uint16_t)(lane - i)});
    }
    story.lane = 0;
    sends(&story, 0, 2, 8);
    EXPECT_REFUSED(&story, TUTTI_ECHECK, message);
    story_end(&story);
}

TEST(lanes_that_wait_for_sends_that_nobody_takes_are_a_deadlock)
{
    wait_in_a_circle(0, "deadlock: rank 0, lane 0, step 1 (COMPUTE 0 flops after lane 0 step 0), "
                        "which waits for lane 0, step 0 can never finish");
    wait_in_a_circle(1, "deadlock: rank 0, lane 0, step 1 (COMPUTE 0 flops after lane 1 step 0), "
                        "which waits for lane 1, step 0 can never finish");
}

TEST(lengths_that_do_not_match_are_refused)
{
    struct story story = story_begin(TWO_RANKS);

    sends(&story, 0, 1, 8);
    receives(&story, 1, 0, 12);
    EXPECT_REFUSED(&story, TUTTI_ECHECK,
                   "rank 1, lane 0, step 0 (RECV out+0 12 B from 0): the message has '8' bytes (as "
                   "many as are received): step 0 of rank 0");
    story_end(&story);
}

TEST(a_fused_receive_without_its_reduction_is_refused)
{
    struct story story = story_begin(TWO_RANKS);

    sends(&story, 0, 1, 8);
    receives_fused(&story, 1, 0, 8);
    reduces(&story, 1, 4);
    EXPECT_REFUSED(&story, TUTTI_ECHECK,
                   "rank 1, lane 0, step 1 (REDUCE out+0 = in+0 op scratch+0 4 B): does not read "
                   "the '8' bytes of the fused "
                   "RECV before it (a "
                   "REDUCE of all of them)");
    story_end(&story);
}

TEST(times_beyond_106_days_saturate)
{
    for (int model = TUTTI_MODEL_FAIR; model <= TUTTI_MODEL_ALPHABETA; model++) {
        struct story story = story_begin("2 ranks, 0-1 1B/s 1.5us");

        story.opts.model = (enum tutti_model)model;
        story.opts.jitter = 1000;
        computes(&story, 0, INT64_MAX - 5, 0);
        sends(&story, 0, 1, WORLD_BYTES);
        sends(&story, 0, 1, WORLD_BYTES);
        receives(&story, 1, 0, WORLD_BYTES);
        receives(&story, 1, 0, WORLD_BYTES);
        computes(&story, 1, INT64_MAX, 0);
        story.iteration_count = 3;
        story_play(&story);
        CHECK_OK(story.status, story.err);
        CHECK_INT(story.played.total_ps, INT64_MAX);
        story_end(&story);
    }
}

TEST(wrong_options_are_refused)
{
    struct story story = story_begin(TWO_RANKS);
    struct tutti_backend *backend = NULL;
    enum tutti_model model = TUTTI_MODEL_FAIR;
    const struct tutti_protocol *protocol;

    story.opts.size = sizeof(story.opts);
    story.opts.topo = story.topo;
    story.opts.jitter = -0.5;
    CHECK_INT(tutti_sim_open(&story.opts, &backend, &story.err), -TUTTI_EINVAL);
    CHECK_TEXT(story.err.text, "jitter '-0.5' is out of range (0 to 1000)");
    CHECK(backend == NULL);
    CHECK_INT(tutti_model_find("packet", &model, &story.err), -TUTTI_EINVAL);
    CHECK_TEXT(story.err.text, "unknown network model 'packet' (alphabeta or fair)");
    CHECK_INT(model, TUTTI_MODEL_FAIR);
    CHECK_INT(tutti_protocol_find("ll256", &protocol, &story.err), -TUTTI_EINVAL);
    CHECK_TEXT(story.err.text, "unknown protocol 'll256' (none, ll, ll128 or simple)");
    CHECK_OK(tutti_protocol_find("none", &protocol, &story.err), story.err);
    CHECK(protocol == NULL);
    story_end(&story);
}

TEST(a_schedule_for_another_number_of_ranks_is_refused)
{
    struct story story = story_begin(TWO_RANKS);
    struct tutti_topo *two = story.topo;
    struct story other = story_begin(ONE_SWITCH);

    sends(&other, 0, 1, 8);
    story.builder = other.builder;
    other.builder = NULL;
    EXPECT_REFUSED(&story, TUTTI_EINVAL,
                   "schedule 'story' has '3' ranks, but topology 'world' has 2 (as many)");
    CHECK(story.topo == two);
    story_end(&story);
    story_end(&other);
}

/* Programs that send to themselves, or to nobody, are named where the engine lets them through. */
TEST(a_message_to_oneself_is_refused_by_name)
{
    struct story story = story_begin(TWO_RANKS);

    sends(&story, 1, 1, 8);
    EXPECT_REFUSED(&story, TUTTI_ECHECK,
                   "rank 1, lane 0, step 0 (SEND in+0 8 B to 1): lane 0: rank 1 cannot send to "
                   "rank '1' (another of the 2 ranks)");
    story_end(&story);
}

/* 40 SENDs, then a step that waits for one of them; rank 1 is slow to take the last. */
static void wait_for_send(struct story *story, uint32_t dep_step, bool carry)
{
    story->opts.carry = carry;
    for (int i = 0; i < 40; i++)
        sends(story, 0, 1, 1000);
    story_step(story, 0,
               (struct tutti_step){.kind = TUTTI_COMPUTE,
                                   .flags = TUTTI_STEP_DEP,
                                   .dep_step = dep_step,
                                   .duration_ps = 5000});
    for (int i = 0; i < 40; i++) {
        if (i == 39)
            computes(story, 1, 7 * TUTTI_PS_PER_US, 0);
        receives(story, 1, 0, 1000);
    }
    story_play(story);
    CHECK_OK(story->status, story->err);
}

/* With data every step is an event on the stage, without it times follow from data flow; a SEND
 * may be just under way, long done, or so long ago that data flow has forgotten it. */
TEST(a_step_waits_for_a_send_of_its_lane_either_way_it_is_played)
{
    static const uint32_t deps[] = {39, 38, 30, 8, 7, 0};

    for (size_t i = 0; i < sizeof(deps) / sizeof(deps[0]); i++) {
        struct story flow = story_begin(TWO_RANKS);
        struct story stage = story_begin(TWO_RANKS);

        wait_for_send(&flow, deps[i], false);
        wait_for_send(&stage, deps[i], true);
        CHECK_TEXT(flow.trace, stage.trace);
        CHECK_INT(flow.played.total_ps, stage.played.total_ps);
        CHECK(flow.played.total_ps > 7 * TUTTI_PS_PER_US);
        story_end(&flow);
        story_end(&stage);
    }
}
