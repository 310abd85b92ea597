/* The presets of TPU slices: which shapes exist, which axes wrap, which may be twisted. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "topo/graph/builder.h"
#include "topo/presets/preset.h"

enum { AXES = 3, FLAT_SHAPES_MAX = 10, CUBE = 4 };

/* How the slices of a generation are cut out of a pod. */
enum cut {
    CUT_FLAT,  /* 2-D, listed shapes; an axis wraps if it spans the pod */
    CUT_CUBES, /* 3-D, cubes of 4x4x4 behind optical switches; all axes wrap from one cube on */
};

struct generation {
    const char *name;
    uint8_t cut;        /* enum cut */
    uint8_t host[2];    /* chips of one host along x and y */
    uint32_t pod[AXES]; /* the full pod; its axes wrap */
    uint32_t pod_chips;
    uint8_t flat[FLAT_SHAPES_MAX][2]; /* CUT_FLAT: the shapes on offer, either way round */
    uint64_t flops_per_s;             /* one chip, dense bf16 */
    uint64_t mem_bytes_per_s;         /* one chip */
    uint64_t pcie_bytes_per_s;        /* chip to host, one way; 0: no multi-slice */
};

#define TERA UINT64_C(1000000000000)
#define GIGA UINT64_C(1000000000)

/* Peaks, memory, host tiles and PCIe rates: "How to Scale Your Model" (jax-ml/scaling-book,
 * tpus.md) and the Cloud TPU pages of each generation; the v2 line is unverified. v7x: PCIe Gen5 x8
 * is an assumption, no figure is published. Shapes on offer: Cloud TPU pages. */
static const struct generation generations[] = {
    {.name = "tpu-v2",
     .cut = CUT_FLAT,
     .host = {2, 2},
     .pod = {16, 16, 1},
     .pod_chips = 256,
     .flat = {{2, 2}, {4, 4}, {4, 8}, {8, 8}, {8, 16}, {16, 16}},
     .flops_per_s = 46 * TERA,
     .mem_bytes_per_s = 700 * GIGA},
    {.name = "tpu-v3",
     .cut = CUT_FLAT,
     .host = {4, 2},
     .pod = {32, 32, 1},
     .pod_chips = 1024,
     .flat = {{2, 2}, {4, 4}, {4, 8}, {8, 8}, {8, 16}, {16, 16}, {16, 32}, {32, 32}},
     .flops_per_s = 123 * TERA,
     .mem_bytes_per_s = 900 * GIGA},
    {.name = "tpu-v4",
     .cut = CUT_CUBES,
     .host = {2, 2},
     .pod_chips = 4096,
     .flops_per_s = 275 * TERA,
     .mem_bytes_per_s = 1200 * GIGA,
     .pcie_bytes_per_s = 16 * GIGA},
    {.name = "tpu-v5e",
     .cut = CUT_FLAT,
     .host = {4, 2},
     .pod = {16, 16, 1},
     .pod_chips = 256,
     .flat = {{1, 1}, {2, 2}, {2, 4}, {4, 4}, {4, 8}, {8, 8}, {8, 16}, {16, 16}},
     .flops_per_s = 197 * TERA,
     .mem_bytes_per_s = 819 * GIGA,
     .pcie_bytes_per_s = 16 * GIGA},
    {.name = "tpu-v5p",
     .cut = CUT_CUBES,
     .host = {2, 2},
     .pod_chips = 8960,
     .flops_per_s = 459 * TERA,
     .mem_bytes_per_s = 2765 * GIGA,
     .pcie_bytes_per_s = 16 * GIGA},
    {.name = "tpu-v6e",
     .cut = CUT_FLAT,
     .host = {4, 2},
     .pod = {16, 16, 1},
     .pod_chips = 256,
     .flat = {{1, 1}, {2, 2}, {2, 4}, {4, 4}, {4, 8}, {8, 8}, {8, 16}, {16, 16}},
     .flops_per_s = 918 * TERA,
     .mem_bytes_per_s = 1638 * GIGA,
     .pcie_bytes_per_s = 32 * GIGA},
    {.name = "tpu-v7x",
     .cut = CUT_CUBES,
     .host = {2, 2},
     .pod_chips = 9216,
     .flops_per_s = 2307 * TERA,
     .mem_bytes_per_s = 7380 * GIGA,
     .pcie_bytes_per_s = 32 * GIGA},
};

