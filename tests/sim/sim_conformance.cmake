# The conformance suite on both network models, with and without jitter: four programs, one source.
target_compile_definitions(sim_conformance_test PRIVATE
    SIM_MODEL=TUTTI_MODEL_ALPHABETA SIM_JITTER=0)

function(sim_conformance name model jitter)
    add_executable(${name} sim/sim_conformance_test.c)
    target_link_libraries(${name} PRIVATE tutti_static)
    target_compile_definitions(${name} PRIVATE SIM_MODEL=${model} SIM_JITTER=${jitter})
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
endfunction()

sim_conformance(sim_conformance_alphabeta_jitter TUTTI_MODEL_ALPHABETA 0.9)
sim_conformance(sim_conformance_fair TUTTI_MODEL_FAIR 0)
sim_conformance(sim_conformance_fair_jitter TUTTI_MODEL_FAIR 0.9)
