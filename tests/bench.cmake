# Benchmarks are built, and played once with small sizes so that they keep working; nothing here is
# timed by ctest. The peer is built where MPI is. The measurement itself: tests/bench/allreduce.sh.
add_executable(allreduce_bench bench/allreduce_bench.c)
target_link_libraries(allreduce_bench PRIVATE tutti_static)
add_test(NAME allreduce_bench COMMAND allreduce_bench tutti 8,65536,20971520 2)

set(TUTTI_HAVE_MPI 0)
if(TUTTI_OPTIONAL AND NOT TUTTI_SANITIZE)
    find_package(MPI QUIET COMPONENTS C)
    if(MPI_C_FOUND)
        set(TUTTI_HAVE_MPI 1)
    endif()
endif()
message(STATUS "tutti: MPI (the peer of the benchmark): ${TUTTI_HAVE_MPI}")
if(TUTTI_HAVE_MPI)
    add_executable(allreduce_peer_mpi bench/allreduce_peer_mpi.c)
    target_link_libraries(allreduce_peer_mpi PRIVATE MPI::MPI_C Threads::Threads)
endif()
