/* Opens the backend `tcp`: the execution of threads with a transport over sockets. */
#include "runtime/exec/transport/tcp/tcp.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/host/execution.h"
#include "runtime/status.h"

static const char *const engine_names[] = {
    [TUTTI_TCP_AUTO] = "auto", [TUTTI_TCP_POLL] = "poll", [TUTTI_TCP_URING] = "uring"};

int tutti_tcp_engine_find(const char *name, enum tutti_tcp_engine *ret, struct tutti_err *err)
{
    static const char words[] = "auto, poll or uring";
    char hint[TUTTI_HINT_BYTES];

    for (unsigned i = 0; i < sizeof(engine_names) / sizeof(engine_names[0]); i++) {
        if (strcmp(name, engine_names[i]) == 0) {
            *ret = (enum tutti_tcp_engine)i;
            return 0;
        }
    }
    return tutti_fail(err, TUTTI_EINVAL, "unknown engine '%s' (%s%s)", name,
                      tutti_nearest_hint(name, words, hint), words);
}

/* Measured (tests/bench/notes.md): poll is never slower with the few connections of a rank. */
const char *tutti_tcp_engine_name(void)
{
    return engine_names[TUTTI_TCP_POLL];
}

static int check_opts(const struct tutti_tcp_opts *opts, struct tutti_err *err)
{
    if (opts->connections > TUTTI_TCP_CONNECTIONS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "%u connections are too many (at most %u)",
                          opts->connections, (unsigned)TUTTI_TCP_CONNECTIONS_MAX);
    if (opts->buffer_bytes > INT32_MAX / 2)
        return tutti_fail(err, TUTTI_EINVAL, "buffers of %u bytes are too large",
                          opts->buffer_bytes);
    if (opts->engine > TUTTI_TCP_URING)
        return tutti_fail(err, TUTTI_EINVAL, "there is no engine number %u", opts->engine);
    return opts->engine == TUTTI_TCP_URING ? tutti_tcp_uring_check(err) : 0;
}

static int make(const struct tutti_tcp_opts *opts, tutti_tcp_links_fn *links,
                struct tutti_tcp **ret, struct tutti_err *err)
{
    struct tutti_tcp *tcp;
    int status = check_opts(opts, err);

    if (status < 0)
        return status;
    tcp = calloc(1, sizeof(*tcp));
    if (tcp == NULL)
        return tutti_nomem(err);
    tcp->base.ops = &tutti_tcp_transport_ops;
    tcp->engine = opts->engine == TUTTI_TCP_URING ? &tutti_tcp_uring : &tutti_tcp_poll;
    tcp->links = links;
    tcp->opts = *opts;
    tcp->opts.connections += opts->connections == 0;
    if (opts->congestion != NULL)
        snprintf(tcp->congestion, sizeof(tcp->congestion), "%s", opts->congestion);
    tcp->opts.congestion = NULL;
    tcp->pool_count = opts->group->count;
    tcp->pools = calloc(tcp->pool_count, sizeof(tcp->pools[0]));
    if (tcp->pools == NULL) {
        free(tcp);
        return tutti_nomem(err);
    }
    *ret = tcp;
    return 0;
}

int tutti_tcp_open_with(const struct tutti_tcp_opts *opts, tutti_tcp_links_fn *links,
                        struct tutti_backend **ret, struct tutti_err *err)
{
    static const tutti_ps wait_ps = 30 * TUTTI_PS_PER_S;
    struct tutti_host_backend_opts host_backend = {.name = "tcp",
                                                   .pin = opts->pin,
                                                   .group = opts->group,
                                                   .shaper = opts->shaper,
                                                   .slowdown = opts->slowdown};
    struct tutti_tcp *tcp = NULL;
    char text[128];
    int status = make(opts, links, &tcp, err);

    snprintf(text, sizeof(text), "%u connections of %u bytes with '%s'", opts->connections,
             opts->buffer_bytes, opts->congestion == NULL ? "" : opts->congestion);
    status = tutti_group_agree(opts->group, status, wait_ps, err);
    if (status == 0)
        status = tutti_group_same(opts->group, "tcp options", text, wait_ps, err);
    if (status < 0) {
        if (tcp != NULL)
            tutti_tcp_transport_ops.close(&tcp->base);
        return status;
    }
    host_backend.transport = &tcp->base;
    return tutti_host_backend_open(&host_backend, ret, err);
}

int tutti_tcp_open(const struct tutti_tcp_opts *opts, struct tutti_backend **ret,
                   struct tutti_err *err)
{
    struct tutti_tcp_opts own;
    int status = tutti_take("tutti_tcp_opts", &own, sizeof(own), opts,
                            TUTTI_BYTES_TO(struct tutti_tcp_opts, slowdown), err);

    if (status < 0)
        return status;
    assert(own.group != NULL);
    assert(strcmp(own.group->ops->name, "tcp") == 0);
    return tutti_tcp_open_with(&own, tutti_group_tcp_links, ret, err);
}
