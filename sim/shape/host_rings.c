/* One ring a NIC: ring k enters every host through NIC k or its neighbour and leaves through the
 * other, so that each NIC carries one ring each way. Hosts are gone through forwards and backwards
 * in turn: then a ring leaves a host and enters the next on the same rail. */
#include "sim/shape/host_rings.h"

#include <stdbool.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "topo/topo.h"

/* Devices of a host, if all hosts are alike and hold their ranks in one piece; else 0. */
static uint32_t devices_per_host(const struct tutti_topo *topo)
{
    uint32_t each = topo->host_count > 1 ? topo->rank_count / topo->host_count : 0;

    if (each < 2 || topo->rank_count % topo->host_count != 0)
        return 0;
    for (uint32_t r = 0; r < topo->rank_count; r++) {
        if (tutti_topo_node(topo, tutti_topo_rank_node(topo, r)).host != r / each)
            return 0;
    }
    return each;
}

/* The node that puts on the network what rank `from` sends to rank `to` of another host; UINT32_MAX
 * if hosts are joined by something else, as those of a TPU slice are. */
static uint32_t nic_of(const struct tutti_topo *topo, uint32_t from, uint32_t to, uint32_t *route)
{
    uint32_t count = tutti_topo_route(topo, from, to, route, topo->node_count);

    for (uint32_t i = 0; i < count; i++) {
        struct tutti_link link = tutti_topo_link(topo, route[i]);

        if (link.kind == TUTTI_LINK_NET || link.kind == TUTTI_LINK_DCN)
            return link.from;
    }
    return UINT32_MAX;
}

/* The first device of host 0 behind each NIC; returns how many NICs there are. */
static uint32_t find_nics(const struct tutti_topo *topo, uint32_t each, uint32_t *route,
                          uint32_t *nics, uint32_t *firsts)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < each; i++) {
        uint32_t nic = nic_of(topo, i, each + i, route);
        bool known = nic == UINT32_MAX;

        for (uint32_t k = 0; k < count; k++)
            known |= nics[k] == nic;
        if (known)
            continue;
        nics[count] = nic;
        firsts[count++] = i;
    }
    return count;
}

static void lay_ring(uint32_t *order, uint32_t host_count, uint32_t each, uint32_t first)
{
    for (uint32_t h = 0; h < host_count; h++) {
        for (uint32_t i = 0; i < each; i++) {
            uint32_t step = h % 2 == 0 ? i : each - 1 - i;

            order[h * each + i] = h * each + (first + step) % each;
        }
    }
}

int tutti_host_rings(const struct tutti_topo *topo, struct tutti_shape *ret, uint32_t **ret_orders,
                     struct tutti_err *err)
{
    uint32_t each = topo->shape.order_count == 0 ? devices_per_host(topo) : 0;
    uint32_t *route = NULL;
    uint32_t *firsts = NULL;
    uint32_t *orders = NULL;
    uint32_t count = 0;

    *ret = topo->shape;
    *ret_orders = NULL;
    if (each == 0)
        return 0;
    route = calloc((size_t)topo->node_count + 2 * (size_t)each, sizeof(*route));
    if (route == NULL)
        return tutti_nomem(err);
    firsts = route + topo->node_count;
    count = find_nics(topo, each, route, firsts + each, firsts);
    if (count > 1)
        orders = calloc((size_t)count * topo->rank_count, sizeof(*orders));
    for (uint32_t k = 0; k < count && orders != NULL; k++)
        lay_ring(orders + (size_t)k * topo->rank_count, topo->host_count, each, firsts[k]);
    free(route);
    if (count <= 1)
        return 0;
    if (orders == NULL)
        return tutti_nomem(err);
    ret->order_count = count;
    ret->orders = orders;
    *ret_orders = orders;
    return 0;
}
