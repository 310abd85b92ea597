# What needs a GPU of NVIDIA: measured by tests/gpu/run.sh, which says where it goes. Built where the
# CUDA Toolkit is, NCCL's part where its header is, too (-DTUTTI_NCCL_ROOT=FOLDER with include/ and
# lib/); where there is no GPU the tests skip, and say so.
set(TUTTI_NCCL_ROOT "" CACHE PATH "Where NCCL is: a folder with include/nccl.h and lib/libnccl.so.2")
if(TUTTI_OPTIONAL AND NOT TUTTI_SANITIZE)
    find_package(CUDAToolkit QUIET)
    find_program(TUTTI_NVCC nvcc HINTS ${CUDAToolkit_BIN_DIR})
endif()
if(TUTTI_OPTIONAL AND NOT TUTTI_SANITIZE AND TUTTI_NVCC AND TARGET CUDA::cudart
   AND CUDAToolkit_VERSION VERSION_GREATER_EQUAL 11.8) # the first that knows Hopper
    add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/gpu_costs
        COMMAND ${TUTTI_NVCC} -std=c++17 -O2 -allow-unsupported-compiler -Xcompiler -Wall,-Wextra
            -gencode arch=compute_80,code=[compute_80,sm_80,sm_90]
            ${CMAKE_CURRENT_SOURCE_DIR}/gpu/costs.cu -o ${CMAKE_CURRENT_BINARY_DIR}/gpu_costs
        DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/gpu/costs.cu VERBATIM)
    add_custom_target(gpu_costs_program ALL DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/gpu_costs)
    add_test(NAME gpu_costs COMMAND ${CMAKE_CURRENT_BINARY_DIR}/gpu_costs --check)
    set_tests_properties(gpu_costs PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120)

    find_path(TUTTI_NCCL_INCLUDE nccl.h HINTS ${TUTTI_NCCL_ROOT}/include ${CUDAToolkit_INCLUDE_DIRS})
    find_library(TUTTI_NCCL_LIBRARY NAMES nccl libnccl.so.2 NAMES_PER_DIR
        HINTS ${TUTTI_NCCL_ROOT}/lib ${CUDAToolkit_LIBRARY_DIR})
    if(TUTTI_NCCL_INCLUDE AND TUTTI_NCCL_LIBRARY)
        add_executable(nccl_abi gpu/nccl_abi.c)
        target_include_directories(nccl_abi PRIVATE ${CMAKE_SOURCE_DIR})
        target_include_directories(nccl_abi SYSTEM PRIVATE ${TUTTI_NCCL_INCLUDE}
            ${CUDAToolkit_INCLUDE_DIRS})
        target_link_libraries(nccl_abi PRIVATE tutti_nccl)
        add_test(NAME nccl_abi COMMAND nccl_abi ${TUTTI_NCCL_LIBRARY})
        add_executable(nccl_ranks gpu/nccl_ranks.c gpu/nccl_play.c gpu/pretend.c)
        target_include_directories(nccl_ranks PRIVATE ${CMAKE_SOURCE_DIR})
        target_include_directories(nccl_ranks SYSTEM PRIVATE ${TUTTI_NCCL_INCLUDE})
        target_link_libraries(nccl_ranks PRIVATE CUDA::cudart Threads::Threads ${CMAKE_DL_LIBS})
        set_target_properties(nccl_ranks PROPERTIES ENABLE_EXPORTS ON) # its getenv, its dlsym
        foreach(collective allreduce allgather reducescatter broadcast reduce alltoall)
            add_test(NAME nccl_ranks_${collective} COMMAND nccl_ranks -c ${collective} -N 2 -e 1M
                -f 16 -w 1 -n 1 --nccl ${TUTTI_NCCL_LIBRARY})
            set_tests_properties(nccl_ranks_${collective} PROPERTIES SKIP_RETURN_CODE 77
                TIMEOUT 120 RUN_SERIAL ON)
        endforeach()
    endif()
endif()
if(TUTTI_OPTIONAL)
    message(STATUS "tutti: CUDA Toolkit (tests/gpu): ${TUTTI_NVCC}; NCCL: ${TUTTI_NCCL_LIBRARY}")
endif()
