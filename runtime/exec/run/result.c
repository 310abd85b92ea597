/* The end of a step: status, times and records of the ranks here, and of those of all
 * processes. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/exec/run/run.h"

enum { TIMES_AT_ONCE = 4096, EVENTS_AT_ONCE = 512 };

/* A result on its way from the ranks to the caller. */
struct result {
    struct tutti_player_run *run;
    struct tutti_verdict mine;
    struct tutti_verdict *all; /* [process] */
    tutti_ps wait_ps;          /* for the other processes */
};

static tutti_ps after(tutti_ps now_ps, tutti_ps ps)
{
    return ps > INT64_MAX - now_ps ? INT64_MAX : now_ps + ps;
}

/* ---- of this process ---- */

static int64_t wall_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Of how many iterations the times are kept. */
static void count_iterations(struct tutti_player_run *run, uint64_t timed_count)
{
    run->timed_count = (uint32_t)timed_count;
    run->taken_count = run->load.meets || timed_count == 0 ? run->timed_count : 1;
}

static void look_back(struct result *result)
{
    struct tutti_player_run *run = result->run;

    count_iterations(run, run->timed_count);
    result->mine.timed_count = run->timed_count;
    result->mine.step_count = run->times.step_count;
    result->mine.event_count = run->record.event_count;
    result->mine.took_ps = run->taken_count > 0 ? run->took_ps[0] : 0;
    result->mine.opened_ns = run->times.opened_ns;
}

/* Events of the ranks here, on the clock of the last barrier that all have met at: from when it
 * opened for the first process of this host. Between hosts there is no better clock than that. */
static void copy_events(const struct result *result, struct tutti_record *record)
{
    const struct tutti_player_run *run = result->run;
    const struct tutti_home *homes = run->load.homes;
    const struct tutti_group *group = run->load.group;
    int64_t later_ns = 0;

    for (uint32_t i = 0; i < group->count; i++) {
        const struct tutti_verdict *other = &result->all[i];

        if (i != group->index && homes[i].host == homes[group->index].host &&
            other->opened_ns != 0 && other->opened_ns + later_ns < result->mine.opened_ns)
            later_ns = result->mine.opened_ns - other->opened_ns;
    }
    for (size_t k = 0; k < run->record.event_count; k++) {
        struct tutti_event event = run->record.events[k];

        event.start_ps += later_ns * TUTTI_PS_PER_NS;
        event.end_ps += later_ns * TUTTI_PS_PER_NS;
        event.start_ps = event.start_ps < 0 ? 0 : event.start_ps;
        event.end_ps = event.end_ps < 0 ? 0 : event.end_ps;
        record->events[record->event_count++] = event;
    }
}

/* ---- of all processes ---- */

/* Where a transport says "rank 5 (process 3) is gone", and which process; NULL, UINT32_MAX:
 * nowhere. The last place counts. */
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
static uint32_t found_gone(struct tutti_verdict *verdict)
{
    uint32_t process;

    (void)find_gone(verdict->err.text, &process);
    return process;
}

/* Who was found gone may have ended for a third one: the one at the end of such a deferred, which
 * may be a circle of two that have lost each other. */
static uint32_t chase(struct tutti_verdict *all, uint32_t count, uint32_t first)
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
static const struct tutti_verdict *choose(struct tutti_verdict *all, uint32_t count)
{
    const struct tutti_verdict *chosen = NULL;

    for (uint32_t i = 0; i < count; i++) {
        if (all[i].status < 0 && all[i].status != -TUTTI_EIO)
            return &all[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct tutti_verdict *end = &all[chase(all, count, i)];

        if (all[i].status < 0 && (chosen == NULL || end->ended_ns < chosen->ended_ns))
            chosen = end;
    }
    return chosen;
}

/* What was seen here, once the group has told who is lost: a third process that has ended for it,
 * as this one does, closes its connections, too, and is not to be blamed. */
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
    struct tutti_group *group = result->run->load.group;
    const struct tutti_verdict *worst;
    struct tutti_err lost;
    int status = tutti_group_exchange(group, &result->mine, sizeof(result->mine), result->all,
                                      result->wait_ps, &lost);

    if (status < 0) {
        /* The group knows who is gone; what was seen here, what that has held up. */
        if (result->mine.status < 0) {
            struct tutti_err who = lost;

            status = (int)result->mine.status;
            lost = result->mine.err;
            say_who(&lost, status, &who);
        }
        tutti_group_stop(group, status, &lost);
        if (err != NULL)
            *err = lost;
        return status;
    }
    for (uint32_t i = 0; i < group->count; i++) /* they have come from elsewhere */
        result->all[i].err.text[TUTTI_ERR_TEXT_BYTES - 1] = '\0';
    worst = choose(result->all, group->count);
    if (worst == NULL)
        return 0;
    if (err != NULL)
        *err = worst->err;
    return (int)worst->status;
}

/* The time of an iteration is that of the process for which it took longest. */
static int share_times(struct result *result, struct tutti_err *err)
{
    struct tutti_player_run *run = result->run;
    struct tutti_group *group = run->load.group;
    uint32_t count = run->taken_count;
    tutti_ps *all = calloc(group->count, TIMES_AT_ONCE * sizeof(all[0]));
    int status = tutti_group_agree(group, all == NULL ? tutti_nomem(err) : 0, result->wait_ps, err);

    for (uint32_t at = 0; at < count && status == 0; at += TIMES_AT_ONCE) {
        uint32_t some = count - at < TIMES_AT_ONCE ? count - at : TIMES_AT_ONCE;

        status = tutti_group_exchange(group, run->took_ps + at, some * sizeof(all[0]), all,
                                      result->wait_ps, err);
        for (size_t i = 0; status == 0 && i < (size_t)some * group->count; i++) {
            tutti_ps *took_ps = &run->took_ps[at + i % some];

            *took_ps = all[i] > *took_ps ? all[i] : *took_ps;
        }
    }
    free(all);
    return status;
}

