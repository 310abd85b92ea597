# tools/ is no library: what is tested of it is compiled into its test.
target_sources(fidelity_test PRIVATE ${CMAKE_SOURCE_DIR}/tools/fidelity_peers.c
    ${CMAKE_SOURCE_DIR}/tools/fidelity_sum.c ${CMAKE_SOURCE_DIR}/tools/fidelity_nccl.c)
