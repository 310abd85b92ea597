# It runs the command of this build; 250 stories with TUTTI_TEST_FULL take longer than other tests.
add_dependencies(train_faults_test tutti)
set_tests_properties(train_faults_test PROPERTIES TIMEOUT 3600)
