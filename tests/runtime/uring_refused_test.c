/* Where a sandbox forbids io_uring: the reason is said, and the other engine plays. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/group_tcp.h"
#include "runtime/status.h"
#include "runtime/tcp.h"
#include "tests/test.h"

/* From now on io_uring_setup fails as it does in containers. */
static bool forbid(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(a_forbidden_io_uring_is_refused_with_the_reason_and_poll_is_taken)
{
    struct tutti_group_tcp_opts opts = {
        .size = sizeof(struct tutti_group_tcp_opts), .count = 1, .root = "127.0.0.1:0"};
    struct tutti_tcp_opts tcp = {.size = sizeof(struct tutti_tcp_opts), .engine = TUTTI_TCP_URING};
    struct tutti_backend *backend = NULL;
    struct tutti_group *group = NULL;
    struct tutti_err err = {""};

    if (!forbid())
        SKIP("no seccomp here");
    CHECK_INT(tutti_tcp_uring_check(&err), -TUTTI_ELACK);
    if (strstr(err.text, "io_uring") == NULL)
        TEST_FAIL("says not what is lacking: %s", err.text);
    CHECK_OK(tutti_group_tcp_open(&opts, &group, &err), err);
    REQUIRE(group != NULL);
    tcp.group = group;
    CHECK_INT(tutti_tcp_open(&tcp, &backend, &err), -TUTTI_ELACK);
    tcp.engine = TUTTI_TCP_AUTO;
    CHECK_OK(tutti_tcp_open(&tcp, &backend, &err), err);
    tutti_backend_close(backend);
    tutti_group_close(group);
}
