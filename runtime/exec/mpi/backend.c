/* The backend `mpi`: the game of the threads, with the carrier on MPI between processes. */
#include "runtime/exec/mpi/open.h"
#include "runtime/exec/threads/game.h"
#include "runtime/mpi.h"

int tutti_mpi_open(const struct tutti_mpi_opts *opts, struct tutti_backend **ret,
                   struct tutti_err *err)
{
    struct tutti_troupe_opts troupe = {.name = "mpi", .pin = opts->pin, .crew = opts->crew};
    int status = tutti_mpi_carrier_open(opts->crew, &troupe.carrier, err);

    return status < 0 ? status : tutti_troupe_open(&troupe, ret, err);
}
