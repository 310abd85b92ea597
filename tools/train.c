/* tutti train: a training step of a model by a strategy on a machine, simulated. */
#include "tools/cli/calib.h"
#include "tools/cli/model.h"
#include "tools/cli/shared_options.h"
#include "tools/commands.h"
#include "tools/options.h"
#include "tools/train/all_reduce.h"
#include "tools/train/ask.h"
#include "tools/train/cluster.h"
#include "tools/train/curve.h"
#include "tools/train/elastic.h"
#include "tools/train/found.h"
#include "tools/train/going_on.h"
#include "tools/train/goodput.h"
#include "tools/train/jobs.h"
#include "tools/train/parallel.h"
#include "tools/train/print.h"
#include "tools/train/ps.h"
#include "tools/train/real.h"
#include "tools/train/step.h"
#include "tools/train/strategy.h"

static int ask_goodput(struct tutti_train_question *q, const struct tutti_train_found *found,
                       struct tutti_err *err)
{
    const struct tutti_train_answer *a = &found->answer;
    const struct tutti_train_goodput_step step = {.step_ps = a->step_ps,
                                                  .samples = a->samples,
                                                  .parameters = a->parameters,
                                                  .accelerator = a->accelerator,
                                                  .replica_devices = 1};

    return tutti_train_goodput_ask(q, &step, err);
}

int tutti_command_train(const struct tutti_args *args, struct tutti_sink *sink,
                        struct tutti_err *err)
{
    struct tutti_train_found_all found = {.count = 0};
    struct tutti_train_timeline timeline = {.schedule = NULL};
    struct tutti_train_elastic elastic;
    struct tutti_train_question question;
    int status;

    if ((tutti_args_given(args, "cluster") || tutti_args_given(args, "backend")) &&
        tutti_goodput_refuse(args, "is of a training that is simulated (SPEC, without -B)", err) <
            0)
        return -TUTTI_EINVAL;
    if (tutti_args_given(args, "job") &&
        (tutti_args_given(args, "cluster") || tutti_args_given(args, "backend")))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--job' is of a simulated step, not of -B (leave it out)");
    if (tutti_args_given(args, "cluster"))
        return tutti_train_cluster(args, sink, err);
    if (tutti_args_given(args, "backend"))
        return tutti_train_is_ps(args) ? tutti_train_ps(args, sink, err)
                                       : tutti_train_real(args, sink, err);
    if (tutti_args_operand(args, 0) == NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "no machine to simulate it on (SPEC: 'tutti topo list'; or -B threads: "
                          "really trained here)");
    if (tutti_train_real_refuse(args, err) < 0)
        return -TUTTI_EINVAL;
    if (tutti_args_given(args, "job"))
        return tutti_train_jobs(args, sink, err);
    if (tutti_train_is_parallel(args))
        return tutti_train_parallel(args, sink, err);
    status = tutti_train_question_read(args, &question, err);
    question.timeline = &timeline;
    question.elastic = &elastic;
    if (status == 0)
        status = tutti_train_anchor_solve(args, &question, err);
    if (status == 0)
        status = tutti_train_ask_all(args, &question, &found, err);
    if (status == 0)
        status = ask_goodput(&question, &found.machine[0], err);
    if (status == 0)
        status = tutti_train_elastic_ask(args, &question, &found.machine[0], &elastic, err);
    if (status == 0 && !tutti_train_curve_only(args))
        status = tutti_train_print(args, &question, &found, sink, err);
    if (status == 0)
        status = tutti_train_print_curve(args, &question, &found, sink, err);
    if (status == 0 && tutti_args_given(args, "trace"))
        status = tutti_train_trace(&timeline, tutti_args_text(args, "trace"), question.model->name,
                                   sink, err);
    tutti_train_timeline_done(&timeline);
    tutti_train_question_done(&question);
    return status;
}

