/* The group of an MPI job, and the collectives of MPI itself, as the processes of one job: ctest
 * runs it alone and under mpirun (mpi.cmake). All make the same calls and the same checks. */
#include <time.h>

#include "build.h"
#include "runtime/coll.h"
#include "runtime/group.h"
#include "runtime/mpi.h"
#include "runtime/record.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "tests/runtime/mpi_job.h"
#include "tests/test.h"

static const tutti_ps deadline_ps = 60 * TUTTI_PS_PER_S;

/* All processes of the job; where there is no MPI the test is skipped. */
#define OPEN_GROUP(group, err)                                 \
    do {                                                       \
        if (!TUTTI_BUILD_HAVE_MPI)                             \
            SKIP("this build has no MPI");                     \
        CHECK_OK(tutti_mpi_group_open(&(group), &(err)), err); \
        REQUIRE((group) != NULL);                              \
    } while (0)

TEST(a_build_without_mpi_says_what_to_install)
{
    char name[TUTTI_MPI_NAME_BYTES];
    struct tutti_group *group = NULL;
    struct tutti_err err = {{0}};

    if (TUTTI_BUILD_HAVE_MPI)
        SKIP("this build has MPI");
    CHECK(tutti_mpi_name(name) == NULL);
    CHECK_INT(tutti_mpi_begin(&err), -TUTTI_ELACK);
    CHECK_INT(tutti_mpi_group_open(&group, &err), -TUTTI_ELACK);
    CHECK_INT(tutti_mpi_library_open(NULL, NULL, &err), -TUTTI_ELACK);
    CHECK(strstr(err.text, "libopenmpi-dev") != NULL);
    tutti_mpi_end(0);
}

TEST(mpi_says_which_it_is)
{
    char name[TUTTI_MPI_NAME_BYTES];

    if (!TUTTI_BUILD_HAVE_MPI)
        SKIP("this build has no MPI");
    REQUIRE(tutti_mpi_name(name) != NULL);
    printf("%s\n", name);
    CHECK(strncmp(name, "Open MPI v", 10) == 0 || strncmp(name, "MPICH ", 6) == 0 ||
          strstr(name, "MPI") != NULL);
    CHECK(strpbrk(name, ",\n\t") == NULL);
}

/* ---- the group ---- */

TEST(the_launcher_of_another_mpi_is_named)
{
    struct tutti_group *group = NULL;
    struct tutti_err err = {{0}};

    if (!TUTTI_BUILD_HAVE_MPI)
        SKIP("this build has no MPI");
    if (getenv("OMPI_COMM_WORLD_SIZE") != NULL || getenv("PMI_SIZE") != NULL)
        SKIP("a launcher has started this");
    CHECK_OK(tutti_mpi_begin(&err), err); /* before it could see what follows */
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
    CHECK_INT(tutti_mpi_group_open(&group, &err), -TUTTI_ELACK);
    CHECK(strstr(err.text, " started 3 of these, but ") != NULL);
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("OMPI_COMM_WORLD_SIZE");
    CHECK_OK(tutti_mpi_group_open(&group, &err), err);
    tutti_group_close(group);
}

TEST(an_exchange_gives_all_parts_to_all)
{
    static const size_t sizes[] = {0, 1, 8, 300, 100000, 3};
    struct tutti_group *group = NULL;
    struct tutti_err err = {{0}};

    OPEN_GROUP(group, err);
    printf("process %u of %u\n", group->index, group->count);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        unsigned char *mine = malloc(sizes[i] + 1);
        unsigned char *all = malloc(sizes[i] * group->count + 1);

        REQUIRE(mine != NULL && all != NULL);
        memset(mine, (int)(group->index + 1), sizes[i] + 1);
        CHECK_OK(tutti_group_exchange(group, mine, sizes[i], all, deadline_ps, &err), err);
        for (size_t k = 0; k < sizes[i] * group->count; k++)
            CHECK(all[k] == k / sizes[i] + 1);
        free(mine);
        free(all);
    }
    tutti_group_close(group);
}

