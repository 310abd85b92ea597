/* Training for real, told by a learner of two small layers whose gradients can be written down:
 * what strategies do to weights is the same, however they divide the work. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/backend.h"
#include "runtime/model.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/threads.h"
#include "runtime/train.h"
#include "tests/test.h"

/* ---- a learner: y = b + w2 (w1 x), squared error
 * ------------------------------------------------ */

enum { IN = 5, MID = 3, BATCH = 24, RANKS_MAX = 8, SLOW_MS = 20 };

static const struct tutti_variable first_variables[] = {
    {.name = "w1", .rows = IN, .elements = IN * MID}};
static const struct tutti_variable second_variables[] = {
    {.name = "w2", .rows = MID, .elements = MID}, {.name = "b", .rows = 1, .elements = 1}};
static const struct tutti_layer layers[] = {
    {.name = "first", .repeat = 1, .variables = first_variables, .variable_count = 1},
    {.name = "second", .repeat = 1, .variables = second_variables, .variable_count = 2}};
static const struct tutti_workload model = {
    .name = "pair", .layers = layers, .layer_count = 2, .sequence = 1};

enum { ELEMENTS = IN * MID + MID + 1 };

struct lesson {
    uint32_t rank_count;
    uint32_t micro_batches;
    uint64_t poisoned_step; /* rank 0's gradient of this step is infinite */
    uint32_t fails_at;      /* this rank's forward pass fails at step 2; UINT32_MAX: none */
    uint32_t slow_rank;     /* whose input takes SLOW_MS; 0: none's */
};

struct pupil {
    const struct lesson *lesson;
    uint32_t rank;
    uint64_t step;
    uint32_t first;
    uint32_t count;
    double scale;
    float mid[BATCH][MID];
    float error[BATCH];
    float w2[MID];
    struct tutti_sums sums;
};

/* Example `i` of step `step`: the same whoever computes it. */
static float input_at(uint64_t step, uint32_t i, uint32_t k)
{
    return (float)(tutti_random_hash(7, step, i, k) % 1000) / 1000 - 0.5f;
}

static float target_at(uint64_t step, uint32_t i)
{
    return 2 * input_at(step, i, 0) - input_at(step, i, 1) + 0.25f;
}

static struct pupil pupils[RANKS_MAX];

static int open_pupil(void *context, uint32_t rank, void **ret, struct tutti_err *err)
{
    (void)err;
    pupils[rank] = (struct pupil){.lesson = context, .rank = rank};
    *ret = &pupils[rank];
    return 0;
}

static int init(void *context, uint64_t seed, uint32_t layer, float *const *variables,
                struct tutti_err *err)
{
    (void)context;
    (void)err;
    for (uint32_t v = 0; v < layers[layer].variable_count; v++)
        for (uint32_t i = 0; i < layers[layer].variables[v].elements; i++)
            variables[v][i] = (float)(tutti_random_hash(seed, layer, v, i) % 100) / 100 - 0.5f;
    return 0;
}

static int input(void *replica, uint64_t step, uint32_t micro_batch, double scale,
                 struct tutti_err *err)
{
    struct pupil *p = replica;
    const uint32_t parts = p->lesson->rank_count * p->lesson->micro_batches;
    const uint32_t part = p->rank * p->lesson->micro_batches + micro_batch;

    (void)err;
    if (p->lesson->slow_rank > 0 && p->rank == p->lesson->slow_rank)
        (void)nanosleep(&(struct timespec){.tv_nsec = SLOW_MS * 1000000L}, NULL);
    p->step = step;
    p->first = BATCH * part / parts;
    p->count = BATCH * (part + 1) / parts - p->first;
    p->scale = scale / BATCH;
    return 0;
}

static int forward(void *replica, uint32_t layer, const float *const *variables,
                   struct tutti_err *err)
{
    struct pupil *p = replica;

