/* tutti explain: what NCCL would run on a machine, how it cuts it, and why. */
#include "tools/explain.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "build.h"
#include "tools/cli/machine.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/cli/shared_options.h"
#include "tools/commands.h"
#include "tools/sweep/sweep.h"

static const struct tutti_column columns[] = {
    {"bytes", "size", "B", TUTTI_CELL_COUNT},
    {"count", "count", "elements", TUTTI_CELL_COUNT},
    {"algorithm", "algorithm", "", TUTTI_CELL_TEXT},
    {"protocol", "protocol", "", TUTTI_CELL_TEXT},
    {"time_us", "time", "us", TUTTI_CELL_NUMBER},
    {"latency_us", "latency", "us", TUTTI_CELL_NUMBER},
    {"algbw_GBps", "algbw", "GB/s", TUTTI_CELL_NUMBER},
    {"channels", "channels", "", TUTTI_CELL_COUNT},
    {"channels_allowed", "allowed", "", TUTTI_CELL_COUNT},
    {"threads", "threads", "", TUTTI_CELL_COUNT},
    {"count_first", NULL, "", TUTTI_CELL_COUNT},
    {"count_middle", NULL, "", TUTTI_CELL_COUNT},
    {"count_last", NULL, "", TUTTI_CELL_COUNT},
    {"chunk_bytes", "chunk", "B", TUTTI_CELL_COUNT},
    {"slices", "slices", "", TUTTI_CELL_COUNT},
    {"runner_up", "runner-up", "", TUTTI_CELL_TEXT},
    {"runner_up_us", "its time", "us", TUTTI_CELL_NUMBER},
    {"why", NULL, "", TUTTI_CELL_TEXT},
};

static const struct tutti_column graph_columns[] = {
    {"graph", "graph", "", TUTTI_CELL_TEXT},
    {"pattern", "pattern", "", TUTTI_CELL_TEXT},
    {"channels_found", "found", "", TUTTI_CELL_COUNT},
    {"channels", "channels", "", TUTTI_CELL_COUNT},
    {"intra_GBps", "inside", "GB/s", TUTTI_CELL_NUMBER},
    {"inter_GBps", "between", "GB/s", TUTTI_CELL_NUMBER},
    {"type_intra", "GPUs", "", TUTTI_CELL_TEXT},
    {"type_inter", "ports", "", TUTTI_CELL_TEXT},
    {"same_channels", "alike", "", TUTTI_CELL_BOOL},
    {"cross_nic", "cross", "", TUTTI_CELL_COUNT},
    {"collapsed", "collapsed", "", TUTTI_CELL_BOOL},
    {"why", NULL, "", TUTTI_CELL_TEXT},
};

static const struct tutti_column estimate_columns[] = {
    {"bytes", "size", "B", TUTTI_CELL_COUNT},
    {"algorithm", "algorithm", "", TUTTI_CELL_TEXT},
    {"protocol", "protocol", "", TUTTI_CELL_TEXT},
    {"time_us", "time", "us", TUTTI_CELL_NUMBER},
    {"latency_us", "latency", "us", TUTTI_CELL_NUMBER},
    {"algbw_GBps", "algbw", "GB/s", TUTTI_CELL_NUMBER},
    {"missing", "missing", "", TUTTI_CELL_TEXT},
};

#define NEW_TABLE(columns) tutti_table_new(columns, sizeof(columns) / sizeof((columns)[0]))

/* ---- what is asked ------------------------------------------------------------------------- */

static int read_what(const struct tutti_args *args, struct tutti_explanation *e,
                     struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_coll_params params = {.count = 0};
    int status = tutti_shared_params(args, &params, err);

    e->collective = params.collective;
    e->dtype = params.dtype;
    e->op = params.op;
    if (status == 0)
        status = tutti_sizes_read(args, &e->sizes, err);
    if (status == 0)
        status = tutti_nccl_options_read(args, true, &e->nccl, sink, err);
    return status;
}

static int make_comm(const struct tutti_args *args, struct tutti_explanation *e,
                     struct tutti_err *err)
{
    struct tutti_nccl_comm_params params = {.version = e->nccl.version, .env = e->nccl.env};
    int status = tutti_machine_load(tutti_args_operand(args, 0),
                                    (uint32_t)tutti_args_number(args, "nodes"), &e->topo, err);

