/* Steps simulated without their messages: a story with its arithmetic; the same times as every rank
 * played by itself, whoever is slow; and as all messages played, where nothing overlaps. */
#include "runtime/random.h"
#include "sim/predict.h"
#include "sim/step.h"
#include "sim/step/price.h"
#include "tests/alloc_fail.h"
#include "tests/runtime/training_steps.h"
#include "tests/test.h"
#include "topo/topo.h"

static struct tutti_topo *machine(const char *spec)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    return topo;
}

static struct tutti_stepped play(const struct tutti_step_opts *opts)
{
    struct tutti_stepped stepped = {.total_ps = -1};
    struct tutti_err err;

    CHECK_OK(tutti_step_play(opts, &stepped, &err), err);
    return stepped;
}

static struct tutti_schedule *parse(const char *text)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_schedule_parse("text", text, strlen(text), &schedule, &err), err);
    return schedule;
}

/* Two pairs of ranks on a switch, 1 GB/s and 1 us. A pair exchanges 1000 bytes in 2 us. */
static const char two_pairs[] = "schedule pairs\n"
                                "contract custom int8 sum count 0\n"
                                "ranks 4\nlanes 2\nin 1000 B\nout 1000 B\nscratch 1000 B\n"
                                "axis pairs first 0 width 1 stride 1 size 2 period 2 repeat 2\n"
                                "rank 0 lane 0\n  COMPUTE 10us\n  COMPUTE 5us\n"
                                "rank 0 lane 1\n"
                                "  CALL 0 axis 1 in+0 out+0 scratch+0 after lane 0 step 0\n"
                                "rank 1 lane 0\n  COMPUTE 10us\n  COMPUTE 5us\n"
                                "rank 1 lane 1\n"
                                "  CALL 0 axis 1 in+0 out+0 scratch+0 after lane 0 step 0\n"
                                "rank 2 lane 0\n  COMPUTE 10us\n  COMPUTE 5us\n"
                                "rank 2 lane 1\n"
                                "  CALL 0 axis 1 in+0 out+0 scratch+0 after lane 0 step 0\n"
                                "rank 3 lane 0\n  COMPUTE 10us\n  COMPUTE 5us\n"
                                "rank 3 lane 1\n"
                                "  CALL 0 axis 1 in+0 out+0 scratch+0 after lane 0 step 0\n"
                                "callee swap\n"
                                "contract allreduce int8 sum count 1000\nranks 2\nscratch 1000 B\n"
                                "rank 0 lane 0\n  SEND in+0 1000 B to 1\n"
                                "  RECV scratch+0 1000 B from 1 fuse\n"
                                "  REDUCE out+0 = in+0 op scratch+0 1000 B last\n"
                                "rank 1 lane 0\n  SEND in+0 1000 B to 0\n"
                                "  RECV scratch+0 1000 B from 0 fuse\n"
                                "  REDUCE out+0 = in+0 op scratch+0 1000 B last\n";

TEST(a_pair_waits_for_its_slower_half_and_the_other_pair_does_not)
{
    struct tutti_topo *topo = machine("switch:n=4,bw=1GB/s,lat=1us");
    struct tutti_schedule *schedule = parse(two_pairs);
    uint32_t pace[4] = {TUTTI_PACE, TUTTI_PACE, TUTTI_PACE, 1500000};
    tutti_ps ends[4];
    struct tutti_step_opts opts = {
        .size = sizeof(opts), .topo = topo, .schedule = schedule, .end_ps = ends};
    struct tutti_stepped stepped = play(&opts);

    /* 10 us of work, then the swap (1 us + 1 us) beside 5 us of work. */
    CHECK_INT(stepped.total_ps, 15 * TUTTI_PS_PER_US);
    CHECK_INT(stepped.class_count, 1);
    CHECK_INT(stepped.price_count, 1);
    CHECK_INT(stepped.step_count, 12);
    opts.pace_ppm = pace;
    stepped = play(&opts);
    /* Rank 3 takes 15 us and 7.5 us; its swap ends at 17 us, and so does that of rank 2. */
    CHECK_INT(stepped.class_count, 3);
    CHECK_INT(ends[0], 15 * TUTTI_PS_PER_US);
    CHECK_INT(ends[1], 15 * TUTTI_PS_PER_US);
    CHECK_INT(ends[2], 17 * TUTTI_PS_PER_US);
    CHECK_INT(ends[3], 22500 * TUTTI_PS_PER_NS);
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
}

