/* Who takes part in an elastic training; see members.h. */
#include "tools/train/members.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/coordinator.h"
#include "runtime/group.h"
#include "runtime/status.h"

#define FREE UINT64_MAX

struct tutti_train_members {
    struct tutti_coordinator *coordinator;
    uint32_t most;
    uint64_t *ids;       /* [most]: which process of the group a member is; or FREE */
    uint64_t has_source; /* of the last group that was formed */
    uint64_t source;
};

int tutti_train_members_new(const struct tutti_train_members_params *p,
                            struct tutti_train_members **ret, struct tutti_err *err)
{
    const struct tutti_coordinator_params params = {.size = sizeof(params),
                                                    .member_count = p->most,
                                                    .first_step = p->first_step,
                                                    .last_step = p->last_step,
                                                    .least_members = p->least,
                                                    .first_members = p->first};
    struct tutti_train_members *m = calloc(1, sizeof(*m));
    const struct tutti_coordinator_ops *ops;
    int status = m == NULL ? tutti_nomem(err) : tutti_coordinator_find("elastic", &ops, err);

    if (status == 0)
        status = tutti_coordinator_new(ops, &params, &m->coordinator, err);
    if (status == 0) {
        m->most = p->most;
        m->ids = calloc(p->most, sizeof(m->ids[0]));
        status = m->ids == NULL ? tutti_nomem(err) : 0;
    }
    for (uint32_t i = 0; status == 0 && i < m->most; i++)
        m->ids[i] = FREE;
    if (status < 0)
        tutti_train_members_free(m);
    else
        *ret = m;
    return status;
}

void tutti_train_members_free(struct tutti_train_members *m)
{
    if (m == NULL)
        return;
    tutti_coordinator_free(m->coordinator);
    free(m->ids);
    free(m);
}

/* ---- images ---------------------------------------------------------------------------------- */

size_t tutti_train_members_image_count(const struct tutti_train_members *m)
{
    return 2 + m->most + tutti_coordinator_image_count(m->coordinator);
}

void tutti_train_members_image(const struct tutti_train_members *m, uint64_t *ret)
{
    ret[0] = m->has_source;
    ret[1] = m->source;
    for (uint32_t i = 0; i < m->most; i++)
        ret[2 + i] = m->ids[i];
    tutti_coordinator_image(m->coordinator, ret + 2 + m->most);
}

int tutti_train_members_take_image(struct tutti_train_members *m, const uint64_t *image,
                                   struct tutti_err *err)
{
    int status = tutti_coordinator_take_image(m->coordinator, image + 2 + m->most, err);

    if (status < 0)
        return status;
    m->has_source = image[0];
    m->source = image[1];
    for (uint32_t i = 0; i < m->most; i++)
        m->ids[i] = image[2 + i];
    return 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Where a group is formed, what that takes replaces what an earlier one took, which has done no
 * step. A state that a member is to have set back is the copy that it keeps anyway. */
static void happen(struct tutti_train_members *m, enum tutti_coord_event_kind kind, uint32_t member)
{
    const struct tutti_coord_member *known = tutti_coordinator_member(m->coordinator, member);
    const struct tutti_coord_event event = {.kind = kind,
                                            .member = member,
                                            .incarnation = known->incarnation,
                                            .episode = known->episode};
    uint32_t count;
    const struct tutti_coord_action *actions =
        tutti_coordinator_event(m->coordinator, &event, &count);
    bool forms = false;

    for (uint32_t i = 0; i < count; i++)
        forms = forms || actions[i].kind == TUTTI_ACTION_START;
    if (!forms)
        return;
    m->has_source = 0;
    for (uint32_t i = 0; i < count; i++)
        if (actions[i].kind == TUTTI_ACTION_COPY) {
            m->has_source = 1;
            m->source = actions[i].number;
        }
}

static uint32_t find(const struct tutti_train_members *m, uint64_t id)
{
    uint32_t i = 0;

    while (i < m->most && m->ids[i] != id)
        i++;
    return i;
}

static bool is_of(const struct tutti_group *group, uint64_t id)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (tutti_group_id(group, i) == id)
            return true;
    return false;
}

int tutti_train_members_join(struct tutti_train_members *m, const struct tutti_group *group,
                             struct tutti_err *err)
{
    for (uint32_t i = 0; i < group->count; i++) {
        const uint64_t id = tutti_group_id(group, i);
        uint32_t place = find(m, FREE);

        if (find(m, id) < m->most)
            continue;
        if (place == m->most)
            return tutti_fail(err, TUTTI_EINVAL, "'%u' processes ('--elastic': at most %u)",
                              group->count, m->most);
        m->ids[place] = id;
        happen(m, TUTTI_EVENT_JOINED, place);
    }
    return 0;
}

/* Of the step that is under way: those who begin the next one meanwhile are not asked. */
void tutti_train_members_done(struct tutti_train_members *m)
{
    const uint64_t step = tutti_train_members_step(m);

    for (uint32_t i = 0; i < m->most && tutti_train_members_step(m) == step; i++)
        if (tutti_coordinator_member(m->coordinator, i)->state == TUTTI_MEMBER_WORKING)
            happen(m, TUTTI_EVENT_DONE, i);
}

void tutti_train_members_lose(struct tutti_train_members *m, const struct tutti_group *group)
{
    for (uint32_t i = 0; i < m->most; i++) {
        if (m->ids[i] == FREE || is_of(group, m->ids[i]))
            continue;
        m->ids[i] = FREE;
        happen(m, TUTTI_EVENT_LOST, i);
    }
}

void tutti_train_members_leave(struct tutti_train_members *m, uint32_t id)
{
    const uint32_t place = find(m, id);

    if (place < m->most)
        happen(m, TUTTI_EVENT_LEAVING, place);
}

/* ---- for looking at -------------------------------------------------------------------------- */

uint64_t tutti_train_members_step(const struct tutti_train_members *m)
{
    return tutti_coordinator_step(m->coordinator);
}

uint32_t tutti_train_members_count(const struct tutti_train_members *m)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < m->most; i++)
        count += m->ids[i] != FREE;
    return count;
}

bool tutti_train_members_works(const struct tutti_train_members *m, uint32_t id)
{
    const uint32_t place = find(m, id);

    return place < m->most &&
           tutti_coordinator_member(m->coordinator, place)->state == TUTTI_MEMBER_WORKING;
}

bool tutti_train_members_source(const struct tutti_train_members *m,
                                const struct tutti_group *group, uint32_t *ret_index)
{
    if (m->has_source == 0)
        return false;
    assert(m->source < m->most);
    for (uint32_t i = 0; i < group->count; i++)
        if (tutti_group_id(group, i) == m->ids[m->source]) {
            *ret_index = i;
            return true;
        }
    return false;
}
