/* A group on two hosts, which are two network namespaces with a cable between them: addresses that
 * mean one thing here and another there, and a cable that is cut. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/runtime/group_world.h"

enum { COUNT = 4 };

static const tutti_ps SOON_PS = 15 * TUTTI_PS_PER_S;

/* What the processes tell the test, in memory shared with it. */
struct kid {
    atomic_int stage; /* 1: linked */
    int status;
    char text[TUTTI_ERR_TEXT_BYTES];
};

static struct kid *kids;    /* [COUNT] */
static pid_t hosts[2];      /* processes that hold the namespaces open */
static const char *root;    /* of process 0 */
static const char *bind_to; /* to what the processes of a story bind */

static int run(const char *format, ...)
{
    char command[512];
    va_list args;
    int code;

    va_start(args, format);
    (void)vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    code = system(command);
    return code == 0 ? 0 : -1;
}

/* ---- the two hosts ---- */

/* On host 0 "nodea" is loopback, as Debian has it; on host 1 it is what it should be. */
static bool own_names(int host)
{
    char path[] = "/tmp/tutti-hosts-XXXXXX";
    static const char *const lines[2] = {"127.0.0.1 localhost\n127.0.1.1 nodea\n",
                                         "127.0.0.1 localhost\n10.77.0.1 nodea\n"};
    int fd = mkstemp(path);
    bool done = fd >= 0 && write(fd, lines[host], strlen(lines[host])) > 0 &&
                mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                mount(path, "/etc/hosts", NULL, MS_BIND, NULL) == 0;

    if (fd >= 0) {
        close(fd);
        (void)unlink(path);
    }
    return done;
}

/* A process in namespaces of its own, that others enter. */
static pid_t start_host(int host)
{
    int ready[2];
    char byte = 'n';
    pid_t pid;

    if (pipe(ready) != 0)
        return -1;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        bool done = unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 && own_names(host);

        (void)!write(ready[1], done ? "y" : "n", 1);
        for (;;)
            (void)pause();
    }
    close(ready[1]);
    (void)!read(ready[0], &byte, 1);
    close(ready[0]);
    if (byte != 'y') {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        return -1;
    }
    return pid;
}

static void stop_hosts(void)
{
    for (int i = 0; i < 2; i++) {
        if (hosts[i] > 0) {
            (void)kill(hosts[i], SIGKILL);
            (void)waitpid(hosts[i], NULL, 0);
        }
        hosts[i] = 0;
    }
}

/* False: this machine does not let us. */
static bool start_hosts(void)
{
    hosts[0] = start_host(0);
    hosts[1] = hosts[0] > 0 ? start_host(1) : -1;
    if (hosts[1] <= 0 ||
        run("ip link add tta netns %d type veth peer name ttb netns %d 2>/dev/null", (int)hosts[0],
            (int)hosts[1]) != 0) {
        stop_hosts();
        return false;
    }
    for (int i = 0; i < 2; i++)
        if (run("nsenter -t %d -n sh -c 'ip link set lo up; ip addr add 10.77.0.%d/24 dev tt%c;"
                " ip -6 addr add fd77::%d/64 dev tt%c nodad; ip link set tt%c up' 2>/dev/null",
                (int)hosts[i], i + 1, 'a' + i, i + 1, 'a' + i, 'a' + i) != 0) {
            stop_hosts();
            return false;
        }
    return true;
}

static bool enter(int host)
{
    static const char *const kinds[] = {"mnt", "net"};
    bool done = unshare(CLONE_FS) == 0; /* a sanitizer may have a thread of its own */

    for (int i = 0; i < 2 && done; i++) {
        char path[64];
        int fd;

        snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)hosts[host], kinds[i]);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        done = fd >= 0 && setns(fd, i == 0 ? CLONE_NEWNS : CLONE_NEWNET) == 0;
        if (fd >= 0)
            close(fd);
    }
    return done;
}

/* ---- the processes: 0 and 1 on host 0, 2 and 3 on host 1 ---- */

static int link_all(struct tutti_group *group, struct tutti_err *err)
{
    struct tutti_group_tcp_link wanted[COUNT];
    int fds[COUNT];
    size_t count = 0;
    int status;

    for (uint32_t i = 0; i < COUNT; i++)
        if (i != group->index)
            wanted[count++] = (struct tutti_group_tcp_link){.peer = i, .key = 5};
    status = tutti_group_tcp_links(group, wanted, count, fds, SOON_PS, err);
    for (size_t i = 0; i < count && status == 0; i++)
        if (send(fds[i], &group->index, sizeof(group->index), 0) != sizeof(group->index))
            status = tutti_fail(err, TUTTI_EIO, "cannot send");
    for (size_t i = 0; i < count && status == 0; i++) {
        struct pollfd readable = {.fd = fds[i], .events = POLLIN};
        uint32_t in = 99;

        (void)poll(&readable, 1, 10000);
        if (recv(fds[i], &in, sizeof(in), 0) != sizeof(in) || in != wanted[i].peer)
            status = tutti_fail(err, TUTTI_ECHECK, "process %u is %u", wanted[i].peer, in);
    }
    return status;
}

