# What the test of exported names looks at, and by what; a compiler of C++ is no need of the build.
find_program(TUTTI_CXX NAMES $ENV{CXX} c++ g++ clang++)
target_compile_definitions(exports_test PRIVATE TUTTI_NM="${CMAKE_NM}"
    TUTTI_CXX="$<$<BOOL:${TUTTI_CXX}>:${TUTTI_CXX}>"
    TUTTI_SHARED="$<TARGET_FILE:tutti_shared>" TUTTI_MPI_ARCHIVE="$<TARGET_FILE:tutti_mpi>"
    TUTTI_CUDA_ARCHIVE="$<TARGET_FILE:tutti_cuda>" TUTTI_NCCL_ARCHIVE="$<TARGET_FILE:tutti_nccl>")
add_dependencies(exports_test tutti_shared tutti_cuda tutti_nccl)