/* A slice as asked for, or several equal ones joined by the data centre network. */
struct slice {
    const struct generation *generation;
    uint32_t dims[AXES];
    uint32_t axis_count;
    bool wrap[AXES];
    uint32_t skew[3]; /* as struct tutti_routes: x moves y, x moves z, y moves z */
    uint32_t chips;   /* of one slice */
    uint32_t slices;
    uint64_t ici_bytes_per_s; /* one link, one way */
    uint64_t dcn_bytes_per_s; /* one chip */
    tutti_ps ici_latency_ps;
    tutti_ps dcn_latency_ps; /* host to host */
};

static const struct generation *generation_of(const char *preset)
{
    for (size_t i = 0; i < sizeof(generations) / sizeof(generations[0]); i++) {
        if (strcmp(generations[i].name, preset) == 0)
            return &generations[i];
    }
    return NULL;
}

static void refuse_flat(struct tutti_spec *spec, const struct slice *slice)
{
    const struct generation *generation = slice->generation;
    char shapes[128];
    size_t used = 0;

    for (uint32_t i = 0; i < FLAT_SHAPES_MAX && generation->flat[i][0] > 0; i++)
        used +=
            (size_t)snprintf(shapes + used, sizeof(shapes) - used, "%s%ux%u", i == 0 ? "" : ", ",
                             generation->flat[i][0], generation->flat[i][1]);
    assert(used < sizeof(shapes));
    tutti_spec_refuse(spec,
                      "no slice has the shape '%" PRIu32 "x%" PRIu32 "' (%s, either way "
                      "round)",
                      slice->dims[0], slice->dims[1], shapes);
}

/* Flat pods are cut into listed shapes; an axis is a ring only where it spans the whole pod. */
static void cut_flat(struct tutti_spec *spec, struct slice *slice)
{
    const struct generation *generation = slice->generation;
    bool found = false;

    for (uint32_t i = 0; i < FLAT_SHAPES_MAX; i++) {
        uint32_t a = generation->flat[i][0];
        uint32_t b = generation->flat[i][1];

        found = found || (slice->dims[0] == a && slice->dims[1] == b) ||
                (slice->dims[0] == b && slice->dims[1] == a);
    }
    if (!found)
        refuse_flat(spec, slice);
    for (uint32_t d = 0; d < 2; d++)
        slice->wrap[d] = slice->dims[d] == generation->pod[d];
}

static bool is_below_a_cube(const uint32_t *dims)
{
    static const uint8_t small[][AXES] = {{2, 2, 1}, {2, 2, 2}, {2, 2, 4}, {2, 4, 4}};
    bool found = false;

    for (size_t i = 0; i < sizeof(small) / sizeof(small[0]); i++)
        found =
            found || (dims[0] == small[i][0] && dims[1] == small[i][1] && dims[2] == small[i][2]);
    return found;
}

/* Cubes of 4x4x4 are joined, and their faces closed into rings, by optical switches; less than a
 * cube has no such face and stays a mesh. */
