/* What tutti calibrate may change: levels that add up, and truths that it finds again. */
#include <math.h>

#include "runtime/status.h"
#include "tests/test.h"
#include "tools/calibrate/fit_priors.h"
#include "tools/calibrate/fit_values.h"
#include "tools/validate/measured_files.h"

/* Tables whose times do not matter: of two GPUs, of a DGX and of a pair of them over InfiniBand, so
 * that NVLink, NVSwitch, NVLS and a network are in it; and one of messages. */
static const char path[] = TUTTI_BINARY_DIR "/fit_values.measured";
static const char *const machines[][4] = {
    /* machine, ranks, nodes, collective */
    {"host:gpu=a100,gpus=2,board=2", "2", "1", "allreduce"},
    {"host:gpu=a100,gpus=2,board=2", "2", "1", "allgather"},
    {"dgx-1v", "8", "1", "allreduce"},
    {"dgx-h100:nodes=2", "16", "2", "allreduce"},
    {"dgx-h100", "8", "1", "alltoall"},
};
enum { MACHINES = sizeof(machines) / sizeof(machines[0]), SIZES = 6, PARAMETERS_MAX = 256 };

struct world {
    struct tutti_fit_cases cases;
    struct tutti_calib *base;
    struct tutti_fit_values values;
};

static void write_tables(void)
{
    FILE *file = fopen(path, "w");

    REQUIRE(file != NULL);
    fputs("tutti measured 1\n", file);
    for (size_t m = 0; m < MACHINES; m++) {
        fprintf(file,
                "table t%zu\nsite s%zu\nplatform p\nmachine %s\nranks %s\nnodes %s\ngpus %d\n"
                "library nccl\ncollective %s\ndtype float\nop sum\nquality good\nsource made up\n"
                "rows\n",
                m, m, machines[m][0], machines[m][1], machines[m][2],
                (int)(strtol(machines[m][1], NULL, 10) / strtol(machines[m][2], NULL, 10)),
                machines[m][3]);
        for (uint64_t bytes = 4096, i = 0; i < SIZES; i++, bytes *= 8)
            fprintf(file, "%" PRIu64 " 1\n", bytes);
        fputs("end\n", file);
    }
    fclose(file);
}

static bool open_world(struct world *world, uint32_t thread_count)
{
    struct tutti_measured_filter filter = {.term_count = 0};
    struct tutti_fit_choice choice = {.fitted = &filter};
    struct tutti_measured set = {.table_count = 0};
    struct tutti_err err = {""};

    *world = (struct world){.base = NULL};
    write_tables();
    CHECK_OK(tutti_measured_load(path, &set, &err), err);
    CHECK_OK(tutti_fit_cases_open(&set, NULL, &choice, thread_count, &world->cases, &err), err);
    CHECK_OK(tutti_calib_new(&world->base, &err), err);
    if (test_failures == 0)
        CHECK_OK(tutti_fit_values_open(&world->cases, world->base, &world->values, &err), err);
    CHECK_INT(world->cases.case_count, MACHINES);
    CHECK_INT(world->cases.point_count, MACHINES * SIZES);
    CHECK(world->values.parameter_count <= PARAMETERS_MAX);
    return test_failures == 0;
}

static void close_world(struct world *world)
{
    tutti_fit_values_close(&world->values);
    tutti_fit_cases_close(&world->cases);
    tutti_calib_free(world->base);
}

static const struct tutti_fit_value *find(const struct world *world, const char *name)
{
    for (size_t v = 0; v < world->values.value_count; v++) {
        if (strcmp(world->values.values[v].name, name) == 0)
            return &world->values.values[v];
    }
    TEST_FAIL("no value '%s'", name);
    return NULL;
}

static const char *level_name(const struct world *world, const struct tutti_fit_value *value,
                              int level)
{
    return world->values.parameters[value->levels[level]].name;
}

static double start_of(const char *name)
{
    struct tutti_fit_parts parts = tutti_fit_split(name);

    return tutti_fit_start(&parts, tutti_fit_group(parts.link));
}

/* What of it is above its least, in units of what it begins with there. */
static double above_least(const struct tutti_fit_value *value, double is)
{
    return (is - value->least) / exp(value->base);
}

