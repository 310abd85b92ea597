/* Groups that exchange and connect at random, and a process of each that meets a random fate at a
 * random moment: the others end in time, with right results or with an error that names it. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "runtime/random.h"
#include "tests/runtime/group_world.h"

enum {
    COUNT = 4,
    STEPS = 400,
    FAULT_US_MAX = 40000,
    END_MS_MAX = 9000, /* deadline or silence, and some time to spare on a busy machine */
};

static const tutti_ps DEADLINE_PS = 3 * TUTTI_PS_PER_S;
static const tutti_ps STALL_PS = 2 * TUTTI_PS_PER_S;

enum fate { KILLED, STOPPED, EXITS, GIVES_UP, LEAVES, FATE_COUNT };

static const char *const fate_names[] = {"is killed", "is stopped", "exits", "gives up", "leaves"};

struct kid {
    atomic_int doomed; /* to do itself what it is fated to do */
    int status;
    int64_t ended_ms;
    char text[TUTTI_ERR_TEXT_BYTES];
};

static struct kid *kids; /* [COUNT] */

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- in the processes ---- */

static int exchange(struct tutti_group *group, uint64_t seed, uint64_t step, struct tutti_err *err)
{
    size_t words = 1 + (size_t)(tutti_random_hash(seed, step, 1, 0) % 2000);
    uint64_t mine[2000];
    uint64_t all[COUNT * 2000];
    int status;

    for (size_t i = 0; i < words; i++)
        mine[i] = tutti_random_hash(seed, step, group->index, i);
    status = tutti_group_exchange(group, mine, words * sizeof(mine[0]), all, DEADLINE_PS, err);
    for (uint32_t p = 0; p < COUNT && status == 0; p++)
        for (size_t i = 0; i < words && status == 0; i++)
            if (all[p * words + i] != tutti_random_hash(seed, step, p, i))
                status = tutti_fail(err, TUTTI_ECHECK, "wrong word %zu of %u", i, p);
    return status;
}

static int link_some(struct tutti_group *group, uint64_t seed, uint64_t step, struct tutti_err *err)
{
    struct tutti_group_tcp_link wanted[COUNT * 3] = {{.peer = 0}};
    int fds[COUNT * 3];
    size_t count = 0;
    int status;

    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t low = i < group->index ? i : group->index;
        uint64_t keys =
            i == group->index ? 0 : tutti_random_hash(seed, step, low, i + group->index) % 4;

        for (uint64_t key = 0; key < keys; key++)
            wanted[count++] = (struct tutti_group_tcp_link){.peer = i, .key = key};
    }
    status = tutti_group_tcp_links(group, wanted, count, fds, DEADLINE_PS, err);
    for (size_t i = 0; i < count && status == 0; i++)
        close(fds[i]);
    return status;
}

static int play(struct tutti_group *group, uint64_t seed, enum fate fate, struct tutti_err *err)
{
    struct kid *kid = &kids[group->index];
    int status = 0;

    for (uint64_t step = 0; step < STEPS && status == 0; step++) {
        if (atomic_load(&kid->doomed) != 0 && fate == EXITS)
            _exit(0);
        if (atomic_load(&kid->doomed) != 0) {
            status = tutti_fail(err, TUTTI_ELACK, "fate");
            if (fate == GIVES_UP)
                tutti_group_stop(group, status, err);
            return status;
        }
        if (tutti_random_hash(seed, step, 0, 0) % 8 == 0)
            status = link_some(group, seed, step, err);
        else
            status = exchange(group, seed, step, err);
    }
    return status;
}

static void live(const struct tutti_group_tcp_opts *opts, uint64_t seed, enum fate fate)
{
    struct kid *kid = &kids[opts->index];
    struct tutti_group *group = NULL;
    struct tutti_err err = {""};
    int status = tutti_group_tcp_open(opts, &group, &err);

    if (status == 0)
        status = play(group, seed, fate, &err);
    kid->status = status;
    snprintf(kid->text, sizeof(kid->text), "%s", err.text);
    tutti_group_close(group);
    kid->ended_ms = now_ms();
    _exit(0);
}

/* ---- in the test ---- */

