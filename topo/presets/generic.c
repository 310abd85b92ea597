/* The presets of no vendor: grids, full mesh, hypercube, switch, fat tree, rail cluster. */
#include <assert.h>
#include <stdio.h>

#include "runtime/status.h"
#include "topo/graph/builder.h"
#include "topo/graph/rule.h"
#include "topo/presets/cluster.h"
#include "topo/presets/preset.h"

enum {
    FULL_DEVICES_MAX = 2048, /* its links grow with the square */
    CUBE_DIMS_MAX = 24
};
_Static_assert(1 << CUBE_DIMS_MAX <= TUTTI_PRESET_DEVICES_MAX, "no machine is larger");

/* As keys bw, lat and burst say (the mask is for the compiler: burst_bytes is a bit field). */
static struct tutti_link cable_of(struct tutti_spec *spec)
{
    return (struct tutti_link){.bytes_per_s = tutti_spec_rate(spec, "bw"),
                               .latency_ps = tutti_spec_time(spec, "lat"),
                               .burst_bytes = tutti_spec_burst(spec) & TUTTI_BURST_BYTES_MAX,
                               .cable_count = 1};
}

static int add_devices(struct tutti_topo_builder *builder, uint32_t count, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t d = 0; d < count && status == 0; d++) {
        char name[32];
        struct tutti_node node = {
            .name = name, .kind = TUTTI_NODE_DEVICE, .rank = TUTTI_RANK_NONE, .host = UINT32_MAX};

        (void)snprintf(name, sizeof(name), "dev%u", d);
        status = tutti_topo_add_node(builder, &node, NULL, err);
    }
    return status;
}

/* Directed links: two a cable, and an axis that is a line has one cable less. */
static uint64_t grid_links(const struct tutti_shape *shape)
{
    uint64_t links = 0;

    for (uint32_t d = 0; d < shape->dim_count; d++)
        links += 2 * (uint64_t)(shape->rank_count / shape->dim[d]) *
                 (shape->dim[d] - (shape->wrap[d] ? 0 : 1));
    return links;
}

/* Devices on a grid; a closed axis of 2 has one cable, as both ways round lead the same way. */
static int build_grid(struct tutti_topo_builder *builder, const struct tutti_shape *shape,
                      const struct tutti_link *cable, struct tutti_err *err)
{
    struct tutti_routes routes = {.kind = TUTTI_ROUTES_GRID};
    int status = tutti_topo_expect(builder, shape->rank_count, grid_links(shape), err);

    tutti_topo_set_routes(builder, &routes);
    if (status == 0 && tutti_rule_has_grid(shape)) {
        struct tutti_rule rule = tutti_rule_of_grid(shape, cable);

        status = tutti_topo_set_rule(builder, &rule, err);
        return status < 0 ? status : tutti_topo_set_shape(builder, shape, err);
    }
    if (status == 0)
        status = add_devices(builder, shape->rank_count, err);
    for (uint32_t r = 0; r < shape->rank_count && status == 0; r++) {
        uint32_t stride = 1;

        for (uint32_t d = 0; d < shape->dim_count && status == 0; stride *= shape->dim[d++]) {
            uint32_t x = r / stride % shape->dim[d];
            struct tutti_link link = *cable;

            link.from = r;
            link.to = x + 1 < shape->dim[d] ? r + stride : r - x * stride;
            if (x + 1 < shape->dim[d] || shape->wrap[d])
                status = tutti_topo_add_cable(builder, &link, err);
        }
    }
    return status < 0 ? status : tutti_topo_set_shape(builder, shape, err);
}

static int build_dims(struct tutti_spec *spec, struct tutti_topo_builder *builder, bool closed,
                      struct tutti_err *err)
{
    struct tutti_shape shape = {.rank_count = 1};
    struct tutti_link cable = cable_of(spec);

    shape.dim_count = tutti_spec_dims(spec, 1, TUTTI_DIMS_MAX, shape.dim);
    if (tutti_spec_status(spec, err) < 0)
        return tutti_spec_status(spec, err);
    for (uint32_t d = 0; d < shape.dim_count; d++) {
        shape.rank_count *= shape.dim[d];
        shape.wrap[d] = closed && shape.dim[d] > 2;
    }
    return build_grid(builder, &shape, &cable, err);
}