/* Often there is one time, which they have said already. */
static int agree_on_times(struct result *result, struct tutti_err *err)
{
    struct tutti_player_run *run = result->run;
    uint32_t process_count = run->load.group->count;
    uint64_t timed_count = 0;
    tutti_ps took_ps = 0;

    for (uint32_t i = 0; i < process_count; i++) {
        const struct tutti_verdict *one = &result->all[i];

        timed_count = one->timed_count > timed_count ? one->timed_count : timed_count;
        took_ps = one->took_ps > took_ps ? one->took_ps : took_ps;
    }
    count_iterations(run, timed_count);
    if (run->taken_count > 1)
        return share_times(result, err);
    run->took_ps[0] = took_ps;
    return 0;
}

/* Events of all processes, in pieces as long as one process has any left. */
static int share_events(struct result *result, struct tutti_record *record, struct tutti_err *err)
{
    struct tutti_group *group = result->run->load.group;
    size_t own_count = record->event_count; /* at the front of the record */
    uint64_t most = 0;
    struct tutti_event *mine = calloc(EVENTS_AT_ONCE, sizeof(mine[0]));
    struct tutti_event *all = calloc(group->count, EVENTS_AT_ONCE * sizeof(all[0]));
    int status = mine == NULL || all == NULL ? tutti_nomem(err) : 0;

    status = tutti_group_agree(group, status, result->wait_ps, err);
    for (uint32_t i = 0; i < group->count; i++)
        most = result->all[i].event_count > most ? result->all[i].event_count : most;
    for (uint64_t at = 0; at < most && status == 0; at += EVENTS_AT_ONCE) {
        for (uint64_t k = at; k < own_count && k < at + EVENTS_AT_ONCE; k++)
            mine[k - at] = record->events[k];
        status = tutti_group_exchange(group, mine, EVENTS_AT_ONCE * sizeof(mine[0]), all,
                                      result->wait_ps, err);
        for (uint32_t i = 0; i < group->count && status == 0; i++) {
            uint64_t count = result->all[i].event_count;

            for (uint64_t k = at; i != group->index && k < count && k < at + EVENTS_AT_ONCE; k++)
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
    struct tutti_player_run *run = result->run;
    struct tutti_record *record = run->play.record;
    struct tutti_group *group = run->load.group;
    tutti_ps start_ps = INT64_MAX;
    uint64_t count = 0;
    int status = 0;

    for (uint32_t i = 0; i < group->count; i++)
        count += result->all[i].event_count;
    tutti_record_clear(record);
    if (tutti_record_reserve(record, (size_t)count) < 0)
        status = tutti_nomem(err);
    status = tutti_group_agree(group, status, result->wait_ps, err);
    if (status < 0)
        return status;
    copy_events(result, record);
    if (group->count > 1)
        status = share_events(result, record, err);
    /* Without a barrier before the last iteration, its first step is the start. */
    for (size_t i = 0; i < record->event_count && !run->load.meets; i++)
        start_ps = record->events[i].start_ps < start_ps ? record->events[i].start_ps : start_ps;
    for (size_t i = 0; i < record->event_count && !run->load.meets; i++) {
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
    const struct tutti_player_run *run = result->run;
    uint32_t count = run->timed_count;
    struct tutti_played played = {.host_ps = run->times.host_ps,
                                  .record_error_ps = run->times.record_error_ps};

    for (uint32_t i = 0; i < run->load.group->count; i++)
        played.step_count += result->all[i].step_count;
    for (uint32_t i = 0; i < run->taken_count; i++)
        played.total_ps += run->took_ps[i];
    if (count > 0 && run->load.meets) {
        qsort(run->took_ps, count, sizeof(run->took_ps[0]), compare_ps);
        played.best_ps = run->took_ps[0];
        played.median_ps = run->took_ps[count / 2];
    } else if (count > 0) {
        played.median_ps = played.best_ps = played.total_ps / count;
    }
    *ret = played;
}

int tutti_player_run_conclude(struct tutti_player_run *run, int status, struct tutti_played *ret,
                              struct tutti_err *err)
{
    struct tutti_group *group = run->load.group;
    struct result result = {.run = run, .all = run->verdicts};

    if (status == 0 && group->count == 1)
        assert(run->load.own_count == run->load.schedule->rank_count);
    /* One who has not ended yet may still wait for his deadline. Without ranks one waits for all
     * iterations; if the others give up they say so. And where this process has given up, all that
     * can hear it have done so too: who has not come soon will not come. */
    result.wait_ps = status < 0                 ? 3 * TUTTI_PS_PER_S
                     : run->load.own_count == 0 ? INT64_MAX
                                                : after(5 * TUTTI_PS_PER_S, run->load.deadline_ps);
    if (status == 0)
        result.wait_ps = after(result.wait_ps, run->load.deadline_ps);
    if (status == 0)
        look_back(&result);
    result.mine.status = status;
    result.mine.ended_ns = wall_ns();
    if (status < 0 && err != NULL)
        result.mine.err = *err;
    if (group->count > 1)
        status = judge(&result, err);
    else if (status == 0)
        result.all[0] = result.mine;
    if (status == 0 && group->count > 1)
        status = agree_on_times(&result, err);
    if (status == 0 && run->play.record != NULL)
        status = merge_records(&result, err);
    if (status < 0)
        return status;
    sum_up(&result, ret);
    return run->timed_count < run->play.iteration_count;
}
