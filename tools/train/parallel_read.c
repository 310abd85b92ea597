/* Reads how a model is divided, and derives what was not said; see parallel.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/train/parallel.h"
#include "topo/topo.h"

enum { STAGES_MAX = 1 << 16 };

/* ---- which options there are ----------------------------------------------------------------- */

/* The first that is given; NULL: none is. */
static const char *given(const struct tutti_args *args)
{
    static const struct tutti_option options[] = {TUTTI_TRAIN_OPTIONS_PARALLEL};

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (tutti_args_given(args, options[i].name))
            return options[i].name;
    return NULL;
}

bool tutti_train_is_parallel(const struct tutti_args *args)
{
    return given(args) != NULL;
}

int tutti_train_parallel_refuse(const struct tutti_args *args, const char *why,
                                struct tutti_err *err)
{
    const char *name = given(args);

    return name == NULL ? 0 : tutti_fail(err, TUTTI_EINVAL, "option '--%s' %s", name, why);
}

/* What goes with steps of whole replicas alone. */
static int check_options(const struct tutti_args *args, struct tutti_err *err)
{
    static const struct {
        const char *name;
        const char *why;
    } refused[] = {
        {"exact", "messages of model parallelism are priced by collectives"},
        {"step-time", "it is of one device, which has but a part of the model (--anchor)"},
        {"slow", "stragglers of a pipeline are not modelled"},
        {"perturb", "losses of workers are not modelled of it"},
        {"elastic", "groups that grow and shrink have whole replicas"},
        {"compress", "compressed gradients are not modelled of it"},
        {"sparse", "sparse gradients are not modelled of it"},
        {"shard-update", "it is of strategy tpu"},
        {"num-packs", "gradients of a stage go in buckets of the framework"},
        {"bytes-per-pack", "gradients of a stage go in buckets of the framework"},
        {"bucket", "gradients of a stage go in buckets of the framework"},
        {"gather-ahead", "layers are gathered one ahead"},
        {"tf-config", "tasks of TensorFlow have whole replicas"},
        {"launch", "nothing is started (-B)"},
    };

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (tutti_args_given(args, refused[i].name))
            return tutti_fail(err, TUTTI_EINVAL, "options '--%s' and '--%s' do not go together: %s",
                              given(args), refused[i].name, refused[i].why);
    return 0;
}

static int check_strategy(const struct tutti_args *args, const struct tutti_strategy *strategy,
                          struct tutti_err *err)
{
    static const char *const names[] = {"ddp", "zero1", "zero2", "fsdp", "hsdp"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(strategy->name, names[i]) == 0)
            return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "strategy '%s' and option '--%s' do not go together: its replicas are whole "
                      "(ddp, zero1, zero2, fsdp or hsdp)",
                      strategy->name, given(args));
}

/* ---- the pipeline ---------------------------------------------------------------------------- */

static int read_pipeline(const struct tutti_args *args, struct tutti_parallel *cut,
                         struct tutti_err *err)
{
    const char *name = tutti_args_text(args, "pipeline");
    uint32_t chunks = tutti_args_given(args, "vp") ? (uint32_t)tutti_args_number(args, "vp") : 0;
    int status = 0;

    if (name == NULL)
        name = chunks > 1 ? "interleaved" : "1f1b";
    status = tutti_pipeline_find(name, &cut->schedule, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--pipeline'");
    if (cut->pipeline == 1 && (tutti_args_given(args, "pipeline") || chunks > 1))
        return tutti_fail(err, TUTTI_EINVAL, "option '--%s' without a pipeline (--pp N, 2 or more)",
                          tutti_args_given(args, "pipeline") ? "pipeline" : "vp");
    if (cut->schedule == TUTTI_PIPELINE_INTERLEAVED && chunks < 2)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--pipeline': 'interleaved' has several chunks a device "
                          "(--vp N, 2 or more)");
    if (cut->schedule == TUTTI_PIPELINE_ZBV && chunks != 0 && chunks != 2)
        return tutti_fail(err, TUTTI_EINVAL, "option '--vp': '%u' chunks of 'zbv' (2)", chunks);
    if (cut->schedule != TUTTI_PIPELINE_INTERLEAVED && cut->schedule != TUTTI_PIPELINE_ZBV &&
        chunks > 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '--vp %u' and '--pipeline %s' do not go together (--pipeline "
                          "interleaved)",
                          chunks, name);
    cut->virtual_stages = cut->schedule == TUTTI_PIPELINE_ZBV ? 2 : chunks == 0 ? 1 : chunks;
    return 0;
}

/* "7,8,8,7": one for each stage, chunks counted. */
static int read_stage_layers(const struct tutti_args *args, struct tutti_train_parallel_question *q,
                             struct tutti_err *err)
{
    const char *text = tutti_args_text(args, "stage-layers");
    uint64_t stage_count = (uint64_t)q->cut.pipeline * q->cut.virtual_stages;
    const char *at = text;
    uint64_t count = 0;

