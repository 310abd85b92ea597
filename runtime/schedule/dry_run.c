/* Executes all programs without clock or data, in an order that every order must agree with. */
#include "runtime/schedule/dry_run.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/arena.h"
#include "runtime/schedule/step.h"
#include "runtime/status.h"

enum { BUCKETS_MIN = 64 };

static int valid_contract(const struct tutti_schedule *s, struct tutti_err *err)
{
    uint64_t in_bytes = s->in_bytes;
    uint64_t out_bytes = s->out_bytes;

    if (s->rank_count < 1 || s->lane_count < 1 || s->lane_count > TUTTI_LANES_MAX)
        return tutti_fail(err, TUTTI_ECHECK, "'%u' ranks of '%u' lanes (1 or more, 1 to %d)",
                          s->rank_count, s->lane_count, TUTTI_LANES_MAX);
    if (s->slot_count < 1)
        return tutti_fail(err, TUTTI_ECHECK, "connections of '0' slots (1 or more)");
    if (s->contract.root >= s->rank_count)
        return tutti_fail(err, TUTTI_ECHECK, "root '%u' is not a rank (0 to %u)", s->contract.root,
                          s->rank_count - 1);
    if (s->contract.collective != TUTTI_CUSTOM)
        tutti_contract_bytes(&s->contract, s->rank_count, &in_bytes, &out_bytes);
    if (s->in_bytes != in_bytes || s->out_bytes != out_bytes)
        return tutti_fail(err, TUTTI_ECHECK,
                          "in has '%" PRIu64 "' and out '%" PRIu64 "' bytes (%" PRIu64
                          " and %" PRIu64 " by the contract)",
                          s->in_bytes, s->out_bytes, in_bytes, out_bytes);
    return 0;
}

/* Cells that may have steps: an upper bound of the chains, without walking them. */
static size_t count_cells(const struct tutti_schedule *s)
{
    size_t count = 0;

    for (uint32_t rank = 0; rank < s->rank_count; rank++)
        for (uint32_t lane = 0; lane < s->lane_count; lane++)
            count += s->ops->round_count(s, rank, lane) > 0;
    return count;
}

/* Walks a lane: counts its steps and dependencies, checks every rule that it obeys by itself. */
static int walk_lane(struct tutti_dry_run *run, uint32_t rank, uint32_t lane,
                     uint64_t *ret_step_count, struct tutti_err *err)
{
    struct tutti_step before = {0};
    const struct tutti_step *step;
    struct tutti_cursor cursor;
    uint64_t index = 0;
    int status = 0;

    tutti_cursor_open(&cursor, run->schedule, rank, lane);
    while (status == 0 && (step = tutti_cursor_next(&cursor)) != NULL) {
        status = tutti_step_follows(rank, lane, index, &before, step, err);
        if (status == 0)
            status = tutti_step_valid(run->schedule, rank, lane, index, step, err);
        run->dependency_count += (step->flags & TUTTI_STEP_DEP) != 0;
        before = *step;
        index++;
    }
    *ret_step_count = index;
    return status < 0 ? status : tutti_step_follows(rank, lane, index, &before, NULL, err);
}

/* Finds the lanes that have steps, and numbers them. */
static int make_chains(struct tutti_dry_run *run, struct tutti_err *err)
{
    const struct tutti_schedule *s = run->schedule;
    uint64_t cell = 0;
    int status = 0;

    run->chain_numbers = tutti_arena_take(run->arena, (size_t)s->rank_count * s->lane_count,
                                          sizeof(run->chain_numbers[0]));
    run->chains = tutti_arena_take(run->arena, count_cells(s), sizeof(run->chains[0]));
    if (run->chain_numbers == NULL || run->chains == NULL)
        return tutti_nomem(err);
    for (uint32_t rank = 0; rank < s->rank_count && status == 0; rank++) {
        for (uint32_t lane = 0; lane < s->lane_count && status == 0; lane++, cell++) {
            struct tutti_dry_run_chain *chain = &run->chains[run->chain_count];
            uint64_t step_count = 0;

            status = walk_lane(run, rank, lane, &step_count, err);
            if (step_count == 0)
                continue;
            chain->number = run->chain_count++;
            chain->rank = rank;
            chain->lane = lane;
            chain->step_count = step_count;
            run->chain_numbers[cell] = run->chain_count;
        }
    }
    return status;
}

