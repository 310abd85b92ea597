/* What Tutti would run itself, against what NCCL or RCCL would: at most 1.3 times as long from 1
 * MiB on, but where switches add up, which no schedule of messages does. A sample of presets, nodes
 * and sizes; TUTTI_TEST_FULL=1 or --full: all. */
#include <string.h>

#include "runtime/status.h"
#include "sim/predict.h"
#include "tests/test.h"

enum { TIMES_PERCENT_MAX = 130, BYTES_MIN = 1 << 20 };

static const struct preset {
    const char *spec; /* and the number of nodes */
    uint32_t most;    /* nodes */
} presets[] = {
    {"dgx-1p:nodes=", 16},
    {"dgx-1v:nodes=", 16},
    {"dgx-2:nodes=", 16},
    {"dgx-a100:nodes=", 16},
    {"dgx-h100:nodes=", 16},
    {"hgx-h200:nodes=", 16},
    {"hgx-b200:nodes=", 16},
    {"hgx-b300:nodes=", 16},
    {"mi300x:nodes=", 16},
    {"gb200-nvl72:racks=", 4},
    {"pcie:nodes=", 16},
    {"host:gpu=a100,gpus=4,intra=nvlink-mesh,nics=2,nic=200Gb/s,net=slingshot,nodes=", 16},
};

enum { PRESETS = sizeof(presets) / sizeof(presets[0]) };

static bool adds_in_switches(const char *algorithm)
{
    return strstr(algorithm, "nvls") != NULL || strstr(algorithm, "collnet") != NULL;
}

static void compare(struct tutti_ask *ask, const char *spec, uint64_t bytes)
{
    struct tutti_answer nccl, own;
    struct tutti_err err = {""};

    ask->params.count = bytes / 4;
    ask->algorithm = "nccl";
    CHECK_OK(tutti_predict(ask, &nccl, &err), err);
    ask->algorithm = "auto";
    CHECK_OK(tutti_predict(ask, &own, &err), err);
    if (bytes >= BYTES_MIN && !adds_in_switches(nccl.algorithm) &&
        (double)own.time_ps * 100 > (double)nccl.time_ps * TIMES_PERCENT_MAX)
        TEST_FAIL("%s, %llu bytes: %s takes %.2f times %s", spec, (unsigned long long)bytes,
                  own.algorithm, (double)own.time_ps / (double)nccl.time_ps, nccl.algorithm);
}

static void sweep(const struct preset *preset, uint32_t nodes, uint64_t first, uint64_t last,
                  uint64_t factor)
{
    struct tutti_ask ask = {.size = sizeof(ask), .params = {.collective = TUTTI_ALLREDUCE}};
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    char spec[128];

    (void)snprintf(spec, sizeof(spec), "%s%u", preset->spec, nodes);
    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    REQUIRE(topo != NULL);
    ask.topo = topo;
    CHECK_OK(tutti_predict_memory_new(&ask.memory, &err), err);
    for (uint64_t bytes = first; bytes <= last; bytes *= factor)
        compare(&ask, spec, bytes);
    tutti_predict_memory_free(ask.memory);
    tutti_topo_free(topo);
}

/* Where it was worst before there were trees of chains and rings by every NIC. */
TEST(tuttis_own_best_is_near_nccls)
{
    for (size_t p = 0; p < PRESETS; p++)
        sweep(&presets[p], 2, 4 << 20, 256 << 20, 64);
    sweep(&presets[8], 4, UINT64_C(1) << 30, UINT64_C(1) << 30, 2);
}

TEST(and_everywhere_from_1_kib_to_4_gib)
{
    if (!test_full)
        SKIP("some minutes: --full, or TUTTI_TEST_FULL=1");
    for (size_t p = 0; p < PRESETS; p++) {
        for (uint32_t nodes = 1; nodes <= presets[p].most; nodes *= 2)
            sweep(&presets[p], nodes, 1024, UINT64_C(4) << 30, 4);
    }
}
