/* The strategy of a row of training steps, by its framework and by how states are shared. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/validate/training_plan.h"

/* A rank that a broadcast by an owner passes: fitted to InternEvo's row of 1024 devices that share
 * states among all. */
enum { MIB = 1 << 20, BROADCAST_NS = 13000 };

/* ---- by framework ---------------------------------------------------------------------------- */

/* How frameworks reduce gradients where no states are shared; the first whose words are there.
 * Horovod fuses up to 64 MiB (its documentation), Paddle 32 MiB (fuse_grad_size_in_MB),
 * tf_cnn_benchmarks reduces each variable as soon as its gradient is there, Megatron with
 * DeepSpeed one buffer of all after the backward pass. */
static const struct habit {
    const char *word;
    const char *strategy;
    enum tutti_pack_rule rule;
    uint64_t limit;
    bool overlap;
    uint32_t gradient_bytes; /* 0: as the strategy has it */
} habits[] = {
    {"Mirrored", "multiworkermirrored", TUTTI_PACK_EXCEED, 0, true, 0},
    {"tf_cnn_benchmarks", "mirrored", TUTTI_PACK_PIECES, 0, true, 4},
    {"Horovod", "horovod", TUTTI_PACK_FIT, 64 * (uint64_t)MIB, false, 4},
    {"NGC TensorFlow", "horovod", TUTTI_PACK_FIT, 64 * (uint64_t)MIB, false, 4},
    {"MXNet", "horovod", TUTTI_PACK_FIT, 64 * (uint64_t)MIB, true, 4},
    {"Paddle", "ddp", TUTTI_PACK_FIT, 32 * (uint64_t)MIB, true, 4},
    {"Megatron-DeepSpeed", "ddp", TUTTI_PACK_EXCEED, 0, false, 2},
    {"InternEvo", "ddp", TUTTI_PACK_REACH, 512 * (uint64_t)MIB, true, 2},
    {"", "ddp", TUTTI_PACK_REACH, 25 * (uint64_t)MIB, true, 0},
};

static const struct habit *habit_of(const char *framework)
{
    const struct habit *h = habits;

    while (!tutti_training_says(framework, h->word))
        h++;
    return h;
}

static int by_habit(const char *framework, struct tutti_training_plan *plan, struct tutti_err *err)
{
    const struct habit *h = habit_of(framework);
    bool mirrored = strcmp(h->word, "Mirrored") == 0;
    const char *name = plan->rank_count == 1               ? "onedevice"
                       : mirrored && plan->host_count == 1 ? "mirrored"
                                                           : h->strategy;
    int status = tutti_strategy_named(name, &plan->strategy, err);

    if (status < 0)
        return status;
    plan->ask.gradient_bytes = h->gradient_bytes;
    if (plan->rank_count == 1 || (mirrored && plan->host_count == 1))
        return 0;
    plan->strategy.rule = h->rule;
    plan->strategy.limit = h->limit;
    plan->strategy.overlap = h->overlap;
    /* Beyond a host its collectives scale as hosts do, not as devices. */
    if (mirrored)
        plan->ask.algorithm = "halving-doubling";
    /* TensorFlow's BERT clips the gradients of a device by their global norm before they are
     * reduced (model garden, optimization.py), so that nothing runs under the backward pass. */
    if (mirrored && tutti_training_says(plan->model->name, "bert"))
        plan->strategy.overlap = false;
    return 0;
}

/* ---- by what is shared ----------------------------------------------------------------------- */

static int by_stage(const struct tutti_training_row_settings *s, struct tutti_training_plan *plan,
                    struct tutti_err *err)
{
    static const char *const names[] = {"", "zero1", "zero2", "fsdp"};
    bool hybrid = s->zero_stage == 3 && (tutti_training_says(s->zero, "hsdp") ||
                                         (s->zero_group > 0 && s->zero_group < plan->rank_count));
    int status;

