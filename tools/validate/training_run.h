/* `validate --training`: tables read, anchors chosen, all rows predicted, errors printed. */
#ifndef TUTTI_TOOLS_VALIDATE_TRAINING_RUN_H
#define TUTTI_TOOLS_VALIDATE_TRAINING_RUN_H

#include "tools/validate/training.h"

struct tutti_training_tables {
    struct tutti_training_rows *tables;
    size_t table_count;
};

/* Reads files, and the tables (*.csv) of folders, "-" being stdin; without a path those of
 * traces/measured/training. -TUTTI_EINVAL for what is no table. */
int tutti_training_load(const char *const *paths, size_t path_count,
                        struct tutti_training_tables *ret, struct tutti_err *err);
void tutti_training_unload(struct tutti_training_tables *tables); /* all zero is a no-op */

enum tutti_training_format { TUTTI_TRAINING_TABLE, TUTTI_TRAINING_JSON, TUTTI_TRAINING_CSV };

struct tutti_training_report {
    const char *const *paths; /* as for tutti_training_load */
    size_t path_count;
    const char *anchor; /* as for tutti_training_anchor_parse; NULL: none */
    const char *costs;  /* what a calibration in use is called; NULL: what this build has */
    struct tutti_training_predictor predictor;
    enum tutti_training_format format;
    double limit_percent; /* of the median error of all rows, beyond which it fails; 0: none */
};

/* Prints it to the sink. Columns that nothing is known of are named among its notes. -TUTTI_ECHECK,
 * after that, beyond the limit. */
int tutti_training_report(const struct tutti_training_report *report, struct tutti_sink *sink,
                          struct tutti_err *err);

#endif
