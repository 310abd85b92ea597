/* Makes operations of the steps of all programs; see plan.h. */
#include "runtime/exec/cuda/plan.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

enum { STEPS_MAX = 1 << 22 };

const char *tutti_cuda_step_text(const struct tutti_cuda_plan *plan, uint32_t lane_index,
                                 uint32_t step, char *buf)
{
    char text[TUTTI_STEP_TEXT_BYTES];

    (void)snprintf(buf, TUTTI_CUDA_STEP_TEXT_BYTES, "rank %u, lane %u, step %u (%s)",
                   lane_index / plan->schedule->lane_count, lane_index % plan->schedule->lane_count,
                   step, tutti_step_text(tutti_cuda_step(plan, lane_index, step), text));
    return buf;
}

/* ---- what is there ---- */

static int open_program(struct tutti_cuda_plan *plan, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = plan->schedule;
    int status = tutti_program_open(&plan->program, schedule, 0, schedule->rank_count,
                                    STEPS_MAX * sizeof(struct tutti_step), err);

    if (status < 0)
        return status;
    if (plan->program.step_count > 0 && plan->program.stored == NULL)
        return tutti_fail(err, TUTTI_ELACK,
                          "the schedule '%s' has %llu steps, and the backend 'cuda' plays %d at "
                          "most (larger chunks, or fewer channels)",
                          schedule->name, (unsigned long long)plan->program.step_count, STEPS_MAX);
    plan->lane_total = schedule->rank_count * schedule->lane_count;
    plan->step_first = calloc((size_t)plan->lane_total + 1, sizeof(plan->step_first[0]));
    plan->op_first = calloc((size_t)plan->lane_total + 1, sizeof(plan->op_first[0]));
    plan->message_of = calloc((size_t)plan->program.step_count + 1, sizeof(plan->message_of[0]));
    plan->marks = calloc((size_t)plan->program.step_count + 1, sizeof(plan->marks[0]));
    if (plan->step_first == NULL || plan->op_first == NULL || plan->message_of == NULL ||
        plan->marks == NULL)
        return tutti_nomem(err);
    for (uint32_t l = 0; l < plan->lane_total; l++)
        plan->step_first[l + 1] = plan->step_first[l] + (uint32_t)plan->program.lanes[l].step_count;
    return 0;
}

/* ---- what is waited for ---- */

/* Whether a SEND must wait for a slot, until an earlier message has been taken. Where none does
 * within an iteration, none does at all: between iterations everything has been taken. With lines a
 * SEND's bytes are taken at once, and what slots keep apart is not shared. */
static bool wants_slot(const struct tutti_cuda_plan *plan, const struct tutti_cuda_message *message)
{
    return !plan->lined && message->number >= plan->schedule->slot_count;
}

/* Marks what somebody waits for: steps that others depend on, messages whose slot is needed. */
static int mark_awaited(struct tutti_cuda_plan *plan, struct tutti_err *err)
{
    char text[TUTTI_CUDA_STEP_TEXT_BYTES];

    for (uint32_t m = 0; m < plan->message_count; m++)
        if (wants_slot(plan, &plan->messages[m]))
            plan->messages[m - plan->schedule->slot_count].released = true;
    for (uint32_t l = 0; l < plan->lane_total; l++) {
        uint32_t rank_lane = l - l % plan->schedule->lane_count;

        for (uint32_t i = 0; i < plan->program.lanes[l].step_count; i++) {
            const struct tutti_step *step = tutti_cuda_step(plan, l, i);
            uint32_t on = rank_lane + step->dep_lane;

            if ((step->flags & TUTTI_STEP_DEP) == 0)
                continue;
            if (step->dep_step >= plan->program.lanes[on].step_count)
                return tutti_fail(err, TUTTI_ECHECK, "%s depends on a step that is not there",
                                  tutti_cuda_step_text(plan, l, i, text));
            if (tutti_cuda_step(plan, on, step->dep_step)->kind == TUTTI_SEND)
                plan->messages[plan->message_of[plan->step_first[on] + step->dep_step]].released =
                    true;
            else
                plan->marks[plan->step_first[on] + step->dep_step] |= TUTTI_CUDA_MARK_AWAITED;
        }
    }
    return 0;
}

/* Most kernels have one type and operator; that of avg also sums. */
static bool goes_with(struct tutti_cuda_plan *plan, struct tutti_reduction reduction)
{
    if (!plan->has_reduction || (plan->reduction.dtype == reduction.dtype &&
                                 plan->reduction.op == TUTTI_SUM && reduction.op == TUTTI_AVG))
        plan->reduction = reduction;
    plan->has_reduction = true;
    return plan->reduction.dtype == reduction.dtype &&
           (plan->reduction.op == reduction.op ||
            (plan->reduction.op == TUTTI_AVG && reduction.op == TUTTI_SUM));
}

