/* Reads what `tutti train` has of parameter servers and TF_CONFIG; see servers.h. */
#include "tools/train/servers.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/launch.h"
#include "runtime/status.h"
#include "tools/cli/files.h"
#include "topo/topo.h"

/* ---- options --------------------------------------------------------------------------------- */

/* "ps=2,worker=4", in any order. */
static int read_launch(const char *text, struct tutti_train_servers_ask *ask, struct tutti_err *err)
{
    const char *at = text;

    while (*at != '\0') {
        bool servers = strncmp(at, "ps=", 3) == 0;
        bool workers = strncmp(at, "worker=", 7) == 0;
        char *end = NULL;
        unsigned long number = 0;

        if (servers || workers)
            number = strtoul(at + (servers ? 3 : 7), &end, 10);
        if (end == NULL || number == 0 || number > TUTTI_TASKS_MAX ||
            (*end != '\0' && *end != ',') || (*end == ',' && end[1] == '\0'))
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--launch': '%.60s' (ps=N,worker=M, each 1 to %d)", text,
                              TUTTI_TASKS_MAX);
        if (*(servers ? &ask->server_count : &ask->worker_count) > 0)
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--launch': '%.60s' says '%s' twice (once)", text,
                              servers ? "ps=" : "worker=");
        *(servers ? &ask->server_count : &ask->worker_count) = (uint32_t)number;
        at = *end == ',' ? end + 1 : end;
    }
    return 0;
}

int tutti_train_partition_read(const struct tutti_args *args, struct tutti_partitioning *ret,
                               struct tutti_err *err)
{
    int status = tutti_partitioning_read(tutti_args_text(args, "partition"), ret, err);

    return status < 0 ? tutti_wrap(err, status, "option '--partition'") : 0;
}

/* The text itself begins with a brace, a file's name does not. */
static int read_tasks(const char *text, struct tutti_tf_tasks **ret, struct tutti_err *err)
{
    char *file = NULL;
    size_t bytes = 0;
    int status = 0;

    if (text[strspn(text, " \t\n")] != '{')
        status = tutti_file_read(text, &file, &bytes, err);
    if (status == 0)
        status = tutti_tf_tasks_parse(file != NULL ? file : text, ret, err);
    free(file);
    return status < 0 ? tutti_wrap(err, status, "option '--tf-config'") : 0;
}

static void take_tasks(struct tutti_train_servers_question *q)
{
    const struct tutti_tf_tasks *t = q->tasks;

    if (t == NULL || t->server_count == 0)
        return;
    q->ask.worker_count = t->worker_count;
    q->ask.server_count = t->server_count;
    q->ask.worker_host = t->worker_host;
    q->ask.server_host = t->server_host;
}

static void take_losses(const struct tutti_args *args, struct tutti_train_servers_question *q)
{
    struct tutti_train_servers_ask *ask = &q->ask;

    ask->change_count = q->losses.change_count;
    ask->mtbf_ps = q->losses.mtbf_ps;
    ask->restart_ps = q->losses.restart_ps;
    ask->supervised = q->losses.supervised || tutti_args_given(args, "save-secs");
    if (tutti_args_given(args, "save-secs"))
        ask->save_every_ps = (tutti_ps)(tutti_args_real(args, "save-secs") * 1e12);
    if (tutti_args_given(args, "save-rate"))
        ask->save_bytes_per_s = tutti_args_number(args, "save-rate");
}

int tutti_train_servers_read(const struct tutti_args *args, struct tutti_train_servers_question *q,
                             struct tutti_err *err)
{
    struct tutti_train_servers_ask *ask = &q->ask;
    int status = 0;

