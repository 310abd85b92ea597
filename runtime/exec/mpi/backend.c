/* The backend `mpi`: the game of the threads, with the carrier on MPI between processes. */
#include "runtime/exec/mpi/open.h"
#include "runtime/exec/threads/game.h"
#include "runtime/mpi.h"

int tutti_mpi_open(const struct tutti_mpi_opts *opts, struct tutti_backend **ret,
                   struct tutti_err *err)
{
    struct tutti_troupe_opts troupe = {.name = "mpi"};
    struct tutti_mpi_opts own;
    int status = tutti_take("tutti_mpi_opts", &own, sizeof(own), opts,
                            TUTTI_BYTES_TO(struct tutti_mpi_opts, pin), err);

    if (status < 0)
        return status;
    troupe.pin = own.pin;
    troupe.crew = own.crew;
    status = tutti_mpi_carrier_open(own.crew, &troupe.carrier, err);
    return status < 0 ? status : tutti_troupe_open(&troupe, ret, err);
}