TEST(all_get_the_status_of_the_first_that_fails)
{
    struct tutti_group *group = NULL;
    struct tutti_err err = {{0}};
    char expected[64] = "no such thing";
    int status = 0;

    OPEN_GROUP(group, err);
    CHECK_OK(tutti_group_agree(group, 0, deadline_ps, &err), err);
    if (group->index == group->count - 1)
        status = tutti_fail(&err, TUTTI_ECHECK, "no such thing");
    CHECK_INT(tutti_group_agree(group, status, deadline_ps, &err), -TUTTI_ECHECK);
    if (group->count > 1)
        snprintf(expected, sizeof(expected), "process %u of %u: no such thing", group->count - 1,
                 group->count);
    CHECK_TEXT(err.text, expected);
    CHECK_OK(tutti_group_same(group, "schedule", "ring", deadline_ps, &err), err);
    status =
        tutti_group_same(group, "schedule", group->index == 0 ? "ring" : "tree", deadline_ps, &err);
    CHECK_INT(status, group->count > 1 ? -TUTTI_EINVAL : 0);
    if (group->count > 1 && group->index == 0)
        CHECK(strstr(err.text, "process 1 of ") == err.text &&
              strstr(err.text, "schedule 'tree'") != NULL);
    tutti_group_close(group);
}

TEST(its_members_neither_change_nor_are_replaced)
{
    struct tutti_group *group = NULL;
    struct tutti_group *next = NULL;
    struct tutti_err err = {""};

    OPEN_GROUP(group, err);
    CHECK_INT(group->incarnation, 1);
    CHECK_INT(tutti_group_id(group, group->index), group->index);
    CHECK_TEXT(tutti_group_why(group), "");
    if (group->count > 1) {
        CHECK_INT(tutti_group_shrink(group, 0, deadline_ps, &next, &err), -TUTTI_ELACK);
        CHECK_TEXT(err.text, "a group of MPI cannot shrink: MPI ends a job whole when one of its "
                             "processes dies (a group over tcp can)");
    }
    CHECK_INT(tutti_group_admit(group, 0, deadline_ps, &next, &err), -TUTTI_ELACK);
    CHECK_TEXT(err.text, "nobody can join a group of kind 'mpi' (tcp can)");
    tutti_group_close(group);
}

TEST(who_stops_is_heard_by_those_who_wait_and_by_those_who_exchange)
{
    struct tutti_group *group = NULL;
    struct tutti_err err = {{0}};

    OPEN_GROUP(group, err);
    if (group->count > 1 && group->index == 0) {
        (void)tutti_fail(&err, TUTTI_ENOMEM, "out of patience");
        tutti_group_stop(group, -TUTTI_ENOMEM, &err);
        tutti_group_stop(group, -TUTTI_EIO, &err); /* the first counts */
    } else if (group->count > 1) {
        char all[64 * 8];
        char expected[64];

        snprintf(expected, sizeof(expected), "process 0 of %u: out of patience", group->count);
        if (group->index == 1)
            CHECK_INT(tutti_group_wait_stop(group, deadline_ps, &err), -TUTTI_ENOMEM);
        else
            CHECK_INT(tutti_group_exchange(group, all, 8, all, deadline_ps, &err), -TUTTI_ENOMEM);
        CHECK_TEXT(err.text, expected);
    }
    tutti_group_close(group);
}

TEST(a_wait_for_a_stop_ends_when_woken_and_when_its_time_is_over)
{
    struct tutti_group *group = NULL;
    struct tutti_err err = {{0}};

    OPEN_GROUP(group, err);
    CHECK_OK(tutti_group_wait_stop(group, 5 * TUTTI_PS_PER_MS, &err), err);
    tutti_group_wake(group);
    CHECK_OK(tutti_group_wait_stop(group, deadline_ps, &err), err);
    CHECK_OK(tutti_group_exchange(group, NULL, 0, NULL, deadline_ps, &err), err);
    tutti_group_close(group);
}

TEST(a_deadline_names_the_processes_that_have_not_come)
{
    struct tutti_group *group = NULL;
    struct tutti_group *after = NULL;
    struct tutti_err err = {{0}};
    char all[64 * 8] = "";
    uint32_t late;

    OPEN_GROUP(group, err);
    CHECK_OK(tutti_mpi_group_open(&after, &err), err);
    REQUIRE(after != NULL);
    late = group->count - 1;
    if (group->count > 1 && group->index != late) {
        char expected[64];

        snprintf(expected, sizeof(expected), "process %u of %u waits for process %u", group->index,
                 group->count, late);
        CHECK_INT(tutti_group_exchange(group, all, 8, all, 200 * TUTTI_PS_PER_MS, &err),
                  -TUTTI_ETIME);
        /* A machine with much to do may be late itself. */
        if (strstr(err.text, expected) == NULL && strstr(err.text, ", ") == NULL)
            TEST_FAIL("names not process %u: %s", late, err.text);
    }
    /* The group that failed is of no use any more; another goes on. */
    CHECK_OK(tutti_group_exchange(after, NULL, 0, NULL, deadline_ps, &err), err);
    tutti_group_close(group);
    tutti_group_close(after);
}

