/* A step of training on GPUs, by streams and events; see streams.h. */
#include "runtime/exec/cuda/streams_state.h"

#include <stdlib.h>
#include <time.h>

#include "runtime/status.h"

#define CALL(GPU, FIELD, ...) \
    tutti_cuda_check(&(GPU)->driver, (GPU)->driver.FIELD(__VA_ARGS__), #FIELD, err)

static tutti_ps now_ps(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (tutti_ps)now.tv_sec * TUTTI_PS_PER_S + (tutti_ps)now.tv_nsec * 1000;
}

/* ---- memory, streams, events ----------------------------------------------------------------- */

enum { ALIGNMENT = 512 };

static int take_memory(struct tutti_streams *s, uint32_t own, struct tutti_err *err)
{
    struct tutti_streams_rank *r = &s->ranks[own];
    uint64_t at[TUTTI_BUF_COUNT] = {0};
    uint64_t bytes = 0;
    size_t left = 0;
    size_t total = 0;
    int status;

    for (int b = TUTTI_BUF_IN; b < TUTTI_BUF_COUNT; b++) {
        at[b] = bytes;
        bytes += (tutti_buf_size_of(&s->sizes, (enum tutti_buf)b) / ALIGNMENT + 1) * ALIGNMENT;
    }
    status = CALL(r->gpu, memory_info, &left, &total);
    if (status == 0 && bytes > left)
        status = tutti_fail(err, TUTTI_ELACK,
                            "a rank needs %.1f GiB on the GPU, and it has %.1f GiB left (fewer "
                            "ranks, or a smaller model)",
                            (double)bytes / 0x1p30, (double)left / 0x1p30);
    if (status == 0)
        status = CALL(r->gpu, alloc, &r->memory, (size_t)bytes);
    if (status == 0)
        status = tutti_gpu_fill(r->gpu, r->memory, 0, (size_t)bytes, err);
    for (int b = TUTTI_BUF_IN; b < TUTTI_BUF_COUNT; b++)
        s->addresses[b][s->opts.first_rank + own] = r->memory + at[b];
    return status;
}

/* For the host's work: the caller's, or zeros of our own. */
static int take_shadows(struct tutti_streams *s, uint32_t own, struct tutti_err *err)
{
    const struct tutti_play *p = &s->play;
    const uint32_t rank = s->opts.first_rank + own;
    struct tutti_streams_rank *r = &s->ranks[own];
    void *const given[TUTTI_BUF_COUNT] = {
        [TUTTI_BUF_IN] = p->in != NULL ? (void *)(uintptr_t)p->in[rank] : NULL,
        [TUTTI_BUF_OUT] = p->out != NULL ? p->out[rank] : NULL,
        [TUTTI_BUF_STATE] = p->state != NULL ? p->state[rank] : NULL};

    for (int b = TUTTI_BUF_IN; b < TUTTI_BUF_COUNT; b++) {
        r->lent[b] = given[b] != NULL;
        r->shadow[b] =
            r->lent[b] ? given[b] : calloc(tutti_buf_size_of(&s->sizes, (enum tutti_buf)b) + 1, 1);
        if (r->shadow[b] == NULL)
            return tutti_nomem(err);
    }
    return 0;
}

static int take_rank(struct tutti_streams *s, uint32_t own, struct tutti_err *err)
{
    const uint32_t lanes = s->play.schedule->lane_count;
    struct tutti_streams_rank *r = &s->ranks[own];
    int status;

    r->gpu = s->opts.gpus[own];
    r->first_of_gpu = true;
    for (uint32_t i = 0; i < own; i++)
        r->first_of_gpu = r->first_of_gpu && s->ranks[i].gpu != r->gpu;
    status = tutti_gpu_enter(r->gpu, err);
    if (status == 0)
        status = take_memory(s, own, err);
    if (status == 0 && s->staged)
        status = take_shadows(s, own, err);
    if (status == 0 && s->play.state != NULL) /* it stays there from step to step */
        status = tutti_gpu_upload(r->gpu, s->addresses[TUTTI_BUF_STATE][s->opts.first_rank + own],
                                  s->play.state[s->opts.first_rank + own],
                                  (size_t)s->sizes.state_bytes, err);
    r->lanes = calloc((size_t)lanes + 1, sizeof(r->lanes[0]));
    if (r->lanes == NULL)
        status = tutti_nomem(err);
    for (uint32_t l = 0; l < lanes && status == 0; l++) {
        status = tutti_cuda_queue_open(&r->lanes[l], r->gpu, &s->blas, err);
        r->lanes[l].look = s->opts.calls->look;
        r->lanes[l].look_context = s->opts.context;
    }
    return status;
}

static int take_events(struct tutti_streams *s, void ***ret, struct tutti_err *err)
{
    int status = 0;

    *ret = calloc((size_t)s->opts.own_count + 1, sizeof((*ret)[0]));
    if (*ret == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < s->opts.own_count && status == 0; i++) {
        struct tutti_gpu *gpu = s->ranks[i].gpu;

        status = tutti_gpu_enter(gpu, err);
        if (status == 0)
            status = CALL(gpu, event_create, &(*ret)[i], TUTTI_CU_EVENT_NO_TIMING);
    }
    return status;
}

static int take_entry(struct tutti_streams *s, struct tutti_streams_entry *e, struct tutti_err *err)
{
    const bool call = e->step.kind == TUTTI_CALL;
    int status = e->awaited || call ? take_events(s, &e->events, err) : 0;

    if (status == 0 && call)
        status = take_events(s, &e->ends, err);
    if (status == 0 && call)
        status = s->opts.calls->open(s->opts.context, s->play.schedule, &e->step, s->addresses,
                                     &e->call, err);
    return status;
}

static void free_events(struct tutti_streams *s, void **events)
{
    for (uint32_t i = 0; events != NULL && i < s->opts.own_count; i++) {
        struct tutti_gpu *gpu = s->ranks[i].gpu;

        if (events[i] != NULL && !gpu->lost && tutti_gpu_enter(gpu, NULL) == 0)
            (void)gpu->driver.event_destroy(events[i]);
    }
    free(events);
}

int tutti_streams_open(const struct tutti_play *play, const struct tutti_streams_opts *opts,
                       struct tutti_streams **ret, struct tutti_err *err)
{
    struct tutti_streams *s = calloc(1, sizeof(*s));
    int status = s == NULL ? tutti_nomem(err) : 0;

    if (status < 0)
        return status;
    s->play = *play;
    s->opts = *opts;
    tutti_schedule_buf_sizes(play->schedule, opts->first_rank, &s->sizes);
    s->ranks = calloc((size_t)opts->own_count + 1, sizeof(s->ranks[0]));
    if (s->ranks == NULL)
        status = tutti_nomem(err);
    for (int b = TUTTI_BUF_IN; b < TUTTI_BUF_COUNT; b++) {
        s->addresses[b] = calloc(play->schedule->rank_count, sizeof(s->addresses[b][0]));
        if (s->addresses[b] == NULL)
            status = tutti_nomem(err);
    }
    if (status == 0)
        status = tutti_streams_order(s, err);
    if (status == 0)
        status = tutti_cublas_open(&s->blas, opts->gpus[0]->driver.other, err);
    for (uint32_t i = 0; i < opts->own_count && status == 0; i++)
        status = take_rank(s, i, err);
    for (uint32_t i = 0; i < s->entry_count && status == 0; i++)
        status = take_entry(s, &s->entries[i], err);
    if (status == 0 && opts->recorded)
        status = tutti_streams_record_open(s, err);
    if (status < 0)
        tutti_streams_close(s);
    else
        *ret = s;
    return status;
}

/* What may still play is told to leave, and has left. */
static void leave(struct tutti_streams *s)
{
    if (s->opts.calls->leave != NULL)
        s->opts.calls->leave(s->opts.context);
    for (uint32_t i = 0; i < s->opts.own_count; i++)
        if (s->ranks[i].gpu != NULL && s->ranks[i].gpu->abort != NULL)
            __atomic_store_n(s->ranks[i].gpu->abort, 1, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < s->opts.own_count; i++) {
        struct tutti_streams_rank *r = &s->ranks[i];
        const tutti_ps since_ps = now_ps();

        for (uint32_t l = 0; r->lanes != NULL && l < s->play.schedule->lane_count; l++)
            while (!r->gpu->lost && r->lanes[l].stream != NULL &&
                   r->gpu->driver.stream_query(r->lanes[l].stream) == TUTTI_CU_NOT_READY)
                r->gpu->lost = now_ps() - since_ps > 10 * TUTTI_PS_PER_S;
        while (r->gpu != NULL && !r->gpu->lost &&
               r->gpu->driver.stream_query(r->gpu->stream) == TUTTI_CU_NOT_READY)
            r->gpu->lost = now_ps() - since_ps > 10 * TUTTI_PS_PER_S;
    }
    for (uint32_t i = 0; i < s->opts.own_count; i++)
        if (s->ranks[i].gpu != NULL && s->ranks[i].gpu->abort != NULL && !s->ranks[i].gpu->lost)
            __atomic_store_n(s->ranks[i].gpu->abort, 0, __ATOMIC_RELAXED);
}

void tutti_streams_close(struct tutti_streams *s)
{
    if (s == NULL)
        return;
    for (uint32_t i = 0; i < s->entry_count; i++) {
        if (s->entries[i].call != NULL)
            s->opts.calls->close(s->opts.context, s->entries[i].call);
        free_events(s, s->entries[i].events);
        free_events(s, s->entries[i].ends);
    }
    tutti_streams_record_close(s);
    for (uint32_t i = 0; s->ranks != NULL && i < s->opts.own_count; i++) {
        struct tutti_streams_rank *r = &s->ranks[i];

        for (uint32_t l = 0; r->lanes != NULL && l < s->play.schedule->lane_count; l++)
            tutti_cuda_queue_close(&r->lanes[l]);
        free(r->lanes);
        if (r->memory != 0 && !r->gpu->lost && tutti_gpu_enter(r->gpu, NULL) == 0)
            (void)r->gpu->driver.free(r->memory);
        for (int b = 0; b < TUTTI_BUF_COUNT; b++)
            if (!r->lent[b])
                free(r->shadow[b]);
    }
    tutti_cublas_close(&s->blas);
    for (int b = 0; b < TUTTI_BUF_COUNT; b++)
        free(s->addresses[b]);
    free(s->entries);
    free(s->ranks);
    free(s);
}

/* ---- work ------------------------------------------------------------------------------------ */

static void *device_at(const struct tutti_streams *s, int buf, uint32_t rank)
{
    return (void *)(uintptr_t)s->addresses[buf][rank];
}

/* Regions that the work reads and writes come to the host; those that it writes go back. */
static int move(struct tutti_streams *s, uint32_t own, struct tutti_cuda_queue *queue,
                const struct tutti_work_call *call, bool back, struct tutti_err *err)
{
    const struct tutti_work *work = call->work;
    const uint32_t count = back ? work->write_count : work->read_count + work->write_count;
    struct tutti_device_queue *q = &queue->base;
    int status = 0;

    for (uint32_t i = 0; i < count && status == 0; i++) {
        const bool reads = !back && i < work->read_count;
        const struct tutti_region *region =
            reads ? &work->reads[i] : &work->writes[back ? i : i - work->read_count];
        const struct tutti_region at = tutti_region_at(region, call->step);
        char *here = (char *)s->ranks[own].shadow[at.buf] + at.offset;
        char *there = (char *)device_at(s, at.buf, call->rank) + at.offset;

        status = back ? q->ops->upload(q, there, here, at.bytes, err)
                      : q->ops->download(q, here, there, at.bytes, err);
    }
    return status;
}

static int run_here(struct tutti_streams *s, uint32_t own, struct tutti_cuda_queue *queue,
                    struct tutti_work_call *call, struct tutti_err *err)
{
    void *const *shadow = s->ranks[own].shadow;
    int status = move(s, own, queue, call, false, err);

    call->in = shadow[TUTTI_BUF_IN];
    call->out = shadow[TUTTI_BUF_OUT];
    call->scratch = shadow[TUTTI_BUF_SCRATCH];
    call->state = shadow[TUTTI_BUF_STATE];
    if (status == 0)
        status = tutti_cuda_queue_wait(queue, err);
    if (status == 0)
        status = call->work->run(call, err);
    return status < 0 ? status : move(s, own, queue, call, true, err);
}

static int run_there(struct tutti_streams *s, struct tutti_cuda_queue *queue,
                     struct tutti_work_call *call, struct tutti_err *err)
{
    call->in = device_at(s, TUTTI_BUF_IN, call->rank);
    call->out = device_at(s, TUTTI_BUF_OUT, call->rank);
    call->scratch = device_at(s, TUTTI_BUF_SCRATCH, call->rank);
    call->state = device_at(s, TUTTI_BUF_STATE, call->rank);
    call->queue = &queue->base;
    return call->work->run(call, err);
}

static int compute(struct tutti_streams *s, const struct tutti_streams_entry *e, uint32_t own,
                   struct tutti_err *err)
{
    struct tutti_cuda_queue *queue = &s->ranks[own].lanes[e->lane];
    struct tutti_work_call call = {
        .step = &e->step, .rank = s->opts.first_rank + own, .iteration = s->played_count};
    int status;

    if (e->step.peer == 0)
        return 0;
    call.work = &s->play.schedule->work[e->step.peer - 1];
    if (call.work->run == NULL)
        return 0;
    status =
        call.work->queued ? run_there(s, queue, &call, err) : run_here(s, own, queue, &call, err);
    return status < 0 ? tutti_wrap(err, status, "rank %u, lane %u, work '%s'", call.rank, e->lane,
                                   call.work->name)
                      : 0;
}

static int copy(struct tutti_streams *s, const struct tutti_streams_entry *e, uint32_t own,
                struct tutti_err *err)
{
    const uint32_t rank = s->opts.first_rank + own;
    struct tutti_device_queue *q = &s->ranks[own].lanes[e->lane].base;

    if (e->step.bytes == 0)
        return 0;
    return q->ops->copy(q, (char *)device_at(s, e->step.dst_buf, rank) + e->step.dst_offset,
                        (char *)device_at(s, e->step.src_buf, rank) + e->step.src_offset,
                        e->step.bytes, err);
}

/* ---- the order of things --------------------------------------------------------------------- */

/* `stream` of a GPU goes on once the event is over. */
static int wait_for(struct tutti_gpu *gpu, void *stream, void *event, struct tutti_err *err)
{
    return CALL(gpu, stream_wait, stream, event, 0);
}

static int mark(struct tutti_gpu *gpu, void *event, void *stream, struct tutti_err *err)
{
    return CALL(gpu, event_record, event, stream);
}

static int begin(struct tutti_streams *s, const struct tutti_streams_entry *e, uint32_t own,
                 struct tutti_err *err)
{
    struct tutti_streams_rank *r = &s->ranks[own];
    int status = tutti_gpu_enter(r->gpu, err);

    if (status == 0 && e->dependency != UINT32_MAX)
        status =
            wait_for(r->gpu, r->lanes[e->lane].stream, s->entries[e->dependency].events[own], err);
    return status < 0 ? status : tutti_streams_record_mark(s, e, own, false, err);
}

/* All lanes that call have come to it, then it is played, then they go on. */
static int put_call(struct tutti_streams *s, struct tutti_streams_entry *e, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < s->opts.own_count && status == 0; i++) {
        struct tutti_streams_rank *r = &s->ranks[i];

        status = begin(s, e, i, err);
        if (status == 0)
            status = mark(r->gpu, e->events[i], r->lanes[e->lane].stream, err);
        if (status == 0)
            status = wait_for(r->gpu, r->gpu->stream, e->events[i], err);
    }
    if (status == 0)
        status = s->opts.calls->start(s->opts.context, e->call, err);
    for (uint32_t i = 0; i < s->opts.own_count && status == 0; i++) {
        struct tutti_streams_rank *r = &s->ranks[i];

        status = tutti_gpu_enter(r->gpu, err);
        if (status == 0)
            status = mark(r->gpu, e->ends[i], r->gpu->stream, err);
        if (status == 0)
            status = wait_for(r->gpu, r->lanes[e->lane].stream, e->ends[i], err);
        if (status == 0)
            status = tutti_streams_record_mark(s, e, i, true, err);
        if (status == 0 && e->awaited)
            status = mark(r->gpu, e->events[i], r->lanes[e->lane].stream, err);
    }
    return status;
}

