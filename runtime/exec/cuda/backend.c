/* The backend `cuda`: plans a schedule, loads it onto the GPU, plays it and takes times. */
#include <assert.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/cuda.h"
#include "runtime/cuda_work.h"
#include "runtime/exec/cuda/opened.h"
#include "runtime/record.h"
#include "runtime/status.h"

/* A run that is held open. */
struct cuda_run {
    struct tutti_cuda_backend *backend;
    struct tutti_play play;
    tutti_ps deadline_ps;
    struct tutti_cuda_plan plan;
    struct tutti_gpus_load load;
    uint64_t played_count; /* iterations, warm-ups included */
    tutti_ps *times_ps;    /* of a step: [time_capacity] */
    uint32_t time_capacity;
    tutti_ps took_ps; /* from before the last launch until its end was seen, if nothing was
                           launched before; else 0 */
    tutti_ps record_error_ps;
    tutti_ps launch_ps; /* what the host took for the last launch */
};

/* One step of it. */
struct stepping {
    struct cuda_run *run;
    uint32_t warmup_count;
    uint32_t iteration_count;
    uint32_t timed_count; /* fewer if a hook has had enough */
    tutti_ps total_ps;
    tutti_ps host_ps; /* for the launches of those that are timed */
};

static tutti_ps now_ps(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (tutti_ps)now.tv_sec * TUTTI_PS_PER_S + (tutti_ps)now.tv_nsec * 1000;
}

/* Much longer than any kernel that keeps its deadlines takes. */
static tutti_ps limit_of(const struct cuda_run *run)
{
    return run->deadline_ps > INT64_MAX / 4 ? INT64_MAX / 2
                                            : 2 * run->deadline_ps + 600 * TUTTI_PS_PER_S;
}

static int play_and_wait(struct cuda_run *run, uint32_t iteration_count, bool stamped,
                         struct tutti_err *err)
{
    tutti_ps since_ps = now_ps();
    int status = tutti_gpus_launch(&run->load, iteration_count, stamped, err);

    run->launch_ps = now_ps() - since_ps;
    return status < 0 ? status : tutti_gpus_wait(&run->load, limit_of(run), err);
}

static void add_time(struct stepping *stepping, tutti_ps took_ps)
{
    stepping->run->times_ps[stepping->timed_count++] = took_ps;
    stepping->total_ps += took_ps;
}

/* ---- data ---- */

/* The caller's buffer of a rank, or NULL. */
static void *buffer_of(const struct cuda_run *run, enum tutti_buf buf, uint32_t rank)
{
    const struct tutti_play *play = &run->play;

    if (buf == TUTTI_BUF_IN)
        return play->in == NULL ? NULL : (void *)(uintptr_t)play->in[rank];
    if (buf == TUTTI_BUF_OUT)
        return play->out == NULL ? NULL : play->out[rank];
    return play->state == NULL ? NULL : play->state[rank];
}

static uint64_t bytes_of(const struct cuda_run *run, enum tutti_buf buf, uint32_t rank)
{
    struct tutti_buf_sizes sizes;

    tutti_schedule_buf_sizes(run->play.schedule, rank, &sizes);
    return tutti_buf_size_of(&sizes, buf);
}

/* Outputs too: a schedule need not write all of them. */
static int upload(struct cuda_run *run, struct tutti_err *err)
{
    static const enum tutti_buf bufs[] = {TUTTI_BUF_IN, TUTTI_BUF_OUT, TUTTI_BUF_STATE};
    int status = 0;

    for (size_t b = 0; b < sizeof(bufs) / sizeof(bufs[0]); b++) {
        for (uint32_t r = 0; r < run->play.schedule->rank_count && status == 0; r++) {
            const void *from = buffer_of(run, bufs[b], r);
            struct tutti_gpu_load *load;

            if (from == NULL)
                continue;
            status = tutti_gpus_load_of(&run->load, r, &load, err);
            if (status == 0)
                status = tutti_gpu_upload(load->gpu, load->addresses[bufs[b]][r], from,
                                          (size_t)bytes_of(run, bufs[b], r), err);
        }
    }
    return status;
}

