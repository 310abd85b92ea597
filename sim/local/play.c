/* Ranks as threads on a virtual clock: each does one piece of work at a time, in the order in which
 * the backend `threads` would. See sim/local.h. */
#include <assert.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "sim/local/stage.h"

enum { WARMUPS = 2 }; /* plays until the caches hold what every play leaves there */

static const uint64_t steps_max = UINT64_C(1) << 22;
static const uint64_t wires_max = UINT64_C(1) << 20;

/* ---- what may happen when -------------------------------------------------------------------- */

static double when_lane(const struct tutti_local_play *play, uint32_t rank, uint32_t lane)
{
    const struct local_place *place = local_place_of(play, rank, lane);
    const struct tutti_step *step = place->post.step;
    const struct local_wire *wire = tutti_local_remote_of(play, rank, place);

    if (wire != NULL)
        return tutti_local_remote_when(wire);
    switch (step->kind) {
    case TUTTI_SEND:
        return place->is_sent ? place->start_ps : LOCAL_NEVER_PS;
    case TUTTI_RECV:
        wire = tutti_local_wire_of(&play->messages, step->peer, rank, lane);
        if (wire->remote) /* a fused one: its REDUCE takes what comes */
            return place->start_ps;
        if (wire->sent_count == wire->taken_count)
            return LOCAL_NEVER_PS;
        return wire->messages[wire->taken_count].seen_ps;
    case TUTTI_COMPUTE:
        return place->start_ps + (double)step->duration_ps;
    default:
        return place->start_ps;
    }
}

static double when_released(const struct tutti_local_play *play, uint32_t wire)
{
    const struct local_wire *w = &play->messages.wires[wire];

    if (w->remote)
        return tutti_local_remote_wants(w) ? 0 : tutti_local_remote_ends(play, w);
    if (w->ended_count == w->taken_count)
        return LOCAL_NEVER_PS;
    return w->released_ps[w->ended_count % play->schedule->slot_count];
}

/* When an idle rank will find something to do. */
static double when_rank(const struct tutti_local_play *play, uint32_t rank)
{
    const struct local_rank *r = &play->ranks[rank];
    double first_ps = LOCAL_NEVER_PS;

    for (uint32_t i = 0; i < r->busy_count; i++) {
        double ps = when_lane(play, rank, r->busy[i]);

        first_ps = ps < first_ps ? ps : first_ps;
    }
    for (uint32_t i = 0; i < r->peer_count; i++) {
        double ps = when_released(play, r->peers[i]);

        first_ps = ps < first_ps ? ps : first_ps;
    }
    return first_ps > r->ready_ps ? first_ps : r->ready_ps;
}

/* ---- what happens ---------------------------------------------------------------------------- */

static bool try_send(struct tutti_local_play *play, uint32_t rank, struct local_place *place)
{
    const struct tutti_post *post = &place->post;
    struct local_rank *r = &play->ranks[rank];
    uint32_t n = play->schedule->rank_count;
    uint32_t number = (post->lane * n + rank) * n + post->step->peer;
    struct local_wire *wire = &play->messages.wires[number];

    if (wire->sent_count - wire->ended_count == play->schedule->slot_count)
        return false;
    if (wire->sent_count == wire->ended_count)
        r->peers[r->peer_count++] = number;
    wire->posted_bytes += post->step->bytes;
    wire->messages[wire->sent_count++].seen_ps =
        (r->ready_ps > play->now_ps ? r->ready_ps : play->now_ps) + play->hop_ps;
    return true;
}

static int post(void *data, const struct tutti_post *post, struct tutti_err *err)
{
    struct tutti_local_play *play = data;
    struct local_place *place = local_place_of(play, post->rank, post->lane);
    struct local_rank *r = &play->ranks[post->rank];

    (void)err;
    place->post = *post;
    place->start_ps = r->ready_ps > play->now_ps ? r->ready_ps : play->now_ps;
    place->got_bytes = 0;
    place->is_sent = post->step->kind == TUTTI_SEND && try_send(play, post->rank, place);
    r->busy[r->busy_count++] = post->lane;
    return 0;
}

static void release(struct tutti_local_play *play, struct local_wire *wire)
{
    wire->released_ps[wire->taken_count % play->schedule->slot_count] = play->now_ps + play->hop_ps;
    wire->taken_count++;
}

