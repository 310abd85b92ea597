/* tutti topo convert: any machine as Tutti's own text, to keep, to read and to edit. */
#include <stdlib.h>
#include <string.h>

#include "tools/cli/files.h"
#include "tools/cli/machine.h"
#include "tools/cli/perturb.h"
#include "tools/cli/shared_options.h"
#include "tools/commands.h"
#include "tools/options.h"
#include "topo/topo.h"

int tutti_command_topo_convert(const struct tutti_args *args, struct tutti_sink *sink,
                               struct tutti_err *err)
{
    struct tutti_topo *topo = NULL;
    struct tutti_perturb perturb;
    char *text = NULL;
    int status = tutti_perturb_read(args, false, &perturb, err);

    if (status == 0 && tutti_perturb_find(&perturb, TUTTI_PERTURB_ECMP) != NULL)
        status = tutti_fail(err, TUTTI_EINVAL,
                            "option '--perturb': a file says no route that is drawn: no 'ecmp=' "
                            "here (slow-link=, slow-node=, latency= or rates=)");
    if (status == 0)
        status = tutti_machine_load(tutti_args_operand(args, 0),
                                    (uint32_t)tutti_args_number(args, "nodes"), &topo, err);
    if (status == 0)
        status = tutti_perturb_machine(topo, &perturb, tutti_args_number(args, "seed"), err);
    if (status == 0)
        status = tutti_topo_print(topo, &text, err);
    if (status == 0) {
        status = tutti_file_write(tutti_args_text(args, "output"), text, strlen(text), sink, err);
        if (status < 0)
            status = tutti_wrap(err, status, "option '--output'");
    }
    free(text);
    tutti_topo_free(topo);
    return status;
}

static const struct tutti_option options[] = {
    {.letter = 'O',
     .name = "output",
     .type = TUTTI_OPTION_TEXT,
     .value = "FILE",
     .standard = "-",
     .help = "where to write it; - is standard output"},
    TUTTI_OPTION_PERTURB,
    TUTTI_OPTION_PERTURB_SEED,
    TUTTI_OPTION_NODES,
};

const struct tutti_command tutti_cli_topo_convert = {
    .name = "topo convert",
    .summary = "write a machine as Tutti's own text: from a preset, NCCL XML, or text",
    .operands = "SPEC",
    .operand_min = 1,
    .operand_max = 1,
    .text = "Reads a machine, a preset or a file (NCCL topology XML, or Tutti's own text), and "
            "writes it as Tutti's own text: a line a node and a line a cable, with rates and "
            "latencies that can be edited. All commands take the result as their SPEC.\n\n"
            "The grammar: topology NAME, source TEXT, node NAME device|switch|nic|cpu "
            "[rank=N] [host=N] [flops=N] [mem=RATE] [reduces], cable A B KIND RATE LATENCY "
            "[cables=N] [burst=SIZE] (both ways), link (the same, one way), levels N..., dims "
            "NxN [wrap=11], order RANK..., routes search|grid|tree|cluster. A # begins a "
            "comment." TUTTI_PERTURB_TEXT TUTTI_PERTURB_RULES_TEXT
            " Written to a file, a perturbed machine is like any other: where its routes are "
            "searched, they follow its new rates.",
    .examples = "tutti topo convert dgx-1v\n"
                "tutti topo convert h100x8.xml --nodes 4 -O cluster.topo",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_topo_convert,
};
