/* Coordinators, told as stories: what happens, and what follows from it. */
#include "runtime/coordinator.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/alloc_fail.h"
#include "tests/test.h"

enum { TEXT_BYTES = 1024 };

static struct tutti_coordinator *c; /* of the running test */
static char seen[TEXT_BYTES];

static void begin(const char *kind, struct tutti_coordinator_params params)
{
    const struct tutti_coordinator_ops *ops = NULL;
    struct tutti_err err = {""};

    params.size = sizeof(params);
    c = NULL;
    CHECK_OK(tutti_coordinator_find(kind, &ops, &err), err);
    CHECK_OK(tutti_coordinator_new(ops, &params, &c, &err), err);
}

static void end(void)
{
    tutti_coordinator_free(c);
    c = NULL;
}

static const char *const words[] = {"",        "welcome",  "start",      "abort",   "apply",
                                    "advance", "drop",     "initialise", "restore", "copy",
                                    "save",    "complete", "refuse",     "cancel",  "finish"};

/* "welcome 0, start 0 @5": the actions that follow, with members and steps; of a copy, a closure or
 * a cancelled number, ":number". */
static const char *feed(struct tutti_coord_event event)
{
    uint32_t count = 0;
    const struct tutti_coord_action *action = tutti_coordinator_event(c, &event, &count);
    size_t used = 0;

    seen[0] = '\0';
    for (uint32_t i = 0; i < count && used < TEXT_BYTES; i++, action++) {
        used += (size_t)snprintf(seen + used, TEXT_BYTES - used, "%s%s", i == 0 ? "" : ", ",
                                 words[action->kind]);
        if (action->member != TUTTI_MEMBER_NONE)
            used += (size_t)snprintf(seen + used, TEXT_BYTES - used, " %u", action->member);
        if (action->kind != TUTTI_ACTION_WELCOME && action->kind != TUTTI_ACTION_ABORT &&
            action->kind != TUTTI_ACTION_FINISH && action->kind != TUTTI_ACTION_DROP &&
            action->kind < TUTTI_ACTION_COMPLETE && action->kind != TUTTI_ACTION_COPY)
            used += (size_t)snprintf(seen + used, TEXT_BYTES - used, " @%llu",
                                     (unsigned long long)action->step);
        if (action->number > 0)
            used += (size_t)snprintf(seen + used, TEXT_BYTES - used, " :%llu",
                                     (unsigned long long)action->number);
    }
    return seen;
}

/* From member m as it is now, about what it does. */
static const char *from(uint32_t m, enum tutti_coord_event_kind kind, uint64_t number)
{
    const struct tutti_coord_member *member = tutti_coordinator_member(c, m);

    return feed((struct tutti_coord_event){kind, m, member->incarnation, member->episode, number});
}

static const char *join(uint32_t m)
{
    return feed((struct tutti_coord_event){.kind = TUTTI_EVENT_JOINED, .member = m});
}

static const char *done(uint32_t m)
{
    return from(m, TUTTI_EVENT_DONE, 0);
}

static const char *lost(uint32_t m)
{
    return from(m, TUTTI_EVENT_LOST, 0);
}

/* ---- async ------------------------------------------------------------------------------------
 */

TEST(async_applies_what_comes)
{
    begin("async", (struct tutti_coordinator_params){.member_count = 2, .last_step = 4});
    CHECK_TEXT(join(0), "welcome 0, start 0 @0");
    CHECK_TEXT(join(1), "welcome 1, start 1 @0");
    CHECK_TEXT(done(1), "apply 1 @1, start 1 @1");
    CHECK_TEXT(done(1), "apply 1 @2, start 1 @2");
    CHECK_TEXT(done(0), "apply 0 @3, start 0 @3"); /* of weights two updates old */
    CHECK_INT(tutti_coordinator_stats(c)->staleness_max, 2);
    CHECK_TEXT(done(1), "apply 1 @4, finish 0, finish 1");
    CHECK_TEXT(from(0, TUTTI_EVENT_DONE, 0), "drop 0"); /* its last one comes too late */
    CHECK_INT(tutti_coordinator_stats(c)->dropped_late, 1);
    end();
}

