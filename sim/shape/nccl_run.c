/* From NCCL's choice to its schedule; see nccl_run.h.
 *
 * A channel runs on the chain that the search found for it, rings from node to node, trees by the
 * pattern found. Which port of a host it takes is not told to the schedule: the machine's routes
 * say by which NIC a rank sends to another host. */
#include "sim/shape/nccl_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/coll.h"
#include "runtime/nccl_coll.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/nccl.h"
#include "sim/nccl/rccl.h"
#include "sim/nccl/tables.h"
#include "sim/predict.h"
#include "sim/protocol.h"
#include "sim/shape/memory.h"
#include "sim/shape/nccl_switch.h"

enum {
    STEPS = 8,           /* of a connection's buffer */
    PARTS_MAX = 8,       /* see parts_of(); more of them, */
    PARTS_ALL_MAX = 128, /* or of a channel's share, where filling the chain takes ever less of the
                             time, or smaller ones would only take longer to play */
    PART_BYTES_MIN = 512,
    HOPPER = 90, /* compute capability 9.0 */
};

static const uint64_t HOPPER_CHANNEL_BYTES_PER_S = 24000000000;

enum {
    P2P = TUTTI_NCCL_ALGORITHM_COUNT,
    FORM_COUNT,
    PAIRS_RANKS = 8, /* MSCCL's all-pairs, RCCL's default on one node of so many */
    PAIRS_ELEMENTS = 256,
    PAIRS_ONE_SHOT_BYTES_MAX = 25599,
    PAIRS_LL_BYTES_MAX = 524287,
    PAIRS_BYTES_MAX = 16777216,
};

/* What an algorithm of NCCL is called here, how NCCL_ALGO forces it, and what lays it out. */
static const struct form {
    struct tutti_algorithm algorithm;
    const char *forced;
    const char *generator; /* NULL: switches add up */
} forms[FORM_COUNT] = {
    [TUTTI_NCCL_TREE] = {{.name = "nccl:tree"}, "tree", "tree"},
    [TUTTI_NCCL_RING] = {{.name = "nccl:ring"}, "ring", "ring"},
    [TUTTI_NCCL_COLLNET_DIRECT] = {{.name = "nccl:collnetdirect"}, "collnetdirect", NULL},
    [TUTTI_NCCL_COLLNET_CHAIN] = {{.name = "nccl:collnetchain"}, "collnetchain", NULL},
    [TUTTI_NCCL_NVLS] = {{.name = "nccl:nvls"}, "nvls", NULL},
    [TUTTI_NCCL_NVLS_TREE] = {{.name = "nccl:nvlstree"}, "nvlstree", NULL},
    [TUTTI_NCCL_PAT] = {{.name = "nccl:pat"}, "pat", "pat"},
    [P2P] = {{.name = "nccl:p2p"}, NULL, "p2p"},
};

/* The same on AMD's GPUs, where RCCL runs; what it alone runs comes last. */
enum { RCCL_RING, RCCL_TREE, RCCL_P2P, RCCL_PAIRS, RCCL_ONE_SHOT, RCCL_COUNT };
static const struct form rccl_forms[RCCL_COUNT] = {
    [RCCL_RING] = {{.name = "rccl:ring"}, "ring", "ring"},
    [RCCL_TREE] = {{.name = "rccl:tree"}, "tree", "tree"},
    [RCCL_P2P] = {{.name = "rccl:p2p"}, NULL, "p2p"},
    [RCCL_PAIRS] = {{.name = "rccl:all-pairs"}, NULL, "two-shot"},
    [RCCL_ONE_SHOT] = {{.name = "rccl:all-pairs"}, NULL, "one-shot"},
};

bool tutti_is_nccl(const char *name)
{
    return strcmp(name, "nccl") == 0 || strncmp(name, "nccl:", 5) == 0 ||
           strncmp(name, "rccl:", 5) == 0;
}

