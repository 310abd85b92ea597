/* What freeze makes of a plan of routes; one file a kind. */
#ifndef TUTTI_TOPO_ROUTES_ROUTER_H
#define TUTTI_TOPO_ROUTES_ROUTER_H

#include <stdbool.h>
#include <stdint.h>

#include "topo/graph/routes.h"
#include "topo/routes/tree.h"
#include "topo/topo.h"

struct tutti_err;

/* A route that is being written: counts all links, keeps those that fit. */
struct tutti_path {
    uint32_t *links;
    uint32_t capacity;
    uint32_t count;
};

static inline void tutti_path_add(struct tutti_path *path, uint32_t link)
{
    if (path->count < path->capacity)
        path->links[path->count] = link;
    path->count++;
}

enum tutti_cluster_arg { /* of the plan of clusters */
                         TUTTI_CLUSTER_HOSTS,
                         TUTTI_CLUSTER_NICS,
                         TUTTI_CLUSTER_GROUP_HOSTS,
                         TUTTI_CLUSTER_SPINES,
};

/* Tables live in the arena of the machine. */
struct tutti_router {
    struct tutti_routes plan;
    bool drawn;   /* flows are spread over spines by a hash, not evenly */
    uint64_t key; /* of that hash */
    void (*route)(const struct tutti_topo *topo, uint32_t from, uint32_t to,
                  struct tutti_path *path);
    /* SEARCH. first[to * rank_count + from]: the first link; its top bit: go on by `relayed`, else
     * by `direct`. direct[to * node_count + v]: the next one from v. */
    uint32_t *first;
    uint32_t *direct;
    uint32_t **relayed; /* [to]: NULL, or next links with devices forwarding */
    /* CLUSTER: paths[path_first[p] ..]: link indices in host 0, p = from * devices + to, then
     * devices^2 + d: device to its NIC, then devices^2 + devices + d: NIC to device. */
    uint32_t *path_first;
    uint32_t *paths;
    uint32_t *device_nic; /* [devices]: uplink number of each */
    uint32_t host_devices;
    uint32_t host_nodes;
    uint32_t host_links;
    uint32_t group_count;
    uint32_t net_first;     /* the first link of the network */
    struct tutti_tree tree; /* TREE */
};

/* Which of `count` ways up from a switch of `level` a flow takes if that is drawn. */
uint32_t tutti_router_draw(const struct tutti_router *router, uint32_t from, uint32_t to,
                           uint32_t level, uint32_t count);

/* Each checks that the graph fits the plan and fills the router in. */
int tutti_router_search(const struct tutti_topo *topo, struct tutti_router *router,
                        struct tutti_err *err);
int tutti_router_grid(const struct tutti_topo *topo, struct tutti_router *router,
                      struct tutti_err *err);
int tutti_router_cube(const struct tutti_topo *topo, struct tutti_router *router,
                      struct tutti_err *err);
int tutti_router_tree(const struct tutti_topo *topo, struct tutti_router *router,
                      struct tutti_err *err);
int tutti_router_cluster(const struct tutti_topo *topo, struct tutti_router *router,
                         struct tutti_err *err);

#endif
