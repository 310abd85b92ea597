# The commands as calls: every allocation of theirs is made to fail.
target_link_libraries(alloc_fail_commands_test PRIVATE tutti_cli_static)
