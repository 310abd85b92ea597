/* The connections of a process, kept from execution to execution: making one takes longer than a
 * play. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/exec/host/wait_set.h"
#include "runtime/exec/transport/tcp/tcp.h"
#include "runtime/status.h"

/* What each process says first. */
struct wish {
    int32_t status;
    uint32_t count; /* connections that are to be made */
};

static int set(int fd, int level, int name, const void *value, socklen_t bytes, const char *what,
               struct tutti_err *err)
{
    if (setsockopt(fd, level, name, value, bytes) == 0)
        return 0;
    return tutti_fail(err, TUTTI_EIO, "cannot set %s of a connection: %s", what, strerror(errno));
}

/* The links are made with TCP_NODELAY and do not block; the rest is ours. */
static int tune(const struct tutti_tcp *tcp, int fd, struct tutti_err *err)
{
    int bytes = (int)tcp->opts.buffer_bytes;
    int status = 0;

    if (bytes > 0)
        status = set(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes), "the buffers", err);
    if (status == 0 && bytes > 0)
        status = set(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes), "the buffers", err);
    if (status == 0 && tcp->congestion[0] != '\0' &&
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, tcp->congestion,
                   (socklen_t)strlen(tcp->congestion)) != 0)
        status = tutti_fail(err, errno == ENOENT || errno == EPERM ? TUTTI_ELACK : TUTTI_EIO,
                            "cannot use the congestion control '%s': %s", tcp->congestion,
                            strerror(errno));
    return status;
}

/* Each rank may need many connections; what the system lets us have without asking is taken. */
static void raise_limit(uint32_t count)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max ||
        limit.rlim_cur / 2 > count)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int grow(struct tutti_tcp_pool *pool, uint32_t need, struct tutti_err *err)
{
    int *larger;

    if (need <= pool->count)
        return 0;
    larger = realloc(pool->fds, need * sizeof(larger[0]));
    if (larger == NULL)
        return tutti_nomem(err);
    pool->fds = larger;
    return 0;
}

/* Makes what is missing, and puts it where it belongs. */
static int make(struct tutti_tcp *tcp, struct tutti_group *group, const uint32_t *need,
                struct tutti_group_tcp_link *wanted, int *fds, uint32_t missing,
                tutti_ps deadline_ps, struct tutti_err *err)
{
    uint32_t at = 0;
    int status;

    for (uint32_t p = 0; p < tcp->pool_count; p++) {
        for (uint32_t i = tcp->pools[p].count; i < need[p]; i++)
            wanted[at++] = (struct tutti_group_tcp_link){
                .peer = p, .key = (uint64_t)tcp->generation << 32 | i};
    }
    raise_limit(missing);
    status = tcp->links(group, wanted, missing, fds, deadline_ps, err);
    if (status < 0)
        return status;
    at = 0;
    for (uint32_t p = 0; p < tcp->pool_count; p++) {
        struct tutti_tcp_pool *pool = &tcp->pools[p];

        while (pool->count < need[p])
            pool->fds[pool->count++] = fds[at++];
    }
    for (uint32_t i = 0; i < missing && status == 0; i++)
        status = tune(tcp, fds[i], err);
    return status;
}

int tutti_tcp_pools_fill(struct tutti_tcp *tcp, struct tutti_group *group, const uint32_t *need,
                         int status, bool *ret_filled, struct tutti_err *err)
{
    tutti_ps wait_ps = tutti_wait_set_after(5 * TUTTI_PS_PER_S, tcp->plan->deadline_ps);
    struct wish mine = {0};
    struct wish *all = calloc(group->count, sizeof(all[0]));
    struct tutti_group_tcp_link *wanted = NULL;
    int *fds = NULL;
    bool any = false;
    bool failed = false;
    int worked;

    *ret_filled = false;
    if (all == NULL) {
        status = status < 0 ? status : tutti_nomem(err);
        tutti_group_stop(group, status, err);
        return status;
    }
    for (uint32_t p = 0; status == 0 && p < tcp->pool_count; p++) {
        status = grow(&tcp->pools[p], need[p], err);
        mine.count += need[p] > tcp->pools[p].count ? need[p] - tcp->pools[p].count : 0;
    }
    wanted = calloc((size_t)mine.count + 1, sizeof(wanted[0]));
    fds = calloc((size_t)mine.count + 1, sizeof(fds[0]));
    if (status == 0 && (wanted == NULL || fds == NULL))
        status = tutti_nomem(err);
    mine.status = status;
    worked = tutti_group_exchange(group, &mine, sizeof(mine), all, wait_ps, err);
    for (uint32_t p = 0; worked == 0 && p < group->count; p++) {
        any = any || all[p].count > 0;
        failed = failed || all[p].status < 0;
    }
    if (worked == 0 && any && !failed)
        worked = make(tcp, group, need, wanted, fds, mine.count, wait_ps, err);
    free(all);
    free(wanted);
    free(fds);
    *ret_filled = worked == 0 && !failed;
    return worked < 0 ? worked : status;
}

void tutti_tcp_pools_drop(struct tutti_tcp *tcp)
{
    for (uint32_t p = 0; p < tcp->pool_count; p++) {
        struct tutti_tcp_pool *pool = &tcp->pools[p];

        for (uint32_t i = 0; i < pool->count; i++)
            close(pool->fds[i]);
        free(pool->fds);
        *pool = (struct tutti_tcp_pool){0};
    }
    tcp->generation++;
}
