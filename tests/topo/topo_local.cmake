# A library that answers in place of NVIDIA's NVML.
if(TUTTI_HAVE_DLOPEN)
    add_library(nvml_standin MODULE gpu/nvml_standin.c)
    target_include_directories(nvml_standin PRIVATE ${CMAKE_SOURCE_DIR})
    add_dependencies(topo_local_test nvml_standin)
    set_tests_properties(topo_local_test PROPERTIES
        ENVIRONMENT TUTTI_NVML_STANDIN=$<TARGET_FILE:nvml_standin>)
endif()
