/* NCCL's library, opened at run time: the calls that we use of it, and its errors in words. Types
 * and numbers are those of nccl.h, held against it by a test where that is. Private to
 * runtime/exec/nccl. */
#ifndef TUTTI_RUNTIME_EXEC_NCCL_LIBRARY_H
#define TUTTI_RUNTIME_EXEC_NCCL_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/data.h"

struct tutti_err;

enum {
    TUTTI_NCCL_SUCCESS = 0,
    TUTTI_NCCL_IN_PROGRESS = 7,

    TUTTI_NCCL_INT8 = 0,
    TUTTI_NCCL_UINT8 = 1,

    TUTTI_NCCL_NO_COLOR = -1, /* of a split: a rank that is in no group */

    TUTTI_NCCL_SHARES_FROM = 23003, /* ranks of one process may share a GPU */
};

struct tutti_nccl_id {
    char internal[128];
};

/* As ncclConfig_t was in 2.18: later libraries take what it lacks from their defaults. */
struct tutti_nccl_config {
    size_t size;
    unsigned magic;
    unsigned version;
    int blocking;
    int cga_cluster_size;
    int ctas_min;
    int ctas_max;
    const char *net_name;
    int split_share;
};
#define TUTTI_NCCL_CONFIG_MAGIC   0xcafebeefu
#define TUTTI_NCCL_CONFIG_VERSION 21800u

struct tutti_nccl_simulation {
    size_t size;
    unsigned magic;
    unsigned version;
    float estimated_us;
};
#define TUTTI_NCCL_SIMULATION_MAGIC   0x74685283u
#define TUTTI_NCCL_SIMULATION_VERSION 22200u

/* CALL(field, symbol, result, parameters) */
#define TUTTI_NCCL_CALLS(CALL)                                                                    \
    CALL(version, "ncclGetVersion", int, (int *ret))                                              \
    CALL(unique_id, "ncclGetUniqueId", int, (struct tutti_nccl_id * ret))                         \
    CALL(init, "ncclCommInitRankConfig", int,                                                     \
         (void **ret, int rank_count, struct tutti_nccl_id id, int rank,                          \
          struct tutti_nccl_config *config))                                                      \
    CALL(finalize, "ncclCommFinalize", int, (void *comm))                                         \
    CALL(destroy, "ncclCommDestroy", int, (void *comm))                                           \
    CALL(cancel, "ncclCommAbort", int, (void *comm))                                              \
    CALL(async_error, "ncclCommGetAsyncError", int, (void *comm, int *ret))                       \
    CALL(result_text, "ncclGetErrorString", const char *, (int result))                           \
    CALL(last_error, "ncclGetLastError", const char *, (void *comm))                              \
    CALL(group_start, "ncclGroupStart", int, (void))                                              \
    CALL(group_end, "ncclGroupEnd", int, (void))                                                  \
    CALL(send, "ncclSend", int,                                                                   \
         (const void *from, size_t count, int type, int peer, void *comm, void *stream))          \
    CALL(recv, "ncclRecv", int,                                                                   \
         (void *to, size_t count, int type, int peer, void *comm, void *stream))                  \
    CALL(all_reduce, "ncclAllReduce", int,                                                        \
         (const void *in, void *out, size_t count, int type, int op, void *comm, void *stream))   \
    CALL(reduce_scatter, "ncclReduceScatter", int,                                                \
         (const void *in, void *out, size_t count, int type, int op, void *comm, void *stream))   \
    CALL(all_gather, "ncclAllGather", int,                                                        \
         (const void *in, void *out, size_t count, int type, void *comm, void *stream))           \
    CALL(broadcast, "ncclBroadcast", int,                                                         \
         (const void *in, void *out, size_t count, int type, int root, void *comm, void *stream)) \
    CALL(reduce, "ncclReduce", int,                                                               \
         (const void *in, void *out, size_t count, int type, int op, int root, void *comm,        \
          void *stream))

/* Those that not every library has: NULL. */
#define TUTTI_NCCL_NEWER_CALLS(CALL)                                                      \
    CALL(split, "ncclCommSplit", int,                                                     \
         (void *comm, int color, int key, void **ret, struct tutti_nccl_config *config))  \
    CALL(simulate_end, "ncclGroupSimulateEnd", int, (struct tutti_nccl_simulation * ret)) \
    CALL(alltoall, "ncclAlltoAll", int,                                                   \
         (const void *in, void *out, size_t count, int type, void *comm, void *stream))

struct tutti_nccl_library {
    void *handle;
    const char *name; /* borrowed */
    int code;         /* 22809: version 2.28.9 */
#define TUTTI_NCCL_FIELD(FIELD, SYMBOL, RESULT, PARAMETERS) RESULT(*FIELD) PARAMETERS;
    TUTTI_NCCL_CALLS(TUTTI_NCCL_FIELD)
    TUTTI_NCCL_NEWER_CALLS(TUTTI_NCCL_FIELD)
#undef TUTTI_NCCL_FIELD
};

/* Opens the library and finds its calls; -TUTTI_ELACK: there is none, or one of them is missing. */
int tutti_nccl_library_open(const char *library, struct tutti_nccl_library *ret,
                            struct tutti_err *err);
void tutti_nccl_library_close(struct tutti_nccl_library *library); /* a zeroed one is a no-op */

/* 0, also of what goes on behind the call; or -TUTTI_EIO with what the call said. */
int tutti_nccl_check(const struct tutti_nccl_library *library, int result, const char *call,
                     struct tutti_err *err);

/* Begins a group; and ends it, also after an error in it, or the next one would lie within:
 * `status`, or what the end said. */
int tutti_nccl_group_begin(const struct tutti_nccl_library *library, struct tutti_err *err);
int tutti_nccl_group_end(const struct tutti_nccl_library *library, int status,
                         struct tutti_err *err);

/* As NCCL numbers them. */
int tutti_nccl_type(enum tutti_dtype dtype);
int tutti_nccl_op(enum tutti_op op);

#endif
