/* What a step of LL, LL128 or Simple costs on one GPU: launches, hand-shakes between blocks through
 * device and host memory, with the CPU, and what a block copies. No wire is in it: what a step of a
 * collective takes over a link is at least this. Prints NAME, the median of the turns, the least
 * and the most, and the unit, one line each, TABs between; --check compares data instead of timing.
 * Exit 77: no GPU here. */
#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

namespace {

enum { TURNS = 9, ROUNDS = 2000, RANK_THREADS = 512, DEADLINE_S = 20 };

using clock_type = std::chrono::steady_clock;

double now_us()
{
    return std::chrono::duration<double, std::micro>(clock_type::now().time_since_epoch()).count();
}

[[noreturn]] void die(const char *what, const char *why)
{
    std::fprintf(stderr, "gpu_costs: %s: %s\n", what, why);
    std::exit(1);
}

void must(cudaError_t status, const char *what)
{
    if (status != cudaSuccess)
        die(what, cudaGetErrorString(status));
}
#define MUST(call) must((call), #call)

/* The median of some turns of one thing, in its unit; the first, which warms up, is left out. */
template <typename Turn> void report(const char *unit, Turn turn, const char *format, ...)
{
    std::vector<double> values;
    char name[128];
    va_list args;

    va_start(args, format);
    std::vsnprintf(name, sizeof(name), format, args);
    va_end(args);
    turn();
    for (int i = 0; i < TURNS; i++)
        values.push_back(turn());
    std::sort(values.begin(), values.end());
    std::printf("%s\t%.5g\t%.5g\t%.5g\t%s\n", name, values[TURNS / 2], values[0], values[TURNS - 1],
                unit);
    std::fflush(stdout);
}

/* Time of what `work` puts on a stream, in us, by events around it. */
template <typename Work> double timed_us(cudaStream_t stream, Work work)
{
    cudaEvent_t begin, end;
    float ms = 0;

    MUST(cudaEventCreate(&begin));
    MUST(cudaEventCreate(&end));
    MUST(cudaEventRecord(begin, stream));
    work();
    MUST(cudaGetLastError());
    MUST(cudaEventRecord(end, stream));
    MUST(cudaEventSynchronize(end));
    MUST(cudaEventElapsedTime(&ms, begin, end));
    MUST(cudaEventDestroy(begin));
    MUST(cudaEventDestroy(end));
    return ms * 1e3;
}

/* ---- launches -------------------------------------------------------------------------------- */

__global__ void nothing(int *unused)
{
    if (unused != nullptr && threadIdx.x == 2048) /* never: keeps the argument */
        *unused = 1;
}

void launches(cudaStream_t stream)
{
    enum { COUNT = 500 };
    int blocks[] = {1, 2, 16, 32};
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    for (int count : blocks) {
        report("us",
               [&] {
                   MUST(cudaStreamSynchronize(stream));
                   double start = now_us();
                   for (int i = 0; i < COUNT; i++)
                       nothing<<<count, RANK_THREADS, 0, stream>>>(nullptr);
                   MUST(cudaStreamSynchronize(stream));
                   return (now_us() - start) / COUNT;
               },
               "launch.back_to_back.blocks%d", count);
        report("us",
               [&] {
                   double start = now_us();
                   for (int i = 0; i < COUNT; i++) {
                       nothing<<<count, RANK_THREADS, 0, stream>>>(nullptr);
                       MUST(cudaStreamSynchronize(stream));
                   }
                   return (now_us() - start) / COUNT;
               },
               "launch.and_wait.blocks%d", count);
    }
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < COUNT; i++)
        nothing<<<16, RANK_THREADS, 0, stream>>>(nullptr);
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    report("us",
           [&] {
               MUST(cudaStreamSynchronize(stream));
               double start = now_us();
               MUST(cudaGraphLaunch(exec, stream));
               MUST(cudaStreamSynchronize(stream));
               return (now_us() - start) / COUNT;
           },
           "launch.graph.blocks16");
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaGraphDestroy(graph));
}

/* ---- hand-shakes ----------------------------------------------------------------------------- */

/* A line of LL: 8 bytes of data, each half with its flag (NCCL's src/include/device.h). */
__device__ void ll_store(uint4 *line, uint32_t data, uint32_t flag)
{
    asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(line), "r"(data), "r"(flag),
                 "r"(data), "r"(flag)
                 : "memory");
}

__device__ uint32_t ll_wait(const uint4 *line, uint32_t flag)
{
    uint32_t data1, flag1, data2, flag2;

    do {
        asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(data1), "=r"(flag1), "=r"(data2), "=r"(flag2)
                     : "l"(line)
                     : "memory");
    } while (flag1 != flag || flag2 != flag);
    return data1 == data2 ? data1 : ~data1;
}

