/* The schedules that a machine is measured by, and the measuring; see local.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/backend.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/threads.h"
#include "tools/local/local.h"
#include "tools/run/buffers.h"

enum {
    HOPS = 64,               /* of small messages, so that one is not lost in the clock */
    STEPS = 256,             /* of copies of nothing */
    BYTES_FIRST = 48 << 10,  /* of an operand */
    CHUNK_BYTES = 768 << 10, /* through the cache, whatever the machine */
    RATIO_BYTES = 3 << 20,   /* up to this size each is measured at twice the one before, */
    RATIO_ABOVE = 4,         /* then four times */
    ROUNDS_AGAIN = 3,        /* of what was timed while the processors moved */
    PLAYS = 3,               /* each with new threads; the median of their medians counts */
    ITERATIONS_FIRST = 7,
    POINTS_MAX = 192,
};

/* What is measured at each size; `ranks` 0: as many as the run has. */
enum what {
    COPY,   /* a rank copies its input */
    REDUCE, /* a rank adds one half of its input to the other */
    COPIES, /* all ranks at once */
    REDUCES,
    MESSAGE,        /* rank 0 copies and sends what it has written, rank 1 keeps it */
    INPUT,          /* rank 0 sends its input, which lies there unchanged */
    REDUCE_INPUT,   /* the same, reduced by rank 1 while it receives */
    REDUCE_FRESH,   /* what rank 0 has just written, likewise */
    PUSH,           /* rank 0 adds the halves of its input, the result goes to both outputs */
    RETURN,         /* rank 0 copies and sends, rank 1 keeps and sends back, rank 0 keeps */
    BOTH,           /* MESSAGE, both ways at once */
    SWAP,           /* INPUT, likewise: what one sends while it could receive costs time */
    TWINS,          /* INPUT, which rank 0 copies at the same time */
    MESSAGE_CHUNKS, /* MESSAGE, in pieces that do not go past the cache, one after another */
    COPY_CHUNKS,    /* COPY, in pieces that do not go past the cache */
    REDUCE_CHUNKS,
    WHAT_COUNT
};

static const struct {
    const char *name;
    uint32_t ranks;
} whats[WHAT_COUNT] = {
    [COPY] = {"copy", 1},
    [REDUCE] = {"reduce", 1},
    [COPIES] = {"copies", 0},
    [REDUCES] = {"reduces", 0},
    [MESSAGE] = {"message", 2},
    [INPUT] = {"input", 2},
    [REDUCE_INPUT] = {"reduce-input", 2},
    [REDUCE_FRESH] = {"reduce-fresh", 2},
    [PUSH] = {"push", 2},
    [RETURN] = {"return", 2},
    [BOTH] = {"both", 2},
    [SWAP] = {"swap", 2},
    [TWINS] = {"twins", 2},
    [MESSAGE_CHUNKS] = {"message-chunks", 2},
    [COPY_CHUNKS] = {"copy-chunks", 1},
    [REDUCE_CHUNKS] = {"reduce-chunks", 1},
};

/* ---- schedules ------------------------------------------------------------------------------- */

struct making {
    struct tutti_builder *builder;
    uint64_t bytes;  /* of a step */
    uint64_t offset; /* where it begins */
    uint64_t half;   /* of the input */
    int status;
    struct tutti_err *err;
};

static void add(struct making *m, uint32_t rank, struct tutti_step step)
{
    if (m->status == 0)
        m->status = tutti_builder_add(m->builder, rank, 0, &step, m->err);
}

static void add_copy(struct making *m, uint32_t rank)
{
    add(m, rank,
        (struct tutti_step){.kind = TUTTI_COPY,
                            .dst_buf = TUTTI_BUF_OUT,
                            .src_buf = TUTTI_BUF_IN,
                            .dst_offset = m->offset,
                            .src_offset = m->offset,
                            .bytes = m->bytes});
}

