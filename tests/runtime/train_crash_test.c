/* A worker that is killed in step 140 of 200, with saves every 30: training goes on at step 120, on
 * the same or another number of processes, to the weights of one that nothing has happened to. Two
 * processes over tcp (tf.keras.callbacks.BackupAndRestore(save_freq=30) does as much). */
#include <sys/stat.h>

#include "runtime/backend.h"
#include "runtime/coll.h"
#include "runtime/model.h"
#include "runtime/shape.h"
#include "runtime/tcp.h"
#include "runtime/train.h"
#include "tests/runtime/kids.h"
#include "tests/test.h"

enum { STEPS = 200, CRASH = 140, SAVE = 30, SAVED = CRASH / SAVE * SAVE };

/* What the processes share with the test, beside what kids.h has. */
static struct {
    char folder[64];
    const char *strategy;
    bool crashes;
    struct tutti_learner learner; /* the library's */
} plan;

static int input_of(void *replica, uint64_t step, uint32_t micro_batch, double scale,
                    struct tutti_err *err)
{
    char path[128];
    struct stat seen;

    /* Saves are written behind: whoever dies before that of step 120 is committed goes on at 90. */
    (void)snprintf(path, sizeof(path), "%s/step-000120.0/manifest", plan.folder);
    for (int turn = 0; plan.crashes && step > SAVED && turn < 500 && stat(path, &seen) != 0; turn++)
        pause_us(2000);
    if (plan.crashes && step + 1 == CRASH)
        (void)kill(getpid(), SIGKILL);
    return plan.learner.input(replica, step, micro_batch, scale, err);
}

static int make_ring(void *context, const struct tutti_coll_params *params, uint32_t axis,
                     uint32_t size, struct tutti_schedule **ret, struct tutti_err *err)
{
    const struct tutti_shape shape = tutti_shape_flat(size);

    (void)context;
    (void)axis;
    return tutti_coll_generate("ring", params, &shape, ret, err);
}

static int steps_of(struct tutti_trainer *trainer, struct kid *kid, struct tutti_err *err)
{
    int status = 0;

    for (uint64_t i = tutti_trainer_steps(trainer); i < STEPS && status == 0; i++) {
        struct tutti_trained step;

        status = tutti_trainer_step(trainer, &step, err);
        atomic_store(&kid->at_step, (uint32_t)(i + 1));
    }
    return status == 0 ? tutti_trainer_save(trainer, err) : status;
}

static int train(struct tutti_group *group, struct tutti_workload *net, struct kid *kid,
                 struct tutti_err *err)
{
    const struct tutti_net_learner_params data = {.size = sizeof(data),
                                                  .model = net,
                                                  .global_batch = 8,
                                                  .rank_count = group->count,
                                                  .seed = 5};
    const struct tutti_tcp_opts tcp = {.size = sizeof(tcp), .group = group};
    struct tutti_net_learner_facts facts;
    struct tutti_strategy strategy;
    struct tutti_trainer_params params = {.size = sizeof(params),
                                          .strategy = &strategy,
                                          .model = net,
                                          .rank_count = group->count,
                                          .seed = 5,
                                          .collective = make_ring,
                                          .checkpoint = plan.folder,
                                          .save_steps = SAVE,
                                          .deadline_ps = 60 * TUTTI_PS_PER_S};
    struct tutti_trainer *trainer = NULL;
    float weights[2] = {0, 0};
    int status = tutti_net_learner_new(&data, &plan.learner, &facts, err);
    struct tutti_learner learner = plan.learner;

    learner.input = group->index + 1 == group->count ? input_of : plan.learner.input;
    params.learner = &learner;
    if (status == 0)
        status = tutti_strategy_named(plan.strategy, &strategy, err);
    if (status == 0)
        status = tutti_update_named("adam", &params.optimizer, err);
    if (status == 0)
        status = tutti_tcp_open(&tcp, &params.backend, err);
    if (status == 0)
        status = tutti_trainer_open(&params, &trainer, err);
    if (status == 0)
        atomic_store(&kid->stage, (int)tutti_trainer_steps(trainer) + 1);
    if (status == 0)
        status = steps_of(trainer, kid, err);
    if (status == 0)
        status = tutti_trainer_weights(trainer, weights, err);
    if (status == 0)
        (void)snprintf(kid->log, sizeof(kid->log), "%a %a", (double)weights[0], (double)weights[1]);
    tutti_trainer_close(trainer);
    tutti_net_learner_free(&plan.learner);
    tutti_backend_close(params.backend);
    return status;
}

static int story(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    struct tutti_workload *net = NULL;
    int status = tutti_model_new("linear-regression", NULL, &net, err);

    if (status == 0)
        status = train(group, net, kid, err);
    kid_end(kid, group, status, err);
    tutti_model_free(net);
    tutti_group_close(group);
    return status;
}

static void remove_folder(void)
{
    char line[128];

    (void)snprintf(line, sizeof(line), "rm -rf '%s'", plan.folder);
    CHECK_INT(system(line), 0);
}

static bool play(uint32_t count, const char *strategy, bool crashes)
{
    plan.strategy = strategy;
    plan.crashes = crashes;
    if (!kids_start(count, story))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!kid_reap(i, 120000))
            kids_kill();
    return test_failures == 0;
}

static void tell(const char *strategy)
{
    char undisturbed[KIDS_LOG_BYTES];

    (void)snprintf(plan.folder, sizeof(plan.folder), "/tmp/tutti-crash-XXXXXX");
    REQUIRE(mkdtemp(plan.folder) != NULL);
    if (play(2, strategy, false)) {
        CHECK_INT(kids[0].status, 0);
        (void)snprintf(undisturbed, sizeof(undisturbed), "%s", kids[0].log);
    }
    remove_folder();
    if (play(2, strategy, true)) {
        CHECK_INT(kids[0].status, -TUTTI_EIO);
        CHECK_INT(atomic_load(&kids[1].at_step), CRASH - 1); /* 140 is the one that it died in */
        if (strstr(kids[0].text, "process 1") == NULL || strstr(kids[0].text, "gone") == NULL)
            TEST_FAIL("it said '%s'", kids[0].text);
    }
    if (play(2, strategy, false)) {
        if (kids[0].status != 0)
            TEST_FAIL("status %d: %s", kids[0].status, kids[0].text);
        for (int i = 0; i < 2; i++) {
            CHECK_INT(atomic_load(&kids[i].stage) - 1, SAVED);
            CHECK_TEXT(kids[i].log, undisturbed);
        }
    }
    remove_folder();
}

TEST(a_worker_that_dies_in_step_140_costs_the_steps_since_120)
{
    tell("multiworkermirrored");
    if (test_failures == 0)
        tell("fsdp");
}
