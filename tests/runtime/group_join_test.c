/* Newcomers join a group that has begun: all come out with one group, larger by those; whoever is
 * lost meanwhile, and whoever else comes. */
#include <errno.h>
#include <sys/socket.h>

#include "runtime/group/address.h"
#include "runtime/group/handshake.h"
#include "runtime/random.h"
#include "tests/runtime/kids.h"

enum { FATE_MS_MAX = 8000, NEWCOMER = 5 };

static const tutti_ps AGREE_PS = 4 * TUTTI_PS_PER_S;

static uint32_t want_count; /* members at which a story may end; set before the kids are forked */

/* Steps: an exchange each, in which all say where they are; between them newcomers are let in, and
 * after losses the group shrinks. Until there are as many as are wanted and the test agrees. */
static int step_on(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    int status = 0;
    bool ends = false;

    kid->count = group->count;
    atomic_store(&kid->stage, 1);
    while (status == 0 && !ends) {
        uint32_t mine[4] = {group->index, group->incarnation, tutti_group_id(group, group->index),
                            atomic_load(&kid->may) > 0 && group->count == want_count};
        uint32_t all[KIDS_MAX][4];
        struct tutti_group *next = NULL;
        struct tutti_err lost = {""};

        status = tutti_group_exchange(group, mine, sizeof(mine), all, AGREE_PS, &lost);
        ends = status == 0;
        for (uint32_t i = 0; i < group->count && status == 0; i++) {
            ends = ends && all[i][3] != 0;
            if (all[i][0] != i || all[i][1] != group->incarnation ||
                all[i][2] != tutti_group_id(group, i) || (i > 0 && all[i][2] <= all[i - 1][2]))
                status = tutti_fail(err, TUTTI_ECHECK, "process %u says that it is %u in %u", i,
                                    all[i][0], all[i][1]);
        }
        if (status == -TUTTI_ECHECK || ends)
            break;
        pause_us(200);
        if (status == 0)
            status = tutti_group_admit(group, 0, AGREE_PS, &next, &lost);
        if (status < 0) {
            kid->lost_ms = now_ms();
            (void)snprintf(kid->lost_text, sizeof(kid->lost_text), "%s", lost.text);
            status = tutti_group_shrink(group, 0, AGREE_PS, &next, err);
        }
        if (status == 0 && next != NULL) {
            tutti_group_close(group);
            group = next;
            kid->back_ms = now_ms();
            kid->count = group->count;
            atomic_fetch_add(&kid->stage, 1);
        }
        atomic_fetch_add(&kid->at_step, 1);
    }
    kid_end(kid, group, status, err);
    tutti_group_close(group);
    return status;
}

/* A newcomer, as the kid of this number. */
static void join(uint32_t number, const char *root, const char *secret, tutti_ps deadline_ps)
{
    struct tutti_group_tcp_opts opts = kids_opts;
    struct tutti_group *group = NULL;
    struct tutti_err err = {""};
    int status;

    if (!kid_fork(number))
        return;
    opts.root = root;
    opts.secret = secret;
    opts.secret_bytes = strlen(secret);
    opts.deadline_ps = deadline_ps;
    opts.stall_ps = kids_stall_ps;
    atomic_store(&kids[number].stage, -1);
    status = tutti_group_tcp_join(&opts, &group, &err);
    if (status == 0)
        status = step_on(group, &kids[number], &err);
    else
        kid_end(&kids[number], NULL, status, &err);
    _exit(status == 0 ? 0 : 1);
}

/* Members of the group of `want_count`, by the kids that are in it. */
static void expect_together(unsigned members, int64_t within_ms)
{
    int64_t until_ms = now_ms() + within_ms;
    uint32_t there = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < KIDS_MAX; i++)
        count += members >> i & 1;
    CHECK_INT(count, want_count);
    while (there < count && now_ms() < until_ms) {
        there = 0;
        for (uint32_t i = 0; i < KIDS_MAX; i++)
            there += (members >> i & 1) != 0 && atomic_load(&kids[i].stage) > 0 &&
                     kids[i].count == count;
        pause_us(200);
    }
    for (uint32_t i = 0; i < KIDS_MAX; i++)
        atomic_store(&kids[i].may, 1);
    count = 0;
    for (uint32_t i = 0; i < KIDS_MAX; i++) {
        if ((members >> i & 1) == 0)
            continue;
        (void)kid_reap(i, FATE_MS_MAX);
        if (kids[i].status != 0 || kids[i].count != want_count || kids[i].index != count++)
            TEST_FAIL("process %u ends as %u of %u: status %d: '%s'; it had lost: '%s'", i,
                      kids[i].index, kids[i].count, kids[i].status, kids[i].text,
                      kids[i].lost_text);
    }
}