    if (s->zero_stage > 3)
        return tutti_fail(err, TUTTI_EINVAL, "unknown ZeRO stage '%" PRId64 "' (0 to 3)",
                          s->zero_stage);
    if (plan->rank_count == 1)
        return tutti_strategy_named("onedevice", &plan->strategy, err);
    status = tutti_strategy_named(hybrid ? "hsdp" : names[s->zero_stage], &plan->strategy, err);
    if (status < 0)
        return status;
    if (s->zero_group > 0 && s->zero_group < plan->rank_count)
        plan->ask.shard_ranks = (uint32_t)s->zero_group;
    /* InternEvo (hybrid_zero_optim.py): all-reduces of gradients in buckets of 512 Mi elements;
     * weights are broadcast by owners. */
    if (s->zero_stage == 1 && tutti_training_says(s->framework, "InternEvo")) {
        plan->ask.gradient_bytes = 2;
        plan->strategy.limit = 1024 * (uint64_t)MIB;
        plan->strategy.first_limit = plan->strategy.limit;
        plan->strategy.full_reduce = true;
        plan->strategy.broadcast_ns = BROADCAST_NS;
    }
    /* ZeRO-1 of nanotron costs an all-reduce where a reduce-scatter would do. */
    if (s->zero_stage == 1 && tutti_training_says(s->framework, "nanotron"))
        plan->strategy.full_reduce = true;
    return 0;
}

/* "... a parameter server a node, 6 on 8 nodes" */
static uint32_t servers_of(const struct tutti_training_row_settings *s)
{
    static const char words[] = "a parameter server a node, ";
    const char *at = strstr(s->variant, words);
    unsigned servers;
    unsigned nodes;

    if (at != NULL && sscanf(at + sizeof(words) - 1, "%u on %u nodes", &servers, &nodes) == 2 &&
        nodes == s->nodes)
        return servers;
    return s->nodes > 0 ? (uint32_t)s->nodes : 1;
}

/* ---- the device ------------------------------------------------------------------------------ */

