/* The heading of an nccl-tests table and the rows under it. */
#ifndef TUTTI_TRACES_NCCL_TESTS_ROW_H
#define TUTTI_TRACES_NCCL_TESTS_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "traces/nccl_tests.h"
#include "traces/nccl_tests/line.h"

enum { LOG_COLUMNS_MAX = 48 };

enum tutti_log_column_kind {
    LOG_COLUMN_SIZE,
    LOG_COLUMN_COUNT,
    LOG_COLUMN_TYPE,
    LOG_COLUMN_REDOP,
    LOG_COLUMN_ROOT,
    LOG_COLUMN_TIME,
    LOG_COLUMN_ALGBW,
    LOG_COLUMN_BUSBW,
    LOG_COLUMN_WRONG,
    LOG_COLUMN_OTHER, /* one word, not read: "algorithm", "time:p99(us)", "i_min" */
};

struct tutti_log_heading {
    uint32_t column_count; /* 0: none seen yet */
    uint8_t column[LOG_COLUMNS_MAX];
    double time_scale; /* what a time is multiplied with to give us */
    bool has_type;
    bool has_redop;
    bool has_root;
    bool commas; /* columns are separated by commas */
};

/* Whether the line is a heading; cuts it as needed. *ret is untouched if not. */
bool tutti_log_heading_read(struct tutti_log_line *line, struct tutti_log_heading *ret);

enum tutti_log_row_status {
    LOG_ROW_NONE, /* no row */
    LOG_ROW_CUT,  /* a row, but words are missing at its end */
    LOG_ROW_WHOLE,
};

/* Reads the (cut) line as a row under `heading`, or, where that does not fit, as a row that shows
 * by itself what it is (size, count, a known type, numbers). */
enum tutti_log_row_status tutti_log_row_read(const struct tutti_log_line *line,
                                             const struct tutti_log_heading *heading,
                                             struct tutti_nccl_row *ret);

/* Element size of a type nccl-tests knows, else 0. */
uint32_t tutti_log_type_bytes(const char *type);

#endif
