/* What a second thread brings to real training: train_ranks_bench [MODEL] [BATCH] [STEPS] [ROUNDS]
 * [OPTIMIZER] [DATA]. One rank and two make steps with the same global batch, in turns, so that
 * whatever else the machine does meets both; of each the fastest step counts, and the fastest
 * tenth. Bar: two threads are at least 1.7 times one. */
#include "runtime/backend.h"
#include "runtime/model.h"
#include "runtime/status.h"
#include "runtime/threads.h"
#include "runtime/train.h"
#include "tests/bench/bench.h"

enum { STEPS_MAX = 1 << 20 };

static void give_up(const struct tutti_err *err)
{
    fprintf(stderr, "train_ranks_bench: %s\n", err->text);
    exit(1);
}

struct side {
    uint32_t ranks;
    struct tutti_learner learner;
    struct tutti_backend *backend;
    struct tutti_trainer *trainer;
    double *step_us;
    double compute_us; /* of the rank that computed longest, in the fastest step */
    uint64_t count;
};

static void open_side(struct side *s, const struct tutti_workload *model, uint32_t batch,
                      const char *optimizer, const char *set)
{
    const struct tutti_threads_opts threads = {.size = sizeof(threads), .pin = true};
    struct tutti_net_learner_facts facts;
    struct tutti_strategy strategy;
    struct tutti_err err;
    const struct tutti_net_learner_params data = {.size = sizeof(data),
                                                  .model = model,
                                                  .data = set,
                                                  .held_out_limit = 1,
                                                  .global_batch = batch,
                                                  .rank_count = s->ranks,
                                                  .drop_remainder = true, /* equal steps */
                                                  .seed = 1};
    struct tutti_trainer_params params = {.size = sizeof(params),
                                          .strategy = &strategy,
                                          .model = model,
                                          .learner = &s->learner,
                                          .rank_count = s->ranks,
                                          .seed = 1};

    if (tutti_strategy_named(s->ranks > 1 ? "mirrored" : "onedevice", &strategy, &err) < 0 ||
        tutti_update_named(optimizer, &params.optimizer, &err) < 0 ||
        tutti_net_learner_new(&data, &s->learner, &facts, &err) < 0 ||
        tutti_threads_open(&threads, &s->backend, &err) < 0)
        give_up(&err);
    params.backend = s->backend;
    if (tutti_trainer_open(&params, &s->trainer, &err) < 0)
        give_up(&err);
}

static void close_side(struct side *s)
{
    tutti_trainer_close(s->trainer);
    tutti_backend_close(s->backend);
    tutti_net_learner_free(&s->learner);
    free(s->step_us);
}

static void make_steps(struct side *s, uint32_t steps)
{
    struct tutti_trained step;
    struct tutti_err err;
    double least_us = s->count > 0 ? s->step_us[0] : 1e300;

    for (uint32_t i = 0; i < steps; i++) {
        double us;

        if (tutti_trainer_step(s->trainer, &step, &err) < 0)
            give_up(&err);
        us = (double)step.step_ps * 1e-6;
        if (i == 0) /* caches and threads were the other's */
            continue;
        s->step_us[s->count++] = us;
        if (us < least_us) {
            least_us = us;
            s->compute_us = step.most_compute_s * 1e6;
        }
    }
    qsort(s->step_us, s->count, sizeof(s->step_us[0]), bench_compare);
}

static double tenth(const struct side *s)
{
    return s->step_us[s->count / 10];
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "mlp";
    uint32_t batch = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 256;
    uint32_t steps = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 50;
    uint32_t rounds = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 20;
    const char *optimizer = argc > 5 ? argv[5] : "adam";
    struct side sides[2] = {{.ranks = 1}, {.ranks = 2}};
    struct tutti_workload *model;
    struct tutti_err err;

    if (batch == 0 || steps < 2 || rounds == 0 || steps > STEPS_MAX / rounds) {
        fprintf(stderr, "usage: train_ranks_bench [MODEL] [BATCH] [STEPS] [ROUNDS] [OPTIMIZER] "
                        "[DATA]\n");
        return 2;
    }
    if (tutti_model_new(name, NULL, &model, &err) < 0)
        give_up(&err);
    for (int i = 0; i < 2; i++) {
        sides[i].step_us = (void *)bench_memory((size_t)steps * rounds * sizeof(double));
        open_side(&sides[i], model, batch, optimizer, argc > 6 ? argv[6] : NULL);
    }
    for (uint32_t r = 0; r < rounds; r++)
        for (int i = 0; i < 2; i++)
            make_steps(&sides[i], steps);
    for (int i = 0; i < 2; i++)
        printf("%u rank%s: fastest step %.0f us (computing %.0f), fastest tenth %.0f us\n",
               sides[i].ranks, i == 0 ? "" : "s", sides[i].step_us[0], sides[i].compute_us,
               tenth(&sides[i]));
    printf("two threads are %.2f times one, by the fastest tenth %.2f\n",
           sides[0].step_us[0] / sides[1].step_us[0], tenth(&sides[0]) / tenth(&sides[1]));
    for (int i = 0; i < 2; i++)
        close_side(&sides[i]);
    tutti_model_free(model);
    return 0;
}
