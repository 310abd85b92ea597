/* The fitter on models whose truth is known. */
#include <math.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/fit.h"
#include "tests/test.h"

enum { SIZES = 24, LOGS = 3, POINTS = SIZES * LOGS };

/* Time = launch + bytes / rate, and a third parameter that no time depends on. */
struct world {
    double observed[POINTS];
    double weight[POINTS];
    uint32_t calls;
};

static double seconds(const double *parameters, uint32_t size)
{
    return log(exp(parameters[0]) + ldexp(8, (int)size) / exp(parameters[1]));
}

static int predict(void *context, const double *parameters, uint32_t changed, double *times,
                   struct tutti_err *err)
{
    struct world *world = context;

    (void)err;
    world->calls++;
    for (uint32_t i = 0; changed != 2 && i < POINTS; i++)
        times[i] = seconds(parameters, i % SIZES);
    return 0;
}

static const double truth[3] = {2.5, 10.0, 0.0}; /* e^2.5 us, e^10 bytes/us */
static const double prior[3] = {1.0, 9.0, 0.3};
static const double loose[3] = {2.0, 2.0, 0.5};

static void measure(struct world *world, double noise)
{
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (uint32_t i = 0; i < POINTS; i++) {
        world->observed[i] =
            seconds(truth, i % SIZES) + noise * (tutti_random_unit(&random) - 0.5) * 2;
        world->weight[i] = 1;
    }
}

static struct tutti_fit *solve(struct world *world)
{
    struct tutti_fit_problem problem = {.parameter_count = 3,
                                        .point_count = POINTS,
                                        .prior = prior,
                                        .prior_sigma = loose,
                                        .observed = world->observed,
                                        .weight = world->weight,
                                        .predict = predict,
                                        .context = world};
    struct tutti_fit *fit = NULL;
    struct tutti_err err = {{0}};

    CHECK_OK(tutti_fit_solve(&problem, &fit, &err), err);
    return fit;
}

TEST(finds_the_truth_where_nothing_is_noisy)
{
    struct world world = {.calls = 0};
    struct tutti_fit *fit;

    measure(&world, 0);
    fit = solve(&world);
    REQUIRE(fit != NULL);
    CHECK(fit->converged);
    CHECK(fabs(fit->value[0] - truth[0]) < 1e-3);
    CHECK(fabs(fit->value[1] - truth[1]) < 1e-3);
    CHECK(fit->objective < fit->objective_first / 1000);
    tutti_fit_free(fit);
}

static uint32_t told[2]; /* turns, and derivatives of each */

static void watch(void *context, uint32_t iteration, uint32_t parameter)
{
    (void)context;
    CHECK(parameter == told[1] % 3);
    CHECK(iteration == told[1] / 3);
    told[0] = iteration;
    told[1]++;
}

TEST(tells_who_waits_of_each_derivative)
{
    struct world world = {.calls = 0};
    struct tutti_fit_problem problem = {.parameter_count = 3,
                                        .point_count = POINTS,
                                        .prior = prior,
                                        .prior_sigma = loose,
                                        .observed = world.observed,
                                        .weight = world.weight,
                                        .predict = predict,
                                        .watch = watch,
                                        .context = &world};
    struct tutti_fit *fit = NULL;
    struct tutti_err err = {{0}};

    measure(&world, 0);
    told[0] = told[1] = 0;
    CHECK_OK(tutti_fit_solve(&problem, &fit, &err), err);
    REQUIRE(fit != NULL);
    CHECK(told[0] == fit->iteration_count); /* once more about where it ended */
    CHECK(told[1] == 3 * (fit->iteration_count + 1));
    tutti_fit_free(fit);
}

enum { CLASSES = 6 };

/* The time of a class is what is general and what is its own. */
static int predict_classes(void *context, const double *parameters, uint32_t changed, double *times,
                           struct tutti_err *err)
{
    (void)context;
    (void)changed;
    (void)err;
    for (int i = 0; i < CLASSES; i++)
        times[i] = parameters[0] + parameters[1 + i];
    return 0;
}

