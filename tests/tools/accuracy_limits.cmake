# It runs the laboratory's program of this build.
add_dependencies(accuracy_limits_test tutti_fit)