static bool is_host_work(const struct tutti_cuda_plan *plan, const struct tutti_step *step)
{
    return step->kind == TUTTI_COMPUTE && step->peer != 0 &&
           plan->schedule->work[step->peer - 1].run != NULL;
}

/* What the kernel to be chosen would have to do. */
static void find_reduction(struct tutti_cuda_plan *plan)
{
    const struct tutti_schedule *schedule = plan->schedule;

    plan->reduction =
        (struct tutti_reduction){.dtype = schedule->contract.dtype, .op = schedule->contract.op};
    for (uint32_t l = 0; l < plan->lane_total; l++) {
        for (uint32_t i = 0; i < plan->program.lanes[l].step_count; i++) {
            const struct tutti_step *step = tutti_cuda_step(plan, l, i);
            bool reduces = step->kind == TUTTI_REDUCE ||
                           (step->kind == TUTTI_COPY && (step->flags & TUTTI_STEP_LAST) != 0);

            if (reduces && step->bytes > 0 &&
                !goes_with(plan, tutti_step_reduction(schedule, step)))
                plan->mixed = true;
            plan->asks = plan->asks || is_host_work(plan, step);
        }
    }
}

/* ---- growing ---- */

/* Room for one more; false: there is no memory. */
static bool grow(void **array, uint32_t count, uint32_t *capacity, size_t bytes)
{
    uint32_t larger = *capacity == 0 ? 256 : 2 * *capacity;
    void *moved;

    if (count < *capacity)
        return true;
    moved = realloc(*array, larger * bytes);
    if (moved == NULL)
        return false;
    *array = moved;
    *capacity = larger;
    return true;
}

/* What is being made of a lane. */
struct making {
    struct tutti_cuda_plan *plan;
    uint32_t lane_index;
    uint32_t rank;
    uint32_t step; /* of the lane */
    bool failed;   /* no memory */
};

static struct tutti_cuda_planned_op *last_op(const struct making *making)
{
    return &making->plan->ops[making->plan->op_count - 1];
}

static void add_wait(struct making *making, uint32_t counter, uint32_t value)
{
    struct tutti_cuda_plan *plan = making->plan;
    uint32_t capacity = plan->wait_capacity;
    void *waits = plan->waits;
    void *steps = plan->wait_steps;

    if (!grow(&waits, plan->wait_count, &plan->wait_capacity, sizeof(plan->waits[0]))) {
        making->failed = true;
        return;
    }
    plan->waits = waits;
    if (!grow(&steps, plan->wait_count, &capacity, sizeof(plan->wait_steps[0]))) {
        plan->wait_capacity = capacity;
        making->failed = true;
        return;
    }
    plan->wait_steps = steps;
    plan->waits[plan->wait_count] = (struct tutti_cuda_flag){counter, value};
    plan->wait_steps[plan->wait_count++] = making->step;
    last_op(making)->wait_count++;
}

static void add_signal(struct making *making, uint32_t counter, uint32_t value, bool plain)
{
    struct tutti_cuda_plan *plan = making->plan;
    void *signals = plan->signals;

    if (!grow(&signals, plan->signal_count, &plan->signal_capacity, sizeof(plan->signals[0]))) {
        making->failed = true;
        return;
    }
    plan->signals = signals;
    plan->signals[plan->signal_count++] = (struct tutti_cuda_flag){counter, value};
    last_op(making)->signal_count++;
    last_op(making)->plain = last_op(making)->plain && plain;
}

/* An operation for the step, with the wait for what it depends on. */
static void begin_op(struct making *making, const struct tutti_step *step)
{
    struct tutti_cuda_plan *plan = making->plan;
    uint32_t on =
        making->lane_index - making->lane_index % plan->schedule->lane_count + step->dep_lane;
    void *ops = plan->ops;

    if (!grow(&ops, plan->op_count, &plan->op_capacity, sizeof(plan->ops[0]))) {
        making->failed = true;
        return;
    }
    plan->ops = ops;
    plan->ops[plan->op_count++] = (struct tutti_cuda_planned_op){
        .wait_first = plan->wait_count,
        .signal_first = plan->signal_count,
        .step_first = making->step,
        .step_end = making->step + 1,
        .plain = true,
    };
    if ((step->flags & TUTTI_STEP_DEP) == 0)
        return;
    if (tutti_cuda_step(plan, on, step->dep_step)->kind == TUTTI_SEND) {
        const struct tutti_cuda_message *message =
            &plan->messages[plan->message_of[plan->step_first[on] + step->dep_step]];

        add_wait(making, tutti_cuda_tail(message->connection), message->number + 1);
    } else if (on != making->lane_index || step->dep_step >= making->step) {
        add_wait(making, tutti_cuda_done(plan, on), step->dep_step + 1);
    }
}

