# What `cmake --install` copies: the command, the libraries, the doors, and what finds them by
# pkg-config and find_package. The target `product` builds all of it, and nothing else. A profile
# without some of the targets installs the others; TUTTI_ROOMS: those whose doors it has.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(NOT DEFINED TUTTI_ROOMS)
    set(TUTTI_ROOMS runtime topo sim traces)
endif()
set(TUTTI_PRODUCTS tutti_static)
set(TUTTI_PACKAGE ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
set_target_properties(tutti_static PROPERTIES EXPORT_NAME static)
if(TARGET tutti_shared)
    list(APPEND TUTTI_PRODUCTS tutti_shared)
    set_target_properties(tutti_shared PROPERTIES EXPORT_NAME tutti)
endif()
install(TARGETS ${TUTTI_PRODUCTS} EXPORT tuttiTargets
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti)
install(EXPORT tuttiTargets NAMESPACE tutti:: DESTINATION ${TUTTI_PACKAGE})
foreach(room ${TUTTI_ROOMS})
    file(GLOB DOORS CONFIGURE_DEPENDS ${room}/*.h)
    install(FILES ${DOORS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti/${room})
endforeach()

# Apart, for it alone needs MPI: find_package(tutti COMPONENTS mpi). A static library, over static.
if(TUTTI_HAVE_MPI AND TARGET tutti_mpi)
    list(APPEND TUTTI_PRODUCTS tutti_mpi)
    set_target_properties(tutti_mpi PROPERTIES EXPORT_NAME mpi)
    install(TARGETS tutti_mpi EXPORT tuttiMpiTargets)
    install(EXPORT tuttiMpiTargets NAMESPACE tutti:: DESTINATION ${TUTTI_PACKAGE})
endif()

# Likewise, for it alone has kernels: find_package(tutti COMPONENTS cuda).
if(TUTTI_HAVE_CUDA AND TARGET tutti_cuda)
    list(APPEND TUTTI_PRODUCTS tutti_cuda tutti_nccl)
    set_target_properties(tutti_cuda PROPERTIES EXPORT_NAME cuda)
    set_target_properties(tutti_nccl PROPERTIES EXPORT_NAME nccl) # stands on it
    install(TARGETS tutti_cuda tutti_nccl EXPORT tuttiCudaTargets)
    install(EXPORT tuttiCudaTargets NAMESPACE tutti:: DESTINATION ${TUTTI_PACKAGE})
endif()

# The command, and its commands as calls. Pages and completions are of this very build.
if(TARGET tutti)
    list(APPEND TUTTI_PRODUCTS tutti tutti_cli_shared)
    set_target_properties(tutti_cli_shared PROPERTIES EXPORT_NAME cli)
    install(TARGETS tutti)
    install(TARGETS tutti_cli_shared EXPORT tuttiCliTargets
            INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti)
    install(EXPORT tuttiCliTargets NAMESPACE tutti:: DESTINATION ${TUTTI_PACKAGE})
    install(FILES tools/cli.h tools/commands.h tools/options.h tools/sink.h
            DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti/tools)
    install(DIRECTORY ${CMAKE_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL
            FILES_MATCHING PATTERN "*.1")
    foreach(shell bash:bash-completion/completions zsh:zsh/site-functions
                  fish:fish/vendor_completions.d)
        string(REPLACE ":" ";" shell ${shell})
        list(GET shell 0 from)
        list(GET shell 1 to)
        install(DIRECTORY ${CMAKE_BINARY_DIR}/completion/${from}/
                DESTINATION ${CMAKE_INSTALL_DATADIR}/${to} OPTIONAL)
    endforeach()
    install(DIRECTORY traces/measured/ DESTINATION ${CMAKE_INSTALL_DATADIR}/tutti/measured
            FILES_MATCHING PATTERN "*.measured" PATTERN "*.calib" PATTERN "*.csv")
    install(DIRECTORY tools/prices DESTINATION ${CMAKE_INSTALL_DATADIR}/tutti)
endif()

# ---- how others find it: both files go by where they lie, so that the whole may be moved -----------
set(TUTTI_PC_REQUIRES "")
if(TUTTI_HAVE_EXPAT)
    list(APPEND TUTTI_PC_REQUIRES expat)
endif()
if(TUTTI_HAVE_URING)
    list(APPEND TUTTI_PC_REQUIRES liburing)
endif()
set(TUTTI_PC_LIBS -lm)
if(Threads_FOUND)
    string(APPEND TUTTI_PC_LIBS " -pthread")
endif()
if(TUTTI_HAVE_DLOPEN AND CMAKE_DL_LIBS)
    string(APPEND TUTTI_PC_LIBS " -l${CMAKE_DL_LIBS}")
endif()
list(JOIN TUTTI_PC_REQUIRES ", " TUTTI_PC_REQUIRES)
file(RELATIVE_PATH TUTTI_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" TUTTI_PC_PREFIX "${TUTTI_PC_PREFIX}")
configure_file(tools/install/tutti.pc.in ${CMAKE_BINARY_DIR}/generated/tutti.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/generated/tutti.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

configure_package_config_file(tools/install/tuttiConfig.cmake.in
    ${CMAKE_BINARY_DIR}/generated/tuttiConfig.cmake INSTALL_DESTINATION ${TUTTI_PACKAGE})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/tuttiConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/tuttiConfig.cmake
        ${CMAKE_BINARY_DIR}/generated/tuttiConfigVersion.cmake DESTINATION ${TUTTI_PACKAGE})

add_custom_target(product DEPENDS ${TUTTI_PRODUCTS})
