/* Finds the levels of a schedule by a dry run; see levels.h. */
#include "runtime/exec/levels.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "runtime/arena.h"
#include "runtime/schedule/dry_run.h"
#include "runtime/status.h"

/* A point in the order of play: level << 32 | stage. */
typedef uint64_t point;

static point point_of(uint32_t level, uint32_t stage)
{
    return (point)level << 32 | stage;
}

static uint32_t level_of(point at)
{
    return (uint32_t)(at >> 32);
}

static void grow_to(point *at, point at_least)
{
    *at = *at > at_least ? *at : at_least;
}

/* Bytes that a rank touches in a level. */
struct access {
    uint64_t offset;
    uint64_t end;
    uint32_t level;
    uint8_t buf;
    bool writes;
};

/* The last accesses of a rank. A RECV that finds more in its level than are kept goes to the next
 * level: right, if late. */
enum { ACCESSES_MAX = 128 };
struct accesses {
    struct access items[ACCESSES_MAX];
    uint64_t count;           /* ever noted */
    uint32_t forgotten_level; /* the highest of those that are not kept any more */
};

/* Points at which the messages of a connection completed, oldest first: a SEND that had to wait for
 * a slot comes after the one that gave it back. */
struct release {
    point at;
    struct release *next;
};
struct releases {
    struct release *first;
    struct release *last;
};

struct finding {
    struct tutti_levels *levels;
    point *now;  /* [chain]: up to where its steps have gone; SENDs: have started */
    point *ends; /* [step]: when it has completed; of a SEND on its way: when it started */
    struct accesses *accesses; /* [rank] */
    struct release *free_releases;
};

static uint64_t step_number(const struct tutti_dry_run *run, const struct finding *f, uint32_t rank,
                            uint32_t lane, uint64_t index)
{
    return f->levels->step_first[(uint64_t)rank * run->schedule->lane_count + lane] + index;
}

static void set_stage(struct finding *f, uint64_t number, point at)
{
    f->levels->stages[number] =
        (struct tutti_level_stage){.level = level_of(at), .stage = (uint32_t)at};
    if (level_of(at) >= f->levels->level_count)
        f->levels->level_count = level_of(at) + 1;
}

/* ---- what is touched ---- */

static void note(struct accesses *accesses, const struct access *access)
{
    struct access *place = &accesses->items[accesses->count % ACCESSES_MAX];

    if (access->offset == access->end)
        return;
    if (accesses->count >= ACCESSES_MAX && place->level > accesses->forgotten_level)
        accesses->forgotten_level = place->level;
    *place = *access;
    accesses->count++;
}

static struct access access_to(uint8_t buf, uint64_t offset, uint64_t bytes, uint32_t level,
                               bool writes)
{
    return (struct access){
        .offset = offset, .end = offset + bytes, .level = level, .buf = buf, .writes = writes};
}

/* Whether the rank touches bytes that a RECV writes, in the same level. */
static bool is_touched(const struct accesses *accesses, const struct access *by)
{
    uint64_t kept = accesses->count < ACCESSES_MAX ? accesses->count : ACCESSES_MAX;

    if (accesses->count > ACCESSES_MAX && accesses->forgotten_level >= by->level)
        return true;
    for (uint64_t i = 0; i < kept; i++) {
        const struct access *one = &accesses->items[i];

        if (one->level == by->level && one->buf == by->buf && one->offset < by->end &&
            by->offset < one->end)
            return true;
    }
    return false;
}

static void note_region(struct accesses *accesses, const struct tutti_region *region,
                        const struct tutti_step *step, uint32_t level, bool writes)
{
    struct tutti_region at = tutti_region_at(region, step);
    struct access access = access_to(at.buf, at.offset, at.bytes, level, writes);

    note(accesses, &access);
}

