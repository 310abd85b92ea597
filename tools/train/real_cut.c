/* Real training of ranks that have parts of the model: what --tp, --pp and their like say of it;
 * see real.h. */
#include <stdlib.h>

#include "runtime/status.h"
#include "tools/train/parallel.h"
#include "tools/train/real.h"

/* What of the division of a model is simulated alone. */
static int check(const struct tutti_args *args, const struct tutti_parallel *cut,
                 struct tutti_err *err)
{
    static const char *const simulated[] = {"cp", "ep", "async-tp", "context", "expert-imbalance"};
    static const char *const whole[] = {"emulate", "elastic", "calib", "calibrate"};
    const char *with = cut->pipeline > 1 ? "pp" : "tp";

    for (size_t i = 0; i < sizeof(simulated) / sizeof(simulated[0]); i++)
        if (tutti_args_given(args, simulated[i]))
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--%s' is of a simulated step, not of -B (--tp, --pp and "
                              "--dp are really trained)",
                              simulated[i]);
    if (tutti_args_is(args, "sp", "on"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--sp' is of a simulated step, not of -B (leave it out)");
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
        if (tutti_args_given(args, whole[i]))
            return tutti_fail(err, TUTTI_EINVAL,
                              "options '--%s' and '--%s' do not go together with -B: ranks then "
                              "have all of the model (one of them)",
                              with, whole[i]);
    return 0;
}

static uint32_t of_replica(const struct tutti_train_real *real)
{
    return real->cut.tensor * real->cut.pipeline;
}

int tutti_train_real_cut_read(const struct tutti_args *args, struct tutti_train_real *real,
                              struct tutti_err *err)
{
    struct tutti_train_parallel_question q = {.cut = {.size = sizeof(q.cut)}};
    struct tutti_run_command *run = &real->run;
    int status;

    real->cut.tensor = real->cut.pipeline = 1;
    if (!tutti_train_is_parallel(args))
        return 0;
    status = tutti_train_parallel_cut_read(args, &q, err);
    if (status == 0)
        status = check(args, &q.cut, err);
    real->stage_layers = q.stage_layers;
    if (status < 0)
        return status;
    q.cut.sequence_parallel = false;
    q.cut.imbalance = 0;
    real->cut = q.cut;
    if (tutti_args_given(args, "dp"))
        real->cut.data = (uint32_t)tutti_args_number(args, "dp");
    if (run->backend->on_gpu && of_replica(real) > 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--%s' with -B %s: ranks on GPUs have all of the model (threads, "
                          "tcp or mpi)",
                          real->cut.pipeline > 1 ? "pp" : "tp", run->backend->name);
    if (of_replica(real) > TUTTI_RUN_RANKS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "options '--tp %u' x '--pp %u' with -B (%d ranks)",
                          real->cut.tensor, real->cut.pipeline, TUTTI_RUN_RANKS_MAX);
    if (!run->grouped && run->rank_count == 0)
        run->rank_count = of_replica(real) * (real->cut.data > 0 ? real->cut.data : 1);
    return 0;
}

static int refuse_ranks(const struct tutti_train_real *real, struct tutti_err *err)
{
    const struct tutti_parallel *cut = &real->cut;

    if (cut->data > 0)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' ranks with tp %u x pp %u x dp %u (%llu)",
                          real->run.rank_count, cut->tensor, cut->pipeline, cut->data,
                          (unsigned long long)of_replica(real) * cut->data);
    return tutti_fail(err, TUTTI_EINVAL, "'%u' ranks with tp %u x pp %u (a multiple of %u)",
                      real->run.rank_count, cut->tensor, cut->pipeline, of_replica(real));
}

/* Replicas are what the ranks come to. */
int tutti_train_real_cut_complete(struct tutti_train_real *real, struct tutti_err *err)
{
    const uint32_t ranks = real->run.rank_count;
    uint64_t one;
    uint32_t data;

    real->replicas = ranks;
    if (real->cut.size == 0)
        return 0;
    one = of_replica(real);
    data = real->cut.data > 0 ? real->cut.data : (uint32_t)(ranks / one);
    if (data == 0 || one * data != ranks)
        return refuse_ranks(real, err);
    real->cut.data = data;
    real->replicas = data;
    if (one > 1)
        real->params.parallel = &real->cut;
    return 0;
}
