/* Random training steps with groups, work and state: what the check and the proof let pass is right
 * when it is played, by the simulator and by threads; what is spoilt by one step is refused by
 * name, or does what its steps say all the same. A small interpreter that knows no lanes of callees
 * says what is right. */
#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/threads.h"
#include "sim/sim.h"
#include "tests/runtime/training_steps.h"
#include "tests/test.h"
#include "topo/topo.h"

enum { PLAYS = 3 };

static struct tutti_random random_source;

static uint32_t below(uint32_t limit)
{
    return (uint32_t)tutti_random_below(&random_source, limit);
}

static const char *const spoil_names[] = {"nothing",       "a dependency", "a call left out",
                                          "calls swapped", "a call moved", "work left out",
                                          "another axis"};

/* ---- playing --------------------------------------------------------------------------------- */

static bool same(const struct tutti_schedule *s, const struct memory *a, const struct memory *b)
{
    for (uint32_t rank = 0; rank < s->rank_count; rank++)
        if (memcmp(a->bufs[rank][TUTTI_BUF_OUT], b->bufs[rank][TUTTI_BUF_OUT],
                   (size_t)s->out_bytes) != 0 ||
            memcmp(a->bufs[rank][TUTTI_BUF_STATE], b->bufs[rank][TUTTI_BUF_STATE],
                   (size_t)s->state_bytes) != 0)
            return false;
    return true;
}

/* Played three times on a backend, from the beginning of `memory`. */
static int play(struct tutti_backend *backend, const struct tutti_schedule *s,
                struct memory *memory, struct tutti_err *err)
{
    const void *in[RANKS_MAX];
    void *out[RANKS_MAX];
    void *state[RANKS_MAX];
    struct tutti_played played;

    for (uint32_t rank = 0; rank < s->rank_count; rank++) {
        in[rank] = memory->bufs[rank][TUTTI_BUF_IN];
        out[rank] = memory->bufs[rank][TUTTI_BUF_OUT];
        state[rank] = memory->bufs[rank][TUTTI_BUF_STATE];
    }
    return tutti_backend_play(backend,
                              &(struct tutti_play){.size = sizeof(struct tutti_play),
                                                   .schedule = s,
                                                   .in = in,
                                                   .out = out,
                                                   .state = state,
                                                   .warmup_count = 1,
                                                   .iteration_count = PLAYS - 1},
                              &played, err);
}

static void play_on_both(const struct tutti_schedule *s, const char *what)
{
    struct memory expected = {{{NULL}}};
    struct memory seen = {{{NULL}}};
    struct tutti_backend *threads = NULL;
    struct tutti_backend *sim = NULL;
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    char spec[64];

    snprintf(spec, sizeof(spec), "switch:n=%u,bw=10GB/s,lat=1us", s->rank_count);
    REQUIRE(memory_open(&expected, s) && memory_open(&seen, s));
    for (uint32_t i = 0; i < PLAYS; i++)
        if (!interpret(s, &expected))
            TEST_FAIL("%s: the interpreter cannot finish it", what);
    CHECK_OK(tutti_threads_open(NULL, &threads, &err), err);
    CHECK_OK(play(threads, s, &seen, &err), err);
    if (!same(s, &expected, &seen))
        TEST_FAIL("%s: threads have other results than the steps", what);
    memory_reset(&seen, s);
    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    CHECK_OK(
        tutti_sim_open(&(struct tutti_sim_opts){.size = sizeof(struct tutti_sim_opts),
                                                .topo = topo,
                                                .model = below(2) == 0 ? TUTTI_MODEL_FAIR
                                                                       : TUTTI_MODEL_ALPHABETA},
                       &sim, &err),
        err);
    CHECK_OK(play(sim, s, &seen, &err), err);
    if (!same(s, &expected, &seen))
        TEST_FAIL("%s: the simulator has other results than the steps", what);
    tutti_backend_close(sim);
    tutti_backend_close(threads);
    tutti_topo_free(topo);
    memory_close(&expected, s);
    memory_close(&seen, s);
}

/* ---- the test -------------------------------------------------------------------------------- */

static int judge(const struct tutti_schedule *s, struct tutti_err *err)
{
    int status = tutti_schedule_check(s, err);

    return status < 0 ? status : tutti_schedule_prove(s, err);
}

static struct training random_training(void)
{
    struct training t = {.tp = 1 + below(4), .dp = 1 + below(4), .layer_count = 1 + below(3)};

    if (t.tp * t.dp == 1)
        t.dp = 2;
    for (uint32_t l = 0; l < t.layer_count; l++) {
        t.layers[l].act_bytes = 8 * (1 + below(9));
        t.layers[l].weight_bytes = 8 * t.dp * (1 + below(5));
        t.layers[l].act_type = below(TYPE_COUNT);
        t.layers[l].grad_type = below(TYPE_COUNT);
        t.layers[l].is_sharded = below(2) == 0;
        t.layers[l].in_place = below(2) == 0;
        t.layers[l].algorithm = below(ALGORITHM_COUNT);
    }
    t.has_neighbours = below(2) == 0;
    return t;
}

/* Whole, then spoilt in one place. */
static void one_case(uint64_t number, uint32_t *refused, uint32_t *passed)
{
    struct training t;
    struct tutti_schedule *s;
    struct tutti_err err = {""};
    char what[96];

    tutti_random_seed(&random_source, tutti_random_hash(test_seed, number, 0, 0));
    t = random_training();
    s = make_step(&t);
    snprintf(what, sizeof(what), "case %llu", (unsigned long long)number);
    if (s == NULL || judge(s, &err) < 0) {
        TEST_FAIL("%s: %s", what, s == NULL ? "cannot be made" : err.text);
        tutti_schedule_free(s);
        return;
    }
    play_on_both(s, what);
    tutti_schedule_free(s);
    t.spoil = (enum spoil)(1 + below(SPOIL_COUNT - 1));
    if (t.site_counts[t.spoil] == 0)
        return;
    t.spoil_site = below(t.site_counts[t.spoil]);
    s = make_step(&t);
    REQUIRE(s != NULL);
    snprintf(what, sizeof(what), "case %llu, spoilt by %s at %u", (unsigned long long)number,
             spoil_names[t.spoil], t.spoil_site);
    if (judge(s, &err) < 0) {
        refused[t.spoil]++;
        if (strstr(err.text, "rank ") == NULL || strstr(err.text, "step ") == NULL)
            TEST_FAIL("%s: names neither rank nor step: %s", what, err.text);
    } else {
        passed[t.spoil]++;
        play_on_both(s, what);
    }
    tutti_schedule_free(s);
}

TEST(what_is_let_pass_is_right_and_what_is_spoilt_is_refused)
{
    uint32_t refused[SPOIL_COUNT] = {0};
    uint32_t passed[SPOIL_COUNT] = {0};
    uint32_t played = 0;

    for (uint64_t number = 0; number < 1000; number++) {
        if (!test_takes())
            continue;
        one_case(number, refused, passed);
        played++;
    }
    printf("%u training steps right on sim and threads\n", played);
    for (int spoil = 1; spoil < SPOIL_COUNT; spoil++)
        printf("%-16s refused %3u, right all the same %3u\n", spoil_names[spoil], refused[spoil],
               passed[spoil]);
    CHECK_INT(passed[SPOIL_CALL], 0);
    CHECK_INT(passed[SPOIL_ORDER], 0);
    CHECK_INT(passed[SPOIL_AXIS], 0);
    CHECK(refused[SPOIL_DEPENDENCY] > 0 && refused[SPOIL_PLACE] > 0 && refused[SPOIL_WORK] > 0);
}
