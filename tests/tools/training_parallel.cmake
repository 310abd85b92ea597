# What is tested of the commands lies in their library.
target_link_libraries(training_parallel_test PRIVATE tutti_cli_static)
