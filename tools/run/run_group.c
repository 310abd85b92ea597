/* Opens, plays and closes a run of several processes; see run_group.h. */
#include "tools/run/run_group.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "build.h"
#include "runtime/backend.h"
#include "runtime/group.h"
#include "runtime/mpi.h"
#include "runtime/nccl.h"
#include "runtime/random.h"
#include "runtime/tcp.h"
#include "tools/run/facts.h"

enum { PAUSE_MS = 100 };

bool tutti_run_joins(const struct tutti_args *args, const struct tutti_backend_kind *kind)
{
    static const char *const by_options[] = {"launch", "hosts", "rendezvous", "launcher"};
    struct tutti_launch launch;

    if (!kind->grouped || !kind->alone)
        return kind->grouped;
    for (size_t i = 0; i < sizeof(by_options) / sizeof(by_options[0]); i++)
        if (tutti_args_given(args, by_options[i]))
            return true;
    return tutti_launch_read(&tutti_env_process, NULL, &launch, NULL) < 0 ||
           strcmp(launch.name, "none") != 0;
}

bool tutti_run_is_group(const struct tutti_run_command *run)
{
    return run->grouped;
}

bool tutti_run_writes_here(const struct tutti_args *args)
{
    const struct tutti_backend_kind *kind =
        tutti_args_given(args, "backend")
            ? tutti_backend_kind_find(tutti_args_text(args, "backend"))
            : NULL;

    return kind == NULL || (!tutti_run_joins(args, kind) && !kind->simulated) ||
           tutti_args_given(args, "launch");
}

int tutti_run_group_check(const struct tutti_args *args, const struct tutti_run_command *run,
                          struct tutti_err *err)
{
    static const char *const of_tcp[] = {"engine", "connections", "congestion", "launch",
                                         "hosts",  "dry-run",     "rendezvous", "interface",
                                         "open",   "launcher"};
    enum { OF_SOCKETS = 3 }; /* those behind them are of all that Tutti brings together */

    for (size_t i = 0; i < sizeof(of_tcp) / sizeof(of_tcp[0]); i++) {
        bool says = i < OF_SOCKETS ? run->backend->lends : run->backend->launched;

        if (!says && tutti_args_given(args, of_tcp[i]))
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--%s' says nothing to backend '%s' (-B tcp)", of_tcp[i],
                              run->backend->name);
    }
    if (!run->backend->has_library && tutti_args_given(args, "library"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--library' says nothing to backend '%s' (-B mpi, -B nccl)",
                          run->backend->name);
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* One process that nobody started along with others is most likely a mistake. */
static int check_alone(const struct tutti_args *args, const struct tutti_join *join,
                       struct tutti_err *err)
{
    if (strcmp(join->launch.name, "none") != 0 || tutti_args_given(args, "launcher"))
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "no launcher has started this process ('--launch N' starts N here, "
                      "'--hosts' elsewhere; '--launcher none': this one alone)");
}

/* *ret_member: this process is one of those that meet. */
static int start_tcp(const struct tutti_args *args, const struct tutti_run_command *run,
                     struct tutti_run_group *with, bool *ret_member, struct tutti_sink *sink,
                     struct tutti_err *err)
{
    struct tutti_join *join = &with->join;
    bool started = false;
    int status = tutti_join_read(args, run->perform.deadline_ps, join, err);

    if (status == 0)
        status = tutti_join_start(args, join, &started, sink, err);
    if (status < 0 || started)
        return status;
    status = check_alone(args, join, err);
    if (status < 0)
        return status;
    if (!join->launch.member) {
        fprintf(sink->notes, "tutti %s: %s says that this is a '%s': it plays nothing\n",
                join->command, join->launch.by, join->launch.role);
        return 0;
    }
    *ret_member = true;
    return 0;
}

static int meet_tcp(struct tutti_run_group *with, struct tutti_sink *sink, struct tutti_err *err)
{
    int status = tutti_join_group(&with->join, sink, &with->group, err);

    if (status < 0)
        tutti_join_name_tasks(&with->join.launch, err);
    return status;
}

static int open_mpi(const struct tutti_args *args, struct tutti_run_group *with,
                    struct tutti_err *err)
{
    struct tutti_launch *launch = &with->join.launch;
    int status;

