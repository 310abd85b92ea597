/* Calls that are under way at once: a story with its arithmetic, and random steps of two axes held
 * against a play of all their messages. */
#include <math.h>

#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/step.h"
#include "tests/test.h"
#include "topo/topo.h"

enum { LANES = 3, WORK = 0, INNER = 1, OUTER = 2, LAYERS_MAX = 6 };

static struct tutti_random random_source;

static uint64_t below(uint64_t limit)
{
    return tutti_random_below(&random_source, limit);
}

static struct tutti_topo *machine(const char *spec)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    return topo;
}

/* Layer k works, then two calls begin, one on each axis; the layer after the next waits for both.
 */
struct plan {
    uint32_t rank_count;
    uint32_t inner; /* ranks of a group of the inner axis */
    uint32_t layer_count;
    tutti_ps work_ps[LAYERS_MAX];
    uint64_t bytes[2]; /* of a call on each axis; 0: none */
    const char *algorithm;
};

static void add_callee(struct tutti_builder *b, const struct plan *plan, uint32_t size,
                       uint64_t bytes, uint64_t *scratch)
{
    const struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .count = bytes / 4};
    const struct tutti_shape shape = {.rank_count = size};
    struct tutti_schedule *callee = NULL;
    struct tutti_err err;
    uint32_t index;

    CHECK_OK(tutti_coll_generate(plan->algorithm, &params, &shape, &callee, &err), err);
    *scratch = callee->scratch_bytes;
    CHECK_OK(tutti_builder_add_callee(b, callee, &index, &err), err);
}

static void add_layer(struct tutti_builder *b, const struct plan *plan, uint32_t layer,
                      uint32_t axis_lanes)
{
    struct tutti_step work = {.kind = TUTTI_COMPUTE, .duration_ps = plan->work_ps[layer]};

    if (layer >= 2) {
        work.flags = TUTTI_STEP_DEP;
        work.dep_lane = (uint16_t)(INNER + layer % axis_lanes);
        work.dep_step = layer - 2;
    }
    (void)tutti_builder_add(b, 0, WORK, &work, NULL);
    for (uint32_t i = 0; i < axis_lanes; i++) {
        struct tutti_step call =
            tutti_step_call(i, (uint8_t)(1 + i), (struct tutti_buf_at){TUTTI_BUF_IN, 0},
                            (struct tutti_buf_at){TUTTI_BUF_OUT, i << 30}, (uint64_t)i << 30);

        call.flags = TUTTI_STEP_DEP;
        call.dep_lane = WORK;
        call.dep_step = layer;
        (void)tutti_builder_add(b, 0, INNER + i, &call, NULL);
    }
}

static struct tutti_schedule *make(const struct plan *plan)
{
    const uint32_t sizes[2] = {plan->rank_count / plan->inner, plan->inner};
    const struct tutti_axis axes[2] = {tutti_mesh_axis("inner", 0, sizes, 2, 1),
                                       tutti_mesh_axis("outer", 0, sizes, 2, 0)};
    const struct tutti_schedule_desc desc = {.name = "overlap",
                                             .contract = {.collective = TUTTI_CUSTOM},
                                             .rank_count = plan->rank_count,
                                             .lane_count = LANES,
                                             .in_bytes = UINT64_C(1) << 30,
                                             .out_bytes = UINT64_C(1) << 31,
                                             .scratch_bytes = UINT64_C(1) << 31,
                                             .axes = axes,
                                             .axis_count = 2,
                                             .program_count = 1};
    struct tutti_schedule *schedule = NULL;
    struct tutti_builder *b = NULL;
    struct tutti_err err;
    uint64_t scratch;

    CHECK_OK(tutti_builder_new(&desc, &b, &err), err);
    add_callee(b, plan, plan->inner, plan->bytes[0], &scratch);
    add_callee(b, plan, plan->rank_count / plan->inner, plan->bytes[1], &scratch);
    for (uint32_t layer = 0; layer < plan->layer_count; layer++)
        add_layer(b, plan, layer, 2);
    CHECK_OK(tutti_builder_finish(b, &schedule, &err), err);
    return schedule;
}

