/* For test programs that are processes of an MPI job: ends MPI when the program ends. */
#ifndef TUTTI_TESTS_RUNTIME_MPI_JOB_H
#define TUTTI_TESTS_RUNTIME_MPI_JOB_H

#include <stdlib.h>

#include "runtime/mpi.h"

static void mpi_job_end(void)
{
    tutti_mpi_end(20 * TUTTI_PS_PER_S);
}

__attribute__((constructor)) static void mpi_job_begin(void)
{
    (void)atexit(mpi_job_end);
}

#endif
