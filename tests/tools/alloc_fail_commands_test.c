/* Every allocation of whole commands made to fail once: exit code 1, one line that says why, and
 * nothing left. */
#include "tests/alloc_fail.h"
#include "tools/cli.h"
#include "tools/fit/commands.h"

enum { WORDS_MAX = 32 };

typedef int (*program)(int argc, char **argv, struct tutti_sink *sink, struct tutti_err *err);

/* 0, or what went wrong as a status; a command that fails must say why in one line. */
static int call(program of, const char *line, struct tutti_err *err)
{
    char words[1024];
    char *argv[WORDS_MAX + 1] = {words};
    struct tutti_sink_text text;
    struct tutti_sink sink;
    int argc = 0;
    int code = tutti_sink_open_text(&sink, &text, err);

    if (code < 0)
        return code;
    snprintf(words, sizeof(words), "%s", line);
    for (char *at = words; at != NULL && argc < WORDS_MAX; argc++) {
        argv[argc] = at;
        at = strchr(at, ' ');
        if (at != NULL)
            *at++ = '\0';
    }
    code = of(argc, argv, &sink, err);
    if (tutti_sink_close(&sink, err) < 0) {
        tutti_sink_text_done(&text);
        return -TUTTI_ENOMEM;
    }
    if (code != 0 && (code != 1 || strchr(text.notes, '\n') != text.notes + text.notes_bytes - 1)) {
        (void)tutti_fail(err, TUTTI_ECHECK, "exit code %d, and in the notes: %.800s", code,
                         text.notes);
        tutti_sink_text_done(&text);
        return -TUTTI_ECHECK;
    }
    tutti_sink_text_done(&text);
    return code == 0 ? 0 : -TUTTI_ENOMEM;
}

static void each_of(program of, const char *line)
{
    int before = test_failures;
    struct tutti_err err;

    ALLOC_FAIL_EACH(call(of, line, &err), err);
    if (test_failures > before)
        fprintf(stderr, "  ... by %s\n", line);
}

static void each(const char *line)
{
    each_of(tutti_cli_call, line);
}

TEST(commands_about_machines)
{
    each("topo list");
    each("topo show dgx-a100");
    each("topo bound dgx-h100:nodes=2 -b 1M");
    each("topo convert ring:n=4,bw=50GB/s,lat=1us");
    each("topo bound dgx-1v -b 1M --perturb slow-link=1:2");
    each("topo convert ring:n=4 --perturb slow-node=1:2,latency=1..1.2");
    each("topo show dgx-1v --format json");
    each("topo show dgx-1v --svg " TUTTI_BINARY_DIR "/alloc_fail.svg");
}

TEST(commands_about_models)
{
    each("model list --format csv");
    each("model show gpt:layers=2,hidden=64,heads=2 --variables");
    each("model show resnet50 --image 64 --format json");
    each("model show " TUTTI_SOURCE_DIR "/tests/fuzz/corpus/model/line.model --operations");
    each("model show mlp --text");
    each("train dgx-1v:gpus=2 --model mlp");
    each("train dgx-1v:gpus=2 --model mlp --strategy zero1 --devices 1,2 --epochs 1 --format json");
}

TEST(commands_about_schedules)
{
    each("schedule show -c allreduce -a ring -g 3 -b 28");
    each("schedule check -c allreduce -a double-binary-tree -g 4 -b 64");
    each("schedule prove -c reducescatter -a halving -g 4 -b 64");
    each("schedule convert -c broadcast -a binomial -g 3 -b 64");
    each("schedule check " TUTTI_SOURCE_DIR "/tools/examples/ring2.schedule");
}

TEST(commands_that_predict)
{
    each("predict dgx-1v -a ring -b 1K -e 4K --jobs 1");
    each("predict switch:n=4,bw=50GB/s,lat=1us -c broadcast -a auto -b 1K --jobs 1");
    each("predict ring:n=4,bw=50GB/s,lat=1us -a ring -b 1K --format csv --trace " TUTTI_BINARY_DIR
         "/alloc_fail.json");
    each("compare switch:n=4,bw=50GB/s,lat=1us -c alltoall -b 1K -e 4K --jobs 1");
    each("compare ring:n=3,bw=50GB/s,lat=1us -a ring,torus -b 1K --jobs 1 --svg " TUTTI_BINARY_DIR
         "/alloc_fail.svg");
    each("predict ring:n=4 -a ring -b 1K --jobs 1 --perturb slow-link=1:2,start=1us");
    each("compare ring:n=3 -a ring -b 1K --jobs 1 --perturb rates=1/0.5");
    each("predict switch:n=4 -b 1K --jobs 1 --schedule " TUTTI_SOURCE_DIR
         "/tools/examples/two-steps4.schedule");
    each("validate switch:n=8,bw=50GB/s,lat=1us -e 8 --log " TUTTI_SOURCE_DIR
         "/tests/fixtures/nccl-tests/v2.19.log");
    each("validate switch:n=8,bw=50GB/s,lat=1us -e 8 -j 1 --plot utf8 --svg " TUTTI_BINARY_DIR
         "/alloc_fail.svg --log " TUTTI_SOURCE_DIR "/tests/fixtures/nccl-tests/v2.19.log");
}

