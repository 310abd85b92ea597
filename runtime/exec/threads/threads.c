/* The backend `threads`: starts a thread a rank, lets each play its program, takes the times. */
#include "runtime/threads.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/engine.h"
#include "runtime/exec/threads/hall.h"
#include "runtime/exec/threads/stage.h"
#include "runtime/exec/threads/wire.h"
#include "runtime/record.h"
#include "runtime/status.h"

static const tutti_ps DEFAULT_DEADLINE_PS = 30 * TUTTI_PS_PER_S;

struct threads {
    struct tutti_backend base; /* first member: the backend casts back */
    bool pin;
    cpu_set_t processors; /* that this process may use */
};

/* One rank. Its thread alone touches it between start and join, `playing` aside. */
struct player {
    struct game *game;
    uint32_t rank;
    pthread_t thread;
    bool has_thread;
    atomic_bool playing; /* inside engine_run */
    struct tutti_engine *engine;
    struct tutti_thread_stage stage;
    struct tutti_record record;
    tutti_ps *arrived_ps; /* [taken iterations]: came to the barrier, or began */
    tutti_ps *ended_ps;
    void *own_in; /* provided by us, else NULL */
    void *own_out;
    void *scratch;
};

struct game {
    const struct threads *backend;
    const struct tutti_play *play;
    const struct tutti_schedule *schedule;
    struct tutti_hall hall;
    struct tutti_wires wires;
    struct tutti_pushes pushes;
    struct tutti_fellow *fellows; /* [rank] */
    struct player *players;
    uint32_t taken_count; /* iterations of which the times are kept: all, or one for all of them */
};

/* ---- in the thread of a rank ---- */

static void pin_to(const cpu_set_t *processors, uint32_t rank)
{
    uint32_t skip = rank % (uint32_t)CPU_COUNT(processors);
    cpu_set_t one;

    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, processors) || skip-- > 0)
            continue;
        CPU_SET(i, &one);
        break;
    }
    /* Best effort: a processor taken away meanwhile is no reason to fail. */
    (void)pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
}

/* Somebody found that nobody can go on; the lowest rank inside its program is named. Whoever is
 * inside sleeps, and has published its engine's state by counting itself idle. */
static int explain_deadlock(struct game *game, struct tutti_err *err)
{
    char text[512] = "a rank";

    for (uint32_t i = 0; i < game->schedule->rank_count; i++) {
        if (!atomic_load(&game->players[i].playing))
            continue;
        tutti_engine_waiting_for(game->players[i].engine, text, sizeof(text));
        break;
    }
    return tutti_fail(err, TUTTI_ECHECK, "deadlock: %s can never finish", text);
}

static int meet(struct player *player, struct tutti_err *err)
{
    struct tutti_hall *hall = &player->game->hall;
    int status = tutti_hall_meet(hall, player->rank);
    char time[TUTTI_UNIT_TEXT_BYTES];

    if (status == -TUTTI_ECHECK)
        return explain_deadlock(player->game, err);
    if (status == -TUTTI_ETIME)
        return tutti_fail(err, TUTTI_ETIME,
                          "deadline of %s passed: rank %u waits for the others before an iteration",
                          tutti_print_time(hall->deadline_ps, time), player->rank);
    if (status < 0)
        return tutti_fail(err, TUTTI_EIO, "broken off: rank %u before an iteration", player->rank);
    return 0;
}

static int play_once(struct player *player, bool last, struct tutti_err *err)
{
    bool recorded = last && player->game->play->record != NULL;
    int status;

    player->stage.timed = recorded;
    tutti_thread_stage_begin(&player->stage);
    atomic_store(&player->playing, true);
    status = tutti_engine_run(player->engine, &tutti_thread_stage_ops, &player->stage,
                              recorded ? &player->record : NULL, err);
    atomic_store(&player->playing, false);
    if (status == 0)
        tutti_thread_stage_settle(&player->stage);
    return status;
}