    if (tutti_launch_read(&tutti_env_process, NULL, launch, NULL) == 0 &&
        strcmp(launch->name, "none") == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "no launcher has started this process (mpirun -n N tutti %s -B mpi)",
                          args->command->name);
    status = tutti_mpi_begin(err);
    with->mpi = status == 0;
    return status < 0 ? status : tutti_mpi_group_open(&with->group, err);
}

/* All were given the same command, or they would wait for what never comes. */
static int compare_commands(const struct tutti_args *args, struct tutti_group *group, bool elastic,
                            tutti_ps deadline_ps, struct tutti_err *err)
{
    /* Of "data" what is in the folder counts, which training compares, not where it lies. */
    static const char *const own[] = {"rendezvous", "launcher",    "interface", "open",   "engine",
                                      "trace",      "format",      "pin",       "no-pin", "output",
                                      "svg",        "plot",        "verbose",   "quiet",  "colour",
                                      "data",       "preempt-file"};
    /* Who comes later was started by itself. */
    static const char *const of_start[] = {"launch", "restarts", "join"};
    const struct tutti_command *command = args->command;
    struct tutti_run_facts *facts = NULL;
    int status = tutti_run_facts_new(&facts, err);

    if (status == 0)
        status = tutti_run_facts_add(facts, "version", TUTTI_BUILD_VERSION, err);
    for (size_t i = 0; i < command->option_count && status == 0; i++) {
        const struct tutti_option *option = &command->options[i];
        const char *value = !args->values[i].given              ? "not given"
                            : option->type == TUTTI_OPTION_FLAG ? "given"
                                                                : args->values[i].text;
        bool compared = true;
        char name[96];

        for (size_t k = 0; k < sizeof(own) / sizeof(own[0]); k++)
            compared = compared && strcmp(option->name, own[k]) != 0;
        for (size_t k = 0; k < sizeof(of_start) / sizeof(of_start[0]) && elastic; k++)
            compared = compared && strcmp(option->name, of_start[k]) != 0;
        (void)snprintf(name, sizeof(name), "option '--%s'", option->name);
        if (compared)
            status = tutti_run_facts_add(facts, name, value, err);
    }
    status = tutti_group_agree(group, status, deadline_ps, err);
    if (status == 0)
        status = tutti_run_facts_same(facts, group, deadline_ps, err);
    tutti_run_facts_free(facts);
    return status;
}

/* The schedule of --schedule, which each has read for itself. */
static int compare_schedules(const struct tutti_run_command *run, struct tutti_group *group,
                             tutti_ps deadline_ps, struct tutti_err *err)
{
    char *text = NULL;
    char words[64];
    uint64_t hash = 0;
    int status;

    if (run->own.schedule == NULL)
        return 0;
    status = tutti_schedule_print(run->own.schedule, &text, err);
    for (size_t i = 0; status == 0 && text[i] != '\0'; i++)
        hash = tutti_random_hash(hash, (unsigned char)text[i], i, 0);
    free(text);
    (void)snprintf(words, sizeof(words), "%s of hash %016" PRIx64, run->own.name, hash);
    status = tutti_group_agree(group, status, deadline_ps, err);
    return status < 0 ? status : tutti_group_same(group, "the schedule", words, deadline_ps, err);
}

/* One rank a process if nothing is asked for; on processors of their own where all of this host
 * find one. */
static int choose_ranks(const struct tutti_args *args, struct tutti_run_command *run,
                        const struct tutti_run_group *with, struct tutti_err *err)
{
    const struct tutti_group *group = with->group;
    uint32_t here = with->join.launch.local_count;
    uint32_t each = run->thread_count > 0 ? run->thread_count : 1; /* 0: no such option */

    if (run->rank_count == 0 && group->count > TUTTI_RUN_RANKS_MAX / each)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%" PRIu32 "' processes of %" PRIu32 " ranks (at most %d in all)",
                          group->count, each, TUTTI_RUN_RANKS_MAX);
    if (run->rank_count == 0)
        run->rank_count = group->count * each;
    if (run->own.schedule != NULL && run->rank_count < group->count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "schedule '%s' has %" PRIu32 " ranks, but there are %" PRIu32
                          " processes (at most one a rank)",
                          run->own.name, run->rank_count, group->count);
    if (run->rank_count < group->count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '-g': '%" PRIu32 "' ranks in %" PRIu32
                          " processes (at least one each)",
                          run->rank_count, group->count);
    run->pin =
        tutti_args_flag(args, "pin") ||
        (!tutti_args_flag(args, "no-pin") && here > 0 &&
         (uint64_t)run->rank_count * here <= (uint64_t)tutti_run_processors() * group->count);
    return 0;
}

