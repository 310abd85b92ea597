# -DTUTTI_PROFILE=core: schedules, machines and the simulator alone, of libc and libm only; made
# small. No backend that really runs, no traces, no command. What is built: libtutti.a, libtutti.so
# where there are such, and tests/embedded/answers, a program that prints predictions.
list(FILTER RUNTIME_SOURCES INCLUDE REGEX
    "/runtime/(base|coll|parallel|schedule|workload)/|/runtime/exec/(engine|program|record|run/backend|device/reduce[a-z_]*)[.]")
list(FILTER RUNTIME_SOURCES EXCLUDE REGEX "/runtime/exec/device/reduce_(avx2|avx512)[.]c$|with-x86[.]c$")
list(APPEND RUNTIME_SOURCES ${CMAKE_SOURCE_DIR}/runtime/exec/device/reduce_isa.without-x86.c)
list(REMOVE_DUPLICATES RUNTIME_SOURCES)
list(FILTER TOPO_SOURCES EXCLUDE REGEX "/topo/local/")
# Who plans trainings of weeks does not do so on a device with a MiB to spare.
list(FILTER SIM_SOURCES EXCLUDE REGEX "/sim/(local|fit|long_run|plan|jobs)/")
list(FILTER SIM_SOURCES EXCLUDE REGEX "/sim/local[.]c$")

set(TUTTI_CORE_OPTIMIZE -Os CACHE STRING "How the profile core is optimised")
# Nothing unwinds through C that throws nothing: tables for it are an eleventh of the text.
add_compile_options(${TUTTI_CORE_OPTIMIZE} -ffunction-sections -fdata-sections
    -fno-asynchronous-unwind-tables -fno-unwind-tables)
set_source_files_properties(runtime/exec/device/reduce_generic.c PROPERTIES COMPILE_OPTIONS "-fopenmp-simd;-Wno-pass-failed")
add_library(tutti_objects OBJECT ${RUNTIME_SOURCES} ${TOPO_SOURCES} ${SIM_SOURCES}
    ${CMAKE_BINARY_DIR}/generated/calib_builtin_text.c
    ${CMAKE_BINARY_DIR}/generated/prices_builtin_text.c)
target_include_directories(tutti_objects PRIVATE ${CMAKE_BINARY_DIR}/generated)
set_target_properties(tutti_objects PROPERTIES C_VISIBILITY_PRESET hidden)
set(TUTTI_CORE_LIBRARIES tutti_static)
add_library(tutti_static STATIC $<TARGET_OBJECTS:tutti_objects>)
if(NOT CMAKE_SYSTEM_NAME STREQUAL Generic)
    list(APPEND TUTTI_CORE_LIBRARIES tutti_shared)
    add_library(tutti_shared SHARED $<TARGET_OBJECTS:tutti_objects>)
    set_target_properties(tutti_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
endif()
foreach(library ${TUTTI_CORE_LIBRARIES})
    set_target_properties(${library} PROPERTIES OUTPUT_NAME tutti)
    target_link_libraries(${library} PUBLIC m)
endforeach()
if(NOT CMAKE_SYSTEM_NAME STREQUAL Generic)
    target_link_options(tutti_shared PRIVATE -Wl,--gc-sections -Wl,-z,defs)
endif()
add_executable(answers tests/embedded/answers.c)
target_link_libraries(answers PRIVATE tutti_static)
target_link_options(answers PRIVATE -Wl,--gc-sections)
if(NOT CMAKE_SYSTEM_NAME STREQUAL Generic)
    add_executable(heap tests/embedded/heap.c)
    target_link_libraries(heap PRIVATE tutti_static)
endif()

install(TARGETS ${TUTTI_CORE_LIBRARIES})
foreach(room runtime topo sim)
    file(GLOB DOORS CONFIGURE_DEPENDS ${room}/*.h)
    install(FILES ${DOORS} DESTINATION include/tutti/${room})
endforeach()