/* A step's levels multiply what is above its least. */
TEST(a_value_is_the_product_of_its_levels_and_no_more_than_it_may_be)
{
    struct world world;
    double parameters[PARAMETERS_MAX] = {0};

    if (open_world(&world, 1)) {
        const struct tutti_fit_value *step = find(&world, "h100.ib.simple.step_us");
        const struct tutti_fit_value *percent = find(&world, "h100.nvls.simple.link_percent");

        REQUIRE(step != NULL && percent != NULL);
        CHECK_TEXT(level_name(&world, step, 0), "net.simple.step_us");
        CHECK_TEXT(level_name(&world, step, 1), "any.ib.simple.step_us");
        CHECK_TEXT(level_name(&world, step, 2), "h100.ib.simple.step_us");
        CHECK(fabs(tutti_fit_value_at(step, parameters) - start_of("h100.ib.simple.step_us")) <
              1e-9);
        CHECK(step->levels[3] == TUTTI_FIT_NONE); /* it is its own family */
        for (int level = 0; level < 3; level++)
            parameters[step->levels[level]] = log(level + 2); /* 2 * 3 * 4 */
        CHECK(fabs(above_least(step, tutti_fit_value_at(step, parameters)) - 24) < 1e-9);
        CHECK(!step->switches && percent->switches);
        parameters[percent->levels[0]] = 1; /* times e */
        CHECK(fabs(tutti_fit_value_at(percent, parameters) - 100) < 1e-9);
    }
    close_world(&world);
}

/* The times of some calibration, which the fit is not told. */
static void measure(struct world *world, double *truth, double *observed)
{
    struct tutti_err err = {""};

    for (size_t p = 0; p < world->values.parameter_count; p++) {
        const char *name = world->values.parameters[p].name;

        /* Of two levels of three, so that neither alone tells it. */
        truth[p] = strncmp(name, "any.", 4) == 0       ? 0
                   : strstr(name, "launch_us") != NULL ? -0.08
                   : strstr(name, "step_us") != NULL   ? 0.15
                   : strstr(name, "percent") != NULL   ? 0.04
                                                       : 0;
    }
    CHECK_OK(tutti_fit_values_predict(&world->values, truth, TUTTI_FIT_NONE, observed, &err), err);
    for (size_t i = 0; i < world->cases.point_count; i++)
        CHECK(!world->cases.points[i].wrong && isfinite(observed[i]));
}

static struct tutti_fit *solve(struct world *world, const double *observed)
{
    double prior[PARAMETERS_MAX] = {0}, sigma[PARAMETERS_MAX];
    double weight[MACHINES * SIZES];
    struct tutti_err err = {""};
    struct tutti_fit *fit = NULL;
    struct tutti_fit_problem problem = {
        .parameter_count = (uint32_t)world->values.parameter_count,
        .point_count = (uint32_t)world->cases.point_count,
        .prior = prior,
        .prior_sigma = sigma,
        .observed = observed,
        .weight = weight,
        .iteration_max = 8,
        .predict = tutti_fit_values_predict,
        .context = &world->values,
    };

    for (size_t p = 0; p < world->values.parameter_count; p++)
        sigma[p] = world->values.parameters[p].sigma;
    for (size_t i = 0; i < MACHINES * SIZES; i++)
        weight[i] = 1;
    CHECK_OK(tutti_fit_solve(&problem, &fit, &err), err);
    return fit;
}

/* Of a lane and a share that may both bind the rate of a way, each would hide what the other loses,
 * and the fit would move neither. */
TEST(messages_behind_pcie_are_bound_by_their_lanes_alone)
{
    CHECK(start_of("a100.host.simple.p2p_GBps") > 0);
    CHECK(start_of("a100.pcie.simple.p2p_GBps") > 0);
    CHECK(!(start_of("a100.pcie.simple.p2p_percent") > 0));
    CHECK(!(start_of("a100.host.simple.p2p_percent") > 0));
    CHECK(start_of("a100.root.simple.link_percent") > 0); /* of all traffic */
    CHECK(start_of("a100.nvswitch.simple.p2p_percent") > 0);
}

static double most_of(const char *name)
{
    struct tutti_fit_parts parts = tutti_fit_split(name);

    return tutti_fit_most(&parts, tutti_fit_group(parts.link));
}

