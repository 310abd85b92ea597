/* Process 0 hands a word to the other processes of its host, through a socket with no place in the
 * file system: what a process that was killed leaves behind is nothing. */
#include "runtime/launch/share.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "runtime/launch/source.h"
#include "runtime/status.h"

enum { PAUSE_FOR_MS = 10, ASK_MS_MAX = 1000, MISSING_MAX = 8 };

int64_t tutti_launch_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int tutti_launch_left_ms(int64_t end_ms)
{
    int64_t left = end_ms - tutti_launch_now_ms();

    return left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

/* "\0tutti-share-UID-HASH": in the abstract namespace. The name of a job may be long. */
static socklen_t name_of(const struct tutti_launch *launch, struct sockaddr_un *ret)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    int length;

    for (const char *p = launch->job; *p != '\0'; p++)
        hash = (hash ^ (unsigned char)*p) * 1099511628211u;
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    length = snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "tutti-share-%u-%016llx",
                      (unsigned)getuid(), (unsigned long long)hash);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static bool is_ours(int fd)
{
    struct ucred peer;
    socklen_t bytes = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == getuid();
}

static bool wait_for(int fd, short events, int64_t end_ms)
{
    struct pollfd poll_fd = {.fd = fd, .events = events};

    return poll(&poll_fd, 1, tutti_launch_left_ms(end_ms)) > 0;
}

/* All of it, or false. */
static bool receive(int fd, void *bytes, size_t count, int64_t end_ms)
{
    char *at = bytes;

    while (count > 0) {
        ssize_t got = wait_for(fd, POLLIN, end_ms) ? recv(fd, at, count, MSG_DONTWAIT) : 0;

        if (got < 0 && errno == EAGAIN)
            continue;
        if (got <= 0)
            return false;
        at += got;
        count -= (size_t)got;
    }
    return true;
}

/* What is as short as this goes into the socket at once, or not at all. */
static bool hand_over(int fd, const void *bytes, size_t count)
{
    return send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)count;
}

/* ---- process 0 ------------------------------------------------------------------------------- */

/* Somebody who is slow to say who he is does not keep the others. */
static void answer(int fd, const struct tutti_launch *launch,
                   const char word[TUTTI_LAUNCH_SHARE_BYTES], bool *came, uint32_t *count,
                   int64_t end_ms)
{
    int64_t ask_ms = tutti_launch_now_ms() + ASK_MS_MAX;
    uint32_t index = 0;

    if (!is_ours(fd) || !receive(fd, &index, sizeof(index), ask_ms < end_ms ? ask_ms : end_ms) ||
        index == 0 || index >= launch->count || came[index])
        return;
    if (!hand_over(fd, word, TUTTI_LAUNCH_SHARE_BYTES))
        return;
    came[index] = true;
    ++*count;
}

static int refuse_late(const struct tutti_launch *launch, const bool *came, struct tutti_err *err)
{
    char names[128] = "";
    size_t used = 0;
    uint32_t missing = 0;

    for (uint32_t i = 1; i < launch->count; i++) {
        if (came[i])
            continue;
        if (missing++ < MISSING_MAX)
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%u",
                                     used > 0 ? ", " : "", i);
    }
    return tutti_fail(
        err, TUTTI_ETIME,
        "process %s%s of %u %s not come before the deadline to ask where process 0 is "
        "(started by %s)",
        names, missing > MISSING_MAX ? ", ..." : "", launch->count, missing == 1 ? "has" : "have",
        launch->by);
}

static int serve(int fd, const struct tutti_launch *launch,
                 const char word[TUTTI_LAUNCH_SHARE_BYTES], int64_t end_ms, struct tutti_err *err)
{
    bool *came = calloc(launch->count, sizeof(came[0]));
    uint32_t count = 1;
    int status = 0;

    if (came == NULL)
        return tutti_nomem(err);
    while (status == 0 && count < launch->count) {
        int peer = wait_for(fd, POLLIN, end_ms) ? accept4(fd, NULL, NULL, SOCK_CLOEXEC) : -1;

        if (peer >= 0) {
            answer(peer, launch, word, came, &count, end_ms);
            close(peer);
        } else if (tutti_launch_left_ms(end_ms) == 0) {
            status = refuse_late(launch, came, err);
        }
    }
    free(came);
    return status;
}

