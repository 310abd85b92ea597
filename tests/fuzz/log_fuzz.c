/* Fuzzes logs of nccl-tests: tables that are read are whole, and a refusal says why. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tutti_nccl_log log = {0};
    struct tutti_err err = {""};
    int status = tutti_nccl_tests_parse("fuzz", (const char *)data, bytes, &log, &err);

    if (status < 0) {
        judge_refusal(status, &err);
        return 0;
    }
    judge_log(&log, data, bytes);
    tutti_nccl_log_free(&log);
    return 0;
}
