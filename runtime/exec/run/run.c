/* The run loop: a run from its beginning to its end, and what all processes have to agree on so
 * that all begin and end alike. See player.h for whom it plays with. */
#include "runtime/exec/run/run.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tutti_ps DEFAULT_DEADLINE_PS = 30 * TUTTI_PS_PER_S;

static tutti_ps after(tutti_ps now_ps, tutti_ps ps)
{
    return ps > INT64_MAX - now_ps ? INT64_MAX : now_ps + ps;
}

static const struct tutti_player_ops *ops_of(const struct tutti_player_run *run)
{
    return run->backend->player->ops;
}

/* ---- open and close ---- */

static int reserve(struct tutti_player_run *run, uint32_t iteration_count, struct tutti_err *err)
{
    uint32_t count = run->load.meets ? iteration_count : 1;
    tutti_ps *next;

    if (count <= run->taken_max)
        return 0;
    next = realloc(run->took_ps, count * sizeof(next[0]));
    if (next == NULL)
        return tutti_nomem(err);
    run->took_ps = next;
    run->taken_max = count;
    return 0;
}

/* What this process needs by itself. */
static int prepare(struct tutti_player_run *run, struct tutti_err *err)
{
    int status = reserve(run, run->play.iteration_count, err);

    run->verdicts = calloc(run->backend->group->count, sizeof(run->verdicts[0]));
    if (status == 0 && run->verdicts == NULL)
        status = tutti_nomem(err);
    if (status == 0)
        status = tutti_run_buffers_open(run, err);
    return status < 0 ? status
                      : ops_of(run)->load(run->backend->player, &run->load, &run->loaded, err);
}

/* One line that is different where the schedules are. */
static void describe(const struct tutti_player_run *run, char *buf, size_t buf_bytes)
{
    const struct tutti_schedule *schedule = run->load.schedule;
    const struct tutti_contract *contract = &schedule->contract;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    struct tutti_cursor cursor;
    const struct tutti_step *step;

    for (uint32_t rank = 0; rank < schedule->rank_count; rank++) {
        for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
            tutti_cursor_open(&cursor, schedule, rank, lane);
            while ((step = tutti_cursor_next(&cursor)) != NULL) {
                uint64_t words[sizeof(*step) / sizeof(uint64_t)];

                memcpy(words, step, sizeof(*step));
                for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
                    hash = (hash ^ words[i] ^ hash >> 29) * UINT64_C(0x9e3779b97f4a7c15);
            }
            hash = (hash ^ lane) * UINT64_C(0x100000001b3);
        }
    }
    snprintf(buf, buf_bytes,
             "%s %s %s %s count %" PRIu64 " root %u on %u ranks, %u lanes, %u slots, %u+%u "
             "iterations%s%s%s, programs %016" PRIx64,
             tutti_collective_name(contract->collective), schedule->name,
             tutti_dtype_name(contract->dtype), tutti_op_name(contract->op), contract->count,
             contract->root, schedule->rank_count, schedule->lane_count, schedule->slot_count,
             run->play.warmup_count, run->play.iteration_count,
             !run->play.barrier      ? ""
             : run->play.lead_ps > 0 ? " with barriers and a lead"
                                     : " with barriers",
             run->play.between != NULL ? ", with a hook" : "",
             run->play.record != NULL ? ", recorded" : "", hash);
}

/* All are ready, and for the same. */
static int connect_all(struct tutti_player_run *run, int status, struct tutti_err *err)
{
    struct tutti_group *group = run->backend->group;
    tutti_ps wait_ps = after(5 * TUTTI_PS_PER_S, run->load.deadline_ps);
    char text[512];

    if (group->count > 1) {
        describe(run, text, sizeof(text));
        status = tutti_group_agree(group, status, wait_ps, err);
        if (status == 0)
            status = tutti_group_same(group, "schedule", text, wait_ps, err);
    }
    if (status == 0 && ops_of(run)->connect != NULL)
        status = ops_of(run)->connect(run->loaded, err);
    if (status < 0 || group->count == 1)
        return status;
    status = tutti_group_agree(group, tutti_guard_start(run, err), wait_ps, err);
    if (status < 0)
        ops_of(run)->abort(run->loaded, status, err);
    return status;
}

static void fill(struct tutti_player_run *run, struct tutti_player_backend *backend,
                 const struct tutti_play *play)
{
    uint32_t own_count;
    uint32_t first_rank;

    tutti_backend_ranks(&backend->base, play->schedule->rank_count, &first_rank, &own_count);
    *run = (struct tutti_player_run){
        .backend = backend,
        .play = *play,
        .load =
            {
                .schedule = play->schedule,
                .buffers = &run->buffers,
                .first_rank = first_rank,
                .own_count = own_count,
                .group = backend->group,
                .homes = backend->homes,
                .deadline_ps = play->deadline_ps > 0 ? play->deadline_ps : DEFAULT_DEADLINE_PS,
                .lead_ps = play->lead_ps,
                .meets = play->barrier || play->between != NULL,
                .hooked = play->between != NULL,
                .recorded = play->record != NULL,
                .iterations_max = play->between != NULL ? 1 : play->iteration_count,
            },
    };
    tutti_record_init(&run->record);
}

int tutti_player_run_open(struct tutti_backend *base, const struct tutti_play *play, void **ret,
                          struct tutti_err *err)
{
    struct tutti_player_backend *backend = (struct tutti_player_backend *)base;
    struct tutti_player_run *run;
    int status;

