/* Replicas of a program of one's own: its loop with all-reduces, its model in one call, its data;
 * by threads and by processes over tcp. */
#include <math.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/random.h"
#include "runtime/replica.h"
#include "runtime/status.h"
#include "tests/runtime/ports.h"
#include "tests/test.h"

enum { REPLICAS_MAX = 4, WEIGHTS = 5 };

static struct tutti_replicas *open_threads(const char *strategy, uint32_t count)
{
    const struct tutti_replicas_params params = {
        .size = sizeof(params), .strategy = strategy, .replica_count = count};
    struct tutti_replicas *replicas = NULL;
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_replicas_open(&params, &replicas, &err), err);
    return replicas;
}

/* ---- who takes part -------------------------------------------------------------------------- */

static void refuses(struct tutti_replicas_params params, const char *message)
{
    struct tutti_replicas *replicas = NULL;
    struct tutti_err err = {.text = ""};

    params.size = sizeof(params);
    CHECK_INT(tutti_replicas_open(&params, &replicas, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, message);
    CHECK(replicas == NULL);
}

#define TRAINED                                                                               \
    "onedevice, mirrored, multiworkermirrored, parameter-server, central-storage, tpu, ddp, " \
    "horovod, zero1, zero2, fsdp, hsdp, local-sgd, diloco)"

TEST(a_strategy_that_is_none_is_told_which_there_are)
{
    refuses((struct tutti_replicas_params){.strategy = NULL}, "no strategy (" TRAINED);
    refuses((struct tutti_replicas_params){.strategy = "mirored"},
            "unknown strategy 'mirored' (did you mean 'mirrored'? all: " TRAINED);
    refuses((struct tutti_replicas_params){.strategy = "parameter-server"},
            "strategy 'parameter-server' without servers (TF_CONFIG with a cluster of 'ps' and "
            "'worker')");
    refuses((struct tutti_replicas_params){.strategy = "parameter-servers"},
            "unknown strategy 'parameter-servers' (did you mean 'parameter-server'? all: " TRAINED);
    refuses((struct tutti_replicas_params){.strategy = "onedevice", .replica_count = 2},
            "strategy 'onedevice' on '2' replicas (1, or mirrored)");
}

TEST(the_environment_says_how_many_unless_the_program_does)
{
    struct tutti_replicas *replicas;

    (void)setenv("TUTTI_REPLICAS", "3", 1);
    replicas = open_threads("mirrored", 0);
    CHECK_INT(tutti_replicas_num_in_sync(replicas), 3);
    CHECK_TEXT(tutti_replicas_title(replicas), "mirrored, 3 replicas in 1 process");
    CHECK(tutti_replicas_is_chief(replicas));
    tutti_replicas_close(replicas);
    replicas = open_threads("mirrored", 2);
    CHECK_INT(tutti_replicas_num_in_sync(replicas), 2);
    tutti_replicas_close(replicas);
    replicas = open_threads("onedevice", 0);
    CHECK_INT(tutti_replicas_num_in_sync(replicas), 1);
    tutti_replicas_close(replicas);
    (void)setenv("TUTTI_REPLICAS", "many", 1);
    refuses((struct tutti_replicas_params){.strategy = "mirrored"},
            "variable 'TUTTI_REPLICAS': 'many' (1 to 4096)");
    (void)unsetenv("TUTTI_REPLICAS");
    (void)setenv("TF_CONFIG",
                 "{\"cluster\":{\"worker\":[\"127.0.0.1:4001\",\"127.0.0.1:4002\"]},"
                 "\"task\":{\"type\":\"worker\",\"index\":1}}",
                 1);
    refuses((struct tutti_replicas_params){.strategy = "mirrored"},
            "strategy 'mirrored' is of one process, and TF_CONFIG has started "
            "2 (multiworkermirrored)");
    (void)unsetenv("TF_CONFIG");
}

/* ---- a loop of one's own --------------------------------------------------------------------- */

static int sums_and_means(struct tutti_replica_context *replica, void *context,
                          struct tutti_err *err)
{
    const uint32_t n = replica->num_replicas_in_sync;
    uint32_t *seen = context;

    for (size_t count = 0; count < 40; count += 13) {
        float sums[40];
        double means[3] = {replica->replica_id, 2.0 * replica->replica_id, 1};
        int32_t most = (int32_t)replica->replica_id;

        for (size_t i = 0; i < count; i++)
            sums[i] = (float)(replica->replica_id + i);
        if (tutti_replica_all_reduce(replica, TUTTI_SUM, TUTTI_FLOAT32, sums, count, err) < 0 ||
            tutti_replica_all_reduce(replica, TUTTI_MEAN, TUTTI_FLOAT64, means, 3, err) < 0 ||
            tutti_replica_all_reduce(replica, TUTTI_MAX, TUTTI_INT32, &most, 1, err) < 0)
            return -TUTTI_EIO;
        for (size_t i = 0; i < count; i++)
            if (sums[i] < (float)(n * (n - 1) / 2 + n * i) ||
                sums[i] > (float)(n * (n - 1) / 2 + n * i))
                return tutti_fail(err, TUTTI_ECHECK, "%zu floats: a sum of %g", count,
                                  (double)sums[i]);
        if (fabs(means[0] - (n - 1) / 2.0) > 0 || fabs(means[1] - (n - 1)) > 0 ||
            fabs(means[2] - 1) > 0 || most != (int32_t)n - 1)
            return tutti_fail(err, TUTTI_ECHECK, "means of %g, %g", means[0], means[1]);
    }
    seen[replica->replica_id] = n;
    return 0;
}

TEST(all_replicas_have_the_sum_and_the_mean)
{
    for (uint32_t n = 1; n <= REPLICAS_MAX; n++) {
        struct tutti_replicas *replicas = open_threads(n == 1 ? "onedevice" : "mirrored", n);
        uint32_t seen[REPLICAS_MAX] = {0};
        struct tutti_err err = {.text = ""};

        for (int again = 0; again < 2; again++)
            CHECK_OK(tutti_replicas_run(replicas, sums_and_means, seen, &err), err);
        for (uint32_t i = 0; i < n; i++)
            CHECK_INT(seen[i], n);
        tutti_replicas_close(replicas);
    }
}

enum mistake { OTHER_COUNT, ENDS_EARLY, FAILS };

static int mistaken(struct tutti_replica_context *replica, void *context, struct tutti_err *err)
{
    const enum mistake mistake = *(const enum mistake *)context;
    float values[4] = {0};
    int status = tutti_replica_all_reduce(replica, TUTTI_SUM, TUTTI_FLOAT32, values, 4, err);

    if (status < 0 || (replica->replica_id == 1 && mistake == ENDS_EARLY))
        return status;
    if (replica->replica_id == 1 && mistake == FAILS)
        return tutti_fail(err, TUTTI_EIO, "no more examples");
    return tutti_replica_all_reduce(replica, TUTTI_SUM, TUTTI_FLOAT32, values,
                                    replica->replica_id == 1 ? 3 : 4, err);
}

TEST(who_calls_otherwise_is_told_and_nobody_waits_for_ever)
{
    static const char *const texts[] = {
        [OTHER_COUNT] = "replica 1 asks for an all-reduce of '3' float, replica 0 of 4 float (all "
                        "for the same)",
        [ENDS_EARLY] = "2 of 3 replicas wait in an all-reduce, the others have ended (all make the "
                       "same calls)",
        [FAILS] = "no more examples"};

    for (enum mistake mistake = OTHER_COUNT; mistake <= FAILS; mistake++) {
        struct tutti_replicas *replicas = open_threads("mirrored", 3);
        uint32_t seen[REPLICAS_MAX];
        struct tutti_err err = {.text = ""};

        CHECK(tutti_replicas_run(replicas, mistaken, &mistake, &err) < 0);
        CHECK_TEXT(err.text, texts[mistake]);
        CHECK_OK(tutti_replicas_run(replicas, sums_and_means, seen, &err), err);
        tutti_replicas_close(replicas);
    }
}

/* ---- a model of one's own -------------------------------------------------------------------- */

static const struct tutti_replica_variable shapes[] = {{"w", 2, 2}, {"b", 1, 0}};

/* What a test wants of the model y = w0 x0 + w1 x1 + w2 x0 x1 + w3 x0^2 + b. */
struct world {
    uint32_t miscounts_at; /* this step; 0: none */
    atomic_uint seen[64];  /* how often each example was trained on */
    struct tutti_replicas *stops;
};

static int read_example(void *context, uint64_t example, float *x, float *y, struct tutti_err *err)
{
    (void)context;
    (void)err;
    for (uint32_t k = 0; k < 2; k++)
        x[k] = (float)(tutti_random_hash(3, example, k, 0) % 1000) / 500 - 1;
    *y = 0.5f * x[0] - x[1] + 2 * x[0] * x[1] + 0.25f;
    return 0;
}

static int init(void *context, uint64_t seed, float *const *params, struct tutti_err *err)
{
    (void)context;
    (void)err;
    for (uint32_t i = 0; i < 4; i++)
        params[0][i] = (float)(tutti_random_hash(seed, i, 0, 0) % 100) / 100;
    return 0;
}

static int forward_backward(void *replica, const struct tutti_replica_batch *batch,
                            const float *const *params, float *const *grads, struct tutti_sums *ret,
                            struct tutti_err *err)
{
    struct world *world = replica;

    for (uint32_t i = 0; i < batch->count; i++) {
        float x[2], y, error = params[1][0], features[4];

        if (batch->inputs != NULL) {
            memcpy(x, batch->inputs + 2 * i, sizeof(x));
            y = batch->targets[i];
        } else
            (void)read_example(NULL, batch->examples[i], x, &y, err);
        memcpy(features, (float[]){x[0], x[1], x[0] * x[1], x[0] * x[0]}, sizeof(features));
        for (uint32_t k = 0; k < 4; k++)
            error += params[0][k] * features[k];
        error -= y;
        ret->loss += 0.5 * (double)error * (double)error;
        for (uint32_t k = 0; k < 4 && grads != NULL; k++)
            grads[0][k] += error * features[k];
        if (grads != NULL)
            grads[1][0] += error;
        if (grads != NULL && batch->examples[i] < 64)
            atomic_fetch_add(&world->seen[batch->examples[i]], 1);
    }
    ret->examples = batch->count;
    if (world->miscounts_at > 0 && batch->step + 1 == world->miscounts_at)
        ret->examples--;
    if (world->stops != NULL && batch->step == 3)
        tutti_replicas_stop(world->stops);
    return 0;
}

static struct tutti_replica_model model_of(struct world *world)
{
    return (struct tutti_replica_model){.size = sizeof(struct tutti_replica_model),
                                        .name = "quadratic",
                                        .variables = shapes,
                                        .variable_count = 2,
                                        .context = world,
                                        .init = init,
                                        .forward_backward = forward_backward,
                                        .example_count = 60,
                                        .held_out_count = 17,
                                        .input_count = 2,
                                        .read = read_example};
}

static const struct tutti_replica_training usual = {.size = sizeof(struct tutti_replica_training),
                                                    .steps = 90,
                                                    .global_batch = 24,
                                                    .optimizer = "momentum",
                                                    .learning_rate = 0.05,
                                                    .seed = 5,
                                                    .check_sync = true};

struct outcome {
    float weights[WEIGHTS];
    struct tutti_replica_result result;
    struct tutti_err err;
    int status;
};

static struct outcome train(const char *strategy, uint32_t count, struct tutti_replica_model model,
                            struct tutti_replica_training training)
{
    struct tutti_replicas *replicas = open_threads(strategy, count);
    struct world *world = model.context;
    struct outcome outcome = {.status = 0};

    if (world->stops != NULL)
        world->stops = replicas;
    outcome.status = tutti_replicas_train(replicas, &model, &training, outcome.weights,
                                          &outcome.result, &outcome.err);
    tutti_replicas_close(replicas);
    return outcome;
}

static double distance(const float *a, const float *b)
{
    double difference = 0, size = 0;

    for (int i = 0; i < WEIGHTS; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)a[i] * (double)a[i];
    }
    return sqrt(difference / size);
}

