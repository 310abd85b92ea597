/* The machine as it is beside a timing; see local.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/schedule.h"
#include "tools/local/local.h"

/* Of all that a calibration times: what passes between processors, of sizes that stay in a cache,
 * that just do not, and that no cache keeps. */
static bool is_probe(const struct tutti_local_point *point, const struct tutti_local *calibrated)
{
    static const char *const names[] = {"message", "reduce-input", "reduce-fresh",
                                        "push",    "copies",       "reduces"};
    static const uint64_t sizes[] = {96 << 10, 384 << 10, 1536 << 10};
    static const uint64_t large = 12 << 20;
    bool named = false;
    bool sized = calibrated->process_count > 1 && point->bytes == large;

    if (strcmp(point->what, "hops") == 0 || strcmp(point->what, "nothing") == 0)
        return true;
    if (strcmp(point->what, "message-chunks") == 0)
        return point->bytes == large;
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
    *ret = beside;
    return 0;
}

void tutti_local_beside_close(struct tutti_local_beside *beside)
{
    tutti_local_points_close(&beside->probes);
}

/* Times the probes and fits `now` to them. */
static int probe(struct tutti_local_beside *beside, struct tutti_err *err)
{
    struct tutti_local now = beside->calibrated;
    struct tutti_local_fitted fitted;
    double sigma;
    int status = tutti_local_time_points(&beside->ask, &beside->probes, err);

    if (status < 0)
        return status;
    now.apart_ns = beside->probes.apart_ns;
    if (!tutti_local_moved(now.apart_ns, beside->calibrated.apart_ns)) {
        beside->now = beside->calibrated; /* it has come back meanwhile */
        return 0;
    }
    /* What passes between processors may have changed as much as the way from one to the other. */
    sigma = fabs(log(now.apart_ns / beside->calibrated.apart_ns));
    status = tutti_local_fit_between(&beside->probes, sigma, &now, &fitted, err);
    if (status < 0)
        return status;
    beside->now = now;
    beside->probe_count++;
    return 0;
}

int tutti_local_beside_follow(struct tutti_local_beside *beside, double apart_ns,
                              struct tutti_err *err)
{
    if (!tutti_local_moved(apart_ns, beside->now.apart_ns))
        return 0;
    if (!tutti_local_moved(apart_ns, beside->calibrated.apart_ns)) {
        beside->now = beside->calibrated;
        return 0;
    }
    return probe(beside, err);
}