    if (p->step == 2 && p->rank == p->lesson->fails_at)
        return tutti_fail(err, TUTTI_EIO, "the pupil has left");
    if (layer == 1)
        p->sums = (struct tutti_sums){0, 0, p->count};
    for (uint32_t i = 0; i < p->count; i++) {
        if (layer == 0) {
            for (uint32_t m = 0; m < MID; m++) {
                p->mid[i][m] = 0;
                for (uint32_t k = 0; k < IN; k++)
                    p->mid[i][m] += variables[0][k * MID + m] * input_at(p->step, p->first + i, k);
            }
            continue;
        }
        p->error[i] = variables[1][0] - target_at(p->step, p->first + i);
        for (uint32_t m = 0; m < MID; m++)
            p->error[i] += variables[0][m] * p->mid[i][m];
        p->sums.loss += 0.5 * (double)p->error[i] * (double)p->error[i];
    }
    return 0;
}

static int backward(void *replica, uint32_t layer, const float *const *variables,
                    float *const *gradients, bool add, struct tutti_err *err)
{
    struct pupil *p = replica;

    (void)err;
    for (uint32_t v = 0; v < layers[layer].variable_count && !add; v++)
        memset(gradients[v], 0, layers[layer].variables[v].elements * sizeof(float));
    if (layer == 1)
        memcpy(p->w2, variables[0], sizeof(p->w2));
    for (uint32_t i = 0; i < p->count; i++) {
        float slope = (float)((double)p->error[i] * p->scale);

        for (uint32_t m = 0; m < MID && layer == 1; m++)
            gradients[0][m] += slope * p->mid[i][m];
        if (layer == 1)
            gradients[1][0] += slope;
        for (uint32_t k = 0; k < IN && layer == 0; k++)
            for (uint32_t m = 0; m < MID; m++)
                gradients[0][k * MID + m] += slope * p->w2[m] * input_at(p->step, p->first + i, k);
    }
    if (layer == 1 && p->rank == 0 && p->lesson->poisoned_step == p->step + 1)
        gradients[1][0] = INFINITY;
    return 0;
}

static struct tutti_sums sums(const void *replica)
{
    return ((const struct pupil *)replica)->sums;
}

static int evaluate(void *replica, const float *const *variables, struct tutti_sums *ret,
                    struct tutti_err *err)
{
    const struct pupil *p = replica;

    (void)err;
    *ret = (struct tutti_sums){(double)variables[2][0], 0, p->rank + 1};
    return 0;
}

/* ---- training with it
 * -------------------------------------------------------------------------- */

struct course {
    const char *strategy;
    uint32_t rank_count;
    uint32_t micro_batches; /* 0: 1 */
    uint32_t shard_ranks;
    uint32_t steps;
    uint64_t pack_limit; /* 0: the strategy's own */
    enum tutti_dtype gradients;
    const char *optimizer; /* NULL: momentum */
    uint64_t poisoned_step;
    uint32_t local_steps;
    double outer_rate;
    uint32_t fails_at; /* rank + 1; 0: none */
    uint32_t slow_rank;
    const char *checkpoint;
    uint64_t save_steps;
};

struct report {
    float weights[ELEMENTS];
    double first_loss, last_loss;
    double scale;
    bool skipped[64];
    bool in_sync;
    double computed_s[RANKS_MAX], layers_s[RANKS_MAX]; /* of the last step */
    double first_aside_s;                              /* rank 0's input, sums and the rest */
    uint64_t began_at;
    int status;
    struct tutti_err err;
};

static void note_times(const struct tutti_trainer *trainer, const struct tutti_trained *step,
                       uint32_t rank_count, struct report *report)
{
    for (uint32_t i = 0; i < rank_count; i++) {
        report->computed_s[i] = tutti_trainer_computed_s(trainer, i);
        report->layers_s[i] = tutti_trainer_layers_s(trainer, i);
    }
    report->first_aside_s = (double)(step->input_ps + step->update_ps) / (double)TUTTI_PS_PER_S;
}

