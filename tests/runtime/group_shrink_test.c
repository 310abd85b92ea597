/* A group that loses processes goes on with those that are left: whoever is lost, the first one as
 * well, several, and while the others agree. */
#include <errno.h>
#include <poll.h>

#include "build.h"
#include "runtime/group/progress.h"
#include "runtime/random.h"
#include "tests/runtime/kids.h"

enum { COUNT = 4, FATE_MS_MAX = 6000 };

static const tutti_ps AGREE_PS = 4 * TUTTI_PS_PER_S;
static const tutti_ps LONG_PS = 30 * TUTTI_PS_PER_S;

/* Of groups in which one is stopped: long enough for one that only starts slowly. */
static const tutti_ps stall_ps = (sizeof(TUTTI_BUILD_SANITIZE) > 1 ? 2000 : 700) * TUTTI_PS_PER_MS;

/* All have the same new group: in the order of their identities, and it works. */
static int check_group(struct tutti_group *group, struct tutti_err *err)
{
    uint32_t mine[3] = {group->index, group->incarnation, tutti_group_id(group, group->index)};
    uint32_t all[COUNT][3];
    int status = tutti_group_exchange(group, mine, sizeof(mine), all, AGREE_PS, err);

    for (uint32_t i = 0; i < group->count && status == 0; i++)
        if (all[i][0] != i || all[i][1] != group->incarnation ||
            all[i][2] != tutti_group_id(group, i) || (i > 0 && all[i][2] <= all[i - 1][2]))
            status = tutti_fail(err, TUTTI_ECHECK, "process %u says it is %u of incarnation %u", i,
                                all[i][0], all[i][1]);
    return status;
}

/* Shrinks at each loss, until the test lets it go: then with all that are there. */
static int go_on(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    int status = 0;

    atomic_store(&kid->stage, 1);
    while (status == 0) {
        struct tutti_group *next = NULL;
        struct tutti_err lost = {""};

        while (status == 0 && atomic_load(&kid->may) == 0)
            status = tutti_group_wait_stop(group, TUTTI_PS_PER_MS, &lost);
        if (status == 0)
            status = tutti_group_exchange(group, NULL, 0, NULL, LONG_PS, &lost);
        if (status == 0)
            break;
        kid->lost_ms = now_ms();
        (void)snprintf(kid->lost_text, sizeof(kid->lost_text), "%s", lost.text);
        status = tutti_group_shrink(group, 0, AGREE_PS, &next, err);
        if (status < 0)
            break;
        tutti_group_close(group);
        group = next;
        kid->back_ms = now_ms();
        kid->count = group->count;
        status = check_group(group, err);
        if (status == -TUTTI_EIO) /* somebody else is lost: once more */
            status = 0;
        if (status == 0)
            atomic_fetch_add(&kid->stage, 1);
    }
    kid_end(kid, group, status, err);
    tutti_group_close(group);
    return status;
}

/* Those that are left are together again, soon, know who is lost, and end well. */
static void expect_left(unsigned lost, const char *why, int64_t when_ms)
{
    uint32_t left = 0;
    uint32_t place = 0;

    for (uint32_t i = 0; i < COUNT; i++)
        left += (lost >> i & 1) == 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        int64_t until_ms = now_ms() + FATE_MS_MAX;

        while ((lost >> i & 1) == 0 && now_ms() < until_ms && kids[i].status == 1 &&
               (atomic_load(&kids[i].stage) < 2 || kids[i].count != left))
            pause_us(200);
    }
    for (uint32_t i = 0; i < COUNT; i++)
        atomic_store(&kids[i].may, 1);
    for (uint32_t i = 0; i < COUNT; i++) {
        if ((lost >> i & 1) != 0) {
            if (kids[i].pid > 0)
                (void)kid_reap(i, FATE_MS_MAX);
            continue;
        }
        (void)kid_reap(i, FATE_MS_MAX);
        if (kids[i].status != 0 || kids[i].index != place || kids[i].count != left)
            TEST_FAIL("process %u is %u of %u, expected %u of %u: status %d: %s", i, kids[i].index,
                      kids[i].count, place, left, kids[i].status, kids[i].text);
        if (why != NULL && strstr(kids[i].why, why) == NULL)
            TEST_FAIL("process %u: '%s' lacks '%s'", i, kids[i].why, why);
        if (kids[i].back_ms - when_ms > FATE_MS_MAX)
            TEST_FAIL("process %u is back %lld ms later", i,
                      (long long)(kids[i].back_ms - when_ms));
        place++;
    }
}

