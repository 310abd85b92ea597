/* Stragglers in a step of collectives: how much longer it takes, and what it is put down to. */
#include <math.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/train.h"
#include "tests/test.h"

enum { RANKS = 16 };

static struct tutti_train_answer predict(const struct tutti_topo *topo,
                                         const struct tutti_workload *model, const char *strategy,
                                         const uint32_t *pace)
{
    struct tutti_train_answer a = {.step_ps = 0};
    struct tutti_strategy s;
    struct tutti_train_ask ask = {.size = sizeof(ask),
                                  .topo = topo,
                                  .model = model,
                                  .strategy = &s,
                                  .use = {.batch = 64},
                                  .pace_ppm = pace};
    struct tutti_err err = {""};

    CHECK_OK(tutti_strategy_named(strategy, &s, &err), err);
    CHECK_OK(tutti_train_predict(&ask, &a, &err), err);
    return a;
}

/* One of 16 devices is 20 % slower: so is the step, whoever looks at it; those that are not slow
 * wait for the one that is. */
TEST(a_straggler_slows_the_step_by_as_much)
{
    static const char *const strategies[] = {"multiworkermirrored", "ddp", "zero2", "fsdp"};
    struct tutti_topo *topo = NULL;
    struct tutti_workload *model = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec("dgx-1v:nodes=2", &topo, &err), err);
    CHECK_OK(tutti_model_new("resnet50", NULL, &model, &err), err);
    for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++) {
        struct tutti_train_answer before = predict(topo, model, strategies[i], NULL);

        CHECK_INT(before.split.late_ps, 0);
        for (uint32_t slow = 0; slow < RANKS; slow += 5) {
            uint32_t pace[RANKS];
            struct tutti_train_answer after;
            const struct tutti_train_split *s = &after.split;

            for (uint32_t r = 0; r < RANKS; r++)
                pace[r] = r == slow ? 1200000 : TUTTI_PACE;
            after = predict(topo, model, strategies[i], pace);
            CHECK(fabs((double)after.step_ps / (double)before.step_ps - 1.2) < 0.01);
            CHECK_INT(s->compute_ps + s->slowed_ps + s->reduce_ps + s->gather_ps + s->across_ps +
                          s->input_ps + s->late_ps,
                      after.step_ps);
            if (slow == 0)
                continue;
            CHECK(fabs((double)s->late_ps / (double)before.step_ps - 0.2) < 0.02);
            CHECK(strstr(after.limited_by, "ranks that are late") != NULL);
        }
    }
    tutti_model_free(model);
    tutti_topo_free(topo);
}
