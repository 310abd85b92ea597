/* Who uses which link in a play by data flow, and when: users of one link have to take turns. */
#ifndef TUTTI_SIM_PLAY_FLOW_TURNS_H
#define TUTTI_SIM_PLAY_FLOW_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/units.h"

struct tutti_memory;

enum { TURNS_KEPT = 8 }; /* of each link; a torus of three axes takes five */

/* A lane (alphabeta) or a connection (fair) on one link. */
struct user {
    tutti_ps begin_ps; /* its first turn; of use while it is the only user */
    tutti_ps free_ps;  /* when the link has sent what this user gave it */
    uint32_t link;
    uint32_t owner;
    uint32_t next;  /* of the link */
    uint32_t turns; /* number in `turns`, or UINT32_MAX: it is the only user */
};

/* From the first message asked for to the end of the last that followed it. */
struct turn {
    tutti_ps begin_ps;
    tutti_ps end_ps;
    uint32_t user;
};

/* The turns on one link, by time, which is not always the order in which they are found. */
struct turns {
    tutti_ps floor_ps; /* end of the last turn that was forgotten; -1: none */
    uint32_t count;
    struct turn turn[TURNS_KEPT];
};

/* A zeroed struct has no links. */
struct flow_links {
    uint32_t *first; /* [link_count] user, or UINT32_MAX */
    uint32_t link_count;
    struct user *users;
    uint32_t user_count;
    uint32_t user_capacity;
    struct turns *turns; /* of the links with more than one user */
    uint32_t turns_count;
    uint32_t turns_capacity;
    struct tutti_memory *memory;
};

/* 0 or -TUTTI_ENOMEM, as below. */
int tutti_flow_links_init(struct flow_links *links, uint32_t link_count,
                          struct tutti_memory *memory);
void tutti_flow_links_done(struct flow_links *links);
void tutti_flow_links_reset(struct flow_links *links); /* nothing used so far; keeps the users */

/* The user of a link by its owner; made if there is none. */
int tutti_flow_links_user(struct flow_links *links, uint32_t link, uint32_t owner, uint32_t *ret);

/* A user with others beside it asks for the link at `begin_ps` and is done with it at `end_ps`.
 * `again`: it has used no other link since it asked last, so it is the same turn. False: turns
 * touch or overlap, or may have done so with one that is forgotten. */
bool tutti_flow_links_share(struct flow_links *links, uint32_t user, bool again, tutti_ps begin_ps,
                            tutti_ps end_ps);

/* The same for any user; quick where it is the only one. It is then free at `end_ps`. */
static inline bool flow_links_use(struct flow_links *links, uint32_t id, bool again,
                                  tutti_ps begin_ps, tutti_ps end_ps)
{
    struct user *user = &links->users[id];

    if (user->begin_ps > begin_ps)
        user->begin_ps = begin_ps;
    user->free_ps = end_ps;
    if (user->turns == UINT32_MAX)
        return true;
    return tutti_flow_links_share(links, id, again, begin_ps, end_ps);
}

#endif
