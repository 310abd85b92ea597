/* The processes that a launcher has started meet; see meet.h. */
#include "runtime/meet.h"

#include <assert.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/launch/source.h"
#include "runtime/status.h"

struct meeting {
    struct tutti_meet_opts opts;
    char root[TUTTI_GROUP_TCP_ADDRESS_BYTES]; /* "": by what the launcher offers */
    char secret[TUTTI_MEET_SECRET_BYTES];     /* "": none */
};

/* ---- secrets --------------------------------------------------------------------------------- */

int tutti_meet_secret(const struct tutti_env *env, char ret[TUTTI_MEET_SECRET_BYTES],
                      struct tutti_err *err)
{
    const char *secret = env->get(env->context, "TUTTI_SECRET");

    ret[0] = '\0';
    if (secret == NULL || secret[0] == '\0')
        return 0;
    if (strlen(secret) >= TUTTI_MEET_SECRET_BYTES)
        return tutti_fail(err, TUTTI_EINVAL, "variable 'TUTTI_SECRET': more than %d characters",
                          TUTTI_MEET_SECRET_BYTES - 1);
    if (strlen(secret) < TUTTI_GROUP_TCP_SECRET_BYTES_MIN)
        return tutti_fail(err, TUTTI_EINVAL,
                          "variable 'TUTTI_SECRET': %zu characters can be guessed (%d or more, "
                          "drawn at random: openssl rand -hex 16)",
                          strlen(secret), TUTTI_GROUP_TCP_SECRET_BYTES_MIN);
    (void)snprintf(ret, TUTTI_MEET_SECRET_BYTES, "%s", secret);
    return 0;
}

int tutti_meet_draw_secret(char ret[TUTTI_MEET_SECRET_BYTES], struct tutti_err *err)
{
    unsigned char bytes[32];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return tutti_fail(err, TUTTI_EIO, "cannot draw a secret: %s", strerror(errno));
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(ret + 2 * i, TUTTI_MEET_SECRET_BYTES - 2 * i, "%02x", bytes[i]);
    return 0;
}

/* ---- where process 0 is ---------------------------------------------------------------------- */

