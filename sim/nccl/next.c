/* The order of a walk: near ports first, and GPUs that are likely to lead to a good channel (2.28.9
 * search.cc ncclTopoSelectNets, ncclTopoSearchNextGpuSort). */
#include "sim/nccl/next.h"

#include <assert.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "sim/nccl/locals.h"
#include "sim/nccl/paths.h"

enum { RATE_BITS = TUTTI_PATH_RATE_BITS, HOP_BITS = TUTTI_PATH_HOP_BITS };

/* Less is better. NCCL compares whole GB/s and hops, one after the other: the rate from the port
 * and what is left of the GPU's PCI link (more), hops from the port (less), then rate and hops from
 * the GPU before. They stand in that order in the key, highest bits first. */
struct tutti_nccl_score {
    uint64_t key;
    uint32_t gpu;
};

static uint32_t gpu_count(const struct tutti_nccl_walk *w)
{
    return w->system->counts[TUTTI_NCCL_GPU];
}

static uint32_t net_count(const struct tutti_nccl_walk *w)
{
    return w->system->counts[TUTTI_NCCL_NET];
}

/* ---- ports --------------------------------------------------------------------------------- */

static void add_once(uint32_t *list, uint32_t *count, uint32_t net)
{
    for (uint32_t i = 0; i < *count; i++)
        if (list[i] == net)
            return;
    list[(*count)++] = net;
}

/* The ports that a GPU prefers for channels 0, 1, ..., until the first comes again. */
static void add_preferred(const struct tutti_nccl_walk *w, uint32_t gpu, uint32_t *list,
                          uint32_t *count)
{
    uint32_t first = 0;

    for (uint32_t c = 0; c < TUTTI_NCCL_CHANNELS_MAX; c++) {
        uint32_t net = tutti_nccl_local_net(w->system, w->rules, gpu, c, w->scratch);

        if (c > 0 && net == first)
            return;
        if (c == 0)
            first = net;
        add_once(list, count, net);
    }
}

/* A rack's hosts are gone through side by side: each GPU's port for channel 0 first. */
static void add_preferred_by_channel(const struct tutti_nccl_walk *w, uint32_t *list,
                                     uint32_t *count)
{
    for (uint32_t c = 0; c < TUTTI_NCCL_CHANNELS_MAX; c++) {
        for (uint32_t g = 0; g < gpu_count(w); g++) {
            uint32_t net = tutti_nccl_local_net(w->system, w->rules, g, c, w->scratch);

            add_once(list, count, net);
        }
    }
}

/* Those of one type of way, in order. */
static void add_others(const struct tutti_nccl_walk *w, uint32_t gpu, uint8_t type, uint32_t *list,
                       uint32_t *count)
{
    for (uint32_t n = 0; n < net_count(w) && n < TUTTI_NCCL_CHANNELS_MAX; n++)
        if (tutti_nccl_path(w->system, TUTTI_NCCL_GPU, gpu, TUTTI_NCCL_NET, n)->type == type)
            add_once(list, count, n);
}

static void make_preferred(struct tutti_nccl_walk *w)
{
    uint32_t gpus = gpu_count(w);
    uint32_t *all = w->preferred + (size_t)gpus * net_count(w);

    for (uint32_t g = 0; g < gpus; g++)
        add_preferred(w, g, w->preferred + (size_t)g * net_count(w), &w->preferred_count[g]);
    if (w->system->host_count > 1)
        add_preferred_by_channel(w, all, &w->preferred_count[gpus]);
    for (uint32_t g = 0; g < gpus && w->system->host_count == 1; g++)
        for (uint32_t i = 0; i < w->preferred_count[g]; i++)
            add_once(all, &w->preferred_count[gpus], w->preferred[(size_t)g * net_count(w) + i]);
}

/* ---- a walk's lists ------------------------------------------------------------------------ */

static void find_pci(struct tutti_nccl_walk *w, uint32_t gpu)
{
    const struct tutti_nccl_node *node = tutti_nccl_node(w->system, TUTTI_NCCL_GPU, gpu);

    for (uint32_t l = 0; l < node->link_count; l++) {
        const struct tutti_nccl_link *up = &node->links[l];

        if (up->type == TUTTI_PATH_PIX && w->pci_up[gpu] == NULL) {
            w->pci_up[gpu] = up;
            w->pci_down[gpu] = &w->system->nodes[up->to].links[up->back];
        }
    }
}

