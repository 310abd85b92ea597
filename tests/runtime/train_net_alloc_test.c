/* Every allocation of a network that is really trained made to fail once; a step takes none. */
#include "runtime/optimizer.h"
#include "tests/alloc_fail.h"
#include "tests/runtime/train_reference.h"

static int make(const struct tutti_workload *model, struct tutti_err *err)
{
    const struct tutti_network_params params = {.dropout = 0.2f, .dtype = TUTTI_FLOAT16};
    struct tutti_network *net = NULL;
    struct tutti_network_work *work = NULL;
    int status = tutti_network_new(model, &params, &net, err);

    if (status == 0)
        status = tutti_network_work_new(net, 4, &work, err);
    tutti_network_work_free(work);
    tutti_network_free(net);
    return status;
}

TEST(networks_fail_cleanly)
{
    static const char *const names[] = {"linear-regression", "mlp", "cifar10-cnn"};
    struct tutti_err err = {.text = ""};

    for (size_t i = 0; i < 3; i++) {
        struct tutti_workload *model = NULL;

        CHECK_OK(tutti_model_new(names[i], NULL, &model, &err), err);
        REQUIRE(model != NULL);
        ALLOC_FAIL_EACH(make(model, &err), err);
        tutti_model_free(model);
    }
}

TEST(a_step_allocates_nothing)
{
    const enum tutti_dtype types[] = {TUTTI_FLOAT32, TUTTI_BFLOAT16};
    struct tutti_update_rule rule;
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_update_named("adam", &rule, &err), err);
    for (size_t i = 0; i < 2; i++) {
        struct trained t;
        float *moments[2];

        trained_open(
            &t,
            reference_named("cifar10-cnn",
                            (struct tutti_network_params){.dropout = 0.2f, .dtype = types[i]}),
            3, test_seed);
        moments[0] = calloc(t.elements, sizeof(float));
        moments[1] = calloc(t.elements, sizeof(float));
        alloc_fail_forbid(true);
        trained_step(&t, &t.batch, false);
        trained_step(&t, &t.batch, true);
        tutti_update_weights(&rule, 0.001, 1, 1, t.weights, t.gradients, moments, t.elements);
        alloc_fail_forbid(false);
        CHECK(isfinite(tutti_network_score(t.work).loss));
        free(moments[0]);
        free(moments[1]);
        trained_close(&t);
    }
}