    if (status < 0)
        return status;
    if (e->topo->hardware == NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s' does not tell what NCCL decides from (its GPUs, PCI switches and "
                          "ports: NCCL topology XML does)",
                          e->topo->name);
    status = tutti_shared_check_root(e->collective, (uint32_t)tutti_args_number(args, "root"),
                                     e->topo->rank_count, err);
    if (status < 0)
        return status;
    params.hardware = e->topo->hardware;
    params.host_count = tutti_topo_hardware_hosts(e->topo);
    return tutti_nccl_comm_new(&params, &e->comm, err);
}

static int find_runner_up(const struct tutti_nccl_choice *choice)
{
    const double *times_us = &choice->times_us[0][0];
    int chosen = choice->algorithm * TUTTI_NCCL_PROTOCOL_COUNT + choice->protocol;
    int best = -1;

    for (int i = 0; i < TUTTI_NCCL_ALGORITHM_COUNT * TUTTI_NCCL_PROTOCOL_COUNT; i++) {
        if (i == chosen || times_us[i] < 0)
            continue;
        if (best < 0 || times_us[i] < times_us[best])
            best = i;
    }
    return best;
}

static int explain_sizes(struct tutti_explanation *e, struct tutti_err *err)
{
    int status = 0;

    e->sizes_explained = calloc(e->sizes.count, sizeof(*e->sizes_explained));
    if (e->sizes_explained == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < e->sizes.count && status == 0; i++) {
        struct tutti_explained *at = &e->sizes_explained[i];

        at->count = tutti_sizes_elements(e->collective, tutti_sizes_at(&e->sizes, i), e->dtype,
                                         e->comm->rank_count);
        at->bytes = tutti_collective_bytes(e->collective, at->count, e->dtype, e->comm->rank_count);
        status =
            tutti_nccl_choose(e->comm, e->collective, e->dtype, e->op, at->bytes, &at->choice, err);
        at->runner_up = find_runner_up(&at->choice);
    }
    return status;
}

/* ---- tables -------------------------------------------------------------------------------- */

static int add_result(struct tutti_table *table, const struct tutti_explanation *e,
                      const struct tutti_explained *at)
{
    const struct tutti_nccl_choice *choice = &at->choice;
    struct tutti_nccl_estimate row = choice->rows[choice->algorithm][choice->protocol];
    bool tuned = choice->time_us > 0;
    char runner_up[64] = "";
    char words[TUTTI_WORDS_BYTES];

    if (at->runner_up >= 0)
        tutti_pick_words(at->runner_up, runner_up, sizeof(runner_up));
    return tutti_table_add(table, at->bytes, at->count,
                           tutti_nccl_algorithm_name((enum tutti_nccl_algorithm)choice->algorithm),
                           tutti_nccl_protocol_name((enum tutti_nccl_protocol)choice->protocol),
                           tuned ? choice->time_us : NAN, tuned ? row.latency_us : NAN,
                           tuned ? row.algbw_GBps : NAN, (uint64_t)choice->channel_count,
                           (uint64_t)choice->channels_allowed, (uint64_t)choice->warp_count * 32,
                           choice->count_lo, choice->channel_count > 2 ? choice->count_mid : 0,
                           choice->channel_count > 1 ? choice->count_hi : 0, choice->chunk_bytes,
                           (uint64_t)choice->slice_count, runner_up,
                           at->runner_up < 0 ? NAN : (&choice->times_us[0][0])[at->runner_up],
                           tutti_choice_words(e, at, words));
}

static int add_graph(struct tutti_table *table, const struct tutti_explanation *e,
                     enum tutti_nccl_graph_id id)
{
    const struct tutti_nccl_graph *graph = &e->comm->graphs[id];
    char words[TUTTI_WORDS_BYTES];

