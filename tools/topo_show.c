/* tutti topo show: what a machine is: devices, links, ring orders, bisection; and its picture. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "tools/cli/files.h"
#include "tools/cli/machine.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/cli/perturb.h"
#include "tools/cli/shared_options.h"
#include "tools/commands.h"
#include "tools/options.h"
#include "tools/sweep/sweep.h"
#include "topo/accelerator.h"
#include "topo/describe.h"
#include "topo/local.h"
#include "topo/topo.h"

static const struct tutti_column node_columns[] = {
    {"kind", "nodes", "", TUTTI_CELL_TEXT},
    {"count", "count", "", TUTTI_CELL_COUNT},
    {"peak_TFLOPps", "bf16 peak", "TFLOP/s", TUTTI_CELL_NUMBER},
    {"memory_GBps", "memory", "GB/s", TUTTI_CELL_NUMBER},
    {"reduces", "reduces", "", TUTTI_CELL_BOOL},
    {"first", "first", "", TUTTI_CELL_TEXT},
};

/* Of a group of links alike; `links` counts directions, so a cable is two. */
static const struct tutti_column group_columns[] = {
    {"kind", "links", "", TUTTI_CELL_TEXT},
    {"from", "from", "", TUTTI_CELL_TEXT},
    {"to", "to", "", TUTTI_CELL_TEXT},
    {"rate_GBps", "rate", "GB/s", TUTTI_CELL_NUMBER},
    {"latency_us", "latency", "us", TUTTI_CELL_NUMBER},
    {"cables", "cables", "each", TUTTI_CELL_COUNT},
    {"links", "count", "one way", TUTTI_CELL_COUNT},
    {"first", "first", "", TUTTI_CELL_TEXT},
    {"burst_bytes", "burst", "bytes", TUTTI_CELL_COUNT},
};

static const struct tutti_column link_columns[] = {
    {"from", "from", "", TUTTI_CELL_TEXT},
    {"to", "to", "", TUTTI_CELL_TEXT},
    {"kind", "kind", "", TUTTI_CELL_TEXT},
    {"rate_GBps", "rate", "GB/s", TUTTI_CELL_NUMBER},
    {"latency_us", "latency", "us", TUTTI_CELL_NUMBER},
    {"cables", "cables", "", TUTTI_CELL_COUNT},
    {"burst_bytes", "burst", "bytes", TUTTI_CELL_COUNT},
};

#define TABLE_NEW(columns) tutti_table_new(columns, sizeof(columns) / sizeof((columns)[0]))
/* Without the last column where no link has a token bucket. */
#define LINK_TABLE_NEW(columns, topo) \
    tutti_table_new(columns, sizeof(columns) / sizeof((columns)[0]) - ((topo)->has_bursts ? 0 : 1))

/* All that is shown. */
struct show {
    const struct tutti_topo *topo;
    struct tutti_perturb perturb;
    uint64_t seed;
    struct tutti_description description;
    struct tutti_table *nodes;
    struct tutti_table *groups;
    struct tutti_table *links; /* NULL: not asked for */
};

static double gigabytes(uint64_t bytes_per_s)
{
    return (double)bytes_per_s / 1e9;
}

static double microseconds(tutti_ps ps)
{
    return (double)ps / (double)TUTTI_PS_PER_US;
}

static const char *kind_of(const struct tutti_topo *topo, uint32_t node)
{
    return tutti_node_kind_name((enum tutti_node_kind)tutti_topo_node(topo, node).kind);
}

