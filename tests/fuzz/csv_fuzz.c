/* Fuzzes measurements in CSV: the one table that is read is whole, and a refusal says why. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge_log.h"
#include "traces/csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tutti_nccl_log log = {0};
    struct tutti_err err = {""};
    int status = tutti_csv_measurements_parse("fuzz", (const char *)data, bytes, &log, &err);

    if (status < 0) {
        judge_refusal(status, &err);
        return 0;
    }
    JUDGE(log.table_count == 1);
    judge_log(&log, data, bytes);
    tutti_nccl_log_free(&log);
    return 0;
}
