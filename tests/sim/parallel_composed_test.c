/* A step of a cut model as it is composed (sim/parallel.h) beside the same as one schedule whose
 * messages and collectives are played one by one (runtime/parallel_step.h by sim/step.h): equal
 * where nothing overlaps, and how far apart where gradients do. */
#include <math.h>
#include <stdlib.h>

#include "runtime/model.h"
#include "runtime/parallel_step.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/parallel.h"
#include "sim/protocol.h"
#include "sim/step.h"
#include "tests/test.h"
#include "topo/topo.h"

enum {
    DEVICES_MAX = 4,
    STAGES_MAX = 8,
    AXES = 3,
    PIECES_MAX = 32,
    REDUCTIONS_MAX = 16,
    SEQUENCE = 256,
    HIDDEN = 512
};

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
    struct tutti_parallel_piece pieces[STAGES_MAX][3][PIECES_MAX];
    struct tutti_parallel_reduction reductions[STAGES_MAX][REDUCTIONS_MAX];
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

/* As many devices as there are ranks. */
static void open_machine(struct world *w)
{
    struct tutti_err err;
    char spec[64];

    (void)snprintf(spec, sizeof(spec), "dgx-h100:gpus=%u", tutti_parallel_ranks(&w->parallel));
    tutti_topo_free(w->topo);
    CHECK_OK(tutti_topo_from_spec(spec, &w->topo, &err), err);
    w->ask.topo = w->topo;
}

/* What a message between stages takes, the machine says; nothing is added to it. */
static void draw_world(struct world *w, const char *model, uint64_t seed)
{
    const struct tutti_framework *megatron = NULL;
    const struct tutti_model_params small = {
        .size = sizeof(small),
        .sequence = SEQUENCE,
        .transformer = {.layers = 8, .hidden = HIDDEN, .heads = 8}};
    struct tutti_parallel *p = &w->parallel;
    struct tutti_err err;

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
    open_machine(w);
    CHECK_OK(tutti_model_new(model, &small, &w->model, &err), err);
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
    const uint64_t bf16 = 2;
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
            w->pieces[s][pass][0].duration_ps = takes[pass];
            w->stages[s].passes[pass] = (struct tutti_parallel_pass){w->pieces[s][pass], 1};
        }
        if (s + 1 < tutti_parallel_stage_count(p))
            w->stages[s].boundary_bytes = (uint64_t)p->micro_batch * SEQUENCE * HIDDEN * bf16 /
                                          (p->sequence_parallel ? p->tensor : 1);
        /* So many elements as tell the price of which device it is, once for all of its chunks. */
        w->reductions[s][0] =
            (struct tutti_parallel_reduction){.axis = chunk == 0 ? 1 : 0, .elements = 1 + device};
        w->stages[s].reductions = w->reductions[s];
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

        draw_world(&w, "gpt", test_seed + k);
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

/* ---- collectives one by one ------------------------------------------------------------------ */

/* A pass so far: what a device computes until the next collective. */
struct pass {
    struct tutti_parallel_piece *pieces;
    uint32_t count;
};

static void compute(struct pass *p, tutti_ps ps)
{
    p->pieces[p->count].duration_ps += ps;
}

static void all_reduce(struct pass *p, uint64_t count, enum tutti_dtype dtype)
{
    struct tutti_parallel_piece *piece = &p->pieces[p->count++];

    CHECK(p->count < PIECES_MAX);
    piece->axis = 3;
    piece->collective = TUTTI_ALLREDUCE;
    piece->dtype = dtype;
    piece->count = count;
}

/* Megatron's tensor parallelism (Shoeybi et al. 2019): two all-reduces of the activations of each
 * layer either way, one behind the embedding, one of the head's gradient, and three of a number a
 * token for the loss. */
struct kind {
    struct tutti_layer_parts parts;
    bool has_table;
    bool has_loss;
};

static struct kind kind_of(const struct world *w, const struct tutti_layer *layer)
{
    struct tutti_device_use use = w->ask.use;
    struct kind kind = {.has_table = false};
    struct tutti_err err;