static struct report take_course(const struct course *c)
{
    struct lesson lesson = {.rank_count = c->rank_count,
                            .micro_batches = c->micro_batches > 0 ? c->micro_batches : 1,
                            .poisoned_step = c->poisoned_step,
                            .fails_at = c->fails_at - 1,
                            .slow_rank = c->slow_rank};
    const struct tutti_learner learner = {.size = sizeof(learner),
                                          .context = &lesson,
                                          .open = open_pupil,
                                          .init = init,
                                          .input = input,
                                          .forward = forward,
                                          .backward = backward,
                                          .sums = sums,
                                          .evaluate = evaluate};
    struct tutti_strategy strategy;
    struct tutti_trainer_params params = {.size = sizeof(params),
                                          .strategy = &strategy,
                                          .model = &model,
                                          .learner = &learner,
                                          .rank_count = c->rank_count,
                                          .shard_ranks = c->shard_ranks,
                                          .micro_batches = c->micro_batches,
                                          .seed = 11,
                                          .gradients = c->gradients,
                                          .check_sync = true,
                                          .outer_rate = c->outer_rate,
                                          .checkpoint = c->checkpoint,
                                          .save_steps = c->save_steps};
    struct report report = {.in_sync = true};
    struct tutti_trainer *trainer = NULL;

    CHECK_OK(tutti_strategy_named(c->strategy, &strategy, &report.err), report.err);
    CHECK_OK(tutti_update_named(c->optimizer != NULL ? c->optimizer : "momentum", &params.optimizer,
                                &report.err),
             report.err);
    if (c->pack_limit > 0)
        strategy.limit = strategy.first_limit = c->pack_limit;
    if (c->local_steps > 0)
        strategy.local_steps = c->local_steps;
    if (c->gradients == TUTTI_FLOAT16)
        params.loss_scale = tutti_loss_scale_dynamic();
    CHECK_OK(tutti_threads_open(NULL, &params.backend, &report.err), report.err);
    report.status = tutti_trainer_open(&params, &trainer, &report.err);
    report.began_at = report.status == 0 ? tutti_trainer_steps(trainer) : 0;
    for (uint64_t i = report.began_at; i < c->steps && report.status == 0;) {
        struct tutti_trained step;

        report.status = tutti_trainer_step(trainer, &step, &report.err);
        if (report.status < 0)
            break;
        CHECK_INT(step.step, i);
        report.in_sync = report.in_sync && step.in_sync;
        report.skipped[i] = step.skipped;
        report.last_loss = step.sums.loss / step.sums.examples;
        report.scale = step.loss_scale;
        note_times(trainer, &step, c->rank_count, &report);
        if (i == report.began_at)
            report.first_loss = report.last_loss;
        i += step.step_count;
        CHECK_INT(tutti_trainer_steps(trainer), i);
    }
    if (report.status == 0 && c->steps % (c->save_steps + 1) == 0)
        report.status = tutti_trainer_save(trainer, &report.err);
    if (report.status == 0)
        report.status = tutti_trainer_weights(trainer, report.weights, &report.err);
    tutti_trainer_close(trainer);
    tutti_backend_close(params.backend);
    return report;
}

static double distance(const struct report *a, const struct report *b)
{
    double difference = 0;
    double size = 0;

    for (uint32_t i = 0; i < ELEMENTS; i++) {
        difference += pow((double)a->weights[i] - (double)b->weights[i], 2);
        size += pow((double)b->weights[i], 2);
    }
    return sqrt(difference / size);
}

/* What one rank waits for its input is no work of its layers, and none of the others'. */
TEST(what_layers_take_is_told_of_each_rank_without_its_input)
{
    struct course c = {.strategy = "mirrored", .rank_count = 3, .steps = 2, .slow_rank = 2};
    struct report r = take_course(&c);

    CHECK_OK(r.status, r.err);
    CHECK(r.in_sync);
    CHECK(r.computed_s[2] - r.layers_s[2] >= SLOW_MS / 1e3);
    for (uint32_t i = 0; i < c.rank_count; i++)
        CHECK(r.layers_s[i] > 0 && r.layers_s[i] < r.computed_s[i]);
    CHECK(fabs(r.computed_s[0] - r.layers_s[0] - r.first_aside_s) < 1e-3);
}