const char *tutti_nccl_run_name(const char *name)
{
    for (size_t i = 0; i < FORM_COUNT; i++) {
        if (strcmp(forms[i].algorithm.name, name) == 0)
            return forms[i].algorithm.name;
    }
    for (size_t i = 0; i < RCCL_COUNT; i++) {
        if (strcmp(rccl_forms[i].algorithm.name, name) == 0)
            return rccl_forms[i].algorithm.name;
    }
    return "";
}

static bool is_p2p(enum tutti_collective collective)
{
    return collective == TUTTI_ALLTOALL || collective == TUTTI_SENDRECV;
}

static bool is_chain(enum tutti_collective collective)
{
    return collective == TUTTI_BROADCAST || collective == TUTTI_REDUCE_TO_ROOT;
}

/* A chain of two, where data lie in host memory or pass a NIC on their way. */
static bool is_one_way(const struct tutti_nccl_comm *comm, enum tutti_collective collective)
{
    return is_chain(collective) && comm->rank_count == 2 &&
           (comm->node_count > 1 || comm->by_host_memory);
}

/* Whether data go through a CPU to the memory of the next GPU, not by the CPU's own. */
static bool among_peers(const struct tutti_nccl_comm *comm)
{
    return comm->node_count == 1 && !comm->by_host_memory &&
           comm->graphs[TUTTI_GRAPH_RING].type_intra >= TUTTI_PATH_PHB;
}

static void set_costs(const struct tutti_nccl_comm *comm, enum tutti_collective collective,
                      struct tutti_nccl_run *run)
{
    if (is_p2p(collective))
        run->own_costs = tutti_protocol_of_messages;
    else if (is_one_way(comm, collective))
        run->own_costs = tutti_protocol_one_way;
    else if (among_peers(comm))
        run->own_costs = tutti_protocol_of_peers;
}

/* The form that a name forces; NULL: none. */
static int find_forced(const struct tutti_ask *ask, const struct form **ret, struct tutti_err *err)
{
    const char *words = is_p2p(ask->params.collective)
                            ? "nccl nccl:p2p"
                            : "nccl nccl:ring nccl:tree nccl:pat nccl:nvls nccl:nvlstree "
                              "nccl:collnetdirect nccl:collnetchain";
    char hint[TUTTI_HINT_BYTES];

    *ret = NULL;
    if (strcmp(ask->algorithm, "nccl") == 0)
        return 0;
    for (size_t i = 0; i < FORM_COUNT; i++) {
        if (strcmp(forms[i].algorithm.name, ask->algorithm) == 0 &&
            (i == P2P) == is_p2p(ask->params.collective)) {
            *ret = &forms[i];
            return 0;
        }
    }
    for (size_t i = 0; i < RCCL_COUNT; i++) {
        if (strcmp(rccl_forms[i].algorithm.name, ask->algorithm) == 0 &&
            (i == RCCL_P2P) == is_p2p(ask->params.collective)) {
            *ret = &rccl_forms[i];
            return 0;
        }
    }
    return tutti_fail(err, TUTTI_EINVAL, "no algorithm '%s' of NCCL for %s (%s%s)", ask->algorithm,
                      tutti_collective_name(ask->params.collective),
                      tutti_nearest_hint(ask->algorithm, words, hint), words);
}

/* How data are cut is NCCL's to say, by its variables. */
static int refuse_cuts(const struct tutti_coll_params *params, struct tutti_err *err)
{
    if (params->channel_count > 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%u' channels are not for NCCL, which counts them itself "
                          "(NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS)",
                          params->channel_count);
    if (params->chunk_bytes > 0 || params->slice_count > 1 ||
        (params->slot_count > 0 && params->slot_count != TUTTI_SLOTS_DEFAULT))
        return tutti_fail(err, TUTTI_EINVAL,
                          "chunks, slices and slots are not for NCCL, which has its own "
                          "(NCCL_BUFFSIZE, NCCL_LL_BUFFSIZE, NCCL_LL128_BUFFSIZE)");
    return 0;
}

