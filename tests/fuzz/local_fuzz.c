/* Fuzzes calibrations of machines: one that is read is printed, read back the same, and lets a time
 * be predicted; any other is refused in one line. */
#include "runtime/coll.h"
#include "runtime/schedule.h"
#include "sim/local.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge.h"

enum { BYTES_MAX = 20000 };

static void judge_time(const struct tutti_local *local)
{
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_UINT8, .op = TUTTI_SUM, .count = 4096};
    struct tutti_shape shape = tutti_shape_flat(2);
    struct tutti_schedule *schedule = NULL;
    struct tutti_local_play *play = NULL;
    struct tutti_err err = {""};
    tutti_ps ps = 0;

    JUDGE(tutti_coll_generate("ring", &params, &shape, &schedule, &err) == 0);
    JUDGE(tutti_local_play_open(schedule, local->processor_count, &play, &err) == 0);
    JUDGE(tutti_local_time(play, local, &ps, &err) == 0);
    JUDGE(ps >= 0);
    tutti_local_play_close(play);
    tutti_schedule_free(schedule);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tutti_local local;
    struct tutti_local again;
    struct tutti_err err = {""};
    char *text = NULL;
    char *other = NULL;
    int status;

    if (bytes > BYTES_MAX)
        return 0;
    status = tutti_local_parse("fuzz", (const char *)data, bytes, &local, &err);
    if (status < 0) {
        judge_refusal(status, &err);
        return 0;
    }
    judge_time(&local);
    JUDGE(tutti_local_print(&local, &text, &err) == 0);
    JUDGE(tutti_local_parse("again", text, strlen(text), &again, &err) == 0);
    JUDGE(tutti_local_print(&again, &other, &err) == 0);
    JUDGE(strcmp(text, other) == 0);
    free(text);
    free(other);
    return 0;
}
