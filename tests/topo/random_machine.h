/* Random machines: devices and switches, wired as chance has it. */
#ifndef TUTTI_TESTS_TOPO_RANDOM_MACHINE_H
#define TUTTI_TESTS_TOPO_RANDOM_MACHINE_H

#include "runtime/random.h"
#include "tests/machines.h"

/* A random machine of devices and, perhaps, switches: connected, cables of random rates; one_way:
 * and some links for which there is less or nothing back. To be freed. */
static inline struct tutti_topo *random_machine(struct tutti_random *random, uint32_t ranks,
                                                uint32_t switches, bool one_way)
{
    struct tutti_topo_builder *builder = NULL;
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    uint32_t nodes = ranks + switches;
    char name[32];

    CHECK_OK(tutti_topo_builder_new("random", NULL, &builder, &err), err);
    for (uint32_t v = 0; v < nodes; v++) {
        struct tutti_node node = {.name = name, .rank = TUTTI_RANK_NONE, .host = UINT32_MAX};

        node.kind = v < ranks ? TUTTI_NODE_DEVICE : TUTTI_NODE_SWITCH;
        (void)snprintf(name, sizeof(name), "n%u", v);
        CHECK_OK(tutti_topo_add_node(builder, &node, NULL, &err), err);
    }
    for (uint32_t i = 0; i < nodes - 1 + tutti_random_below(random, 2 * nodes); i++) {
        struct tutti_link link = {.from = i + 1, .latency_ps = 1000, .cable_count = 1};

        link.from = i + 1 < nodes ? i + 1 : (uint32_t)tutti_random_below(random, nodes);
        link.to = (uint32_t)tutti_random_below(random, i + 1 < nodes ? i + 1 : nodes);
        link.bytes_per_s = (1 + tutti_random_below(random, 4)) * GIGA;
        if (link.from == link.to)
            continue;
        if (one_way && i + 1 >= nodes && tutti_random_below(random, 2) == 0)
            CHECK_OK(tutti_topo_add_link(builder, &link, &err), err);
        else
            CHECK_OK(tutti_topo_add_cable(builder, &link, &err), err);
    }
    CHECK_OK(tutti_topo_freeze(builder, &topo, &err), err);
    return topo;
}

#endif