/* Eight steps are on their way at once: one of a millisecond would be a rate. */
TEST(steps_of_messages_stand_for_no_rates)
{
    CHECK(most_of("v100.ib.simple.p2p_step_us") < 50);
    CHECK(most_of("a100.cpunet.simple.p2p_step_us") < 50);
    CHECK(most_of("a10.tcp.simple.p2p_step_us") > 200); /* kernels take long */
    CHECK(most_of("a100.nvswitch.simple.p2p_step_us") < 12);
    CHECK(most_of("a100.ib.simple.step_us") > 1000);
}

/* They never run in LL128. */
TEST(messages_have_latencies_of_their_own_in_the_protocols_they_run_in)
{
    CHECK(start_of("b200.ib.simple.p2p_launch_us") > 0);
    CHECK(start_of("b200.ib.simple.p2p_step_us") > 0);
    CHECK(start_of("b200.nvswitch.ll.p2p_step_us") > 0);
    CHECK(!(start_of("b200.nvswitch.ll128.p2p_launch_us") > 0));
    CHECK(!(start_of("b200.nvswitch.ll128.p2p_step_us") > 0));
}

static double least_of(const char *name)
{
    struct tutti_fit_parts parts = tutti_fit_split(name);

    return tutti_fit_least(&parts);
}

/* Below it launches would make up for steps and channels, and these for them; whatever else may be
 * next to nothing. */
TEST(launches_and_steps_stay_above_what_hardware_takes)
{
    static const double far[] = {-1e3, -1e3};
    struct tutti_fit_value launch = {.base = log(4), .least = 2.5, .most = 1e5};

    CHECK(least_of("h100.nvswitch.ll.launch_us") > 2);
    CHECK(least_of("any.nvls.simple.launch_us") > 2);
    CHECK(!(least_of("h100.nvswitch.ll.p2p_launch_us") > 0));
    CHECK(least_of("h100.nvswitch.ll.step_us") > 0.2);
    CHECK(least_of("h100.ib.simple.step_us") > least_of("h100.pcie.simple.step_us"));
    CHECK(!(least_of("h100.nvswitch.ll.channel_us") > 0));
    CHECK(!(least_of("h100.ib.simple.slice_us") > 0));
    launch.levels[0] = 0;
    launch.levels[1] = 1;
    launch.levels[2] = launch.levels[3] = TUTTI_FIT_NONE;
    CHECK(fabs(tutti_fit_value_at(&launch, far) - 2.5) < 1e-12);
    CHECK(fabs(tutti_fit_value_at(&launch, (const double[]){0, 0}) - 6.5) < 1e-12);
}

TEST(between_hosts_nvls_begins_at_a_smaller_share)
{
    CHECK(start_of("gb200.nvlstree.simple.link_percent") > 0);
    CHECK(start_of("gb200.nvlstree.simple.link_percent") <
          start_of("gb200.nvls.simple.link_percent"));
}

TEST(times_of_a_known_calibration_are_found_again)
{
    struct world world;
    double truth[PARAMETERS_MAX], observed[MACHINES * SIZES];
    double before = 0, after = 0;

    if (open_world(&world, 1)) {
        double prior[PARAMETERS_MAX] = {0}, first[MACHINES * SIZES];
        struct tutti_err err = {""};
        struct tutti_fit *fit;

        measure(&world, truth, observed);
        CHECK_OK(tutti_fit_values_predict(&world.values, prior, TUTTI_FIT_NONE, first, &err), err);
        fit = solve(&world, observed);
        for (size_t i = 0; fit != NULL && i < MACHINES * SIZES; i++) {
            before = fmax(before, fabs(first[i] - observed[i]));
            after = fmax(after, fabs(fit->predicted[i] - observed[i]));
        }
        printf("worst error %.1f %% before, %.2f %% after\n", 100 * before, 100 * after);
        CHECK(before > 0.1);
        CHECK(after < 0.025);
        tutti_fit_free(fit);
    }
    close_world(&world);
}