static int put(struct tutti_streams *s, struct tutti_streams_entry *e, struct tutti_err *err)
{
    int status = 0;

    if (e->step.kind == TUTTI_CALL)
        return put_call(s, e, err);
    for (uint32_t i = 0; i < s->opts.own_count && status == 0; i++) {
        status = begin(s, e, i, err);
        if (status == 0)
            status = e->step.kind == TUTTI_COMPUTE ? compute(s, e, i, err) : copy(s, e, i, err);
        if (status == 0)
            status = tutti_gpu_enter(s->ranks[i].gpu, err);
        if (status == 0)
            status = tutti_streams_record_mark(s, e, i, true, err);
        if (status == 0 && e->awaited)
            status = mark(s->ranks[i].gpu, e->events[i], s->ranks[i].lanes[e->lane].stream, err);
    }
    return status;
}

static int wait_for_all(struct tutti_streams *s, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < s->opts.own_count && status == 0; i++) {
        struct tutti_streams_rank *r = &s->ranks[i];

        for (uint32_t l = 0; l < s->play.schedule->lane_count && status == 0; l++)
            status = tutti_cuda_queue_wait(&r->lanes[l], err);
        if (status == 0 && r->first_of_gpu)
            status = tutti_gpu_wait(r->gpu, NULL, 600 * TUTTI_PS_PER_S, err);
    }
    return status;
}