static int valid_dep_step(const struct tutti_dry_run *run, const struct tutti_dry_run_chain *chain,
                          uint64_t index, const struct tutti_step *step, struct tutti_err *err)
{
    const struct tutti_dry_run_chain *target;
    char where[TUTTI_STEP_WHERE_BYTES];
    uint64_t step_count;

    if ((step->flags & TUTTI_STEP_DEP) == 0)
        return 0;
    target = tutti_dry_run_chain_of(run, chain->rank, step->dep_lane);
    step_count = target == NULL ? 0 : target->step_count;
    if (step->dep_step < step_count)
        return 0;
    return tutti_fail(err, TUTTI_ECHECK,
                      "%s: depends on step '%u' of lane %u (which has %" PRIu64 " steps)",
                      tutti_step_where(chain->rank, chain->lane, index, step, where),
                      step->dep_step, step->dep_lane, step_count);
}

/* That the steps are there which others depend on. */
static int valid_dependencies(const struct tutti_dry_run *run, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < run->chain_count && run->dependency_count > 0 && status == 0; i++) {
        const struct tutti_dry_run_chain *chain = &run->chains[i];
        const struct tutti_step *step;
        struct tutti_cursor cursor;

        tutti_cursor_open(&cursor, run->schedule, chain->rank, chain->lane);
        while (status == 0 && (step = tutti_cursor_next(&cursor)) != NULL)
            status = valid_dep_step(run, chain, cursor.step_index - 1, step, err);
    }
    return status;
}

int tutti_dry_run_new(const struct tutti_schedule *schedule, struct tutti_dry_run **ret,
                      struct tutti_err *err)
{
    struct tutti_arena *arena;
    struct tutti_dry_run *run;
    int status = valid_contract(schedule, err);

    if (status < 0)
        return status;
    arena = tutti_arena_new();
    run = arena == NULL ? NULL : tutti_arena_take(arena, 1, sizeof(*run));
    if (run == NULL) {
        tutti_arena_free(arena);
        return tutti_nomem(err);
    }
    run->schedule = schedule;
    run->arena = arena;
    status = make_chains(run, err);
    if (status == 0)
        status = valid_dependencies(run, err);
    run->bucket_max = BUCKETS_MIN - 1;
    while (run->bucket_max < run->chain_count && run->bucket_max < SIZE_MAX / 64)
        run->bucket_max = run->bucket_max * 2 + 1;
    run->buckets = tutti_arena_take(arena, run->bucket_max + 1, sizeof(*run->buckets));
    run->meetings = tutti_arena_take(arena, run->bucket_max + 1, sizeof(*run->meetings));
    if (status == 0 && (run->buckets == NULL || run->meetings == NULL))
        status = tutti_nomem(err);
    if (status < 0) {
        tutti_dry_run_free(run);
        return status;
    }
    *ret = run;
    return 0;
}

void tutti_dry_run_free(struct tutti_dry_run *run)
{
    if (run != NULL)
        tutti_arena_free(run->arena);
}

static void enqueue(struct tutti_dry_run *run, struct tutti_dry_run_chain *chain)
{
    if (chain->queued)
        return;
    chain->queued = true;
    chain->next = NULL;
    if (run->queue_first == NULL)
        run->queue_first = chain;
    else
        run->queue_last->next = chain;
    run->queue_last = chain;
}

static struct tutti_dry_run_chain *dequeue(struct tutti_dry_run *run)
{
    struct tutti_dry_run_chain *chain = run->queue_first;

    if (chain != NULL) {
        run->queue_first = chain->next;
        chain->queued = false;
    }
    return chain;
}

/* Wakes the chains that wait for a step of this one which has completed by now. */
static void wake(struct tutti_dry_run *run, struct tutti_dry_run_chain *chain)
{
    struct tutti_dry_run_chain **link = &chain->first_waiter;
    struct tutti_dry_run_chain *waiter;

    while ((waiter = *link) != NULL) {
        if (tutti_dry_run_completed(chain, waiter->step->dep_step)) {
            *link = waiter->next_waiter;
            enqueue(run, waiter);
        } else {
            link = &waiter->next_waiter;
        }
    }
}