    if (graph->channels_found == 0)
        return 0;
    return tutti_table_add(table, tutti_graph_name(id),
                           tutti_nccl_pattern_name((enum tutti_nccl_pattern)graph->pattern),
                           (uint64_t)graph->channels_found, (uint64_t)graph->channel_count,
                           graph->bw_intra_GBps, graph->bw_inter_GBps,
                           tutti_nccl_path_name((enum tutti_nccl_path_type)graph->type_intra),
                           tutti_nccl_path_name((enum tutti_nccl_path_type)graph->type_inter),
                           (int)graph->same_channels, (uint64_t)graph->cross_nic,
                           (int)graph->collapsed, tutti_collapse_words(e, id, words));
}

static int add_estimates(struct tutti_table *table, const struct tutti_explained *at)
{
    const struct tutti_nccl_choice *choice = &at->choice;
    int status = 0;

    for (int a = 0; a < TUTTI_NCCL_ALGORITHM_COUNT; a++) {
        for (int p = 0; p < TUTTI_NCCL_PROTOCOL_COUNT && status == 0; p++) {
            bool runs = choice->missing[a][p] == NULL;

            status = tutti_table_add(
                table, at->bytes, tutti_nccl_algorithm_name((enum tutti_nccl_algorithm)a),
                tutti_nccl_protocol_name((enum tutti_nccl_protocol)p),
                runs ? choice->times_us[a][p] : NAN, runs ? choice->rows[a][p].latency_us : NAN,
                runs ? choice->rows[a][p].algbw_GBps : NAN, runs ? "" : choice->missing[a][p]);
        }
    }
    return status;
}

struct tables {
    struct tutti_table *results, *graphs, *estimates;
};

static int fill_tables(const struct tutti_explanation *e, struct tables *tables)
{
    int status = 0;

    *tables =
        (struct tables){NEW_TABLE(columns), NEW_TABLE(graph_columns), NEW_TABLE(estimate_columns)};
    if (tables->results == NULL || tables->graphs == NULL || tables->estimates == NULL)
        return -TUTTI_ENOMEM;
    for (int id = 0; id < TUTTI_GRAPH_COUNT && status == 0; id++)
        status = add_graph(tables->graphs, e, (enum tutti_nccl_graph_id)id);
    for (uint32_t i = 0; i < e->sizes.count && status == 0; i++) {
        status = add_result(tables->results, e, &e->sizes_explained[i]);
        if (status == 0)
            status = add_estimates(tables->estimates, &e->sizes_explained[i]);
    }
    return status;
}

static void print_json(const struct tutti_explanation *e, const struct tables *tables,
                       struct tutti_sink *sink)
{
    struct tutti_json json = {.out = sink->out};

    tutti_json_open(&json, NULL, '{');
    tutti_json_text(&json, "tutti", TUTTI_BUILD_VERSION);
    tutti_sweep_json_machine(e->topo, &json);
    tutti_json_open(&json, "nccl", '{');
    tutti_json_text(&json, "version", tutti_nccl_version_name(e->nccl.version));
    tutti_json_text(&json, "asked", e->nccl.asked);
    tutti_json_text(&json, "note", tutti_nccl_version_note(e->nccl.version));
    tutti_json_text(&json, "env", e->nccl.text);
    tutti_json_count(&json, "ranks", e->comm->rank_count);
    tutti_json_count(&json, "nodes", e->comm->node_count);
    tutti_json_count(&json, "channels", e->comm->channel_count);
    tutti_json_count(&json, "nvls_channels", e->comm->nvls_channel_count);
    tutti_json_number(&json, "max_GBps", e->comm->max_bw_GBps);
    tutti_json_number(&json, "total_GBps", e->comm->total_bw_GBps);
    tutti_json_close(&json);
    tutti_json_text(&json, "collective", tutti_collective_name(e->collective));
    tutti_json_text(&json, "datatype", tutti_dtype_name(e->dtype));
    tutti_json_text(&json, "op", tutti_op_name(e->op));
    tutti_table_json(tables->graphs, "graphs", &json);
    tutti_table_json(tables->results, "results", &json);
    tutti_table_json(tables->estimates, "estimates", &json);
    tutti_json_close(&json);
}

