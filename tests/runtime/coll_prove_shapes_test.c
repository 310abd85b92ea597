/* Generators are proved on every hierarchy and grid and for every root, and no mutant survives. */
#include "tests/runtime/coll_prove.h"
#include "tests/runtime/mutate.h"

/* Levels and grid as given, the same with axes of one rank between them. */
static void prove_nest(const struct tutti_shape *shape, void *user)
{
    struct tutti_shape padded = tutti_shape_flat(shape->rank_count);
    size_t manner = (size_t)asked_count % (test_full ? MANNER_COUNT : MANNER_COUNT - 1);
    uint64_t count = 3 * (uint64_t)shape->rank_count - 2;
    struct tutti_coll_params params = params_of(TUTTI_ALLREDUCE, manner, 0, count);

    prove(user, &params, shape);
    if (!test_full && asked_count % 3 != 0)
        return;
    case_add(&padded, 1);
    for (uint32_t i = 0; i < shape->level_count; i++) {
        case_add(&padded, shape->level[i]);
        if (padded.level_count + shape->level_count - i < TUTTI_LEVELS_MAX)
            case_add(&padded, 1);
    }
    params.count = shape->rank_count / 2;
    prove(user, &params, &padded);
}

static void prove_nests(const char *algorithm)
{
    const struct tutti_algorithm *found = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_algorithm_find(algorithm, TUTTI_ALLREDUCE, &found, &err), err);
    REQUIRE(found != NULL);
    asked_count = proved_count = 0;
    for (uint32_t n = 1; n <= RANKS_MAX; n++) {
        struct tutti_shape flat = tutti_shape_flat(n);

        case_factorings(&flat, n, prove_nest, (void *)(uintptr_t)found);
    }
    printf("%s: %" PRIu64 " schedules\n", algorithm, proved_count);
}

TEST(every_hierarchy_is_proved)
{
    prove_nests("hierarchical");
}

TEST(every_grid_is_proved)
{
    prove_nests("torus");
}

TEST(every_root_is_proved)
{
    static const enum tutti_collective rooted[] = {TUTTI_BROADCAST, TUTTI_REDUCE_TO_ROOT};
    uint32_t orders[2 * CASE_RANKS_MAX];
    size_t count;
    const struct tutti_algorithm *table = tutti_algorithms(&count);

    asked_count = proved_count = 0;
    for (size_t i = 0; i < 2 * count; i++) {
        const struct tutti_algorithm *algorithm = &table[i / 2];

        for (uint32_t n = 1; n <= RANKS_MAX; n++) {
            struct tutti_shape shape = case_shape(n, orders);

            for (uint32_t root = 0; root < n; root++) {
                struct tutti_coll_params params =
                    params_of(rooted[i % 2], root % MANNER_COUNT, root, 11);

                if ((algorithm->collectives & (1u << rooted[i % 2])) != 0)
                    prove(algorithm, &params, &shape);
            }
        }
    }
    printf("%" PRIu64 " schedules\n", proved_count);
}

/* ---- what is spoilt is refused --------------------------------------------------------------- */

TEST(no_mutant_of_any_generator_survives)
{
    size_t count;
    const struct tutti_algorithm *table = tutti_algorithms(&count);
    uint64_t mutant_count = 0;

    for (size_t i = 0; i < count; i++) {
        for (int c = 0; c <= TUTTI_BARRIER; c++) {
            for (uint32_t n = 1; n <= (test_full ? 7 : 5); n++) {
                uint32_t orders[2 * CASE_RANKS_MAX];
                struct tutti_shape shape = case_shape(n, orders);
                struct tutti_coll_params params = params_of(
                    (enum tutti_collective)c, (i + n) % MANNER_COUNT, n / 2, 2 * (uint64_t)n + 1);
                struct tutti_schedule *schedule = NULL;
                struct tutti_err err = {""};

                if ((table[i].collectives & (1u << c)) == 0)
                    continue;
                CHECK_OK(table[i].generate(&params, &shape, &schedule, &err), err);
                if (schedule != NULL)
                    mutant_count += mutate_all(schedule);
                tutti_schedule_free(schedule);
            }
        }
    }
    printf("%" PRIu64 " mutants refused\n", mutant_count);
}
