/* What every kind of group has in common: agreement on top of the one exchange. */
#include "runtime/group.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

int tutti_group_exchange(struct tutti_group *group, const void *mine, size_t bytes, void *ret_all,
                         tutti_ps deadline_ps, struct tutti_err *err)
{
    assert(group->ops->size == sizeof(struct tutti_group_ops));
    assert(group->index < group->count);
    if (group->count == 1) {
        if (bytes > 0)
            memmove(ret_all, mine, bytes);
        return 0;
    }
    return group->ops->exchange(group, mine, bytes, ret_all, deadline_ps, err);
}

struct said {
    int32_t status;
    struct tutti_err err;
};

int tutti_group_agree(struct tutti_group *group, int status, tutti_ps deadline_ps,
                      struct tutti_err *err)
{
    int32_t mine = status;
    int32_t *all;
    uint32_t first = 0;
    struct said said = {.status = status};
    struct said *what;
    int worked;

    if (group->count == 1)
        return status;
    all = calloc(group->count, sizeof(all[0]));
    what =
        calloc(group->count, sizeof(what[0])); /* taken now: nothing may fail between the calls */
    if (all == NULL || what == NULL) {
        free(all);
        free(what);
        status = tutti_nomem(err);
        tutti_group_stop(group, status, err);
        return status;
    }
    if (status < 0 && err != NULL)
        said.err = *err;
    worked = tutti_group_exchange(group, &mine, sizeof(mine), all, deadline_ps, err);
    while (worked == 0 && first < group->count && all[first] == 0)
        first++;
    if (worked == 0 && first < group->count)
        worked = tutti_group_exchange(group, &said, sizeof(said), what, deadline_ps, err);
    if (worked == 0 && first < group->count) {
        worked = what[first].status;
        what[first].err.text[TUTTI_ERR_TEXT_BYTES - 1] = '\0';
        if (err != NULL)
            *err = what[first].err;
        (void)tutti_wrap(err, worked, "process %u of %u", first, group->count);
    }
    free(all);
    free(what);
    return worked;
}

int tutti_group_same(struct tutti_group *group, const char *what, const char *text,
                     tutti_ps deadline_ps, struct tutti_err *err)
{
    enum { TEXT_BYTES = 256 };
    char mine[TEXT_BYTES] = "";
    char(*all)[TEXT_BYTES];
    int status;

    if (group->count == 1)
        return 0;
    all = calloc(group->count, sizeof(all[0]));
    if (all == NULL) {
        status = tutti_nomem(err);
        tutti_group_stop(group, status, err);
        return status;
    }
    memcpy(mine, text, strnlen(text, TEXT_BYTES - 1));
    status = tutti_group_exchange(group, mine, sizeof(mine), all, deadline_ps, err);
    for (uint32_t i = 0; status == 0 && i < group->count; i++) {
        /* Compared with process 0, so that all find a difference if one does; 0 with the first. */
        uint32_t other = group->index == 0 ? i : 0;

        all[i][TEXT_BYTES - 1] = '\0';
        if (strcmp(all[i], all[0]) == 0)
            continue;
        if (group->index != 0 && strcmp(mine, all[0]) == 0)
            other = i;
        status = tutti_fail(err, TUTTI_EINVAL, "process %u of %u has %s '%s', process %u '%s'",
                            other, group->count, what, all[other], group->index, mine);
    }
    free(all);
    return status;
}

void tutti_group_stop(struct tutti_group *group, int status, const struct tutti_err *err)
{
    assert(status < 0);
    if (group->count > 1)
        group->ops->stop(group, status, err);
}

int tutti_group_wait_stop(struct tutti_group *group, tutti_ps timeout_ps, struct tutti_err *err)
{
    return group->ops->wait_stop(group, timeout_ps, err);
}

void tutti_group_wake(struct tutti_group *group)
{
    group->ops->wake(group);
}

int tutti_group_shrink(struct tutti_group *group, uint32_t count_min, tutti_ps deadline_ps,
                       struct tutti_group **ret, struct tutti_err *err)
{
    if (group->count == 1)
        return tutti_fail(err, TUTTI_EINVAL, "a group of one process has nobody to lose");
    if (group->ops->shrink == NULL)
        return tutti_fail(err, TUTTI_ELACK, "a group of kind '%s' cannot shrink (tcp can)",
                          group->ops->name);
    return group->ops->shrink(group, count_min, deadline_ps, ret, err);
}

int tutti_group_admit(struct tutti_group *group, uint32_t count_max, tutti_ps deadline_ps,
                      struct tutti_group **ret, struct tutti_err *err)
{
    if (group->ops == NULL || group->ops->admit == NULL)
        return tutti_fail(err, TUTTI_ELACK, "nobody can join a group of kind '%s' (tcp can)",
                          group->ops == NULL ? "alone" : group->ops->name);
    return group->ops->admit(group, count_max, deadline_ps, ret, err);
}

uint32_t tutti_group_id(const struct tutti_group *group, uint32_t index)
{
    assert(index < group->count);
    return group->ops == NULL || group->ops->id == NULL ? index : group->ops->id(group, index);
}

const char *tutti_group_why(const struct tutti_group *group)
{
    return group->ops == NULL || group->ops->why == NULL ? "" : group->ops->why(group);
}

void tutti_group_close(struct tutti_group *group)
{
    if (group != NULL)
        group->ops->close(group);
}