TEST(a_newcomer_joins_between_steps)
{
    want_count = 4;
    REQUIRE(kids_start(3, step_on));
    (void)kid_reach(0, 1, FATE_MS_MAX);
    join(NEWCOMER, kids_root, "open sesame open", 10 * TUTTI_PS_PER_S);
    expect_together(0x7 | 1u << NEWCOMER, FATE_MS_MAX);
    CHECK_INT(kids[0].incarnation, 2);
    CHECK_INT(kids[NEWCOMER].incarnation, 2);
    CHECK_TEXT(kids[1].why, "joined: process 3 of 4");
    CHECK_TEXT(kids[NEWCOMER].why, "joined: process 3 of 4");
}

TEST(several_join_one_after_the_other_or_together)
{
    want_count = 5;
    REQUIRE(kids_start(2, step_on));
    (void)kid_reach(0, 1, FATE_MS_MAX);
    for (uint32_t i = 0; i < 3; i++)
        join(NEWCOMER + i, kids_root, "open sesame open", 10 * TUTTI_PS_PER_S);
    /* Which of them comes first nobody knows: their places are not looked at. */
    for (int64_t until_ms = now_ms() + FATE_MS_MAX; kids[0].count < 5 && now_ms() < until_ms;)
        pause_us(200);
    for (uint32_t i = 0; i < KIDS_MAX; i++)
        atomic_store(&kids[i].may, 1);
    for (uint32_t i = 0; i < KIDS_MAX; i++) {
        if (kids[i].pid == 0)
            continue;
        (void)kid_reap(i, FATE_MS_MAX);
        if (kids[i].status != 0 || kids[i].count != 5)
            TEST_FAIL("process %u: %u: %s", i, kids[i].count, kids[i].text);
    }
}

/* The new process 0 of this host listens where the first one did. */
TEST(a_newcomer_finds_the_group_whose_process_0_is_lost)
{
    want_count = 3;
    REQUIRE(kids_start(3, step_on));
    for (uint32_t i = 0; i < 3; i++)
        (void)kid_reach(i, 1, FATE_MS_MAX);
    (void)kid_strike(0, SIGKILL);
    (void)kid_reap(0, FATE_MS_MAX);
    (void)kid_reach(1, 2, FATE_MS_MAX);
    join(NEWCOMER, kids_root, "open sesame open", 10 * TUTTI_PS_PER_S);
    expect_together(0x6 | 1u << NEWCOMER, FATE_MS_MAX);
    CHECK_INT(kids[1].incarnation, 3);
}

static char (*addresses)[TUTTI_GROUP_TCP_ADDRESS_BYTES]; /* [KIDS_MAX], shared */

/* Process 2 calls the others at their listeners for connections, and tells where those are. */
static int tell_addresses(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    struct tutti_group_tcp_link wanted[2] = {{.peer = group->index == 2 ? 0 : 2}, {.peer = 1}};
    size_t count = group->index == 2 ? 2 : 1;
    int fds[2] = {-1, -1};
    int status = tutti_group_tcp_links(group, wanted, count, fds, AGREE_PS, err);

    for (size_t i = 0; i < count && status == 0; i++) {
        struct tutti_address address;

        tutti_address_of_peer(fds[i], &address);
        if (group->index == 2)
            (void)tutti_address_text(&address, addresses[i]);
        close(fds[i]);
    }
    if (group->index == 0)
        (void)tutti_group_tcp_address(group, addresses[2]);
    return status < 0 ? status : step_on(group, kid, err);
}

/* At a listener of process 0 that is not the rendezvous, or at another member, which sends it on.
 */
