/* What every kind of crew has in common: agreement on top of the one exchange. */
#include "runtime/crew.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

int tutti_crew_exchange(struct tutti_crew *crew, const void *mine, size_t bytes, void *ret_all,
                        tutti_ps deadline_ps, struct tutti_err *err)
{
    assert(crew->ops->size == sizeof(struct tutti_crew_ops));
    assert(crew->index < crew->count);
    if (crew->count == 1) {
        if (bytes > 0)
            memmove(ret_all, mine, bytes);
        return 0;
    }
    return crew->ops->exchange(crew, mine, bytes, ret_all, deadline_ps, err);
}

struct said {
    int32_t status;
    struct tutti_err err;
};

int tutti_crew_agree(struct tutti_crew *crew, int status, tutti_ps deadline_ps,
                     struct tutti_err *err)
{
    int32_t mine = status;
    int32_t *all;
    uint32_t first = 0;
    struct said said = {.status = status};
    struct said *what;
    int worked;

    if (crew->count == 1)
        return status;
    all = calloc(crew->count, sizeof(all[0]));
    what = calloc(crew->count, sizeof(what[0])); /* taken now: nothing may fail between the calls */
    if (all == NULL || what == NULL) {
        free(all);
        free(what);
        status = tutti_nomem(err);
        tutti_crew_stop(crew, status, err);
        return status;
    }
    if (status < 0 && err != NULL)
        said.err = *err;
    worked = tutti_crew_exchange(crew, &mine, sizeof(mine), all, deadline_ps, err);
    while (worked == 0 && first < crew->count && all[first] == 0)
        first++;
    if (worked == 0 && first < crew->count)
        worked = tutti_crew_exchange(crew, &said, sizeof(said), what, deadline_ps, err);
    if (worked == 0 && first < crew->count) {
        worked = what[first].status;
        what[first].err.text[TUTTI_ERR_TEXT_BYTES - 1] = '\0';
        if (err != NULL)
            *err = what[first].err;
        (void)tutti_wrap(err, worked, "process %u of %u", first, crew->count);
    }
    free(all);
    free(what);
    return worked;
}

int tutti_crew_same(struct tutti_crew *crew, const char *what, const char *text,
                    tutti_ps deadline_ps, struct tutti_err *err)
{
    enum { TEXT_BYTES = 256 };
    char mine[TEXT_BYTES] = "";
    char(*all)[TEXT_BYTES];
    int status;

    if (crew->count == 1)
        return 0;
    all = calloc(crew->count, sizeof(all[0]));
    if (all == NULL) {
        status = tutti_nomem(err);
        tutti_crew_stop(crew, status, err);
        return status;
    }
    memcpy(mine, text, strnlen(text, TEXT_BYTES - 1));
    status = tutti_crew_exchange(crew, mine, sizeof(mine), all, deadline_ps, err);
    for (uint32_t i = 0; status == 0 && i < crew->count; i++) {
        /* Compared with process 0, so that all find a difference if one does; 0 with the first. */
        uint32_t other = crew->index == 0 ? i : 0;

        all[i][TEXT_BYTES - 1] = '\0';
        if (strcmp(all[i], all[0]) == 0)
            continue;
        if (crew->index != 0 && strcmp(mine, all[0]) == 0)
            other = i;
        status = tutti_fail(err, TUTTI_EINVAL, "process %u of %u has %s '%s', process %u '%s'",
                            other, crew->count, what, all[other], crew->index, mine);
    }
    free(all);
    return status;
}

void tutti_crew_stop(struct tutti_crew *crew, int status, const struct tutti_err *err)
{
    assert(status < 0);
    if (crew->count > 1)
        crew->ops->stop(crew, status, err);
}

int tutti_crew_wait_stop(struct tutti_crew *crew, tutti_ps timeout_ps, struct tutti_err *err)
{
    return crew->ops->wait_stop(crew, timeout_ps, err);
}

void tutti_crew_wake(struct tutti_crew *crew)
{
    crew->ops->wake(crew);
}

void tutti_crew_close(struct tutti_crew *crew)
{
    if (crew != NULL)
        crew->ops->close(crew);
}
