/* A step of a cut model as one schedule: the check and the proof find nothing, and what is spoilt;
 * simulated it takes what pipeline and collectives take by themselves. */
#include "runtime/parallel_step.h"
#include "runtime/random.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/step.h"
#include "tests/test.h"
#include "topo/topo.h"

enum { STAGES_MAX = 20, PIECES_MAX = 4, AXES = 3 };

/* A step drawn at random: its ranks are a grid of pipelines, replicas and tensor groups in some
 * order, all its stages different. */
struct drawn {
    struct tutti_pipeline_params pipeline;
    struct tutti_axis axes[AXES]; /* tensor, data, pipeline */
    uint32_t sizes[AXES];
    struct tutti_parallel_piece pieces[STAGES_MAX][3][PIECES_MAX];
    struct tutti_parallel_reduction reductions[STAGES_MAX][2];
    struct tutti_parallel_stage stages[STAGES_MAX];
    struct tutti_parallel_schedule_params params;
};

static uint32_t draw(uint64_t seed, uint64_t what, uint64_t which, uint32_t count)
{
    return (uint32_t)(tutti_random_hash(seed, what, which, 0) % count);
}

static void draw_grid(struct drawn *d, uint64_t seed)
{
    static const char *const names[AXES] = {"tensor", "data", "pipeline"};
    static const uint32_t orders[6][AXES] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                             {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const uint32_t *order = orders[draw(seed, 10, 0, 6)];
    uint32_t sizes[AXES];

    d->sizes[0] = 1 + draw(seed, 11, 0, 3);
    d->sizes[1] = 1 + draw(seed, 12, 0, 3);
    d->sizes[2] = 1 + draw(seed, 13, 0, 4);
    for (int i = 0; i < AXES; i++) /* the outermost first */
        sizes[i] = d->sizes[order[i]];
    for (uint32_t i = 0; i < AXES; i++)
        d->axes[order[i]] = tutti_mesh_axis(names[order[i]], 0, sizes, AXES, i);
}

static void draw_pieces(struct drawn *d, uint64_t seed, uint32_t stage)
{
    static const enum tutti_collective kinds[] = {TUTTI_ALLREDUCE, TUTTI_ALLGATHER,
                                                  TUTTI_REDUCESCATTER, TUTTI_ALLTOALL};

    for (uint32_t pass = 0; pass < 3; pass++) {
        const uint32_t count = 1 + draw(seed, 20 + pass, stage, PIECES_MAX);

        for (uint32_t i = 0; i < count; i++) {
            struct tutti_parallel_piece *p = &d->pieces[stage][pass][i];
            const uint64_t which = (uint64_t)stage * 100 + pass * 10 + i;

            p->duration_ps = 1000000 * (tutti_ps)(1 + draw(seed, 30, which, 20));
            if (i + 1 == count)
                continue;
            p->axis = (uint8_t)draw(seed, 31, which, 2); /* none, or tensor */
            p->collective = kinds[draw(seed, 32, which, 4)];
            p->count = 1 + draw(seed, 33, which, 40);
        }
        d->stages[stage].passes[pass] = (struct tutti_parallel_pass){d->pieces[stage][pass], count};
    }
}

static void draw_step(struct drawn *d, uint64_t seed)
{
    enum tutti_pass sums;

    *d = (struct drawn){.pipeline = {.size = sizeof(d->pipeline)}};
    draw_grid(d, seed);
    d->pipeline.pipeline = (enum tutti_pipeline)draw(seed, 1, 0, TUTTI_PIPELINE_COUNT);
    d->pipeline.device_count = d->sizes[2];
    d->pipeline.micro_batches = 2 * d->sizes[2] + draw(seed, 3, 0, 3);
    if (d->pipeline.pipeline == TUTTI_PIPELINE_INTERLEAVED) {
        d->pipeline.chunks = 2 + draw(seed, 4, 0, 2);
        d->pipeline.micro_batches = 2 * d->sizes[2];
    }
    sums = tutti_pipeline_splits(&d->pipeline) ? TUTTI_PASS_WEIGHTS : TUTTI_PASS_BACKWARD;
    for (uint32_t i = 0; i < tutti_pipeline_stage_count(&d->pipeline); i++) {
        draw_pieces(d, seed, i);
        d->stages[i].boundary_bytes = 4 * (uint64_t)draw(seed, 40, i, 5);
        d->stages[i].reductions = d->reductions[i];
        d->stages[i].reduction_count = 1 + draw(seed, 41, i, 2);
        for (uint32_t k = 0; k < 2; k++)
            d->reductions[i][k] = (struct tutti_parallel_reduction){
                .axis = k == 0 ? 2 : 0,
                .elements = 1 + draw(seed, 42 + k, i, 30),
                .early = draw(seed, 44 + k, i, d->stages[i].passes[sums].piece_count)};
    }
    d->params = (struct tutti_parallel_schedule_params){.size = sizeof(d->params),
                                                        .rank_count =
                                                            d->sizes[0] * d->sizes[1] * d->sizes[2],
                                                        .axes = d->axes,
                                                        .axis_count = AXES,
                                                        .pipeline_axis = 3,
                                                        .pipeline = &d->pipeline,
                                                        .stages = d->stages,
                                                        .overlap = draw(seed, 50, 0, 2) > 0,
                                                        .report_elements = draw(seed, 51, 0, 3)};
}

static struct tutti_schedule *schedule_of(const struct drawn *d)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_parallel_schedule(&d->params, &schedule, &err), err);
    return schedule;
}

