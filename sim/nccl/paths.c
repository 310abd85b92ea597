/* NCCL's paths: breadth first from every end, then re-routed where rules say so. */
#include "sim/nccl/paths.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "sim/nccl/locals.h"

enum { HOPS_MAX = UINT16_MAX };

/* How a node gets to the base of a breadth-first search. */
struct reach {
    int64_t kbyte_per_s; /* 0: not at all, so far */
    uint32_t hop_count;
    uint32_t link; /* of the node's own, the first hop */
    uint8_t type;
};

struct finder {
    struct tutti_nccl_system *system;
    const struct tutti_nccl_rules *rules;
    struct tutti_arena *arena;
    struct reach *reach;  /* [node] */
    uint32_t *front;      /* nodes just reached, and */
    uint32_t *next_front; /* one hop farther */
    uint32_t next_count;
    uint32_t *scratch;
};

/* ---- breadth first ------------------------------------------------------------------------- */

/* A GPU passes on only what comes by NVLink from a neighbour, to a GPU, once (NVB). */
static bool passes_on(const struct finder *f, uint32_t base, uint32_t node,
                      const struct tutti_nccl_link *link)
{
    const struct tutti_nccl_system *s = f->system;

    return node == base || s->nodes[node].kind != TUTTI_NCCL_GPU ||
           (f->rules->nvb && link->type == TUTTI_PATH_NVL &&
            s->nodes[link->to].kind == TUTTI_NCCL_GPU && f->reach[node].hop_count <= 1);
}

/* The type of the way from the far end of a link through `node` to the base. */
static uint8_t type_over(const struct finder *f, uint32_t node, const struct tutti_nccl_link *link,
                         uint32_t hop_count)
{
    uint8_t here = f->system->nodes[node].kind;
    uint8_t there = f->system->nodes[link->to].kind;
    uint8_t before = f->reach[node].type;
    uint8_t type = link->type == TUTTI_PATH_NET ? TUTTI_PATH_LOC : link->type;

    if (here == TUTTI_NCCL_PCI && there == TUTTI_NCCL_PCI)
        type = TUTTI_PATH_PXB;
    if (link->type == TUTTI_PATH_PIX && (here == TUTTI_NCCL_CPU || there == TUTTI_NCCL_CPU))
        type = TUTTI_PATH_PHB;
    if (here == TUTTI_NCCL_GPU && before == TUTTI_PATH_NVL && type == TUTTI_PATH_NVL &&
        hop_count > 1)
        type = TUTTI_PATH_NVB;
    return before > type ? before : type;
}

static void look_from(struct finder *f, uint32_t base, uint32_t node)
{
    const struct tutti_nccl_system *s = f->system;

    for (uint32_t l = 0; l < s->nodes[node].link_count; l++) {
        const struct tutti_nccl_link *link = &s->nodes[node].links[l];
        const struct reach *from = &f->reach[node];
        struct reach *to = &f->reach[link->to];
        int64_t rate =
            from->kbyte_per_s < link->kbyte_per_s ? from->kbyte_per_s : link->kbyte_per_s;
        uint32_t i = 0;

        if (!passes_on(f, base, node, link) || to->kbyte_per_s >= rate ||
            (to->kbyte_per_s != 0 && to->hop_count <= from->hop_count))
            continue;
        *to = (struct reach){.kbyte_per_s = rate,
                             .hop_count = from->hop_count + 1,
                             .link = link->back,
                             .type = type_over(f, node, link, from->hop_count + 1)};
        while (i < f->next_count && f->next_front[i] != link->to)
            i++;
        if (i == f->next_count)
            f->next_front[f->next_count++] = link->to;
    }
}

static void search_from(struct finder *f, uint32_t base)
{
    uint32_t count = 1;

    for (uint32_t n = 0; n < f->system->node_count; n++)
        f->reach[n] = (struct reach){.type = TUTTI_PATH_DIS};
    f->reach[base] =
        (struct reach){.kbyte_per_s = TUTTI_NCCL_LOCAL_KBYTE_PER_S, .type = TUTTI_PATH_LOC};
    f->front[0] = base;
    while (count > 0) {
        uint32_t *old = f->front;

        f->next_count = 0;
        for (uint32_t i = 0; i < count; i++)
            look_from(f, base, f->front[i]);
        count = f->next_count;
        f->front = f->next_front;
        f->next_front = old;
    }
}