static const struct tutti_option options[] = {
    {.letter = 'm',
     .name = "model",
     .type = TUTTI_OPTION_TEXT,
     .value = "MODEL|FILE",
     .help = "what is trained: 'tutti model list' shows all"},
    {.letter = 's',
     .name = "strategy",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help = "onedevice, mirrored, multiworkermirrored, parameter-server, central-storage, tpu, "
             "ddp, horovod, zero1, zero2, "
             "fsdp, hsdp, local-sgd or diloco (if not given: by what the machine is, with model "
             "parallelism ddp)"},
    {.name = "batch",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .min = 1,
     .max = 1 << 24,
     .help = "samples of a device (if not given: 64 images, 1 sequence), or of each of the "
             "micro-batches that --accumulate says"},
    {.name = "micro-batch",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .min = 1,
     .max = 1 << 24,
     .help = "pieces that --batch or --global-batch is cut into, to be accumulated; what a device "
             "works on at once (if not given: all, with model parallelism 1 sequence)"},
    {.name = "global-batch",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .min = 1,
     .max = UINT64_C(1) << 40,
     .help = "samples of a step, of all devices together"},
    {.name = "accumulate",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .standard = "1",
     .min = 1,
     .max = 65536,
     .help = "micro-batches whose gradients are added up before a step"},
    {.name = "precision",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help = "of products: fp32, tf32, fp16, bf16, fp8 or fp4 (if not given: fp32, of TPUs bf16, "
             "with model parallelism bf16 where the device has it)"},
    {.name = "framework",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help = "pytorch, compiled, megatron, megatron-lm (of 2021), deepspeed, internevo, nanotron, "
             "tensorflow or xla (if not given: the one that the strategy is of, with model "
             "parallelism megatron, of TPUs xla)"},
    {.name = "device",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help = "what the machine's devices are, where its SPEC does not say"},
    {.name = "recompute",
     .type = TUTTI_OPTION_CHOICE,
     .value = "none|selective|full",
     .standard = "none",
     .help = "activations that the backward pass computes again"},
    {.name = "attention",
     .type = TUTTI_OPTION_CHOICE,
     .value = "fused|plain",
     .standard = "fused",
     .help = "fused: FlashAttention, no matrix of scores in memory"},
    TUTTI_TRAIN_OPTION_ALL_REDUCE,
    TUTTI_TRAIN_OPTIONS_PARALLEL,
    TUTTI_TRAIN_OPTIONS_STRATEGY,
    {.name = "input-rate",
     .type = TUTTI_OPTION_REAL,
     .value = "N",
     .min = 0,
     .max = 1000000000,
     .help = "samples a second that one worker of the input pipeline makes (if not given: of "
             "images 689, TensorFlow's decode on x86); 0: as fast as need be"},
    {.name = "input-workers",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .standard = "1",
     .min = 1,
     .max = 65536,
     .help = "workers of it on each host"},
    {.name = "prefetch",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .standard = "1",
     .min = 0,
     .max = 65536,
     .help = "batches made ahead; 0: input and step follow each other"},
    {.name = "synthetic", .type = TUTTI_OPTION_FLAG, .help = "data that take no time to make"},
    {.name = "step-time",
     .type = TUTTI_OPTION_TIME,
     .value = "TIME",
     .help = "a step measured on one device at this batch: scales what devices take"},
    TUTTI_TRAIN_OPTION_ANCHOR,
    {.name = "devices",
     .type = TUTTI_OPTION_TEXT,
     .value = "LIST",
     .help = "machines like this one of so many devices: 8, 1,2,8 or 1..1024 (doubling)"},
    {.name = "steps",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .min = 1,
     .max = UINT64_C(1) << 50,
     .help = "steps of the whole training: how long it takes"},
    {.name = "epochs",
     .type = TUTTI_OPTION_REAL,
     .value = "N",
     .min = 0,
     .max = 1000000,
     .help = "passes over all examples: how long they take"},
    {.name = "tokens",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .min = 1,
     .max = UINT64_C(1) << 62,
     .help = "tokens of all sequences trained on: how long they take"},
    {.name = "examples",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .min = 1,
     .max = UINT64_C(1) << 50,
     .help = "of an epoch (if not given: of the model's data set)"},
    {.name = "optimizer",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help = "whose states are kept: sgd, momentum or adam (if not given: adam of sequences, "
             "momentum of others)"},
    {.name = "any-memory",
     .type = TUTTI_OPTION_FLAG,
     .help = "predict also what does not fit into a device"},
    {.name = "prices",
     .type = TUTTI_OPTION_TEXT,
     .value = "FILE",
     .help = "what devices, electricity and buildings cost (if not given: a dated list)"},
    {.name = "exact",
     .type = TUTTI_OPTION_FLAG,
     .help = "simulate every message, of rings, without protocols"},
    TUTTI_TRAIN_OPTION_SVG,
    TUTTI_TRAIN_OPTIONS_STEP,
    TUTTI_TRAIN_OPTIONS_SERVERS,
    TUTTI_TRAIN_OPTIONS_REAL,
    TUTTI_TRAIN_OPTIONS_GOING_ON,
    TUTTI_OPTIONS_GOODPUT,
    TUTTI_TRAIN_OPTION_JOB,
    TUTTI_TRAIN_OPTIONS_EMULATE,
    TUTTI_TRAIN_OPTION_CLUSTER,
    TUTTI_OPTIONS_MODEL,
    TUTTI_OPTION_NODES,
    TUTTI_OPTION_CALIB,
    TUTTI_OPTIONS_OUTPUT,
};