static void cut_cubes(struct tutti_spec *spec, struct slice *slice)
{
    const uint32_t *dims = slice->dims;
    bool cubes = dims[0] % CUBE == 0 && dims[1] % CUBE == 0 && dims[2] % CUBE == 0;

    if (!cubes && !is_below_a_cube(dims))
        tutti_spec_refuse(spec,
                          "no slice has the shape '%" PRIu32 "x%" PRIu32 "x%" PRIu32
                          "' (2x2x1, 2x2x2, 2x2x4, 2x4x4, or every axis a multiple of 4)",
                          dims[0], dims[1], dims[2]);
    if (slice->chips > slice->generation->pod_chips)
        tutti_spec_refuse(spec,
                          "a slice of %" PRIu32 " chips is larger than the pod (at most "
                          "%" PRIu32 "; slices=N joins several)",
                          slice->chips, slice->generation->pod_chips);
    for (uint32_t d = 0; d < AXES; d++)
        slice->wrap[d] = cubes;
}

/* The twist of n x n x 2n and n x 2n x 2n (Camara et al. 2010; Jouppi et al. 2023, section 2.8):
 * crossing the wrap of a short axis moves half way along every long one. */
static bool twist(struct slice *slice)
{
    const uint32_t *dims = slice->dims;
    uint32_t n = dims[0];

    if (slice->generation->cut != CUT_CUBES || n % CUBE != 0 || dims[2] != 2 * n)
        return false;
    if (dims[1] != n && dims[1] != 2 * n)
        return false;
    slice->skew[0] = dims[1] == n ? 0 : n;
    slice->skew[1] = n;
    slice->skew[2] = dims[1] == n ? n : 0;
    return true;
}

static void read_twist(struct tutti_spec *spec, struct slice *slice)
{
    const char *text;
    bool twisted;

    if (slice->generation->cut != CUT_CUBES)
        return;
    text = tutti_spec_given(spec, "twist") ? tutti_spec_text(spec, "twist") : "auto";
    if (strcmp(text, "off") == 0)
        return;
    twisted = twist(slice);
    if (strcmp(text, "on") == 0 && !twisted)
        tutti_spec_refuse(spec,
                          "the shape '%" PRIu32 "x%" PRIu32 "x%" PRIu32 "' has no twist "
                          "(n x n x 2n or n x 2n x 2n with n a multiple of 4)",
                          slice->dims[0], slice->dims[1], slice->dims[2]);
    else if (strcmp(text, "on") != 0 && strcmp(text, "auto") != 0)
        tutti_spec_refuse(spec, "wrong twist '%s' (auto, on or off)", text);
}

static void read_slice(struct tutti_spec *spec, struct slice *slice)
{
    const struct generation *generation = slice->generation;
    uint32_t axes = generation->cut == CUT_FLAT ? 2 : AXES;

    slice->dims[2] = 1;
    slice->axis_count = tutti_spec_dims(spec, axes, axes, slice->dims);
    slice->axis_count = axes;
    slice->chips = slice->dims[0] * slice->dims[1] * slice->dims[2];
    if (generation->cut == CUT_FLAT)
        cut_flat(spec, slice);
    else
        cut_cubes(spec, slice);
    read_twist(spec, slice);
    slice->ici_bytes_per_s = tutti_spec_rate(spec, "bw");
    slice->ici_latency_ps = tutti_spec_time(spec, "lat");
    slice->slices = 1;
    if (generation->pcie_bytes_per_s == 0)
        return;
    slice->slices = tutti_spec_count(spec, "slices", 1, 1 << 16);
    slice->dcn_bytes_per_s = tutti_spec_rate(spec, "dcnbw");
    slice->dcn_latency_ps = tutti_spec_time(spec, "dcnlat");
    tutti_spec_limit(spec, slice->chips, slice->slices);
}

static void coords_of(const struct slice *slice, uint32_t chip, uint32_t *at)
{
    for (uint32_t d = 0; d < AXES; d++) {
        at[d] = chip % slice->dims[d];
        chip /= slice->dims[d];
    }
}

static uint32_t chip_at(const struct slice *slice, const uint32_t *at)
{
    return at[0] + slice->dims[0] * (at[1] + slice->dims[1] * at[2]);
}

