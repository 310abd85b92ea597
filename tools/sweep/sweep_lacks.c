/* What Tutti's own algorithms lack where NCCL or RCCL would be much faster; see sweep.h. */
#include <stdio.h>
#include <string.h>

#include "tools/sweep/sweep.h"

enum { LACK_PERCENT = 130, LACK_BYTES_MIN = 1 << 20 };

static bool adds_in_switches(const char *algorithm)
{
    return strstr(algorithm, ":nvls") != NULL || strstr(algorithm, ":collnet") != NULL;
}

const char *tutti_sweep_lacks(const struct tutti_sweep *sweep, const struct tutti_point *point,
                              const char *limit, char buf[TUTTI_SWEEP_LACKS_BYTES])
{
    uint32_t size_index = (uint32_t)((size_t)(point - sweep->points) / sweep->algorithm_count);
    const struct tutti_point *library = tutti_sweep_library(sweep, size_index);
    double times;

    buf[0] = '\0';
    if (library == NULL || point != tutti_sweep_best(sweep, size_index) ||
        point->answer.bytes < LACK_BYTES_MIN || library->answer.time_ps == 0)
        return buf;
    times = (double)point->answer.time_ps / (double)library->answer.time_ps;
    if (times * 100 <= LACK_PERCENT)
        return buf;
    if (adds_in_switches(library->answer.algorithm))
        (void)snprintf(buf, TUTTI_SWEEP_LACKS_BYTES,
                       "%.2f times %s: no schedule of messages lets switches add up", times,
                       library->answer.algorithm);
    else if (limit[0] == '\0' || strcmp(limit, "not known") == 0)
        (void)snprintf(buf, TUTTI_SWEEP_LACKS_BYTES,
                       "%.2f times %s: no algorithm of Tutti's keeps as many links busy", times,
                       library->answer.algorithm);
    else
        (void)snprintf(buf, TUTTI_SWEEP_LACKS_BYTES, "%.2f times %s: it is limited by %s", times,
                       library->answer.algorithm, limit);
    return buf;
}