/* The variables, with what the names of algorithm and protocol force. */
static int force(const struct tutti_ask *ask, const struct form *form, struct tutti_nccl_env *env,
                 struct tutti_err *err)
{
    const char *protocol = ask->protocol;
    int status = 0;

    *env = ask->env != NULL ? *ask->env : *tutti_nccl_env_none();
    if (form != NULL && form->forced != NULL)
        status = tutti_nccl_env_set(env, "NCCL_ALGO", form->forced, err);
    if (status == 0 && protocol != NULL && strcmp(protocol, "auto") != 0 &&
        strcmp(protocol, "none") != 0)
        status = tutti_nccl_env_set(env, "NCCL_PROTO", protocol, err);
    return status;
}

static void close_comm(const struct tutti_ask *ask, struct tutti_nccl_comm *comm)
{
    if (ask->memory == NULL)
        tutti_nccl_comm_free(comm);
}

/* The communicator of the machine's hosts, remembered or made. */
static int open_comm(const struct tutti_ask *ask, const struct tutti_nccl_env *env,
                     struct tutti_nccl_comm **ret, struct tutti_err *err)
{
    const struct tutti_topo *topo = ask->topo;
    struct tutti_nccl_comm_params params = {.hardware = topo->hardware,
                                            .host_count = tutti_topo_hardware_hosts(topo),
                                            .version = ask->as_nccl,
                                            .env = env};
    struct tutti_nccl_comm *comm = NULL;
    int status;

    if (topo->hardware == NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s' does not say what NCCL would see of its hosts (presets of GPUs and "
                          "NCCL's topology files do)",
                          topo->name);
    status = ask->memory != NULL ? tutti_memory_comm(ask->memory, &params, &comm, err)
                                 : tutti_nccl_comm_new(&params, &comm, err);
    if (status < 0)
        return status;
    if (comm->rank_count != topo->rank_count) {
        status = tutti_fail(err, TUTTI_EINVAL, "'%s' has %u ranks, and NCCL would see %u GPUs",
                            topo->name, topo->rank_count, comm->rank_count);
        close_comm(ask, comm);
        return status;
    }
    *ret = comm;
    return 0;
}

/* Messages: NCCL's channels for them, and parts as it cuts them. */
static void fill_messages(const struct tutti_nccl_comm *comm, struct tutti_nccl_params *params,
                          const struct tutti_nccl_choice *choice)
{
    const struct tutti_nccl_tables *tables = comm->tables;
    bool near = comm->node_count == 1;

    params->coll.channel_count = tables->p2p_channel_count;
    params->peer_channel_count = tables->p2p_peer_channel_count;
    params->part_bytes_min = tables->p2p_chunk_bytes / (near ? 8 : 2);
    params->part_bytes_max = tables->p2p_chunk_bytes * (near ? 32 : 1);
    params->coll.chunk_bytes = near ? choice->chunk_bytes : tables->p2p_chunk_bytes;
    params->net_chunk_bytes = choice->chunk_bytes;
}

/* Rings between hosts: NCCL lets channel c in and out by the same port, over NVLink where the last
 * GPU is not near it (PXN); the machine's routes let a rank out by its own. Where several channels
 * end at one GPU they would share its port, which in NCCL they do not. Then chains are the first
 * one, begun where each channel begins: as many channels a port as in NCCL. The caller frees. */
