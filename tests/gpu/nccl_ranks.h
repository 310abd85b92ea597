/* What the parts of nccl_ranks share: the plan, the ranks and their copies of NCCL. */
#ifndef TUTTI_TESTS_GPU_NCCL_RANKS_H
#define TUTTI_TESTS_GPU_NCCL_RANKS_H

#include <cuda_runtime.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/gpu/pretend.h"

enum collective { ALLREDUCE, ALLGATHER, REDUCESCATTER, BROADCAST, REDUCE, ALLTOALL, COLLECTIVES };
/* The calls of one copy of NCCL. */
struct nccl {
    ncclResult_t (*version)(int *);
    ncclResult_t (*unique_id)(ncclUniqueId *);
    ncclResult_t (*init_rank)(ncclComm_t *, int, ncclUniqueId, int);
    const char *(*error)(ncclComm_t);
    ncclResult_t (*allreduce)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                              cudaStream_t);
    ncclResult_t (*allgather)(const void *, void *, size_t, ncclDataType_t, ncclComm_t,
                              cudaStream_t);
    ncclResult_t (*reducescatter)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                                  ncclComm_t, cudaStream_t);
    ncclResult_t (*broadcast)(const void *, void *, size_t, ncclDataType_t, int, ncclComm_t,
                              cudaStream_t);
    ncclResult_t (*reduce)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int,
                           ncclComm_t, cudaStream_t);
    ncclResult_t (*send)(const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
    ncclResult_t (*recv)(void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
    ncclResult_t (*group_start)(void);
    ncclResult_t (*group_end)(void);
};

struct plan {
    enum collective collective;
    int hosts;
    int gpus; /* a host */
    uint64_t bytes_min;
    uint64_t bytes_max;
    uint64_t factor;
    int warmups;
    int iterations;
    int together; /* in one group, as nccl-tests -m */
    bool queued;  /* no launch is waited for: all iterations are, before the first begins */
    int deadline_s;
    const char *library;
    const char *topology; /* NULL: as NCCL finds it, a GPU a host */
};

struct stage;
struct rank {
    struct stage *stage;
    struct nccl nccl;
    ncclComm_t comm;
    cudaStream_t stream;
    float *in;
    float *out;
    float *host;       /* as large: for what goes to, or comes from, the GPU */
    cudaEvent_t begun; /* and ended: around what is timed, where it is queued */
    cudaEvent_t ended;
    double took_us;
    uint64_t wrong;     /* elements, of the size being played */
    uint64_t wrong_all; /* of all sizes */
    int number;
};

struct stage {
    struct plan plan;
    int rank_count;
    struct rank ranks[PRETEND_RANKS_MAX];
    ncclUniqueId id;
    pthread_barrier_t meet;
    int (*wait_value)(cudaStream_t, unsigned long long, uint32_t, unsigned); /* of the driver */
    volatile uint32_t *gate; /* in host memory: what streams wait for to reach their turn */
    uint32_t turn;
    atomic_ullong doing; /* the size being played, or 0: at the beginning */
    atomic_ullong marks; /* how often anything was finished: who waits in vain is stopped */
};

double now_us(void);

/* Ends the program where a call of CUDA, or of a rank's NCCL, fails. */
void must_cuda(cudaError_t status, const char *what);
void must(const struct rank *rank, ncclResult_t status, const char *what);

/* Elements of a block at a size: what a rank owns of it, or gives each other, or all of it. */
size_t elements_of(const struct stage *stage, uint64_t bytes);

/* Everyone waits here for everyone. */
void meet(struct stage *stage);

/* Fills rank->in with what the rank gives, through rank->host. */
void fill(struct rank *rank);
/* Plays a size: rank->wrong, and the time of the slowest rank, out of place and in place, or 0. */
void play_size(struct rank *rank, uint64_t bytes, double ret_us[2]);

#endif
