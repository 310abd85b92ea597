/* Processes of a group that die, stall, stop or leave: all others end soon, and know who it was. */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/runtime/group_world.h"

static const tutti_ps LONG_PS = 30 * TUTTI_PS_PER_S; /* nobody must need it */

enum { COUNT = 4, FATE_MS_MAX = 5000 };

/* What the processes of one story tell the test, in memory that they share with it. */
struct kid {
    atomic_int stage; /* 1: about to open, 2: open, 3: where the story wants it */
    atomic_int held;  /* 1: waits to be let go before it opens */
    int status;
    int64_t ended_ms;
    char text[TUTTI_ERR_TEXT_BYTES];
    pid_t pid;
};

static struct kid *kids; /* [COUNT] */

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void pause_for(unsigned ms)
{
    struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

    (void)nanosleep(&time, NULL);
}

typedef int story(struct tutti_group *group, struct kid *kid, struct tutti_err *err);

static void live(const struct tutti_group_tcp_opts *opts, story *tell)
{
    struct kid *kid = &kids[opts->index];
    struct tutti_group *group = NULL;
    struct tutti_err err = {""};
    int status;

    while (atomic_load(&kid->held) != 0)
        pause_for(1);
    atomic_store(&kid->stage, 1);
    status = tutti_group_tcp_open(opts, &group, &err);
    if (status == 0) {
        atomic_store(&kid->stage, 2);
        status = tell(group, kid, &err);
    }
    kid->ended_ms = now_ms();
    kid->status = status;
    snprintf(kid->text, sizeof(kid->text), "%s", err.text);
    tutti_group_close(group);
    _exit(0);
}

/* Starts those of COUNT processes that the mask names; those held do not open yet. */
static bool start_holding(unsigned held, unsigned mask, story *tell, tutti_ps stall_ps)
{
    static char root[TUTTI_GROUP_TCP_ADDRESS_BYTES];
    struct tutti_group_tcp_opts opts = {.size = sizeof(struct tutti_group_tcp_opts),
                                        .count = COUNT,
                                        .root = "127.0.0.1:0",
                                        .secret = "open sesame open",
                                        .secret_bytes = 16,
                                        .deadline_ps = LONG_PS,
                                        .stall_ps = stall_ps};
    struct tutti_err err = {""};

    if (kids == NULL)
        kids = mmap(NULL, COUNT * sizeof(kids[0]), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(kids, 0, COUNT * sizeof(kids[0]));
    if (tutti_group_tcp_listen(&opts, &opts.listen_fd, root, &err) != 0) {
        TEST_FAIL("cannot listen: %s", err.text);
        return false;
    }
    opts.root = root;
    fflush(NULL);
    for (uint32_t i = 0; i < COUNT; i++) {
        pid_t pid;

        if ((mask >> i & 1) == 0)
            continue;
        kids[i].status = 1;
        atomic_store(&kids[i].held, (int)(held >> i & 1));
        pid = fork();
        if (pid == 0) {
            opts.index = i;
            opts.has_listen_fd = i == 0;
            if (i != 0)
                close(opts.listen_fd);
            live(&opts, tell);
        }
        kids[i].pid = pid;
        if (pid < 0) {
            TEST_FAIL("cannot fork");
            kids[i].pid = 0;
        }
    }
    close(opts.listen_fd);
    return true;
}

static bool start(unsigned mask, story *tell, tutti_ps stall_ps)
{
    return start_holding(0, mask, tell, stall_ps);
}

static void wait_for_stage(uint32_t index, int stage)
{
    int64_t until_ms = now_ms() + 10000;

    while (atomic_load(&kids[index].stage) < stage && now_ms() < until_ms)
        pause_for(1);
    CHECK(atomic_load(&kids[index].stage) >= stage);
    pause_for(30); /* to go to sleep where it waits */
}

static int64_t strike(uint32_t index, int signal_number)
{
    if (kids[index].pid <= 0 || kill(kids[index].pid, signal_number) != 0)
        TEST_FAIL("process %u cannot be reached", index);
    return now_ms();
}

/* All but the victim end with this, within the time; the victim is reaped. */
static void expect_all(uint32_t victim, int status, const char *words, int64_t since_ms)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        int how;

        if (kids[i].pid == 0 || i == victim)
            continue;
        CHECK_INT(waitpid(kids[i].pid, &how, 0), kids[i].pid);
        if (!WIFEXITED(how) || kids[i].status != status || strstr(kids[i].text, words) == NULL)
            TEST_FAIL("process %u: status %d, expected %d: '%s' lacks '%s'", i, kids[i].status,
                      status, kids[i].text, words);
        if (kids[i].ended_ms - since_ms > FATE_MS_MAX)
            TEST_FAIL("process %u learns it %lld ms later", i,
                      (long long)(kids[i].ended_ms - since_ms));
    }
    if (victim < COUNT) {
        (void)kill(kids[victim].pid, SIGKILL); /* it may only be stopped */
        CHECK_INT(waitpid(kids[victim].pid, NULL, 0), kids[victim].pid);
    }
}

