/* Vector clocks (Fidge 1988, Mattern 1989) over a run. A chain is a lane of a rank; an access is
 * ordered before a step if the clock of the step's start knows of the access's end. A SEND reads
 * until its RECV (with FUSE its REDUCE) has ended, which is an event of another chain. A RECV
 * writes after the SEND has started, so its write knows all that the SEND knew. */
#include "runtime/schedule/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/schedule/access.h"
#include "runtime/schedule/dry_run.h"
#include "runtime/schedule/step.h"
#include "runtime/schedule/tables.h"
#include "runtime/status.h"

/* Clocks of all chains take chains * chains * 4 bytes. */
enum { CHAINS_MAX = 16384, MAPS = 3 };

/* A step that others depend on, and the clock of its end until the last of them has started. */
struct target {
    uint32_t chain;
    uint32_t index;
    uint32_t use_count;
    struct tutti_clock *end;
};

/* The ends of a connection's messages that have completed, oldest first: a SEND that had to wait
 * for a slot knows of the one that gave it back. */
struct releases {
    struct node *first;
    struct node *last;
};

struct node {
    struct tutti_clock *clock;
    struct node *next;
};

struct clocks {
    const struct tutti_dry_run *run;
    struct tutti_arena *arena;
    uint32_t chain_count;
    uint32_t *now;          /* [chain * chain_count + other] */
    uint32_t *rank_end;     /* barrier: [rank * chain_count + other], else NULL */
    struct target *targets; /* sorted */
    size_t target_count;
    struct tutti_access_map *maps; /* [rank * MAPS]: out, scratch, state */
    struct tutti_clock *free_clocks;
    struct node *free_nodes;
};

static uint32_t *now_of(const struct clocks *k, uint32_t chain)
{
    return k->now + (size_t)chain * k->chain_count;
}

static void join(uint32_t *at, const uint32_t *other, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        at[i] = at[i] > other[i] ? at[i] : other[i];
}

/* A copy of a chain's clock, with one reference; NULL: no memory. */
static struct tutti_clock *snapshot(struct clocks *k, uint32_t chain)
{
    struct tutti_clock *clock = k->free_clocks;
    size_t bytes = k->chain_count * sizeof(clock->at[0]);

    if (clock != NULL)
        k->free_clocks = clock->next;
    else
        clock = tutti_arena_take(k->arena, 1, sizeof(*clock) + bytes);
    if (clock == NULL)
        return NULL;
    clock->ref_count = 1;
    memcpy(clock->at, now_of(k, chain), bytes);
    return clock;
}

static void release(struct clocks *k, struct tutti_clock *clock)
{
    assert(clock->ref_count > 0);
    if (--clock->ref_count > 0)
        return;
    clock->next = k->free_clocks;
    k->free_clocks = clock;
}

/* ---- who depends on what ------------------------------------------------------------------- */

static int by_target(const void *a, const void *b)
{
    const struct target *x = a;
    const struct target *y = b;

    if (x->chain != y->chain)
        return x->chain < y->chain ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static struct target *find_target(const struct clocks *k, uint32_t chain, uint64_t index)
{
    struct target key = {.chain = chain, .index = (uint32_t)index};

    if (index > UINT32_MAX || k->target_count == 0)
        return NULL;
    return bsearch(&key, k->targets, k->target_count, sizeof(key), by_target);
}

/* Notes what every step of a lane depends on; returns how many there are then. */
static size_t note_targets(const struct tutti_dry_run *run, const struct tutti_dry_run_chain *chain,
                           struct target *targets, size_t count)
{
    const struct tutti_step *step;
    struct tutti_cursor cursor;

    tutti_cursor_open(&cursor, run->schedule, chain->rank, chain->lane);
    while ((step = tutti_cursor_next(&cursor)) != NULL)
        if ((step->flags & TUTTI_STEP_DEP) != 0)
            targets[count++] = (struct target){
                .chain = tutti_dry_run_chain_of(run, chain->rank, step->dep_lane)->number,
                .index = step->dep_step,
                .use_count = 1};
    return count;
}

static int collect_targets(struct clocks *k, struct tutti_err *err)
{
    size_t count = 0;
    size_t kept = 0;

    k->targets = tutti_arena_take(k->arena, k->run->dependency_count, sizeof(*k->targets));
    if (k->targets == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < k->chain_count && k->run->dependency_count > 0; i++)
        count = note_targets(k->run, &k->run->chains[i], k->targets, count);
    assert(count == k->run->dependency_count);
    if (count > 0)
        qsort(k->targets, count, sizeof(*k->targets), by_target);
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && by_target(&k->targets[kept - 1], &k->targets[i]) == 0)
            k->targets[kept - 1].use_count++;
        else
            k->targets[kept++] = k->targets[i];
    }
    k->target_count = kept;
    return 0;
}

