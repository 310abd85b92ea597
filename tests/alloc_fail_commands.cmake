# tools/ is no library: the commands are compiled into their test, main under another name.
if(EXISTS ${CMAKE_SOURCE_DIR}/tools/main.c)
    target_sources(alloc_fail_commands_test PRIVATE ${TOOLS_SOURCES})
    target_link_libraries(alloc_fail_commands_test PRIVATE tutti_mpi)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/tools/main.c PROPERTIES
        COMPILE_DEFINITIONS main=tutti_main COMPILE_OPTIONS -Wno-missing-prototypes)
endif()
