# The examples of runtime/train/README.md, compiled against the doors alone and linked with
# libtutti.so, as a user would; own_model_test runs them, under mpirun too where there is one.
foreach(name own_model own_loop)
    add_executable(example_${name} ${CMAKE_SOURCE_DIR}/tools/examples/${name}.c)
    set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name}
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/examples
        INCLUDE_DIRECTORIES ${CMAKE_BINARY_DIR}/doors/include)
    target_link_libraries(example_${name} PRIVATE tutti_shared m)
    add_dependencies(own_model_test example_${name})
endforeach()
add_dependencies(own_model_test tutti)
if(TUTTI_HAVE_MPI)
    target_compile_definitions(own_model_test PRIVATE TUTTI_MPIRUN="${MPIEXEC_EXECUTABLE}")
else()
    target_compile_definitions(own_model_test PRIVATE TUTTI_MPIRUN="")
endif()
