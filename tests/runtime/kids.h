/* Processes of a group that a test forks, kills and stops, and what they tell it of themselves, in
 * memory that they share with it. */
#ifndef TUTTI_TESTS_RUNTIME_KIDS_H
#define TUTTI_TESTS_RUNTIME_KIDS_H

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/group.h"
#include "runtime/group_tcp.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { KIDS_MAX = 8, KIDS_LOG_BYTES = 2048 };

struct kid {
    atomic_int stage;    /* how far it has come */
    atomic_int may;      /* how far it may go: the test's */
    atomic_uint at_step; /* of its work */
    int status;
    uint32_t index; /* in its last group */
    uint32_t count;
    uint32_t incarnation;
    int64_t lost_ms; /* when it learnt of the last loss, when it had a group again, when it ended */
    int64_t back_ms;
    int64_t ended_ms;
    char lost_text[TUTTI_ERR_TEXT_BYTES]; /* the last loss in its words */
    char why[TUTTI_ERR_TEXT_BYTES];
    char text[TUTTI_ERR_TEXT_BYTES];
    char log[KIDS_LOG_BYTES];
    pid_t pid; /* 0: none, or waited for */
};

typedef int kid_story(struct tutti_group *group, struct kid *kid, struct tutti_err *err);

static struct kid *kids; /* [KIDS_MAX] */
static char kids_root[TUTTI_GROUP_TCP_ADDRESS_BYTES];
__attribute__((unused)) static tutti_ps kids_stall_ps; /* of their groups; 0: the usual */

__attribute__((unused)) static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

__attribute__((unused)) static void pause_us(uint64_t us)
{
    struct timespec time = {.tv_sec = (time_t)(us / 1000000),
                            .tv_nsec = (long)(us % 1000000) * 1000};

    (void)nanosleep(&time, NULL);
}

__attribute__((unused)) static void kid_log(void *data, const char *line)
{
    struct kid *kid = data;
    size_t used = strlen(kid->log);

    (void)snprintf(kid->log + used, sizeof(kid->log) - used, "%s\n", line);
}

/* Waits until the test lets it; for 60 s. */
__attribute__((unused)) static void kid_wait(struct kid *kid, int may)
{
    int64_t until_ms = now_ms() + 60000;

    while (atomic_load(&kid->may) < may && now_ms() < until_ms)
        pause_us(500);
}

__attribute__((unused)) static void kid_end(struct kid *kid, const struct tutti_group *group,
                                            int status, const struct tutti_err *err)
{
    kid->ended_ms = now_ms();
    kid->status = status;
    (void)snprintf(kid->text, sizeof(kid->text), "%s", err->text);
    if (group != NULL) {
        kid->index = group->index;
        kid->count = group->count;
        kid->incarnation = group->incarnation;
        (void)snprintf(kid->why, sizeof(kid->why), "%s", tutti_group_why(group));
    }
}

/* Forks the kid `number`; true in the child, which ends by _exit. */
__attribute__((unused)) static bool kid_fork(uint32_t number)
{
    pid_t parent = getpid();
    pid_t pid;

    kids[number].status = 1;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that is killed leaves nobody behind */
        if (getppid() != parent)
            _exit(1);
        return true;
    }
    kids[number].pid = pid < 0 ? 0 : pid;
    if (pid < 0)
        TEST_FAIL("cannot fork");
    return false;
}

static const struct tutti_group_tcp_opts kids_opts = {.size = sizeof(struct tutti_group_tcp_opts),
                                                      .root = "127.0.0.1:0",
                                                      .secret = "open sesame open",
                                                      .secret_bytes = 16,
                                                      .deadline_ps = 20 * TUTTI_PS_PER_S};

/* `count` kids, of one group, which each tell this story; the last group is closed by it. */
__attribute__((unused)) static bool kids_start(uint32_t count, kid_story *tell)
{
    struct tutti_group_tcp_opts opts = kids_opts;
    struct tutti_err err = {""};

    if (kids == NULL)
        kids = mmap(NULL, KIDS_MAX * sizeof(kids[0]), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (kids == MAP_FAILED)
        return false;
    memset(kids, 0, KIDS_MAX * sizeof(kids[0]));
    if (tutti_group_tcp_listen(&opts, &opts.listen_fd, kids_root, &err) != 0) {
        TEST_FAIL("cannot listen: %s", err.text);
        return false;
    }
    opts.root = kids_root;
    opts.count = count;
    opts.stall_ps = kids_stall_ps;
    for (uint32_t i = 0; i < count; i++) {
        struct tutti_group *group = NULL;
        int status;

        if (!kid_fork(i))
            continue;
        opts.index = i;
        opts.has_listen_fd = i == 0;
        opts.log = kid_log;
        opts.log_data = &kids[i];
        if (i != 0)
            close(opts.listen_fd);
        status = tutti_group_tcp_open(&opts, &group, &err);
        if (status == 0)
            status = tell(group, &kids[i], &err);
        else
            kid_end(&kids[i], NULL, status, &err);
        _exit(status == 0 ? 0 : 1);
    }
    close(opts.listen_fd);
    return true;
}

__attribute__((unused)) static bool kid_reach(uint32_t number, int stage, int64_t within_ms)
{
    int64_t until_ms = now_ms() + within_ms;

    while (atomic_load(&kids[number].stage) < stage && now_ms() < until_ms)
        pause_us(200);
    if (atomic_load(&kids[number].stage) >= stage)
        return true;
    TEST_FAIL("process %u is at stage %d after %lld ms, not at %d: '%s'", number,
              atomic_load(&kids[number].stage), (long long)within_ms, stage, kids[number].text);
    return false;
}

__attribute__((unused)) static int64_t kid_strike(uint32_t number, int signal_number)
{
    if (kids[number].pid <= 0 || kill(kids[number].pid, signal_number) != 0)
        TEST_FAIL("process %u cannot be reached", number);
    return now_ms();
}

/* Waits for one to end, as long as it may take; kills it then. */
__attribute__((unused)) static bool kid_reap(uint32_t number, int64_t within_ms)
{
    int64_t until_ms = now_ms() + within_ms;
    pid_t pid = kids[number].pid;

    while (pid > 0 && waitpid(pid, NULL, WNOHANG) == 0) {
        if (now_ms() >= until_ms) {
            (void)kill(pid, SIGKILL);
            (void)waitpid(pid, NULL, 0);
            kids[number].pid = 0;
            TEST_FAIL("process %u has not ended within %lld ms", number, (long long)within_ms);
            return false;
        }
        pause_us(500);
    }
    kids[number].pid = 0;
    return true;
}

/* What is left of them when a test has failed. */
__attribute__((unused)) static void kids_kill(void)
{
    for (uint32_t i = 0; i < KIDS_MAX; i++) {
        if (kids[i].pid <= 0)
            continue;
        (void)kill(kids[i].pid, SIGKILL);
        (void)waitpid(kids[i].pid, NULL, 0);
        kids[i].pid = 0;
    }
}

#endif
