/* A question that says little: what is left out is what the command would take, and nothing is
 * priced by mistake. tests/install/consume.sh holds the same against the command itself. */
#include "runtime/status.h"
#include "sim/calib.h"
#include "sim/predict.h"
#include "tests/test.h"

static struct tutti_topo *machine(const char *spec)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    return topo;
}

static struct tutti_ask bare(const struct tutti_topo *topo, uint64_t count)
{
    return (struct tutti_ask){
        .size = sizeof(struct tutti_ask), .topo = topo, .params = {.count = count}};
}

/* With everything said. */
static struct tutti_ask full(const struct tutti_topo *topo, uint64_t count,
                             const struct tutti_calibrated *costs, const char *algorithm,
                             const char *protocol)
{
    return (struct tutti_ask){
        .size = sizeof(struct tutti_ask),
        .topo = topo,
        .algorithm = algorithm,
        .params = {.collective = TUTTI_ALLREDUCE,
                   .dtype = TUTTI_FLOAT32,
                   .op = TUTTI_SUM,
                   .count = count,
                   .slice_count = 1,
                   .slot_count = TUTTI_SLOTS_DEFAULT},
        .protocol = protocol,
        .protocols = costs->protocols,
        .model = TUTTI_MODEL_FAIR,
        .seed = TUTTI_STANDARD_SEED,
        .fold = "auto",
        .seconds_max = TUTTI_STANDARD_SECONDS,
        .step_count_max = TUTTI_STANDARD_STEPS,
    };
}

TEST(what_is_not_said_is_what_the_command_takes)
{
    static const struct {
        const char *spec;
        const char *algorithm;
        const char *protocol;
    } cases[] = {{"dgx-h100", "nccl", "auto"},
                 {"mi300x:nodes=2", "nccl", "auto"},
                 {"tpu-v4:4x4x4", "auto", "none"},
                 {"ring:n=5", "auto", "none"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_topo *topo = machine(cases[i].spec);
        struct tutti_calibrated costs;
        struct tutti_answer said = {.time_ps = 1};
        struct tutti_answer seen = {.time_ps = 2};
        struct tutti_err err;
        struct tutti_ask ask;

        CHECK_TEXT(tutti_predict_protocol(topo), cases[i].protocol);
        CHECK_OK(tutti_calibrated_for(topo, &costs, &err), err);
        for (uint64_t count = 1000; count <= 100000000; count *= 100) {
            ask = full(topo, count, &costs, cases[i].algorithm, cases[i].protocol);
            CHECK_OK(tutti_predict(&ask, &said, &err), err);
            ask = bare(topo, count);
            CHECK_OK(tutti_predict(&ask, &seen, &err), err);
            CHECK_TEXT(seen.algorithm, said.algorithm);
            CHECK_TEXT(seen.protocol, said.protocol);
            CHECK_INT(seen.time_ps, said.time_ps);
        }
        tutti_topo_free(topo);
    }
}

/* The same where NCCL is asked of what it does not do. */
TEST(what_nccl_does_not_do_is_done_by_the_fastest)
{
    struct tutti_topo *topo = machine("dgx-h100");
    struct tutti_answer answer = {.time_ps = 0};
    struct tutti_err err;
    struct tutti_ask ask = bare(topo, 0);

    ask.params.collective = TUTTI_BARRIER;
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    CHECK(strncmp(answer.algorithm, "nccl", 4) != 0);
    ask.algorithm = "nccl";
    CHECK_INT(tutti_predict(&ask, &answer, &err), -TUTTI_EINVAL);
    tutti_topo_free(topo);
}

/* Costs of its own are remembered with the rest, and NCCL's own can be asked for. */
TEST(costs_can_be_remembered_and_chosen)
{
    struct tutti_topo *topo = machine("dgx-h100");
    struct tutti_answer once;
    struct tutti_answer again;
    struct tutti_answer nccls;
    struct tutti_answer none;
    struct tutti_err err;
    struct tutti_ask ask = bare(topo, 1 << 20);

    CHECK_OK(tutti_predict(&ask, &once, &err), err);
    CHECK_OK(tutti_predict_memory_new(&ask.memory, &err), err);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(tutti_predict(&ask, &again, &err), err);
        CHECK_INT(again.time_ps, once.time_ps);
    }
    tutti_predict_memory_free(ask.memory);
    ask.memory = NULL;
    ask.protocols = tutti_protocols(NULL);
    CHECK_OK(tutti_predict(&ask, &nccls, &err), err);
    ask.protocol = "none";
    CHECK_OK(tutti_predict(&ask, &none, &err), err);
    CHECK(nccls.time_ps != once.time_ps);
    CHECK(none.time_ps < nccls.time_ps);
    tutti_topo_free(topo);
}

