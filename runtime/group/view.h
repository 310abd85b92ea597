/* A view: the members of one incarnation of a group, and where each is reached. Private to
 * runtime/group.
 *
 * A process keeps its identity through all incarnations; members stand in the order of their
 * identities, so that all views agree on who of two comes first. */
#ifndef TUTTI_RUNTIME_GROUP_VIEW_H
#define TUTTI_RUNTIME_GROUP_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tutti_address;
struct tutti_err;

/* Where a process takes connections of other members. */
struct tutti_member {
    uint32_t id; /* identity */
    uint32_t port;
    uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d */
    /* It is on the host of process 0, or is process 0: reached where process 0 is reached. Only of
     * a view that has come from process 0 and has not been resolved yet. */
    bool like_root;
};

struct tutti_view {
    uint64_t id;          /* drawn at random: two halves of one group may count alike */
    uint32_t incarnation; /* 1: as the group was opened */
    uint32_t next_id;     /* of the next newcomer */
    uint32_t count;
    struct tutti_member *members; /* [count], by id; owned */
};

void tutti_view_done(struct tutti_view *view);
/* With room for `more` members behind the others. */
int tutti_view_copy(const struct tutti_view *view, uint32_t more, struct tutti_view *ret,
                    struct tutti_err *err);

/* The place of an identity; count: it is no member. */
uint32_t tutti_view_find(const struct tutti_view *view, uint32_t id);

size_t tutti_view_bytes(uint32_t count);
/* What this process, which is to be process 0 of it, tells the others: `view` is resolved. */
void tutti_view_write(const struct tutti_view *view, uint8_t *to);
/* -TUTTI_EIO: no view. */
int tutti_view_read(const uint8_t *from, size_t bytes, struct tutti_view *ret,
                    struct tutti_err *err);

/* Turns what process 0 has told into where this process reaches the members: as before, those that
 * it knew (`known`, resolved; NULL: none), the others by the address at which process 0 is reached.
 */
void tutti_view_resolve(struct tutti_view *view, const struct tutti_address *root,
                        const struct tutti_view *known);

#endif
