/* A ladder queue (Tang, Goh & Thng 2005): far events in an unsorted top, nearer ones in rungs of
 * ever narrower unsorted buckets, the next few in a sorted bottom. */
#include <stdbool.h>
#include <stdlib.h>

#include "tests/bench/queue_candidates.h"
#include "tests/bench/queue_list.h"

enum { THRESHOLD = 50, RUNGS_MAX = 8, TOP = 0, BOTTOM = 1, FIRST_BUCKET = 2 };

struct rung {
    tutti_ps start_ps;
    uint64_t width_ps;
    uint32_t first_list;
    uint32_t bucket_count;
    uint32_t current; /* buckets before it have been emptied */
    uint32_t count;   /* events in it */
};

struct ladder {
    struct node *nodes;
    struct list *lists; /* top, bottom, buckets of all rungs one after another */
    uint32_t *rung_of;  /* [list] */
    uint32_t list_capacity;
    struct rung rungs[RUNGS_MAX];
    uint32_t rung_count;
    tutti_ps top_start_ps; /* later ones go to the top */
};

static void *take(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);

    if (memory == NULL)
        abort();
    return memory;
}

void *ladder_open(uint32_t id_count)
{
    struct ladder *ladder = take(1, sizeof(*ladder));

    ladder->list_capacity = FIRST_BUCKET + RUNGS_MAX * (id_count + 2);
    ladder->nodes = take((size_t)id_count + 1, sizeof(*ladder->nodes));
    ladder->lists = take(ladder->list_capacity, sizeof(*ladder->lists));
    ladder->rung_of = take(ladder->list_capacity, sizeof(*ladder->rung_of));
    list_clear(&ladder->lists[TOP]);
    list_clear(&ladder->lists[BOTTOM]);
    for (uint32_t i = 0; i < id_count; i++)
        ladder->nodes[i].list = NONE;
    return ladder;
}

void ladder_close(void *queue)
{
    struct ladder *ladder = queue;

    free(ladder->nodes);
    free(ladder->lists);
    free(ladder->rung_of);
    free(ladder);
}

static void append(struct ladder *ladder, uint32_t list, uint32_t id)
{
    list_insert_after(ladder->nodes, &ladder->lists[list], list, id, ladder->lists[list].last);
    if (list >= FIRST_BUCKET)
        ladder->rungs[ladder->rung_of[list]].count++;
}

static void unlink_id(struct ladder *ladder, uint32_t id)
{
    uint32_t list = ladder->nodes[id].list;

    list_remove(ladder->nodes, &ladder->lists[list], id);
    if (list >= FIRST_BUCKET)
        ladder->rungs[ladder->rung_of[list]].count--;
}

static tutti_ps current_ps(const struct rung *rung)
{
    return rung->start_ps + (tutti_ps)(rung->current * rung->width_ps);
}

static uint32_t bucket_of(const struct rung *rung, tutti_ps at_ps)
{
    return rung->first_list + (uint32_t)((uint64_t)(at_ps - rung->start_ps) / rung->width_ps);
}

/* Spreads a list over a new rung from `start_ps` on, buckets of `width_ps`. */
static void spawn(struct ladder *ladder, uint32_t list, tutti_ps start_ps, uint64_t span_ps)
{
    struct rung *rung = &ladder->rungs[ladder->rung_count];
    uint32_t count = ladder->lists[list].count;
    uint32_t first =
        ladder->rung_count == 0 ? FIRST_BUCKET : rung[-1].first_list + rung[-1].bucket_count;

    *rung =
        (struct rung){.start_ps = start_ps, .width_ps = span_ps / count + 1, .first_list = first};
    rung->bucket_count = (uint32_t)(span_ps / rung->width_ps) + 1;
    for (uint32_t i = first; i < first + rung->bucket_count; i++) {
        list_clear(&ladder->lists[i]);
        ladder->rung_of[i] = ladder->rung_count;
    }
    ladder->rung_count++;
    while (ladder->lists[list].first != NONE) {
        uint32_t id = ladder->lists[list].first;

        unlink_id(ladder, id);
        append(ladder, bucket_of(rung, ladder->nodes[id].at_ps), id);
    }
}

static void spread_top(struct ladder *ladder)
{
    const struct list *top = &ladder->lists[TOP];
    tutti_ps min_ps = INT64_MAX;
    tutti_ps max_ps = 0;

    for (uint32_t id = top->first; id != NONE; id = ladder->nodes[id].next) {
        tutti_ps at_ps = ladder->nodes[id].at_ps;

        min_ps = at_ps < min_ps ? at_ps : min_ps;
        max_ps = at_ps > max_ps ? at_ps : max_ps;
    }
    ladder->top_start_ps = max_ps + 1;
    spawn(ladder, TOP, min_ps, (uint64_t)(max_ps - min_ps));
}

/* Moves the next bucket to the bottom, through narrower rungs if it is full. */
static void refill(struct ladder *ladder)
{
    struct rung *rung;
    struct list *bucket;
    uint32_t list;

    while (ladder->rung_count > 0 && ladder->rungs[ladder->rung_count - 1].count == 0)
        ladder->rung_count--;
    if (ladder->rung_count == 0)
        spread_top(ladder);
    rung = &ladder->rungs[ladder->rung_count - 1];
    while (ladder->lists[rung->first_list + rung->current].count == 0)
        rung->current++;
    list = rung->first_list + rung->current;
    bucket = &ladder->lists[list];
    rung->current++;
    if (bucket->count > THRESHOLD && rung->width_ps > 1 && ladder->rung_count < RUNGS_MAX) {
        spawn(ladder, list, current_ps(rung) - (tutti_ps)rung->width_ps, rung->width_ps - 1);
        return;
    }
    while (bucket->first != NONE) {
        uint32_t id = bucket->first;

        unlink_id(ladder, id);
        list_insert_sorted(ladder->nodes, &ladder->lists[BOTTOM], BOTTOM, id);
    }
}

void ladder_drop(void *queue, uint32_t id)
{
    struct ladder *ladder = queue;

    if (ladder->nodes[id].list != NONE)
        unlink_id(ladder, id);
}

void ladder_put(void *queue, uint32_t id, tutti_ps at_ps)
{
    struct ladder *ladder = queue;

    ladder_drop(queue, id);
    ladder->nodes[id].at_ps = at_ps;
    if (at_ps >= ladder->top_start_ps) {
        append(ladder, TOP, id);
        return;
    }
    for (uint32_t i = 0; i < ladder->rung_count; i++) {
        if (at_ps >= current_ps(&ladder->rungs[i])) {
            append(ladder, bucket_of(&ladder->rungs[i], at_ps), id);
            return;
        }
    }
    list_insert_sorted(ladder->nodes, &ladder->lists[BOTTOM], BOTTOM, id);
}

uint32_t ladder_pop(void *queue)
{
    struct ladder *ladder = queue;
    uint32_t id;

    while (ladder->lists[BOTTOM].count == 0)
        refill(ladder);
    id = ladder->lists[BOTTOM].first;
    list_remove(ladder->nodes, &ladder->lists[BOTTOM], id);
    return id;
}
