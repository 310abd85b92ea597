/* One rank of the threads backend: moves and reduces data straight from the sender's memory. */
#include "runtime/exec/threads/stage.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/kernels.h"
#include "runtime/status.h"

enum {
    /* After this much work the stage reports what it has, so that the engine can post SENDs of
     * other lanes before the stage goes on: about a microsecond's worth. */
    WORK_BYTES_BEFORE_REPORT = 16 << 10,
    CHAIN_MAX = 8,
};

/* REDUCEs of one result that have been reported and not yet done, because the next of them may come
 * at once: then all operands are read in one pass, and the result written once. Each has consumed a
 * fused message, released when it is done. */
struct chain {
    struct tutti_step step; /* of the last */
    uint64_t index;
    const void *acc;
    const void *srcs[CHAIN_MAX];
    struct tutti_wire *wires[CHAIN_MAX];
    uint32_t length; /* 0: nothing is put off */
};

struct tutti_place {
    struct tutti_post post; /* the posted step */
    tutti_ps start_ps;      /* COMPUTE: when it began; others: if timed */
    bool started;           /* COMPUTE: the clock runs; SEND: has its slot, and is to be reported */
    struct tutti_wire *out; /* the wire of the last SEND of this lane */
    struct tutti_wire *in;  /* of the last RECV */
    struct tutti_slot *fused;     /* a message that a fused RECV has only looked at */
    struct tutti_step fused_step; /* that RECV */
    struct chain chain;
    const struct tutti_push *push;     /* the next in this lane */
    const struct tutti_push *push_end; /* past the last */
    /* The SENDs of the last push that are still to come: bit i of `pushed` is set if the bytes of
     * targets[i] lie where they will be received. */
    const struct tutti_push_target *targets;
    const struct tutti_push_target *targets_end;
    uint32_t pushed;
};

static char *at(const struct tutti_thread_stage *stage, unsigned buf, uint64_t offset)
{
    return stage->bufs[buf] + offset;
}

static tutti_ps time_of(const struct tutti_thread_stage *stage)
{
    return stage->timed ? tutti_hall_now(stage->hall) : 0;
}

static void copy(const struct tutti_thread_stage *stage, void *dst, const void *src, uint64_t bytes)
{
    if (bytes == 0)
        return;
    if (bytes >= stage->large_bytes)
        tutti_copy_stream(dst, src, bytes);
    else
        memmove(dst, src, bytes);
}

/* ---- messages ---- */

static void watch(struct tutti_thread_stage *stage, struct tutti_wire *wire)
{
    if (wire->watched)
        return;
    wire->watched = true;
    stage->watched[stage->watched_count++] = wire;
}

/* Whether the SEND about to get its slot has been written to its destination already. */
static bool is_pushed(struct tutti_place *place)
{
    bool pushed;

    if (place->targets == place->targets_end || place->targets->step != place->post.index)
        return false;
    pushed = (place->pushed & 1) != 0;
    place->pushed >>= 1;
    place->targets++;
    return pushed;
}

static bool try_send(struct tutti_thread_stage *stage, struct tutti_place *place)
{
    const struct tutti_step *step = place->post.step;
    struct tutti_wire *wire = place->out;
    struct tutti_slot *slot;

    /* Slots come free only when their SEND is reported: `ended_count` is the engine's view. */
    if (wire->sent_count - wire->ended_count == wire->slot_count)
        return false;
    slot = &wire->slots[wire->sent_slot];
    wire->sent_slot = wire->sent_slot + 1 == wire->slot_count ? 0 : wire->sent_slot + 1;
    wire->sent_count++;
    slot->data = is_pushed(place) ? NULL : at(stage, step->src_buf, step->src_offset);
    slot->bytes = step->bytes;
    slot->step = place->post.index;
    slot->start_ps = time_of(stage);
    atomic_store(&slot->serial, wire->sent_count);
    tutti_hall_wake(stage->hall, wire->to);
    watch(stage, wire);
    return true;
}

/* The message that the lane's RECV waits for, or NULL. */
static struct tutti_slot *arrived(const struct tutti_wire *wire)
{
    struct tutti_slot *slot = &wire->slots[wire->taken_slot];

    return atomic_load(&slot->serial) == wire->taken_count + 1 ? slot : NULL;
}

