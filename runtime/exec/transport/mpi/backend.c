/* The backend `mpi`: the execution of the threads, with the transport on MPI between processes. */
#include "runtime/exec/host/execution.h"
#include "runtime/exec/transport/mpi/open.h"
#include "runtime/mpi.h"

int tutti_mpi_open(const struct tutti_mpi_opts *opts, struct tutti_backend **ret,
                   struct tutti_err *err)
{
    struct tutti_host_backend_opts host_backend = {.name = "mpi"};
    struct tutti_mpi_opts own;
    int status = tutti_take("tutti_mpi_opts", &own, sizeof(own), opts,
                            TUTTI_BYTES_TO(struct tutti_mpi_opts, pin), err);

    if (status < 0)
        return status;
    host_backend.pin = own.pin;
    host_backend.group = own.group;
    status = tutti_mpi_transport_open(own.group, &host_backend.transport, err);
    return status < 0 ? status : tutti_host_backend_open(&host_backend, ret, err);
}
