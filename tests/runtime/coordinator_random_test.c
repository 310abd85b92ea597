/* Coordinators under random orders of events: whatever comes when, late or twice, steps follow each
 * other, no gradient is taken twice or too old, no closure is lost, queues keep their bounds,
 * nobody waits who could go on, and everybody finishes. coordinator_mutants.sh beside this asks
 * whether faults in the coordinators would be noticed. */
#include "tests/runtime/coordinator_undone.h"

static const char *const names[] = {"async", "sync", "queue", "supervisor", "elastic"};

enum { SPOILT_MAX = 512, RANDOM_EVENTS = 200 };

/* ---- making actions wrong ---------------------------------------------------------------------
 */

static uint32_t spoil_one(struct world *w, struct tutti_coord_action *a,
                          struct tutti_coord_action *more)
{
    bool takes = a->kind == TUTTI_ACTION_APPLY || a->kind == TUTTI_ACTION_COMPLETE;

    switch (w->spoil) {
    case SPOIL_TWICE:
        *more = *a;
        return takes && chance(w, 4) ? 2 : 1;
    case SPOIL_FORGET:
        return a->kind == TUTTI_ACTION_START && chance(w, 8) ? 0 : 1;
    case SPOIL_TAKE:
        if (a->kind == TUTTI_ACTION_DROP)
            a->kind = w->kind == QUEUE ? TUTTI_ACTION_COMPLETE : TUTTI_ACTION_APPLY;
        return 1;
    case SPOIL_SKIP:
        if (a->kind == TUTTI_ACTION_APPLY || a->kind == TUTTI_ACTION_ADVANCE ||
            a->kind == TUTTI_ACTION_START) {
            a->step++;
            a->number++;
        }
        return 1;
    case SPOIL_CROWD:
        *more = *a;
        more->episode++;
        return a->kind == TUTTI_ACTION_START && chance(w, 8) ? 2 : 1;
    default:
        return 1;
    }
}

static uint32_t spoil_actions(struct world *w, const struct tutti_coord_action *given,
                              uint32_t count, struct tutti_coord_action *ret)
{
    uint32_t total = 0;

    for (uint32_t i = 0; i < count && total + 2 < SPOILT_MAX; i++) {
        struct tutti_coord_action more;
        struct tutti_coord_action action = given[i];
        uint32_t times = spoil_one(w, &action, &more);

        if (times > 0)
            ret[total++] = action;
        if (times > 1)
            ret[total++] = more;
    }
    return total;
}

/* ---- a run ------------------------------------------------------------------------------------
 */

static void submitted(struct world *w, const struct tutti_coord_event *event,
                      const struct tutti_coord_action *actions, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (actions[i].kind == TUTTI_ACTION_REFUSE)
            return;
    if (w->queued_count >= w->params.queue_bound)
        blame(w, "a queue of %u takes one more", w->queued_count);
    if (w->error_pending)
        blame(w, "an error is passed over");
    w->fate[event->number] = 1;
    queue_push(w, event->number);
}

static void feed(struct world *w, struct tutti_coord_event event)
{
    struct tutti_coord_action spoilt[SPOILT_MAX];
    bool timely = is_timely_event(w, &event);
    struct node *node = &w->node[event.member];
    struct seen seen = {.saving = w->saving != 0};
    uint32_t taken = 0;
    uint32_t count;
    const struct tutti_coord_action *actions =
        tutti_coordinator_event(w->coordinator, &event, &count);

    w->event_count++;
    count = spoil_actions(w, actions, count, spoilt);
    rule_event(w, &event, timely);
    if (event.kind == TUTTI_EVENT_SUBMITTED)
        submitted(w, &event, spoilt, count);
    for (uint32_t i = 0; i < count && w->why[0] == '\0'; i++) {
        see(w, &spoilt[i], &seen);
        hold_to_rules(w, &spoilt[i], &event, timely, &taken);
        obey(w, &spoilt[i]);
    }
    if (event.kind == TUTTI_EVENT_SUBMITTED)
        w->error_pending = false;
    if (event.kind == TUTTI_EVENT_DONE && timely && taken == 0 && w->kind <= QUEUE)
        blame(w, "what member %u has done is forgotten", event.member);
    check_undone(w, &event, &seen);
    if (event.kind == TUTTI_EVENT_PROGRESS && timely && node->busy == event.episode &&
        node->alive && node->incarnation == event.incarnation)
        send_from(w, event.member, TUTTI_EVENT_PROGRESS, event.episode, ++w->progress);
}

