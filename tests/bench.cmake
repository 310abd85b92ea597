# Benchmarks are built, and played once with small sizes so that they keep working; nothing here is
# timed by ctest. The peer is built where MPI is. The measurement itself: tests/bench/allreduce.sh.
add_executable(allreduce_bench bench/allreduce_bench.c)
target_link_libraries(allreduce_bench PRIVATE tutti_static)
add_test(NAME allreduce_bench COMMAND allreduce_bench tutti 8,65536,20971520 2)
add_executable(tcp_bench bench/tcp_bench.c)
target_link_libraries(tcp_bench PRIVATE tutti_static)
add_test(NAME tcp_bench COMMAND tcp_bench tutti 8,65536,20971520 2)

# What a step of a run that is held open costs.
add_executable(steps_bench bench/steps_bench.c)
target_link_libraries(steps_bench PRIVATE tutti_static)
add_test(NAME steps_bench COMMAND steps_bench 1024 100 2)

# What it takes to simulate a training step of many ranks.
add_executable(fold_step_bench bench/fold_step_bench.c)
target_link_libraries(fold_step_bench PRIVATE tutti_static)
add_test(NAME fold_step_bench COMMAND fold_step_bench 4 4 3)

# What saving costs who trains.
add_executable(checkpoint_bench bench/checkpoint_bench.c)
target_link_libraries(checkpoint_bench PRIVATE tutti_static)
add_test(NAME checkpoint_bench COMMAND checkpoint_bench 65536 2 5 1)

# Ways to write what another processor has read: figures in bench/notes.md.
add_executable(lines_bench bench/lines_bench.c)
target_link_libraries(lines_bench PRIVATE tutti_static)
add_test(NAME lines_bench COMMAND lines_bench 4,100,65536 20)
set_tests_properties(lines_bench PROPERTIES SKIP_RETURN_CODE 77)

if(TUTTI_HAVE_MPI AND NOT TUTTI_SANITIZE)
    add_executable(allreduce_peer_mpi bench/allreduce_peer_mpi.c)
    target_link_libraries(allreduce_peer_mpi PRIVATE MPI::MPI_C Threads::Threads)
endif()

# What a network of tools/netlab does to the backend tcp: tests/bench/netlab.sh.
add_executable(netlab_play bench/netlab_play.c)
target_link_libraries(netlab_play PRIVATE tutti_static)

# What io_uring has to offer, beside what the backend tcp uses of it: figures in bench/notes.md.
if(TUTTI_HAVE_URING)
    add_executable(uring_bench bench/uring_bench.c)
    target_include_directories(uring_bench PRIVATE ${TUTTI_URING_INCLUDE})
    target_link_libraries(uring_bench PRIVATE ${TUTTI_URING_LIBRARY} Threads::Threads)
    add_test(NAME uring_bench COMMAND uring_bench 8,65536,1048576 1)
endif()

# What a step of real training takes, and the share of its products.
add_executable(train_bench bench/train_bench.c)
target_link_libraries(train_bench PRIVATE tutti_static)
add_test(NAME train_bench COMMAND train_bench cifar10-cnn 3 2)

# What a second thread brings to it.
add_executable(train_ranks_bench bench/train_ranks_bench.c)
target_link_libraries(train_ranks_bench PRIVATE tutti_static)
add_test(NAME train_ranks_bench COMMAND train_ranks_bench mlp 8 3 2)

# What predicting steps of cut models takes: bars in bench/parallel_bench.c.
add_executable(parallel_bench bench/parallel_bench.c)
target_link_libraries(parallel_bench PRIVATE tutti_static)
add_test(NAME parallel_bench COMMAND parallel_bench 3)
