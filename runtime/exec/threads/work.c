/* The reductions of a rank, several in one pass where that can be. */
#include <assert.h>

#include "runtime/exec/kernels.h"
#include "runtime/exec/threads/place.h"

/* Adds to dsts[0 .. *count) the receivers' landings of the result of REDUCE `index`, as far as
 * their ranks have begun this iteration. */
void tutti_stage_add_landings(struct tutti_thread_stage *stage, struct tutti_place *place,
                              uint64_t index, void **dsts, uint32_t *count)
{
    const struct tutti_push *push = place->push;
    uint_fast64_t now =
        atomic_load_explicit(&tutti_fellow_of(stage, stage->rank)->iteration, memory_order_relaxed);

    if (push == place->push_end || push->step != index)
        return;
    place->push++;
    place->targets = stage->pushes->targets + push->target_first;
    place->targets_end = place->targets + push->target_count;
    place->pushed = 0;
    for (uint32_t i = 0; i < push->target_count; i++) {
        const struct tutti_push_target *target = &place->targets[i];
        struct tutti_fellow *fellow = tutti_fellow_of(stage, target->to);

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
    void *dsts[1 + TUTTI_PUSH_TARGETS_MAX] = {tutti_at(stage, step->dst_buf, step->dst_offset)};
    struct tutti_spread spread = {
        .dtype = contract->dtype,
        .op = contract->op,
        .count = (size_t)step->bytes / tutti_dtype_bytes(contract->dtype),
        .acc = acc,
        .srcs = srcs,
        .dsts = dsts,
        .src_count = src_count,
        .dst_count = 1,
        .divide_by = tutti_divisor(stage, step),
        .stream = step->bytes >= stage->large_bytes,
    };

    tutti_stage_add_landings(stage, place, index, dsts, &spread.dst_count);
    /* What has been pushed is not read again soon, so the size of the whole output counts. */
    if (spread.dst_count > 1 && stage->schedule->out_bytes / 2 >= stage->large_bytes)
        spread.stream = true;
    /* What has been pushed is read where it was pushed to. */
    spread.handed =
        spread.dst_count == 1 &&
        tutti_pushes_hand_on(stage->pushes, stage->rank - stage->wires->first_rank, step->dst_buf);
    if (step->bytes > 0 && stage->hands != NULL)
        tutti_hands_reduce(stage->hands, stage->rank - stage->wires->first_rank, &spread);
    else if (step->bytes > 0)
        tutti_reduce_spread(&spread);
}

/* Does what has been put off. */
void tutti_stage_settle_chain(struct tutti_thread_stage *stage, struct tutti_place *place)
{
    struct tutti_chain *chain = &place->chain;

    assert(chain->length > 0);
    reduce(stage, place, &chain->step, chain->index, chain->acc, chain->srcs, chain->length);
    for (uint32_t i = 0; i < chain->length; i++)
        tutti_stage_release(stage, chain->wires[i]);
    chain->length = 0;
    stage->chain_count--;
}

/* Whether the posted step may come before what has been put off in its lane is done. */
bool tutti_stage_goes_with(const struct tutti_chain *chain, const struct tutti_place *place,
                           const struct tutti_step *step)
{
    if (step->kind == TUTTI_REDUCE)
        return place->fused != NULL && tutti_reads_fused(&place->fused_step, step) &&
               step->acc_buf == chain->step.dst_buf && step->acc_offset == chain->step.dst_offset &&
               step->dst_buf == chain->step.dst_buf && step->dst_offset == chain->step.dst_offset &&
               step->bytes == chain->step.bytes;
    if (step->kind != TUTTI_RECV || (step->flags & TUTTI_STEP_FUSE) == 0 ||
        chain->length == TUTTI_CHAIN_MAX)
        return false;
    for (uint32_t i = 0; i < chain->length; i++) {
        if (chain->wires[i]->from == step->peer) /* its slot is not given back yet */
            return false;
    }
    return true;
}

void tutti_stage_reduce(struct tutti_thread_stage *stage, struct tutti_place *place)
{
    const struct tutti_step *step = place->post.step;
    const void *acc = tutti_at(stage, step->acc_buf, step->acc_offset);
    const void *src = tutti_at(stage, step->src_buf, step->src_offset);
    struct tutti_chain *chain = &place->chain;

    if (place->ahead) {
        place->ahead = false;
        place->fused = NULL;
        tutti_stage_release(stage, place->in);
        return;
    }
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
        tutti_stage_settle_chain(stage, place);
}

/* The message that the lane's RECV waits for may lie with its sender long before it has arrived on
 * the other machine. All that its SEND comes after has happened, and the RECV is posted, so that
 * the bytes may be stored; and added, if nothing but the RECV has to come before that. Only the
 * messages' slots are given back when they have arrived, so that nobody learns of it. */
static bool work_ahead(struct tutti_thread_stage *stage, struct tutti_place *place)
{
    const struct tutti_step *step = place->post.step;
    const struct tutti_step *next = place->post.next;
    const struct tutti_slot *slot;

    if (step->kind != TUTTI_RECV || place->in->way != NULL || place->ahead)
        return false;
    slot = &place->in->slots[place->in->taken_slot];
    if (atomic_load(&slot->serial) != place->in->taken_count + 1 || slot->bytes != step->bytes ||
        slot->data == NULL)
        return false;
    if ((step->flags & TUTTI_STEP_FUSE) == 0) {
        tutti_stage_copy(stage, tutti_at(stage, step->dst_buf, step->dst_offset), slot->data,
                         step->bytes);
    } else {
        if (next == NULL || (next->flags & TUTTI_STEP_DEP) != 0 || !tutti_reads_fused(step, next))
            return false;
        reduce(stage, place, next, place->post.index + 1,
               tutti_at(stage, next->acc_buf, next->acc_offset), &slot->data, 1);
    }
    place->ahead = true;
    return true;
}

uint64_t tutti_thread_stage_work_ahead(struct tutti_thread_stage *stage, uint64_t bytes_max)
{
    uint64_t bytes = 0;

    assert(stage->chain_count == 0);
    for (uint32_t i = 0; i < stage->busy_count && bytes < bytes_max; i++) {
        struct tutti_place *place = &stage->places[stage->busy[i]];

        if (work_ahead(stage, place))
            bytes += place->post.step->bytes;
    }
    return bytes;
}