static int spread_ends(const struct tutti_nccl_graph *graph, uint32_t **ret, struct tutti_err *err)
{
    uint32_t length = graph->gpu_count, count = graph->channel_count;
    bool ends_alike = false;
    uint32_t *members;

    for (uint32_t c = 0; c < count; c++) {
        for (uint32_t d = 0; d < c; d++)
            ends_alike |=
                graph->gpus[c * length + length - 1] == graph->gpus[d * length + length - 1] &&
                graph->gpus[c * length] != graph->gpus[d * length];
    }
    if (!ends_alike)
        return 0;
    members = calloc((size_t)length * count, sizeof(*members));
    if (members == NULL)
        return tutti_nomem(err);
    for (uint32_t c = 0; c < count; c++) {
        uint32_t begin = 0;

        while (graph->gpus[begin] != graph->gpus[c * length])
            begin++;
        for (uint32_t k = 0; k < length; k++)
            members[c * length + k] = graph->gpus[(begin + k) % length];
    }
    *ret = members;
    return 0;
}

/* In LL and LL128 each line says itself that it has come, and goes on before the rest of its chunk
 * is there: up and down a tree, in whose chains nothing else waits, a chunk goes in so many parts.
 * (Between 8 ranks on one H200 a chunk of 32 KiB by LL takes 14 us up and down more than a line,
 * and would take 62 if it went whole: traces/measured/h200. A step of a ring also waits for the
 * whole one before it, of the same rank: there parts would gain little.) Between hosts a proxy
 * sends whole chunks; that they go in parts there, too, is too early by what a chunk takes on the
 * wire, some us for each host. 0 for what is no such tree; of RCCL's nothing is known. */
static uint32_t parts_of(const struct form *form, const struct tutti_nccl_choice *choice,
                         uint64_t element_bytes)
{
    uint64_t share, chunks, longest;
    uint32_t parts = 1;

    if (form != &forms[TUTTI_NCCL_TREE] || choice->protocol == TUTTI_NCCL_SIMPLE)
        return 0;
    share = choice->count_lo * element_bytes;
    chunks = share / choice->chunk_lo_bytes + (share % choice->chunk_lo_bytes > 0);
    longest = share < choice->chunk_lo_bytes ? share : choice->chunk_lo_bytes;
    while (2 * parts <= PARTS_MAX && 2 * parts * chunks <= PARTS_ALL_MAX &&
           longest / (2 * parts) >= PART_BYTES_MIN)
        parts *= 2;
    return parts;
}

static int lay_out(const struct tutti_ask *ask, const struct tutti_nccl_comm *comm,
                   const struct form *form, const struct tutti_nccl_choice *choice,
                   uint32_t part_count, uint32_t repeat_count, struct tutti_schedule **ret,
                   struct tutti_err *err)
{
    bool p2p = form == &forms[P2P] || form == &rccl_forms[RCCL_P2P];
    const struct tutti_nccl_graph *graph = tutti_nccl_graph_of(comm, choice->algorithm);
    struct tutti_chains chains = {.host_count = comm->node_count,
                                  .length = graph->gpu_count,
                                  .count = graph->channel_count,
                                  .members = graph->gpus,
                                  .swapped = choice->algorithm == TUTTI_NCCL_RING &&
                                             graph->cross_nic == 2 &&
                                             graph->channel_count % 2 == 0};
    struct tutti_nccl_params params = {.coll = ask->params,
                                       .count_lo = choice->count_lo,
                                       .count_mid = choice->count_mid,
                                       .count_hi = choice->count_hi,
                                       .chunk_lo_bytes = choice->chunk_lo_bytes,
                                       .chunk_hi_bytes = choice->chunk_hi_bytes,
                                       .pattern = graph->pattern,
                                       .repeat_count = repeat_count,
                                       .step_bytes =
                                           comm->tables->buffer_bytes[TUTTI_NCCL_SIMPLE] / STEPS};
    uint32_t *members = NULL;
    int status = 0;

