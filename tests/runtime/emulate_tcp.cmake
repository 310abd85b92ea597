# Emulation by other numbers of processes than two, more of them than ranks included.
foreach(count 3 7)
    set(name emulate_tcp_${count})
    add_test(NAME ${name} COMMAND emulate_tcp_test)
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600
        ENVIRONMENT "TUTTI_TEST_PROCESSES=${count}")
endforeach()
