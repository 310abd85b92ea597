# Tests that are jobs of processes: each program is one ctest alone, and one more a number of
# processes under the launcher of the build's MPI (mpi_under.sh skips aloud where there is none).
function(mpi_jobs program)
    foreach(processes ${ARGN})
        add_test(NAME ${program}_${processes}
            COMMAND ${CMAKE_SOURCE_DIR}/tests/runtime/mpi_under.sh "${MPIEXEC_EXECUTABLE}" ${processes}
                    $<TARGET_FILE:${program}>)
        set_tests_properties(${program}_${processes} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
    endforeach()
endfunction()

foreach(program mpi_test mpi_transport_test mpi_conformance_test)
    target_link_libraries(${program} PRIVATE tutti_mpi)
    # The MPI library keeps memory of its own to the end, which is no leak of ours, and its threads
    # are not instrumented.
    set_tests_properties(${program} PROPERTIES ENVIRONMENT
        "ASAN_OPTIONS=detect_leaks=0;TSAN_OPTIONS=ignore_noninstrumented_modules=1")
endforeach()

if(TUTTI_HAVE_MPI)
    mpi_jobs(mpi_test 2 4)
    mpi_jobs(mpi_transport_test 2 3)
    mpi_jobs(mpi_conformance_test 2 3 4 7)

    # The same where MPI lets one thread in at a time.
    add_executable(mpi_serialized runtime/mpi_conformance_test.c runtime/mpi_serialized.c)
    target_link_libraries(mpi_serialized PRIVATE tutti_mpi)
    target_include_directories(mpi_serialized PRIVATE ${CMAKE_BINARY_DIR}/generated)
    mpi_jobs(mpi_serialized 2)

    # A process that stops moving: the others name what they wait for, and the job ends.
    add_executable(mpi_stall runtime/mpi_stall.c)
    target_link_libraries(mpi_stall PRIVATE tutti_mpi)
    mpi_jobs(mpi_stall 3)
    set_tests_properties(mpi_stall_3 PROPERTIES TIMEOUT 60 PASS_REGULAR_EXPRESSION
        "deadline of 1s passed: rank [02],|skipped: no mpirun")

    # Allocations fail in one process of a job: linked as alloc_fail.cmake does it.
    add_executable(mpi_alloc runtime/mpi_alloc.c)
    target_link_libraries(mpi_alloc PRIVATE tutti_mpi)
    foreach(function malloc calloc realloc aligned_alloc strdup open_memstream free)
        target_link_options(mpi_alloc PRIVATE "LINKER:--wrap=${function}")
    endforeach()
    mpi_jobs(mpi_alloc 2)

    # A machine measured through its transport, predicted and compared.
    add_test(NAME mpi_calibrate COMMAND ${CMAKE_SOURCE_DIR}/tests/runtime/mpi_calibrate.sh
             "${MPIEXEC_EXECUTABLE}" $<TARGET_FILE:tutti>)
    set_tests_properties(mpi_calibrate PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)

    # Trained by processes of MPI, to the bits of threads. What it runs is tested under sanitizers
    # by others.
    if(NOT TUTTI_SANITIZE)
        add_test(NAME train_mpi COMMAND ${CMAKE_SOURCE_DIR}/tests/runtime/train_mpi.sh
                 "${MPIEXEC_EXECUTABLE}" $<TARGET_FILE:tutti>)
        set_tests_properties(train_mpi PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
    endif()

    # Built, and played once with small sizes so that it keeps working; figures: bench/notes.md.
    add_executable(mpi_bench bench/mpi_bench.c)
    target_link_libraries(mpi_bench PRIVATE tutti_mpi)
    add_test(NAME mpi_bench COMMAND ${CMAKE_SOURCE_DIR}/tests/runtime/mpi_under.sh
             "${MPIEXEC_EXECUTABLE}" 2 $<TARGET_FILE:mpi_bench> 8,65536,1048580 1 ring,mpi)
    set_tests_properties(mpi_bench PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()
