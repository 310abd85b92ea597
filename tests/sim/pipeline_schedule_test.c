/* A step of a pipeline as a schedule: the check finds nothing, and what is spoilt; simulated it
 * takes what the pipeline's own play says; really played, by threads, it trains. */
#include <stdatomic.h>

#include "runtime/backend.h"
#include "runtime/model.h"
#include "runtime/pipeline.h"
#include "runtime/random.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/threads.h"
#include "sim/footprint.h"
#include "sim/step.h"
#include "tests/test.h"
#include "topo/topo.h"

enum { STAGES_MAX = 20 };

/* A pipeline drawn at random, all its stages different. */
struct drawn {
    struct tutti_pipeline_params pipeline;
    struct tutti_stage_times times[STAGES_MAX];
    uint64_t boundary_bytes[STAGES_MAX];
    uint64_t weight_bytes[STAGES_MAX];
    struct tutti_pipeline_schedule_params params;
};

static uint32_t draw(uint64_t seed, uint64_t what, uint64_t which, uint32_t count)
{
    return (uint32_t)(tutti_random_hash(seed, what, which, 0) % count);
}

static void draw_pipeline(struct drawn *d, uint64_t seed, uint32_t bytes_max)
{
    const uint32_t devices = 1 + draw(seed, 2, 0, 5);

    *d = (struct drawn){
        .pipeline = {.size = sizeof(d->pipeline),
                     .pipeline = (enum tutti_pipeline)draw(seed, 1, 0, TUTTI_PIPELINE_COUNT),
                     .device_count = devices,
                     .micro_batches = 2 * devices + draw(seed, 3, 0, 4)}};
    if (d->pipeline.pipeline == TUTTI_PIPELINE_INTERLEAVED) {
        d->pipeline.chunks = 2 + draw(seed, 4, 0, 3);
        d->pipeline.micro_batches = 2 * devices;
    }
    for (uint32_t i = 0; i < tutti_pipeline_stage_count(&d->pipeline); i++) {
        d->times[i] = (struct tutti_stage_times){1000000 * (tutti_ps)(1 + draw(seed, 5, i, 20)),
                                                 1000000 * (tutti_ps)(1 + draw(seed, 6, i, 40)),
                                                 1000000 * (tutti_ps)(1 + draw(seed, 7, i, 20))};
        d->boundary_bytes[i] = 8 * (uint64_t)draw(seed, 8, i, bytes_max / 8 + 1);
        d->weight_bytes[i] = 8 * (uint64_t)(1 + draw(seed, 9, i, 4));
    }
    d->params = (struct tutti_pipeline_schedule_params){.size = sizeof(d->params),
                                                        .pipeline = &d->pipeline,
                                                        .times = d->times,
                                                        .boundary_bytes = d->boundary_bytes,
                                                        .weight_bytes = d->weight_bytes};
}

static struct tutti_schedule *schedule_of(const struct drawn *d)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_pipeline_schedule(&d->params, &schedule, &err), err);
    return schedule;
}

TEST(the_check_finds_nothing)
{
    const uint64_t count = test_count(1000, 100);

    for (uint64_t k = 0; k < count; k++) {
        struct drawn d;
        struct tutti_schedule *schedule;
        struct tutti_err err;

        draw_pipeline(&d, test_seed + k, 64);
        schedule = schedule_of(&d);
        REQUIRE(schedule != NULL);
        if (tutti_schedule_check(schedule, &err) < 0)
            TEST_FAIL("seed %" PRIu64 ", %s: %s", test_seed + k,
                      tutti_pipeline_name(d.pipeline.pipeline), err.text);
        tutti_schedule_free(schedule);
    }
}

/* One dependency less: of what is computed before it has come, or sent before it is there. */
TEST(the_check_finds_a_dependency_that_is_missing)
{
    const uint64_t count = test_count(300, 40);
    uint64_t found = 0;
    uint64_t spoilt = 0;

    for (uint64_t k = 0; k < count; k++) {
        struct drawn d;
        struct tutti_schedule *schedule;
        struct tutti_schedule *wrong = NULL;
        struct tutti_schedule_desc desc = {.name = "wrong",
                                           .contract = {.collective = TUTTI_CUSTOM}};
        struct tutti_builder *builder = NULL;
        struct tutti_err err;
        uint64_t seen = 0;
        uint64_t victim;

        draw_pipeline(&d, test_seed + k, 0);
        for (int i = 0; i < STAGES_MAX; i++)
            d.boundary_bytes[i] = 8;
        schedule = schedule_of(&d);
        REQUIRE(schedule != NULL);
        victim = draw(test_seed + k, 20, 0, 2 * d.pipeline.micro_batches);
        desc.rank_count = schedule->rank_count;
        desc.lane_count = schedule->lane_count;
        desc.slot_count = schedule->slot_count;
        desc.scratch_bytes = schedule->scratch_bytes;
        desc.state_bytes = schedule->state_bytes;
        desc.work = schedule->work;
        desc.work_count = schedule->work_count;
        CHECK_OK(tutti_builder_new(&desc, &builder, &err), err);
        for (uint32_t rank = 0; rank < schedule->rank_count; rank++) {
            for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
                const struct tutti_step *step;
                struct tutti_cursor cursor;

                tutti_cursor_open(&cursor, schedule, rank, lane);
                while ((step = tutti_cursor_next(&cursor)) != NULL) {
                    struct tutti_step copy = *step;

                    if ((copy.flags & TUTTI_STEP_DEP) != 0 && seen++ == victim)
                        copy.flags = 0;
                    (void)tutti_builder_add(builder, rank, lane, &copy, NULL);
                }
            }
        }
        CHECK_OK(tutti_builder_finish(builder, &wrong, &err), err);
        spoilt += seen > victim;
        found += seen > victim && tutti_schedule_check(wrong, &err) < 0;
        tutti_schedule_free(wrong);
        tutti_schedule_free(schedule);
    }
    printf("%" PRIu64 " of %" PRIu64 " found\n", found, spoilt);
    CHECK(spoilt > count / 2);
    CHECK_INT(found, spoilt);
}

