# It needs its programs, and rates and delays need processors of their own.
add_dependencies(netlab_test tutti netlab_relay netlab_probe)
set_tests_properties(netlab_test PROPERTIES RUN_SERIAL TRUE TIMEOUT 600)