    params.coll.channel_count = choice->channel_count;
    params.coll.chunk_bytes = choice->chunk_bytes;
    params.coll.slice_count = choice->slice_count;
    params.coll.slot_count = STEPS / choice->slice_count; /* two slices: of two steps each */
    if (part_count > 0) {
        params.coll.slice_count = part_count;
        params.coll.slot_count = STEPS * part_count;
    }
    if (p2p) {
        chains.length = comm->rank_count / comm->node_count;
        chains.count = 1;
        chains.members = NULL;
        chains.swapped = false;
        fill_messages(comm, &params, choice);
    }
    if (!p2p && choice->algorithm == TUTTI_NCCL_RING && comm->node_count > 1)
        status = spread_ends(graph, &members, err);
    if (members != NULL)
        chains.members = members;
    if (status == 0)
        status = tutti_nccl_generate(form->generator, &params, &chains, ret, err);
    free(members);
    return status;
}

static const char *protocol_name(uint8_t protocol)
{
    static const char *const names[TUTTI_NCCL_PROTOCOL_COUNT] = {
        [TUTTI_NCCL_LL] = "ll", [TUTTI_NCCL_LL128] = "ll128", [TUTTI_NCCL_SIMPLE] = "simple"};

    return names[protocol];
}

/* On one node of eight GPUs of the MI300's kind RCCL comes with MSCCL's schedules for all-reduce,
 * where nothing else is asked for: everybody with everybody, at once up to 25599 bytes, in LL up to
 * 524287, in Simple up to 16 MiB (tools/msccl-algorithms/allreduce-allpairs-8n-*.xml: minBytes,
 * maxBytes), of elements that can be cut in as many chunks as the schedule has
 * (mscclInternalSchedulerSelectAlgo), which is 256 of most. That for the least needs 16 alone; runs
 * of MI300X and MI350X step down at 1 KiB of floats all the same. */
static bool runs_pairs(const struct tutti_ask *ask, const struct tutti_nccl_comm *comm,
                       uint64_t bytes)
{
    return comm->node_count == 1 && comm->rank_count == PAIRS_RANKS &&
           comm->tables->facts.compute_min >= 940 && ask->params.collective == TUTTI_ALLREDUCE &&
           bytes <= PAIRS_BYTES_MAX && ask->params.count % PAIRS_ELEMENTS == 0 &&
           comm->tables->env.msccl_enable != 0 && tutti_rccl_is_free(comm);
}

/* RCCL's name for what was chosen; NULL: it is not RCCL. */
static const struct form *rccl_form(const struct tutti_ask *ask, const struct tutti_nccl_comm *comm,
                                    enum tutti_collective runs, struct tutti_nccl_choice *choice,
                                    uint64_t bytes)
{
    if (comm->tables->rccl == NULL)
        return NULL;
    if (is_p2p(runs))
        return &rccl_forms[RCCL_P2P];
    if (runs_pairs(ask, comm, bytes)) {
        choice->protocol = bytes <= PAIRS_LL_BYTES_MAX ? TUTTI_NCCL_LL : TUTTI_NCCL_SIMPLE;
        return &rccl_forms[bytes <= PAIRS_ONE_SHOT_BYTES_MAX ? RCCL_ONE_SHOT : RCCL_PAIRS];
    }
    return &rccl_forms[choice->algorithm == TUTTI_NCCL_TREE ? RCCL_TREE : RCCL_RING];
}

/* What a rank keeps of an all-to-all it copies in its own memory, which reads and writes each byte.
 * The threads that do are those of the messages, which get on the less meanwhile, so that it adds
 * to their time: A100s of one host get on with 2, 3, 4, 6 and 8 ranks as if all that is sent went
 * at one rate, and what is kept at 0.8 TB/s, of 2.0 of their memory. 0: its rate is not known. */
static tutti_ps own_copy_ps(const struct tutti_ask *ask)
{
    const struct tutti_coll_params *params = &ask->params;
    uint64_t bytes = params->count * tutti_dtype_bytes(params->dtype);
    uint64_t slowest = UINT64_MAX;

    if (params->collective != TUTTI_ALLTOALL)
        return 0;
    for (uint32_t rank = 0; rank < ask->topo->rank_count; rank++) {
        uint32_t v = tutti_topo_rank_node(ask->topo, rank);
        uint64_t rate = tutti_topo_node(ask->topo, v).mem_bytes_per_s;

        slowest = rate > 0 && rate < slowest ? rate : slowest;
    }
    return slowest < UINT64_MAX ? tutti_wire_ps(2 * bytes, slowest) : 0;
}

