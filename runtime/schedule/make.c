/* Steps made of what they are about, for those who write generators. */
#include "runtime/schedule.h"

struct tutti_step tutti_step_send(struct tutti_buf_at src, uint64_t bytes, uint32_t to)
{
    return (struct tutti_step){.kind = TUTTI_SEND,
                               .src_buf = (uint8_t)src.buf,
                               .src_offset = src.offset,
                               .bytes = bytes,
                               .peer = to};
}

struct tutti_step tutti_step_recv(struct tutti_buf_at dst, uint64_t bytes, uint32_t from)
{
    return (struct tutti_step){.kind = TUTTI_RECV,
                               .dst_buf = (uint8_t)dst.buf,
                               .dst_offset = dst.offset,
                               .bytes = bytes,
                               .peer = from};
}

struct tutti_step tutti_step_reduce(struct tutti_buf_at dst, struct tutti_buf_at acc,
                                    struct tutti_buf_at src, uint64_t bytes)
{
    return (struct tutti_step){.kind = TUTTI_REDUCE,
                               .dst_buf = (uint8_t)dst.buf,
                               .dst_offset = dst.offset,
                               .acc_buf = (uint8_t)acc.buf,
                               .acc_offset = acc.offset,
                               .src_buf = (uint8_t)src.buf,
                               .src_offset = src.offset,
                               .bytes = bytes};
}

struct tutti_step tutti_step_copy(struct tutti_buf_at dst, struct tutti_buf_at src, uint64_t bytes)
{
    return (struct tutti_step){.kind = TUTTI_COPY,
                               .dst_buf = (uint8_t)dst.buf,
                               .dst_offset = dst.offset,
                               .src_buf = (uint8_t)src.buf,
                               .src_offset = src.offset,
                               .bytes = bytes};
}

struct tutti_step tutti_step_compute(const struct tutti_work *work, uint32_t index)
{
    return (struct tutti_step){.kind = TUTTI_COMPUTE,
                               .peer = index + 1,
                               .flops = work->flops,
                               .duration_ps = work->duration_ps};
}

struct tutti_step tutti_step_call(uint32_t callee, uint8_t axis, struct tutti_buf_at in,
                                  struct tutti_buf_at out, uint64_t scratch_offset)
{
    return (struct tutti_step){.kind = TUTTI_CALL,
                               .axis = axis,
                               .peer = callee,
                               .src_buf = (uint8_t)in.buf,
                               .src_offset = in.offset,
                               .dst_buf = (uint8_t)out.buf,
                               .dst_offset = out.offset,
                               .acc_offset = scratch_offset};
}
