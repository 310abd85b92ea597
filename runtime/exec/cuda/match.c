/* The k-th SEND of a connection meets its k-th RECV: pairs them, for all ranks of the process. */
#include <assert.h>
#include <stdlib.h>

#include "runtime/exec/cuda/plan.h"
#include "runtime/status.h"

/* One end of a message. */
struct end {
    uint32_t from;
    uint32_t to;
    uint32_t lane;
    uint32_t step; /* over all lanes */
};

static int by_connection(const struct end *a, const struct end *b)
{
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    return (a->lane > b->lane) - (a->lane < b->lane);
}

/* Steps of a lane have rising numbers, and a connection's ends are of one lane. */
static int by_place(const void *left, const void *right)
{
    const struct end *a = left;
    const struct end *b = right;
    int order = by_connection(a, b);

    return order != 0 ? order : (a->step > b->step) - (a->step < b->step);
}

static uint32_t collect(const struct tutti_cuda_plan *plan, uint8_t kind, struct end *ends)
{
    uint32_t count = 0;

    for (uint32_t l = 0; l < plan->lane_total; l++) {
        uint32_t rank = l / plan->schedule->lane_count;

        for (uint32_t i = 0; i < plan->program.lanes[l].step_count; i++) {
            const struct tutti_step *step = tutti_cuda_step(plan, l, i);

            if (step->kind != kind)
                continue;
            if (ends != NULL)
                ends[count] = (struct end){
                    .from = kind == TUTTI_SEND ? rank : step->peer,
                    .to = kind == TUTTI_SEND ? step->peer : rank,
                    .lane = l % plan->schedule->lane_count,
                    .step = plan->step_first[l] + i,
                };
            count++;
        }
    }
    if (ends != NULL)
        qsort(ends, count, sizeof(*ends), by_place);
    return count;
}

static int alone(const struct tutti_cuda_plan *plan, const struct end *end, bool is_send,
                 struct tutti_err *err)
{
    uint32_t lane_index = (is_send ? end->from : end->to) * plan->schedule->lane_count + end->lane;
    char text[TUTTI_CUDA_STEP_TEXT_BYTES];

    return tutti_fail(
        err, TUTTI_ECHECK, "%s waits for a %s that rank %u does not have",
        tutti_cuda_step_text(plan, lane_index, end->step - plan->step_first[lane_index], text),
        is_send ? "RECV" : "SEND", is_send ? end->to : end->from);
}

static int pair(struct tutti_cuda_plan *plan, const struct end *send, const struct end *recv,
                struct tutti_err *err)
{
    uint32_t sender = send->from * plan->schedule->lane_count + send->lane;
    uint32_t receiver = recv->to * plan->schedule->lane_count + recv->lane;
    uint32_t send_step = send->step - plan->step_first[sender];
    uint32_t recv_step = recv->step - plan->step_first[receiver];
    uint64_t sent_bytes = tutti_cuda_step(plan, sender, send_step)->bytes;
    struct tutti_cuda_message *message = &plan->messages[plan->message_count];
    char text[TUTTI_CUDA_STEP_TEXT_BYTES];

    if (sent_bytes != tutti_cuda_step(plan, receiver, recv_step)->bytes)
        return tutti_fail(err, TUTTI_ECHECK, "%s: rank %u sent %llu bytes in its step %u",
                          tutti_cuda_step_text(plan, receiver, recv_step, text), send->from,
                          (unsigned long long)sent_bytes, send_step);
    *message = (struct tutti_cuda_message){.from = send->from,
                                           .to = send->to,
                                           .lane = send->lane,
                                           .send = send->step,
                                           .recv = recv->step};
    if (plan->message_count > 0 && message[-1].from == send->from && message[-1].to == send->to &&
        message[-1].lane == send->lane) {
        message->connection = message[-1].connection;
        message->number = message[-1].number + 1;
    } else {
        plan->connection_first[plan->connection_count] = plan->message_count;
        message->connection = plan->connection_count++;
    }
    plan->message_of[send->step] = plan->message_count;
    plan->message_of[recv->step] = plan->message_count++;
    return 0;
}

static int pair_all(struct tutti_cuda_plan *plan, const struct end *sends, uint32_t send_count,
                    const struct end *recvs, uint32_t recv_count, struct tutti_err *err)
{
    uint32_t s = 0;
    uint32_t r = 0;
    int status = 0;

    while (status == 0 && (s < send_count || r < recv_count)) {
        int order = s == send_count   ? 1
                    : r == recv_count ? -1
                                      : by_connection(&sends[s], &recvs[r]);

        if (order != 0)
            return order < 0 ? alone(plan, &sends[s], true, err)
                             : alone(plan, &recvs[r], false, err);
        status = pair(plan, &sends[s++], &recvs[r++], err);
    }
    return status;
}

int tutti_cuda_match(struct tutti_cuda_plan *plan, struct tutti_err *err)
{
    uint32_t send_count = collect(plan, TUTTI_SEND, NULL);
    uint32_t recv_count = collect(plan, TUTTI_RECV, NULL);
    struct end *sends = calloc((size_t)send_count + 1, sizeof(*sends));
    struct end *recvs = calloc((size_t)recv_count + 1, sizeof(*recvs));
    int status;

    plan->messages = calloc((size_t)send_count + 1, sizeof(plan->messages[0]));
    plan->connection_first = calloc((size_t)send_count + 1, sizeof(plan->connection_first[0]));
    if (sends == NULL || recvs == NULL || plan->messages == NULL ||
        plan->connection_first == NULL) {
        status = tutti_nomem(err);
    } else {
        collect(plan, TUTTI_SEND, sends);
        collect(plan, TUTTI_RECV, recvs);
        status = pair_all(plan, sends, send_count, recvs, recv_count, err);
    }
    free(sends);
    free(recvs);
    return status;
}

uint32_t tutti_cuda_owner(const struct tutti_cuda_plan *plan, uint32_t counter)
{
    const struct tutti_cuda_message *message;

    if (counter >= 2 * plan->connection_count)
        return counter - 2 * plan->connection_count;
    message = &plan->messages[plan->connection_first[counter / 2]];
    return (counter % 2 == 0 ? message->from : message->to) * plan->schedule->lane_count +
           message->lane;
}