static int play_all(struct player *player, struct tutti_err *err)
{
    const struct tutti_play *play = player->game->play;
    uint64_t total = (uint64_t)play->warmup_count + play->iteration_count;
    int status = 0;

    for (uint64_t i = 0; i < total && status == 0; i++) {
        bool timed = i >= play->warmup_count;
        uint64_t taken = timed && play->barrier ? i - play->warmup_count : 0;

        if (timed && (play->barrier || i == play->warmup_count))
            player->arrived_ps[taken] = tutti_hall_now(&player->game->hall);
        if (play->barrier || i == 0 || i == play->warmup_count)
            status = meet(player, err);
        if (status == 0)
            status = play_once(player, i + 1 == total, err);
        if (timed && (play->barrier || i + 1 == total))
            player->ended_ps[taken] = tutti_hall_now(&player->game->hall);
    }
    return status;
}

static void *run_player(void *data)
{
    struct player *player = data;
    struct game *game = player->game;
    struct tutti_err err;
    int status;

    if (game->backend->pin)
        pin_to(&game->backend->processors, player->rank);
    status = play_all(player, &err);
    if (status == 0 && tutti_hall_leave(&game->hall) < 0)
        status = explain_deadlock(game, &err);
    if (status < 0)
        tutti_hall_stop(&game->hall, status, &err);
    return NULL;
}

/* ---- before and after ---- */

static void *buffer(uint64_t bytes)
{
    enum { ALIGNMENT = 4096 }; /* a page: neighbours share no cache line, and pages may merge */
    uint64_t rounded = (bytes / ALIGNMENT + 1) * ALIGNMENT;
    void *memory = bytes > SIZE_MAX - ALIGNMENT ? NULL : aligned_alloc(ALIGNMENT, rounded);

    return memory;
}

static int provide_buffers(struct game *game, struct player *player, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = game->schedule;
    const struct tutti_play *play = game->play;
    struct tutti_thread_stage *stage = &player->stage;

    player->scratch = buffer(schedule->scratch_bytes);
    if (player->scratch == NULL)
        return tutti_nomem(err);
    if (play->in == NULL) {
        player->own_in = buffer(schedule->in_bytes);
        player->own_out = buffer(schedule->out_bytes);
        if (player->own_in == NULL || player->own_out == NULL)
            return tutti_nomem(err);
        memset(player->own_in, 0, schedule->in_bytes);
        memset(player->own_out, 0, schedule->out_bytes);
    }
    /* `in` is only read: fault_of refuses a program that writes it. */
    stage->bufs[TUTTI_BUF_IN] =
        play->in == NULL ? player->own_in : (char *)(uintptr_t)play->in[player->rank];
    stage->bufs[TUTTI_BUF_OUT] = play->in == NULL ? player->own_out : play->out[player->rank];
    stage->bufs[TUTTI_BUF_SCRATCH] = player->scratch;
    stage->bufs[TUTTI_BUF_NONE] = player->scratch; /* of steps of 0 bytes */
    game->fellows[player->rank].out = stage->bufs[TUTTI_BUF_OUT];
    return 0;
}

/* From this size on a result is stored past the cache. Measured (tests/bench/notes.md): in results
 * of 1 to 8 MiB it makes no difference, on a core with 2 MiB of its own; below it costs, above it
 * gains up to 1.8 times, because no line is read that is then overwritten whole. */
static uint64_t large_bytes(void)
{
    enum { OWN_CACHES = 4, OWN_CACHE_BYTES = 2 << 20 };
    long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);

    return OWN_CACHES * (bytes > 0 ? (uint64_t)bytes : OWN_CACHE_BYTES);
}

static int prepare_player(struct game *game, uint32_t rank, struct tutti_err *err)
{
    struct player *player = &game->players[rank];
    int status;

    player->game = game;
    player->rank = rank;
    tutti_record_init(&player->record);
    status = provide_buffers(game, player, err);
    if (status == 0)
        status = tutti_engine_new(game->schedule, rank, 1, &player->engine, err);
    if (status < 0)
        return status;
    player->arrived_ps = calloc(game->taken_count, sizeof(player->arrived_ps[0]));
    player->ended_ps = calloc(game->taken_count, sizeof(player->ended_ps[0]));
    if (player->arrived_ps == NULL || player->ended_ps == NULL)
        return tutti_nomem(err);
    player->stage.hall = &game->hall;
    player->stage.fellows = game->fellows;
    player->stage.wires = &game->wires;
    player->stage.pushes = &game->pushes;
    player->stage.schedule = game->schedule;
    player->stage.engine = player->engine;
    player->stage.rank = rank;
    player->stage.large_bytes = large_bytes();
    return 0;
}