/* Whether the next step of the chain may start; else leaves word with what it waits for.
 * *ret_connection: of a SEND or RECV. Negative: no memory. */
static int may_start(struct tutti_dry_run *run, struct tutti_dry_run_chain *chain,
                     struct tutti_dry_run_connection **ret_connection)
{
    const struct tutti_step *step = chain->step;
    struct tutti_dry_run_connection *c = NULL;
    struct tutti_dry_run_chain *other;

    if ((step->flags & TUTTI_STEP_DEP) != 0) {
        other = tutti_dry_run_chain_of(run, chain->rank, step->dep_lane);
        if (!tutti_dry_run_completed(other, step->dep_step)) {
            chain->next_waiter = other->first_waiter;
            other->first_waiter = chain;
            return 0;
        }
    }
    if (step->kind == TUTTI_SEND) {
        c = tutti_dry_run_connect(run, chain, step->peer);
        if (c == NULL)
            return -TUTTI_ENOMEM;
        c->sender_waits = c->sent_count - c->completed_count >= run->schedule->slot_count;
        if (c->sender_waits)
            return 0;
    }
    if (step->kind == TUTTI_RECV) {
        other = tutti_dry_run_chain_of(run, step->peer, chain->lane);
        if (other == NULL)
            return 0; /* for ever */
        c = tutti_dry_run_connect(run, other, chain->rank);
        if (c == NULL)
            return -TUTTI_ENOMEM;
        c->receiver_waits = c->first == NULL;
        if (c->receiver_waits)
            return 0;
    }
    *ret_connection = c;
    return 1;
}

static struct tutti_dry_run_message *send(struct tutti_dry_run *run,
                                          struct tutti_dry_run_chain *chain,
                                          struct tutti_dry_run_connection *c)
{
    struct tutti_dry_run_message *m = run->free_messages;

    if (m != NULL)
        run->free_messages = m->next;
    else
        m = tutti_arena_take(run->arena, 1, sizeof(*m));
    if (m == NULL)
        return NULL;
    *m = (struct tutti_dry_run_message){.connection = c,
                                        .index = chain->index,
                                        .step = *chain->step,
                                        .previous_sent = chain->last_sent};
    if (c->first == NULL)
        c->first = m;
    else
        c->last->next = m;
    c->last = m;
    c->sent_count++;
    if (chain->first_sent == NULL)
        chain->first_sent = m;
    else
        chain->last_sent->next_sent = m;
    chain->last_sent = m;
    if (c->receiver_waits && c->to != NULL)
        enqueue(run, c->to);
    c->receiver_waits = false;
    return m;
}

static int receive(struct tutti_dry_run_chain *chain, struct tutti_dry_run_connection *c,
                   struct tutti_dry_run_message **ret, struct tutti_err *err)
{
    struct tutti_dry_run_message *m = c->first;
    char where[TUTTI_STEP_WHERE_BYTES];
    char other[TUTTI_STEP_WHERE_BYTES];

    assert(m != NULL);
    if (m->step.bytes != chain->step->bytes)
        return tutti_fail(
            err, TUTTI_ECHECK, "%s: the matching SEND has another length: %s",
            tutti_dry_run_where(chain, where),
            tutti_step_where(c->from->rank, c->from->lane, m->index, &m->step, other));
    c->first = m->next;
    m->received = true;
    *ret = m;
    return 0;
}

/* The message has been used up: its slot is free, its SEND complete. */
static int complete(struct tutti_dry_run *run, const struct tutti_dry_run_ops *ops, void *user,
                    struct tutti_dry_run_chain *receiver, struct tutti_dry_run_message *m,
                    struct tutti_err *err)
{
    struct tutti_dry_run_connection *c = m->connection;
    struct tutti_dry_run_chain *from = c->from;
    int status = ops->complete(user, run, receiver, m, err);

