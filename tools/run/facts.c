/* Compares what processes hold: by one hash where all is alike, else fact by fact; see facts.h. */
#include "tools/run/facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/group.h"
#include "runtime/random.h"

enum { NAME_BYTES = 96, VALUE_BYTES = 152 };

/* As it is sent. */
struct fact {
    uint64_t hash; /* of name and value, to their ends */
    char name[NAME_BYTES];
    char value[VALUE_BYTES]; /* "..." at its end where it is longer */
};

struct tutti_run_facts {
    struct fact *facts;
    size_t count;
    size_t capacity;
};

int tutti_run_facts_new(struct tutti_run_facts **ret, struct tutti_err *err)
{
    struct tutti_run_facts *facts = calloc(1, sizeof(*facts));

    if (facts == NULL)
        return tutti_nomem(err);
    *ret = facts;
    return 0;
}

void tutti_run_facts_free(struct tutti_run_facts *facts)
{
    if (facts != NULL)
        free(facts->facts);
    free(facts);
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (size_t i = 0; text[i] != '\0'; i++)
        hash = tutti_random_hash(hash, (unsigned char)text[i], i, 0);
    return tutti_random_hash(hash, strlen(text), 0, 1);
}

static void copy_text(char *to, size_t to_bytes, const char *text)
{
    int written = snprintf(to, to_bytes, "%s", text);

    if (written >= (int)to_bytes)
        memcpy(to + to_bytes - 4, "...", 4);
}

int tutti_run_facts_add(struct tutti_run_facts *facts, const char *name, const char *value,
                        struct tutti_err *err)
{
    enum { CAPACITY = 64 };
    struct fact *fact;

    if (facts->count == facts->capacity) {
        size_t capacity = facts->capacity > 0 ? 2 * facts->capacity : CAPACITY;
        struct fact *grown = realloc(facts->facts, capacity * sizeof(*grown));

        if (grown == NULL)
            return tutti_nomem(err);
        facts->facts = grown;
        facts->capacity = capacity;
    }
    fact = &facts->facts[facts->count++];
    *fact = (struct fact){.hash = hash_text(hash_text(1, name), value)};
    copy_text(fact->name, sizeof(fact->name), name);
    copy_text(fact->value, sizeof(fact->value), value);
    return 0;
}

int tutti_run_facts_add_number(struct tutti_run_facts *facts, const char *name, uint64_t value,
                               struct tutti_err *err)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    return tutti_run_facts_add(facts, name, text, err);
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* All facts of a process in short. */
struct sum {
    uint64_t hash;
    uint64_t count;
};

/* Compared with process 0, so that all find a difference if one does; process 0 with the first
 * that differs. The other process of the message, or this one: none differs. */
static uint32_t other_of(const struct tutti_group *group, const void *all, size_t bytes)
{
    const char *rows = all;
    uint32_t first = 0;

    for (uint32_t i = group->count; i-- > 1;)
        if (memcmp(rows + i * bytes, rows, bytes) != 0)
            first = i;
    if (first == 0)
        return group->index;
    if (group->index == 0 || memcmp(rows + group->index * bytes, rows, bytes) == 0)
        return first;
    return 0;
}

static int differs(const struct tutti_group *group, const struct fact *all, uint32_t other,
                   struct tutti_err *err)
{
    const struct fact *there = &all[other];
    const struct fact *here = &all[group->index];

    if (strcmp(there->name, here->name) != 0)
        return tutti_fail(
            err, TUTTI_EINVAL, "process %u of %u has %s '%.80s' where process %u has %s '%.80s'",
            other, group->count, there->name, there->value, group->index, here->name, here->value);
    return tutti_fail(err, TUTTI_EINVAL, "process %u of %u has %s '%s', process %u '%s'", other,
                      group->count, here->name, there->value, group->index, here->value);
}

/* Some differ: one after the other until all know which. Who has fewer sends empty ones. */
static int find(const struct tutti_run_facts *facts, struct tutti_group *group, uint64_t most,
                tutti_ps deadline_ps, struct tutti_err *err)
{
    struct fact *all = calloc(group->count, sizeof(*all));
    int status = all == NULL ? tutti_nomem(err) : 0;

    if (status < 0)
        tutti_group_stop(group, status, err);
    for (uint64_t i = 0; i < most && status == 0; i++) {
        const struct fact none = {.name = "nothing more"};
        const struct fact *mine = i < facts->count ? &facts->facts[i] : &none;
        uint32_t other;

        status = tutti_group_exchange(group, mine, sizeof(*mine), all, deadline_ps, err);
        for (uint32_t k = 0; status == 0 && k < group->count; k++)
            all[k].name[NAME_BYTES - 1] = all[k].value[VALUE_BYTES - 1] = '\0';
        other = status == 0 ? other_of(group, all, sizeof(all[0])) : group->index;
        if (other != group->index)
            status = differs(group, all, other, err);
    }
    free(all);
    return status;
}

int tutti_run_facts_same(const struct tutti_run_facts *facts, struct tutti_group *group,
                         tutti_ps deadline_ps, struct tutti_err *err)
{
    struct sum mine = {.hash = 1, .count = facts->count};
    struct sum *all;
    uint64_t most = 0;
    bool same;
    int status;

    if (group == NULL || group->count == 1)
        return 0;
    all = calloc(group->count, sizeof(*all));
    if (all == NULL) {
        status = tutti_nomem(err);
        tutti_group_stop(group, status, err);
        return status;
    }
    for (size_t i = 0; i < facts->count; i++)
        mine.hash = tutti_random_hash(mine.hash, facts->facts[i].hash, i, 0);
    status = tutti_group_exchange(group, &mine, sizeof(mine), all, deadline_ps, err);
    for (uint32_t i = 0; status == 0 && i < group->count; i++)
        most = all[i].count > most ? all[i].count : most;
    same = status == 0 && other_of(group, all, sizeof(all[0])) == group->index;
    free(all);
    return status < 0 || same ? status : find(facts, group, most, deadline_ps, err);
}