TEST(what_cannot_finish_names_rank_and_step)
{
    static const char text[] = "schedule lost\ncontract custom int8 sum count 0\nranks 2\n"
                               "in 8 B\nout 8 B\n"
                               "rank 0 lane 0\n  COMPUTE 1us\n  RECV out+0 8 B from 1\n"
                               "rank 1 lane 0\n  COMPUTE 1us\n";
    struct tutti_topo *topo = machine("switch:n=2,bw=1GB/s,lat=1us");
    struct tutti_schedule *schedule = parse(text);
    struct tutti_stepped stepped;
    struct tutti_err err;

    CHECK_INT(tutti_step_play(&(struct tutti_step_opts){.size = sizeof(struct tutti_step_opts),
                                                        .topo = topo,
                                                        .schedule = schedule},
                              &stepped, &err),
              -TUTTI_ECHECK);
    CHECK_TEXT(err.text, "rank 0, lane 0, step 1 (RECV out+0 8 B from 1): nobody sends it");
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
}

TEST(a_step_that_names_what_is_not_there_is_refused)
{
    struct tutti_topo *topo = machine("switch:n=2,bw=1GB/s,lat=1us");
    struct tutti_schedule *schedule =
        parse("schedule astray\ncontract custom int8 sum count 0\nranks 2\n"
              "rank 1 lane 0\n  CALL 3 in+0 out+0 scratch+0\n");
    struct tutti_stepped stepped;
    struct tutti_err err;

    CHECK_INT(tutti_step_play(&(struct tutti_step_opts){.size = sizeof(struct tutti_step_opts),
                                                        .topo = topo,
                                                        .schedule = schedule},
                              &stepped, &err),
              -TUTTI_ECHECK);
    CHECK_TEXT(err.text, "rank 1: a step that names what is not there (CALL 3 in+0 out+0 "
                         "scratch+0); tutti_schedule_check says more");
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
}

static int play_pairs(const struct tutti_topo *topo, struct tutti_err *err)
{
    const uint32_t pace[4] = {TUTTI_PACE, TUTTI_PACE, TUTTI_PACE, 1500000};
    struct tutti_schedule *schedule = NULL;
    struct tutti_stepped stepped;
    int status = tutti_schedule_parse("text", two_pairs, strlen(two_pairs), &schedule, err);

    if (status == 0)
        status = tutti_step_play(&(struct tutti_step_opts){.size = sizeof(struct tutti_step_opts),
                                                           .topo = topo,
                                                           .schedule = schedule,
                                                           .pace_ppm = pace},
                                 &stepped, err);
    tutti_schedule_free(schedule);
    return status;
}

TEST(a_step_fails_cleanly_without_memory)
{
    struct tutti_topo *topo = machine("switch:n=4,bw=1GB/s,lat=1us");
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(play_pairs(topo, &err), err);
    tutti_topo_free(topo);
}

/* ---- at random ------------------------------------------------------------------------------- */

static struct tutti_random random_source;

static uint32_t below(uint32_t limit)
{
    return (uint32_t)tutti_random_below(&random_source, limit);
}

static struct training random_training(bool even)
{
    struct training t = {.tp = 1 + below(4), .dp = 1 + below(4), .layer_count = 1 + below(3)};

    for (uint32_t l = 0; l < t.layer_count; l++) {
        t.layers[l].act_bytes = 8 * t.tp * (1 + below(9));
        t.layers[l].weight_bytes = 8 * t.dp * (1 + below(5));
        t.layers[l].act_type = below(TYPE_COUNT);
        t.layers[l].grad_type = below(TYPE_COUNT);
        t.layers[l].is_sharded = below(2) == 0;
        t.layers[l].in_place = below(2) == 0;
        t.layers[l].algorithm = even ? 0 : below(ALGORITHM_COUNT);
    }
    t.has_neighbours = !even && t.tp * t.dp > 1 && below(2) == 0;
    return t;
}

static void machine_of(uint32_t rank_count, struct tutti_topo **ret)
{
    char spec[64];

    snprintf(spec, sizeof(spec),
             below(2) == 0 ? "switch:n=%u,bw=10GB/s,lat=1us" : "ring:n=%u,bw=10GB/s,lat=1us",
             rank_count);
    *ret = machine(spec);
}

