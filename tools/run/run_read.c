/* Reads the options of a real run; see run.h. */
#include <stdio.h>
#include <string.h>

#include "runtime/backend.h"
#include "runtime/nccl.h"
#include "runtime/status.h"
#include "tools/cli/shared_options.h"
#include "tools/run/run.h"
#include "tools/run/run_group.h"

void tutti_run_backend_words(bool all, char ret[TUTTI_BACKEND_WORDS_BYTES])
{
    size_t count;
    const struct tutti_backend_kind *kinds = tutti_backend_kinds(&count);
    size_t at = 0;

    ret[0] = '\0';
    for (size_t i = 0; i < count; i++)
        if (all || !kinds[i].simulated)
            at += (size_t)snprintf(ret + at, TUTTI_BACKEND_WORDS_BYTES - at, "%s%s",
                                   at > 0 ? ", " : "", kinds[i].name);
}

static int read_backend(const struct tutti_args *args, struct tutti_run_command *run,
                        struct tutti_err *err)
{
    const char *name = tutti_args_text(args, "backend");
    char words[TUTTI_BACKEND_WORDS_BYTES];
    char hint[TUTTI_HINT_BYTES];

    tutti_run_backend_words(true, words);
    if (name == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "option '-B' is missing (%s)", words);
    run->backend = tutti_backend_kind_find(name);
    if (run->backend == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "option '-B': unknown backend '%s' (%s%s)", name,
                          tutti_nearest_hint(name, words, hint), words);
    return 0;
}

int tutti_run_read_measuring(const struct tutti_args *args, struct tutti_run_command *run,
                             struct tutti_err *err)
{
    const char *name = tutti_args_text(args, "backend");
    char words[TUTTI_BACKEND_WORDS_BYTES];
    char hint[TUTTI_HINT_BYTES];

    run->backend = tutti_backend_kind_find(name);
    run->grouped = run->backend != NULL && tutti_run_joins(args, run->backend);
    if (run->backend != NULL && !run->backend->simulated)
        return 0;
    tutti_run_backend_words(false, words);
    if (run->backend == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "option '-B': unknown backend '%s' (%s%s)", name,
                          tutti_nearest_hint(name, words, hint), words);
    return tutti_fail(err, TUTTI_EINVAL, "option '-B': backend '%s' measures nothing (%s)", name,
                      words);
}

