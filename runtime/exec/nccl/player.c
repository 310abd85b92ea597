/* The player of the backend `nccl`; see runtime/nccl.h, and runtime/exec/run/player.h for what a
 * player is. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/exec/nccl/ranks.h"
#include "runtime/exec/nccl/streams.h"
#include "runtime/group.h"
#include "runtime/record.h"

enum { STEPS_MAX = 1 << 22 };

#define CALL(GPU, FIELD, ...) \
    tutti_cuda_check(&(GPU)->driver, (GPU)->driver.FIELD(__VA_ARGS__), #FIELD, err)

/* ---- a run ---- */

static int load_program(struct tutti_nccl_loaded *run, struct tutti_err *err)
{
    const struct tutti_load *load = &run->load;
    int status = tutti_program_open(&run->program, load->schedule, load->first_rank,
                                    load->own_count, STEPS_MAX * sizeof(struct tutti_step), err);

    if (status < 0)
        return status;
    if (run->program.step_count > 0 && run->program.stored == NULL)
        return tutti_fail(err, TUTTI_ELACK,
                          "the ranks here have %llu steps of the schedule '%s', and the backend "
                          "'nccl' plays %d at most (larger chunks, or fewer channels)",
                          (unsigned long long)run->program.step_count, load->schedule->name,
                          STEPS_MAX);
    return tutti_levels_open(&run->levels, load->schedule, err);
}

static void nccl_unload(void *data)
{
    struct tutti_nccl_loaded *run = data;

    if (run == NULL)
        return;
    tutti_nccl_parts_close(run);
    tutti_levels_close(&run->levels);
    tutti_program_close(&run->program);
    (void)pthread_mutex_destroy(&run->lock);
    free(run->took_ps);
    free(run);
}

static int nccl_load(struct tutti_player *player, const struct tutti_load *load, void **ret,
                     struct tutti_err *err)
{
    struct tutti_nccl_loaded *run = calloc(1, sizeof(*run));
    int status = 0;

    if (run == NULL)
        return tutti_nomem(err);
    run->player = (struct tutti_nccl_player *)player;
    run->load = *load;
    (void)pthread_mutex_init(&run->lock, NULL);
    if (load->lead_ps > 0 && load->group->count > 1)
        status = tutti_fail(err, TUTTI_ELACK, "the backend 'nccl' begins without a lead");
    if (status == 0)
        status =
            run->player->opts.native ? tutti_nccl_native_check(run, err) : load_program(run, err);
    if (status == 0)
        status = tutti_nccl_ranks_open(run->player, load, err);
    if (status == 0)
        status = tutti_nccl_parts_open(run, err);
    if (status < 0) {
        nccl_unload(run);
        return status;
    }
    *ret = run;
    return 0;
}

static int nccl_connect(void *data, struct tutti_err *err)
{
    return tutti_nccl_connect(data, err);
}

void tutti_nccl_give_up(struct tutti_nccl_loaded *run, int status, const struct tutti_err *err)
{
    struct tutti_nccl_player *player = run->player;

    tutti_nccl_abort(player);
    for (uint32_t i = 0; i < player->own_count; i++)
        if (tutti_gpu_enter(&player->ranks[i].gpu, NULL) == 0)
            (void)tutti_gpu_wait(&player->ranks[i].gpu, NULL, TUTTI_PS_PER_S, NULL);
    if (run->load.group->count > 1)
        tutti_group_stop(run->load.group, status, err);
}

int tutti_nccl_begin(struct tutti_nccl_loaded *run, const struct tutti_burst *burst,
                     struct tutti_err *err)
{
    const uint32_t count = run->load.meets ? burst->iteration_count : 1;
    tutti_ps *larger;

    run->burst = *burst;
    if (count <= run->took_max)
        return 0;
    larger = realloc(run->took_ps, count * sizeof(*larger));
    if (larger == NULL)
        return tutti_nomem(err);
    run->took_ps = larger;
    run->took_max = count;
    return 0;
}

static int nccl_start(void *data, const struct tutti_burst *burst, struct tutti_err *err)
{
    struct tutti_nccl_loaded *run = data;
    int status = tutti_nccl_begin(run, burst, err);

    if (status == 0)
        status = tutti_nccl_play(run, err);
    if (status < 0)
        tutti_nccl_give_up(run, status, err);
    return status;
}

static int nccl_poll(void *data, struct tutti_err *err)
{
    (void)data;
    (void)err;
    return 1; /* it has been played when start returns */
}

static void nccl_abort(void *data, int status, const struct tutti_err *err)
{
    struct tutti_nccl_loaded *run = data;

    (void)pthread_mutex_lock(&run->lock);
    if (run->abort_status == 0) {
        run->abort_status = status;
        if (err != NULL)
            run->abort_err = *err;
    }
    (void)pthread_mutex_unlock(&run->lock);
    atomic_store(&run->aborted, true);
}