/* out = acc + src, which is the second half of the input, or what has been received. */
static void add_reduce(struct making *m, uint32_t rank, enum tutti_buf src)
{
    add(m, rank,
        (struct tutti_step){.kind = TUTTI_REDUCE,
                            .flags = TUTTI_STEP_LAST,
                            .dst_buf = TUTTI_BUF_OUT,
                            .acc_buf = TUTTI_BUF_IN,
                            .src_buf = (uint8_t)src,
                            .dst_offset = m->offset,
                            .acc_offset = m->offset,
                            .src_offset = (src == TUTTI_BUF_IN ? m->half : 0) + m->offset,
                            .bytes = m->bytes});
}

static void add_send(struct making *m, uint32_t rank, uint32_t to, enum tutti_buf from)
{
    add(m, rank,
        (struct tutti_step){.kind = TUTTI_SEND,
                            .src_buf = (uint8_t)from,
                            .peer = to,
                            .src_offset = m->offset,
                            .bytes = m->bytes});
}

static void add_take(struct making *m, uint32_t rank, uint32_t from, enum tutti_buf to, bool fused)
{
    add(m, rank,
        (struct tutti_step){.kind = TUTTI_RECV,
                            .flags = fused ? TUTTI_STEP_FUSE : 0,
                            .dst_buf = (uint8_t)to,
                            .peer = from,
                            .dst_offset = m->offset,
                            .bytes = m->bytes});
}

static void add_token(struct making *m, uint32_t from, uint32_t to)
{
    uint64_t bytes = m->bytes;

    m->bytes = 8;
    add_send(m, from, to, TUTTI_BUF_IN);
    add_take(m, to, from, TUTTI_BUF_SCRATCH, false);
    m->bytes = bytes;
}

static void add_one_way(struct making *m, enum what what)
{
    bool fused = what == REDUCE_INPUT || what == REDUCE_FRESH;
    bool fresh = what != INPUT && what != REDUCE_INPUT;

    if (what == PUSH) { /* nobody writes to who has not begun: rank 1 says that it has */
        add_token(m, 1, 0);
        add_reduce(m, 0, TUTTI_BUF_IN);
    }
    if (fresh && what != PUSH)
        add_copy(m, 0);
    add_send(m, 0, 1, fresh ? TUTTI_BUF_OUT : TUTTI_BUF_IN);
    add_take(m, 1, 0, fused || what == RETURN ? TUTTI_BUF_SCRATCH : TUTTI_BUF_OUT, fused);
    if (fused)
        add_reduce(m, 1, TUTTI_BUF_SCRATCH);
    if (what != RETURN)
        return;
    add_send(m, 1, 0, TUTTI_BUF_SCRATCH);
    add_take(m, 0, 1, TUTTI_BUF_SCRATCH, false);
}

static void add_all(struct making *m, enum what what, uint32_t rank_count)
{
    for (uint32_t r = 0; r < rank_count; r++) {
        if (what == REDUCE || what == REDUCES)
            add_reduce(m, r, TUTTI_BUF_IN);
        else if (what != SWAP)
            add_copy(m, r);
        if (what != BOTH && what != SWAP)
            continue;
        add_send(m, r, 1 - r, what == BOTH ? TUTTI_BUF_OUT : TUTTI_BUF_IN);
        add_take(m, r, 1 - r, TUTTI_BUF_SCRATCH, false);
    }
}

/* Rank 0 copies what rank 1 takes at the same time. */
static void add_twins(struct making *m)
{
    add_send(m, 0, 1, TUTTI_BUF_IN);
    add_copy(m, 0);
    add_take(m, 1, 0, TUTTI_BUF_OUT, false);
}

static bool is_in_chunks(enum what what)
{
    return what == MESSAGE_CHUNKS || what == COPY_CHUNKS || what == REDUCE_CHUNKS;
}

static void add_chunks(struct making *m, enum what what)
{
    uint64_t end = m->bytes;

    m->bytes = CHUNK_BYTES;
    for (; m->offset < end; m->offset += CHUNK_BYTES) {
        if (what == REDUCE_CHUNKS)
            add_reduce(m, 0, TUTTI_BUF_IN);
        else
            add_copy(m, 0);
        if (what != MESSAGE_CHUNKS)
            continue;
        add_send(m, 0, 1, TUTTI_BUF_OUT);
        add_take(m, 1, 0, TUTTI_BUF_OUT, false);
    }
}

