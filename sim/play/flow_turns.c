/* Turns on links; see flow_turns.h. As long as all turns on a link lie apart, none of its users has
 * to wait for another, and in `fair` none has to share. Touching counts as overlapping: then it
 * would matter who came first in that instant. */
#include "sim/play/flow_turns.h"

#include <assert.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/memory/memory.h"
#include "sim/net/net.h"

#define NONE UINT32_MAX

int tutti_flow_links_init(struct flow_links *links, uint32_t link_count,
                          struct tutti_memory *memory)
{
    *links = (struct flow_links){.memory = memory, .link_count = link_count};
    links->first = tutti_memory_take(memory, (size_t)link_count + 1, sizeof(*links->first));
    if (links->first == NULL)
        return -TUTTI_ENOMEM;
    for (uint32_t i = 0; i < link_count; i++)
        links->first[i] = NONE;
    return 0;
}

void tutti_flow_links_done(struct flow_links *links)
{
    tutti_memory_give(links->memory, links->first);
    tutti_memory_give(links->memory, links->users);
    tutti_memory_give(links->memory, links->turns);
    *links = (struct flow_links){.link_count = 0};
}

void tutti_flow_links_reset(struct flow_links *links)
{
    for (uint32_t i = 0; i < links->user_count; i++) {
        links->users[i].begin_ps = INT64_MAX;
        links->users[i].free_ps = 0;
    }
    for (uint32_t i = 0; i < links->turns_count; i++) {
        links->turns[i].count = 0;
        links->turns[i].floor_ps = -1;
    }
}

/* The second user of a link: from now on its turns are kept, that of the first user included. */
static int begin_turns(struct flow_links *links, struct user *only)
{
    struct turns *turns;
    int status = tutti_memory_grow(links->memory, &links->turns, &links->turns_capacity,
                                   (uint64_t)links->turns_count + 1, sizeof(*links->turns));

    if (status < 0)
        return status;
    only->turns = links->turns_count++;
    turns = &links->turns[only->turns];
    turns->floor_ps = -1;
    turns->count = only->begin_ps < INT64_MAX ? 1 : 0;
    turns->turn[0] = (struct turn){.begin_ps = only->begin_ps,
                                   .end_ps = only->free_ps,
                                   .user = (uint32_t)(only - links->users)};
    return 0;
}

int tutti_flow_links_user(struct flow_links *links, uint32_t link, uint32_t owner, uint32_t *ret)
{
    uint32_t first = links->first[link];
    int status;

    assert(link < links->link_count);
    for (uint32_t id = first; id != NONE; id = links->users[id].next) {
        if (links->users[id].owner == owner) {
            *ret = id;
            return 0;
        }
    }
    status = tutti_memory_grow(links->memory, &links->users, &links->user_capacity,
                               (uint64_t)links->user_count + 1, sizeof(*links->users));
    if (status == 0 && first != NONE && links->users[first].turns == NONE)
        status = begin_turns(links, &links->users[first]);
    if (status < 0)
        return status;
    *ret = links->user_count++;
    links->users[*ret] = (struct user){
        .begin_ps = INT64_MAX,
        .link = link,
        .owner = owner,
        .next = first,
        .turns = first == NONE ? NONE : links->users[first].turns,
    };
    links->first[link] = *ret;
    return 0;
}

/* Makes room for a turn before the `at`-th; the earliest is forgotten if need be. */
static bool insert(struct turns *turns, uint32_t at, const struct turn *turn)
{
    if (turns->count == TURNS_KEPT) {
        if (at == 0)
            return false;
        turns->floor_ps = turns->turn[0].end_ps;
        turns->count--;
        at--;
        memmove(&turns->turn[0], &turns->turn[1], turns->count * sizeof(*turn));
    }
    memmove(&turns->turn[at + 1], &turns->turn[at], (turns->count - at) * sizeof(*turn));
    turns->turn[at] = *turn;
    turns->count++;
    return true;
}

bool tutti_flow_links_share(struct flow_links *links, uint32_t user, bool again, tutti_ps begin_ps,
                            tutti_ps end_ps)
{
    struct turns *turns = &links->turns[links->users[user].turns];
    struct turn turn = {.begin_ps = begin_ps, .end_ps = end_ps, .user = user};
    uint32_t at = turns->count; /* of the first turn that begins later */

    while (at > 0 && turns->turn[at - 1].begin_ps > begin_ps)
        at--;
    if (at < turns->count && turns->turn[at].begin_ps <= end_ps)
        return false;
    if (at == 0)
        return begin_ps > turns->floor_ps && insert(turns, at, &turn);
    if (turns->turn[at - 1].user == user && again) {
        turns->turn[at - 1].end_ps = end_ps;
        return true;
    }
    if (turns->turn[at - 1].user != user && turns->turn[at - 1].end_ps >= begin_ps)
        return false;
    return insert(turns, at, &turn);
}
