# Plugins for plugin_test: the example of tools/examples, compiled against the doors alone, as a user
# would, and bad ones. The test itself uses libtutti.so, in which its plugins find what they need.
foreach(room runtime topo sim traces)
    file(GLOB doors CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${room}/*.h)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/doors/include/${room})
    foreach(door ${doors})
        get_filename_component(name ${door} NAME)
        file(CREATE_LINK ${door} ${CMAKE_BINARY_DIR}/doors/include/${room}/${name} SYMBOLIC)
    endforeach()
endforeach()
set(plugins ${CMAKE_SOURCE_DIR}/tools/examples/own_algorithm.c
    ${CMAKE_SOURCE_DIR}/tests/plugins/other_version.c
    ${CMAKE_SOURCE_DIR}/tests/plugins/no_symbol.c ${CMAKE_SOURCE_DIR}/tests/plugins/name_taken.c
    ${CMAKE_SOURCE_DIR}/tests/plugins/out_of_bounds.c)
foreach(source ${plugins})
    get_filename_component(name ${source} NAME_WE)
    add_library(plugin_${name} MODULE ${source})
    set_target_properties(plugin_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name}
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/plugins
        INCLUDE_DIRECTORIES ${CMAKE_BINARY_DIR}/doors/include)
    add_dependencies(plugin_test plugin_${name})
endforeach()
set_property(TARGET plugin_test PROPERTY LINK_LIBRARIES tutti_shared)
add_dependencies(plugin_test tutti)
