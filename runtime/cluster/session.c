/* The child: gets calls, runs functions, gives results; see session.h. */
#include "runtime/cluster/session.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/cluster/protocol.h"
#include "runtime/frames/connection.h"

struct tutti_cluster_reply {
    uint8_t *data;
    uint64_t bytes;
    uint64_t room;
    uint64_t bytes_max;
};

int tutti_cluster_reply(struct tutti_cluster_reply *reply, const void *data, uint64_t bytes,
                        struct tutti_err *err)
{
    if (bytes > reply->bytes_max - reply->bytes)
        return tutti_fail(err, TUTTI_EINVAL, "a result of more than %llu bytes",
                          (unsigned long long)reply->bytes_max);
    if (reply->bytes + bytes > reply->room) {
        uint64_t room = 2 * (reply->bytes + bytes);
        uint8_t *grown = realloc(reply->data, (size_t)room);

        if (grown == NULL)
            return tutti_nomem(err);
        reply->data = grown;
        reply->room = room;
    }
    if (bytes > 0)
        memcpy(reply->data + reply->bytes, data, (size_t)bytes);
    reply->bytes += bytes;
    return 0;
}

/* ---- in the child ---------------------------------------------------------------------------- */

static const struct tutti_cluster_function *find(const struct tutti_cluster_worker_opts *opts,
                                                 const char *name)
{
    for (size_t i = 0; i < opts->function_count; i++)
        if (strcmp(opts->functions[i].name, name) == 0)
            return &opts->functions[i];
    return NULL;
}

static int run(const struct tutti_cluster_worker_opts *opts, struct tutti_frames_reader *call,
               struct tutti_cluster_reply *reply, struct tutti_err *err)
{
    const char *name = tutti_frames_get_text(call);
    const struct tutti_cluster_function *function = find(opts, name);

    if (call->bad)
        return tutti_fail(err, TUTTI_EINVAL, "a call without a function's name");
    if (function == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "this worker has no function '%.100s'", name);
    return function->run(function->context, call->data + call->at, call->bytes - call->at, reply,
                         err);
}

/* One call, and its answer. What the function has printed is in the pipes before that. */
static int answer(const struct tutti_cluster_worker_opts *opts, struct tutti_frames *frames,
                  const struct tutti_frames_got *got)
{
    struct tutti_cluster_reply reply = {.bytes_max = opts->bytes_max - TUTTI_CLUSTER_HEAD_BYTES};
    struct tutti_frames_reader call = {.data = got->data, .bytes = (size_t)got->bytes};
    uint8_t head[TUTTI_CLUSTER_HEAD_BYTES];
    struct tutti_frames_writer writer = {.data = head, .room = sizeof(head)};
    struct tutti_err err = {""};
    int status;

    tutti_frames_put_u64(&writer, tutti_frames_get_u64(&call));
    status = run(opts, &call, &reply, &err);
    (void)fflush(NULL);
    if (status < 0) {
        tutti_frames_put_u32(&writer, (uint32_t)-status);
        tutti_frames_put_text(&writer, err.text);
    }
    assert(!writer.full);
    status = tutti_frames_send(
        frames, status < 0 ? TUTTI_CLUSTER_FAILED : TUTTI_CLUSTER_DONE,
        (const struct tutti_frames_part[]){{head, writer.bytes},
                                           {reply.data, status < 0 ? 0 : (size_t)reply.bytes}},
        2, NULL);
    free(reply.data);
    return status;
}

static void serve(const struct tutti_cluster_worker_opts *opts, struct tutti_frames *frames)
{
    for (;;) {
        struct tutti_frames_got got;
        int status = tutti_frames_receive(frames, TUTTI_PS_PER_S, &got, NULL);

        if (status == -TUTTI_ETIME)
            continue;
        if (status < 0 || answer(opts, frames, &got) < 0)
            return;
    }
}

/* It dies with the worker; it has a process group of its own, by which all it starts is killed. */
static void become_child(pid_t parent, const int words[2])
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    sigset_t none;

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    if (nothing >= 0)
        (void)dup2(nothing, STDIN_FILENO);
    (void)dup2(words[0], STDOUT_FILENO);
    (void)dup2(words[1], STDERR_FILENO);
}

/* ---- in the worker --------------------------------------------------------------------------- */