const struct tutti_command tutti_cli_train = {
    .name = "train",
    .summary = "a training step of a model by a strategy on a machine, and where its time goes",
    .operands = "[SPEC]",
    .operand_min = 0,
    .operand_max = 1,
    .text =
        "Writes the step of the strategy as a schedule (what each device computes, which "
        "collectives run when, what waits for what) and simulates it: layers by a roofline of "
        "the device and the launches of the host, collectives by what the machine's library "
        "would run, those under way at once sharing links. The columns say what a step takes "
        "and where it goes: compute, then what the device waits for: gradients being reduced, "
        "weights being gathered, the host's input pipeline. The interval (p10, p90) is of public "
        "measured steps of the framework, over what was predicted of "
        "them.\n\n" TUTTI_TRAIN_PARALLEL_TEXT
        "\n\n" TUTTI_TRAIN_SERVERS_TEXT TUTTI_TRAIN_ELASTIC_TEXT "\n\n" TUTTI_TRAIN_REAL_TEXT
        "\n\n" TUTTI_TRAIN_CLUSTER_TEXT "\n\n" TUTTI_MODEL_TEXT,
    .examples = "tutti train dgx-1v --model resnet50 --batch 128 --synthetic\n"
                "tutti train dgx-1v --model resnet50 --devices 1..64 --epochs 90\n"
                "tutti train dgx-h100:nodes=4 --model llama3-8b --strategy fsdp --precision bf16\n"
                "tutti train dgx-h100:nodes=64 --model llama3-70b --tp 8 --pp 4 --global-batch 512 "
                "--recompute selective --explain\n"
                "tutti train dgx-1v:nodes=8 --model resnet50 --strategy parameter-server --sync 7 "
                "--late aborted --spread 0.1\n"
                "tutti train dgx-1v --model bert-base --strategy ddp --explain --trace step.json\n"
                "tutti train dgx-a100:nodes=8 --model gpt2 --strategy ddp --batch 8 --precision "
                "bf16 --anchor 62ms,devices=8,batch=4\n"
                "tutti train dgx-h100:nodes=4 --model llama3-8b --strategy fsdp --precision bf16 "
                "--days 30 --mtbf 5000h --restart 10min --spares 1\n"
                "tutti train dgx-h100:nodes=4,over=4,group=2,spines=1 --job model=llama3-8b "
                "devices=16 strategy=fsdp precision=bf16 recompute=full place=0-7+16-23 "
                "--job model=bert-large devices=16\n"
                "tutti train -B threads -g 2 --model mlp --strategy mirrored --steps 200 "
                "--evaluate end\n"
                "tutti train -B tcp --launch 2 --model cifar10-cnn --strategy multiworkermirrored\n"
                "tutti train tpu-v3:8x8 --model resnet50 --precision bf16 --batch 128",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_train,
};
