/* tutti topo list: the presets, what they take, and where their numbers come from. */
#include <string.h>

#include "build.h"
#include "tools/cli/machine.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/cli/shared_options.h"
#include "tools/commands.h"
#include "tools/options.h"
#include "topo/topo.h"

static const struct tutti_column columns[] = {
    {"name", "preset", "", TUTTI_CELL_TEXT},        {"example", "example", "", TUTTI_CELL_TEXT},
    {"summary", "what it is", "", TUTTI_CELL_TEXT}, {"keys", NULL, "", TUTTI_CELL_TEXT},
    {"source", NULL, "", TUTTI_CELL_TEXT},
};

static const struct tutti_preset *find(const char *name, struct tutti_err *err)
{
    size_t count = 0;
    const struct tutti_preset *presets = tutti_presets(&count);
    char alike[256];

    for (size_t i = 0; i < count; i++) {
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    }
    if (tutti_machine_alike(name, alike, sizeof(alike)) != NULL)
        tutti_fail(err, TUTTI_EINVAL, "unknown preset '%s' (did you mean %s?)", name, alike);
    else
        tutti_fail(err, TUTTI_EINVAL, "unknown preset '%s' ('tutti topo list' shows them)", name);
    return NULL;
}

/* One preset, a line a thing; the keys wrap by themselves where they are too many for a line. */
static void print_one(const struct tutti_preset *preset, const struct tutti_page *page)
{
    FILE *out = page->out;
    int column = 0;

    fprintf(out, "%s: %s\n  keys:    ", preset->name, preset->summary);
    for (const char *at = preset->keys; *at != '\0';) {
        int bytes = (int)strcspn(at, " ");

        if (column > 0 && column + 1 + bytes > page->columns - 12) {
            fprintf(out, "\n           ");
            column = 0;
        }
        fprintf(out, "%s%.*s", column > 0 ? " " : "", bytes, at);
        column += (column > 0) + bytes;
        at += bytes + (at[bytes] == ' ');
    }
    fprintf(out, "\n  figures: %s\n  example: %s\n", preset->source, preset->example);
}

/* One, or all. */
static void print_page(const struct tutti_preset *one, const struct tutti_table *table,
                       const struct tutti_page *page)
{
    if (one != NULL) {
        print_one(one, page);
        return;
    }
    tutti_table_print(table, page);
    fprintf(page->out,
            "# 'tutti topo list PRESET' shows its keys and where its figures come from\n");
}

int tutti_command_topo_list(const struct tutti_args *args, struct tutti_sink *sink,
                            struct tutti_err *err)
{
    const char *name = tutti_args_operand(args, 0);
    size_t count = 0;
    const struct tutti_preset *presets = tutti_presets(&count);
    struct tutti_table *table;
    struct tutti_page page;
    int status = 0;

    if (name != NULL) {
        presets = find(name, err);
        count = 1;
        if (presets == NULL)
            return -TUTTI_EINVAL;
    }
    table = tutti_table_new(columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; table != NULL && i < count && status == 0; i++)
        status = tutti_table_add(table, presets[i].name, presets[i].example, presets[i].summary,
                                 presets[i].keys, presets[i].source);
    if (table == NULL || status < 0) {
        tutti_table_free(table);
        return tutti_nomem(err);
    }
    if (tutti_args_is(args, "format", "json")) {
        struct tutti_json json = {.out = sink->out};

        tutti_json_open(&json, NULL, '{');
        tutti_json_text(&json, "tutti", TUTTI_BUILD_VERSION);
        tutti_table_json(table, "presets", &json);
        tutti_json_close(&json);
    } else if (tutti_args_is(args, "format", "csv")) {
        tutti_table_csv(table, sink->out);
    } else {
        status = tutti_page_open(&page, sink, err);
        if (status == 0) {
            print_page(name != NULL ? presets : NULL, table, &page);
            status = tutti_page_close(&page, 0, err);
        }
    }
    tutti_table_free(table);
    return status;
}

static const struct tutti_option options[] = {TUTTI_OPTIONS_OUTPUT};

const struct tutti_command tutti_cli_topo_list = {
    .name = "topo list",
    .summary = "the presets of machines, their keys and the sources of their figures",
    .operands = "[PRESET]",
    .operand_max = 1,
    .text = "Lists the machines that Tutti knows by name. A SPEC is the name alone, or the name "
            "with a colon and keys: 'dgx-h100:nodes=16', 'tpu-v4:4x4x8', "
            "'ring:n=64,bw=50GB/s,lat=1us'. With a PRESET: its keys with their defaults, and "
            "where its figures come from. Instead of a SPEC all commands take a file as well: "
            "NCCL topology XML, or Tutti's own text ('tutti topo convert' writes it). "
            "'local' is this machine (see 'tutti topo show').",
    .examples = "tutti topo list\ntutti topo list dgx-h100\ntutti topo list --format json",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_topo_list,
};
