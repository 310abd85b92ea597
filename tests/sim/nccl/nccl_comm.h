/* The communicator of a vector (nccl_vectors.h): graphs as NCCL's search found them, tuned here. */
#ifndef TUTTI_TESTS_SIM_NCCL_NCCL_COMM_H
#define TUTTI_TESTS_SIM_NCCL_NCCL_COMM_H

#include "runtime/status.h"
#include "sim/nccl/tables.h"
#include "tests/sim/nccl/nccl_vectors.h"
#include "tests/test.h"
#include "topo/hardware.h"

enum { TEXT_BYTES = 2048, VECTOR_COUNT = sizeof(nccl_vectors) / sizeof(nccl_vectors[0]) };

static const struct nccl_machine {
    const char *name;
    uint32_t compute;
    uint8_t vendor;
    uint32_t link_count;
    double nic_GBps;
} nccl_machines[] = {
    {"H100x8", 90, TUTTI_VENDOR_INTEL, 18, 50}, {"H100x4", 90, TUTTI_VENDOR_INTEL, 18, 50},
    {"H100x2", 90, TUTTI_VENDOR_INTEL, 18, 50}, {"A100x8s", 80, TUTTI_VENDOR_AMD, 12, 25},
    {"A100x8", 80, TUTTI_VENDOR_AMD, 12, 25},   {"B200x8", 100, TUTTI_VENDOR_INTEL, 18, 50},
    {"L40x4", 89, TUTTI_VENDOR_AMD, 0, 12.5},   {"L40x8", 89, TUTTI_VENDOR_INTEL, 0, 12.5},
    {"L40x2", 89, TUTTI_VENDOR_AMD, 0, 0},      {"A100x2", 80, TUTTI_VENDOR_AMD, 12, 12.5},
    {"ONE90", 90, TUTTI_VENDOR_INTEL, 0, 1.25}, {"V100x8", 70, TUTTI_VENDOR_INTEL, 0, 12.5},
};

static uint8_t path_named(const char *name)
{
    for (int i = 0; i < TUTTI_PATH_COUNT; i++) {
        if (strcmp(name, tutti_nccl_path_name((enum tutti_nccl_path_type)i)) == 0)
            return (uint8_t)i;
    }
    TEST_FAIL("no path '%s'", name);
    return TUTTI_PATH_DIS;
}

/* "tree[TREE] 8x48/48 NVL/PIX same" */
static void read_graph(const char *text, struct tutti_nccl_comm *comm)
{
    struct tutti_nccl_graph graph = {.pattern = TUTTI_PATTERN_RING};
    char name[32], intra[8], inter[8];
    uint32_t id = TUTTI_GRAPH_RING;

    if (sscanf(text, "%31s %ux%lf/%lf %7[A-Z0-9]/%7[A-Z0-9]", name, &graph.channel_count,
               &graph.bw_intra_GBps, &graph.bw_inter_GBps, intra, inter) != 6) {
        TEST_FAIL("no graph: '%s'", text);
        return;
    }
    graph.type_intra = path_named(intra);
    graph.type_inter = path_named(inter);
    graph.same_channels = strstr(text, " same") != NULL;
    if (strncmp(name, "tree", 4) == 0) {
        id = TUTTI_GRAPH_TREE;
        graph.pattern =
            strcmp(name, "tree[TREE]") == 0 ? TUTTI_PATTERN_TREE : TUTTI_PATTERN_BALANCED_TREE;
    }
    if (strcmp(name, "nvls") == 0) {
        id = TUTTI_GRAPH_NVLS;
        graph.pattern = TUTTI_PATTERN_NVLS;
    }
    comm->graphs[id] = graph;
}

static void read_graphs(const struct nccl_vector *vector, struct tutti_nccl_comm *comm)
{
    char text[TEXT_BYTES];
    char *rest = NULL;

    snprintf(text, sizeof(text), "%s", vector->graphs);
    for (char *graph = strtok_r(text, ";", &rest); graph != NULL;
         graph = strtok_r(NULL, ";", &rest))
        read_graph(graph + strspn(graph, " "), comm);
}

static struct tutti_nccl_facts facts_of(const char *machine)
{
    struct tutti_nccl_facts facts = {.cpu_arch = TUTTI_ARCH_X86_64};

    for (size_t i = 0; i < sizeof(nccl_machines) / sizeof(nccl_machines[0]); i++) {
        if (strcmp(machine, nccl_machines[i].name) != 0)
            continue;
        facts.compute_min = facts.compute_max = nccl_machines[i].compute;
        facts.cpu_vendor = nccl_machines[i].vendor;
        facts.link_count = nccl_machines[i].link_count;
        facts.nvswitch = facts.nvlink_all = nccl_machines[i].link_count > 0;
        facts.nic_GBps = nccl_machines[i].nic_GBps;
    }
    CHECK(facts.compute_min > 0);
    return facts;
}

/* Of `facts`; the graphs of *comm are there. */
static int tune(const struct tutti_nccl_facts *facts, const char *version, const char *env_list,
                struct tutti_nccl_comm *comm, struct tutti_err *err)
{
    struct tutti_nccl_env *env = NULL;
    int status = tutti_nccl_version_find(version, &comm->version, err);

    if (status == 0)
        status = tutti_nccl_env_new(&env, err);
    if (status == 0 && env_list != NULL)
        status = tutti_nccl_env_add(env, env_list, err);
    if (status == 0)
        status = tutti_nccl_tune(comm, facts, env, err);
    tutti_nccl_env_free(env);
    return status;
}

/* `env_list` may be NULL. What it takes is given back by tutti_nccl_tables_free(comm->tables). */
static int make(const struct nccl_vector *vector, const char *version, const char *env_list,
                struct tutti_nccl_comm *comm, struct tutti_err *err)
{
    struct tutti_nccl_facts facts = facts_of(vector->machine);

    *comm = (struct tutti_nccl_comm){.rank_count = vector->ranks, .node_count = vector->nodes};
    read_graphs(vector, comm);
    return tune(&facts, version, env_list, comm, err);
}

static const struct nccl_vector *vector_of(const char *machine, unsigned nodes, const char *version)
{
    for (size_t i = 0; i < VECTOR_COUNT; i++) {
        if (strcmp(nccl_vectors[i].machine, machine) == 0 && nccl_vectors[i].nodes == nodes &&
            strstr(nccl_vectors[i].versions, version) != NULL)
            return &nccl_vectors[i];
    }
    return NULL;
}

static struct tutti_nccl_choice choice_of(const struct tutti_nccl_comm *comm,
                                          enum tutti_collective collective, uint64_t bytes)
{
    struct tutti_nccl_choice choice = {.time_us = 0};
    struct tutti_err err = {""};

    CHECK_OK(tutti_nccl_choose(comm, collective, TUTTI_FLOAT32, TUTTI_SUM, bytes, &choice, &err),
             err);
    return choice;
}

#endif
