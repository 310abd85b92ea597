/* Predictions for a handful of machines, one a line, in whole picoseconds: what a build for another
 * processor has to print to the byte (tests/embedded/armhf.sh, wasm.sh). */
#include <inttypes.h>
#include <stdio.h>

#include "runtime/status.h"
#include "sim/calib.h"
#include "sim/predict.h"
#include "sim/train.h"

struct question {
    const char *machine;
    const char *algorithm;
    enum tutti_collective collective;
    enum tutti_model model;
    const char *fold;
    double jitter;
};

static const struct question questions[] = {
    {"ring:n=8,bw=50GB/s,lat=500ns", "ring", TUTTI_ALLREDUCE, TUTTI_MODEL_ALPHABETA, "off", 0},
    {"switch:n=6,bw=100Mb/s,lat=1ms", "auto", TUTTI_ALLTOALL, TUTTI_MODEL_FAIR, "auto", 0},
    {"torus:4x4,bw=50GB/s,lat=1us", "auto", TUTTI_ALLREDUCE, TUTTI_MODEL_FAIR, "auto", 0},
    {"tpu-v4:4x4x4", "auto", TUTTI_ALLGATHER, TUTTI_MODEL_FAIR, "auto", 0},
    {"dgx-h100:nodes=2", "nccl", TUTTI_ALLREDUCE, TUTTI_MODEL_FAIR, "auto", 0},
    {"dgx-h100:nodes=2", "nccl", TUTTI_BROADCAST, TUTTI_MODEL_FAIR, "auto", 0},
    {"dgx-h100:nodes=4", "hierarchical", TUTTI_ALLREDUCE, TUTTI_MODEL_FAIR, "auto", 0},
    {"dgx-a100", "auto", TUTTI_REDUCESCATTER, TUTTI_MODEL_FAIR, "auto", 0},
    {"mi300x:nodes=2", "nccl", TUTTI_ALLREDUCE, TUTTI_MODEL_FAIR, "auto", 0},
    {"dgx-a100:nodes=2", "double-binary-tree", TUTTI_ALLREDUCE, TUTTI_MODEL_ALPHABETA, "off", 0.1},
    {"dgx-a100", "ring", TUTTI_ALLREDUCE, TUTTI_MODEL_FAIR, "off", 0.25},
};

static int answer_one(const struct question *question, const struct tutti_topo *machine,
                      const struct tutti_calibrated *costs, uint64_t count, struct tutti_err *err)
{
    struct tutti_bound_law law;
    struct tutti_ask ask = {
        .size = sizeof(ask),
        .topo = machine,
        .algorithm = question->algorithm,
        .params = {.collective = question->collective, .dtype = TUTTI_FLOAT32, .count = count},
        .protocol = "auto",
        .protocols = costs->protocols,
        .model = question->model,
        .seed = 42,
        .jitter = question->jitter,
        .fold = question->fold,
        .bound_law = &law};
    struct tutti_answer answer = {.time_ps = 0};
    int status = tutti_topo_bound_law(machine, question->collective, 0, &law, err);

    if (status == 0)
        status = tutti_predict(&ask, &answer, err);
    if (status < 0)
        return status;
    printf("%s %s %s %s %" PRIu64 " B: %s %s %" PRIu32 " channels, %" PRId64 " ps, bound %" PRId64
           " ps by %s, %" PRIu64 " events, %.17g GB/s\n",
           question->machine, tutti_collective_name(question->collective), question->algorithm,
           tutti_model_name(question->model), answer.bytes, answer.algorithm, answer.protocol,
           answer.channel_count, answer.time_ps, answer.bound.time_ps, answer.bound.binding,
           answer.event_count, answer.busbw_GBps);
    return 0;
}

static int answer_all(const struct question *question, struct tutti_err *err)
{
    struct tutti_topo *machine = NULL;
    struct tutti_calibrated costs;
    int status = tutti_topo_from_spec(question->machine, &machine, err);

    if (status == 0)
        status = tutti_calibrated_for(machine, &costs, err);
    for (uint64_t count = 192; status == 0 && count < UINT64_C(1) << 26; count *= 256)
        status = answer_one(question, machine, &costs, count, err);
    tutti_topo_free(machine);
    return status;
}

static const struct {
    const char *machine;
    const char *model;
    const char *strategy;
} steps[] = {
    {"dgx-1v", "resnet50", "mirrored"},
    {"dgx-h100:nodes=8", "bert-large", "fsdp"},
    {"tpu-v3:8x8", "resnet50", "tpu"},
};

/* A training step of 8 samples a device. */
static int answer_step(size_t index, struct tutti_err *err)
{
    struct tutti_topo *machine = NULL;
    struct tutti_workload *model = NULL;
    struct tutti_strategy strategy;
    struct tutti_train_answer answer;
    struct tutti_train_ask ask = {.size = sizeof(ask),
                                  .strategy = &strategy,
                                  .use = {.batch = 8, .precision = TUTTI_PRECISION_BF16}};
    int status = tutti_topo_from_spec(steps[index].machine, &machine, err);

    if (status == 0)
        status = tutti_model_new(steps[index].model, NULL, &model, err);
    if (status == 0)
        status = tutti_strategy_named(steps[index].strategy, &strategy, err);
    ask.topo = machine;
    ask.model = model;
    if (status == 0)
        status = tutti_train_predict(&ask, &answer, err);
    if (status == 0)
        printf("%s %s %s: %" PRId64 " ps, %" PRId64 " of them at work, %" PRIu64
               " B a device, %.17g samples/s, %s\n",
               steps[index].machine, steps[index].model, steps[index].strategy, answer.step_ps,
               answer.split.compute_ps, answer.footprint.total_bytes, answer.samples_per_s,
               answer.limited_by);
    tutti_model_free(model);
    tutti_topo_free(machine);
    return status;
}

int main(void)
{
    struct tutti_err err = {""};

    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        if (answer_all(&questions[i], &err) < 0) {
            fprintf(stderr, "answers: %s: %s\n", questions[i].machine, err.text);
            return 1;
        }
    }
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (answer_step(i, &err) < 0) {
            fprintf(stderr, "answers: %s of %s: %s\n", steps[i].machine, steps[i].model, err.text);
            return 1;
        }
    }
    return 0;
}
