/* tutti plan: how to divide a model over machines, and over how many: the best few, and why. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "tools/cli/calib.h"
#include "tools/cli/model.h"
#include "tools/cli/progress.h"
#include "tools/cli/shared_options.h"
#include "tools/commands.h"
#include "tools/options.h"
#include "tools/plan/plan.h"
#include "topo/topo.h"

struct teller {
    const struct tutti_args *args;
    const struct tutti_plan_question *question;
    struct tutti_sink *sink;
};

static void show_progress(void *context, const struct tutti_plan_progress *progress)
{
    const struct teller *t = context;
    char detail[160];

    (void)snprintf(detail, sizeof(detail), "(machine %" PRIu32 " of %" PRIu32 "): %.0f %%",
                   progress->machine + 1, t->question->machine_count,
                   100 * (double)progress->done / (double)progress->count);
    tutti_progress_show(tutti_command_program(t->args->command), t->args->command->name,
                        t->question->machines[progress->machine].topo->name, detail, t->sink);
}

/* What was found is printed, and then the check of deadline and budget fails. */
static int judge(const struct tutti_plan_found *best, struct tutti_err *err)
{
    if (best->in_time && best->in_budget)
        return 0;
    return tutti_fail(err, TUTTI_ECHECK, "no plan that fits is %s",
                      best->in_time     ? "in budget"
                      : best->in_budget ? "in time"
                                        : "in time and in budget");
}

static int answer(const struct tutti_args *args, struct tutti_plan_question *question,
                  struct tutti_plan_result *result, struct tutti_sink *sink, struct tutti_err *err)
{
    struct teller teller = {args, question, sink};
    clock_t begun = clock();
    double cpu_s;
    int status;

    question->ask.tell = show_progress;
    question->ask.tell_context = &teller;
    status = tutti_plan_search(&question->ask, &result->answer, err);
    cpu_s = (double)(clock() - begun) / CLOCKS_PER_SEC;
    if (status == 0)
        status = tutti_plan_refuse(&question->ask, &result->answer, err);
    question->ask.tell = NULL;
    if (status == 0 && question->turns) {
        tutti_progress_show(tutti_command_program(args->command), args->command->name,
                            "what would change the order", "", sink);
        status = tutti_plan_turns(&question->ask, &result->answer, result->turns, err);
    }
    tutti_progress_show(NULL, NULL, NULL, NULL, sink);
    if (status == 0 && (sink->verbose || (sink->notes_terminal && !sink->quiet)))
        fprintf(sink->notes, "%s %s: searched in %.2f CPU-s\n",
                tutti_command_program(args->command), args->command->name, cpu_s);
    if (status == 0)
        status = tutti_plan_goodput_ask(question, result, err);
    if (status == 0)
        status = tutti_plan_print(args, question, result, sink, err);
    if (status == 0)
        status = tutti_plan_chart(args, question, &result->answer, sink, err);
    if (status == 0)
        status = judge(&result->answer.best[0], err);
    tutti_plan_answer_done(&result->answer);
    return status;
}

int tutti_command_plan(const struct tutti_args *args, struct tutti_sink *sink,
                       struct tutti_err *err)
{
    struct tutti_plan_question question;
    struct tutti_plan_result result = {.answer = {.best = NULL}};
    int status = tutti_plan_question_read(args, &question, err);

    if (status == 0)
        status = tutti_plan_chart_check(args, &question, err);
    if (status == 0)
        status = answer(args, &question, &result, sink, err);
    tutti_plan_question_done(&question);
    return status;
}

#define DEGREE(word, what)                                                     \
    {                                                                          \
        .name = word, .type = TUTTI_OPTION_TEXT, .value = "LIST", .help = what \
    }

