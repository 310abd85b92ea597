/* Answers in place of NCCL's library, over the memory of the stand-in for the driver: what is in a
 * group is done when the group ends, by the thread that ends it. All ranks are in one process.
 * What a test sets in the environment:
 *   TUTTI_NCCL_STANDIN_FAIL      CALL:N: the N-th call of that name fails as an internal error
 *   TUTTI_NCCL_STANDIN_VERSION   what it says that it is (23003: 2.30.3) */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/nccl/library.h"

enum { SUCCESS = 0, INTERNAL_ERROR = 3, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, QUEUE_MAX = 8192 };

static uint64_t setting(const char *name, uint64_t standard)
{
    const char *text = getenv(name);

    return text == NULL ? standard : strtoull(text, NULL, 0);
}

/* Whether this call is the one that is to fail. */
static bool fails(const char *call)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the two below */
    static char last[96];
    static uint64_t calls;
    const char *wish = getenv("TUTTI_NCCL_STANDIN_FAIL");
    size_t length = strlen(call);
    bool result;

    if (wish == NULL || strncmp(wish, call, length) != 0 || wish[length] != ':')
        return false;
    (void)pthread_mutex_lock(&lock);
    if (strcmp(last, wish) != 0)
        calls = 0;
    (void)snprintf(last, sizeof(last), "%s", wish);
    result = ++calls == strtoull(wish + length + 1, NULL, 0);
    (void)pthread_mutex_unlock(&lock);
    return result;
}

#define CALL(RESULT, NAME, PARAMETERS)                             \
    __attribute__((visibility("default"))) RESULT NAME PARAMETERS; \
    RESULT NAME PARAMETERS

#define FAIL_IF_ASKED()            \
    do {                           \
        if (fails(__func__))       \
            return INTERNAL_ERROR; \
    } while (0)

/* ---- communicators ---- */

struct comm {
    uint64_t id;
    int rank;
    int rank_count;
};

enum kind { SEND, RECV, ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, REDUCE, ALLTOALL };

struct call {
    enum kind kind;
    struct comm *comm;
    const char *in;
    char *out;
    size_t count;
    int type;
    int op;
    int peer; /* or root */
    bool done;
};

/* The group of a thread. */
struct group {
    int depth;
    int call_count;
    struct call calls[QUEUE_MAX];
};

static struct group *group(void)
{
    static _Thread_local struct group mine;

    return &mine;
}

static size_t bytes_of(int type)
{
    static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

    return type >= 0 && type < 10 ? bytes[type] : 0;
}

static enum tutti_dtype dtype_of(int type)
{
    for (int i = 0; i < TUTTI_DTYPE_COUNT; i++)
        if (tutti_nccl_type((enum tutti_dtype)i) == type)
            return (enum tutti_dtype)i;
    return TUTTI_UINT8;
}

static enum tutti_op op_of(int op)
{
    for (int i = 0; i < TUTTI_OP_COUNT; i++)
        if (tutti_nccl_op((enum tutti_op)i) == op)
            return (enum tutti_op)i;
    return TUTTI_SUM;
}

/* ---- what is in a group ---- */

static struct call *find(struct group *g, const struct call *like, enum kind kind, int rank,
                         int peer)
{
    for (int i = 0; i < g->call_count; i++) {
        struct call *call = &g->calls[i];

        if (!call->done && call->kind == kind && call->comm->id == like->comm->id &&
            call->comm->rank == rank && (peer < 0 || call->peer == peer))
            return call;
    }
    return NULL;
}

/* A RECV and the first SEND to it that is left: all reads come before all writes, as the worst
 * order would have it. */
static int deliver(struct group *g)
{
    char **copies = calloc((size_t)g->call_count + 1, sizeof(*copies));
    int status = copies == NULL ? INTERNAL_ERROR : SUCCESS;

    for (int i = 0; i < g->call_count && status == SUCCESS; i++) {
        struct call *recv = &g->calls[i];
        size_t bytes = recv->count * bytes_of(recv->type);
        struct call *send =
            recv->kind != RECV ? NULL : find(g, recv, SEND, recv->peer, recv->comm->rank);

        if (recv->kind != RECV)
            continue;
        copies[i] = send == NULL || send->count != recv->count ? NULL : malloc(bytes + 1);
        if (copies[i] == NULL) { /* NCCL would wait for ever */
            status = INVALID_USAGE;
            break;
        }
        memcpy(copies[i], send->in, bytes);
        send->done = true;
    }
    for (int i = 0; i < g->call_count && copies != NULL; i++) {
        struct call *call = &g->calls[i];

        if (call->kind == RECV && status == SUCCESS && copies[i] != NULL) {
            memcpy(call->out, copies[i], call->count * bytes_of(call->type));
            call->done = true;
        }
        free(copies[i]);
    }
    free(copies);
    return status;
}