int tutti_preset_mesh(struct tutti_spec *spec, struct tutti_topo_builder *builder,
                      struct tutti_err *err)
{
    return build_dims(spec, builder, false, err);
}

int tutti_preset_torus(struct tutti_spec *spec, struct tutti_topo_builder *builder,
                       struct tutti_err *err)
{
    return build_dims(spec, builder, true, err);
}

int tutti_preset_ring(struct tutti_spec *spec, struct tutti_topo_builder *builder,
                      struct tutti_err *err)
{
    struct tutti_shape shape = {.dim_count = 1};
    struct tutti_link cable = cable_of(spec);

    shape.dim[0] = tutti_spec_count(spec, "n", 1, TUTTI_PRESET_DEVICES_MAX);
    shape.wrap[0] = shape.dim[0] > 2;
    shape.rank_count = shape.dim[0];
    if (tutti_spec_status(spec, err) < 0)
        return tutti_spec_status(spec, err);
    return build_grid(builder, &shape, &cable, err);
}

/* Up to 2^24 devices: a rule says all links and routes, so that none are listed. */
int tutti_preset_hypercube(struct tutti_spec *spec, struct tutti_topo_builder *builder,
                           struct tutti_err *err)
{
    const struct tutti_routes routes = {.kind = TUTTI_ROUTES_CUBE};
    uint32_t dim_count = tutti_spec_count(spec, "dims", 1, CUBE_DIMS_MAX);
    struct tutti_link cable = cable_of(spec);
    int status = tutti_spec_status(spec, err);

    if (status == 0)
        status = tutti_topo_expect(builder, UINT64_C(1) << dim_count,
                                   (uint64_t)dim_count << dim_count, err);
    if (status == 0) {
        struct tutti_rule rule = tutti_rule_of_cube(dim_count, &cable);

        status = tutti_topo_set_rule(builder, &rule, err);
    }
    tutti_topo_set_routes(builder, &routes);
    return status;
}

int tutti_preset_full(struct tutti_spec *spec, struct tutti_topo_builder *builder,
                      struct tutti_err *err)
{
    uint32_t count = tutti_spec_count(spec, "n", 1, FULL_DEVICES_MAX);
    struct tutti_link cable = cable_of(spec);
    int status = tutti_spec_status(spec, err);

    if (status == 0)
        status = add_devices(builder, count, err);
    for (cable.from = 0; cable.from < count && status == 0; cable.from++)
        for (cable.to = cable.from + 1; cable.to < count && status == 0; cable.to++)
            status = tutti_topo_add_cable(builder, &cable, err);
    return status;
}

/* The odd picosecond of a halved latency goes to the way down. */
static int build_tree(struct tutti_topo_builder *builder, const struct tutti_tree_rule *like,
                      struct tutti_err *err)
{
    const struct tutti_tree *tree = &like->tree;
    struct tutti_routes routes = {.kind = TUTTI_ROUTES_TREE,
                                  .args = {tree->arity, tree->levels, tree->uplinks}};
    struct tutti_shape shape = {.rank_count = (uint32_t)tree->node_first[1],
                                .level_count = tree->levels};
    int status = tutti_topo_expect(builder, tree->node_first[tree->levels + 1],
                                   2 * tree->cable_first[tree->levels], err);

    for (uint32_t i = 0; i < tree->levels; i++)
        shape.level[i] = tree->arity;
    if (status == 0) {
        struct tutti_rule rule = tutti_rule_of_tree(like);

        status = tutti_topo_set_rule(builder, &rule, err);
    }
    if (status == 0)
        status = tutti_topo_set_shape(builder, &shape, err);
    tutti_topo_set_routes(builder, &routes);
    return status;
}

int tutti_preset_switch(struct tutti_spec *spec, struct tutti_topo_builder *builder,
                        struct tutti_err *err)
{
    uint32_t count = tutti_spec_count(spec, "n", 1, TUTTI_PRESET_DEVICES_MAX);
    uint64_t rate = tutti_spec_rate(spec, "bw");
    tutti_ps latency = tutti_spec_time(spec, "lat");
    struct tutti_tree_rule tree = {
        .device = {.bytes_per_s = rate,
                   .latency_ps = latency / 2,
                   .burst_bytes = tutti_spec_burst(spec) & TUTTI_BURST_BYTES_MAX,
                   .cable_count = 1},
        .device_down_ps = latency - latency / 2,
        .reduces = tutti_spec_flag(spec, "reduces")};

