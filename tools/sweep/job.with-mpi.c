/* Jobs by MPI, which is begun under a launcher only; see job.h. */
#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>

#include "tools/sweep/job.h"

enum {
    MERGE_BYTES = 1 << 20, /* at once: counts are ints in MPI */
    PAUSE_FOR_NS_MIN = 20000,
    PAUSE_FOR_NS_MAX = 2000000, /* little beside a sweep that is worth a job */
};

/* MPI's own waiting turns in a loop; the shares are uneven, and the processor may be another's. */
static void await(MPI_Request *request)
{
    struct timespec pause_for = {.tv_nsec = PAUSE_FOR_NS_MIN};
    int done = 0;

    MPI_Test(request, &done, MPI_STATUS_IGNORE);
    while (!done) {
        nanosleep(&pause_for, NULL);
        pause_for.tv_nsec =
            pause_for.tv_nsec * 2 < PAUSE_FOR_NS_MAX ? pause_for.tv_nsec * 2 : PAUSE_FOR_NS_MAX;
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
    }
}

/* Errors of MPI end the whole job with its message: that is what MPI_COMM_WORLD does unasked. */
int tutti_job_join(struct tutti_job *ret, struct tutti_err *err)
{
    struct tutti_launch launch = tutti_job_launch();
    int provided = 0;
    int over = 0;
    int index = 0;
    int count = 1;

    *ret = (struct tutti_job){.index = launch.index, .count = 1};
    if (launch.count == 1)
        return 0;
    MPI_Finalized(&over);
    if (over)
        return tutti_fail(err, TUTTI_ELACK,
                          "an earlier command of this process has ended MPI, which begins once (a "
                          "process for each command)");
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &index);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    if (count > 1) {
        *ret = (struct tutti_job){.index = (uint32_t)index, .count = (uint32_t)count};
        return 0;
    }
    MPI_Finalize();
    if (launch.count == 0) /* it did not say, and there is one */
        return 0;
    return tutti_fail(
        err, TUTTI_ELACK,
        "%s started %u of these, but the MPI of this build sees one: each would print "
        "a table of its own (start by that MPI's own mpirun, or srun --mpi=pmix)",
        launch.by, launch.count);
}

void tutti_job_leave(struct tutti_job *job)
{
    if (job->count == 1)
        return;
    (void)tutti_job_min(job, 0);
    MPI_Finalize();
    job->count = 1;
}

uint64_t tutti_job_min(const struct tutti_job *job, uint64_t value)
{
    uint64_t least = value;
    MPI_Request request;

    if (job->count == 1)
        return value;
    MPI_Iallreduce(&value, &least, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD, &request);
    await(&request);
    return least;
}

void tutti_job_merge(const struct tutti_job *job, void *bytes, size_t byte_count)
{
    unsigned char *at = bytes;

    for (size_t left = job->count == 1 ? 0 : byte_count; left > 0;) {
        size_t now = left < MERGE_BYTES ? left : MERGE_BYTES;
        MPI_Request request;

        MPI_Iallreduce(MPI_IN_PLACE, at, (int)now, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD, &request);
        await(&request);
        at += now;
        left -= now;
    }
}

uint32_t tutti_job_processors(const struct tutti_job *job)
{
    cpu_set_t own;
    cpu_set_t all;
    MPI_Comm here;
    int processes = 1;
    int share;
    bool known;

    if (job->count == 1)
        return 0;
    CPU_ZERO(&own);
    known = sched_getaffinity(0, sizeof(own), &own) == 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &processes);
    MPI_Allreduce(&own, &all, (int)sizeof(own), MPI_BYTE, MPI_BOR, here);
    MPI_Comm_free(&here);
    share = CPU_COUNT(&all) / processes;
    if (known && share > CPU_COUNT(&own)) /* bound unevenly */
        share = CPU_COUNT(&own);
    return share > 1 ? (uint32_t)share : 1;
}
