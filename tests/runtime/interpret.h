/* An oracle for schedules: plays all ranks in one thread, in a random order, reading the source of
 * every message as late as the rules allow, never touching the landing place of a fused RECV. */
#ifndef TUTTI_TESTS_RUNTIME_INTERPRET_H
#define TUTTI_TESTS_RUNTIME_INTERPRET_H

#include "runtime/random.h"
#include "runtime/schedule.h"
#include "tests/test.h"

struct play_message {
    const uint8_t *src;
    uint64_t bytes;
    uint32_t from; /* whose SEND it is, to complete it */
    uint64_t step;
};

struct play_queue { /* one connection: from, to, lane */
    struct play_message *slot;
    uint32_t head;
    uint32_t count;
};

struct play_lane {
    struct tutti_cursor cursor;
    const struct tutti_step *step; /* next to start, NULL at the end */
    uint64_t index;                /* of that step */
    uint8_t *done;                 /* by step: completed */
    uint64_t step_count;
    struct play_message fused; /* received but not yet reduced */
};

struct play {
    const struct tutti_schedule *schedule;
    uint8_t **buf[4]; /* by enum tutti_buf and rank */
    struct play_lane *lanes;
    struct play_queue *queues;
    uint64_t step_count; /* played */
};

__attribute__((unused)) static struct play_lane *play_lane(struct play *play, uint32_t rank,
                                                           uint32_t lane)
{
    return &play->lanes[(size_t)rank * play->schedule->lane_count + lane];
}

static void play_complete_send(struct play *play, const struct play_message *message, uint32_t lane)
{
    play_lane(play, message->from, lane)->done[message->step] = 1;
}

static struct play_queue *play_queue(struct play *play, uint32_t from, uint32_t to, uint32_t lane)
{
    size_t n = play->schedule->rank_count;
    struct play_queue *queue = &play->queues[(lane * n + from) * n + to];

    if (queue->slot == NULL)
        queue->slot = calloc(play->schedule->slot_count, sizeof(*queue->slot));
    return queue;
}

/* Arithmetic of its own: int32 and float32; sum, avg and max. */
static void play_reduce(const struct tutti_contract *contract, void *dst, const void *acc,
                        const void *src, size_t count)
{
    bool is_float = contract->dtype == TUTTI_FLOAT32;
    bool is_max = contract->op == TUTTI_MAX;

    for (size_t i = 0; i < count && is_float; i++) {
        float a = ((const float *)acc)[i];
        float b = ((const float *)src)[i];

        ((float *)dst)[i] = !is_max ? a + b : a > b ? a : b;
    }
    for (size_t i = 0; i < count && !is_float; i++) {
        int32_t a = ((const int32_t *)acc)[i];
        int32_t b = ((const int32_t *)src)[i];

        ((int32_t *)dst)[i] = !is_max ? a + b : a > b ? a : b;
    }
}

static void play_divide(const struct tutti_contract *contract, void *dst, size_t count, uint32_t n)
{
    for (size_t i = 0; i < count; i++) {
        if (contract->dtype == TUTTI_FLOAT32)
            ((float *)dst)[i] /= (float)n;
        else
            ((int32_t *)dst)[i] /= (int32_t)n;
    }
}

/* An operand that a step does not use may be anywhere, and is: rounds move it like the others. */
static uint8_t *play_at(uint8_t *buf, uint64_t offset)
{
    return (uint8_t *)((uintptr_t)buf + (uintptr_t)offset);
}

