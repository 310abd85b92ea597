/* Rings of hosts of several NICs. Where the machine declares none, one a NIC, which enters every
 * host through that NIC or its neighbour and leaves through the other. Where it declares those of a
 * host: one a device, if each is wired to each and there is an even number of them; else those
 * declared, each begun where NICs carry least. Hosts are gone through forwards and backwards in
 * turn: then a ring leaves a host and enters the next on the same rail. */
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

/* The NIC of each device of host 0, from 0 on in order of devices; returns how many there are. A
 * device without one has UINT32_MAX. */
static uint32_t find_nics(const struct tutti_topo *topo, uint32_t each, uint32_t *route,
                          uint32_t *nodes, uint32_t *nics)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < each; i++) {
        uint32_t node = nic_of(topo, i, each + i, route);
        uint32_t k = 0;

        nics[i] = UINT32_MAX;
        if (node == UINT32_MAX)
            continue;
        while (k < count && nodes[k] != node)
            k++;
        nodes[k] = node;
        nics[i] = k;
        count += k == count;
    }
    return count;
}

/* Completes a ring whose way through host 0 is written. */
static void lay_ring(uint32_t *order, uint32_t host_count, uint32_t each)
{
    for (uint32_t h = 1; h < host_count; h++) {
        for (uint32_t i = 0; i < each; i++)
            order[h * each + i] = h * each + order[h % 2 == 0 ? i : each - 1 - i];
    }
}

/* Whether every ring goes through the hosts one after another, through all of them alike. */
static bool goes_by_host(const struct tutti_topo *topo, uint32_t each)
{
    for (uint32_t o = 0; o < topo->shape.order_count; o++) {
        const uint32_t *order = topo->shape.orders + (size_t)o * topo->rank_count;

        for (uint32_t i = 0; i < topo->rank_count; i++) {
            if (order[i] != i / each * each + order[i % each])
                return false;
        }
    }
    return true;
}

/* Whether all devices of host 0, an even number, have a cable each to each. */
static bool is_mesh(const struct tutti_topo *topo, uint32_t each, uint32_t *route)
{
    for (uint32_t i = 0; i < each; i++) {
        for (uint32_t k = 0; k < each; k++) {
            if (i != k && tutti_topo_route(topo, i, k, route, topo->node_count) != 1)
                return false;
        }
    }
    return each % 2 == 0;
}

/* Place i of way k through such a mesh: k, k + 1, k - 1, k + 2, k - 2, ... (mod an even n). Steps
 * are 1, -2, 3, -4, ..., all different, so the n ways together take every cable once each way; and
 * each begins and ends at another device (Williams 1949: row-complete Latin squares). */
static uint32_t mesh_place(uint32_t n, uint32_t k, uint32_t i)
{
    return i % 2 == 1 ? (k + i / 2 + 1) % n : (k + n - i / 2) % n;
}

enum { RINGS_MAX = 32 };

/* How many rings: one a NIC; of those declared each once, but where there are more of them than
 * NICs so often that all NICs can carry as many. */
static uint32_t count_rings(uint32_t declared, uint32_t nic_count)
{
    uint32_t count = declared;

    if (declared == 0)
        return nic_count;
    while (declared > nic_count && count % nic_count != 0 && count + declared <= RINGS_MAX)
        count += declared;
    return declared > nic_count && count % nic_count != 0 ? declared : count;
}

/* The place on a declared ring from which it is begun so that the NICs by which it comes and goes
 * carry least, with what they carry already; `in` and `out` count it. */
static uint32_t begin_ring(const uint32_t *chain, uint32_t each, const uint32_t *nics, uint32_t *in,
                           uint32_t *out)
{
    uint32_t best = 0;
    uint64_t least = UINT64_MAX;

    for (uint32_t p = 0; p < each; p++) {
        uint32_t first = in[nics[chain[p]]];
        uint32_t last = out[nics[chain[(p + each - 1) % each]]];
        uint64_t most = first > last ? first : last;
        uint64_t load = most << 32 | (first + last);

        best = load < least ? p : best;
        least = load < least ? load : least;
    }
    in[nics[chain[best]]]++;
    out[nics[chain[(best + each - 1) % each]]]++;
    return best;
}