/* What is general of classes that all take e^2 us, but for one that takes twenty times as long. */
static double general_of_classes(double freedom)
{
    static const double priors[1 + CLASSES] = {2};
    static const double sigmas[1 + CLASSES] = {1, .5, .5, .5, .5, .5, .5};
    static const double observed[CLASSES] = {2, 2, 2, 2, 2, 5};
    static const double weight[CLASSES] = {20, 20, 20, 20, 20, 20};
    struct tutti_fit_problem problem = {.parameter_count = 1 + CLASSES,
                                        .point_count = CLASSES,
                                        .prior = priors,
                                        .prior_sigma = sigmas,
                                        .prior_freedom = freedom,
                                        .observed = observed,
                                        .weight = weight,
                                        .predict = predict_classes};
    struct tutti_fit *fit = NULL;
    struct tutti_err err = {{0}};
    double general = 0;

    CHECK_OK(tutti_fit_solve(&problem, &fit, &err), err);
    if (fit != NULL) {
        general = fit->value[0];
        CHECK(fabs(fit->predicted[CLASSES - 1] - 5) < 0.1);
    }
    tutti_fit_free(fit);
    return general;
}

TEST(a_class_unlike_all_others_is_its_own)
{
    /* Normal priors share 3 as 1 to 0.25 with five others: (3 / .25) / (1 + 6 / .25) = 0.48. */
    CHECK(fabs(general_of_classes(0) - 2.48) < 0.02);
    CHECK(general_of_classes(3) < 2.15);
    CHECK(general_of_classes(3) > 2);
}

TEST(says_which_parameter_the_data_leave_open)
{
    struct world world = {.calls = 0};
    struct tutti_fit *fit;

    measure(&world, 0.03);
    fit = solve(&world);
    REQUIRE(fit != NULL);
    CHECK(fit->identified[0]);
    CHECK(fit->identified[1]);
    CHECK(!fit->identified[2]);
    CHECK(fabs(fit->value[2] - prior[2]) < 1e-9); /* it stays at its prior, */
    CHECK(fabs(fit->sigma[2] - loose[2]) < 1e-3); /* as uncertain as that */
    CHECK(fit->sigma[0] > 0.001 && fit->sigma[0] < 0.05);
    tutti_fit_free(fit);
}

TEST(one_log_of_three_that_is_half_wrong_does_not_drag_the_rest)
{
    struct world world = {.calls = 0};
    struct tutti_fit *fit;

    measure(&world, 0.01);
    for (uint32_t i = 0; i < SIZES; i++)
        world.observed[i] += log(2);
    fit = solve(&world);
    REQUIRE(fit != NULL);
    CHECK(fabs(fit->value[0] - truth[0]) < 0.05);
    CHECK(fabs(fit->value[1] - truth[1]) < 0.05);
    tutti_fit_free(fit);
}

static struct tutti_fit_problem problem_of(struct world *world)
{
    return (struct tutti_fit_problem){.parameter_count = 3,
                                      .point_count = POINTS,
                                      .prior = prior,
                                      .prior_sigma = loose,
                                      .observed = world->observed,
                                      .weight = world->weight,
                                      .predict = predict,
                                      .context = world};
}

static double far_off(const struct tutti_fit *fit)
{
    return fabs(fit->value[0] - truth[0]) + fabs(fit->value[1] - truth[1]);
}

/* One log is of something else: Huber's loss lets it pull as hard as any of the others. */
TEST(what_is_lost_does_not_pull)
{
    struct world world = {.calls = 0};
    struct tutti_fit_problem problem = problem_of(&world);
    struct tutti_fit *huber, *fit = NULL;
    struct tutti_err err = {{0}};

    measure(&world, 0.01);
    for (uint32_t i = 0; i < SIZES; i++)
        world.observed[i] += log(20);
    huber = solve(&world);
    REQUIRE(huber != NULL);
    problem.lost = 0.5;
    CHECK_OK(tutti_fit_solve(&problem, &fit, &err), err);
    REQUIRE(fit != NULL);
    CHECK(far_off(fit) < far_off(huber) / 2);
    CHECK(fit->lost >= 0.5 && fit->lost <= 0.5);
    tutti_fit_free(huber);
    tutti_fit_free(fit);
}

/* Where the prior is that log's, the search for what loses the others ends with it if it begins
 * there: it has to begin where nothing is lost. */
TEST(what_is_lost_does_not_hang_on_where_the_search_begins)
{
    struct world world = {.calls = 0};
    double near_wrong[3];
    struct tutti_fit_problem problem = problem_of(&world);
    struct tutti_fit *fit = NULL;
    struct tutti_err err = {{0}};

    measure(&world, 0.01);
    for (uint32_t i = 0; i < SIZES; i++)
        world.observed[i] += log(20);
    for (uint32_t p = 0; p < 3; p++)
        near_wrong[p] = truth[p] + (p == 0 ? log(20) : p == 1 ? -log(20) : 0);
    problem.prior = near_wrong;
    problem.lost = 0.5;
    CHECK_OK(tutti_fit_solve(&problem, &fit, &err), err);
    REQUIRE(fit != NULL);
    CHECK(fabs(fit->value[0] - truth[0]) < 0.05);
    CHECK(fabs(fit->value[1] - truth[1]) < 0.05);
    tutti_fit_free(fit);
}

