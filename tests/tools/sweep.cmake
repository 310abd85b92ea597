# The launcher that belongs to the MPI of the build; the test skips aloud where there is none.
if(NOT TUTTI_HAVE_MPI)
    set(MPIEXEC_EXECUTABLE "")
endif()
target_compile_definitions(sweep_test PRIVATE TUTTI_MPIEXEC="${MPIEXEC_EXECUTABLE}")
