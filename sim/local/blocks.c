/* Blocks of threads of a GPU on a virtual clock: each does the operations of its lane in order, and
 * all that move bytes share what memory or the cache of all gives. */
#include "sim/local/blocks.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/cuda_work.h"
#include "runtime/status.h"

#define NOBODY UINT32_MAX
#define NEVER  INFINITY

enum { THREADS_WHOLE = 512, MANY_SOURCES = 4 };

/* Below half a byte nothing is left to move. */
static const double bytes_least = 0.5;
/* How sharply the rate of a block bends into its part of what all have, and what the cache keeps
 * falls off with what has come from memory since: of the values tried, those by which the small
 * schedules of a calibration are met best (H200: 2.6 %, by 3 and 4 3.6 %). */
static const double knee = 1.5;
static const double outgrown = 8;

struct block {
    uint32_t op;     /* number of the work's */
    uint32_t wait;   /* of the operation's, that it waits for */
    uint32_t next;   /* that waits for the same counter */
    double when_us;  /* waiting for a time: until then */
    double left;     /* moving: bytes */
    double bytes_us; /* and how many go in a microsecond now */
    double missed;   /* what one costs beside one of memory: less where the cache keeps it */
};

struct counter {
    uint32_t value;
    uint32_t waiting; /* the first block that waits for it */
    double seen_us;   /* when others see its value */
    uint32_t old_value;
    double old_seen_us; /* and that before */
};

struct local_blocks {
    const struct tutti_cuda_work *work;
    struct block *blocks;     /* [lane_count] */
    struct counter *counters; /* [counter_count] */
    uint32_t *heap;           /* blocks that wait for a time, the earliest first */
    uint32_t heap_count;
    uint32_t *moving;
    uint32_t moving_count;
    uint32_t *ended;
    double now_us;
    double *touched; /* [place_count]: what had come from memory when it was touched; < 0: never */
    double come;     /* bytes that have come from memory, or gone there */

    double hop_us;
    double line_us;
    double step_us;
    double copy_bytes_us; /* of a block of so many threads as it has */
    double add_bytes_us;
    double sum_bytes_us;
    double all_bytes_us; /* memory's */
    double cache_bytes;
    double kept_cost; /* of a byte that the cache keeps, beside one of memory */
};

int tutti_local_blocks_open(const struct tutti_cuda_work *work, struct local_blocks **ret,
                            struct tutti_err *err)
{
    struct local_blocks *blocks = calloc(1, sizeof(*blocks));
    size_t lanes = (size_t)work->lane_count + 1;

    if (blocks == NULL)
        return tutti_nomem(err);
    blocks->work = work;
    blocks->blocks = calloc(lanes, sizeof(*blocks->blocks));
    blocks->counters = calloc((size_t)work->counter_count + 1, sizeof(*blocks->counters));
    blocks->heap = calloc(lanes, sizeof(*blocks->heap));
    blocks->moving = calloc(lanes, sizeof(*blocks->moving));
    blocks->ended = calloc(lanes, sizeof(*blocks->ended));
    blocks->touched = calloc((size_t)work->place_count + 1, sizeof(*blocks->touched));
    if (blocks->blocks == NULL || blocks->counters == NULL || blocks->heap == NULL ||
        blocks->moving == NULL || blocks->ended == NULL || blocks->touched == NULL) {
        tutti_local_blocks_close(blocks);
        return tutti_nomem(err);
    }
    *ret = blocks;
    return 0;
}

void tutti_local_blocks_close(struct local_blocks *blocks)
{
    if (blocks == NULL)
        return;
    free(blocks->blocks);
    free(blocks->counters);
    free(blocks->heap);
    free(blocks->moving);
    free(blocks->ended);
    free(blocks->touched);
    free(blocks);
}

/* ---- blocks that wait for a time: ties by number --------------------------------------------- */

static bool is_before(const struct local_blocks *b, uint32_t left, uint32_t right)
{
    double l = b->blocks[left].when_us;
    double r = b->blocks[right].when_us;

    return l < r || (!(r < l) && left < right);
}

static void push(struct local_blocks *b, uint32_t lane, double when_us)
{
    uint32_t at = b->heap_count++;

    b->blocks[lane].when_us = when_us;
    for (; at > 0 && is_before(b, lane, b->heap[(at - 1) / 2]); at = (at - 1) / 2)
        b->heap[at] = b->heap[(at - 1) / 2];
    b->heap[at] = lane;
}

