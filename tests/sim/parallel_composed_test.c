/* A step of a cut model as it is composed (sim/parallel.h) beside the same as one schedule whose
 * messages and collectives are played one by one (runtime/parallel_step.h by sim/step.h): equal
 * where nothing overlaps, and how far apart where gradients do. */
#include "runtime/model.h"
#include "runtime/parallel_step.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/parallel.h"
#include "sim/step.h"
#include "tests/test.h"
#include "topo/topo.h"

enum { DEVICES_MAX = 4, STAGES_MAX = 8, AXES = 3 };

/* A step drawn at random, small enough for one machine of NVIDIA's. */
struct world {
    struct tutti_topo *topo;
    struct tutti_workload *model;
    struct tutti_framework framework;
    struct tutti_parallel parallel;
    struct tutti_parallel_ask ask;
    struct tutti_parallel_answer answer;
    /* Of each device of a pipeline, as told. */
    tutti_ps data_ps[DEVICES_MAX];
    tutti_ps optimizer_ps;
    tutti_ps input_ps;
    /* The schedule. */
    struct tutti_pipeline_params pipeline;
    struct tutti_axis axes[AXES];
    struct tutti_parallel_piece pieces[STAGES_MAX][3];
    struct tutti_parallel_reduction reductions[STAGES_MAX];
    struct tutti_parallel_stage stages[STAGES_MAX];
    struct tutti_parallel_schedule_params params;
    struct tutti_schedule *schedule;
};

static uint32_t draw(uint64_t seed, uint64_t what, uint32_t count)
{
    return (uint32_t)(tutti_random_hash(seed, what, 0, 0) % count);
}

static void note(void *context, const struct tutti_parallel_note *told)
{
    struct world *w = context;
    const tutti_ps ps = told->end_ps - told->begin_ps;

    if (told->task == TUTTI_TASK_GRADIENTS)
        w->data_ps[told->device] = ps;
    if (told->task == TUTTI_TASK_OPTIMIZER && ps > w->optimizer_ps)
        w->optimizer_ps = ps;
    if (told->task == TUTTI_TASK_INPUT)
        w->input_ps = ps;
}

/* What a message between stages takes, the machine says; nothing is added to it. */
static void draw_world(struct world *w, uint64_t seed)
{
    const struct tutti_framework *megatron = NULL;
    const struct tutti_model_params llama = {
        .size = sizeof(llama),
        .sequence = 256,
        .transformer = {.layers = 8, .hidden = 512, .heads = 8}};
    struct tutti_parallel *p = &w->parallel;
    struct tutti_err err;
    char spec[64];

    *w = (struct world){.parallel = {.size = sizeof(*p),
                                     .tensor = 1 + draw(seed, 1, 2),
                                     .data = 1 + draw(seed, 2, 2),
                                     .pipeline = 1 + draw(seed, 3, 2),
                                     .schedule = (enum tutti_pipeline)draw(seed, 4, 5),
                                     .micro_batch = 1 + draw(seed, 5, 2)}};
    if (w->parallel.tensor * w->parallel.data == 1)
        p->pipeline *= 2;
    if (p->pipeline > 1 && p->schedule == TUTTI_PIPELINE_INTERLEAVED)
        p->virtual_stages = 2;
    p->micro_batches = p->pipeline * (2 + draw(seed, 6, 3));
    p->sequence_parallel = p->tensor > 1 && draw(seed, 7, 2) > 0;
    CHECK_OK(tutti_parallel_complete(p, p, &err), err);
    (void)snprintf(spec, sizeof(spec), "dgx-h100:gpus=%u", tutti_parallel_ranks(p));
    CHECK_OK(tutti_topo_from_spec(spec, &w->topo, &err), err);
    CHECK_OK(tutti_model_new("gpt", &llama, &w->model, &err), err);
    CHECK_OK(tutti_framework_find("megatron", &megatron, &err), err);
    w->framework = *megatron;
    w->framework.message_us = 0;
    w->ask = (struct tutti_parallel_ask){.size = sizeof(w->ask),
                                         .topo = w->topo,
                                         .model = w->model,
                                         .parallel = p,
                                         .use = {.fused_attention = true,
                                                 .precision = TUTTI_PRECISION_BF16,
                                                 .framework = &w->framework},
                                         .optimizer = TUTTI_OPTIMIZER_ADAM,
                                         .no_overlap = true,
                                         .any_memory = true,
                                         .synthetic = true,
                                         .note = note,
                                         .note_context = w};
    CHECK_OK(tutti_parallel_predict(&w->ask, &w->answer, &err), err);
}

