# libtutti_cuda: the backend `cuda`, whose kernels nvcc compiles where it is; nothing is linked with
# CUDA. Without nvcc it is the same library without kernels, which says what to install; with
# -DTUTTI_CUDA=off, or where there is no dlopen, it says so and is nothing else.
set(TUTTI_CUDA auto CACHE STRING "The backend cuda: auto, on (fails without nvcc), off")
set(TUTTI_CUDA_ARCHITECTURES "" CACHE STRING
    "GPUs that its kernels are compiled for, as 75;90; all: those that nvcc knows; empty: 80;90, and PTX for others from 75 on")
if(NOT TUTTI_CUDA MATCHES "^(auto|on|off)$")
    message(FATAL_ERROR "TUTTI_CUDA=${TUTTI_CUDA} (auto, on or off)")
endif()
set(TUTTI_HAVE_CUDA 0)
if(TUTTI_HAVE_DLOPEN AND NOT TUTTI_CUDA STREQUAL "off")
    set(TUTTI_HAVE_CUDA 1)
endif()
set(TUTTI_HAVE_NVCC 0)
if(TUTTI_HAVE_CUDA AND NOT TUTTI_SANITIZE) # sanitizers look at the kernels compiled for the CPU
    find_package(CUDAToolkit QUIET)
    find_program(TUTTI_NVCC nvcc HINTS ${CUDAToolkit_BIN_DIR})
    if(TUTTI_NVCC)
        set(TUTTI_HAVE_NVCC 1)
    endif()
endif()
if(TUTTI_CUDA STREQUAL "on" AND NOT TUTTI_HAVE_NVCC)
    message(FATAL_ERROR "TUTTI_CUDA=on, and there is no nvcc (Debian's nvidia-cuda-toolkit, NVIDIA's CUDA Toolkit)")
endif()
message(STATUS "tutti: nvcc (kernels of the backend cuda): ${TUTTI_HAVE_NVCC}")

if(TUTTI_HAVE_CUDA)
    list(FILTER CUDA_SOURCES EXCLUDE REGEX "[.]without-cuda[.]c$")
    tutti_pick(CUDA_SOURCES nvcc ${TUTTI_HAVE_NVCC})
else()
    list(FILTER CUDA_SOURCES INCLUDE REGEX "[.]without-cuda[.]c$")
endif()
add_library(tutti_cuda STATIC ${CUDA_SOURCES})
target_link_libraries(tutti_cuda PUBLIC tutti_static)
if(TUTTI_HAVE_CUDA)
    target_link_libraries(tutti_cuda PRIVATE ${CMAKE_DL_LIBS})
endif()

# libtutti_nccl: the backend `nccl`, on top of it; NCCL is opened at run time.
if(TUTTI_HAVE_CUDA)
    list(FILTER NCCL_SOURCES EXCLUDE REGEX "[.]without-nccl[.]c$")
else()
    list(FILTER NCCL_SOURCES INCLUDE REGEX "[.]without-nccl[.]c$")
endif()
add_library(tutti_nccl STATIC ${NCCL_SOURCES})
target_link_libraries(tutti_nccl PUBLIC tutti_cuda)
if(TUTTI_HAVE_CUDA)
    target_link_libraries(tutti_nccl PRIVATE ${CMAKE_DL_LIBS})
endif()

if(TUTTI_HAVE_NVCC)
    # One way for all: nothing in it is of one GPU, and the way there takes half of the time.
    set(code -gencode arch=compute_75,code=[compute_75,sm_80,sm_90])
    if(TUTTI_CUDA_ARCHITECTURES)
        set(architectures ${TUTTI_CUDA_ARCHITECTURES})
        if(architectures STREQUAL "all")
            set(architectures "")
            execute_process(COMMAND ${TUTTI_NVCC} --list-gpu-code OUTPUT_VARIABLE known)
            foreach(architecture 70 75 80 86 89 90 100 120)
                if(known MATCHES "sm_${architecture}\n")
                    list(APPEND architectures ${architecture})
                endif()
            endforeach()
        endif()
        list(SORT architectures COMPARE NATURAL)
        list(GET architectures 0 lowest)
        list(TRANSFORM architectures PREPEND "sm_")
        list(JOIN architectures "," architectures)
        set(code -gencode arch=compute_${lowest},code=[${architectures}])
    endif()
    set(fatbin ${CMAKE_BINARY_DIR}/generated/player.fatbin)
    set(room ${CMAKE_SOURCE_DIR}/runtime/exec/cuda)
    add_custom_command(OUTPUT ${fatbin} ${fatbin}.log
        COMMAND sh -c "log=$1 && shift && \"$@\" >\"$log\" 2>&1 || { cat \"$log\"; exit 1; }" sh
            ${fatbin}.log ${TUTTI_NVCC} -std=c++17 -O3 -fmad=false -allow-unsupported-compiler
            -Xptxas -v -I${CMAKE_SOURCE_DIR} ${code} -fatbin ${room}/player.cu -o ${fatbin}
        DEPENDS ${room}/player.cu ${room}/player.h ${room}/player_arithmetic.h
            ${room}/player_mixed.h ${room}/device.h ${room}/op.h ${room}/train_kernels.h
            ${CMAKE_SOURCE_DIR}/runtime/exec/device/kernel_args.h VERBATIM)
    set_source_files_properties(runtime/exec/cuda/image.with-nvcc.c PROPERTIES
        COMPILE_DEFINITIONS TUTTI_CUDA_FATBIN="${fatbin}" OBJECT_DEPENDS ${fatbin})
endif()