TEST(whoever_is_lost_the_others_go_on)
{
    for (uint32_t victim = 0; victim < COUNT; victim++) {
        char why[80];
        char words[80];
        int64_t when;

        REQUIRE(kids_start(COUNT, go_on));
        for (uint32_t i = 0; i < COUNT; i++)
            (void)kid_reach(i, 1, FATE_MS_MAX);
        when = kid_strike(victim, SIGKILL);
        (void)snprintf(why, sizeof(why), "lost: process %u of 4", victim);
        expect_left(1u << victim, why, when);
        (void)snprintf(words, sizeof(words), "process %u of 4 ('127.0.0.1:", victim);
        for (uint32_t i = 0; i < COUNT; i++) {
            if (i == victim)
                continue;
            CHECK_INT(kids[i].incarnation, 2);
            if (strstr(kids[i].lost_text, words) == NULL)
                TEST_FAIL("process %u: '%s' lacks '%s'", i, kids[i].lost_text, words);
            /* Nobody waits for a deadline where a connection is refused. */
            if (kids[i].back_ms - when > 1500)
                TEST_FAIL("process %u is back after %lld ms", i,
                          (long long)(kids[i].back_ms - when));
        }
    }
}

TEST(two_are_lost_at_once)
{
    static const unsigned both[] = {0x3, 0x5, 0x9, 0x6, 0xc};

    for (size_t k = 0; k < sizeof(both) / sizeof(both[0]); k++) {
        int64_t when = 0;

        REQUIRE(kids_start(COUNT, go_on));
        for (uint32_t i = 0; i < COUNT; i++)
            (void)kid_reach(i, 1, FATE_MS_MAX);
        for (uint32_t i = 0; i < COUNT; i++)
            if ((both[k] >> i & 1) != 0)
                when = kid_strike(i, SIGKILL);
        expect_left(both[k], NULL, when);
    }
}

/* Some microseconds after the first, the second: while the others seek, gather, agree, or begin. */
TEST(another_is_lost_while_the_others_agree)
{
    struct tutti_random dice;
    uint64_t count = test_count(200, 25);

    tutti_random_seed(&dice, test_seed);
    for (uint64_t k = 0; k < count && test_failures == 0; k++) {
        uint32_t first = (uint32_t)tutti_random_below(&dice, COUNT);
        uint32_t second = (first + 1 + (uint32_t)tutti_random_below(&dice, COUNT - 1)) % COUNT;
        uint64_t later_us = tutti_random_below(&dice, k % 2 == 0 ? 3000 : 30000);
        int64_t when;

        REQUIRE(kids_start(COUNT, go_on));
        for (uint32_t i = 0; i < COUNT; i++)
            (void)kid_reach(i, 1, FATE_MS_MAX);
        (void)kid_strike(first, SIGKILL);
        pause_us(later_us);
        when = kid_strike(second, SIGKILL);
        expect_left(1u << first | 1u << second, NULL, when);
        if (test_failures > 0)
            fprintf(stderr, "story %" PRIu64 ": process %u, and process %u %" PRIu64 " us later\n",
                    k, first, second, later_us);
    }
}

