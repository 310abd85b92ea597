/* A plan told to those who predict it; see runtime/cuda_work.h. */
#include "runtime/cuda_work.h"

#include <stdlib.h>

#include "runtime/exec/cuda/gpu.h"
#include "runtime/exec/cuda/plan.h"
#include "runtime/status.h"

/* The work and its arrays, in one piece of memory each. */
struct whole {
    struct tutti_cuda_work work; /* first: what callers have */
    uint32_t *op_first;
    struct tutti_cuda_work_op *ops;
    struct tutti_cuda_work_flag *flags;
    uint32_t *places;
    uint32_t told_count; /* of places */
};

static uint32_t count_flags(const struct tutti_cuda_plan *plan)
{
    uint32_t count = plan->wait_count + plan->signal_count;

    for (uint32_t o = 0; o < plan->op_count; o++)
        count += plan->ops[o].src_count + (uint32_t)plan->ops[o].dst_count;
    return count;
}

/* A source or target, to be numbered. */
struct named {
    struct tutti_cuda_place place;
    uint32_t at; /* in `places` */
};

static int compare(const void *left, const void *right)
{
    const struct tutti_cuda_place *a = &((const struct named *)left)->place;
    const struct tutti_cuda_place *b = &((const struct named *)right)->place;

    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->buf != b->buf)
        return a->buf < b->buf ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

/* Equal places have equal numbers. */
static void number(struct named *named, uint32_t count, struct whole *whole)
{
    if (count > 0)
        qsort(named, count, sizeof(*named), compare);
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 && compare(&named[i - 1], &named[i]) != 0)
            whole->work.place_count++;
        whole->places[named[i].at] = whole->work.place_count;
    }
    whole->work.place_count += count > 0;
}

static void name(const struct tutti_cuda_place *place, struct named *named, uint32_t *count,
                 struct whole *whole)
{
    whole->places[whole->told_count] = TUTTI_CUDA_WORK_LINE;
    if (!tutti_cuda_is_line(place))
        named[(*count)++] = (struct named){*place, whole->told_count};
    whole->told_count++;
}

/* `count_max`: sources and targets of all operations. */
static int take_places(const struct tutti_cuda_plan *plan, uint32_t count_max, struct whole *whole,
                       struct tutti_err *err)
{
    struct named *named = calloc((size_t)count_max + 1, sizeof(*named));
    uint32_t count = 0;

    whole->places = calloc((size_t)count_max + 1, sizeof(*whole->places));
    if (named == NULL || whole->places == NULL) {
        free(named);
        return tutti_nomem(err);
    }
    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct tutti_cuda_planned_op *op = &plan->ops[o];

        whole->ops[o].place_first = whole->told_count;
        for (uint32_t s = 0; s < op->src_count; s++)
            name(&op->src[s], named, &count, whole);
        for (uint32_t d = 0; d < op->dst_count; d++)
            name(&op->dst[d], named, &count, whole);
    }
    number(named, count, whole);
    whole->work.places = whole->places;
    free(named);
    return 0;
}

static void add_flag(struct whole *whole, uint32_t counter, uint32_t value)
{
    whole->flags[whole->work.flag_count++] = (struct tutti_cuda_work_flag){counter, value};
}

static void take_op(const struct tutti_cuda_plan *plan, const struct tutti_cuda_planned_op *from,
                    struct whole *whole)
{
    struct tutti_cuda_work_op *op = &whole->ops[whole->work.op_count++];
    uint32_t lines = tutti_cuda_counter_count(plan);

    *op = (struct tutti_cuda_work_op){.bytes = from->bytes,
                                      .duration_ps = from->duration_ps,
                                      .src_count = from->src_count,
                                      .dst_count = from->dst_count};
    op->wait_first = whole->work.flag_count;
    for (uint32_t w = 0; w < from->wait_count; w++)
        add_flag(whole, plan->waits[from->wait_first + w].counter,
                 plan->waits[from->wait_first + w].value);
    for (uint32_t s = 0; s < from->src_count; s++) {
        if (!tutti_cuda_is_line(&from->src[s]))
            continue;
        add_flag(whole, lines + from->src[s].rank, 1);
        op->line_count++;
    }
    op->wait_count = whole->work.flag_count - op->wait_first;
    op->signal_first = whole->work.flag_count;
    for (uint32_t d = 0; d < from->dst_count; d++) {
        if (!tutti_cuda_is_line(&from->dst[d]))
            continue;
        add_flag(whole, lines + from->dst[d].rank, 1);
        op->line_count++;
    }
    for (uint32_t i = 0; i < from->signal_count; i++)
        add_flag(whole, plan->signals[from->signal_first + i].counter,
                 plan->signals[from->signal_first + i].value);
    op->signal_count = whole->work.flag_count - op->signal_first;
}