TEST(the_check_and_the_proof_find_nothing)
{
    const uint64_t count = test_count(1000, 60);

    for (uint64_t k = 0; k < count; k++) {
        struct drawn d;
        struct tutti_schedule *schedule;
        struct tutti_err err = {""};

        draw_step(&d, test_seed + k);
        schedule = schedule_of(&d);
        REQUIRE(schedule != NULL);
        if (tutti_schedule_check(schedule, &err) < 0 || tutti_schedule_prove(schedule, &err) < 0)
            TEST_FAIL("seed %" PRIu64 ", %s, tensor %u, data %u, pipeline %u: %s", test_seed + k,
                      tutti_pipeline_name(d.pipeline.pipeline), d.sizes[0], d.sizes[1], d.sizes[2],
                      err.text);
        tutti_schedule_free(schedule);
    }
}

/* ---- spoilt ---------------------------------------------------------------------------------- */

/* The same without the dependency, or the collective, number `victim`; NULL: there are not so
 * many. */
static struct tutti_schedule *spoil(const struct tutti_schedule *s, bool call, uint64_t victim)
{
    struct tutti_schedule_desc desc = {.name = "spoilt",
                                       .contract = {.collective = TUTTI_CUSTOM},
                                       .rank_count = s->rank_count,
                                       .lane_count = s->lane_count,
                                       .slot_count = s->slot_count,
                                       .scratch_bytes = s->scratch_bytes,
                                       .state_bytes = s->state_bytes,
                                       .axes = s->axes,
                                       .axis_count = s->axis_count,
                                       .work = s->work,
                                       .work_count = s->work_count};
    struct tutti_builder *builder = NULL;
    struct tutti_schedule *wrong = NULL;
    struct tutti_err err;
    uint64_t seen = 0;

    CHECK_OK(tutti_builder_new(&desc, &builder, &err), err);
    for (uint32_t i = 0; i < s->callee_count; i++) {
        struct tutti_builder *copy = NULL;
        struct tutti_schedule *callee = NULL;
        uint32_t index;

        CHECK_OK(tutti_schedule_store(s->callees[i], &copy, &err), err);
        CHECK_OK(tutti_builder_finish(copy, &callee, &err), err);
        CHECK_OK(tutti_builder_add_callee(builder, callee, &index, &err), err);
    }
    for (uint32_t rank = 0; rank < s->rank_count; rank++)
        for (uint32_t lane = 0; lane < s->lane_count; lane++) {
            const struct tutti_step *step;
            struct tutti_cursor cursor;

            tutti_cursor_open(&cursor, s, rank, lane);
            while ((step = tutti_cursor_next(&cursor)) != NULL) {
                struct tutti_step copy = *step;

                if (!call && (copy.flags & TUTTI_STEP_DEP) != 0 && seen++ == victim)
                    copy.flags = 0;
                if (call && copy.kind == TUTTI_CALL && seen++ == victim)
                    copy = (struct tutti_step){.kind = TUTTI_COPY,
                                               .flags = step->flags,
                                               .dep_lane = step->dep_lane,
                                               .dep_step = step->dep_step};
                (void)tutti_builder_add(builder, rank, lane, &copy, NULL);
            }
        }
    CHECK_OK(tutti_builder_finish(builder, &wrong, &err), err);
    if (seen > victim)
        return wrong;
    tutti_schedule_free(wrong);
    return NULL;
}

