/* Several ranks of the real NCCL on the one GPU here, timed as nccl-tests times them and printed
 * as it prints: ranks of one host write to each other's memory within the GPU, those of different
 * hosts (as they believe) go through NCCL's sockets. See pretend.h. What it shows is
 * what NCCL chooses, that its sums are right, and what its protocols take with no link in between.
 * Exit 77: no GPU, or no NCCL, here. */
#include "tests/gpu/nccl_ranks.h"

#include <dlfcn.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const collective_names[COLLECTIVES] = {"allreduce", "allgather", "reducescatter",
                                                          "broadcast", "reduce",    "alltoall"};

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
           "iters: %d agg iters: %d validation: 1 graph: 0\n#\n",
           stage->rank_count, (unsigned long long)plan->bytes_min,
           (unsigned long long)plan->bytes_max, (unsigned long long)plan->factor, plan->warmups,
           plan->iterations, plan->together);
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
    char checked[24]; /* the first call, which is out of place */

    for (int i = 0; i < stage->rank_count; i++)
        wrong += stage->ranks[i].wrong;
    snprintf(checked, sizeof(checked), "%llu", (unsigned long long)wrong);
    printf("%12llu %12zu %9s %7s %7d", (unsigned long long)bytes, elements_of(stage, bytes),
           "float", adds ? "sum" : "none", rooted ? 0 : -1);
    for (int i = 0; i < 2; i++) {
        if (us[i] <= 0)
            printf(" %8s %7s %7s %6s", "N/A", "N/A", "N/A", "N/A");
        else
            printf(" %8.2f %7.2f %7.2f %6s", us[i], (double)bytes / us[i] * 1e-3,
                   (double)bytes / us[i] * 1e-3 * share, i == 0 ? checked : "N/A");
    }
    printf("\n");
    fflush(stdout);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void *play(void *argument)
{
    struct rank *rank = argument;
    struct stage *stage = rank->stage;
    const struct plan *plan = &stage->plan;

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
    fill(rank);
    meet(stage);
    if (rank->number == 0)
        print_head(stage);
    for (uint64_t bytes = plan->bytes_min; bytes <= plan->bytes_max; bytes *= plan->factor)
        if (elements_of(stage, bytes) > 0) {
            double us[2];

            play_size(rank, bytes, us);
            if (rank->number == 0)
                print_row(stage, bytes, us);
        }
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

    if (at != NULL && value <= max >> (10 * (at - units + 1))) {
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

static void print_help(void)
{
    printf(
        "usage: nccl_ranks [options]   (what for: see the head of tests/gpu/nccl_ranks.c)\n"
        "  -N, --hosts N       hosts that ranks believe in (standard: 2), and\n"
        "  -g, --gpus N        GPUs of each (1); 2 to 16 ranks in all\n"
        "      --topo FILE     an NCCL topology XML of such a host, where it has several\n"
        "      --nccl FILE     the library (libnccl.so.2); its variables, NCCL_ALGO and others,\n"
        "                      are those of this process\n"
        "  -c NAME             allreduce, allgather, reducescatter, broadcast, reduce, alltoall\n"
        "  -b, -e, -f          least size, most, factor, as nccl-tests (8, 1M, 2)\n"
        "  -w, -n, -m          warm-ups, iterations, collectives in one launch (5, 20, 1)\n"
        "  -q                  launch all iterations before the first is timed\n"
        "      --deadline S    seconds in which something must end (60)\n");
}

static void check_plan(const struct plan *plan)
{
    if (plan->hosts * plan->gpus > PRETEND_RANKS_MAX || plan->hosts * plan->gpus < 2)
        wrong_usage("too many ranks, or one:", plan->hosts < 2 ? "--gpus" : "--hosts",
                    "2 to 16 in all");
    if (plan->gpus > 1 && plan->topology == NULL)
        wrong_usage("more than one GPU a host without", "--topo",
                    "an NCCL topology XML of such a host");
    if (plan->queued && plan->iterations > 500)
        wrong_usage("too many iterations to queue:", "-n", "1 to 500 with -q");
    if (plan->bytes_min > plan->bytes_max)
        wrong_usage("no sizes: -b is above", "-e", "at most that");
    if (plan->factor < 2)
        wrong_usage("no factor", "1", "2 to 1024");
}

static struct plan plan_of(int argc, char **argv)
{
    static const struct option options[] = {{"nccl", required_argument, NULL, 'L'},
                                            {"topo", required_argument, NULL, 't'},
                                            {"deadline", required_argument, NULL, 'D'},
                                            {"hosts", required_argument, NULL, 'N'},
                                            {"gpus", required_argument, NULL, 'g'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct plan plan = {.hosts = 2,
                        .gpus = 1,
                        .bytes_min = 8,
                        .bytes_max = 1 << 20,
                        .factor = 2,
                        .warmups = 5,
                        .iterations = 20,
                        .together = 1,
                        .deadline_s = 60,
                        .library = "libnccl.so.2"};
    int option;

    while ((option = getopt_long(argc, argv, "c:b:e:f:w:n:m:N:g:qh", options, NULL)) != -1)
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
        case 'm':
            plan.together = (int)number_of(optarg, "no number", 64, false);
            break;
        case 'h':
            print_help();
            exit(0);
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
    check_plan(&plan);
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
