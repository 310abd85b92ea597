/* Sparse gradients that really train: rows that examples touch, gathered from all ranks, come to
 * the weights of dense gradients, at the bytes that they should take. */
#include "runtime/pack.h"
#include "runtime/record.h"
#include "runtime/schedule.h"
#include "tests/runtime/train_course.h"

enum { COLUMNS = 16, TABLE = 10000 * COLUMNS, DENSE = 16 * 16 + 16 + 16 * 4 + 4, WORDS = 32 };

static const struct course texts = {.model = "bag-of-words",
                                    .strategy = "ddp",
                                    .rank_count = 4,
                                    .global_batch = 48,
                                    .steps = 30,
                                    .rate = 0.01,
                                    .optimizer = "adam"};

/* Twice, sparse and dense: the same weights, to 1e-6. */
static void expect_dense(struct course c)
{
    struct outcome sparse;
    struct outcome dense;

    c.steps = test_is_slow() ? 7 : c.steps;
    sparse = take_course(&c);
    c.densify = true;
    dense = take_course(&c);
    CHECK(sparse.in_sync && dense.in_sync);
    if (!(distance(&sparse, &dense) <= 1e-6))
        TEST_FAIL("%s on %u: %g from dense", c.strategy, c.rank_count, distance(&sparse, &dense));
    free(sparse.weights);
    free(dense.weights);
}

TEST(rows_that_are_gathered_come_to_the_weights_of_dense_gradients)
{
    static const char *const strategies[] = {"ddp", "mirrored", "multiworkermirrored",
                                             "central-storage"};

    for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++) {
        struct course c = texts;

        c.strategy = strategies[i];
        c.rank_count = 2 + (uint32_t)i % 3;
        expect_dense(c);
    }
}

/* The last batch of an epoch leaves ranks unequally many examples, and some none: their slices are
 * padded, and the padding is not looked at. */
TEST(ranks_with_fewer_slices_are_padded)
{
    struct course c = texts;

    c.example_limit = 101; /* 48, 48, and 5: of 4 ranks 2, 2, 1 and none */
    expect_dense(c);
    c.micro_batches = 3;
    c.optimizer = "momentum";
    expect_dense(c);
}

/* A table of fewer rows than words are read: every row has its place. */
TEST(more_words_than_rows_send_all_rows)
{
    struct course c = texts;

    c.text = "model few\nsummary few words\nsource -\nsample row bytes 132\nlogits 4\n"
             "layer embedding\n"
             "  operation embedding embedding in 512 out 16\n"
             "  variable words elements 3200 rows 200 touched 32\n"
             "layer classes\n"
             "  operation classes matmul 1 x 16 x 4\n"
             "  operation loss loss in 4 out 1\n"
             "  variable classes elements 64 rows 16\n"
             "  variable classes.bias elements 4 rows 4\n";
    expect_dense(c);
    c.micro_batches = 2;
    expect_dense(c);
}