TEST(async_messages_of_the_past_are_dropped)
{
    struct tutti_coord_event old = {
        .kind = TUTTI_EVENT_DONE, .member = 0, .incarnation = 1, .episode = 1};

    begin("async", (struct tutti_coordinator_params){.member_count = 1});
    CHECK_TEXT(join(0), "welcome 0, start 0 @0");
    CHECK_TEXT(feed(old), "apply 0 @1, start 0 @1");
    CHECK_TEXT(feed(old), "drop 0"); /* twice */
    CHECK_TEXT(join(0), "welcome 0, start 0 @1");
    old.episode = 3;
    CHECK_TEXT(feed(old), "drop 0"); /* of the former incarnation */
    CHECK_TEXT(done(0), "apply 0 @2, start 0 @2");
    end();
}

TEST(async_slack_holds_the_fast_back)
{
    begin("async", (struct tutti_coordinator_params){.member_count = 2, .slack = 2});
    join(0);
    join(1);
    CHECK_TEXT(done(0), "apply 0 @1, start 0 @1");
    CHECK_TEXT(done(0), "apply 0 @2"); /* two ahead of member 1: it waits */
    CHECK_TEXT(done(1), "apply 1 @3, start 0 @3, start 1 @3");
    CHECK_TEXT(done(0), "apply 0 @4");
    CHECK_TEXT(lost(1), "start 0 @4"); /* nobody to wait for */
    end();
}

TEST(async_drops_what_is_too_stale)
{
    begin("async", (struct tutti_coordinator_params){.member_count = 2, .staleness_max = 1});
    join(0);
    join(1);
    CHECK_TEXT(done(0), "apply 0 @1, start 0 @1");
    CHECK_TEXT(from(1, TUTTI_EVENT_PULLED, 0), ""); /* it read the weights only now */
    CHECK_TEXT(done(0), "apply 0 @2, start 0 @2");
    CHECK_TEXT(done(1), "apply 1 @3, start 1 @3");
    CHECK_TEXT(done(0), "apply 0 @4, start 0 @4");
    CHECK_TEXT(done(0), "apply 0 @5, start 0 @5");
    CHECK_TEXT(done(1), "drop 1, start 1 @5");
    CHECK_INT(tutti_coordinator_stats(c)->dropped_stale, 1);
    end();
}

/* n equal workers take turns: from the second round on each gradient is n - 1 updates old. */
TEST(equal_workers_are_n_minus_1_stale)
{
    enum { ROUNDS = 50 };

    for (uint32_t n = 1; n <= 64; n *= 2) {
        const struct tutti_coordinator_stats *stats;

        begin("async", (struct tutti_coordinator_params){.member_count = n});
        for (uint32_t i = 0; i < n; i++)
            join(i);
        for (uint32_t k = 0; k < ROUNDS * n; k++)
            done(k % n);
        stats = tutti_coordinator_stats(c);
        CHECK_INT(stats->applied, ROUNDS * n);
        CHECK_INT(stats->staleness_sum, n * (n - 1) / 2 + (uint64_t)(ROUNDS - 1) * n * (n - 1));
        CHECK(stats->staleness[n - 1 < TUTTI_STALENESS_BINS ? n - 1 : TUTTI_STALENESS_BINS - 1] >=
              (ROUNDS - 1) * n);
        end();
    }
}

/* ---- sync -------------------------------------------------------------------------------------
 */