/* 2: an address that others can reach; 1: likewise, if there is none of the former; 0: none. */
static int worth(const struct ifaddrs *one)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)one->ifa_addr;

    if (v6 == NULL || (one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0)
        return 0;
    if (one->ifa_addr->sa_family == AF_INET)
        return 2;
    return one->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

/* An address of this host that others can reach: the first that is up and not its loopback, of
 * IPv4 if there is one. */
static int find_address(char ret[TUTTI_LAUNCH_HOST_BYTES], struct tutti_err *err)
{
    struct ifaddrs *all = NULL;
    int best = 0;

    if (getifaddrs(&all) != 0)
        return tutti_fail(err, TUTTI_EIO, "cannot list the addresses of this host: %s",
                          strerror(errno));
    for (struct ifaddrs *a = all; a != NULL; a = a->ifa_next) {
        socklen_t bytes = worth(a) == 2 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

        if (worth(a) > best && getnameinfo(a->ifa_addr, bytes, ret, TUTTI_LAUNCH_HOST_BYTES, NULL,
                                           0, NI_NUMERICHOST) == 0)
            best = worth(a);
    }
    freeifaddrs(all);
    if (best == 0)
        return tutti_fail(err, TUTTI_ELACK,
                          "this host has no address but its loopback "
                          "('--rendezvous HOST:PORT' or TUTTI_ROOT names one)");
    return 0;
}

static struct tutti_group_tcp_opts group_opts(const struct meeting *m)
{
    const tutti_ps deadline_ps = m->opts.deadline_ps;

    return (struct tutti_group_tcp_opts){
        .size = sizeof(struct tutti_group_tcp_opts),
        .index = m->opts.launch->index,
        .count = m->opts.launch->count,
        .root = m->root,
        .bind = m->opts.bind,
        .secret = m->secret[0] != '\0' ? m->secret : NULL,
        .secret_bytes = strlen(m->secret),
        .open_to_all = m->opts.open_to_all,
        .has_listen_fd = m->opts.has_listen_fd,
        .listen_fd = m->opts.listen_fd,
        .deadline_ps = deadline_ps,
        /* Earlier than the ranks that wait for it: they would name each other. */
        .stall_ps = deadline_ps / 4 * 3,
        .log = m->opts.log,
        .log_data = m->opts.log_data,
        .again = m->opts.again,
        .admits = m->opts.admits,
    };
}

/* Process 0 listens at any port of an address that the others can reach. */
static int listen_here(struct meeting *m, struct tutti_err *err)
{
    const struct tutti_launch *launch = m->opts.launch;
    const bool here = launch->local_count == launch->count || launch->host_count == 1;
    char host[TUTTI_LAUNCH_HOST_BYTES] = "127.0.0.1";
    struct tutti_group_tcp_opts opts;
    int status = here ? 0 : find_address(host, err);

    if (status < 0)
        return status;
    (void)snprintf(m->root, sizeof(m->root), strchr(host, ':') != NULL ? "[%s]:0" : "%s:0", host);
    opts = group_opts(m);
    status = tutti_group_tcp_listen(&opts, &m->opts.listen_fd, m->root, err);
    m->opts.has_listen_fd = status == 0;
    return status;
}

/* "ADDRESS/SECRET", from process 0 to the others. */
static int share_root(struct meeting *m, struct tutti_err *err)
{
    const struct tutti_launch *launch = m->opts.launch;
    const bool own_secret = m->secret[0] == '\0';
    char word[TUTTI_LAUNCH_SHARE_BYTES] = "";
    size_t bytes;
    int status = 0;

    if (launch->index == 0) {
        if (own_secret)
            status = tutti_meet_draw_secret(m->secret, err);
        if (status == 0)
            status = listen_here(m, err);
        (void)snprintf(word, sizeof(word), "%.200s/%s", m->root, own_secret ? m->secret : "");
    }
    if (status == 0 && tutti_launch_can_share(launch))
        status = tutti_launch_share(m->opts.env, launch, word, m->opts.deadline_ps, err);
    else if (status == 0)
        status = m->opts.share(launch, word, m->opts.deadline_ps, err);
    if (status < 0 || launch->index == 0)
        return status;
    bytes = strcspn(word, "/");
    if (word[bytes] != '/' || bytes >= sizeof(m->root))
        return tutti_fail(err, TUTTI_EIO, "process 0 says that it is at '%.100s' (HOST:PORT/)",
                          word);
    memcpy(m->root, word, bytes);
    m->root[bytes] = '\0';
    if (own_secret)
        (void)snprintf(m->secret, sizeof(m->secret), "%.255s", word + bytes + 1);
    return 0;
}

/* What is given, what the launcher says, or what it carries. */
static int find_root(struct meeting *m, struct tutti_err *err)
{
    const struct tutti_launch *launch = m->opts.launch;
    const bool bracket = strchr(launch->root_host, ':') != NULL;

    if (m->root[0] != '\0' || launch->count == 1)
        return 0;
    if (launch->root_host[0] != '\0' && launch->root_port != 0) {
        (void)snprintf(m->root, sizeof(m->root), "%s%s%s:%u", bracket ? "[" : "", launch->root_host,
                       bracket ? "]" : "", launch->root_port);
        return 0;
    }
    if (tutti_launch_can_share(launch) || m->opts.share != NULL)
        return share_root(m, err);
    return tutti_fail(err, TUTTI_EINVAL,
                      "%s says that this is process %u of %u, and not where process 0 is "
                      "(TUTTI_ROOT=HOST:PORT)",
                      launch->by, launch->index, launch->count);
}

int tutti_meet(const struct tutti_meet_opts *given, struct tutti_group **ret, struct tutti_err *err)
{
    struct meeting m = {.root = ""};
    int status = tutti_take("tutti_meet_opts", &m.opts, sizeof(m.opts), given,
                            TUTTI_BYTES_TO(struct tutti_meet_opts, share), err);
    struct tutti_group_tcp_opts opts;

    if (status < 0)
        return status;
    assert(m.opts.launch != NULL && m.opts.launch->member);
    assert(m.opts.launch->index < m.opts.launch->count);
    if (m.opts.env == NULL)
        m.opts.env = &tutti_env_process;
    if (m.opts.deadline_ps == 0)
        m.opts.deadline_ps = 30 * TUTTI_PS_PER_S;
    if (m.opts.root != NULL)
        (void)snprintf(m.root, sizeof(m.root), "%s", m.opts.root);
    if (m.opts.secret != NULL)
        (void)snprintf(m.secret, sizeof(m.secret), "%s", m.opts.secret);
    status = find_root(&m, err);
    if (status == 0) {
        opts = group_opts(&m);
        status = tutti_group_tcp_open(&opts, ret, err);
    }
    if (status < 0 && m.opts.has_listen_fd)
        close(m.opts.listen_fd);
    return status;
}
