/* NCCL as the engine: the backend `nccl`, which plays our schedules by NCCL's sends and receives,
 * and NCCL's own collectives as its peer.
 *
 * A schedule is played level by level (the longest chain of messages before each): a group of
 * ncclSend and ncclRecv, then what the ranks reduce and copy, by our kernels in the same stream.
 * Every rank has a GPU: one process has several, or there are many processes, which meet in a
 * process group. Processes of a host that has fewer GPUs than ranks share them, as if each were a
 * host of its own: NCCL then goes through its sockets, and the GPU gives each process its turn.
 * That shows that results are right, not how long they take.
 *
 * All of this is in libtutti_nccl, which stands on libtutti_cuda; nothing is linked with NCCL or
 * CUDA: their libraries are opened when a backend is. Without a driver, without a GPU, without
 * NCCL, or in a build without kernels the calls fail with -TUTTI_ELACK and say what to install. */
#ifndef TUTTI_RUNTIME_NCCL_H
#define TUTTI_RUNTIME_NCCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/backend.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_contract;
struct tutti_err;
struct tutti_group;

struct tutti_nccl_opts {
    size_t size; /* sizeof(struct tutti_nccl_opts): runtime/api.h */
    /* NCCL's library; NULL: what the environment variable TUTTI_NCCL_LIBRARY names, or
     * libnccl.so.2. The driver's is found as runtime/cuda.h says. */
    const char *library;
    struct tutti_group *group; /* borrowed, and outlives the backend; NULL: this process alone */
    /* The peer: looks at no step of a schedule, but does what its contract says by NCCL's own
     * collective: ncclAllReduce, ncclReduceScatter, ncclAllGather, ncclBroadcast, ncclReduce,
     * ncclAlltoAll; sendrecv by ncclSend and ncclRecv, barrier by an all-reduce of one element.
     * There are no steps to count or to record. */
    bool native;
    /* For steps of training, as of struct tutti_cuda_opts: COMPUTE steps are put into streams, a
     * CALL is NCCL's own collective, by its contract: the schedule that is called is not looked at.
     * Groups of an axis have communicators of their own, by ncclCommSplit. A record is of the
     * schedule's steps, CALLs among them. No hook; -TUTTI_EINVAL along with `native`. */
    bool streams;
};

/* Opens the backend; opts may be NULL. Collective where there is a group. Default deadline of a
 * wait: 30 s. In a process alone communicators block, as those of nccl-tests; in a group they do
 * not, and NCCL takes a thread for each level. Past a deadline communicators are aborted, and the
 * message names rank, level and the peers that were awaited: NCCL does not say who is late.
 * play gives -TUTTI_ELACK where ranks of one process would have to share a GPU and NCCL is older
 * than 2.30. Work of the host's is done between launches, on copies of what it reads. In a record,
 * steps have the times of their level: of its messages, or of what was reduced and copied at one
 * time. */
int tutti_nccl_open(const struct tutti_nccl_opts *opts, struct tutti_backend **ret,
                    struct tutti_err *err);

/* What NCCL itself estimates that a collective takes on the ranks which a `native` backend has
 * played last (ncclGroupSimulateEnd). *ret 0: it does not say; so of sends and receives, in a
 * group, where communicators do not block, before 2.22, and on one rank, where it cannot: NCCL then
 * copies at once instead of deciding on an algorithm, and there is nothing whose time it could
 * tell. What NCCL has simulated it
 * keeps in its queues: the ranks are connected anew for the next play. */
int tutti_nccl_estimate(struct tutti_backend *backend, const struct tutti_contract *contract,
                        tutti_ps *ret, struct tutti_err *err);

/* How many ranks a process alone plays if not asked otherwise: the GPUs that it sees. */
int tutti_nccl_gpu_count(uint32_t *ret, struct tutti_err *err);

enum { TUTTI_NCCL_NAME_BYTES = 192 };

/* "NCCL 2.28.9 on 1 GPU, NVIDIA H200". The same errors as open. */
int tutti_nccl_name(char ret[TUTTI_NCCL_NAME_BYTES], struct tutti_err *err);

TUTTI_API_END

#endif