struct ends {
    int talk[2]; /* [0] the worker's */
    int out[2];  /* [0] to read from */
    int notes[2];
};

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static int open_ends(struct ends *ret, struct tutti_err *err)
{
    *ret = (struct ends){{-1, -1}, {-1, -1}, {-1, -1}};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret->talk) == 0 &&
        pipe2(ret->out, O_CLOEXEC) == 0 && pipe2(ret->notes, O_CLOEXEC) == 0)
        return 0;
    (void)tutti_fail(err, TUTTI_EIO, "cannot make a pipe: %s", strerror(errno));
    close_all(ret->talk, 2);
    close_all(ret->out, 2);
    close_all(ret->notes, 2);
    return -TUTTI_EIO;
}

/* Its end of the talk between worker and child: of one host, so without a secret. The worker asks
 * for no more than a call, and answers are within the same bound. */
static struct tutti_frames *frames_of(int fd, const struct tutti_cluster_worker_opts *opts,
                                      bool worker)
{
    const struct tutti_frames_opts of = {.bytes_max = opts->bytes_max,
                                         .deadline_ps = 30 * TUTTI_PS_PER_S};
    const struct tutti_wire_talk none = {.secret = NULL};

    return tutti_frames_new(fd, &of, &none, worker);
}

static void run_child(const struct tutti_cluster_worker_opts *opts, pid_t parent, struct ends *ends)
{
    const int words[2] = {ends->out[1], ends->notes[1]};
    struct tutti_frames *frames = frames_of(ends->talk[1], opts, false);

    become_child(parent, words);
    close(ends->talk[0]);
    close_all(ends->out, 2);
    close_all(ends->notes, 2);
    if (frames != NULL)
        serve(opts, frames);
    _exit(0);
}

int tutti_cluster_session_start(const struct tutti_cluster_worker_opts *opts,
                                void (*close_others)(void *data), void *data,
                                struct tutti_cluster_session *ret, struct tutti_err *err)
{
    struct tutti_cluster_session session = {.id = -1};
    struct ends ends;
    pid_t parent = getpid();
    int status = open_ends(&ends, err);

    if (status < 0)
        return status;
    session.frames = frames_of(ends.talk[0], opts, true);
    (void)fflush(NULL);
    if (session.frames != NULL)
        session.id = fork();
    if (session.id == 0) {
        close_others(data);
        run_child(opts, parent, &ends);
    }
    close(ends.talk[1]);
    close(ends.out[1]);
    close(ends.notes[1]);
    if (session.id < 0) {
        status = session.frames == NULL
                     ? tutti_nomem(err)
                     : tutti_fail(err, TUTTI_EIO, "cannot start a process: %s", strerror(errno));
        if (session.frames == NULL)
            close(ends.talk[0]);
        tutti_frames_close(session.frames);
        close(ends.out[0]);
        close(ends.notes[0]);
        return status;
    }
    (void)setpgid(session.id, session.id); /* here as well: whoever comes first */
    session.outputs[0] = ends.out[0];
    session.outputs[1] = ends.notes[0];
    (void)fcntl(session.outputs[0], F_SETFL, O_NONBLOCK);
    (void)fcntl(session.outputs[1], F_SETFL, O_NONBLOCK);
    *ret = session;
    return 0;
}

/* Whether it has, without asking for its fate: until that, no other process can have its number,
 * nor any group. */
static bool has_ended(pid_t id)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)id, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == id;
}

void tutti_cluster_session_end(struct tutti_cluster_session *session, char *ret_how, size_t size)
{
    int code = 0;
    /* The end of its connection comes a moment before its own. */
    bool ended = has_ended(session->id);

    for (int i = 0; i < 20 && !ended && tutti_frames_ended(session->frames); i++) {
        (void)poll(NULL, 0, 5);
        ended = has_ended(session->id);
    }
    (void)kill(-session->id, SIGKILL);
    if (!ended)
        (void)kill(session->id, SIGKILL);
    while (waitpid(session->id, &code, 0) < 0 && errno == EINTR)
        continue;
    ret_how[0] = '\0';
    if (ended && WIFSIGNALED(code))
        (void)snprintf(ret_how, size, "was ended by signal %d (%s)", WTERMSIG(code),
                       strsignal(WTERMSIG(code)));
    else if (ended)
        (void)snprintf(ret_how, size, "ended with exit code %d", WEXITSTATUS(code));
    tutti_frames_close(session->frames);
    close_all(session->outputs, 2);
    session->id = -1;
}
