/* What a command starts it leaves none of behind: all end well, one fails, one is killed, one does
 * not want to end, the command itself is ended. */
#include "tools/run/children.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/runtime/proc.h"
#include "tests/test.h"

enum { CHILDREN = 3 };

/* What a story has its child number `index` do; returns its exit code. */
typedef int (*part)(int index);

/* Seen by all processes of a story. */
static struct stage {
    pid_t ids[CHILDREN];
    int started;
    int listening;       /* for SIGTERM */
    int again[CHILDREN]; /* started so often before */
} * stage;
static struct tutti_sink *stage_sink; /* of a child */
static tutti_ps stage_save_ps; /* that a SIGTERM leaves them; 0: no more than other signals */
static uint32_t stage_restarts;
static uint32_t stage_least; /* so many go on without the others; 0: all or none */
static uint32_t stage_some;  /* from child 1 on, of which one must be left; 0: none is spared */

struct seen {
    int code; /* 128 + the signal that ended the command */
    int64_t ms;
    char err[4096];
    char out[4096];
};

static void pause_for(int ms)
{
    (void)poll(NULL, 0, ms);
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void call(const void *context, uint32_t index, char *buf, size_t buf_bytes)
{
    snprintf(buf, buf_bytes, "%s %u", (const char *)context, index);
}

/* The command: starts the children, and waits for them. */
static int command(part play)
{
    struct tutti_sink sink = {.out = stdout, .notes = stderr};
    struct tutti_children *children = NULL;
    struct tutti_err err = {""};
    bool child = false;
    uint32_t again;
    int code;

    if (tutti_children_new("test", CHILDREN, &sink, &children, &err) < 0)
        return 99;
    if (stage_least > 0)
        tutti_children_spare(children, stage_least, 42);
    if (stage_some > 0) {
        tutti_children_spare_some(children, 1, stage_some, 1);
        tutti_children_call(children, call, "actor");
    }
    for (int i = 0; i < CHILDREN; i++) {
        if (tutti_children_start(children, &child, &err) < 0)
            return 98;
        if (child) {
            stage->ids[i] = getpid();
            stage_sink = &sink;
            __atomic_add_fetch(&stage->started, 1, __ATOMIC_SEQ_CST);
            return play(i);
        }
    }
    if (stage_save_ps > 0)
        tutti_children_let_save(children, stage_save_ps);
    if (stage_restarts == 0)
        return tutti_children_wait(children, 300 * TUTTI_PS_PER_MS);
    tutti_children_restart(children, stage_restarts, 42);
    code = tutti_children_keep(children, 300 * TUTTI_PS_PER_MS, &again);
    if (again == TUTTI_CHILDREN_NONE)
        return code;
    stage->ids[again] = getpid();
    stage->again[again]++;
    return play((int)again);
}

static void read_all(int fd, char *text, size_t bytes)
{
    size_t used = 0;
    ssize_t got = 1;

    while (used + 1 < bytes && got > 0) {
        got = read(fd, text + used, bytes - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    }
    text[used] = '\0';
    close(fd);
}

static int save_first(int index);
static int save_without_one(int index);

/* Runs the command in a process of its own, and sends it `number` (0: nothing) once all play. */
static struct seen run(part play, int number)
{
    struct seen seen = {.code = -1};
    int64_t began_ms = now_ms();
    int out[2];
    int err[2];
    int status = 0;
    pid_t id;

    stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (stage == MAP_FAILED || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
        return seen;
    fflush(stdout);
    fflush(stderr);
    id = fork();
    if (id == 0) {
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        status = command(play);
        fflush(stdout);
        _exit(status);
    }
    close(out[1]);
    close(err[1]);
    while (number != 0 && __atomic_load_n(&stage->started, __ATOMIC_SEQ_CST) < CHILDREN)
        pause_for(5);
    while (play == save_without_one && (__atomic_load_n(&stage->listening, __ATOMIC_SEQ_CST) < 2 ||
                                        kill(stage->ids[1], 0) == 0)) /* the command knows */
        pause_for(5);
    while (play == save_first && __atomic_load_n(&stage->listening, __ATOMIC_SEQ_CST) < CHILDREN)
        pause_for(5);
    if (number != 0) {
        pause_for(50);
        (void)kill(id, number);
    }
    read_all(out[0], seen.out, sizeof(seen.out)); /* ends when no process holds it any more */
    read_all(err[0], seen.err, sizeof(seen.err));
    (void)waitpid(id, &status, 0);
    seen.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    seen.ms = now_ms() - began_ms;
    for (int i = 0; i < CHILDREN; i++) {
        for (int turn = 0; turn < 100 && stage->ids[i] > 0 && is_alive(stage->ids[i]); turn++)
            pause_for(10); /* the system takes a while to end it */
        if (stage->ids[i] > 0 && is_alive(stage->ids[i]))
            TEST_FAIL("process %d of the story is still there", i);
    }
    munmap(stage, sizeof(*stage));
    return seen;
}

/* Child 0 keeps the command's stderr, on which the lines of the others appear at any time: what it
 * says there is one write. */
static int say_and_end(int index)
{
    printf("out %d\n", index);
    fflush(stdout);
    if (index == 0) {
        fprintf(stderr, "err 0\nand more\nno end of line");
        return 0;
    }
    fprintf(stderr, "err %d\nand ", index);
    fprintf(stderr, "more\nno end of line");
    return 0;
}

TEST(all_end_well_and_what_the_others_say_is_numbered)
{
    struct seen seen = run(say_and_end, 0);

    CHECK_INT(seen.code, 0);
    CHECK_TEXT(seen.out, "out 0\n");
    CHECK(strstr(seen.err, "err 0\nand more\nno end of line") != NULL);
    for (int i = 1; i < CHILDREN; i++) {
        char line[64];

        snprintf(line, sizeof(line), "[%d] out %d\n", i, i);
        CHECK(strstr(seen.err, line) != NULL);
        snprintf(line, sizeof(line), "[%d] and more\n", i);
        CHECK(strstr(seen.err, line) != NULL);
        snprintf(line, sizeof(line), "[%d] no end of line\n", i);
        CHECK(strstr(seen.err, line) != NULL);
    }
}

static int one_fails(int index)
{
    if (index == 1)
        return 77;
    pause_for(100); /* they learn of it, and say so */
    fprintf(stderr, "1 has failed\n");
    return 1;
}

TEST(the_code_is_that_of_the_first_that_failed)
{
    struct seen seen = run(one_fails, 0);

    CHECK_INT(seen.code, 77);
    CHECK(strstr(seen.err, "[2] 1 has failed\n") != NULL);
    CHECK(seen.ms < 3000);
}

static int one_is_killed(int index)
{
    if (index == 2)
        (void)kill(getpid(), SIGKILL);
    pause_for(60000);
    return 0;
}

TEST(the_others_do_not_outlive_one_that_was_killed)
{
    struct seen seen = run(one_is_killed, 0);

    CHECK_INT(seen.code, 1);
    CHECK_TEXT(seen.err, "tutti test: process 2 of 3 was ended by signal 9 (Killed)\n");
    CHECK(seen.ms < 3000);
}

/* As a command that fails says why: to the stream that is there for it. */
static int all_fail(int index)
{
    if (index == 2) {
        (void)signal(SIGSEGV, SIG_DFL); /* sanitizers have a handler of their own */
        (void)kill(getpid(), SIGSEGV);
    }
    pause_for(index == 1 ? 20 : 1000); /* the other is late enough on a busy machine, too */
    fprintf(stage_sink->errors, "tutti test: %d fails\n", index);
    fflush(stage_sink->errors);
    return 1;
}

static int some_fail(int index)
{
    return index == 2 ? 0 : all_fail(index);
}

TEST(of_all_that_fail_one_says_why)
{
    struct seen seen = run(some_fail, 0);

    CHECK_INT(seen.code, 1);
    CHECK_TEXT(seen.err, "[1] tutti test: 1 fails\n");
    seen = run(all_fail, 0);
    CHECK_INT(seen.code, 1);
    CHECK_TEXT(seen.err,
               "tutti test: process 2 of 3 was ended by signal 11 (Segmentation fault)\n");
}

/* Twice, by a signal and by a code that is no command's own; child 0 as well. */
static int some_are_lost(int index)
{
    if (index == 0 && stage->again[index] == 0)
        (void)kill(getpid(), SIGKILL);
    if (index == 1 && stage->again[index] == 0)
        return 3;
    while (stage->again[0] == 0 || stage->again[1] == 0)
        pause_for(5);
    printf("out %d\n", index);
    fflush(stdout);
    return 0;
}

TEST(those_that_are_lost_are_started_again)
{
    struct seen seen;

    stage_restarts = 2;
    seen = run(some_are_lost, 0);
    CHECK_INT(seen.code, 0);
    CHECK_TEXT(seen.out, "out 0\n"); /* still the one that prints */
    CHECK(strstr(seen.err, "tutti test: process 0 of 3 was ended by signal 9 (Killed): started "
                           "again, restart ") != NULL);
    CHECK(strstr(seen.err, "tutti test: process 1 of 3 has ended with code 3: started again, "
                           "restart ") != NULL);
    CHECK(strstr(seen.err, "restart 2 of 2\n") != NULL);
    CHECK(strstr(seen.err, "[1] out 1\n") != NULL);
    stage_restarts = 1; /* of two losses */
    seen = run(some_are_lost, 0);
    CHECK(seen.code == 1 || seen.code == 3);
    CHECK(strstr(seen.err, ", and none is started again any more (1 of 1)\n") != NULL);
    seen = run(some_fail, 0); /* who says why it fails would fail again */
    CHECK_INT(seen.code, 1);
    CHECK_TEXT(seen.err, "[1] tutti test: 1 fails\n");
    stage_restarts = 0;
}

/* The first, and then another one leaves; all print to the command's own output. */
static int two_go(int index)
{
    printf("out %d\n", index);
    fflush(stdout);
    __atomic_add_fetch(&stage->listening, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&stage->listening, __ATOMIC_SEQ_CST) < CHILDREN)
        pause_for(5);
    if (index == 0)
        (void)kill(getpid(), SIGKILL);
    if (index == 1)
        return 42;
    while (is_alive(stage->ids[0]) || is_alive(stage->ids[1]))
        pause_for(5);
    pause_for(100);
    return 0;
}

TEST(the_others_go_on_without_those_that_are_lost_or_leave)
{
    struct seen seen;

    stage_least = 1;
    seen = run(two_go, 0);
    CHECK_INT(seen.code, 0);
    CHECK(strstr(seen.err, "process 0 of 3 was ended by signal 9 (Killed): ") != NULL);
    for (int i = 0; i < CHILDREN; i++) {
        char line[16];

        snprintf(line, sizeof(line), "out %d\n", i);
        CHECK(strstr(seen.out, line) != NULL);
    }
    stage_least = 3; /* but not if too few are left */
    seen = run(two_go, 0);
    CHECK_INT(seen.code, 1);
    CHECK(strstr(seen.err, "process 0 of 3 was ended by signal 9 (Killed)\n") != NULL);
    stage_least = 0;
}

static int first_and_last_go_on(int index)
{
    __atomic_add_fetch(&stage->listening, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&stage->listening, __ATOMIC_SEQ_CST) < CHILDREN)
        pause_for(5);
    if (index == 1)
        (void)kill(getpid(), SIGKILL);
    while (is_alive(stage->ids[1]))
        pause_for(5);
    pause_for(100);
    printf("out %d\n", index);
    fflush(stdout);
    return 0;
}

/* Both, the second once the first has ended. */
static int two_are_lost(int index)
{
    if (index == 2)
        while (stage->ids[1] == 0 || is_alive(stage->ids[1]))
            pause_for(5);
    if (index > 0)
        (void)kill(getpid(), SIGKILL);
    pause_for(60000);
    return 0;
}

TEST(some_may_be_lost_and_the_first_prints)
{
    struct seen seen;

    stage_some = 2;
    seen = run(first_and_last_go_on, 0);
    CHECK_INT(seen.code, 0);
    CHECK_TEXT(seen.out, "out 0\n");
    CHECK(strstr(seen.err, "tutti test: actor 1, process 1 of 3, was ended by signal 9 (Killed): "
                           "the others go on\n") != NULL);
    seen = run(two_are_lost, 0); /* one of both must be left */
    CHECK_INT(seen.code, 1);
    CHECK(strstr(seen.err, "actor 1, process 1 of 3, was ended by signal 9 (Killed): the others go "
                           "on\n") != NULL);
    CHECK(strstr(seen.err, "actor 2, process 2 of 3, was ended by signal 9 (Killed)\n") != NULL);
    seen = run(some_are_lost, 0); /* number 0 is none of them */
    CHECK(seen.code == 1);
    CHECK(strstr(seen.err, "actor 0, process 0 of 3, was ended by signal 9 (Killed)\n") != NULL);
    stage_some = 0;
}

static int save_without_one(int index)
{
    if (index == 1)
        (void)kill(getpid(), SIGKILL);
    return save_first(index);
}

TEST(one_that_was_lost_before_keeps_nobody_from_saving)
{
    struct seen seen;

    stage_some = 2;
    stage_save_ps = 60 * TUTTI_PS_PER_S;
    seen = run(save_without_one, SIGTERM);
    CHECK_INT(seen.code, 42);
    stage_save_ps = 0;
    stage_some = 0;
}

static int one_stands_still(int index)
{
    (void)signal(SIGTERM, SIG_IGN);
    if (index == 0)
        return 3;
    if (index == 1)
        (void)kill(getpid(), SIGSTOP);
    for (;;)
        pause_for(1000);
    return 0;
}

TEST(who_does_not_want_to_end_is_ended)
{
    struct seen seen = run(one_stands_still, 0);

    CHECK_INT(seen.code, 3);
    CHECK(seen.ms >= 1300 && seen.ms < 5000);
}

static int one_is_stopped(int index)
{
    if (index == 0)
        return 3;
    if (index == 1)
        (void)kill(getpid(), SIGSTOP);
    pause_for(100);
    return 0;
}

/* A stopped one can neither end nor say why: nothing is waited for. */
TEST(once_only_a_stopped_one_is_left_it_is_ended_at_once)
{
    struct seen seen = run(one_is_stopped, 0);

    CHECK_INT(seen.code, 3);
    CHECK(seen.ms < 1000); /* 100 are the others' time; if it were waited for, 1300 and more */
}

static int one_is_continued(int index)
{
    if (index == 0)
        return 3;
    if (index == 1) {
        (void)kill(getpid(), SIGSTOP);
        pause_for(100);
        fprintf(stderr, "going on\n");
        return 0;
    }
    pause_for(50);
    (void)kill(stage->ids[1], SIGCONT);
    pause_for(50);
    return 0;
}

TEST(one_that_goes_on_is_given_its_time)
{
    struct seen seen = run(one_is_continued, 0);

    CHECK_INT(seen.code, 3);
    CHECK(strstr(seen.err, "[1] going on\n") != NULL);
}

static int sleep_long(int index)
{
    (void)index;
    pause_for(60000);
    return 0;
}

TEST(a_signal_to_the_command_ends_all)
{
    struct seen seen = run(sleep_long, SIGINT);

    CHECK_INT(seen.code, 128 + SIGINT);
    CHECK(seen.ms < 3000);
    CHECK_TEXT(seen.err, "");
    seen = run(sleep_long, SIGTERM);
    CHECK_INT(seen.code, 128 + SIGTERM);
}

/* Longer than the second that any signal leaves. */
static int save_first(int index)
{
    sigset_t term;
    int number = 0;

    (void)index;
    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &term, NULL);
    __atomic_add_fetch(&stage->listening, 1, __ATOMIC_SEQ_CST);
    (void)sigwait(&term, &number);
    pause_for(1300);
    return 42;
}