static bool is_fused(const struct tutti_training_row_settings *s)
{
    static const char *const words[] = {"flash", "nanotron", "nemo", "megatron-core", "compile"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (tutti_training_says(s->framework, words[i]) ||
            tutti_training_says(s->variant, words[i]))
            return true;
    return false;
}

static bool has_xla(const struct tutti_training_row_settings *s)
{
    return tutti_training_says(s->variant, "xla") && !tutti_training_says(s->variant, "xla=no") &&
           !tutti_training_says(s->variant, "xla=off");
}

static int choose_device(const struct tutti_training_row_settings *s,
                         struct tutti_training_plan *plan, struct tutti_err *err)
{
    struct tutti_device_use *use = &plan->ask.use;
    int status = 0;

    if (s->framework[0] == '\0')
        return tutti_fail(err, TUTTI_EINVAL, "the framework is not stated (framework)");
    if (s->precision[0] == '\0')
        return tutti_fail(err, TUTTI_EINVAL, "the precision is not stated (precision)");
    status = tutti_precision_find(s->precision, &use->precision, err);
    if (status == 0)
        status = tutti_framework_find(has_xla(s) ? "tensorflow-xla" : s->framework, &use->framework,
                                      err);
    use->fused_attention = is_fused(s);
    plan->ask.synthetic = tutti_training_says(s->variant, "synthetic");
    if (s->recompute_mode == TUTTI_TRAINING_RECOMPUTE_SELECTIVE)
        use->recompute = TUTTI_RECOMPUTE_SELECTIVE;
    else if (s->recompute_mode == TUTTI_TRAINING_RECOMPUTE_FULL)
        use->recompute = TUTTI_RECOMPUTE_FULL;
    return status;
}

/* ---- the batch ------------------------------------------------------------------------------- */

static int choose_batch(const struct tutti_training_row_settings *s,
                        struct tutti_training_plan *plan, struct tutti_err *err)
{
    double batch = s->batch_per_gpu > 0 ? s->batch_per_gpu : (double)s->micro_batch;
    double passes = s->grad_accum > 0 ? (double)s->grad_accum : 0;
    double share = (double)s->global_batch / plan->rank_count;

    if (!(batch > 0) && s->global_batch > 0)
        batch = share / (passes > 0 ? passes : 1);
    if (!(batch > 0))
        return tutti_fail(err, TUTTI_EINVAL,
                          "how much a device has is not stated (batch_per_gpu, micro_batch or "
                          "global_batch)");
    if (passes <= 0)
        passes = s->global_batch > 0 ? share / batch : 1;
    if (passes != (double)(uint32_t)passes || batch != (double)(uint32_t)batch || passes < 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a global batch of %" PRId64 " does not divide among %u devices that "
                          "take %g at a time",
                          s->global_batch, plan->rank_count, batch);
    plan->ask.use.batch = (uint32_t)batch;
    plan->ask.micro_batches = (uint32_t)passes;
    return 0;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void choose_memory(const struct tutti_training_row_settings *s,
                          struct tutti_training_plan *plan)
{
    const struct tutti_train_ask *ask = &plan->ask;

    plan->memory = (struct tutti_footprint_params){
        .size = sizeof(plan->memory),
        .model = plan->model,
        .accelerator = ask->use.accelerator,
        .precision = ask->use.precision,
        .optimizer = plan->model->sample == TUTTI_SAMPLE_IMAGE ? TUTTI_OPTIMIZER_MOMENTUM
                                                               : TUTTI_OPTIMIZER_ADAM,
        .micro_batch = ask->use.batch,
        .micro_batches = ask->micro_batches,
        .data = plan->rank_count,
        .fused_attention = ask->use.fused_attention,
        .recompute = ask->use.recompute,
        .sharding = plan->strategy.sharding,
        .shard_ranks = ask->shard_ranks,
    };
    /* nanotron logs what rank 0 has, in GiB (logging of torch.cuda.max_memory_allocated). */
    plan->gibi = tutti_training_says(s->framework, "nanotron");
    plan->reports_first = plan->gibi;
    if (tutti_memory_framework_find(s->framework, &plan->memory.framework, NULL) < 0)
        plan->memory.framework = NULL;
}

/* ---- the whole ------------------------------------------------------------------------------- */

int tutti_training_plan_strategy(const struct tutti_training_row_settings *s,
                                 struct tutti_training_plan *plan, struct tutti_err *err)
{
    int status = choose_device(s, plan, err);

    if (status < 0)
        return status;
    if (tutti_training_is_divided(s)) {
        choose_memory(s, plan);
        return tutti_training_plan_parallel(s, plan, err);
    }
    if (s->dp > 0 && s->dp != plan->rank_count)
        return tutti_fail(err, TUTTI_EINVAL, "%" PRId64 " replicas on %u devices (dp)", s->dp,
                          plan->rank_count);
    if (status == 0)
        status = s->zero_stage > 0 ? by_stage(s, plan, err) : by_habit(s->framework, plan, err);
    if (status == 0)
        status = choose_batch(s, plan, err);
    if (status < 0)
        return status;
    choose_memory(s, plan);
    plan->ask.strategy = &plan->strategy;
    return 0;
}

int tutti_training_plan_open(const struct tutti_training_row_settings *s,
                             struct tutti_training_plan *ret, struct tutti_err *err)
{
    int status;

    *ret = (struct tutti_training_plan){.ask = {.size = sizeof(ret->ask), .any_memory = true}};
    if (tutti_training_says(s->network, "distributed_replicated") && s->nodes > 1)
        ret->server_count = servers_of(s);
    status = tutti_training_plan_model(s, ret, err);
    if (status == 0)
        status = tutti_training_plan_machine(s, ret, err);
    if (status == 0)
        status = tutti_training_plan_strategy(s, ret, err);
    if (status < 0)
        tutti_training_plan_done(ret);
    return status;
}

void tutti_training_plan_done(struct tutti_training_plan *plan)
{
    tutti_model_free(plan->model);
    tutti_topo_free(plan->topo);
    free(plan->stage_layers);
}

void tutti_training_plan_calibrate(struct tutti_training_plan *plan,
                                   const struct tutti_calib *const layers[], size_t layer_count)
{
    const struct tutti_calib_machine machine = tutti_calib_machine_of(plan->topo);

    (void)tutti_calib_framework(layers, layer_count, plan->ask.use.framework, &plan->framework);
    plan->ask.use.framework = &plan->framework;
    plan->costs = tutti_calib_compose(layers, layer_count, &machine);
    if (plan->costs.value_count >
        plan->costs.lower_count) /* else the machine's parts have theirs */
        plan->ask.protocols = plan->costs.protocols;
}