/* The sender may write the bytes of the oldest message again. */
static void release(struct tutti_thread_stage *stage, struct tutti_wire *wire)
{
    wire->taken_slot = wire->taken_slot + 1 == wire->slot_count ? 0 : wire->taken_slot + 1;
    wire->taken_count++;
    atomic_store(&wire->released_count, wire->taken_count);
    tutti_hall_wake(stage->hall, wire->from);
}

/* A fused message that its REDUCE has not consumed is stored after all, as without FUSE. */
static void unfuse(struct tutti_thread_stage *stage, struct tutti_place *place)
{
    const struct tutti_step *step = &place->fused_step;

    copy(stage, at(stage, step->dst_buf, step->dst_offset), place->fused->data, step->bytes);
    place->fused = NULL;
    release(stage, place->in);
}

static int try_recv(struct tutti_thread_stage *stage, struct tutti_place *place,
                    struct tutti_err *err)
{
    const struct tutti_step *step = place->post.step;
    struct tutti_slot *slot = arrived(place->in);
    char text[TUTTI_STEP_TEXT_BYTES];

    if (slot == NULL)
        return 0;
    if (slot->bytes != step->bytes)
        return tutti_fail(err, TUTTI_ECHECK,
                          "rank %u, lane %u, step %llu (%s): rank %u sent %llu bytes in its step "
                          "%llu",
                          stage->rank, place->post.lane, (unsigned long long)place->post.index,
                          tutti_step_text(step, text), step->peer, (unsigned long long)slot->bytes,
                          (unsigned long long)slot->step);
    if ((step->flags & TUTTI_STEP_FUSE) != 0) {
        place->fused = slot;
        place->fused_step = *step;
        return 1;
    }
    if (slot->data != NULL) /* else the sender has put it there */
        copy(stage, at(stage, step->dst_buf, step->dst_offset), slot->data, step->bytes);
    release(stage, place->in);
    return 1;
}

/* ---- work without messages ---- */

/* avg divides where the result is complete; 0: no division here. */
static uint32_t divisor(const struct tutti_thread_stage *stage, const struct tutti_step *step)
{
    return (step->flags & TUTTI_STEP_LAST) != 0 ? stage->schedule->rank_count : 0;
}

static bool reads_fused(const struct tutti_place *place, const struct tutti_step *step)
{
    return step->kind == TUTTI_REDUCE && step->src_buf == place->fused_step.dst_buf &&
           step->src_offset == place->fused_step.dst_offset &&
           step->bytes == place->fused_step.bytes;
}

/* Adds to dsts[0 .. *count) the receivers' landings of the result of REDUCE `index`, as far as
 * their ranks have begun this iteration. */
static void add_landings(struct tutti_thread_stage *stage, struct tutti_place *place,
                         uint64_t index, void **dsts, uint32_t *count)
{
    const struct tutti_push *push = place->push;
    uint_fast64_t now =
        atomic_load_explicit(&stage->fellows[stage->rank].iteration, memory_order_relaxed);

    if (push == place->push_end || push->step != index)
        return;
    place->push++;
    place->targets = stage->pushes->targets + push->target_first;
    place->targets_end = place->targets + push->target_count;
    place->pushed = 0;
    for (uint32_t i = 0; i < push->target_count; i++) {
        const struct tutti_push_target *target = &place->targets[i];
        struct tutti_fellow *fellow = &stage->fellows[target->to];

        if (atomic_load_explicit(&fellow->iteration, memory_order_acquire) < now)
            continue;
        dsts[(*count)++] = fellow->out + target->offset;
        place->pushed |= UINT32_C(1) << i;
    }
}

