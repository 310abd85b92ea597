/* Every allocation of libtutti_mpi made to fail once, in one process of a job while the others go
 * through the same: it ends with a clean error, they are told, and the next round is played by all.
 * What MPI allocates for itself is not ours to take away. */
#include <mpi.h>

#include "runtime/coll.h"
#include "runtime/group.h"
#include "runtime/mpi.h"
#include "tests/alloc_fail.h"
#include "tests/runtime/mpi_job.h"

enum { COUNT = 100000 }; /* of elements: messages with pieces */

static struct tutti_schedule *schedule;
static char *buffers[2];

/* Collective: a group, a backend, and two iterations; each is given back. */
static int play(bool library, struct tutti_err *err)
{
    const void *ins[16] = {NULL};
    void *outs[16] = {NULL};
    struct tutti_mpi_opts opts = {.size = sizeof(struct tutti_mpi_opts), .group = NULL};
    struct tutti_backend *backend = NULL;
    struct tutti_played played;
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .schedule = schedule,
                              .in = ins,
                              .out = outs,
                              .iteration_count = 2,
                              .deadline_ps = 10 * TUTTI_PS_PER_S};
    int status = tutti_mpi_group_open(&opts.group, err);

    if (status < 0)
        return status;
    ins[opts.group->index] = buffers[0];
    outs[opts.group->index] = buffers[1];
    status = library ? tutti_mpi_library_open(opts.group, &backend, err)
                     : tutti_mpi_open(&opts, &backend, err);
    if (status == 0)
        status = tutti_backend_play(backend, &play, &played, err);
    tutti_backend_close(backend);
    tutti_group_close(opts.group);
    return status;
}

/* In the process that has allocations fail: calls the others to one more round. */
static int play_once_more(bool library, struct tutti_err *err)
{
    int more = 1;

    if (MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD) != MPI_SUCCESS)
        return tutti_fail(err, TUTTI_EIO, "no broadcast");
    return play(library, err);
}

/* In the others: rounds as long as there are some. */
static void follow(bool library)
{
    int more = 1;
    int failed_count = 0;
    int status = 0;
    struct tutti_err err = {""};

    while (MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS && more) {
        status = play(library, &err);
        failed_count += status < 0;
    }
    CHECK_OK(status, err); /* the last one is the one in which nothing fails */
    CHECK(failed_count > 0);
}

static void fail_each(bool library)
{
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_INT32, .count = COUNT};
    struct tutti_shape shape;
    struct tutti_err err = {""};
    int more = 0;
    int index = 0;
    int count = 1;

    CHECK_OK(tutti_mpi_begin(&err), err);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &index);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &count);
    shape = tutti_shape_flat((uint32_t)count);
    CHECK_OK(tutti_coll_generate("ring", &params, &shape, &schedule, &err), err);
    buffers[0] = calloc(COUNT, sizeof(int32_t));
    buffers[1] = calloc(COUNT, sizeof(int32_t));
    REQUIRE(schedule != NULL && buffers[0] != NULL && buffers[1] != NULL);
    if (index > 0) {
        follow(library);
    } else {
        ALLOC_FAIL_EACH(play_once_more(library, &err), err);
        (void)MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    tutti_schedule_free(schedule);
    free(buffers[0]);
    free(buffers[1]);
}

TEST(playing_over_mpi_fails_cleanly)
{
    fail_each(false);
}

TEST(mpis_own_collectives_fail_cleanly)
{
    fail_each(true);
}