int tutti_nccl_lists_init(struct tutti_nccl_walk *w)
{
    size_t gpus = gpu_count(w);
    size_t nets = net_count(w);

    w->near_gpus = tutti_arena_take(w->arena, nets * gpus, sizeof(*w->near_gpus));
    w->near_count = tutti_arena_take(w->arena, nets, sizeof(*w->near_count));
    w->preferred = tutti_arena_take(w->arena, (gpus + 1) * nets, sizeof(*w->preferred));
    w->preferred_count = tutti_arena_take(w->arena, gpus + 1, sizeof(*w->preferred_count));
    w->nets = tutti_arena_take(w->arena, TUTTI_PATH_COUNT, sizeof(*w->nets));
    w->net_counts = tutti_arena_take(w->arena, TUTTI_PATH_COUNT, sizeof(*w->net_counts));
    w->pci_up = tutti_arena_take(w->arena, gpus, sizeof(*w->pci_up));
    w->pci_down = tutti_arena_take(w->arena, gpus, sizeof(*w->pci_down));
    w->scores = tutti_arena_take(w->arena, gpus, sizeof(*w->scores));
    w->scratch = tutti_arena_take(w->arena, 2 * (gpus + nets), sizeof(*w->scratch));
    if (w->near_gpus == NULL || w->near_count == NULL || w->preferred == NULL ||
        w->preferred_count == NULL || w->nets == NULL || w->net_counts == NULL ||
        w->scores == NULL || w->pci_up == NULL || w->pci_down == NULL || w->scratch == NULL)
        return -TUTTI_ENOMEM;
    for (uint32_t n = 0; n < nets; n++)
        w->near_count[n] = tutti_nccl_nearest_nics(w->system, TUTTI_NCCL_NET, n, TUTTI_NCCL_GPU,
                                                   w->near_gpus + n * gpus);
    for (uint32_t g = 0; g < gpus; g++)
        find_pci(w, g);
    if (nets > 0)
        make_preferred(w);
    return 0;
}

int tutti_nccl_lists_make(struct tutti_nccl_walk *w)
{
    size_t gpus = gpu_count(w);
    size_t nets = net_count(w);
    uint8_t type = w->now.type_inter;
    uint32_t *list;

    if (nets == 0 || w->nets[type] != NULL)
        return 0;
    list = tutti_arena_take(w->arena, (gpus + 1) * nets, sizeof(*list));
    w->net_counts[type] = tutti_arena_take(w->arena, gpus + 1, sizeof(**w->net_counts));
    if (list == NULL || w->net_counts[type] == NULL)
        return -TUTTI_ENOMEM;
    memcpy(list, w->preferred, (gpus + 1) * nets * sizeof(*list));
    memcpy(w->net_counts[type], w->preferred_count, (gpus + 1) * sizeof(**w->net_counts));
    for (uint8_t t = 0; t <= type; t++) {
        for (uint32_t g = 0; g < gpus; g++) {
            add_others(w, g, t, list + g * nets, &w->net_counts[type][g]);
            add_others(w, g, t, list + gpus * nets, &w->net_counts[type][gpus]);
        }
    }
    w->nets[type] = list;
    return 0;
}

uint32_t tutti_nccl_net_list(const struct tutti_nccl_walk *walk, uint32_t gpu, const uint32_t **ret)
{
    uint8_t type = walk->now.type_inter;

    assert(walk->nets[type] != NULL);
    if (ret != NULL)
        *ret = walk->nets[type] + (size_t)gpu * net_count(walk);
    return walk->net_counts[type][gpu];
}

/* ---- GPUs ---------------------------------------------------------------------------------- */

/* What is left of a GPU's PCI link, whole GB/s, the less of both ways; -1: it has none. */
static int64_t pci_left(const struct tutti_nccl_walk *w, uint32_t gpu)
{
    const struct tutti_nccl_link *up = w->pci_up[gpu];
    const struct tutti_nccl_link *down = w->pci_down[gpu];

    if (up == NULL)
        return -1;
    return (up->left_mbyte_per_s < down->left_mbyte_per_s ? up : down)->left_mbyte_per_s / 1000;
}