/* 16 bytes of a thread of LL128; of eight threads, which fill a line of 128 bytes, the last one's
 * second half is the flag. */
__device__ void ll128_store(uint64_t *line, uint64_t data, uint64_t flag)
{
    uint64_t second = threadIdx.x % 8 == 7 ? flag : data;

    asm volatile("st.volatile.global.v2.u64 [%0], {%1,%2};" ::"l"(line), "l"(data), "l"(second)
                 : "memory");
}

__device__ uint64_t ll128_wait(const uint64_t *line, uint64_t flag)
{
    uint64_t first, second;
    bool again;

    do {
        asm volatile("ld.volatile.global.v2.u64 {%0,%1}, [%2];"
                     : "=l"(first), "=l"(second)
                     : "l"(line)
                     : "memory");
        again = threadIdx.x % 8 == 7 && second != flag;
    } while (__any_sync(0xffffffffu, again));
    return first;
}

/* Simple: all threads write their 16 bytes, then one says so, behind a fence of the system. */
__device__ void simple_post(uint64_t *tail, uint64_t step)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("fence.acq_rel.sys;" ::: "memory");
        asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(tail), "l"(step) : "memory");
    }
}

__device__ void simple_wait(const uint64_t *tail, uint64_t step)
{
    if (threadIdx.x == 0) {
        uint64_t seen;

        do
            asm volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(seen) : "l"(tail) : "memory");
        while (seen < step);
    }
    __syncthreads();
}

enum protocol { LL, LL128, SIMPLE, PROTOCOLS };
const char *const protocol_names[PROTOCOLS] = {"ll", "ll128", "simple"};

/* A ball between two blocks: what one writes the other waits for, and answers. Two mailboxes of
 * what all threads write, and a line for each tail. */
struct court {
    uint4 *box[2];
    uint64_t *tail[2];
};

__global__ void rally(court court, int protocol, int rounds, int *wrong)
{
    int me = blockIdx.x;
    uint4 *mine = court.box[me] + threadIdx.x;
    uint4 *other = court.box[1 - me] + threadIdx.x;
    int bad = 0;

    for (uint32_t turn = 1; turn <= 2 * (uint32_t)rounds; turn++) {
        bool serve = (turn & 1) == (me == 0);
        uint32_t data = turn * 3 + threadIdx.x;

        if (protocol == LL) {
            if (serve)
                ll_store(other, data, turn);
            else
                bad += ll_wait(mine, turn) != data;
        } else if (protocol == LL128) {
            if (serve)
                ll128_store((uint64_t *)other, data, turn);
            else
                bad += ll128_wait((uint64_t *)mine, turn) != data;
        } else if (serve) {
            *other = make_uint4(data, data, data, data);
            simple_post(court.tail[1 - me], turn);
        } else {
            uint32_t seen;

            simple_wait(court.tail[me], turn);
            asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(seen) : "l"(mine) : "memory");
            bad += seen != data;
        }
        if (protocol != SIMPLE)
            __syncthreads(); /* as NCCL's threads meet between steps */
    }
    if (bad != 0)
        atomicAdd(wrong, bad);
}

struct court court_of(char *memory)
{
    enum { BOX_BYTES = RANK_THREADS * 16 };

    return {.box = {(uint4 *)memory, (uint4 *)(memory + BOX_BYTES)},
            .tail = {(uint64_t *)(memory + 2 * BOX_BYTES),
                     (uint64_t *)(memory + 2 * BOX_BYTES + 128)}};
}

enum { COURT_BYTES = 2 * RANK_THREADS * 16 + 256 };

void hand_shakes(cudaStream_t stream, bool check)
{
    const char *const places[2] = {"device", "host"};
    char *memory[2];
    int *wrong, count = 0;

    MUST(cudaMalloc(&memory[0], COURT_BYTES));
    MUST(cudaHostAlloc(&memory[1], COURT_BYTES, cudaHostAllocMapped));
    MUST(cudaMalloc(&wrong, sizeof(int)));
    MUST(cudaMemset(wrong, 0, sizeof(int)));
    for (int place = 0; place < 2; place++)
        for (int protocol = LL; protocol < PROTOCOLS; protocol++)
            for (int threads : {32, (int)RANK_THREADS}) {
                auto turn = [&] {
                    MUST(cudaMemsetAsync(memory[place], 0, COURT_BYTES, stream));
                    return timed_us(stream,
                                    [&] {
                                        rally<<<2, threads, 0, stream>>>(
                                            court_of(memory[place]), protocol, ROUNDS, wrong);
                                    }) /
                           (2 * ROUNDS);
                };
                if (check)
                    turn();
                else
                    report("us", turn, "step.%s.%s.threads%d", places[place],
                           protocol_names[protocol], threads);
            }
    MUST(cudaMemcpy(&count, wrong, sizeof(int), cudaMemcpyDeviceToHost));
    if (count != 0)
        die("hand-shakes", "what was read is not what was written");
    MUST(cudaFree(wrong));
    MUST(cudaFree(memory[0]));
    MUST(cudaFreeHost(memory[1]));
}

