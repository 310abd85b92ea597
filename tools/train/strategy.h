/* What `tutti train` may change of a strategy: which gradients go together and how, what is kept,
 * compressed or averaged. */
#ifndef TUTTI_TOOLS_TRAIN_STRATEGY_H
#define TUTTI_TOOLS_TRAIN_STRATEGY_H

#include "runtime/strategy.h"
#include "tools/options.h"

#define TUTTI_TRAIN_OPTIONS_STRATEGY                                                              \
    {.name = "num-packs",                                                                         \
     .type = TUTTI_OPTION_COUNT,                                                                  \
     .value = "N",                                                                                \
     .min = 0,                                                                                    \
     .max = 4096,                                                                                 \
     .help = "equal pieces that all gradients are cut into; 0: each by itself"},                  \
        {.name = "bytes-per-pack",                                                                \
         .type = TUTTI_OPTION_SIZE,                                                               \
         .value = "SIZE",                                                                         \
         .help = "a pack is closed once it holds more; 0: one of all"},                           \
        {.name = "bucket",                                                                        \
         .type = TUTTI_OPTION_SIZE,                                                               \
         .value = "SIZE",                                                                         \
         .help = "a bucket is closed once it holds as much"},                                     \
        {.name = "overlap",                                                                       \
         .type = TUTTI_OPTION_CHOICE,                                                             \
         .value = "on|off",                                                                       \
         .help = "collectives under the backward pass (if not given: as the strategy has it)"},   \
        {.name = "shard",                                                                         \
         .type = TUTTI_OPTION_COUNT,                                                              \
         .value = "N",                                                                            \
         .standard = "0",                                                                         \
         .min = 0,                                                                                \
         .max = UINT32_MAX,                                                                       \
         .help = "devices that share states; 0: all, of hsdp those of a host"},                   \
        {.name = "gather-ahead",                                                                  \
         .type = TUTTI_OPTION_COUNT,                                                              \
         .value = "N",                                                                            \
         .min = 0,                                                                                \
         .max = 64,                                                                               \
         .help = "layers whose weights fsdp and hsdp gather ahead of the one in work (if not "    \
                 "given: 1)"},                                                                    \
        {.name = "keep-weights",                                                                  \
         .type = TUTTI_OPTION_FLAG,                                                               \
         .help = "of fsdp and hsdp: weights that forward gathered stay for backward "             \
                 "(reshard_after_forward=False)"},                                                \
        {.name = "shard-update",                                                                  \
         .type = TUTTI_OPTION_FLAG,                                                               \
         .help = "weight-update sharding of tpu: gradients are reduce-scattered, each device "    \
                 "updates its part, and weights are gathered"},                                   \
        {.name = "local-steps",                                                                   \
         .type = TUTTI_OPTION_COUNT,                                                              \
         .value = "N",                                                                            \
         .min = 1,                                                                                \
         .max = 1 << 20,                                                                          \
         .help = "steps between two averages of local-sgd and diloco"},                           \
        {.name = "gradient-bytes",                                                                \
         .type = TUTTI_OPTION_COUNT,                                                              \
         .value = "N",                                                                            \
         .standard = "0",                                                                         \
         .min = 0,                                                                                \
         .max = 4,                                                                                \
         .help = "of an element as it is reduced, or averaged by local-sgd and diloco: 1 (fp8), " \
                 "2 or 4; 0: 4, of fsdp at half precision 2"},                                    \
        {.name = "compress",                                                                      \
         .type = TUTTI_OPTION_TEXT,                                                               \
         .value = "none|top-k:PERCENT|power-sgd:RANK",                                            \
         .standard = "none",                                                                      \
         .help = "gradients before they are reduced: the largest of a pack, with their indices, " \
                 "gathered from all; or factors of its matrices. What is left out is kept, and "  \
                 "added to the next step's, unless ',forget' follows"},                           \
    {                                                                                             \
        .name = "sparse", .type = TUTTI_OPTION_CHOICE, .value = "gather|dense",                   \
        .standard = "gather",                                                                     \
        .help = "gradients of which a batch touches some rows alone, as of DLRM's tables: rows "  \
                "are gathered, or reduced as whole variables, as sharded states and averages "    \
                "always are"                                                                      \
    }

/* -TUTTI_EINVAL for what the strategy has not. */
int tutti_train_strategy_read(const struct tutti_args *args, struct tutti_strategy *strategy,
                              struct tutti_err *err);

#endif
