/* What the tests of closed forms share: machines of equal links, the cost of a message on them, and
 * the question what the simulator says. Nothing here knows how the simulator counts: a message of
 * B bytes takes the latencies of its links and its protocol, and ceil(wire bytes * 10^12 / rate)
 * picoseconds behind what its first link still has to send (Hockney 1994; the gap of LogGP). */
#ifndef TUTTI_TESTS_SIM_CLOSED_FORM_H
#define TUTTI_TESTS_SIM_CLOSED_FORM_H

#include "runtime/backend.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/sim.h"
#include "tests/runtime/coll_cases.h"
#include "topo/topo.h"

enum { ELEMENT_BYTES = 4, GIANT_CHUNK = 1 << 30 };

/* ---- the cost of a message ------------------------------------------------------------------- */

struct cost {
    tutti_ps latency_ps; /* of the links */
    uint64_t bytes_per_s;
    const struct tutti_protocol *protocol; /* NULL: none */
    int hop;                               /* what the protocol takes the links for */
};

static inline tutti_ps launch(const struct cost *cost)
{
    return cost->protocol == NULL ? 0 : cost->protocol->launch_ps;
}

static inline tutti_ps alpha(const struct cost *cost)
{
    return cost->latency_ps + (cost->protocol == NULL ? 0 : cost->protocol->message_ps[cost->hop]);
}

/* Of so many elements. */
static inline tutti_ps beta(const struct cost *cost, uint64_t elements)
{
    uint64_t bytes = elements * ELEMENT_BYTES;

    if (cost->protocol != NULL)
        bytes = tutti_muldiv_up(bytes, cost->protocol->wire_num, cost->protocol->wire_den);
    return (tutti_ps)tutti_muldiv_up(bytes, TUTTI_PS_PER_S, cost->bytes_per_s);
}

static inline uint64_t up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* Elements of part i of k. */
static inline uint64_t part(uint64_t total, uint64_t i, uint64_t k)
{
    return total * (i + 1) / k - total * i / k;
}

static inline tutti_ps later(tutti_ps a, tutti_ps b)
{
    return a > b ? a : b;
}

static inline bool power_of_two(uint32_t n)
{
    return (n & (n - 1)) == 0;
}

static inline uint32_t log_up(uint32_t n)
{
    uint32_t log = 0;

    while ((UINT64_C(1) << log) < n)
        log++;
    return log;
}

/* ---- machines -------------------------------------------------------------------------------- */

static inline struct tutti_topo_builder *machine_begin(uint32_t rank_count, uint32_t switch_count)
{
    struct tutti_topo_builder *builder = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_builder_new("machine", "a test", &builder, &err), err);
    for (uint32_t i = 0; i < rank_count + switch_count; i++) {
        bool is_rank = i < rank_count;
        struct tutti_node node = {.name = is_rank ? "gpu" : "switch",
                                  .rank = is_rank ? i : TUTTI_RANK_NONE,
                                  .host = UINT32_MAX,
                                  .kind = is_rank ? TUTTI_NODE_DEVICE : TUTTI_NODE_SWITCH};
        char name[32];
        uint32_t index;

        snprintf(name, sizeof(name), "%s%u", is_rank ? "gpu" : "switch", i);
        node.name = name;
        CHECK_OK(tutti_topo_add_node(builder, &node, &index, &err), err);
    }
    return builder;
}

static inline void machine_cable(struct tutti_topo_builder *builder, uint32_t from, uint32_t to,
                                 const struct cost *cost, tutti_ps latency_ps)
{
    struct tutti_link link = {.from = from,
                              .to = to,
                              .bytes_per_s = cost->bytes_per_s,
                              .latency_ps = latency_ps,
                              .kind =
                                  cost->hop == TUTTI_HOP_NET ? TUTTI_LINK_NET : TUTTI_LINK_NVLINK,
                              .cable_count = 1};
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_add_cable(builder, &link, &err), err);
}

static inline struct tutti_topo *machine_end(struct tutti_topo_builder *builder)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_freeze(builder, &topo, &err), err);
    return topo;
}

