# tools/ is no library: what is tested of it is compiled into its test.
target_sources(calibrate_test PRIVATE ${CMAKE_SOURCE_DIR}/tools/calibrate_predict.c
    ${CMAKE_SOURCE_DIR}/tools/calibrate_weigh.c)
