# The backend `cuda` without a GPU: its kernel compiled for the CPU, behind a stand-in for the
# driver's library. In a build without the backend none of these is built, and ctest says so.
set(programs cuda_plan_test cuda_player_test cuda_conformance_test cuda_test cuda_several_test
    cuda_work_test nccl_conformance_test nccl_test train_gpu_test train_nccl_test)
# What is shipped is linked with no library of a backend, whichever it has; where they are off it has
# no trace of one.
if(NOT TUTTI_SANITIZE)
    add_test(NAME cuda_links COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/gpu/links.sh
        $<IF:$<BOOL:${TUTTI_HAVE_CUDA}>,on,off> ${CMAKE_NM} $<TARGET_FILE:tutti>
        $<TARGET_FILE:tutti_shared> $<TARGET_FILE:tutti_cli_shared>)
    # What it looks at another test may be linking.
    set_tests_properties(cuda_links PROPERTIES SKIP_RETURN_CODE 77 DEPENDS install)
endif()
if(NOT TUTTI_HAVE_CUDA)
    set_target_properties(${programs} PROPERTIES EXCLUDE_FROM_ALL TRUE)
    set_tests_properties(${programs} PROPERTIES DISABLED TRUE)
    return()
endif()
add_library(cuda_standin MODULE gpu/cuda_standin.c)
target_include_directories(cuda_standin PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(cuda_standin PRIVATE Threads::Threads)
add_library(nccl_standin MODULE gpu/nccl_standin.c gpu/nccl_standin_far.c
    ${CMAKE_SOURCE_DIR}/runtime/exec/nccl/library.c)
target_include_directories(nccl_standin PRIVATE ${CMAKE_SOURCE_DIR})
set_target_properties(nccl_standin PROPERTIES C_VISIBILITY_PRESET hidden)
target_link_libraries(nccl_standin PRIVATE tutti_static ${CMAKE_DL_LIBS})
target_link_options(nccl_standin PRIVATE -Wl,--exclude-libs,ALL)
add_library(cublas_standin MODULE gpu/cublas_standin.c)
target_include_directories(cublas_standin PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_options(cublas_standin PRIVATE -O2) # it does nothing but multiply
target_link_libraries(cublas_standin PRIVATE ${CMAKE_DL_LIBS})
foreach(program ${programs})
    target_link_libraries(${program} PRIVATE tutti_nccl tutti_cuda)
    add_dependencies(${program} cuda_standin nccl_standin cublas_standin)
endforeach()
set(standin TUTTI_CUDA_LIBRARY=$<TARGET_FILE:cuda_standin>)
set_tests_properties(cuda_conformance_test cuda_test cuda_several_test cuda_work_test PROPERTIES
    ENVIRONMENT "${standin}")
set(standin_blas "${standin};TUTTI_STANDIN_CUDA=$<TARGET_FILE:cuda_standin>")
set_tests_properties(train_gpu_test PROPERTIES TIMEOUT 600
    ENVIRONMENT "${standin_blas};TUTTI_TEST_CUBLAS=$<TARGET_FILE:cublas_standin>")
set(standins "${standin};TUTTI_NCCL_LIBRARY=$<TARGET_FILE:nccl_standin>")
set_tests_properties(nccl_test PROPERTIES ENVIRONMENT "${standins}")
set(standins_blas "${standin_blas};TUTTI_NCCL_LIBRARY=$<TARGET_FILE:nccl_standin>")
set_tests_properties(train_nccl_test PROPERTIES TIMEOUT 600
    ENVIRONMENT "${standins_blas};TUTTI_TEST_CUBLAS=$<TARGET_FILE:cublas_standin>")
add_test(NAME train_nccl_processes
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/runtime/train_nccl_processes.sh $<TARGET_FILE:tutti>
        $<$<BOOL:${TUTTI_HAVE_MPI}>:${MPIEXEC_EXECUTABLE}>)
set_tests_properties(train_nccl_processes PROPERTIES TIMEOUT 300 ENVIRONMENT "${standins}")
set_tests_properties(nccl_conformance_test PROPERTIES
    ENVIRONMENT "${standins};TUTTI_TEST_PROCESSES=1")
add_test(NAME nccl_conformance_3 COMMAND nccl_conformance_test)
set_tests_properties(nccl_conformance_3 PROPERTIES TIMEOUT 600
    ENVIRONMENT "${standins};TUTTI_TEST_PROCESSES=3;TUTTI_TEST_FEWER=40")
add_test(NAME nccl_processes
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/runtime/nccl_processes.sh $<TARGET_FILE:tutti>)
set_tests_properties(nccl_processes PROPERTIES TIMEOUT 300 ENVIRONMENT "${standins}")
add_test(NAME gpu_run_columns
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/gpu/run_columns.sh $<TARGET_FILE:tutti>)
set_tests_properties(gpu_run_columns PROPERTIES TIMEOUT 300 ENVIRONMENT "${standins}")
add_test(NAME cuda_conformance_persistent COMMAND cuda_conformance_test)
set_tests_properties(cuda_conformance_persistent PROPERTIES TIMEOUT 600
    ENVIRONMENT "${standin};TUTTI_TEST_PERSISTENT=1;TUTTI_TEST_FEWER=40")
add_test(NAME cuda_conformance_graph COMMAND cuda_conformance_test)
set_tests_properties(cuda_conformance_graph PROPERTIES TIMEOUT 600
    ENVIRONMENT "${standin};TUTTI_TEST_GRAPH=1;TUTTI_TEST_FEWER=40")
# Ranks on several GPUs: devices, and which of them reach each other's memory (cuda_standin.c).
foreach(several "2;1;" "2;0;" "4;2;" "4;0;TUTTI_TEST_PERSISTENT=1")
    list(GET several 0 devices)
    list(GET several 1 peers)
    list(GET several 2 more)
    add_test(NAME cuda_conformance_${devices}_gpus_peers_${peers}
        COMMAND cuda_conformance_test every_algorithm --seed=${devices}${peers})
    set_tests_properties(cuda_conformance_${devices}_gpus_peers_${peers} PROPERTIES TIMEOUT 600
        ENVIRONMENT "${standin};TUTTI_STANDIN_DEVICES=${devices};TUTTI_STANDIN_PEERS=${peers};TUTTI_TEST_FEWER=60;${more}")
endforeach()
add_test(NAME cuda_conformance_steps_4_gpus COMMAND cuda_conformance_test training)
set_tests_properties(cuda_conformance_steps_4_gpus PROPERTIES TIMEOUT 300
    ENVIRONMENT "${standin};TUTTI_STANDIN_DEVICES=4;TUTTI_STANDIN_PEERS=2;TUTTI_TEST_FEWER=60")
add_test(NAME cuda_run_2_gpus COMMAND tutti run -B cuda -g 6 -a ring,two-shot -b 1K -e 4K -n 2)
set_tests_properties(cuda_run_2_gpus PROPERTIES TIMEOUT 300
    ENVIRONMENT "${standin};TUTTI_STANDIN_DEVICES=2"
    PASS_REGULAR_EXPRESSION "first of 2 GPUs\n# ranks 0-2 on GPU 0, 3-5 on GPU 1, peer access\n")
add_test(NAME cuda_run_2_gpus_no_peers
    COMMAND tutti run -B cuda -g 2 --no-peers -a ring,one-shot -b 1K -e 64K -n 2)
set_tests_properties(cuda_run_2_gpus_no_peers PROPERTIES TIMEOUT 300
    ENVIRONMENT "${standin};TUTTI_STANDIN_DEVICES=4"
    PASS_REGULAR_EXPRESSION "rank 0 on GPU 0, 1 on GPU 1, no peer access: through the host\n")

add_test(NAME cuda_no_driver COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/gpu/no_driver.sh
    $<TARGET_FILE:tutti> $<TARGET_FILE:cuda_standin>)

# What the compiler made of the kernels for each GPU, as it said when they were built.
if(TUTTI_HAVE_NVCC)
    add_test(NAME cuda_registers COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/gpu/registers.sh
        ${CMAKE_BINARY_DIR}/generated/player.fatbin.log)
endif()

# The kernel under ThreadSanitizer in every build; both mutants must be caught.
set(CMAKE_REQUIRED_FLAGS -fsanitize=thread)
check_c_source_compiles("int main(void) { return 0; }" TUTTI_HAVE_TSAN)
unset(CMAKE_REQUIRED_FLAGS)
if(TUTTI_HAVE_TSAN AND NOT TUTTI_SANITIZE)
    add_executable(player_race gpu/player_race.c)
    target_include_directories(player_race PRIVATE ${CMAKE_SOURCE_DIR})
    target_compile_options(player_race PRIVATE -fsanitize=thread -g1 -O0) # with -O2 15 s to compile
    target_link_options(player_race PRIVATE -fsanitize=thread)
    target_link_libraries(player_race PRIVATE tutti_cuda)
    foreach(mutant right no-barrier relaxed)
        add_test(NAME cuda_player_race_${mutant} COMMAND player_race ${mutant})
        set_tests_properties(cuda_player_race_${mutant} PROPERTIES TIMEOUT 300)
    endforeach()
    set_tests_properties(cuda_player_race_no-barrier cuda_player_race_relaxed PROPERTIES
        PASS_REGULAR_EXPRESSION "ThreadSanitizer: data race")
    # The same for two devices.
    add_executable(several_race gpu/several_race.c)
    target_include_directories(several_race PRIVATE ${CMAKE_SOURCE_DIR})
    target_compile_options(several_race PRIVATE -fsanitize=thread -g1 -O0)
    target_link_options(several_race PRIVATE -fsanitize=thread)
    target_link_libraries(several_race PRIVATE tutti_cuda)
    foreach(mutant right no-meeting relaxed)
        add_test(NAME cuda_several_race_${mutant} COMMAND several_race ${mutant})
        set_tests_properties(cuda_several_race_${mutant} PROPERTIES TIMEOUT 300)
    endforeach()
    set_tests_properties(cuda_several_race_no-meeting cuda_several_race_relaxed PROPERTIES
        PASS_REGULAR_EXPRESSION "ThreadSanitizer: data race")
endif()

# What tests/gpu/run.sh measures; here on the stand-in, so that it goes through.
add_executable(bars gpu/bars.c)
target_link_libraries(bars PRIVATE tutti_cuda)
add_test(NAME cuda_bars COMMAND bars --small)
set_tests_properties(cuda_bars PROPERTIES ENVIRONMENT "${standin}" TIMEOUT 300)

# Costs fitted and held against collectives, as on a GPU; what the stand-in takes tells nothing.
foreach(backend cuda nccl)
    add_test(NAME ${backend}_validate COMMAND sh -c "$<TARGET_FILE:tutti> calibrate -B ${backend} -g 2 -e 60K -O ${backend}.local && $<TARGET_FILE:tutti> validate -B ${backend} -g 2 -a ring,two-shot -b 1K -e 4K -w 1 -n 2 --calib ${backend}.local")
    set_tests_properties(${backend}_validate PROPERTIES TIMEOUT 300
        PASS_REGULAR_EXPRESSION "error of 4 sizes: median" ENVIRONMENT
        "${standin};TUTTI_NCCL_LIBRARY=$<TARGET_FILE:nccl_standin>")
endforeach()