/* The first device behind a NIC. */
static uint32_t first_behind(const uint32_t *nics, uint32_t nic)
{
    uint32_t i = 0;

    while (nics[i] != nic)
        i++;
    return i;
}

/* What rings are made of. */
struct plan {
    uint32_t each;        /* devices a host */
    uint32_t count;       /* rings */
    bool mesh;            /* one a device */
    const uint32_t *nics; /* [each] */
    uint32_t *loads;      /* [2 * each]: of NICs, in and out */
};

static void lay_rings(const struct tutti_topo *topo, const struct plan *plan, uint32_t *orders)
{
    uint32_t each = plan->each;
    uint32_t declared = topo->shape.order_count;

    for (uint32_t k = 0; k < plan->count; k++) {
        uint32_t *order = orders + (size_t)k * topo->rank_count;
        const uint32_t *chain = NULL;
        uint32_t first;

        if (declared > 0)
            chain = topo->shape.orders + (size_t)(k % declared) * topo->rank_count;
        if (plan->mesh)
            first = k;
        else if (chain != NULL)
            first = begin_ring(chain, each, plan->nics, plan->loads, plan->loads + each);
        else
            first = first_behind(plan->nics, k);
        for (uint32_t i = 0; i < each; i++) {
            if (plan->mesh)
                order[i] = mesh_place(each, first, i);
            else
                order[i] = chain != NULL ? chain[(first + i) % each] : (first + i) % each;
        }
        lay_ring(order, topo->host_count, each);
    }
}

int tutti_host_rings(const struct tutti_topo *topo, struct tutti_shape *ret, uint32_t **ret_orders,
                     struct tutti_err *err)
{
    struct plan plan = {.each = devices_per_host(topo)};
    uint32_t declared = topo->shape.order_count;
    uint32_t *work = NULL; /* a route, and by device: NICs, what they are, and what they carry */
    uint32_t *nics;
    uint32_t *orders = NULL;
    uint32_t nic_count;

    *ret = topo->shape;
    *ret_orders = NULL;
    if (plan.each == 0 || !goes_by_host(topo, plan.each))
        return 0;
    work = calloc((size_t)topo->node_count + 4 * (size_t)plan.each, sizeof(*work));
    if (work == NULL)
        return tutti_nomem(err);
    nics = work + topo->node_count;
    nic_count = find_nics(topo, plan.each, work, nics + plan.each, nics);
    for (uint32_t i = 0; i < plan.each && declared > 0; i++)
        nic_count = nics[i] == UINT32_MAX ? 0 : nic_count;
    if (nic_count > 1) {
        plan.mesh = declared > 0 && is_mesh(topo, plan.each, work);
        plan.count = plan.mesh ? plan.each : count_rings(declared, nic_count);
        plan.nics = nics;
        plan.loads = nics + 2 * plan.each;
        orders = calloc((size_t)plan.count * topo->rank_count, sizeof(*orders));
    }
    if (orders != NULL)
        lay_rings(topo, &plan, orders);
    free(work);
    if (nic_count <= 1)
        return 0;
    if (orders == NULL)
        return tutti_nomem(err);
    ret->order_count = plan.count;
    ret->orders = orders;
    *ret_orders = orders;
    return 0;
}

bool tutti_hosts_have_nics(const struct tutti_topo *topo)
{
    uint32_t each = devices_per_host(topo);
    uint32_t *route = each > 0 ? calloc(topo->node_count, sizeof(*route)) : NULL;
    bool have = route != NULL && nic_of(topo, 0, each, route) != UINT32_MAX;

    free(route);
    return have;
}
