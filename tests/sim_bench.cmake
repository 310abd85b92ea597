# The benchmark of the simulator: built always, run by hand (no arguments: the table), and once with
# a small case so that it keeps working.
add_executable(sim_bench bench/sim_bench.c)
target_link_libraries(sim_bench PRIVATE tutti_static)
add_test(NAME sim_bench COMMAND sim_bench ring:n=64 allreduce ring 1M alphabeta)