static int download(struct cuda_run *run, struct tutti_err *err)
{
    static const enum tutti_buf bufs[] = {TUTTI_BUF_OUT, TUTTI_BUF_STATE};
    int status = 0;

    for (size_t b = 0; b < sizeof(bufs) / sizeof(bufs[0]); b++) {
        for (uint32_t r = 0; r < run->play.schedule->rank_count && status == 0; r++) {
            void *to = buffer_of(run, bufs[b], r);
            struct tutti_gpu_load *load;

            if (to == NULL)
                continue;
            status = tutti_gpus_load_of(&run->load, r, &load, err);
            if (status == 0)
                status = tutti_gpu_download(load->gpu, to, load->addresses[bufs[b]][r],
                                            (size_t)bytes_of(run, bufs[b], r), err);
        }
    }
    return status;
}

/* ---- the three ways to play and to take times; see runtime/cuda.h ---- */

/* The hook sees the buffers, and may change them; > 0: enough. */
static int call_hook(struct cuda_run *run, struct tutti_err *err)
{
    int status = tutti_gpus_verdict(&run->load, run->deadline_ps, err);
    int wish;

    if (status == 0)
        status = download(run, err);
    if (status < 0)
        return status;
    wish = run->play.between(run->play.between_context, run->played_count, err);
    if (wish != 0)
        return wish;
    return upload(run, err);
}

/* A launch an iteration, each timed by the host until its end is seen. */
static int play_apart(struct stepping *stepping, struct tutti_err *err)
{
    struct cuda_run *run = stepping->run;
    uint32_t count = stepping->warmup_count + stepping->iteration_count;
    int status = 0;

    for (uint32_t i = 0; i < count && status == 0; i++) {
        bool last = i + 1 == count;
        tutti_ps since_ps = now_ps();

        status = play_and_wait(
            run, 1, run->play.record != NULL && (last || run->play.between != NULL), err);
        run->played_count++;
        run->took_ps = now_ps() - since_ps;
        if (status == 0 && i >= stepping->warmup_count) {
            add_time(stepping, run->took_ps);
            stepping->host_ps += run->launch_ps;
        }
        if (status == 0 && run->play.between != NULL && !last)
            status = call_hook(run, err);
    }
    return status;
}

/* A launch behind the other, all of them timed by the GPU. */
static int play_in_a_row(struct stepping *stepping, struct tutti_err *err)
{
    struct cuda_run *run = stepping->run;
    uint32_t count = stepping->iteration_count;
    tutti_ps since_ps;
    float took_ms = 0;
    int status = 0;

    for (uint32_t i = 0; i < stepping->warmup_count && status == 0; i++)
        status = tutti_gpus_launch(&run->load, 1, false, err);
    if (status == 0)
        status = tutti_gpus_record(&run->load, true, err);
    since_ps = now_ps();
    for (uint32_t i = 0; i < count && status == 0; i++)
        status = tutti_gpus_launch(&run->load, 1, run->play.record != NULL && i + 1 == count, err);
    stepping->host_ps = now_ps() - since_ps;
    if (status == 0)
        status = tutti_gpus_record(&run->load, false, err);
    if (status == 0)
        status = tutti_gpus_wait(&run->load, limit_of(run), err);
    if (status == 0)
        status = tutti_gpus_elapsed(&run->load, &took_ms, err);
    run->played_count += stepping->warmup_count + count;
    for (uint32_t i = 0; i < count && status == 0; i++)
        add_time(stepping, (tutti_ps)((double)took_ms * 1e9 / count));
    return status;
}

/* One launch; a block writes down when all have met. */
static int play_at_once(struct stepping *stepping, struct tutti_err *err)
{
    struct cuda_run *run = stepping->run;
    uint32_t count = stepping->warmup_count + stepping->iteration_count;
    uint64_t *met_ns = calloc((size_t)count + 1, sizeof(*met_ns));
    int status =
        met_ns == NULL ? tutti_nomem(err) : tutti_gpus_load_meetings(&run->load, count + 1, err);

    if (status == 0)
        status = play_and_wait(run, count, run->play.record != NULL, err);
    stepping->host_ps = run->launch_ps * stepping->iteration_count / count;
    if (status == 0)
        status = tutti_gpus_enter(&run->load, 0, err);
    if (status == 0)
        status = tutti_gpu_download(run->load.loads[0].gpu, met_ns, run->load.loads[0].meetings,
                                    ((size_t)count + 1) * sizeof(*met_ns), err);
    run->played_count += count;
    for (uint32_t i = stepping->warmup_count; i < count && status == 0; i++)
        add_time(stepping, (tutti_ps)(met_ns[i + 1] - met_ns[i]) * 1000);
    free(met_ns);
    return status;
}

