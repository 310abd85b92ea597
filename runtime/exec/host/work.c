/* The reductions of a rank, several in one pass where that can be. */
#include <assert.h>

#include "runtime/exec/device/kernels.h"
#include "runtime/exec/host/lane_state.h"

/* Adds to dsts[0 .. *count) the receivers' windows of the result of REDUCE `index`, as far as
 * their ranks have begun this iteration. */
void tutti_stage_add_targets(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state,
                             uint64_t index, void **dsts, uint32_t *count)
{
    const struct tutti_remote_write *remote_write = lane_state->remote_write;
    uint_fast64_t now = atomic_load_explicit(&tutti_rank_peer_of(stage, stage->rank)->iteration,
                                             memory_order_relaxed);

    if (remote_write == lane_state->remote_write_end || remote_write->step != index)
        return;
    lane_state->remote_write++;
    lane_state->targets = stage->remote_writes->targets + remote_write->target_first;
    lane_state->targets_end = lane_state->targets + remote_write->target_count;
    lane_state->pushed = 0;
    for (uint32_t i = 0; i < remote_write->target_count; i++) {
        const struct tutti_remote_write_target *target = &lane_state->targets[i];
        struct tutti_rank_peer *rank_peer = tutti_rank_peer_of(stage, target->to);

        if (atomic_load_explicit(&rank_peer->iteration, memory_order_acquire) < now)
            continue;
        dsts[(*count)++] = rank_peer->out + target->offset;
        lane_state->pushed |= UINT32_C(1) << i;
    }
}

/* dst = (acc op srcs[0]) op srcs[1] ..., ending with REDUCE `index`, whose step this is. */
static void reduce(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state,
                   const struct tutti_step *step, uint64_t index, const void *acc,
                   const void *const *srcs, uint32_t src_count)
{
    const struct tutti_reduction reduction = tutti_reduction_of(stage, step);
    void *dsts[1 + TUTTI_REMOTE_WRITE_TARGETS_MAX] = {
        tutti_at(stage, step->dst_buf, step->dst_offset)};
    struct tutti_spread spread = {
        .dtype = reduction.dtype,
        .op = reduction.op,
        .count = (size_t)step->bytes / tutti_dtype_bytes(reduction.dtype),
        .acc = acc,
        .srcs = srcs,
        .dsts = dsts,
        .src_count = src_count,
        .dst_count = 1,
        .divide_by = reduction.divisor,
        .stream = step->bytes >= stage->large_bytes,
    };

    tutti_stage_add_targets(stage, lane_state, index, dsts, &spread.dst_count);
    /* What has been pushed is not read again soon, so the size of the whole output counts. */
    if (spread.dst_count > 1 && stage->schedule->out_bytes / 2 >= stage->large_bytes)
        spread.stream = true;
    /* What has been pushed is read where it was pushed to. */
    spread.handed =
        spread.dst_count == 1 &&
        tutti_remote_writes_helper_on(stage->remote_writes,
                                      stage->rank - stage->connections->first_rank, step->dst_buf);
    if (step->bytes > 0 && stage->helpers != NULL)
        tutti_helpers_reduce(stage->helpers, stage->rank - stage->connections->first_rank, &spread);
    else if (step->bytes > 0)
        tutti_reduce_spread(&spread);
}

/* Does what has been put off. */
void tutti_stage_settle_deferred(struct tutti_thread_stage *stage,
                                 struct tutti_lane_state *lane_state)
{
    struct tutti_deferred *deferred = &lane_state->deferred;

    assert(deferred->length > 0);
    reduce(stage, lane_state, &deferred->step, deferred->index, deferred->acc, deferred->srcs,
           deferred->length);
    for (uint32_t i = 0; i < deferred->length; i++)
        tutti_stage_release(stage, deferred->connections[i]);
    deferred->length = 0;
    stage->chain_count--;
}