TEST(sync_waits_for_all)
{
    begin("sync", (struct tutti_coordinator_params){.member_count = 2, .last_step = 2});
    CHECK_TEXT(join(0), "welcome 0, start 0 @0");
    CHECK_TEXT(join(1), "welcome 1, start 1 @0");
    CHECK_TEXT(done(0), "apply 0 @0");
    CHECK_TEXT(done(1), "apply 1 @0, advance @1, start 0 @1, start 1 @1");
    CHECK_TEXT(lost(1), "");
    CHECK_TEXT(done(0), "apply 0 @1"); /* and stands still until member 1 is back */
    CHECK_TEXT(join(1), "welcome 1, start 1 @1");
    CHECK_TEXT(done(1), "apply 1 @1, advance @2, finish 0, finish 1");
    end();
}

/* Two of three: the third token of a step is taken by a fast worker, whose gradient is then stale.
 */
TEST(sync_tokens_of_backup_workers_make_stale_gradients)
{
    begin("sync", (struct tutti_coordinator_params){.member_count = 3, .aggregate = 2});
    join(0);
    join(1);
    join(2);
    done(0);
    CHECK_TEXT(done(1), "apply 1 @0, advance @1, start 0 @1, start 1 @1");
    CHECK_TEXT(done(2), "drop 2, start 2 @1"); /* a step late */
    done(0);
    CHECK_TEXT(done(1), "apply 1 @1, advance @2, start 0 @2, start 1 @2");
    CHECK_TEXT(done(0), "apply 0 @2, start 0 @2"); /* the token that was for member 2 */
    CHECK_TEXT(done(0), "apply 0 @2, advance @3, start 0 @3");
    CHECK_TEXT(done(0), "apply 0 @3, start 0 @3");
    CHECK_TEXT(done(1), "drop 1, start 1 @3");
    CHECK_INT(tutti_coordinator_stats(c)->dropped_stale, 2);
    end();
}

TEST(sync_tokens_keep_their_step_unless_fresh)
{
    for (enum tutti_late late = TUTTI_LATE_QUEUED; late <= TUTTI_LATE_FRESH; late++) {
        begin("sync",
              (struct tutti_coordinator_params){.member_count = 3, .aggregate = 2, .late = late});
        join(0);
        join(1);
        join(2);
        lost(2);
        done(0);
        done(1); /* step 1: three tokens, two taken */
        done(0);
        CHECK_TEXT(seen, "apply 0 @1, start 0 @1");
        done(1);
        CHECK_TEXT(seen, "apply 1 @1, advance @2, start 1 @2");
        done(0); /* of step 1 */
        CHECK_TEXT(seen, "drop 0, start 0 @2");
        end();
    }
    begin("sync", (struct tutti_coordinator_params){
                      .member_count = 4, .aggregate = 1, .late = TUTTI_LATE_FRESH});
    for (uint32_t i = 0; i < 4; i++)
        join(i);
    CHECK_TEXT(done(0), "apply 0 @0, advance @1, start 0 @1"); /* three tokens are left */
    CHECK_TEXT(done(0), "apply 0 @1, advance @2, start 0 @2"); /* good for step 2 as well */
    end();
    begin("sync", (struct tutti_coordinator_params){.member_count = 4, .aggregate = 1});
    for (uint32_t i = 0; i < 4; i++)
        join(i);
    CHECK_TEXT(done(0), "apply 0 @0, advance @1, start 0 @1");
    CHECK_TEXT(done(0), "apply 0 @1, advance @2, start 0 @1"); /* stale before it has begun */
    CHECK_TEXT(done(0), "drop 0, start 0 @1");
    end();
}

TEST(sync_fewer_workers_give_several_gradients)
{
    begin("sync", (struct tutti_coordinator_params){.member_count = 2, .aggregate = 3});
    CHECK_TEXT(join(0), "welcome 0, start 0 @0");
    CHECK_TEXT(join(1), "welcome 1, start 1 @0");
    CHECK_TEXT(done(0), "apply 0 @0, start 0 @0"); /* the one token that there is */
    CHECK_TEXT(done(0), "apply 0 @0");
    CHECK_TEXT(done(1), "apply 1 @0, advance @1, start 0 @1, start 1 @1");
    CHECK_TEXT(done(1), "apply 1 @1, start 1 @1");
    end();
}