static bool overlap(const char *a, uint64_t a_bytes, const char *b, uint64_t b_bytes)
{
    return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

/* Whether a rank's output shares bytes with an input: then what the programs say about who touches
 * which bytes is not all there is to know. */
static bool outputs_shared(const struct game *game)
{
    const struct tutti_schedule *schedule = game->schedule;

    for (uint32_t i = 0; i < schedule->rank_count; i++) {
        char *const *bufs = game->players[i].stage.bufs;

        if (overlap(bufs[TUTTI_BUF_IN], schedule->in_bytes, bufs[TUTTI_BUF_OUT],
                    schedule->out_bytes))
            return true;
    }
    return false;
}

static int prepare(struct game *game, struct tutti_err *err)
{
    const struct tutti_play *play = game->play;
    uint32_t rank_count = game->schedule->rank_count;
    tutti_ps deadline_ps = play->deadline_ps > 0 ? play->deadline_ps : DEFAULT_DEADLINE_PS;
    int status;

    game->taken_count = play->barrier ? play->iteration_count : 1;
    status = tutti_hall_open(&game->hall, rank_count,
                             (uint32_t)CPU_COUNT(&game->backend->processors), deadline_ps, err);
    if (status < 0)
        return status;
    game->players = calloc(rank_count, sizeof(game->players[0]));
    game->fellows = aligned_alloc(TUTTI_CACHE_LINE, rank_count * sizeof(game->fellows[0]));
    if (game->players == NULL || game->fellows == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < rank_count; i++)
        game->fellows[i] = (struct tutti_fellow){0};
    for (uint32_t i = 0; i < rank_count && status == 0; i++)
        status = prepare_player(game, i, err);
    if (status == 0) /* after the engines: they have refused what this would trip over */
        status = tutti_thread_wires_open(&game->wires, game->schedule, err);
    if (status == 0 && !outputs_shared(game))
        status = tutti_thread_pushes_open(&game->pushes, game->schedule, &game->wires, err);
    for (uint32_t i = 0; i < rank_count && status == 0; i++)
        status = tutti_thread_stage_open(&game->players[i].stage, err);
    return status;
}

static void clear(struct game *game)
{
    for (uint32_t i = 0; game->players != NULL && i < game->schedule->rank_count; i++) {
        struct player *player = &game->players[i];

        tutti_engine_free(player->engine);
        tutti_thread_stage_close(&player->stage);
        tutti_record_done(&player->record);
        free(player->arrived_ps);
        free(player->ended_ps);
        free(player->own_in);
        free(player->own_out);
        free(player->scratch);
    }
    free(game->players);
    free(game->fellows);
    tutti_thread_pushes_close(&game->pushes);
    tutti_thread_wires_close(&game->wires);
    tutti_hall_close(&game->hall);
}

static int run_threads(struct game *game, struct tutti_err *err)
{
    struct tutti_err local;

    for (uint32_t i = 0; i < game->schedule->rank_count; i++) {
        struct player *player = &game->players[i];
        int status = pthread_create(&player->thread, NULL, run_player, player);

        player->has_thread = status == 0;
        if (status == 0)
            continue;
        (void)tutti_fail(&local, TUTTI_EIO, "cannot start the thread of rank %u: %s", i,
                         strerror(status));
        tutti_hall_stop(&game->hall, -TUTTI_EIO, &local);
        break;
    }
    for (uint32_t i = 0; i < game->schedule->rank_count; i++) {
        if (game->players[i].has_thread)
            pthread_join(game->players[i].thread, NULL);
    }
    if (game->hall.status < 0 && err != NULL)
        *err = game->hall.err;
    return game->hall.status;
}

static int compare_ps(const void *left, const void *right)
{
    tutti_ps a = *(const tutti_ps *)left;
    tutti_ps b = *(const tutti_ps *)right;

    return (a > b) - (a < b);
}

/* Last arrival and last end of an iteration. */
static void bounds_of(const struct game *game, uint32_t taken, tutti_ps *ret_start_ps,
                      tutti_ps *ret_end_ps)
{
    tutti_ps start_ps = 0;
    tutti_ps end_ps = 0;

    for (uint32_t i = 0; i < game->schedule->rank_count; i++) {
        const struct player *player = &game->players[i];

        if (player->arrived_ps[taken] > start_ps)
            start_ps = player->arrived_ps[taken];
        if (player->ended_ps[taken] > end_ps)
            end_ps = player->ended_ps[taken];
    }
    *ret_start_ps = start_ps;
    *ret_end_ps = end_ps;
}

/* Events of all ranks on one clock: from the barrier before the last iteration, or, without one,
 * from the first step of that iteration. */
static int merge_records(const struct game *game, struct tutti_err *err)
{
    struct tutti_record *record = game->play->record;
    tutti_ps start_ps = INT64_MAX;
    tutti_ps end_ps;
    size_t count = 0;

    if (record == NULL)
        return 0;
    for (uint32_t i = 0; i < game->schedule->rank_count; i++) {
        const struct tutti_record *own = &game->players[i].record;

        count += own->event_count;
        for (size_t k = 0; k < own->event_count && !game->play->barrier; k++) {
            if (own->events[k].start_ps < start_ps)
                start_ps = own->events[k].start_ps;
        }
    }
    if (game->play->barrier)
        bounds_of(game, game->taken_count - 1, &start_ps, &end_ps);
    tutti_record_clear(record);
    if (tutti_record_reserve(record, count) < 0)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < game->schedule->rank_count; i++) {
        const struct tutti_record *own = &game->players[i].record;

        for (size_t k = 0; k < own->event_count; k++) {
            struct tutti_event event = own->events[k];

            event.start_ps -= event.start_ps < start_ps ? event.start_ps : start_ps;
            event.end_ps -= event.end_ps < start_ps ? event.end_ps : start_ps;
            record->events[record->event_count++] = event;
        }
    }
    tutti_record_sort(record);
    return 0;
}

