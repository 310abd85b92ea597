/* Reads --slow and makes paces of it; see slow.h. */
#include "tools/train/slow.h"

#include <stdlib.h>

#include "runtime/status.h"
#include "sim/step.h"

enum { PERCENT_MAX = 100000 };

static int refuse(const char *text, struct tutti_err *err)
{
    return tutti_fail(
        err, TUTTI_EINVAL,
        "option '--slow': '%.60s' (RANK:PERCENT with commas, at most %d of them, up to "
        "%d %%)",
        text, TUTTI_TRAIN_SLOW_MAX, PERCENT_MAX);
}

int tutti_train_slow_read(const struct tutti_args *args, struct tutti_train_slow *ret,
                          struct tutti_err *err)
{
    const char *text = tutti_args_text(args, "slow");
    const char *at = text;

    *ret = (struct tutti_train_slow){.count = 0};
    while (at != NULL) {
        char *end;
        unsigned long rank = strtoul(at, &end, 10);
        double percent;

        if (end == at || *at < '0' || *at > '9' || *end != ':' || rank >= UINT32_MAX ||
            ret->count == TUTTI_TRAIN_SLOW_MAX)
            return refuse(text, err);
        at = end + 1;
        percent = strtod(at, &end);
        if (end == at || *at < '0' || *at > '9' || !(percent <= PERCENT_MAX) ||
            (*end != '\0' && *end != ','))
            return refuse(text, err);
        ret->rank[ret->count] = (uint32_t)rank;
        ret->pace_ppm[ret->count++] = (uint32_t)(TUTTI_PACE * (1 + percent / 100) + 0.5);
        at = *end == ',' ? end + 1 : NULL;
    }
    return 0;
}

int tutti_train_slow_paces(const struct tutti_train_slow *slow, uint32_t rank_count, uint32_t **ret,
                           struct tutti_err *err)
{
    uint32_t *paces;

    *ret = NULL;
    if (slow->count == 0)
        return 0;
    for (uint32_t i = 0; i < slow->count; i++)
        if (slow->rank[i] >= rank_count)
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--slow': rank '%u' of %u devices (0 to %u)", slow->rank[i],
                              rank_count, rank_count - 1);
    paces = malloc(rank_count * sizeof(*paces));
    if (paces == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < rank_count; i++)
        paces[i] = TUTTI_PACE;
    for (uint32_t i = 0; i < slow->count; i++)
        paces[slow->rank[i]] = slow->pace_ppm[i];
    *ret = paces;
    return 0;
}

void tutti_train_slow_print(const struct tutti_train_slow *slow, FILE *out)
{
    if (slow->count == 0)
        return;
    fprintf(out, "# slow:    ");
    for (uint32_t i = 0; i < slow->count; i++)
        fprintf(out, "%s rank %u by %.4g %%", i > 0 ? "," : "", slow->rank[i],
                100 * ((double)slow->pace_ppm[i] / TUTTI_PACE - 1));
    fputc('\n', out);
}
