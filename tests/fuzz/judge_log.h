/* What must hold of measurements that were read, from whatever format. */
#ifndef TUTTI_TESTS_FUZZ_JUDGE_LOG_H
#define TUTTI_TESTS_FUZZ_JUDGE_LOG_H

#include "tests/fuzz/judge.h"
#include "traces/nccl_tests.h"

static inline void judge_text(const char *text, size_t room)
{
    JUDGE(memchr(text, '\0', room) != NULL);
}

/* Rows come in the order of their lines, each from a line of the text, and have a time. */
static inline void judge_table(const struct tutti_nccl_table *table, uint32_t line_count)
{
    uint32_t line = 0;

    JUDGE(table->row_count > 0);
    JUDGE(!table->has_collective || table->collective < TUTTI_COLLECTIVE_COUNT);
    judge_text(table->version, sizeof(table->version));
    judge_text(table->library, sizeof(table->library));
    judge_text(table->device, sizeof(table->device));
    for (size_t i = 0; i < table->row_count; i++) {
        const struct tutti_nccl_row *row = &table->rows[i];

        judge_text(row->type, sizeof(row->type));
        judge_text(row->redop, sizeof(row->redop));
        JUDGE(row->line > line && row->line <= line_count);
        line = row->line;
        /* Not NAN on both sides, and neither is below 0: a comparison with NAN is false. */
        JUDGE(row->out_of_place.time_us >= 0 || row->in_place.time_us >= 0);
        JUDGE(!(row->out_of_place.time_us < 0) && !(row->in_place.time_us < 0));
    }
}

static inline void judge_log(const struct tutti_nccl_log *log, const uint8_t *data, size_t bytes)
{
    uint32_t line_count = 1;

    for (size_t i = 0; i < bytes; i++)
        line_count += data[i] == '\n';
    JUDGE(log->table_count > 0);
    for (size_t i = 0; i < log->table_count; i++)
        judge_table(&log->tables[i], line_count);
}

#endif
