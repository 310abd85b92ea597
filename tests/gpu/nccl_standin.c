/* Answers in place of NCCL's library, over the memory of the stand-in for the driver: what is in a
 * group is done when the group ends, by the thread that ends it, where all ranks are in this
 * process (communicators that block); else in a thread, with the other processes
 * (nccl_standin_far.c).
 * What a test sets in the environment:
 *   TUTTI_NCCL_STANDIN_FAIL      CALL:N: the N-th call of that name fails as an internal error
 *   TUTTI_NCCL_STANDIN_QUEUED    1: with other processes, what is in a group is put into its stream
 *   TUTTI_NCCL_STANDIN_LATE_MS   and comes so much later, but for what is of one element
 *   TUTTI_NCCL_STANDIN_VERSION   what it says that it is (23003: 2.30.3) */
#include "tests/gpu/nccl_standin.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/exec/nccl/library.h"

enum { QUEUE_MAX = 8192 };

uint64_t standin_setting(const char *name, uint64_t standard)
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

/* ---- what is in a group ---- */

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

size_t standin_bytes_of(int type)
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
        size_t bytes = recv->count * standin_bytes_of(recv->type);
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
            memcpy(call->out, copies[i], call->count * standin_bytes_of(call->type));
            call->done = true;
        }
        free(copies[i]);
    }
    free(copies);
    return status;
}