/* dst = (acc op srcs[0]) op srcs[1] ..., ending with REDUCE `index`, whose step this is. */
static void reduce(struct tutti_thread_stage *stage, struct tutti_place *place,
                   const struct tutti_step *step, uint64_t index, const void *acc,
                   const void *const *srcs, uint32_t src_count)
{
    const struct tutti_contract *contract = &stage->schedule->contract;
    void *dsts[1 + TUTTI_PUSH_TARGETS_MAX] = {at(stage, step->dst_buf, step->dst_offset)};
    struct tutti_spread spread = {
        .dtype = contract->dtype,
        .op = contract->op,
        .count = step->bytes / tutti_dtype_bytes(contract->dtype),
        .acc = acc,
        .srcs = srcs,
        .dsts = dsts,
        .src_count = src_count,
        .dst_count = 1,
        .divide_by = divisor(stage, step),
        .stream = step->bytes >= stage->large_bytes,
    };

    add_landings(stage, place, index, dsts, &spread.dst_count);
    /* What has been pushed is not read again soon, so the size of the whole output counts. */
    if (spread.dst_count > 1 && stage->schedule->out_bytes / 2 >= stage->large_bytes)
        spread.stream = true;
    if (step->bytes > 0)
        tutti_reduce_spread(&spread);
}

/* Does what has been put off. */
static void settle(struct tutti_thread_stage *stage, struct tutti_place *place)
{
    struct chain *chain = &place->chain;

    if (chain->length == 0)
        return;
    reduce(stage, place, &chain->step, chain->index, chain->acc, chain->srcs, chain->length);
    for (uint32_t i = 0; i < chain->length; i++)
        release(stage, chain->wires[i]);
    chain->length = 0;
    stage->chain_count--;
}

/* Whether the posted step may come before what has been put off in its lane is done. */
static bool goes_with(const struct chain *chain, const struct tutti_place *place,
                      const struct tutti_step *step)
{
    if (step->kind == TUTTI_REDUCE)
        return place->fused != NULL && reads_fused(place, step) &&
               step->acc_buf == chain->step.dst_buf && step->acc_offset == chain->step.dst_offset &&
               step->dst_buf == chain->step.dst_buf && step->dst_offset == chain->step.dst_offset &&
               step->bytes == chain->step.bytes;
    if (step->kind != TUTTI_RECV || (step->flags & TUTTI_STEP_FUSE) == 0 ||
        chain->length == CHAIN_MAX)
        return false;
    for (uint32_t i = 0; i < chain->length; i++) {
        if (chain->wires[i]->from == step->peer) /* its slot is not given back yet */
            return false;
    }
    return true;
}

static void try_reduce(struct tutti_thread_stage *stage, struct tutti_place *place)
{
    const struct tutti_step *step = place->post.step;
    const void *acc = at(stage, step->acc_buf, step->acc_offset);
    const void *src = at(stage, step->src_buf, step->src_offset);
    struct chain *chain = &place->chain;

    if (place->fused == NULL) {
        reduce(stage, place, step, place->post.index, acc, &src, 1);
        return;
    }
    if (chain->length == 0) {
        chain->acc = acc;
        stage->chain_count++;
    }
    chain->step = *step;
    chain->index = place->post.index;
    chain->srcs[chain->length] = place->fused->data;
    chain->wires[chain->length++] = place->in;
    place->fused = NULL;
    /* The times of a record are those of the steps; and what is complete is not put off. */
    if (stage->timed || (step->flags & TUTTI_STEP_LAST) != 0)
        settle(stage, place);
}

static bool try_compute(const struct tutti_thread_stage *stage, struct tutti_place *place)
{
    tutti_ps now_ps = tutti_hall_now(stage->hall);

    if (!place->started) {
        place->started = true;
        place->start_ps = now_ps;
    }
    return now_ps - place->start_ps >= place->post.step->duration_ps;
}

/* 1: the step has finished (a SEND: started), 0: not yet, or a negative status. */
static int try_step(struct tutti_thread_stage *stage, struct tutti_place *place,
                    struct tutti_err *err)
{
    const struct tutti_step *step = place->post.step;
    const struct tutti_contract *contract = &stage->schedule->contract;

    switch (step->kind) {
    case TUTTI_SEND:
        return try_send(stage, place);
    case TUTTI_RECV:
        return try_recv(stage, place, err);
    case TUTTI_REDUCE:
        try_reduce(stage, place);
        return 1;
    case TUTTI_COPY:
        copy(stage, at(stage, step->dst_buf, step->dst_offset),
             at(stage, step->src_buf, step->src_offset), step->bytes);
        if (divisor(stage, step) > 0)
            tutti_finish(contract->dtype, contract->op, at(stage, step->dst_buf, step->dst_offset),
                         step->bytes / tutti_dtype_bytes(contract->dtype), divisor(stage, step));
        return 1;
    default:
        assert(step->kind == TUTTI_COMPUTE);
        return try_compute(stage, place);
    }
}

