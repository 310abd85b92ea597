# The benchmark of the simulator: built always, run by hand (tests/bench/sim.sh), and with small cases
# so that it keeps working.
add_executable(sim_bench bench/sim_bench.c)
target_link_libraries(sim_bench PRIVATE tutti_static)
add_test(NAME sim_bench COMMAND sim_bench ring:n=64 allreduce ring 1M alphabeta)
if(NOT TUTTI_SANITIZE) # sanitizers reserve more memory than the script allows a case
    add_test(NAME sim_bench_script COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/bench/sim.sh --quick
        --build ${CMAKE_BINARY_DIR} --models alphabeta --ranks 64)
endif()

# Machines: what making one and asking it costs (tests/bench/sim.md, "Machines of a million").
add_executable(topo_bench bench/topo_bench.c)
target_link_libraries(topo_bench PRIVATE tutti_static)
add_test(NAME topo_bench COMMAND topo_bench ring:n=64 dgx-h100:nodes=12)

# Event queues on the events of real plays, run by hand: takes what the simulator puts and pops.
add_executable(queue_bench bench/queue_bench.c bench/queue_candidates.c bench/queue_calendar.c
    bench/queue_ladder.c)
target_link_libraries(queue_bench PRIVATE tutti_static)
foreach(function put drop pop clear)
    target_link_options(queue_bench PRIVATE "LINKER:--wrap=tutti_queue_${function}")
endforeach()