/* ---- the record ---- */

/* The times of each step are those of its operation; a SEND ends when its message is taken. */
static void time_steps(const struct tutti_cuda_plan *plan, const struct tutti_cuda_stamp *stamps,
                       struct tutti_cuda_stamp *steps)
{
    for (uint32_t l = 0; l < plan->lane_total; l++)
        for (uint32_t i = plan->op_first[l]; i < plan->op_first[l + 1]; i++)
            for (uint32_t s = plan->ops[i].step_first; s < plan->ops[i].step_end; s++)
                steps[plan->step_first[l] + s] = stamps[i];
    for (uint32_t m = 0; m < plan->message_count; m++) {
        const struct tutti_cuda_message *message = &plan->messages[m];

        if (steps[message->send].end_ns < steps[message->recv].end_ns)
            steps[message->send].end_ns = steps[message->recv].end_ns;
    }
}

/* On the host's clock, where one iteration was launched alone; else from the first step on. */
static int add_events(struct cuda_run *run, const struct tutti_cuda_stamp *steps,
                      struct tutti_record *record, struct tutti_err *err)
{
    const struct tutti_cuda_plan *plan = &run->plan;
    uint64_t first_ns = UINT64_MAX;
    uint64_t last_ns = 0;
    tutti_ps later_ps = 0;

    for (uint32_t s = 0; s < plan->program.step_count; s++) {
        first_ns = steps[s].begin_ns < first_ns ? steps[s].begin_ns : first_ns;
        last_ns = steps[s].end_ns > last_ns ? steps[s].end_ns : last_ns;
    }
    if (run->took_ps > 0 && last_ns >= first_ns)
        tutti_gpu_place_times((tutti_ps)(last_ns - first_ns) * TUTTI_PS_PER_NS, run->took_ps,
                              &later_ps, &run->record_error_ps);
    for (uint32_t l = 0; l < plan->lane_total; l++) {
        for (uint32_t s = 0; s < plan->program.lanes[l].step_count; s++) {
            const struct tutti_step *step = tutti_cuda_step(plan, l, s);
            const struct tutti_cuda_stamp *stamp = &steps[plan->step_first[l] + s];
            bool peered = step->kind == TUTTI_SEND || step->kind == TUTTI_RECV;
            struct tutti_event event = {
                .start_ps = later_ps + (tutti_ps)(stamp->begin_ns - first_ns) * 1000,
                .end_ps = later_ps + (tutti_ps)(stamp->end_ns - first_ns) * 1000,
                .rank = l / plan->schedule->lane_count,
                .lane = (uint16_t)(l % plan->schedule->lane_count),
                .kind = step->kind,
                .peer = peered ? step->peer : 0,
                .step = s,
                .bytes = step->kind == TUTTI_COMPUTE ? 0 : step->bytes,
            };

            if (tutti_record_add(record, &event) != 0)
                return tutti_nomem(err);
        }
    }
    tutti_record_sort(record);
    return 0;
}

/* Of operations, which a graph plays in pieces. */
static int take_pieces(struct tutti_gpu_load *load, struct tutti_cuda_stamp *stamps,
                       struct tutti_err *err)
{
    uint32_t count = load->graph.piece_count;
    struct tutti_cuda_stamp *pieces = calloc((size_t)count + 1, sizeof(*pieces));
    int status = pieces == NULL ? tutti_nomem(err)
                                : tutti_gpu_download(load->gpu, pieces, load->stamps,
                                                     count * sizeof(*pieces), err);

    if (status == 0)
        tutti_gpu_graph_stamps(load, pieces, stamps);
    free(pieces);
    return status;
}

/* All by the clock of the first GPU. */
static int take_stamps(struct cuda_run *run, struct tutti_cuda_stamp *stamps, struct tutti_err *err)
{
    int status = 0;

    if (run->load.loads[0].by_levels)
        return take_pieces(&run->load.loads[0], stamps, err);
    for (uint32_t g = 0; g < run->load.count && status == 0; g++) {
        struct tutti_gpu_load *load = &run->load.loads[g];
        struct tutti_cuda_stamp *own = stamps + load->part.op_first;
        int64_t behind_ns = 0;

        if (run->load.count > 1)
            status = tutti_gpus_clock(&run->load, g, &behind_ns, err);
        if (status == 0)
            status = tutti_gpu_download(load->gpu, own, load->stamps,
                                        load->part.op_count * sizeof(*own), err);
        for (uint32_t i = 0; i < load->part.op_count && g > 0; i++) {
            own[i].begin_ns += (uint64_t)behind_ns;
            own[i].end_ns += (uint64_t)behind_ns;
        }
    }
    return status;
}