/* Writes down the way from a node to the base. */
static int keep_path(struct finder *f, uint32_t node, struct tutti_nccl_path *ret)
{
    const struct reach *reach = &f->reach[node];

    *ret = (struct tutti_nccl_path){.type = reach->type,
                                    .hop_count = (uint16_t)reach->hop_count,
                                    .kbyte_per_s = reach->kbyte_per_s};
    assert(reach->hop_count <= HOPS_MAX);
    ret->hops = tutti_arena_take(f->arena, reach->hop_count, sizeof(*ret->hops));
    if (ret->hops == NULL)
        return -TUTTI_ENOMEM;
    for (uint32_t h = 0; h < ret->hop_count; h++) {
        ret->hops[h] = &f->system->nodes[node].links[f->reach[node].link];
        node = ret->hops[h]->to;
    }
    return 0;
}

static int find_all(struct finder *f)
{
    struct tutti_nccl_system *s = f->system;

    for (int to = 0; to < TUTTI_NCCL_END_KINDS; to++) {
        for (uint32_t b = 0; b < s->counts[to]; b++) {
            search_from(f, s->of[to][b]);
            for (int from = 0; from < TUTTI_NCCL_END_KINDS; from++)
                for (uint32_t e = 0; e < s->counts[from]; e++)
                    if (keep_path(f, s->of[from][e],
                                  tutti_nccl_path(s, (enum tutti_nccl_kind)from, e,
                                                  (enum tutti_nccl_kind)to, b)) < 0)
                        return -TUTTI_ENOMEM;
        }
    }
    return 0;
}

/* ---- what rules change --------------------------------------------------------------------- */

/* The NUMA node nearest to a GPU; UINT32_MAX: none. */
static uint32_t local_cpu(const struct tutti_nccl_system *s, uint32_t gpu)
{
    uint32_t best = UINT32_MAX;
    uint32_t hop_count = 0;

    for (uint32_t c = 0; c < s->counts[TUTTI_NCCL_CPU]; c++) {
        uint32_t hops = tutti_nccl_path(s, TUTTI_NCCL_GPU, gpu, TUTTI_NCCL_CPU, c)->hop_count;

        if (hops > 0 && (hop_count == 0 || hops < hop_count)) {
            best = c;
            hop_count = hops;
        }
    }
    return best;
}

static uint8_t merged(uint8_t a, uint8_t b)
{
    uint8_t far = a > b ? a : b;
    uint8_t near = a > b ? b : a;

    return far == TUTTI_PATH_PHB && near == TUTTI_PATH_C2C ? TUTTI_PATH_P2C : far;
}

/* Makes `way` go by `first` and then by `second`. */
static int divert(struct finder *f, struct tutti_nccl_path *path,
                  const struct tutti_nccl_path *first, const struct tutti_nccl_path *second)
{
    struct tutti_nccl_path made = {.type = merged(first->type, second->type)};
    uint32_t hop_count = (uint32_t)first->hop_count + second->hop_count;

    assert(hop_count <= HOPS_MAX);
    made.hop_count = (uint16_t)hop_count;
    made.kbyte_per_s =
        first->kbyte_per_s < second->kbyte_per_s ? first->kbyte_per_s : second->kbyte_per_s;
    made.hops = tutti_arena_take(f->arena, hop_count, sizeof(*made.hops));
    if (made.hops == NULL)
        return -TUTTI_ENOMEM;
    memcpy(made.hops, first->hops, first->hop_count * sizeof(*made.hops));
    memcpy(made.hops + first->hop_count, second->hops, second->hop_count * sizeof(*made.hops));
    *path = made;
    return 0;
}

static int divert_by_cpu(struct finder *f, enum tutti_nccl_kind from_kind, uint32_t from,
                         enum tutti_nccl_kind to_kind, uint32_t to, uint32_t cpu)
{
    const struct tutti_nccl_system *s = f->system;

    return divert(f, tutti_nccl_path(s, from_kind, from, to_kind, to),
                  tutti_nccl_path(s, from_kind, from, TUTTI_NCCL_CPU, cpu),
                  tutti_nccl_path(s, TUTTI_NCCL_CPU, cpu, to_kind, to));
}

static bool may_reach(const struct tutti_nccl_system *s, const struct tutti_nccl_rules *rules,
                      uint32_t from, uint32_t to)
{
    const struct tutti_hw_cpu *cpu = &s->hardware->cpus[0];
    int level = TUTTI_PATH_PXB;

    /* A pair of GPUs on AMD: always (ncclTopoCheckP2p). */
    if (cpu->arch == TUTTI_ARCH_X86_64 && cpu->vendor == TUTTI_VENDOR_AMD &&
        s->counts[TUTTI_NCCL_GPU] <= 2)
        level = TUTTI_PATH_SYS;
    if (rules->p2p_level >= 0)
        level = rules->p2p_level;
    if (level > TUTTI_PATH_NVB &&
        (tutti_nccl_gpu(s, from)->no_peers || tutti_nccl_gpu(s, to)->no_peers))
        level = TUTTI_PATH_NVB; /* NVLink is another matter */
    return tutti_nccl_path(s, TUTTI_NCCL_GPU, from, TUTTI_NCCL_GPU, to)->type <= level;
}