static void settle_all(struct tutti_thread_stage *stage)
{
    for (uint32_t i = 0; stage->chain_count > 0 && i < stage->schedule->lane_count; i++)
        settle(stage, &stage->places[i]);
}

/* ---- the stage ---- */

static int post(void *data, const struct tutti_post *post, struct tutti_err *err)
{
    struct tutti_thread_stage *stage = data;
    struct tutti_place *place = &stage->places[post->lane];
    uint32_t peer = post->step->peer;

    (void)err;
    if ((post->step->flags & TUTTI_STEP_DEP) != 0)
        settle_all(stage);
    else if (place->chain.length > 0 && !goes_with(&place->chain, place, post->step))
        settle(stage, place);
    if (place->fused != NULL && !reads_fused(place, post->step))
        unfuse(stage, place);
    place->post = *post;
    place->started = false;
    if (post->step->kind == TUTTI_SEND) {
        if (place->out == NULL || place->out->to != peer)
            place->out = tutti_thread_wires_find(stage->wires, stage->rank, peer, post->lane);
        assert(place->out != NULL);
        place->started = try_send(stage, place);
    } else {
        if (post->step->kind == TUTTI_RECV && (place->in == NULL || place->in->from != peer))
            place->in = tutti_thread_wires_find(stage->wires, peer, stage->rank, post->lane);
        place->start_ps = time_of(stage);
    }
    stage->busy[stage->busy_count++] = post->lane;
    return 0;
}

static void report(const struct tutti_thread_stage *stage, const struct tutti_place *place,
                   struct tutti_done *done)
{
    *done = (struct tutti_done){
        .rank = stage->rank,
        .lane = place->post.lane,
        .index = place->post.index,
        .what = place->post.step->kind == TUTTI_SEND ? TUTTI_DONE_STARTED : TUTTI_DONE_FINISHED,
        .start_ps = place->start_ps,
        .end_ps = time_of(stage),
    };
}

/* One look at the steps under way in this rank's lanes. */
static int look_at_lanes(struct tutti_thread_stage *stage, struct tutti_done *done, uint32_t max,
                         struct tutti_err *err)
{
    uint64_t work_bytes = 0;
    uint32_t count = 0;
    uint32_t kept = 0;
    uint32_t i = 0;

    for (; i < stage->busy_count && count < max && work_bytes < WORK_BYTES_BEFORE_REPORT; i++) {
        struct tutti_place *place = &stage->places[stage->busy[i]];
        bool is_send = place->post.step->kind == TUTTI_SEND;
        int status = is_send && place->started ? 1 : try_step(stage, place, err);

        if (status < 0)
            return status;
        if (status == 0) {
            stage->busy[kept++] = stage->busy[i];
            continue;
        }
        report(stage, place, &done[count++]);
        if (!is_send && place->post.step->kind != TUTTI_COMPUTE)
            work_bytes += place->post.step->bytes;
    }
    for (; i < stage->busy_count; i++)
        stage->busy[kept++] = stage->busy[i];
    stage->busy_count = kept;
    return (int)count;
}

/* One look at the messages that receivers have released. */
static int look_at_wires(struct tutti_thread_stage *stage, struct tutti_done *done, uint32_t max)
{
    uint32_t count = 0;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < stage->watched_count; i++) {
        struct tutti_wire *wire = stage->watched[i];
        uint64_t released = atomic_load(&wire->released_count);

        while (wire->ended_count < released && count < max) {
            const struct tutti_slot *slot = &wire->slots[wire->ended_slot];

            done[count++] = (struct tutti_done){
                .rank = stage->rank,
                .lane = wire->lane,
                .index = slot->step,
                .what = TUTTI_DONE_FINISHED,
                .start_ps = slot->start_ps,
                .end_ps = time_of(stage),
            };
            wire->ended_count++;
            wire->ended_slot = wire->ended_slot + 1 == wire->slot_count ? 0 : wire->ended_slot + 1;
        }
        wire->watched = wire->ended_count < wire->sent_count;
        if (wire->watched)
            stage->watched[kept++] = wire;
    }
    stage->watched_count = kept;
    return (int)count;
}

