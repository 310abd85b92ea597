/* A small client of PMI-1: lines of key=value on a descriptor that Hydra leaves open in each of its
 * processes. Enough of it for one word of process 0 to be put, and be got by all. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/launch/share.h"
#include "runtime/status.h"

enum { LINE_BYTES = 2048 };

bool tutti_pmi_value(const char *line, const char *key, char *ret, size_t ret_bytes)
{
    size_t key_bytes = strlen(key);

    while (*line != '\0') {
        size_t bytes;

        line += strspn(line, " \n");
        bytes = strcspn(line, " \n");
        if (bytes > key_bytes && memcmp(line, key, key_bytes) == 0 && line[key_bytes] == '=') {
            size_t value_bytes = bytes - key_bytes - 1;

            if (value_bytes >= ret_bytes)
                return false;
            memcpy(ret, line + key_bytes + 1, value_bytes);
            ret[value_bytes] = '\0';
            return true;
        }
        line += bytes;
    }
    return false;
}

/* One line, byte by byte: what follows it is not ours to take yet. */
static int read_line(int fd, char line[LINE_BYTES], const char *command, int64_t end_ms,
                     struct tutti_err *err)
{
    size_t used = 0;

    while (used + 1 < LINE_BYTES) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        ssize_t got;

        if (poll(&poll_fd, 1, tutti_launch_left_ms(end_ms)) <= 0) {
            if (tutti_launch_left_ms(end_ms) > 0)
                continue; /* a signal */
            return tutti_fail(err, TUTTI_ETIME,
                              "the launcher has not answered PMI's '%s' before the deadline (not "
                              "all processes of its job may have come)",
                              command);
        }
        got = read(fd, line + used, 1);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return tutti_fail(err, TUTTI_EIO, "the launcher does not speak PMI on 'PMI_FD' %d: %s",
                              fd, got == 0 ? "it has hung up" : strerror(errno));
        if (line[used] == '\n')
            break;
        used++;
    }
    line[used] = '\0';
    return 0;
}

/* Says a line, and reads the answer, which must be the one expected and no failure. */
static int talk(int fd, const char *said, const char *command, const char *expected,
                char line[LINE_BYTES], int64_t end_ms, struct tutti_err *err)
{
    size_t bytes = strlen(said);
    char seen[64] = "";
    char code[16] = "0";
    int status;

    if (write(fd, said, bytes) != (ssize_t)bytes)
        return tutti_fail(
            err, TUTTI_EIO,
            "the launcher does not hear PMI on 'PMI_FD' %d: %s (one command a process "
            "asks it; TUTTI_ROOT=HOST:PORT tells more of them)",
            fd, strerror(errno));
    status = read_line(fd, line, command, end_ms, err);
    if (status < 0)
        return status;
    if (!tutti_pmi_value(line, "cmd", seen, sizeof(seen)) || strcmp(seen, expected) != 0)
        return tutti_fail(err, TUTTI_EIO, "the launcher answers PMI's '%s' by '%.100s' (%s)",
                          command, line, expected);
    (void)tutti_pmi_value(line, "rc", code, sizeof(code));
    if (strcmp(code, "0") != 0)
        return tutti_fail(err, TUTTI_EIO, "the launcher refuses PMI's '%s': '%.200s'", command,
                          line);
    return 0;
}

/* All processes meet between the putting and the getting. */
static int exchange(int fd, const struct tutti_launch *launch, const char *space, char *word,
                    char line[LINE_BYTES], int64_t end_ms, struct tutti_err *err)
{
    char said[LINE_BYTES];
    int status = 0;

    if (launch->index == 0) {
        (void)snprintf(said, sizeof(said), "cmd=put kvsname=%.256s key=tutti value=%.511s\n", space,
                       word);
        status = talk(fd, said, "put", "put_result", line, end_ms, err);
    }
    if (status == 0)
        status = talk(fd, "cmd=barrier_in\n", "barrier_in", "barrier_out", line, end_ms, err);
    if (status < 0 || launch->index == 0)
        return status;
    (void)snprintf(said, sizeof(said), "cmd=get kvsname=%.256s key=tutti\n", space);
    status = talk(fd, said, "get", "get_result", line, end_ms, err);
    if (status == 0 && !tutti_pmi_value(line, "value", word, TUTTI_LAUNCH_SHARE_BYTES))
        status = tutti_fail(err, TUTTI_EIO, "the launcher answers PMI's 'get' by '%.100s' (value=)",
                            line);
    return status;
}

int tutti_launch_share_pmi(int fd, const struct tutti_launch *launch,
                           char word[TUTTI_LAUNCH_SHARE_BYTES], int64_t end_ms,
                           struct tutti_err *err)
{
    char line[LINE_BYTES];
    char space[257] = "";
    int status = talk(fd, "cmd=init pmi_version=1 pmi_subversion=1\n", "init", "response_to_init",
                      line, end_ms, err);

    if (status == 0)
        status =
            talk(fd, "cmd=get_my_kvsname\n", "get_my_kvsname", "my_kvsname", line, end_ms, err);
    if (status == 0 && !tutti_pmi_value(line, "kvsname", space, sizeof(space)))
        status =
            tutti_fail(err, TUTTI_EIO,
                       "the launcher answers PMI's 'get_my_kvsname' by '%.100s' (kvsname=)", line);
    if (status == 0)
        status = exchange(fd, launch, space, word, line, end_ms, err);
    /* Who has begun PMI must end it, or the launcher takes its end for a crash. */
    if (status == 0)
        status = talk(fd, "cmd=finalize\n", "finalize", "finalize_ack", line, end_ms, err);
    return status;
}