/* ---- steps ---- */

static struct tutti_cuda_place place(uint32_t rank, unsigned buf, uint64_t offset)
{
    return (struct tutti_cuda_place){.rank = rank, .buf = buf, .offset = offset};
}

static const struct tutti_cuda_message *message_at(const struct making *making, uint32_t step)
{
    const struct tutti_cuda_plan *plan = making->plan;

    return &plan->messages[plan->message_of[plan->step_first[making->lane_index] + step]];
}

/* Its line, or its slot. */
static struct tutti_cuda_place memory_of(const struct tutti_cuda_plan *plan,
                                         const struct tutti_cuda_message *message)
{
    return (struct tutti_cuda_place){.rank = (uint32_t)(message - plan->messages),
                                     .buf = message->lined ? TUTTI_CUDA_LINES : TUTTI_CUDA_STAGES,
                                     .offset = message->home_offset};
}

/* Where the bytes of a message are read: with the sender, or from its line or slot. */
static struct tutti_cuda_place sent_from(const struct tutti_cuda_plan *plan,
                                         const struct tutti_cuda_message *message)
{
    uint32_t sender = message->from * plan->schedule->lane_count + message->lane;
    const struct tutti_step *send =
        tutti_cuda_step(plan, sender, message->send - plan->step_first[sender]);

    if (message->lined || message->apart)
        return memory_of(plan, message);
    return place(message->from, send->src_buf, send->src_offset);
}

static void release(struct making *making, const struct tutti_cuda_message *message)
{
    if (message->released)
        add_signal(making, tutti_cuda_tail(message->connection), message->number + 1, true);
}

static bool reads_fused(const struct tutti_step *recv, const struct tutti_step *reduce)
{
    return recv->kind == TUTTI_RECV && (recv->flags & TUTTI_STEP_FUSE) != 0 &&
           reduce->kind == TUTTI_REDUCE && reduce->src_buf == recv->dst_buf &&
           reduce->src_offset == recv->dst_offset && reduce->bytes == recv->bytes;
}

static void make_send(struct making *making, const struct tutti_step *step)
{
    const struct tutti_cuda_message *message = message_at(making, making->step);

    if (wants_slot(making->plan, message))
        add_wait(making, tutti_cuda_tail(message->connection),
                 message->number + 1 - making->plan->schedule->slot_count);
    if (message->lined || (message->apart && step->bytes > 0)) {
        struct tutti_cuda_planned_op *op = last_op(making);

        op->bytes = step->bytes;
        op->src_count = step->bytes > 0;
        op->src[0] = place(making->rank, step->src_buf, step->src_offset);
        op->dst[op->dst_count++] = memory_of(making->plan, message);
    }
    if (message->lined)
        return;
    add_signal(making, tutti_cuda_head(message->connection), message->number + 1, false);
}

static void make_recv(struct making *making, const struct tutti_step *step)
{
    const struct tutti_cuda_message *message = message_at(making, making->step);
    struct tutti_cuda_planned_op *op = last_op(making);
    uint64_t step_count = making->plan->program.lanes[making->lane_index].step_count;

    if (!message->lined)
        add_wait(making, tutti_cuda_head(message->connection), message->number + 1);
    if (making->step + 1 < step_count && reads_fused(step, step + 1))
        return;
    if (!message->pushed && (step->bytes > 0 || message->lined)) {
        op->bytes = step->bytes;
        op->src_count = 1;
        op->dst_count = step->bytes > 0;
        op->src[0] = sent_from(making->plan, message);
        op->dst[0] = place(making->rank, step->dst_buf, step->dst_offset);
    }
    release(making, message);
}