static void note_work(const struct tutti_schedule *schedule, struct accesses *accesses,
                      const struct tutti_step *step, uint32_t level)
{
    const struct tutti_work *work = step->peer == 0 ? NULL : &schedule->work[step->peer - 1];

    for (uint32_t i = 0; work != NULL && i < work->read_count; i++)
        note_region(accesses, &work->reads[i], step, level, false);
    for (uint32_t i = 0; work != NULL && i < work->write_count; i++)
        note_region(accesses, &work->writes[i], step, level, true);
}

/* REDUCE and COPY; `fused`: the source is what a RECV with FUSE brought. */
static void note_local(struct accesses *accesses, const struct tutti_step *step, uint32_t level,
                       bool fused)
{
    struct access src = access_to(step->src_buf, step->src_offset, step->bytes, level, false);
    struct access acc = access_to(step->acc_buf, step->acc_offset, step->bytes, level, false);
    struct access dst = access_to(step->dst_buf, step->dst_offset, step->bytes, level, true);

    if (!fused)
        note(accesses, &src);
    if (step->kind == TUTTI_REDUCE)
        note(accesses, &acc);
    note(accesses, &dst);
}

/* ---- the run ---- */

/* The slot that this SEND takes was given back by the oldest message that completed. */
static void take_slot(struct finding *f, const struct tutti_dry_run_connection *c, point *now)
{
    struct releases *released = c->payload;
    struct release *release = released->first;

    grow_to(now, release->at);
    released->first = release->next;
    release->next = f->free_releases;
    f->free_releases = release;
}

static void play_send(struct finding *f, const struct tutti_dry_run *run, uint64_t number,
                      const struct tutti_dry_run_message *message, point *now)
{
    if (message->connection->sent_count > run->schedule->slot_count)
        take_slot(f, message->connection, now);
    f->ends[number] = *now; /* so far: it ends when it is received */
}

static void play_recv(struct finding *f, const struct tutti_dry_run *run,
                      const struct tutti_dry_run_chain *chain, uint64_t number,
                      const struct tutti_dry_run_message *message)
{
    const struct tutti_dry_run_chain *from = message->connection->from;
    const struct tutti_step *step = chain->step;
    uint64_t send = step_number(run, f, from->rank, from->lane, message->index);
    point *now = &f->now[chain->number];
    point at = point_of(level_of(f->ends[send]) + 1, 0);
    bool fuse = (step->flags & TUTTI_STEP_FUSE) != 0;
    struct access dst;
    struct access src;

    if (*now >= at) {
        at = point_of(level_of(*now), 0);
        dst = access_to(step->dst_buf, step->dst_offset, step->bytes, level_of(at), true);
        if (level_of(at) == 0 || (!fuse && is_touched(&f->accesses[chain->rank], &dst)))
            at = point_of(level_of(at) + 1, 0);
    }
    grow_to(now, at);
    set_stage(f, number, at);
    set_stage(f, send, at);
    f->ends[number] = *now;
    src = access_to(message->step.src_buf, message->step.src_offset, step->bytes, level_of(at),
                    false);
    dst = access_to(step->dst_buf, step->dst_offset, step->bytes, level_of(at), true);
    note(&f->accesses[from->rank], &src);
    if (!fuse)
        note(&f->accesses[chain->rank], &dst);
}

static void play_local(struct finding *f, const struct tutti_dry_run *run,
                       const struct tutti_dry_run_chain *chain, uint64_t number)
{
    const struct tutti_step *step = chain->step;
    struct accesses *accesses = &f->accesses[chain->rank];
    point *now = &f->now[chain->number];

    if (step->kind == TUTTI_COMPUTE) {
        *now += 1;
        note_work(run->schedule, accesses, step, level_of(*now));
        set_stage(f, number, *now);
    } else if (step->bytes > 0) {
        *now += 1;
        note_local(accesses, step, level_of(*now), chain->fused != NULL);
        set_stage(f, number, *now);
    } else {
        set_stage(f, number, point_of(level_of(*now), 0));
    }
    f->ends[number] = *now;
}