TEST(a_newcomer_may_come_at_any_member)
{
    if (addresses == NULL)
        addresses = mmap(NULL, KIDS_MAX * sizeof(addresses[0]), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (uint32_t at = 0; at < 3; at++) {
        want_count = 4;
        REQUIRE(kids_start(3, tell_addresses));
        for (uint32_t i = 0; i < 3; i++)
            (void)kid_reach(i, 1, FATE_MS_MAX);
        CHECK_TEXT(addresses[2], kids_root);
        CHECK(strcmp(addresses[0], kids_root) != 0);
        CHECK(strcmp(addresses[1], addresses[0]) != 0);
        join(NEWCOMER, addresses[at], "open sesame open", 10 * TUTTI_PS_PER_S);
        expect_together(0x7 | 1u << NEWCOMER, FATE_MS_MAX);
    }
}

TEST(another_secret_is_refused_at_once_and_disturbs_nobody)
{
    int64_t when = now_ms();

    want_count = 3;
    REQUIRE(kids_start(2, step_on));
    (void)kid_reach(0, 1, FATE_MS_MAX);
    join(4, kids_root, "open Sesame open", 10 * TUTTI_PS_PER_S);
    (void)kid_reap(4, FATE_MS_MAX);
    CHECK_INT(kids[4].status, -TUTTI_EINVAL);
    if (strstr(kids[4].text, "has another secret than this process") == NULL)
        TEST_FAIL("'%s'", kids[4].text);
    if (now_ms() - when > 5000)
        TEST_FAIL("it took %lld ms", (long long)(now_ms() - when));
    while (strstr(kids[0].log, "it has the wrong secret") == NULL && now_ms() - when < FATE_MS_MAX)
        pause_us(10000); /* who is refused may know it first */
    if (strstr(kids[0].log, "it has the wrong secret") == NULL)
        TEST_FAIL("'%s'", kids[0].log);
    join(NEWCOMER, kids_root, "open sesame open", 10 * TUTTI_PS_PER_S);
    expect_together(0x3 | 1u << NEWCOMER, FATE_MS_MAX);
}

/* It connects, says a part of its hello or all of it, and then no more. */
TEST(one_that_stops_in_the_middle_of_its_handshake_holds_up_nobody)
{
    static const size_t parts[] = {0, 5, 12, 40, TUTTI_HANDSHAKE_HELLO_BYTES};
    const struct tutti_hello hello = {.kind = TUTTI_HANDSHAKE_ENTER, .port = 4242};
    static const uint8_t nonce[TUTTI_HANDSHAKE_NONCE_BYTES] = "once";
    struct tutti_handshake handshake;
    struct tutti_address to;
    struct tutti_err err = {""};
    char host[TUTTI_HOST_BYTES];
    int fds[5];
    int64_t when;
    uint16_t port;

    want_count = 3;
    REQUIRE(kids_start(2, step_on));
    (void)kid_reach(0, 1, FATE_MS_MAX);
    CHECK_OK(tutti_address_split(kids_root, host, &port, &err), err);
    CHECK_OK(tutti_address_resolve(host, port, 0, TUTTI_PS_PER_S, &to, &err), err);
    for (size_t i = 0; i < 5; i++) {
        tutti_handshake_client(&handshake, "open sesame open", 16, nonce, &hello);
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_INT(connect(fds[i], &to.as.any, to.bytes), 0);
        CHECK_INT(send(fds[i], handshake.out, parts[i], MSG_NOSIGNAL), (ssize_t)parts[i]);
    }
    pause_us(50000);
    when = now_ms();
    join(NEWCOMER, kids_root, "open sesame open", 10 * TUTTI_PS_PER_S);
    expect_together(0x3 | 1u << NEWCOMER, FATE_MS_MAX);
    if (now_ms() - when > 3000)
        TEST_FAIL("it took %lld ms", (long long)(now_ms() - when));
    for (size_t i = 0; i < 5; i++)
        close(fds[i]);
}

/* Waits until the test lets it, and only then admits. */
static int admit_late(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    atomic_store(&kid->stage, 1);
    kid_wait(kid, 2);
    return step_on(group, kid, err);
}

/* The first newcomer has been let in and stops: the others go on without it, and with the second.
 */
TEST(a_newcomer_that_stops_is_left_out)
{
    int64_t when;

    want_count = 3;
    REQUIRE(kids_start(2, admit_late));
    (void)kid_reach(0, 1, FATE_MS_MAX);
    join(4, kids_root, "open sesame open", 3 * TUTTI_PS_PER_S);
    pause_us(100000);
    (void)kid_strike(4, SIGSTOP);
    join(NEWCOMER, kids_root, "open sesame open", 10 * TUTTI_PS_PER_S);
    pause_us(100000);
    for (uint32_t i = 0; i < 2; i++)
        atomic_store(&kids[i].may, 2);
    when = now_ms();
    expect_together(0x3 | 1u << NEWCOMER, FATE_MS_MAX);
    if (now_ms() - when > 4000)
        TEST_FAIL("it took %lld ms", (long long)(now_ms() - when));
    (void)kid_strike(4, SIGCONT);
    (void)kid_reap(4, FATE_MS_MAX);
    CHECK_INT(kids[4].status, -TUTTI_ETIME);
}

TEST(one_that_nobody_admits_ends_at_its_deadline)
{
    want_count = 2;
    REQUIRE(kids_start(2, admit_late));
    (void)kid_reach(0, 1, FATE_MS_MAX);
    join(NEWCOMER, kids_root, "open sesame open", TUTTI_PS_PER_S);
    (void)kid_reap(NEWCOMER, 3000);
    CHECK_INT(kids[NEWCOMER].status, -TUTTI_ETIME);
    if (strstr(kids[NEWCOMER].text, "has admitted this process within 1s") == NULL)
        TEST_FAIL("'%s'", kids[NEWCOMER].text);
    for (uint32_t i = 0; i < 2; i++)
        atomic_store(&kids[i].may, 2);
    expect_together(0x3, FATE_MS_MAX);
}

TEST(a_group_of_one_can_be_joined_if_it_listens)
{
    struct tutti_group_tcp_opts opts = kids_opts;
    struct tutti_group *group = NULL;
    struct tutti_group *next = NULL;
    struct tutti_err err = {""};
    char address[TUTTI_GROUP_TCP_ADDRESS_BYTES];

    opts.count = 1;
    CHECK_OK(tutti_group_tcp_open(&opts, &group, &err), err);
    CHECK_INT(tutti_group_admit(group, 0, AGREE_PS, &next, &err), -TUTTI_ELACK);
    CHECK_INT(tutti_group_shrink(group, 0, AGREE_PS, &next, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "a group of one process has nobody to lose");
    CHECK_TEXT(tutti_group_tcp_address(group, address), "");
    tutti_group_close(group);

    REQUIRE(kids_start(0, NULL));
    opts.admits = true;
    opts.has_listen_fd = true;
    CHECK_OK(tutti_group_tcp_listen(&opts, &opts.listen_fd, kids_root, &err), err);
    opts.root = kids_root;
    group = NULL;
    want_count = 2;
    join(NEWCOMER, kids_root, "open sesame open", 10 * TUTTI_PS_PER_S);
    CHECK_OK(tutti_group_tcp_open(&opts, &group, &err), err);
    REQUIRE(group != NULL);
    atomic_store(&kids[0].may, 1);
    atomic_store(&kids[NEWCOMER].may, 1);
    CHECK_OK(step_on(group, &kids[0], &err), err);
    CHECK_INT(kids[0].count, 2);
    (void)kid_reap(NEWCOMER, FATE_MS_MAX);
    CHECK_INT(kids[NEWCOMER].status, 0);
    CHECK_INT(kids[NEWCOMER].count, 2);
}

/* A member or the newcomer is killed at some moment of the admission: the others come together. */
TEST(whoever_is_lost_meanwhile_the_others_come_together)
{
    struct tutti_random dice;
    uint64_t count = test_count(200, 16);

    tutti_random_seed(&dice, test_seed);
    for (uint64_t k = 0; k < count && test_failures == 0; k++) {
        uint32_t victim = (uint32_t)tutti_random_below(&dice, 4);
        uint64_t later_us = tutti_random_below(&dice, k % 2 == 0 ? 4000 : 20000);

        want_count = 3;
        victim = victim == 3 ? NEWCOMER : victim;
        REQUIRE(kids_start(3, step_on));
        for (uint32_t i = 0; i < 3; i++)
            (void)kid_reach(i, 1, FATE_MS_MAX);
        join(NEWCOMER, kids_root, "open sesame open", 10 * TUTTI_PS_PER_S);
        pause_us(later_us);
        (void)kid_strike(victim, SIGKILL);
        (void)kid_reap(victim, FATE_MS_MAX);
        expect_together((0x7 | 1u << NEWCOMER) & ~(1u << victim), FATE_MS_MAX);
        if (test_failures > 0)
            fprintf(stderr, "story %" PRIu64 ": process %u is killed %" PRIu64 " us later\n", k,
                    victim, later_us);
    }
    kids_kill();
}