static int fill_nodes(struct show *show)
{
    int status = 0;

    for (uint32_t g = 0; g < show->description.node_group_count && status == 0; g++) {
        uint32_t v = show->description.node_groups[g].first;
        struct tutti_node node = tutti_topo_node(show->topo, v);
        char name[TUTTI_NODE_NAME_BYTES];

        status = tutti_table_add(show->nodes, tutti_node_kind_name((enum tutti_node_kind)node.kind),
                                 (uint64_t)show->description.node_groups[g].count,
                                 node.flops_per_s > 0 ? (double)node.flops_per_s / 1e12 : NAN,
                                 node.mem_bytes_per_s > 0 ? gigabytes(node.mem_bytes_per_s) : NAN,
                                 (int)node.reduces, tutti_topo_node_name(show->topo, v, name));
    }
    return status;
}

static int fill_groups(struct show *show)
{
    const struct tutti_topo *topo = show->topo;
    int status = 0;

    for (uint32_t g = 0; g < show->description.link_group_count && status == 0; g++) {
        struct tutti_link link = tutti_topo_link(topo, show->description.link_groups[g].first);
        char from[TUTTI_NODE_NAME_BYTES];
        char to[TUTTI_NODE_NAME_BYTES];
        char first[160];

        (void)snprintf(first, sizeof(first), "%s -> %s",
                       tutti_topo_node_name(topo, link.from, from),
                       tutti_topo_node_name(topo, link.to, to));
        status = tutti_table_add(
            show->groups, tutti_link_kind_name((enum tutti_link_kind)link.kind),
            kind_of(topo, link.from), kind_of(topo, link.to), gigabytes(link.bytes_per_s),
            microseconds(link.latency_ps), (uint64_t)link.cable_count,
            (uint64_t)show->description.link_groups[g].count, first, (uint64_t)link.burst_bytes);
    }
    return status;
}

static int fill_links(struct show *show)
{
    const struct tutti_topo *topo = show->topo;
    int status = 0;

    for (uint32_t l = 0; l < topo->link_count && show->links != NULL && status == 0; l++) {
        struct tutti_link link = tutti_topo_link(topo, l);
        char from[TUTTI_NODE_NAME_BYTES];
        char to[TUTTI_NODE_NAME_BYTES];

        status = tutti_table_add(show->links, tutti_topo_node_name(topo, link.from, from),
                                 tutti_topo_node_name(topo, link.to, to),
                                 tutti_link_kind_name((enum tutti_link_kind)link.kind),
                                 gigabytes(link.bytes_per_s), microseconds(link.latency_ps),
                                 (uint64_t)link.cable_count, (uint64_t)link.burst_bytes);
    }
    return status;
}

/* ---- for people ------------------------------------------------------------------------------ */

static void print_shape(const struct tutti_topo *topo, bool assumed, FILE *out)
{
    const struct tutti_shape *shape = &topo->shape;

    fprintf(out, "# machine:   %s: %" PRIu32 " rank%s", topo->name, topo->rank_count,
            topo->rank_count == 1 ? "" : "s");
    if (topo->host_count > 0)
        fprintf(out, " on %" PRIu32 " host%s", topo->host_count, topo->host_count == 1 ? "" : "s");
    for (uint32_t i = 0; i < shape->level_count && shape->level_count > 1; i++)
        fprintf(out, "%s%" PRIu32, i == 0 ? ", levels " : "x", shape->level[i]);
    for (uint32_t i = 0; i < shape->dim_count; i++)
        fprintf(out, "%s%" PRIu32 "%s", i == 0 ? ", grid " : "x", shape->dim[i],
                shape->wrap[i] ? " ring" : "");
    if (assumed)
        tutti_sweep_print_assumed(topo->source, out);
    fputc('\n', out);
}

/* What a device holds and does, where it is known: "v100: 15.8GiB; peak TFLOP/s: fp32 15.7, ...".
 */
