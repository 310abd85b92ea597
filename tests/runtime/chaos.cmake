# 500 stories with TUTTI_TEST_FULL take longer than other tests; the short form is a few of them.
set_tests_properties(chaos_test PROPERTIES TIMEOUT 3600)