void *standin_symbol(const char *name)
{
    void *driver = dlopen(getenv("TUTTI_CUDA_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
    void *symbol = driver == NULL ? NULL : dlsym(driver, name);

    if (driver != NULL)
        (void)dlclose(driver);
    return symbol;
}

void standin_wait(const struct call *calls, int count)
{
    void *symbol = standin_symbol("standin_is_idle");
    bool (*is_idle)(void *stream);

    memcpy(&is_idle, &symbol, sizeof(symbol));
    for (int i = 0; i < count && symbol != NULL; i++)
        while (calls[i].kind != SPLIT && !is_idle(calls[i].stream))
            (void)sched_yield();
}

size_t standin_in_bytes(const struct call *call)
{
    size_t bytes = call->count * standin_bytes_of(call->type);
    bool all = call->kind == REDUCE_SCATTER || call->kind == ALLTOALL;

    return all ? bytes * (size_t)call->comm->rank_count : bytes;
}

/* Block `block` of all inputs, reduced in the order of the ranks. */
static void reduce_block(const struct call *call, const char *const *ins, size_t block, char *out)
{
    size_t bytes = call->count * standin_bytes_of(call->type);
    enum tutti_dtype dtype = dtype_of(call->type);

    memcpy(out, ins[0] + block * bytes, bytes);
    for (int r = 1; r < call->comm->rank_count; r++)
        tutti_reduce(dtype, op_of(call->op), out, out, ins[r] + block * bytes, call->count);
    tutti_finish(dtype, op_of(call->op), out, call->count, (uint32_t)call->comm->rank_count);
}

size_t standin_result(const struct call *call, const char *const *ins, char *out)
{
    size_t bytes = call->count * standin_bytes_of(call->type);
    size_t rank = (size_t)call->comm->rank;
    size_t block = call->kind == ALLTOALL ? rank : 0;

    switch (call->kind) {
    case ALL_REDUCE:
    case REDUCE:
        reduce_block(call, ins, 0, out);
        return call->kind == ALL_REDUCE || call->comm->rank == call->peer ? bytes : 0;
    case REDUCE_SCATTER:
        reduce_block(call, ins, rank, out);
        return bytes;
    case BROADCAST:
        memcpy(out, ins[call->peer], bytes);
        return bytes;
    default:
        for (int r = 0; r < call->comm->rank_count; r++)
            memcpy(out + (size_t)r * bytes, ins[r] + block * bytes, bytes);
        return bytes * (size_t)call->comm->rank_count;
    }
}

/* The inputs of all ranks to one collective. */
static bool find_inputs(struct group *g, const struct call *call, const char **ret)
{
    for (int r = 0; r < call->comm->rank_count; r++) {
        const struct call *other = find(g, call, call->kind, r, -1);

        if (other == NULL || other->count != call->count)
            return false;
        ret[r] = other->in;
    }
    return true;
}

/* Into memory of its own first: outputs may be inputs of others. */
static int collect(struct group *g)
{
    char **results = calloc((size_t)g->call_count + 1, sizeof(*results));
    size_t *bytes = calloc((size_t)g->call_count + 1, sizeof(*bytes));
    int status = results == NULL || bytes == NULL ? INTERNAL_ERROR : SUCCESS;

    for (int i = 0; i < g->call_count && status == SUCCESS; i++) {
        const struct call *call = &g->calls[i];
        size_t ranks = (size_t)call->comm->rank_count;
        const char **ins;

        if (call->kind == SEND || call->kind == RECV)
            continue;
        ins = calloc(ranks, sizeof(*ins));
        results[i] = malloc(call->count * standin_bytes_of(call->type) * ranks + 1);
        if (ins == NULL || results[i] == NULL)
            status = INTERNAL_ERROR;
        else if (!find_inputs(g, call, ins))
            status = INVALID_USAGE;
        else
            bytes[i] = standin_result(call, ins, results[i]);
        free(ins);
    }
    for (int i = 0; i < g->call_count && results != NULL; i++) {
        if (status == SUCCESS && results[i] != NULL)
            memcpy(g->calls[i].out, results[i], bytes[i]);
        if (status == SUCCESS && g->calls[i].kind == SPLIT && !standin_split(&g->calls[i]))
            status = INTERNAL_ERROR;
        free(results[i]);
    }
    free(results);
    free(bytes);
    return status;
}

bool standin_split(const struct call *call)
{
    struct comm *parent = call->comm;
    const struct says mine = parent->said;
    struct comm *child = mine.color < 0 ? NULL : calloc(1, sizeof(*child));
    bool well = mine.color < 0 || child != NULL;

    parent->split_count++;
    for (int r = 0; r < parent->rank_count && child != NULL; r++) {
        child->rank_count += parent->all_said[r].color == mine.color;
        child->rank +=
            parent->all_said[r].color == mine.color && parent->all_said[r].key < mine.key;
    }
    free(parent->all_said);
    parent->all_said = NULL;
    if (child != NULL) {
        child->id = (parent->id * 1000003 + parent->split_count) * 1000003 + (uint64_t)mine.color;
        child->blocks = parent->blocks;
        child->listen_fd = -1;
        well = child->blocks || standin_far_open(child);
    }
    *call->child = child;
    return well;
}

/* Each communicator has a thread for its calls. */
static int begin_far(struct group *g)
{
    struct call *calls = calloc((size_t)g->call_count, sizeof(*calls));
    int status = calls == NULL ? INTERNAL_ERROR : IN_PROGRESS;

    for (int i = 0; i < g->call_count && status == IN_PROGRESS; i++) {
        int count = 0;

        for (int k = i; k < g->call_count && !g->calls[i].done; k++) {
            if (g->calls[k].comm != g->calls[i].comm)
                continue;
            calls[count++] = g->calls[k];
            g->calls[k].done = k > i;
        }
        if (count > 0)
            status = standin_far_begin(g->calls[i].comm, calls, count);
        status = status == SUCCESS ? IN_PROGRESS : status;
    }
    free(calls);
    g->call_count = 0;
    return status;
}

static int end_group(struct group *g)
{
    int status;

    if (g->call_count > 0 && !g->calls[0].comm->blocks)
        return begin_far(g);
    standin_wait(g->calls, g->call_count);
    status = deliver(g);

    if (status == SUCCESS)
        status = collect(g);
    g->call_count = 0;
    return status;
}

static int add(const struct call *call)
{
    struct group *g = group();

    if (g->call_count == QUEUE_MAX || standin_bytes_of(call->type) == 0)
        return INVALID_ARGUMENT;
    g->calls[g->call_count++] = *call;
    return g->depth > 0 ? SUCCESS : end_group(g);
}

/* ---- the calls ---- */

CALL(int, ncclGetVersion, (int *ret))
{
    FAIL_IF_ASKED();
    *ret = (int)standin_setting("TUTTI_NCCL_STANDIN_VERSION", 23003);
    return SUCCESS;
}

CALL(int, ncclGetUniqueId, (struct tutti_nccl_id * ret))
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of `count` */
    static uint64_t count;

    FAIL_IF_ASKED();
    memset(ret, 0, sizeof(*ret));
    (void)pthread_mutex_lock(&lock);
    if (count == 0)
        count = (uint64_t)getpid() << 32;
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
    comm->blocks = config->blocking != 0;
    if (!comm->blocks && !standin_far_open(comm)) {
        standin_far_free(comm);
        return INTERNAL_ERROR;
    }
    *ret = comm;
    return SUCCESS;
}

CALL(int, ncclCommSplit,
     (void *comm, int color, int key, void **ret, struct tutti_nccl_config *config))
{
    struct comm *parent = comm;

    FAIL_IF_ASKED();
    if (config->magic != TUTTI_NCCL_CONFIG_MAGIC || (config->blocking != 0) != parent->blocks)
        return INVALID_ARGUMENT;
    parent->said = (struct says){.color = color, .key = key};
    free(parent->all_said);
    parent->all_said = calloc((size_t)parent->rank_count, sizeof(parent->all_said[0]));
    if (parent->all_said == NULL)
        return INTERNAL_ERROR;
    *ret = NULL;
    return add(&(struct call){.kind = SPLIT,
                              .comm = comm,
                              .in = (const char *)&parent->said,
                              .out = (char *)parent->all_said,
                              .count = sizeof(parent->said),
                              .type = TUTTI_NCCL_UINT8,
                              .child = ret});
}

CALL(int, ncclCommFinalize, (void *comm))
{
    (void)comm;
    return SUCCESS;
}

static int release(struct comm *comm)
{
    if (!comm->blocks) {
        standin_far_free(comm);
        return SUCCESS;
    }
    free(comm->all_said);
    free(comm);
    return SUCCESS;
}

CALL(int, ncclCommDestroy, (void *comm))
{
    return release(comm);
}

CALL(int, ncclCommAbort, (void *comm))
{
    return release(comm);
}

CALL(int, ncclCommGetAsyncError, (void *comm, int *ret))
{
    struct comm *it = comm;

    FAIL_IF_ASKED();
    *ret = it->blocks ? SUCCESS : standin_far_state(it);
    return SUCCESS;
}

CALL(const char *, ncclGetErrorString, (int result))
{
    return result == INTERNAL_ERROR  ? "internal error"
           : result == INVALID_USAGE ? "invalid usage"
           : result == REMOTE_ERROR  ? "remote process exited or there was a network error"
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
    return add(&(struct call){.stream = stream,

                              .kind = SEND,
                              .comm = comm,
                              .in = from,
                              .count = count,
                              .type = type,
                              .peer = peer});
}

CALL(int, ncclRecv, (void *to, size_t count, int type, int peer, void *comm, void *stream))
{
    FAIL_IF_ASKED();
    return add(&(struct call){.stream = stream,

                              .kind = RECV,
                              .comm = comm,
                              .out = to,
                              .count = count,
                              .type = type,
                              .peer = peer});
}

CALL(int, ncclAllReduce,
     (const void *in, void *out, size_t count, int type, int op, void *comm, void *stream))
{
    FAIL_IF_ASKED();
    return add(&(struct call){.stream = stream,
                              .kind = ALL_REDUCE,
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
    return add(&(struct call){.stream = stream,
                              .kind = REDUCE_SCATTER,
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
    return add(&(struct call){.stream = stream,

                              .kind = ALL_GATHER,
                              .comm = comm,
                              .in = in,
                              .out = out,
                              .count = count,
                              .type = type});
}

CALL(int, ncclAlltoAll,
     (const void *in, void *out, size_t count, int type, void *comm, void *stream))
{
    FAIL_IF_ASKED();
    return add(&(struct call){.stream = stream,

                              .kind = ALLTOALL,
                              .comm = comm,
                              .in = in,
                              .out = out,
                              .count = count,
                              .type = type});
}

CALL(int, ncclBroadcast,
     (const void *in, void *out, size_t count, int type, int root, void *comm, void *stream))
{
    FAIL_IF_ASKED();
    return add(&(struct call){.stream = stream,
                              .kind = BROADCAST,
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
    return add(&(struct call){.stream = stream,
                              .kind = REDUCE,
                              .comm = comm,
                              .in = in,
                              .out = out,
                              .count = count,
                              .type = type,
                              .op = op,
                              .peer = root});
}
