# The script of this build's command, and the tables that it must have all of.
target_link_libraries(completion_test PRIVATE tutti_cli_static)
add_dependencies(completion_test tutti)
