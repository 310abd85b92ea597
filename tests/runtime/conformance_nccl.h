/* The conformance suite, continued: the schedules that NCCL runs. */
#ifndef TUTTI_TESTS_RUNTIME_CONFORMANCE_NCCL_H
#define TUTTI_TESTS_RUNTIME_CONFORMANCE_NCCL_H

#include "tests/runtime/conformance_calls.h"
#include "tests/sim/nccl/nccl_cases.h"

/* Ranks of a host and hosts: one backend plays all that is drawn for them. */
static uint32_t nccl_play(const char *algorithm, uint32_t host_count, uint32_t length,
                          uint64_t draws)
{
    struct tutti_backend *backend = NULL;
    struct tutti_err err = {{0}};
    uint32_t plays = 0;

    CHECK_OK(subject.open(host_count * length, &backend, &err), err);
    for (uint32_t collective = 0; collective < TUTTI_CUSTOM && backend != NULL; collective++) {
        for (uint64_t i = 0; i < draws; i++) {
            struct nccl_case c;
            struct tutti_schedule *schedule = NULL;

            nccl_case_draw(&c, (enum tutti_collective)collective, host_count, length,
                           collective * draws + i);
            if (tutti_nccl_generate(algorithm, &c.params, &c.chains, &schedule, &err) != 0)
                continue; /* not one that it serves */
            conformance_play(backend, schedule, &c.params.coll);
            plays++;
        }
    }
    tutti_backend_close(backend);
    return plays;
}

TEST(what_nccl_runs_gives_the_bytes_of_its_contract)
{
    static const char *const algorithms[] = {"ring", "tree", "pat", "p2p"};
    static const uint32_t hosts[][2] = {{1, 2}, {1, 3}, {2, 2}, {3, 2}, {2, 4}, {5, 1}};

    for (size_t a = 0; a < sizeof(algorithms) / sizeof(algorithms[0]); a++) {
        uint32_t plays = 0;

        for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
            plays +=
                nccl_play(algorithms[a], hosts[i][0], hosts[i][1], (uint32_t)test_count(40, 3));
        CHECK(plays > 0);
    }
}

#endif