static void report(struct tutti_local_play *play, uint32_t rank, uint32_t lane, uint64_t index,
                   enum tutti_done_what what, struct tutti_done *done)
{
    *done = (struct tutti_done){.rank = rank,
                                .lane = lane,
                                .index = index,
                                .what = what,
                                .start_ps = (tutti_ps)play->now_ps,
                                .end_ps = (tutti_ps)play->now_ps};
    play->ranks[rank].ready_ps = play->now_ps + play->step_ps;
}

/* The step of lane busy[at] is done. */
static void finish(struct tutti_local_play *play, uint32_t rank, uint32_t at,
                   struct tutti_done *done)
{
    struct local_rank *r = &play->ranks[rank];
    struct local_place *place = local_place_of(play, rank, r->busy[at]);
    const struct tutti_step *step = place->post.step;
    uint32_t lane = r->busy[at];

    play->memory.current[rank] = 0;
    if (step->kind == TUTTI_RECV) {
        struct local_wire *wire = tutti_local_wire_of(&play->messages, step->peer, rank, lane);

        place->from = step->peer;
        place->seen =
            (step->flags & TUTTI_STEP_FUSE) != 0 ? &wire->messages[wire->taken_count] : NULL;
        if (place->seen == NULL)
            release(play, wire);
    } else if (step->kind == TUTTI_REDUCE && place->seen != NULL) {
        release(play, tutti_local_wire_of(&play->messages, place->from, rank, lane));
        place->seen = NULL;
    }
    for (r->busy_count--; at < r->busy_count; at++)
        r->busy[at] = r->busy[at + 1];
    report(play, rank, lane, place->post.index,
           step->kind == TUTTI_SEND ? TUTTI_DONE_STARTED : TUTTI_DONE_FINISHED, done);
}

/* A SEND whose message is gone, and then one that waited for its slot. */
static void end_send(struct tutti_local_play *play, uint32_t rank, uint32_t at,
                     struct tutti_done *done)
{
    struct local_rank *r = &play->ranks[rank];
    uint32_t n = play->schedule->rank_count;
    uint32_t number = r->peers[at];
    uint32_t lane = number / (n * n);
    struct local_wire *wire = &play->messages.wires[number];
    struct local_place *place = local_place_of(play, rank, lane);
    uint64_t index = wire->messages[wire->ended_count++].step;

    if (wire->ended_count == wire->sent_count)
        r->peers[at] = r->peers[--r->peer_count];
    report(play, rank, lane, index, TUTTI_DONE_FINISHED, done);
    for (uint32_t i = 0; i < r->busy_count; i++) {
        if (r->busy[i] != lane || place->post.step->kind != TUTTI_SEND || place->is_sent)
            continue;
        place->is_sent = try_send(play, rank, place);
        place->start_ps = play->ranks[rank].ready_ps;
    }
}

/* A fused RECV from another process, which ends before anything has come. */
static bool looks(const struct tutti_local_play *play, uint32_t rank, uint32_t lane)
{
    const struct tutti_step *step = local_place_of(play, rank, lane)->post.step;

    return step->kind == TUTTI_RECV && (step->flags & TUTTI_STEP_FUSE) != 0 &&
           tutti_local_wire_of(&play->messages, step->peer, rank, lane)->remote;
}

/* What an idle rank does now: lanes first, the oldest post first, as `threads` does. True: `done`
 * is filled; else it works. */
static bool act(struct tutti_local_play *play, uint32_t rank, struct tutti_done *done)
{
    struct local_rank *r = &play->ranks[rank];
    struct local_wire *wire;

    for (uint32_t i = 0; i < r->peer_count; i++) {
        if (!tutti_local_remote_goes_on(&play->messages.wires[r->peers[i]]))
            continue;
        tutti_local_remote_give(play, rank, &play->messages.wires[r->peers[i]]);
        return false;
    }
    for (uint32_t i = 0; i < r->busy_count; i++) {
        uint8_t kind = local_place_of(play, rank, r->busy[i])->post.step->kind;

        if (when_lane(play, rank, r->busy[i]) > play->now_ps)
            continue;
        if (kind != TUTTI_SEND && kind != TUTTI_COMPUTE && !looks(play, rank, r->busy[i])) {
            tutti_local_work_start(play, rank, i);
            if (r->left_ps > 0)
                return false;
            r->working = false;
        }
        finish(play, rank, i, done);
        return true;
    }
    for (uint32_t i = 0; i < r->peer_count; i++) {
        if (when_released(play, r->peers[i]) > play->now_ps)
            continue;
        wire = &play->messages.wires[r->peers[i]];
        if (wire->remote && tutti_local_remote_ends(play, wire) > play->now_ps) {
            tutti_local_remote_give(play, rank, wire);
            return false;
        }
        end_send(play, rank, i, done);
        return true;
    }
    assert(false); /* who has something to do has a lane or a message for it */
    return false;
}

