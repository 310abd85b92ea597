/* A rank that trains a part of a network. */
#include "runtime/train/net_worker.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/train/feed.h"
#include "runtime/train/net_learner.h"
#include "runtime/train/reader.h"

struct tutti_net_parts {
    const struct tutti_net_context *context;
    struct tutti_net_parts_params params;
    uint32_t *stage_layers;
    struct tutti_network **parts; /* [stage][member] */
};

/* Layers that a rank has side by side. */
struct chunk {
    uint32_t stage;
    uint32_t held;
    struct tutti_network_work **works; /* [held] */
    uint32_t *micro_batches;           /* [held]: which each has; NOTHING: none */
    bool has_gradients;                /* of this step */
};

struct tutti_net_worker {
    const struct tutti_net_parts *parts;
    struct tutti_net_worker_params params;
    struct chunk *chunks;
    struct tutti_feed feed;
    struct tutti_reader *reader; /* NULL: not begun, or the rank sees no examples */
    bool sees;                   /* it has the first stage, or the last */
    uint64_t next_step;          /* that the reader comes to */
    uint64_t step;
    double scale;
    struct tutti_feed_share share;
    const struct tutti_batch *batch; /* NULL: it sees none */
    uint64_t *examples;              /* their numbers then */
    struct tutti_network_score score;
};

static const uint32_t NOTHING = UINT32_MAX;

/* ---- parts ----------------------------------------------------------------------------------- */

static const struct tutti_net_context *context_of(const struct tutti_learner *learner,
                                                  struct tutti_err *err)
{
    const struct tutti_net_context *context = tutti_net_learner_context(learner);

    if (context == NULL)
        (void)tutti_fail(err, TUTTI_EINVAL,
                         "a learner of one's own, cut by layers (a network of Tutti's, or "
                         "replicas)");
    return context;
}

int tutti_net_parts_layers(const struct tutti_learner *learner, uint32_t *ret,
                           struct tutti_err *err)
{
    const struct tutti_net_context *context = context_of(learner, err);

    if (context == NULL)
        return -TUTTI_EINVAL;
    *ret = tutti_network_layer_count(context->net);
    return 0;
}

static int check(const struct tutti_net_context *c, const struct tutti_net_parts_params *p,
                 struct tutti_err *err)
{
    if (c->params.precision != TUTTI_FLOAT32)
        return tutti_fail(err, TUTTI_EINVAL,
                          "layers cut among ranks in precision '%s' (float: fp32)",
                          tutti_dtype_name(c->params.precision));
    if (c->params.rank_count != p->data)
        return tutti_fail(err, TUTTI_EINVAL,
                          "data for '%u' ranks, of which %u replicas are trained (as many)",
                          c->params.rank_count, p->data);
    return 0;
}

static int make_parts(struct tutti_net_parts *p, struct tutti_err *err)
{
    uint32_t layer = 0;
    int status = 0;

    for (uint32_t s = 0; s < p->params.stage_count; s++) {
        for (uint32_t t = 0; t < p->params.tensor && status == 0; t++) {
            const struct tutti_network_cut cut = {.first_layer = layer,
                                                  .layer_count = p->stage_layers[s],
                                                  .member = t,
                                                  .size = p->params.tensor};

            status =
                tutti_network_part(p->context->net, &cut, &p->parts[s * p->params.tensor + t], err);
        }
        layer += p->stage_layers[s];
    }
    assert(layer == tutti_network_layer_count(p->context->net));
    return status;
}

int tutti_net_parts_new(const struct tutti_learner *learner,
                        const struct tutti_net_parts_params *params, struct tutti_net_parts **ret,
                        struct tutti_err *err)
{
    const struct tutti_net_context *context = context_of(learner, err);
    struct tutti_net_parts *p = NULL;
    int status = context == NULL ? -TUTTI_EINVAL : check(context, params, err);

    if (status < 0)
        return status;
    p = calloc(1, sizeof(*p));
    if (p != NULL) {
        p->context = context;
        p->params = *params;
        p->stage_layers = calloc(params->stage_count, sizeof(p->stage_layers[0]));
        p->parts = calloc((size_t)params->stage_count * params->tensor, sizeof(p->parts[0]));
    }
    if (p == NULL || p->stage_layers == NULL || p->parts == NULL) {
        status = tutti_nomem(err);
    } else {
        memcpy(p->stage_layers, params->stage_layers,
               params->stage_count * sizeof(p->stage_layers[0]));
        status = make_parts(p, err);
    }
    if (status < 0)
        tutti_net_parts_free(p);
    else
        *ret = p;
    return status;
}