    *q = (struct tutti_train_servers_question){.ask = {.size = sizeof(*ask)}};
    if (tutti_args_given(args, "launch") && tutti_args_given(args, "tf-config"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '--launch' and '--tf-config' both say what tasks there are (one "
                          "of them)");
    if (tutti_args_given(args, "devices") && tutti_args_given(args, "tf-config"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '--devices' and '--tf-config' both say how many hosts there are "
                          "(one of them)");
    if (tutti_args_given(args, "launch"))
        status = read_launch(tutti_args_text(args, "launch"), ask, err);
    if (status == 0)
        status = tutti_train_partition_read(args, &ask->partition, err);
    if (status == 0 && tutti_args_given(args, "tf-config"))
        status = read_tasks(tutti_args_text(args, "tf-config"), &q->tasks, err);
    if (status < 0)
        return status;
    take_tasks(q);
    status = tutti_train_losses_read(args, &q->losses, err);
    if (status < 0)
        return status;
    take_losses(args, q);
    ask->apart = tutti_args_is(args, "server-hosts", "apart");
    ask->synchronous = tutti_args_given(args, "sync");
    ask->aggregate = ask->synchronous ? (uint32_t)tutti_args_number(args, "sync") : 0;
    ask->late = tutti_args_is(args, "late", "aborted") ? TUTTI_LATE_ABORTED
                : tutti_args_is(args, "late", "fresh") ? TUTTI_LATE_FRESH
                                                       : TUTTI_LATE_QUEUED;
    ask->relaxed = tutti_args_is(args, "consistency", "relaxed");
    ask->by_variable = tutti_args_given(args, "overlap") && tutti_args_is(args, "overlap", "on");
    ask->placement =
        tutti_args_is(args, "placement", "greedy") ? TUTTI_PLACE_GREEDY : TUTTI_PLACE_ROUND_ROBIN;
    if (tutti_args_given(args, "card-rate"))
        ask->card_bytes_per_s = tutti_args_number(args, "card-rate");
    if (tutti_args_given(args, "apply-rate"))
        ask->apply_bytes_per_s = tutti_args_number(args, "apply-rate");
    ask->jitter = tutti_args_real(args, "spread");
    ask->seed = tutti_args_number(args, "seed");
    return 0;
}

void tutti_train_servers_done(struct tutti_train_servers_question *q)
{
    tutti_tf_tasks_free(q->tasks);
}

int tutti_train_servers_check(const struct tutti_args *args, bool has_servers,
                              struct tutti_err *err)
{
    static const char *const of_servers[] = {
        "launch",    "server-hosts", "sync",      "late",       "consistency",
        "placement", "partition",    "card-rate", "apply-rate", "spread"};
    static const char *const of_losses[] = {"perturb", "seed", "save-rate", "save-secs"};
    const bool fails = tutti_args_given(args, "days") || tutti_args_given(args, "mtbf") ||
                       tutti_args_given(args, "failures");
    static const char *const of_others[] = {"all-reduce",  "num-packs", "bytes-per-pack", "bucket",
                                            "local-steps", "exact",     "compress",       "sparse"};

    for (size_t i = 0; !has_servers && i < sizeof(of_servers) / sizeof(of_servers[0]); i++)
        if (tutti_args_given(args, of_servers[i]))
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--%s' is of servers ('--strategy parameter-server')",
                              of_servers[i]);
    for (size_t i = 0; i < sizeof(of_losses) / sizeof(of_losses[0]); i++)
        if (!has_servers && !tutti_args_given(args, "elastic") && !(fails && i > 0) &&
            tutti_args_given(args, of_losses[i]))
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--%s' is of servers ('--strategy parameter-server'), or of "
                              "'--elastic'%s",
                              of_losses[i], i > 0 ? " or '--days'" : "");
    for (size_t i = 0; has_servers && i < sizeof(of_others) / sizeof(of_others[0]); i++)
        if (tutti_args_given(args, of_others[i]))
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--%s' is of collectives, and strategy 'parameter-server' "
                              "has none",
                              of_others[i]);
    return 0;
}

/* ---- TF_CONFIG ------------------------------------------------------------------------------- */

const char *tutti_train_tasks_strategy(const struct tutti_train_servers_question *q)
{
    const struct tutti_tf_tasks *t = q->tasks;

    if (t == NULL)
        return NULL;
    if (t->server_count > 0)
        return "parameter-server";
    return t->chief_count + t->worker_count > 1 ? "multiworkermirrored" : NULL;
}

/* Hosts that compute: servers may be on others. */
static uint32_t computing_hosts(const struct tutti_tf_tasks *t)
{
    uint32_t most = t->server_count == 0 && t->chief_count > 0 ? t->chief_host + 1 : 0;

    for (uint32_t i = 0; i < t->worker_count; i++)
        if (t->worker_host[i] >= most)
            most = t->worker_host[i] + 1;
    return most;
}

int tutti_train_tasks_machine(const struct tutti_train_servers_question *q, const char *name,
                              struct tutti_topo **topo, struct tutti_err *err)
{
    const struct tutti_tf_tasks *t = q->tasks;
    struct tutti_topo *made = NULL;
    uint32_t now = (*topo)->host_count > 0 ? (*topo)->host_count : (*topo)->rank_count;
    uint32_t hosts;
    int status;

    if (t == NULL)
        return 0;
    hosts = computing_hosts(t);
    if (strcmp(name, "parameter-server") == 0 && t->server_count == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--tf-config': its cluster has no 'ps', and strategy '%s' needs "
                          "one",
                          name);
    if (strcmp(name, "parameter-server") != 0 && t->server_count > 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--tf-config': its cluster has '%u' ps, and strategy '%s' has no "
                          "servers (parameter-server)",
                          t->server_count, name);
    if (hosts == now)
        return 0;
    status = tutti_train_machine(*topo, hosts * ((*topo)->rank_count / now), &made, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--tf-config': its tasks compute on %u host%s",
                          hosts, hosts == 1 ? "" : "s");
    tutti_topo_free(*topo);
    *topo = made;
    return 0;
}
