/* The machine as it is beside a timing; see local.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/schedule.h"
#include "tools/local.h"

/* The same places, so far as looks can tell: what passes between them may still differ by this. */
static const double sigma_least = 0.1;

/* Of all that a calibration times: what passes between processors, of sizes that stay in a cache,
 * that just do not, and that a cache does not see. */
static bool is_probe(const struct tutti_local_point *point, const struct tutti_local *calibrated)
{
    static const char *const names[] = {"message", "reduce-input", "reduce-fresh",
                                        "push",    "copies",       "reduces"};
    static const uint64_t sizes[] = {96 << 10, 384 << 10, 1536 << 10};
    bool named = false;
    bool sized = calibrated->process_count > 1 && point->bytes == 12 << 20;

    if (strcmp(point->what, "hops") == 0 || strcmp(point->what, "nothing") == 0)
        return true;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        named = named || strcmp(point->what, names[i]) == 0;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        sized = sized || point->bytes == sizes[i];
    return named && sized;
}

int tutti_local_beside_open(const struct tutti_local_ask *ask, const struct tutti_local *calibrated,
                            struct tutti_local_beside *ret, struct tutti_err *err)
{
    struct tutti_local_beside beside = {.ask = *ask, .calibrated = *calibrated, .now = *calibrated};
    struct tutti_local_points *points = &beside.probes;
    uint32_t kept = 0;
    int status;

    beside.ask.bytes_max = 12 << 20;
    beside.ask.brief = false; /* all sizes, */
    status = tutti_local_points_make(&beside.ask, points, err);
    if (status < 0)
        return status;
    beside.ask.brief = true; /* and a few iterations of each */
    for (uint32_t i = 0; i < points->count; i++) {
        if (is_probe(&points->points[i], calibrated))
            points->points[kept++] = points->points[i];
        else
            tutti_schedule_free(points->points[i].schedule);
    }
    points->count = kept;
    beside.now.apart_ns = 0;
    *ret = beside;
    return 0;
}

void tutti_local_beside_close(struct tutti_local_beside *beside)
{
    tutti_local_points_close(&beside->probes);
}

int tutti_local_beside_probe(struct tutti_local_beside *beside, struct tutti_err *err)
{
    struct tutti_local now = beside->calibrated;
    struct tutti_local_fitted fitted;
    double sigma = sigma_least;
    int status = tutti_local_time_points(&beside->ask, &beside->probes, err);

    if (status < 0)
        return status;
    now.apart_ns = beside->probes.apart_ns;
    /* What passes between processors may have changed as much as the way from one to the other. */
    if (now.apart_ns > 0 && beside->calibrated.apart_ns > 0)
        sigma += fabs(log(now.apart_ns / beside->calibrated.apart_ns));
    status = tutti_local_fit_between(&beside->probes, sigma, &now, &fitted, err);
    if (status < 0)
        return status;
    beside->now = now;
    beside->probe_count++;
    return 0;
}