/* A message of those on the way; sometimes it comes again later. */
static void deliver(struct world *w, bool again)
{
    uint32_t index;
    struct tutti_coord_event event;

    if (w->pool_count == 0)
        return;
    index = (uint32_t)tutti_random_below(&w->random, w->pool_count);
    event = w->pool[index];
    if (!again || event.kind == TUTTI_EVENT_JOINED || w->pool_count > POOL_MAX / 2 ||
        !chance(w, 12))
        w->pool[index] = w->pool[--w->pool_count];
    feed(w, event);
}

static void submit(struct world *w)
{
    if (w->next_closure < CLOSURES)
        feed(w, (struct tutti_coord_event){.kind = TUTTI_EVENT_SUBMITTED,
                                           .number = w->next_closure++});
}

static void leave(struct world *w, uint32_t m)
{
    if (w->node[m].alive && w->node[m].incarnation != 0)
        feed(w, (struct tutti_coord_event){TUTTI_EVENT_LEAVING, m, w->node[m].incarnation, 0, 0});
}

static void random_events(struct world *w)
{
    for (uint32_t k = 0; k < RANDOM_EVENTS && w->why[0] == '\0'; k++) {
        uint32_t m = (uint32_t)tutti_random_below(&w->random, w->params.member_count);

        if (chance(w, 16))
            crash(w, m);
        else if (chance(w, 8))
            come(w, m);
        else if (w->kind == QUEUE && chance(w, 2))
            submit(w);
        else if (w->kind == ELASTIC && chance(w, 24))
            leave(w, m);
        else if (w->kind >= SUPERVISOR && chance(w, 8))
            feed(w, (struct tutti_coord_event){.kind = TUTTI_EVENT_SAVE_DUE});
        else
            deliver(w, true);
    }
}

static bool is_done(const struct world *w)
{
    if (w->kind == QUEUE) {
        for (uint64_t i = 0; i < w->next_closure; i++)
            if (w->fate[i] == 1)
                return false;
        return w->queued_count == 0;
    }
    return tutti_coordinator_step(w->coordinator) >= w->params.last_step;
}

/* No more is lost, and who had left comes back: all must come to its end. */
static void settle(struct world *w)
{
    uint64_t limit = w->event_count + DELIVERIES_MAX;

    for (bool idle = false; !idle && w->why[0] == '\0';) {
        for (uint32_t m = 0; m < w->params.member_count; m++) {
            if (w->node[m].finished && !is_done(w))
                w->node[m].alive = false;
            come(w, m);
        }
        idle = w->pool_count == 0;
        deliver(w, false);
        if (w->event_count > limit)
            blame(w, "it does not come to an end");
    }
    if (!is_done(w))
        blame(w, "it stands still at step %llu", (unsigned long long)w->step);
    for (uint32_t m = 0; m < w->params.member_count && w->kind != QUEUE; m++)
        if (!w->node[m].finished &&
            (w->kind != SUPERVISOR || m < w->params.member_count - w->params.server_count))
            blame(w, "member %u is never told to finish", m);
}

static struct tutti_coordinator_params random_params(struct world *w)
{
    uint32_t count = 1 + (uint32_t)tutti_random_below(&w->random, NODES_MAX);
    uint64_t first = chance(w, 2) ? tutti_random_below(&w->random, 40) : 0;
    struct tutti_coordinator_params params = {
        .size = sizeof(params),
        .member_count = count,
        .first_step = first,
        .last_step = first + 1 + tutti_random_below(&w->random, 60),
        .slack = (uint32_t)tutti_random_below(&w->random, 4),
        .staleness_max = (uint32_t)tutti_random_below(&w->random, 4),
        .aggregate = 1 + (uint32_t)tutti_random_below(&w->random, 2 * count),
        .late = (enum tutti_late)tutti_random_below(&w->random, 3),
        .queue_bound = 1 + (uint32_t)tutti_random_below(&w->random, 12),
        .wait_for_all = chance(w, 2),
        .server_count = (uint32_t)tutti_random_below(&w->random, count),
        .least_members = 1 + (uint32_t)tutti_random_below(&w->random, count),
        .first_members = (uint32_t)tutti_random_below(&w->random, count + 1),
    };

    return params;
}

/* Makes the coordinator other than the rules have it. */
static void deviate(struct tutti_coordinator_params *params, enum world_kind kind)
{
    params->slack = 0;
    params->staleness_max = 0;
    params->aggregate += kind == SYNC ? 1 : 0;
    params->queue_bound++;
    params->least_members = 1;
    params->first_members = 0;
}