void tutti_net_parts_free(struct tutti_net_parts *p)
{
    if (p == NULL)
        return;
    for (uint32_t i = 0; p->parts != NULL && i < p->params.stage_count * p->params.tensor; i++)
        tutti_network_free(p->parts[i]);
    free(p->parts);
    free(p->stage_layers);
    free(p);
}

const struct tutti_network *tutti_net_part_of(const struct tutti_net_parts *p, uint32_t stage,
                                              uint32_t member)
{
    assert(stage < p->params.stage_count && member < p->params.tensor);
    return p->parts[stage * p->params.tensor + member];
}

static uint32_t share_most(const struct tutti_net_parts *p)
{
    return (uint32_t)((p->context->params.global_batch + p->params.data - 1) / p->params.data);
}

uint32_t tutti_net_parts_batch(const struct tutti_net_parts *p)
{
    const uint32_t parts = p->context->params.micro_batches;

    return share_most(p) / parts + (share_most(p) % parts > 0);
}

/* ---- a rank ---------------------------------------------------------------------------------- */

static int open_chunk(const struct tutti_net_worker *w, struct chunk *chunk, struct tutti_err *err)
{
    const struct tutti_network *part = tutti_net_part_of(w->parts, chunk->stage, w->params.member);
    int status = 0;

    chunk->works = calloc(chunk->held, sizeof(chunk->works[0]));
    chunk->micro_batches = calloc(chunk->held, sizeof(chunk->micro_batches[0]));
    if (chunk->works == NULL || chunk->micro_batches == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < chunk->held && status == 0; i++) {
        chunk->micro_batches[i] = NOTHING;
        status =
            tutti_network_work_new(part, tutti_net_parts_batch(w->parts), &chunk->works[i], err);
        if (status == 0 && w->params.splits)
            status = tutti_network_part_keep(chunk->works[i], err);
    }
    return status;
}

static int open_worker(struct tutti_net_worker *w, struct tutti_err *err)
{
    const struct tutti_net_learner_params *p = &w->parts->context->params;
    const struct tutti_feed_ask ask = {.global_batch = p->global_batch,
                                       .rank = w->params.data_rank,
                                       .rank_count = p->rank_count,
                                       .seed = p->seed,
                                       .shuffle = !p->in_order,
                                       .drop_remainder = p->drop_remainder,
                                       .shard = p->shard};
    int status = tutti_feed_init(&ask, w->parts->context->training, &w->feed, err);

    w->chunks = calloc(w->params.chunk_count, sizeof(w->chunks[0]));
    w->examples = calloc((size_t)share_most(w->parts) + 1, sizeof(w->examples[0]));
    if (status == 0 && (w->chunks == NULL || w->examples == NULL))
        status = tutti_nomem(err);
    for (uint32_t c = 0; c < w->params.chunk_count && status == 0; c++) {
        const uint32_t stage = w->params.stages[c];

        w->chunks[c] = (struct chunk){.stage = stage, .held = w->params.held[c]};
        w->sees = w->sees || stage == 0 || stage + 1 == w->parts->params.stage_count;
        status = open_chunk(w, &w->chunks[c], err);
    }
    return status;
}

int tutti_net_worker_new(const struct tutti_net_parts *parts,
                         const struct tutti_net_worker_params *params,
                         struct tutti_net_worker **ret, struct tutti_err *err)
{
    struct tutti_net_worker *w = calloc(1, sizeof(*w));
    int status;

    if (w == NULL)
        return tutti_nomem(err);
    w->parts = parts;
    w->params = *params;
    status = open_worker(w, err);
    if (status < 0)
        tutti_net_worker_free(w);
    else
        *ret = w;
    return status;
}

void tutti_net_worker_free(struct tutti_net_worker *w)
{
    if (w == NULL)
        return;
    tutti_reader_close(w->reader);
    for (uint32_t c = 0; w->chunks != NULL && c < w->params.chunk_count; c++) {
        for (uint32_t i = 0; w->chunks[c].works != NULL && i < w->chunks[c].held; i++)
            tutti_network_work_free(w->chunks[c].works[i]);
        free(w->chunks[c].works);
        free(w->chunks[c].micro_batches);
    }
    free(w->chunks);
    free(w->examples);
    free(w);
}

/* ---- examples -------------------------------------------------------------------------------- */

/* The next that are read ahead, unless training has come from elsewhere. */
static int fetch(struct tutti_net_worker *w, struct tutti_err *err)
{
    const struct tutti_reader_ask ask = {.set = w->parts->context->training,
                                         .feed = w->feed,
                                         .first = tutti_feed_at(&w->feed, w->step),
                                         .depth = TUTTI_NET_READ_AHEAD};
    int status = 0;

    if (w->reader == NULL || w->next_step != w->step) {
        tutti_reader_close(w->reader);
        w->reader = NULL;
        status = tutti_reader_open(&ask, &w->reader, err);
    }
    if (status == 0)
        status = tutti_reader_next(w->reader, &w->batch, err);
    w->next_step = status == 0 ? w->step + 1 : 0;
    return status;
}