/* It lives, and does not answer: the others wait for half of the deadline, and name it. */
TEST(one_that_is_stopped_is_left_behind_and_told_so)
{
    static const uint32_t cases[][2] = {{1, 3}, {1, 0}, {0, 1}, {3, 2}};

    kids_stall_ps = stall_ps;
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        uint32_t victim = cases[k][0];
        uint32_t stopped = cases[k][1];
        uint32_t first = 0;
        char words[80];
        int64_t when;

        REQUIRE(kids_start(COUNT, go_on));
        for (uint32_t i = 0; i < COUNT; i++)
            (void)kid_reach(i, 1, FATE_MS_MAX);
        (void)kid_strike(stopped, SIGSTOP);
        when = kid_strike(victim, SIGKILL);
        for (uint32_t i = 0; i < COUNT; i++)
            if (i != victim && i != stopped)
                (void)kid_reach(i, 2, FATE_MS_MAX);
        (void)kid_strike(stopped, SIGCONT);
        (void)kid_reap(stopped, 2 * FATE_MS_MAX);
        CHECK_INT(kids[stopped].status, -TUTTI_ETIME);
        if (strstr(kids[stopped].text, "is left behind") == NULL)
            TEST_FAIL("'%s'", kids[stopped].text);
        while (first == victim || first == stopped)
            first++;
        (void)snprintf(words, sizeof(words), "process %u has not come", stopped);
        if (strstr(kids[first].log, words) == NULL)
            TEST_FAIL("'%s' lacks '%s'", kids[first].log, words);
        expect_left(1u << victim | 1u << stopped, NULL, when);
    }
    kids_stall_ps = 0;
}

/* The one that leads is stopped in the middle of it, and goes on when the others have gone on
 * without it: it is not to go on alone. */
TEST(a_leader_that_is_stopped_meanwhile_does_not_go_on_alone)
{
    struct tutti_random dice;
    uint64_t count = test_count(20, 2);

    tutti_random_seed(&dice, test_seed);
    kids_stall_ps = stall_ps;
    for (uint64_t k = 0; k < count && test_failures == 0; k++) {
        int64_t until_ms = now_ms() + 2 * FATE_MS_MAX;

        REQUIRE(kids_start(COUNT, go_on));
        for (uint32_t i = 0; i < COUNT; i++)
            (void)kid_reach(i, 1, FATE_MS_MAX);
        (void)kid_strike(3, SIGKILL);
        pause_us(tutti_random_below(&dice, 8000));
        (void)kid_strike(0, SIGSTOP);
        while ((kids[1].count != 2 || kids[2].count != 2) && now_ms() < until_ms)
            pause_us(500);
        (void)kid_strike(0, SIGCONT);
        (void)kid_reap(0, 2 * FATE_MS_MAX);
        CHECK_INT(kids[0].status, -TUTTI_ETIME);
        if (strstr(kids[0].text, "left behind") == NULL &&
            strstr(kids[0].text, "was itself held up") == NULL)
            TEST_FAIL("'%s'", kids[0].text);
        expect_left(0x9, NULL, now_ms());
    }
    kids_stall_ps = 0;
}

/* Those that have not ended are together, and have been for a while. */
static bool settle(uint32_t victim)
{
    int64_t until_ms = now_ms() + 4 * FATE_MS_MAX;
    int64_t since_ms = now_ms();

    while (now_ms() < until_ms && now_ms() - since_ms < 1500) {
        uint32_t left = 0;
        bool together = true;

        for (uint32_t i = 0; i < COUNT; i++)
            left += i != victim && kids[i].status == 1;
        for (uint32_t i = 0; i < COUNT; i++)
            together = together && (i == victim || kids[i].status != 1 || kids[i].count == left);
        if (!together)
            since_ms = now_ms();
        pause_us(1000);
    }
    return now_ms() < until_ms;
}

/* One is killed, and another stopped for a while, shortly after: it is in the one group that there
 * is, or has ended as one that is left behind. */