TEST(a_global_batch_teaches_the_same_on_any_number_of_replicas)
{
    static const char *const strategies[] = {"mirrored", "multiworkermirrored", "ddp", "zero2",
                                             "fsdp",     "central-storage",     "tpu"};
    struct world world = {0};
    const struct outcome one = train("onedevice", 1, model_of(&world), usual);

    CHECK_OK(one.status, one.err);
    CHECK_INT(one.result.steps, 90);
    CHECK(one.result.held_out.examples == 17);
    CHECK(one.result.held_out.loss / 17 < 1e-4);
    for (int i = 0; i < 60; i++) /* 60 examples in batches of 24: 3 steps an epoch */
        CHECK_INT(world.seen[i], 30);
    for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++)
        for (uint32_t n = 2; n <= REPLICAS_MAX; n++) {
            struct tutti_replica_training parts = usual;
            struct outcome more;

            if (test_is_slow() && n != 2 + i % (REPLICAS_MAX - 1))
                continue;
            more = train(strategies[i], n, model_of(&world), usual);
            CHECK_OK(more.status, more.err);
            CHECK(distance(one.weights, more.weights) <= 1e-6);
            CHECK(more.result.held_out.examples == 17);
            parts.micro_batches = 3;
            more = train(strategies[i], n, model_of(&world), parts);
            CHECK_OK(more.status, more.err);
            CHECK(distance(one.weights, more.weights) <= 1e-6);
        }
}