static uint32_t pop(struct local_blocks *b)
{
    uint32_t first = b->heap[0];
    uint32_t last = b->heap[--b->heap_count];
    uint32_t at = 0;

    for (uint32_t child = 1; child < b->heap_count; child = 2 * at + 1) {
        if (child + 1 < b->heap_count && is_before(b, b->heap[child + 1], b->heap[child]))
            child++;
        if (!is_before(b, b->heap[child], last))
            break;
        b->heap[at] = b->heap[child];
        at = child;
    }
    b->heap[at] = last;
    return first;
}

/* ---- operations ------------------------------------------------------------------------------ */

static const struct tutti_cuda_work_op *op_of(const struct local_blocks *b, uint32_t lane)
{
    return &b->work->ops[b->blocks[lane].op];
}

/* Waits for the next flag that nobody has stored yet; all there: begins when the last is seen. */
static void look(struct local_blocks *b, uint32_t lane)
{
    struct block *block = &b->blocks[lane];
    const struct tutti_cuda_work_op *op = op_of(b, lane);
    double begin_us = b->now_us;
    bool reads_line = false;

    for (; block->wait < op->wait_count; block->wait++) {
        const struct tutti_cuda_work_flag *flag = &b->work->flags[op->wait_first + block->wait];
        struct counter *counter = &b->counters[flag->counter];

        if (counter->value < flag->value) {
            block->next = counter->waiting;
            counter->waiting = lane;
            return;
        }
    }
    for (uint32_t w = 0; w < op->wait_count; w++) {
        const struct tutti_cuda_work_flag *flag = &b->work->flags[op->wait_first + w];
        const struct counter *counter = &b->counters[flag->counter];
        double seen_us = flag->value == 0                    ? 0
                         : flag->value <= counter->old_value ? counter->old_seen_us
                                                             : counter->seen_us;

        begin_us = seen_us > begin_us ? seen_us : begin_us;
        reads_line = reads_line || flag->counter >= b->work->line_first;
    }
    push(b, lane,
         begin_us + (reads_line ? b->line_us : b->step_us) + (double)op->duration_ps / 1e6);
}

static void begin(struct local_blocks *b, uint32_t lane)
{
    b->blocks[lane].wait = 0;
    if (b->blocks[lane].op < b->work->op_first[lane + 1])
        look(b, lane);
}

static void store(struct local_blocks *b, const struct tutti_cuda_work_flag *flag)
{
    struct counter *counter = &b->counters[flag->counter];
    bool is_line = flag->counter >= b->work->line_first;
    uint32_t lane;

    counter->old_value = counter->value;
    counter->old_seen_us = counter->seen_us;
    if (flag->value > counter->value)
        counter->value = flag->value;
    counter->seen_us = b->now_us + (is_line ? 0 : b->hop_us);
    lane = counter->waiting;
    counter->waiting = NOBODY;
    while (lane != NOBODY) {
        uint32_t next = b->blocks[lane].next;

        look(b, lane); /* which may wait for more of the same */
        lane = next;
    }
}

static void end(struct local_blocks *b, uint32_t lane)
{
    const struct tutti_cuda_work_op *op = op_of(b, lane);

    for (uint32_t i = 0; i < op->signal_count; i++)
        store(b, &b->work->flags[op->signal_first + i]);
    b->blocks[lane].op++;
    begin(b, lane);
}

/* What part is kept of what was touched so many bytes of memory ago. */
static double kept_of(const struct local_blocks *b, double bytes)
{
    return 1 / (1 + pow(bytes / b->cache_bytes, outgrown));
}

/* What the bytes of an operation cost beside as many of memory. Who is not told what is touched
 * goes by how much there is in all. */
static double touch(struct local_blocks *b, const struct tutti_cuda_work_op *op)
{
    uint32_t places = (uint32_t)op->src_count + op->dst_count;
    double kept = 0;

    if (b->work->places == NULL) {
        kept = kept_of(b, (double)b->work->buffer_bytes);
        return 1 - kept * (1 - b->kept_cost);
    }
    for (uint32_t p = 0; p < places; p++) {
        uint32_t place = b->work->places[op->place_first + p];
        double one = 1; /* lines are always kept */

        if (place != TUTTI_CUDA_WORK_LINE) {
            double *touched = &b->touched[place];

            one = *touched < 0 ? 0 : kept_of(b, b->come - *touched);
            b->come += (1 - one) * (double)op->bytes;
            *touched = b->come;
        }
        kept += one;
    }
    return 1 - kept / places * (1 - b->kept_cost);
}

/* Lines carry a mark beside each word, and so move twice the bytes. */
static void move(struct local_blocks *b, uint32_t lane)
{
    const struct tutti_cuda_work_op *op = op_of(b, lane);
    uint32_t places = (uint32_t)op->src_count + op->dst_count + op->line_count;

    if (op->src_count == 0 || op->bytes == 0) {
        end(b, lane);
        return;
    }
    b->blocks[lane].left = (double)op->bytes * places;
    b->blocks[lane].missed = touch(b, op);
    b->moving[b->moving_count++] = lane;
}