/* One name of the list, which must serve the collective. */
static int add_algorithm(struct tutti_run_command *run, const char *name, size_t bytes,
                         size_t *count, struct tutti_err *err)
{
    const struct tutti_algorithm *algorithm = NULL;
    char text[64];
    int status;

    (void)snprintf(text, sizeof(text), "%.*s", (int)(bytes < 63 ? bytes : 63), name);
    if (strcmp(text, "auto") == 0 || strcmp(text, "all") == 0)
        return tutti_fail(err, TUTTI_EINVAL, "option '-a': '%s' stands among others (alone)", text);
    if (text[0] == '\0')
        return tutti_fail(err, TUTTI_EINVAL, "option '-a': a name is empty (NAME[,NAME])");
    status = tutti_algorithm_find_for(text, &run->perform.params, &algorithm, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '-a'");
    for (size_t i = 0; i < *count; i++) {
        if (strcmp(run->algorithms[i], algorithm->name) == 0)
            return tutti_fail(err, TUTTI_EINVAL, "option '-a': '%s' is named twice (once)", text);
    }
    if (*count == TUTTI_RUN_ALGORITHMS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "option '-a': more than %d algorithms (or 'all')",
                          TUTTI_RUN_ALGORITHMS_MAX);
    run->algorithms[(*count)++] = algorithm->name;
    return 0;
}

static int read_algorithms(const char *text, struct tutti_run_command *run, struct tutti_err *err)
{
    size_t count = 0;
    const struct tutti_algorithm *known;
    int status = 0;

    if (strcmp(text, "auto") == 0) {
        run->algorithms[0] = "auto";
        return 0;
    }
    if (strcmp(text, "nccl") == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '-a': what NCCL itself does '-B nccl --library' shows (an "
                          "algorithm by name, auto or all)");
    run->all = strcmp(text, "all") == 0;
    for (size_t i = 0; run->all && (known = tutti_algorithm_at(run->own.set, i)) != NULL; i++) {
        if ((known->collectives >> run->perform.params.collective & 1) != 0 &&
            count < TUTTI_RUN_ALGORITHMS_MAX)
            run->algorithms[count++] = known->name;
    }
    while (!run->all && status == 0) {
        size_t bytes = strcspn(text, ",");

        status = add_algorithm(run, text, bytes, &count, err);
        if (text[bytes] == '\0')
            break;
        text += bytes + 1;
    }
    return status;
}

uint64_t tutti_run_steps_max(const struct tutti_args *args, const struct tutti_run_command *run)
{
    return strcmp(run->algorithms[0], "auto") == 0 ? tutti_args_number(args, "steps-max") : 0;
}

static int refuse_check(const struct tutti_args *args, struct tutti_err *err)
{
    const char *collective = tutti_args_text(args, "collective");

    if (strcmp(collective, "0") == 0 || strcmp(collective, "1") == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '-c': '%s' is no collective (the check is '-C %s' here)",
                          collective, collective);
    return 0;
}

/* -d all, -o all: types before operators, as nccl-tests has them. */
static int read_kinds(const struct tutti_args *args, struct tutti_run_command *run,
                      struct tutti_err *err)
{
    struct tutti_coll_params *params = &run->perform.params;
    bool all_types = false;
    bool all_ops = false;
    int status = tutti_shared_params_of_all(args, params, &all_types, &all_ops, err);
    uint32_t first_op = all_ops ? 0 : params->op;
    uint32_t last_op = all_ops ? TUTTI_OP_COUNT - 1 : params->op;
    uint32_t last_type = all_types ? TUTTI_DTYPE_COUNT - 1 : params->dtype;

    if (status < 0)
        return status;
    if (tutti_args_given(args, "schedule") && (all_types || all_ops))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '-%s': a schedule of one's own has one (not 'all')",
                          all_types ? "d" : "o");
    for (uint32_t type = all_types ? 0 : params->dtype; type <= last_type; type++)
        for (uint32_t op = first_op; op <= last_op; op++)
            run->kinds[run->kind_count++] =
                (struct tutti_run_kind){.dtype = (enum tutti_dtype)type, .op = (enum tutti_op)op};
    params->dtype = run->kinds[0].dtype;
    params->op = run->kinds[0].op;
    return 0;
}

static int read_cuts(const struct tutti_args *args, struct tutti_coll_params *params,
                     struct tutti_err *err)
{
    params->channel_count = (uint32_t)tutti_args_number(args, "channels");
    params->chunk_bytes = tutti_args_number(args, "chunk");
    params->slice_count = (uint32_t)tutti_args_number(args, "slices");
    params->slot_count = (uint32_t)tutti_args_number(args, "slots");
    if (tutti_args_given(args, "chunk") && params->chunk_bytes == 0)
        return tutti_fail(err, TUTTI_EINVAL, "option '--chunk': a grain of '0' bytes (1 or more)");
    return 0;
}

/* What is played: the schedule and the plugins of one's own, and how much data. */
static int read_what(const struct tutti_args *args, struct tutti_run_command *run,
                     struct tutti_err *err)
{
    struct tutti_coll_params *params = &run->perform.params;
    int status = refuse_check(args, err);

    if (status == 0)
        status = read_kinds(args, run, err);
    if (status == 0)
        status = tutti_own_open(args, true, &run->own, err);
    if (status == 0)
        status = tutti_own_params(args, &run->own, params, err);
    if (status == 0 && run->own.schedule != NULL)
        run->kinds[0] = (struct tutti_run_kind){.dtype = params->dtype, .op = params->op};
    if (status == 0)
        status = read_algorithms(run->own.algorithms, run, err);
    if (status == 0)
        status = tutti_own_sizes(args, &run->own, &run->sizes, err);
    if (params->collective == TUTTI_BARRIER) /* has no data, so one size */
        run->sizes = (struct tutti_sizes){.factor = 2, .count = 1};
    return status < 0 ? status : read_cuts(args, params, err);
}

/* -t; how many processes there are shows when they have met. */
static int read_threads(const struct tutti_args *args, struct tutti_run_command *run,
                        struct tutti_err *err)
{
    run->thread_count = (uint32_t)tutti_args_number(args, "nthreads");
    if ((uint64_t)run->rank_count * run->thread_count > TUTTI_RUN_RANKS_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '-t' and '-g': %u times %u ranks (at most %d in all)",
                          run->thread_count, run->rank_count, TUTTI_RUN_RANKS_MAX);
    run->rank_count *= run->thread_count;
    if (!run->grouped && run->rank_count == 0 && tutti_args_given(args, "nthreads"))
        run->rank_count = run->thread_count;
    return 0;
}

static int refuse_cuda(const struct tutti_run_command *run, const char *option,
                       struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--%s': the backend '%s' has no such thing (-B cuda)", option,
                      run->backend->name);
}

