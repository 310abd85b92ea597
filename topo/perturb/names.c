/* Finding what a list of perturbations names; see names.h. */
#include "topo/perturb/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "topo/graph/routes.h"

static bool find_node(const struct tutti_topo *topo, const char *name, size_t bytes, uint32_t *ret)
{
    for (uint32_t v = 0; v < topo->node_count; v++) {
        char buf[TUTTI_NODE_NAME_BYTES];
        const char *is = tutti_topo_node_name(topo, v, buf);

        if (strncmp(is, name, bytes) == 0 && is[bytes] == '\0') {
            *ret = v;
            return true;
        }
    }
    return false;
}

static bool has_link(const struct tutti_topo *topo, uint32_t from, uint32_t to)
{
    for (uint32_t k = 0; k < tutti_topo_out_count(topo, from); k++) {
        if (tutti_topo_link(topo, tutti_topo_out_link(topo, from, k)).to == to)
            return true;
    }
    return false;
}

/* "NODE-NODE"; names may have dashes in them, so each dash is tried. */
static bool find_pair(const struct tutti_topo *topo, const char *name, uint32_t *ret_a,
                      uint32_t *ret_b)
{
    for (const char *dash = strchr(name, '-'); dash != NULL; dash = strchr(dash + 1, '-')) {
        if (find_node(topo, name, (size_t)(dash - name), ret_a) &&
            find_node(topo, dash + 1, strlen(dash + 1), ret_b))
            return true;
    }
    return false;
}

int tutti_perturb_cable(const struct tutti_topo *topo, const struct tutti_perturb_item *item,
                        uint32_t *ret_a, uint32_t *ret_b, struct tutti_err *err)
{
    bool some = topo->link_count > 0;
    char bufs[4][TUTTI_NODE_NAME_BYTES];
    const char *from =
        some ? tutti_topo_node_name(topo, tutti_topo_link(topo, 0).from, bufs[0]) : "";
    const char *to = some ? tutti_topo_node_name(topo, tutti_topo_link(topo, 0).to, bufs[1]) : "";

    if (!some)
        return tutti_fail(err, TUTTI_EINVAL, "'%s': '%s' has no links", item->text, topo->name);
    if (!find_pair(topo, item->name, ret_a, ret_b))
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s': '%s' names no two nodes of '%s' (such as '%s-%s'; 'tutti topo "
                          "show --links' lists all links)",
                          item->text, item->name, topo->name, from, to);
    if (!has_link(topo, *ret_a, *ret_b) && !has_link(topo, *ret_b, *ret_a))
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s': no link joins '%s' to '%s' (such as '%s-%s'; 'tutti topo show "
                          "--links' lists all)",
                          item->text, tutti_topo_node_name(topo, *ret_a, bufs[2]),
                          tutti_topo_node_name(topo, *ret_b, bufs[3]), from, to);
    return 0;
}

int tutti_perturb_node(const struct tutti_topo *topo, const struct tutti_perturb_item *item,
                       uint32_t *ret_node, uint32_t *ret_host, struct tutti_err *err)
{
    const char *digits = strncmp(item->name, "host", 4) == 0 ? item->name + 4 : "";
    char name[TUTTI_NODE_NAME_BYTES];
    uint64_t host = 0;

    *ret_node = *ret_host = UINT32_MAX;
    if (find_node(topo, item->name, strlen(item->name), ret_node))
        return 0;
    if (topo->host_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "'%s': '%s' has no node '%s' (such as '%s')",
                          item->text, topo->name, item->name, tutti_topo_node_name(topo, 0, name));
    if (tutti_read_count(digits, 0, topo->host_count - 1, &host, NULL) < 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s': '%s' has no node and no host '%s' (host0 to host%" PRIu32
                          ", or a node such as '%s')",
                          item->text, topo->name, item->name, topo->host_count - 1,
                          tutti_topo_node_name(topo, 0, name));
    *ret_host = (uint32_t)host;
    return 0;
}

int tutti_perturb_check_item(const struct tutti_topo *topo, const struct tutti_perturb_item *item,
                             struct tutti_err *err)
{
    bool nodes = item->kind == TUTTI_PERTURB_SLOW_NODE;
    bool hosts = nodes && topo->host_count > 0;
    uint32_t count = hosts ? topo->host_count : nodes ? topo->rank_count : topo->link_count;
    uint32_t a = 0;
    uint32_t b = 0;

    if (item->kind == TUTTI_PERTURB_ECMP && !tutti_topo_routes_choose(topo))
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s': in '%s' there is one way from NIC to NIC (a choice of spines have "
                          "clusters of several rails or groups, such as dgx-h100:nodes=64, and fat "
                          "trees)",
                          item->text, topo->name);
    if (item->whom == TUTTI_PERTURB_NAMED)
        return nodes ? tutti_perturb_node(topo, item, &a, &b, err)
                     : tutti_perturb_cable(topo, item, &a, &b, err);
    if (item->whom != TUTTI_PERTURB_COUNT || item->number <= count)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL, "'%s': '%s' has %" PRIu32 " %s (at most so many)",
                      item->text, topo->name, count,
                      hosts   ? "hosts"
                      : nodes ? "devices"
                              : "links");
}

int tutti_perturb_check(const struct tutti_topo *topo, const struct tutti_perturb *perturb,
                        struct tutti_err *err)
{
    for (uint32_t i = 0; i < perturb->item_count; i++) {
        int status = tutti_perturb_check_item(topo, &perturb->items[i], err);

        if (status < 0)
            return status;
    }
    return 0;
}