/* Numbers alone, of a set or of a stream without an end: the same examples, read by the model. */
TEST(examples_by_number_are_those_that_are_read)
{
    struct world world = {0};
    struct tutti_replica_model model = model_of(&world);
    const struct outcome read = train("mirrored", 3, model, usual);
    struct outcome numbers, streams[2];

    model.read = NULL;
    numbers = train("mirrored", 3, model, usual);
    CHECK_OK(numbers.status, numbers.err);
    CHECK(numbers.result.weights_hash == read.result.weights_hash);
    CHECK(numbers.result.held_out.examples == 17);
    model.example_count = model.held_out_count = 0;
    memset(world.seen, 0, sizeof(world.seen));
    for (uint32_t n = 0; n < 2; n++)
        streams[n] = train(n == 0 ? "onedevice" : "mirrored", n == 0 ? 1 : 3, model, usual);
    CHECK_OK(streams[0].status, streams[0].err);
    CHECK_OK(streams[1].status, streams[1].err);
    CHECK(distance(streams[0].weights, streams[1].weights) <= 1e-6);
    for (int i = 0; i < 64; i++) /* each once in each of two trainings */
        CHECK_INT(world.seen[i], 2);
}

TEST(a_data_set_goes_by_its_name)
{
    struct world world = {0};
    struct tutti_replica_model model = model_of(&world);
    struct outcome outcome;

    model.example_count = model.held_out_count = model.input_count = 0;
    model.read = NULL;
    model.data = "no-such-set";
    outcome = train("mirrored", 2, model, usual);
    CHECK_INT(outcome.status, -TUTTI_EINVAL);
    CHECK(strstr(outcome.err.text, "no-such-set") != NULL);
    model.read = read_example;
    model.example_count = 10;
    model.input_count = 2;
    outcome = train("mirrored", 2, model, usual);
    CHECK_TEXT(
        outcome.err.text,
        "model 'quadratic' has data set 'no-such-set' and examples of its own (one of them)");
}