/* Of the last iteration. */
static int take_record(struct cuda_run *run, struct tutti_err *err)
{
    const struct tutti_cuda_plan *plan = &run->plan;
    struct tutti_record *record = run->play.record;
    struct tutti_cuda_stamp *steps;
    struct tutti_cuda_stamp *stamps;
    int status = 0;

    if (record == NULL)
        return 0;
    tutti_record_clear(record);
    stamps = calloc((size_t)plan->op_count + 1, sizeof(*stamps));
    steps = calloc((size_t)plan->program.step_count + 1, sizeof(*steps));
    if (stamps == NULL || steps == NULL)
        status = tutti_nomem(err);
    if (status == 0)
        status = take_stamps(run, stamps, err);
    if (status == 0) {
        time_steps(plan, stamps, steps);
        status = add_events(run, steps, record, err);
    }
    free(stamps);
    free(steps);
    return status;
}

/* ---- runs ---- */

static int by_time(const void *left, const void *right)
{
    tutti_ps a = *(const tutti_ps *)left;
    tutti_ps b = *(const tutti_ps *)right;

    return (a > b) - (a < b);
}

static struct tutti_played sum_up(const struct stepping *stepping)
{
    struct cuda_run *run = stepping->run;
    uint32_t count = stepping->timed_count;

    qsort(run->times_ps, count, sizeof(run->times_ps[0]), by_time);
    return (struct tutti_played){
        .total_ps = stepping->total_ps,
        .best_ps = count > 0 ? run->times_ps[0] : 0,
        .median_ps = count > 0 ? run->times_ps[count / 2] : 0,
        .step_count = run->plan.program.step_count,
        .record_error_ps = run->record_error_ps,
        .host_ps = count > 0 ? stepping->host_ps / count : 0,
    };
}

static void close_run(void *data)
{
    struct cuda_run *run = data;

    tutti_gpus_load_close(&run->load);
    tutti_cuda_plan_close(&run->plan);
    free(run->times_ps);
    free(run);
}

/* A block a lane where all of them fit, unless asked otherwise or a kernel a level is faster; else
 * that, for which lines are of no use. Work of the host's, and several GPUs, need lanes. */
static int plan_run(struct cuda_run *run, bool *ret_by_levels, struct tutti_err *err)
{
    const struct tutti_cuda_opts *opts = &run->backend->opts;
    struct tutti_gpus *gpus = &run->backend->gpus;
    struct tutti_cuda_spread spread;
    int64_t longer_ps = 0; /* as a graph */
    bool fits = true;
    int status = tutti_gpus_spread(gpus, run->play.schedule->rank_count, &spread, err);

    if (status == 0)
        status = tutti_gpu_enter(&gpus->gpus[0], err);
    if (status == 0)
        status =
            tutti_cuda_plan_spread(&run->plan, run->play.schedule, TUTTI_CUDA_LINED, &spread, err);
    if (status < 0 || run->plan.asks || opts->graph == TUTTI_CUDA_GRAPH_NEVER)
        return status;
    if (opts->graph == TUTTI_CUDA_GRAPH_AUTO && spread.gpu_count == 1)
        status = tutti_gpu_fits(&gpus->gpus[0], &run->plan, opts->thread_count, &fits, err);
    if (status == 0 && fits && !opts->persistent && spread.gpu_count == 1)
        status = tutti_cuda_weigh_graph(run->play.schedule, &longer_ps, err);
    if (status < 0 || (fits && longer_ps >= 0 && opts->graph == TUTTI_CUDA_GRAPH_AUTO))
        return status;
    tutti_cuda_plan_close(&run->plan);
    *ret_by_levels = true;
    return tutti_cuda_plan_spread(&run->plan, run->play.schedule, TUTTI_CUDA_JOINED, &spread, err);
}