/* The fastest port that a GPU has within PXB. */
static int64_t near_net_rate(const struct tutti_nccl_system *s, uint32_t gpu)
{
    int64_t rate = 0;

    for (uint32_t n = 0; n < s->counts[TUTTI_NCCL_NET]; n++) {
        const struct tutti_nccl_path *path =
            tutti_nccl_path(s, TUTTI_NCCL_GPU, gpu, TUTTI_NCCL_NET, n);

        if (path->type <= TUTTI_PATH_PXB && path->kbyte_per_s > rate)
            rate = path->kbyte_per_s;
    }
    return rate;
}

/* Whether GPUs talk by the network though they are of one node (ncclTopoCheckNet, p2pCanConnect,
 * shmCanConnect): it is faster, or there is neither peer access nor shared memory. */
static bool talks_by_net(const struct finder *f, uint32_t from, uint32_t to)
{
    const struct tutti_nccl_system *s = f->system;
    const struct tutti_nccl_path *path =
        tutti_nccl_path(s, TUTTI_NCCL_GPU, from, TUTTI_NCCL_GPU, to);
    bool net_is_faster =
        near_net_rate(s, from) > path->kbyte_per_s && near_net_rate(s, to) > path->kbyte_per_s;
    const struct tutti_nccl_node *a = tutti_nccl_node(s, TUTTI_NCCL_GPU, from);
    const struct tutti_nccl_node *b = tutti_nccl_node(s, TUTTI_NCCL_GPU, to);
    /* By way of another GPU (NVB) the network is not asked for. */
    bool relayed = path->hop_count == 2 && s->nodes[path->hops[0]->to].kind == TUTTI_NCCL_GPU;

    if (may_reach(s, f->rules, from, to) && (relayed || !net_is_faster))
        return false;
    return net_is_faster || !f->rules->shm || a->host != b->host;
}

static int reroute_gpus(struct finder *f)
{
    const struct tutti_nccl_system *s = f->system;

    for (uint32_t to = 0; to < s->counts[TUTTI_NCCL_GPU]; to++) {
        uint32_t cpu = local_cpu(s, to);

        for (uint32_t from = 0; from < s->counts[TUTTI_NCCL_GPU]; from++)
            if (!may_reach(s, f->rules, from, to) && cpu != UINT32_MAX &&
                divert_by_cpu(f, TUTTI_NCCL_GPU, from, TUTTI_NCCL_GPU, to, cpu) < 0)
                return -TUTTI_ENOMEM;
        for (uint32_t from = 0; from < s->counts[TUTTI_NCCL_GPU]; from++)
            if (from != to && talks_by_net(f, from, to))
                tutti_nccl_path(s, TUTTI_NCCL_GPU, from, TUTTI_NCCL_GPU, to)->type = TUTTI_PATH_NET;
    }
    return 0;
}

/* A port that hangs off the CPU which a GPU reaches by C2C is nearer than PHB. */
static void name_p2c(const struct tutti_nccl_system *s)
{
    for (uint32_t n = 0; n < s->counts[TUTTI_NCCL_NET]; n++) {
        for (uint32_t g = 0; g < s->counts[TUTTI_NCCL_GPU]; g++) {
            struct tutti_nccl_path *out = tutti_nccl_path(s, TUTTI_NCCL_GPU, g, TUTTI_NCCL_NET, n);
            struct tutti_nccl_path *in = tutti_nccl_path(s, TUTTI_NCCL_NET, n, TUTTI_NCCL_GPU, g);
            uint32_t cpu = local_cpu(s, g);

            if (cpu == UINT32_MAX ||
                merged(tutti_nccl_path(s, TUTTI_NCCL_GPU, g, TUTTI_NCCL_CPU, cpu)->type,
                       tutti_nccl_path(s, TUTTI_NCCL_NET, n, TUTTI_NCCL_CPU, cpu)->type) !=
                    TUTTI_PATH_P2C)
                continue;
            if (out->type > TUTTI_PATH_P2C)
                out->type = TUTTI_PATH_P2C;
            if (in->type > TUTTI_PATH_P2C)
                in->type = TUTTI_PATH_P2C;
        }
    }
}

