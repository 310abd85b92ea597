/* The end of a game: status, times and records of the ranks here, and of those of all processes. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/exec/threads/game.h"

enum { TIMES_AT_ONCE = 4096, EVENTS_AT_ONCE = 512 };

/* What a process says first. */
struct verdict {
    int64_t status;
    uint64_t event_count;
    uint64_t step_count;
    uint64_t opened_ns; /* when the last barrier opened, on the clock of the host */
    int64_t ended_ns;   /* by the wall clock, which hosts have about the same */
    struct tutti_err err;
};

/* A result on its way from the ranks to the caller. */
struct result {
    struct tutti_game *game;
    struct verdict mine;
    struct verdict *all; /* [process] */
    tutti_ps *took_ps;   /* [taken iterations] */
    tutti_ps wait_ps;    /* for the other processes */
};

/* ---- of this process ---- */

static int64_t wall_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The start of an iteration and its last end here. Alone the start is the last arrival; with other
 * processes there is no common clock, and it is when the barrier opened here. */
static void bounds_of(const struct tutti_game *game, uint32_t taken, tutti_ps *ret_start_ps,
                      tutti_ps *ret_end_ps)
{
    tutti_ps start_ps = game->opened_ps != NULL ? game->opened_ps[taken] : 0;
    tutti_ps end_ps = start_ps;

    for (uint32_t i = 0; i < game->player_count; i++) {
        const struct tutti_player *player = &game->players[i];

        if (game->opened_ps == NULL && player->arrived_ps[taken] > start_ps)
            start_ps = player->arrived_ps[taken];
        if (player->ended_ps[taken] > end_ps)
            end_ps = player->ended_ps[taken];
    }
    *ret_start_ps = start_ps;
    *ret_end_ps = end_ps;
}

static void look_back(struct result *result)
{
    const struct tutti_game *game = result->game;

    for (uint32_t i = 0; i < game->player_count; i++) {
        result->mine.step_count += tutti_engine_step_count(game->players[i].engine);
        result->mine.event_count += game->players[i].record.event_count;
    }
    for (uint32_t i = 0; i < game->taken_count; i++) {
        tutti_ps start_ps;

        bounds_of(game, i, &start_ps, &result->took_ps[i]);
        result->took_ps[i] -= start_ps;
    }
    if (game->opened_ps != NULL && game->own_count > 0)
        result->mine.opened_ns =
            (uint64_t)game->hall.epoch_s * UINT64_C(1000000000) +
            (uint64_t)(game->opened_ps[game->taken_count - 1] / TUTTI_PS_PER_NS);
}

/* Events of the ranks here, on the clock of the last barrier that all have met at: from when it
 * opened for the first process of this host. Between hosts there is no better clock than that. */
static void copy_events(const struct result *result, struct tutti_record *record)
{
    const struct tutti_game *game = result->game;
    const struct tutti_troupe *troupe = game->troupe;
    uint64_t later_ns = 0;
    tutti_ps start_ps;
    tutti_ps end_ps;

    bounds_of(game, game->taken_count - 1, &start_ps, &end_ps);
    for (uint32_t i = 0; i < troupe->crew->count; i++) {
        const struct verdict *other = &result->all[i];

        if (i != troupe->crew->index &&
            troupe->homes[i].host == troupe->homes[troupe->crew->index].host &&
            other->opened_ns != 0 && other->opened_ns + later_ns < result->mine.opened_ns)
            later_ns = result->mine.opened_ns - other->opened_ns;
    }
    start_ps -= (tutti_ps)later_ns * TUTTI_PS_PER_NS;
    for (uint32_t i = 0; i < game->player_count; i++) {
        const struct tutti_record *own = &game->players[i].record;

        for (size_t k = 0; k < own->event_count; k++) {
            struct tutti_event event = own->events[k];

            event.start_ps -= event.start_ps < start_ps ? event.start_ps : start_ps;
            event.end_ps -= event.end_ps < start_ps ? event.end_ps : start_ps;
            record->events[record->event_count++] = event;
        }
    }
}

/* ---- of all processes ---- */

/* Where a carrier says "rank 5 (process 3) is gone", and which process; NULL, UINT32_MAX: nowhere.
 * The last place counts. */
static char *find_gone(char *text, uint32_t *ret_process)
{
    char *found = NULL;

    *ret_process = UINT32_MAX;
    for (char *p = strstr(text, "rank "); p != NULL; p = strstr(p + 1, "rank ")) {
        uint32_t number = 0;
        int bytes = 0;

        if (sscanf(p, "rank %*u (process %" SCNu32 ") is gone%n", &number, &bytes) != 1 ||
            bytes == 0)
            continue;
        *ret_process = number;
        found = p;
    }
    return found;
}

/* The process that this one found gone, or UINT32_MAX. */
static uint32_t found_gone(struct verdict *verdict)
{
    uint32_t process;

    (void)find_gone(verdict->err.text, &process);
    return process;
}

