/* Knows the columns by their names: those of the fields, and those of published tables. */
#include "traces/training/columns.h"

#include <string.h>

#include "runtime/status.h"
#include "traces/training.h"

#define ROW(field)     offsetof(struct tutti_training_row, field)
#define SETTING(field) ROW(settings.field)
#define RESULT(field)  ROW(results.field)

/* clang-format off */
static const struct tutti_training_column columns[] = {
    {"family",         TUTTI_COLUMN_TEXT,        ROW(family),            0, NULL},
    {"quality",        TUTTI_COLUMN_TEXT,        ROW(quality),           0, NULL},
    {"source",         TUTTI_COLUMN_TEXT,        ROW(source),            0, NULL},
    {"note",           TUTTI_COLUMN_TEXT,        ROW(note),              0, NULL},
    {"system",         TUTTI_COLUMN_TEXT,        SETTING(system),        0, NULL},
    {"gpu",            TUTTI_COLUMN_TEXT,        SETTING(gpu),           0, NULL},
    {"network",        TUTTI_COLUMN_TEXT,        SETTING(network),       0, NULL},
    {"framework",      TUTTI_COLUMN_TEXT,        SETTING(framework),     0, NULL},
    {"model",          TUTTI_COLUMN_JOINED,      SETTING(model),         0, NULL},
    {"precision",      TUTTI_COLUMN_TEXT,        SETTING(precision),     0, NULL},
    {"zero",           TUTTI_COLUMN_ZERO,        0,                      0, NULL},
    {"recompute",      TUTTI_COLUMN_RECOMPUTE,   0,                      0, NULL},
    {"variant",        TUTTI_COLUMN_VARIANT,     SETTING(variant),       0, NULL},
    {"params_B",       TUTTI_COLUMN_PARAMS,      SETTING(params_B),      1, NULL},
    {"batch_per_gpu",  TUTTI_COLUMN_BATCH,       0,                      0, NULL},
    {"gpus_per_node",  TUTTI_COLUMN_COUNT,       SETTING(gpus_per_node), 0, NULL},
    {"nodes",          TUTTI_COLUMN_COUNT,       SETTING(nodes),         0, NULL},
    {"gpus",           TUTTI_COLUMN_COUNT,       SETTING(gpus),          0, NULL},
    {"layers",         TUTTI_COLUMN_COUNT,       SETTING(layers),        0, NULL},
    {"hidden",         TUTTI_COLUMN_COUNT,       SETTING(hidden),        0, NULL},
    {"heads",          TUTTI_COLUMN_COUNT,       SETTING(heads),         0, NULL},
    {"seq_len",        TUTTI_COLUMN_COUNT,       SETTING(seq_len),       0, NULL},
    {"vocab",          TUTTI_COLUMN_COUNT,       SETTING(vocab),         0, NULL},
    {"tp",             TUTTI_COLUMN_COUNT,       SETTING(tp),            0, NULL},
    {"pp",             TUTTI_COLUMN_COUNT,       SETTING(pp),            0, NULL},
    {"dp",             TUTTI_COLUMN_COUNT,       SETTING(dp),            0, NULL},
    {"cp",             TUTTI_COLUMN_COUNT_FROM0, SETTING(cp),            0, NULL},
    {"ep",             TUTTI_COLUMN_COUNT_FROM0, SETTING(ep),            0, NULL},
    {"vp",             TUTTI_COLUMN_COUNT_FROM0, SETTING(vp),            0, NULL},
    {"micro_batch",    TUTTI_COLUMN_COUNT,       SETTING(micro_batch),   0, NULL},
    {"global_batch",   TUTTI_COLUMN_COUNT,       SETTING(global_batch),  0, NULL},
    {"grad_accum",     TUTTI_COLUMN_ACCUM,       0,                      0, NULL},
    {"step_time_s",    TUTTI_COLUMN_RESULT,      RESULT(step_time_s),    1, NULL},
    {"tokens_per_s_per_gpu", TUTTI_COLUMN_RESULT, RESULT(tokens_per_s_per_gpu), 1, NULL},
    {"throughput",     TUTTI_COLUMN_THROUGHPUT,  RESULT(throughput),     1, NULL},
    {"unit",           TUTTI_COLUMN_UNIT,        RESULT(unit),           0, NULL},
    {"tflops_per_gpu", TUTTI_COLUMN_RESULT,      RESULT(tflops_per_gpu), 1, NULL},
    {"mfu_percent",    TUTTI_COLUMN_RESULT,      RESULT(mfu_percent),    1, NULL},
    {"memory_GB",      TUTTI_COLUMN_MEMORY,      RESULT(memory_GB),      1, NULL},
    {"time_to_train_s", TUTTI_COLUMN_RESULT,     RESULT(time_to_train_s), 1, NULL},
    /* TF's benchmarks, DLPerf, PaddlePaddle/Perf, lambda_tf_cnn, aws, Vultr, FlagPerf */
    {"system_log",     TUTTI_COLUMN_TEXT,        SETTING(system),        0, NULL},
    {"hardware",       TUTTI_COLUMN_TEXT,        SETTING(system),        0, NULL},
    {"instance",       TUTTI_COLUMN_TEXT,        SETTING(system),        0, NULL},
    {"accelerator",    TUTTI_COLUMN_TEXT,        SETTING(gpu),           0, NULL},
    {"case",           TUTTI_COLUMN_JOINED,      SETTING(model),         0, NULL},
    {"size",           TUTTI_COLUMN_JOINED,      SETTING(model),         0, NULL},
    {"dtype",          TUTTI_COLUMN_TEXT,        SETTING(precision),     0, NULL},
    {"intra",          TUTTI_COLUMN_NAMED,       0,                      0, NULL},
    {"data",           TUTTI_COLUMN_NAMED,       0,                      0, NULL},
    {"variables",      TUTTI_COLUMN_NAMED,       0,                      0, NULL},
    {"allreduce",      TUTTI_COLUMN_NAMED,       0,                      0, NULL},
    {"tensorflow",     TUTTI_COLUMN_NAMED,       0,                      0, NULL},
    {"a2a_overlap",    TUTTI_COLUMN_NAMED,       0,                      0, NULL},
    {"dispatcher",     TUTTI_COLUMN_NAMED,       0,                      0, NULL},
    {"fsdp",           TUTTI_COLUMN_NAMED,       0,                      0, NULL},
    {"parallelism",    TUTTI_COLUMN_PARALLELISM, 0,                      0, NULL},
    {"step_time_ms",   TUTTI_COLUMN_RESULT,      RESULT(step_time_s),    1e-3, NULL},
    {"step_ms_mean",   TUTTI_COLUMN_RESULT,      RESULT(step_time_s),    1e-3, NULL},
    {"images_per_s",   TUTTI_COLUMN_THROUGHPUT,  RESULT(throughput),     1, "images/s"},
    {"iterations_per_s", TUTTI_COLUMN_THROUGHPUT, RESULT(throughput),    1, "iterations/s"},
    {"e2e_time_s",     TUTTI_COLUMN_RESULT,      RESULT(time_to_train_s), 1, NULL},
    /* MLPerf */
    {"benchmark",      TUTTI_COLUMN_JOINED,      SETTING(model),         0, NULL},
    {"accelerators_per_node", TUTTI_COLUMN_COUNT_FROM0, SETTING(gpus_per_node), 0, NULL},
    {"accelerators_total", TUTTI_COLUMN_COUNT,   SETTING(gpus),          0, NULL},
    {"host_networking", TUTTI_COLUMN_TEXT,       SETTING(network),       0, NULL},
    {"global_batch_size", TUTTI_COLUMN_COUNT,    SETTING(global_batch),  0, NULL},
    {"per_accelerator_batch", TUTTI_COLUMN_BATCH, 0,                     0, NULL},
    {"resnet_step_time_ms", TUTTI_COLUMN_RESULT, RESULT(step_time_s),    1e-3, NULL},
    {"resnet_images_per_s", TUTTI_COLUMN_THROUGHPUT, RESULT(throughput), 1, "images/s"},
    {"logged_throughput_samples_per_s", TUTTI_COLUMN_THROUGHPUT, RESULT(throughput), 1,
     "samples/s"},
    {"time_to_train_min", TUTTI_COLUMN_RESULT,   RESULT(time_to_train_s), 60, NULL},
    {"time_to_train_min_median", TUTTI_COLUMN_RESULT, RESULT(time_to_train_s), 60, NULL},
    {"run_minutes_median", TUTTI_COLUMN_RESULT,  RESULT(time_to_train_s), 60, NULL},
    /* Megatron-LM, Megatron-Bridge, Primus */
    {"model_size",     TUTTI_COLUMN_PARAMS,      SETTING(params_B),      1, NULL},
    {"attention_heads", TUTTI_COLUMN_COUNT,      SETTING(heads),         0, NULL},
    {"hidden_size",    TUTTI_COLUMN_COUNT,       SETTING(hidden),        0, NULL},
    {"container",      TUTTI_COLUMN_TEXT,        SETTING(framework),     0, NULL},
    {"ga",             TUTTI_COLUMN_ACCUM,       0,                      0, NULL},
    {"model_tflops_per_gpu", TUTTI_COLUMN_RESULT, RESULT(tflops_per_gpu), 1, NULL},
    {"measured_8_node_tokens_per_s_per_gpu", TUTTI_COLUMN_RESULT, RESULT(tokens_per_s_per_gpu), 1,
     NULL},
    /* MosaicML's llm-foundry */
    {"Model",          TUTTI_COLUMN_JOINED,      SETTING(model),         0, NULL},
    {"SeqLen (T)",     TUTTI_COLUMN_COUNT,       SETTING(seq_len),       0, NULL},
    {"# GPUs",         TUTTI_COLUMN_COUNT,       SETTING(gpus),          0, NULL},
    {"GPU",            TUTTI_COLUMN_TEXT,        SETTING(gpu),           0, NULL},
    {"section",        TUTTI_COLUMN_TEXT,        SETTING(system),        0, NULL},
    {"MFU",            TUTTI_COLUMN_RESULT,      RESULT(mfu_percent),    1, NULL},
    {"Model TFLOP",    TUTTI_COLUMN_RESULT,      RESULT(tflops_per_gpu), 1, NULL},
    {"MicroBatchSize", TUTTI_COLUMN_COUNT,       SETTING(micro_batch),   0, NULL},
    {"GradAccum",      TUTTI_COLUMN_ACCUM,       0,                      0, NULL},
    {"GlobalBatchSize", TUTTI_COLUMN_COUNT,      SETTING(global_batch),  0, NULL},
    {"Throughput (T/s/GPU)", TUTTI_COLUMN_RESULT, RESULT(tokens_per_s_per_gpu), 1, NULL},
    {"Precision",      TUTTI_COLUMN_TEXT,        SETTING(precision),     0, NULL},
    {"Sharding Strategy", TUTTI_COLUMN_ZERO,     0,                      0, NULL},
    {"Activation Checkpointing", TUTTI_COLUMN_RECOMPUTE, 0,              0, NULL},
    {"Activation CPUOffload", TUTTI_COLUMN_NAMED, 0,                     0, NULL},
    {"MP Mode",        TUTTI_COLUMN_NAMED,       0,                      0, NULL},
    {"NumParams",      TUTTI_COLUMN_PARAMS,      SETTING(params_B),      1e-9, NULL},
    {"step_time_ms_derived(=GBS_tokens/throughput)", TUTTI_COLUMN_RESULT, RESULT(step_time_s),
     1e-3, NULL},
};
/* clang-format on */

const struct tutti_training_column *tutti_training_column_find(const char *name)
{
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        if (strcmp(columns[i].name, name) == 0)
            return &columns[i];
    }
    return NULL;
}