    use.accelerator = tutti_topo_accelerator(w->topo);
    use.batch = w->parallel.micro_batch;
    use.tensor = w->parallel.tensor;
    CHECK_OK(tutti_device_layer_parts(&use, layer, &kind.parts, &err), err);
    for (uint32_t i = 0; i < layer->operation_count; i++) {
        const struct tutti_operation *o = &layer->operations[i];

        kind.has_table =
            kind.has_table || (o->kind == TUTTI_WORK_EMBEDDING && o->split == TUTTI_SPLIT_VOCAB);
        kind.has_loss = kind.has_loss || o->kind == TUTTI_WORK_LOSS;
    }
    return kind;
}

static void write_forward(struct world *w, const struct tutti_layer *layer, struct pass *pass)
{
    const uint64_t tokens = (uint64_t)w->parallel.micro_batch * SEQUENCE;
    const struct kind kind = kind_of(w, layer);

    compute(pass, kind.parts.forward_ps);
    for (int i = 0; i < (layer->is_transformer ? 2 : kind.has_table ? 1 : 0); i++)
        all_reduce(pass, tokens * HIDDEN, TUTTI_BFLOAT16);
    for (int i = 0; i < 3 && kind.has_loss; i++)
        all_reduce(pass, tokens, TUTTI_FLOAT32);
}

/* Returns the piece in which the layer's gradients of weights are there. */
static uint32_t write_backward(struct world *w, const struct tutti_layer *layer, struct pass *pass)
{
    const uint64_t tokens = (uint64_t)w->parallel.micro_batch * SEQUENCE;
    const struct kind kind = kind_of(w, layer);
    const tutti_ps half_ps = (kind.parts.backward_ps + kind.parts.weights_ps) / 2;
    uint32_t ready;

    compute(pass, half_ps);
    if (layer->is_transformer)
        all_reduce(pass, tokens * HIDDEN, TUTTI_BFLOAT16);
    compute(pass, kind.parts.backward_ps + kind.parts.weights_ps - half_ps);
    ready = pass->count;
    if (layer->is_transformer || kind.has_loss)
        all_reduce(pass, tokens * HIDDEN, TUTTI_BFLOAT16);
    return ready;
}

/* A rank's weights of a layer, all but the few that tensor parallelism does not divide. */
static uint64_t weights_of(const struct world *w, const struct tutti_layer *layer)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < layer->variable_count; i++)
        sum += layer->variables[i].elements / w->parallel.tensor;
    return sum;
}

/* Overlapped, gradients are reduced layer by layer as they are there, what is left over with the
 * last; else all at once. */
static void write_stage(struct world *w, uint32_t s, bool overlap)
{
    struct tutti_parallel_stage *stage = &w->stages[s];
    struct pass forward = {.pieces = w->pieces[s][TUTTI_PASS_FORWARD]};
    struct pass backward = {.pieces = w->pieces[s][TUTTI_PASS_BACKWARD]};
    uint32_t ready[REDUCTIONS_MAX];
    uint32_t repeats[16];
    uint32_t count = 0;
    struct tutti_parallel_share share;

    REQUIRE(w->model->layer_count <= 16);
    tutti_parallel_stage_repeats(&w->parallel, w->model, s, repeats);
    tutti_parallel_share_of(&w->parallel, w->model, s, &share);
    for (uint32_t i = 0; i < w->model->layer_count; i++)
        for (uint32_t r = 0; r < repeats[i]; r++)
            write_forward(w, &w->model->layers[i], &forward);
    for (uint32_t i = w->model->layer_count; i-- > 0;)
        for (uint32_t r = 0; r < repeats[i]; r++) {
            const uint64_t elements = weights_of(w, &w->model->layers[i]);

            REQUIRE(count < REDUCTIONS_MAX);
            ready[count] = write_backward(w, &w->model->layers[i], &backward);
            w->reductions[s][count++] =
                (struct tutti_parallel_reduction){.axis = 1, .elements = elements};
            share.dense -= elements;
        }
    w->reductions[s][count - 1].elements += share.dense;
    if (!overlap) {
        tutti_parallel_share_of(&w->parallel, w->model, s, &share);
        w->reductions[s][0].elements = share.dense;
        count = 1;
    }
    for (uint32_t i = 0; i < count; i++)
        w->reductions[s][i].early = backward.count - ready[i];
    stage->passes[TUTTI_PASS_FORWARD].piece_count = forward.count + 1;
    stage->passes[TUTTI_PASS_BACKWARD].piece_count = backward.count + 1;
    stage->reduction_count = count;
}