/* With virtual time: a step takes as long as the R-th fastest of T, whatever those times are. */
TEST(sync_aborting_takes_the_rth_order_statistic)
{
    enum { T = 8, R = 6, STEPS = 200 };
    struct tutti_random random;
    uint64_t expected = 0;
    uint64_t now = 0;

    tutti_random_seed(&random, test_seed);
    begin("sync", (struct tutti_coordinator_params){
                      .member_count = T, .aggregate = R, .late = TUTTI_LATE_ABORTED});
    for (uint32_t i = 0; i < T; i++)
        join(i);
    for (uint32_t step = 0; step < STEPS; step++) {
        uint64_t duration[T];
        uint64_t after = now;

        for (uint32_t i = 0; i < T; i++)
            duration[i] = 1 + tutti_random_below(&random, 1000) * T + i; /* no two alike */
        for (uint32_t i = 0; i < T; i++) {
            uint32_t faster = 0;

            for (uint32_t j = 0; j < T; j++)
                faster += duration[j] < duration[i];
            expected += faster == R - 1 ? duration[i] : 0;
        }
        while (tutti_coordinator_step(c) == step) { /* the next to be done */
            uint32_t best = T;

            for (uint32_t i = 0; i < T; i++)
                if (tutti_coordinator_member(c, i)->state == TUTTI_MEMBER_WORKING &&
                    (best == T || duration[i] < duration[best]))
                    best = i;
            REQUIRE(best < T);
            after = now + duration[best];
            done(best);
        }
        now = after;
    }
    CHECK_INT(now, expected);
    CHECK_INT(tutti_coordinator_stats(c)->applied, R * STEPS);
    CHECK_INT(tutti_coordinator_stats(c)->lost, (T - R) * STEPS);
    end();
}

/* ---- queue ------------------------------------------------------------------------------------
 */

static const char *submit(uint64_t closure)
{
    return feed((struct tutti_coord_event){.kind = TUTTI_EVENT_SUBMITTED, .number = closure});
}

TEST(queue_gives_each_worker_one_closure)
{
    begin("queue", (struct tutti_coordinator_params){.member_count = 2, .queue_bound = 3});
    CHECK_TEXT(submit(1), "");
    CHECK_TEXT(join(0), "welcome 0, start 0 @0 :1");
    CHECK_TEXT(submit(2), "");
    CHECK_TEXT(submit(3), "");
    CHECK_TEXT(submit(4), "");
    CHECK_TEXT(submit(5), "refuse :5"); /* three wait */
    CHECK_TEXT(done(0), "complete 0 :1, start 0 @0 :2");
    CHECK_TEXT(join(1), "welcome 1, start 1 @0 :3");
    CHECK_TEXT(submit(5), "");
    CHECK_TEXT(lost(0), ""); /* closure 2 goes to the tail */
    CHECK_INT(tutti_coordinator_queued(c), 3);
    CHECK_TEXT(done(1), "complete 1 :3, start 1 @0 :4");
    CHECK_TEXT(done(1), "complete 1 :4, start 1 @0 :5");
    CHECK_TEXT(done(1), "complete 1 :5, start 1 @0 :2");
    CHECK_TEXT(done(1), "complete 1 :2");
    end();
}

TEST(queue_bound_is_that_of_tensorflow)
{
    begin("queue", (struct tutti_coordinator_params){.member_count = 1});
    for (uint64_t i = 1; i <= 262144; i++)
        submit(i);
    CHECK_INT(tutti_coordinator_stats(c)->refused, 0);
    CHECK_TEXT(submit(9), "refuse :9");
    end();
}