static bool start(uint64_t seed, enum fate fate, pid_t pids[COUNT])
{
    char root[TUTTI_GROUP_TCP_ADDRESS_BYTES];
    struct tutti_group_tcp_opts opts = {.size = sizeof(struct tutti_group_tcp_opts),
                                        .count = COUNT,
                                        .root = "127.0.0.1:0",
                                        .secret = "open sesame open",
                                        .secret_bytes = 16,
                                        .deadline_ps = DEADLINE_PS,
                                        .stall_ps = STALL_PS};
    struct tutti_err err = {""};

    if (tutti_group_tcp_listen(&opts, &opts.listen_fd, root, &err) != 0) {
        TEST_FAIL("cannot listen: %s", err.text);
        return false;
    }
    opts.root = root;
    fflush(NULL);
    for (uint32_t i = 0; i < COUNT; i++) {
        kids[i] = (struct kid){.status = 1};
        pids[i] = fork();
        if (pids[i] != 0)
            continue;
        opts.index = i;
        opts.has_listen_fd = i == 0;
        if (i != 0)
            close(opts.listen_fd);
        live(&opts, seed, fate);
    }
    close(opts.listen_fd);
    return true;
}

/* False: it does not end. */
static bool await(pid_t pid, int64_t until_ms)
{
    struct timespec pause_for = {.tv_nsec = 2 * 1000000};

    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (now_ms() > until_ms) {
            (void)kill(pid, SIGKILL);
            (void)waitpid(pid, NULL, 0);
            return false;
        }
        (void)nanosleep(&pause_for, NULL);
    }
    return true;
}

/* One that came when even process 0 had no more time to wait for it finds nobody who could tell. */
static bool came_too_late(uint32_t index, uint32_t victim)
{
    return index != 0 && victim != 0 && kids[0].status < 0 &&
           strstr(kids[index].text, "process 0 of 4 has not been reached") != NULL;
}

static uint32_t failed_count;

static void one_story(uint64_t seed)
{
    enum fate fate = (enum fate)(tutti_random_hash(seed, 1, 0, 0) % FATE_COUNT);
    uint32_t victim = (uint32_t)(tutti_random_hash(seed, 2, 0, 0) % COUNT);
    struct timespec moment = {.tv_nsec =
                                  (long)(tutti_random_hash(seed, 3, 0, 0) % FAULT_US_MAX) * 1000};
    char name[32];
    pid_t pids[COUNT];
    int64_t until_ms;

    snprintf(name, sizeof(name), "process %u", victim);
    if (!start(seed, fate, pids))
        return;
    (void)nanosleep(&moment, NULL);
    if (fate == KILLED || fate == STOPPED)
        (void)kill(pids[victim], fate == KILLED ? SIGKILL : SIGSTOP);
    else
        atomic_store(&kids[victim].doomed, 1);
    until_ms = now_ms() + END_MS_MAX;
    for (uint32_t i = 0; i < COUNT; i++) {
        if (i == victim)
            continue;
        if (!await(pids[i], until_ms))
            TEST_FAIL("seed %" PRIu64 ": process %u %s, and process %u hangs", seed, victim,
                      fate_names[fate], i);
        else if (kids[i].status != 0 && strstr(kids[i].text, name) == NULL &&
                 !came_too_late(i, victim))
            TEST_FAIL("seed %" PRIu64 ": process %u %s, and process %u says %d '%s'", seed, victim,
                      fate_names[fate], i, kids[i].status, kids[i].text);
        failed_count += kids[i].status != 0;
    }
    if (fate == STOPPED)
        (void)kill(pids[victim], SIGKILL);
    if (!await(pids[victim], until_ms))
        TEST_FAIL("seed %" PRIu64 ": process %u %s and hangs", seed, victim, fate_names[fate]);
}

TEST(whatever_happens_to_one_the_others_know_who_it_was)
{
    uint64_t count = test_count(500, 40);

    kids = mmap(NULL, COUNT * sizeof(kids[0]), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                -1, 0);
    REQUIRE(kids != MAP_FAILED);
    for (uint64_t i = 0; i < count && test_failures < 5; i++)
        one_story(test_seed + i);
    printf("%" PRIu64 " stories; %u of %" PRIu64 " survivors were told\n", count, failed_count,
           count * (COUNT - 1));
    CHECK(failed_count > 0); /* else the faults came too late to be any */
}