static void print_device(const struct tutti_topo *topo, FILE *out)
{
    const struct tutti_accelerator *device = tutti_topo_accelerator(topo);
    const char *before = "; peak TFLOP/s:";

    if (device == NULL)
        return;
    fprintf(out, "# device:    %s: %.1fGiB", device->name, (double)device->mem_bytes / 0x1p30);
    for (int p = 0; p < TUTTI_PRECISION_COUNT; p++) {
        if (device->flops_per_s[p] == 0)
            continue;
        fprintf(out, "%s %s %.5g", before, tutti_precision_name((enum tutti_precision)p),
                (double)device->flops_per_s[p] / 1e12);
        before = ",";
    }
    if (device->watts > 0)
        fprintf(out, "; %" PRIu32 "W", device->watts);
    fputc('\n', out);
}

static void print_range(const char *who, uint64_t min, uint64_t max, FILE *out)
{
    char a[TUTTI_UNIT_TEXT_BYTES];
    char b[TUTTI_UNIT_TEXT_BYTES];

    fprintf(out, "; %s %s out", who, tutti_print_rate(max, b));
    if (min != max)
        fprintf(out, " (the poorest: %s)", tutti_print_rate(min, a));
}

/* What it can move, and how far it is across: "400GB/s one way; a rank 513GB/s out; ...". */
static void print_reach(const struct show *show, FILE *out)
{
    const struct tutti_description *d = &show->description;
    char text[TUTTI_UNIT_TEXT_BYTES];

    if (show->topo->rank_count <= 1)
        return;
    fprintf(out, "# bisection: %s one way", tutti_print_rate(d->bisection_bytes_per_s, text));
    print_range("a rank", d->rank_out_min, d->rank_out_max, out);
    if (d->host_out_max > 0)
        print_range("a host", d->host_out_min, d->host_out_max, out);
    if (d->far_ps > 0)
        fprintf(out, "; farthest: %" PRIu32 " to %" PRIu32 ", %s", d->far_from, d->far_to,
                tutti_print_time(d->far_ps, text));
    fputc('\n', out);
}

/* A line a ring; of long ones the beginning. */
static void print_orders(const struct tutti_topo *topo, FILE *out)
{
    enum { SHOWN_MAX = 24, RINGS_MAX = 16 };
    const struct tutti_shape *shape = &topo->shape;
    uint32_t shown = topo->rank_count < SHOWN_MAX ? topo->rank_count : SHOWN_MAX;

    for (uint32_t o = 0; o < (shape->order_count > 0 ? shape->order_count : 1); o++) {
        if (o == RINGS_MAX) {
            fprintf(out, "#            and %" PRIu32 " more rings\n",
                    shape->order_count - RINGS_MAX);
            break;
        }
        fprintf(out, "# ring %-5" PRIu32, o);
        for (uint32_t i = 0; i < shown; i++)
            fprintf(out, " %" PRIu32,
                    shape->order_count > 0 ? shape->orders[(size_t)o * topo->rank_count + i] : i);
        fprintf(out, "%s%s\n", shown < topo->rank_count ? " ..." : "",
                shape->order_count > 0 ? "" : " (as numbered)");
    }
}