TEST(a_wrong_count_is_named)
{
    struct world world = {.miscounts_at = 2};
    struct outcome outcome = train("mirrored", 2, model_of(&world), usual);

    CHECK_INT(outcome.status, -TUTTI_EINVAL);
    CHECK(strstr(outcome.err.text,
                 "step 1: forward_backward counts '11' examples of a batch of 12") != NULL);
}

/* Stopped after the same step on all replicas, saved, and gone on with by another number. */
TEST(stopped_saved_and_gone_on_with)
{
    char folder[] = "/tmp/tutti_replica_XXXXXX";
    char command[64];
    struct world world = {.stops = (struct tutti_replicas *)&world};
    struct tutti_replica_training training = usual;
    struct outcome stopped, after;
    const struct outcome whole = train("onedevice", 1, model_of(&(struct world){0}), usual);

    REQUIRE(mkdtemp(folder) != NULL);
    training.checkpoint = folder;
    stopped = train("mirrored", 2, model_of(&world), training);
    CHECK_OK(stopped.status, stopped.err);
    CHECK(stopped.result.stopped);
    CHECK_INT(stopped.result.steps, 5);
    world.stops = NULL;
    after = train("fsdp", 3, model_of(&world), training);
    CHECK_OK(after.status, after.err);
    CHECK(!after.result.stopped);
    CHECK_INT(after.result.steps, 90);
    CHECK(distance(whole.weights, after.weights) <= 1e-6);
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    CHECK_INT(system(command), 0);
}

