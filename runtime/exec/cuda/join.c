/* Joins: which messages are written straight to where they will be received, which results need
 * not be stored, and two operations made one. See plan.h. */
#include <assert.h>
#include <stdlib.h>

#include "runtime/exec/cuda/plan.h"
#include "runtime/status.h"

/* ---- targets ---------------------------------------------------------------------------------
 * A REDUCE followed by SENDs of its result, without dependencies: all that comes before the SENDs
 * has happened when the REDUCE runs, so that the receiver's bytes may be written then, if no step
 * of the receiver touches them before its RECV in the same lane, and no other window has them. As
 * in runtime/exec/threads/remote_write.c. All lanes meet between iterations. */

struct window {
    uint32_t message;
    uint32_t to;
    uint32_t lane;
    uint32_t recv; /* step of the lane */
    uint64_t offset;
    uint64_t bytes;
    bool open;
};

struct windows {
    struct window *windows;
    size_t count;
};

/* Notes a window if the SEND's message lands in the output by a RECV that stores. */
static void note_window(struct tutti_cuda_plan *plan, struct windows *windows, uint32_t message)
{
    const struct tutti_cuda_message *m = &plan->messages[message];
    uint32_t receiver = m->to * plan->schedule->lane_count + m->lane;
    uint32_t recv = m->recv - plan->step_first[receiver];
    const struct tutti_step *step = tutti_cuda_step(plan, receiver, recv);

    if ((step->flags & TUTTI_STEP_FUSE) != 0 || step->dst_buf != TUTTI_BUF_OUT || m->apart)
        return;
    windows->windows[windows->count++] = (struct window){.message = message,
                                                         .to = m->to,
                                                         .lane = m->lane,
                                                         .recv = recv,
                                                         .offset = step->dst_offset,
                                                         .bytes = step->bytes,
                                                         .open = true};
}

static void note_lane(struct tutti_cuda_plan *plan, struct windows *windows, uint32_t lane_index)
{
    const struct tutti_step *result = NULL;
    uint32_t targets = 0;

    for (uint32_t i = 0; i < plan->program.lanes[lane_index].step_count; i++) {
        const struct tutti_step *step = tutti_cuda_step(plan, lane_index, i);
        size_t before = windows->count;

        if (step->kind != TUTTI_SEND) {
            result = step->kind == TUTTI_REDUCE && step->bytes > 0 ? step : NULL;
            targets = 1;
            continue;
        }
        if ((step->flags & TUTTI_STEP_DEP) != 0)
            result = NULL;
        if (result == NULL || targets == TUTTI_CUDA_TARGETS_MAX ||
            step->src_buf != result->dst_buf || step->src_offset != result->dst_offset ||
            step->bytes != result->bytes)
            continue;
        note_window(plan, windows, plan->message_of[plan->step_first[lane_index] + i]);
        targets += windows->count > before;
    }
}