TEST(queue_errors_cancel_everything_once)
{
    begin("queue", (struct tutti_coordinator_params){.member_count = 2});
    join(0);
    join(1);
    for (uint64_t i = 1; i <= 4; i++)
        submit(i);
    CHECK_TEXT(from(0, TUTTI_EVENT_FAILED, 0), "abort 1, cancel :4");
    CHECK_TEXT(submit(5), "refuse :5"); /* and so it is told */
    CHECK_TEXT(submit(6), "start 0 @0 :6");
    end();
}

TEST(queue_may_wait_for_all_who_were_lost)
{
    begin("queue", (struct tutti_coordinator_params){.member_count = 3, .wait_for_all = true});
    join(0);
    join(1);
    join(2);
    lost(1);
    lost(2);
    submit(1);
    CHECK_TEXT(submit(2), "");
    CHECK_TEXT(join(1), "welcome 1"); /* held until member 2 is back, too */
    CHECK_TEXT(join(2), "welcome 2, start 1 @0 :2");
    end();
}

/* ---- supervisor -------------------------------------------------------------------------------
 */

TEST(supervisor_lets_the_chief_set_up)
{
    begin("supervisor", (struct tutti_coordinator_params){
                            .member_count = 3, .server_count = 1, .last_step = 100});
    CHECK_TEXT(join(1), "welcome 1"); /* waits for the chief */
    CHECK_TEXT(join(0), "welcome 0"); /* waits for the server */
    CHECK_TEXT(join(2), "welcome 2, initialise 0 @0");
    CHECK_TEXT(done(0), "start 0 @0, start 1 @0");
    CHECK_TEXT(from(1, TUTTI_EVENT_PROGRESS, 30), "");
    CHECK_TEXT(feed((struct tutti_coord_event){.kind = TUTTI_EVENT_SAVE_DUE}), "save 0 @30");
    CHECK_TEXT(from(1, TUTTI_EVENT_PROGRESS, 40), "");
    CHECK_TEXT(lost(1), ""); /* a worker comes and goes */
    CHECK_TEXT(join(1), "welcome 1, start 1 @40");
    CHECK_TEXT(lost(2), "abort 0, abort 1"); /* the server does not, and the save is void */
    CHECK_INT(tutti_coordinator_saved(c), 0);
    CHECK_TEXT(join(2), "welcome 2, initialise 0 @0");
    end();
}

TEST(supervisor_restores_from_the_last_checkpoint)
{
    struct tutti_coord_event saved = {.kind = TUTTI_EVENT_SAVED, .incarnation = 1, .number = 30};
    const struct tutti_coord_action *action;
    struct tutti_coord_event due = {.kind = TUTTI_EVENT_SAVE_DUE};
    uint32_t count;

    begin("supervisor", (struct tutti_coordinator_params){.member_count = 2, .last_step = 50});
    join(0);
    join(1);
    CHECK_TEXT(done(0), "start 0 @0, start 1 @0");
    from(1, TUTTI_EVENT_PROGRESS, 30);
    action = tutti_coordinator_event(c, &due, &count);
    REQUIRE(count == 1);
    saved.episode = action->episode;
    CHECK_TEXT(feed(saved), "");
    CHECK_TEXT(feed(saved), "drop 0 :30");
    from(1, TUTTI_EVENT_PROGRESS, 45);
    CHECK_TEXT(lost(0), "abort 1"); /* training stands still */
    CHECK_INT(tutti_coordinator_step(c), 30);
    CHECK_TEXT(join(0), "welcome 0, restore 0 @30");
    CHECK_TEXT(done(0), "start 0 @30, start 1 @30");
    CHECK_TEXT(from(1, TUTTI_EVENT_PROGRESS, 50), "save 0 @50");
    end();
}

/* ---- elastic ----------------------------------------------------------------------------------
 */

