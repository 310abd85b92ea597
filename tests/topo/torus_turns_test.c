/* Tori of unequal axes take turns: what is written then is proved, at sizes where it is written. */
#include "runtime/coll.h"
#include "runtime/status.h"
#include "tests/test.h"

static struct tutti_schedule *torus(const uint32_t *dims, uint32_t dim_count,
                                    struct tutti_coll_params params)
{
    struct tutti_shape shape = {.rank_count = 1, .dim_count = dim_count};
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    for (uint32_t i = 0; i < dim_count; i++) {
        shape.dim[i] = dims[i];
        shape.wrap[i] = dims[i] > 2;
        shape.rank_count *= dims[i];
    }
    params.dtype = TUTTI_INT32;
    CHECK_OK(tutti_coll_generate("torus", &params, &shape, &schedule, &err), err);
    if (schedule == NULL)
        exit(1);
    return schedule;
}

static const uint32_t grids[][4] = {
    {2, 3, 0, 0}, {3, 5, 0, 0}, {5, 4, 0, 0}, {2, 16, 0, 0},
    {7, 1, 3, 0}, {3, 4, 2, 0}, {2, 2, 4, 0}, {2, 2, 2, 3},
};

static uint32_t dims_of(const uint32_t *grid)
{
    uint32_t count = 0;

    while (count < 4 && grid[count] > 0)
        count++;
    return count;
}

TEST(turns_are_proved)
{
    static const struct tutti_coll_params cases[] = {
        {.count = 1 << 26},
        {.count = (1 << 26) + 13},
        {.count = (1 << 27) + 1, .channel_count = 3, .slice_count = 3},
        {.count = 1 << 26, .slot_count = 2, .op = TUTTI_AVG},
    };

    for (size_t g = 0; g < sizeof(grids) / sizeof(grids[0]); g++) {
        uint32_t dim_count = dims_of(grids[g]);

        for (size_t c = g % 2; c < sizeof(cases) / sizeof(cases[0]); c += 2) {
            uint32_t channels = dim_count > 2 ? 1 : cases[c].channel_count; /* else it takes long */
            struct tutti_coll_params params = cases[c];
            struct tutti_schedule *schedule;
            struct tutti_err err = {""};

            params.channel_count = channels;
            schedule = torus(grids[g], dim_count, params);
            /* more lanes than two for each axis: these are turns */
            CHECK(schedule->lane_count > 2 * dim_count * (channels > 0 ? channels : 1));
            CHECK_OK(tutti_schedule_check(schedule, &err), err);
            CHECK_OK(tutti_schedule_prove(schedule, &err), err);
            tutti_schedule_free(schedule);
        }
    }
}

/* Short messages, pieces of the caller's choice, one slot, equal axes or open ones: as ever. */
TEST(turns_are_taken_only_where_they_help)
{
    static const uint32_t unequal[] = {3, 5};
    static const uint32_t equal[] = {4, 4};
    struct tutti_coll_params large = {.count = 1 << 26};
    struct tutti_coll_params cases[] = {large, large, large};

    cases[0].count = 1 << 16;
    cases[1].chunk_bytes = 1 << 20;
    cases[2].slot_count = 1;
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct tutti_schedule *schedule = torus(unequal, 2, cases[c]);

        CHECK_INT(schedule->lane_count, 4);
        tutti_schedule_free(schedule);
    }
    for (int i = 0; i < 2; i++) {
        struct tutti_schedule *schedule = torus(i == 0 ? equal : unequal, 2, large);

        CHECK_INT(schedule->lane_count, i == 0 ? 4 : 8);
        tutti_schedule_free(schedule);
    }
}