static void live(uint32_t index, bool wait)
{
    struct tutti_group_tcp_opts opts = {.size = sizeof(struct tutti_group_tcp_opts),
                                        .index = index,
                                        .count = COUNT,
                                        .root = root,
                                        .bind = bind_to,
                                        .secret = "open sesame open",
                                        .secret_bytes = 16,
                                        .deadline_ps = SOON_PS,
                                        .stall_ps = TUTTI_PS_PER_S};
    struct kid *kid = &kids[index];
    struct tutti_group *group = NULL;
    struct tutti_err err = {""};
    int status = enter((int)index / 2) ? 0 : tutti_fail(&err, TUTTI_EIO, "no way in");

    if (bind_to != NULL)
        opts.bind = index / 2 == 0 ? "tta" : "ttb";
    if (status == 0)
        status = tutti_group_tcp_open(&opts, &group, &err);
    if (status == 0)
        status = link_all(group, &err);
    if (status == 0)
        status = tutti_group_exchange(group, NULL, 0, NULL, SOON_PS, &err);
    atomic_store(&kid->stage, 1);
    if (status == 0 && wait)
        status = tutti_group_wait_stop(group, SOON_PS, &err);
    kid->status = status;
    snprintf(kid->text, sizeof(kid->text), "%s", err.text);
    tutti_group_close(group);
    _exit(0);
}

static void start(pid_t pids[COUNT], bool wait)
{
    if (kids == NULL)
        kids = mmap(NULL, COUNT * sizeof(kids[0]), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(kids, 0, COUNT * sizeof(kids[0]));
    fflush(NULL);
    for (uint32_t i = 0; i < COUNT; i++) {
        kids[i].status = 1;
        pids[i] = fork();
        if (pids[i] == 0)
            live(i, wait);
    }
}

/* One of `others` may stand where `words` are not: what the system says before the time is over. */
static void expect(pid_t pids[COUNT], int status, const char *words, const char *const others[2])
{
    for (uint32_t i = 0; i < COUNT; i++) {
        CHECK_INT(waitpid(pids[i], NULL, 0), pids[i]);
        if (kids[i].status != status ||
            (strstr(kids[i].text, words) == NULL && strstr(kids[i].text, others[0]) == NULL &&
             strstr(kids[i].text, others[1]) == NULL))
            TEST_FAIL("process %u: status %d: %s", i, kids[i].status, kids[i].text);
    }
}

TEST(two_hosts_find_each_other_by_any_address)
{
    static const struct {
        const char *root;
        const char *bind;
    } cases[] = {{"nodea:47001", NULL},
                 {"10.77.0.1:47002", NULL},
                 {"[fd77::1]:47003", NULL},
                 {"10.77.0.1:47004", "by name"}};
    pid_t pids[COUNT];

    if (!start_hosts())
        SKIP("no network namespaces here (root and the command ip are needed)");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        root = cases[i].root;
        bind_to = cases[i].bind;
        start(pids, false);
        expect(pids, 0, "", (const char *const[]){"", ""});
        if (test_failures > 0)
            fprintf(stderr, "that was root '%s'\n", root);
    }
    stop_hosts();
}

/* Nothing is closed, nothing is said: the other host is simply not there any more. */
TEST(a_cable_that_is_cut_is_noticed_on_both_sides)
{
    pid_t pids[COUNT];
    struct timespec pause_for = {.tv_nsec = 20 * 1000000};

    if (!start_hosts())
        SKIP("no network namespaces here (root and the command ip are needed)");
    root = "10.77.0.1:47006";
    bind_to = NULL;
    start(pids, true);
    for (int i = 0; i < 500; i++) {
        int linked = 0;

        for (uint32_t j = 0; j < COUNT; j++)
            linked += atomic_load(&kids[j].stage);
        if (linked == COUNT)
            break;
        (void)nanosleep(&pause_for, NULL);
    }
    CHECK_INT(run("nsenter -t %d -n ip link set tta down", (int)hosts[0]), 0);
    expect(pids, -TUTTI_EIO, "has given no sign of life for 1s",
           (const char *const[]){"has gone: Network is unreachable",
                                 "has gone: Connection timed out"});
    CHECK(strstr(kids[1].text, "process 2") != NULL || strstr(kids[1].text, "process 3") != NULL);
    CHECK(strstr(kids[2].text, "process 0") != NULL);
    stop_hosts();
}