static int verdicts(struct tutti_streams *s, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < s->entry_count && status == 0; i++)
        if (s->entries[i].call != NULL && s->opts.calls->verdict != NULL)
            status = s->opts.calls->verdict(s->opts.context, s->entries[i].call, err);
    return status;
}

/* Outputs and state, where the host works on them: there before the step, and back after it. */
static int exchange(struct tutti_streams *s, bool back, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < s->opts.own_count && s->staged && status == 0; i++) {
        struct tutti_streams_rank *r = &s->ranks[i];

        for (int b = TUTTI_BUF_IN; b < TUTTI_BUF_COUNT && status == 0; b++) {
            const uint64_t bytes = tutti_buf_size_of(&s->sizes, (enum tutti_buf)b);
            const uint64_t at = s->addresses[b][s->opts.first_rank + i];

            if (!r->lent[b] || bytes == 0 || (back && b == TUTTI_BUF_IN))
                continue;
            status = tutti_gpu_enter(r->gpu, err);
            if (status == 0)
                status = back ? tutti_gpu_download(r->gpu, r->shadow[b], at, (size_t)bytes, err)
                              : tutti_gpu_upload(r->gpu, at, r->shadow[b], (size_t)bytes, err);
        }
    }
    return status;
}

/* What was put in takes at least `put_ps` of the step, which is the host's. */
static int step(struct tutti_streams *s, tutti_ps *ret_took_ps, tutti_ps *ret_put_ps,
                struct tutti_err *err)
{
    const tutti_ps since_ps = now_ps();
    int status = s->recording ? tutti_streams_record_begin(s, err) : 0;