TEST(commands_that_train)
{
    each("plan switch:n=2,bw=50GB/s,lat=1us --device a100 -m gpt:layers=2,hidden=64,heads=2 "
         "--global-batch 2 --tp 1 --pp 1 --recompute none --zero 0 --steps 9");
    each("train switch:n=2,bw=50GB/s,lat=1us --device v100 -m mlp --batch 4 --slow 1:20 --explain "
         "--all-reduce RING --trace " TUTTI_BINARY_DIR "/alloc_fail.json");
    each("train switch:n=4,bw=50GB/s,lat=1us --device v100 -m gpt:layers=2,hidden=64,heads=2 "
         "--seq 16 --vocab 64 --tp 2 --pp 2 --stage-layers 1,1 --global-batch 4 --explain "
         "--trace " TUTTI_BINARY_DIR "/alloc_fail_parallel.json");
    each("train switch:n=4,bw=50GB/s,lat=1us --device v100 -m gpt:layers=2,hidden=64,heads=2 "
         "--seq 16 --vocab 64 --cp 2 --devices 2,4 --explain --format json");
    each("train switch:n=2,bw=50GB/s,lat=1us --device v100 -m mlp -s parameter-server --sync 2 "
         "--format json");
    each("train switch:n=2,bw=50GB/s,lat=1us --device v100 -m linear-regression --tf-config "
         "{\"cluster\":{\"worker\":[\"a:1\",\"b:1\"],\"ps\":[\"a:2\"]}}");
}

TEST(commands_that_start_training_elsewhere)
{
    each("launch kubernetes --worker 2 --ps 1 --volume v:/data -- --model mlp --steps 9");
    each("launch slurm --worker 2 --chief -- --model mlp --checkpoint c");
}

TEST(commands_that_fit)
{
    FILE *log = fopen(TUTTI_BINARY_DIR "/alloc_fail.csv", "w");

    REQUIRE(log != NULL);
    fputs("size_bytes,time_us\n1024,9.18\n", log);
    REQUIRE(fclose(log) == 0);
    each("calibrate host:gpu=a100,gpus=2 --jobs 1 --log " TUTTI_BINARY_DIR "/alloc_fail.csv "
         "-c allreduce --format json -O " TUTTI_BINARY_DIR "/alloc_fail.calib");
}

TEST(commands_that_fit_steps)
{
    FILE *steps = fopen(TUTTI_BINARY_DIR "/alloc_fail_steps.csv", "w");

    REQUIRE(steps != NULL);
    fputs("gpu,gpus,framework,model,precision,batch_per_gpu,throughput,unit\n"
          "V100,1,PyTorch,AlexNet,fp32,64,900,images/s\n",
          steps);
    REQUIRE(fclose(steps) == 0);
    each("calibrate --training " TUTTI_BINARY_DIR
         "/alloc_fail_steps.csv --free passes -O " TUTTI_BINARY_DIR "/alloc_fail_steps.calib");
    each("validate --training " TUTTI_BINARY_DIR "/alloc_fail_steps.csv --calib " TUTTI_BINARY_DIR
         "/alloc_fail_steps.calib");
    each("train switch:n=2,bw=50GB/s,lat=1us --device v100 -m mlp --batch 4 --anchor "
         "5ms,devices=2 --calib " TUTTI_BINARY_DIR "/alloc_fail_steps.calib");
}

TEST(commands_that_go_by_steps_of_divided_models)
{
    FILE *steps = fopen(TUTTI_BINARY_DIR "/alloc_fail_cut.csv", "w");

    REQUIRE(steps != NULL);
    fputs("gpu,gpus,nodes,framework,model,layers,hidden,heads,seq_len,vocab,precision,tp,pp,dp,"
          "micro_batch,global_batch,step_time_s,memory_GB\n"
          "H100,1,1,nanotron,Llama-like,4,256,4,128,512,bf16,1,1,1,1,2,0.1,2\n",
          steps);
    REQUIRE(fclose(steps) == 0);
    each_of(tutti_fit_call,
            "training " TUTTI_BINARY_DIR "/alloc_fail_cut.csv --framework nanotron --choose");
}

TEST(commands_of_the_laboratory)
{
    static const char accuracy[] = "accuracy " TUTTI_SOURCE_DIR
                                   "/tests/fixtures/measured/two.measured -a ring -p none --jobs 1";
    char line[1024];

    snprintf(line, sizeof(line), "%s --plot ascii --svg " TUTTI_BINARY_DIR "/alloc_fail.svg",
             accuracy);
    each_of(tutti_fit_call, line);
    snprintf(line, sizeof(line), "%s --filter site=here --format json", accuracy);
    each_of(tutti_fit_call, line);
    snprintf(line, sizeof(line), "%s --format csv", accuracy);
    each_of(tutti_fit_call, line);
    each_of(tutti_fit_call,
            "calibrate " TUTTI_SOURCE_DIR "/tests/fixtures/measured/pair.measured --jobs 1 "
            "--iterations 1 -O " TUTTI_BINARY_DIR "/alloc_fail.calib");
}

TEST(commands_that_explain)
{
    each("explain " TUTTI_SOURCE_DIR "/tools/examples/h100x8.topo -b 64M --env NCCL_ALGO=Ring");
    each("explain " TUTTI_SOURCE_DIR "/tools/examples/h100x8.topo -b 1K -e 4K --format json");
}

TEST(commands_that_play)
{
    each("run -B threads -g 2 -a two-shot -b 1K -n 2 -w 1");
    each("run -B sim --topo ring:n=3,bw=50GB/s,lat=1us -a ring -b 1K");
    each("run -B tcp --launcher none -a ring -b 1K -n 2 -w 1");
    each("run -B tcp --hosts a,b:2 --rendezvous a:7000 --dry-run");
    each("doctor");
}
