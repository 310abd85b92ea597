/* Training by parameter servers, whoever this process is; see runtime/servers.h. */
#include "runtime/servers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/model.h"
#include "runtime/random.h"
#include "runtime/servers/server.h"
#include "runtime/status.h"

/* ---- what all have alike --------------------------------------------------------------------- */

static const char *late_name(enum tutti_late late)
{
    return late == TUTTI_LATE_ABORTED ? "aborted" : late == TUTTI_LATE_FRESH ? "fresh" : "queued";
}

void tutti_servers_describe(const struct tutti_servers_params *p,
                            const struct tutti_server_layout *l,
                            char model[TUTTI_SERVER_TEXT_BYTES],
                            char training[TUTTI_SERVER_TEXT_BYTES])
{
    const struct tutti_update_rule *o = &p->optimizer;
    const uint32_t variables = l->first_variable[l->layer_count];
    char steps[64] = "asynchronous";
    uint64_t hash = 1;

    for (uint32_t v = 0; v < variables; v++)
        hash = tutti_random_hash(hash, l->variable_at[v + 1], v, 2);
    for (uint32_t s = 0; s < l->server_count; s++)
        for (uint32_t i = l->first_run[s]; i < l->first_run[s + 1]; i++)
            hash = tutti_random_hash(hash, l->runs[i].flat, s, l->runs[i].count);
    if (p->synchronous)
        (void)snprintf(steps, sizeof(steps), "steps of %u, late ones %s",
                       p->aggregate > 0 ? p->aggregate : p->worker_count, late_name(p->late));
    memset(model, 0, TUTTI_SERVER_TEXT_BYTES);
    memset(training, 0, TUTTI_SERVER_TEXT_BYTES);
    (void)snprintf(model, TUTTI_SERVER_TEXT_BYTES,
                   "%.80s, %u variables of %" PRIu64 " values on %u servers, hash %016" PRIx64,
                   p->model->name, variables, l->elements, l->server_count, hash);
    (void)snprintf(training, TUTTI_SERVER_TEXT_BYTES,
                   "%" PRIu64 " steps, %s%s, %u workers%s, seed %" PRIu64
                   ", optimizer %d rate %.9g momentum %.9g decay %.9g warm-up %" PRIu64
                   ", clip %.9g%s%.200s",
                   p->steps, steps, p->staleness_max > 0 || p->slack > 0 ? ", bounded" : "",
                   p->worker_count, p->has_chief ? " and a chief" : "", p->seed, (int)o->kind,
                   o->rate, o->momentum, o->decay, p->rate.warmup_steps, p->clip_norm,
                   p->same != NULL ? ", " : "", p->same != NULL ? p->same : "");
}

struct tutti_frames_opts tutti_servers_frames(const struct tutti_servers_params *p,
                                              const struct tutti_server_layout *l)
{
    enum { BESIDE = 1 << 20 };
    const uint64_t values = l->elements * (1 + (uint64_t)tutti_update_moments(&p->optimizer));
    const bool has_secret = p->secret != NULL && p->secret[0] != '\0';
    /* Of a server's send: a worker that does not read must not keep it from all others for as
     * long as they wait for it. */
    const tutti_ps deadline_ps =
        p->role == TUTTI_SERVERS_SERVER ? p->deadline_ps / 3 : p->deadline_ps;

    return (struct tutti_frames_opts){.size = sizeof(struct tutti_frames_opts),
                                      .secret = has_secret ? p->secret : NULL,
                                      .secret_bytes = has_secret ? strlen(p->secret) : 0,
                                      .bytes_max = values * sizeof(float) + BESIDE,
                                      .deadline_ps = deadline_ps};
}

/* ---- the door -------------------------------------------------------------------------------- */

static int check(const struct tutti_servers_params *p, struct tutti_err *err)
{
    const uint32_t most = p->role == TUTTI_SERVERS_SERVER  ? p->server_count
                          : p->role == TUTTI_SERVERS_CHIEF ? (p->has_chief ? 1 : 0)
                                                           : p->worker_count;

    if (p->server_count == 0 || p->worker_count == 0 || p->servers == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' servers and '%u' workers (1 or more of each)",
                          p->server_count, p->worker_count);
    if (p->server_count > TUTTI_MEMBERS_MAX / 2 || p->worker_count > TUTTI_MEMBERS_MAX / 2)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' servers and '%u' workers (at most %d of each)",
                          p->server_count, p->worker_count, TUTTI_MEMBERS_MAX / 2);
    if (p->index >= most)
        return tutti_fail(err, TUTTI_EINVAL, "number '%u' of %u of its role", p->index, most);
    if (p->model == NULL || p->steps == 0)
        return tutti_fail(err, TUTTI_EINVAL, "servers without a model or steps");
    return 0;
}

int tutti_servers_train(const struct tutti_servers_params *params, struct tutti_servers_result *ret,
                        struct tutti_err *err)
{
    struct tutti_servers_params p;
    struct tutti_server_layout *layout = NULL;
    struct tutti_err said = {.text = ""};
    uint64_t *by_worker = ret->by_worker;
    int status = tutti_take("tutti_servers_params", &p, sizeof(p), params,
                            TUTTI_BYTES_TO(struct tutti_servers_params, context), &said);

    *ret = (struct tutti_servers_result){.by_worker = by_worker};
    if (status == 0)
        status = check(&p, &said);
    if (status == 0 && p.deadline_ps == 0)
        p.deadline_ps = 30 * TUTTI_PS_PER_S;
    if (status == 0)
        status = tutti_server_layout_new(&p, &layout, &said);
    if (status == 0)
        status = p.role == TUTTI_SERVERS_SERVER ? tutti_servers_serve(&p, layout, ret, &said)
                                                : tutti_servers_work(&p, layout, ret, &said);
    tutti_server_layout_free(layout);
    if (status < 0 && err != NULL)
        *err = said;
    return status;
}
