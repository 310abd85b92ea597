# Programs that use what was installed; under sanitizers they would have to be built with them.
if(NOT TUTTI_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    add_test(NAME install COMMAND ${CMAKE_SOURCE_DIR}/tests/install/consume.sh ${CMAKE_BINARY_DIR}
        ${CMAKE_C_COMPILER} ${TUTTI_CXX})
    set_tests_properties(install PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()
