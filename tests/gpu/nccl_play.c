/* What ranks of NCCL play, and how long it takes: as nccl-tests does, or with everything launched
 * before it begins. */
#include "tests/gpu/nccl_ranks.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

void must_cuda(cudaError_t status, const char *what)
{
    if (status == cudaSuccess)
        return;
    fprintf(stderr, "nccl_ranks: %s: %s\n", what, cudaGetErrorString(status));
    _exit(1);
}

void must(const struct rank *rank, ncclResult_t status, const char *what)
{
    if (status == ncclSuccess)
        return;
    fprintf(stderr, "nccl_ranks: rank %d: %s: %s\n", rank->number, what, rank->nccl.error(NULL));
    _exit(1);
}

size_t elements_of(const struct stage *stage, uint64_t bytes)
{
    switch (stage->plan.collective) {
    case ALLGATHER:
    case REDUCESCATTER:
    case ALLTOALL:
        return bytes / sizeof(float) / (size_t)stage->rank_count;
    default:
        return bytes / sizeof(float);
    }
}

static void enqueue(struct rank *rank, uint64_t bytes, bool in_place)
{
    const struct nccl *nccl = &rank->nccl;
    size_t count = elements_of(rank->stage, bytes);
    size_t own = count * (size_t)rank->number;
    const float *in = rank->in;
    float *out = rank->out;

    switch (rank->stage->plan.collective) {
    case ALLREDUCE:
        must(rank,
             nccl->allreduce(in_place ? out : in, out, count, ncclFloat, ncclSum, rank->comm,
                             rank->stream),
             "ncclAllReduce");
        return;
    case ALLGATHER:
        must(rank,
             nccl->allgather(in_place ? out + own : in, out, count, ncclFloat, rank->comm,
                             rank->stream),
             "ncclAllGather");
        return;
    case REDUCESCATTER:
        must(rank,
             nccl->reducescatter(in_place ? out : in, in_place ? out + own : out, count, ncclFloat,
                                 ncclSum, rank->comm, rank->stream),
             "ncclReduceScatter");
        return;
    case BROADCAST:
        must(rank,
             nccl->broadcast(in_place ? out : in, out, count, ncclFloat, 0, rank->comm,
                             rank->stream),
             "ncclBroadcast");
        return;
    case REDUCE:
        must(rank,
             nccl->reduce(in_place ? out : in, out, count, ncclFloat, ncclSum, 0, rank->comm,
                          rank->stream),
             "ncclReduce");
        return;
    default:
        must(rank, nccl->group_start(), "ncclGroupStart");
        for (int peer = 0; peer < rank->stage->rank_count; peer++) {
            size_t at = count * (size_t)peer;

            must(rank, nccl->send(in + at, count, ncclFloat, peer, rank->comm, rank->stream),
                 "ncclSend");
            must(rank, nccl->recv(out + at, count, ncclFloat, peer, rank->comm, rank->stream),
                 "ncclRecv");
        }
        must(rank, nccl->group_end(), "ncclGroupEnd");
    }
}

/* So many in a row, those of a group in one launch. */
static void enqueue_all(struct rank *rank, uint64_t bytes, bool in_place, int count)
{
    int together = rank->stage->plan.together;

    for (int i = 0; i < count; i++) {
        if (together > 1)
            must(rank, rank->nccl.group_start(), "ncclGroupStart");
        for (int j = 0; j < together; j++)
            enqueue(rank, bytes, in_place);
        if (together > 1)
            must(rank, rank->nccl.group_end(), "ncclGroupEnd");
    }
}

/* What rank `from` gives as element `at`: small whole numbers, whose sums are exact in any
 * order. */
static float given(int from, size_t at)
{
    return (float)((at * 7 + (size_t)from * 13) % 31);
}

static float given_by_all(int ranks, size_t at)
{
    float sum = 0;

    for (int from = 0; from < ranks; from++)
        sum += given(from, at);
    return sum;
}

