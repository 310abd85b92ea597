/* This machine as nodes and links: a rank a GPU, several on one, or a rank a core; see local.h. */
#include "topo/local.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "topo/hardware/graph.h"
#include "topo/local/scan.h"
#include "topo/presets/models.h"
#include "topo/topo.h"

#define GIGA UINT64_C(1000000000)

enum { RANKS_MAX = 1 << 16, SOURCE_BYTES = TUTTI_SCAN_NOTES_BYTES + 256 };

/* Round numbers, of no data sheet: 'calibrate -B threads' measures what a core moves. */
static const uint64_t core_bytes_per_s = 10 * GIGA;
static const tutti_ps core_ps = 50 * TUTTI_PS_PER_NS;
/* A GPU's memory where its name is not known; a message between two blocks of threads of a GPU
 * (traces/measured/h200/costs.tsv: 0.34 to 1.13 us). */
static const uint64_t memory_bytes_per_s = 1000 * GIGA;
static const tutti_ps block_ps = 500 * TUTTI_PS_PER_NS;

void tutti_scan_note(struct tutti_scan *scan, const char *format, ...)
{
    size_t used = strlen(scan->notes);
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(scan->notes + used, sizeof(scan->notes) - used, format, arguments);
    va_end(arguments);
}

static int scan_all(struct tutti_scan *scan)
{
    int status = tutti_scan_cpus(scan);

    if (status == 0)
        status = tutti_scan_gpus(scan);
    if (status == 0)
        status = tutti_scan_ports(scan);
    if (status == 0)
        status = tutti_scan_pcis(scan);
    if (status == 0)
        status = tutti_scan_parts(scan);
    return status < 0 ? status : tutti_facts_status(scan->facts, scan->err);
}

/* ---- a rank a GPU -------------------------------------------------------------------------- */

static int build_gpus(struct tutti_scan *scan, uint32_t rank_count,
                      struct tutti_topo_builder *builder)
{
    struct tutti_hardware whole = tutti_hw_builder_view(&scan->hw);
    const struct tutti_hardware *hw = &whole;
    const char **names;
    int status = tutti_hardware_check(hw, scan->err);

    if (status == 0 && rank_count > 0 && rank_count < scan->gpu_count)
        status = tutti_hardware_keep(scan->arena, &whole, rank_count, &hw, scan->err);
    if (status < 0)
        return status;
    names = tutti_arena_take(scan->arena, hw->gpu_count, sizeof(*names));
    if (names == NULL)
        return tutti_nomem(scan->err);
    for (uint32_t g = 0; g < hw->gpu_count; g++)
        names[g] = scan->gpu_names[hw->gpus[g].dev];
    status = tutti_hw_graph(builder, hw, names, NULL, scan->err);
    if (status == 0)
        status = tutti_topo_set_hardware(builder, hw, scan->err);
    return status;
}

/* ---- several on one GPU -------------------------------------------------------------------- */

static int add_node(struct tutti_topo_builder *builder, enum tutti_node_kind kind, const char *stem,
                    uint32_t number, uint64_t mem_bytes_per_s, uint32_t *ret, struct tutti_err *err)
{
    char name[TUTTI_NODE_NAME_BYTES];
    const struct tutti_node node = {.name = name,
                                    .rank = kind == TUTTI_NODE_DEVICE ? number : TUTTI_RANK_NONE,
                                    .kind = (uint8_t)kind,
                                    .mem_bytes_per_s = mem_bytes_per_s};

    (void)snprintf(name, sizeof(name), "%s%" PRIu32, stem, number);
    return tutti_topo_add_node(builder, &node, ret, err);
}

/* What goes from any rank to any other is read from memory and written there, so that all of it
 * shares one link of half the memory's rate. */
static int build_virtual(struct tutti_scan *scan, uint32_t rank_count,
                         struct tutti_topo_builder *builder)
{
    const struct tutti_gpu_model *model = tutti_gpu_model_of_device(scan->gpu_names[0]);
    uint64_t rate = model != NULL && model->mem_mbyte_per_s > 0
                        ? model->mem_mbyte_per_s * (GIGA / 1000)
                        : memory_bytes_per_s;
    struct tutti_link link = {
        .bytes_per_s = rate / 2, .kind = TUTTI_LINK_GENERIC, .cable_count = 1};
    uint32_t ends[2] = {0, 0};
    uint32_t rank = 0;
    int status = 0;

    if (model == NULL)
        tutti_scan_note(scan, "; its memory is not in the catalogue: 1TB/s assumed");
    for (uint32_t e = 0; e < 2 && status == 0; e++)
        status = add_node(builder, TUTTI_NODE_SWITCH, e == 0 ? "read" : "write", 0, 0, &ends[e],
                          scan->err);
    link.from = ends[0];
    link.to = ends[1];
    link.latency_ps = block_ps;
    if (status == 0)
        status = tutti_topo_add_link(builder, &link, scan->err);
    link.latency_ps = 0;
    for (uint32_t r = 0; r < rank_count && status == 0; r++) {
        status = add_node(builder, TUTTI_NODE_DEVICE, "rank", r, rate, &rank, scan->err);
        link.from = rank;
        link.to = ends[0];
        if (status == 0)
            status = tutti_topo_add_link(builder, &link, scan->err);
        link.from = ends[1];
        link.to = rank;
        if (status == 0)
            status = tutti_topo_add_link(builder, &link, scan->err);
    }
    return status;
}

