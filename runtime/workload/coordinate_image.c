/* What an elastic coordinator has come to, as numbers: for another process that goes on with it. */
#include <string.h>

#include "runtime/status.h"
#include "runtime/workload/coordinate.h"

enum { FIELDS = 12, MEMBER_FIELDS = 7 };

size_t tutti_coordinator_image_count(const struct tutti_coordinator *c)
{
    return FIELDS + (size_t)MEMBER_FIELDS * c->params.member_count;
}

void tutti_coordinator_image(const struct tutti_coordinator *c, uint64_t *ret)
{
    const uint64_t fields[FIELDS] = {
        c->params.member_count, c->step,       c->episode,  c->saved_step, c->saving,
        c->saving_episode,      c->saver,      c->save_due, c->changed,    c->group,
        c->group_size,          c->group_done,
    };

    memcpy(ret, fields, sizeof(fields));
    ret += FIELDS;
    for (uint32_t i = 0; i < c->params.member_count; i++, ret += MEMBER_FIELDS) {
        const struct tutti_coord_member *m = &c->member[i];
        const uint64_t member[MEMBER_FIELDS] = {m->state, m->incarnation, m->episode, m->step,
                                                m->clock, m->flag,        m->holds};

        memcpy(ret, member, sizeof(member));
    }
}

int tutti_coordinator_take_image(struct tutti_coordinator *c, const uint64_t *image,
                                 struct tutti_err *err)
{
    if (c->ops != &tutti_coordinate_elastic)
        return tutti_fail(err, TUTTI_ELACK, "coordinator %s goes on in its own process alone",
                          c->ops->name);
    if (image[0] != c->params.member_count)
        return tutti_fail(err, TUTTI_EINVAL, "'%llu' members at most, and here %u",
                          (unsigned long long)image[0], c->params.member_count);
    c->step = image[1];
    c->episode = image[2];
    c->saved_step = image[3];
    c->saving = image[4];
    c->saving_episode = image[5];
    c->saver = (uint32_t)image[6];
    c->save_due = image[7] != 0;
    c->changed = image[8] != 0;
    c->group = image[9];
    c->group_size = (uint32_t)image[10];
    c->group_done = (uint32_t)image[11];
    image += FIELDS;
    for (uint32_t i = 0; i < c->params.member_count; i++, image += MEMBER_FIELDS)
        c->member[i] = (struct tutti_coord_member){.state = (enum tutti_coord_member_state)image[0],
                                                   .incarnation = (uint32_t)image[1],
                                                   .episode = image[2],
                                                   .step = image[3],
                                                   .clock = image[4],
                                                   .flag = image[5] != 0,
                                                   .holds = image[6] != 0,
                                                   .next = TUTTI_MEMBER_NONE};
    return 0;
}