static int make_open(const struct tutti_local_ask *ask, uint32_t rank_count, uint64_t bytes,
                     struct making *m, struct tutti_err *err)
{
    struct tutti_schedule_desc desc = {
        .name = "probe",
        .contract = {.collective = TUTTI_CUSTOM, .dtype = ask->dtype, .op = ask->op},
        .rank_count = rank_count,
        .lane_count = 1,
        .in_bytes = 2 * bytes,
        .out_bytes = bytes,
        .scratch_bytes = bytes,
    };

    *m = (struct making){.bytes = bytes, .half = bytes, .err = err};
    return tutti_builder_new(&desc, &m->builder, err);
}

static int make_close(struct making *m, struct tutti_schedule **ret)
{
    if (m->status == 0)
        return tutti_builder_finish(m->builder, ret, m->err);
    tutti_builder_free(m->builder);
    return m->status;
}

static int make_what(const struct tutti_local_ask *ask, enum what what, struct tutti_local_point *p,
                     struct tutti_err *err)
{
    struct making m;
    int status = make_open(ask, p->rank_count, p->bytes, &m, err);

    if (status < 0)
        return status;
    if (what == TWINS)
        add_twins(&m);
    else if (is_in_chunks(what))
        add_chunks(&m, what);
    else if (what == COPY || what == REDUCE || what == COPIES || what == REDUCES || what == BOTH ||
             what == SWAP)
        add_all(&m, what, p->rank_count);
    else
        add_one_way(&m, what);
    return make_close(&m, &p->schedule);
}

/* Ranks with nothing to do, copies of nothing one after another, or small messages that go round,
 * one from each rank at a time. */
static int make_small(const struct tutti_local_ask *ask, uint32_t steps, uint32_t hops,
                      struct tutti_local_point *p, struct tutti_err *err)
{
    uint32_t n = p->rank_count;
    struct making m;
    int status = make_open(ask, n, 64, &m, err);

    if (status < 0)
        return status;
    m.bytes = 0;
    for (uint32_t i = 0; i < steps; i++)
        for (uint32_t r = 0; r < n; r++)
            add_copy(&m, r);
    m.bytes = 8;
    for (uint32_t i = 0; i < hops; i++) {
        for (uint32_t r = 0; r < n; r++) {
            add_send(&m, r, (r + 1) % n, TUTTI_BUF_IN);
            add_take(&m, r, (r + n - 1) % n, TUTTI_BUF_OUT, false);
        }
    }
    return make_close(&m, &p->schedule);
}

static int make_smalls(const struct tutti_local_ask *ask, struct tutti_local_points *points,
                       struct tutti_err *err)
{
    static const struct {
        const char *name;
        uint32_t ranks, steps, hops;
    } smalls[] = {{"nothing-alone", 1, 1, 0},
                  {"nothing", 0, 1, 0},
                  {"steps", 0, STEPS, 0},
                  {"hops", 0, 0, HOPS}};
    int status = 0;

    for (size_t i = 0; status == 0 && i < sizeof(smalls) / sizeof(smalls[0]); i++) {
        struct tutti_local_point p = {.what = smalls[i].name, .rank_count = ask->rank_count};

        if (smalls[i].ranks > 0)
            p.rank_count = smalls[i].ranks;

        if (smalls[i].hops > 0 && ask->rank_count == 1)
            continue;
        status = make_small(ask, smalls[i].steps, smalls[i].hops, &p, err);
        if (status == 0)
            points->points[points->count++] = p;
    }
    return status;
}

int tutti_local_points_make(const struct tutti_local_ask *ask, struct tutti_local_points *ret,
                            struct tutti_err *err)
{
    struct tutti_local_points points = {.points = calloc(POINTS_MAX, sizeof(*points.points))};
    int status = points.points == NULL ? tutti_nomem(err)
                 : ask->on_gpu ? tutti_local_points_make_blocks(ask, POINTS_MAX, &points, err)
                               : make_smalls(ask, &points, err);

