# The conformance suite on tcp: each engine with several numbers of processes; the program alone, as
# every test is run, is two processes with the engine that `auto` takes.
foreach(engine poll uring)
    foreach(count 1 2 3 4 7)
        set(name tcp_conformance_${engine}_${count})
        add_test(NAME ${name} COMMAND tcp_conformance_test)
        set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600
            ENVIRONMENT "TUTTI_TEST_PROCESSES=${count};TUTTI_TEST_ENGINE=${engine}")
    endforeach()
endforeach()
