/* tutti topo bound: the physical lower bound of a collective on a machine, and what binds. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "build.h"
#include "runtime/data.h"
#include "sim/predict.h"
#include "tools/cli/machine.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/cli/perturb.h"
#include "tools/cli/shared_options.h"
#include "tools/cli/sizes.h"
#include "tools/commands.h"
#include "tools/options.h"
#include "tools/sweep/sweep.h"
#include "topo/topo.h"

static const struct tutti_column columns[] = {
    {"bytes", "size", "B", TUTTI_CELL_COUNT},
    {"count", "count", "elements", TUTTI_CELL_COUNT},
    {"bound_us", "bound", "us", TUTTI_CELL_NUMBER},
    {"bound_kind", "kind", "", TUTTI_CELL_TEXT},
    {"bandwidth_us", "by rates", "us", TUTTI_CELL_NUMBER},
    {"latency_us", "by latency", "us", TUTTI_CELL_NUMBER},
    {"algbw_GBps", "algbw", "GB/s", TUTTI_CELL_NUMBER},
    {"busbw_GBps", "busbw", "GB/s", TUTTI_CELL_NUMBER},
    {"bound_by", "what binds", "", TUTTI_CELL_TEXT},
    TUTTI_PERTURB_TABLE_COLUMNS,
};

enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

/* What was asked for. */
struct question {
    struct tutti_topo *topo;
    struct tutti_contract contract; /* but for the count */
    struct tutti_bound_law law;
    struct tutti_sizes sizes;
    struct tutti_perturb perturb;
    uint64_t seed;
    struct tutti_bound_law calm; /* of the machine as it should be, where it is perturbed */
};

static int read_question(const struct tutti_args *args, struct question *question,
                         struct tutti_err *err)
{
    struct tutti_contract *contract = &question->contract;
    int status =
        tutti_collective_find(tutti_args_text(args, "collective"), &contract->collective, err);

    if (status < 0)
        return tutti_wrap(err, status, "option '-c'");
    status = tutti_dtype_find(tutti_args_text(args, "datatype"), &contract->dtype, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '-d'");
    status = tutti_sizes_read(args, &question->sizes, err);
    contract->root = (uint32_t)tutti_args_number(args, "root");
    if (status == 0)
        status = tutti_shared_refuse_root(args, contract->collective, err);
    question->seed = tutti_args_number(args, "seed");
    if (status == 0)
        status = tutti_perturb_read(args, false, &question->perturb, err);
    return status < 0 ? status
                      : tutti_machine_load(tutti_args_operand(args, 0),
                                           (uint32_t)tutti_args_number(args, "nodes"),
                                           &question->topo, err);
}

static double microseconds(tutti_ps ps)
{
    return (double)ps / (double)TUTTI_PS_PER_US;
}

static int find_law(const struct question *question, struct tutti_bound_law *ret,
                    struct tutti_err *err)
{
    return tutti_topo_bound_law(question->topo, question->contract.collective,
                                question->contract.root, ret, err);
}

/* The law of the machine, and, where it is perturbed, first that of the machine as it should be. */
static int find_laws(struct question *question, struct tutti_err *err)
{
    int status = 0;

    if (question->perturb.item_count > 0) {
        status = find_law(question, &question->calm, err);
        if (status == 0)
            status = tutti_perturb_machine(question->topo, &question->perturb, question->seed, err);
    }
    return status < 0 ? status : find_law(question, &question->law, err);
}

static int add_size(struct tutti_table *table, const struct question *question, uint64_t wanted,
                    const char *words, struct tutti_err *err)
{
    struct tutti_contract contract = question->contract;
    uint32_t rank_count = question->topo->rank_count;
    struct tutti_bound bound;
    struct tutti_bound calm = {.time_ps = 0};
    uint64_t bytes;
    double algbw;
    double factor = tutti_collective_bus_factor(contract.collective, rank_count);
    int status;

    contract.count = tutti_sizes_elements(contract.collective, wanted, contract.dtype, rank_count);
    bytes = tutti_collective_bytes(contract.collective, contract.count, contract.dtype, rank_count);
    status = tutti_bound_law_at(&question->law, contract.count, contract.dtype, &bound, err);
    if (status == 0 && question->perturb.item_count > 0)
        status = tutti_bound_law_at(&question->calm, contract.count, contract.dtype, &calm, err);
    if (status < 0)
        return status;
    algbw = bound.time_ps > 0 && bytes > 0 ? (double)bytes / (double)bound.time_ps * 1e3 : NAN;
    status = tutti_table_add(
        table, bytes, contract.count, microseconds(bound.time_ps), tutti_bound_kind(&bound),
        microseconds(bound.bandwidth_ps), microseconds(bound.latency_ps), algbw, algbw * factor,
        bound.binding, microseconds(calm.time_ps),
        calm.time_ps > 0 ? (double)bound.time_ps / (double)calm.time_ps : NAN, words);
    return status < 0 ? tutti_nomem(err) : 0;
}

static void print_json(const struct question *question, const struct tutti_table *table,
                       struct tutti_sink *sink)
{
    struct tutti_json json = {.out = sink->out};

