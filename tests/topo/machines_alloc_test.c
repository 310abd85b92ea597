/* Machines, bounds and pictures with every allocation made to fail once: clean errors, no leak. */
#include "tests/alloc_fail.h"

#include "runtime/schedule.h"
#include "topo/describe.h"
#include "topo/perturb.h"
#include "topo/topo.h"

static int build(const char *spec, struct tutti_err *err)
{
    struct tutti_topo *topo = NULL;
    int status = tutti_topo_from_spec(spec, &topo, err);

    tutti_topo_free(topo);
    return status;
}

/* All that is asked of a machine. */
static int ask(const struct tutti_topo *topo, struct tutti_err *err)
{
    struct tutti_contract contract = {.dtype = TUTTI_FLOAT32, .op = TUTTI_SUM, .count = 1000};
    struct tutti_description description;
    struct tutti_bound bound;
    uint64_t bisection;
    char *text = NULL;
    int status = 0;

    for (int c = TUTTI_ALLREDUCE; c < TUTTI_CUSTOM && status == 0; c++) {
        contract.collective = (enum tutti_collective)c;
        status = tutti_topo_bound(topo, &contract, &bound, err);
    }
    if (status == 0)
        status = tutti_topo_bisection(topo, &bisection, err);
    if (status == 0)
        status = tutti_topo_describe(topo, &description, err);
    if (status == 0)
        status = tutti_topo_svg(topo, &text, err);
    free(text);
    return status;
}

static int copy(const struct tutti_topo *host, struct tutti_err *err)
{
    struct tutti_topo *topo = NULL;
    int status = tutti_topo_replicate(host, 2, 1000, &topo, err);

    tutti_topo_free(topo);
    return status;
}

static int there_and_back(const struct tutti_topo *topo, struct tutti_err *err)
{
    struct tutti_topo *again = NULL;
    char *text = NULL;
    int status = tutti_topo_print(topo, &text, err);

    if (status == 0)
        status = tutti_topo_parse("test", text, strlen(text), &again, err);
    free(text);
    tutti_topo_free(again);
    return status;
}

static int perturb(const char *spec, struct tutti_err *err)
{
    struct tutti_topo *topo = NULL;
    struct tutti_perturb perturb = {.item_count = 0};
    tutti_ps *starts = NULL;
    int status = tutti_perturb_add(
        &perturb, "slow-link=2:2,slow-node=1:2,latency=1..2,rates=1/2,start=1us", err);

    if (status == 0)
        status = tutti_topo_from_spec(spec, &topo, err);
    if (status == 0)
        status = tutti_topo_perturb(topo, &perturb, 1, err);
    if (status == 0)
        status = tutti_perturb_starts(&perturb, 1, topo->rank_count, &starts, err);
    free(starts);
    tutti_topo_free(topo);
    return status;
}

static const char *const specs[] = {"dgx-1v",
                                    "dgx-h100:nodes=2",
                                    "torus:3x3x3",
                                    "fattree:arity=2",
                                    "pcie",
                                    "tpu-v5e:2x2,slices=2",
                                    "host:gpu=gb200,gpus=2,trays=2,nodes=2"};

TEST(machines_are_built_or_not)
{
    struct tutti_err err;

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        ALLOC_FAIL_EACH(build(specs[i], &err), err);
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        ALLOC_FAIL_EACH(perturb(specs[i], &err), err);
}

TEST(questions_are_answered_or_not)
{
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct tutti_topo *topo = NULL;
        struct tutti_err err = {""};

        CHECK_OK(tutti_topo_from_spec(specs[i], &topo, &err), err);
        REQUIRE(topo != NULL);
        ALLOC_FAIL_EACH(ask(topo, &err), err);
        ALLOC_FAIL_EACH(there_and_back(topo, &err), err);
        if (topo->host_count < 2)
            ALLOC_FAIL_EACH(copy(topo, &err), err);
        tutti_topo_free(topo);
    }
}