static int by_window(const void *left, const void *right)
{
    const struct window *a = left;
    const struct window *b = right;

    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

/* Closes the windows that share bytes with another. */
static void close_overlaps(struct windows *windows)
{
    struct window *all = windows->windows;
    size_t next;

    qsort(all, windows->count, sizeof(*all), by_window);
    for (size_t i = 0; i < windows->count; i = next) {
        uint64_t end = all[i].offset + all[i].bytes;

        for (next = i + 1;
             next < windows->count && all[next].to == all[i].to && all[next].offset < end; next++) {
            all[i].open = all[next].open = false;
            if (all[next].offset + all[next].bytes > end)
                end = all[next].offset + all[next].bytes;
        }
    }
}

/* The first window of `rank` that may end after `offset`; those that are open share no bytes. */
static size_t first_window(const struct windows *windows, uint32_t rank, uint64_t offset)
{
    size_t low = 0;
    size_t high = windows->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct window *w = &windows->windows[middle];

        if (w->to < rank || (w->to == rank && w->offset + w->bytes <= offset))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void touch(struct windows *windows, uint32_t rank, uint32_t lane, uint32_t step,
                  unsigned buf, uint64_t offset, uint64_t bytes)
{
    if (buf != TUTTI_BUF_OUT || bytes == 0)
        return;
    for (size_t i = first_window(windows, rank, offset); i < windows->count; i++) {
        struct window *w = &windows->windows[i];

        if (w->to != rank || w->offset >= offset + bytes)
            break;
        if (w->lane != lane || step < w->recv)
            w->open = false;
    }
}

/* What the work of a COMPUTE reads and writes. */
static void touch_regions(struct tutti_cuda_plan *plan, struct windows *windows, uint32_t rank,
                          uint32_t lane, uint32_t index)
{
    const struct tutti_step *step =
        tutti_cuda_step(plan, rank * plan->schedule->lane_count + lane, index);
    const struct tutti_work *work = step->peer == 0 ? NULL : &plan->schedule->work[step->peer - 1];

    for (uint32_t i = 0; work != NULL && i < work->read_count + work->write_count; i++) {
        struct tutti_region at = tutti_region_at(
            i < work->read_count ? &work->reads[i] : &work->writes[i - work->read_count], step);

        touch(windows, rank, lane, index, at.buf, at.offset, at.bytes);
    }
}

static void touch_all(struct tutti_cuda_plan *plan, struct windows *windows)
{
    for (uint32_t l = 0; l < plan->lane_total; l++) {
        uint32_t rank = l / plan->schedule->lane_count;
        uint32_t lane = l % plan->schedule->lane_count;

        for (uint32_t i = 0; i < plan->program.lanes[l].step_count; i++) {
            const struct tutti_step *step = tutti_cuda_step(plan, l, i);

            if (step->kind == TUTTI_COMPUTE) {
                touch_regions(plan, windows, rank, lane, i);
                continue;
            }
            touch(windows, rank, lane, i, step->dst_buf, step->dst_offset, step->bytes);
            touch(windows, rank, lane, i, step->src_buf, step->src_offset, step->bytes);
            touch(windows, rank, lane, i, step->acc_buf, step->acc_offset, step->bytes);
        }
    }
}

static int find_pushed(struct tutti_cuda_plan *plan, struct tutti_err *err)
{
    struct windows windows = {
        .windows = calloc((size_t)plan->message_count + 1, sizeof(*windows.windows))};
    size_t kept = 0;

    if (windows.windows == NULL)
        return tutti_nomem(err);
    for (uint32_t l = 0; l < plan->lane_total; l++)
        note_lane(plan, &windows, l);
    close_overlaps(&windows);
    for (size_t i = 0; i < windows.count; i++)
        if (windows.windows[i].open)
            windows.windows[kept++] = windows.windows[i];
    windows.count = kept;
    touch_all(plan, &windows);
    for (size_t i = 0; i < windows.count; i++)
        plan->messages[windows.windows[i].message].pushed = windows.windows[i].open;
    free(windows.windows);
    return 0;
}

/* ---- results that need not be stored ---------------------------------------------------------
 * A place in scratch that one lane alone uses, each time all of it: written, then read by one step,
 * written again. Whoever reads what the step before has written may as well take its sources. */

struct access {
    uint64_t offset;
    uint64_t bytes;
    uint32_t lane_index;
    uint32_t step;
    bool writes;
};

struct accesses {
    struct access *accesses;
    size_t count;
};

static void note(struct accesses *accesses, uint32_t lane_index, uint32_t step, unsigned buf,
                 uint64_t offset, uint64_t bytes, bool writes)
{
    if (buf != TUTTI_BUF_SCRATCH || bytes == 0)
        return;
    accesses->accesses[accesses->count++] = (struct access){
        .offset = offset, .bytes = bytes, .lane_index = lane_index, .step = step, .writes = writes};
}

static int by_access(const void *left, const void *right)
{
    const struct access *a = left;
    const struct access *b = right;

    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    if (a->lane_index != b->lane_index)
        return a->lane_index < b->lane_index ? -1 : 1;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return a->writes - b->writes; /* a step reads before it writes */
}

/* Accesses [first, end) share bytes among themselves, and with no others. */
static void mark_group(struct tutti_cuda_plan *plan, const struct access *first,
                       const struct access *end)
{
    for (const struct access *a = first; a < end; a++)
        if (a->offset != first->offset || a->bytes != first->bytes ||
            a->lane_index != first->lane_index || a->writes != ((a - first) % 2 == 0))
            return;
    if ((end - first) % 2 != 0)
        return;
    for (const struct access *a = first; a < end; a += 2)
        plan->marks[plan->step_first[a->lane_index] + a->step] |= TUTTI_CUDA_MARK_DISCARD;
}

static void mark_rank(struct tutti_cuda_plan *plan, struct accesses *accesses, uint32_t rank)
{
    uint32_t lane_count = plan->schedule->lane_count;
    size_t next;

    accesses->count = 0;
    for (uint32_t l = rank * lane_count; l < (rank + 1) * lane_count; l++) {
        for (uint32_t i = 0; i < plan->program.lanes[l].step_count; i++) {
            const struct tutti_step *step = tutti_cuda_step(plan, l, i);

            if (step->kind == TUTTI_COMPUTE)
                continue;
            note(accesses, l, i, step->src_buf, step->src_offset, step->bytes, false);
            note(accesses, l, i, step->acc_buf, step->acc_offset, step->bytes, false);
            note(accesses, l, i, step->dst_buf, step->dst_offset, step->bytes, true);
        }
    }
    qsort(accesses->accesses, accesses->count, sizeof(accesses->accesses[0]), by_access);
    for (size_t i = 0; i < accesses->count; i = next) {
        uint64_t end = accesses->accesses[i].offset + accesses->accesses[i].bytes;

        for (next = i + 1; next < accesses->count && accesses->accesses[next].offset < end; next++)
            if (accesses->accesses[next].offset + accesses->accesses[next].bytes > end)
                end = accesses->accesses[next].offset + accesses->accesses[next].bytes;
        mark_group(plan, accesses->accesses + i, accesses->accesses + next);
    }
}

int tutti_cuda_find_joins(struct tutti_cuda_plan *plan, struct tutti_err *err)
{
    struct accesses accesses = {0};
    uint32_t most = 0;
    int status = plan->lined ? 0 : find_pushed(plan, err);

    if (status < 0 || plan->asks) /* the host may read any scratch: nothing is left out */
        return status;
    for (uint32_t r = 0; r < plan->schedule->rank_count; r++) {
        uint32_t steps = plan->step_first[(r + 1) * plan->schedule->lane_count] -
                         plan->step_first[r * plan->schedule->lane_count];

        most = steps > most ? steps : most;
    }
    accesses.accesses = calloc(3 * (size_t)most + 1, sizeof(accesses.accesses[0]));
    if (accesses.accesses == NULL)
        return tutti_nomem(err);
    for (uint32_t r = 0; r < plan->schedule->rank_count; r++)
        mark_rank(plan, &accesses, r);
    free(accesses.accesses);
    return 0;
}

/* ---- two operations made one ----------------------------------------------------------------- */

static bool same_place(const struct tutti_cuda_place *a, const struct tutti_cuda_place *b)
{
    return a->rank == b->rank && a->buf == b->buf && a->offset == b->offset;
}

static bool same_rank_overlap(const struct tutti_cuda_place *a, const struct tutti_cuda_place *b,
                              uint64_t bytes)
{
    return a->rank == b->rank && a->buf == b->buf && a->offset < b->offset + bytes &&
           b->offset < a->offset + bytes;
}

/* Which source of `b` is the result of `a`, and could be made of a's sources in its stead; -1:
 * none. The first may be of several sources: they are combined from the left. */
static int source_of(const struct tutti_cuda_planned_op *a, const struct tutti_cuda_planned_op *b)
{
    int found = -1;

    for (int i = 0; i < b->src_count; i++) {
        if (same_place(&b->src[i], &a->dst[0])) {
            if (found >= 0)
                return -1;
            found = i;
        } else if (same_rank_overlap(&b->src[i], &a->dst[0], a->bytes)) {
            return -1;
        }
    }
    return found > 0 && a->src_count > 1 ? -1 : found;
}

/* Takes over the sources of `a`; false: they stay two. What `a` has stored is stored by `b`, or
 * nobody reads it. */
static bool reduces(const struct tutti_cuda_planned_op *op)
{
    return op->src_count > 1 || op->divide_by > 0;
}

static bool join_sources(struct tutti_cuda_planned_op *a, const struct tutti_cuda_planned_op *b)
{
    struct tutti_cuda_place src[TUTTI_CUDA_SOURCES_MAX];
    uint16_t count = 0;
    int at;

    if (a->src_count == 0 || b->src_count == 0 || a->bytes != b->bytes || a->dst_count != 1 ||
        tutti_cuda_is_line(&a->dst[0]) || a->divide_by != 0 || !a->plain ||
        a->src_count + b->src_count - 1 > TUTTI_CUDA_SOURCES_MAX)
        return false;
    if (reduces(a) && reduces(b) && a->code != b->code)
        return false;
    at = source_of(a, b);
    if (at < 0 || (!a->discarded && !same_place(&a->dst[0], &b->dst[0])))
        return false;
    for (uint16_t i = 0; i < b->src_count; i++) {
        if (i != at)
            src[count++] = b->src[i];
        else
            for (uint16_t j = 0; j < a->src_count; j++)
                src[count++] = a->src[j];
    }
    for (uint16_t i = 0; i < count; i++)
        a->src[i] = src[i];
    a->src_count = count;
    for (uint16_t i = 0; i < b->dst_count; i++)
        a->dst[i] = b->dst[i];
    a->dst_count = b->dst_count;
    if (reduces(b))
        a->code = b->code;
    a->divide_by = b->divide_by;
    a->discarded = b->discarded;
    a->plain = b->plain;
    return true;
}

/* A SEND by a line that is made of the operation's result, or of the same bytes as its own lines:
 * one more target; false: they stay two. */
static bool join_line(struct tutti_cuda_planned_op *a, const struct tutti_cuda_planned_op *b)
{
    bool result = a->dst_count > 0 && !tutti_cuda_is_line(&a->dst[0]);
    const struct tutti_cuda_place *same = result ? &a->dst[0] : &a->src[0];

    if (b->dst_count != 1 || !tutti_cuda_is_line(&b->dst[0]) || b->wait_count > 0 ||
        b->signal_count > 0 || a->dst_count == 0 || a->dst_count == TUTTI_CUDA_TARGETS_MAX ||
        a->bytes != b->bytes || b->src_count > 1 || (!result && a->src_count > 1) ||
        (b->src_count == 1 && (a->src_count == 0 || !same_place(same, &b->src[0]))))
        return false;
    a->dst[a->dst_count++] = b->dst[0];
    a->plain = false;
    return true;
}

/* The threads of a block store the signals of an operation in any order: of two for one counter the
 * later one alone is kept. Those of the second operation are the plan's last. */
static void merge_signals(struct tutti_cuda_plan *plan, struct tutti_cuda_planned_op *a,
                          uint32_t count)
{
    struct tutti_cuda_flag *signals;
    uint32_t old_count = a->signal_count;

    assert(a->signal_first + old_count + count == plan->signal_count);
    if (count == 0)
        return; /* there may be no signals at all yet, and no place for them */
    signals = plan->signals + a->signal_first;
    for (uint32_t i = 0; i < count; i++) {
        struct tutti_cuda_flag flag = signals[old_count + i];
        uint32_t same = 0;

        while (same < a->signal_count && signals[same].counter != flag.counter)
            same++;
        if (same == a->signal_count)
            a->signal_count++;
        signals[same] = flag;
    }
    plan->signal_count = a->signal_first + a->signal_count;
}

/* Makes *a one with *b, which comes next in the lane; false: they stay two. */
static bool join(struct tutti_cuda_plan *plan, struct tutti_cuda_planned_op *a,
                 const struct tutti_cuda_planned_op *b, bool sources)
{
    bool a_takes_time = a->duration_ps > 0 || a->asks;
    bool b_takes_time = b->duration_ps > 0 || b->asks;
    bool a_works = a->src_count > 0 || a->dst_count > 0 || a_takes_time;
    bool b_works = b->src_count > 0 || b->dst_count > 0 || b_takes_time;

    if (!a_works && a->signal_count == 0) { /* waits alone, then the other */
        struct tutti_cuda_planned_op all = *b;

        all.wait_first = a->wait_first;
        all.wait_count = a->wait_count + b->wait_count;
        all.step_first = a->step_first;
        *a = all;
        return true;
    }
    if (!b_works && b->wait_count == 0) { /* one, then signals alone */
        a->plain = a->plain && b->plain;
    } else if (a_takes_time || b_takes_time || (!sources && a->signal_count > 0) ||
               (!join_line(a, b) && !join_sources(a, b))) {
        return false;
    }
    a->wait_count += b->wait_count;
    merge_signals(plan, a, b->signal_count);
    a->step_end = b->step_end;
    return true;
}

void tutti_cuda_join_last(struct tutti_cuda_plan *plan, uint32_t first, bool sources)
{
    while (plan->op_count >= first + 2 &&
           join(plan, &plan->ops[plan->op_count - 2], &plan->ops[plan->op_count - 1], sources))
        plan->op_count--;
}
