/* Opens the transport on MPI; without anything of MPI's own, for those who only use it. Private to
 * runtime/exec. */
#ifndef TUTTI_RUNTIME_EXEC_TRANSPORT_MPI_OPEN_H
#define TUTTI_RUNTIME_EXEC_TRANSPORT_MPI_OPEN_H

struct tutti_transport;
struct tutti_group;
struct tutti_err;

/* On a communicator of its own; collective. The group is of tutti_mpi_group_open, and outlives it.
 */
int tutti_mpi_transport_open(struct tutti_group *group, struct tutti_transport **ret,
                             struct tutti_err *err);

#endif
