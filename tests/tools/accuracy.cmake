# What is tested of the commands lies in their library.
target_link_libraries(accuracy_test PRIVATE tutti_cli_static)