/* The name may still be that of the run before, which is about to end. */
static int serve_all(int fd, const struct tutti_launch *launch,
                     const char word[TUTTI_LAUNCH_SHARE_BYTES], int64_t end_ms,
                     struct tutti_err *err)
{
    struct sockaddr_un name;
    socklen_t name_bytes = name_of(launch, &name);

    while (bind(fd, (struct sockaddr *)&name, name_bytes) != 0) {
        if (errno != EADDRINUSE || tutti_launch_left_ms(end_ms) == 0)
            return tutti_fail(err, TUTTI_EIO, "cannot take the socket '@%s': %s", name.sun_path + 1,
                              strerror(errno));
        (void)poll(NULL, 0, PAUSE_FOR_MS);
    }
    if (listen(fd, 128) != 0)
        return tutti_fail(err, TUTTI_EIO, "cannot listen to the socket '@%s': %s",
                          name.sun_path + 1, strerror(errno));
    return serve(fd, launch, word, end_ms, err);
}

/* ---- the others ------------------------------------------------------------------------------ */

/* 1: has it; 0: not there yet, try again. */
static int ask_once(const struct tutti_launch *launch, char word[TUTTI_LAUNCH_SHARE_BYTES],
                    int64_t end_ms, struct tutti_err *err)
{
    struct sockaddr_un name;
    socklen_t name_bytes = name_of(launch, &name);
    char heard[TUTTI_LAUNCH_SHARE_BYTES];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int had = 0;

    if (fd < 0)
        return tutti_fail(err, TUTTI_EIO, "cannot make a socket: %s", strerror(errno));
    if (connect(fd, (struct sockaddr *)&name, name_bytes) == 0 && is_ours(fd) &&
        hand_over(fd, &launch->index, sizeof(launch->index)) &&
        receive(fd, heard, sizeof(heard), end_ms)) {
        heard[sizeof(heard) - 1] = '\0';
        memcpy(word, heard, sizeof(heard));
        had = 1;
    }
    close(fd);
    return had;
}

static int ask(const struct tutti_launch *launch, char word[TUTTI_LAUNCH_SHARE_BYTES],
               int64_t end_ms, struct tutti_err *err)
{
    int had = ask_once(launch, word, end_ms, err);

    while (had == 0 && tutti_launch_left_ms(end_ms) > 0) {
        (void)poll(NULL, 0, PAUSE_FOR_MS);
        had = ask_once(launch, word, end_ms, err);
    }
    if (had == 0)
        return tutti_fail(err, TUTTI_ETIME,
                          "process 0 of %u has not come before the deadline (started by %s)",
                          launch->count, launch->by);
    return had < 0 ? had : 0;
}

/* ---- both ------------------------------------------------------------------------------------ */

int tutti_launch_share_here(const struct tutti_launch *launch, char word[TUTTI_LAUNCH_SHARE_BYTES],
                            int64_t end_ms, struct tutti_err *err)
{
    int fd;
    int status;

    if (launch->index > 0)
        return ask(launch, word, end_ms, err);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return tutti_fail(err, TUTTI_EIO, "cannot make a socket: %s", strerror(errno));
    status = serve_all(fd, launch, word, end_ms, err);
    close(fd);
    return status;
}

static bool is_on_one_host(const struct tutti_launch *launch)
{
    return launch->job[0] != '\0' &&
           (launch->local_count == launch->count || launch->host_count == 1);
}

bool tutti_launch_can_share(const struct tutti_launch *launch)
{
    return launch->count == 1 || launch->has_pmi || is_on_one_host(launch);
}

int tutti_launch_share(const struct tutti_env *env, const struct tutti_launch *launch,
                       char word[TUTTI_LAUNCH_SHARE_BYTES], tutti_ps deadline_ps,
                       struct tutti_err *err)
{
    int64_t end_ms = tutti_launch_now_ms() + deadline_ps / TUTTI_PS_PER_MS;
    uint32_t fd = 0;

    if (launch->count == 1)
        return 0;
    if (is_on_one_host(launch))
        return tutti_launch_share_here(launch, word, end_ms, err);
    if (launch->has_pmi && tutti_env_count(env, "PMI_FD", &fd, NULL, err) < 0)
        return -TUTTI_EINVAL;
    if (launch->has_pmi)
        return tutti_launch_share_pmi((int)fd, launch, word, end_ms, err);
    return tutti_fail(err, TUTTI_EINVAL, "%s does not say where process 0 is", launch->by);
}