/* ---- a rank a core ------------------------------------------------------------------------- */

static uint32_t count_cores(const struct tutti_scan *scan)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < scan->node_count; n++)
        count += scan->core_counts[n];
    return count;
}

/* The first of each NUMA node in order. */
static int build_cores(struct tutti_scan *scan, uint32_t rank_count,
                       struct tutti_topo_builder *builder)
{
    const struct tutti_hardware hw = tutti_hw_builder_view(&scan->hw);
    uint32_t *cpus = tutti_arena_take(scan->arena, hw.cpu_count, sizeof(*cpus));
    uint32_t rank = 0;
    struct tutti_link link = {.bytes_per_s = core_bytes_per_s,
                              .latency_ps = core_ps,
                              .kind = TUTTI_LINK_GENERIC,
                              .cable_count = 1};
    int status =
        cpus == NULL ? tutti_nomem(scan->err) : tutti_hw_graph(builder, &hw, NULL, cpus, scan->err);

    for (uint32_t n = 0; n < scan->node_count && status == 0; n++) {
        for (uint32_t c = 0; c < scan->core_counts[n] && status == 0; c++) {
            if (rank == (rank_count > 0 ? rank_count : UINT32_MAX))
                break;
            status = add_node(builder, TUTTI_NODE_DEVICE, "core", rank, 0, &link.from, scan->err);
            link.to = cpus[n];
            if (status == 0)
                status = tutti_topo_add_cable(builder, &link, scan->err);
            rank++;
        }
    }
    return status;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static int check_ranks(const struct tutti_scan *scan, uint32_t rank_count)
{
    uint32_t cores = count_cores(scan);

    if (rank_count > RANKS_MAX)
        return tutti_fail(scan->err, TUTTI_EINVAL, "%" PRIu32 " ranks (at most %d)", rank_count,
                          RANKS_MAX);
    if (scan->gpu_count > 1 && rank_count > scan->gpu_count)
        return tutti_fail(scan->err, TUTTI_EINVAL,
                          "%" PRIu32 " ranks on %" PRIu32
                          " GPUs (at most one each; several where there is one GPU)",
                          rank_count, scan->gpu_count);
    if (scan->gpu_count == 0 && rank_count > cores)
        return tutti_fail(scan->err, TUTTI_EINVAL,
                          "%" PRIu32 " ranks on %" PRIu32
                          " cores, without a GPU (at most one each)",
                          rank_count, cores);
    return 0;
}

static int set_title(struct tutti_scan *scan, uint32_t rank_count,
                     struct tutti_topo_builder *builder)
{
    const char *driver = tutti_facts_look(scan->facts, "nvml/driver");
    char source[SOURCE_BYTES];

    if (scan->gpu_count == 0)
        (void)snprintf(
            source, sizeof(source),
            "sysfs; no GPU of NVIDIA: a rank a core, 10GB/s a core to memory assumed "
            "('calibrate -B threads' measures); between CPUs NCCL 2.28 topo.h; latencies "
            "assumed%s",
            scan->notes);
    else if (rank_count > scan->gpu_count)
        (void)snprintf(source, sizeof(source),
                       "sysfs and NVML, driver %s; virtual ranks of one %s: a message is read and "
                       "written in its memory once, at the rate of its data sheet; latencies as "
                       "measured on an H200%s",
                       driver != NULL ? driver : "unknown", scan->gpu_names[0], scan->notes);
    else
        (void)snprintf(source, sizeof(source),
                       "sysfs and NVML, driver %s; rates a link: data sheets, between CPUs NCCL "
                       "2.28 topo.h; latencies assumed%s",
                       driver != NULL ? driver : "unknown", scan->notes);
    return tutti_topo_set_title(builder, NULL, source, scan->err);
}

static int build(struct tutti_scan *scan, const char *name, uint32_t rank_count,
                 struct tutti_topo **ret)
{
    struct tutti_topo_builder *builder = NULL;
    int status = check_ranks(scan, rank_count);

    if (status == 0)
        status = tutti_topo_builder_new(name, "sysfs", &builder, scan->err);
    if (status < 0)
        return status;
    if (scan->gpu_count == 0)
        status = build_cores(scan, rank_count, builder);
    else if (rank_count > scan->gpu_count)
        status = build_virtual(scan, rank_count, builder);
    else
        status = build_gpus(scan, rank_count, builder);
    if (status == 0 && rank_count <= (scan->gpu_count > 0 ? scan->gpu_count : RANKS_MAX))
        tutti_topo_set_net_kind(builder, scan->net_kind);
    if (status == 0)
        status = set_title(scan, rank_count, builder);
    if (status < 0) {
        tutti_topo_builder_free(builder);
        return status;
    }
    return tutti_topo_freeze(builder, ret, scan->err);
}

int tutti_topo_of_facts(struct tutti_facts *facts, const char *name, uint32_t rank_count,
                        struct tutti_topo **ret, struct tutti_err *err)
{
    struct tutti_scan scan = {.facts = facts, .arena = tutti_arena_new(), .err = err};
    int status = scan.arena == NULL ? tutti_nomem(err) : scan_all(&scan);

    if (status == 0)
        status = build(&scan, name, rank_count, ret);
    tutti_hw_builder_done(&scan.hw);
    tutti_arena_free(scan.arena);
    free(scan.places);
    return status < 0 ? tutti_wrap(err, status, "%s", name) : 0;
}
