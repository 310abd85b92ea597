/* Several ranks of the real NCCL on the one GPU here, timed as nccl-tests times them and printed as
 * it prints: ranks of one host write to each other's memory within the GPU, those of different hosts
 * (which they believe to be on) go through NCCL's sockets. See pretend.h. What it shows is what NCCL
 * chooses, that its sums are right, and what its protocols take with no link in between. Exit 77:
 * no GPU, or no NCCL, here. */
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <getopt.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/gpu/pretend.h"

enum collective { ALLREDUCE, ALLGATHER, REDUCESCATTER, BROADCAST, REDUCE, ALLTOALL, COLLECTIVES };
static const char *const collective_names[COLLECTIVES] = {"allreduce", "allgather", "reducescatter",
                                                          "broadcast", "reduce",    "alltoall"};

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

static const struct {
    const char *name;
    size_t offset;
} calls[] = {
    {"ncclGetVersion", offsetof(struct nccl, version)},
    {"ncclGetUniqueId", offsetof(struct nccl, unique_id)},
    {"ncclCommInitRank", offsetof(struct nccl, init_rank)},
    {"ncclGetLastError", offsetof(struct nccl, error)},
    {"ncclAllReduce", offsetof(struct nccl, allreduce)},
    {"ncclAllGather", offsetof(struct nccl, allgather)},
    {"ncclReduceScatter", offsetof(struct nccl, reducescatter)},
    {"ncclBroadcast", offsetof(struct nccl, broadcast)},
    {"ncclReduce", offsetof(struct nccl, reduce)},
    {"ncclSend", offsetof(struct nccl, send)},
    {"ncclRecv", offsetof(struct nccl, recv)},
    {"ncclGroupStart", offsetof(struct nccl, group_start)},
    {"ncclGroupEnd", offsetof(struct nccl, group_end)},
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
    bool queued; /* no launch is waited for: all iterations are, before the first begins */
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
    float *host;       /* as large, for data to and from */
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

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static void must_cuda(cudaError_t status, const char *what)
{
    if (status == cudaSuccess)
        return;
    fprintf(stderr, "nccl_ranks: %s: %s\n", what, cudaGetErrorString(status));
    _exit(1);
}

static void must(const struct rank *rank, ncclResult_t status, const char *what)
{
    if (status == ncclSuccess)
        return;
    fprintf(stderr, "nccl_ranks: rank %d: %s: %s\n", rank->number, what, rank->nccl.error(NULL));
    _exit(1);
}

/* ---- what is played -------------------------------------------------------------------------- */

/* Elements that a rank gives and takes at a size, which is that of the larger of both. */
static size_t part_of(const struct stage *stage, uint64_t bytes)
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
    size_t count = part_of(rank->stage, bytes);
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

/* What rank `from` gives as element `at`: small whole numbers, whose sums are exact in any order. */
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

/* Elements of the output that are not what they should be. */
static uint64_t count_wrong(struct rank *rank, uint64_t bytes)
{
    int ranks = rank->stage->rank_count;
    enum collective collective = rank->stage->plan.collective;
    size_t count = part_of(rank->stage, bytes);
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

/* Everyone waits here for everyone: the slowest of all is what a collective takes. */
static void meet(struct stage *stage)
{
    pthread_barrier_wait(&stage->meet);
}

/* The same where all streams wait at a gate until everything is in their queues: what the GPU takes,
 * however long it takes to launch. */
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
    for (int i = 0; i < stage->plan.iterations; i++)
        enqueue(rank, bytes, in_place);
    must_cuda(cudaEventRecord(rank->ended, rank->stream), "cudaEventRecord");
    meet(stage);
    if (rank->number == 0)
        *stage->gate = stage->turn = turn;
    must_cuda(cudaStreamSynchronize(rank->stream), "cudaStreamSynchronize");
    must_cuda(cudaEventElapsedTime(&ms, rank->begun, rank->ended), "cudaEventElapsedTime");
    return ms * 1e3 / stage->plan.iterations;
}

static double timed_us(struct rank *rank, uint64_t bytes, bool in_place)
{
    const struct plan *plan = &rank->stage->plan;
    double start;

    for (int i = 0; i < plan->warmups; i++)
        enqueue(rank, bytes, in_place);
    must_cuda(cudaStreamSynchronize(rank->stream), "cudaStreamSynchronize");
    meet(rank->stage);
    if (plan->queued)
        return queued_us(rank, bytes, in_place);
    start = now_us();
    for (int i = 0; i < plan->iterations; i++)
        enqueue(rank, bytes, in_place);
    must_cuda(cudaStreamSynchronize(rank->stream), "cudaStreamSynchronize");
    return (now_us() - start) / plan->iterations;
}

static double slowest_us(const struct stage *stage)
{
    double most = 0;

    for (int i = 0; i < stage->rank_count; i++)
        most = stage->ranks[i].took_us > most ? stage->ranks[i].took_us : most;
    return most;
}

/* ---- the table, as nccl-tests prints it ------------------------------------------------------ */

static void print_head(struct stage *stage)
{
    const struct plan *plan = &stage->plan;
    struct cudaDeviceProp gpu;
    int version = 0;
    int driver = 0;

    must_cuda(cudaGetDeviceProperties(&gpu, 0), "cudaGetDeviceProperties");
    must_cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    must(&stage->ranks[0], stage->ranks[0].nccl.version(&version), "ncclGetVersion");
    printf("# nccl_ranks, not nccl-tests: %s of %d ranks that share one GPU, as %d hosts of %d%s\n",
           collective_names[plan->collective], stage->rank_count, plan->hosts, plan->gpus,
           plan->queued ? ", launched before it is timed" : "");
    printf("# nThread %d nGpus 1 minBytes %llu maxBytes %llu step: %llu(factor) warmup iters: %d "
           "iters: %d agg iters: 1 validation: 1 graph: 0\n#\n",
           stage->rank_count, (unsigned long long)plan->bytes_min,
           (unsigned long long)plan->bytes_max, (unsigned long long)plan->factor, plan->warmups,
           plan->iterations);
    printf("# NCCL version %d.%d.%d+cuda%d.%d\n# Using devices\n", version / 10000,
           version / 100 % 100, version % 100, driver / 1000, driver % 1000 / 10);
    for (int i = 0; i < stage->rank_count; i++)
        printf("#  Rank %2d Group  0 Pid %6ld on     host%02d device %2d [0x%02x] %s\n", i,
               (long)getpid(), i / plan->gpus, i % plan->gpus, gpu.pciBusID, gpu.name);
    printf(
        "#\n#       size         count      type   redop    root     time   algbw   busbw #wrong "
        "    time   algbw   busbw #wrong\n#        (B)    (elements)                             "
        "  (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       \n");
    fflush(stdout);
}

static void print_row(const struct stage *stage, uint64_t bytes, const double us[2])
{
    enum collective collective = stage->plan.collective;
    double n = stage->rank_count;
    double share = collective == ALLREDUCE                           ? 2 * (n - 1) / n
                   : collective == BROADCAST || collective == REDUCE ? 1
                                                                     : (n - 1) / n;
    bool rooted = collective == BROADCAST || collective == REDUCE;
    bool adds = collective == ALLREDUCE || collective == REDUCE || collective == REDUCESCATTER;
    uint64_t wrong = 0;

    for (int i = 0; i < stage->rank_count; i++)
        wrong += stage->ranks[i].wrong;
    printf("%12llu %12zu %9s %7s %7d", (unsigned long long)bytes, part_of(stage, bytes), "float",
           adds ? "sum" : "none", rooted ? 0 : -1);
    for (int i = 0; i < 2; i++) {
        if (us[i] <= 0)
            printf(" %8s %7s %7s %6s", "N/A", "N/A", "N/A", "N/A");
        else
            printf(" %8.2f %7.2f %7.2f %6llu", us[i], (double)bytes / us[i] * 1e-3,
                   (double)bytes / us[i] * 1e-3 * share, (unsigned long long)wrong);
    }
    printf("\n");
    fflush(stdout);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void play_size(struct rank *rank, uint64_t bytes)
{
    struct stage *stage = rank->stage;
    double us[2] = {0, 0};

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
        us[i] = slowest_us(stage);
    }
    if (rank->number == 0)
        print_row(stage, bytes, us);
    atomic_fetch_add(&stage->marks, 1);
    meet(stage);
}

static void *play(void *argument)
{
    struct rank *rank = argument;
    struct stage *stage = rank->stage;
    const struct plan *plan = &stage->plan;
    size_t count = plan->bytes_max / sizeof(float);

    must_cuda(cudaSetDevice(0), "cudaSetDevice");
    must_cuda(cudaStreamCreateWithFlags(&rank->stream, cudaStreamNonBlocking), "a stream");
    must_cuda(cudaEventCreate(&rank->begun), "an event");
    must_cuda(cudaEventCreate(&rank->ended), "an event");
    must(rank, rank->nccl.init_rank(&rank->comm, stage->rank_count, stage->id, rank->number),
         "ncclCommInitRank");
    must_cuda(cudaMalloc((void **)&rank->in, plan->bytes_max), "cudaMalloc");
    must_cuda(cudaMalloc((void **)&rank->out, plan->bytes_max), "cudaMalloc");
    rank->host = malloc(plan->bytes_max);
    if (rank->host == NULL)
        must_cuda(cudaErrorMemoryAllocation, "malloc");
    for (size_t i = 0; i < count; i++)
        rank->host[i] = given(rank->number, i);
    must_cuda(cudaMemcpy(rank->in, rank->host, plan->bytes_max, cudaMemcpyHostToDevice),
              "cudaMemcpy");
    meet(stage);
    if (rank->number == 0)
        print_head(stage);
    for (uint64_t bytes = plan->bytes_min; bytes <= plan->bytes_max; bytes *= plan->factor)
        if (part_of(stage, bytes) > 0)
            play_size(rank, bytes);
    free(rank->host); /* and not the communicator: copies that share a host do not end well */
    return NULL;
}

/* Ends the program when nothing was finished for the length of the deadline. */
static void *watch(void *argument)
{
    struct stage *stage = argument;
    unsigned long long marks = 0;
    double since = now_us();

    for (;;) {
        struct timespec moment = {.tv_nsec = 100 * 1000 * 1000};

        nanosleep(&moment, NULL);
        if (atomic_load(&stage->marks) != marks) {
            marks = atomic_load(&stage->marks);
            since = now_us();
        }
        if (now_us() - since < stage->plan.deadline_s * 1e6)
            continue;
        fflush(stdout);
        if (atomic_load(&stage->doing) == 0)
            fprintf(stderr, "nccl_ranks: NCCL did not begin within %d s (--deadline)\n",
                    stage->plan.deadline_s);
        else
            fprintf(stderr, "nccl_ranks: %s of %llu B did not end within %d s (--deadline)\n",
                    collective_names[stage->plan.collective],
                    (unsigned long long)atomic_load(&stage->doing), stage->plan.deadline_s);
        _exit(1);
    }
    return NULL;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static void wrong_usage(const char *what, const char *value, const char *accepted)
{
    fprintf(stderr, "nccl_ranks: %s '%s' (%s)\n", what, value, accepted);
    exit(2);
}

/* A whole number, with K, M or G behind it where `unit` allows. */
static uint64_t number_of(const char *text, const char *what, uint64_t max, bool unit)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    const char *units = "KMG";
    const char *at = unit && *end != '\0' ? strchr(units, *end) : NULL;

    if (at != NULL) {
        value <<= 10 * (at - units + 1);
        end++;
    }
    if (end == text || *end != '\0' || text[0] == '-' || value == 0 || value > max) {
        char accepted[64];

        snprintf(accepted, sizeof(accepted), "1 to %llu%s", (unsigned long long)max,
                 unit ? ", with K, M or G" : "");
        wrong_usage(what, text, accepted);
    }
    return value;
}

static enum collective collective_of(const char *name)
{
    for (int i = 0; i < COLLECTIVES; i++)
        if (strcmp(name, collective_names[i]) == 0)
            return (enum collective)i;
    wrong_usage("no collective", name,
                "allreduce, allgather, reducescatter, broadcast, reduce, alltoall");
    return ALLREDUCE;
}

static struct plan plan_of(int argc, char **argv)
{
    static const struct option options[] = {
        {"nccl", required_argument, NULL, 'L'},     {"topo", required_argument, NULL, 't'},
        {"deadline", required_argument, NULL, 'D'}, {"hosts", required_argument, NULL, 'N'},
        {"gpus", required_argument, NULL, 'g'},     {NULL, 0, NULL, 0}};
    struct plan plan = {.hosts = 2,
                        .gpus = 1,
                        .bytes_min = 8,
                        .bytes_max = 1 << 20,
                        .factor = 2,
                        .warmups = 5,
                        .iterations = 20,
                        .deadline_s = 60,
                        .library = "libnccl.so.2"};
    int option;

    while ((option = getopt_long(argc, argv, "c:b:e:f:w:n:N:g:q", options, NULL)) != -1)
        switch (option) {
        case 'c':
            plan.collective = collective_of(optarg);
            break;
        case 'b':
            plan.bytes_min = number_of(optarg, "no size", UINT64_C(1) << 33, true);
            break;
        case 'e':
            plan.bytes_max = number_of(optarg, "no size", UINT64_C(1) << 33, true);
            break;
        case 'f':
            plan.factor = number_of(optarg, "no factor", 1024, false);
            break;
        case 'w':
            plan.warmups = (int)number_of(optarg, "no number", 10000, false);
            break;
        case 'n':
            plan.iterations = (int)number_of(optarg, "no number", 100000, false);
            break;
        case 'N':
            plan.hosts = (int)number_of(optarg, "hosts", PRETEND_RANKS_MAX, false);
            break;
        case 'g':
            plan.gpus = (int)number_of(optarg, "gpus", PRETEND_RANKS_MAX, false);
            break;
        case 'q':
            plan.queued = true;
            break;
        case 'D':
            plan.deadline_s = (int)number_of(optarg, "no seconds", 3600, false);
            break;
        case 'L':
            plan.library = optarg;
            break;
        case 't':
            plan.topology = optarg;
            break;
        default:
            exit(2);
        }
    if (optind < argc)
        wrong_usage("unknown argument", argv[optind], "options alone");
    if (plan.hosts * plan.gpus > PRETEND_RANKS_MAX || plan.hosts * plan.gpus < 2)
        wrong_usage("too many ranks, or one:", plan.hosts < 2 ? "--gpus" : "--hosts",
                    "2 to 16 in all");
    if (plan.gpus > 1 && plan.topology == NULL)
        wrong_usage("more than one GPU a host without", "--topo",
                    "an NCCL topology XML of such a host");
    if (plan.queued && plan.iterations > 500)
        wrong_usage("too many iterations to queue:", "-n", "1 to 500 with -q");
    if (plan.factor < 2)
        wrong_usage("no factor", "1", "2 to 1024");
    return plan;
}

/* ---- the copies ------------------------------------------------------------------------------ */

/* The file that the loader would take for a library's name. */
static int find_library(const char *name, char path[512])
{
    void *handle = strchr(name, '/') == NULL ? dlopen(name, RTLD_LAZY | RTLD_LOCAL) : NULL;
    Dl_info info;
    void *symbol;

    snprintf(path, 512, "%s", name);
    if (handle == NULL)
        return access(name, R_OK);
    symbol = dlsym(handle, "ncclGetVersion");
    if (symbol == NULL || dladdr(symbol, &info) == 0)
        return -1;
    snprintf(path, 512, "%s", info.dli_fname);
    return 0;
}

static int open_copies(struct stage *stage, const char *library)
{
    const struct plan *plan = &stage->plan;
    const char *scratch = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    char bus[PRETEND_RANKS_MAX][32];

    if (plan->topology != NULL && pretend_gpus_of(plan->topology, bus, plan->gpus) < plan->gpus) {
        fprintf(stderr, "nccl_ranks: '%s' is no NCCL topology XML with %d GPUs\n", plan->topology,
                plan->gpus);
        return 2;
    }
    for (int i = 0; i < stage->rank_count; i++) {
        struct rank *rank = &stage->ranks[i];
        char host[32];
        void *handle;

        snprintf(host, sizeof(host), "host%02d", i / plan->gpus);
        handle = pretend_open(library, scratch, i, host,
                              plan->topology != NULL ? bus[i % plan->gpus] : NULL);
        if (handle == NULL)
            return 1;
        *rank = (struct rank){.stage = stage, .number = i};
        for (size_t call = 0; call < sizeof(calls) / sizeof(calls[0]); call++) {
            void *symbol = dlsym(handle, calls[call].name);

            if (symbol == NULL) {
                fprintf(stderr, "nccl_ranks: '%s' has no %s\n", library, calls[call].name);
                return 1;
            }
            memcpy((char *)&rank->nccl + calls[call].offset, &symbol, sizeof(symbol));
        }
    }
    return 0;
}

/* What streams wait at: a word of host memory, and the driver's call that waits for it. */
static void set_gate(struct stage *stage)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *call = driver == NULL ? NULL : dlsym(driver, "cuStreamWaitValue32_v2");
    void *word;

    if (call == NULL)
        must_cuda(cudaErrorNotSupported, "cuStreamWaitValue32");
    memcpy(&stage->wait_value, &call, sizeof(call));
    must_cuda(cudaHostAlloc(&word, sizeof(uint32_t), cudaHostAllocMapped), "cudaHostAlloc");
    stage->gate = word;
    *stage->gate = 0;
}

