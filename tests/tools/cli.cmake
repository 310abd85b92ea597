# It runs the programs of this build.
add_dependencies(cli_test tutti tutti_fit)
