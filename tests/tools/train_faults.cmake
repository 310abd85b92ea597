# It runs the command of this build; 250 stories with TUTTI_TEST_FULL take longer than other tests.
add_dependencies(train_faults_test tutti)
set_tests_properties(train_faults_test PROPERTIES TIMEOUT 3600)
if(TUTTI_HAVE_MPI)
    add_test(NAME train_faults_mpi COMMAND ${CMAKE_SOURCE_DIR}/tests/runtime/train_faults_mpi.sh
             "${MPIEXEC_EXECUTABLE}" $<TARGET_FILE:tutti>)
    set_tests_properties(train_faults_mpi PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()