/* Sends by way of the port's own GPU (PXN), where NVLink leads there and it is better placed. */
static int relay(struct finder *f, uint32_t gpu, uint32_t net)
{
    const struct tutti_nccl_system *s = f->system;
    int32_t by = tutti_nccl_local_gpu(s, f->rules, net, f->scratch);
    struct tutti_nccl_path *path = tutti_nccl_path(s, TUTTI_NCCL_GPU, gpu, TUTTI_NCCL_NET, net);
    const struct tutti_nccl_path *second;
    int status;

    if (by < 0 || (uint32_t)by == gpu)
        return 0;
    second = tutti_nccl_path(s, TUTTI_NCCL_GPU, (uint32_t)by, TUTTI_NCCL_NET, net);
    if (second->type > (f->rules->pxn_c2c ? TUTTI_PATH_P2C : TUTTI_PATH_PXB) ||
        tutti_nccl_path(s, TUTTI_NCCL_GPU, (uint32_t)by, TUTTI_NCCL_GPU, gpu)->type >
            TUTTI_PATH_NVL ||
        tutti_nccl_node(s, TUTTI_NCCL_GPU, (uint32_t)by)->host !=
            tutti_nccl_node(s, TUTTI_NCCL_GPU, gpu)->host ||
        (second->kbyte_per_s <= path->kbyte_per_s && path->type <= TUTTI_PATH_PXN))
        return 0;
    status = divert(f, path, tutti_nccl_path(s, TUTTI_NCCL_GPU, gpu, TUTTI_NCCL_GPU, (uint32_t)by),
                    second);
    if (status == 0)
        path->type = TUTTI_PATH_PXN;
    return status;
}

/* The GPU that a way by PXN goes through: the first, NVSwitches aside. */
static uint32_t relay_of(const struct tutti_nccl_system *s, const struct tutti_nccl_path *path)
{
    uint32_t h = 0;

    while (h + 1 < path->hop_count && s->nodes[path->hops[h]->to].kind != TUTTI_NCCL_GPU)
        h++;
    return s->nodes[path->hops[h]->to].place;
}

static bool has_gpudirect(const struct finder *f, uint32_t gpu, uint32_t net)
{
    const struct tutti_nccl_system *s = f->system;
    const struct tutti_nccl_path *path =
        tutti_nccl_path(s, TUTTI_NCCL_GPU, gpu, TUTTI_NCCL_NET, net);
    int level = f->rules->gdr_level >= 0 ? f->rules->gdr_level : TUTTI_PATH_PXB;
    uint8_t distance = path->type;

    if (!tutti_nccl_net(s, net)->gdr || !tutti_nccl_gpu(s, gpu)->gdr)
        return false;
    if (distance == TUTTI_PATH_PXN)
        distance = tutti_nccl_path(s, TUTTI_NCCL_GPU, relay_of(s, path), TUTTI_NCCL_NET, net)->type;
    if (f->rules->gdr_c2c && distance == TUTTI_PATH_P2C)
        distance = TUTTI_PATH_C2C;
    return distance <= level;
}

static int reroute_nets(struct finder *f)
{
    const struct tutti_nccl_system *s = f->system;

    for (uint32_t n = 0; n < s->counts[TUTTI_NCCL_NET]; n++) {
        for (uint32_t g = 0; g < s->counts[TUTTI_NCCL_GPU]; g++) {
            uint32_t cpu = local_cpu(s, g);

            if (f->rules->pxn && relay(f, g, n) < 0)
                return -TUTTI_ENOMEM;
            if (tutti_nccl_path(s, TUTTI_NCCL_GPU, g, TUTTI_NCCL_NET, n)->type >= TUTTI_PATH_PHB ||
                has_gpudirect(f, g, n) || cpu == UINT32_MAX)
                continue;
            if (divert_by_cpu(f, TUTTI_NCCL_NET, n, TUTTI_NCCL_GPU, g, cpu) < 0 ||
                divert_by_cpu(f, TUTTI_NCCL_GPU, g, TUTTI_NCCL_NET, n, cpu) < 0)
                return -TUTTI_ENOMEM;
        }
    }
    for (uint32_t n = 0; n < s->counts[TUTTI_NCCL_NET]; n++)
        s->net_gpu[n] = tutti_nccl_local_gpu(s, f->rules, n, f->scratch);
    return 0;
}

/* ---- what ways cost (search.cc followPath) ------------------------------------------------- */

