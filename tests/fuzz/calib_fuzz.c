/* Fuzzes calibrations: one that is read is printed, read back the same, and put together for a
 * machine; any other is refused in one line. */
#include "sim/calib.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge.h"

enum { BYTES_MAX = 20000 };

static void judge_protocols(const struct tutti_calib *calib)
{
    const struct tutti_calib_machine machine = {
        .gpu = "gb200",
        .links = {[TUTTI_HOP_NVLINK] = "nvswitch", [TUTTI_HOP_NET] = "ib"},
        .routes = {[TUTTI_HOP_NVLINK] = true, [TUTTI_HOP_NET] = true},
        .slowest = TUTTI_HOP_NET,
        .rank_count = 8};
    struct tutti_calibrated made = tutti_calib_compose(&calib, 1, &machine);

    for (int i = 0; i < TUTTI_PROTOCOLS; i++) {
        JUDGE(made.protocols[i].launch_ps >= 0);
        for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++) {
            JUDGE(made.protocols[i].message_ps[hop] >= 0);
            JUDGE(made.protocols[i].slice_ps[hop] >= 0);
            JUDGE(made.protocols[i].link_ppm[hop] <= TUTTI_PPM);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tutti_calib *calib = NULL;
    struct tutti_calib *again = NULL;
    struct tutti_err err = {""};
    char *text = NULL;
    char *other = NULL;
    int status;

    if (bytes > BYTES_MAX)
        return 0;
    status = tutti_calib_parse("fuzz", (const char *)data, bytes, &calib, &err);
    if (status < 0) {
        judge_refusal(status, &err);
        return 0;
    }
    judge_protocols(calib);
    JUDGE(tutti_calib_print(calib, &text, &err) == 0);
    JUDGE(tutti_calib_parse("again", text, strlen(text), &again, &err) == 0);
    JUDGE(tutti_calib_print(again, &other, &err) == 0);
    JUDGE(strcmp(text, other) == 0);
    free(text);
    free(other);
    tutti_calib_free(calib);
    tutti_calib_free(again);
    return 0;
}
