/* Fuzzes the text form of schedules: what parses is checked, proved, printed and parsed again, and
 * must be the same the second time, verdicts and messages included; in chunks, at another size. */
#include <stdlib.h>
#include <string.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "tests/fuzz/fuzz.h"

/* Lanes of all ranks that are worth the time of a check: a few dozen lines name no more. */
enum { CELLS_MAX = 1 << 12 };

struct verdict {
    int check;
    int prove;
    struct tutti_err check_err;
    struct tutti_err prove_err;
};

static uint64_t cells_of(const struct tutti_schedule *s)
{
    uint64_t cells = (uint64_t)s->rank_count * s->lane_count;

    for (uint32_t i = 0; i < s->callee_count; i++)
        cells += (uint64_t)s->rank_count * s->callees[i]->lane_count;
    return cells;
}

static void judge(const struct tutti_schedule *s, struct verdict *verdict)
{
    memset(verdict, 0, sizeof(*verdict));
    verdict->check = tutti_schedule_check(s, &verdict->check_err);
    verdict->prove = tutti_schedule_prove(s, &verdict->prove_err);
    if ((verdict->check < 0 && verdict->check_err.text[0] == '\0') ||
        (verdict->prove < 0 && verdict->prove_err.text[0] == '\0'))
        abort(); /* a refusal without a reason */
}

/* parse(print(s)) prints the same text, and is judged the same. */
static void round_trip(const struct tutti_schedule *s, const struct verdict *verdict)
{
    struct tutti_schedule *back = NULL;
    struct verdict again;
    struct tutti_err err;
    char *first = NULL;
    char *second = NULL;

    if (tutti_schedule_print(s, &first, &err) != 0)
        abort();
    if (tutti_schedule_parse("printed", first, strlen(first), &back, &err) != 0)
        abort();
    if (tutti_schedule_print(back, &second, &err) != 0 || strcmp(first, second) != 0)
        abort();
    judge(back, &again);
    if (again.check != verdict->check || again.prove != verdict->prove ||
        strcmp(again.check_err.text, verdict->check_err.text) != 0 ||
        strcmp(again.prove_err.text, verdict->prove_err.text) != 0)
        abort();
    free(first);
    free(second);
    tutti_schedule_free(back);
}

/* What holds of a schedule in chunks holds of it at another size. */
static void scale(const struct tutti_schedule *s, const struct verdict *verdict)
{
    struct tutti_schedule *scaled = NULL;
    struct verdict again;
    struct tutti_err err = {""};

    if (s->chunk_count == 0 || s->chunk_count > UINT64_MAX / 3)
        return;
    if (tutti_schedule_scale(s, 3 * s->chunk_count, &scaled, &err) != 0) {
        if (err.text[0] == '\0')
            abort();
        return;
    }
    judge(scaled, &again);
    if ((verdict->check == 0 && again.check != 0) || (verdict->prove == 0 && again.prove != 0))
        abort();
    tutti_schedule_free(scaled);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tutti_schedule *schedule = NULL;
    struct verdict verdict;
    struct tutti_err err = {""};
    int status = tutti_schedule_parse("fuzz", (const char *)data, bytes, &schedule, &err);

    if (status != 0) {
        if (status != -TUTTI_EINVAL || strncmp(err.text, "fuzz: line ", 11) != 0)
            abort();
        return 0;
    }
    if (cells_of(schedule) <= CELLS_MAX) {
        judge(schedule, &verdict);
        round_trip(schedule, &verdict);
        scale(schedule, &verdict);
    }
    tutti_schedule_free(schedule);
    return 0;
}
