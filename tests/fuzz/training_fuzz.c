/* Fuzzes tables of training steps: rows are whole, a step is a time or says why not, and a refusal
 * says why. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge.h"
#include "traces/training.h"

static void judge_fields(const struct tutti_training_row *row)
{
    size_t count;
    const struct tutti_training_field *fields = tutti_training_fields(&count);

    for (size_t i = 0; i < count; i++) {
        char buf[TUTTI_TRAINING_VALUE_BYTES];
        const char *value = tutti_training_value(row, &fields[i], buf);

        JUDGE(value != NULL);
        JUDGE(tutti_training_is(row, &fields[i], value));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tutti_training_rows rows = {0};
    struct tutti_err err = {""};
    size_t problem_count = 0;
    int status = tutti_training_parse("fuzz", (const char *)data, bytes, &rows, &err);

    if (status < 0) {
        judge_refusal(status, &err);
        JUDGE(rows.row_count == 0);
        return 0;
    }
    JUDGE(rows.row_count > 0);
    for (size_t i = 0; i < rows.row_count; i++) {
        const struct tutti_training_row *row = &rows.rows[i];

        JUDGE(row->measured_step_s > 0 || row->why[0] != '\0');
        JUDGE(!isinf(row->measured_step_s));
        JUDGE(i == 0 || row->line > rows.rows[i - 1].line);
        problem_count += row->problem[0] != '\0';
        judge_fields(row);
    }
    JUDGE(problem_count == rows.problem_count);
    JUDGE((tutti_training_check(&rows, &err) == 0) == (problem_count == 0));
    tutti_training_free(&rows);
    return 0;
}
