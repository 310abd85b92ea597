# The commands as calls, and the command of the same build beside them.
target_link_libraries(calls_test PRIVATE tutti_cli_static)
add_dependencies(calls_test tutti)
