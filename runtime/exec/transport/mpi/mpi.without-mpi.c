/* libtutti_mpi in a build without MPI: each call says so, and what to install. */
#include <stddef.h>

#include "runtime/exec/transport/mpi/open.h"
#include "runtime/mpi.h"
#include "runtime/status.h"

static int lacking(struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_ELACK,
                      "this build has no MPI (install one and build again: Debian's libopenmpi-dev "
                      "and openmpi-bin, or libmpich-dev and mpich)");
}

const char *tutti_mpi_name(char buf[TUTTI_MPI_NAME_BYTES])
{
    buf[0] = '\0';
    return NULL;
}

int tutti_mpi_begin(struct tutti_err *err)
{
    return lacking(err);
}

void tutti_mpi_end(tutti_ps deadline_ps)
{
    (void)deadline_ps;
}

int tutti_mpi_group_open(struct tutti_group **ret, struct tutti_err *err)
{
    (void)ret;
    return lacking(err);
}

int tutti_mpi_open(const struct tutti_mpi_opts *opts, struct tutti_backend **ret,
                   struct tutti_err *err)
{
    (void)opts;
    (void)ret;
    return lacking(err);
}

int tutti_mpi_library_open(struct tutti_group *group, struct tutti_backend **ret,
                           struct tutti_err *err)
{
    (void)group;
    (void)ret;
    return lacking(err);
}

int tutti_mpi_transport_open(struct tutti_group *group, struct tutti_transport **ret,
                             struct tutti_err *err)
{
    (void)group;
    (void)ret;
    return lacking(err);
}