/* Block `block` of all inputs, reduced in the order of the ranks. */
static int reduce_block(struct group *g, const struct call *call, size_t block, char *out)
{
    enum tutti_dtype dtype = dtype_of(call->type);
    size_t bytes = call->count * bytes_of(call->type);

    for (int r = 0; r < call->comm->rank_count; r++) {
        const struct call *other = find(g, call, call->kind, r, -1);

        if (other == NULL || other->count != call->count)
            return INVALID_USAGE;
        if (r == 0)
            memcpy(out, other->in + block * bytes, bytes);
        else
            tutti_reduce(dtype, op_of(call->op), out, out, other->in + block * bytes, call->count);
    }
    tutti_finish(dtype, op_of(call->op), out, call->count, (uint32_t)call->comm->rank_count);
    return SUCCESS;
}

static int gather(struct group *g, const struct call *call, size_t block, char *out)
{
    size_t bytes = call->count * bytes_of(call->type);

    for (int r = 0; r < call->comm->rank_count; r++) {
        const struct call *other = find(g, call, call->kind, r, -1);

        if (other == NULL)
            return INVALID_USAGE;
        memcpy(out + (size_t)r * bytes, other->in + block * bytes, bytes);
    }
    return SUCCESS;
}

/* What a rank gets of a collective, into memory of its own: outputs may be inputs of others. */
static int result_of(struct group *g, const struct call *call, char *out, size_t *ret_bytes)
{
    size_t bytes = call->count * bytes_of(call->type);
    size_t rank = (size_t)call->comm->rank;
    const struct call *root;

    *ret_bytes = bytes;
    switch (call->kind) {
    case ALL_REDUCE:
        return reduce_block(g, call, 0, out);
    case REDUCE:
        *ret_bytes = call->comm->rank == call->peer ? bytes : 0;
        return reduce_block(g, call, 0, out);
    case REDUCE_SCATTER:
        return reduce_block(g, call, rank, out);
    case BROADCAST:
        root = find(g, call, BROADCAST, call->peer, -1);
        if (root == NULL)
            return INVALID_USAGE;
        memcpy(out, root->in, bytes);
        return SUCCESS;
    default:
        *ret_bytes = bytes * (size_t)call->comm->rank_count;
        return gather(g, call, call->kind == ALLTOALL ? rank : 0, out);
    }
}

static int collect(struct group *g)
{
    char **results = calloc((size_t)g->call_count + 1, sizeof(*results));
    size_t *bytes = calloc((size_t)g->call_count + 1, sizeof(*bytes));
    int status = results == NULL || bytes == NULL ? INTERNAL_ERROR : SUCCESS;

    for (int i = 0; i < g->call_count && status == SUCCESS; i++) {
        const struct call *call = &g->calls[i];
        size_t room = call->count * bytes_of(call->type) * (size_t)call->comm->rank_count;

        if (call->kind == SEND || call->kind == RECV)
            continue;
        results[i] = malloc(room + 1);
        status = results[i] == NULL ? INTERNAL_ERROR : result_of(g, call, results[i], &bytes[i]);
    }
    for (int i = 0; i < g->call_count && results != NULL; i++) {
        if (status == SUCCESS && results[i] != NULL)
            memcpy(g->calls[i].out, results[i], bytes[i]);
        free(results[i]);
    }
    free(results);
    free(bytes);
    return status;
}

static int end_group(struct group *g)
{
    int status = deliver(g);

    if (status == SUCCESS)
        status = collect(g);
    g->call_count = 0;
    return status;
}

static int add(const struct call *call)
{
    struct group *g = group();

    if (g->call_count == QUEUE_MAX || bytes_of(call->type) == 0)
        return INVALID_ARGUMENT;
    g->calls[g->call_count++] = *call;
    return g->depth > 0 ? SUCCESS : end_group(g);
}

/* ---- the calls ---- */

CALL(int, ncclGetVersion, (int *ret))
{
    FAIL_IF_ASKED();
    *ret = (int)setting("TUTTI_NCCL_STANDIN_VERSION", 23003);
    return SUCCESS;
}

CALL(int, ncclGetUniqueId, (struct tutti_nccl_id * ret))
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of `count` */
    static uint64_t count;

    FAIL_IF_ASKED();
    memset(ret, 0, sizeof(*ret));
    (void)pthread_mutex_lock(&lock);
    count++;
    memcpy(ret->internal, &count, sizeof(count));
    (void)pthread_mutex_unlock(&lock);
    return SUCCESS;
}

CALL(int, ncclCommInitRankConfig,
     (void **ret, int rank_count, struct tutti_nccl_id id, int rank,
      struct tutti_nccl_config *config))
{
    struct comm *comm;