/* Chips of one host along axis d: 4x2 tiles lie the way that fits, 2x4 in a slice two wide. */
static uint32_t tile(const struct slice *slice, uint32_t d)
{
    uint32_t size = d < 2 ? slice->generation->host[d] : 1;

    if (d < 2 && slice->dims[0] % slice->generation->host[0] != 0)
        size = slice->generation->host[1 - d];
    return size < slice->dims[d] ? size : slice->dims[d];
}

static uint32_t host_of(const struct slice *slice, uint32_t chip)
{
    uint32_t at[AXES];
    uint32_t host = 0;

    coords_of(slice, chip, at);
    for (uint32_t d = AXES; d-- > 0;)
        host = host * (slice->dims[d] / tile(slice, d)) + at[d] / tile(slice, d);
    return host;
}

static uint32_t hosts_in(const struct slice *slice)
{
    return slice->chips / (tile(slice, 0) * tile(slice, 1));
}

/* The neighbour of `chip` one step up along axis d; false where the axis ends there. */
static bool next_chip(const struct slice *slice, uint32_t chip, uint32_t d, uint32_t *ret)
{
    uint32_t at[AXES];

    coords_of(slice, chip, at);
    at[d]++;
    if (at[d] == slice->dims[d]) {
        if (!slice->wrap[d])
            return false;
        at[d] = 0;
        if (d == 0) {
            at[1] = (at[1] + slice->skew[0]) % slice->dims[1];
            at[2] = (at[2] + slice->skew[1]) % slice->dims[2];
        } else if (d == 1) {
            at[2] = (at[2] + slice->skew[2]) % slice->dims[2];
        }
    }
    *ret = chip_at(slice, at);
    return *ret != chip;
}

static int add_chips(const struct slice *slice, struct tutti_topo_builder *builder,
                     struct tutti_err *err)
{
    int status = 0;

    for (uint32_t r = 0; status == 0 && r < slice->chips * slice->slices; r++) {
        char name[24];
        struct tutti_node node = {
            .name = name,
            .rank = r,
            .host = r / slice->chips * hosts_in(slice) + host_of(slice, r % slice->chips),
            .kind = TUTTI_NODE_DEVICE,
            .flops_per_s = slice->generation->flops_per_s,
            .mem_bytes_per_s = slice->generation->mem_bytes_per_s,
        };
        uint32_t index;

        snprintf(name, sizeof(name), "tpu%" PRIu32, r);
        status = tutti_topo_add_node(builder, &node, &index, err);
        assert(status < 0 || index == r);
    }
    return status;
}

static int add_ici(const struct slice *slice, uint32_t first, struct tutti_topo_builder *builder,
                   struct tutti_err *err)
{
    int status = 0;

    for (uint32_t chip = 0; status == 0 && chip < slice->chips; chip++) {
        for (uint32_t d = 0; status == 0 && d < slice->axis_count; d++) {
            struct tutti_link link = {.bytes_per_s = slice->ici_bytes_per_s,
                                      .latency_ps = slice->ici_latency_ps,
                                      .kind = TUTTI_LINK_ICI,
                                      .cable_count = 1};

            if (!next_chip(slice, chip, d, &link.to))
                continue;
            link.from = first + chip;
            link.to += first;
            status = tutti_topo_add_cable(builder, &link, err);
        }
    }
    return status;
}

/* One NIC a host, as fast as its chips' shares together, and one switch for the whole network: it
 * is taken as non-blocking, so only the hosts' own rates bind. */
static int add_dcn(const struct slice *slice, struct tutti_topo_builder *builder,
                   struct tutti_err *err)
{
    uint32_t host_count = hosts_in(slice) * slice->slices;
    uint32_t host_chips = slice->chips / hosts_in(slice);
    struct tutti_node dcn = {
        .name = "dcn", .rank = TUTTI_RANK_NONE, .host = UINT32_MAX, .kind = TUTTI_NODE_SWITCH};
    uint32_t dcn_index = 0;
    uint32_t nic_first = slice->chips * slice->slices;
    int status = 0;

