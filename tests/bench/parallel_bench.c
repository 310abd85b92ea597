/* What predicting steps of cut models takes: Llama 3.1 405B on 16,384 H100 once, and then so many
 * other ways to cut it, prices of collectives told from one to the next: parallel_bench [COUNT].
 * CPU seconds of this thread. Bars: 2 for one, 20 for 10,000, on a machine on which `tutti predict
 * ring:n=4096,bw=50GB/s,lat=500ns -a ring -b 1G --model alphabeta --fold off` takes 0.39. */
#include <time.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "sim/parallel.h"
#include "tests/bench/bench.h"
#include "topo/topo.h"

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void need(int status, const struct tutti_err *err)
{
    if (status == 0)
        return;
    fprintf(stderr, "parallel_bench: %s\n", err->text);
    exit(1);
}

static double step_s(const struct tutti_parallel_ask *ask)
{
    struct tutti_parallel_answer answer;
    struct tutti_err err;

    need(tutti_parallel_predict(ask, &answer, &err), &err);
    tutti_parallel_answer_free(&answer);
    return (double)answer.step_ps * 1e-12;
}

/* Degrees by turns, of a batch of 2048 sequences; false: these do not go together. */
static bool turn(uint32_t number, const struct tutti_workload *model, struct tutti_parallel *ret)
{
    static const enum tutti_pipeline schedules[] = {TUTTI_PIPELINE_1F1B, TUTTI_PIPELINE_INTERLEAVED,
                                                    TUTTI_PIPELINE_ZB_H1, TUTTI_PIPELINE_GPIPE};
    struct tutti_parallel p = {.size = sizeof(p)};

    p.tensor = 1U << number % 5;
    number /= 5;
    p.pipeline = 1U << number % 7;
    number /= 7;
    p.schedule = schedules[number % 4];
    number /= 4;
    p.context = 1U << number % 4;
    number /= 4;
    p.micro_batch = 1U << number % 3;
    number /= 3;
    p.sharding = p.pipeline > 1 ? TUTTI_SHARD_ZERO1 : TUTTI_SHARD_ZERO3;
    p.sharding = number % 2 > 0 ? TUTTI_SHARD_NONE : p.sharding;
    number /= 2;
    p.context_kind = (enum tutti_context_kind)(number % 2);
    p.virtual_stages = p.schedule == TUTTI_PIPELINE_INTERLEAVED && p.pipeline > 1 ? 2 : 1;
    p.sequence_parallel = p.tensor > 1;
    p.data = 16384 / p.tensor / p.context / p.pipeline;
    p.micro_batches = 2048 / p.data / p.micro_batch;
    *ret = p;
    return p.data > 0 && p.micro_batches > 0 && tutti_parallel_check(ret, model, NULL) == 0;
}

int main(int argc, char **argv)
{
    const uint32_t count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 100;
    struct tutti_parallel parallel = {.size = sizeof(parallel),
                                      .tensor = 8,
                                      .pipeline = 16,
                                      .data = 128,
                                      .sequence_parallel = true,
                                      .sharding = TUTTI_SHARD_ZERO1,
                                      .micro_batches = 16};
    struct tutti_parallel_ask ask = {
        .size = sizeof(ask),
        .parallel = &parallel,
        .use = {.fused_attention = true, .precision = TUTTI_PRECISION_BF16},
        .optimizer = TUTTI_OPTIMIZER_ADAM,
        .any_memory = true,
        .prefetch = 1};
    struct tutti_workload *model = NULL;
    struct tutti_topo *topo = NULL;
    struct tutti_err err;
    double start_s = now_s();
    double best_s = 1e9;
    double first_s;
    uint32_t done = 0;

    need(tutti_topo_from_spec("dgx-h100:nodes=2048", &topo, &err), &err);
    need(tutti_model_new("llama3-405b", NULL, &model, &err), &err);
    need(tutti_train_memory_new(&ask.memory, &err), &err);
    ask.topo = topo;
    ask.model = model;
    first_s = step_s(&ask);
    printf("one step, %.3f s: %.3f CPU-s\n", first_s, now_s() - start_s);
    ask.coarse = true;
    start_s = now_s();
    for (uint32_t i = 0; done < count; i++) {
        double s;

        if (!turn(i, model, &parallel))
            continue;
        s = step_s(&ask);
        best_s = s < best_s ? s : best_s;
        done++;
    }
    printf("%u ways to cut it, the fastest %.3f s: %.3f CPU-s, %.1f us each\n", done, best_s,
           now_s() - start_s, (now_s() - start_s) * 1e6 / done);
    tutti_train_memory_free(ask.memory);
    tutti_model_free(model);
    tutti_topo_free(topo);
    return 0;
}
