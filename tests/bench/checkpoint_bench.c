/* What saving costs who trains: checkpoint_bench [BYTES [RANKS [SAVES [STEP_MS [DIR]]]]].
 * BYTES are those of all ranks together (float32), shared out among RANKS threads, which save after
 * every step and commit when all have written. First saves alone, one after the other: what begin()
 * and commit() block, beside a plain copy of the same bytes, and how long it takes until a save is
 * committed and flushed. Then steps that compute for STEP_MS, without and with a save each, five of
 * a kind in turns: by the clock, and by the processor time of the threads that train. Medians. */
#include <ftw.h>
#include <time.h>

#include "runtime/status.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/checkpoint_saver.h"
#include "tests/bench/bench.h"

enum { RANKS_MAX = 64, SAVES_MAX = 1000, TURN = 5 };

struct rank {
    struct bench *bench;
    struct tutti_saver *saver;
    uint32_t index;
    uint64_t first;
    uint64_t count;
    float *data;
    double begin_us[SAVES_MAX];
    double begin_cpu_us[SAVES_MAX];
    double step_us[2][SAVES_MAX];
    double step_cpu_us[2][SAVES_MAX];
};

struct bench {
    pthread_barrier_t barrier;
    atomic_uint written; /* ranks whose last shard is */
    uint32_t rank_count;
    uint32_t saves;
    double step_us;
    double saves_cpu_us; /* of all threads, for all saves */
    double rounds_us;    /* of computing: rounds in a microsecond */
    double commit_us[SAVES_MAX];
    double whole_us[SAVES_MAX];
    struct rank ranks[RANKS_MAX];
};

static void give_up(const char *what, const struct tutti_err *err)
{
    fprintf(stderr, "checkpoint_bench: %s: %s\n", what, err->text);
    exit(1);
}

static double read_us(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static double cpu_us(void)
{
    return read_us(CLOCK_THREAD_CPUTIME_ID);
}

static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof(values[0]), bench_compare);
    return values[count / 2];
}

static void save(struct rank *r, uint64_t step)
{
    struct tutti_saver_piece piece = {0, r->first, r->count, r->data};
    struct tutti_err err = {""};

    if (tutti_saver_begin(r->saver, step, &piece, 1, NULL, 0, &err) < 0)
        give_up("begin", &err);
}

/* Alone: all write, then the chief commits. */
static void save_and_wait(struct rank *r, uint32_t index)
{
    struct bench *b = r->bench;
    struct tutti_err err = {""};
    double start_us;
    double before_us;

    pthread_barrier_wait(&b->barrier);
    start_us = bench_now_us();
    before_us = cpu_us();
    save(r, index + 1);
    r->begin_cpu_us[index] = cpu_us() - before_us;
    r->begin_us[index] = bench_now_us() - start_us;
    if (tutti_saver_wait(r->saver, &err) < 0)
        give_up("write", &err);
    pthread_barrier_wait(&b->barrier);
    before_us = bench_now_us();
    if (tutti_saver_commit(r->saver, &err) < 0)
        give_up("commit", &err);
    if (r->index > 0)
        return;
    b->commit_us[index] = bench_now_us() - before_us;
    if (tutti_saver_wait(r->saver, &err) < 0)
        give_up("commit", &err);
    b->whole_us[index] = bench_now_us() - start_us;
}

/* Arithmetic that waits for nothing. */
static void compute(double rounds)
{
    volatile double sum = 0;

    for (double i = 0; i < rounds; i += 1)
        sum = sum * 0.5 + i;
}

/* Once a step, as training does: whether all have written is agreed on with what is sent anyway,
 * for which a counter and a barrier stand here. */
static void agree(struct rank *r, bool *saving)
{
    struct bench *b = r->bench;
    enum tutti_saver_state state = TUTTI_SAVER_IDLE;
    struct tutti_err err = {""};
    bool all;

    if (tutti_saver_poll(r->saver, &state, &err) < 0)
        give_up("save", &err);
    if (*saving && state == TUTTI_SAVER_WRITTEN)
        atomic_fetch_add(&b->written, 1);
    pthread_barrier_wait(&b->barrier);
    all = atomic_load(&b->written) == b->rank_count;
    pthread_barrier_wait(&b->barrier);
    atomic_store(&b->written, 0);
    pthread_barrier_wait(&b->barrier);
    if (*saving && all) {
        if (tutti_saver_commit(r->saver, &err) < 0)
            give_up("commit", &err);
        *saving = false;
    }
}

/* Steps in turns without and with saves; one whose save before is not committed yet saves none. */
static uint32_t train(struct rank *r)
{
    struct bench *b = r->bench;
    uint32_t counts[2] = {0, 0};
    uint32_t saved = 0;
    bool saving = false;

    for (uint32_t i = 0; i < 2 * b->saves; i++) {
        bool saves = i / TURN % 2 == 1;
        double start_us = bench_now_us();
        double start_cpu_us = cpu_us();

        compute(b->step_us * b->rounds_us);
        agree(r, &saving);
        if (saves && !saving) {
            save(r, b->saves + i + 1);
            saving = true;
            saved++;
        }
        r->step_us[saves][counts[saves]] = bench_now_us() - start_us;
        r->step_cpu_us[saves][counts[saves]++] = cpu_us() - start_cpu_us;
    }
    return saved;
}