/* ---- stories ---- */

static int sit(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    atomic_store(&kid->stage, 3);
    return tutti_group_wait_stop(group, LONG_PS, err);
}

static int exchange_but_for_2(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    int status = tutti_group_exchange(group, NULL, 0, NULL, LONG_PS, err);

    atomic_store(&kid->stage, 3);
    if (group->index == 2)
        pause_for(20000);
    return status < 0 ? status : tutti_group_exchange(group, NULL, 0, NULL, LONG_PS, err);
}

static int exchange_but_for_0(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    atomic_store(&kid->stage, 3);
    if (group->index == 0)
        pause_for(20000);
    return tutti_group_exchange(group, NULL, 0, NULL, LONG_PS, err);
}

static int exchange_for_ever(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    static uint8_t mine[1 << 18];
    static uint8_t all[COUNT << 18];
    int status = 0;

    atomic_store(&kid->stage, 3);
    while (status == 0)
        status = tutti_group_exchange(group, mine, sizeof(mine), all, LONG_PS, err);
    return status;
}

static int link_for_ever(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    struct tutti_group_tcp_link wanted[COUNT * 8];
    int fds[COUNT * 8];
    size_t count = 0;
    int status = 0;

    for (uint32_t i = 0; i < COUNT; i++)
        for (uint64_t key = 0; key < 8 && i != group->index; key++)
            wanted[count++] = (struct tutti_group_tcp_link){.peer = i, .key = key};
    atomic_store(&kid->stage, 3);
    while (status == 0) {
        status = tutti_group_tcp_links(group, wanted, count, fds, LONG_PS, err);
        for (size_t i = 0; i < count && status == 0; i++)
            close(fds[i]);
    }
    return status;
}

static const struct {
    story *tell;
    unsigned mask; /* who is started */
} stages[] = {{sit, 0xf},
              {sit, 0x7},
              {exchange_but_for_2, 0xf},
              {exchange_for_ever, 0xf},
              {link_for_ever, 0xf}};

TEST(a_death_is_known_at_once_whenever_it_comes)
{
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
        int64_t when;

        REQUIRE(start(stages[i].mask, stages[i].tell, 0));
        wait_for_stage(2, stages[i].mask == 0xf ? 3 : 1);
        if (stages[i].mask != 0xf)
            pause_for(300); /* it has come, and waits for the others */
        when = strike(2, SIGKILL);
        expect_all(2, -TUTTI_EIO, "process 2 of 4 ('127.0.0.1:", when);
    }
}

TEST(who_comes_when_all_is_over_is_told_as_well)
{
    int64_t when;

    REQUIRE(start_holding(0x8, 0xf, sit, 0));
    wait_for_stage(2, 1);
    pause_for(300);
    when = strike(2, SIGKILL);
    pause_for(100);
    atomic_store(&kids[3].held, 0);
    expect_all(2, -TUTTI_EIO, "process 2 of 4 ('127.0.0.1:", when);
}

TEST(and_that_of_process_0_as_well)
{
    static const struct {
        story *tell;
        unsigned mask;
    } cases[] = {{sit, 0xf},
                 {sit, 0x7},
                 {exchange_but_for_0, 0xf},
                 {exchange_for_ever, 0xf},
                 {link_for_ever, 0xf}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t when;

        REQUIRE(start(cases[i].mask, cases[i].tell, 0));
        wait_for_stage(0, cases[i].mask == 0xf ? 3 : 1);
        if (cases[i].mask != 0xf) { /* until the others have come to it */
            wait_for_stage(1, 1);
            wait_for_stage(2, 1);
            pause_for(test_is_slow() ? 2000 : 300);
        }
        when = strike(0, SIGKILL);
        expect_all(0, -TUTTI_EIO, "process 0 of 4 ('127.0.0.1:", when);
    }
}

/* It is stopped, its sockets are not: nothing closes, and only its silence tells. */
TEST(one_that_stalls_is_found_by_its_silence)
{
    static const uint32_t victims[] = {3, 0};

    for (size_t i = 0; i < 2; i++) {
        char words[80];
        int64_t when;

        REQUIRE(start(0xf, sit, 800 * TUTTI_PS_PER_MS));
        wait_for_stage(victims[i], 3);
        when = strike(victims[i], SIGSTOP);
        snprintf(words, sizeof(words), "process %u of 4 ('127.0.0.1:", victims[i]);
        expect_all(victims[i], -TUTTI_EIO, words, when);
        if (strstr(kids[1].text, "has given no sign of life for 800ms") == NULL)
            TEST_FAIL("'%s'", kids[1].text);
    }
}

