# Without the backend there is nothing that makes its operations.
target_link_libraries(cuda_costs_test PRIVATE tutti_cuda)
if(NOT TUTTI_HAVE_CUDA)
    set_target_properties(cuda_costs_test PROPERTIES EXCLUDE_FROM_ALL TRUE)
    set_tests_properties(cuda_costs_test PROPERTIES DISABLED TRUE)
endif()
