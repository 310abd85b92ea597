# tools/ is no library: what is tested of it is compiled into its test.
target_sources(hosts_test PRIVATE ${CMAKE_SOURCE_DIR}/tools/hosts.c)
