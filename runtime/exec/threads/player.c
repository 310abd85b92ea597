/* What happens in a thread: it meets the others, plays the programs of its ranks, and takes the
 * times. */
#include <sched.h>

#include "runtime/exec/threads/game.h"

/* The threads of a host take its processors in turn, also when they are of several processes. */
static void pin_to(const struct tutti_game *game, uint32_t number)
{
    const cpu_set_t *processors = &game->troupe->processors;
    uint32_t seat = game->seat_first + number - game->first_rank;
    uint32_t skip = seat % (uint32_t)CPU_COUNT(processors);
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
static int explain_deadlock(struct tutti_game *game, struct tutti_err *err)
{
    char text[512] = "a rank";

    for (uint32_t i = 0; i < game->player_count; i++) {
        if (!atomic_load(&game->players[i].playing))
            continue;
        tutti_engine_waiting_for(game->players[i].engine, text, sizeof(text));
        break;
    }
    return tutti_fail(err, TUTTI_ECHECK, "deadlock: %s can never finish", text);
}

/* Before iteration `number`. */
static int meet(struct tutti_player *player, uint64_t number, struct tutti_err *err)
{
    struct tutti_conductor *conductor = player->stages[0].conductor;
    struct tutti_game *game = player->game;
    struct tutti_hall *hall = &game->hall;
    char time[TUTTI_UNIT_TEXT_BYTES];
    int status;

    if (conductor != NULL && number > 0)
        tutti_conductor_end(conductor, player->seat);
    err->text[0] = '\0';
    status = hall->carrier == NULL
                 ? tutti_hall_meet(hall, player->seat)
                 : tutti_crossing_meet(&game->ways.crossing, hall, player->seat, err);
    if (status == -TUTTI_ECHECK)
        return explain_deadlock(game, err);
    if (status == -TUTTI_ETIME)
        return tutti_fail(err, TUTTI_ETIME,
                          "deadline of %s passed: rank %u waits for the others before an iteration",
                          tutti_print_time(hall->deadline_ps, time), player->first_rank);
    if (status < 0 && err->text[0] != '\0')
        return tutti_wrap(err, status, "rank %u, before an iteration", player->first_rank);
    if (status < 0)
        return tutti_fail(err, TUTTI_EIO, "broken off: rank %u before an iteration",
                          player->first_rank);
    return 0;
}

/* `generation` counts the times that the ranks have met. */
static int play_once(struct tutti_player *player, bool last, uint64_t generation,
                     struct tutti_err *err)
{
    bool recorded = last && player->game->play->record != NULL;
    struct tutti_conductor *conductor = player->stages[0].conductor;
    int status = 0;

    err->text[0] = '\0';
    if (conductor != NULL)
        status = tutti_conductor_begin(conductor, player->seat, generation, err);
    if (status < 0 && err->text[0] != '\0')
        return tutti_wrap(err, status, "rank %u has not begun", player->first_rank);
    if (status < 0)
        return tutti_fail(err, TUTTI_EIO, "broken off: rank %u has not begun", player->first_rank);
    for (uint32_t i = 0; i < player->rank_count; i++) {
        player->stages[i].timed = recorded;
        tutti_thread_stage_begin(&player->stages[i]);
    }
    atomic_store(&player->playing, true);
    status = tutti_engine_run(player->engine,
                              conductor != NULL ? &tutti_ensemble_ops : &tutti_thread_stage_ops,
                              conductor != NULL ? (void *)&player->ensemble : &player->stages[0],
                              recorded ? &player->record : NULL, err);
    atomic_store(&player->playing, false);
    for (uint32_t i = 0; i < player->rank_count && status == 0; i++)
        status = tutti_thread_stage_settle(&player->stages[i], err);
    return status;
}

static int play_all(struct tutti_player *player, struct tutti_err *err)
{
    struct tutti_game *game = player->game;
    const struct tutti_play *play = game->play;
    uint64_t total = (uint64_t)play->warmup_count + play->iteration_count;
    uint64_t generation = 0;
    int status = 0;

    for (uint64_t i = 0; i < total && status == 0; i++) {
        bool timed = i >= play->warmup_count;
        uint64_t taken = timed && play->barrier ? i - play->warmup_count : 0;

        if (timed && (play->barrier || i == play->warmup_count))
            player->arrived_ps[taken] = tutti_hall_now(&game->hall);
        if (play->barrier || i == 0 || i == play->warmup_count) {
            status = meet(player, i, err);
            generation++;
            /* The first rank is the one that knows when the others were there. */
            if (game->opened_ps != NULL && player->seat == game->first_rank)
                game->opened_ps[taken] = tutti_hall_now(&game->hall);
        }
        if (status == 0)
            status = play_once(player, i + 1 == total, generation, err);
        /* Emulated, there is one clock for all processes. */
        if (status == 0 && game->opened_ps != NULL && player->stages[0].conductor != NULL &&
            player->seat == game->first_rank)
            game->opened_ps[play->barrier ? taken : 0] =
                tutti_conductor_epoch(player->stages[0].conductor);
        if (timed && (play->barrier || i + 1 == total))
            player->ended_ps[taken] = tutti_hall_now(&game->hall);
    }
    if (status == 0 && player->stages[0].conductor != NULL)
        tutti_conductor_end(player->stages[0].conductor, player->seat);
    return status;
}

void *tutti_player_run(void *data)
{
    struct tutti_player *player = data;
    struct tutti_game *game = player->game;
    struct tutti_err err;
    int status;

    if (game->troupe->pin)
        pin_to(game, player->seat);
    status = play_all(player, &err);
    if (status == 0 && tutti_hall_leave(&game->hall) < 0)
        status = explain_deadlock(game, &err);
    if (status == -TUTTI_EIO && atomic_exchange(&game->is_broken, 1) == 0)
        game->broken = err;
    if (status < 0)
        tutti_hall_stop(&game->hall, status, &err);
    if (status < 0 && game->conductor.podium != NULL)
        tutti_podium_break(&game->podium);
    return NULL;
}