static void take_sizes(const struct tutti_cuda_plan *plan, struct tutti_cuda_work *work)
{
    for (uint32_t r = 0; r < plan->schedule->rank_count; r++) {
        struct tutti_buf_sizes sizes;

        tutti_schedule_buf_sizes(plan->schedule, r, &sizes);
        for (int b = TUTTI_BUF_IN; b < TUTTI_BUF_COUNT; b++)
            work->buffer_bytes += tutti_buf_size_of(&sizes, (enum tutti_buf)b);
    }
    work->moved_bytes = plan->moved_bytes;
    work->thread_count = tutti_gpu_threads_for(plan);
}

static int take(const struct tutti_cuda_plan *plan, struct tutti_cuda_work **ret,
                struct tutti_err *err)
{
    struct whole *whole = calloc(1, sizeof(*whole));

    if (whole == NULL)
        return tutti_nomem(err);
    whole->op_first = calloc((size_t)plan->lane_total + 1, sizeof(*whole->op_first));
    whole->ops = calloc((size_t)plan->op_count + 1, sizeof(*whole->ops));
    whole->flags = calloc((size_t)count_flags(plan) + 1, sizeof(*whole->flags));
    if (whole->op_first == NULL || whole->ops == NULL || whole->flags == NULL) {
        tutti_cuda_work_free(&whole->work);
        return tutti_nomem(err);
    }
    for (uint32_t l = 0; l <= plan->lane_total; l++)
        whole->op_first[l] = plan->op_first[l];
    for (uint32_t o = 0; o < plan->op_count; o++)
        take_op(plan, &plan->ops[o], whole);
    whole->work.lane_count = plan->lane_total;
    whole->work.line_first = tutti_cuda_counter_count(plan);
    whole->work.counter_count = whole->work.line_first + plan->message_count;
    whole->work.op_first = whole->op_first;
    whole->work.ops = whole->ops;
    whole->work.flags = whole->flags;
    take_sizes(plan, &whole->work);
    if (take_places(plan, count_flags(plan), whole, err) < 0) {
        tutti_cuda_work_free(&whole->work);
        return -TUTTI_ENOMEM;
    }
    *ret = &whole->work;
    return 0;
}

int tutti_cuda_work_new(const struct tutti_schedule *schedule, struct tutti_cuda_work **ret,
                        struct tutti_err *err)
{
    struct tutti_cuda_work *work = NULL;
    struct tutti_cuda_plan plan;
    int status = tutti_cuda_plan_open(&plan, schedule, TUTTI_CUDA_LINED, err);

    if (status < 0)
        return status;
    status = take(&plan, &work, err);
    tutti_cuda_plan_close(&plan);
    if (status == 0)
        status = tutti_cuda_weigh_graph(schedule, &work->graph_ps, err);
    if (status < 0) {
        tutti_cuda_work_free(work);
        return status;
    }
    *ret = work;
    return 0;
}

void tutti_cuda_work_free(struct tutti_cuda_work *work)
{
    struct whole *whole = (struct whole *)work;

    if (whole == NULL)
        return;
    free(whole->op_first);
    free(whole->ops);
    free(whole->flags);
    free(whole->places);
    free(whole);
}

void tutti_cuda_work_fit(struct tutti_cuda_work *work, uint32_t multiprocessor_count)
{
    enum { THREADS_RESIDENT = 512, THREADS_LEAST = 64 };

    while ((uint64_t)work->lane_count * work->thread_count >
               (uint64_t)multiprocessor_count * THREADS_RESIDENT &&
           work->thread_count / 2 >= THREADS_LEAST)
        work->thread_count = work->thread_count / 64 * 32;
}

int tutti_cuda_multiprocessors(uint32_t *ret, struct tutti_err *err)
{
    struct tutti_gpu gpu = {.device = 0};
    int status = tutti_gpu_open(&gpu, NULL, 0, err);

    if (status < 0)
        return status;
    *ret = (uint32_t)gpu.multiprocessor_count;
    tutti_gpu_close(&gpu);
    return 0;
}
