/* tutti model show: what a model is made of: its layers, operations and variables, and what
 * training it keeps; or its text form. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "runtime/model.h"
#include "tools/cli/model.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/cli/shared_options.h"
#include "tools/commands.h"
#include "tools/options.h"

/* Of one of the layers where there are several alike. */
static const struct tutti_column layer_columns[] = {
    {"layer", "layer", "", TUTTI_CELL_TEXT},
    {"repeat", "times", "", TUTTI_CELL_COUNT},
    {"operations", "operations", "each", TUTTI_CELL_COUNT},
    {"variables", "variables", "each", TUTTI_CELL_COUNT},
    {"parameters", "parameters", "each", TUTTI_CELL_COUNT},
    {"unreduced", NULL, "", TUTTI_CELL_COUNT},
    {"forward_GFLOP", "forward", "GFLOP", TUTTI_CELL_NUMBER},
    {"saved_elements", "saved", "elements", TUTTI_CELL_COUNT},
    {"saved_bytes", "masks", "bytes", TUTTI_CELL_COUNT},
    {"attention_elements", "attention", "elements", TUTTI_CELL_COUNT},
    {"attention_bytes", NULL, "", TUTTI_CELL_COUNT},
    {"input_elements", NULL, "", TUTTI_CELL_COUNT},
};

static const struct tutti_column operation_columns[] = {
    {"layer", "layer", "", TUTTI_CELL_TEXT},
    {"repeat", NULL, "", TUTTI_CELL_COUNT},
    {"operation", "operation", "", TUTTI_CELL_TEXT},
    {"kind", "kind", "", TUTTI_CELL_TEXT},
    {"split", "split", "", TUTTI_CELL_TEXT},
    {"products", "times", "", TUTTI_CELL_COUNT},
    {"rows", "rows", "", TUTTI_CELL_COUNT},
    {"depth", "depth", "", TUTTI_CELL_COUNT},
    {"columns", "columns", "", TUTTI_CELL_COUNT},
    {"forward_GFLOP", "forward", "GFLOP", TUTTI_CELL_NUMBER},
    {"in_elements", NULL, "", TUTTI_CELL_COUNT},
    {"out_elements", NULL, "", TUTTI_CELL_COUNT},
    {"input_gradient", NULL, "", TUTTI_CELL_BOOL},
};

static const struct tutti_column variable_columns[] = {
    {"layer", "layer", "", TUTTI_CELL_TEXT},
    {"repeat", "times", "", TUTTI_CELL_COUNT},
    {"variable", "variable", "", TUTTI_CELL_TEXT},
    {"elements", "elements", "each", TUTTI_CELL_COUNT},
    {"rows", "rows", "", TUTTI_CELL_COUNT},
    {"split", "split", "", TUTTI_CELL_TEXT},
    {"touched_rows", "touched", "rows", TUTTI_CELL_COUNT},
    {"reduced", "reduced", "", TUTTI_CELL_BOOL},
};

#define TABLE_NEW(columns) tutti_table_new(columns, sizeof(columns) / sizeof((columns)[0]))

/* ---- rows ------------------------------------------------------------------------------------ */

static int add_layers(struct tutti_table *table, const struct tutti_workload *model)
{
    int status = 0;

    for (uint32_t i = 0; i < model->layer_count && status == 0; i++) {
        struct tutti_layer one = model->layers[i];
        struct tutti_workload part = *model;
        struct tutti_model_sums sums;

        one.repeat = 1;
        part.layers = &one;
        part.layer_count = 1;
        sums = tutti_model_sum(&part);
        status = tutti_table_add(
            table, one.name, (uint64_t)model->layers[i].repeat, (uint64_t)one.operation_count,
            sums.variable_count, sums.parameters, sums.unreduced, (double)sums.flops / 1e9,
            sums.saved.whole_elements + sums.saved.split_elements,
            sums.saved.whole_bytes + sums.saved.split_bytes, sums.saved.attention_elements,
            sums.saved.attention_bytes, sums.saved.input_elements);
    }
    return status;
}

