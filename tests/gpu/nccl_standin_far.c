/* Communicators of the stand-in whose ranks are processes of this host: a socket each way for each
 * pair, on which messages follow each other without a word between. So what is sent and what is
 * received must be in one order on both sides, as NCCL wants it. */
#include "tests/gpu/nccl_standin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* What is sent to a rank, or comes from one; those of a rank one after the other. */
struct transfer {
    int peer;
    char *at;
    size_t bytes;
    size_t moved;
};

struct job {
    struct comm *comm;
    struct call *calls;
    int call_count;
    struct transfer *outs;
    struct transfer *ins;
    int out_count;
    int in_count;
    char ***parts; /* [call][rank]: what others give to a collective */
};

static socklen_t address_of(const struct comm *comm, int rank, struct sockaddr_un *ret)
{
    int length;

    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    length = snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "tutti-nccl-%llx-%d",
                      (unsigned long long)comm->id, rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

bool standin_far_open(struct comm *comm)
{
    struct sockaddr_un address;
    socklen_t length = address_of(comm, comm->rank, &address);

    atomic_store(&comm->users, 1);
    comm->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    comm->to = malloc((size_t)comm->rank_count * sizeof(int));
    comm->from = malloc((size_t)comm->rank_count * sizeof(int));
    if (comm->to == NULL || comm->from == NULL)
        return false;
    for (int i = 0; i < comm->rank_count; i++)
        comm->to[i] = comm->from[i] = -1;
    return bind(comm->listen_fd, (struct sockaddr *)&address, length) == 0 &&
           listen(comm->listen_fd, comm->rank_count) == 0;
}

static void join(struct comm *comm)
{
    if (comm->has_thread)
        (void)pthread_join(comm->thread, NULL);
    comm->has_thread = false;
    free(comm->calls);
    comm->calls = NULL;
}

static void leave(struct comm *comm)
{
    if (atomic_fetch_sub(&comm->users, 1) > 1)
        return;
    for (int i = 0; i < comm->rank_count && comm->to != NULL && comm->from != NULL; i++) {
        close_fd(&comm->to[i]);
        close_fd(&comm->from[i]);
    }
    close_fd(&comm->listen_fd);
    free(comm->to);
    free(comm->from);
    free(comm->all_said);
    free(comm);
}

void standin_far_free(struct comm *comm)
{
    atomic_store(&comm->aborted, true);
    join(comm);
    leave(comm);
}

int standin_far_state(struct comm *comm)
{
    return atomic_load(&comm->state);
}

/* ---- what is to be moved ---- */

static void add(struct transfer *list, int *count, int peer, const void *at, size_t bytes)
{
    list[(*count)++] = (struct transfer){.peer = peer, .at = (char *)(uintptr_t)at, .bytes = bytes};
}

/* Every rank gives its input to every other. */
static bool add_collective(struct job *job, int number)
{
    const struct call *call = &job->calls[number];
    int n = job->comm->rank_count;

    job->parts[number] = calloc((size_t)n, sizeof(char *));
    for (int r = 0; r < n && job->parts[number] != NULL; r++) {
        if (r == job->comm->rank)
            continue;
        job->parts[number][r] = malloc(standin_in_bytes(call) + 1);
        if (job->parts[number][r] == NULL)
            return false;
        add(job->outs, &job->out_count, r, call->in, standin_in_bytes(call));
        add(job->ins, &job->in_count, r, job->parts[number][r], standin_in_bytes(call));
    }
    return job->parts[number] != NULL;
}

/* To itself a rank copies: the next RECV of as many bytes. */
static void copy_to_self(const struct job *job, struct call *send)
{
    for (int i = 0; i < job->call_count; i++) {
        struct call *recv = &job->calls[i];

        if (recv->kind != RECV || recv->peer != job->comm->rank || recv->done)
            continue;
        memcpy(recv->out, send->in, standin_in_bytes(send));
        recv->done = send->done = true;
        return;
    }
}

static bool collect(struct job *job)
{
    struct comm *comm = job->comm;
    size_t most = (size_t)job->call_count * (size_t)comm->rank_count + 1;
    bool well = true;

    job->outs = calloc(most, sizeof(job->outs[0]));
    job->ins = calloc(most, sizeof(job->ins[0]));
    job->parts = calloc((size_t)job->call_count + 1, sizeof(job->parts[0]));
    if (job->outs == NULL || job->ins == NULL || job->parts == NULL)
        return false;
    for (int i = 0; i < job->call_count && well; i++) {
        struct call *call = &job->calls[i];

        if (call->kind == SEND && call->peer == comm->rank)
            copy_to_self(job, call);
        else if (call->kind == SEND)
            add(job->outs, &job->out_count, call->peer, call->in, standin_in_bytes(call));
        else if (call->kind == RECV && call->peer != comm->rank)
            add(job->ins, &job->in_count, call->peer, call->out, standin_in_bytes(call));
        else if (call->kind > RECV)
            well = add_collective(job, i);
    }
    return well;
}

/* ---- moving ---- */

/* The first of a rank's that is not over. */
static struct transfer *next_of(struct transfer *list, int count, int peer)
{
    for (int i = 0; i < count; i++)
        if (list[i].peer == peer && list[i].moved < list[i].bytes)
            return &list[i];
    return NULL;
}

/* Who connects says first which rank it is. */
static void connect_to(struct comm *comm, int rank)
{
    struct sockaddr_un address;
    socklen_t length = address_of(comm, rank, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, length) == 0 &&
        write(fd, &comm->rank, sizeof(comm->rank)) == sizeof(comm->rank) &&
        fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
        comm->to[rank] = fd;
    else
        close_fd(&fd);
}

static void accept_one(struct comm *comm)
{
    int fd = accept4(comm->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    int rank = -1;

    if (fd < 0)
        return;
    if (read(fd, &rank, sizeof(rank)) == sizeof(rank) && rank >= 0 && rank < comm->rank_count &&
        fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
        comm->from[rank] = fd;
    else
        close_fd(&fd);
}

/* False: the other side is gone. */
static bool move(int fd, struct transfer *transfer, bool out)
{
    size_t left = transfer->bytes - transfer->moved;
    ssize_t got = out ? send(fd, transfer->at + transfer->moved, left, MSG_NOSIGNAL)
                      : read(fd, transfer->at + transfer->moved, left);

    if (got > 0)
        transfer->moved += (size_t)got;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

/* One look at all; *ret_busy: something is left. */
static bool turn(struct job *job, bool *ret_busy)
{
    struct comm *comm = job->comm;
    struct pollfd poller = {.fd = comm->listen_fd, .events = POLLIN};
    bool well = true;

    *ret_busy = false;
    (void)poll(&poller, 1, 0);
    if ((poller.revents & POLLIN) != 0)
        accept_one(comm);
    for (int r = 0; r < comm->rank_count && well; r++) {
        struct transfer *out = next_of(job->outs, job->out_count, r);
        struct transfer *in = next_of(job->ins, job->in_count, r);

        *ret_busy = *ret_busy || out != NULL || in != NULL;
        if (out != NULL && comm->to[r] < 0)
            connect_to(comm, r);
        if (out != NULL && comm->to[r] >= 0)
            well = move(comm->to[r], out, true);
        if (well && in != NULL && comm->from[r] >= 0)
            well = move(comm->from[r], in, false);
    }
    return well;
}

static bool finish(struct job *job)
{
    struct comm *comm = job->comm;
    bool well = true;

    for (int i = 0; i < job->call_count && well; i++) {
        const struct call *call = &job->calls[i];
        char *result;
        size_t bytes;

        if (call->kind <= RECV)
            continue;
        job->parts[i][comm->rank] = malloc(standin_in_bytes(call) + 1);
        memcpy(job->parts[i][comm->rank], call->in, standin_in_bytes(call));
        result = malloc(standin_in_bytes(call) * (size_t)comm->rank_count + 1);
        bytes = standin_result(call, (const char *const *)job->parts[i], result);
        memcpy(call->out, result, bytes);
        free(result);
        well = call->kind != SPLIT || standin_split(call);
    }
    return well;
}

static void free_job(struct job *job)
{
    for (int i = 0; job->parts != NULL && i < job->call_count; i++) {
        for (int r = 0; job->parts[i] != NULL && r < job->comm->rank_count; r++)
            free(job->parts[i][r]);
        free(job->parts[i]);
    }
    free(job->parts);
    free(job->outs);
    free(job->ins);
}

/* Until all of it is done, or broken off. */
static int move_all(struct job *job)
{
    bool busy = true;
    int state = collect(job) ? SUCCESS : INTERNAL_ERROR;

    while (state == SUCCESS && busy && !atomic_load(&job->comm->aborted)) {
        if (!turn(job, &busy))
            state = REMOTE_ERROR;
        else if (busy)
            (void)poll(NULL, 0, 1);
    }
    if (state == SUCCESS && !busy && !finish(job))
        state = INTERNAL_ERROR;
    free_job(job);
    return state;
}

static void *work(void *data)
{
    struct comm *comm = data;
    struct job job = {.comm = comm, .calls = comm->calls, .call_count = comm->call_count};

    standin_wait(comm->calls, comm->call_count);
    atomic_store(&comm->state, move_all(&job));
    return NULL;
}

/* ---- in a stream ---- */

struct queued {
    struct comm *comm;
    struct call *calls;
    int call_count;
};

static void play(const void *args)
{
    const struct queued *q = args;
    struct job job = {.comm = q->comm, .calls = q->calls, .call_count = q->call_count};
    const bool is_late = q->calls[0].count > 1;
    int late_ms = is_late ? (int)standin_setting("TUTTI_NCCL_STANDIN_LATE_MS", 0) : 0;
    int state = SUCCESS;

    for (; late_ms > 0 && !atomic_load(&q->comm->aborted); late_ms -= 10)
        (void)poll(NULL, 0, 10);
    if (!atomic_load(&q->comm->aborted))
        state = move_all(&job);
    if (state != SUCCESS)
        atomic_store(&q->comm->state, state);
    free(q->calls);
    leave(q->comm);
}

static int put(struct comm *comm, struct call *calls, int call_count)
{
    const struct queued q = {.comm = comm, .calls = calls, .call_count = call_count};
    void *symbol = standin_symbol("standin_put");
    int (*put_call)(void *stream, void (*call)(const void *args), const void *args, size_t bytes);

    if (symbol == NULL) {
        free(calls);
        return INTERNAL_ERROR;
    }
    memcpy(&put_call, &symbol, sizeof(symbol));
    (void)atomic_fetch_add(&comm->users, 1);
    return put_call(calls[0].stream, play, &q, sizeof(q)) == 0 ? SUCCESS : INTERNAL_ERROR;
}

int standin_far_begin(struct comm *comm, const struct call *calls, int call_count)
{
    struct call *own = malloc(((size_t)call_count + 1) * sizeof(calls[0]));

    if (own == NULL)
        return INTERNAL_ERROR;
    memcpy(own, calls, (size_t)call_count * sizeof(calls[0]));
    if (calls[0].kind != SPLIT && standin_setting("TUTTI_NCCL_STANDIN_QUEUED", 0) != 0)
        return put(comm, own, call_count);
    join(comm);
    comm->calls = own;
    comm->call_count = call_count;
    atomic_store(&comm->state, IN_PROGRESS);
    comm->has_thread = pthread_create(&comm->thread, NULL, work, comm) == 0;
    return comm->has_thread ? IN_PROGRESS : INTERNAL_ERROR;
}
