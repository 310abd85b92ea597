# tools/ is no library: what is tested of it is compiled into its test.
target_sources(local_fit_test PRIVATE ${CMAKE_SOURCE_DIR}/tools/local_fit.c
    ${CMAKE_SOURCE_DIR}/tools/local_measure.c ${CMAKE_SOURCE_DIR}/tools/local_hop.c
    ${CMAKE_SOURCE_DIR}/tools/buffers.c)
target_sources(local_alloc_test PRIVATE ${CMAKE_SOURCE_DIR}/tools/local_fit.c
    ${CMAKE_SOURCE_DIR}/tools/local_measure.c ${CMAKE_SOURCE_DIR}/tools/local_hop.c
    ${CMAKE_SOURCE_DIR}/tools/buffers.c)
