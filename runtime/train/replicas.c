/* Replicas by the name of a strategy, as the launcher has it: threads, or processes that meet. */
#include "runtime/train/replicas.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backend.h"
#include "runtime/launch.h"
#include "runtime/meet.h"
#include "runtime/servers.h"
#include "runtime/status.h"
#include "runtime/tcp.h"
#include "runtime/threads.h"

enum { REPLICAS_MAX = 4096, WORDS_BYTES = 512 };

/* ---- the strategy ---------------------------------------------------------------------------- */

/* "onedevice, mirrored, ...": all there are. */
static void list_strategies(char words[WORDS_BYTES])
{
    size_t count;
    const struct tutti_strategy_entry *entries = tutti_strategies(&count);
    struct tutti_strategy strategy;

    words[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(words);

        if (tutti_strategy_named(entries[i].name, &strategy, NULL) == 0)
            (void)snprintf(words + used, WORDS_BYTES - used, "%s%s", used == 0 ? "" : ", ",
                           strategy.name);
    }
}

static int read_strategy(const char *name, struct tutti_strategy *ret, struct tutti_err *err)
{
    char words[WORDS_BYTES];
    char hint[TUTTI_HINT_BYTES];

    list_strategies(words);
    if (name == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "no strategy (%s)", words);
    if (tutti_servers_strategy(name))
        name = "parameter-server"; /* without its options */
    if (tutti_strategy_named(name, ret, NULL) < 0)
        return tutti_fail(err, TUTTI_EINVAL, "unknown strategy '%.40s' (%s%s)", name,
                          tutti_nearest_hint(name, words, hint), words);
    return 0;
}

static bool is_one_device(const struct tutti_replicas *r)
{
    return strcmp(r->strategy.name, "onedevice") == 0;
}

/* ---- who takes part -------------------------------------------------------------------------- */

static uint32_t processors(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0
               ? (uint32_t)CPU_COUNT(&set)
               : 1;
}

/* Of each process. */
static int choose_count(struct tutti_replicas *r, struct tutti_err *err)
{
    const char *text = getenv("TUTTI_REPLICAS");
    uint64_t count = r->params.replica_count;
    char *end = NULL;

    if (is_one_device(r) && count > 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "strategy 'onedevice' on '%u' replicas (1, or mirrored)",
                          r->params.replica_count);
    if (is_one_device(r))
        count = 1;
    if (count == 0 && text != NULL && text[0] != '\0') {
        count = strtoul(text, &end, 10);
        if (*end != '\0' || count < 1 || count > REPLICAS_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "variable 'TUTTI_REPLICAS': '%.40s' (1 to %d)",
                              text, REPLICAS_MAX);
    }
    if (count == 0)
        count = r->process_count > 1 ? 1 : processors();
    if (count * r->process_count > REPLICAS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "%u processes of '%u' replicas (%d in all)",
                          r->process_count, (uint32_t)count, REPLICAS_MAX);
    r->count = (uint32_t)count * r->process_count;
    return 0;
}

static int check_launch(const struct tutti_replicas *r, const struct tutti_launch *launch,
                        struct tutti_err *err)
{
    if (!launch->member)
        return tutti_fail(err, TUTTI_ELACK, "%s says that this is a '%s': it trains nothing",
                          launch->by, launch->role);
    if (launch->count == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s says that this is process %u, and not of how many: TUTTI_SIZE",
                          launch->by, launch->index);
    if (launch->count > 1 && (is_one_device(r) || r->strategy.whole_hosts))
        return tutti_fail(err, TUTTI_EINVAL,
                          "strategy '%s' is of one process, and %s has started %u "
                          "(multiworkermirrored)",
                          r->strategy.name, launch->by, launch->count);
    return 0;
}

static int meet(struct tutti_replicas *r, struct tutti_err *err)
{
    struct tutti_launch launch;
    char secret[TUTTI_MEET_SECRET_BYTES];
    const struct tutti_meet_opts opts = {.size = sizeof(opts),
                                         .launch = &launch,
                                         .secret = secret,
                                         .deadline_ps = r->params.deadline_ps};
    int status = tutti_launch_read(&tutti_env_process, NULL, &launch, err);

    if (status == 0)
        status = check_launch(r, &launch, err);
    if (status == 0)
        status = tutti_meet_secret(&tutti_env_process, secret, err);
    if (status < 0)
        return status;
    r->process_count = launch.count;
    status = launch.count > 1 ? tutti_meet(&opts, &r->group, err) : 0;
    return status < 0 ? tutti_wrap(err, status, "strategy '%s'", r->strategy.name) : 0;
}