    if (tutti_spec_status(spec, err) < 0)
        return tutti_spec_status(spec, err);
    tree.tree = tutti_tree_of(count, 1, 1);
    return build_tree(builder, &tree, err);
}

int tutti_preset_fattree(struct tutti_spec *spec, struct tutti_topo_builder *builder,
                         struct tutti_err *err)
{
    uint32_t arity = tutti_spec_count(spec, "arity", 2, 4096);
    uint32_t levels = tutti_spec_count(spec, "levels", 1, TUTTI_TREE_LEVELS_MAX);
    uint32_t over = tutti_spec_count(spec, "over", 1, 4096);
    uint64_t rate = tutti_spec_rate(spec, "bw");
    tutti_ps latency = tutti_spec_time(spec, "lat");
    struct tutti_tree_rule tree = {
        .device = {.bytes_per_s = rate,
                   .latency_ps = latency,
                   .kind = TUTTI_LINK_NET,
                   .burst_bytes = tutti_spec_burst(spec) & TUTTI_BURST_BYTES_MAX,
                   .cable_count = 1},
        .device_down_ps = latency,
        .between = {.bytes_per_s = rate,
                    .latency_ps = tutti_spec_time(spec, "hop"),
                    .kind = TUTTI_LINK_NET,
                    .burst_bytes = tutti_spec_burst(spec) & TUTTI_BURST_BYTES_MAX,
                    .cable_count = 1},
    };
    uint64_t devices = 1;

    for (uint32_t i = 0; i < levels && devices <= TUTTI_PRESET_DEVICES_MAX; i++)
        devices *= arity;
    tutti_spec_limit(spec, devices, 1);
    if (arity % over != 0)
        tutti_spec_refuse(spec, "key 'over': %u uplinks do not divide by %u (arity times a number)",
                          arity, over);
    if (tutti_spec_status(spec, err) < 0)
        return tutti_spec_status(spec, err);
    tree.tree = tutti_tree_of(arity, levels, arity / over);
    return build_tree(builder, &tree, err);
}

int tutti_preset_rail(struct tutti_spec *spec, struct tutti_topo_builder *builder,
                      struct tutti_err *err)
{
    uint32_t gpus = tutti_spec_count(spec, "gpus", 1, 256);
    uint32_t nics = tutti_spec_count(spec, "nics", 1, gpus);
    struct tutti_host host = {
        .device_count = gpus,
        .nic_count = nics != 0 ? nics : gpus,
        .switch_name = "nvswitch",
        .link_kind = TUTTI_LINK_NVLINK,
        .link_cables = 1,
        .link_bytes_per_s = tutti_spec_rate(spec, "bw"),
        .link_latency_ps = tutti_spec_time(spec, "lat"),
        .nic_kind = TUTTI_LINK_PCIE,
        .nic_bytes_per_s = tutti_spec_rate(spec, "nic"),
    };
    struct tutti_cluster cluster = {
        .host_count = tutti_spec_count(spec, "nodes", 1, TUTTI_PRESET_DEVICES_MAX),
        .group_hosts = tutti_spec_count(spec, "group", 1, TUTTI_PRESET_DEVICES_MAX),
        .spine_count = tutti_spec_count(spec, "spines", 1, 4096),
        .over = tutti_spec_count(spec, "over", 1, 4096),
        .nic_bytes_per_s = tutti_spec_rate(spec, "nic"),
        .nic_latency_ps = tutti_spec_time(spec, "niclat"),
        .hop_latency_ps = tutti_spec_time(spec, "hop"),
        .kind = TUTTI_LINK_NET,
        .net_kind = tutti_spec_net(spec),
    };

    tutti_spec_limit(spec, cluster.host_count, gpus);
    if (tutti_spec_status(spec, err) < 0)
        return tutti_spec_status(spec, err);
    return tutti_cluster_of(builder, &host, &cluster, err);
}