static void close_world(struct world *w)
{
    tutti_schedule_free(w->schedule);
    tutti_parallel_answer_free(&w->answer);
    tutti_model_free(w->model);
    tutti_topo_free(w->topo);
}

/* Stages as they are composed, collectives within them included; all else is played. */
static void write_schedule(struct world *w, bool overlap)
{
    const struct tutti_parallel *p = &w->parallel;
    const uint64_t tokens = 256, hidden = 512, bf16 = 2;
    bool splits;
    struct tutti_err err;

    w->pipeline = tutti_parallel_pipeline(p);
    splits = tutti_pipeline_splits(&w->pipeline);
    w->axes[0] = tutti_parallel_axis(p, TUTTI_GROUP_DATA);
    w->axes[1] = tutti_parallel_axis(p, TUTTI_GROUP_PIPELINE);
    for (uint32_t s = 0; s < tutti_parallel_stage_count(p); s++) {
        const struct tutti_stage_times *t = &w->answer.stages[s];
        const tutti_ps takes[3] = {t->forward_ps, t->backward_ps + (splits ? 0 : t->weights_ps),
                                   t->weights_ps};
        uint32_t device;
        uint32_t chunk;

        tutti_pipeline_place(&w->pipeline, s, &device, &chunk);
        for (int pass = 0; pass < 3; pass++) {
            w->pieces[s][pass].duration_ps = takes[pass];
            w->stages[s].passes[pass] = (struct tutti_parallel_pass){&w->pieces[s][pass], 1};
        }
        if (s + 1 < tutti_parallel_stage_count(p))
            w->stages[s].boundary_bytes =
                p->micro_batch * tokens * hidden * bf16 / (p->sequence_parallel ? p->tensor : 1);
        /* So many elements as tell the price of which device it is, once for all of its chunks. */
        w->reductions[s] = (struct tutti_parallel_reduction){chunk == 0 ? 1 : 0, 1 + device};
        w->stages[s].reductions = &w->reductions[s];
        w->stages[s].reduction_count = 1;
    }
    w->params = (struct tutti_parallel_schedule_params){.size = sizeof(w->params),
                                                        .rank_count = tutti_parallel_ranks(p),
                                                        .axes = w->axes,
                                                        .axis_count = 2,
                                                        .pipeline_axis = 2,
                                                        .pipeline = &w->pipeline,
                                                        .stages = w->stages,
                                                        .overlap = overlap,
                                                        .input_ps = w->input_ps,
                                                        .optimizer_ps = w->optimizer_ps,
                                                        .report_elements = 1};
    CHECK_OK(tutti_parallel_schedule(&w->params, &w->schedule, &err), err);
}

/* Gradients take what is told of the device; the report, where all meet, what is left of it where
 * there are no replicas. */
static int price(void *context, uint32_t callee, uint32_t axis, struct tutti_call_price *ret,
                 struct tutti_err *err)
{
    const struct world *w = context;
    const uint64_t count = w->schedule->callees[callee]->contract.count;

    (void)err;
    *ret = (struct tutti_call_price){.alone_ps = 0};
    if (axis > 0)
        ret->alone_ps = w->data_ps[count - 1];
    else if (w->parallel.data == 1)
        ret->alone_ps = w->data_ps[0];
    return 0;
}

static tutti_ps play(struct world *w)
{
    struct tutti_stepped stepped = {.total_ps = -1};
    struct tutti_err err;

    CHECK_OK(tutti_step_play(&(struct tutti_step_opts){.size = sizeof(struct tutti_step_opts),
                                                       .topo = w->topo,
                                                       .schedule = w->schedule,
                                                       .price = price,
                                                       .price_context = w},
                             &stepped, &err),
             err);
    return stepped.total_ps;
}

TEST(composed_it_is_what_is_played_where_nothing_overlaps)
{
    const uint64_t count = test_count(400, 40);

    for (uint64_t k = 0; k < count; k++) {
        struct tutti_err err;
        tutti_ps seen;
        struct world w;

        draw_world(&w, test_seed + k);
        write_schedule(&w, false);
        CHECK_OK(tutti_schedule_check(w.schedule, &err), err);
        CHECK_OK(tutti_schedule_prove(w.schedule, &err), err);
        seen = play(&w);
        if (seen != w.answer.step_ps)
            TEST_FAIL("seed %" PRIu64
                      ", tp %u dp %u pp %u x %u, %s, %u micro-batches: %lld played, %lld composed",
                      test_seed + k, w.parallel.tensor, w.parallel.data, w.parallel.pipeline,
                      w.parallel.virtual_stages, tutti_pipeline_name(w.parallel.schedule),
                      w.parallel.micro_batches, (long long)seen, (long long)w.answer.step_ps);
        close_world(&w);
    }
}
