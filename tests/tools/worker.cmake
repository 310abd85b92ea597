# The example of runtime/cluster/README.md, compiled against the doors alone; worker_test runs it.
add_executable(example_own_cluster ${CMAKE_SOURCE_DIR}/tools/examples/own_cluster.c)
set_target_properties(example_own_cluster PROPERTIES OUTPUT_NAME own_cluster
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/examples
    INCLUDE_DIRECTORIES ${CMAKE_BINARY_DIR}/doors/include)
target_link_libraries(example_own_cluster PRIVATE tutti_shared)
target_link_libraries(worker_test PRIVATE tutti_cli_static)
add_dependencies(worker_test example_own_cluster tutti)