/* What a channel moves by Simple, where links do not bind before: Hopper's what it moved between
 * ranks that shared one H200 (traces/measured/h200); of a tree, each way, NCCL's own limit at most
 * (tuning.cc, perChMaxTreeBws), which is of the bus: twice what goes up, and comes down as well. By
 * that NCCL reckons with all protocols; of the others' lanes more is known. 0: nothing is known, as
 * of RCCL, or other things are, as of messages. */
static uint64_t channel_bytes_per_s(const struct tutti_nccl_comm *comm, const struct form *form,
                                    const struct tutti_nccl_choice *choice)
{
    uint32_t scale = comm->node_count <= 2 ? comm->node_count - 1 : TUTTI_NCCL_MANY_NODES;
    uint32_t compute = comm->tables->facts.compute_min;
    uint32_t gpu = tutti_nccl_gpu_class(compute, &comm->version->changes);

    if (form == &forms[P2P] || choice->protocol != TUTTI_NCCL_SIMPLE || comm->tables->rccl != NULL)
        return 0;
    if (form == &forms[TUTTI_NCCL_TREE])
        return (uint64_t)(comm->version->constants->tree_GBps[gpu][scale] / 2 * 1e9);
    return compute == HOPPER ? HOPPER_CHANNEL_BYTES_PER_S : 0;
}

/* How many messages a proxy moves while each of its connections carries one. NCCL gives a rank one
 * thread (proxy.cc, ncclProxyProgress) for what all its channels send to other hosts and receive:
 * those of all channels that come into the host, and leave it, by the same GPU. Of a ring, or of
 * PAT, it sends one and receives one; of a tree of n hosts n - 1 pairs exchange one each way, which
 * is 2 (n - 1) / n for each host. Rings of 16 MI355X on two hosts (traces/measured/, in Simple and
 * in LL128) take the longer the more channels run, whatever the bytes. */
static void set_proxy(const struct tutti_nccl_comm *comm, const struct tutti_nccl_choice *choice,
                      struct tutti_nccl_run *run)
{
    const struct tutti_nccl_graph *graph = tutti_nccl_graph_of(comm, choice->algorithm);
    bool tree = choice->algorithm == TUTTI_NCCL_TREE;
    uint32_t most = 0;

    if (comm->node_count < 2)
        return;
    for (uint32_t c = 0; c < graph->channel_count; c++) {
        uint32_t count = 0;

        for (uint32_t d = 0; d < choice->channel_count; d++)
            count += graph->gpus[d % graph->channel_count * graph->gpu_count] ==
                     graph->gpus[c * graph->gpu_count];
        most = count > most ? count : most;
    }
    run->proxy_num = tree ? most * 2 * (comm->node_count - 1) : most;
    run->proxy_den = tree ? comm->node_count : 1;
}