static int open_backend(const struct tutti_args *args, const struct tutti_run_command *run,
                        struct tutti_run_group *with, struct tutti_err *err)
{
    struct tutti_tcp_opts *opts = &with->tcp;
    int status;

    if (run->backend->on_gpu)
        return tutti_nccl_open(&(struct tutti_nccl_opts){.size = sizeof(struct tutti_nccl_opts),
                                                         .group = with->group,
                                                         .streams = run->streams},
                               &with->backend, err);
    if (with->mpi)
        return tutti_mpi_open(&(struct tutti_mpi_opts){.size = sizeof(struct tutti_mpi_opts),
                                                       .group = with->group,
                                                       .pin = run->pin},
                              &with->backend, err);
    opts->size = sizeof(*opts);
    opts->group = with->group;
    opts->connections = (uint32_t)tutti_args_number(args, "connections");
    opts->pin = run->pin;
    if (tutti_args_given(args, "congestion"))
        opts->congestion = tutti_args_text(args, "congestion");
    status = tutti_tcp_engine_find(tutti_args_text(args, "engine"), &opts->engine, err);
    if (status < 0 || run->emulated) /* then each row has its own */
        return status;
    return tutti_tcp_open(opts, &with->backend, err);
}

/* They have met. */
static int begin(const struct tutti_args *args, struct tutti_run_command *run,
                 struct tutti_run_group *with, struct tutti_err *err)
{
    tutti_ps deadline_ps = run->perform.deadline_ps;
    int status = compare_commands(args, with->group, with->join.least > 0, deadline_ps, err);

    if (status == 0)
        status = compare_schedules(run, with->group, deadline_ps, err);
    if (status == 0)
        status = choose_ranks(args, run, with, err);
    if (status == 0)
        status = open_backend(args, run, with, err);
    return status;
}

void tutti_run_group_rest(struct tutti_run_group *with)
{
    tutti_backend_close(with->backend);
    with->backend = NULL;
}

int tutti_run_group_next(const struct tutti_args *args, struct tutti_run_command *run,
                         struct tutti_run_group *with, struct tutti_group *next,
                         struct tutti_err *err)
{
    tutti_run_group_rest(with);
    tutti_group_close(with->group);
    with->group = next;
    run->rank_count = 0;
    return begin(args, run, with, err);
}

static void leave(struct tutti_run_group *with, int status, const struct tutti_err *err)
{
    if (with->group != NULL)
        tutti_group_stop(with->group, status, err);
    tutti_run_group_rest(with);
    tutti_group_close(with->group);
    with->group = NULL;
}

static tutti_ps now_ps(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (tutti_ps)now.tv_sec * TUTTI_PS_PER_S + (tutti_ps)now.tv_nsec * TUTTI_PS_PER_NS;
}

/* Where one is lost while they meet, those that are left come again, as long as the deadline allows
 * that. What fails at once would fail thousands of times a second. */
static int gather(const struct tutti_args *args, struct tutti_run_command *run,
                  struct tutti_run_group *with, struct tutti_sink *sink, struct tutti_err *err)
{
    const tutti_ps end_ps = now_ps() + run->perform.deadline_ps;
    int status;

    do {
        status = meet_tcp(with, sink, err);
        if (status == 0)
            status = begin(args, run, with, err);
        if (status == 0 || !tutti_join_meets_again(&with->join) ||
            (status != -TUTTI_EIO && status != -TUTTI_ETIME))
            break;
        leave(with, status, err);
        (void)poll(NULL, 0, PAUSE_MS);
    } while (now_ps() < end_ps);
    return status;
}

int tutti_run_group_open(const struct tutti_args *args, struct tutti_run_command *run,
                         struct tutti_run_group *ret, struct tutti_sink *sink,
                         struct tutti_err *err)
{
    struct tutti_run_group with = {.group = NULL};
    bool member = false;
    int status = !run->backend->launched ? open_mpi(args, &with, err)
                                         : start_tcp(args, run, &with, &member, sink, err);