/* Ranks played once for all that do the same end when they end by themselves. */
TEST(classes_are_exact_whoever_is_slow)
{
    uint64_t cases = test_count(2000, 400);
    uint64_t folded_away = 0;

    for (uint64_t number = 0; number < cases; number++) {
        struct training t;
        struct tutti_schedule *s;
        struct tutti_topo *topo = NULL;
        uint32_t pace[RANKS_MAX];
        tutti_ps ends[RANKS_MAX];
        tutti_ps own[RANKS_MAX];
        struct tutti_stepped stepped;
        struct tutti_step_opts opts = {.size = sizeof(opts), .pace_ppm = pace, .end_ps = ends};

        tutti_random_seed(&random_source, tutti_random_hash(test_seed, number, 1, 0));
        t = random_training(false);
        if (t.tp * t.dp == 1)
            continue;
        s = make_step(&t);
        REQUIRE(s != NULL);
        machine_of(s->rank_count, &topo);
        for (uint32_t rank = 0; rank < s->rank_count; rank++)
            pace[rank] = TUTTI_PACE + (below(6) == 0 ? 1000 * below(3) : 0);
        opts.topo = topo;
        opts.schedule = s;
        opts.model = below(2) == 0 ? TUTTI_MODEL_FAIR : TUTTI_MODEL_ALPHABETA;
        stepped = play(&opts);
        folded_away += s->rank_count - stepped.class_count;
        opts.unfolded = true;
        opts.end_ps = own;
        CHECK_INT(play(&opts).total_ps, stepped.total_ps);
        for (uint32_t rank = 0; rank < s->rank_count; rank++)
            if (ends[rank] != own[rank])
                TEST_FAIL("case %llu: rank %u ends at %lld ps folded, at %lld by itself",
                          (unsigned long long)number, rank, (long long)ends[rank],
                          (long long)own[rank]);
        tutti_topo_free(topo);
        tutti_schedule_free(s);
    }
    printf("%llu ranks folded away\n", (unsigned long long)folded_away);
    CHECK(folded_away > cases);
}

/* Rings of equal parts on a switch: all come together, and leave together. */
TEST(without_overlap_a_step_takes_what_all_its_messages_take)
{
    uint64_t cases = test_count(1000, 200);

    for (uint64_t number = 0; number < cases; number++) {
        struct training t;
        struct tutti_schedule *s;
        struct tutti_schedule *flat = NULL;
        struct tutti_topo *topo;
        struct tutti_backend *sim = NULL;
        struct tutti_played played = {.total_ps = 0};
        struct tutti_err err;
        char spec[64];

        tutti_random_seed(&random_source, tutti_random_hash(test_seed, number, 2, 0));
        t = random_training(true);
        if (t.tp * t.dp == 1)
            continue;
        s = make_step(&t);
        REQUIRE(s != NULL);
        snprintf(spec, sizeof(spec), "switch:n=%u,bw=10GB/s,lat=1us", s->rank_count);
        topo = machine(spec);
        CHECK_OK(tutti_schedule_flatten(s, &flat, &err), err);
        CHECK_OK(tutti_sim_open(
                     &(struct tutti_sim_opts){.size = sizeof(struct tutti_sim_opts), .topo = topo},
                     &sim, &err),
                 err);
        CHECK_OK(tutti_backend_play(sim,
                                    &(struct tutti_play){.size = sizeof(struct tutti_play),
                                                         .schedule = flat,
                                                         .iteration_count = 1},
                                    &played, &err),
                 err);
        CHECK_INT(play(&(struct tutti_step_opts){
                           .size = sizeof(struct tutti_step_opts), .topo = topo, .schedule = s})
                      .total_ps,
                  played.total_ps);
        tutti_backend_close(sim);
        tutti_topo_free(topo);
        tutti_schedule_free(flat);
        tutti_schedule_free(s);
    }
}

/* Rounds that repeat are counted by the period: the shares are those of all rounds read. */
TEST(link_shares_are_the_same_whether_rounds_repeat_or_are_read)
{
    static const char *const algorithms[] = {"ring", "ring-bidirectional", "double-binary-tree",
                                             "two-shot"};
    struct tutti_topo *topo = machine("dgx-h100:nodes=4");

    for (uint64_t i = 0; i < 4 * 8; i++) {
        const struct tutti_ask ask = {
            .size = sizeof(ask),
            .topo = topo,
            .algorithm = algorithms[i % 4],
            .params = {.collective = TUTTI_ALLREDUCE, .count = 1000 + i * i * i * 4001}};
        const struct tutti_step_opts opts = {.size = sizeof(opts), .topo = topo};
        struct tutti_call_price counted = {.alone_ps = TUTTI_PS_PER_S};
        struct tutti_call_price read = counted;
        struct tutti_schedule *schedule = NULL;
        struct tutti_schedule_ops plain;
        struct tutti_err err;
        bool used = false;

        CHECK_OK(tutti_predict_schedule(&ask, &schedule, &err), err);
        CHECK_OK(tutti_step_link_shares(&opts, schedule, &counted, &err), err);
        plain = *schedule->ops;
        plain.steady = NULL;
        schedule->ops = &plain;
        CHECK_OK(tutti_step_link_shares(&opts, schedule, &read, &err), err);
        for (uint32_t kind = 0; kind < TUTTI_SHARE_LINKS; kind++) {
            CHECK_INT(counted.link_share[kind], read.link_share[kind]);
            used |= read.link_share[kind] > 0;
        }
        CHECK(used);
        tutti_schedule_free(schedule);
    }
    tutti_topo_free(topo);
}