/* Only the points that are not omitted. */
static int predict_near(void *context, const double *near, const double *parameters,
                        const bool *omitted, double *times, struct tutti_err *err)
{
    struct world *world = context;

    (void)near;
    (void)err;
    world->calls++;
    for (uint32_t i = 0; i < POINTS; i++) {
        if (!omitted[i])
            times[i] = seconds(parameters, i % SIZES);
    }
    return 0;
}

TEST(leaving_a_log_out_agrees_with_a_fit_without_it)
{
    struct world world = {.calls = 0};
    struct tutti_fit *with, *without;
    struct tutti_err err = {{0}};
    struct tutti_fit_problem problem = problem_of(&world);
    bool omitted[POINTS] = {false};
    double values[3], near[3];

    measure(&world, 0.05);
    for (uint32_t i = 0; i < SIZES; i++) {
        world.observed[i] += 1; /* so far off that the model is nowhere near linear */
        omitted[i] = true;
    }
    with = solve(&world);
    REQUIRE(with != NULL);
    CHECK_OK(tutti_fit_without(&problem, with, omitted, values, &err), err);
    problem.predict_near = predict_near;
    CHECK_OK(tutti_fit_without(&problem, with, omitted, near, &err), err);
    for (uint32_t i = 0; i < SIZES; i++)
        world.weight[i] = 0;
    without = solve(&world);
    if (without != NULL) {
        CHECK(fabs(values[0] - without->value[0]) < 0.01);
        CHECK(fabs(values[1] - without->value[1]) < 0.01);
        CHECK(fabs(values[2] - near[2]) < 1e-9);
        CHECK(fabs(values[0] - near[0]) < 1e-9);
    }
    tutti_fit_free(with);
    tutti_fit_free(without);
}

/* Times as sums whose parts at the solution are known by the derivatives there: exact in this
 * world, where a model linear in logarithms is not. */
static void add_parts(void *context, const struct tutti_fit *fit, const double *parameters,
                      double *times, double *jacobian)
{
    (void)context;
    for (uint32_t i = 0; i < POINTS; i++) {
        const double *parts = fit->jacobian + (size_t)i * 3;
        double launch = parts[0] * exp(parameters[0] - fit->value[0]);
        double bytes = -parts[1] * exp(fit->value[1] - parameters[1]);
        double total = 1 - (parts[0] - parts[1]) + launch + bytes;

        times[i] = fit->predicted[i] + log(total);
        if (jacobian == NULL)
            continue;
        jacobian[i * 3] = launch / total;
        jacobian[i * 3 + 1] = -bytes / total;
    }
}

TEST(who_knows_what_times_are_made_of_need_not_step)
{
    struct world world = {.calls = 0};
    struct tutti_fit *with, *without;
    struct tutti_err err = {{0}};
    struct tutti_fit_problem problem = problem_of(&world);
    bool omitted[POINTS] = {false};
    double values[3];

    measure(&world, 0.01);
    for (uint32_t i = 0; i < 2 * SIZES; i++) {
        world.observed[i] += 2; /* two logs of three are of another machine */
        omitted[i] = true;
    }
    with = solve(&world);
    REQUIRE(with != NULL);
    problem.approximate = add_parts;
    CHECK_OK(tutti_fit_without(&problem, with, omitted, values, &err), err);
    for (uint32_t i = 0; i < 2 * SIZES; i++)
        world.weight[i] = 0;
    without = solve(&world);
    REQUIRE(without != NULL);
    CHECK(fabs(with->value[0] - without->value[0]) > 1); /* far away */
    CHECK(fabs(values[0] - without->value[0]) < 0.01);
    CHECK(fabs(values[1] - without->value[1]) < 0.01);
    CHECK(fabs(values[2] - prior[2]) < 1e-6); /* not told by any: as it was */
    tutti_fit_free(with);
    tutti_fit_free(without);
}

/* Two sites: at one the lanes bind, at the other what is slower, lanes or links. */
static double seconds_of_lanes(const double *parameters, uint32_t point)
{
    double bytes = ldexp(8, (int)(point % SIZES));
    double lanes = bytes / exp(parameters[1]), links = bytes / exp(parameters[2]);

    return log(exp(parameters[0]) + (point < SIZES ? lanes : fmax(lanes, links)));
}