static void write_calls(struct world *w, bool overlap)
{
    struct tutti_err err;

    write_schedule(w, overlap);
    tutti_schedule_free(w->schedule);
    w->schedule = NULL;
    memset(w->pieces, 0, sizeof(w->pieces));
    w->axes[2] = tutti_parallel_axis(&w->parallel, TUTTI_GROUP_TENSOR);
    w->params.axis_count = 3;
    for (uint32_t s = 0; s < tutti_parallel_stage_count(&w->parallel); s++)
        write_stage(w, s, overlap);
    CHECK_OK(tutti_parallel_schedule(&w->params, &w->schedule, &err), err);
}

/* Protocols that cost nothing: collectives are what the machine's links make of them. */
static const struct tutti_protocol free_protocols[TUTTI_PROTOCOLS] = {
    {.name = "ll", .wire_num = 1, .wire_den = 1},
    {.name = "ll128", .wire_num = 1, .wire_den = 1},
    {.name = "simple", .wire_num = 1, .wire_den = 1}};

/* Both steps of a llama with tensor parallelism, whose hosts take no time and are never late. */
static void play_both(uint64_t seed, bool overlap, struct world *w, tutti_ps *ret_played)
{
    struct tutti_stepped stepped = {.total_ps = -1};
    struct tutti_err err;

    draw_world(w, "llama", seed);
    tutti_parallel_answer_free(&w->answer);
    w->parallel.tensor = 2;
    w->parallel.sequence_parallel = false;
    w->parallel.schedule = draw(seed, 20, 2) > 0 ? TUTTI_PIPELINE_GPIPE : TUTTI_PIPELINE_1F1B;
    w->parallel.virtual_stages = 1;
    open_machine(w);
    w->framework.wait_us = w->framework.collective_us = w->framework.staged_collective_us = 0;
    w->framework.forward_us = w->framework.backward_us = 0;
    w->framework.step_us = w->framework.layer_step_us = 0;
    w->framework.bucket_MB = overlap ? 2 : 0;
    w->framework.bucket_rank_MB = w->framework.rank_us = 0;
    w->framework.overlap = 1;
    w->framework.spread = w->framework.input_spread = 0;
    w->ask.algorithm = w->ask.layer_algorithm = "ring";
    w->ask.protocols = free_protocols;
    w->ask.no_overlap = !overlap;
    w->optimizer_ps = 0;
    CHECK_OK(tutti_parallel_predict(&w->ask, &w->answer, &err), err);
    write_calls(w, overlap);
    CHECK_OK(tutti_step_play(&(struct tutti_step_opts){.size = sizeof(struct tutti_step_opts),
                                                       .topo = w->topo,
                                                       .schedule = w->schedule},
                             &stepped, &err),
             err);
    *ret_played = stepped.total_ps;
}

/* But for what all ranks tell each other, of which one has 8 bytes and the other 4. */
TEST(collectives_played_one_by_one_take_what_is_composed_of_them)
{
    enum { REPORT_PS = 1000 };
    const uint64_t count = test_count(60, 8);

    for (uint64_t k = 0; k < count; k++) {
        tutti_ps played;
        struct world w;

        play_both(test_seed + k, false, &w, &played);
        if (llabs(played - w.answer.step_ps) > REPORT_PS)
            TEST_FAIL("seed %" PRIu64 ", tp %u dp %u pp %u, %s: %lld played, %lld composed",
                      test_seed + k, w.parallel.tensor, w.parallel.data, w.parallel.pipeline,
                      tutti_pipeline_name(w.parallel.schedule), (long long)played,
                      (long long)w.answer.step_ps);
        close_world(&w);
    }
}

/* Here layer by layer, composed in the framework's buckets of 2 MB. */
TEST(gradients_beside_the_last_pass_are_not_far_apart)
{
    const uint64_t count = test_count(60, 8);
    double most = 0;

    for (uint64_t k = 0; k < count; k++) {
        double apart;
        tutti_ps played;
        struct world w;

        play_both(test_seed + k, true, &w, &played);
        apart = 100 * ((double)w.answer.step_ps / (double)played - 1);
        most = fabs(apart) > fabs(most) ? apart : most;
        close_world(&w);
    }
    printf("composed at most %+.2f %% of what is played\n", most);
    CHECK(fabs(most) < 2);
    CHECK(most != 0);
}
