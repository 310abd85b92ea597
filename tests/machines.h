/* Machines for tests, from a SPEC or a text, and the bounds on them. */
#ifndef TUTTI_TESTS_MACHINES_H
#define TUTTI_TESTS_MACHINES_H

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "tests/test.h"
#include "topo/topo.h"

#define GIGA UINT64_C(1000000000)

/* To be freed; a SPEC or a text that is wrong ends the program. */
static inline struct tutti_topo *machine(const char *spec)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    if (topo == NULL) {
        fprintf(stderr, "no machine '%s'\n", spec);
        exit(1);
    }
    return topo;
}

static inline struct tutti_topo *read_machine(const char *text)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_parse("test", text, strlen(text), &topo, &err), err);
    if (topo == NULL)
        exit(1);
    return topo;
}

/* For `count` bytes in the sense of the collective (struct tutti_contract). */
static inline struct tutti_bound bound_of(const struct tutti_topo *topo,
                                          enum tutti_collective collective, uint64_t count)
{
    struct tutti_contract contract = {
        .collective = collective, .dtype = TUTTI_UINT8, .op = TUTTI_SUM, .count = count};
    struct tutti_bound bound = {0};
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_bound(topo, &contract, &bound, &err), err);
    return bound;
}

#endif