/* What a parameter is said not to touch must not differ by it, at steps larger than the fit's. */
TEST(a_derivative_passes_over_no_size_that_it_touches)
{
    struct world world;
    double parameters[PARAMETERS_MAX] = {0}, at[MACHINES * SIZES];
    double some[MACHINES * SIZES], all[MACHINES * SIZES];
    struct tutti_err err = {""};
    uint32_t different_count = 0;

    if (open_world(&world, 1)) {
        CHECK_OK(tutti_fit_values_predict(&world.values, parameters, TUTTI_FIT_NONE, at, &err),
                 err);
        for (uint32_t p = 0; p < world.values.parameter_count; p++) {
            double step = p % 2 == 0 ? 0.3 : -0.3;

            memcpy(some, at, sizeof(at));
            parameters[p] = step;
            CHECK_OK(tutti_fit_values_predict(&world.values, parameters, p, some, &err), err);
            CHECK_OK(tutti_fit_values_predict(&world.values, parameters, TUTTI_FIT_NONE, all, &err),
                     err);
            if (memcmp(some, all, sizeof(all)) != 0)
                TEST_FAIL("'%s' touches more", world.values.parameters[p].name);
            different_count += memcmp(all, at, sizeof(all)) != 0;
            parameters[p] = 0;
            CHECK_OK(tutti_fit_values_predict(&world.values, parameters, TUTTI_FIT_NONE, all, &err),
                     err);
            CHECK(memcmp(all, at, sizeof(all)) == 0);
        }
        printf("%u of %zu parameters matter\n", different_count, world.values.parameter_count);
        CHECK(different_count > world.values.parameter_count / 4);
    }
    close_world(&world);
}

TEST(results_do_not_depend_on_threads)
{
    double truth[PARAMETERS_MAX], one[MACHINES * SIZES], three[MACHINES * SIZES];
    struct world world;

    if (open_world(&world, 1))
        measure(&world, truth, one);
    close_world(&world);
    if (test_failures == 0 && open_world(&world, 3)) {
        measure(&world, truth, three);
        CHECK(memcmp(one, three, sizeof(one)) == 0);
    }
    close_world(&world);
}

/* The times by paths, and by lines in logarithms, against those predicted: mean errors. */
static void compare_models(struct world *world, const struct tutti_fit *fit,
                           const double *parameters, double *ret_paths, double *ret_lines)
{
    double paths[MACHINES * SIZES], truth[MACHINES * SIZES];
    struct tutti_err err = {""};

    *ret_paths = *ret_lines = 0;
    tutti_fit_values_approximate(&world->values, fit, parameters, paths, NULL);
    CHECK_OK(tutti_fit_values_predict(&world->values, parameters, TUTTI_FIT_NONE, truth, &err),
             err);
    for (size_t i = 0; i < fit->point_count; i++) {
        const double *row = fit->jacobian + i * fit->parameter_count;
        double line = fit->predicted[i];

        for (size_t p = 0; p < fit->parameter_count; p++)
            line += row[p] * (parameters[p] - fit->value[p]);
        *ret_paths += fabs(paths[i] - truth[i]) / fit->point_count;
        *ret_lines += fabs(line - truth[i]) / fit->point_count;
    }
}

/* Whether what is said of slopes is what the times said beside them do. */
static void check_slopes(struct world *world, const struct tutti_fit *fit, double *parameters,
                         double *slopes)
{
    static const double step = 1e-5;
    double up[MACHINES * SIZES], down[MACHINES * SIZES];
    int moved = 0;

    tutti_fit_values_approximate(&world->values, fit, parameters, up, slopes);
    for (size_t p = 0; p < fit->parameter_count; p++) {
        double at = parameters[p];

        parameters[p] = at + step;
        tutti_fit_values_approximate(&world->values, fit, parameters, up, NULL);
        parameters[p] = at - step;
        tutti_fit_values_approximate(&world->values, fit, parameters, down, NULL);
        parameters[p] = at;
        for (size_t i = 0; i < fit->point_count; i++) {
            double slope = (up[i] - down[i]) / (2 * step);

            CHECK(fabs(slopes[i * fit->parameter_count + p] - slope) < 1e-6);
            moved += strstr(world->values.parameters[p].name, "launch_us") != NULL && slope > 0.05;
        }
    }
    CHECK(moved > 0); /* launches are among them, whose values have a least */
}