TEST(largest_elements_of_the_others_go_beside_rows)
{
    struct course c = texts;
    struct outcome a;
    struct outcome b;

    c.compression = TUTTI_COMPRESS_TOP_K;
    c.keep_ppm = 1000000;
    a = take_course(&c);
    c.compression = TUTTI_COMPRESS_NONE;
    b = take_course(&c);
    CHECK(distance(&a, &b) <= 1e-6);
    free(a.weights);
    free(b.weights);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* What ranks send in a step; *ret_first: rank 0. */
static uint64_t sent_bytes(struct course c, uint64_t *ret_first)
{
    struct tutti_record record;
    struct outcome o;
    uint64_t bytes = 0;

    *ret_first = 0;
    tutti_record_init(&record);
    c.record = &record;
    c.steps = 1;
    o = take_course(&c);
    for (size_t i = 0; i < record.event_count; i++) {
        const struct tutti_event *e = &record.events[i];

        bytes += e->kind == TUTTI_SEND ? e->bytes : 0;
        *ret_first += e->kind == TUTTI_SEND && e->rank == 0 ? e->bytes : 0;
    }
    tutti_record_done(&record);
    free(o.weights);
    return bytes;
}

TEST(each_rank_receives_the_sum_of_the_others_slices)
{
    enum { N = 4, TOUCHED = 48 / N * WORDS, A_ROW = COLUMNS * 4 + 8 };
    const struct tutti_slices slices = {
        .rows = 10000, .row_elements = COLUMNS, .element_bytes = 4, .index_bytes = 8};
    const uint64_t touched[N] = {TOUCHED, TOUCHED, TOUCHED, TOUCHED};
    const struct tutti_slices_bytes each = tutti_slices_gather(&slices, touched, N, 1);
    const uint64_t report = 2 * (N - 1) * 8 * (8 + 3 * N);
    const uint64_t dense = 2 * (N - 1) * 4 * (uint64_t)DENSE;
    struct course c = texts;
    uint64_t first;

    CHECK_INT(each.slice_bytes, (N - 1) * TOUCHED * A_ROW);
    CHECK_INT(each.padding_bytes, 0);
    CHECK_INT(each.length_bytes, 4 * (N - 1));
    c.strategy = "horovod";
    CHECK_INT(sent_bytes(c, &first), N * (each.slice_bytes + each.length_bytes) + dense + report);
    c.densify = true;
    CHECK_INT(sent_bytes(c, &first), dense + 2 * (N - 1) * 4 * (uint64_t)TABLE + report);
    /* To one device, which sends all of it to the others. */
    c = texts;
    c.strategy = "mirrored";
    CHECK_INT(sent_bytes(c, &first),
              (N - 1) * (1 + N) * (uint64_t)(TOUCHED * A_ROW + 4) + dense + report);
    CHECK(first > (N - 1) * N * (uint64_t)TOUCHED * A_ROW);
}

/* Below the crossover rows are fewer bytes, from it on dense gradients are not more. */
TEST(the_crossover_is_where_bytes_are_equal)
{
    enum { N = 4, A_ROW = COLUMNS * 4 + 8 };
    const struct tutti_slices slices = {
        .rows = 10000, .row_elements = COLUMNS, .element_bytes = 4, .index_bytes = 8};
    const uint64_t rows = tutti_slices_densify_rows(&slices, N);
    const uint64_t dense = 2 * (N - 1) * 4 * (uint64_t)TABLE;

    CHECK(N * (N - 1) * (rows * A_ROW + 4) >= dense);
    CHECK(N * (N - 1) * ((rows - 1) * A_ROW + 4) < dense);
}

/* ---- kept, and the schedule ------------------------------------------------------------------ */

/* Saved with sparse gradients, gone on with dense ones: a checkpoint knows variables, not how their
 * gradients travel. */
TEST(a_checkpoint_does_not_tell_sparse_from_dense)
{
    char folder[] = "/tmp/tutti-sparse-XXXXXX";
    struct course c = texts;
    struct outcome undisturbed = take_course(&c);
    struct outcome half;
    struct outcome rest;
    char line[128];

    CHECK(mkdtemp(folder) != NULL);
    c.checkpoint = folder;
    c.steps = 15;
    half = take_course(&c);
    c.steps = 30;
    c.densify = true;
    c.rank_count = 3;
    rest = take_course(&c);
    CHECK_INT(rest.began_at, 15);
    CHECK(distance(&rest, &undisturbed) <= 1e-6);
    (void)snprintf(line, sizeof(line), "rm -rf '%s'", folder);
    CHECK_INT(system(line), 0);
    free(undisturbed.weights);
    free(half.weights);
    free(rest.weights);
}

static int no_work(const struct tutti_work_call *call, struct tutti_err *err)
{
    (void)call;
    (void)err;
    return 0;
}

/* "allgather 1, allgather 8064, ...": what a lane calls and computes. */
static void read_lane(const struct tutti_strategy *strategy, const struct tutti_workload *model,
                      bool real, uint32_t lane, char *ret, size_t ret_bytes)
{
    static const struct tutti_layer_times times[8];
    const struct tutti_strategy_params params = {.size = sizeof(params),
                                                 .strategy = strategy,
                                                 .model = model,
                                                 .rank_count = 4,
                                                 .samples = 12,
                                                 .gradient_bytes = 4,
                                                 .weight_bytes = 4,
                                                 .times = times,
                                                 .run = real ? no_work : NULL};
    struct tutti_schedule *s = NULL;
    struct tutti_err err = {""};
    struct tutti_cursor cursor;
    const struct tutti_step *step;
    size_t used = 0;

    CHECK_OK(tutti_strategy_schedule(&params, &s, &err), err);
    REQUIRE(s != NULL);
    CHECK_OK(tutti_schedule_check(s, &err), err);
    CHECK_OK(tutti_schedule_prove(s, &err), err);
    tutti_cursor_open(&cursor, s, 0, lane);
    while ((step = tutti_cursor_next(&cursor)) != NULL && used < ret_bytes) {
        const struct tutti_contract *c =
            step->kind == TUTTI_CALL ? &s->callees[step->peer]->contract : NULL;

        if (c == NULL && strcmp(s->work[step->peer - 1].name, "input") == 0)
            continue; /* of real steps alone */
        used += (size_t)(c == NULL ? snprintf(ret + used, ret_bytes - used, "%s, ",
                                              s->work[step->peer - 1].name)
                                   : snprintf(ret + used, ret_bytes - used, "%s %llu, ",
                                              tutti_collective_name(c->collective),
                                              (unsigned long long)c->count));
    }
    tutti_schedule_free(s);
}

TEST(what_is_simulated_is_what_is_played)
{
    static const enum tutti_compression kinds[] = {TUTTI_COMPRESS_NONE, TUTTI_COMPRESS_TOP_K,
                                                   TUTTI_COMPRESS_POWER_SGD};
    static const char *const reduced[] = {
        "allgather 1, allgather 6912, allreduce 340, ",
        "allgather 1, allgather 6912, allgather 68, ",
        "allgather 1, allgather 6912, allreduce 116, orthogonalize, allreduce 32, "};

    for (size_t i = 0; i < 3; i++) {
        struct course c = texts;
        struct tutti_workload *model = course_model(&c);
        struct tutti_strategy strategy;
        char texts_of[2][2][512];

        c.compression = kinds[i];
        c.keep_ppm = 100000;
        c.factor_rank = 2;
        strategy = course_strategy(&c);
        for (uint32_t real = 0; real < 2; real++)
            for (uint32_t lane = 0; lane < 2; lane++)
                read_lane(&strategy, model, real == 1, lane, texts_of[real][lane],
                          sizeof(texts_of[0][0]));
        CHECK_TEXT(texts_of[0][TUTTI_LANE_REDUCE], reduced[i]);
        CHECK_TEXT(texts_of[1][TUTTI_LANE_REDUCE], texts_of[0][TUTTI_LANE_REDUCE]);
        CHECK_TEXT(texts_of[1][TUTTI_LANE_WORK], texts_of[0][TUTTI_LANE_WORK]);
        tutti_model_free(model);
    }
}

TEST(a_learner_without_slices_is_told_so)
{
    struct course c = texts;
    struct tutti_workload *model = course_model(&c);
    const struct tutti_strategy strategy = course_strategy(&c);
    const struct tutti_learner learner = {.size = sizeof(learner)};
    struct tutti_trainer_params params = {.size = sizeof(params),
                                          .strategy = &strategy,
                                          .model = model,
                                          .learner = &learner,
                                          .rank_count = 2};
    struct tutti_trainer *trainer = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_threads_open(NULL, &params.backend, &err), err);
    CHECK_INT(tutti_trainer_open(&params, &trainer, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "variable 'words'") != NULL);
    CHECK(strstr(err.text, "slices") != NULL);
    tutti_backend_close(params.backend);
    tutti_model_free(model);
}