/* ---- with the CPU ---------------------------------------------------------------------------- */

/* A block tells the CPU, and waits for its answer, through words of host memory: what a proxy that
 * serves the network adds to a step at the least, both ways together. */
__global__ void ask_cpu(uint64_t *asked, uint64_t *answered, int rounds)
{
    for (uint64_t turn = 1; turn <= (uint64_t)rounds; turn++) {
        simple_post(asked, turn);
        simple_wait(answered, turn);
    }
}

void with_cpu(cudaStream_t stream)
{
    uint64_t *words;

    MUST(cudaHostAlloc(&words, 256, cudaHostAllocMapped));
    for (int threads : {32, (int)RANK_THREADS})
        report("us",
               [&] {
                   volatile uint64_t *asked = words;
                   volatile uint64_t *answered = words + 16;
                   double start = now_us();

                   *asked = *answered = 0;
                   double took = timed_us(stream, [&] {
                       ask_cpu<<<1, threads, 0, stream>>>(words, words + 16, ROUNDS);
                       for (uint64_t turn = 1; turn <= ROUNDS; turn++) {
                           while (*asked < turn)
                               if (now_us() - start > DEADLINE_S * 1e6)
                                   die("waiting for the GPU's word in host memory", "deadline");
                           *answered = turn;
                       }
                   });
                   return took / ROUNDS;
               },
               "proxy.round_trip.threads%d", threads);
    MUST(cudaFreeHost(words));
}

/* ---- what blocks copy ------------------------------------------------------------------------ */

enum { UNROLL = 8 };

/* Each block goes over its own part: `sources` read and added, `targets` written, 16 bytes a thread
 * at a time, UNROLL of them under way. */
template <int sources, int targets>
__global__ void move(float4 *to1, float4 *to2, const float4 *from1, const float4 *from2,
                     size_t per_block, int passes)
{
    size_t first = blockIdx.x * per_block;
    size_t stride = (size_t)blockDim.x * UNROLL;

    for (int pass = 0; pass < passes; pass++)
        for (size_t at = threadIdx.x; at < per_block; at += stride) {
            float4 value[UNROLL];

#pragma unroll
            for (int i = 0; i < UNROLL; i++)
                value[i] = __ldcv(from1 + first + at + (size_t)i * blockDim.x);
            if (sources == 2) {
#pragma unroll
                for (int i = 0; i < UNROLL; i++) {
                    float4 more = __ldcv(from2 + first + at + (size_t)i * blockDim.x);

                    value[i].x += more.x;
                    value[i].y += more.y;
                    value[i].z += more.z;
                    value[i].w += more.w;
                }
            }
#pragma unroll
            for (int i = 0; i < UNROLL; i++) {
                to1[first + at + (size_t)i * blockDim.x] = value[i];
                if (targets == 2)
                    to2[first + at + (size_t)i * blockDim.x] = value[i];
            }
        }
}

