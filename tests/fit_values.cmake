# tools/ is no library: what is tested of it is compiled into its test.
target_sources(fit_values_test PRIVATE ${CMAKE_SOURCE_DIR}/tools/fit_values.c
    ${CMAKE_SOURCE_DIR}/tools/fit_priors.c ${CMAKE_SOURCE_DIR}/tools/fit_paths.c
    ${CMAKE_SOURCE_DIR}/tools/fit_cases.c ${CMAKE_SOURCE_DIR}/tools/fidelity_nccl.c
    ${CMAKE_SOURCE_DIR}/tools/measured_files.c ${CMAKE_SOURCE_DIR}/tools/files.c)
