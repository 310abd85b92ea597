# What is tested of the commands lies in their library.
target_link_libraries(interval_test PRIVATE tutti_cli_static)