/* ---- accesses ------------------------------------------------------------------------------ */

static bool is_ordered(const uint32_t *now, const struct tutti_access *access)
{
    if (access->count == 0)
        return true;
    if (access->send != NULL)
        return access->send->complete && now[access->send->chain] >= access->send->count;
    return now[access->chain] >= access->count;
}

static int report_race(const struct clocks *k, const struct tutti_dry_run_chain *chain,
                       unsigned buffer, const struct tutti_access_segment *s,
                       const struct tutti_access *access, const char *how, struct tutti_err *err)
{
    char where[TUTTI_STEP_WHERE_BYTES];

    return tutti_fail(err, TUTTI_ECHECK,
                      "%s: nothing orders it and lane %u, step %u, which %s %s bytes %" PRIu64
                      "..%" PRIu64 " too",
                      tutti_dry_run_where(chain, where), k->run->chains[access->chain].lane,
                      access->count - 1, how, tutti_buf_name(buffer), s->offset, s->end - 1);
}

static int check_read(struct clocks *k, const struct tutti_dry_run_chain *chain, unsigned buffer,
                      struct tutti_access_segment *s, const struct tutti_send_note *send,
                      struct tutti_err *err)
{
    const uint32_t *now = now_of(k, chain->number);
    uint32_t count = (uint32_t)chain->index + 1;
    struct tutti_access_list *item;
    char where[TUTTI_STEP_WHERE_BYTES];

    if (!is_ordered(now, &s->write))
        return report_race(k, chain, buffer, s, &s->write, "writes", err);
    if (s->fused && (s->write.chain != chain->number || s->write.count + 1 != count))
        return tutti_fail(err, TUTTI_ECHECK,
                          "%s: reads scratch bytes %" PRIu64 "..%" PRIu64
                          ", which lane %u, step %u fuses into the step after it alone",
                          tutti_dry_run_where(chain, where), s->offset, s->end - 1,
                          k->run->chains[s->write.chain].lane, s->write.count - 1);
    /* What comes before this read need not be remembered: who comes after this comes after it. */
    while (s->reads != NULL && is_ordered(now, &s->reads->access))
        s->reads = s->reads->next;
    item = tutti_arena_take(k->arena, 1, sizeof(*item));
    if (item == NULL)
        return tutti_nomem(err);
    item->access = (struct tutti_access){chain->number, count, send};
    item->next = s->reads;
    s->reads = item;
    return 0;
}

static int check_write(const struct clocks *k, const struct tutti_dry_run_chain *chain,
                       unsigned buffer, const struct tutti_access_segment *s, struct tutti_err *err)
{
    const uint32_t *now = now_of(k, chain->number);

    if (!is_ordered(now, &s->write))
        return report_race(k, chain, buffer, s, &s->write, "writes", err);
    for (const struct tutti_access_list *r = s->reads; r != NULL; r = r->next)
        if (!is_ordered(now, &r->access))
            return report_race(k, chain, buffer, s, &r->access, "reads", err);
    return 0;
}

/* Splits so that [offset, offset + bytes) is whole segments [*ret_first, *ret_end). */
static int cut_out(struct clocks *k, const struct tutti_dry_run_chain *chain, unsigned buffer,
                   uint64_t offset, uint64_t bytes, struct tutti_access_map **ret_map,
                   size_t *ret_first, size_t *ret_end, struct tutti_err *err)
{
    struct tutti_access_map *map = &k->maps[(size_t)chain->rank * MAPS + buffer - TUTTI_BUF_OUT];

    *ret_map = map;
    *ret_first = tutti_access_split(map, offset);
    *ret_end = tutti_access_split(map, offset + bytes);
    return *ret_first == SIZE_MAX || *ret_end == SIZE_MAX ? tutti_nomem(err) : 0;
}

/* Segments of state never lie across the bounds of atomic regions: init_maps. */
static bool is_exempt(const struct clocks *k, unsigned buffer,
                      const struct tutti_access_segment *segment)
{
    return buffer == TUTTI_BUF_STATE &&
           tutti_is_atomic(k->run->schedule, segment->offset, segment->end - segment->offset);
}