/* Everybody stopped and let go on again: nobody is to blame. */
TEST(a_group_that_was_stopped_as_a_whole_goes_on)
{
    REQUIRE(start(0xf, sit, 800 * TUTTI_PS_PER_MS));
    for (uint32_t i = 0; i < COUNT; i++)
        wait_for_stage(i, 3);
    for (uint32_t i = 0; i < COUNT; i++)
        (void)strike(i, SIGSTOP);
    pause_for(2000);
    for (uint32_t i = 0; i < COUNT; i++)
        (void)strike(i, SIGCONT);
    pause_for(1500);
    for (uint32_t i = 0; i < COUNT; i++)
        if (kids[i].status != 1)
            TEST_FAIL("process %u has ended: %s", i, kids[i].text);
    expect_all(1, -TUTTI_EIO, "process 1 of 4 ('127.0.0.1:", strike(1, SIGKILL));
}

static int stop_in_3(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    int status;

    atomic_store(&kid->stage, 3);
    if (group->index != 3)
        return tutti_group_wait_stop(group, LONG_PS, err);
    status = tutti_fail(err, TUTTI_ECHECK, "rank 12 has a wrong result");
    pause_for(50);
    tutti_group_stop(group, status, err);
    tutti_group_stop(group, -TUTTI_ENOMEM, NULL); /* the first call counts */
    return status;
}

static int stop_in_0(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    int status;

    atomic_store(&kid->stage, 3);
    if (group->index != 0)
        return tutti_group_exchange(group, NULL, 0, NULL, LONG_PS, err);
    status = tutti_fail(err, TUTTI_ELACK, "there is no\nway");
    tutti_group_stop(group, status, err);
    return status;
}

TEST(who_stops_is_heard_with_his_reason_even_if_he_closes_at_once)
{
    for (int i = 0; i < 10; i++) {
        int64_t when = now_ms();

        REQUIRE(start(0xf, stop_in_3, 0));
        expect_all(COUNT, -TUTTI_ECHECK, "rank 12 has a wrong result", when);
        CHECK_TEXT(kids[3].text, "rank 12 has a wrong result");
        CHECK_TEXT(kids[0].text, "process 3 of 4: rank 12 has a wrong result");
        CHECK_TEXT(kids[1].text, "process 3 of 4: rank 12 has a wrong result");
        when = now_ms();
        REQUIRE(start(0xf, stop_in_0, 0));
        expect_all(COUNT, -TUTTI_ELACK, "there is no?way", when);
        CHECK_TEXT(kids[3].text, "process 0 of 4: there is no?way");
    }
}

static int leave_early(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    int status = tutti_group_exchange(group, NULL, 0, NULL, LONG_PS, err);

    atomic_store(&kid->stage, 3);
    if (status < 0 || group->index == 1)
        return status < 0 ? status : tutti_fail(err, TUTTI_EIO, "process 1 of 4 left before");
    return tutti_group_exchange(group, NULL, 0, NULL, LONG_PS, err);
}

static int leave_early_0(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    int status = tutti_group_exchange(group, NULL, 0, NULL, LONG_PS, err);

    atomic_store(&kid->stage, 3);
    if (status < 0 || group->index == 0)
        return status < 0 ? status : tutti_fail(err, TUTTI_EIO, "process 0 of 4 has left");
    return tutti_group_exchange(group, NULL, 0, NULL, LONG_PS, err);
}

TEST(who_leaves_while_others_need_him_is_named)
{
    int64_t when = now_ms();

    REQUIRE(start(0xf, leave_early, 0));
    expect_all(COUNT, -TUTTI_EIO, "process 1 of 4 left before", when);
    CHECK_TEXT(kids[2].text, "process 1 of 4 left before the others had done");
    when = now_ms();
    REQUIRE(start(0xf, leave_early_0, 0));
    expect_all(COUNT, -TUTTI_EIO, "process 0 of 4 has left", when);
}

/* Leaving after the last exchange is no reason for anybody to stop. */
static int leave_in_turn(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    int status = tutti_group_exchange(group, NULL, 0, NULL, LONG_PS, err);

    atomic_store(&kid->stage, 3);
    if (status == 0)
        status = tutti_group_wait_stop(group, group->index * 200 * TUTTI_PS_PER_MS, err);
    return status;
}

TEST(who_leaves_when_all_is_done_disturbs_nobody)
{
    int64_t when = now_ms();

    REQUIRE(start(0xf, leave_in_turn, 0));
    expect_all(COUNT, 0, "", when);
}

static void *wake_later(void *group)
{
    pause_for(200);
    tutti_group_wake(group);
    return NULL;
}

static int be_woken(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    pthread_t thread;
    int status;

    atomic_store(&kid->stage, 3);
    if (pthread_create(&thread, NULL, wake_later, group) != 0)
        return tutti_fail(err, TUTTI_EIO, "no thread");
    status = tutti_group_wait_stop(group, LONG_PS, err);
    (void)pthread_join(thread, NULL);
    return status < 0 ? status : tutti_group_exchange(group, NULL, 0, NULL, LONG_PS, err);
}

TEST(who_waits_can_be_woken)
{
    int64_t when = now_ms();

    REQUIRE(start(0xf, be_woken, 0));
    expect_all(COUNT, 0, "", when);
}
