/* Training steps: measured beside predicted, row by row, and how far apart they are by family.
 *
 * Rows come from traces/training.h; who predicts is a function, which sees the settings of a row
 * and, with anchors, one measured row of its kind. The null model is "nothing that is new matters":
 * of language models one rate a family, step = model FLOPs / (gpus x rate); of throughput the same
 * rate a device in a series, whatever their number. A prediction that is no better has explained
 * nothing. */
#ifndef TUTTI_TOOLS_VALIDATE_TRAINING_H
#define TUTTI_TOOLS_VALIDATE_TRAINING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/cli/json.h"
#include "traces/training.h"

struct tutti_err;
struct tutti_page;
struct tutti_sink;

struct tutti_training_question {
    const struct tutti_training_row_settings *settings;
    /* What is measured is the mean of a pass, not a step: a table of throughput counts all samples,
     * those of passes that are accumulated, too. */
    bool of_a_pass;
    /* A row of the same family taken as measured, which may scale the device; NULL: none. */
    const struct tutti_training_row_settings *anchor;
    double anchor_step_s;
};

enum { TUTTI_TRAINING_PLAN_BYTES = 160, TUTTI_TRAINING_WHY_BYTES = 256 };

struct tutti_training_prediction {
    double step_s;    /* > 0 */
    double memory_GB; /* of the fullest device; NAN: not predicted */
    int fits;         /* 1, 0; -1: not known */
    double ring_s;    /* a flat ring of its gradients over all devices, at the hosts' rate: what a
                         pass has of it; 0: of one host, or not known */
    double flops;     /* of the model, of a step on all devices, for the null model; 0: not said */
    const char *framework; /* as sim/device.h calls it */
    bool half;             /* fewer than 32 bits */
    bool several_hosts;
    bool fitted; /* the constants in use were fitted to this row, among others */
    char plan[TUTTI_TRAINING_PLAN_BYTES]; /* what was resolved: "ddp dp=8 micro=2 x 4" */
};

/* 0; -TUTTI_EINVAL or -TUTTI_ELACK where it does not know how (the message says why: of this row
 * alone); other statuses end all. */
struct tutti_training_predictor {
    int (*predict)(void *context, const struct tutti_training_question *question,
                   struct tutti_training_prediction *ret, struct tutti_err *err);
    void *context;
};

struct tutti_training_case {
    const struct tutti_training_row *row;
    /* The first case of its family; and of its series, whose rows differ in the number of devices
     * alone: gpus_per_node, nodes, gpus, network, dp, global_batch, grad_accum. */
    size_t family;
    size_t series;
    bool anchor;                                   /* taken as measured */
    const struct tutti_training_case *anchored_by; /* NULL: by none */
    bool predicted;
    struct tutti_training_prediction prediction;
    double null_step_s; /* NAN: nothing to go by */
    double ring_step_s; /* its anchor's and what a flat ring takes more than there; NAN */
    char why[TUTTI_TRAINING_WHY_BYTES]; /* why there is no prediction; "" */
};

struct tutti_training_cases {
    struct tutti_training_case *cases; /* in the order of the tables' rows */
    size_t case_count;
};

/* The rows of the tables, which must outlive them; not yet predicted. */
int tutti_training_cases_new(const struct tutti_training_rows *tables, size_t table_count,
                             struct tutti_training_cases *ret, struct tutti_err *err);
void tutti_training_cases_done(struct tutti_training_cases *cases);

/* Which rows are taken as measured: "first" and "COLUMN=VALUE", the first row of each family, and
 * the first that has it; behind "each:" of each series, and a series that has none goes by the
 * family's first. Only good rows with a measured step, and where another such row is left to be
 * judged. */
struct tutti_training_anchor {
    bool each;
    const struct tutti_training_field *field; /* NULL: the first */
    const char *value;                        /* borrowed from the text */
};
int tutti_training_anchor_parse(const char *text, struct tutti_training_anchor *ret,
                                struct tutti_err *err);

/* Marks the anchors, and what each row is anchored by. */
int tutti_training_anchor_choose(struct tutti_training_cases *cases,
                                 const struct tutti_training_anchor *anchor, struct tutti_err *err);

/* Asks of every row what its step takes, then what the null model says. An anchor is predicted like
 * the others, with itself as the anchor. */
int tutti_training_predict(struct tutti_training_cases *cases,
                           const struct tutti_training_predictor *predictor, struct tutti_err *err);

/* The null model's constant comes from the row's anchor; else from the rows fitted to; else from
 * all good rows, two at least, its own among them. It is the median over these: in a family, of
 * FLOPs a second and device; of throughput, in a series, of the time a sample. FLOPs are what the
 * prediction says, else those of the settings. */
int tutti_training_null(struct tutti_training_cases *cases, struct tutti_err *err);

/* Model FLOPs of a step on all devices: (6 parameters + 12 layers hidden seq_len) a token, without
 * the second part where layers and hidden are not stated; NAN where parameters or tokens are not.
 * Of a mixture of experts too many: all of them count as if used. */
double tutti_training_model_flops(const struct tutti_training_row_settings *settings);

/* Absolute errors in percent of what was measured. */
struct tutti_training_spread {
    size_t count; /* 0: all else is NAN */
    double median_abs_percent;
    double mean_abs_percent;
    double p90_abs_percent;
    double worst_abs_percent;
};

struct tutti_training_errors {
    size_t row_count;
    size_t degraded_count;  /* left out of all that follows */
    size_t measured_count;  /* good rows with a measured step */
    size_t anchor_count;    /* of these */
    size_t fitted_count;    /* of these: the constants were fitted to them; they count below */
    size_t predicted_count; /* of these, anchors among them */
    struct tutti_training_spread step; /* predicted and no anchor */
    struct tutti_training_spread null; /* the same rows, where there is a null */
    struct tutti_training_spread memory;
    size_t ran_count; /* good rows that ran, and for which it was predicted whether they fit */
    size_t ran_fits_count;
    size_t out_count; /* good rows that were out of memory, likewise */
    size_t out_refused_count;
};

/* Of the family whose first case is `family`, or of all (SIZE_MAX). */
int tutti_training_errors(const struct tutti_training_cases *cases, size_t family,
                          struct tutti_training_errors *ret, struct tutti_err *err);

/* Rows of several hosts that an anchor of their series stands for: predicted, "no change" (the
 * null), and by the anchor with a flat ring. An increment is what a row takes more than its anchor;
 * how far predicted ones are off, in percent of it, of rows that take a twentieth more. */
struct tutti_training_beyond {
    struct tutti_training_spread step;
    struct tutti_training_spread null;
    struct tutti_training_spread ring;
    struct tutti_training_spread increment;
    struct tutti_training_spread ring_increment;
};
int tutti_training_beyond(const struct tutti_training_cases *cases, size_t family,
                          struct tutti_training_beyond *ret, struct tutti_err *err);

/* By family, then overall: as tables; as the members "rows", "families", "median_abs_percent", ...
 * of an open JSON object. The rows as CSV. */
int tutti_training_print(const struct tutti_training_cases *cases, const struct tutti_page *page,
                         struct tutti_err *err);
int tutti_training_json(const struct tutti_training_cases *cases, struct tutti_json *json,
                        struct tutti_err *err);
int tutti_training_csv(const struct tutti_training_cases *cases, struct tutti_sink *sink,
                       struct tutti_err *err);

/* Notes of why rows are not predicted, the most frequent reasons first. */
int tutti_training_print_reasons(const char *const *whys, size_t why_count,
                                 const struct tutti_page *page, struct tutti_err *err);

#endif