/* The rank for which something happens next, and when. */
static uint32_t next_of(struct tutti_local_play *play, double *ret_ps)
{
    uint32_t next = 0;

    *ret_ps = LOCAL_NEVER_PS;
    tutti_local_work_share(play);
    for (uint32_t i = 0; i < play->schedule->rank_count; i++) {
        const struct local_rank *r = &play->ranks[i];
        double ps = r->working ? play->now_ps + r->left_ps / r->speed : when_rank(play, i);

        if (ps < *ret_ps) {
            *ret_ps = ps;
            next = i;
        }
    }
    return next;
}

/* True: `done` is filled; a piece of a message is no step. */
static bool end_work(struct tutti_local_play *play, uint32_t rank, struct tutti_done *done)
{
    struct local_rank *r = &play->ranks[rank];
    struct local_place *place;
    struct local_wire *remote;

    r->working = false;
    if (r->sending != NULL) {
        tutti_local_remote_gave(play, rank);
        return false;
    }
    place = local_place_of(play, rank, r->busy[r->at]);
    remote = tutti_local_remote_of(play, rank, place);
    if (remote != NULL && !tutti_local_remote_took(place, remote))
        return false;
    if (remote != NULL && place->post.step->kind == TUTTI_REDUCE)
        play->messages.results[(uint64_t)rank * play->schedule->lane_count + place->post.lane]
            .next++;
    finish(play, rank, r->at, done);
    return true;
}

static int poll(void *data, struct tutti_done *done, uint32_t max, struct tutti_err *err)
{
    struct tutti_local_play *play = data;

    (void)err;
    assert(max > 0);
    for (;;) {
        double then_ps;
        uint32_t next = next_of(play, &then_ps);
        struct local_rank *r = &play->ranks[next];

        if (then_ps >= LOCAL_NEVER_PS)
            return 0;
        if (then_ps < play->now_ps)
            then_ps = play->now_ps;
        for (uint32_t i = 0; i < play->schedule->rank_count; i++)
            play->ranks[i].left_ps -= (then_ps - play->now_ps) * play->ranks[i].speed;
        play->now_ps = then_ps;
        if (r->working) {
            if (end_work(play, next, done))
                return 1;
            continue;
        }
        if (act(play, next, done))
            return 1;
    }
}

static const struct tutti_stage_ops stage_ops = {
    .size = sizeof(struct tutti_stage_ops), .post = post, .poll = poll};

/* ---- a play ---------------------------------------------------------------------------------- */

static uint64_t steps_of(const struct tutti_schedule *schedule)
{
    uint64_t count = 0;

    for (uint32_t r = 0; r < schedule->rank_count && count <= steps_max; r++)
        for (uint32_t l = 0; l < schedule->lane_count && count <= steps_max; l++)
            count += tutti_schedule_step_count(schedule, r, l);
    return count;
}

static int take_memory(struct tutti_local_play *play, struct tutti_err *err)
{
    uint32_t n = play->schedule->rank_count;
    uint32_t lanes = play->schedule->lane_count;

    play->ranks = calloc(n, sizeof(*play->ranks));
    play->places = calloc((size_t)n * lanes, sizeof(*play->places));
    if (play->ranks == NULL || play->places == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < n; i++) {
        play->ranks[i].busy = calloc(lanes, sizeof(uint32_t));
        play->ranks[i].peers = calloc((size_t)lanes * n, sizeof(uint32_t));
        if (play->ranks[i].busy == NULL || play->ranks[i].peers == NULL)
            return tutti_nomem(err);
    }
    return 0;
}

int tutti_local_play_open(const struct tutti_schedule *schedule, uint32_t processor_count,
                          struct tutti_local_play **ret, struct tutti_err *err)
{
    struct tutti_local_play *play;
    uint32_t n = schedule->rank_count;
    int status;