static int predict_lanes(void *context, const double *parameters, uint32_t changed, double *times,
                         struct tutti_err *err)
{
    (void)changed;
    (void)context;
    (void)err;
    for (uint32_t i = 0; i < 2 * SIZES; i++)
        times[i] = seconds_of_lanes(parameters, i);
    return 0;
}

static int differentiate_lanes(void *context, const double *parameters, const bool *skipped,
                               const double *times, double *jacobian, struct tutti_err *err)
{
    (void)context;
    (void)err;
    for (uint32_t i = 0; i < 2 * SIZES; i++) {
        for (uint32_t p = 0; p < 3 && !skipped[i]; p++) {
            double there[3] = {parameters[0], parameters[1], parameters[2]};

            there[p] += 0.02;
            jacobian[i * 3 + p] = (seconds_of_lanes(there, i) - times[i]) / 0.02;
        }
    }
    return 0;
}

/* As add_parts(): whichever of lanes and links is the slower goes on being so. */
static void add_lanes(void *context, const struct tutti_fit *fit, const double *parameters,
                      double *times, double *jacobian)
{
    (void)context;
    for (uint32_t i = 0; i < 2 * SIZES; i++) {
        double parts[3], total = 1;

        for (uint32_t p = 0; p < 3; p++) {
            double sign = p == 0 ? 1 : -1;
            double was = fmax(0, sign * fit->jacobian[i * 3 + p]);

            parts[p] = was * exp(sign * (parameters[p] - fit->value[p]));
            total += parts[p] - was;
        }
        times[i] = fit->predicted[i] + log(total);
        for (uint32_t p = 0; p < 3 && jacobian != NULL; p++)
            jacobian[i * 3 + p] = (p == 0 ? parts[p] : -parts[p]) / total;
    }
}

/* The site with fast links tells how slow lanes are; the other, whose links bind, only that lanes
 * are not slower than that. A fit to one of them is moved on to the other. */
static void move_on_from(bool fast_first)
{
    static const double lanes_truth[3] = {2.5, 11, 10}, lanes_prior[3] = {1, 8, 10};
    static const double sigma[3] = {2, 2, 2};
    double observed[2 * SIZES], weight[2 * SIZES], all[2 * SIZES], values[3];
    bool omitted[2 * SIZES] = {false};
    struct tutti_fit_problem problem = {.parameter_count = 3,
                                        .point_count = 2 * SIZES,
                                        .prior = lanes_prior,
                                        .prior_sigma = sigma,
                                        .observed = observed,
                                        .weight = weight,
                                        .predict = predict_lanes,
                                        .differentiate_near = differentiate_lanes,
                                        .approximate = add_lanes};
    struct tutti_fit *part = NULL, *scratch = NULL;
    struct tutti_err err = {{0}};

    for (uint32_t i = 0; i < 2 * SIZES; i++) {
        observed[i] = seconds_of_lanes(lanes_truth, i);
        weight[i] = (i < SIZES) == fast_first;
        all[i] = 1;
        omitted[i] = weight[i] > 0;
    }
    CHECK_OK(tutti_fit_solve(&problem, &part, &err), err);
    problem.weight = all;
    REQUIRE(part != NULL);
    CHECK_OK(tutti_fit_without(&problem, part, omitted, values, &err), err);
    for (uint32_t i = 0; i < 2 * SIZES; i++)
        all[i] = !omitted[i];
    CHECK_OK(tutti_fit_solve(&problem, &scratch, &err), err);
    REQUIRE(scratch != NULL);
    for (uint32_t i = 0; i < 2 * SIZES; i++)
        CHECK(fabs(seconds_of_lanes(values, i) - seconds_of_lanes(scratch->value, i)) < 0.05);
    tutti_fit_free(part);
    tutti_fit_free(scratch);
}

TEST(a_fit_moved_on_to_what_it_had_not_seen_ends_where_a_fit_from_scratch_does)
{
    move_on_from(true);
    move_on_from(false);
}

TEST(a_fit_leaps_where_it_knows_what_times_are_made_of)
{
    struct world stepping = {.calls = 0};
    struct world leaping = {.calls = 0};
    struct tutti_fit_problem problem = problem_of(&leaping);
    struct tutti_err err = {{0}};
    struct tutti_fit *steps, *fit = NULL;

    measure(&stepping, 0);
    measure(&leaping, 0);
    problem.approximate = add_parts;
    steps = solve(&stepping);
    CHECK_OK(tutti_fit_solve(&problem, &fit, &err), err);
    REQUIRE(steps != NULL && fit != NULL);
    CHECK(fit->converged);
    CHECK(fabs(fit->value[0] - truth[0]) < 1e-3);
    CHECK(fabs(fit->value[1] - truth[1]) < 1e-3);
    printf("%u predictions by steps, %u by leaps\n", stepping.calls, leaping.calls);
    CHECK(leaping.calls < stepping.calls);
    tutti_fit_free(steps);
    tutti_fit_free(fit);
}