    tutti_json_open(&json, NULL, '{');
    tutti_json_text(&json, "tutti", TUTTI_BUILD_VERSION);
    tutti_json_open(&json, "topology", '{');
    tutti_json_text(&json, "name", question->topo->name);
    tutti_json_text(&json, "source", question->topo->source);
    tutti_json_count(&json, "ranks", question->topo->rank_count);
    tutti_json_count(&json, "hosts", question->topo->host_count);
    tutti_json_close(&json);
    tutti_perturb_json(&question->perturb, question->seed, &json);
    tutti_json_text(&json, "collective", tutti_collective_name(question->contract.collective));
    tutti_table_json(table, "results", &json);
    tutti_json_close(&json);
}

static void print_table(const struct question *question, const struct tutti_table *table,
                        const struct tutti_page *page)
{
    FILE *out = page->out;

    fprintf(out, "# tutti %s topo bound: %s of %s\n", TUTTI_BUILD_VERSION,
            tutti_collective_name(question->contract.collective),
            tutti_dtype_name(question->contract.dtype));
    fprintf(out, "# machine:  %s: %" PRIu32 " rank%s", question->topo->name,
            question->topo->rank_count, question->topo->rank_count == 1 ? "" : "s");
    if (!page->verbose)
        tutti_sweep_print_assumed(question->topo->source, out);
    fputc('\n', out);
    if (page->verbose)
        fprintf(out, "# figures:  %s\n", question->topo->source);
    tutti_perturb_print(&question->perturb, question->seed, "# perturb:  ", out);
    tutti_table_print(table, page);
}

static int answer(const struct tutti_args *args, const struct question *question,
                  struct tutti_sink *sink, struct tutti_err *err)
{
    bool perturbed = question->perturb.item_count > 0;
    struct tutti_page page;
    struct tutti_table *table =
        tutti_table_new(columns, COLUMNS - (perturbed ? 0 : TUTTI_PERTURB_COLUMNS));
    char *words = tutti_perturb_text(&question->perturb, question->seed);
    uint32_t count = question->contract.collective == TUTTI_BARRIER ? 1 : question->sizes.count;
    int status = table == NULL || words == NULL ? tutti_nomem(err) : 0;

    for (uint32_t i = 0; i < count && status == 0; i++)
        status = add_size(table, question, tutti_sizes_at(&question->sizes, i), words, err);
    if (status == 0) {
        if (tutti_args_is(args, "format", "json"))
            print_json(question, table, sink);
        else if (tutti_args_is(args, "format", "csv"))
            tutti_table_csv(table, sink->out);
        else
            status = tutti_page_open(&page, sink, err);
    }
    if (status == 0 && tutti_args_is(args, "format", "table")) {
        print_table(question, table, &page);
        status = tutti_page_close(&page, 0, err);
    }
    free(words);
    tutti_table_free(table);
    return status;
}

int tutti_command_topo_bound(const struct tutti_args *args, struct tutti_sink *sink,
                             struct tutti_err *err)
{
    struct question question = {.topo = NULL};
    int status = read_question(args, &question, err);

    if (status == 0)
        status = find_laws(&question, err);
    if (status == 0)
        status = answer(args, &question, sink, err);
    tutti_topo_free(question.topo);
    return status;
}

static const struct tutti_option options[] = {
    TUTTI_OPTION_COLLECTIVE, TUTTI_OPTIONS_SIZES("1K", "1G", "4"),
    TUTTI_OPTION_DTYPE,      TUTTI_OPTION_ROOT,
    TUTTI_OPTION_PERTURB,    TUTTI_OPTION_PERTURB_SEED,
    TUTTI_OPTION_NODES,      TUTTI_OPTIONS_OUTPUT,
};

const struct tutti_command tutti_cli_topo_bound = {
    .name = "topo bound",
    .summary = "the least time physics allows a collective on a machine, and what binds",
    .operands = "SPEC",
    .operand_min = 1,
    .operand_max = 1,
    .text =
        "Prints for each size the time that no algorithm can beat on this machine, by the rates "
        "of its links and by their latencies, and which of its parts it is due to. 'exact': "
        "schedules are known that come as near to it as one likes as the size grows; 'valid': "
        "true, but perhaps out of reach. Switches that reduce (NVLS, SHARP) are reckoned "
        "with. By rates: the cuts of many partitions of the machine, and of machines of up to some "
        "hundreds of devices the worst of all cuts (all-reduce on devices wired directly: of all "
        "partitions); by latency: the two ranks that are farthest from each "
        "other." TUTTI_PERTURB_TEXT TUTTI_PERTURB_RULES_TEXT TUTTI_PERTURB_BOUND_TEXT,
    .examples = "tutti topo bound dgx-h100:nodes=4 -b 1G\n"
                "tutti topo bound tpu-v5e:8x8 -c allgather -b 1M -e 1G -f 4\n"
                "tutti topo bound ring:n=8 -b 1G --perturb slow-link=1:2",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_topo_bound,
};