TEST(times_far_from_a_fit_are_told_by_paths_rather_than_by_lines)
{
    struct world world;
    double truth[PARAMETERS_MAX], observed[MACHINES * SIZES], parameters[PARAMETERS_MAX];
    static double slopes[MACHINES * SIZES * PARAMETERS_MAX];

    if (open_world(&world, 1)) {
        struct tutti_fit *fit;
        double paths, lines;

        measure(&world, truth, observed);
        fit = solve(&world, observed);
        REQUIRE(fit != NULL);
        /* At the solution it is the solution, */
        tutti_fit_values_approximate(&world.values, fit, fit->value, observed, slopes);
        for (size_t i = 0; i < fit->point_count; i++)
            CHECK(fabs(observed[i] - fit->predicted[i]) < 1e-12);
        for (size_t k = 0; k < (size_t)fit->point_count * fit->parameter_count; k++)
            CHECK(fabs(slopes[k] - fit->jacobian[k]) < 1e-9 || fabs(fit->jacobian[k]) < 0.02);
        /* and away from it, with all latencies four times or a fourth, nearer than lines are. */
        for (double far = -1.4; far < 2; far += 2.8) {
            for (size_t p = 0; p < fit->parameter_count; p++) {
                const char *name = world.values.parameters[p].name;

                parameters[p] = fit->value[p] +
                                (strncmp(name, "any.", 4) == 0 && strstr(name, "_us") ? far : 0);
            }
            compare_models(&world, fit, parameters, &paths, &lines);
            printf("%+.1f: off by %.1f %% by paths, %.1f %% by lines\n", far, 100 * paths,
                   100 * lines);
            CHECK(paths < lines);
            check_slopes(&world, fit, parameters, slopes);
        }
        tutti_fit_free(fit);
    }
    close_world(&world);
}

static double value_of(const struct tutti_calib *calib, const char *name)
{
    const struct tutti_calib_value *value = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_calib_get(calib, name, &value, &err), err);
    if (value == NULL) {
        TEST_FAIL("'%s' has no value", name);
        return NAN;
    }
    CHECK(value->low <= value->value && value->value <= value->high);
    CHECK(value->low < value->high);
    CHECK_TEXT(value->source, "fit");
    return value->value;
}

TEST(the_result_has_intervals_and_values_for_general_classes)
{
    struct world world;
    double truth[PARAMETERS_MAX], observed[MACHINES * SIZES];

    if (open_world(&world, 1)) {
        struct tutti_calib *calib = NULL;
        struct tutti_err err = {""};
        struct tutti_fit *fit;
        size_t open = 0;

        measure(&world, truth, observed);
        fit = solve(&world, observed);
        REQUIRE(fit != NULL);
        CHECK_OK(tutti_fit_values_result(&world.values, fit, "of a test", &calib, &open, &err),
                 err);
        REQUIRE(calib != NULL);
        CHECK(open > 0 && open < world.values.value_count); /* no launch of LL128 in 2 GPUs */
        CHECK_TEXT(tutti_calib_source(calib, "fit"), "of a test");
        for (size_t v = 0; v < world.values.value_count; v++) {
            const struct tutti_fit_value *value = &world.values.values[v];
            char digits[32];

            /* Five digits of it: */
            CHECK(fabs(value_of(calib, value->name) / tutti_fit_value_at(value, fit->value) - 1) <
                  5.0001e-5);
            (void)snprintf(digits, sizeof(digits), "%.5g", value_of(calib, value->name));
            CHECK(fabs(strtod(digits, NULL) / value_of(calib, value->name) - 1) < 1e-15);
        }
        (void)value_of(calib, "any.ib.simple.step_us");
        (void)value_of(calib, "any.net.simple.step_us");
        (void)value_of(calib, "any.nvswitch.simple.step_us");
        (void)value_of(calib, "any.nvls.simple.slice_us");
        tutti_calib_free(calib);
        tutti_fit_free(fit);
    }
    close_world(&world);
}

/* Links of the class "nvlink" (V100) are measured, and so are others of its group (NVSwitch): the
 * name that both come to is that of the class itself, in whatever order. */