    FAIL_IF_ASKED();
    if (config->magic != TUTTI_NCCL_CONFIG_MAGIC || rank < 0 || rank >= rank_count)
        return INVALID_ARGUMENT;
    comm = calloc(1, sizeof(*comm));
    if (comm == NULL)
        return INTERNAL_ERROR;
    memcpy(&comm->id, id.internal, sizeof(comm->id));
    comm->rank = rank;
    comm->rank_count = rank_count;
    *ret = comm;
    return SUCCESS;
}

CALL(int, ncclCommFinalize, (void *comm))
{
    (void)comm;
    return SUCCESS;
}

CALL(int, ncclCommDestroy, (void *comm))
{
    free(comm);
    return SUCCESS;
}

CALL(int, ncclCommAbort, (void *comm))
{
    free(comm);
    return SUCCESS;
}

CALL(int, ncclCommGetAsyncError, (void *comm, int *ret))
{
    FAIL_IF_ASKED();
    *ret = SUCCESS;
    return comm == NULL ? INVALID_ARGUMENT : SUCCESS;
}

CALL(const char *, ncclGetErrorString, (int result))
{
    return result == INTERNAL_ERROR  ? "internal error"
           : result == INVALID_USAGE ? "invalid usage"
                                     : "invalid argument";
}

CALL(const char *, ncclGetLastError, (void *comm))
{
    (void)comm;
    return "the stand-in was asked to fail, or found no partner";
}

CALL(int, ncclGroupStart, (void))
{
    FAIL_IF_ASKED();
    group()->depth++;
    return SUCCESS;
}

CALL(int, ncclGroupEnd, (void))
{
    struct group *g = group();

    g->depth--;
    if (fails(__func__)) {
        g->call_count = 0;
        return INTERNAL_ERROR;
    }
    return g->depth > 0 ? SUCCESS : end_group(g);
}

CALL(int, ncclGroupSimulateEnd, (struct tutti_nccl_simulation * ret))
{
    struct group *g = group();

    g->depth--;
    ret->estimated_us = 1.0f + (float)g->calls[0].count / 1000.0f;
    g->call_count = 0;
    return ret->magic == TUTTI_NCCL_SIMULATION_MAGIC ? SUCCESS : INVALID_ARGUMENT;
}

CALL(int, ncclSend, (const void *from, size_t count, int type, int peer, void *comm, void *stream))
{
    FAIL_IF_ASKED();
    (void)stream;
    return add(&(struct call){
        .kind = SEND, .comm = comm, .in = from, .count = count, .type = type, .peer = peer});
}

CALL(int, ncclRecv, (void *to, size_t count, int type, int peer, void *comm, void *stream))
{
    FAIL_IF_ASKED();
    (void)stream;
    return add(&(struct call){
        .kind = RECV, .comm = comm, .out = to, .count = count, .type = type, .peer = peer});
}

CALL(int, ncclAllReduce,
     (const void *in, void *out, size_t count, int type, int op, void *comm, void *stream))
{
    FAIL_IF_ASKED();
    (void)stream;
    return add(&(struct call){.kind = ALL_REDUCE,
                              .comm = comm,
                              .in = in,
                              .out = out,
                              .count = count,
                              .type = type,
                              .op = op});
}

CALL(int, ncclReduceScatter,
     (const void *in, void *out, size_t count, int type, int op, void *comm, void *stream))
{
    FAIL_IF_ASKED();
    (void)stream;
    return add(&(struct call){.kind = REDUCE_SCATTER,
                              .comm = comm,
                              .in = in,
                              .out = out,
                              .count = count,
                              .type = type,
                              .op = op});
}

CALL(int, ncclAllGather,
     (const void *in, void *out, size_t count, int type, void *comm, void *stream))
{
    FAIL_IF_ASKED();
    (void)stream;
    return add(&(struct call){
        .kind = ALL_GATHER, .comm = comm, .in = in, .out = out, .count = count, .type = type});
}

CALL(int, ncclAlltoAll,
     (const void *in, void *out, size_t count, int type, void *comm, void *stream))
{
    FAIL_IF_ASKED();
    (void)stream;
    return add(&(struct call){
        .kind = ALLTOALL, .comm = comm, .in = in, .out = out, .count = count, .type = type});
}

CALL(int, ncclBroadcast,
     (const void *in, void *out, size_t count, int type, int root, void *comm, void *stream))
{
    FAIL_IF_ASKED();
    (void)stream;
    return add(&(struct call){.kind = BROADCAST,
                              .comm = comm,
                              .in = in,
                              .out = out,
                              .count = count,
                              .type = type,
                              .peer = root});
}

CALL(int, ncclReduce,
     (const void *in, void *out, size_t count, int type, int op, int root, void *comm,
      void *stream))
{
    FAIL_IF_ASKED();
    (void)stream;
    return add(&(struct call){.kind = REDUCE,
                              .comm = comm,
                              .in = in,
                              .out = out,
                              .count = count,
                              .type = type,
                              .op = op,
                              .peer = root});
}