/* What NCCL is to know before it is loaded, unless it is set: that there are few channels, for all
 * ranks' kernels must fit on the GPU at once, and nothing that looks through the pretence. */
static void set_environment(const struct plan *plan)
{
    static const char *const pairs[][2] = {
        {"NCCL_SOCKET_IFNAME", "lo"},      {"NCCL_NET", "Socket"},
        {"NCCL_IB_DISABLE", "1"},          {"NCCL_MNNVL_ENABLE", "0"},
        {"NCCL_RAS_ENABLE", "0"},          {"NCCL_NVLS_ENABLE", "0"},
        {"NCCL_CUMEM_ENABLE", "0"},        {"NCCL_CUMEM_HOST_ENABLE", "0"},
        {"NCCL_WIN_ENABLE", "0"},          {"NCCL_CGA_CLUSTER_SIZE", "0"},
        {"NCCL_IGNORE_DISABLED_P2P", "2"}, {"NCCL_TUNER_PLUGIN", "none"},
        {"CUDA_MODULE_LOADING", "EAGER"},  {"CUDA_DEVICE_MAX_CONNECTIONS", "32"}};
    char channels[16];

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        setenv(pairs[i][0], pairs[i][1], 0);
    snprintf(channels, sizeof(channels), "%d",
             128 / (plan->hosts * plan->gpus) < 16 ? 128 / (plan->hosts * plan->gpus) : 16);
    setenv("NCCL_MAX_NCHANNELS", channels, 0);
    if (plan->topology != NULL)
        setenv("NCCL_TOPO_FILE", plan->topology, 0);
}

