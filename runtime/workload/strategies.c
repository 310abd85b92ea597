/* The strategies by name, and what each of them is. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/strategy.h"

enum { MIB = 1 << 20 };

#define HEAD .size = sizeof(struct tutti_strategy)

/* tf.distribute: mirrored_strategy.py, cross_device_ops.py, collective_all_reduce_strategy.py,
 * central_storage_strategy.py, tpu_strategy.py; PyTorch: reducer.cpp (DDP), fully_shard; ZeRO:
 * Rajbhandari et al. 2020; Horovod: its documentation
 * (fusion 64 MiB, cycles of some ms), what agreeing takes from NVIDIA's examples, 1 beside 8
 * devices; local SGD: Stich 2019; DiLoCo: Douillard et al. 2023. */
static const struct tutti_strategy strategies[] = {
    {HEAD, .name = "onedevice", .framework = "tensorflow"},
    {HEAD, .name = "mirrored", .framework = "tensorflow", .rule = TUTTI_PACK_PIECES, .limit = 1,
     .whole_hosts = true, .gathers_at_one = true},
    {HEAD, .name = "multiworkermirrored", .framework = "tensorflow", .rule = TUTTI_PACK_EXCEED,
     .overlap = true},
    {HEAD, .name = "parameter-server", .framework = "tensorflow", .coordinated = true},
    {HEAD, .name = "central-storage", .framework = "tensorflow", .rule = TUTTI_PACK_PIECES,
     .to_one_device = true, .whole_hosts = true, .all_reduce = "reduce-broadcast",
     .gathers_at_one = true},
    {HEAD, .name = "tpu", .framework = "xla", .rule = TUTTI_PACK_EXCEED, .overlap = true},
    {HEAD, .name = "ddp", .framework = "pytorch", .rule = TUTTI_PACK_REACH, .limit = 25 * MIB,
     .first_limit = MIB, .overlap = true},
    {HEAD, .name = "horovod", .framework = "tensorflow", .rule = TUTTI_PACK_FIT, .limit = 64 * MIB,
     .sync_us = 6000},
    {HEAD, .name = "zero1", .framework = "pytorch", .sharding = TUTTI_SHARD_ZERO1,
     .rule = TUTTI_PACK_REACH, .limit = 25 * MIB, .overlap = true},
    {HEAD, .name = "zero2", .framework = "pytorch", .sharding = TUTTI_SHARD_ZERO2,
     .rule = TUTTI_PACK_REACH, .limit = 25 * MIB, .overlap = true},
    {HEAD, .name = "fsdp", .framework = "pytorch", .sharding = TUTTI_SHARD_ZERO3, .overlap = true,
     .prefetch = 1},
    {HEAD, .name = "hsdp", .framework = "pytorch", .sharding = TUTTI_SHARD_ZERO3, .overlap = true,
     .prefetch = 1},
    {HEAD, .name = "local-sgd", .framework = "pytorch", .rule = TUTTI_PACK_EXCEED,
     .local_steps = 8},
    {HEAD, .name = "diloco", .framework = "pytorch", .rule = TUTTI_PACK_EXCEED, .local_steps = 500},
};

enum { COUNT = sizeof(strategies) / sizeof(strategies[0]) };

static const struct tutti_strategy_entry entries[] = {
    {"onedevice", "one device, nothing is reduced"},
    {"mirrored", "MirroredStrategy: one pack of all gradients, all-reduced after backward"},
    {"multiworkermirrored", "MultiWorkerMirroredStrategy: packs in reverse order, under backward"},
    {"parameter-server", "ParameterServerStrategy: workers pull weights and push gradients"},
    {"central-storage", "CentralStorageStrategy: gradients to one device, the update to all"},
    {"tpu", "TPUStrategy: one all-reduce over the axes of the torus"},
    {"ddp", "DistributedDataParallel: buckets of 25 MiB, the first of 1 MiB, under backward"},
    {"horovod", "Horovod: fusion buffers of 64 MiB, agreed on once the backward pass is over"},
    {"zero1", "ZeRO-1: optimizer states divided: reduce-scatter, then all-gather of weights"},
    {"zero2", "ZeRO-2: gradients divided as well: reduce-scatter at every micro-batch"},
    {"fsdp", "FSDP, ZeRO-3: weights divided as well, gathered layer by layer, one ahead"},
    {"hsdp", "HSDP: FSDP among the devices of a host, all-reduced across hosts"},
    {"local-sgd", "local SGD: weights averaged every 8 steps, nothing in between"},
    {"diloco", "DiLoCo: what 500 steps changed is averaged, for an outer optimizer"},
};
_Static_assert(sizeof(entries) / sizeof(entries[0]) == COUNT, "each strategy has its line");

const struct tutti_strategy_entry *tutti_strategies(size_t *ret_count)
{
    *ret_count = COUNT;
    return entries;
}

int tutti_strategy_named(const char *name, struct tutti_strategy *ret, struct tutti_err *err)
{
    char words[512] = "";
    char hint[TUTTI_HINT_BYTES];

    for (size_t i = 0; i < COUNT; i++) {
        size_t used = strlen(words);

        assert(strcmp(strategies[i].name, entries[i].name) == 0);
        if (strcmp(strategies[i].name, name) == 0) {
            *ret = strategies[i];
            return 0;
        }
        (void)snprintf(words + used, sizeof(words) - used, "%s%s", i == 0 ? "" : ", ",
                       strategies[i].name);
    }
    return tutti_fail(err, TUTTI_EINVAL, "unknown strategy '%.40s' (%s%s)", name,
                      tutti_nearest_hint(name, words, hint), words);
}