/* Where the host's work finds its bytes. */
static int lend(struct cuda_run *run, struct tutti_err *err)
{
    void *const *bufs[TUTTI_BUF_COUNT] = {[TUTTI_BUF_IN] = (void *const *)run->play.in,
                                          [TUTTI_BUF_OUT] = run->play.out,
                                          [TUTTI_BUF_STATE] = run->play.state};

    int status = 0;

    for (uint32_t g = 0; g < run->load.count && status == 0; g++)
        status = tutti_gpu_work_lend(&run->load.loads[g], bufs, err);
    return status;
}

/* Buffers begin as zeros. */
static int clear(struct cuda_run *run, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t g = 0; g < run->load.count && status == 0; g++) {
        struct tutti_gpu_load *load = &run->load.loads[g];

        status = tutti_gpus_enter(&run->load, g, err);
        if (status == 0)
            status = tutti_gpu_fill(load->gpu, load->memory, 0, (size_t)load->buffer_bytes, err);
        load->args.deadline_ns = (uint64_t)run->deadline_ps / 1000;
    }
    return status;
}

static int open_run(struct tutti_backend *base, const struct tutti_play *play, void **ret,
                    struct tutti_err *err)
{
    struct tutti_cuda_backend *backend = (struct tutti_cuda_backend *)base;
    struct cuda_run *run = calloc(1, sizeof(*run));
    bool by_levels = false;
    int status;

    if (run == NULL)
        return tutti_nomem(err);
    run->backend = backend;
    run->play = *play;
    run->deadline_ps = play->deadline_ps > 0 ? play->deadline_ps : 30 * TUTTI_PS_PER_S;
    status = plan_run(run, &by_levels, err);
    if (status == 0)
        status = tutti_gpus_load_open(
            &run->load, &backend->gpus, &run->plan,
            &(struct tutti_gpus_way){.by_levels = by_levels,
                                     .thread_count = backend->opts.thread_count,
                                     .stamped = play->record != NULL},
            err);
    if (status == 0)
        status = lend(run, err);
    if (status == 0)
        status = clear(run, err);
    if (status < 0) {
        close_run(run);
        return status;
    }
    *ret = run;
    return 0;
}

/* Room for the times of a step. */
static int grow_times(struct cuda_run *run, uint32_t count, struct tutti_err *err)
{
    tutti_ps *larger;

    if (count <= run->time_capacity)
        return 0;
    larger = realloc(run->times_ps, count * sizeof(*larger));
    if (larger == NULL)
        return tutti_nomem(err);
    run->times_ps = larger;
    run->time_capacity = count;
    return 0;
}

static int play(struct stepping *stepping, struct tutti_err *err)
{
    const struct cuda_run *run = stepping->run;
    bool persistent = run->backend->opts.persistent && !run->load.loads[0].by_levels;

    /* One iteration alone meets nobody: it is timed as a launch. */
    if (persistent && run->play.between == NULL &&
        stepping->warmup_count + stepping->iteration_count > 1)
        return play_at_once(stepping, err);
    /* A driver that has its fill of launches would not return to do the host's work. */
    if (persistent || run->play.barrier || run->play.between != NULL || run->plan.asks)
        return play_apart(stepping, err);
    return play_in_a_row(stepping, err);
}

static int step_run(void *data, uint32_t warmup_count, uint32_t iteration_count,
                    struct tutti_played *ret, struct tutti_err *err)
{
    struct cuda_run *run = data;
    struct stepping stepping = {
        .run = run, .warmup_count = warmup_count, .iteration_count = iteration_count};
    int status = tutti_gpu_enter(&run->backend->gpus.gpus[0], err);
    int enough;

    run->took_ps = run->record_error_ps = 0;
    if (status == 0)
        status = grow_times(run, iteration_count, err);
    if (status == 0)
        status = upload(run, err);
    if (status < 0)
        return status;
    enough = play(&stepping, err);
    if (enough < 0) {
        tutti_gpus_leave(&run->load);
        return enough;
    }
    status = tutti_gpus_verdict(&run->load, run->deadline_ps, err);
    if (status == 0)
        status = take_record(run, err);
    if (status == 0 && enough == 0) /* else the hook has them, and may have changed them */
        status = download(run, err);
    if (status < 0)
        return status;
    *ret = sum_up(&stepping);
    return enough > 0;
}

const struct tutti_backend_ops tutti_cuda_ops = {
    .size = sizeof(struct tutti_backend_ops),
    .name = "cuda",
    .close = tutti_cuda_close,
    .open_run = open_run,
    .step_run = step_run,
    .close_run = close_run,
};
