# It runs the command of this build; 200 stories with TUTTI_TEST_FULL take longer than other tests.
add_dependencies(train_going_on_test tutti)
set_tests_properties(train_going_on_test PROPERTIES TIMEOUT 3600)