int tutti_run_read_gpus(const struct tutti_args *args, struct tutti_run_command *run,
                        struct tutti_err *err)
{
    bool given = tutti_args_given(args, "gpus");

    if (strcmp(run->backend->name, "cuda") != 0 && (given || tutti_args_flag(args, "no-peers")))
        return refuse_cuda(run, given ? "gpus" : "no-peers", err);
    run->gpu_count = given ? (uint32_t)tutti_args_number(args, "gpus") : 0;
    run->no_peers = tutti_args_flag(args, "no-peers");
    return 0;
}

/* How many ranks, and where; on a machine, simulated or emulated, there are as many as that has. */
static int read_ranks(const struct tutti_args *args, struct tutti_run_command *run,
                      struct tutti_err *err)
{
    const struct tutti_schedule *own = run->own.schedule;
    bool graph = tutti_args_given(args, "graph");
    int status = tutti_run_read_gpus(args, run, err);

    if (status < 0)
        return status;
    if (strcmp(run->backend->name, "cuda") != 0 && (graph || tutti_args_flag(args, "persistent")))
        return refuse_cuda(run, graph ? "graph" : "persistent", err);
    if (tutti_args_is(args, "graph", "on") && tutti_args_flag(args, "persistent"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '--graph' and '--persistent': a graph is launched for each "
                          "iteration (one of them)");
    if (tutti_args_flag(args, "pin") && tutti_args_flag(args, "no-pin"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '--pin' and '--no-pin' contradict each other (one of them)");
    run->grouped = tutti_run_joins(args, run->backend);
    run->library = tutti_args_flag(args, "library");
    status = read_threads(args, run, err);
    if (status < 0)
        return status;
    if (run->rank_count != 0)
        status = tutti_own_fits(&run->own, run->rank_count, "'-g' says", err);
    else if (own != NULL && !run->backend->simulated)
        run->rank_count = own->rank_count;
    if (own != NULL && run->rank_count > TUTTI_RUN_RANKS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "schedule '%s' has %u ranks (at most %d are played)",
                          run->own.name, own->rank_count, TUTTI_RUN_RANKS_MAX);
    if (!run->grouped && run->backend->alone && run->rank_count == 0)
        status = status < 0 ? status : tutti_nccl_gpu_count(&run->rank_count, err);
    if (!run->grouped && !run->backend->simulated && run->rank_count == 0)
        run->rank_count = 2;
    run->graph = tutti_args_is(args, "graph", "on")    ? TUTTI_CUDA_GRAPH_ALWAYS
                 : tutti_args_is(args, "graph", "off") ? TUTTI_CUDA_GRAPH_NEVER
                                                       : TUTTI_CUDA_GRAPH_AUTO;
    run->persistent = tutti_args_flag(args, "persistent");
    run->pin = tutti_args_flag(args, "pin") ||
               (!tutti_args_flag(args, "no-pin") && run->rank_count <= tutti_run_processors());
    return status;
}

int tutti_run_read(const struct tutti_args *args, struct tutti_run_command *ret,
                   struct tutti_err *err)
{
    struct tutti_run_command run = {
        .rank_count = (uint32_t)tutti_args_number(args, "ranks"),
        .perform = {.warmup_count = (uint32_t)tutti_args_number(args, "warmup-iters"),
                    .iteration_count = (uint32_t)tutti_args_number(args, "iters"),
                    .deadline_ps = (tutti_ps)tutti_args_number(args, "deadline"),
                    .seed = tutti_args_number(args, "seed")},
    };
    int status = read_backend(args, &run, err);

    if (status == 0)
        status = read_what(args, &run, err);
    if (status == 0)
        status = read_ranks(args, &run, err);
    if (status == 0 && run.perform.deadline_ps == 0)
        status = tutti_fail(err, TUTTI_EINVAL, "option '--deadline': '%s' (more than 0)",
                            tutti_args_text(args, "deadline"));
    if (status < 0) {
        tutti_run_done(&run);
        return status;
    }
    *ret = run;
    return 0;
}

void tutti_run_done(struct tutti_run_command *run)
{
    tutti_own_done(&run->own);
}

uint64_t tutti_run_count(const struct tutti_run_command *run, uint32_t index)
{
    const struct tutti_coll_params *params = &run->perform.params;

    if (params->collective == TUTTI_BARRIER)
        return 0;
    return tutti_own_count(&run->own, params, tutti_sizes_at(&run->sizes, index), run->rank_count);
}
