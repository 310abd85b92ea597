# What is tested of the commands lies in their library.
target_link_libraries(local_fit_test PRIVATE tutti_cli_static)
target_link_libraries(local_alloc_test PRIVATE tutti_cli_static)