    assert(processor_count > 0);
    if (n > TUTTI_LOCAL_RANKS_MAX || (uint64_t)n * n * schedule->lane_count > wires_max ||
        steps_of(schedule) > steps_max)
        return tutti_fail(err, TUTTI_ELACK,
                          "'%s' of %u ranks is too large to be looked at step by step (%d ranks, "
                          "%llu steps)",
                          schedule->name, n, TUTTI_LOCAL_RANKS_MAX, (unsigned long long)steps_max);
    play = calloc(1, sizeof(*play));
    if (play == NULL)
        return tutti_nomem(err);
    play->schedule = schedule;
    play->processor_count =
        processor_count < TUTTI_LOCAL_RANKS_MAX ? processor_count : TUTTI_LOCAL_RANKS_MAX;
    status = take_memory(play, err);
    if (status == 0)
        status = tutti_engine_new(schedule, 0, n, &play->engine, err);
    if (status == 0)
        status = tutti_local_messages_open(schedule, &play->messages, err);
    if (status == 0)
        status = tutti_local_memory_open(schedule, play->processor_count, &play->memory, err);
    if (status < 0) {
        tutti_local_play_close(play);
        return status;
    }
    *ret = play;
    return 0;
}

int tutti_local_play_open_blocks(const struct tutti_cuda_work *work, struct tutti_local_play **ret,
                                 struct tutti_err *err)
{
    struct tutti_local_play *play = calloc(1, sizeof(*play));
    int status =
        play == NULL ? tutti_nomem(err) : tutti_local_blocks_open(work, &play->blocks, err);

    if (status < 0) {
        free(play);
        return status;
    }
    *ret = play;
    return 0;
}

void tutti_local_play_close(struct tutti_local_play *play)
{
    if (play == NULL)
        return;
    if (play->blocks != NULL) {
        tutti_local_blocks_close(play->blocks);
        free(play);
        return;
    }
    for (uint32_t i = 0; play->ranks != NULL && i < play->schedule->rank_count; i++) {
        free(play->ranks[i].busy);
        free(play->ranks[i].peers);
    }
    free(play->ranks);
    free(play->places);
    tutti_engine_free(play->engine);
    tutti_local_messages_close(&play->messages);
    tutti_local_memory_close(&play->memory);
    free(play);
}

static int play_once(struct tutti_local_play *play, struct tutti_err *err)
{
    tutti_local_messages_rewind(&play->messages);
    play->now_ps = 0;
    for (uint32_t i = 0; i < play->schedule->rank_count; i++) {
        play->ranks[i].ready_ps = 0;
        play->ranks[i].busy_count = 0;
        play->ranks[i].peer_count = 0;
        play->ranks[i].working = false;
        play->ranks[i].sending = NULL;
        play->ranks[i].use = 0;
        for (uint32_t l = 0; l < play->schedule->lane_count; l++)
            *local_place_of(play, i, l) = (struct local_place){.seen = NULL};
    }
    return tutti_engine_run(play->engine, &stage_ops, play, NULL, err);
}

int tutti_local_time(struct tutti_local_play *play, const struct tutti_local *local,
                     tutti_ps *ret_ps, struct tutti_err *err)
{
    double launch_us = local->values[TUTTI_LOCAL_LAUNCH_ALONE].value;
    int status = 0;

    if (play->blocks != NULL) {
        launch_us = local->values[TUTTI_LOCAL_BLOCK_LAUNCH].value;
        launch_us += tutti_local_blocks_play(play->blocks, local);
        *ret_ps = (tutti_ps)(launch_us * (double)TUTTI_PS_PER_US);
        return 0;
    }
    if (play->schedule->rank_count > 1)
        launch_us = local->values[TUTTI_LOCAL_LAUNCH].value;
    play->local = local;
    play->hop_ps = local->values[TUTTI_LOCAL_HOP].value * (double)TUTTI_PS_PER_US;
    play->step_ps = local->values[TUTTI_LOCAL_STEP].value * (double)TUTTI_PS_PER_US;
    if (tutti_local_messages_divide(&play->messages, local->process_count, local->direct,
                                    tutti_local_remote_lend_min(play)) < 0)
        return tutti_nomem(err);
    tutti_local_memory_forget(&play->memory);
    for (int i = 0; status == 0 && i <= WARMUPS; i++)
        status = play_once(play, err);
    if (status == 0)
        *ret_ps = (tutti_ps)(play->now_ps + launch_us * (double)TUTTI_PS_PER_US);
    return status;
}
