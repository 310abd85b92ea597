/* Asks for one step of `tutti train`; see step.h. */
#include "tools/train/step.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/train/all_reduce.h"

int tutti_train_step_read(const struct tutti_args *args, struct tutti_train_question *q,
                          struct tutti_err *err)
{
    const char *shown = tutti_args_flag(args, "explain")  ? "explain"
                        : tutti_args_given(args, "trace") ? "trace"
                                                          : NULL;
    int status = tutti_trace_check(tutti_args_text(args, "trace"), true, err);

    if (status == 0)
        status = tutti_train_slow_read(args, &q->slow, err);
    if (status < 0)
        return status;
    if (q->strategy.coordinated && q->servers.losses.of_groups)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--perturb': '%.60s' of servers (leaves=, rendezvous= and "
                          "detect= are of --elastic)",
                          q->servers.losses.text);
    if (shown != NULL && q->strategy.coordinated)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--%s' shows a schedule, and strategy '%s' has none of a step",
                          shown, q->strategy.name);
    q->explains = tutti_args_flag(args, "explain");
    if (q->explains && tutti_args_is(args, "format", "csv"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '--explain' and '--format csv' (table or json)");
    q->is_watched = shown != NULL;
    return 0;
}

static int ask_servers(const struct tutti_train_question *q, const struct tutti_train_ask *ask,
                       struct tutti_train_answer *ret, struct tutti_train_servers_answer *servers,
                       struct tutti_err *err)
{
    struct tutti_train_servers_ask of_servers = q->servers.ask;
    int status;

    of_servers.train = ask;
    of_servers.changes = q->servers.losses.change;
    of_servers.steps = q->steps;
    status = tutti_train_servers_predict(&of_servers, servers, err);
    if (status == 0)
        *ret = servers->step;
    return status;
}

int tutti_train_step_ask(const struct tutti_train_question *q, struct tutti_train_ask *ask,
                         struct tutti_train_answer *ret, struct tutti_train_servers_answer *servers,
                         struct tutti_err *err)
{
    uint32_t *paces = NULL;
    int status = tutti_train_all_reduce_check(ask, err);

    if (status == 0)
        status = tutti_train_slow_paces(&q->slow, ask->topo->rank_count, &paces, err);
    ask->pace_ppm = paces;
    if (status == 0 && ask->strategy->coordinated)
        status = ask_servers(q, ask, ret, servers, err);
    else if (status == 0 && q->is_watched) {
        status = tutti_train_timeline_watch(q->timeline, ask, err);
        if (status == 0)
            status = tutti_train_predict(ask, ret, err);
        if (status == 0)
            status = tutti_train_timeline_check(q->timeline, err);
    } else if (status == 0)
        status = tutti_train_predict(ask, ret, err);
    ask->pace_ppm = NULL;
    free(paces);
    return status;
}
