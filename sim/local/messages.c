/* Walks the programs for messages and where they land; see messages.h. */
#include "sim/local/messages.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/group.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/wide.h"

struct local_wire *tutti_local_wire_of(const struct local_messages *messages, uint32_t from,
                                       uint32_t to, uint32_t lane)
{
    return &messages
                ->wires[((uint64_t)lane * messages->rank_count + from) * messages->rank_count + to];
}

/* ---- how many -------------------------------------------------------------------------------- */

static void count_lane(struct local_messages *messages, const struct tutti_schedule *schedule,
                       uint32_t rank, uint32_t lane)
{
    struct local_results *results =
        &messages->results[(uint64_t)rank * schedule->lane_count + lane];
    struct tutti_cursor cursor;
    const struct tutti_step *step;

    tutti_cursor_open(&cursor, schedule, rank, lane);
    while ((step = tutti_cursor_next(&cursor)) != NULL) {
        if (step->kind == TUTTI_SEND)
            tutti_local_wire_of(messages, rank, step->peer, lane)->sent_count++;
        if (step->kind == TUTTI_RECV)
            tutti_local_wire_of(messages, step->peer, rank, lane)->taken_count++;
        results->count += step->kind == TUTTI_REDUCE;
    }
}

static int take_memory(struct local_messages *messages, const struct tutti_schedule *schedule)
{
    for (uint64_t i = 0; i < messages->wire_count; i++) {
        struct local_wire *wire = &messages->wires[i];

        wire->message_count =
            wire->sent_count > wire->taken_count ? wire->sent_count : wire->taken_count;
        if (wire->message_count == 0)
            continue;
        wire->messages = calloc(tutti_size(wire->message_count), sizeof(*wire->messages));
        wire->released_ps = calloc(schedule->slot_count, sizeof(*wire->released_ps));
        if (wire->messages == NULL || wire->released_ps == NULL)
            return -TUTTI_ENOMEM;
    }
    for (uint64_t i = 0; i < (uint64_t)schedule->rank_count * schedule->lane_count; i++) {
        struct local_results *results = &messages->results[i];

        results->results = calloc(tutti_size(results->count + 1), sizeof(*results->results));
        if (results->results == NULL)
            return -TUTTI_ENOMEM;
        results->count = 0;
    }
    return 0;
}

/* ---- which ----------------------------------------------------------------------------------- */

/* A SEND that follows a REDUCE, or other such SENDs behind it, and sends just its result. */
static bool sends_result(const struct tutti_step *send, const struct tutti_step *reduce)
{
    return (send->flags & TUTTI_STEP_DEP) == 0 && send->src_buf == reduce->dst_buf &&
           send->src_offset == reduce->dst_offset && send->bytes == reduce->bytes &&
           send->bytes > 0;
}

static void see_recv(struct local_wire *wire, const struct tutti_step *step)
{
    struct local_message *message = &wire->messages[wire->taken_count++];

    message->dst_buf = step->dst_buf;
    message->dst_offset = step->dst_offset;
    message->fused = (step->flags & TUTTI_STEP_FUSE) != 0;
}

static void see_lane(struct local_messages *messages, const struct tutti_schedule *schedule,
                     uint32_t rank, uint32_t lane)
{
    struct local_results *results =
        &messages->results[(uint64_t)rank * schedule->lane_count + lane];
    struct tutti_step reduce = {.kind = 0};
    struct tutti_cursor cursor;
    const struct tutti_step *step;
    uint64_t index = 0;

    tutti_cursor_open(&cursor, schedule, rank, lane);
    for (; (step = tutti_cursor_next(&cursor)) != NULL; index++) {
        if (step->kind == TUTTI_RECV)
            see_recv(tutti_local_wire_of(messages, step->peer, rank, lane), step);
        if (step->kind == TUTTI_SEND) {
            struct local_wire *wire = tutti_local_wire_of(messages, rank, step->peer, lane);
            struct local_message *message = &wire->messages[wire->sent_count++];

            message->step = index;
            message->src_buf = step->src_buf;
            message->src_offset = step->src_offset;
            message->bytes = step->bytes;
            if (reduce.kind == TUTTI_REDUCE && sends_result(step, &reduce)) {
                results->results[results->count - 1].send_count++;
                message->lands = true;
                continue;
            }
        }
        reduce.kind = 0;
        if (step->kind == TUTTI_REDUCE) {
            reduce = *step;
            results->results[results->count++] = (struct local_result){.step = index};
        }
    }
}

