/* Broadcom's PEX switches carry the full rate between all their ports, though they show themselves
 * as a switch over switches; NCCL takes the lower level away (2.28.9 topo.cc
 * ncclTopoFlattenBcmSwitches). */
#include "sim/nccl/flatten.h"

#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "sim/nccl/system.h"

/* 4 or 5: the PCIe generation of such a switch, upper level 0 or lower level 1; 0: another one. */
static int pex_generation(uint64_t device_ids, unsigned level)
{
    uint64_t model = device_ids & UINT64_C(0xfffffffffffff000);

    if (model == UINT64_C(0x1000c0101000a000))
        return 4;
    return model == (UINT64_C(0x1000c03010000000) | (uint64_t)level << 12) ? 5 : 0;
}

static int append(struct tutti_nccl_node *node, const struct tutti_nccl_link *link,
                  struct tutti_arena *arena)
{
    struct tutti_nccl_link *links;

    if (node->link_count == node->link_room) {
        links = tutti_arena_take(arena, 2 * (node->link_room + 1u), sizeof(*links));
        if (links == NULL)
            return -TUTTI_ENOMEM;
        if (node->link_count > 0)
            memcpy(links, node->links, node->link_count * sizeof(*links));
        node->links = links;
        node->link_room = 2 * (node->link_room + 1);
    }
    node->links[node->link_count++] = *link;
    return 0;
}

static void drop(struct tutti_nccl_node *node, uint32_t link)
{
    node->link_count--;
    for (; link < node->link_count; link++)
        node->links[link] = node->links[link + 1];
}

/* Hands what is linked to `low` over to `high`. */
static int take_over(struct tutti_nccl_system *system, uint32_t high, uint32_t low,
                     struct tutti_arena *arena)
{
    struct tutti_nccl_node *from = &system->nodes[low];

    for (uint32_t l = 0; l < from->link_count; l++) {
        struct tutti_nccl_node *other = &system->nodes[from->links[l].to];
        int status;

        if (from->links[l].to == high)
            continue;
        status = append(&system->nodes[high], &from->links[l], arena);
        if (status < 0)
            return status;
        for (uint32_t k = 0; k < other->link_count; k++) {
            if (other->links[k].to == low) {
                other->links[k].to = high;
                break;
            }
        }
    }
    from->link_count = 0;
    return 0;
}

static int flatten_one(struct tutti_nccl_system *system, uint32_t high, int generation,
                       struct tutti_arena *arena)
{
    struct tutti_nccl_node *node = &system->nodes[high];
    uint32_t *low = tutti_arena_take(arena, node->link_count, sizeof(*low));
    uint32_t low_count = 0;
    int status = low == NULL ? -TUTTI_ENOMEM : 0;

    for (uint32_t l = 0; l < node->link_count && status == 0;) {
        const struct tutti_nccl_node *to = &system->nodes[node->links[l].to];

        if (to->kind == TUTTI_NCCL_PCI && pex_generation(to->device_ids, 1) == generation) {
            low[low_count++] = node->links[l].to;
            drop(node, l);
        } else {
            l++;
        }
    }
    for (uint32_t i = 0; i < low_count && status == 0; i++)
        status = take_over(system, high, low[i], arena);
    node->device_ids |= 0xffff; /* done: it is not looked at again */
    return status;
}

int tutti_nccl_flatten(struct tutti_nccl_system *system, struct tutti_arena *arena)
{
    int status = 0;

    for (uint32_t p = 0; p < system->counts[TUTTI_NCCL_PCI] && status == 0; p++) {
        uint32_t node = system->of[TUTTI_NCCL_PCI][p];
        int generation = pex_generation(system->nodes[node].device_ids, 0);

        if (generation != 0 && system->nodes[node].link_count > 0)
            status = flatten_one(system, node, generation, arena);
    }
    return status;
}
