/* COMPUTE steps that have a function: the host does them between launches, on its own copies of the
 * buffers. What the work reads is brought there, and what it writes back. */
#include "runtime/exec/nccl/ranks.h"
#include "runtime/schedule.h"

/* `back`: what the work wrote, to the GPU; else to the host what it reads, and what it writes as
 * well, of which it may leave some. */
static int move(const struct tutti_nccl_part *part, const tutti_handle *bufs,
                const struct tutti_work_call *call, bool back, struct tutti_err *err)
{
    const struct tutti_work *work = call->work;
    uint32_t count = back ? work->write_count : work->read_count + work->write_count;
    struct tutti_gpu *gpu = &part->rank->gpu;
    int status = 0;

    for (uint32_t i = 0; i < count && status == 0; i++) {
        bool reads = !back && i < work->read_count;
        const struct tutti_region *region =
            reads ? &work->reads[i] : &work->writes[back ? i : i - work->read_count];
        struct tutti_region at = tutti_region_at(region, call->step);
        char *here = (char *)tutti_handle_address(bufs[at.buf]) + at.offset;
        uint64_t there = part->addresses[at.buf] + at.offset;

        if (at.bytes == 0 || at.buf == TUTTI_BUF_IN) /* nobody writes that one */
            continue;
        status = back ? tutti_gpu_upload(gpu, there, here, (size_t)at.bytes, err)
                      : tutti_gpu_download(gpu, here, there, (size_t)at.bytes, err);
    }
    return status;
}

int tutti_nccl_host_work(const struct tutti_nccl_loaded *run, uint32_t own,
                         const struct tutti_nccl_launch *launch, struct tutti_err *err)
{
    const struct tutti_nccl_part *part = &run->parts[own];
    const tutti_handle *bufs = run->load.buffers->handles[own];
    const struct tutti_work_call call = {
        .work = &run->load.schedule->work[launch->work->peer - 1],
        .step = launch->work,
        .rank = part->rank->rank,
        .iteration = run->iteration,
        .in = tutti_handle_address(bufs[TUTTI_BUF_IN]),
        .out = tutti_handle_address(bufs[TUTTI_BUF_OUT]),
        .scratch = tutti_handle_address(bufs[TUTTI_BUF_SCRATCH]),
        .state = tutti_handle_address(bufs[TUTTI_BUF_STATE]),
    };
    char text[TUTTI_STEP_TEXT_BYTES];
    int status = move(part, bufs, &call, false, err);

    if (status < 0)
        return status;
    status = call.work->run(&call, err);
    if (status < 0)
        return tutti_wrap(err, status, "rank %u, lane %u, step %llu (%s), work '%s'", call.rank,
                          launch->work_lane, (unsigned long long)launch->work_index,
                          tutti_step_text(launch->work, text), call.work->name);
    return move(part, bufs, &call, true, err);
}