TEST(who_has_something_to_save_does_so_and_says_so_by_its_code)
{
    struct seen seen;

    stage_save_ps = 60 * TUTTI_PS_PER_S;
    seen = run(save_first, SIGTERM);
    CHECK_INT(seen.code, 42);
    CHECK_TEXT(seen.err, "");
    seen = run(sleep_long, SIGTERM); /* these do not */
    CHECK_INT(seen.code, 128 + SIGTERM);
    stage_save_ps = 0;
}

static int save_later(int index)
{
    (void)signal(SIGTERM, SIG_DFL);
    pause_for(index == 0 ? 1500 : 0);
    return 42;
}

/* As when a notice comes to them and not to the command: the grace of those that fail is 300 ms. */
TEST(who_has_saved_leaves_the_others_time_to_do_so)
{
    struct seen seen;

    stage_save_ps = 60 * TUTTI_PS_PER_S;
    stage_restarts = 1;
    seen = run(save_later, 0);
    CHECK_INT(seen.code, 42);
    CHECK_TEXT(seen.err, "");
    CHECK(seen.ms >= 1500);
    stage_save_ps = 0;
    stage_restarts = 0;
}

TEST(and_so_does_one_that_leaves_it_no_time)
{
    struct seen seen = run(sleep_long, SIGKILL);

    CHECK_INT(seen.code, 128 + SIGKILL);
    CHECK(seen.ms < 3000);
}

static int with_a_grandchild(int index)
{
    if (index == 1 && fork() == 0) {
        pause_for(60000);
        _exit(0);
    }
    pause_for(index == 0 ? 100 : 60000);
    return index == 0 ? 5 : 0;
}

/* As a shell that runs ssh; the outputs would stay open. */
TEST(children_of_children_end_too)
{
    struct seen seen = run(with_a_grandchild, 0);

    CHECK_INT(seen.code, 5);
    CHECK(seen.ms < 5000);
}