TEST(whoever_is_stopped_for_a_while_there_is_one_group)
{
    struct tutti_random dice;
    uint64_t count = test_count(40, 3);

    tutti_random_seed(&dice, test_seed);
    kids_stall_ps = stall_ps;
    for (uint64_t k = 0; k < count && test_failures == 0; k++) {
        uint32_t victim = (uint32_t)tutti_random_below(&dice, COUNT);
        uint32_t stopped = (victim + 1 + (uint32_t)tutti_random_below(&dice, COUNT - 1)) % COUNT;
        uint64_t later_us = tutti_random_below(&dice, 8000);
        uint64_t stop_us = tutti_random_below(&dice, 3500000);
        uint32_t left = 0;

        REQUIRE(kids_start(COUNT, go_on));
        for (uint32_t i = 0; i < COUNT; i++)
            (void)kid_reach(i, 1, FATE_MS_MAX);
        (void)kid_strike(victim, SIGKILL);
        pause_us(later_us);
        (void)kid_strike(stopped, SIGSTOP);
        pause_us(stop_us);
        (void)kid_strike(stopped, SIGCONT);
        CHECK(settle(victim));
        for (uint32_t i = 0; i < COUNT; i++)
            atomic_store(&kids[i].may, 1);
        for (uint32_t i = 0; i < COUNT; i++) {
            (void)kid_reap(i, 2 * FATE_MS_MAX);
            left += i != victim && kids[i].status == 0;
        }
        for (uint32_t i = 0; i < COUNT; i++)
            if (i != victim &&
                (kids[i].status == 0 ? kids[i].count != left : kids[i].status != -TUTTI_ETIME))
                TEST_FAIL("process %u: status %d, of %u where %u are left: %s", i, kids[i].status,
                          kids[i].count, left, kids[i].text);
        if (left < COUNT - 2)
            TEST_FAIL("%u are left", left);
        if (test_failures > 0)
            fprintf(stderr,
                    "story %" PRIu64 ": process %u is killed, process %u stopped %" PRIu64
                    " us later for %" PRIu64 " us\n",
                    k, victim, stopped, later_us, stop_us);
    }
    kids_stall_ps = 0;
    kids_kill();
}

/* A connection breaks, and everybody lives. */
static int stop_and_go_on(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    int status = tutti_group_exchange(group, NULL, 0, NULL, LONG_PS, err);

    if (status == 0 && group->index == 2) {
        (void)tutti_fail(err, TUTTI_EIO, "rank 1 is gone: it has closed the connection");
        tutti_group_stop(group, -TUTTI_EIO, err);
    }
    return go_on(group, kid, err);
}

TEST(where_nobody_is_lost_all_go_on)
{
    int64_t when = now_ms();

    REQUIRE(kids_start(COUNT, stop_and_go_on));
    expect_left(0, "", when);
    CHECK_INT(kids[0].incarnation, 2);
    CHECK_TEXT(kids[0].why, "");
}

static int want_all(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    struct tutti_group *next = NULL;
    int status;

    atomic_store(&kid->stage, 1);
    (void)tutti_group_wait_stop(group, LONG_PS, err);
    status = tutti_group_shrink(group, COUNT, AGREE_PS, &next, err);
    kid_end(kid, NULL, status, err);
    tutti_group_close(next);
    tutti_group_close(group);
    return status;
}

TEST(too_few_end_all_with_one_line)
{
    REQUIRE(kids_start(COUNT, want_all));
    for (uint32_t i = 0; i < COUNT; i++)
        (void)kid_reach(i, 1, FATE_MS_MAX);
    (void)kid_strike(2, SIGKILL);
    for (uint32_t i = 0; i < COUNT; i++) {
        (void)kid_reap(i, FATE_MS_MAX);
        if (i == 2)
            continue;
        CHECK_INT(kids[i].status, -TUTTI_EIO);
        CHECK_TEXT(kids[i].text, "3 of 4 processes are left, 4 are wanted; process 2 has gone");
    }
}