static int choose(const struct tutti_ask *ask, const struct tutti_nccl_comm *comm,
                  uint32_t repeat_count, struct tutti_nccl_run *ret, struct tutti_err *err)
{
    const struct tutti_coll_params *params = &ask->params;
    struct tutti_nccl_choice choice;
    const struct form *form;
    uint64_t bytes =
        tutti_collective_bytes(params->collective, params->count, params->dtype, comm->rank_count);
    bool directly =
        params->collective == TUTTI_ALLGATHER && tutti_rccl_gathers_directly(comm, bytes);
    enum tutti_collective runs = directly ? TUTTI_ALLTOALL : params->collective; /* as if it were */
    int status = tutti_nccl_choose(comm, runs, params->dtype, params->op, bytes, &choice, err);

    if (status < 0)
        return status;
    form = rccl_form(ask, comm, runs, &choice, bytes);
    if (form == NULL)
        form = &forms[is_p2p(runs) ? P2P : choice.algorithm];
    *ret = (struct tutti_nccl_run){.algorithm = &form->algorithm,
                                   .protocol = protocol_name(choice.protocol),
                                   .chain = is_chain(params->collective),
                                   .channel_bytes_per_s = channel_bytes_per_s(comm, form, &choice),
                                   .copy_ps = own_copy_ps(ask),
                                   .channel_count = choice.channel_count,
                                   .early = comm->tables->rccl == NULL &&
                                            tutti_nccl_version_is_early(comm->version)};
    set_costs(comm, runs, ret);
    if (form->generator == NULL)
        return tutti_nccl_switch_plan(ask->topo, comm, &choice, params->collective, bytes,
                                      &ret->in_network, err);
    if (form == &rccl_forms[RCCL_PAIRS] || form == &rccl_forms[RCCL_ONE_SHOT])
        return tutti_coll_generate(form->generator, params, &ask->topo->shape, &ret->schedule, err);
    if (!is_p2p(runs))
        set_proxy(comm, &choice, ret);
    ret->part_count = parts_of(form, &choice, tutti_dtype_bytes(params->dtype));
    status = lay_out(ask, comm, form, &choice, ret->part_count, repeat_count, &ret->schedule, err);
    if (status == 0 && is_p2p(runs)) /* small messages leave most channels empty */
        ret->channel_count = tutti_nccl_p2p_channels(ret->schedule);
    return status;
}

static int run_new(const struct tutti_ask *ask, uint32_t repeat_count, struct tutti_nccl_run *ret,
                   struct tutti_err *err)
{
    const struct form *form = NULL;
    struct tutti_nccl_comm *comm = NULL;
    struct tutti_nccl_run run;
    struct tutti_nccl_env env;
    int status = find_forced(ask, &form, err);

    if (status == 0)
        status = refuse_cuts(&ask->params, err);
    if (status == 0)
        status = force(ask, form, &env, err);
    if (status == 0)
        status = open_comm(ask, &env, &comm, err);
    if (status < 0)
        return status;
    status = choose(ask, comm, repeat_count, &run, err);
    close_comm(ask, comm);
    if (status == 0)
        *ret = run;
    return status;
}

int tutti_nccl_run_new(const struct tutti_ask *ask, struct tutti_nccl_run *ret,
                       struct tutti_err *err)
{
    return run_new(ask, 1, ret, err);
}

bool tutti_nccl_run_costs(const struct tutti_nccl_run *run, const struct tutti_protocol *protocol,
                          struct tutti_protocol *ret)
{
    tutti_ps channel_ps = run->early ? protocol->early_channel_ps : protocol->channel_ps;

    if (run->own_costs == NULL && run->channel_bytes_per_s == 0 && run->part_count == 0 &&
        channel_ps == 0 && run->proxy_num == run->proxy_den)
        return false;
    *ret = run->own_costs != NULL ? run->own_costs(protocol) : *protocol;
    if (run->channel_bytes_per_s > 0)
        *ret = tutti_protocol_of_channels(ret, run->channel_bytes_per_s);
    if (run->part_count > 0)
        *ret = tutti_protocol_of_lines(ret, run->part_count);
    ret->launch_ps += (tutti_ps)run->channel_count * channel_ps;
    if (run->proxy_den > 0)
        ret->slice_ps[TUTTI_HOP_NET] = (tutti_ps)tutti_muldiv(
            (uint64_t)ret->slice_ps[TUTTI_HOP_NET], run->proxy_num, run->proxy_den);
    return true;
}

int tutti_nccl_run_twice(const struct tutti_ask *ask, struct tutti_nccl_run *ret,
                         struct tutti_err *err)
{
    return run_new(ask, 2, ret, err);
}