/* What is computed before it has come, sent before it is there, or updated before it is summed. */
TEST(what_is_missing_is_found)
{
    const uint64_t count = test_count(300, 40);
    uint64_t found = 0;
    uint64_t spoilt = 0;

    for (uint64_t k = 0; k < count; k++) {
        const bool call = k % 2 > 0;
        struct drawn d;
        struct tutti_schedule *schedule;
        struct tutti_schedule *wrong;
        struct tutti_err err;

        draw_step(&d, test_seed + k);
        for (int i = 0; i < STAGES_MAX; i++)
            d.stages[i].boundary_bytes = 8;
        schedule = schedule_of(&d);
        REQUIRE(schedule != NULL);
        wrong = spoil(schedule, call, draw(test_seed + k, 60, 0, 12));
        spoilt += wrong != NULL;
        if (wrong != NULL && tutti_schedule_check(wrong, &err) < 0)
            found++;
        else if (wrong != NULL)
            TEST_FAIL("seed %" PRIu64 ": without a %s nothing is found", test_seed + k,
                      call ? "collective" : "dependency");
        tutti_schedule_free(wrong);
        tutti_schedule_free(schedule);
    }
    printf("%" PRIu64 " of %" PRIu64 " found\n", found, spoilt);
    CHECK(spoilt > count / 3);
}

/* ---- simulated ------------------------------------------------------------------------------- */

static tutti_ps play(const struct drawn *d, const char *spec,
                     int (*price)(void *context, uint32_t callee, uint32_t axis,
                                  struct tutti_call_price *ret, struct tutti_err *err))
{
    struct tutti_schedule *schedule = schedule_of(d);
    struct tutti_stepped stepped = {.total_ps = -1};
    struct tutti_topo *topo = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    CHECK_OK(tutti_step_play(&(struct tutti_step_opts){.size = sizeof(struct tutti_step_opts),
                                                       .topo = topo,
                                                       .schedule = schedule,
                                                       .price = price},
                             &stepped, &err),
             err);
    tutti_topo_free(topo);
    tutti_schedule_free(schedule);
    return stepped.total_ps;
}

enum { CALL_PS = 3000000 };

static int price_all_alike(void *context, uint32_t callee, uint32_t axis,
                           struct tutti_call_price *ret, struct tutti_err *err)
{
    (void)context, (void)callee, (void)axis, (void)err;
    *ret = (struct tutti_call_price){.alone_ps = CALL_PS};
    return 0;
}

/* Stages whose pieces and collectives take so long one behind the other are stages of a pipeline,
 * and what follows it is the longest reduction: of times that are equal on all ranks the step is
 * their sum. */