static int read_bytes(struct clocks *k, const struct tutti_dry_run_chain *chain, unsigned buffer,
                      uint64_t offset, uint64_t bytes, const struct tutti_send_note *send,
                      struct tutti_err *err)
{
    struct tutti_access_map *map;
    size_t first = 0;
    size_t end = 0;
    int status;

    if (bytes == 0 || buffer == TUTTI_BUF_IN)
        return 0;
    status = cut_out(k, chain, buffer, offset, bytes, &map, &first, &end, err);
    for (size_t i = first; i < end && status == 0; i++)
        if (!is_exempt(k, buffer, &map->items[i]))
            status = check_read(k, chain, buffer, &map->items[i], send, err);
    return status;
}

static int write_bytes(struct clocks *k, const struct tutti_dry_run_chain *chain, unsigned buffer,
                       uint64_t offset, uint64_t bytes, struct tutti_err *err)
{
    struct tutti_access_map *map;
    size_t first = 0;
    size_t end = 0;
    int status;

    if (bytes == 0)
        return 0;
    status = cut_out(k, chain, buffer, offset, bytes, &map, &first, &end, err);
    for (size_t i = first; i < end && status == 0; i++)
        if (!is_exempt(k, buffer, &map->items[i]))
            status = check_write(k, chain, buffer, &map->items[i], err);
    if (status < 0)
        return status;
    if (buffer != TUTTI_BUF_STATE || k->run->schedule->atomic_count == 0) {
        tutti_access_merge(map, first, end - first);
        end = first + 1;
    }
    for (size_t i = first; i < end; i++) {
        map->items[i].write =
            (struct tutti_access){chain->number, (uint32_t)chain->index + 1, NULL};
        map->items[i].fused = (chain->step->flags & TUTTI_STEP_FUSE) != 0;
        map->items[i].reads = NULL;
    }
    return 0;
}

/* What a COMPUTE reads, then what it writes, by its entry of the work table. */
static int touch_work(struct clocks *k, struct tutti_dry_run_chain *chain, struct tutti_err *err)
{
    const struct tutti_step *step = chain->step;
    const struct tutti_work *work =
        step->peer == 0 ? NULL : &k->run->schedule->work[step->peer - 1];
    int status = 0;

    for (uint32_t i = 0; work != NULL && i < work->read_count && status == 0; i++) {
        struct tutti_region at = tutti_region_at(&work->reads[i], step);

        status = read_bytes(k, chain, at.buf, at.offset, at.bytes, NULL, err);
    }
    now_of(k, chain->number)[chain->number] = (uint32_t)chain->index + 1;
    for (uint32_t i = 0; work != NULL && i < work->write_count && status == 0; i++) {
        struct tutti_region at = tutti_region_at(&work->writes[i], step);

        status = write_bytes(k, chain, at.buf, at.offset, at.bytes, err);
    }
    return status;
}

/* ---- events -------------------------------------------------------------------------------- */

/* The start of a SEND knows the end of the message whose slot it takes. */
static int start_send(struct clocks *k, struct tutti_dry_run_chain *chain,
                      struct tutti_dry_run_message *message, struct tutti_err *err)
{
    struct tutti_dry_run_connection *c = message->connection;
    struct releases *released = c->payload;
    uint32_t *now = now_of(k, chain->number);
    struct tutti_send_note *note = tutti_arena_take(k->arena, 1, sizeof(*note));

    if (note == NULL)
        return tutti_nomem(err);
    if (c->sent_count > k->run->schedule->slot_count) {
        struct node *node = released->first;

        join(now, node->clock->at, k->chain_count);
        released->first = node->next;
        release(k, node->clock);
        node->next = k->free_nodes;
        k->free_nodes = node;
    }
    now[chain->number] = (uint32_t)chain->index + 1;
    note->start = snapshot(k, chain->number);
    if (note->start == NULL)
        return tutti_nomem(err);
    message->payload = note;
    return read_bytes(k, chain, chain->step->src_buf, chain->step->src_offset, chain->step->bytes,
                      note, err);
}

static int touch(struct clocks *k, struct tutti_dry_run_chain *chain,
                 struct tutti_dry_run_message *message, struct tutti_err *err)
{
    const struct tutti_step *step = chain->step;
    const struct tutti_send_note *note;
    int status = 0;