static int add_operations(struct tutti_table *table, const struct tutti_workload *model)
{
    int status = 0;

    for (uint32_t i = 0; i < model->layer_count; i++) {
        const struct tutti_layer *layer = &model->layers[i];

        for (uint32_t o = 0; o < layer->operation_count && status == 0; o++) {
            const struct tutti_operation *op = &layer->operations[o];

            status = tutti_table_add(table, layer->name, (uint64_t)layer->repeat, op->name,
                                     tutti_work_kind_name(op->kind), tutti_split_name(op->split),
                                     (uint64_t)op->count, op->rows, op->depth, op->columns,
                                     (double)op->flops / 1e9, op->in_elements, op->out_elements,
                                     (int)!op->no_input_gradient);
        }
    }
    return status;
}

static int add_variables(struct tutti_table *table, const struct tutti_workload *model)
{
    int status = 0;

    for (uint32_t i = 0; i < model->layer_count; i++) {
        const struct tutti_layer *layer = &model->layers[i];

        for (uint32_t v = 0; v < layer->variable_count && status == 0; v++) {
            const struct tutti_variable *variable = &layer->variables[v];

            status = tutti_table_add(table, layer->name, (uint64_t)layer->repeat, variable->name,
                                     variable->elements, variable->rows,
                                     tutti_split_name(variable->split), variable->touched_rows,
                                     (int)!variable->unreduced);
        }
    }
    return status;
}

/* ---- for people ------------------------------------------------------------------------------ */

/* "8.178 GFLOP", "84.30 MB": of a unit whose number is not below 1. */
static void print_amount(const char *before, double amount, const char *unit, FILE *out)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T"};
    char text[TUTTI_NUMBER_TEXT_BYTES];
    unsigned at = 0;

    while (amount >= 1000 && at + 1 < sizeof(prefixes) / sizeof(prefixes[0])) {
        amount /= 1000;
        at++;
    }
    if (at == 0)
        fprintf(out, "%s%.0f %s", before, amount, unit);
    else
        fprintf(out, "%s%s %s%s", before, tutti_number_text(amount, text), prefixes[at], unit);
}

static void print_bytes(const char *before, uint64_t elements, unsigned bytes_each,
                        uint64_t bytes_more, FILE *out)
{
    print_amount(before, (double)elements * bytes_each + (double)bytes_more, "B", out);
}

static void print_transformer(const struct tutti_transformer *t, FILE *out)
{
    if (t->layers == 0)
        return;
    fprintf(out,
            "# shape:      %" PRIu32 " layers of %" PRIu32 " columns, %" PRIu32 " heads (%" PRIu32
            " of keys and values), feed-forward %" PRIu32 "%s, vocabulary %" PRIu32,
            t->layers, t->hidden, t->heads, t->kv_heads, t->feed_forward, t->gated ? " gated" : "",
            t->vocabulary);
    if (t->experts > 0)
        fprintf(out, ", %" PRIu32 " of %" PRIu32 " experts", t->active_experts, t->experts);
    fprintf(out, "%s\n", t->tied ? ", head tied to the embedding" : "");
}

static void print_sums(const struct tutti_workload *model, FILE *out)
{
    struct tutti_model_sums sums = tutti_model_sum(model);
    const struct tutti_saved *saved = &sums.saved;
    uint64_t elements = saved->whole_elements + saved->split_elements;
    uint64_t masks = saved->whole_bytes + saved->split_bytes;

    fprintf(out, "# parameters: %" PRIu64 " in %" PRIu64 " variables", sums.parameters,
            sums.variable_count);
    print_bytes(", a gradient of ", sums.parameters, 4, 0, out);
    fprintf(out, " at 32 bits");
    if (sums.active_parameters != sums.parameters)
        fprintf(out, "; %" PRIu64 " of them used by a token", sums.active_parameters);
    if (sums.unreduced > 0)
        fprintf(out, "; %" PRIu64 " statistics beside", sums.unreduced);
    print_amount("\n# forward:    ", (double)sums.flops, "FLOP", out);
    fprintf(out, " a sample");
    if (sums.attention_flops > 0) {
        print_amount(", ", (double)sums.attention_flops, "FLOP", out);
        fprintf(out, " of them attention in full");
    }
    print_bytes("\n# saved:      ", elements, 2, masks, out);
    print_bytes(" a sample at 16 bits, ", elements, 4, masks, out);
    fprintf(out, " at 32");
    if (saved->attention_elements > 0)
        print_bytes("; attention that is not fused ", saved->attention_elements, 2,
                    saved->attention_bytes, out);
    fputc('\n', out);
}

