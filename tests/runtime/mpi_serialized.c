/* Begins MPI before the tests do, for one thread at a time (mpi.cmake). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void begin_serialized(void)
{
    int provided = 0;

    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    if (provided == MPI_THREAD_SERIALIZED)
        return;
    printf("skipped: this MPI gives thread level %d for %d\n", provided, MPI_THREAD_SERIALIZED);
    exit(77);
}