static void print_text(const struct show *show, const struct tutti_page *page)
{
    const struct tutti_topo *topo = show->topo;
    const struct tutti_description *d = &show->description;
    FILE *out = page->out;

    fprintf(out, "# tutti %s topo show\n", TUTTI_BUILD_VERSION);
    print_shape(topo, !page->verbose, out);
    if (page->verbose)
        fprintf(out, "# figures:   %s\n", topo->source);
    print_device(topo, out);
    tutti_perturb_print(&show->perturb, show->seed, "# perturb:   ", out);
    print_reach(show, out);
    if (page->verbose)
        print_orders(topo, out);
    tutti_table_print(show->nodes, page);
    tutti_table_print(show->links != NULL ? show->links : show->groups, page);
    if (d->link_more > 0 && show->links == NULL)
        fprintf(out, "# and %" PRIu32 " links of other kinds (--links lists all)\n", d->link_more);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void json_shape(const struct tutti_topo *topo, struct tutti_json *json)
{
    const struct tutti_shape *shape = &topo->shape;

    tutti_json_open(json, "levels", '[');
    for (uint32_t i = 0; i < shape->level_count; i++)
        tutti_json_count(json, NULL, shape->level[i]);
    tutti_json_close(json);
    tutti_json_open(json, "dims", '[');
    for (uint32_t i = 0; i < shape->dim_count; i++) {
        tutti_json_open(json, NULL, '{');
        tutti_json_count(json, "size", shape->dim[i]);
        tutti_json_bool(json, "ring", shape->wrap[i]);
        tutti_json_close(json);
    }
    tutti_json_close(json);
    tutti_json_open(json, "orders", '[');
    for (uint32_t o = 0; o < shape->order_count; o++) {
        tutti_json_open(json, NULL, '[');
        for (uint32_t i = 0; i < topo->rank_count; i++)
            tutti_json_count(json, NULL, shape->orders[(size_t)o * topo->rank_count + i]);
        tutti_json_close(json);
    }
    tutti_json_close(json);
}

static double number_or_none(uint32_t number)
{
    return number > 0 ? (double)number : (double)NAN;
}

/* null where it is not known; so is what is not in hardware or not published. */
static void json_device(const struct tutti_topo *topo, struct tutti_json *json)
{
    const struct tutti_accelerator *device = tutti_topo_accelerator(topo);

    if (device == NULL) {
        tutti_json_text(json, "device", NULL);
        return;
    }
    tutti_json_open(json, "device", '{');
    tutti_json_text(json, "name", device->name);
    tutti_json_count(json, "memory_bytes", device->mem_bytes);
    tutti_json_open(json, "peak_TFLOPps", '{');
    for (int p = 0; p < TUTTI_PRECISION_COUNT; p++)
        tutti_json_number(json, tutti_precision_name((enum tutti_precision)p),
                          device->flops_per_s[p] > 0 ? (double)device->flops_per_s[p] / 1e12 : NAN);
    tutti_json_close(json);
    tutti_json_number(json, "units", number_or_none(device->units));
    tutti_json_number(json, "clock_MHz", number_or_none(device->clock_mhz));
    tutti_json_number(json, "watts", number_or_none(device->watts));
    tutti_json_text(json, "source", device->source);
    tutti_json_close(json);
}

static void print_json(const struct show *show, struct tutti_sink *sink)
{
    const struct tutti_topo *topo = show->topo;
    const struct tutti_description *d = &show->description;
    struct tutti_json json = {.out = sink->out};

    tutti_json_open(&json, NULL, '{');
    tutti_json_text(&json, "tutti", TUTTI_BUILD_VERSION);
    tutti_json_open(&json, "topology", '{');
    tutti_json_text(&json, "name", topo->name);
    tutti_json_text(&json, "source", topo->source);
    tutti_json_count(&json, "ranks", topo->rank_count);
    tutti_json_count(&json, "hosts", topo->host_count);
    tutti_json_count(&json, "nodes", topo->node_count);
    tutti_json_count(&json, "links", topo->link_count);
    tutti_json_number(&json, "bisection_GBps", gigabytes(d->bisection_bytes_per_s));
    tutti_json_number(&json, "rank_out_min_GBps", gigabytes(d->rank_out_min));
    tutti_json_number(&json, "rank_out_max_GBps", gigabytes(d->rank_out_max));
    tutti_json_number(&json, "host_out_min_GBps", gigabytes(d->host_out_min));
    tutti_json_number(&json, "host_out_max_GBps", gigabytes(d->host_out_max));
    tutti_json_number(&json, "farthest_us", microseconds(d->far_ps));
    tutti_json_count(&json, "farthest_from", d->far_from);
    tutti_json_count(&json, "farthest_to", d->far_to);
    json_shape(topo, &json);
    tutti_json_close(&json);
    json_device(topo, &json);
    tutti_perturb_json(&show->perturb, show->seed, &json);
    tutti_table_json(show->nodes, "node_kinds", &json);
    tutti_table_json(show->groups, "link_kinds", &json);
    tutti_json_count(&json, "links_of_other_kinds", d->link_more);
    if (show->links != NULL)
        tutti_table_json(show->links, "links", &json);
    tutti_json_close(&json);
}

static int print(const struct tutti_args *args, struct show *show, struct tutti_sink *sink,
                 struct tutti_err *err)
{
    struct tutti_page page;
    int status = 0;

    show->nodes = TABLE_NEW(node_columns);
    show->groups = LINK_TABLE_NEW(group_columns, show->topo);
    show->links = tutti_args_flag(args, "links") ? LINK_TABLE_NEW(link_columns, show->topo) : NULL;
    if (show->nodes == NULL || show->groups == NULL ||
        (tutti_args_flag(args, "links") && show->links == NULL))
        status = -TUTTI_ENOMEM;
    if (status == 0)
        status = fill_nodes(show);
    if (status == 0)
        status = fill_groups(show);
    if (status == 0)
        status = fill_links(show);
    if (status < 0)
        tutti_nomem(err);
    else if (tutti_args_is(args, "format", "json"))
        print_json(show, sink);
    else if (tutti_args_is(args, "format", "csv"))
        tutti_table_csv(show->links != NULL ? show->links : show->groups, sink->out);
    else if (tutti_page_open(&page, sink, err) == 0) {
        print_text(show, &page);
        status = tutti_page_close(&page, 0, err);
    } else {
        status = -TUTTI_ENOMEM;
    }
    tutti_table_free(show->nodes);
    tutti_table_free(show->groups);
    tutti_table_free(show->links);
    return status;
}

static int draw(const struct tutti_topo *topo, const char *path, struct tutti_sink *sink,
                struct tutti_err *err)
{
    char *text = NULL;
    int status = tutti_topo_svg(topo, &text, err);

    if (status == 0)
        status = tutti_file_write(path, text, strlen(text), sink, err);
    free(text);
    return status < 0 ? tutti_wrap(err, status, "option '--svg'") : 0;
}

static int save(const struct tutti_topo *topo, const char *path, struct tutti_sink *sink,
                struct tutti_err *err)
{
    char *text = NULL;
    int status = tutti_topo_print(topo, &text, err);

    if (status == 0)
        status = tutti_file_write(path, text, strlen(text), sink, err);
    free(text);
    return status < 0 ? tutti_wrap(err, status, "option '--output'") : 0;
}

/* What was read of this machine, beside what was made of it. */
static int load(const struct tutti_args *args, struct tutti_topo **ret, struct tutti_sink *sink,
                struct tutti_err *err)
{
    const char *spec = tutti_args_operand(args, 0);
    const char *path = tutti_args_text(args, "facts");
    struct tutti_facts *facts = NULL;
    char *text = NULL;
    int status;

    if (path == NULL)
        return tutti_machine_load(spec, (uint32_t)tutti_args_number(args, "nodes"), ret, err);
    if (strncmp(spec, "local", 5) != 0 || (spec[5] != '\0' && spec[5] != ':'))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--facts' is for this machine, not for '%s' (local)", spec);
    status = tutti_machine_load_local(spec, &facts, ret, err);
    if (status == 0)
        status = tutti_facts_print(facts, &text, err);
    if (status == 0) {
        status = tutti_file_write(path, text, strlen(text), sink, err);
        if (status < 0)
            (void)tutti_wrap(err, status, "option '--facts'");
    }
    free(text);
    tutti_facts_free(facts);
    return status;
}

int tutti_command_topo_show(const struct tutti_args *args, struct tutti_sink *sink,
                            struct tutti_err *err)
{
    const char *svg = tutti_args_text(args, "svg");
    const char *output = tutti_args_text(args, "output");
    bool quiet =
        (svg != NULL && strcmp(svg, "-") == 0) || (output != NULL && strcmp(output, "-") == 0);
    struct tutti_topo *topo = NULL;
    struct show show = {.seed = tutti_args_number(args, "seed")};
    int status = tutti_perturb_read(args, false, &show.perturb, err);

    if (status == 0 && svg != NULL) {
        status = tutti_file_check_target(svg, err);
        if (status < 0)
            (void)tutti_wrap(err, status, "option '--svg'");
    }
    if (status == 0)
        status = load(args, &topo, sink, err);
    if (status == 0)
        status = tutti_perturb_machine(topo, &show.perturb, show.seed, err);
    if (status == 0)
        status = tutti_topo_describe(topo, &show.description, err);
    if (status == 0 && output != NULL)
        status = save(topo, output, sink, err);
    if (status == 0 && svg != NULL)
        status = draw(topo, svg, sink, err);
    show.topo = topo;
    if (status == 0 && !quiet)
        status = print(args, &show, sink, err);
    tutti_topo_free(topo);
    return status;
}

static const struct tutti_option options[] = {
    {.name = "links", .type = TUTTI_OPTION_FLAG, .help = "list every link, not only their kinds"},
    {.name = "svg",
     .type = TUTTI_OPTION_TEXT,
     .value = "FILE",
     .help = "draw the machine as well; - draws it to standard output, and nothing else"},
    {.letter = 'O',
     .name = "output",
     .type = TUTTI_OPTION_TEXT,
     .value = "FILE",
     .help = "save it as Tutti's own text, which all commands take as their SPEC; - writes that to "
             "standard output, and nothing else"},
    {.name = "facts",
     .type = TUTTI_OPTION_TEXT,
     .value = "FILE",
     .help = "of local: save what was read of this machine, to look at elsewhere: FILE is a SPEC"},
    TUTTI_OPTION_PERTURB,
    TUTTI_OPTION_PERTURB_SEED,
    TUTTI_OPTION_NODES,
    TUTTI_OPTIONS_OUTPUT,
};

const struct tutti_command tutti_cli_topo_show = {
    .name = "topo show",
    .summary = "what a machine is: devices, links, ring orders, bisection; draws it",
    .operands = "SPEC",
    .operand_min = 1,
    .operand_max = 1,
    .text =
        "Prints what a machine is made of and what it can carry: its devices and switches, its "
        "links by kind with rate and latency (one way: a cable is two links), the ring "
        "orders of its ranks, its bisection, and the most that a rank or a host can send. "
        "SPEC is a preset ('tutti topo list' shows them), or a file: NCCL topology XML or "
        "Tutti's own text; or local: this machine.\n\n"
        "local reads what the kernel tells of processors, NUMA nodes, PCI and network ports "
        "(sysfs), and what NVIDIA's driver tells of its GPUs and their NVLinks (NVML): a rank a "
        "GPU, as in NCCL's topology of this machine, which NCCL_TOPO_DUMP_FILE writes and this "
        "command shows as well; without a GPU a rank a core. local:ranks=N takes the first N; "
        "where there is one GPU, so many virtual ranks on it, as 'run -B cuda' plays them. What "
        "is not known is said where the machine's figures come from (--verbose). All devices "
        "count, whatever CUDA_VISIBLE_DEVICES says. TUTTI_LOCAL_ROOT names another folder that "
        "sys/ and proc/ lie in, TUTTI_NVML_LIBRARY another libnvidia-ml.so.1.\n\n"
        "With --format csv the links are printed, by kind or, with --links, all of "
        "them." TUTTI_PERTURB_TEXT TUTTI_PERTURB_RULES_TEXT,
    .examples = "tutti topo show dgx-1v\n"
                "tutti topo show dgx-h100:nodes=4 --svg cluster.svg\n"
                "tutti topo show local -O here.topo --facts here.facts\n"
                "tutti topo show tpu-v4:4x4x8 --format json\n"
                "tutti topo show ring:n=8 --links --perturb latency=1..1.2",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_topo_show,
};
