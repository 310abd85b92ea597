# The command as a call, many times in one process.
target_link_libraries(train_cut_test PRIVATE tutti_cli_static)
