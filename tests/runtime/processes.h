/* A test program as several processes, joined by a group over TCP: include it, and the program
 * forks before main, as often as TUTTI_TEST_PROCESSES says (2). Each process runs the same tests
 * with the same arguments; only the first prints what passed. processes_group() is the group. */
#ifndef TUTTI_TESTS_RUNTIME_PROCESSES_H
#define TUTTI_TESTS_RUNTIME_PROCESSES_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/group_tcp.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { PROCESSES_MAX = 16 };

static struct {
    uint32_t index;
    uint32_t count;
    int listen_fd;
    char root[TUTTI_GROUP_TCP_ADDRESS_BYTES];
    struct tutti_group *group;
} processes;

/* The first that fails decides; skipped only where all skipped. */
static void processes_wait(const pid_t *children)
{
    int worst = -1;

    for (uint32_t i = 0; i < processes.count; i++) {
        int how = 0;
        int code;

        if (waitpid(children[i], &how, 0) < 0)
            how = 1 << 8;
        code = WIFEXITED(how) ? WEXITSTATUS(how) : 1;
        if (!WIFEXITED(how))
            fprintf(stderr, "process %u ended by signal %d\n", i, WTERMSIG(how));
        if (worst <= 0 || (worst == 77 && code != 0))
            worst = worst == 77 && code == 0 ? 77 : code;
    }
    _exit(worst < 0 ? 0 : worst);
}

__attribute__((constructor)) static void processes_fork(void)
{
    const char *count = getenv("TUTTI_TEST_PROCESSES");
    struct tutti_group_tcp_opts opts = {.size = sizeof(struct tutti_group_tcp_opts),
                                        .root = "127.0.0.1:0"};
    pid_t children[PROCESSES_MAX];
    pid_t parent = getpid();
    struct tutti_err err;

    processes.count = count == NULL ? 2 : (uint32_t)strtoul(count, NULL, 10);
    if (processes.count < 1 || processes.count > PROCESSES_MAX) {
        fprintf(stderr, "TUTTI_TEST_PROCESSES is '%s' (1 to %d)\n", count, PROCESSES_MAX);
        _exit(2);
    }
    opts.count = processes.count;
    if (tutti_group_tcp_listen(&opts, &processes.listen_fd, processes.root, &err) < 0) {
        fprintf(stderr, "cannot listen: %s\n", err.text);
        _exit(1);
    }
    for (uint32_t i = 0; i < processes.count; i++) {
        children[i] = fork();
        if (children[i] < 0)
            _exit(1);
        if (children[i] > 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that is killed leaves nobody behind */
        if (getppid() != parent)
            _exit(1);
        processes.index = i;
        if (i > 0) {
            close(processes.listen_fd);
            if (freopen("/dev/null", "w", stdout) == NULL)
                _exit(1);
        }
        return;
    }
    close(processes.listen_fd);
    processes_wait(children);
}

/* Of all processes; opened by the first call, which all make. Ends the program if there is none. */
__attribute__((unused)) static struct tutti_group *processes_group(void)
{
    struct tutti_group_tcp_opts opts = {.size = sizeof(struct tutti_group_tcp_opts),
                                        .index = processes.index,
                                        .count = processes.count,
                                        .root = processes.root,
                                        .has_listen_fd = processes.index == 0,
                                        .listen_fd = processes.listen_fd};
    struct tutti_err err;

    if (processes.group != NULL)
        return processes.group;
    if (tutti_group_tcp_open(&opts, &processes.group, &err) < 0) {
        fprintf(stderr, "process %u: cannot join the group: %s\n", processes.index, err.text);
        exit(1);
    }
    return processes.group;
}

__attribute__((destructor)) static void processes_close(void)
{
    tutti_group_close(processes.group);
}

#endif
