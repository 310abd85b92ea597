/* Views: written, read, and made to hold from where this process stands. */
#include "runtime/group/view.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/group/address.h"
#include "runtime/group/bytes.h"
#include "runtime/group/frame.h"
#include "runtime/group_tcp.h"

void tutti_view_done(struct tutti_view *view)
{
    free(view->members);
    *view = (struct tutti_view){.members = NULL};
}

int tutti_view_copy(const struct tutti_view *view, uint32_t more, struct tutti_view *ret,
                    struct tutti_err *err)
{
    struct tutti_member *members = malloc(((size_t)view->count + more) * sizeof(members[0]));

    if (members == NULL)
        return tutti_nomem(err);
    memcpy(members, view->members, view->count * sizeof(members[0]));
    *ret = *view;
    ret->members = members;
    return 0;
}

uint32_t tutti_view_find(const struct tutti_view *view, uint32_t id)
{
    uint32_t i = 0;

    while (i < view->count && view->members[i].id != id)
        i++;
    return i;
}

size_t tutti_view_bytes(uint32_t count)
{
    return TUTTI_FRAME_VIEW_BYTES + (size_t)count * TUTTI_FRAME_MEMBER_BYTES;
}

/* Others reach what this process reaches by loopback where they reach this process; and itself,
 * unless an address was asked for. */
static bool is_like_root(const struct tutti_member *member, bool is_self)
{
    static const uint8_t nowhere[16] = {0};
    struct tutti_address address;

    if (memcmp(member->address, nowhere, sizeof(nowhere)) == 0)
        return is_self;
    tutti_address_unpack(member->address, (uint16_t)member->port, 0, &address);
    return tutti_address_is_loopback(&address);
}

void tutti_view_write(const struct tutti_view *view, uint8_t *to)
{
    tutti_put64(to, view->id);
    tutti_put32(to + 8, view->incarnation);
    tutti_put32(to + 12, view->next_id);
    tutti_put32(to + 16, view->count);
    to += TUTTI_FRAME_VIEW_BYTES;
    for (uint32_t i = 0; i < view->count; i++, to += TUTTI_FRAME_MEMBER_BYTES) {
        const struct tutti_member *member = &view->members[i];

        tutti_put32(to, member->id);
        memcpy(to + 4, member->address, sizeof(member->address));
        tutti_put32(to + 20, member->port);
        tutti_put32(to + 24, is_like_root(member, i == 0) ? 1 : 0);
    }
}

static bool read_member(const uint8_t *from, struct tutti_member *ret)
{
    uint32_t like_root = tutti_get32(from + 24);

    *ret = (struct tutti_member){
        .id = tutti_get32(from), .port = tutti_get32(from + 20), .like_root = like_root == 1};
    memcpy(ret->address, from + 4, sizeof(ret->address));
    return ret->port > 0 && ret->port <= UINT16_MAX && like_root <= 1;
}

int tutti_view_read(const uint8_t *from, size_t bytes, struct tutti_view *ret,
                    struct tutti_err *err)
{
    struct tutti_view view = {.id = tutti_get64(from),
                              .incarnation = tutti_get32(from + 8),
                              .next_id = tutti_get32(from + 12),
                              .count = tutti_get32(from + 16)};
    bool good = view.count > 0 && view.count <= TUTTI_GROUP_TCP_COUNT_MAX &&
                bytes == tutti_view_bytes(view.count);

    assert(bytes >= TUTTI_FRAME_VIEW_BYTES);
    if (!good)
        return tutti_fail(err, TUTTI_EIO, "no list of members");
    view.members = malloc(view.count * sizeof(view.members[0]));
    if (view.members == NULL)
        return tutti_nomem(err);
    from += TUTTI_FRAME_VIEW_BYTES;
    for (uint32_t i = 0; i < view.count && good; i++, from += TUTTI_FRAME_MEMBER_BYTES)
        good = read_member(from, &view.members[i]) && view.members[i].id < view.next_id &&
               (i == 0 || view.members[i].id > view.members[i - 1].id);
    if (!good) {
        tutti_view_done(&view);
        return tutti_fail(err, TUTTI_EIO, "no list of members");
    }
    *ret = view;
    return 0;
}

void tutti_view_resolve(struct tutti_view *view, const struct tutti_address *root,
                        const struct tutti_view *known)
{
    uint32_t at = 0; /* both are in the order of identities */

    for (uint32_t i = 0; i < view->count; i++) {
        struct tutti_member *member = &view->members[i];

        while (known != NULL && at < known->count && known->members[at].id < member->id)
            at++;
        if (known != NULL && at < known->count && known->members[at].id == member->id) {
            *member = known->members[at];
            continue;
        }
        if (member->like_root && (i == 0 || !tutti_address_is_loopback(root)))
            tutti_address_pack(root, member->address);
        member->like_root = false;
    }
}