/* On a switch where a message without bytes takes a microsecond. */
TEST(simulated_it_takes_what_its_own_play_says)
{
    const uint64_t count = test_count(1000, 100);

    for (uint64_t k = 0; k < count; k++) {
        struct drawn d;
        struct tutti_schedule *schedule;
        struct tutti_pipeline_times times;
        struct tutti_stepped stepped = {.total_ps = -1};
        struct tutti_topo *topo = NULL;
        struct tutti_err err;
        char spec[64];

        draw_pipeline(&d, test_seed + k, 0);
        snprintf(spec, sizeof(spec), "switch:n=%u,bw=1GB/s,lat=1us", d.pipeline.device_count);
        schedule = schedule_of(&d);
        CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
        CHECK_OK(tutti_pipeline_play(&d.pipeline, d.times, TUTTI_PS_PER_US, NULL, &times, &err),
                 err);
        CHECK_OK(tutti_step_play(&(struct tutti_step_opts){.size = sizeof(struct tutti_step_opts),
                                                           .topo = topo,
                                                           .schedule = schedule},
                                 &stepped, &err),
                 err);
        if (stepped.total_ps != times.step_ps)
            TEST_FAIL("seed %" PRIu64 ", %s of %u devices: %lld simulated, %lld by itself",
                      test_seed + k, tutti_pipeline_name(d.pipeline.pipeline),
                      d.pipeline.device_count, (long long)stepped.total_ps,
                      (long long)times.step_ps);
        tutti_topo_free(topo);
        tutti_schedule_free(schedule);
    }
}

/* The footprint's own count of what a stage holds is that of the order in which it works. */
TEST(the_footprint_holds_what_the_order_says)
{
    enum { DEVICES = 4, CHUNKS = 2 };
    const struct tutti_model_params gpt = {
        .size = sizeof(gpt),
        .sequence = 64,
        .transformer = {.layers = DEVICES * CHUNKS, .hidden = 64, .heads = 4}};
    struct tutti_workload *model = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_model_new("gpt", &gpt, &model, &err), err);
    for (uint32_t chunks = 1; chunks <= CHUNKS && model != NULL; chunks++) {
        for (uint32_t m = DEVICES; m <= 4 * DEVICES; m += DEVICES) {
            const struct tutti_pipeline_params pipeline = {
                .size = sizeof(pipeline),
                .pipeline = chunks > 1 ? TUTTI_PIPELINE_INTERLEAVED : TUTTI_PIPELINE_1F1B,
                .device_count = DEVICES,
                .micro_batches = m,
                .chunks = chunks};
            struct tutti_pipeline_task tasks[2 * 4 * DEVICES * CHUNKS];

            for (uint32_t d = 1; d < DEVICES - 1; d++) { /* layers alike, and no more */
                struct tutti_footprint_params params = {.size = sizeof(params),
                                                        .model = model,
                                                        .micro_batch = 1,
                                                        .micro_batches = m,
                                                        .pipeline = DEVICES,
                                                        .virtual_stages = chunks,
                                                        .one_stage = true,
                                                        .stage = d};
                struct tutti_footprint all;
                struct tutti_footprint one;

                CHECK_OK(tutti_footprint_of(&params, &all, &err), err);
                params.held = 1; /* a micro-batch in all chunks of a device */
                CHECK_OK(tutti_footprint_of(&params, &one, &err), err);
                tutti_pipeline_tasks(&pipeline, d, tasks);
                CHECK_INT(all.bytes[TUTTI_MEMORY_ACTIVATIONS] * chunks,
                          one.bytes[TUTTI_MEMORY_ACTIVATIONS] *
                              tutti_pipeline_held(&pipeline, tasks));
            }
        }
    }
    tutti_model_free(model);
}

/* ---- really ---------------------------------------------------------------------------------- */

/* A model of one number a stage, all products wrapping: out = in w, and the loss is the sum of the
 * last outputs. Inputs of micro-batches follow from where they lie. */