/* When the first COMPUTE under way ends; 0: there is none. */
static tutti_ps next_end(const struct tutti_thread_stage *stage)
{
    tutti_ps first_ps = 0;

    for (uint32_t i = 0; i < stage->busy_count; i++) {
        const struct tutti_place *place = &stage->places[stage->busy[i]];
        tutti_ps end_ps;

        if (place->post.step->kind != TUTTI_COMPUTE)
            continue;
        end_ps = tutti_hall_after(place->start_ps, place->post.step->duration_ps);
        if (first_ps == 0 || end_ps < first_ps)
            first_ps = end_ps;
    }
    return first_ps;
}

static int gave_up(const struct tutti_thread_stage *stage, int status, struct tutti_err *err)
{
    char text[512];
    char time[TUTTI_UNIT_TEXT_BYTES];

    tutti_engine_waiting_for(stage->engine, text, sizeof(text));
    if (status == -TUTTI_ETIME)
        return tutti_fail(err, TUTTI_ETIME, "deadline of %s passed: %s has not finished",
                          tutti_print_time(stage->hall->deadline_ps, time), text);
    if (status == -TUTTI_ECHECK)
        return tutti_fail(err, TUTTI_ECHECK, "deadlock: %s can never finish", text);
    return tutti_fail(err, TUTTI_EIO, "broken off: %s", text);
}

static int poll(void *data, struct tutti_done *done, uint32_t max, struct tutti_err *err)
{
    struct tutti_thread_stage *stage = data;
    struct tutti_nap nap = {0};
    int count;

    for (;;) {
        int status;

        count = look_at_lanes(stage, done, max, err);
        if (count == 0)
            count = look_at_wires(stage, done, max);
        if (count != 0)
            break;
        if (stage->chain_count > 0) { /* who waits may as well work */
            settle_all(stage);
            continue;
        }
        status = tutti_hall_rest(stage->hall, stage->rank, &nap, next_end(stage));
        if (status < 0) {
            count = gave_up(stage, status, err);
            break;
        }
    }
    tutti_hall_rise(stage->hall, stage->rank, &nap);
    return count;
}

const struct tutti_stage_ops tutti_thread_stage_ops = {
    .size = sizeof(struct tutti_stage_ops), .post = post, .poll = poll};

int tutti_thread_stage_open(struct tutti_thread_stage *stage, struct tutti_err *err)
{
    uint32_t lane_count = stage->schedule->lane_count;
    size_t out_count = stage->wires->out_counts[stage->rank];

    stage->places = calloc(lane_count, sizeof(stage->places[0]));
    stage->busy = calloc(lane_count, sizeof(stage->busy[0]));
    stage->watched = calloc(out_count + 1, sizeof(stage->watched[0]));
    if (stage->places == NULL || stage->busy == NULL || stage->watched == NULL) {
        tutti_thread_stage_close(stage);
        return tutti_nomem(err);
    }
    return 0;
}

void tutti_thread_stage_begin(struct tutti_thread_stage *stage)
{
    const struct tutti_pushes *pushes = stage->pushes;
    struct tutti_fellow *me = &stage->fellows[stage->rank];

    for (uint32_t i = 0; pushes->lane_first != NULL && i < stage->schedule->lane_count; i++) {
        const size_t *first =
            &pushes->lane_first[(size_t)stage->rank * stage->schedule->lane_count + i];

        stage->places[i].push = pushes->pushes + first[0];
        stage->places[i].push_end = pushes->pushes + first[1];
    }
    atomic_store_explicit(&me->iteration,
                          atomic_load_explicit(&me->iteration, memory_order_relaxed) + 1,
                          memory_order_release);
}

void tutti_thread_stage_settle(struct tutti_thread_stage *stage)
{
    for (uint32_t i = 0; i < stage->schedule->lane_count; i++) {
        settle(stage, &stage->places[i]);
        if (stage->places[i].fused != NULL)
            unfuse(stage, &stage->places[i]);
    }
}

void tutti_thread_stage_close(struct tutti_thread_stage *stage)
{
    free(stage->places);
    free(stage->busy);
    free(stage->watched);
    stage->places = NULL;
    stage->busy = NULL;
    stage->watched = NULL;
}
