# It runs the command of this build.
add_dependencies(train_elastic_test tutti)
set_tests_properties(train_elastic_test PROPERTIES TIMEOUT 3600)
