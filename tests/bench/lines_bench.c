/* Ways to write what another processor has read: one thread adds two arrays into a third, another
 * takes the result; what each way costs the writer, and both together.
 *
 *     lines_bench BYTES,... TURNS [alone]     us, medians; alone: nobody takes the result */
#include "runtime/exec/device/kernels.h"
#include "tests/bench/bench.h"

enum { SIZES_MAX = 16, TURNS_MAX = 4000, BLOCK_MAX = 16 << 10, PREFETCH_LINES = 8 };

enum way { PLAIN, PREFETCHED, BLOCK_4K, LINES_4K, LINES_16K, PAST, WAY_COUNT };

static const char *const names[WAY_COUNT] = {
    [PLAIN] = "plain stores",
    [PREFETCHED] = "prefetched",
    [BLOCK_4K] = "4 KiB, memcpy",
    [LINES_4K] = "4 KiB, whole lines",
    [LINES_16K] = "16 KiB, whole lines",
    [PAST] = "past the cache",
};

struct world {
    float *a, *b, *result, *taken;
    size_t bytes;
    bool alone;
    atomic_long begun; /* the turn that the taker may take */
    atomic_long done;
    atomic_bool over;
};

static void add(float *to, const struct world *w, size_t at, size_t bytes)
{
    tutti_reduce(TUTTI_FLOAT32, TUTTI_SUM, to, w->a + at / 4, w->b + at / 4, bytes / 4);
}

static void write_in_blocks(const struct world *w, enum way way, size_t most)
{
    _Alignas(64) static _Thread_local float block[BLOCK_MAX / sizeof(float)];
    const struct tutti_kernels *kernels = tutti_kernels_at(0);

    for (size_t at = 0, now; at < w->bytes; at += now) {
        float *to = w->result + at / 4;

        now = w->bytes - at < most ? w->bytes - at : most;
        add(block, w, at, now);
        if (way == PAST)
            kernels->stream(to, block, now);
        else if (way == BLOCK_4K)
            memcpy(to, block, now);
        else
            kernels->whole(to, block, now);
    }
    if (way == PAST)
        kernels->fence();
}

static void write_prefetched(const struct world *w)
{
    for (size_t at = 0; at < w->bytes; at += 64) {
        __builtin_prefetch((const char *)w->result + at + (size_t)64 * PREFETCH_LINES, 1, 3);
        for (size_t i = at / 4; i < at / 4 + 16 && i < w->bytes / 4; i++)
            w->result[i] = w->a[i] + w->b[i];
    }
}

static void write_result(const struct world *w, enum way way)
{
    if (way == PLAIN)
        add(w->result, w, 0, w->bytes);
    else if (way == PREFETCHED)
        write_prefetched(w);
    else
        write_in_blocks(w, way, way == LINES_16K ? BLOCK_MAX : 4096);
}

static void *take(void *context)
{
    struct world *w = context;
    long turn = 1;

    bench_pin(1);
    while (!atomic_load(&w->over)) {
        if (atomic_load(&w->begun) != turn)
            continue;
        if (!w->alone)
            memcpy(w->taken, w->result, w->bytes);
        atomic_store(&w->done, turn++);
    }
    return NULL;
}

static void time_way(struct world *w, enum way way, int turns)
{
    static double wrote[TURNS_MAX], both[TURNS_MAX];

    for (int i = -turns / 10; i < turns; i++) {
        long turn = atomic_load(&w->begun) + 1;
        double began = bench_now_us(), written;

        write_result(w, way);
        written = bench_now_us();
        atomic_store(&w->begun, turn);
        while (atomic_load(&w->done) != turn)
            ;
        if (i < 0)
            continue;
        wrote[i] = written - began;
        both[i] = bench_now_us() - began;
    }
    qsort(wrote, (size_t)turns, sizeof(double), bench_compare);
    qsort(both, (size_t)turns, sizeof(double), bench_compare);
    printf("%10zu  %-20s %9.2f %9.2f\n", w->bytes, names[way], wrote[turns / 2], both[turns / 2]);
}

int main(int argc, char **argv)
{
    uint64_t sizes[SIZES_MAX];
    size_t count = argc > 2 ? bench_sizes(argv[1], sizes, SIZES_MAX) : 0;
    long turns = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    static struct world w;
    uint64_t most = 0;
    pthread_t taker;

    if (count == 0 || turns < 1 || turns > TURNS_MAX) {
        fprintf(stderr, "usage: lines_bench BYTES,... TURNS [alone] (up to %d turns)\n", TURNS_MAX);
        return 2;
    }
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
        fprintf(stderr, "lines_bench: skipped: one processor\n");
        return 77;
    }
    for (size_t i = 0; i < count; i++)
        most = sizes[i] > most ? sizes[i] : most;
    w = (struct world){.a = bench_memory(most),
                       .b = bench_memory(most),
                       .result = bench_memory(most),
                       .taken = bench_memory(most),
                       .alone = argc > 3};
    for (uint32_t i = 0; i < 2; i++)
        bench_fill(i == 0 ? w.a : w.b, most, i);
    bench_pin(0);
    if (pthread_create(&taker, NULL, take, &w) != 0)
        return 1;
    printf("     bytes  way                      write      both\n");
    for (size_t i = 0; i < count; i++) {
        w.bytes = (size_t)sizes[i];
        for (int way = 0; way < WAY_COUNT; way++)
            time_way(&w, (enum way)way, (int)turns);
    }
    atomic_store(&w.over, true);
    pthread_join(taker, NULL);
    printf("hop: %.0f ns\n", bench_hop_ns());
    return 0;
}