/* The receivers' places in which the SENDs that follow find the result. */
static void add_targets(struct making *making)
{
    const struct tutti_cuda_plan *plan = making->plan;
    uint64_t step_count = plan->program.lanes[making->lane_index].step_count;
    struct tutti_cuda_planned_op *op = last_op(making);

    for (uint32_t s = making->step + 1; s < step_count; s++) {
        const struct tutti_cuda_message *message;
        const struct tutti_step *recv;
        uint32_t receiver;

        if (tutti_cuda_step(plan, making->lane_index, s)->kind != TUTTI_SEND)
            break;
        message = message_at(making, s);
        if (!message->pushed)
            continue;
        receiver = message->to * plan->schedule->lane_count + message->lane;
        recv = tutti_cuda_step(plan, receiver, message->recv - plan->step_first[receiver]);
        assert(op->dst_count < TUTTI_CUDA_TARGETS_MAX);
        op->dst[op->dst_count++] = place(message->to, recv->dst_buf, recv->dst_offset);
    }
}

static void make_data(struct making *making, const struct tutti_step *step)
{
    struct tutti_reduction reduction = tutti_step_reduction(making->plan->schedule, step);
    struct tutti_cuda_planned_op *op = last_op(making);
    struct tutti_cuda_place src = place(making->rank, step->src_buf, step->src_offset);
    bool fused = making->step > 0 && reads_fused(step - 1, step);

    if (step->bytes > 0) {
        op->bytes = step->bytes;
        op->dst_count = 1;
        op->dst[0] = place(making->rank, step->dst_buf, step->dst_offset);
        if (step->kind == TUTTI_REDUCE)
            op->src[op->src_count++] = place(making->rank, step->acc_buf, step->acc_offset);
        op->src[op->src_count++] =
            fused ? sent_from(making->plan, message_at(making, making->step - 1)) : src;
        op->code = (uint8_t)(reduction.dtype * TUTTI_OP_COUNT +
                             (reduction.op == TUTTI_AVG ? TUTTI_SUM : reduction.op));
        if ((step->flags & TUTTI_STEP_LAST) != 0 && reduction.op == TUTTI_AVG)
            op->divide_by = reduction.divisor;
        if (step->kind == TUTTI_REDUCE)
            add_targets(making);
    }
    if (!fused)
        return;
    if (step->bytes == 0 && message_at(making, making->step - 1)->lined)
        op->src[op->src_count++] = sent_from(making->plan, message_at(making, making->step - 1));
    release(making, message_at(making, making->step - 1));
}

/* Work that is really done takes the time that it takes. */
static void make_compute(struct making *making, const struct tutti_step *step)
{
    struct tutti_cuda_planned_op *op = last_op(making);

    op->asks = is_host_work(making->plan, step);
    op->host_step = making->step;
    op->duration_ps = op->asks ? 0 : (uint64_t)step->duration_ps;
}

static void make_step(struct making *making, const struct tutti_step *step)
{
    struct tutti_cuda_plan *plan = making->plan;
    uint8_t marks = plan->marks[plan->step_first[making->lane_index] + making->step];

    begin_op(making, step);
    if (making->failed)
        return;
    last_op(making)->discarded = (marks & TUTTI_CUDA_MARK_DISCARD) != 0;
    if (step->kind == TUTTI_SEND)
        make_send(making, step);
    else if (step->kind == TUTTI_RECV)
        make_recv(making, step);
    else if (step->kind == TUTTI_COMPUTE)
        make_compute(making, step);
    else
        make_data(making, step);
    if ((marks & TUTTI_CUDA_MARK_AWAITED) != 0)
        add_signal(making, tutti_cuda_done(plan, making->lane_index), making->step + 1, false);
}

static int make_ops(struct tutti_cuda_plan *plan, bool joins, bool sources, struct tutti_err *err)
{
    struct making making = {.plan = plan};

    plan->op_count = plan->wait_count = plan->signal_count = 0;
    for (uint32_t l = 0; l < plan->lane_total; l++) {
        making.lane_index = l;
        making.rank = l / plan->schedule->lane_count;
        plan->op_first[l] = plan->op_count;
        for (making.step = 0; making.step < plan->program.lanes[l].step_count; making.step++) {
            make_step(&making, tutti_cuda_step(plan, l, making.step));
            if (making.failed)
                return tutti_nomem(err);
            if (joins)
                tutti_cuda_join_last(plan, plan->op_first[l], sources);
        }
    }
    plan->op_first[plan->lane_total] = plan->op_count;
    return 0;
}

static void count_bytes(struct tutti_cuda_plan *plan)
{
    plan->moved_bytes = plan->op_bytes_max = 0;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct tutti_cuda_planned_op *op = &plan->ops[i];

        for (uint32_t s = 0; s < op->src_count; s++)
            plan->moved_bytes += op->bytes << tutti_cuda_is_line(&op->src[s]);
        for (uint32_t d = 0; d < op->dst_count; d++)
            plan->moved_bytes += op->bytes << tutti_cuda_is_line(&op->dst[d]);
        if (op->bytes > plan->op_bytes_max)
            plan->op_bytes_max = op->bytes;
    }
}