TEST(the_standard_error_covers_the_truth)
{
    struct world world = {.calls = 0};
    uint64_t first = test_seed;
    uint32_t outside = 0;

    for (test_seed = first; test_seed < first + 50; test_seed++) {
        struct tutti_fit *fit;

        measure(&world, 0.05);
        fit = solve(&world);
        REQUIRE(fit != NULL);
        for (uint32_t p = 0; p < 2; p++)
            outside += fabs(fit->value[p] - truth[p]) > 1.96 * fit->sigma[p];
        tutti_fit_free(fit);
    }
    test_seed = first;
    if (outside > 15)
        TEST_FAIL("%u outside", outside); /* of 100, 5 expected */
}

TEST(refuses_what_is_no_number)
{
    struct world world = {.calls = 0};
    struct tutti_fit_problem problem = {.prior = prior,
                                        .prior_sigma = loose,
                                        .observed = world.observed,
                                        .weight = world.weight,
                                        .predict = predict,
                                        .context = &world};
    struct tutti_fit *fit = NULL;
    struct tutti_err err;

    CHECK(tutti_fit_solve(&problem, &fit, &err) == -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "no parameter to fit");
    problem.parameter_count = 3;
    CHECK(tutti_fit_solve(&problem, &fit, &err) == -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "no measurement to fit to");
    problem.point_count = POINTS;
    measure(&world, 0);
    world.observed[7] = NAN;
    CHECK(tutti_fit_solve(&problem, &fit, &err) == -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "measurement '7' is no number");
    measure(&world, 0);
    for (uint32_t i = 0; i < POINTS; i++)
        world.weight[i] = 0;
    CHECK(tutti_fit_solve(&problem, &fit, &err) == -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "none of '72' measurements has a weight");
    CHECK(fit == NULL);
}

static int predict_but_one(void *context, const double *parameters, uint32_t changed, double *times,
                           struct tutti_err *err)
{
    int status = predict(context, parameters, changed, times, err);

    times[7] = changed == TUTTI_FIT_NONE ? NAN : (double)INFINITY;
    return status;
}

TEST(what_has_no_weight_need_be_no_number)
{
    struct world world = {.calls = 0};
    struct tutti_fit_problem problem = {.parameter_count = 3,
                                        .point_count = POINTS,
                                        .prior = prior,
                                        .prior_sigma = loose,
                                        .observed = world.observed,
                                        .weight = world.weight,
                                        .predict = predict_but_one,
                                        .context = &world};
    struct tutti_fit *fit = NULL;
    struct tutti_err err = {{0}};

    measure(&world, 0);
    world.weight[7] = 0;
    CHECK_OK(tutti_fit_solve(&problem, &fit, &err), err);
    REQUIRE(fit != NULL);
    CHECK(fit->converged && fit->iteration_count > 0);
    CHECK(fabs(fit->value[0] - truth[0]) < 1e-3);
    CHECK(fit->sigma[0] > 0 && fit->sigma[0] < 0.1);
    CHECK(fit->identified[0] && fit->identified[1]);
    tutti_fit_free(fit);
}

static int predict_to_infinity(void *context, const double *parameters, uint32_t changed,
                               double *times, struct tutti_err *err)
{
    int status = predict(context, parameters, changed, times, err);

    times[7] = changed == 1 ? (double)INFINITY : times[7];
    return status;
}

TEST(a_derivative_that_is_no_number_is_not_certainty)
{
    struct world world = {.calls = 0};
    struct tutti_fit_problem problem = {.parameter_count = 3,
                                        .point_count = POINTS,
                                        .prior = prior,
                                        .prior_sigma = loose,
                                        .observed = world.observed,
                                        .weight = world.weight,
                                        .predict = predict_to_infinity,
                                        .context = &world};
    struct tutti_fit *fit = NULL;
    struct tutti_err err = {{0}};

    measure(&world, 0);
    CHECK_INT(tutti_fit_solve(&problem, &fit, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "no standard errors of '3' parameters: some are told only together, or a "
                         "time is no number");
    CHECK(fit == NULL);
}