TEST(one_replica_learns)
{
    const struct course course = {.strategy = "onedevice", .rank_count = 1, .steps = 64};
    struct report report = take_course(&course);

    CHECK_OK(report.status, report.err);
    CHECK(report.last_loss < 0.5 * report.first_loss);
}

TEST(strategies_come_to_the_weights_of_one_replica)
{
    static const struct course courses[] = {
        {.strategy = "mirrored", .rank_count = 2},
        {.strategy = "mirrored", .rank_count = 4, .pack_limit = 3},
        {.strategy = "mirrored", .rank_count = 3, .micro_batches = 2},
        {.strategy = "multiworkermirrored", .rank_count = 4, .pack_limit = 20},
        {.strategy = "central-storage", .rank_count = 3},
        {.strategy = "tpu", .rank_count = 4},
        {.strategy = "ddp", .rank_count = 4, .pack_limit = 8},
        {.strategy = "horovod", .rank_count = 2, .micro_batches = 3},
        {.strategy = "zero1", .rank_count = 4, .pack_limit = 8},
        {.strategy = "zero1", .rank_count = 3, .micro_batches = 2},
        {.strategy = "zero2", .rank_count = 4, .micro_batches = 2, .pack_limit = 8},
        {.strategy = "fsdp", .rank_count = 2},
        {.strategy = "fsdp", .rank_count = 5, .micro_batches = 2},
        {.strategy = "hsdp", .rank_count = 4, .shard_ranks = 2},
        {.strategy = "hsdp", .rank_count = 8, .shard_ranks = 4, .micro_batches = 3},
        {.strategy = "local-sgd", .rank_count = 4, .local_steps = 1, .optimizer = "sgd"},
    };

    for (size_t i = 0; i < sizeof(courses) / sizeof(courses[0]); i++) {
        struct course course = courses[i];
        struct course alone = {.strategy = "onedevice", .rank_count = 1};
        struct report report;
        struct report one;

        course.steps = alone.steps = 60;
        alone.optimizer = course.optimizer;
        report = take_course(&course);
        one = take_course(&alone);
        CHECK_OK(report.status, report.err);
        if (!(distance(&report, &one) <= 1e-6))
            TEST_FAIL("%s on %u: %g from one replica", course.strategy, course.rank_count,
                      distance(&report, &one));
        CHECK(fabs(report.last_loss - one.last_loss) <= 1e-6);
        CHECK(report.in_sync || strcmp(course.strategy, "local-sgd") == 0);
    }
}

TEST(adam_on_parts_of_weights_is_adam)
{
    const struct course whole = {
        .strategy = "ddp", .rank_count = 4, .steps = 50, .optimizer = "adam"};
    const struct course parts = {
        .strategy = "fsdp", .rank_count = 4, .steps = 50, .optimizer = "adam"};
    struct report a = take_course(&whole);
    struct report b = take_course(&parts);

    CHECK_OK(a.status, a.err);
    CHECK_OK(b.status, b.err);
    CHECK(distance(&a, &b) <= 1e-6);
}

TEST(the_same_course_gives_the_same_bits)
{
    const struct course course = {
        .strategy = "multiworkermirrored", .rank_count = 4, .steps = 30, .pack_limit = 20};
    struct report a = take_course(&course);
    struct report b = take_course(&course);

    CHECK_OK(a.status, a.err);
    CHECK(memcmp(a.weights, b.weights, sizeof(a.weights)) == 0);
}

