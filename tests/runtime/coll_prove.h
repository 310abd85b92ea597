/* Checking and proving a generator in all manners of cutting its data. */
#ifndef TUTTI_TESTS_RUNTIME_COLL_PROVE_H
#define TUTTI_TESTS_RUNTIME_COLL_PROVE_H

#include "runtime/coll.h"
#include "runtime/status.h"
#include "tests/runtime/coll_cases.h"

enum { RANKS_MAX = 33 };

static uint64_t asked_count; /* of the running test; of fewer, not all are proved */
static uint64_t proved_count;

static void prove(const struct tutti_algorithm *algorithm, const struct tutti_coll_params *params,
                  const struct tutti_shape *shape)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};
    char what[256];
    int status;

    asked_count++;
    if (!test_takes())
        return;
    status = algorithm->generate(params, shape, &schedule, &err);
    if (status == 0)
        status = tutti_schedule_check(schedule, &err);
    if (status == 0)
        status = tutti_schedule_prove(schedule, &err);
    if (status != 0)
        TEST_FAIL("%s: %s", case_text(algorithm->name, params, shape, what, sizeof(what)),
                  err.text);
    if (schedule != NULL)
        CHECK_INT(schedule->rank_count, shape->rank_count);
    tutti_schedule_free(schedule);
    proved_count++;
}

/* One channel whole; sliced to the last slot; many channels and chunks; a chunk an element. */
static const struct coll_manner manners[] = {
    {0, 0, 0, 0}, {1, 0, 3, 3}, {3, 16, 2, 2}, {2, 8, 1, 1}, {5, 8, 2, 3}};

enum { MANNER_COUNT = sizeof(manners) / sizeof(manners[0]) };

/* Whatever the size of the element: nothing moves that is not a whole one. */
static const enum tutti_dtype dtypes[] = {TUTTI_FLOAT32, TUTTI_INT8, TUTTI_FLOAT64, TUTTI_BFLOAT16};

static struct tutti_coll_params params_of(enum tutti_collective collective, size_t manner,
                                          uint32_t root, uint64_t count)
{
    return (struct tutti_coll_params){.collective = collective,
                                      .dtype = dtypes[manner % 4],
                                      .op = manner % 2 == 0 ? TUTTI_SUM : TUTTI_AVG,
                                      .root = root,
                                      .count = collective == TUTTI_BARRIER ? 0 : count,
                                      .channel_count = manners[manner].channel_count,
                                      .chunk_bytes = manners[manner].chunk_bytes,
                                      .slice_count = manners[manner].slice_count,
                                      .slot_count = manners[manner].slot_count};
}

#endif