void fill(struct rank *rank)
{
    uint64_t bytes = rank->stage->plan.bytes_max;

    for (size_t i = 0; i < bytes / sizeof(float); i++)
        rank->host[i] = given(rank->number, i);
    must_cuda(cudaMemcpy(rank->in, rank->host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

/* Elements of the output that are not what they should be. */
static uint64_t count_wrong(struct rank *rank, uint64_t bytes)
{
    int ranks = rank->stage->rank_count;
    enum collective collective = rank->stage->plan.collective;
    size_t count = elements_of(rank->stage, bytes);
    size_t all = collective == ALLGATHER || collective == ALLTOALL ? count * (size_t)ranks : count;
    uint64_t wrong = 0;

    if (collective == REDUCE && rank->number != 0)
        return 0;
    must_cuda(cudaMemcpy(rank->host, rank->out, all * sizeof(float), cudaMemcpyDeviceToHost),
              "cudaMemcpy");
    for (size_t i = 0; i < all; i++) {
        size_t own = count * (size_t)rank->number;
        float expected;

        if (collective == ALLGATHER)
            expected = given((int)(i / count), i % count);
        else if (collective == ALLTOALL)
            expected = given((int)(i / count), own + i % count);
        else if (collective == REDUCESCATTER)
            expected = given_by_all(ranks, own + i);
        else if (collective == BROADCAST)
            expected = given(0, i);
        else
            expected = given_by_all(ranks, i);
        wrong += rank->host[i] < expected || rank->host[i] > expected;
    }
    return wrong;
}

void meet(struct stage *stage)
{
    pthread_barrier_wait(&stage->meet);
}

/* Time of an iteration where all streams wait at a gate until everything is in their queues: what
 * the GPU takes, however long it takes to launch. */
static double queued_us(struct rank *rank, uint64_t bytes, bool in_place)
{
    enum { GREATER_OR_EQUAL = 0 };
    struct stage *stage = rank->stage;
    uint32_t turn = stage->turn + 1;
    float ms = 0;

    meet(stage);
    if (stage->wait_value(rank->stream, (unsigned long long)(uintptr_t)stage->gate, turn,
                          GREATER_OR_EQUAL) != 0)
        must_cuda(cudaErrorNotSupported, "cuStreamWaitValue32");
    must_cuda(cudaEventRecord(rank->begun, rank->stream), "cudaEventRecord");
    enqueue_all(rank, bytes, in_place, stage->plan.iterations);
    must_cuda(cudaEventRecord(rank->ended, rank->stream), "cudaEventRecord");
    meet(stage);
    if (rank->number == 0)
        *stage->gate = stage->turn = turn;
    must_cuda(cudaStreamSynchronize(rank->stream), "cudaStreamSynchronize");
    must_cuda(cudaEventElapsedTime(&ms, rank->begun, rank->ended), "cudaEventElapsedTime");
    return ms * 1e3 / stage->plan.iterations / stage->plan.together;
}

static double timed_us(struct rank *rank, uint64_t bytes, bool in_place)
{
    const struct plan *plan = &rank->stage->plan;
    double start;

    enqueue_all(rank, bytes, in_place, plan->warmups);
    must_cuda(cudaStreamSynchronize(rank->stream), "cudaStreamSynchronize");
    meet(rank->stage);
    if (plan->queued)
        return queued_us(rank, bytes, in_place);
    start = now_us();
    enqueue_all(rank, bytes, in_place, plan->iterations);
    must_cuda(cudaStreamSynchronize(rank->stream), "cudaStreamSynchronize");
    return (now_us() - start) / plan->iterations / plan->together;
}

static double slowest_us(const struct stage *stage)
{
    double most = 0;

    for (int i = 0; i < stage->rank_count; i++)
        most = stage->ranks[i].took_us > most ? stage->ranks[i].took_us : most;
    return most;
}

void play_size(struct rank *rank, uint64_t bytes, double ret_us[2])
{
    struct stage *stage = rank->stage;

    ret_us[0] = ret_us[1] = 0;
    atomic_store(&stage->doing, bytes);
    must_cuda(cudaMemset(rank->out, 0xff, stage->plan.bytes_max), "cudaMemset");
    must_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    meet(stage);
    enqueue(rank, bytes, false);
    must_cuda(cudaStreamSynchronize(rank->stream), "cudaStreamSynchronize");
    meet(stage); /* copying to the host may wait for all of the GPU */
    rank->wrong = count_wrong(rank, bytes);
    rank->wrong_all += rank->wrong;
    for (int i = 0; i < 2; i++) {
        if (i == 1 && stage->plan.collective == ALLTOALL)
            break;
        meet(stage);
        rank->took_us = timed_us(rank, bytes, i == 1);
        meet(stage);
        ret_us[i] = slowest_us(stage);
    }
    atomic_fetch_add(&stage->marks, 1);
    meet(stage);
}