static tutti_ps play(const struct tutti_topo *topo, const struct tutti_schedule *schedule)
{
    const struct tutti_sim_opts opts = {.size = sizeof(opts), .topo = topo};
    const struct tutti_play wish = {
        .size = sizeof(wish), .schedule = schedule, .iteration_count = 1};
    struct tutti_backend *sim = NULL;
    struct tutti_played played = {.total_ps = 0};
    struct tutti_err err;

    CHECK_OK(tutti_sim_open(&opts, &sim, &err), err);
    CHECK_OK(tutti_backend_play(sim, &wish, &played, &err), err);
    tutti_backend_close(sim);
    return played.total_ps;
}

static tutti_ps all_messages(const struct tutti_topo *topo, const struct tutti_schedule *schedule)
{
    struct tutti_schedule *flat = NULL;
    struct tutti_err err;
    tutti_ps total;

    CHECK_OK(tutti_schedule_flatten(schedule, &flat, &err), err);
    total = play(topo, flat);
    tutti_schedule_free(flat);
    return total;
}

struct alone {
    const struct tutti_topo *topo;
    const struct tutti_schedule *schedule;
};

/* The null: each call takes what it takes alone, and uses nothing. */
static int price_alone(void *context, uint32_t callee, uint32_t number,
                       struct tutti_call_price *ret, struct tutti_err *err)
{
    const struct alone *alone = context;
    const struct tutti_axis axis = tutti_schedule_axis(alone->schedule, number);
    struct tutti_schedule *spread = NULL;
    int status = tutti_schedule_on_axis(alone->schedule->callees[callee], &axis,
                                        alone->schedule->rank_count, &spread, err);

    if (status == 0)
        ret->alone_ps = play(alone->topo, spread);
    tutti_schedule_free(spread);
    return status;
}

static struct tutti_stepped step_with(const struct tutti_topo *topo,
                                      const struct tutti_schedule *schedule, bool shares)
{
    struct alone alone = {topo, schedule};
    const struct tutti_step_opts opts = {.size = sizeof(opts),
                                         .topo = topo,
                                         .schedule = schedule,
                                         .price = shares ? NULL : price_alone,
                                         .price_context = &alone};
    struct tutti_stepped stepped = {.total_ps = -1};
    struct tutti_err err;

    CHECK_OK(tutti_step_play(&opts, &stepped, &err), err);
    return stepped;
}

static struct tutti_stepped step(const struct tutti_topo *topo,
                                 const struct tutti_schedule *schedule)
{
    return step_with(topo, schedule, true);
}

/* Four ranks on a switch of 1 GB/s: two rings of two at a time, each of 2 MB over the same links:
 * alone 2 ms and some latency, together half as fast. */
TEST(two_calls_over_one_link_take_twice_as_long)
{
    struct tutti_topo *topo = machine("switch:n=4,bw=1GB/s,lat=1ns");
    struct plan plan = {.rank_count = 4,
                        .inner = 2,
                        .layer_count = 1,
                        .work_ps = {TUTTI_PS_PER_MS},
                        .bytes = {2000000, 2000000},
                        .algorithm = "ring"};
    struct tutti_schedule *schedule = make(&plan);
    tutti_ps total = step(topo, schedule).total_ps;

    CHECK(total > 4990 * TUTTI_PS_PER_US && total < 5010 * TUTTI_PS_PER_US);
    CHECK_INT(step(topo, schedule).class_count, 1);
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
}

/* What hardly uses the links is hardly slowed: 8 KB beside 64 MB. */
TEST(a_short_call_beside_a_long_one_is_hardly_slowed)
{
    struct tutti_topo *topo = machine("switch:n=4,bw=10GB/s,lat=10us");
    struct plan plan = {.rank_count = 4,
                        .inner = 2,
                        .layer_count = 1,
                        .work_ps = {TUTTI_PS_PER_MS},
                        .bytes = {8192, 64000000},
                        .algorithm = "ring"};
    struct tutti_schedule *both = make(&plan);
    struct tutti_schedule *one;
    tutti_ps alone;

    plan.bytes[0] = 4; /* next to nothing */
    one = make(&plan);
    alone = step(topo, one).total_ps;
    CHECK(step(topo, both).total_ps < alone + 2 * TUTTI_PS_PER_US);
    tutti_schedule_free(both);
    tutti_schedule_free(one);
    tutti_topo_free(topo);
}