/* ---- open ------------------------------------------------------------------------------------ */

static int open_backend(struct tutti_replicas *r, struct tutti_err *err)
{
    if (r->group == NULL)
        return tutti_threads_open(
            &(struct tutti_threads_opts){.size = sizeof(struct tutti_threads_opts),
                                         .pin = r->params.pin},
            &r->backend, err);
    return tutti_tcp_open(&(struct tutti_tcp_opts){.size = sizeof(struct tutti_tcp_opts),
                                                   .group = r->group,
                                                   .pin = r->params.pin},
                          &r->backend, err);
}

/* Each has chosen for itself; what it comes to must be the same. */
static int agree(struct tutti_replicas *r, int status, struct tutti_err *err)
{
    if (r->group == NULL)
        return status;
    status = tutti_group_agree(r->group, status, r->params.deadline_ps, err);
    if (status == 0)
        status = tutti_group_same(r->group, "the replicas", r->title, r->params.deadline_ps, err);
    return status;
}

static int open_all(struct tutti_replicas *r, struct tutti_err *err)
{
    int status = 0;

    r->is_own = r->params.backend == NULL;
    if (r->strategy.coordinated && !r->is_own)
        return tutti_fail(err, TUTTI_EINVAL,
                          "strategy 'parameter-server' on a backend (without one: servers are "
                          "processes that TF_CONFIG names)");
    if (r->strategy.coordinated)
        return tutti_replicas_find_servers(r, err);
    r->group = r->params.group;
    r->backend = r->params.backend;
    r->process_count = r->group != NULL ? r->group->count : 1;
    if (r->is_own)
        status = meet(r, err);
    if (status < 0)
        return status;
    status = choose_count(r, err);
    (void)snprintf(r->title, sizeof(r->title), "%s, %u replica%s in %u process%s", r->strategy.name,
                   r->count, r->count == 1 ? "" : "s", r->process_count,
                   r->process_count == 1 ? "" : "es");
    status = agree(r, status, err);
    if (status == 0 && r->is_own)
        status = open_backend(r, err);
    if (status == 0)
        tutti_backend_ranks(r->backend, r->count, &r->first, &r->own_count);
    return status;
}

int tutti_replicas_open(const struct tutti_replicas_params *params, struct tutti_replicas **ret,
                        struct tutti_err *err)
{
    struct tutti_replicas *r = calloc(1, sizeof(*r));
    int status = r == NULL
                     ? tutti_nomem(err)
                     : tutti_take("tutti_replicas_params", &r->params, sizeof(r->params), params,
                                  TUTTI_BYTES_TO(struct tutti_replicas_params, deadline_ps), err);

    if (status == 0 && r->params.deadline_ps == 0)
        r->params.deadline_ps = 30 * TUTTI_PS_PER_S;
    if (status == 0 && r->params.group != NULL && r->params.backend == NULL)
        status = tutti_fail(err, TUTTI_EINVAL, "a group without a backend (both or neither)");
    if (status == 0)
        status = read_strategy(r->params.strategy, &r->strategy, err);
    if (status == 0)
        status = open_all(r, err);
    if (status < 0)
        tutti_replicas_close(r);
    else
        *ret = r;
    return status;
}

void tutti_replicas_close(struct tutti_replicas *r)
{
    if (r == NULL)
        return;
    tutti_servers_cluster_free(r->cluster);
    if (r->is_own) {
        tutti_backend_close(r->backend);
        tutti_group_close(r->group);
    }
    free(r);
}

uint32_t tutti_replicas_num_in_sync(const struct tutti_replicas *r)
{
    return r->count;
}

bool tutti_replicas_is_chief(const struct tutti_replicas *r)
{
    if (r->cluster != NULL)
        return tutti_replicas_leads_servers(r);
    return r->group == NULL || r->group->index == 0;
}

const char *tutti_replicas_title(const struct tutti_replicas *r)
{
    return r->title;
}

void tutti_replicas_stop(struct tutti_replicas *r)
{
    atomic_store(&r->stop, true);
}