TEST(elastic_members_come_and_go_between_steps)
{
    begin("elastic", (struct tutti_coordinator_params){.member_count = 3, .last_step = 5});
    CHECK_TEXT(join(0), "welcome 0, initialise 0 @0 :1, start 0 @0 :1");
    CHECK_TEXT(join(1), "welcome 1"); /* at the end of the step */
    CHECK_TEXT(done(0), "advance @1, copy 1, start 0 @1 :2, start 1 @1 :2");
    CHECK_TEXT(done(1), "");
    CHECK_TEXT(done(0), "advance @2, start 0 @2 :2, start 1 @2 :2");
    CHECK_TEXT(from(0, TUTTI_EVENT_LEAVING, 0), "");
    CHECK_TEXT(done(0), "");
    CHECK_TEXT(done(1), "advance @3, finish 0, start 1 @3 :3");
    CHECK_TEXT(done(1), "advance @4, start 1 @4 :3");
    CHECK_TEXT(done(1), "advance @5, finish 1");
    CHECK_TEXT(join(2), "welcome 2, finish 2");
    end();
}

TEST(elastic_steps_are_repeated_without_the_lost)
{
    begin("elastic", (struct tutti_coordinator_params){.member_count = 3, .least_members = 2});
    CHECK_TEXT(join(0), "welcome 0");
    CHECK_TEXT(join(1), "welcome 1, initialise 0 @0 :1, copy 1, start 0 @0 :1, start 1 @0 :1");
    done(0);
    CHECK_TEXT(done(1), "advance @1, start 0 @1 :1, start 1 @1 :1");
    join(2);
    CHECK_TEXT(done(0), ""); /* has updated its weights */
    CHECK_TEXT(lost(1), "restore 0 @1, copy 2, start 0 @1 :2, start 2 @1 :2");
    CHECK_TEXT(lost(2), "abort 0, restore 0 @1"); /* too few are left */
    CHECK_TEXT(join(1), "welcome 1, copy 1, start 0 @1 :3, start 1 @1 :3");
    end();
}

/* ---- all --------------------------------------------------------------------------------------
 */

TEST(kinds_have_names)
{
    const struct tutti_coordinator_ops *ops = NULL;
    struct tutti_err err = {""};
    size_t count = 0;

    tutti_coordinators(&count);
    CHECK_INT(count, 5);
    for (size_t i = 0; i < count; i++) {
        CHECK_OK(tutti_coordinator_find(tutti_coordinators(&count)[i]->name, &ops, &err), err);
        CHECK(ops == tutti_coordinators(&count)[i]);
    }
    CHECK_INT(tutti_coordinator_find("elastik", &ops, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "unknown coordinator 'elastik' (did you mean 'elastic'? all: async, sync, "
                         "queue, supervisor or elastic)");
}

static void expect_refused(const char *kind, struct tutti_coordinator_params params,
                           const char *text)
{
    const struct tutti_coordinator_ops *ops = NULL;
    struct tutti_err err = {""};

    params.size = sizeof(params);
    CHECK_OK(tutti_coordinator_find(kind, &ops, &err), err);
    CHECK_INT(tutti_coordinator_new(ops, &params, &c, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, text);
}

TEST(nonsense_is_refused)
{
    expect_refused("async", (struct tutti_coordinator_params){0},
                   "coordinator async: '0' members (1 to 65536)");
    expect_refused("supervisor",
                   (struct tutti_coordinator_params){.member_count = 2, .server_count = 2},
                   "coordinator supervisor: '2' servers of 2 members leave no chief");
    expect_refused("elastic",
                   (struct tutti_coordinator_params){.member_count = 2, .least_members = 3},
                   "coordinator elastic: a group of at least '3' of 2 members");
}

static int story(struct tutti_err *err)
{
    struct tutti_coordinator_params params = {.size = sizeof(params), .member_count = 3};
    const struct tutti_coordinator_ops *ops = NULL;
    struct tutti_coordinator *made = NULL;
    int status = tutti_coordinator_find("queue", &ops, err);

    if (status == 0)
        status = tutti_coordinator_new(ops, &params, &made, err);
    tutti_coordinator_free(made);
    return status;
}

TEST(memory_may_run_out)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(story(&err), err);
}
