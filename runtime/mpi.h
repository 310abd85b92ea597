/* MPI as the engine: the group of an MPI job's processes, the backend `mpi`, which plays our
 * schedules over MPI's point-to-point messages, and the library's own collectives as its peer.
 *
 * All of this is in libtutti_mpi, which alone needs MPI: libtutti does not. In a build without MPI
 * every call below fails with -TUTTI_ELACK and says what to install. MPI itself ends a job whole
 * when one of its processes dies: the launcher kills the others and says so in its own words. */
#ifndef TUTTI_RUNTIME_MPI_H
#define TUTTI_RUNTIME_MPI_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/api.h"
#include "runtime/backend.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_group;

enum { TUTTI_MPI_NAME_BYTES = 64 };

/* Which MPI this is, "Open MPI v4.1.4", written to buf, which is returned; before begin as well.
 * NULL in a build without MPI. */
const char *tutti_mpi_name(char buf[TUTTI_MPI_NAME_BYTES]);

/* Begins MPI for threads; one that the program has begun is used as it is, if it lets more threads
 * than the first call it. Every process of the job calls it; MPI knows no deadline here. */
int tutti_mpi_begin(struct tutti_err *err);

/* Ends MPI together with the others, which must have closed all that is open. Where they do not
 * come within `deadline_ps`, or MPI was never begun, it returns without: the launcher then ends
 * them. Nothing of MPI may be used after it. */
void tutti_mpi_end(tutti_ps deadline_ps);

/* All processes of the job (MPI_COMM_WORLD), in their order. Collective. A process that stops is
 * heard by wait_stop and in exchanges; of one that is gone MPI itself tells, see above.
 * -TUTTI_ELACK under the launcher of another MPI: each process would be a job of its own. Such a
 * group neither shrinks nor admits newcomers, -TUTTI_ELACK. */
int tutti_mpi_group_open(struct tutti_group **ret, struct tutti_err *err);

struct tutti_mpi_opts {
    size_t size;               /* sizeof(struct tutti_mpi_opts): runtime/api.h */
    struct tutti_group *group; /* of tutti_mpi_group_open; borrowed, and outlives the backend */
    bool pin;                  /* the ranks of a host on its processors, one after the other */
};

/* The backend `mpi`: one rank or more a process; ranks of a process are threads that meet in memory
 * as with the backend `threads`. Collective. Default deadline of a wait: 30 s. */
int tutti_mpi_open(const struct tutti_mpi_opts *opts, struct tutti_backend **ret,
                   struct tutti_err *err);

/* The peer: a backend that looks at no step of a schedule but does what its contract says by the
 * library's own collective: MPI_Allreduce, MPI_Reduce_scatter_block, MPI_Allgather, MPI_Bcast,
 * MPI_Reduce, MPI_Alltoall, MPI_Barrier; sendrecv by MPI_Sendrecv. For avg it sums, and we divide.
 * One rank a process (-TUTTI_EINVAL otherwise); no reduction of float16 and bfloat16, for which MPI
 * has no type (-TUTTI_ELACK). Iterations are timed as all backends do; there are no steps to count
 * or to record. The deadline holds for the meeting of the processes before the iterations; inside
 * MPI's own collectives there is none. The group is of tutti_mpi_group_open, and outlives it. */
int tutti_mpi_library_open(struct tutti_group *group, struct tutti_backend **ret,
                           struct tutti_err *err);

TUTTI_API_END

#endif
