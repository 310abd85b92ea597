/* Times of a GPU on the clock of the host; see gpu.h. */
#include "runtime/exec/cuda/gpu.h"

void tutti_gpu_place_times(tutti_ps gpu_ps, tutti_ps host_ps, tutti_ps *ret_later_ps,
                           tutti_ps *ret_error_ps)
{
    tutti_ps slack_ps = host_ps - gpu_ps;

    *ret_later_ps = slack_ps > 0 ? slack_ps / 2 : 0;
    *ret_error_ps = slack_ps > 0 ? (slack_ps + 1) / 2 : -slack_ps;
}