    for (uint32_t i = 0; i < s->entry_count && status == 0; i++)
        status = put(s, &s->entries[i], err);
    *ret_put_ps = now_ps() - since_ps;
    if (status == 0)
        status = wait_for_all(s, err);
    *ret_took_ps = s->took_ps = now_ps() - since_ps;
    /* A wait that was given up has taken as long as the deadline. */
    if (status == 0 && *ret_took_ps >= s->opts.deadline_ps)
        status = verdicts(s, err);
    s->played_count++;
    return status;
}

int tutti_streams_step(struct tutti_streams *s, uint32_t iteration_count, struct tutti_played *ret,
                       struct tutti_err *err)
{
    struct tutti_played played = {.step_count = tutti_streams_step_count(s)};
    int status = exchange(s, false, err);

    for (uint32_t i = 0; i < iteration_count && status == 0; i++) {
        tutti_ps took_ps = 0;
        tutti_ps put_ps = 0;

        s->recording = s->opts.recorded && i + 1 == iteration_count;
        status = step(s, &took_ps, &put_ps, err);
        played.total_ps += took_ps;
        played.host_ps += put_ps / iteration_count;
        played.best_ps = i == 0 || took_ps < played.best_ps ? took_ps : played.best_ps;
    }
    played.median_ps = played.total_ps / iteration_count;
    if (status == 0)
        status = exchange(s, true, err);
    if (status < 0) {
        leave(s);
        return status;
    }
    *ret = played;
    return 0;
}

uint64_t tutti_streams_step_count(const struct tutti_streams *s)
{
    return (uint64_t)s->entry_count * s->opts.own_count;
}