/* ---- the clock ------------------------------------------------------------------------------- */

static void share(struct local_blocks *b)
{
    double missed = 0;
    double part;
    double rates[3] = {b->copy_bytes_us, b->add_bytes_us, b->sum_bytes_us};

    for (uint32_t i = 0; i < b->moving_count; i++)
        missed += b->blocks[b->moving[i]].missed;
    part = pow(missed / b->all_bytes_us, knee);
    for (int i = 0; i < 3; i++)
        rates[i] = pow(pow(1 / rates[i], knee) + part, -1 / knee);
    for (uint32_t i = 0; i < b->moving_count; i++) {
        uint32_t sources = op_of(b, b->moving[i])->src_count;

        b->blocks[b->moving[i]].bytes_us = rates[sources < 2 ? 0 : sources < MANY_SOURCES ? 1 : 2];
    }
}

/* When the first of those that move has moved all. */
static double first_end(const struct local_blocks *b)
{
    double first_us = NEVER;

    for (uint32_t i = 0; i < b->moving_count; i++) {
        const struct block *block = &b->blocks[b->moving[i]];
        double end_us = b->now_us + block->left / block->bytes_us;

        first_us = end_us < first_us ? end_us : first_us;
    }
    return first_us;
}

/* Goes to a time; those that have moved all then end their operations, in the order in which they
 * began. */
static void advance(struct local_blocks *b, double to_us)
{
    uint32_t count = b->moving_count;
    uint32_t ended_count = 0;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t lane = b->moving[i];
        struct block *block = &b->blocks[lane];

        block->left -= block->bytes_us * (to_us - b->now_us);
        if (block->left > bytes_least)
            b->moving[kept++] = lane;
        else
            b->ended[ended_count++] = lane;
    }
    b->now_us = to_us;
    b->moving_count = kept;
    for (uint32_t i = 0; i < ended_count; i++)
        end(b, b->ended[i]);
}

static void take_rates(struct local_blocks *b, const struct tutti_local *local)
{
    static const double bytes_us_GBps = 1e3;
    const struct tutti_local_value *v = local->values;
    double threads = (double)b->work->thread_count / THREADS_WHOLE;

    b->hop_us = v[TUTTI_LOCAL_BLOCK_HOP].value;
    b->line_us = v[TUTTI_LOCAL_BLOCK_LINE].value;
    b->step_us = v[TUTTI_LOCAL_BLOCK_STEP].value;
    b->copy_bytes_us = v[TUTTI_LOCAL_BLOCK_COPY].value * bytes_us_GBps * threads;
    b->add_bytes_us = v[TUTTI_LOCAL_BLOCK_ADD].value * bytes_us_GBps * threads;
    b->sum_bytes_us = v[TUTTI_LOCAL_BLOCK_SUM].value * bytes_us_GBps * threads;
    b->all_bytes_us = bytes_us_GBps * v[TUTTI_LOCAL_BLOCK_MEMORY].value;
    b->cache_bytes = v[TUTTI_LOCAL_BLOCK_CACHE].value * 0x1p20;
    b->kept_cost = v[TUTTI_LOCAL_BLOCK_MEMORY].value / v[TUTTI_LOCAL_BLOCK_SHARED].value;
}

static void play_once(struct local_blocks *b)
{
    const struct tutti_cuda_work *work = b->work;

    b->now_us = 0;
    b->heap_count = b->moving_count = 0;
    for (uint32_t c = 0; c < work->counter_count; c++)
        b->counters[c] = (struct counter){.waiting = NOBODY};
    for (uint32_t l = 0; l < work->lane_count; l++) {
        b->blocks[l] = (struct block){.op = work->op_first[l]};
        begin(b, l);
    }
    while (b->heap_count > 0 || b->moving_count > 0) {
        double wake_us = b->heap_count > 0 ? b->blocks[b->heap[0]].when_us : NEVER;
        double end_us;

        share(b);
        end_us = first_end(b);
        if (end_us <= wake_us) {
            advance(b, end_us);
            continue;
        }
        advance(b, wake_us);
        while (b->heap_count > 0 && b->blocks[b->heap[0]].when_us <= b->now_us)
            move(b, pop(b));
    }
}

/* Once more with the cache as a play leaves it. */
double tutti_local_blocks_play(struct local_blocks *b, const struct tutti_local *local)
{
    take_rates(b, local);
    b->come = 0;
    for (uint32_t p = 0; p < b->work->place_count; p++)
        b->touched[p] = -1;
    play_once(b);
    if (b->work->places != NULL)
        play_once(b);
    return b->now_us;
}
