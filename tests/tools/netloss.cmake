# It needs its programs.
add_dependencies(netloss_test tutti netlab_relay)
set_tests_properties(netloss_test PROPERTIES RUN_SERIAL TRUE TIMEOUT 300)