/* Between GPUs, and to ports, an Intel CPU makes 64-byte packets of what it passes on. */
static bool is_cut_up(const struct tutti_nccl_system *s, const struct tutti_nccl_path *path,
                      enum tutti_nccl_kind from)
{
    if (path->type != TUTTI_PATH_PHB || from != TUTTI_NCCL_GPU)
        return false;
    for (uint32_t h = 0; h < path->hop_count; h++) {
        const struct tutti_nccl_node *node = &s->nodes[path->hops[h]->to];

        if (node->kind == TUTTI_NCCL_CPU &&
            s->hardware->cpus[node->source].arch == TUTTI_ARCH_X86_64 &&
            s->hardware->cpus[node->source].vendor == TUTTI_VENDOR_INTEL)
            return true;
    }
    return false;
}

/* Ports' reads of old GPUs, and POWER's NVLink (take.c back_claim()). */
static bool takes_back(const struct tutti_nccl_system *s, const struct tutti_nccl_path *path,
                       enum tutti_nccl_kind from)
{
    for (uint32_t h = 0; h < path->hop_count; h++) {
        const struct tutti_nccl_node *to = &s->nodes[path->hops[h]->to];

        if (to->kind == TUTTI_NCCL_GPU && from != TUTTI_NCCL_GPU &&
            s->hardware->gpus[to->source].sm < 80)
            return true;
        if (to->kind == TUTTI_NCCL_CPU && path->hops[h]->type == TUTTI_PATH_NVL &&
            s->hardware->cpus[to->source].arch == TUTTI_ARCH_PPC64)
            return true;
    }
    return false;
}

uint32_t tutti_nccl_rate_rank(int64_t whole_GBps)
{
    const int64_t most = (1 << TUTTI_PATH_RATE_BITS) - 2; /* all links together are never more */

    return (uint32_t)(most - (whole_GBps < most ? whole_GBps : most));
}

static uint32_t rank_of(const struct tutti_nccl_path *path)
{
    const uint32_t most = (1u << TUTTI_PATH_HOP_BITS) - 1;

    return tutti_nccl_rate_rank(path->kbyte_per_s / 1000000) << TUTTI_PATH_HOP_BITS |
           (path->hop_count < most ? path->hop_count : most);
}

static void price_paths(struct tutti_nccl_system *s)
{
    for (int from = 0; from < TUTTI_NCCL_END_KINDS; from++) {
        for (uint32_t e = 0; e < s->counts[from]; e++) {
            for (uint32_t to = 0; to < s->end_count; to++) {
                struct tutti_nccl_path *path =
                    &s->paths[(size_t)(s->end_first[from] + e) * s->end_count + to];

                path->type_back = s->paths[(size_t)to * s->end_count + s->end_first[from] + e].type;
                path->rank = rank_of(path);
                path->pays_packets = is_cut_up(s, path, (enum tutti_nccl_kind)from);
                path->pays_back = takes_back(s, path, (enum tutti_nccl_kind)from);
            }
        }
    }
}

int tutti_nccl_paths(struct tutti_nccl_system *system, const struct tutti_nccl_rules *rules,
                     struct tutti_arena *arena, struct tutti_err *err)
{
    struct finder f = {.system = system, .rules = rules, .arena = arena};
    int status = 0;

    system->paths = tutti_arena_take(arena, (size_t)system->end_count * system->end_count,
                                     sizeof(*system->paths));
    system->net_gpu =
        tutti_arena_take(arena, system->counts[TUTTI_NCCL_NET], sizeof(*system->net_gpu));
    f.reach = tutti_arena_take(arena, system->node_count, sizeof(*f.reach));
    f.front = tutti_arena_take(arena, system->node_count, sizeof(*f.front));
    f.next_front = tutti_arena_take(arena, system->node_count, sizeof(*f.next_front));
    f.scratch = tutti_arena_take(arena, 2 * (size_t)system->end_count, sizeof(*f.scratch));
    if (system->paths == NULL || system->net_gpu == NULL || f.reach == NULL || f.front == NULL ||
        f.next_front == NULL || f.scratch == NULL)
        return tutti_nomem(err);
    status = find_all(&f);
    if (status == 0)
        status = reroute_gpus(&f);
    if (status == 0) {
        name_p2c(system);
        status = reroute_nets(&f);
        price_paths(system);
    }
    return status < 0 ? tutti_nomem(err) : 0;
}

bool tutti_nccl_uses_host_memory(const struct tutti_nccl_system *system,
                                 const struct tutti_nccl_rules *rules)
{
    uint32_t count = system->counts[TUTTI_NCCL_GPU];

    for (uint32_t from = 0; from < count; from++) {
        for (uint32_t to = 0; to < count; to++) {
            if (from != to && !may_reach(system, rules, from, to))
                return true;
        }
    }
    return false;
}
