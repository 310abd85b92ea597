/* Whether a schedule is played faster as a graph of levels than by a block a lane, and by how much.
 *
 * A rule of three numbers, fitted to all 33 pairs of launches and graphs that were measured
 * (traces/measured/h200/graph.tsv and h100/graph.tsv: ring, two-shot and one-shot of 8 ranks, 64 B
 * to 64 MiB), each weighed by its launch's time:
 *
 *   graph - launch = -6.80 us + 1.81 us * levels + 96.2 us/GB * again
 *
 * A graph is begun faster than a kernel whose blocks must all be there at once; each level waits
 * for the last block of the one before; and `again`, the bytes that are moved beyond reading all
 * buffers and writing them once, come from memory, where blocks of a lane find most of them in the
 * cache. The sign is right in 33 of 33 pairs, and in 33 of 33 that were left out one by one, a size
 * at a time, or a GPU at a time. Residuals up to 256 KiB: median 0.9 us, 2.1 us at 90 %; above they
 * are as large as what is told apart: of a ring of 4 MiB 32 us of 56, one-shot of 64 MiB of an H100
 * 251 us of 608. Other rank counts than 8 were not measured. */
#include "runtime/cuda_work.h"
#include "runtime/exec/cuda/plan.h"
#include "runtime/units.h"

static const double begin_us = -6.80;
static const double level_us = 1.81;
static const double again_us_GB = 96.2;

/* Bytes that any play reads or writes once at least. */
static double least_bytes(const struct tutti_schedule *schedule)
{
    double least = 0;

    for (uint32_t r = 0; r < schedule->rank_count; r++) {
        struct tutti_buf_sizes sizes;

        tutti_schedule_buf_sizes(schedule, r, &sizes);
        least += (double)sizes.in_bytes + (double)sizes.out_bytes + 2.0 * (double)sizes.state_bytes;
    }
    return least;
}

int tutti_cuda_weigh_graph(const struct tutti_schedule *schedule, tutti_ps *ret,
                           struct tutti_err *err)
{
    struct tutti_cuda_stages stages = {.levels = NULL};
    struct tutti_cuda_plan plan;
    int status = tutti_cuda_plan_open(&plan, schedule, TUTTI_CUDA_JOINED, err);
    double again;

    if (status < 0)
        return status;
    if (plan.asks)
        *ret = INT64_MAX;
    else
        status = tutti_cuda_stages_open(&stages, &plan, err);
    if (status == 0 && !plan.asks) {
        again = (double)plan.moved_bytes - least_bytes(schedule);
        *ret = (tutti_ps)((begin_us + level_us * stages.level_count +
                           again_us_GB * (again > 0 ? again / 1e9 : 0)) *
                          TUTTI_PS_PER_US);
    }
    tutti_cuda_stages_close(&stages);
    tutti_cuda_plan_close(&plan);
    return status;
}
