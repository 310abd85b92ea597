/* A step of a model that is cut, as tests of it set it up. */
#ifndef TUTTI_TESTS_SIM_PARALLEL_WORLD_H
#define TUTTI_TESTS_SIM_PARALLEL_WORLD_H

#include "runtime/status.h"
#include "sim/parallel.h"
#include "tests/test.h"
#include "topo/topo.h"

struct world {
    struct tutti_topo *topo;
    struct tutti_workload *model;
    struct tutti_parallel parallel;
    struct tutti_parallel_ask ask;
};

static void open_world(struct world *w, const char *spec, const char *model,
                       struct tutti_parallel parallel)
{
    struct tutti_err err;

    *w = (struct world){.parallel = parallel};
    w->parallel.size = sizeof(w->parallel);
    CHECK_OK(tutti_topo_from_spec(spec, &w->topo, &err), err);
    CHECK_OK(tutti_model_new(model, NULL, &w->model, &err), err);
    w->ask = (struct tutti_parallel_ask){
        .size = sizeof(w->ask),
        .topo = w->topo,
        .model = w->model,
        .parallel = &w->parallel,
        .use = {.fused_attention = true, .precision = TUTTI_PRECISION_BF16},
        .optimizer = TUTTI_OPTIMIZER_ADAM,
        .prefetch = 1};
    CHECK_OK(tutti_train_memory_new(&w->ask.memory, &err), err);
}

static void close_world(struct world *w)
{
    tutti_train_memory_free(w->ask.memory);
    tutti_model_free(w->model);
    tutti_topo_free(w->topo);
}

static tutti_ps sum_of(const struct tutti_parallel_split *s)
{
    return s->compute_ps + s->host_ps + s->tensor_ps + s->context_ps + s->expert_ps +
           s->pipeline_ps + s->bubble_ps + s->data_ps + s->gather_ps + s->optimizer_ps +
           s->input_ps;
}

static struct tutti_parallel_answer predict(const struct world *w)
{
    struct tutti_parallel_answer answer = {.step_ps = -1};
    struct tutti_err err = {""};

    CHECK_OK(tutti_parallel_predict(&w->ask, &answer, &err), err);
    CHECK_INT(sum_of(&answer.split), answer.step_ps);
    return answer;
}

#endif