    for (uint64_t bytes = BYTES_FIRST; status == 0 && !ask->on_gpu && bytes <= ask->bytes_max;
         bytes *= bytes < RATIO_BYTES && !ask->brief ? 2 : RATIO_ABOVE) {
        for (int w = 0; status == 0 && w < WHAT_COUNT; w++) {
            struct tutti_local_point p = {.what = whats[w].name, .bytes = bytes};

            p.rank_count = whats[w].ranks == 0 ? ask->processor_count : whats[w].ranks;
            if (p.rank_count > ask->rank_count)
                p.rank_count = ask->rank_count;
            if (whats[w].ranks > p.rank_count || points.count == POINTS_MAX ||
                (is_in_chunks((enum what)w) && bytes <= RATIO_BYTES))
                continue;
            status = make_what(ask, (enum what)w, &p, err);
            if (status == 0)
                points.points[points.count++] = p;
        }
    }
    if (status < 0)
        tutti_local_points_close(&points);
    else
        *ret = points;
    return status;
}

void tutti_local_points_close(struct tutti_local_points *points)
{
    for (uint32_t i = 0; points->points != NULL && i < points->count; i++)
        tutti_schedule_free(points->points[i].schedule);
    free(points->points);
    *points = (struct tutti_local_points){.count = 0};
}

/* ---- measuring ------------------------------------------------------------------------------- */

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

/* More iterations of what is short. */
static uint32_t iterations_of(const struct tutti_local_ask *ask, uint64_t bytes, int play)
{
    if (play == 0 || ask->brief)
        return bytes <= 16 << 20 ? ITERATIONS_FIRST : 5;
    return bytes <= 1 << 20 ? 41 : bytes <= 16 << 20 ? 11 : 5;
}

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Its plays, and how far apart the processors lay before and after each. */
struct timing {
    double took_us[PLAYS];
    double apart_ns[2 * PLAYS];
    int count;
};

static int play_once(const struct tutti_local_ask *ask, struct tutti_backend *backend,
                     const struct tutti_local_point *point, const struct tutti_buffers *buffers,
                     struct timing *timing, tutti_ps *spent_ps, struct tutti_err *err)
{
    struct tutti_play play = {
        .size = sizeof(struct tutti_play),
        .schedule = point->schedule,
        .in = (const void *const *)buffers->in,
        .out = buffers->out,
        .warmup_count = 2,
        .iteration_count = iterations_of(ask, point->bytes, timing->count),
        .barrier = true,
        .deadline_ps = ask->deadline_ps,
    };
    struct tutti_played played = {0};
    double *apart_ns = timing->apart_ns + 2 * timing->count;
    int status = ask->on_gpu ? 0 : tutti_local_look(ask, &apart_ns[0], err);

    if (status == 0)
        status = tutti_backend_play(backend, &play, &played, err);
    if (status == 0 && !ask->on_gpu)
        status = tutti_local_look(ask, &apart_ns[1], err);
    timing->took_us[timing->count++] = (double)played.median_ps / (double)TUTTI_PS_PER_US;
    *spent_ps += played.total_ps;
    return status;
}

static void take_timing(struct timing *timing, struct tutti_local_point *point)
{
    double *apart_ns = timing->apart_ns;
    int looks = 2 * timing->count;

    qsort(timing->took_us, (size_t)timing->count, sizeof(timing->took_us[0]), compare);
    qsort(apart_ns, (size_t)looks, sizeof(apart_ns[0]), compare);
    point->measured_us = timing->took_us[timing->count / 2];
    point->apart_ns = apart_ns[looks / 2];
    point->moved = tutti_local_moved(apart_ns[0], apart_ns[looks - 1]);
}

static int time_point(const struct tutti_local_ask *ask, struct tutti_backend *backend,
                      struct tutti_local_point *point, struct tutti_err *err)
{
    struct tutti_buffers buffers = {0};
    const int64_t spent_max_ns = ask->brief ? 20000000 : 100000000;
    struct timing timing = {.count = 0};
    int64_t began_ns = now_ns();
    tutti_ps spent_ps = 0;
    int status = tutti_buffers_open(point->schedule, ask->seed, &buffers, err);