    if (text == NULL)
        return 0;
    if (stage_count > STAGES_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--stage-layers': '%" PRIu64 "' stages (at most %d)", stage_count,
                          STAGES_MAX);
    q->stage_layers = calloc((size_t)stage_count, sizeof(q->stage_layers[0]));
    if (q->stage_layers == NULL)
        return tutti_nomem(err);
    for (;; at++) {
        char *end;
        unsigned long value = strtoul(at, &end, 10);

        if (end == at || *at < '0' || *at > '9' || value > UINT16_MAX ||
            (*end != '\0' && *end != ','))
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--stage-layers': '%.40s' (numbers with commas, one for each "
                              "stage: 7,8,8,7)",
                              text);
        if (count < stage_count)
            q->stage_layers[count] = (uint32_t)value;
        count++;
        at = end;
        if (*at == '\0')
            break;
    }
    if (count != stage_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--stage-layers': %" PRIu64
                          " numbers for pp %u x vp %u = %" PRIu64 " stages (one for each)",
                          count, q->cut.pipeline, q->cut.virtual_stages, stage_count);
    q->cut.stage_layers = q->stage_layers;
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static uint32_t read_degree(const struct tutti_args *args, const char *name)
{
    return tutti_args_given(args, name) ? (uint32_t)tutti_args_number(args, name) : 1;
}

int tutti_train_parallel_cut_read(const struct tutti_args *args,
                                  struct tutti_train_parallel_question *q, struct tutti_err *err)
{
    struct tutti_parallel *cut = &q->cut;
    int status;

    cut->tensor = read_degree(args, "tp");
    cut->pipeline = read_degree(args, "pp");
    cut->context = read_degree(args, "cp");
    cut->expert = read_degree(args, "ep");
    cut->sequence_parallel =
        tutti_args_given(args, "sp") ? tutti_args_is(args, "sp", "on") : cut->tensor > 1;
    cut->async_tensor = tutti_args_flag(args, "async-tp");
    cut->context_kind =
        tutti_args_is(args, "context", "ulysses") ? TUTTI_CONTEXT_ULYSSES : TUTTI_CONTEXT_RING;
    cut->imbalance = tutti_args_real(args, "expert-imbalance");
    if (cut->tensor == 1 && (cut->sequence_parallel || cut->async_tensor))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--%s' without tensor parallelism (--tp N, 2 or more)",
                          cut->sequence_parallel ? "sp" : "async-tp");
    if (cut->context == 1 && tutti_args_given(args, "context"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--context' without context parallelism (--cp N, 2 or more)");
    if (cut->expert == 1 && tutti_args_given(args, "expert-imbalance"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--expert-imbalance' without expert parallelism (--ep N, 2 or "
                          "more)");
    status = tutti_parallel_order_parse(tutti_args_text(args, "order"), cut->order, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--order'");
    status = read_pipeline(args, cut, err);
    return status < 0 ? status : read_stage_layers(args, q, err);
}

static void read_batch(const struct tutti_args *args, struct tutti_train_parallel_question *q)
{
    if (tutti_args_given(args, "dp"))
        q->data = (uint32_t)tutti_args_number(args, "dp");
    if (tutti_args_given(args, "micro-batch"))
        q->micro_batch = (uint32_t)tutti_args_number(args, "micro-batch");
    if (tutti_args_given(args, "accumulate"))
        q->accumulate = (uint32_t)tutti_args_number(args, "accumulate");
    if (tutti_args_given(args, "batch"))
        q->replica_batch = (uint32_t)tutti_args_number(args, "batch");
    q->global_batch = q->of_train.global_batch;
}

/* Of each number as it is typed: what --batch and --accumulate say together is a micro-batch. */
static void settle_batch(struct tutti_train_parallel_question *q)
{
    if (q->replica_batch > 0 && q->accumulate > 0) {
        q->micro_batch = q->replica_batch;
        q->replica_batch = 0;
    }
    if (q->micro_batch == 0 && q->accumulate == 0 &&
        q->of_train.model->sample == TUTTI_SAMPLE_SEQUENCE)
        q->micro_batch = 1;
}

int tutti_train_parallel_read(const struct tutti_args *args,
                              struct tutti_train_parallel_question *q, struct tutti_err *err)
{
    int status;

    *q = (struct tutti_train_parallel_question){.cut = {.size = sizeof(struct tutti_parallel)}};
    status = check_options(args, err);
    if (status == 0)
        status = tutti_train_question_read(args, &q->of_train, err);
    if (status == 0)
        status = check_strategy(args, &q->of_train.strategy, err);
    if (status == 0)
        status = tutti_train_parallel_cut_read(args, q, err);
    if (status < 0)
        return status;
    q->cut.sharding = q->of_train.strategy.sharding;
    q->cut.shard_ranks = q->of_train.ask.shard_ranks;
    q->cut.keep_weights = q->of_train.strategy.keep_weights;
    read_batch(args, q);
    settle_batch(q);
    return 0;
}

void tutti_train_parallel_question_done(struct tutti_train_parallel_question *q)
{
    free(q->stage_layers);
    tutti_train_question_done(&q->of_train);
}