static int take_times(const struct game *game, struct tutti_played *ret, struct tutti_err *err)
{
    uint32_t count = game->play->iteration_count;
    struct tutti_played played = {0};
    tutti_ps *took_ps;
    tutti_ps start_ps;

    for (uint32_t i = 0; i < game->schedule->rank_count; i++)
        played.step_count += tutti_engine_step_count(game->players[i].engine);
    if (!game->play->barrier) {
        bounds_of(game, 0, &start_ps, &played.total_ps);
        played.total_ps -= start_ps;
        played.best_ps = played.total_ps / count;
        played.median_ps = played.best_ps;
        *ret = played;
        return 0;
    }
    took_ps = calloc(count, sizeof(took_ps[0]));
    if (took_ps == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < count; i++) {
        bounds_of(game, i, &start_ps, &took_ps[i]);
        took_ps[i] -= start_ps;
    }
    played.total_ps = 0;
    for (uint32_t i = 0; i < count; i++)
        played.total_ps += took_ps[i];
    qsort(took_ps, count, sizeof(took_ps[0]), compare_ps);
    played.best_ps = took_ps[0];
    played.median_ps = took_ps[count / 2];
    free(took_ps);
    *ret = played;
    return 0;
}

static int threads_play(struct tutti_backend *backend, const struct tutti_play *play,
                        struct tutti_played *ret, struct tutti_err *err)
{
    struct game game = {
        .backend = (const struct threads *)backend, .play = play, .schedule = play->schedule};
    struct tutti_played played = {0};
    int status = prepare(&game, err);

    if (status == 0)
        status = run_threads(&game, err);
    if (status == 0)
        status = merge_records(&game, err);
    if (status == 0)
        status = take_times(&game, &played, err);
    clear(&game);
    if (status == 0)
        *ret = played;
    return status;
}

static void threads_close(struct tutti_backend *backend)
{
    free(backend);
}

static const struct tutti_backend_ops threads_ops = {
    .size = sizeof(struct tutti_backend_ops),
    .name = "threads",
    .close = threads_close,
    .play = threads_play,
};

int tutti_threads_open(const struct tutti_threads_opts *opts, struct tutti_backend **ret,
                       struct tutti_err *err)
{
    struct threads *threads = calloc(1, sizeof(*threads));

    if (threads == NULL)
        return tutti_nomem(err);
    threads->base.ops = &threads_ops;
    threads->pin = opts != NULL && opts->pin;
    if (sched_getaffinity(0, sizeof(threads->processors), &threads->processors) != 0 ||
        CPU_COUNT(&threads->processors) == 0) {
        free(threads);
        return tutti_fail(err, TUTTI_EIO, "cannot find out which processors may be used");
    }
    *ret = &threads->base;
    return 0;
}
