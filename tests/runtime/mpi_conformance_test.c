/* The backend `mpi` under the conformance suite, as the processes of one job (mpi.cmake). */
#include "build.h"
#include "runtime/group.h"
#include "tests/runtime/conformance_nccl.h"
#include "tests/runtime/conformance_overlap.h"
#include "tests/runtime/mpi_job.h"

/* One group serves all backends, as one job is all that there is. */
static struct tutti_group *group;

static int open_mpi(uint32_t rank_count, struct tutti_backend **ret, struct tutti_err *err)
{
    struct tutti_mpi_opts opts = {.size = sizeof(struct tutti_mpi_opts), .pin = rank_count == 3};
    int status = group == NULL ? tutti_mpi_group_open(&group, err) : 0;

    opts.group = group;
    return status < 0 ? status : tutti_mpi_open(&opts, ret, err);
}

__attribute__((constructor)) static void skip_without_mpi(void)
{
    if (TUTTI_BUILD_HAVE_MPI)
        return;
    puts("skipped: this build has no MPI");
    exit(77);
}

static const struct conformance_subject subject = {.name = "mpi", .open = open_mpi};
