# tools/ is no library: the commands are compiled into their test, main under another name.
if(EXISTS ${CMAKE_SOURCE_DIR}/tools/main.c)
    target_sources(alloc_fail_commands_test PRIVATE ${TOOLS_SOURCES})
    target_link_libraries(alloc_fail_commands_test PRIVATE tutti_mpi)
    if(TUTTI_HAVE_PMIX)
        target_link_libraries(alloc_fail_commands_test PRIVATE ${TUTTI_PMIX_LIBRARY})
        target_include_directories(alloc_fail_commands_test SYSTEM PRIVATE ${TUTTI_PMIX_INCLUDE})
    endif()
    set_source_files_properties(${CMAKE_SOURCE_DIR}/tools/main.c PROPERTIES
        COMPILE_DEFINITIONS main=tutti_main COMPILE_OPTIONS -Wno-missing-prototypes)
endif()