    if (m->previous_sent == NULL)
        from->first_sent = m->next_sent;
    else
        m->previous_sent->next_sent = m->next_sent;
    if (m->next_sent == NULL)
        from->last_sent = m->previous_sent;
    else
        m->next_sent->previous_sent = m->previous_sent;
    c->completed_count++;
    if (c->sender_waits)
        enqueue(run, from);
    c->sender_waits = false;
    m->next = run->free_messages;
    run->free_messages = m;
    wake(run, from);
    return status;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Where the group of this chain's CALL meets on its lane; made if new; NULL: no memory. */
static struct tutti_dry_run_meeting *find_meeting(struct tutti_dry_run *run,
                                                  const struct tutti_dry_run_chain *chain,
                                                  uint32_t *ret_member)
{
    uint32_t number = chain->step->axis;
    struct tutti_axis axis = tutti_schedule_axis(run->schedule, number);
    struct tutti_dry_run_meeting *m;
    uint32_t group = 0;
    uint64_t key;
    size_t slot;
    bool found = tutti_axis_find(&axis, chain->rank, &group, ret_member);

    assert(found); /* tutti_step_valid */
    key = ((uint64_t)group * TUTTI_LANES_MAX + chain->lane) * (TUTTI_AXES_MAX + 1) + number;
    slot = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & run->bucket_max;
    m = run->meetings[slot];
    while (m != NULL && (m->group != group || m->lane != chain->lane || m->number != number))
        m = m->next;
    if (m != NULL)
        return m;
    m = tutti_arena_take(run->arena, 1, sizeof(*m));
    if (m == NULL)
        return NULL;
    *m = (struct tutti_dry_run_meeting){
        .number = number, .axis = axis, .group = group, .lane = chain->lane};
    m->members = tutti_arena_take(run->arena, axis.size, sizeof(m->members[0]));
    if (m->members == NULL)
        return NULL;
    m->next = run->meetings[slot];
    run->meetings[slot] = m;
    return m;
}

uint32_t tutti_dry_run_awaited(const struct tutti_dry_run_meeting *meeting)
{
    uint32_t member = 0;

    while (member < meeting->axis.size && meeting->members[member] != NULL)
        member++;
    assert(member < meeting->axis.size);
    return tutti_axis_rank(&meeting->axis, meeting->group, member);
}

/* Members call one schedule: else their orders differ. */
static int same_callee(const struct tutti_dry_run *run, const struct tutti_dry_run_meeting *m,
                       struct tutti_err *err)
{
    const struct tutti_dry_run_chain *first = m->members[0];
    char where[TUTTI_STEP_WHERE_BYTES];
    char other[TUTTI_STEP_WHERE_BYTES];

    for (uint32_t i = 1; i < m->axis.size; i++) {
        const struct tutti_dry_run_chain *chain = m->members[i];

        if (chain->step->peer == first->step->peer)
            continue;
        return tutti_fail(err, TUTTI_ECHECK,
                          "%s: calls '%s' on axis '%s' where rank %u of its group calls '%s': %s "
                          "(members call in one order)",
                          tutti_dry_run_where(chain, where),
                          run->schedule->callees[chain->step->peer]->name, m->axis.name,
                          first->rank, run->schedule->callees[first->step->peer]->name,
                          tutti_dry_run_where(first, other));
    }
    return 0;
}

/* The chain has come to its CALL; with the last member of its group the call takes place. */
static int arrive(struct tutti_dry_run *run, const struct tutti_dry_run_ops *ops, void *user,
                  struct tutti_dry_run_chain *chain, struct tutti_err *err)
{
    uint32_t member = 0;
    struct tutti_dry_run_meeting *m = find_meeting(run, chain, &member);
    int status;

    if (m == NULL)
        return tutti_nomem(err);
    assert(ops->call != NULL);
    assert(m->members[member] == NULL);
    m->members[member] = chain;
    chain->meeting = m;
    if (++m->arrived < m->axis.size)
        return 0;
    status = same_callee(run, m, err);
    if (status == 0)
        status = ops->call(user, run, m, err);
    m->arrived = 0;
    for (uint32_t i = 0; i < m->axis.size && status == 0; i++) {
        struct tutti_dry_run_chain *other = m->members[i];

        m->members[i] = NULL;
        other->meeting = NULL;
        other->index++;
        other->step = tutti_cursor_next(&other->cursor);
        wake(run, other);
        enqueue(run, other);
    }
    return status;
}

/* Executes the next step, which may start. */
static int execute(struct tutti_dry_run *run, const struct tutti_dry_run_ops *ops, void *user,
                   struct tutti_dry_run_chain *chain, struct tutti_dry_run_connection *c,
                   struct tutti_err *err)
{
    struct tutti_dry_run_message *fused = chain->fused;
    struct tutti_dry_run_message *message = NULL;
    const struct tutti_step *step = chain->step;
    bool arrived = step->kind == TUTTI_RECV;
    bool fuse = (step->flags & TUTTI_STEP_FUSE) != 0;
    int status = 0;