    switch (step->kind) {
    case TUTTI_SEND:
        return start_send(k, chain, message, err);
    case TUTTI_RECV:
        note = message->payload;
        join(now_of(k, chain->number), note->start->at, k->chain_count);
        return write_bytes(k, chain, step->dst_buf, step->dst_offset, step->bytes, err);
    case TUTTI_REDUCE:
    case TUTTI_COPY:
        if (step->kind == TUTTI_REDUCE)
            status = read_bytes(k, chain, step->acc_buf, step->acc_offset, step->bytes, NULL, err);
        if (status == 0)
            status = read_bytes(k, chain, step->src_buf, step->src_offset, step->bytes, NULL, err);
        /* The operands are read before the result is written over them: no race with itself. */
        now_of(k, chain->number)[chain->number] = (uint32_t)chain->index + 1;
        return status < 0
                   ? status
                   : write_bytes(k, chain, step->dst_buf, step->dst_offset, step->bytes, err);
    case TUTTI_COMPUTE:
        return touch_work(k, chain, err);
    default:
        return 0;
    }
}

static int clock_step(void *user, struct tutti_dry_run *run, struct tutti_dry_run_chain *chain,
                      struct tutti_dry_run_message *message, struct tutti_err *err)
{
    struct clocks *k = user;
    const struct tutti_step *step = chain->step;
    uint32_t *now = now_of(k, chain->number);
    struct target *target;
    int status;

    if ((step->flags & TUTTI_STEP_DEP) != 0) {
        target = find_target(k, tutti_dry_run_chain_of(run, chain->rank, step->dep_lane)->number,
                             step->dep_step);
        assert(target != NULL);
        join(now, target->end->at, k->chain_count);
        if (--target->use_count == 0)
            release(k, target->end);
    }
    status = touch(k, chain, message, err);
    if (status < 0 || step->kind == TUTTI_SEND)
        return status;
    now[chain->number] = (uint32_t)chain->index + 1;
    target = find_target(k, chain->number, chain->index);
    if (target != NULL && (target->end = snapshot(k, chain->number)) == NULL)
        return tutti_nomem(err);
    return 0;
}

static int push_release(struct clocks *k, struct tutti_dry_run_connection *c,
                        struct tutti_clock *end)
{
    struct releases *released = c->payload;
    struct node *node = k->free_nodes;

    if (released == NULL)
        c->payload = released = tutti_arena_take(k->arena, 1, sizeof(*released));
    if (node != NULL)
        k->free_nodes = node->next;
    else
        node = tutti_arena_take(k->arena, 1, sizeof(*node));
    if (released == NULL || node == NULL)
        return -TUTTI_ENOMEM;
    end->ref_count++;
    *node = (struct node){end, NULL};
    if (released->first == NULL)
        released->first = node;
    else
        released->last->next = node;
    released->last = node;
    return 0;
}

/* The end of a SEND is an event of its receiver. */
static int clock_complete(void *user, struct tutti_dry_run *run,
                          struct tutti_dry_run_chain *receiver,
                          struct tutti_dry_run_message *message, struct tutti_err *err)
{
    struct clocks *k = user;
    struct tutti_send_note *note = message->payload;
    struct tutti_dry_run_chain *from = message->connection->from;
    struct target *target = find_target(k, from->number, message->index);
    struct tutti_clock *end = snapshot(k, receiver->number);