TEST(simulated_it_is_its_pipeline_and_its_collectives)
{
    const uint64_t count = test_count(1000, 60);

    for (uint64_t k = 0; k < count; k++) {
        struct tutti_stage_times times[STAGES_MAX];
        struct tutti_pipeline_times pipeline;
        struct tutti_err err;
        tutti_ps seen;
        tutti_ps wanted;
        struct drawn d;
        char spec[64];
        tutti_ps end_ps = 0;

        draw_step(&d, test_seed + k);
        d.params.overlap = false;
        for (uint32_t i = 0; i < tutti_pipeline_stage_count(&d.pipeline); i++) {
            tutti_ps sums[3] = {0, 0, 0};

            d.stages[i].boundary_bytes = 0;
            d.stages[i].reduction_count = 1;
            for (int pass = 0; pass < 3; pass++)
                for (uint32_t j = 0; j < d.stages[i].passes[pass].piece_count; j++)
                    sums[pass] += d.pieces[i][pass][j].duration_ps +
                                  (d.pieces[i][pass][j].axis > 0 && d.sizes[0] > 1 ? CALL_PS : 0);
            times[i] = (struct tutti_stage_times){sums[0], sums[1],
                                                  tutti_pipeline_splits(&d.pipeline) ? sums[2] : 0};
        }
        /* Every device reduces what its chunks have, one after the other. */
        end_ps = d.sizes[1] > 1 ? (tutti_ps)tutti_pipeline_chunks(&d.pipeline) * CALL_PS : 0;
        d.params.report_elements = 0;
        (void)snprintf(spec, sizeof(spec), "switch:n=%u,bw=1GB/s,lat=1us", d.params.rank_count);
        seen = play(&d, spec, price_all_alike);
        CHECK_OK(tutti_pipeline_play(&d.pipeline, times, TUTTI_PS_PER_US, NULL, &pipeline, &err),
                 err);
        wanted = pipeline.step_ps + end_ps;
        if (seen != wanted)
            TEST_FAIL("seed %" PRIu64 ", %s, tensor %u, data %u, pipeline %u: %lld simulated, "
                      "%lld by itself",
                      test_seed + k, tutti_pipeline_name(d.pipeline.pipeline), d.sizes[0],
                      d.sizes[1], d.sizes[2], (long long)seen, (long long)wanted);
    }
}

/* Overlapped, gradients take no longer, and no less than the pipeline by itself. */
TEST(gradients_overlap_the_end_of_a_pipeline)
{
    const uint64_t count = test_count(300, 20);

    for (uint64_t k = 0; k < count; k++) {
        struct drawn d;
        char spec[64];
        tutti_ps apart_ps;
        tutti_ps together_ps;

        draw_step(&d, test_seed + k);
        (void)snprintf(spec, sizeof(spec), "switch:n=%u,bw=1GB/s,lat=1us", d.params.rank_count);
        d.params.overlap = false;
        apart_ps = play(&d, spec, price_all_alike);
        d.params.overlap = true;
        together_ps = play(&d, spec, price_all_alike);
        CHECK(together_ps <= apart_ps);
        if (d.sizes[1] > 1 && tutti_pipeline_chunks(&d.pipeline) > 1)
            CHECK(together_ps < apart_ps);
    }
}

/* ---- what does not fit ----------------------------------------------------------------------- */

static void refused(const struct drawn *d, const char *why)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_parallel_schedule(&d->params, &schedule, &err), -TUTTI_EINVAL);
    if (strstr(err.text, why) == NULL)
        TEST_FAIL("'%s' lacks '%s'", err.text, why);
}

TEST(what_does_not_fit_is_refused)
{
    struct drawn d;

    draw_step(&d, 1);
    d.params.pipeline_axis = 4;
    refused(&d, "axis '4' of 3");
    draw_step(&d, 1);
    d.pipeline.device_count = 17;
    d.pipeline.micro_batches = 34;
    refused(&d, "'17' devices");
    draw_step(&d, 1);
    d.params.rank_count++;
    refused(&d, "is in no pipeline");
    draw_step(&d, 1);
    d.pieces[0][0][d.stages[0].passes[0].piece_count - 1].axis = 1;
    refused(&d, "behind the last of a pass none");
    draw_step(&d, 1);
    d.stages[0].passes[0].piece_count = 0;
    refused(&d, "of 0 pieces");
    draw_step(&d, 1);
    d.pieces[0][1][0].duration_ps = -1;
    refused(&d, "less than no time");
    draw_step(&d, 1);
    d.reductions[0][0].early = PIECES_MAX;
    refused(&d, "pieces before the last");
    draw_step(&d, 1);
    d.reductions[0][0].axis = 9;
    refused(&d, "axis '9'");
}
