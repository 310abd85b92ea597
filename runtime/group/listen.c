/* Where a process listens: by what it is told to bind to, and by where process 0 is. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/group/progress.h"
#include "runtime/status.h"

static const tutti_ps DEFAULT_WAIT_PS = 30 * TUTTI_PS_PER_S;

int tutti_group_tcp_check_secret(const struct tutti_group_tcp_opts *opts, struct tutti_err *err)
{
    if (opts->secret == NULL || opts->secret_bytes >= TUTTI_GROUP_TCP_SECRET_BYTES_MIN)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "a secret of %zu bytes can be guessed (%d or more, drawn at random)",
                      opts->secret_bytes, TUTTI_GROUP_TCP_SECRET_BYTES_MIN);
}

bool tutti_group_tcp_is_local(const struct tutti_group_tcp_opts *opts, const char *host)
{
    return tutti_host_is_loopback(host) || (opts->secret == NULL && !opts->open_to_all);
}

/* The address for process 0 to listen at. In numbers it is that one alone, unless it is none of
 * this host, but of a router that passes connections on. A host's own name may stand for loopback
 * in its own list of hosts and for something else in all others: unless it is loopback by its very
 * words, a name is listened for on all addresses. */
static int choose(const struct tutti_group_tcp_opts *opts, const char *host, uint16_t port,
                  struct tutti_address *ret, struct tutti_err *err)
{
    tutti_ps wait_ps = opts->deadline_ps > 0 ? opts->deadline_ps : DEFAULT_WAIT_PS;
    int status = 0;

    if (opts->bind != NULL) {
        status = tutti_address_of_interface(
            opts->bind, strchr(host, ':') != NULL ? AF_INET6 : AF_UNSPEC, ret, err);
    } else if (tutti_group_tcp_is_local(opts, host)) {
        status = tutti_address_resolve(host, port, 0, wait_ps, ret, err);
    } else if (!tutti_address_of_numbers(host, ret) || !tutti_address_is_own(ret)) {
        tutti_address_any(AF_INET6, false, ret);
    }
    if (status < 0)
        return status;
    tutti_address_set_port(ret, port);
    status = tutti_group_tcp_check_secret(opts, err);
    if (status < 0)
        return status;
    if (opts->secret == NULL && !opts->open_to_all && !tutti_address_is_loopback(ret)) {
        char text[TUTTI_ADDRESS_TEXT_BYTES];

        return tutti_fail(err, TUTTI_EINVAL,
                          "without a secret loopback alone is listened at, and '%s' is '%s'",
                          opts->bind != NULL ? opts->bind : host, tutti_address_text(ret, text));
    }
    return 0;
}

static bool is_any(const struct tutti_address *address)
{
    struct tutti_address any;

    tutti_address_any(address->as.any.sa_family, false, &any);
    tutti_address_set_port(&any, tutti_address_port(address));
    return tutti_address_same(&any, address);
}

/* Of an interface or address that was asked for the others have to know: root may lie elsewhere. */
static bool is_reached_at(const struct tutti_group_tcp_opts *opts,
                          const struct tutti_address *listened)
{
    return opts->bind != NULL && !is_any(listened);
}

static int listen_by(const struct tutti_group_tcp_opts *opts, int *ret_fd, char *ret_address,
                     struct tutti_err *err)
{
    struct tutti_address address;
    char host[TUTTI_HOST_BYTES];
    uint16_t port;
    int fd = -1;
    int status = tutti_address_split(opts->root, host, &port, err);

    if (status == 0)
        status = choose(opts, host, port, &address, err);
    if (status < 0)
        return status;
    status = tutti_address_listen(&address, &fd, err);
    /* A machine without IPv6 has no "any" of both kinds. */
    if (status < 0 && opts->bind == NULL && address.as.any.sa_family == AF_INET6 &&
        !tutti_address_is_loopback(&address) && strchr(host, ':') == NULL) {
        tutti_address_any(AF_INET, false, &address);
        tutti_address_set_port(&address, port);
        status = tutti_address_listen(&address, &fd, err);
    }
    if (status < 0)
        return status;
    tutti_address_of_socket(fd, &address);
    if (is_reached_at(opts, &address))
        (void)tutti_address_text(&address, ret_address);
    else
        snprintf(ret_address, TUTTI_GROUP_TCP_ADDRESS_BYTES,
                 strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host,
                 tutti_address_port(&address));
    *ret_fd = fd;
    return 0;
}

int tutti_group_tcp_take(const struct tutti_group_tcp_opts *opts, struct tutti_group_tcp_opts *ret,
                         struct tutti_err *err)
{
    return tutti_take("tutti_group_tcp_opts", ret, sizeof(*ret), opts,
                      TUTTI_BYTES_TO(struct tutti_group_tcp_opts, log_data), err);
}

int tutti_group_tcp_listen(const struct tutti_group_tcp_opts *opts, int *ret_fd, char *ret_address,
                           struct tutti_err *err)
{
    struct tutti_group_tcp_opts own;
    int status = tutti_group_tcp_take(opts, &own, err);

    return status < 0 ? status : listen_by(&own, ret_fd, ret_address, err);
}

int tutti_group_tcp_listen_links(struct tutti_group_tcp *group,
                                 const struct tutti_group_tcp_opts *opts,
                                 const struct tutti_address *root, struct tutti_member *ret_member,
                                 struct tutti_err *err)
{
    struct tutti_address address;
    char host[TUTTI_HOST_BYTES];
    uint16_t port;
    struct tutti_member member = {.port = 0};
    int status = tutti_address_split(opts->root, host, &port, err);

    if (status < 0)
        return status;
    tutti_listener_close(group->links); /* of an earlier attempt */
    if (opts->bind != NULL) {
        status = tutti_address_of_interface(opts->bind, root->as.any.sa_family, &address, err);
        if (status < 0)
            return status;
        tutti_address_pack(&address, member.address);
    } else if (group->base.index == 0 && !is_any(root)) {
        address = *root; /* members come where they came before */
    } else if (group->base.index > 0 && tutti_address_towards(root, &address) &&
               !tutti_address_is_loopback(&address)) {
        /* Process 0 tells the others whence this one has come; on its own host that may be
         * loopback, and others come from elsewhere. */
    } else {
        tutti_address_any(root->as.any.sa_family, tutti_group_tcp_is_local(opts, host), &address);
    }
    tutti_address_set_port(&address, 0);
    status = tutti_address_listen(&address, &group->links->fd, err);
    if (status < 0)
        return status;
    tutti_address_of_socket(group->links->fd, &address);
    member.port = tutti_address_port(&address);
    *ret_member = member;
    return 0;
}
