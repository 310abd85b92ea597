/* tutti model list: the models that Tutti knows, how large they are and what a sample costs. */
#include <math.h>
#include <string.h>

#include "build.h"
#include "runtime/model.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/cli/shared_options.h"
#include "tools/commands.h"
#include "tools/options.h"

static const struct tutti_column columns[] = {
    {"name", "model", "", TUTTI_CELL_TEXT},
    {"sample", NULL, "", TUTTI_CELL_TEXT},
    {"tokens", "tokens", "", TUTTI_CELL_WHOLE},
    {"parameters", "parameters", "", TUTTI_CELL_WHOLE},
    {"active_parameters", NULL, "", TUTTI_CELL_WHOLE},
    {"forward_GFLOP", "forward", "GFLOP", TUTTI_CELL_NUMBER},
    {"summary", "what it is", "", TUTTI_CELL_TEXT},
    {"source", NULL, "", TUTTI_CELL_TEXT},
};

/* A model whose shape the caller says has no size yet. */
static bool asks_shape(const char *name)
{
    return strcmp(name, "gpt") == 0 || strcmp(name, "llama") == 0;
}

static int add(struct tutti_table *table, const struct tutti_model_entry *entry,
               struct tutti_err *err)
{
    struct tutti_workload *model = NULL;
    struct tutti_model_sums sums;
    int status;

    if (asks_shape(entry->name))
        return tutti_table_add(table, entry->name, tutti_sample_name(TUTTI_SAMPLE_SEQUENCE), NAN,
                               NAN, NAN, NAN, entry->summary, entry->source) < 0
                   ? tutti_nomem(err)
                   : 0;
    status = tutti_model_new(entry->name, NULL, &model, err);
    if (status < 0)
        return status;
    sums = tutti_model_sum(model);
    status = tutti_table_add(table, entry->name, tutti_sample_name(model->sample),
                             model->sample == TUTTI_SAMPLE_SEQUENCE ? (double)model->sequence : NAN,
                             (double)sums.parameters, (double)sums.active_parameters,
                             (double)sums.flops / 1e9, entry->summary, entry->source);
    tutti_model_free(model);
    return status < 0 ? tutti_nomem(err) : 0;
}

static int print(const struct tutti_args *args, const struct tutti_table *table,
                 struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_page page;
    int status;

    if (tutti_args_is(args, "format", "json")) {
        struct tutti_json json = {.out = sink->out};

        tutti_json_open(&json, NULL, '{');
        tutti_json_text(&json, "tutti", TUTTI_BUILD_VERSION);
        tutti_table_json(table, "models", &json);
        tutti_json_close(&json);
        return 0;
    }
    if (tutti_args_is(args, "format", "csv")) {
        tutti_table_csv(table, sink->out);
        return 0;
    }
    status = tutti_page_open(&page, sink, err);
    if (status < 0)
        return status;
    tutti_table_print(table, &page);
    fprintf(page.out, "# forward: of a sample, multiply-adds as two; a training step takes three "
                      "times as much\n# 'tutti model show MODEL' shows its layers\n");
    return tutti_page_close(&page, 0, err);
}

int tutti_command_model_list(const struct tutti_args *args, struct tutti_sink *sink,
                             struct tutti_err *err)
{
    struct tutti_table *table = tutti_table_new(columns, sizeof(columns) / sizeof(columns[0]));
    struct tutti_model_entry entry;
    int status = table == NULL ? tutti_nomem(err) : 0;

    for (size_t i = 0; status == 0 && tutti_model_at(i, &entry); i++)
        status = add(table, &entry, err);
    if (status == 0)
        status = print(args, table, sink, err);
    tutti_table_free(table);
    return status;
}

static const struct tutti_option options[] = {TUTTI_OPTIONS_OUTPUT};

const struct tutti_command tutti_cli_model_list = {
    .name = "model list",
    .summary = "the models of training: their parameters and what a sample costs",
    .operands = "",
    .text = "Lists the models that Tutti knows by name, in the sizes that they are known for: "
            "parameters that are trained, and the FLOPs of one sample's forward pass, attention in "
            "full. JSON and CSV have the parameters that a token uses of a mixture of experts, and "
            "where the figures come from.",
    .examples = "tutti model list\ntutti model list --format csv",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_model_list,
};