/* Who was found gone may have ended for a third one: the one at the end of such a chain, which may
 * be a circle of two that have lost each other. */
static uint32_t chase(struct verdict *all, uint32_t count, uint32_t first)
{
    for (uint32_t turn = 0; turn < count; turn++) {
        uint32_t next = found_gone(&all[first]);

        if (next >= count || all[next].status == 0)
            break;
        first = next;
    }
    return first;
}

/* Whose word holds: of those that did not only find others gone, the first. Else, of those at the
 * ends of the chains, the one that ended first. NULL: all is well. */
static const struct verdict *choose(struct verdict *all, uint32_t count)
{
    const struct verdict *chosen = NULL;

    for (uint32_t i = 0; i < count; i++) {
        if (all[i].status < 0 && all[i].status != -TUTTI_EIO)
            return &all[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct verdict *end = &all[chase(all, count, i)];

        if (all[i].status < 0 && (chosen == NULL || end->ended_ns < chosen->ended_ns))
            chosen = end;
    }
    return chosen;
}

/* What was seen here, once the crew has told who is lost: a third process that has ended for it, as
 * this one does, closes its connections, too, and is not to be blamed. */
static void say_who(struct tutti_err *err, int status, const struct tutti_err *lost)
{
    uint32_t process;
    char *gone = find_gone(err->text, &process);
    char named[32];

    (void)snprintf(named, sizeof(named), "process %" PRIu32 " of ", process);
    if (gone != NULL && strstr(lost->text, named) == NULL) {
        while (gone > err->text && (gone[-1] == ' ' || gone[-1] == ':'))
            gone--;
        *gone = '\0';
        (void)tutti_wrap(err, status, "broken off");
    }
    if (strstr(err->text, lost->text) == NULL)
        (void)tutti_wrap(err, status, "%s", lost->text);
}

/* All say how it went. In all processes the same one's word holds. */
static int judge(struct result *result, struct tutti_err *err)
{
    struct tutti_crew *crew = result->game->troupe->crew;
    const struct verdict *worst;
    struct tutti_err lost;
    int status = tutti_crew_exchange(crew, &result->mine, sizeof(result->mine), result->all,
                                     result->wait_ps, &lost);

    if (status < 0) {
        /* The crew knows who is gone; what was seen here, what that has held up. */
        if (result->mine.status < 0) {
            struct tutti_err who = lost;

            status = (int)result->mine.status;
            lost = result->mine.err;
            say_who(&lost, status, &who);
        }
        tutti_crew_stop(crew, status, &lost);
        if (err != NULL)
            *err = lost;
        return status;
    }
    for (uint32_t i = 0; i < crew->count; i++) /* they have come from elsewhere */
        result->all[i].err.text[TUTTI_ERR_TEXT_BYTES - 1] = '\0';
    worst = choose(result->all, crew->count);
    if (worst == NULL)
        return 0;
    if (err != NULL)
        *err = worst->err;
    return (int)worst->status;
}

/* The time of an iteration is that of the process for which it took longest. */
static int share_times(struct result *result, struct tutti_err *err)
{
    struct tutti_crew *crew = result->game->troupe->crew;
    uint32_t count = result->game->taken_count;
    tutti_ps *all = calloc(crew->count, TIMES_AT_ONCE * sizeof(all[0]));
    int status = tutti_crew_agree(crew, all == NULL ? tutti_nomem(err) : 0, result->wait_ps, err);

    for (uint32_t at = 0; at < count && status == 0; at += TIMES_AT_ONCE) {
        uint32_t some = count - at < TIMES_AT_ONCE ? count - at : TIMES_AT_ONCE;

        status = tutti_crew_exchange(crew, result->took_ps + at, some * sizeof(all[0]), all,
                                     result->wait_ps, err);
        for (size_t i = 0; status == 0 && i < (size_t)some * crew->count; i++) {
            tutti_ps *took_ps = &result->took_ps[at + i % some];

            *took_ps = all[i] > *took_ps ? all[i] : *took_ps;
        }
    }
    free(all);
    return status;
}

/* Events of all processes, in pieces as long as one process has any left. */
static int share_events(struct result *result, struct tutti_record *record, struct tutti_err *err)
{
    struct tutti_crew *crew = result->game->troupe->crew;
    size_t own_count = record->event_count; /* at the front of the record */
    uint64_t most = 0;
    struct tutti_event *mine = calloc(EVENTS_AT_ONCE, sizeof(mine[0]));
    struct tutti_event *all = calloc(crew->count, EVENTS_AT_ONCE * sizeof(all[0]));
    int status = mine == NULL || all == NULL ? tutti_nomem(err) : 0;

    status = tutti_crew_agree(crew, status, result->wait_ps, err);
    for (uint32_t i = 0; i < crew->count; i++)
        most = result->all[i].event_count > most ? result->all[i].event_count : most;
    for (uint64_t at = 0; at < most && status == 0; at += EVENTS_AT_ONCE) {
        for (uint64_t k = at; k < own_count && k < at + EVENTS_AT_ONCE; k++)
            mine[k - at] = record->events[k];
        status = tutti_crew_exchange(crew, mine, EVENTS_AT_ONCE * sizeof(mine[0]), all,
                                     result->wait_ps, err);
        for (uint32_t i = 0; i < crew->count && status == 0; i++) {
            uint64_t count = result->all[i].event_count;

            for (uint64_t k = at; i != crew->index && k < count && k < at + EVENTS_AT_ONCE; k++)
                record->events[record->event_count++] =
                    all[(size_t)i * EVENTS_AT_ONCE + (size_t)(k - at)];
        }
    }
    free(mine);
    free(all);
    return status;
}

static int merge_records(struct result *result, struct tutti_err *err)
{
    struct tutti_game *game = result->game;
    struct tutti_record *record = game->play->record;
    struct tutti_crew *crew = game->troupe->crew;
    tutti_ps start_ps = INT64_MAX;
    uint64_t count = 0;
    int status = 0;

    for (uint32_t i = 0; i < crew->count; i++)
        count += result->all[i].event_count;
    tutti_record_clear(record);
    if (tutti_record_reserve(record, (size_t)count) < 0)
        status = tutti_nomem(err);
    status = tutti_crew_agree(crew, status, result->wait_ps, err);
    if (status < 0)
        return status;
    copy_events(result, record);
    if (crew->count > 1)
        status = share_events(result, record, err);
    /* Without a barrier before the last iteration, its first step is the start. */
    for (size_t i = 0; i < record->event_count && !game->play->barrier; i++)
        start_ps = record->events[i].start_ps < start_ps ? record->events[i].start_ps : start_ps;
    for (size_t i = 0; i < record->event_count && !game->play->barrier; i++) {
        record->events[i].start_ps -= start_ps;
        record->events[i].end_ps -= start_ps;
    }
    tutti_record_sort(record);
    return status;
}

static int compare_ps(const void *left, const void *right)
{
    tutti_ps a = *(const tutti_ps *)left;
    tutti_ps b = *(const tutti_ps *)right;

    return (a > b) - (a < b);
}

static void sum_up(const struct result *result, struct tutti_played *ret)
{
    const struct tutti_game *game = result->game;
    uint32_t count = game->play->iteration_count;
    struct tutti_played played = {0};

    for (uint32_t i = 0; i < game->troupe->crew->count; i++)
        played.step_count += result->all[i].step_count;
    for (uint32_t i = 0; i < game->taken_count; i++)
        played.total_ps += result->took_ps[i];
    qsort(result->took_ps, game->taken_count, sizeof(result->took_ps[0]), compare_ps);
    played.best_ps = game->play->barrier ? result->took_ps[0] : played.total_ps / count;
    played.median_ps = game->play->barrier ? result->took_ps[count / 2] : played.best_ps;
    *ret = played;
}

int tutti_game_conclude(struct tutti_game *game, int status, struct tutti_played *ret,
                        struct tutti_err *err)
{
    struct tutti_crew *crew = game->troupe->crew;
    struct result result = {.game = game};

    if (status == 0 && crew->count == 1)
        assert(game->own_count == game->schedule->rank_count);
    /* One who has not ended yet may still wait for his deadline. Without ranks one waits for all
     * iterations; if the others give up they say so. And where this process has given up, all that
     * can hear it have done so too: who has not come soon will not come. */
    result.wait_ps = status < 0 ? 3 * TUTTI_PS_PER_S
                     : game->own_count == 0
                         ? INT64_MAX
                         : tutti_hall_after(5 * TUTTI_PS_PER_S, game->deadline_ps);
    if (status == 0)
        result.wait_ps = tutti_hall_after(result.wait_ps, game->deadline_ps);
    result.all = calloc(crew->count, sizeof(result.all[0]));
    result.took_ps = calloc(game->taken_count, sizeof(result.took_ps[0]));
    if (status == 0 && (result.all == NULL || result.took_ps == NULL))
        status = tutti_nomem(err);
    if (status == 0)
        look_back(&result);
    result.mine.status = status;
    result.mine.ended_ns = wall_ns();
    if (status < 0 && err != NULL)
        result.mine.err = *err;
    if (result.all == NULL && crew->count > 1)
        tutti_crew_stop(crew, status, err);
    else if (crew->count > 1)
        status = judge(&result, err);
    else if (status == 0)
        result.all[0] = result.mine;
    if (status == 0 && crew->count > 1)
        status = share_times(&result, err);
    if (status == 0 && game->play->record != NULL)
        status = merge_records(&result, err);
    if (status == 0)
        sum_up(&result, ret);
    free(result.all);
    free(result.took_ps);
    return status;
}