static int play_step(void *user, struct tutti_dry_run *run, struct tutti_dry_run_chain *chain,
                     struct tutti_dry_run_message *message, struct tutti_err *err)
{
    struct finding *f = user;
    const struct tutti_step *step = chain->step;
    uint64_t number = step_number(run, f, chain->rank, chain->lane, chain->index);
    point *now = &f->now[chain->number];

    (void)err;
    if ((step->flags & TUTTI_STEP_DEP) != 0)
        grow_to(now, f->ends[step_number(run, f, chain->rank, step->dep_lane, step->dep_step)]);
    if (step->kind == TUTTI_SEND)
        play_send(f, run, number, message, now);
    else if (step->kind == TUTTI_RECV)
        play_recv(f, run, chain, number, message);
    else
        play_local(f, run, chain, number);
    return 0;
}

static int play_complete(void *user, struct tutti_dry_run *run,
                         struct tutti_dry_run_chain *receiver,
                         struct tutti_dry_run_message *message, struct tutti_err *err)
{
    struct finding *f = user;
    struct tutti_dry_run_connection *c = message->connection;
    struct releases *released = c->payload;
    struct release *release = f->free_releases;

    f->ends[step_number(run, f, c->from->rank, c->from->lane, message->index)] =
        f->now[receiver->number];
    if (released == NULL)
        c->payload = released = tutti_arena_take(run->arena, 1, sizeof(*released));
    if (release != NULL)
        f->free_releases = release->next;
    else
        release = tutti_arena_take(run->arena, 1, sizeof(*release));
    if (released == NULL || release == NULL)
        return tutti_nomem(err);
    *release = (struct release){.at = f->now[receiver->number]};
    if (released->first == NULL)
        released->first = release;
    else
        released->last->next = release;
    released->last = release;
    return 0;
}

static int find(struct tutti_levels *levels, struct tutti_dry_run *run, struct tutti_err *err)
{
    static const struct tutti_dry_run_ops ops = {.step = play_step, .complete = play_complete};
    uint32_t lane_count = run->schedule->lane_count;
    struct finding f = {.levels = levels};
    uint64_t step_count;

    levels->lane_total = run->schedule->rank_count * lane_count;
    levels->level_count = 1;
    levels->step_first = calloc((size_t)levels->lane_total + 1, sizeof(levels->step_first[0]));
    if (levels->step_first == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < run->chain_count; i++)
        levels->step_first[run->chains[i].rank * lane_count + run->chains[i].lane + 1] =
            run->chains[i].step_count;
    for (uint32_t i = 0; i < levels->lane_total; i++)
        levels->step_first[i + 1] += levels->step_first[i];
    step_count = levels->step_first[levels->lane_total];
    levels->stages = calloc((size_t)step_count + 1, sizeof(levels->stages[0]));
    f.now = tutti_arena_take(run->arena, run->chain_count + 1, sizeof(f.now[0]));
    f.ends = tutti_arena_take(run->arena, (size_t)step_count + 1, sizeof(f.ends[0]));
    f.accesses = tutti_arena_take(run->arena, run->schedule->rank_count, sizeof(f.accesses[0]));
    if (levels->stages == NULL || f.now == NULL || f.ends == NULL || f.accesses == NULL)
        return tutti_nomem(err);
    return tutti_dry_run_play(run, &ops, &f, err);
}

int tutti_levels_open(struct tutti_levels *levels, const struct tutti_schedule *schedule,
                      struct tutti_err *err)
{
    struct tutti_levels made = {0};
    struct tutti_dry_run *run = NULL;
    int status = tutti_dry_run_new(schedule, &run, err);

    if (status == 0)
        status = find(&made, run, err);
    tutti_dry_run_free(run);
    if (status < 0) {
        tutti_levels_close(&made);
        return status;
    }
    *levels = made;
    return 0;
}

void tutti_levels_close(struct tutti_levels *levels)
{
    free(levels->step_first);
    free(levels->stages);
    *levels = (struct tutti_levels){0};
}
