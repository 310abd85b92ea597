/* What all processes of a training must hold alike: the model, the strategy, the data, how is
 * learnt; see real.h. The options are compared before (tools/run/run_group.c). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "tools/run/facts.h"
#include "tools/train/real.h"

/* A training without group has nobody to differ from. */
struct page {
    struct tutti_run_facts *facts;
    struct tutti_err *err;
    int status;
};

static void add(struct page *page, const char *name, const char *value)
{
    if (page->status == 0)
        page->status = tutti_run_facts_add(page->facts, name, value, page->err);
}

static void add_number(struct page *page, const char *name, uint64_t value)
{
    if (page->status == 0)
        page->status = tutti_run_facts_add_number(page->facts, name, value, page->err);
}

static void add_hash(struct page *page, const char *name, uint64_t value)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%016" PRIx64, value);
    add(page, name, text);
}

/* To the bit: a rate that differs in its last digit trains another model. */
static void add_real(struct page *page, const char *name, double value)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "%.17g", value);
    add(page, name, text);
}

/* ---- what is compared ------------------------------------------------------------------------ */

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 1;

    for (size_t i = 0; text[i] != '\0'; i++)
        hash = tutti_random_hash(hash, (unsigned char)text[i], i, 0);
    return hash;
}

/* "2 x hidden: matmul, relu; weights 784 x 128, biases 128" */
static void describe_layer(const struct tutti_layer *layer, char *buf, size_t buf_bytes)
{
    size_t used =
        (size_t)snprintf(buf, buf_bytes, "%" PRIu32 " x %.64s:", layer->repeat, layer->name);

    for (uint32_t i = 0; i < layer->operation_count && used < buf_bytes; i++)
        used += (size_t)snprintf(buf + used, buf_bytes - used, "%s %.64s", i > 0 ? "," : "",
                                 layer->operations[i].name);
    for (uint32_t i = 0; i < layer->variable_count && used < buf_bytes; i++) {
        const struct tutti_variable *v = &layer->variables[i];

        used +=
            (size_t)snprintf(buf + used, buf_bytes - used, "%s %.64s ", i > 0 ? "," : ";", v->name);
        if (used < buf_bytes && v->rows > 1 && v->elements % v->rows == 0)
            used += (size_t)snprintf(buf + used, buf_bytes - used, "%" PRIu64 " x ", v->rows);
        if (used < buf_bytes)
            used += (size_t)snprintf(
                buf + used, buf_bytes - used, "%" PRIu64,
                v->rows > 1 && v->elements % v->rows == 0 ? v->elements / v->rows : v->elements);
    }
}

/* Layer by layer, so that the one that differs is named; then all of its text, which says what is
 * computed. */
static void add_model(struct page *page, const struct tutti_workload *model)
{
    char *text = NULL;

    add(page, "model", model->name);
    add_number(page, "number of layers", model->layer_count);
    for (uint32_t i = 0; i < model->layer_count; i++) {
        char name[48];
        char value[512];

        (void)snprintf(name, sizeof(name), "layer %" PRIu32, i);
        describe_layer(&model->layers[i], value, sizeof(value));
        add(page, name, value);
    }
    if (page->status == 0)
        page->status = tutti_model_print(model, &text, page->err);
    if (page->status == 0)
        add_hash(page, "model of hash", hash_text(text));
    free(text);
}

static void add_strategy(struct page *page, const struct tutti_train_real *real)
{
    const struct tutti_strategy *s = &real->strategy;

    add(page, "strategy", s->name);
    add_number(page, "sharding", s->sharding);
    add_number(page, "rule of packs", s->rule);
    add_number(page, "limit of packs", s->limit);
    add_number(page, "limit of the first pack", s->first_limit);
    add_number(page, "overlap", s->overlap);
    add_number(page, "local steps", s->local_steps);
    add_number(page, "compression", s->compression);
    add(page, "all-reduce", real->algorithm != NULL ? real->algorithm : "not given");
    add_number(page, "ranks", real->params.rank_count);
    add_number(page, "ranks that share", real->params.shard_ranks);
    add_number(page, "micro-batches", real->params.micro_batches);
    add_number(page, "tensor parallelism", real->cut.tensor);
    add_number(page, "pipeline parallelism", real->cut.pipeline);
    add(page, "pipeline", tutti_pipeline_name(real->cut.schedule));
    add(page, "gradients of type", tutti_dtype_name(real->params.gradients));
}

static void add_optimizer(struct page *page, const struct tutti_train_real *real)
{
    const struct tutti_update_rule *o = &real->params.optimizer;

    add(page, "optimizer", real->optimizer);
    add_real(page, "learning rate", o->rate);
    add_real(page, "momentum", o->momentum);
    add_real(page, "beta1", o->beta1);
    add_real(page, "beta2", o->beta2);
    add_real(page, "epsilon", o->epsilon);
    add_real(page, "weight decay", o->decay);
    add_number(page, "warm-up steps", real->params.rate.warmup_steps);
    add_number(page, "decay steps", real->params.rate.decay_steps);
    add_real(page, "clipped norm", real->params.clip_norm);
    add_real(page, "outer rate", real->params.outer_rate);
    add_real(page, "loss scale", real->params.loss_scale.scale);
}

static void add_data(struct page *page, const struct tutti_train_real *real)
{
    const struct tutti_net_learner_params *d = &real->data;
    const char *name = d->data != NULL ? d->data : "synthetic";
    char kind[64];

    /* The folder may have another name on another host: what lies there counts. */
    (void)snprintf(kind, sizeof(kind), "%.*s", (int)strcspn(name, ":"), name);
    add(page, "data set", kind);
    add_number(page, "number of examples", real->facts.examples);
    add_number(page, "number of held-out examples", real->facts.held_out);
    add_hash(page, "examples of hash", real->facts.data_hash);
    add_number(page, "global batch", d->global_batch);
    add_number(page, "sharding of data", d->shard);
    add_number(page, "shuffling", !d->in_order);
    add_real(page, "dropout", (double)d->dropout);
    add_number(page, "seed", d->seed);
    add_number(page, "steps", real->steps);
}

int tutti_train_real_same(const struct tutti_train_real *real, struct tutti_err *err)
{
    const tutti_ps deadline_ps = real->run.perform.deadline_ps;
    struct page page = {.err = err};

    if (real->with.group == NULL || real->with.group->count == 1)
        return 0;
    page.status = tutti_run_facts_new(&page.facts, err);
    if (page.status == 0) {
        add_model(&page, real->model);
        add_strategy(&page, real);
        add_optimizer(&page, real);
        add_data(&page, real);
    }
    page.status = tutti_run_group_agree(&real->with, page.status, deadline_ps, err);
    if (page.status == 0)
        page.status = tutti_run_facts_same(page.facts, real->with.group, deadline_ps, err);
    tutti_run_facts_free(page.facts);
    return page.status;
}