    (void)run;
    if (end == NULL)
        return tutti_nomem(err);
    note->complete = true;
    note->chain = receiver->number;
    note->count = now_of(k, receiver->number)[receiver->number];
    release(k, note->start);
    note->start = NULL;
    if (from->step != NULL && push_release(k, message->connection, end) < 0)
        return tutti_nomem(err);
    if (target != NULL) {
        target->end = end;
        end->ref_count++;
    }
    if (k->rank_end != NULL)
        join(k->rank_end + (size_t)from->rank * k->chain_count, end->at, k->chain_count);
    release(k, end);
    return 0;
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* A rank has begun if any of its chains is known to have done anything. */
static int check_barrier(struct clocks *k, struct tutti_err *err)
{
    const struct tutti_dry_run *run = k->run;
    uint32_t n = run->schedule->rank_count;

    for (uint32_t i = 0; i < run->chain_count; i++)
        join(k->rank_end + (size_t)run->chains[i].rank * k->chain_count, now_of(k, i),
             k->chain_count);
    for (uint32_t rank = 0; rank < n; rank++) {
        uint32_t i = 0;

        for (uint32_t other = 0; other < n; other++) {
            bool begun = other == rank;

            for (; i < run->chain_count && run->chains[i].rank == other; i++)
                begun |= k->rank_end[(size_t)rank * k->chain_count + i] > 0;
            if (!begun)
                return tutti_fail(err, TUTTI_ECHECK,
                                  "rank %u may end before rank %u has begun: none of its steps "
                                  "waits for it",
                                  rank, other);
        }
    }
    return 0;
}

/* A buffer without accesses; of state, in segments that end where atomic regions do. */
static int init_map(const struct tutti_schedule *s, struct tutti_access_map *map, uint64_t bytes,
                    bool state)
{
    map->items = calloc(4, sizeof(*map->items));
    if (map->items == NULL)
        return -TUTTI_ENOMEM;
    map->capacity = 4;
    map->items[0].end = bytes;
    map->count = bytes > 0;
    for (uint32_t i = 0; state && i < s->atomic_count && map->count > 0; i++) {
        const struct tutti_region *a = &s->atomics[i];
        uint64_t end = a->offset + a->bytes;

        if ((a->offset < bytes && tutti_access_split(map, a->offset) == SIZE_MAX) ||
            (end < bytes && tutti_access_split(map, end) == SIZE_MAX))
            return -TUTTI_ENOMEM;
    }
    return 0;
}

static int init_maps(struct clocks *k, struct tutti_err *err)
{
    const struct tutti_schedule *s = k->run->schedule;
    struct tutti_buf_sizes sizes;

    k->maps = calloc((size_t)s->rank_count * MAPS, sizeof(*k->maps));
    if (k->maps == NULL)
        return tutti_nomem(err);
    for (uint32_t rank = 0; rank < s->rank_count; rank++) {
        struct tutti_access_map *maps = &k->maps[(size_t)rank * MAPS];

        tutti_schedule_buf_sizes(s, rank, &sizes);
        if (init_map(s, &maps[0], sizes.out_bytes, false) < 0 ||
            init_map(s, &maps[1], sizes.scratch_bytes, false) < 0 ||
            init_map(s, &maps[2], sizes.state_bytes, true) < 0)
            return tutti_nomem(err);
    }
    return 0;
}

static int init(struct clocks *k, bool barrier, struct tutti_err *err)
{
    uint32_t n = k->run->schedule->rank_count;

    for (uint32_t i = 0; i < k->chain_count; i++)
        if (k->run->chains[i].step_count >= UINT32_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "rank %u, lane %u has 2^32 steps or more",
                              k->run->chains[i].rank, k->run->chains[i].lane);
    if (k->chain_count > CHAINS_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%u' lanes with steps over all ranks are too many to check (up to %d)",
                          k->chain_count, CHAINS_MAX);
    k->now = tutti_arena_take(k->arena, (size_t)k->chain_count * k->chain_count, sizeof(*k->now));
    if (k->now == NULL)
        return tutti_nomem(err);
    if (barrier) {
        k->rank_end = tutti_arena_take(k->arena, (size_t)n * k->chain_count, sizeof(*k->now));
        if (k->rank_end == NULL)
            return tutti_nomem(err);
    }
    return init_maps(k, err);
}

static void free_maps(struct clocks *k)
{
    for (size_t i = 0; k->maps != NULL && i < (size_t)k->run->schedule->rank_count * MAPS; i++)
        free(k->maps[i].items);
    free(k->maps);
}

static int play(struct clocks *k, struct tutti_dry_run *run, bool barrier, struct tutti_err *err)
{
    static const struct tutti_dry_run_ops ops = {.step = clock_step, .complete = clock_complete};
    int status = init(k, barrier, err);

    if (status == 0)
        status = collect_targets(k, err);
    if (status == 0)
        status = tutti_dry_run_play(run, &ops, k, err);
    if (status == 0 && barrier)
        status = check_barrier(k, err);
    free_maps(k);
    return status;
}

int tutti_clock_check(const struct tutti_schedule *flat, bool barrier, struct tutti_err *err)
{
    struct clocks k = {.arena = tutti_arena_new()};
    struct tutti_dry_run *run = NULL;
    int status = k.arena == NULL ? tutti_nomem(err) : tutti_dry_run_new(flat, &run, err);

    if (status == 0) {
        k.run = run;
        k.chain_count = run->chain_count;
        status = play(&k, run, barrier, err);
    }
    tutti_dry_run_free(run);
    tutti_arena_free(k.arena);
    return status;
}