int main(int argc, char **argv)
{
    static struct stage stage;
    pthread_t threads[PRETEND_RANKS_MAX];
    pthread_t watcher;
    char library[512];
    int devices = 0;
    int status;
    uint64_t wrong = 0;

    stage.plan = plan_of(argc, argv);
    stage.rank_count = stage.plan.hosts * stage.plan.gpus;
    set_environment(&stage.plan);
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        printf("skipped: no GPU of NVIDIA here\n");
        return 77;
    }
    if (find_library(stage.plan.library, library) != 0) {
        printf("skipped: no NCCL here: '%s' (--nccl PATH)\n", stage.plan.library);
        return 77;
    }
    status = open_copies(&stage, library);
    if (status != 0)
        return status;
    set_gate(&stage);
    pthread_barrier_init(&stage.meet, NULL, (unsigned)stage.rank_count);
    must(&stage.ranks[0], stage.ranks[0].nccl.unique_id(&stage.id), "ncclGetUniqueId");
    pthread_create(&watcher, NULL, watch, &stage);
    for (int i = 0; i < stage.rank_count; i++)
        pthread_create(&threads[i], NULL, play, &stage.ranks[i]);
    for (int i = 0; i < stage.rank_count; i++) {
        pthread_join(threads[i], NULL);
        wrong += stage.ranks[i].wrong_all;
    }
    fflush(stdout);
    _exit(wrong != 0); /* copies of NCCL end as they like, and not always */
}
