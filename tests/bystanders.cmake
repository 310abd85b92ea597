# What the test of others' share of the processors needs from the tools.
target_sources(bystanders_test PRIVATE ${CMAKE_SOURCE_DIR}/tools/bystanders.c)