TEST(a_class_called_as_its_group_speaks_for_itself)
{
    struct world world;

    if (open_world(&world, 1)) {
        static double covariance[PARAMETERS_MAX * PARAMETERS_MAX];
        double parameters[PARAMETERS_MAX] = {0};
        struct tutti_fit fit = {.parameter_count = (uint32_t)world.values.parameter_count,
                                .value = parameters,
                                .covariance = covariance};
        const struct tutti_fit_value *step = find(&world, "v100.nvlink.simple.step_us");
        struct tutti_calib *calib = NULL;
        struct tutti_err err = {""};
        size_t open = 0;

        REQUIRE(step != NULL);
        for (size_t p = 0; p < fit.parameter_count; p++)
            covariance[p * fit.parameter_count + p] = 0.01;
        parameters[step->levels[0]] = log(2);
        parameters[step->levels[1]] = log(3);
        parameters[step->levels[2]] = log(5);
        CHECK_OK(tutti_fit_values_result(&world.values, &fit, "made up", &calib, &open, &err), err);
        REQUIRE(calib != NULL);
        CHECK(fabs(above_least(step, value_of(calib, "v100.nvlink.simple.step_us")) - 30) < 1e-9);
        CHECK(fabs(above_least(step, value_of(calib, "any.nvlink.simple.step_us")) - 6) < 1e-9);
        CHECK(fabs(above_least(step, value_of(calib, "any.nvswitch.simple.step_us")) - 2) < 1e-9);
        tutti_calib_free(calib);
    }
    close_world(&world);
}

/* One process starts eight GPUs, in 49 us, and with more channels in 60: that is its CPU's time,
 * whatever the GPUs take. A fit leaves it so, and a judge knows only what CPUs take as a rule. But
 * if half of that passed for some other reason, no CPU was that fast, and the fit is to say so; and
 * a process a GPU has no such excuse. */
TEST(what_one_process_takes_is_not_taken_for_the_gpus)
{
    static const char one_path[] = TUTTI_BINARY_DIR "/fit_one_process.measured";
    static const struct {
        const char *launch;
        double us, fitted_us, judged_us;
    } tables[] = {{"one", 49, 49, 34.4}, {"one", 15, 23.2, 34.4}, {"each", 49, 0, 0}};
    struct tutti_measured_filter filter = {.term_count = 0};
    struct tutti_fit_choice choice = {.fitted = &filter};
    struct tutti_measured set = {.table_count = 0};
    struct tutti_fit_cases cases = {.case_count = 0};
    struct tutti_err err = {""};
    double times[3 * sizeof(tables) / sizeof(tables[0])] = {0};
    FILE *file = fopen(one_path, "w");

    REQUIRE(file != NULL);
    fputs("tutti measured 1\n", file);
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
        fprintf(file,
                "table t%zu\nsite s\nplatform p\nmachine dgx-1v\nranks 8\nnodes 1\ngpus 8\n"
                "library nccl\ncollective allreduce\ndtype float\nop sum\nlaunch %s\nquality good\n"
                "source made up\nrows\n1024 %g\n16384 60\n1073741824 9000\nend\n",
                t, tables[t].launch, tables[t].us);
    fclose(file);
    CHECK_OK(tutti_measured_load(one_path, &set, &err), err);
    CHECK_OK(tutti_fit_cases_open(&set, NULL, &choice, 1, &cases, &err), err);
    REQUIRE(cases.case_count == sizeof(tables) / sizeof(tables[0]));
    for (size_t t = 0; t < cases.case_count; t++) {
        CHECK(fabs(cases.points[3 * t].fitted_least_us - tables[t].fitted_us) < 1e-9);
        CHECK(fabs(cases.cases[t].least_us - tables[t].judged_us) < 1e-9);
    }
    for (int judges = 0; judges < 2; judges++) {
        struct tutti_calib *none = NULL;

        CHECK_OK(tutti_calib_new(&none, &err), err); /* NCCL's own figures: some 16 us */
        cases.judges = judges == 1;
        CHECK_OK(tutti_fit_cases_predict(&cases, none, NULL, NULL, times, &err), err);
        CHECK(fabs(exp(times[0]) - (cases.judges ? 34.4 : 49)) < 1e-6);
        CHECK(fabs(exp(times[1]) - (cases.judges ? 34.4 : 60)) < 1e-6);
        CHECK(fabs(exp(times[3]) - (cases.judges ? 34.4 : 23.2)) < 1e-6);
        CHECK(exp(times[4]) < 35); /* 60 us are more than a third above 23 */
        CHECK(exp(times[6]) < 23);
        CHECK(exp(times[2]) > 5000); /* GPUs' work */
        CHECK(fabs(times[2] - times[8]) < 1e-12);
        tutti_calib_free(none);
    }
    tutti_fit_cases_close(&cases);
}