/* ---- times and records ---- */

/* When a step began and ended: of the last unit that is not after its point. */
static void time_step(const struct tutti_nccl_part *part, const tutti_ps *ends_ps,
                      struct tutti_level_stage at, struct tutti_event *event)
{
    uint32_t low = 0;
    uint32_t high = part->unit_count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        struct tutti_level_stage unit = part->units[middle].at;

        if (unit.level < at.level || (unit.level == at.level && unit.stage <= at.stage))
            low = middle + 1;
        else
            high = middle;
    }
    event->end_ps = low > 0 ? ends_ps[low - 1] : part->began_ps;
    event->start_ps = low > 1 ? ends_ps[low - 2] : part->began_ps;
    if (low > 0 &&
        (part->units[low - 1].at.level != at.level || part->units[low - 1].at.stage != at.stage))
        event->start_ps = event->end_ps; /* it was done along with another */
}

static int add_events(const struct tutti_nccl_loaded *run, uint32_t own, const tutti_ps *ends_ps,
                      struct tutti_record *record, struct tutti_err *err)
{
    const struct tutti_nccl_part *part = &run->parts[own];
    uint32_t lane_count = run->load.schedule->lane_count;

    for (uint32_t lane = 0; lane < lane_count; lane++) {
        const struct tutti_program_lane *program = &run->program.lanes[own * lane_count + lane];
        const struct tutti_level_stage *stages =
            &run->levels.stages[run->levels.step_first[part->rank->rank * lane_count + lane]];

        for (uint64_t i = 0; i < program->step_count; i++) {
            const struct tutti_step *step = &program->steps[i];
            bool peered = step->kind == TUTTI_SEND || step->kind == TUTTI_RECV;
            struct tutti_event event = {
                .rank = part->rank->rank,
                .lane = (uint16_t)lane,
                .kind = step->kind,
                .peer = peered ? step->peer : 0,
                .step = i,
                .bytes = step->kind == TUTTI_COMPUTE ? 0 : step->bytes,
            };

            time_step(part, ends_ps, stages[i], &event);
            if (tutti_record_add(record, &event) != 0)
                return tutti_nomem(err);
        }
    }
    return 0;
}

static int read_units(struct tutti_nccl_part *part, tutti_ps *ret_ends_ps, struct tutti_err *err)
{
    struct tutti_gpu *gpu = &part->rank->gpu;
    int status = tutti_gpu_enter(gpu, err);

    for (uint32_t i = 0; i < part->unit_count && status == 0; i++) {
        float ms = 0;

        status = CALL(gpu, event_elapsed, &ms, part->begin, part->units[i].end);
        ret_ends_ps[i] = (tutti_ps)((double)ms * 1e9);
    }
    return status;
}

/* From the beginning of the iteration on the host's clock, where it was alone. */
static void place_ends(struct tutti_nccl_loaded *run, struct tutti_nccl_part *part,
                       tutti_ps *ends_ps)
{
    tutti_ps error_ps = 0;

    part->began_ps = 0;
    if (!run->load.meets || run->took_count == 0 || part->unit_count == 0)
        return;
    tutti_gpu_place_times(ends_ps[part->unit_count - 1], run->took_ps[run->took_count - 1],
                          &part->began_ps, &error_ps);
    for (uint32_t i = 0; i < part->unit_count; i++)
        ends_ps[i] += part->began_ps;
    run->record_error_ps = error_ps > run->record_error_ps ? error_ps : run->record_error_ps;
}

static int take_record(struct tutti_nccl_loaded *run, struct tutti_record *record,
                       struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < run->load.own_count && status == 0; i++) {
        struct tutti_nccl_part *part = &run->parts[i];
        tutti_ps *ends_ps = calloc((size_t)part->unit_count + 1, sizeof(*ends_ps));

        status = ends_ps == NULL ? tutti_nomem(err) : read_units(part, ends_ps, err);
        if (status == 0)
            place_ends(run, part, ends_ps);
        if (status == 0)
            status = add_events(run, i, ends_ps, record, err);
        free(ends_ps);
    }
    return status;
}

static int nccl_times(void *data, struct tutti_times *times, struct tutti_record *record,
                      struct tutti_err *err)
{
    struct tutti_nccl_loaded *run = data;
    int status;

    for (uint32_t i = 0; i < run->took_count; i++)
        times->took_ps[i] = run->took_ps[i];
    times->step_count = run->program.step_count;
    times->host_ps = run->timed_count > 0 ? run->host_ps / (tutti_ps)run->timed_count : 0;
    times->opened_ns = run->opened_ns;
    times->enough = run->enough;
    if (record == NULL || run->enough || run->player->opts.native)
        return 0;
    run->record_error_ps = 0;
    status = take_record(run, record, err);
    times->record_error_ps = run->record_error_ps;
    return status;
}

/* ---- the player ---- */