/* What the fastest was not looked for among is told; what does not fit, like a torus on a switch,
 * is nothing to tell. */
TEST(an_answer_tells_what_was_left_out)
{
    struct tutti_topo *topo = machine("switch:n=32");
    struct tutti_answer answer;
    struct tutti_err err;
    struct tutti_ask ask = bare(topo, 1 << 18);

    ask.fold = "off";
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    CHECK_INT(answer.left_out.count, 0);
    CHECK(answer.left_out.algorithm == NULL);
    CHECK_TEXT(answer.left_out.why, "");

    ask.step_count_max = 750;
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    CHECK_TEXT(answer.algorithm, "halving-doubling");
    CHECK_INT(answer.left_out.count, 4); /* one-shot cannot be the fastest, by its links' load */
    CHECK_TEXT(answer.left_out.algorithm, "ring");
    CHECK_TEXT(answer.left_out.why, "it takes about 6048 steps to simulate (at most 6000)");

    ask.algorithm = answer.algorithm; /* by name nothing is left out */
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    CHECK_INT(answer.left_out.count, 0);
    tutti_topo_free(topo);
}

/* So is what would take more than a second. */
TEST(what_takes_too_long_is_told_as_left_out)
{
    struct tutti_topo *topo = machine("switch:n=1200");
    struct tutti_answer answer;
    struct tutti_err err;
    struct tutti_ask ask = bare(topo, 600);

    ask.params.collective = TUTTI_REDUCESCATTER;
    ask.fold = "off";
    ask.seconds_max = 1;
    ask.step_count_max = UINT64_MAX;
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    CHECK_TEXT(answer.algorithm, "halving");
    CHECK(answer.left_out.count > 0);
    CHECK(strstr(answer.left_out.why, "at most 1") != NULL);
    tutti_topo_free(topo);
}

TEST(nothing_is_priced_by_mistake)
{
    struct tutti_topo *topo = machine("dgx-h100");
    struct tutti_answer answer;
    struct tutti_err err;
    struct tutti_ask ask = bare(topo, 0);

    CHECK_INT(tutti_predict(&ask, &answer, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "allreduce of 0 elements (params.count; set .empty if that is meant)");
    ask.empty = true;
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    CHECK_INT(answer.bytes, 0);
    ask.empty = false;
    ask.params.collective = TUTTI_BARRIER;
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    ask.topo = NULL;
    CHECK_INT(tutti_predict(&ask, &answer, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "a prediction needs a topology");
    tutti_topo_free(topo);
}

/* A caller that was compiled when struct tutti_ask ended with step_count_max. */
TEST(an_older_question_is_answered_as_before)
{
    struct tutti_topo *topo = machine("dgx-h100");
    struct tutti_answer now;
    struct tutti_answer then;
    struct tutti_err err;
    struct tutti_ask ask = bare(topo, 1 << 20);

    CHECK_OK(tutti_predict(&ask, &now, &err), err);
    ask.size = TUTTI_BYTES_TO(struct tutti_ask, step_count_max);
    ask.empty = true; /* what lies behind it is not looked at */
    CHECK_OK(tutti_predict(&ask, &then, &err), err);
    CHECK_INT(then.time_ps, now.time_ps);
    ask.params.count = 0;
    CHECK_INT(tutti_predict(&ask, &then, &err), -TUTTI_EINVAL);
    tutti_topo_free(topo);
}
