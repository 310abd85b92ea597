/* A game from its beginning to its end: takes what it needs, starts the threads, and sees to it
 * that all processes begin and end alike. */
#include "runtime/exec/threads/game.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/data.h"

static const tutti_ps DEFAULT_DEADLINE_PS = 30 * TUTTI_PS_PER_S;

/* ---- before ---- */

static void *buffer(uint64_t bytes)
{
    enum { ALIGNMENT = 4096 }; /* a page: neighbours share no cache line, and pages may merge */
    uint64_t rounded = (bytes / ALIGNMENT + 1) * ALIGNMENT;
    void *memory = bytes > SIZE_MAX - ALIGNMENT ? NULL : aligned_alloc(ALIGNMENT, (size_t)rounded);

    return memory;
}

static int provide_buffers(struct tutti_game *game, uint32_t rank, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = game->schedule;
    const struct tutti_play *play = game->play;
    struct tutti_part *part = &game->parts[rank - game->first_rank];
    struct tutti_thread_stage *stage = &game->stages[rank - game->first_rank];

    part->scratch = buffer(schedule->scratch_bytes);
    if (part->scratch == NULL)
        return tutti_nomem(err);
    if (play->in == NULL) {
        part->own_in = buffer(schedule->in_bytes);
        part->own_out = buffer(schedule->out_bytes);
        if (part->own_in == NULL || part->own_out == NULL)
            return tutti_nomem(err);
        memset(part->own_in, 0, (size_t)schedule->in_bytes);
        memset(part->own_out, 0, (size_t)schedule->out_bytes);
    }
    /* `in` is only read: fault_of refuses a program that writes it. */
    stage->bufs[TUTTI_BUF_IN] = play->in == NULL ? part->own_in : (char *)(uintptr_t)play->in[rank];
    stage->bufs[TUTTI_BUF_OUT] = play->in == NULL ? part->own_out : play->out[rank];
    stage->bufs[TUTTI_BUF_SCRATCH] = part->scratch;
    stage->bufs[TUTTI_BUF_NONE] = part->scratch; /* of steps of 0 bytes */
    game->fellows[rank - game->first_rank].out = stage->bufs[TUTTI_BUF_OUT];
    return 0;
}