TEST(an_infinite_gradient_of_one_rank_is_skipped_by_all)
{
    static const char *const names[] = {"mirrored", "fsdp", "zero1"};

    for (size_t i = 0; i < 3; i++) {
        const struct course course = {.strategy = names[i],
                                      .rank_count = 4,
                                      .steps = 8,
                                      .gradients = TUTTI_FLOAT16,
                                      .poisoned_step = 4};
        struct report report = take_course(&course);

        CHECK_OK(report.status, report.err);
        for (uint32_t step = 0; step < course.steps; step++)
            CHECK_INT(report.skipped[step], step == 3);
        CHECK(report.scale == 16384);
        CHECK(report.in_sync);
        CHECK(isfinite(report.last_loss));
    }
}

TEST(gradients_of_16_bits_come_near)
{
    static const enum tutti_dtype dtypes[] = {TUTTI_FLOAT16, TUTTI_BFLOAT16};
    const struct course exact = {.strategy = "ddp", .rank_count = 4, .steps = 60};
    struct report one = take_course(&exact);

    for (size_t i = 0; i < 2; i++) {
        const struct course course = {.strategy = "ddp",
                                      .rank_count = 4,
                                      .steps = 60,
                                      .micro_batches = 2,
                                      .gradients = dtypes[i]};
        struct report report = take_course(&course);

        CHECK_OK(report.status, report.err);
        CHECK(distance(&report, &one) <= (i == 0 ? 2e-3 : 2e-2));
        CHECK(distance(&report, &one) > 0);
    }
}

TEST(local_steps_are_averaged)
{
    const struct course local = {
        .strategy = "local-sgd", .rank_count = 4, .steps = 50, .local_steps = 5};
    const struct course outer = {
        .strategy = "diloco", .rank_count = 4, .steps = 50, .local_steps = 5, .outer_rate = 0.7};
    struct report a = take_course(&local);
    struct report b = take_course(&outer);

    CHECK_OK(a.status, a.err);
    CHECK_OK(b.status, b.err);
    CHECK(a.in_sync && b.in_sync);
    CHECK(a.last_loss < 0.5 * a.first_loss);
    CHECK(b.last_loss < 0.5 * b.first_loss);
}

TEST(what_a_learner_says_ends_the_step)
{
    const struct course course = {
        .strategy = "mirrored", .rank_count = 3, .steps = 5, .fails_at = 2};
    struct report report = take_course(&course);

    CHECK_INT(report.status, -TUTTI_EIO);
    CHECK(strstr(report.err.text, "the pupil has left") != NULL);
    CHECK(strstr(report.err.text, "rank 1") != NULL);
}

static void remove_folder(const char *folder)
{
    char line[256];

    (void)snprintf(line, sizeof(line), "rm -rf '%s'", folder);
    CHECK_INT(system(line), 0);
}

/* Saved by four that share weights, gone on with by one that does not, and by three. */
TEST(training_goes_on_from_a_checkpoint)
{
    static const struct course later[] = {
        {.strategy = "fsdp", .rank_count = 4},
        {.strategy = "onedevice", .rank_count = 1},
        {.strategy = "zero1", .rank_count = 3, .pack_limit = 8},
        {.strategy = "mirrored", .rank_count = 2},
    };
    struct course all = {.strategy = "fsdp", .rank_count = 4, .steps = 40, .optimizer = "adam"};
    struct report undisturbed = take_course(&all);

    for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
        char folder[] = "/tmp/tutti-trainer-XXXXXX";
        struct course course = all;
        struct report report;

        CHECK(mkdtemp(folder) != NULL);
        course.steps = 20;
        course.save_steps = 9; /* and at the end */
        course.checkpoint = folder;
        report = take_course(&course);
        CHECK_OK(report.status, report.err);
        CHECK_INT(report.began_at, 0);
        course = later[i];
        course.steps = 40;
        course.optimizer = "adam";
        course.checkpoint = folder;
        report = take_course(&course);
        CHECK_OK(report.status, report.err);
        CHECK_INT(report.began_at, 20);
        CHECK(distance(&report, &undisturbed) <= 1e-6);
        if (i == 0)
            CHECK(memcmp(report.weights, undisturbed.weights, sizeof(report.weights)) == 0);
        remove_folder(folder);
    }
}