/* ---- processes ------------------------------------------------------------------------------- */

/* What processes found, in memory that they share. */
struct shared {
    struct outcome outcome[2];
    int loop_status[2];
    struct tutti_err loop_err[2];
};

static void be_process(uint32_t index, uint16_t port, uint64_t seed, struct shared *shared)
{
    const struct tutti_replicas_params params = {.size = sizeof(params),
                                                 .strategy = "multiworkermirrored",
                                                 .replica_count = 2,
                                                 .deadline_ps = 20 * TUTTI_PS_PER_S};
    struct outcome *o = &shared->outcome[index];
    struct world world = {0};
    const struct tutti_replica_model model = model_of(&world);
    struct tutti_replica_training training = usual;
    struct tutti_replicas *replicas = NULL;
    uint32_t seen[REPLICAS_MAX];
    char text[64];

    (void)setenv("TUTTI_RANK", index == 0 ? "0" : "1", 1);
    (void)setenv("TUTTI_SIZE", "2", 1);
    snprintf(text, sizeof(text), "127.0.0.1:%u", port);
    (void)setenv("TUTTI_ROOT", text, 1);
    training.seed = seed;
    o->status = tutti_replicas_open(&params, &replicas, &o->err);
    if (o->status == 0)
        shared->loop_status[index] =
            tutti_replicas_run(replicas, sums_and_means, seen, &shared->loop_err[index]);
    if (o->status == 0)
        o->status =
            tutti_replicas_train(replicas, &model, &training, o->weights, &o->result, &o->err);
    tutti_replicas_close(replicas);
}

/* Two processes of two replicas each, the second with seed `seed`. */
static struct shared *run_processes(uint64_t seed)
{
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const uint16_t port = test_free_port(test_seed + seed);
    pid_t pids[2];

    CHECK(shared != MAP_FAILED);
    fflush(NULL);
    for (uint32_t i = 0; i < 2; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            be_process(i, port, i == 0 ? usual.seed : seed, shared);
            _exit(0);
        }
    }
    for (uint32_t i = 0; i < 2; i++)
        CHECK_INT(waitpid(pids[i], NULL, 0), pids[i]);
    return shared;
}

TEST(processes_learn_to_the_bit_what_threads_do)
{
    struct world world = {0};
    const struct outcome threads = train("multiworkermirrored", 4, model_of(&world), usual);
    struct shared *shared = run_processes(usual.seed);

    CHECK_OK(threads.status, threads.err);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_OK(shared->loop_status[i], shared->loop_err[i]);
        CHECK_OK(shared->outcome[i].status, shared->outcome[i].err);
        CHECK(shared->outcome[i].result.weights_hash == threads.result.weights_hash);
        CHECK(memcmp(shared->outcome[i].weights, threads.weights, sizeof(threads.weights)) == 0);
    }
    (void)munmap(shared, sizeof(*shared));
}

TEST(processes_that_train_otherwise_are_told)
{
    struct shared *shared = run_processes(usual.seed + 1);

    for (uint32_t i = 0; i < 2; i++) {
        CHECK_INT(shared->outcome[i].status, -TUTTI_EINVAL);
        CHECK(strstr(shared->outcome[i].err.text,
                     i == 1 ? "process 0 of 2 has the training '90 steps by momentum 0.05, global "
                              "batch 24 in 1, seed 5, "
                            : "process 1 of 2 has the training '90 steps by momentum 0.05, global "
                              "batch 24 in 1, seed 6, ") != NULL);
    }
    (void)munmap(shared, sizeof(*shared));
}