/* The events of one seed; `why` holds what broke the rules, "" nothing. */
static uint64_t play(enum world_kind kind, enum spoil spoil, bool deviates, uint64_t seed,
                     char *why, struct tutti_coordinator_stats *stats)
{
    struct world w = {.kind = kind, .spoil = spoil};
    const struct tutti_coordinator_ops *ops = NULL;
    struct tutti_coordinator_params params;
    struct tutti_err err = {""};

    tutti_random_seed(&w.random, seed);
    w.params = random_params(&w);
    params = w.params;
    if (deviates)
        deviate(&params, kind);
    w.step = w.saved = params.first_step;
    if (w.params.aggregate > w.params.member_count)
        w.token[w.step % TOKEN_STEPS_KEPT] = w.params.aggregate - w.params.member_count;
    if (tutti_coordinator_find(names[kind], &ops, &err) < 0 ||
        tutti_coordinator_new(ops, &params, &w.coordinator, &err) < 0) {
        snprintf(why, WHY_BYTES, "%.100s", err.text);
        return 0;
    }
    random_events(&w);
    settle(&w);
    check_counted(&w);
    *stats = *tutti_coordinator_stats(w.coordinator);
    tutti_coordinator_free(w.coordinator);
    snprintf(why, WHY_BYTES, "%s", w.why);
    return w.event_count;
}

static struct tutti_coordinator_stats play_many(enum world_kind kind)
{
    uint64_t count = test_count(100000, 20000);
    uint64_t events = 0;
    struct tutti_coordinator_stats sum = {0};

    for (uint64_t i = 0; i < count && test_failures < 5; i++) {
        struct tutti_coordinator_stats stats = {0};
        char why[WHY_BYTES];

        events += play(kind, SPOIL_NOTHING, false, test_seed + i, why, &stats);
        if (why[0] != '\0')
            TEST_FAIL("%s: --seed=%" PRIu64 ": %s", names[kind], test_seed + i, why);
        sum.started += stats.started;
        sum.applied += stats.applied;
        sum.dropped_stale += stats.dropped_stale;
        sum.dropped_late += stats.dropped_late;
        sum.lost += stats.lost;
        sum.staleness_sum += stats.staleness_sum;
        sum.completed += stats.completed;
        sum.cancelled += stats.cancelled;
        sum.refused += stats.refused;
        sum.restored += stats.restored > 1;
    }
    printf("        %s: %" PRIu64 " orders, %" PRIu64 " events\n", names[kind], count, events);
    CHECK(sum.dropped_late > count); /* they did meet what they are for */
    CHECK(sum.lost > count / 4);
    return sum;
}

TEST(async_servers_hold_in_any_order)
{
    struct tutti_coordinator_stats sum = play_many(ASYNC);

    CHECK(sum.dropped_stale > 0);
    CHECK(sum.staleness_sum > sum.applied / 4);
}

TEST(sync_servers_hold_in_any_order)
{
    CHECK(play_many(SYNC).dropped_stale > 0);
}

TEST(queues_hold_in_any_order)
{
    struct tutti_coordinator_stats sum = play_many(QUEUE);

    CHECK(sum.cancelled > 0);
    CHECK(sum.refused > 0);
    CHECK(sum.completed > sum.cancelled);
}

TEST(supervisors_hold_in_any_order)
{
    CHECK(play_many(SUPERVISOR).restored > 0);
}

TEST(elastic_groups_hold_in_any_order)
{
    CHECK(play_many(ELASTIC).restored > 0);
}

/* ---- and the rules notice ----------------------------------------------------------------------
 */

/* How many of 200 seeds were noticed. */
static uint32_t noticed(enum world_kind kind, enum spoil spoil, bool deviates)
{
    uint32_t count = 0;

    for (uint64_t i = 0; i < 200; i++) {
        struct tutti_coordinator_stats stats;
        char why[WHY_BYTES];

        play(kind, spoil, deviates, test_seed + i, why, &stats);
        count += why[0] != '\0';
    }
    return count;
}

TEST(a_spoilt_coordinator_is_noticed)
{
    for (enum world_kind kind = ASYNC; kind < WORLD_KINDS; kind++) {
        for (enum spoil spoil = SPOIL_TWICE; spoil < SPOIL_KINDS; spoil++) {
            uint32_t count = noticed(kind, spoil, false);

            if (kind >= SUPERVISOR && spoil == SPOIL_TWICE)
                continue;                                   /* they take no gradients */
            if (count < (spoil == SPOIL_FORGET ? 5u : 50u)) /* others may go on without it */
                TEST_FAIL("%s: spoilt in way %d, and only %u of 200 seeds show it", names[kind],
                          spoil, count);
        }
    }
}

TEST(a_coordinator_of_other_bounds_is_noticed)
{
    for (enum world_kind kind = ASYNC; kind < WORLD_KINDS; kind++) {
        uint32_t count = noticed(kind, SPOIL_NOTHING, true);

        if (kind != SUPERVISOR && count < 20)
            TEST_FAIL("%s: other bounds, and only %u of 200 seeds show it", names[kind], count);
    }
}