/* Rates count each byte of data once: what is passed on a second. */
void copies(cudaStream_t stream)
{
    constexpr size_t part = 16 << 20; /* bytes a block: together past the L2 cache */
    int sms, most = 0;
    float4 *memory[4];

    MUST(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    for (float4 *&each : memory) {
        MUST(cudaMalloc(&each, part * sms));
        MUST(cudaMemset(each, 0, part * sms));
    }
    for (int blocks : {1, 2, 4, 8, 16, 24, 32, 64, sms}) {
        if (blocks <= most || blocks > sms)
            continue;
        most = blocks;
        auto rate = [&](auto kernel) {
            return [&, kernel] {
                double us = timed_us(stream, [&] {
                    kernel<<<blocks, RANK_THREADS, 0, stream>>>(memory[0], memory[1], memory[2],
                                                                memory[3], part / 16, 1);
                });
                return (double)part * blocks / us * 1e-3;
            };
        };
        report("GB/s", rate(move<1, 1>), "copy.1to1.blocks%d", blocks);
        report("GB/s", rate(move<2, 1>), "copy.2to1.blocks%d", blocks);
        report("GB/s", rate(move<2, 2>), "copy.2to2.blocks%d", blocks);
    }
    for (float4 *each : memory)
        MUST(cudaFree(each));
}

/* To and from host memory, by blocks and by the copy engines; one way, and both at once. */
void over_pcie(cudaStream_t stream)
{
    constexpr size_t part = 1 << 20; /* bytes a block and pass */
    enum { BLOCKS = 32, PASSES = 8 };
    cudaStream_t second;
    cudaEvent_t begun, ended;
    float4 *device[2], *host[2];

    MUST(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&begun, cudaEventDisableTiming));
    MUST(cudaEventCreateWithFlags(&ended, cudaEventDisableTiming));
    for (int i = 0; i < 2; i++) {
        MUST(cudaMalloc(&device[i], part * BLOCKS));
        MUST(cudaHostAlloc(&host[i], part * BLOCKS, cudaHostAllocMapped));
        std::memset(host[i], 0, part * BLOCKS);
    }
    /* Both halves of a pair of works at once, the second on a stream of its own. */
    auto together = [&](auto one, auto other) {
        return timed_us(stream, [&] {
            MUST(cudaEventRecord(begun, stream));
            MUST(cudaStreamWaitEvent(second, begun, 0));
            one(stream);
            other(second);
            MUST(cudaEventRecord(ended, second));
            MUST(cudaStreamWaitEvent(stream, ended, 0));
        });
    };
    for (int blocks : {1, 2, 4, 8, 16, (int)BLOCKS}) {
        double bytes = (double)part * blocks * PASSES;
        auto write = [&](cudaStream_t on) {
            move<1, 1><<<blocks, RANK_THREADS, 0, on>>>(host[0], nullptr, device[0], nullptr,
                                                       part / 16, PASSES);
        };
        auto read = [&](cudaStream_t on) {
            move<1, 1><<<blocks, RANK_THREADS, 0, on>>>(device[1], nullptr, host[1], nullptr,
                                                       part / 16, PASSES);
        };
        report("GB/s", [&] { return bytes / timed_us(stream, [&] { write(stream); }) * 1e-3; },
               "pcie.blocks%d.write", blocks);
        report("GB/s", [&] { return bytes / timed_us(stream, [&] { read(stream); }) * 1e-3; },
               "pcie.blocks%d.read", blocks);
        report("GB/s", [&] { return bytes / together(write, read) * 1e-3; },
               "pcie.blocks%d.both_each_way", blocks);
    }
    double bytes = (double)part * BLOCKS;
    auto out = [&](cudaStream_t on) {
        MUST(cudaMemcpyAsync(host[0], device[0], part * BLOCKS, cudaMemcpyDeviceToHost, on));
    };
    auto in = [&](cudaStream_t on) {
        MUST(cudaMemcpyAsync(device[1], host[1], part * BLOCKS, cudaMemcpyHostToDevice, on));
    };
    report("GB/s", [&] { return bytes / timed_us(stream, [&] { out(stream); }) * 1e-3; },
           "pcie.engine.write");
    report("GB/s", [&] { return bytes / timed_us(stream, [&] { in(stream); }) * 1e-3; },
           "pcie.engine.read");
    report("GB/s", [&] { return bytes / together(out, in) * 1e-3; }, "pcie.engine.both_each_way");
    for (int i = 0; i < 2; i++) {
        MUST(cudaFree(device[i]));
        MUST(cudaFreeHost(host[i]));
    }
    MUST(cudaEventDestroy(begun));
    MUST(cudaEventDestroy(ended));
    MUST(cudaStreamDestroy(second));
}

} // namespace

int main(int argc, char **argv)
{
    bool check = argc == 2 && std::strcmp(argv[1], "--check") == 0;
    int devices = 0, driver = 0, runtime = 0;
    cudaDeviceProp gpu;
    cudaStream_t stream;

    if (argc > 1 && !check) {
        std::fprintf(stderr, "gpu_costs: unknown argument '%s' (--check, or none)\n", argv[1]);
        return 2;
    }
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::printf("skipped: no GPU of NVIDIA here\n");
        return 77;
    }
    MUST(cudaSetDevice(0));
    MUST(cudaGetDeviceProperties(&gpu, 0));
    MUST(cudaDriverGetVersion(&driver));
    MUST(cudaRuntimeGetVersion(&runtime));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    std::printf("# %s, %d SMs, sm_%d%d; CUDA %d.%d, driver's %d.%d\n", gpu.name,
                gpu.multiProcessorCount, gpu.major, gpu.minor, runtime / 1000, runtime % 1000 / 10,
                driver / 1000, driver % 1000 / 10);
    if (check) {
        hand_shakes(stream, true);
        std::printf("what blocks hand to each other arrives, by LL, LL128 and Simple\n");
        return 0;
    }
    std::printf("# name\tmedian of %d\tleast\tmost\tunit\n", TURNS);
    launches(stream);
    hand_shakes(stream, false);
    with_cpu(stream);
    copies(stream);
    over_pcie(stream);
    MUST(cudaStreamDestroy(stream));
    return 0;
}