/* Another machine is emulated, so that a thread may play several ranks. */
static bool is_ensemble(const struct tutti_troupe *troupe)
{
    return troupe->shaper != NULL;
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

/* As large_bytes, where this thread plays ranks in turns: when it comes back to one, the others'
 * bytes have gone through the cache. Measured likewise: messages of 16 KiB and of 2 MiB of 16 ranks
 * that hold 128 MiB are moved and added in 0.9 times the time past the cache. */
static uint64_t large_together(const struct tutti_game *game)
{
    enum { CACHE_BYTES = 32 << 20, STREAMED_BYTES_MIN = 4 << 10 };
    const struct tutti_schedule *schedule = game->schedule;
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    double held = ((double)schedule->in_bytes + (double)schedule->out_bytes) * game->own_count;

    return held >= (double)(bytes > 0 ? bytes : CACHE_BYTES) ? STREAMED_BYTES_MIN : large_bytes();
}

static int prepare_rank(struct tutti_game *game, const struct tutti_player *player, uint32_t rank,
                        struct tutti_err *err)
{
    struct tutti_thread_stage *stage = &game->stages[rank - game->first_rank];

    stage->hall = &game->hall;
    stage->fellows = game->fellows;
    stage->wires = &game->wires;
    stage->conductor = game->troupe->shaper != NULL ? &game->conductor : NULL;
    stage->pushes = &game->pushes;
    stage->schedule = game->schedule;
    stage->engine = player->engine;
    stage->rank = rank;
    stage->large_bytes = is_ensemble(game->troupe) ? large_together(game) : large_bytes();
    return provide_buffers(game, rank, err);
}

static int prepare_player(struct tutti_game *game, uint32_t number, struct tutti_err *err)
{
    struct tutti_player *player = &game->players[number];
    uint32_t first = tutti_crew_first_rank(game->own_count, game->player_count, number);
    uint32_t end = tutti_crew_first_rank(game->own_count, game->player_count, number + 1);
    int status;

    player->game = game;
    player->seat = game->first_rank + number;
    player->first_rank = game->first_rank + first;
    player->rank_count = end - first;
    player->stages = &game->stages[first];
    player->ensemble = (struct tutti_ensemble){
        .stages = player->stages, .count = player->rank_count, .seat = player->seat};
    tutti_record_init(&player->record);
    status = tutti_engine_new(game->schedule, player->first_rank, player->rank_count,
                              &player->engine, err);
    if (status < 0)
        return status;
    player->arrived_ps = calloc(game->taken_count, sizeof(player->arrived_ps[0]));
    player->ended_ps = calloc(game->taken_count, sizeof(player->ended_ps[0]));
    if (player->arrived_ps == NULL || player->ended_ps == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < player->rank_count && status == 0; i++)
        status = prepare_rank(game, player, player->first_rank + i, err);
    return status;
}

static bool overlap(const char *a, uint64_t a_bytes, const char *b, uint64_t b_bytes)
{
    return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

/* Whether a rank's output shares bytes with an input: then what the programs say about who touches
 * which bytes is not all there is to know. */
static bool outputs_shared(const struct tutti_game *game)
{
    const struct tutti_schedule *schedule = game->schedule;

    for (uint32_t i = 0; i < game->own_count; i++) {
        char *const *bufs = game->stages[i].bufs;

        if (overlap(bufs[TUTTI_BUF_IN], schedule->in_bytes, bufs[TUTTI_BUF_OUT],
                    schedule->out_bytes))
            return true;
    }
    return false;
}

/* Threads of this host: how many there are, and how many of them come before ours. */
static void count_seats(struct tutti_game *game, uint32_t *ret_count)
{
    const struct tutti_troupe *troupe = game->troupe;
    const struct tutti_crew *crew = troupe->crew;
    uint32_t rank_count = game->schedule->rank_count;

    *ret_count = 0;
    for (uint32_t i = 0; i < crew->count; i++) {
        uint32_t count = tutti_crew_first_rank(rank_count, crew->count, i + 1) -
                         tutti_crew_first_rank(rank_count, crew->count, i);

        if (is_ensemble(troupe))
            count = count > 0;
        if (crew->count > 1 && troupe->homes[i].host != troupe->homes[crew->index].host)
            continue;
        if (i < crew->index)
            game->seat_first += count;
        *ret_count += count;
    }
}

/* Emulated, messages are done by another clock than the carrier's. */
static void mark_near(struct tutti_game *game)
{
    const struct tutti_troupe *troupe = game->troupe;
    const struct tutti_home *mine = &troupe->homes[troupe->crew->index];

    for (uint32_t i = 0; i < game->ways.way_count; i++) {
        struct tutti_way *way = &game->ways.ways[i];
        const struct tutti_home *home = &troupe->homes[tutti_crew_of_rank(
            game->schedule->rank_count, troupe->crew->count, way->peer)];

        way->near = troupe->shaper == NULL && mine->network != 0 && home->host == mine->host &&
                    home->network == mine->network;
    }
}

/* What the ranks of this process have to know of those of others. */
static int prepare_ways(struct tutti_game *game, uint32_t seat_count, struct tutti_err *err)
{
    const struct tutti_troupe *troupe = game->troupe;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    bool crowded = game->player_count > (uint32_t)CPU_COUNT(&troupe->processors) ||
                   (online > 0 && seat_count > (uint32_t)online);
    int status = tutti_ways_open(&game->ways, &game->wires, game->schedule, troupe->crew,
                                 game->play->lead_ps, err);

    for (uint32_t i = 1; i < troupe->crew->count && status == 0; i++) {
        if (game->play->lead_ps > 0 && troupe->homes[i].host != troupe->homes[0].host)
            status = tutti_fail(err, TUTTI_EINVAL,
                                "process %u is on another host than process 0: only processes of "
                                "one host can begin at one moment",
                                i);
    }
    if (status < 0)
        return status;
    mark_near(game);
    game->opened_ps = calloc(game->taken_count, sizeof(game->opened_ps[0]));
    if (game->opened_ps == NULL)
        return tutti_nomem(err);
    game->carried = (struct tutti_carried){
        .rank_count = game->schedule->rank_count,
        .first_rank = game->first_rank,
        .own_count = game->own_count,
        .way_count = game->ways.way_count,
        .ways = game->ways.ways,
        .crowded = crowded,
        .together = is_ensemble(troupe),
        .deadline_ps = game->deadline_ps,
    };
    tutti_hall_connect(&game->hall, troupe->carrier, game->first_rank, crowded);
    return 0;
}

static int open_conductor(struct tutti_game *game, struct tutti_err *err)
{
    const struct tutti_troupe *troupe = game->troupe;
    bool spins = game->player_count <= (uint32_t)CPU_COUNT(&troupe->processors);
    int status = tutti_conductor_open(&game->conductor, &game->hall, &game->wires, troupe->shaper,
                                      troupe->slowdown, spins, err);

    for (uint32_t i = 0; i < game->player_count && status == 0; i++) {
        const struct tutti_player *player = &game->players[i];

        for (uint32_t k = 0; k < player->rank_count; k++)
            game->conductor.seat_of[player->first_rank + k] = player->seat;
    }
    return status;
}

/* Another machine is emulated by several processes, which must share memory for that. */
static int prepare_podium(struct tutti_game *game, struct tutti_err *err)
{
    const struct tutti_troupe *troupe = game->troupe;

    for (uint32_t i = 1; i < troupe->crew->count; i++) {
        if (troupe->homes[i].host != troupe->homes[0].host)
            return tutti_fail(err, TUTTI_ELACK,
                              "process %u is on another host than process 0: only processes of "
                              "one host can emulate a machine",
                              i);
    }
    if (troupe->crew->count > TUTTI_PODIUM_PROCESSES_MAX)
        return tutti_fail(err, TUTTI_ELACK, "%u processes emulate a machine (at most %d)",
                          troupe->crew->count, TUTTI_PODIUM_PROCESSES_MAX);
    game->conductor.podium = &game->podium;
    game->conductor.shaper = troupe->shaper;
    return tutti_podium_prepare(&game->podium, &game->wires, game->schedule, err);
}

/* Where one thread plays all ranks, the other processors help it. */
static int prepare_hands(struct tutti_game *game, struct tutti_err *err)
{
    const struct tutti_troupe *troupe = game->troupe;
    uint32_t processor_count = (uint32_t)CPU_COUNT(&troupe->processors);
    uint32_t rank_count = game->own_count;
    uint32_t count = (processor_count < rank_count ? processor_count : rank_count) - 1;
    int status;

    if (!is_ensemble(troupe) || troupe->crew->count > 1 || troupe->thread_count > 0 || count == 0)
        return 0;
    status = tutti_hands_open(&game->hall, rank_count, count, &game->hands, err);
    for (uint32_t i = 0; i < rank_count; i++)
        game->stages[i].hands = game->hands;
    return status;
}

/* The threads, and what their ranks own. */
static int prepare_players(struct tutti_game *game, struct tutti_err *err)
{
    uint32_t own_count = game->own_count;
    const struct tutti_troupe *troupe = game->troupe;
    uint32_t processor_count = (uint32_t)CPU_COUNT(&troupe->processors);
    int status;

    game->player_count = own_count;
    if (is_ensemble(troupe) && (troupe->crew->count > 1 || troupe->thread_count == 0))
        game->player_count = own_count > 0;
    else if (is_ensemble(troupe) && troupe->thread_count < own_count)
        game->player_count = troupe->thread_count;
    status =
        tutti_hall_open(&game->hall, game->player_count, processor_count, game->deadline_ps, err);
    if (status < 0)
        return status;
    game->parts = calloc((size_t)own_count + 1, sizeof(game->parts[0]));
    game->stages = calloc((size_t)own_count + 1, sizeof(game->stages[0]));
    game->players = calloc((size_t)game->player_count + 1, sizeof(game->players[0]));
    game->fellows =
        aligned_alloc(TUTTI_CACHE_LINE, ((size_t)own_count + 1) * sizeof(game->fellows[0]));
    if (game->parts == NULL || game->stages == NULL || game->players == NULL ||
        game->fellows == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < own_count; i++)
        game->fellows[i] = (struct tutti_fellow){0};
    for (uint32_t i = 0; i < game->player_count && status == 0; i++)
        status = prepare_player(game, i, err);
    if (status == 0)
        status = prepare_hands(game, err);
    return status;
}

static int prepare(struct tutti_game *game, struct tutti_err *err)
{
    const struct tutti_troupe *troupe = game->troupe;
    uint32_t own_count = game->own_count;
    uint32_t seat_count;
    int status;

    count_seats(game, &seat_count);
    status = prepare_players(game, err);
    if (status == 0) /* after the engines: they have refused what this would trip over */
        status =
            tutti_thread_wires_open(&game->wires, game->schedule, game->first_rank, own_count, err);
    if (status == 0 && troupe->crew->count > 1)
        status = prepare_ways(game, seat_count, err);
    if (status == 0 && troupe->shaper != NULL && troupe->crew->count > 1)
        status = prepare_podium(game, err);
    else if (status == 0 && troupe->shaper != NULL)
        status = open_conductor(game, err);
    if (status == 0 && !outputs_shared(game))
        status = tutti_thread_pushes_open(&game->pushes, game->schedule, &game->wires, err);
    for (uint32_t i = 0; i < own_count && status == 0; i++)
        status = tutti_thread_stage_open(&game->stages[i], err);
    return status;
}

static void clear(struct tutti_game *game)
{
    tutti_hands_close(game->hands);
    for (uint32_t i = 0; game->players != NULL && i < game->player_count; i++) {
        struct tutti_player *player = &game->players[i];

        tutti_engine_free(player->engine);
        tutti_record_done(&player->record);
        free(player->arrived_ps);
        free(player->ended_ps);
    }
    for (uint32_t i = 0; game->stages != NULL && i < game->own_count; i++)
        tutti_thread_stage_close(&game->stages[i]);
    for (uint32_t i = 0; game->parts != NULL && i < game->own_count; i++) {
        free(game->parts[i].own_in);
        free(game->parts[i].own_out);
        free(game->parts[i].scratch);
    }
    free(game->players);
    free(game->stages);
    free(game->parts);
    free(game->fellows);
    free(game->opened_ps);
    tutti_ways_close(&game->ways);
    tutti_thread_pushes_close(&game->pushes);
    tutti_conductor_close(&game->conductor);
    tutti_thread_wires_close(&game->wires);
    tutti_hall_close(&game->hall);
}

/* ---- the play ---- */

/* Listens for processes that give up or are gone, while the ranks play. */
struct guard {
    struct tutti_game *game;
    pthread_t thread;
    bool has_thread;
    atomic_bool over;
    bool heard; /* it was this that ended the game */
};

static void *run_guard(void *data)
{
    enum { LOOK_MS = 100 }; /* a wake that comes just before the wait must not be waited for long */
    struct guard *guard = data;
    struct tutti_hall *hall = &guard->game->hall;
    struct tutti_err err;

    while (!atomic_load(&guard->over)) {
        int status =
            tutti_crew_wait_stop(guard->game->troupe->crew, LOOK_MS * TUTTI_PS_PER_MS, &err);

        if (status == 0)
            continue;
        guard->heard = atomic_load(&hall->blamed) == 0;
        tutti_hall_stop(hall, status, &err);
        break;
    }
    return NULL;
}

static void start_threads(struct tutti_game *game, struct guard *guard)
{
    struct tutti_err local;
    int status;

    if (game->own_count > 0 && game->troupe->crew->count > 1) {
        status = pthread_create(&guard->thread, NULL, run_guard, guard);
        guard->has_thread = status == 0;
        if (status != 0) {
            (void)tutti_fail(&local, TUTTI_EIO, "cannot start a thread: %s", strerror(status));
            tutti_hall_stop(&game->hall, -TUTTI_EIO, &local);
            return;
        }
    }
    for (uint32_t i = 0; i < game->player_count; i++) {
        struct tutti_player *player = &game->players[i];

        status = pthread_create(&player->thread, NULL, tutti_player_run, player);
        player->has_thread = status == 0;
        if (status == 0)
            continue;
        (void)tutti_fail(&local, TUTTI_EIO, "cannot start the thread of rank %u: %s",
                         player->first_rank, strerror(status));
        tutti_hall_stop(&game->hall, -TUTTI_EIO, &local);
        return;
    }
}

static int run_threads(struct tutti_game *game, struct tutti_err *err)
{
    struct guard guard = {.game = game};
    struct tutti_hall *hall = &game->hall;

    start_threads(game, &guard);
    for (uint32_t i = 0; i < game->player_count; i++) {
        if (game->players[i].has_thread)
            pthread_join(game->players[i].thread, NULL);
    }
    /* Before anything else: the others may be waiting for messages that will not come. A guard
     * may be in the middle of saying why: `stopped` it sets last. */
    if (atomic_load(&hall->stopped) != 0 && hall->carrier != NULL &&
        hall->carrier->ops->stop != NULL)
        hall->carrier->ops->stop(hall->carrier);
    atomic_store(&guard.over, true);
    if (guard.has_thread) {
        tutti_crew_wake(game->troupe->crew);
        pthread_join(guard.thread, NULL);
    }
    if (hall->status < 0 && err != NULL) {
        *err = hall->err;
        if (guard.heard && atomic_load(&game->is_broken) != 0) {
            *err = game->broken;
            (void)tutti_wrap(err, hall->status, "%s", hall->err.text);
        }
    }
    return hall->status;
}

/* One line that is different where the schedules are. */
static void describe(const struct tutti_game *game, char *buf, size_t buf_bytes)
{
    const struct tutti_schedule *schedule = game->schedule;
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
             "iterations%s%s, programs %016" PRIx64,
             tutti_collective_name(contract->collective), schedule->name,
             tutti_dtype_name(contract->dtype), tutti_op_name(contract->op), contract->count,
             contract->root, schedule->rank_count, schedule->lane_count, schedule->slot_count,
             game->play->warmup_count, game->play->iteration_count,
             !game->play->barrier      ? ""
             : game->play->lead_ps > 0 ? " with barriers and a lead"
                                       : " with barriers",
             game->play->record != NULL ? ", recorded" : "", hash);
}

/* All are ready, and for the same. */
static int begin(struct tutti_game *game, int status, bool *ret_begun, struct tutti_err *err)
{
    const struct tutti_troupe *troupe = game->troupe;
    tutti_ps wait_ps = tutti_hall_after(5 * TUTTI_PS_PER_S, game->deadline_ps);
    char text[512];

    *ret_begun = false;
    if (troupe->crew->count == 1)
        return status;
    describe(game, text, sizeof(text));
    status = tutti_crew_agree(troupe->crew, status, wait_ps, err);
    if (status == 0)
        status = tutti_crew_same(troupe->crew, "schedule", text, wait_ps, err);
    if (status == 0 && troupe->shaper != NULL)
        status = tutti_podium_open(&game->podium, &game->hall, troupe->shaper, troupe->slowdown,
                                   troupe->crew, wait_ps, err);
    if (status < 0)
        return status;
    status = troupe->carrier->ops->begin(troupe->carrier, troupe->crew, &game->carried, err);
    *ret_begun = status == 0;
    return tutti_crew_agree(troupe->crew, status, wait_ps, err);
}

int tutti_game_play(struct tutti_troupe *troupe, const struct tutti_play *play,
                    struct tutti_played *ret, struct tutti_err *err)
{
    const struct tutti_crew *crew = troupe->crew;
    uint32_t rank_count = play->schedule->rank_count;
    uint32_t first_rank = tutti_crew_first_rank(rank_count, crew->count, crew->index);
    struct tutti_game game = {
        .troupe = troupe,
        .play = play,
        .schedule = play->schedule,
        .first_rank = first_rank,
        .own_count = tutti_crew_first_rank(rank_count, crew->count, crew->index + 1) - first_rank,
        .deadline_ps = play->deadline_ps > 0 ? play->deadline_ps : DEFAULT_DEADLINE_PS,
        .taken_count = play->barrier ? play->iteration_count : 1,
    };
    struct tutti_played played = {0};
    bool begun;
    int status = prepare(&game, err);

    status = begin(&game, status, &begun, err);
    if (status == 0)
        status = tutti_game_conclude(&game, run_threads(&game, err), &played, err);
    tutti_podium_close(&game.podium); /* while there is somebody to be woken */
    if (begun)
        troupe->carrier->ops->end(troupe->carrier, status);
    troupe->tempo = game.conductor.podium != NULL ? game.podium.tempo : game.conductor.tempo;
    clear(&game);
    if (status == 0)
        *ret = played;
    return status;
}