static void nccl_close(struct tutti_player *base)
{
    struct tutti_nccl_player *player = (struct tutti_nccl_player *)base;

    tutti_nccl_ranks_close(player);
    tutti_nccl_library_close(&player->library);
    free(player);
}

static const struct tutti_player_ops nccl_ops = {
    .size = sizeof(struct tutti_player_ops),
    .name = "nccl",
    .close = nccl_close,
    .load = nccl_load,
    .connect = nccl_connect,
    .start = nccl_start,
    .poll = nccl_poll,
    .abort = nccl_abort,
    .times = nccl_times,
    .unload = nccl_unload,
};

static const struct tutti_player_ops streams_ops = {
    .size = sizeof(struct tutti_player_ops),
    .name = "nccl",
    .calls = true,
    .close = nccl_close,
    .load = tutti_nccl_streams_load,
    .connect = tutti_nccl_streams_connect,
    .start = tutti_nccl_streams_start,
    .poll = nccl_poll,
    .abort = nccl_abort,
    .times = tutti_nccl_streams_times,
    .unload = tutti_nccl_streams_unload,
};

static int open_player(const struct tutti_nccl_opts *opts, struct tutti_nccl_player **ret,
                       struct tutti_err *err)
{
    struct tutti_nccl_player *player = calloc(1, sizeof(*player));
    uint32_t gpu_count = 0;
    int status = player == NULL ? tutti_nomem(err) : 0;

    if (status == 0 && opts != NULL)
        status = tutti_take("tutti_nccl_opts", &player->opts, sizeof(player->opts), opts,
                            TUTTI_BYTES_TO(struct tutti_nccl_opts, native), err);
    if (status == 0 && player->opts.native && player->opts.streams)
        status =
            tutti_fail(err, TUTTI_EINVAL, "tutti_nccl_opts: 'native' and 'streams' (one of them)");
    if (status == 0)
        status = tutti_nccl_gpu_count(&gpu_count, err);
    if (status == 0)
        status = tutti_nccl_library_open(player->opts.library, &player->library, err);
    if (status < 0) {
        free(player);
        return status;
    }
    player->base.ops = player->opts.streams ? &streams_ops : &nccl_ops;
    player->base.device = &tutti_device_host; /* the run loop's buffers; ranks have their own */
    *ret = player;
    return 0;
}

int tutti_nccl_open(const struct tutti_nccl_opts *opts, struct tutti_backend **ret,
                    struct tutti_err *err)
{
    static const tutti_ps wait_ps = 30 * TUTTI_PS_PER_S;
    struct tutti_nccl_player *player = NULL;
    struct tutti_group *group = NULL;
    int status = open_player(opts, &player, err);

    if (opts != NULL && opts->size >= TUTTI_BYTES_TO(struct tutti_nccl_opts, group))
        group = opts->group;
    if (group != NULL && group->count > 1) {
        int agreed = tutti_group_agree(group, status, wait_ps, err);

        if (status == 0 && agreed < 0)
            nccl_close(&player->base);
        status = agreed;
    }
    return status < 0 ? status
                      : tutti_player_backend_open(player->opts.native ? "nccl library" : "nccl",
                                                  &player->base, group, ret, err);
}

/* ---- what there is ---- */

int tutti_nccl_gpu_count(uint32_t *ret, struct tutti_err *err)
{
    struct tutti_cuda_driver driver;
    int count = 0;
    int status = tutti_cuda_driver_open(NULL, &driver, err);

    if (status < 0)
        return status;
    status = tutti_cuda_check(&driver, driver.device_count(&count), "device_count", err);
    if (status == 0 && count < 1)
        status = tutti_fail(err, TUTTI_ELACK, "this machine has no GPU of NVIDIA");
    if (status == 0)
        *ret = (uint32_t)count;
    tutti_cuda_driver_close(&driver);
    return status;
}

int tutti_nccl_name(char ret[TUTTI_NCCL_NAME_BYTES], struct tutti_err *err)
{
    struct tutti_nccl_library library = {0};
    struct tutti_gpu gpu = {.device = 0};
    char name[96] = "";
    uint32_t count = 0;
    int status = tutti_nccl_gpu_count(&count, err);

    if (status == 0)
        status = tutti_gpu_open(&gpu, NULL, 0, err);
    if (status == 0)
        status = CALL(&gpu, device_name, name, (int)sizeof(name), gpu.device);
    if (status == 0)
        status = tutti_nccl_library_open(NULL, &library, err);
    if (status == 0)
        (void)snprintf(ret, TUTTI_NCCL_NAME_BYTES, "NCCL %d.%d.%d on %u GPU%s, %.95s",
                       library.code / 10000, library.code / 100 % 100, library.code % 100, count,
                       count == 1 ? "" : "s", name);
    tutti_nccl_library_close(&library);
    tutti_gpu_close(&gpu);
    return status;
}