struct world {
    atomic_uint_fast64_t inputs; /* the sum of those of stage 0 */
    uint32_t stage_count;
};

static uint64_t get(const struct tutti_work_call *call, const struct tutti_region *region)
{
    const struct tutti_region at = tutti_region_at(region, call->step);
    const char *buf = at.buf == TUTTI_BUF_STATE ? call->state : call->scratch;
    uint64_t value;

    memcpy(&value, buf + at.offset, sizeof(value));
    return value;
}

static void set(const struct tutti_work_call *call, const struct tutti_region *region,
                uint64_t value)
{
    const struct tutti_region at = tutti_region_at(region, call->step);
    char *buf = at.buf == TUTTI_BUF_STATE ? call->state : call->scratch;

    memcpy(buf + at.offset, &value, sizeof(value));
}

static int compute(const struct tutti_work_call *call, struct tutti_err *err)
{
    struct world *world = call->work->context;
    const struct tutti_region *reads = call->work->reads;
    const struct tutti_region *writes = call->work->writes;
    const uint32_t stage = (uint32_t)strtoul(call->work->name + 5, NULL, 10);
    const bool is_last = stage + 1 == world->stage_count;
    const char *pass = strchr(call->work->name, '.') + 1;
    const bool weighs = strcmp(pass, "weights") == 0;
    uint32_t at = weighs ? 0 : 1; /* behind the weights */
    uint64_t input = call->step->src_offset + 3;
    uint64_t gradient = 1;

    (void)err;
    if (strcmp(pass, "optimizer") == 0) {
        for (uint32_t i = 0; i < call->work->read_count; i += 2) {
            set(call, &writes[i], get(call, &reads[i]) - get(call, &reads[i + 1]));
            set(call, &writes[i + 1], 0);
        }
        return 0;
    }
    if (stage > 0)
        input = get(call, &reads[at++]);
    if (strcmp(pass, "forward") == 0) {
        if (stage == 0)
            atomic_fetch_add(&world->inputs, input);
        if (!is_last)
            set(call, &writes[0], input * get(call, &reads[0]));
        return 0;
    }
    if (!is_last)
        gradient = get(call, &reads[at++]);
    if (!weighs && stage > 0)
        set(call, &writes[0], gradient * get(call, &reads[0]));
    if (weighs || at < call->work->read_count)
        set(call, &writes[!weighs && stage > 0], get(call, &reads[at]) + gradient * input);
    return 0;
}

/* Three steps: weights go down the gradient of sum(x) w0 w1 ..., as one process computes it. */
static void check_trains(uint64_t seed)
{
    enum { STEPS = 3 };
    struct drawn d;
    struct world world = {.inputs = 0};
    uint64_t state[STAGES_MAX][2 * STAGES_MAX] = {{0}};
    void *states[STAGES_MAX];
    uint64_t weights[STAGES_MAX];
    struct tutti_backend *backend = NULL;
    struct tutti_played played;
    struct tutti_schedule *schedule;
    struct tutti_err err;

    draw_pipeline(&d, seed, 0);
    world.stage_count = tutti_pipeline_stage_count(&d.pipeline);
    for (uint32_t i = 0; i < world.stage_count; i++) {
        uint32_t device;
        uint32_t chunk;

        d.boundary_bytes[i] = d.weight_bytes[i] = 8;
        tutti_pipeline_place(&d.pipeline, i, &device, &chunk);
        state[device][2 * chunk] = weights[i] = 2 * i + 3;
        states[device] = state[device];
    }
    d.params.run = compute;
    d.params.run_context = &world;
    schedule = schedule_of(&d);
    CHECK_OK(tutti_threads_open(NULL, &backend, &err), err);
    for (int step = 0; step < STEPS && schedule != NULL; step++) {
        const struct tutti_play play = {
            .size = sizeof(play), .schedule = schedule, .iteration_count = 1, .state = states};
        uint64_t new_weights[STAGES_MAX];

        atomic_store(&world.inputs, 0);
        CHECK_OK(tutti_backend_play(backend, &play, &played, &err), err);
        for (uint32_t i = 0; i < world.stage_count; i++) {
            uint32_t device;
            uint32_t chunk;
            uint64_t gradient = atomic_load(&world.inputs);

            for (uint32_t k = 0; k < world.stage_count; k++)
                gradient *= k == i ? 1 : weights[k];
            new_weights[i] = weights[i] - gradient;
            tutti_pipeline_place(&d.pipeline, i, &device, &chunk);
            if (state[device][2 * chunk] != new_weights[i])
                TEST_FAIL("seed %" PRIu64 ", %s of %u devices: step %d, weight of stage %u", seed,
                          tutti_pipeline_name(d.pipeline.pipeline), d.pipeline.device_count, step,
                          i);
        }
        memcpy(weights, new_weights, sizeof(weights));
    }
    tutti_backend_close(backend);
    tutti_schedule_free(schedule);
}

TEST(really_played_it_trains)
{
    const uint64_t count = test_count(300, 40);

    for (uint64_t k = 0; k < count && test_failures == 0; k++)
        check_trains(test_seed + k);
}