/* Starts the next step of a lane if it can. SENDs complete later. */
static bool play_step(struct play *play, uint32_t rank, uint32_t lane)
{
    struct play_lane *me = play_lane(play, rank, lane);
    const struct tutti_step *step = me->step;
    uint8_t *dst = play_at(play->buf[step->dst_buf][rank], step->dst_offset);
    uint8_t *src = play_at(play->buf[step->src_buf][rank], step->src_offset);
    const struct tutti_contract *contract = &play->schedule->contract;

    if ((step->flags & TUTTI_STEP_DEP) != 0 &&
        play_lane(play, rank, step->dep_lane)->done[step->dep_step] == 0)
        return false;
    if (step->kind == TUTTI_SEND) {
        struct play_queue *queue = play_queue(play, rank, step->peer, lane);

        if (queue->count == play->schedule->slot_count)
            return false;
        queue->slot[(queue->head + queue->count++) % play->schedule->slot_count] =
            (struct play_message){src, step->bytes, rank, me->index};
        return true;
    }
    if (step->kind == TUTTI_RECV) {
        struct play_queue *queue = play_queue(play, step->peer, rank, lane);
        struct play_message message = queue->slot[queue->head];

        if (queue->count == 0)
            return false;
        if (message.bytes != step->bytes)
            TEST_FAIL("rank %u lane %u step %u: %u bytes sent, %u received", rank, lane,
                      (unsigned)me->index, (unsigned)message.bytes, (unsigned)step->bytes);
        if ((step->flags & TUTTI_STEP_FUSE) != 0) {
            me->fused = message;
            me->done[me->index] = 1;
            return true; /* the slot stays taken until the REDUCE */
        }
        memcpy(dst, message.src, (size_t)step->bytes);
        play_complete_send(play, &message, lane);
        queue->head = (queue->head + 1) % play->schedule->slot_count;
        queue->count--;
    } else {
        if (step->kind == TUTTI_REDUCE)
            play_reduce(contract, dst, play->buf[step->acc_buf][rank] + step->acc_offset,
                        me->fused.src != NULL ? me->fused.src : src, (size_t)step->bytes / 4);
        else
            memcpy(dst, src, (size_t)step->bytes);
        if ((step->flags & TUTTI_STEP_LAST) != 0 && contract->op == TUTTI_AVG)
            play_divide(contract, dst, (size_t)step->bytes / 4, play->schedule->rank_count);
        if (me->fused.src != NULL) {
            struct play_queue *queue = play_queue(play, me->fused.from, rank, lane);

            play_complete_send(play, &me->fused, lane);
            queue->head = (queue->head + 1) % play->schedule->slot_count;
            queue->count--;
            me->fused.src = NULL;
        }
    }
    me->done[me->index] = 1;
    return true;
}

static void play_open(struct play *play)
{
    const struct tutti_schedule *schedule = play->schedule;
    size_t n = schedule->rank_count;

    play->lanes = calloc(n * schedule->lane_count, sizeof(*play->lanes));
    play->queues = calloc(n * n * schedule->lane_count, sizeof(*play->queues));
    for (uint32_t rank = 0; rank < n; rank++) {
        for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
            struct play_lane *me = play_lane(play, rank, lane);

            me->step_count = tutti_schedule_step_count(schedule, rank, lane);
            me->done = calloc((size_t)me->step_count + 1, 1);
            tutti_cursor_open(&me->cursor, schedule, rank, lane);
            me->step = tutti_cursor_next(&me->cursor);
        }
    }
}

static void play_close(struct play *play)
{
    size_t lanes = (size_t)play->schedule->rank_count * play->schedule->lane_count;

    for (size_t i = 0; i < lanes; i++)
        free(play->lanes[i].done);
    for (size_t i = 0; i < lanes * play->schedule->rank_count; i++)
        free(play->queues[i].slot);
    free(play->lanes);
    free(play->queues);
}

static bool play_stuck(struct play *play)
{
    const struct tutti_schedule *schedule = play->schedule;

    for (uint32_t rank = 0; rank < schedule->rank_count; rank++) {
        for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
            struct play_lane *me = play_lane(play, rank, lane);
            char text[TUTTI_STEP_TEXT_BYTES];

            if (me->step == NULL)
                continue;
            TEST_FAIL("%s: stuck: rank %u lane %u step %u: %s", schedule->name, rank, lane,
                      (unsigned)me->index, tutti_step_text(me->step, text));
            return true;
        }
    }
    return false;
}

/* Plays to the end; buf[TUTTI_BUF_IN .. SCRATCH][rank] are the caller's, buf[0] likewise (any). */
__attribute__((unused)) static bool play_all(struct play *play, uint64_t seed)
{
    uint32_t lane_count = play->schedule->lane_count;
    size_t total = (size_t)play->schedule->rank_count * lane_count;
    struct tutti_random random;
    bool stuck;
    bool moved = true;

    tutti_random_seed(&random, seed);
    play_open(play);
    while (moved) {
        size_t first = (size_t)tutti_random_below(&random, total);

        moved = false;
        for (size_t i = 0; i < total; i++) {
            size_t k = (first + i) % total;
            uint64_t burst = tutti_random_below(&random, 4);

            for (uint64_t j = 0; j <= burst && play->lanes[k].step != NULL; j++) {
                struct play_lane *me = &play->lanes[k];

                if (!play_step(play, (uint32_t)(k / lane_count), (uint32_t)(k % lane_count)))
                    break;
                moved = true;
                play->step_count++;
                me->index++;
                me->step = tutti_cursor_next(&me->cursor);
            }
        }
    }
    stuck = play_stuck(play);
    play_close(play);
    return !stuck;
}

#endif
