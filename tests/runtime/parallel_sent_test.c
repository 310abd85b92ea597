/* A step of a GPT, cut by tensor and data parallelism and a pipeline, as one schedule: all of its
 * messages together are what is said of each device's traffic. */
#include "runtime/model.h"
#include "runtime/parallel.h"
#include "runtime/parallel_step.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { TOKENS = 32, HIDDEN = 64, LAYERS = 8, WORDS = 128, PIECES_MAX = 32, STAGES_MAX = 8 };

struct step {
    struct tutti_parallel p;
    struct tutti_axis axes[3]; /* tensor, data, pipeline */
    struct tutti_pipeline_params pipeline;
    struct tutti_parallel_piece pieces[STAGES_MAX][2][PIECES_MAX];
    struct tutti_parallel_reduction reductions[STAGES_MAX];
    struct tutti_parallel_stage stages[STAGES_MAX];
};

static struct tutti_workload *gpt(void)
{
    const struct tutti_model_params params = {
        .size = sizeof(params),
        .sequence = TOKENS,
        .vocabulary = WORDS,
        .transformer = {.layers = LAYERS, .hidden = HIDDEN, .heads = 4}};
    struct tutti_workload *model = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_model_new("gpt", &params, &model, &err), err);
    if (model == NULL)
        abort();
    return model;
}

/* A piece that ends with a collective on the tensor axis, or with none. */
static void add(struct tutti_parallel_piece *pieces, uint32_t *count,
                enum tutti_collective collective, enum tutti_dtype dtype, uint64_t elements)
{
    pieces[(*count)++] = (struct tutti_parallel_piece){.duration_ps = 1,
                                                       .axis = elements > 0,
                                                       .collective = collective,
                                                       .dtype = dtype,
                                                       .count = elements};
}

/* A sum of what each rank has in part: whole on each, or with sequence parallelism divided. */
static void sum(const struct step *s, struct tutti_parallel_piece *pieces, uint32_t *count)
{
    const uint64_t elements = (uint64_t)TOKENS * HIDDEN;

    if (s->p.sequence_parallel)
        add(pieces, count, TUTTI_REDUCESCATTER, TUTTI_BFLOAT16, elements / s->p.tensor);
    else
        add(pieces, count, TUTTI_ALLREDUCE, TUTTI_BFLOAT16, elements);
}

static void gather(const struct step *s, struct tutti_parallel_piece *pieces, uint32_t *count)
{
    if (s->p.sequence_parallel)
        add(pieces, count, TUTTI_ALLGATHER, TUTTI_BFLOAT16,
            (uint64_t)TOKENS * HIDDEN / s->p.tensor);
}

static uint32_t write_forward(const struct step *s, uint32_t layers, bool first, bool last,
                              struct tutti_parallel_piece *pieces)
{
    uint32_t count = 0;

    if (first)
        sum(s, pieces, &count);
    for (uint32_t i = 0; i < 2 * layers; i++) { /* attention, then the rest */
        gather(s, pieces, &count);
        sum(s, pieces, &count);
    }
    if (last) {
        gather(s, pieces, &count);
        for (int i = 0; i < 3; i++)
            add(pieces, &count, TUTTI_ALLREDUCE, TUTTI_FLOAT32, TOKENS);
    }
    add(pieces, &count, TUTTI_ALLREDUCE, TUTTI_FLOAT32, 0);
    return count;
}

static uint32_t write_backward(const struct step *s, uint32_t layers, bool first, bool last,
                               struct tutti_parallel_piece *pieces)
{
    uint32_t count = 0;

    if (last) {
        gather(s, pieces, &count); /* the input again, for the gradient of the weights */
        sum(s, pieces, &count);
    }
    for (uint32_t i = 0; i < 2 * layers; i++) {
        gather(s, pieces, &count);
        gather(s, pieces, &count);
        sum(s, pieces, &count);
    }
    if (first)
        gather(s, pieces, &count);
    add(pieces, &count, TUTTI_ALLREDUCE, TUTTI_FLOAT32, 0);
    return count;
}

/* Gradients of a stage: 12 h^2 + 13 h a layer, of which 6 h are whole. */
static uint64_t gradients(const struct step *s, uint32_t layers, bool first, bool last)
{
    const uint64_t h = HIDDEN, t = s->p.tensor;

    return layers * ((12 * h * h + 7 * h) / t + 6 * h) + (first ? WORDS * h / t + TOKENS * h : 0) +
           (last ? 2 * h + (first ? 0 : WORDS * h / t) : 0);
}