/* For several sizes: where the choice changes, why. */
static void print_changes(const struct tutti_explanation *e, FILE *out)
{
    const struct tutti_explained *last = NULL;
    char words[TUTTI_WORDS_BYTES];
    char name[64];
    char size[TUTTI_UNIT_TEXT_BYTES];

    for (uint32_t i = 0; i < e->sizes.count; i++) {
        const struct tutti_explained *at = &e->sizes_explained[i];
        const struct tutti_nccl_choice *choice = &at->choice;

        if (last != NULL && last->choice.algorithm == choice->algorithm &&
            last->choice.protocol == choice->protocol)
            continue;
        fprintf(out, "# %s: %s: %s\n", tutti_print_size(at->bytes, size),
                tutti_pick_words(choice->algorithm * TUTTI_NCCL_PROTOCOL_COUNT + choice->protocol,
                                 name, sizeof(name)),
                tutti_choice_words(e, at, words));
        last = at;
    }
}

static void print_page(const struct tutti_explanation *e, const struct tutti_table *results,
                       const struct tutti_page *page)
{
    tutti_explain_head(e, page->out);
    if (e->sizes.count == 1) {
        tutti_explain_size(e, &e->sizes_explained[0], page->out);
    } else {
        tutti_table_print(results, page);
        print_changes(e, page->out);
    }
}

static int print_all(const struct tutti_args *args, const struct tutti_explanation *e,
                     struct tutti_sink *sink, struct tutti_err *err)
{
    struct tables tables = {NULL, NULL, NULL};
    struct tutti_page page;
    int status = fill_tables(e, &tables);

    if (status < 0) {
        status = tutti_nomem(err);
    } else if (tutti_args_is(args, "format", "json")) {
        print_json(e, &tables, sink);
    } else if (tutti_args_is(args, "format", "csv")) {
        tutti_table_csv(tables.results, sink->out);
    } else {
        status = tutti_page_open(&page, sink, err);
        if (status == 0) {
            print_page(e, tables.results, &page);
            status = tutti_page_close(&page, 0, err);
        }
    }
    tutti_table_free(tables.results);
    tutti_table_free(tables.graphs);
    tutti_table_free(tables.estimates);
    return status;
}

int tutti_command_explain(const struct tutti_args *args, struct tutti_sink *sink,
                          struct tutti_err *err)
{
    struct tutti_explanation e = {.topo = NULL};
    int status = read_what(args, &e, sink, err);

    if (status == 0)
        status = make_comm(args, &e, err);
    if (status == 0)
        status = explain_sizes(&e, err);
    if (status == 0)
        status = print_all(args, &e, sink, err);
    free(e.sizes_explained);
    tutti_nccl_comm_free(e.comm);
    tutti_nccl_options_done(&e.nccl);
    tutti_topo_free(e.topo);
    return status;
}

static const struct tutti_option options[] = {
    TUTTI_OPTIONS_SIZES("1K", "1G", "4"),
    TUTTI_OPTION_COLLECTIVE,
    TUTTI_OPTION_DTYPE,
    TUTTI_OPTION_OP,
    TUTTI_OPTION_ROOT,
    TUTTI_OPTION_AS_NCCL,
    TUTTI_OPTION_NCCL_ENV,
    TUTTI_OPTION_NODES,
    TUTTI_OPTIONS_OUTPUT,
};

const struct tutti_command tutti_cli_explain = {
    .name = "explain",
    .summary = "what NCCL would run on a machine, how it cuts it, and why",
    .operands = "SPEC",
    .operand_min = 1,
    .operand_max = 1,
    .text =
        "Searches the machine for channels as NCCL does when it makes a communicator, fills its "
        "tables and chooses: algorithm, protocol, channels, threads, chunks. Prints the graphs "
        "that were found, and why a search came to nothing where it did; with one size (-b alone) "
        "what would be run, why, what the runner-up would take and how the data are cut; with "
        "several a table and, where the choice changes, why."
        "\n\nTimes are NCCL's own estimates, made of a latency and a bandwidth, corrected for the "
        "size as it does: what it decides by, not what it takes ('tutti predict')."
        "\n\nThe variables of this process are not read but with --env=inherit.",
    .examples = "tutti explain tools/examples/h100x8.xml -b 64M\n"
                "tutti explain tools/examples/h100x8.xml --nodes 4 -c allgather -b 8 -e 1G -f 8\n"
                "tutti explain topo.xml -b 1M --as-nccl 2.30 --env NCCL_ALGO=Ring NCCL_PROTO=^LL",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_explain,
};