    if (step->kind == TUTTI_SEND && (message = send(run, chain, c)) == NULL)
        return tutti_nomem(err);
    if (arrived)
        status = receive(chain, c, &message, err);
    if (status == 0)
        status = ops->step(user, run, chain, message, err);
    if (status < 0)
        return status;
    chain->fused = arrived && fuse ? message : NULL;
    chain->index++;
    chain->step = tutti_cursor_next(&chain->cursor);
    if (fused != NULL)
        status = complete(run, ops, user, chain, fused, err);
    if (status == 0 && arrived && !fuse)
        status = complete(run, ops, user, chain, message, err);
    wake(run, chain);
    return status;
}

static int advance(struct tutti_dry_run *run, const struct tutti_dry_run_ops *ops, void *user,
                   struct tutti_dry_run_chain *chain, struct tutti_err *err)
{
    struct tutti_dry_run_connection *connection = NULL;
    int status = 0;

    while (status == 0 && chain->step != NULL && chain->meeting == NULL) {
        int may = may_start(run, chain, &connection);

        if (may < 0)
            return tutti_nomem(err);
        if (may == 0)
            return 0;
        if (chain->step->kind == TUTTI_CALL)
            return arrive(run, ops, user, chain, err);
        status = execute(run, ops, user, chain, connection, err);
    }
    return status;
}

int tutti_dry_run_play(struct tutti_dry_run *run, const struct tutti_dry_run_ops *ops, void *user,
                       struct tutti_err *err)
{
    struct tutti_dry_run_chain *chain;
    int status = 0;

    for (uint32_t i = 0; i < run->chain_count; i++) {
        chain = &run->chains[i];
        tutti_cursor_open(&chain->cursor, run->schedule, chain->rank, chain->lane);
        chain->step = tutti_cursor_next(&chain->cursor);
        enqueue(run, chain);
    }
    while (status == 0 && (chain = dequeue(run)) != NULL)
        status = advance(run, ops, user, chain, err);
    return status < 0 ? status : tutti_dry_run_stuck(run, err);
}

struct tutti_dry_run_chain *tutti_dry_run_chain_of(const struct tutti_dry_run *run, uint32_t rank,
                                                   uint32_t lane)
{
    uint32_t number = run->chain_numbers[(size_t)rank * run->schedule->lane_count + lane];

    return number == 0 ? NULL : &run->chains[number - 1];
}

bool tutti_dry_run_completed(const struct tutti_dry_run_chain *chain, uint64_t index)
{
    const struct tutti_dry_run_message *m = chain->first_sent;

    while (m != NULL && m->index < index)
        m = m->next_sent;
    return index < chain->index && (m == NULL || m->index != index);
}

struct tutti_dry_run_connection *
tutti_dry_run_connect(struct tutti_dry_run *run, struct tutti_dry_run_chain *from, uint32_t to_rank)
{
    uint64_t key = (uint64_t)from->number * run->schedule->rank_count + to_rank;
    /* Fibonacci hashing (Knuth, vol. 3, 6.4). */
    size_t slot = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & run->bucket_max;
    struct tutti_dry_run_connection *c = run->buckets[slot];

    while (c != NULL && (c->from != from || c->to_rank != to_rank))
        c = c->next;
    if (c != NULL)
        return c;
    c = tutti_arena_take(run->arena, 1, sizeof(*c));
    if (c == NULL)
        return NULL;
    c->from = from;
    c->to = tutti_dry_run_chain_of(run, to_rank, from->lane);
    c->to_rank = to_rank;
    c->next = run->buckets[slot];
    run->buckets[slot] = c;
    return c;
}

const char *tutti_dry_run_where(const struct tutti_dry_run_chain *chain, char *buf)
{
    return tutti_step_where(chain->rank, chain->lane, chain->index, chain->step, buf);
}