int tutti_net_worker_input(struct tutti_net_worker *w, uint64_t step, double scale,
                           struct tutti_err *err)
{
    w->step = step;
    w->scale = scale;
    w->share = tutti_feed_share(&w->feed, tutti_feed_at(&w->feed, step));
    for (uint64_t i = 0; i < w->share.count && !w->sees; i++)
        w->examples[i] = tutti_feed_example(&w->feed, &w->share, i);
    for (uint32_t c = 0; c < w->params.chunk_count; c++)
        w->chunks[c].has_gradients = false;
    return w->sees ? fetch(w, err) : 0;
}

static struct tutti_network_batch batch_of(const struct tutti_net_worker *w,
                                           const struct chunk *chunk,
                                           const struct tutti_net_task *task)
{
    const struct tutti_net_context *c = w->parts->context;
    const struct tutti_batch *batch = w->batch;
    const uint64_t parts = c->params.micro_batches;
    const uint64_t first = w->share.count * task->micro_batch / parts;
    const uint64_t end = w->share.count * (task->micro_batch + UINT64_C(1)) / parts;
    struct tutti_network_batch ret = {
        .inputs = task->inputs,
        .count = (uint32_t)(end - first),
        .gradient_scale = (float)(w->scale / (double)w->share.global_count),
        .training = true,
        .seed = c->params.seed,
        .step = w->step,
        .examples = (w->sees ? batch->examples : w->examples) + first};

    if (chunk->stage == 0)
        ret.inputs = batch->inputs + first * c->input_elements;
    if (w->sees && batch->labels != NULL)
        ret.labels = batch->labels + first;
    if (w->sees && batch->targets != NULL)
        ret.targets = batch->targets + first;
    return ret;
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* Where a micro-batch is, or a place for it. */
static uint32_t find(const struct chunk *chunk, uint32_t micro_batch)
{
    uint32_t at = 0;

    while (at < chunk->held && chunk->micro_batches[at] != micro_batch)
        at++;
    assert(at < chunk->held);
    return at;
}

static void forward(struct tutti_net_worker *w, struct chunk *chunk,
                    const struct tutti_net_task *task)
{
    const bool is_first = task->piece.piece == 0;
    const uint32_t at = find(chunk, is_first ? NOTHING : task->micro_batch);
    struct tutti_network_work *work = chunk->works[at];
    const struct tutti_network *part = tutti_net_part_of(w->parts, chunk->stage, w->params.member);

    chunk->micro_batches[at] = task->micro_batch;
    if (is_first) {
        const struct tutti_network_batch batch = batch_of(w, chunk, task);

        tutti_network_begin(work, &batch);
    }
    tutti_network_part_forward(work, &task->piece, task->weights);
    if (chunk->stage + 1 == w->parts->params.stage_count &&
        task->piece.piece + 1 == tutti_network_part_pieces(part, false))
        w->score = tutti_network_score(work);
}

void tutti_net_worker_run(struct tutti_net_worker *w, const struct tutti_net_task *task)
{
    struct chunk *chunk = &w->chunks[task->chunk];
    const bool sums = task->pass == (w->params.splits ? TUTTI_PASS_WEIGHTS : TUTTI_PASS_BACKWARD);
    struct tutti_network_work *work;
    uint32_t at;

    if (task->pass == TUTTI_PASS_FORWARD) {
        forward(w, chunk, task);
        return;
    }
    at = find(chunk, task->micro_batch);
    work = chunk->works[at];
    if (task->pass == TUTTI_PASS_BACKWARD)
        tutti_network_part_backward(work, &task->piece, task->weights, task->slopes,
                                    sums ? task->gradients : NULL, chunk->has_gradients);
    else
        tutti_network_part_weights(work, task->weights, task->gradients, chunk->has_gradients);
    if (!sums || (task->pass == TUTTI_PASS_BACKWARD &&
                  task->piece.piece + 1 <
                      tutti_network_part_pieces(
                          tutti_net_part_of(w->parts, chunk->stage, w->params.member), true)))
        return;
    chunk->has_gradients = true;
    chunk->micro_batches[at] = NOTHING;
}

struct tutti_sums tutti_net_worker_sums(const struct tutti_net_worker *w)
{
    return (struct tutti_sums){w->score.loss, (double)w->score.correct, w->score.count};
}
