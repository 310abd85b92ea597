/* Opens the carrier on MPI; without anything of MPI's own, for those who only use it. Private to
 * runtime/exec. */
#ifndef TUTTI_RUNTIME_EXEC_MPI_OPEN_H
#define TUTTI_RUNTIME_EXEC_MPI_OPEN_H

struct tutti_carrier;
struct tutti_crew;
struct tutti_err;

/* On a communicator of its own; collective. The crew is of tutti_mpi_crew_open, and outlives it. */
int tutti_mpi_carrier_open(struct tutti_crew *crew, struct tutti_carrier **ret,
                           struct tutti_err *err);

#endif
