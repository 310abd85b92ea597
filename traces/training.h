/* Tables of measured training steps, read: what was trained on what, strictly apart from how long
 * it took.
 *
 * A table is CSV (RFC 4180; a line that begins with '#' is a remark) with a header. Its columns are
 * the fields below, by their names; those of published tables are known by their own, too
 * ("# GPUs", "per_accelerator_batch", "step_ms_mean": traces/training/columns.c). Two forms are
 * usual: steps of language models (layers, tp, micro_batch, global_batch, step_time_s, ...) and
 * throughput of other models (batch_per_gpu, throughput, unit). An empty cell, "n/a" or "-" is "not
 * stated", which is not 0. A remark
 *
 *     # COLUMN: VALUE
 *
 * says what a column holds from there on, where a row has no cell of its own for it.
 *
 * What cannot be read in a setting is the problem of its row alone, and so is, less still, a result
 * that is no number: then the row has no measured step. Only what is wrong with the table itself
 * (quotes, cells that no column is for, no column of a result) is refused. */
#ifndef TUTTI_TRACES_TRAINING_H
#define TUTTI_TRACES_TRAINING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

struct tutti_arena;
struct tutti_err;

/* A count that was not stated; texts then are "", numbers NAN. */
enum { TUTTI_UNSTATED = -1 };

enum tutti_training_recompute {
    TUTTI_TRAINING_RECOMPUTE_NONE,
    TUTTI_TRAINING_RECOMPUTE_SELECTIVE,
    TUTTI_TRAINING_RECOMPUTE_FULL,
};

/* All that a prediction may look at. Which family a row belongs to is not among it. */
struct tutti_training_row_settings {
    const char *system;
    const char *gpu; /* as stated: "A100-SXM4-80GB" */
    const char *network;
    const char *framework;
    const char *model;
    const char *precision;
    const char *zero;      /* as stated: "1 over 8 GPUs, replicated between", "FSDP" */
    const char *recompute; /* likewise */
    const char *variant;   /* what else was set; what it says of results is cut off */
    double params_B;
    double batch_per_gpu; /* samples of a device and pass, as a table of throughput states it */
    int64_t gpus_per_node;
    int64_t nodes;
    int64_t gpus;
    int64_t layers;
    int64_t hidden;
    int64_t heads;
    int64_t seq_len;
    int64_t vocab;
    int64_t tp;
    int64_t pp;
    int64_t dp;
    int64_t cp;
    int64_t ep;
    int64_t vp;
    int64_t micro_batch;  /* samples of a pass and data-parallel rank */
    int64_t global_batch; /* samples of a step */
    int64_t grad_accum;   /* passes a step */
    /* What `zero` and `recompute` say: */
    int64_t zero_stage;        /* 0..3; FSDP and HSDP are 3 */
    int64_t zero_group;        /* ranks that share what is sharded; 0: all data-parallel ranks */
    int64_t recompute_mode;    /* enum tutti_training_recompute */
    int64_t sequence_parallel; /* 1: "... + sequence parallel" */
};

enum tutti_training_memory {
    TUTTI_TRAINING_MEMORY_UNSTATED,
    TUTTI_TRAINING_MEMORY_STATED,
    TUTTI_TRAINING_MEMORY_OUT,    /* "OOM": measured that it does not fit */
    TUTTI_TRAINING_MEMORY_FAILED, /* out of memory, a crash or a time limit: the source is silent */
};

/* All that a prediction must not look at; as stated, NAN where it was not or is no number. */
struct tutti_training_row_results {
    double step_time_s;
    double tokens_per_s_per_gpu;
    double throughput; /* in `unit` */
    const char *unit;  /* "images/s", "s/iteration" */
    double tflops_per_gpu;
    double mfu_percent;
    double memory_GB;
    double time_to_train_s;
    enum tutti_training_memory memory;
};

struct tutti_training_row {
    const char *file;
    uint32_t line;      /* as an editor counts them, where the row begins; the header's is 1 */
    bool by_throughput; /* of a table with a column of throughput */
    const char *family; /* where there is no such column: the file's name without ".csv" */
    struct tutti_training_row_settings settings;
    struct tutti_training_row_results results;
    const char *quality; /* "good", "degraded" or "" */
    const char *source;
    const char *note;
    /* A step as measured: step_time_s, or from what else is stated: batch_per_gpu x gpus (or
     * global_batch) / throughput, with gradient accumulation the mean of a pass; s/iteration;
     * global_batch x seq_len / (tokens_per_s_per_gpu x gpus). NAN: `why` says why there is none. */
    double measured_step_s;
    const char *why;
    const char *problem; /* a setting that cannot be read: "FILE: line N: tp 'x' (...)"; or "" */
};

struct tutti_training_rows {
    struct tutti_training_row *rows;
    size_t row_count;
    size_t problem_count;    /* rows with a problem */
    const char *passed_over; /* columns that nothing is known of: "vendor, case", or "" */
    struct tutti_arena *arena;
};

/* `name` is the file's, of messages. Free with tutti_training_free. */
int tutti_training_parse(const char *name, const char *text, size_t bytes,
                         struct tutti_training_rows *ret, struct tutti_err *err);
void tutti_training_free(struct tutti_training_rows *rows); /* all zero is a no-op */

/* -TUTTI_EINVAL with the first row's problem, if any has one. */
int tutti_training_check(const struct tutti_training_rows *rows, struct tutti_err *err);

enum tutti_training_type { TUTTI_TRAINING_TEXT, TUTTI_TRAINING_NUMBER, TUTTI_TRAINING_COUNT };

/* The fields of a row by the names of their columns. */
struct tutti_training_field {
    const char *name;
    enum tutti_training_type type;
    bool is_setting; /* of tutti_training_row_settings */
    size_t offset;   /* in struct tutti_training_row */
};

const struct tutti_training_field *tutti_training_fields(size_t *ret_count);

/* -TUTTI_EINVAL with the nearest name. */
int tutti_training_field_find(const char *name, const struct tutti_training_field **ret,
                              struct tutti_err *err);

/* The field as text: "" where it was not stated, numbers with 17 digits at most. In `buf`, or the
 * row's own text. */
enum { TUTTI_TRAINING_VALUE_BYTES = 40 };
const char *tutti_training_value(const struct tutti_training_row *row,
                                 const struct tutti_training_field *field, char *buf);

/* Whether the field is `value`: numbers as numbers, texts byte by byte. */
bool tutti_training_is(const struct tutti_training_row *row,
                       const struct tutti_training_field *field, const char *value);

TUTTI_API_END

#endif