/* Whether the posted step may come before what has been put off in its lane is done. */
bool tutti_stage_goes_with(const struct tutti_deferred *deferred,
                           const struct tutti_lane_state *lane_state, const struct tutti_step *step)
{
    if (step->kind == TUTTI_REDUCE)
        return lane_state->fused != NULL && tutti_reads_fused(&lane_state->fused_step, step) &&
               step->acc_buf == deferred->step.dst_buf &&
               step->acc_offset == deferred->step.dst_offset &&
               step->dst_buf == deferred->step.dst_buf &&
               step->dst_offset == deferred->step.dst_offset &&
               step->bytes == deferred->step.bytes && step->reduction == deferred->step.reduction;
    if (step->kind != TUTTI_RECV || (step->flags & TUTTI_STEP_FUSE) == 0 ||
        deferred->length == TUTTI_DEFERRED_MAX)
        return false;
    for (uint32_t i = 0; i < deferred->length; i++) {
        if (deferred->connections[i]->from == step->peer) /* its slot is not given back yet */
            return false;
    }
    return true;
}

void tutti_stage_reduce(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state)
{
    const struct tutti_step *step = lane_state->post.step;
    const void *acc = tutti_at(stage, step->acc_buf, step->acc_offset);
    const void *src = tutti_at(stage, step->src_buf, step->src_offset);
    struct tutti_deferred *deferred = &lane_state->deferred;

    if (lane_state->ahead) {
        lane_state->ahead = false;
        lane_state->fused = NULL;
        tutti_stage_release(stage, lane_state->in);
        return;
    }
    if (lane_state->fused == NULL) {
        reduce(stage, lane_state, step, lane_state->post.index, acc, &src, 1);
        return;
    }
    if (deferred->length == 0) {
        deferred->acc = acc;
        stage->chain_count++;
    }
    deferred->step = *step;
    deferred->index = lane_state->post.index;
    deferred->srcs[deferred->length] = lane_state->fused->data;
    deferred->connections[deferred->length++] = lane_state->in;
    lane_state->fused = NULL;
    /* The times of a record are those of the steps; and what is complete is not put off. */
    if (stage->timed || (step->flags & TUTTI_STEP_LAST) != 0)
        tutti_stage_settle_deferred(stage, lane_state);
}

/* The message that the lane's RECV waits for may lie with its sender long before it has arrived on
 * the other machine. All that its SEND comes after has happened, and the RECV is posted, so that
 * the bytes may be stored; and added, if nothing but the RECV has to come before that. Only the
 * messages' slots are given back when they have arrived, so that nobody learns of it. */
static bool work_ahead(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state)
{
    const struct tutti_step *step = lane_state->post.step;
    const struct tutti_step *next = lane_state->post.next;
    const struct tutti_slot *slot;

    if (step->kind != TUTTI_RECV || lane_state->in->endpoint != NULL || lane_state->ahead)
        return false;
    slot = &lane_state->in->slots[lane_state->in->taken_slot];
    if (atomic_load(&slot->serial) != lane_state->in->taken_count + 1 ||
        slot->bytes != step->bytes || slot->data == NULL)
        return false;
    if ((step->flags & TUTTI_STEP_FUSE) == 0) {
        tutti_stage_copy(stage, tutti_at(stage, step->dst_buf, step->dst_offset), slot->data,
                         step->bytes);
    } else {
        if (next == NULL || (next->flags & TUTTI_STEP_DEP) != 0 || !tutti_reads_fused(step, next))
            return false;
        reduce(stage, lane_state, next, lane_state->post.index + 1,
               tutti_at(stage, next->acc_buf, next->acc_offset), &slot->data, 1);
    }
    lane_state->ahead = true;
    return true;
}

uint64_t tutti_thread_stage_work_ahead(struct tutti_thread_stage *stage, uint64_t bytes_max)
{
    uint64_t bytes = 0;

    assert(stage->chain_count == 0);
    for (uint32_t i = 0; i < stage->busy_count && bytes < bytes_max; i++) {
        struct tutti_lane_state *lane_state = &stage->places[stage->busy[i]];

        if (work_ahead(stage, lane_state))
            bytes += lane_state->post.step->bytes;
    }
    return bytes;
}