static int by_value(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;

    return (*x > *y) - (*x < *y);
}

static struct plan random_plan(const char **ret_spec)
{
    static const struct {
        const char *spec;
        uint32_t rank_count;
        uint32_t inner;
    } worlds[] = {{"switch:n=8,bw=50GB/s,lat=1us", 8, 2},
                  {"switch:n=16,bw=50GB/s,lat=500ns", 16, 4},
                  {"dgx-h100:nodes=2", 16, 8},
                  {"dgx-h100:nodes=4", 32, 4},
                  {"torus:4x4,bw=45GB/s,lat=1us", 16, 4}};
    static const char *const algorithms[] = {"ring", "halving-doubling", "two-shot"};
    size_t world = (size_t)below(sizeof(worlds) / sizeof(worlds[0]));
    struct plan plan = {.rank_count = worlds[world].rank_count,
                        .inner = worlds[world].inner,
                        .layer_count = 2 + (uint32_t)below(LAYERS_MAX - 1),
                        .algorithm = algorithms[below(3)]};

    for (uint32_t i = 0; i < plan.layer_count; i++)
        plan.work_ps[i] = (tutti_ps)(1 + below(300)) * TUTTI_PS_PER_US;
    for (int i = 0; i < 2; i++)
        plan.bytes[i] = UINT64_C(65536) << below(11);
    *ret_spec = worlds[world].spec;
    return plan;
}

/* The bar is what is stated in sim/README.md. */
TEST(random_steps_are_near_to_a_play_of_all_messages)
{
    enum { CASES = 200 };
    double errors[CASES];
    double shared[CASES]; /* of those where sharing matters */
    double null[CASES];
    size_t shared_count = 0;

    for (uint64_t number = 0; number < CASES; number++) {
        const char *spec = NULL;
        struct tutti_topo *topo;
        struct tutti_schedule *schedule;
        struct plan plan;
        double level1;
        double level2;

        tutti_random_seed(&random_source, tutti_random_hash(test_seed, number, 3, 0));
        plan = random_plan(&spec);
        topo = machine(spec);
        schedule = make(&plan);
        level1 = (double)step(topo, schedule).total_ps;
        level2 = (double)all_messages(topo, schedule);
        errors[number] = fabs(level1 / level2 - 1) * 100;
        null[number] = fabs((double)step_with(topo, schedule, false).total_ps / level2 - 1) * 100;
        if (null[number] > 1)
            shared[shared_count++] = errors[number];
        if (errors[number] > 8)
            printf("case %llu: %s %s %u layers %llu %llu B: %.1f us, %.1f\n",
                   (unsigned long long)number, spec, plan.algorithm, plan.layer_count,
                   (unsigned long long)plan.bytes[0], (unsigned long long)plan.bytes[1],
                   level1 / 1e6, level2 / 1e6);
        tutti_schedule_free(schedule);
        tutti_topo_free(topo);
    }
    qsort(errors, CASES, sizeof(errors[0]), by_value);
    qsort(null, CASES, sizeof(null[0]), by_value);
    printf("calls that take nothing from each other: median %.2f %%, p90 %.2f %%, worst %.2f %%\n",
           null[CASES / 2], null[CASES * 9 / 10], null[CASES - 1]);
    printf("median %.2f %%, p90 %.2f %%, worst %.2f %%\n", errors[CASES / 2],
           errors[CASES * 9 / 10], errors[CASES - 1]);
    REQUIRE(shared_count > CASES / 10);
    qsort(shared, shared_count, sizeof(shared[0]), by_value);
    printf("of the %zu where they do by over 1 %%: median %.2f %%\n", shared_count,
           shared[shared_count / 2]);
    CHECK(shared[shared_count / 2] < 2);
    CHECK(errors[CASES - 1] < 10);
}