/* ---- MPI's own collectives ---- */

enum { COUNT = 100, PROCESSES_MAX = 16 };

/* Small whole numbers: every sum is exact in every type, and 8 bits hold it. */
static int64_t element(uint32_t rank, uint64_t i)
{
    return (int64_t)((rank + 1) * (i % 3 + 1) % 5);
}

static void put(char *at, enum tutti_dtype dtype, uint64_t i, int64_t value)
{
    float f32 = (float)value;
    double f64 = (double)value;

    if (dtype == TUTTI_FLOAT32)
        memcpy(at + 4 * i, &f32, 4);
    else if (dtype == TUTTI_FLOAT64)
        memcpy(at + 8 * i, &f64, 8);
    else
        memcpy(at + tutti_dtype_bytes(dtype) * i, &value, tutti_dtype_bytes(dtype));
}

static bool reduces(enum tutti_collective collective)
{
    return collective == TUTTI_ALLREDUCE || collective == TUTTI_REDUCESCATTER ||
           collective == TUTTI_REDUCE_TO_ROOT;
}

static int64_t reduced(enum tutti_op op, uint32_t n, uint64_t i)
{
    int64_t result = element(0, i);

    for (uint32_t r = 1; r < n; r++) {
        int64_t next = element(r, i);

        if (op == TUTTI_MIN || op == TUTTI_MAX)
            result = (next < result) == (op == TUTTI_MIN) ? next : result;
        else
            result = op == TUTTI_PROD ? result * next : result + next;
    }
    return result;
}

/* What the contract puts at element i of rank r's output, from whole inputs. */
static int64_t contracted(const struct tutti_contract *c, uint32_t n, uint32_t r, uint64_t i)
{
    switch (c->collective) {
    case TUTTI_ALLREDUCE:
    case TUTTI_REDUCE_TO_ROOT:
        return reduced(c->op, n, i);
    case TUTTI_REDUCESCATTER:
        return reduced(c->op, n, r * c->count + i);
    case TUTTI_ALLGATHER:
        return element((uint32_t)(i / c->count), i % c->count);
    case TUTTI_ALLTOALL:
        return element((uint32_t)(i / c->count), r * c->count + i % c->count);
    case TUTTI_BROADCAST:
        return element(c->root, i);
    default:
        return element((r + n - 1) % n, i);
    }
}

/* A schedule of the collective, for its contract and its sizes; its steps are not looked at. */
static struct tutti_schedule *schedule_of(const struct tutti_contract *c, uint32_t n)
{
    struct tutti_schedule_desc desc = {
        .name = "contract", .contract = *c, .rank_count = n, .lane_count = 1};
    struct tutti_schedule *schedule = NULL;
    struct tutti_builder *builder = NULL;
    struct tutti_err err = {{0}};

    CHECK_OK(tutti_builder_new(&desc, &builder, &err), err);
    if (builder != NULL)
        CHECK_OK(tutti_builder_finish(builder, &schedule, &err), err);
    return schedule;
}