/* ---- the plan ---- */

static int stuck(const struct tutti_cuda_plan *plan, uint32_t lane, uint32_t step,
                 struct tutti_err *err)
{
    char text[TUTTI_CUDA_STEP_TEXT_BYTES];

    return tutti_fail(err, TUTTI_ECHECK, "deadlock: %s waits for ever",
                      tutti_cuda_step_text(plan, lane, step, text));
}

static int make(struct tutti_cuda_plan *plan, enum tutti_cuda_planning planning,
                struct tutti_err *err)
{
    bool joins = planning != TUTTI_CUDA_PLAIN;
    uint32_t lane = 0;
    uint32_t step = 0;
    bool ends = false;
    int status = open_program(plan, err);

    if (status == 0) {
        find_reduction(plan);
        status = tutti_cuda_match(plan, err);
    }
    if (status == 0)
        tutti_cuda_choose_homes(plan);
    if (status == 0 && planning == TUTTI_CUDA_LINED)
        tutti_cuda_choose_lines(plan);
    if (status == 0 && !plan->lined)
        tutti_cuda_choose_stages(plan);
    if (status == 0)
        status = mark_awaited(plan, err);
    if (status == 0 && joins)
        status = tutti_cuda_find_joins(plan, err);
    if (status == 0)
        status = make_ops(plan, joins, true, err);
    if (status == 0)
        status = tutti_cuda_rehearse(plan, &ends, &lane, &step, err);
    if (status == 0 && joins && !ends) { /* a slot given back late may be what somebody lacks */
        status = make_ops(plan, joins, false, err);
        if (status == 0)
            status = tutti_cuda_rehearse(plan, &ends, &lane, &step, err);
    }
    if (status == 0 && !ends)
        status = stuck(plan, lane, step, err);
    count_bytes(plan);
    return status;
}

static uint32_t longest_lane(const struct tutti_cuda_plan *plan)
{
    uint32_t most = 0;

    for (uint32_t l = 0; l < plan->lane_total; l++)
        if (plan->op_first[l + 1] - plan->op_first[l] > most)
            most = plan->op_first[l + 1] - plan->op_first[l];
    return most;
}

/* Without lines one operation may do what with them takes several: the receiver of many results
 * then finds them in their places. An operation that waits for a counter takes twice as long as one
 * that waits for a line (H200: 2.2 us, and 1.4 or less). */
static int open_better(struct tutti_cuda_plan *lined, struct tutti_err *err)
{
    struct tutti_cuda_plan joined = {.schedule = lined->schedule, .spread = lined->spread};
    int status = make(&joined, TUTTI_CUDA_JOINED, err);

    if (status == 0 && 2 * longest_lane(&joined) < longest_lane(lined)) {
        tutti_cuda_plan_close(lined);
        *lined = joined;
        return 0;
    }
    tutti_cuda_plan_close(&joined);
    return status;
}

int tutti_cuda_plan_spread(struct tutti_cuda_plan *plan, const struct tutti_schedule *schedule,
                           enum tutti_cuda_planning planning,
                           const struct tutti_cuda_spread *spread, struct tutti_err *err)
{
    struct tutti_cuda_plan made = {.schedule = schedule, .spread = *spread};
    int status;

    assert(spread->gpu_count >= 1 && spread->gpu_count <= TUTTI_CUDA_GPUS_MAX);
    assert(spread->gpu_count <= schedule->rank_count);
    status = make(&made, planning, err);
    if (status == 0 && made.lined)
        status = open_better(&made, err);
    if (status < 0) {
        tutti_cuda_plan_close(&made);
        return status;
    }
    *plan = made;
    return 0;
}

int tutti_cuda_plan_open(struct tutti_cuda_plan *plan, const struct tutti_schedule *schedule,
                         enum tutti_cuda_planning planning, struct tutti_err *err)
{
    return tutti_cuda_plan_spread(plan, schedule, planning,
                                  &(struct tutti_cuda_spread){.gpu_count = 1}, err);
}

void tutti_cuda_plan_close(struct tutti_cuda_plan *plan)
{
    tutti_program_close(&plan->program);
    free(plan->step_first);
    free(plan->messages);
    free(plan->connection_first);
    free(plan->message_of);
    free(plan->marks);
    free(plan->ops);
    free(plan->op_first);
    free(plan->waits);
    free(plan->wait_steps);
    free(plan->signals);
    *plan = (struct tutti_cuda_plan){0};
}