/* ---- what an earlier incarnation has left behind ---- */

/* A hello for a data connection of the view to process 0, until it waits for one: the reason why it
 * is refused, TUTTI_HANDSHAKE_WELCOME if it is not, -1 if there is no answer. */
static int say_hello(const struct tutti_group_tcp *group, uint32_t incarnation, uint64_t view)
{
    const struct tutti_hello hello = {.kind = TUTTI_HANDSHAKE_LINK,
                                      .index = group->base.index,
                                      .count = group->base.count,
                                      .round = 1,
                                      .key = 9,
                                      .incarnation = incarnation,
                                      .view = view};
    int64_t until_ms = now_ms() + FATE_MS_MAX;
    int reason = TUTTI_HANDSHAKE_BROKEN_OFF;

    while (reason == TUTTI_HANDSHAKE_BROKEN_OFF && now_ms() < until_ms) {
        enum tutti_called how = TUTTI_CALL_GOING;
        struct tutti_address to;
        struct tutti_call call;

        tutti_group_tcp_where(group, 0, &to);
        if (!tutti_call_begin(&call, &to, group->session, sizeof(group->session), &hello, NULL))
            return -1;
        while (how == TUTTI_CALL_GOING) {
            struct pollfd one = {.fd = call.fd, .events = tutti_call_events(&call)};

            if (poll(&one, 1, FATE_MS_MAX) <= 0)
                break;
            how = tutti_call_move(&call, "process 0", NULL);
        }
        reason = how == TUTTI_CALL_DONE      ? (int)TUTTI_HANDSHAKE_WELCOME
                 : how == TUTTI_CALL_REFUSED ? (int)call.handshake.reason
                                             : -1;
        tutti_call_end(&call);
        pause_us(1000);
    }
    return reason;
}

/* Process 0 waits for a data connection; one of the last incarnation comes, and one of this. */
static int come_from_before(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    const struct tutti_view before = ((struct tutti_group_tcp *)group)->view;
    struct tutti_group_tcp_link wanted = {.key = 9};
    struct tutti_group *next = NULL;
    int fd = -1;
    int status;

    atomic_store(&kid->stage, 1);
    (void)tutti_group_wait_stop(group, LONG_PS, err);
    status = tutti_group_shrink(group, 0, AGREE_PS, &next, err);
    tutti_group_close(group);
    if (status == 0 && next->index == 1) {
        const struct tutti_group_tcp *tcp = (const struct tutti_group_tcp *)next;
        int old = say_hello(tcp, before.incarnation, before.id);
        int forged = say_hello(tcp, tcp->view.incarnation, before.id);
        int new = say_hello(tcp, tcp->view.incarnation, tcp->view.id);

        if (old != TUTTI_HANDSHAKE_NOT_WANTED || forged != TUTTI_HANDSHAKE_NOT_WANTED ||
            new != TUTTI_HANDSHAKE_WELCOME)
            status = tutti_fail(err, TUTTI_ECHECK, "reasons %d, %d and %d", old, forged, new);
    }
    if (status == 0) {
        wanted.peer = 1 - next->index;
        status = tutti_group_tcp_links(next, &wanted, 1, &fd, AGREE_PS, err);
    }
    if (fd >= 0)
        close(fd);
    kid_end(kid, next, status, err);
    tutti_group_close(next);
    return status;
}

TEST(a_connection_of_the_last_incarnation_is_refused_by_this_one)
{
    REQUIRE(kids_start(3, come_from_before));
    for (uint32_t i = 0; i < 3; i++)
        (void)kid_reach(i, 1, FATE_MS_MAX);
    (void)kid_strike(2, SIGKILL);
    for (uint32_t i = 0; i < 3; i++) {
        (void)kid_reap(i, 2 * FATE_MS_MAX);
        if (i != 2 && kids[i].status != 0)
            TEST_FAIL("process %u: status %d: %s", i, kids[i].status, kids[i].text);
    }
}