static void play(struct tutti_backend *backend, const struct tutti_group *group,
                 const struct tutti_contract *c, bool in_place)
{
    struct tutti_schedule *schedule = schedule_of(c, group->count);
    static char in[PROCESSES_MAX * COUNT * 8];
    static char other[PROCESSES_MAX * COUNT * 8];
    static char expected[PROCESSES_MAX * COUNT * 8];
    char *out = in_place ? in : other;
    const void *ins[PROCESSES_MAX] = {NULL};
    void *outs[PROCESSES_MAX] = {NULL};
    struct tutti_played played = {0};
    struct tutti_err err = {{0}};
    size_t bytes = tutti_dtype_bytes(c->dtype);
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .in = ins,
                              .out = outs,
                              .iteration_count = in_place ? 1 : 3,
                              .barrier = c->op != TUTTI_MIN,
                              .deadline_ps = deadline_ps};

    REQUIRE(schedule != NULL);
    play.schedule = schedule;
    ins[group->index] = in;
    outs[group->index] = out;
    memset(other, 0, sizeof(other));
    for (uint64_t i = 0; i < schedule->in_bytes / bytes; i++)
        put(in, c->dtype, i, element(group->index, i));
    for (uint64_t i = 0; i < schedule->out_bytes / bytes; i++)
        put(expected, c->dtype, i, contracted(c, group->count, group->index, i));
    if (c->op == TUTTI_AVG && reduces(c->collective))
        tutti_finish(c->dtype, c->op, expected, (size_t)schedule->out_bytes / bytes, group->count);
    CHECK_OK(tutti_backend_play(backend, &play, &played, &err), err);
    if ((c->collective != TUTTI_REDUCE_TO_ROOT || c->root == group->index) &&
        memcmp(out, expected, (size_t)schedule->out_bytes) != 0)
        TEST_FAIL("wrong data: %s %s %s in process %u", tutti_collective_name(c->collective),
                  tutti_dtype_name(c->dtype), tutti_op_name(c->op), group->index);
    CHECK(played.best_ps <= played.median_ps && played.best_ps > 0);
    CHECK(played.total_ps >= played.median_ps);
    CHECK_INT(played.step_count, 0);
    tutti_schedule_free(schedule);
}

TEST(the_library_keeps_every_contract)
{
    struct tutti_group *group = NULL;
    struct tutti_backend *backend = NULL;
    struct tutti_err err = {{0}};

    OPEN_GROUP(group, err);
    REQUIRE(group->count <= PROCESSES_MAX);
    CHECK_OK(tutti_mpi_library_open(group, &backend, &err), err);
    REQUIRE(backend != NULL);
    for (uint32_t i = 0; i < (uint32_t)TUTTI_BARRIER * TUTTI_DTYPE_COUNT * TUTTI_OP_COUNT; i++) {
        struct tutti_contract c = {
            .collective = (enum tutti_collective)(i % TUTTI_BARRIER),
            .dtype = (enum tutti_dtype)(i / TUTTI_BARRIER % TUTTI_DTYPE_COUNT),
            .op = (enum tutti_op)(i / TUTTI_BARRIER / TUTTI_DTYPE_COUNT),
            .root = i % group->count,
            .count = COUNT - i % 7,
        };

        if (c.dtype == TUTTI_FLOAT16 || c.dtype == TUTTI_BFLOAT16)
            continue;
        play(backend, group, &c, false);
        if (reduces(c.collective))
            play(backend, group, &c, true);
    }
    tutti_backend_close(backend);
    tutti_group_close(group);
}

static void refused(struct tutti_backend *backend, const struct tutti_contract *c, uint32_t n,
                    int expected, const char *words)
{
    struct tutti_schedule *schedule = schedule_of(c, n);
    struct tutti_played played;
    struct tutti_err err = {{0}};
    struct tutti_play play = {
        .size = sizeof(struct tutti_play), .schedule = schedule, .iteration_count = 1};

    REQUIRE(schedule != NULL);
    CHECK_INT(tutti_backend_play(backend, &play, &played, &err), expected);
    if (strstr(err.text, words) == NULL)
        TEST_FAIL("said '%s', not '%s'", err.text, words);
    tutti_schedule_free(schedule);
}

TEST(the_library_says_what_it_cannot)
{
    struct tutti_contract half = {.dtype = TUTTI_FLOAT16, .count = 8};
    struct tutti_contract plain = {.dtype = TUTTI_FLOAT32, .count = 8};
    struct tutti_contract barrier = {.collective = TUTTI_BARRIER};
    struct tutti_contract none = {.collective = TUTTI_CUSTOM};
    struct tutti_group *group = NULL;
    struct tutti_backend *backend = NULL;
    struct tutti_err err = {{0}};

    OPEN_GROUP(group, err);
    CHECK_OK(tutti_mpi_library_open(group, &backend, &err), err);
    REQUIRE(backend != NULL);
    refused(backend, &half, group->count, -TUTTI_ELACK, "has no type for 'half' to reduce");
    refused(backend, &plain, group->count + 1, -TUTTI_EINVAL, "one rank a process");
    refused(backend, &none, group->count, -TUTTI_EINVAL, "no contract");
    refused(backend, &plain, group->count, 0, ""); /* and plays on, without buffers */
    refused(backend, &barrier, group->count, 0, "");
    tutti_backend_close(backend);
    tutti_group_close(group);
}
