/* How predictions are held against all measurements: the peers' formulas, and sums in which every
 * table weighs alike. */
#include <math.h>

#include "runtime/status.h"
#include "tests/test.h"
#include "tools/fit/accuracy/accuracy_nccl.h"
#include "tools/fit/accuracy/accuracy_peers.h"
#include "tools/validate/measured_run.h"

#define GIB (UINT64_C(1) << 30)

static void check_near(double seen, double expected, double percent, const char *what)
{
    if (!(fabs(seen - expected) <= expected * percent / 100))
        TEST_FAIL("%s: %g, expected %g within %g %%", what, seen, expected, percent);
}

/* Measured of ASTRA-sim itself (518bd51, astra-network-analytical 599a047, congestion-unaware):
 * all-reduces of 1 GiB, in ms; its GB/s are 2^30 bytes a second. */
TEST(astra_sims_formula_gives_its_own_times)
{
    static const struct {
        uint32_t counts[2];
        uint64_t bytes;
        double ms;
    } cases[] = {
        {{8, 8}, GIB, 10.786},      {{8, 32}, GIB, 11.375},   {{8, 128}, GIB, 11.884},
        {{8, 512}, GIB, 13.456},    {{8, 2048}, GIB, 19.632}, {{8, 8}, 1 << 20, 0.065},
        {{8, 128}, 1 << 20, 0.548},
    };
    static const double rates[2] = {400.0 * GIB, 50.0 * GIB};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        check_near(tutti_astra_us(TUTTI_ALLREDUCE, cases[i].counts, rates, cases[i].bytes) / 1e3,
                   cases[i].ms, 0.8, "ms");
    CHECK(isnan(tutti_astra_us(TUTTI_BROADCAST, cases[0].counts, rates, GIB)));
    CHECK(isnan(tutti_astra_us(TUTTI_ALLREDUCE, cases[0].counts, (double[2]){1e9, 0}, GIB)));
}

TEST(halves_of_an_all_reduce_add_up)
{
    uint32_t counts[2] = {8, 4};
    double rates[2] = {450e9, 50e9};
    double both = tutti_astra_us(TUTTI_REDUCESCATTER, counts, rates, GIB) +
                  tutti_astra_us(TUTTI_ALLGATHER, counts, rates, GIB);

    check_near(tutti_astra_us(TUTTI_ALLREDUCE, counts, rates, GIB), both, 1e-9, "us");
    counts[1] = 1; /* one host: no network, whatever its rate */
    rates[1] = 0;
    CHECK(tutti_astra_us(TUTTI_ALLTOALL, counts, rates, GIB) > 0);
}

/* ---- a small world of tables ----------------------------------------------------------------- */

static struct tutti_measured_table measured[4];
static struct tutti_accuracy_row rows[4][16];
static struct tutti_accuracy_table tables[4];
static struct tutti_accuracy world = {.tables = tables};

/* One table: sizes from `first`, each `factor` times the one before; `us` at the first size, twice
 * that at each further one, and our forecast off by `percent`. */
static void add(const char *id, const char *platform, uint64_t first, uint64_t step, size_t count,
                double us, double percent)
{
    size_t i = world.table_count++;

    measured[i] = (struct tutti_measured_table){.id = id,
                                                .platform = platform,
                                                .library = "nccl",
                                                .machine = "dgx-h100",
                                                .site = id,
                                                .timing = "host",
                                                .rank_count = 8,
                                                .host_count = 1,
                                                .gpu_count = 8};
    tables[i] = (struct tutti_accuracy_table){.measured = &measured[i],
                                              .chosen = true,
                                              .host_bytes_per_s = 300e9,
                                              .row_count = count,
                                              .rows = rows[i]};
    for (size_t r = 0; r < count; r++) {
        rows[i][r] = (struct tutti_accuracy_row){.bytes = first + r * step, .measured_us = us};
        for (uint32_t f = 0; f < TUTTI_FORECASTERS; f++)
            rows[i][r].us[f] = NAN;
        rows[i][r].us[TUTTI_FORECAST_OURS] = us * (1 + percent / 100);
    }
}

TEST(a_dense_sweep_weighs_no_more_than_a_thin_one)
{
    struct tutti_accuracy_slice slice = {.forecaster = TUTTI_FORECAST_OURS, .bytes_max = 1 << 20};
    struct tutti_accuracy_sum sum;
    struct tutti_err err;

    world.table_count = 0;
    add("dense", "a", 1024, 64, 16, 10, 50); /* sixteen sizes in one power of two */
    add("thin", "b", 1024, 1, 1, 10, 10);
    add("other", "c", 2048, 1, 1, 10, -20);
    REQUIRE(tutti_accuracy_sum(&world, &slice, &sum, &err) == 0);
    CHECK_INT(sum.table_count, 3);
    CHECK_INT(sum.bin_count, 3);
    CHECK_INT(sum.row_count, 18);
    check_near(sum.median_percent, 20, 1e-6, "median");
    check_near(sum.plain_median_percent, 50, 1e-6, "plain median");
    check_near(sum.p90_percent, 50, 1e-6, "9 of 10");
    check_near(sum.worst_percent, 50, 1e-6, "worst");
    CHECK_TEXT(sum.worst->measured->id, "dense");
    tables[0].chosen = false;
    REQUIRE(tutti_accuracy_sum(&world, &slice, &sum, &err) == 0);
    check_near(sum.median_percent, 15, 1e-6, "median");
    slice.bytes_min = 4096; /* nothing there */
    REQUIRE(tutti_accuracy_sum(&world, &slice, &sum, &err) == 0);
    CHECK_INT(sum.bin_count, 0);
    CHECK(isnan(sum.median_percent) && sum.worst == NULL);
}