    if (backend->has_run)
        return tutti_fail(err, TUTTI_EINVAL, "the backend '%s' has a run open (one at a time)",
                          backend->ops.name);
    run = malloc(sizeof(*run));
    if (run == NULL)
        return backend->group->count == 1
                   ? tutti_nomem(err)
                   : tutti_group_agree(backend->group, tutti_nomem(err), DEFAULT_DEADLINE_PS, err);
    fill(run, backend, play);
    backend->has_run = true;
    status = connect_all(run, prepare(run, err), err);
    if (status < 0) {
        tutti_player_run_close(run);
        return status;
    }
    *ret = run;
    return 0;
}

void tutti_player_run_close(void *data)
{
    struct tutti_player_run *run = data;

    tutti_guard_end(run);
    ops_of(run)->unload(run->loaded);
    tutti_run_buffers_close(run);
    tutti_record_done(&run->record);
    free(run->took_ps);
    free(run->verdicts);
    run->backend->has_run = false;
    free(run);
}

/* ---- a step ---- */

/* Plays a burst, and takes its times to `took_ps`. */
static int play_burst(struct tutti_player_run *run, const struct tutti_burst *burst,
                      tutti_ps *took_ps, struct tutti_err *err)
{
    int status = ops_of(run)->start(run->loaded, burst, err);

    while (status == 0)
        status = ops_of(run)->poll(run->loaded, err);
    if (status < 0)
        return status;
    tutti_record_clear(&run->record);
    run->times = (struct tutti_times){.took_ps = took_ps};
    return ops_of(run)->times(run->loaded, &run->times, burst->recorded ? &run->record : NULL, err);
}

/* Something that is not the player's has failed: what it has under way ends, and the other
 * processes are told. */
static int break_off(struct tutti_player_run *run, int status, const struct tutti_err *err)
{
    const struct tutti_burst burst = {.iteration_count = 1};
    struct tutti_err unused;
    int ended;

    ops_of(run)->abort(run->loaded, status, err);
    ended = ops_of(run)->start(run->loaded, &burst, &unused);
    while (ended == 0)
        ended = ops_of(run)->poll(run->loaded, &unused);
    assert(ended < 0);
    return status;
}

/* Without a hook: all at once. */
static int play_through(struct tutti_player_run *run, struct tutti_err *err)
{
    struct tutti_burst burst = {.warmup_count = run->play.warmup_count,
                                .iteration_count = run->play.iteration_count,
                                .recorded = run->play.record != NULL};
    int status = tutti_run_buffers_write(run, err);

    if (status < 0)
        return break_off(run, status, err);
    status = play_burst(run, &burst, run->took_ps, err);
    if (status < 0)
        return status;
    status = tutti_run_buffers_read(run, err);
    if (status < 0)
        return break_off(run, status, err);
    run->timed_count = burst.iteration_count;
    run->played_count += (uint64_t)burst.warmup_count + burst.iteration_count;
    return 0;
}

/* Between two iterations. > 0: enough. */
static int call_hook(struct tutti_player_run *run, struct tutti_err *err)
{
    int status;

    err->text[0] = '\0';
    status = run->play.between(run->play.between_context, run->played_count, err);
    if (status >= 0)
        return status;
    if (err->text[0] == '\0')
        (void)tutti_fail(err, (enum tutti_status) - status, "no reason given");
    return tutti_wrap(err, status, "rank %u, the hook after iteration %" PRIu64,
                      run->load.first_rank, run->played_count);
}

/* Before iteration `number` of the step: 1 if this process has had enough. */
static int come_to(struct tutti_player_run *run, uint64_t number, struct tutti_err *err)
{
    int enough = number > 0 ? call_hook(run, err) : 0;
    int status = enough < 0 ? enough : tutti_run_buffers_write(run, err);

    return status < 0 ? break_off(run, status, err) : enough > 0;
}

/* With a hook every iteration is a burst, and may be the last one. */
static int play_one_by_one(struct tutti_player_run *run, struct tutti_err *err)
{
    uint64_t total = (uint64_t)run->play.warmup_count + run->play.iteration_count;
    struct tutti_burst burst = {.iteration_count = 1, .recorded = run->play.record != NULL};

    for (uint64_t i = 0; i < total; i++) {
        bool timed = i >= run->play.warmup_count;
        int status = come_to(run, i, err);

        burst.enough = status > 0;
        if (burst.enough && run->backend->group->count == 1)
            return 0;
        if (status >= 0)
            status =
                play_burst(run, &burst, &run->took_ps[timed ? i - run->play.warmup_count : 0], err);
        if (status < 0 || run->times.enough)
            return status;
        status = tutti_run_buffers_read(run, err);
        if (status < 0)
            return break_off(run, status, err);
        run->timed_count += timed;
        run->played_count++;
    }
    return 0;
}

/* The ranks of this process. */
static int play_here(struct tutti_player_run *run, struct tutti_err *err)
{
    int status = reserve(run, run->play.iteration_count, err);

    run->timed_count = 0;
    run->times = (struct tutti_times){0};
    tutti_record_clear(&run->record);
    if (status < 0)
        return break_off(run, status, err);
    if (run->load.own_count == 0)
        return 0;
    return run->play.between == NULL ? play_through(run, err) : play_one_by_one(run, err);
}

int tutti_player_run_step(void *data, uint32_t warmup_count, uint32_t iteration_count,
                          struct tutti_played *ret, struct tutti_err *err)
{
    struct tutti_player_run *run = data;
    struct tutti_err own = {""};
    int status;

    assert(run->status >= 0);
    run->play.warmup_count = warmup_count;
    run->play.iteration_count = iteration_count;
    status = play_here(run, &own);
    if (status < 0)
        tutti_guard_end(run);
    status = tutti_player_run_conclude(run, status, ret, &own);
    if (status < 0) {
        ops_of(run)->abort(run->loaded, status, &own);
        tutti_guard_end(run);
        if (err != NULL)
            *err = own;
    }
    run->status = status;
    return status;
}
