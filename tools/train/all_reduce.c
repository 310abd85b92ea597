/* Reads --all-reduce; see all_reduce.h. */
#include "tools/train/all_reduce.h"

#include <string.h>

#include "runtime/coll.h"
#include "runtime/status.h"
#include "runtime/tensorflow.h"
#include "topo/topo.h"

/* As they are spelt in cross_device_ops.py and collective_util.py. */
static const struct {
    const char *word;
    const char *algorithm;
} words[] = {
    {"NcclAllReduce", "nccl"},
    {"NCCL", "nccl"},
    {"AUTO", "tf-ring"}, /* unless collective_nccl is configured */
    {"HierarchicalCopyAllReduce", "hierarchical-copy"},
    {"ReductionToOneDevice", "reduction-to-one-device"},
    {"RING", "tf-ring"},
};

static const char *plain(const char *name, const struct tutti_strategy *s)
{
    bool mirrored = strcmp(s->name, "mirrored") == 0 || strcmp(s->name, "multiworkermirrored") == 0;

    if (mirrored && strcmp(name, "ring") == 0)
        return "tf-ring";
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i].word, name) == 0)
            return words[i].algorithm;
    return name;
}

/* One tensor after the other, once all gradients are there. */
static void reduce_to_one(const struct tutti_args *args, struct tutti_train_question *q)
{
    q->strategy.to_one_device = true;
    q->ask.algorithm = "reduce-broadcast";
    if (!tutti_args_given(args, "num-packs") && !tutti_args_given(args, "bytes-per-pack") &&
        !tutti_args_given(args, "bucket")) {
        q->strategy.rule = TUTTI_PACK_PIECES;
        q->strategy.limit = 0;
    }
    if (!tutti_args_given(args, "overlap"))
        q->strategy.overlap = false;
}

/* Its packs are tensors of one all-reduce, which have their roots in turn. */
static void copy_by_halves(struct tutti_train_question *q)
{
    if (q->strategy.rule == TUTTI_PACK_PIECES && q->strategy.limit > 1) {
        q->ask.channels = (uint32_t)q->strategy.limit;
        q->strategy.limit = 1;
    }
}

int tutti_train_all_reduce_check(const struct tutti_train_ask *ask, struct tutti_err *err)
{
    if (ask->algorithm == NULL || strcmp(ask->algorithm, "hierarchical-copy") != 0 ||
        ask->topo->host_count <= 1)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--all-reduce': '%s' is of the devices of one host, and '%s' has %u "
                      "(ring, nccl)",
                      ask->algorithm, ask->topo->name, ask->topo->host_count);
}

void tutti_train_strategy_of_hosts(const struct tutti_strategy *asked, const char *name,
                                   struct tutti_strategy *ret)
{
    struct tutti_strategy before;

    if (tutti_strategy_named(asked->name, &before, NULL) < 0 ||
        tutti_strategy_named(name, ret, NULL) < 0)
        return;
    if (asked->rule != before.rule || asked->limit != before.limit) {
        ret->rule = asked->rule;
        ret->limit = asked->limit;
        ret->first_limit = asked->first_limit;
    }
    if (asked->overlap != before.overlap || asked->to_one_device)
        ret->overlap = asked->overlap;
    ret->to_one_device = asked->to_one_device;
    ret->densify = asked->densify;
    ret->compression = asked->compression;
    ret->keep_ppm = asked->keep_ppm;
    ret->factor_rank = asked->factor_rank;
}

int tutti_train_all_reduce_read(const struct tutti_args *args, struct tutti_train_question *q,
                                struct tutti_err *err)
{
    const struct tutti_algorithm *found;
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE};
    const char *name = tutti_args_text(args, "all-reduce");
    int status = tutti_algorithm_set_new(&q->added, err);

    if (status == 0)
        status = tutti_tf_algorithm_add(q->added, err);
    if (status < 0 || name == NULL)
        return status;
    q->ask.added = params.added = q->added;
    q->ask.algorithm = plain(name, &q->strategy);
    if (strcmp(q->ask.algorithm, "reduction-to-one-device") == 0)
        reduce_to_one(args, q);
    if (strcmp(q->ask.algorithm, "hierarchical-copy") == 0)
        copy_by_halves(q);
    if (strcmp(q->ask.algorithm, "auto") == 0 || strncmp(q->ask.algorithm, "nccl", 4) == 0)
        return status;
    status = tutti_algorithm_find_for(q->ask.algorithm, &params, &found, err);
    return status < 0 ? tutti_wrap(err, status, "option '--all-reduce'") : 0;
}