static const struct tutti_option options[] = {
    {.letter = 'm',
     .name = "model",
     .type = TUTTI_OPTION_TEXT,
     .value = "MODEL|FILE",
     .help = "what is trained: 'tutti model list' shows all"},
    {.name = "global-batch",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .min = 1,
     .max = 1 << 24,
     .help = "samples of a step, of all devices together"},
    {.name = "tokens",
     .type = TUTTI_OPTION_TEXT,
     .value = "AMOUNT",
     .help = "tokens of all sequences trained on, 300B or 15T: how long that takes, what it costs"},
    {.name = "steps",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .min = 1,
     .max = UINT64_C(1) << 50,
     .help = "the same by steps"},
    {.name = "devices",
     .type = TUTTI_OPTION_TEXT,
     .value = "LIST",
     .help = "machines like these of so many devices: 8, 1,2,8 or 64..4096 (doubling)"},
    {.name = "deadline",
     .type = TUTTI_OPTION_TEXT,
     .value = "TIME",
     .help = "12h, 60d, 8w: plans that take longer stand behind, and cost is what counts"},
    {.name = "budget",
     .type = TUTTI_OPTION_TEXT,
     .value = "AMOUNT",
     .help = "10M: plans that cost more stand behind"},
    {.name = "by",
     .type = TUTTI_OPTION_CHOICE,
     .value = "time|money|devices",
     .help = "what is to be least (if not given: time; money with --deadline alone)"},
    {.name = "top",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .standard = "5",
     .min = 1,
     .max = 1000,
     .help = "plans to print; of those that divide the model alike the best alone"},
    {.name = "memory",
     .type = TUTTI_OPTION_REAL,
     .value = "PERCENT",
     .standard = "100",
     .min = 1,
     .max = 100,
     .help = "part of a device's memory that may be used"},
    {.name = "what-if",
     .type = TUTTI_OPTION_CHOICE,
     .value = "on|off",
     .standard = "on",
     .help = "search again with other memory, networks and batches until another plan wins"},
    {.name = "exact",
     .type = TUTTI_OPTION_FLAG,
     .help = "collectives simulated at each size and number of hosts, as 'tutti train' does, not "
             "between a few of them: minutes"},
    {.name = "unpruned",
     .type = TUTTI_OPTION_FLAG,
     .help = "predict all that fits: the same answer, later"},
    {.name = "among",
     .type = TUTTI_OPTION_TEXT,
     .value = "FILE.csv",
     .help = "choose among the settings of a table's rows alone (tp, pp, dp, zero, micro_batch, "
             "...): those of this model, precision, batch and number of devices, which rows must "
             "state"},
    DEGREE("tp", "degrees of tensor parallelism to try: 8, 1,2,4 or 1..8 (if not given: up to the "
                 "devices of a "
                 "host)"),
    DEGREE("pp", "of pipeline parallelism (if not given, as for the next: all that divide)"),
    DEGREE("vp", "chunks of layers that each device of a pipeline has"),
    DEGREE("cp", "context parallelism"),
    DEGREE("ep", "expert parallelism"),
    DEGREE("dp", "data parallelism"),
    DEGREE("micro-batch", "samples of one pass"),
    DEGREE("zero",
           "stages of ZeRO: 0, 1, 2, 3 (if not given: all). With a pipeline 3 is FSDP that "
           "gathers weights once a step (train's --keep-weights), tried of PyTorch, or if it "
           "is given; 2 does not go with one"),
    DEGREE("recompute", "none, selective, full"),
    DEGREE("pipeline", "gpipe, 1f1b, interleaved, zb-h1, zb-h2, zbv (if not given: 1f1b, "
                       "interleaved)"),
    DEGREE("context", "ring, ulysses (if not given: ring)"),
    DEGREE("sp", "sequence parallelism: on, off"),
    {.name = "precision",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .standard = "bf16",
     .help = "of products: fp32, tf32, fp16, bf16, fp8 or fp4"},
    {.name = "framework",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help = "pytorch, compiled, megatron, deepspeed, nanotron, tensorflow or xla (if not given: "
             "megatron, of TPUs xla, of other than sequences pytorch)"},
    {.name = "device",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help = "what the machines' devices are, where a SPEC does not say"},
    {.name = "attention",
     .type = TUTTI_OPTION_CHOICE,
     .value = "fused|plain",
     .standard = "fused",
     .help = "fused: FlashAttention, no matrix of scores in memory"},
    {.name = "optimizer",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help = "sgd, momentum or adam (if not given: adam of sequences, momentum of others)"},
    {.name = "gradient-bytes",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .standard = "0",
     .min = 0,
     .max = 4,
     .help = "of a gradient as it is reduced; 0: as the framework does"},
    {.name = "prices",
     .type = TUTTI_OPTION_TEXT,
     .value = "FILE",
     .help = "what devices cost (if not given: a dated list)"},
    TUTTI_OPTIONS_GOODPUT,
    TUTTI_OPTIONS_GOODPUT_SAVING,
    {.name = "plot",
     .type = TUTTI_OPTION_CHOICE,
     .value = "auto|utf8|ascii|none",
     .standard = "auto",
     .help = "the front of several sizes as a chart; auto: on a terminal"},
    {.name = "svg",
     .type = TUTTI_OPTION_TEXT,
     .value = "FILE",
     .help = "draw that chart as SVG as well"},
    TUTTI_OPTIONS_MODEL,
    TUTTI_OPTION_NODES,
    TUTTI_OPTION_CALIB,
    TUTTI_OPTIONS_OUTPUT,
};

const struct tutti_command tutti_cli_plan = {
    .name = "plan",
    .summary = "how to divide a model over machines, and over how many devices, and why",
    .operands = "SPEC...",
    .operand_min = 1,
    .operand_max = TUTTI_PLAN_SPECS_MAX,
    .text =
        "Searches tensor, pipeline (with chunks), context, expert and data parallelism, ZeRO, "
        "micro-batches, recomputation and sequence parallelism for those that go together, fit "
        "into the devices' memory and train fastest, or at the least cost in time. What a step "
        "takes is what 'tutti train' says of it, of images without their input (--synthetic). A "
        "plan that does not fit is never among them; "
        "where none fits, the command fails and names the largest terms of what comes nearest.\n\n"
        "The table has the best of each division of the model (TP, PP, CP, EP, DP); 'batch' and "
        "'x' are the samples of a pass and the passes of a step. Below it: what the first saves "
        "and what it pays beside the second ('why'), under what memory, network or batch another "
        "would win ('turns'; found by searching again), and where predictions lie outside of what "
        "was ever measured ('caution'); 'train' is the command that takes the first apart. Of "
        "several machines or sizes also the front: what nothing "
        "else is better than in time, cost and devices together. Equally good plans stand in the "
        "order in which they are tried: fewer stages first, then less tensor, context and expert "
        "parallelism, fewer chunks, larger micro-batches, less recomputed, less sharded.\n\n"
        "With --days, --mtbf or --failures the last lines say what failures leave of a training by "
        "the first plan, how often to save, and what would help.\n\n"
        "Exit code 1: plans were printed, but none is in time or in budget.\n\n" TUTTI_MODEL_TEXT,
    .examples =
        "tutti plan dgx-h100:nodes=8 --model llama3-8b --global-batch 512\n"
        "tutti plan dgx-h100 --devices 512..16384 --model llama3-70b --global-batch 2048 --tokens "
        "15T --deadline 60d\n"
        "tutti plan dgx-h100:nodes=16 dgx-a100:nodes=32 --model gpt3-175b --global-batch 1536 "
        "--tokens 300B --budget 10M\n"
        "tutti plan dgx-h100:nodes=2048 --model llama3-405b --global-batch 2048 --tp 8 --sp on",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_plan,
};