static void print_text(const struct tutti_workload *model, const struct tutti_table *table,
                       const struct tutti_page *page)
{
    FILE *out = page->out;

    fprintf(out, "# tutti %s model show\n", TUTTI_BUILD_VERSION);
    fprintf(out, "# model:      %s%s%s\n", model->name, model->summary[0] != '\0' ? ": " : "",
            model->summary);
    if (model->source[0] != '\0')
        fprintf(out, "# figures:    %s\n", model->source);
    print_transformer(&model->transformer, out);
    fprintf(out, "# sample:     %s", tutti_sample_name(model->sample));
    if (model->sample == TUTTI_SAMPLE_SEQUENCE)
        fprintf(out, " of %" PRIu32 " tokens", model->sequence);
    fprintf(out, ", %" PRIu64 " bytes, %" PRIu64 " logits", model->sample_bytes, model->logits);
    if (model->examples > 0)
        fprintf(out, "; %" PRIu64 " examples", model->examples);
    fputc('\n', out);
    print_sums(model, out);
    tutti_table_print(table, page);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void json_transformer(const struct tutti_transformer *t, struct tutti_json *json)
{
    tutti_json_open(json, "transformer", '{');
    tutti_json_count(json, "layers", t->layers);
    tutti_json_count(json, "hidden", t->hidden);
    tutti_json_count(json, "heads", t->heads);
    tutti_json_count(json, "kv_heads", t->kv_heads);
    tutti_json_count(json, "feed_forward", t->feed_forward);
    tutti_json_count(json, "vocabulary", t->vocabulary);
    tutti_json_count(json, "experts", t->experts);
    tutti_json_count(json, "active_experts", t->active_experts);
    tutti_json_bool(json, "gated", t->gated);
    tutti_json_bool(json, "tied", t->tied);
    tutti_json_close(json);
}

static void json_saved(const struct tutti_saved *saved, struct tutti_json *json)
{
    tutti_json_open(json, "saved", '{');
    tutti_json_count(json, "whole_elements", saved->whole_elements);
    tutti_json_count(json, "whole_bytes", saved->whole_bytes);
    tutti_json_count(json, "split_elements", saved->split_elements);
    tutti_json_count(json, "split_bytes", saved->split_bytes);
    tutti_json_count(json, "attention_elements", saved->attention_elements);
    tutti_json_count(json, "attention_bytes", saved->attention_bytes);
    tutti_json_count(json, "input_elements", saved->input_elements);
    tutti_json_close(json);
}

static void print_json(const struct tutti_workload *model, const struct tutti_table *table,
                       const char *key, struct tutti_sink *sink)
{
    struct tutti_model_sums sums = tutti_model_sum(model);
    struct tutti_json json = {.out = sink->out};

    tutti_json_open(&json, NULL, '{');
    tutti_json_text(&json, "tutti", TUTTI_BUILD_VERSION);
    tutti_json_open(&json, "model", '{');
    tutti_json_text(&json, "name", model->name);
    tutti_json_text(&json, "summary", model->summary);
    tutti_json_text(&json, "source", model->source);
    tutti_json_text(&json, "sample", tutti_sample_name(model->sample));
    tutti_json_count(&json, "sequence", model->sequence);
    tutti_json_count(&json, "sample_bytes", model->sample_bytes);
    tutti_json_count(&json, "logits", model->logits);
    tutti_json_count(&json, "examples", model->examples);
    tutti_json_count(&json, "parameters", sums.parameters);
    tutti_json_count(&json, "active_parameters", sums.active_parameters);
    tutti_json_count(&json, "unreduced", sums.unreduced);
    tutti_json_count(&json, "variables", sums.variable_count);
    tutti_json_number(&json, "forward_GFLOP", (double)sums.flops / 1e9);
    tutti_json_number(&json, "attention_GFLOP", (double)sums.attention_flops / 1e9);
    json_saved(&sums.saved, &json);
    json_transformer(&model->transformer, &json);
    tutti_json_close(&json);
    tutti_table_json(table, key, &json);
    tutti_json_close(&json);
}

/* ---- the command ----------------------------------------------------------------------------- */

static int fill(const struct tutti_args *args, const struct tutti_workload *model,
                struct tutti_table **ret, const char **ret_key)
{
    struct tutti_table *table;

    if (tutti_args_flag(args, "operations")) {
        *ret_key = "operations";
        *ret = table = TABLE_NEW(operation_columns);
        return table == NULL ? -TUTTI_ENOMEM : add_operations(table, model);
    }
    if (tutti_args_flag(args, "variables")) {
        *ret_key = "variables";
        *ret = table = TABLE_NEW(variable_columns);
        return table == NULL ? -TUTTI_ENOMEM : add_variables(table, model);
    }
    *ret_key = "layers";
    *ret = table = TABLE_NEW(layer_columns);
    return table == NULL ? -TUTTI_ENOMEM : add_layers(table, model);
}

static int print(const struct tutti_args *args, const struct tutti_workload *model,
                 struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_table *table = NULL;
    const char *key = NULL;
    struct tutti_page page;
    int status = fill(args, model, &table, &key);

    if (status < 0) {
        tutti_nomem(err);
    } else if (tutti_args_is(args, "format", "json")) {
        print_json(model, table, key, sink);
    } else if (tutti_args_is(args, "format", "csv")) {
        tutti_table_csv(table, sink->out);
    } else {
        status = tutti_page_open(&page, sink, err);
        if (status == 0) {
            print_text(model, table, &page);
            status = tutti_page_close(&page, 0, err);
        }
    }
    tutti_table_free(table);
    return status;
}

static int print_model(const struct tutti_workload *model, struct tutti_sink *sink,
                       struct tutti_err *err)
{
    char *text = NULL;
    int status = tutti_model_print(model, &text, err);

    if (status == 0)
        fputs(text, sink->out);
    free(text);
    return status;
}

int tutti_command_model_show(const struct tutti_args *args, struct tutti_sink *sink,
                             struct tutti_err *err)
{
    struct tutti_workload *model = NULL;
    int status;

    if (tutti_args_flag(args, "text") + tutti_args_flag(args, "operations") +
            tutti_args_flag(args, "variables") >
        1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'--text', '--operations' and '--variables' (one of them)");
    status = tutti_model_load(args, tutti_args_operand(args, 0), &model, err);
    if (status == 0 && tutti_args_flag(args, "text"))
        status = print_model(model, sink, err);
    else if (status == 0)
        status = print(args, model, sink, err);
    tutti_model_free(model);
    return status;
}

static const struct tutti_option options[] = {
    {.name = "operations",
     .type = TUTTI_OPTION_FLAG,
     .help = "list the operations instead of the layers, with the shapes of their products"},
    {.name = "variables",
     .type = TUTTI_OPTION_FLAG,
     .help = "list the variables instead of the layers"},
    {.name = "text",
     .type = TUTTI_OPTION_FLAG,
     .help = "print the model as the text that FILE takes, and nothing else"},
    TUTTI_OPTIONS_MODEL,
    TUTTI_OPTIONS_OUTPUT,
};

const struct tutti_command tutti_cli_model_show = {
    .name = "model show",
    .summary = "what a model is made of, what a sample costs and what training it keeps",
    .operands = "MODEL|FILE",
    .operand_min = 1,
    .operand_max = 1,
    .text = "Prints the layers of a model in the order of its forward pass: how many there are of "
            "each, and of one of them the operations, variables, parameters, FLOPs, and what is "
            "saved of a sample for the backward pass as long as nothing is recomputed: elements of "
            "activations, bytes of masks, and the matrices of attention that a fused kernel does "
            "not keep. Logits are not among them.\n\n" TUTTI_MODEL_TEXT "\n\n"
            "--operations and --variables say how tensor parallelism splits each: by columns, "
            "rows, heads, vocabulary, or by expert parallelism.",
    .examples = "tutti model show resnet50\n"
                "tutti model show llama3-8b --seq 4096 --operations\n"
                "tutti model show gpt:layers=24,hidden=2048,heads=16 --format json\n"
                "tutti model show mlp --text",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_model_show,
};