/* All n ranks on one switch: a rank's messages queue at its one link, whoever they are for. */
static inline struct tutti_topo *machine_switch(uint32_t n, const struct cost *cost)
{
    struct tutti_topo_builder *builder = machine_begin(n, 1);

    for (uint32_t i = 0; i < n; i++)
        machine_cable(builder, i, n, cost, cost->latency_ps / 2);
    return machine_end(builder);
}

/* A cable between any two ranks: messages to different ranks do not meet. */
static inline struct tutti_topo *machine_mesh(uint32_t n, const struct cost *cost)
{
    struct tutti_topo_builder *builder = machine_begin(n, 0);

    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            machine_cable(builder, j, i, cost, cost->latency_ps);
    return machine_end(builder);
}

/* ---- the simulator's answer ------------------------------------------------------------------ */

static inline tutti_ps simulate(const struct tutti_topo *topo, const char *algorithm,
                                const struct tutti_coll_params *params,
                                const struct tutti_shape *shape,
                                const struct tutti_protocol *protocol)
{
    struct tutti_sim_opts opts = {.size = sizeof(struct tutti_sim_opts),
                                  .topo = topo,
                                  .model = TUTTI_MODEL_ALPHABETA,
                                  .protocol = protocol};
    struct tutti_schedule *schedule = NULL;
    struct tutti_backend *sim = NULL;
    struct tutti_played played = {.total_ps = -1};
    struct tutti_err err = {""};
    int status = tutti_coll_generate(algorithm, params, shape, &schedule, &err);

    if (status == 0)
        status = tutti_sim_open(&opts, &sim, &err);
    if (status == 0)
        status = tutti_backend_play(sim,
                                    &(struct tutti_play){.size = sizeof(struct tutti_play),
                                                         .schedule = schedule,
                                                         .iteration_count = 1},
                                    &played, &err);
    CHECK_OK(status, err);
    tutti_backend_close(sim);
    tutti_schedule_free(schedule);
    return played.total_ps;
}

/* The simulator must say `expected`, to the picosecond. */
static inline void expect(const struct tutti_topo *topo, const char *algorithm,
                          const struct tutti_coll_params *params, const struct tutti_shape *shape,
                          const struct cost *cost, tutti_ps expected)
{
    tutti_ps seen;
    char what[256];

    if (!test_takes())
        return;
    seen = simulate(topo, algorithm, params, shape, cost->protocol);
    if (seen != expected)
        TEST_FAIL("%s, %s, latency %" PRId64 " ps, %" PRIu64 " B/s: %" PRId64
                  " ps, the form says %" PRId64 " (%+" PRId64 ")",
                  case_text(algorithm, params, shape, what, sizeof(what)),
                  cost->protocol == NULL ? "no protocol" : cost->protocol->name, cost->latency_ps,
                  cost->bytes_per_s, seen, expected, seen - expected);
}

/* ---- many questions -------------------------------------------------------------------------- */

enum { COST_COUNT = 8, FORM_SIZES = 6 };

/* Cost number i: two kinds of links, one where latency and one where bytes matter (and whose rate
 * divides nothing), by every protocol. */
static inline struct cost cost_number(unsigned i, int hop)
{
    static const char *const names[] = {"none", "ll", "ll128", "simple"};
    struct cost cost = {.latency_ps = 1234566, .bytes_per_s = 50000000000, .hop = hop};
    struct tutti_err err = {""};

    if (i / 4 % 2 == 1)
        cost = (struct cost){.latency_ps = 70002, .bytes_per_s = 7777777777, .hop = hop};
    CHECK_OK(tutti_protocol_find(names[i % 4], &cost.protocol, &err), err);
    return cost;
}

/* Size number i for n ranks: nothing, an element, one short of one each, and large ones. */
static inline uint64_t size_number(unsigned i, uint32_t n)
{
    const uint64_t sizes[FORM_SIZES] = {0, 1, n - UINT64_C(1), 1000, 262144, 1000003};

    return sizes[i];
}

#endif