static uint64_t port_part(const struct tutti_nccl_walk *w, uint32_t net, uint32_t gpu)
{
    uint64_t rank = tutti_nccl_path(w->system, TUTTI_NCCL_NET, net, TUTTI_NCCL_GPU, gpu)->rank;
    uint64_t hops = rank & ((1u << HOP_BITS) - 1);

    return (rank >> HOP_BITS) << (RATE_BITS + HOP_BITS) |
           (uint64_t)tutti_nccl_rate_rank(pci_left(w, gpu)) << HOP_BITS | hops;
}

/* Those free and reachable, best first; of equals the next in number. */
static uint32_t sort_gpus(const struct tutti_nccl_walk *w, uint32_t from, bool by_net,
                          struct tutti_nccl_score *ret)
{
    uint64_t bit = UINT64_C(1) << w->now.channel_count;
    uint32_t net = by_net ? w->now.nets[2 * (size_t)w->now.channel_count] : 0;
    uint32_t gpus = gpu_count(w);
    uint32_t count = 0;

    for (uint32_t i = 1, g = from; i < gpus; i++) {
        const struct tutti_nccl_path *path;
        struct tutti_nccl_score score;
        uint32_t at = count;

        g = g + 1 == gpus ? 0 : g + 1;
        path = tutti_nccl_path(w->system, TUTTI_NCCL_GPU, from, TUTTI_NCCL_GPU, g);
        if ((w->used[g] & bit) != 0 || path->hop_count == 0)
            continue;
        score = (struct tutti_nccl_score){.gpu = g, .key = path->rank};
        if (by_net)
            score.key |= port_part(w, net, g) << (RATE_BITS + HOP_BITS);
        for (; at > 0 && score.key < ret[at - 1].key; at--)
            ret[at] = ret[at - 1];
        ret[at] = score;
        count++;
    }
    return count;
}

static bool is_free(const struct tutti_nccl_walk *w, uint32_t from, uint32_t gpu)
{
    return (w->used[gpu] & UINT64_C(1) << w->now.channel_count) == 0 && from != gpu &&
           tutti_nccl_path(w->system, TUTTI_NCCL_GPU, from, TUTTI_NCCL_GPU, gpu)->hop_count > 0;
}

/* NVSwitches like it when a GPU talks to few others: neighbours in number alone. */
static uint32_t neighbours(const struct tutti_nccl_walk *w, uint32_t gpu, uint32_t *ret)
{
    uint32_t gpus = gpu_count(w);
    uint32_t after = (gpu + 1) % gpus;
    uint32_t before = (gpu + gpus - 1) % gpus;
    uint8_t pattern = w->now.pattern;
    bool ring = pattern == TUTTI_PATTERN_RING;
    bool both =
        ring || pattern == TUTTI_PATTERN_SPLIT_TREE || pattern == TUTTI_PATTERN_BALANCED_TREE;
    uint32_t count = 0;

    /* NCCL puts each in front of what is there: the last named is the first tried. */
    if (both && after != before && is_free(w, gpu, ring ? before : after))
        ret[count++] = ring ? before : after;
    if (both && after != before) {
        if (is_free(w, gpu, ring ? after : before))
            ret[count++] = ring ? after : before;
    } else if (is_free(w, gpu, after)) {
        ret[count++] = after;
    }
    return count;
}

uint32_t tutti_nccl_next_gpus(struct tutti_nccl_walk *walk, uint32_t gpu, int32_t step,
                              int32_t to_net)
{
    uint32_t *list = walk->lists + (size_t)(walk->depth - 1) * walk->list_width;
    struct tutti_nccl_score *scores = walk->scores;
    bool alike = true;
    uint32_t count;

    if (walk->system->counts[TUTTI_NCCL_NVS] > 0)
        return neighbours(walk, gpu, list);
    count = sort_gpus(walk, gpu, to_net >= 0, scores);
    for (uint32_t i = 1; i < count; i++) {
        uint64_t differs = scores[i].key ^ scores[0].key;

        alike = alike && (differs & ((UINT64_C(1) << (RATE_BITS + HOP_BITS)) - 1)) == 0;
    }
    /* Far from the port yet, the GPU best placed for it is kept for later. */
    for (uint32_t i = 0; i < count; i++) {
        bool reverse = alike && to_net >= 0 && to_net != step + 1;

        list[i] = scores[reverse ? count - 1 - i : i].gpu;
    }
    return count;
}