static void *run(void *data)
{
    struct rank *r = data;
    struct bench *b = r->bench;
    double start_us = read_us(CLOCK_PROCESS_CPUTIME_ID);
    uint32_t saved = 0;

    for (uint32_t i = 0; i < b->saves; i++)
        save_and_wait(r, i);
    if (r->index == 0)
        b->saves_cpu_us = read_us(CLOCK_PROCESS_CPUTIME_ID) - start_us;
    if (b->step_us > 0)
        saved = train(r);
    if (r->index == 0 && b->step_us > 0) {
        double without_us = median(r->step_us[0], b->saves);
        double with_us = median(r->step_us[1], b->saves);
        double without_cpu_us = median(r->step_cpu_us[0], b->saves);
        double with_cpu_us = median(r->step_cpu_us[1], b->saves);

        printf(
            "a step without %.1f ms, with %.1f ms (%+.2f %%); its thread's time %.1f and %.1f ms "
            "(%+.2f %%); saved %u of %u\n",
            without_us / 1e3, with_us / 1e3, 100 * (with_us / without_us - 1), without_cpu_us / 1e3,
            with_cpu_us / 1e3, 100 * (with_cpu_us / without_cpu_us - 1), saved, b->saves);
    }
    return NULL;
}

static void open_rank(struct bench *b, const char *dir, uint64_t elements, uint32_t index)
{
    struct tutti_checkpoint_variable variable = {"all", 1, {elements}};
    struct tutti_checkpoint_model model = {"bench", 1, &variable, 1};
    struct tutti_checkpoint_slot slot = {"weights", TUTTI_FLOAT32, TUTTI_OWNER_SHARED, 0};
    struct tutti_saver_options options = {.dir = dir,
                                          .rank = index,
                                          .rank_count = b->rank_count,
                                          .is_chief = index == 0,
                                          .keep = 2,
                                          .copy_bytes =
                                              (elements / b->rank_count + 1) * sizeof(float),
                                          .strategy = "bench",
                                          .model = &model,
                                          .slots = &slot,
                                          .slot_count = 1};
    struct rank *r = &b->ranks[index];
    struct tutti_err err = {""};

    if (tutti_checkpoint_next_incarnation(NULL, dir, &options.incarnation, &err) < 0 ||
        tutti_saver_open(&options, &r->saver, &err) < 0)
        give_up("open", &err);
    *r = (struct rank){.bench = b, .saver = r->saver, .index = index};
    r->first = elements * index / b->rank_count;
    r->count = elements * (index + 1) / b->rank_count - r->first;
    r->data = bench_memory(r->count * sizeof(float));
    bench_fill(r->data, r->count * sizeof(float), index);
}

/* A plain copy of a rank's bytes, its pages touched before. */
static double copy_us(const struct rank *r)
{
    float *copy = bench_memory(r->count * sizeof(float));
    double us[9];

    for (uint32_t i = 0; i < 9; i++) {
        double start_us = cpu_us();

        memcpy(copy, r->data, r->count * sizeof(float));
        us[i] = cpu_us() - start_us;
    }
    free(copy);
    return median(us, 9);
}

static double measure_rounds_us(void)
{
    double start_us = cpu_us();

    compute(2e7);
    return 2e7 / (cpu_us() - start_us);
}

static void play(struct bench *b, uint64_t elements)
{
    pthread_t threads[RANKS_MAX];
    struct tutti_err err = {""};

    pthread_barrier_init(&b->barrier, NULL, b->rank_count);
    for (uint32_t i = 0; i < b->rank_count; i++)
        if (pthread_create(&threads[i], NULL, run, &b->ranks[i]) != 0)
            exit(1);
    for (uint32_t i = 0; i < b->rank_count; i++)
        pthread_join(threads[i], NULL);
    printf("%.1f MB by %u ranks: begin %.0f us by the clock, %.0f us of processor time (the first "
           "time %.0f us; a plain copy %.0f us), commit %.0f us; on the medium after %.1f ms, for "
           "which all threads together take %.1f ms\n",
           (double)elements * 4 / 1e6, b->rank_count,
           median(b->ranks[0].begin_us + 1, b->saves - 1),
           median(b->ranks[0].begin_cpu_us + 1, b->saves - 1), b->ranks[0].begin_cpu_us[0],
           copy_us(&b->ranks[0]), median(b->commit_us, b->saves),
           median(b->whole_us, b->saves) / 1e3, b->saves_cpu_us / 1e3 / b->saves);
    for (uint32_t i = 0; i < b->rank_count; i++) {
        if (tutti_saver_close(b->ranks[i].saver, &err) < 0)
            give_up("close", &err);
        free(b->ranks[i].data);
    }
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
}

int main(int argc, char **argv)
{
    static struct bench b;
    uint64_t elements = (argc > 1 ? strtoull(argv[1], NULL, 10) : 64 << 20) / sizeof(float);
    char made[] = "checkpoint_bench.XXXXXX";
    const char *dir = argc > 5 ? argv[5] : mkdtemp(made);

    b.rank_count = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2;
    b.saves = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 10;
    b.step_us = argc > 4 ? strtod(argv[4], NULL) * 1e3 : 0;
    if (elements == 0 || b.rank_count == 0 || b.rank_count > RANKS_MAX || b.saves < 2 ||
        b.saves > SAVES_MAX || elements < b.rank_count || dir == NULL) {
        fprintf(stderr, "usage: checkpoint_bench [BYTES [RANKS [SAVES [STEP_MS [DIR]]]]]\n");
        return 2;
    }
    b.rounds_us = measure_rounds_us();
    for (uint32_t i = 0; i < b.rank_count; i++)
        open_rank(&b, dir, elements, i);
    play(&b, elements);
    if (dir == made)
        (void)nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return 0;
}
