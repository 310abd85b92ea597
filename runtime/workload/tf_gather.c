/* TensorFlow's way with the slices of sparse gradients among the devices of a host: all go to one,
 * which puts them one behind the other and sends the whole to each (cross_device_ops.py:
 * ReductionToOneDevice; "an inefficient all-gather").
 *
 * Price for n ranks, M bytes of each: 2 messages one after another; rank 0 receives (n-1) M and
 * sends (n-1) n M, every other rank sends M and receives n M. */
#include "runtime/coll.h"
#include "runtime/loop.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "runtime/workload/strategy_write.h"

static void write(struct tutti_loop *w)
{
    const uint64_t bytes = *(const uint64_t *)w->context;
    const struct tutti_buf_at in = {TUTTI_BUF_IN, 0};
    const struct tutti_buf_at all = {TUTTI_BUF_OUT, 0};

    if (w->rank > 0) {
        tutti_loop_append(w, tutti_step_send(in, bytes, 0));
        tutti_loop_append(w, tutti_step_recv(all, bytes * w->rank_count, 0));
        return;
    }
    tutti_loop_append(w, tutti_step_copy(all, in, bytes));
    for (uint32_t from = 1; from < w->rank_count; from++)
        tutti_loop_append(
            w, tutti_step_recv((struct tutti_buf_at){TUTTI_BUF_OUT, bytes * from}, bytes, from));
    for (uint32_t to = 1; to < w->rank_count; to++)
        tutti_loop_append(w, tutti_step_send(all, bytes * w->rank_count, to));
}

int tutti_writer_gather_at_one(const struct tutti_coll_params *params, uint32_t rank_count,
                               struct tutti_schedule **ret, struct tutti_err *err)
{
    const uint64_t bytes = tutti_times(params->count, tutti_dtype_bytes(params->dtype));
    const struct tutti_loop_desc desc = {
        .size = sizeof(desc),
        .head = {.name = "gather-broadcast",
                 .contract = {.collective = params->collective,
                              .dtype = params->dtype,
                              .op = params->op,
                              .count = params->count},
                 .rank_count = rank_count,
                 .lane_count = 1},
        .share_lanes = 1,
        .write = write,
        .context = &bytes,
        .context_bytes = sizeof(bytes),
    };

    if (tutti_times(bytes, rank_count) > INT64_MAX / 2)
        return tutti_fail(
            err, TUTTI_EINVAL,
            "slices of '%llu' elements on %u ranks are more bytes than can be counted",
            (unsigned long long)params->count, rank_count);
    return tutti_loop_schedule(&desc, ret, err);
}