    /* A busy machine makes short things last: then one play must do. Several processes must all
     * decide alike, by times that all of them know. */
    while (timing.count < PLAYS && status == 0) {
        int64_t spent_ns =
            ask->backend == NULL || ask->on_gpu ? now_ns() - began_ns : spent_ps / TUTTI_PS_PER_NS;

        if (timing.count > 0 && (point->bytes <= RATIO_BYTES || ask->on_gpu) &&
            spent_ns > spent_max_ns)
            break;
        status = play_once(ask, backend, point, &buffers, &timing, &spent_ps, err);
    }
    tutti_buffers_close(&buffers);
    if (status == 0)
        take_timing(&timing, point);
    return status;
}

/* How far apart the processors lay in the median of the timings during which they stayed. */
static int usual_apart(const struct tutti_local_points *points, double *ret_ns,
                       struct tutti_err *err)
{
    double *all_ns = calloc(points->count + 1, sizeof(*all_ns));
    size_t count = 0;

    if (all_ns == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < points->count; i++) {
        if (!points->points[i].moved)
            all_ns[count++] = points->points[i].apart_ns;
    }
    qsort(all_ns, count, sizeof(*all_ns), compare);
    *ret_ns = count > 0 ? all_ns[count / 2] : 0;
    free(all_ns);
    return 0;
}

/* Once more what was timed while the processors moved, or lay otherwise than most of the time: what
 * costs five times as much then is no noise, but another machine. What does not come out by some
 * rounds is left out. */
static int time_again(const struct tutti_local_ask *ask, struct tutti_backend *backend,
                      struct tutti_local_points *points, struct tutti_err *err)
{
    double usual_ns = 0;
    int status = usual_apart(points, &usual_ns, err);

    for (int round = 0; round < ROUNDS_AGAIN && status == 0; round++) {
        for (uint32_t i = 0; i < points->count && status == 0; i++) {
            struct tutti_local_point *point = &points->points[i];

            if (!point->moved && !tutti_local_moved(point->apart_ns, usual_ns))
                continue;
            points->again_count++;
            status = time_point(ask, backend, point, err);
        }
    }
    points->apart_ns = usual_ns;
    points->left_out_count = 0;
    for (uint32_t i = 0; i < points->count; i++) {
        struct tutti_local_point *point = &points->points[i];

        point->moved = point->moved || tutti_local_moved(point->apart_ns, usual_ns);
        points->left_out_count += point->moved;
    }
    if (points->left_out_count <= points->count / 2)
        return status;
    for (uint32_t i = 0; i < points->count; i++) /* what never stands still is like that */
        points->points[i].moved = false;
    points->left_out_count = 0;
    return status;
}

int tutti_local_time_points(const struct tutti_local_ask *ask, struct tutti_local_points *points,
                            struct tutti_err *err)
{
    struct tutti_threads_opts opts = {.size = sizeof(struct tutti_threads_opts), .pin = ask->pin};
    struct tutti_backend *own = NULL;
    struct tutti_backend *backend = ask->backend;
    int status = 0;

    if (ask->backend == NULL) {
        status = tutti_threads_open(&opts, &own, err);
        backend = own;
    }
    for (uint32_t i = 0; status == 0 && i < points->count; i++)
        status = time_point(ask, backend, &points->points[i], err);
    if (status == 0 && !ask->on_gpu)
        status = time_again(ask, backend, points, err);
    tutti_backend_close(own);
    return status;
}

int tutti_local_measure(const struct tutti_local_ask *ask, struct tutti_local_points *ret,
                        struct tutti_err *err)
{
    struct tutti_local_points points = {.count = 0};
    int status = tutti_local_points_make(ask, &points, err);

    if (status == 0)
        status = tutti_local_time_points(ask, &points, err);
    if (status < 0) {
        tutti_local_points_close(&points);
        return tutti_wrap(err, status, "measuring this machine");
    }
    *ret = points;
    return 0;
}