    if (status == 0 && member)
        status = gather(args, run, &with, sink, err);
    else if (status == 0 && with.group != NULL)
        status = begin(args, run, &with, err);
    if (status < 0)
        return tutti_run_group_close(&with, status, run->perform.deadline_ps, err);
    *ret = with;
    return 0;
}

int tutti_run_group_again(const struct tutti_args *args, struct tutti_run_command *run,
                          struct tutti_run_group *with, struct tutti_sink *sink,
                          struct tutti_err *err)
{
    leave(with, -TUTTI_EIO, err);
    return gather(args, run, with, sink, err);
}

/* Whether one terminal or log has what all processes say: of a wrong option, which all of them
 * find, the first one then speaks for all. Started by hand, or in pods, each has its own. */
static bool speaks_for_all(const struct tutti_run_group *with)
{
    static const char *const apart[] = {"plain", "tf_config", "pytorchjob", "jax", "indexed"};
    const struct tutti_launch *launch = &with->join.launch;
    bool by_hand = strcmp(launch->by, "TUTTI_RANK") == 0;

    for (size_t i = 0; i < sizeof(apart) / sizeof(apart[0]); i++)
        by_hand = by_hand || strcmp(launch->name, apart[i]) == 0;
    return with->mpi || !by_hand;
}

int tutti_run_group_close(struct tutti_run_group *with, int status, tutti_ps deadline_ps,
                          const struct tutti_err *err)
{
    bool alike = status == -TUTTI_EINVAL || status == -TUTTI_ELACK;

    if (with->group != NULL && with->group->index > 0 && alike && speaks_for_all(with))
        status = 0;
    if (with->group != NULL && status < 0)
        tutti_group_stop(with->group, status, err);
    tutti_backend_close(with->backend);
    tutti_group_close(with->group);
    if (with->mpi)
        tutti_mpi_end(deadline_ps);
    tutti_join_done(&with->join);
    *with = (struct tutti_run_group){.group = NULL};
    return status;
}

int tutti_run_group_agree(const struct tutti_run_group *with, int status, tutti_ps deadline_ps,
                          struct tutti_err *err)
{
    struct tutti_err said = *err;
    int agreed;

    if (with == NULL || with->group == NULL)
        return status;
    agreed = tutti_group_agree(with->group, status, deadline_ps, &said);
    if (status == 0 && agreed < 0)
        *err = said;
    return status < 0 ? status : agreed;
}

int tutti_run_group_emulate(const struct tutti_run_group *with, struct tutti_shaper *shaper,
                            double slowdown, struct tutti_backend **ret, struct tutti_err *err)
{
    struct tutti_tcp_opts opts = with->tcp;

    opts.shaper = shaper;
    opts.slowdown = slowdown;
    return tutti_tcp_open(&opts, ret, err);
}

/* ---- playing --------------------------------------------------------------------------------- */

int tutti_run_group_play(struct tutti_run_command *run, struct tutti_run_group *with,
                         const char *command, const struct tutti_local *local,
                         struct tutti_run_rows *ret, struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_shape shape = tutti_shape_flat(run->rank_count);
    struct tutti_perform perform = run->perform;
    struct tutti_run_rows rows = {0};
    int status;

    perform.backend = with->backend;
    perform.group = with->group;
    perform.shape = &shape;
    status = tutti_run_sweep(run, &perform, command, local, &rows, sink, err);
    if (status < 0)
        tutti_run_rows_done(&rows);
    else
        *ret = rows;
    return status;
}

void tutti_run_group_describe(const struct tutti_run_group *with,
                              const struct tutti_run_command *run, char *buf, size_t buf_bytes)
{
    const char *plural = with->group->count == 1 ? "" : "es";
    char name[TUTTI_MPI_NAME_BYTES];

    if (with->mpi)
        (void)snprintf(buf, buf_bytes, "%" PRIu32 " process%s by %s", with->group->count, plural,
                       tutti_mpi_name(name));
    else
        (void)snprintf(buf, buf_bytes, "%" PRIu32 " process%s by %s", with->group->count, plural,
                       run->backend->name);
}
