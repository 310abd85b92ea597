/* The price: counts of steps and bytes, and the longest path of messages one after another, found
 * by a run in which a message takes one unit of time and nothing else takes any. */
#include <assert.h>
#include <stdlib.h>

#include "runtime/arena.h"
#include "runtime/schedule.h"
#include "runtime/schedule/dry_run.h"
#include "runtime/status.h"
#include "runtime/wide.h"

struct node {
    uint64_t depth;
    struct node *next;
};

/* Depths at which the messages of a connection completed, oldest first: a SEND that had to wait for
 * a slot comes after the one that gave it back. */
struct releases {
    struct node *first;
    struct node *last;
};

/* A depth is the number of messages on the longest path up to the end of a step. */
struct depths {
    struct tutti_dry_run *run;
    uint64_t *now;   /* [chain]: of its last step; SENDs: of their start */
    uint64_t *first; /* [chain]: its first step in `ends` */
    uint64_t *ends;  /* [first[chain] + step] */
    struct node *free_nodes;
};

static void grow_to(uint64_t *depth, uint64_t at_least)
{
    *depth = *depth > at_least ? *depth : at_least;
}

static uint64_t *end_of(const struct depths *d, const struct tutti_dry_run_chain *chain,
                        uint64_t index)
{
    assert(index < chain->step_count);
    return &d->ends[d->first[chain->number] + index];
}

/* The slot that this SEND takes was given back by the oldest message that completed. */
static void take_slot(struct depths *d, const struct tutti_dry_run_connection *c, uint64_t *now)
{
    struct releases *released = c->payload;
    struct node *node = released->first;

    grow_to(now, node->depth);
    released->first = node->next;
    node->next = d->free_nodes;
    d->free_nodes = node;
}

static int price_step(void *user, struct tutti_dry_run *run, struct tutti_dry_run_chain *chain,
                      struct tutti_dry_run_message *message, struct tutti_err *err)
{
    struct depths *d = user;
    const struct tutti_step *step = chain->step;
    uint64_t *now = &d->now[chain->number];

    (void)err;
    if ((step->flags & TUTTI_STEP_DEP) != 0)
        grow_to(now, *end_of(d, tutti_dry_run_chain_of(run, chain->rank, step->dep_lane),
                             step->dep_step));
    if (step->kind == TUTTI_SEND) {
        if (message->connection->sent_count > run->schedule->slot_count)
            take_slot(d, message->connection, now);
        *end_of(d, chain, chain->index) = *now; /* so far: it ends when it is received */
        return 0;
    }
    if (step->kind == TUTTI_RECV)
        grow_to(now, *end_of(d, message->connection->from, message->index) + 1);
    *end_of(d, chain, chain->index) = *now;
    return 0;
}

static int price_complete(void *user, struct tutti_dry_run *run,
                          struct tutti_dry_run_chain *receiver,
                          struct tutti_dry_run_message *message, struct tutti_err *err)
{
    struct depths *d = user;
    struct tutti_dry_run_connection *c = message->connection;
    struct releases *released = c->payload;
    struct node *node = d->free_nodes;

    *end_of(d, c->from, message->index) = d->now[receiver->number];
    if (released == NULL)
        c->payload = released = tutti_arena_take(run->arena, 1, sizeof(*released));
    if (node != NULL)
        d->free_nodes = node->next;
    else
        node = tutti_arena_take(run->arena, 1, sizeof(*node));
    if (released == NULL || node == NULL)
        return tutti_nomem(err);
    *node = (struct node){.depth = d->now[receiver->number]};
    if (released->first == NULL)
        released->first = node;
    else
        released->last->next = node;
    released->last = node;
    return 0;
}

static int measure_rounds(struct tutti_dry_run *run, uint64_t *ret, struct tutti_err *err)
{
    static const struct tutti_dry_run_ops ops = {.step = price_step, .complete = price_complete};
    struct depths d = {.run = run};
    uint64_t count = 0;
    int status = 0;

    d.now = tutti_arena_take(run->arena, run->chain_count, sizeof(*d.now));
    d.first = tutti_arena_take(run->arena, run->chain_count, sizeof(*d.first));
    for (uint32_t i = 0; i < run->chain_count && d.first != NULL; i++) {
        d.first[i] = count;
        count += run->chains[i].step_count;
    }
    d.ends = tutti_arena_take(run->arena, tutti_size(count), sizeof(*d.ends));
    if (d.now == NULL || d.first == NULL || d.ends == NULL)
        return tutti_nomem(err);
    status = tutti_dry_run_play(run, &ops, &d, err);
    *ret = 0;
    for (uint32_t i = 0; i < run->chain_count && status == 0; i++)
        grow_to(ret, d.now[i]);
    return status;
}

/* Hostile lengths stop at the end of the numbers. */
static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* What one rank does, over all its lanes. */
static void count_rank(const struct tutti_schedule *s, uint32_t rank, struct tutti_price *price)
{
    uint64_t sent_bytes = 0;
    uint64_t reduced_bytes = 0;
    uint64_t copied_bytes = 0;

    for (uint32_t lane = 0; lane < s->lane_count; lane++) {
        const struct tutti_step *step;
        struct tutti_cursor cursor;

        tutti_cursor_open(&cursor, s, rank, lane);
        while ((step = tutti_cursor_next(&cursor)) != NULL) {
            price->step_count++;
            price->send_count += step->kind == TUTTI_SEND;
            if (step->kind == TUTTI_SEND)
                sent_bytes = add(sent_bytes, step->bytes);
            else if (step->kind == TUTTI_REDUCE)
                reduced_bytes = add(reduced_bytes, step->bytes);
            else if (step->kind == TUTTI_COPY)
                copied_bytes = add(copied_bytes, step->bytes);
        }
    }
    price->sent_bytes = add(price->sent_bytes, sent_bytes);
    grow_to(&price->sent_bytes_max, sent_bytes);
    grow_to(&price->reduced_bytes_max, reduced_bytes);
    grow_to(&price->copied_bytes_max, copied_bytes);
}

static int price_flat(const struct tutti_schedule *flat, struct tutti_price *price,
                      struct tutti_err *err)
{
    struct tutti_dry_run *run = NULL;
    int status = tutti_dry_run_new(flat, &run, err);

    if (status == 0)
        status = measure_rounds(run, &price->round_count, err);
    for (uint32_t rank = 0; rank < flat->rank_count && status == 0; rank++)
        count_rank(flat, rank, price);
    tutti_dry_run_free(run);
    return status;
}

int tutti_schedule_price(const struct tutti_schedule *schedule, struct tutti_price *ret,
                         struct tutti_err *err)
{
    struct tutti_schedule *flat = NULL;
    struct tutti_price price = {0};
    int status = tutti_schedule_flatten(schedule, &flat, err);

    if (status == 0)
        status = price_flat(flat, &price, err);
    if (status == 0)
        *ret = price;
    tutti_schedule_free(flat);
    return status;
}