    for (uint32_t host = 0; status == 0 && host < host_count; host++) {
        char name[24];
        struct tutti_node nic = {
            .name = name, .rank = TUTTI_RANK_NONE, .host = host, .kind = TUTTI_NODE_NIC};
        uint32_t index;

        snprintf(name, sizeof(name), "nic%" PRIu32, host);
        status = tutti_topo_add_node(builder, &nic, &index, err);
        assert(status < 0 || index == nic_first + host);
    }
    if (status == 0)
        status = tutti_topo_add_node(builder, &dcn, &dcn_index, err);
    for (uint32_t host = 0; status == 0 && host < host_count; host++) {
        struct tutti_link link = {.from = nic_first + host,
                                  .to = dcn_index,
                                  .bytes_per_s = slice->dcn_bytes_per_s * host_chips,
                                  .latency_ps = slice->dcn_latency_ps / 2,
                                  .kind = TUTTI_LINK_DCN,
                                  .cable_count = 1};

        status = tutti_topo_add_cable(builder, &link, err);
    }
    for (uint32_t r = 0; status == 0 && r < nic_first; r++) {
        uint32_t host = r / slice->chips * hosts_in(slice) + host_of(slice, r % slice->chips);
        struct tutti_link link = {.from = r,
                                  .to = nic_first + host,
                                  .bytes_per_s = slice->generation->pcie_bytes_per_s,
                                  .latency_ps = TUTTI_PS_PER_US, /* assumed: no figure published */
                                  .kind = TUTTI_LINK_PCIE,
                                  .cable_count = 1};

        status = tutti_topo_add_cable(builder, &link, err);
    }
    return status;
}

/* One slice is a grid; several are levels, because no axis of links joins them. */
static int set_shape(const struct slice *slice, struct tutti_topo_builder *builder,
                     struct tutti_err *err)
{
    struct tutti_shape shape = {.rank_count = slice->chips * slice->slices};

    if (slice->slices > 1) {
        shape.level_count = 2;
        shape.level[0] = slice->chips;
        shape.level[1] = slice->slices;
        return tutti_topo_set_shape(builder, &shape, err);
    }
    shape.dim_count = slice->axis_count;
    for (uint32_t d = 0; d < slice->axis_count; d++) {
        shape.dim[d] = slice->dims[d];
        shape.wrap[d] = slice->wrap[d];
    }
    return tutti_topo_set_shape(builder, &shape, err);
}

int tutti_preset_tpu(struct tutti_spec *spec, struct tutti_topo_builder *builder,
                     struct tutti_err *err)
{
    struct slice slice = {.generation = generation_of(tutti_spec_preset(spec))};
    struct tutti_routes routes = {.kind = TUTTI_ROUTES_GRID};
    int status;

    assert(slice.generation != NULL);
    read_slice(spec, &slice);
    status = tutti_spec_status(spec, err);
    if (status == 0) /* two ways an axis and to the NIC, and a NIC a chip at most */
        status =
            tutti_topo_expect(builder, 2 * (uint64_t)slice.chips * slice.slices,
                              2 * (uint64_t)slice.chips * slice.slices * slice.axis_count +
                                  (slice.slices > 1 ? 4 : 0) * (uint64_t)slice.chips * slice.slices,
                              err);
    if (status == 0)
        status = add_chips(&slice, builder, err);
    for (uint32_t s = 0; status == 0 && s < slice.slices; s++)
        status = add_ici(&slice, s * slice.chips, builder, err);
    if (status == 0 && slice.slices > 1)
        status = add_dcn(&slice, builder, err);
    if (status == 0)
        status = set_shape(&slice, builder, err);
    if (status < 0 || slice.slices > 1)
        return status;
    for (uint32_t i = 0; i < 3; i++)
        routes.args[i] = slice.skew[i];
    tutti_topo_set_routes(builder, &routes);
    return 0;
}