/* A result lands only in an output, and where it is not looked at there to be reduced. */
static void keep_landings(struct local_messages *messages)
{
    for (uint64_t i = 0; i < messages->wire_count; i++) {
        struct local_wire *wire = &messages->wires[i];

        for (uint64_t k = 0; k < wire->message_count; k++) {
            struct local_message *message = &wire->messages[k];

            message->lands = message->lands && message->dst_buf == TUTTI_BUF_OUT && !message->fused;
        }
    }
}

int tutti_local_messages_open(const struct tutti_schedule *schedule, struct local_messages *ret,
                              struct tutti_err *err)
{
    struct local_messages messages = {.rank_count = schedule->rank_count,
                                      .lane_count = schedule->lane_count};
    int status = 0;

    messages.wire_count =
        (uint64_t)schedule->rank_count * schedule->rank_count * schedule->lane_count;
    messages.wires = calloc(tutti_size(messages.wire_count + 1), sizeof(*messages.wires));
    messages.results = calloc(tutti_size((uint64_t)schedule->rank_count * schedule->lane_count),
                              sizeof(*messages.results));
    if (messages.wires == NULL || messages.results == NULL)
        status = -TUTTI_ENOMEM;
    for (uint32_t r = 0; status == 0 && r < schedule->rank_count; r++)
        for (uint32_t l = 0; l < schedule->lane_count; l++)
            count_lane(&messages, schedule, r, l);
    if (status == 0)
        status = take_memory(&messages, schedule);
    tutti_local_messages_rewind(&messages);
    for (uint32_t r = 0; status == 0 && r < schedule->rank_count; r++)
        for (uint32_t l = 0; l < schedule->lane_count; l++)
            see_lane(&messages, schedule, r, l);
    if (status < 0) {
        tutti_local_messages_close(&messages);
        return tutti_nomem(err);
    }
    keep_landings(&messages);
    tutti_local_messages_rewind(&messages);
    *ret = messages;
    return 0;
}

void tutti_local_messages_close(struct local_messages *messages)
{
    for (uint64_t i = 0; messages->wires != NULL && i < messages->wire_count; i++) {
        free(messages->wires[i].messages);
        free(messages->wires[i].released_ps);
        free(messages->wires[i].pieces);
    }
    for (uint64_t i = 0;
         messages->results != NULL && i < (uint64_t)messages->rank_count * messages->lane_count;
         i++)
        free(messages->results[i].results);
    free(messages->wires);
    free(messages->results);
    *messages = (struct local_messages){0};
}

void tutti_local_messages_rewind(struct local_messages *messages)
{
    for (uint64_t i = 0; messages->wires != NULL && i < messages->wire_count; i++) {
        messages->wires[i].sent_count = 0;
        messages->wires[i].taken_count = 0;
        messages->wires[i].ended_count = 0;
        messages->wires[i].gone_count = 0;
        messages->wires[i].gone_bytes = 0;
        messages->wires[i].posted_bytes = 0;
        messages->wires[i].given_bytes = 0;
        messages->wires[i].taken_bytes = 0;
        messages->wires[i].piece_count = 0;
    }
    for (uint64_t i = 0;
         messages->results != NULL && i < (uint64_t)messages->rank_count * messages->lane_count;
         i++)
        messages->results[i].next = 0;
}

int tutti_local_messages_divide(struct local_messages *messages, uint32_t process_count,
                                bool direct, uint64_t lend_min)
{
    uint32_t n = messages->rank_count;

    if (process_count > n)
        process_count = n;
    for (uint64_t i = 0; i < messages->wire_count; i++) {
        struct local_wire *wire = &messages->wires[i];
        uint32_t from = (uint32_t)(i / n % n);
        uint32_t to = (uint32_t)(i % n);

        wire->remote = process_count > 1 && tutti_group_of_rank(n, process_count, from) !=
                                                tutti_group_of_rank(n, process_count, to);
        wire->direct = wire->remote && direct;
        wire->lend_min = lend_min;
        if (!wire->remote || wire->message_count == 0 || wire->pieces != NULL)
            continue;
        wire->pieces = calloc(LOCAL_PIECES, sizeof(*wire->pieces));
        if (wire->pieces == NULL)
            return -TUTTI_ENOMEM;
    }
    return 0;
}
