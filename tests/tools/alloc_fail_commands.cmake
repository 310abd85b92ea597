# The commands as calls, the laboratory's among them: every allocation of theirs is made to fail.
target_link_libraries(alloc_fail_commands_test PRIVATE tutti_fit_static)
