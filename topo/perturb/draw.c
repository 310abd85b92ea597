/* Drawing by least hashes: a few more than are wanted are gathered and sorted; see draw.h. */
#include "topo/perturb/draw.h"

#include <inttypes.h>
#include <stdlib.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/wide.h"

enum { SPARE = 64 }; /* gathered beyond twice of what is wanted, so that one pass will mostly do */

static const uint64_t ALL_PERCENT = UINT64_C(100000000); /* millionths of a percent */

uint64_t tutti_perturb_key(const struct tutti_perturb_item *item, uint64_t seed)
{
    static const uint64_t room = UINT64_C(0x7065727475726221); /* "perturb!": apart from jitter */

    return tutti_random_hash(seed, room, item->kind, item->turn);
}

uint64_t tutti_perturb_scale(uint64_t hash, uint64_t most)
{
    if (most == UINT64_MAX)
        return hash;
    return tutti_wide_product(hash, most + 1).high;
}

struct ticket {
    uint64_t hash;
    uint32_t index;
};

static int compare_tickets(const void *left, const void *right)
{
    const struct ticket *a = left;
    const struct ticket *b = right;

    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* What is wanted: things of different hashes, or things in all. */
struct wanted {
    uint64_t different;
    uint64_t things;
};

static struct wanted wanted_of(const struct tutti_crowd *crowd,
                               const struct tutti_perturb_item *item)
{
    uint64_t things;

    if (item->whom == TUTTI_PERTURB_COUNT)
        return (struct wanted){.different = item->number};
    things = tutti_muldiv_near(crowd->count, item->number, ALL_PERCENT);
    return (struct wanted){.things = things > 0 || item->number == 0 ? things : 1};
}

/* Fills tickets[room] with those up to `limit`; returns how many there are. */
static uint64_t gather(const struct tutti_crowd *crowd, uint64_t limit, struct ticket *tickets,
                       uint64_t room)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < crowd->count; i++) {
        uint64_t hash = crowd->hash(crowd->context, i);

        if (hash > limit)
            continue;
        if (count < room)
            tickets[count] = (struct ticket){.hash = hash, .index = i};
        count++;
    }
    return count;
}

/* How many of the sorted tickets are drawn, things of one hash together; 0: there are too few, of
 * so many different ones. */
static uint64_t count_drawn(const struct ticket *tickets, uint64_t count, struct wanted wanted,
                            uint64_t *ret_different)
{
    uint64_t different = 0;

    for (uint64_t i = 0; i < count; i++) {
        bool last = i + 1 == count || tickets[i + 1].hash != tickets[i].hash;

        different += i == 0 || tickets[i].hash != tickets[i - 1].hash;
        if (last && different >= wanted.different && i + 1 >= wanted.things)
            return i + 1;
    }
    *ret_different = different;
    return 0;
}

/* Gathers about `aim` of the crowd and draws from them; *ret_count is 0 where they are too few. */
static int try_draw(const struct tutti_crowd *crowd, struct wanted wanted, uint64_t aim,
                    uint32_t **ret, uint64_t *ret_count, uint64_t *ret_different,
                    struct tutti_err *err)
{
    bool all = aim >= crowd->count;
    uint64_t room = all ? crowd->count : 2 * aim;
    struct ticket *tickets = malloc(tutti_size(tutti_times(room + 1, sizeof(*tickets))));
    uint32_t *drawn = NULL;
    uint64_t count;

    if (tickets == NULL)
        return tutti_nomem(err);
    count = gather(crowd, all ? UINT64_MAX : UINT64_MAX / crowd->count * aim, tickets, room);
    if (count <= room) {
        qsort(tickets, (size_t)count, sizeof(*tickets), compare_tickets);
        *ret_count = count_drawn(tickets, count, wanted, ret_different);
    }
    if (*ret_count > 0)
        drawn = malloc((size_t)*ret_count * sizeof(*drawn));
    for (uint64_t i = 0; i < *ret_count && drawn != NULL; i++)
        drawn[i] = tickets[i].index;
    free(tickets);
    if (*ret_count > 0 && drawn == NULL) {
        *ret_count = 0;
        return tutti_nomem(err);
    }
    *ret = drawn;
    return 0;
}

int tutti_perturb_draw(const struct tutti_crowd *crowd, const struct tutti_perturb_item *item,
                       uint32_t **ret, uint64_t *ret_count, struct tutti_err *err)
{
    struct wanted wanted = wanted_of(crowd, item);
    uint64_t most = wanted.different * 2 + wanted.things;
    uint64_t aim = most + most / 2 + SPARE;
    uint64_t different = 0;
    bool all = false;

    *ret = NULL;
    *ret_count = 0;
    for (; most > 0 && *ret_count == 0 && !all; aim *= 4) {
        int status = try_draw(crowd, wanted, aim, ret, ret_count, &different, err);

        if (status < 0)
            return status;
        all = aim >= crowd->count;
    }
    if (most > 0 && *ret_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "'%s': there are %" PRIu64 " %s (at most so many)",
                          item->text, different, crowd->name);
    return 0;
}