static void write_step(struct step *s)
{
    const uint32_t stages = tutti_parallel_stage_count(&s->p);
    const enum tutti_parallel_group groups[] = {TUTTI_GROUP_TENSOR, TUTTI_GROUP_DATA,
                                                TUTTI_GROUP_PIPELINE};

    s->pipeline = tutti_parallel_pipeline(&s->p);
    for (int i = 0; i < 3; i++)
        s->axes[i] = tutti_parallel_axis(&s->p, groups[i]);
    for (uint32_t i = 0; i < stages; i++) {
        const bool first = i == 0;
        const bool last = i + 1 == stages;
        const uint32_t layers = LAYERS / stages;
        const uint64_t boundary = (uint64_t)TOKENS * HIDDEN * 2;

        s->stages[i].passes[0] = (struct tutti_parallel_pass){
            s->pieces[i][0], write_forward(s, layers, first, last, s->pieces[i][0])};
        s->stages[i].passes[1] = (struct tutti_parallel_pass){
            s->pieces[i][1], write_backward(s, layers, first, last, s->pieces[i][1])};
        s->stages[i].boundary_bytes =
            last ? 0 : boundary / (s->p.sequence_parallel ? s->p.tensor : 1);
        s->reductions[i] = (struct tutti_parallel_reduction){
            .axis = 2, .elements = gradients(s, layers, first, last)};
        s->stages[i].reductions = &s->reductions[i];
        s->stages[i].reduction_count = 1;
    }
}

static void check_sent(struct tutti_parallel p)
{
    static struct step s;
    struct tutti_workload *model = gpt();
    struct tutti_parallel_schedule_params params = {.size = sizeof(params),
                                                    .axes = s.axes,
                                                    .axis_count = 3,
                                                    .pipeline_axis = 3,
                                                    .pipeline = &s.pipeline,
                                                    .stages = s.stages};
    struct tutti_schedule *schedule = NULL;
    struct tutti_price price = {0};
    struct tutti_err err = {""};
    uint64_t said = 0;

    p.size = sizeof(p);
    CHECK_OK(tutti_parallel_check(&p, model, &err), err);
    memset(&s, 0, sizeof(s));
    CHECK_OK(tutti_parallel_complete(&p, &s.p, &err), err);
    write_step(&s);
    params.rank_count = tutti_parallel_ranks(&p);
    CHECK_OK(tutti_parallel_schedule(&params, &schedule, &err), err);
    if (schedule != NULL)
        CHECK_OK(tutti_schedule_price(schedule, &price, &err), err);
    for (uint32_t device = 0; device < s.p.pipeline; device++) {
        const struct tutti_parallel_traffic_params asked = {
            .size = sizeof(asked), .parallel = &p, .model = model, .device = device};
        struct tutti_parallel_traffic traffic;

        CHECK_OK(tutti_parallel_traffic_of(&asked, &traffic, &err), err);
        said += (traffic.sum_bytes - traffic.bytes[TUTTI_TRAFFIC_TIED] -
                 traffic.bytes[TUTTI_TRAFFIC_WHOLE]) *
                (params.rank_count / s.p.pipeline);
    }
    CHECK(said > 0);
    if (price.sent_bytes != said)
        TEST_FAIL("tp %u dp %u pp %u x %u: %llu bytes sent, %llu said", s.p.tensor, s.p.data,
                  s.p.pipeline, s.p.virtual_stages, (unsigned long long)price.sent_bytes,
                  (unsigned long long)said);
    tutti_schedule_free(schedule);
    tutti_model_free(model);
}

TEST(schedules_send_what_is_said)
{
    check_sent((struct tutti_parallel){.tensor = 2});
    check_sent((struct tutti_parallel){.data = 4, .micro_batches = 2});
    check_sent((struct tutti_parallel){
        .pipeline = 4, .schedule = TUTTI_PIPELINE_1F1B, .micro_batches = 6});
    for (int order = 0; order < 2; order++) {
        struct tutti_parallel p = {.tensor = 2,
                                   .data = 2,
                                   .pipeline = 2,
                                   .schedule = TUTTI_PIPELINE_1F1B,
                                   .micro_batches = 4};

        if (order > 0)
            CHECK_INT(tutti_parallel_order_parse("pp,dp,tp", p.order, NULL), 0);
        check_sent(p);
        p.sequence_parallel = true;
        check_sent(p);
        p.schedule = TUTTI_PIPELINE_INTERLEAVED;
        p.virtual_stages = 2;
        check_sent(p);
        p.schedule = TUTTI_PIPELINE_GPIPE;
        p.virtual_stages = 1;
        p.tensor = 4;
        check_sent(p);
    }
}