TEST(the_nearest_platform_is_another_one_of_like_shape_and_rate)
{
    struct tutti_err err;

    world.table_count = 0;
    add("ours", "a", 1024, 1024, 4, 10, 0);
    add("same", "a", 1024, 1024, 4, 11, 0); /* our own platform: no forecast of it */
    add("far", "b", 1024, 1024, 4, 12, 0);
    add("near", "c", 1024, 3072, 2, 13, 0);
    tables[2].host_bytes_per_s = 30e9;
    rows[3][1].measured_us = 26;
    REQUIRE(tutti_nearest_forecast(&world, &tables[0], &err) == 0);
    check_near(rows[0][0].us[TUTTI_FORECAST_NEAREST], 13, 1e-6, "us at 1 KiB");
    check_near(rows[0][1].us[TUTTI_FORECAST_NEAREST], 13 * sqrt(2), 1e-6, "us between");
    check_near(rows[0][3].us[TUTTI_FORECAST_NEAREST], 26, 1e-6, "us at 4 KiB");
    measured[3].degraded = true; /* then the far one is left */
    REQUIRE(tutti_nearest_forecast(&world, &tables[0], &err) == 0);
    check_near(rows[0][0].us[TUTTI_FORECAST_NEAREST], 12, 1e-6, "us at 1 KiB");
    measured[2].host_count = 2; /* no matter how far */
    measured[2].collective = TUTTI_ALLGATHER;
    REQUIRE(tutti_nearest_forecast(&world, &tables[0], &err) == 0);
    CHECK(isnan(rows[0][0].us[TUTTI_FORECAST_NEAREST]));
}

/* How far the same machines lie apart is what any model of machines must miss by. */
TEST(twins_are_the_same_machine_at_other_sites)
{
    struct tutti_err err;

    world.table_count = 0;
    add("ours", "a", 1024, 1024, 4, 10, 0);
    add("theirs", "a", 1024, 3072, 2, 14, 0);
    add("another", "a", 1024, 1024, 2, 20, 0); /* ends at 2 KiB */
    add("also ours", "a", 1024, 1024, 4, 90, 0);
    measured[3].site = measured[0].site;
    REQUIRE(tutti_twins_forecast(&world, &tables[0], &err) == 0);
    check_near(rows[0][0].us[TUTTI_FORECAST_TWINS], 17, 1e-6, "us at 1 KiB: of two sites");
    check_near(rows[0][3].us[TUTTI_FORECAST_TWINS], 14, 1e-6, "us at 4 KiB: of one");
    measured[2].timing = "graph"; /* timed otherwise: no twin */
    REQUIRE(tutti_twins_forecast(&world, &tables[0], &err) == 0);
    check_near(rows[0][0].us[TUTTI_FORECAST_TWINS], 14, 1e-6, "us at 1 KiB");
    measured[1].machine = "dgx-h100:nodes=2";
    REQUIRE(tutti_twins_forecast(&world, &tables[0], &err) == 0);
    CHECK(isnan(rows[0][0].us[TUTTI_FORECAST_TWINS]));
    measured[1].machine = "-"; /* nobody knows which */
    measured[0].machine = "-";
    REQUIRE(tutti_twins_forecast(&world, &tables[0], &err) == 0);
    CHECK(isnan(rows[0][0].us[TUTTI_FORECAST_TWINS]));
}

TEST(a_loop_is_timed_as_its_log_says)
{
    struct tutti_measured_table table = {
        .library = "nccl", .timing = "host", .launch = "one", .gpu_count = 8, .rank_count = 8};

    CHECK_INT(tutti_timed_iterations(&table), 20);
    table.iteration_count = 5;
    CHECK_INT(tutti_timed_iterations(&table), 5);
    table.timing = "kernel";
    CHECK_INT(tutti_timed_iterations(&table), 1);
    table.collective = TUTTI_ALLREDUCE;
    check_near(tutti_least_us(&table), 8 * 4.3, 1e-9, "a launch a GPU");
    table.collective = TUTTI_ALLTOALL;
    check_near(tutti_least_us(&table), 8 * 4.3 + 64 * 0.5, 1e-9, "and a pair of messages");
    table.collective = TUTTI_ALLREDUCE;
    table.library = "rccl";
    check_near(tutti_least_us(&table), 8 * 5.5, 1e-9, "HIP launches slower");
    table.launch = "each";
    check_near(tutti_least_us(&table), 0, 1e-9, "all at once");
}

TEST(what_was_run_is_read)
{
    static const char ran[] = "ring/ll@0-1M,nvls/simple@2M-";

    CHECK_INT(tutti_ran_agrees(ran, 1 << 20, "Ring", "LL"), 1);
    CHECK_INT(tutti_ran_agrees(ran, 1 << 20, "Ring", "LL128"), 0);
    CHECK_INT(tutti_ran_agrees(ran, 2 << 20, "NVLS", "Simple"), 1);
    CHECK_INT(tutti_ran_agrees(ran, (1 << 20) + 1, "Ring", "LL"), -1);
    CHECK_INT(tutti_ran_agrees("nvls", 8, "NVLS", "Simple"), 1);
    CHECK_INT(tutti_ran_agrees("tree@-4G", 8, "Ring", "Simple"), 0);
    CHECK_INT(tutti_ran_agrees("", 8, "Ring", "Simple"), -1);
    CHECK_INT(tutti_ran_agrees("ring@8,tree@64M", 64 << 20, "Tree", "LL"), 1);
    CHECK_INT(tutti_ran_agrees("ring@8,tree@64M", 32 << 20, "Tree", "LL"), -1);
    CHECK_INT(tutti_ran_agrees("ring@often", 8, "Ring", "Simple"), -1);
}
