/* A worker: waits for a driver, and stands between it and the child in which functions run, so that
 * it notices the end of either; see cluster.h. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cluster.h"
#include "runtime/cluster/protocol.h"
#include "runtime/cluster/session.h"
#include "runtime/frames.h"
#include "runtime/status.h"

enum { NAME_BYTES = 128, SERVE_MS = 1000 };

/* What one of the child's outputs has printed since the last end of a line. */
struct line {
    char text[TUTTI_CLUSTER_LINE_BYTES + 1];
    size_t bytes;
};

struct tutti_cluster_worker {
    struct tutti_cluster_worker_opts opts; /* bytes_max: of a frame */
    char name[NAME_BYTES];
    struct tutti_frames_listener *listener;
    struct tutti_frames *driver; /* NULL: idle */
    struct tutti_cluster_session session;
    bool calls; /* a function runs */
    struct line lines[2];
};

static void say(const struct tutti_cluster_worker *w, const char *who, const char *what)
{
    struct tutti_err line; /* without control characters */

    if (w->opts.log == NULL)
        return;
    (void)tutti_fail(&line, TUTTI_EIO, "%s %s", who, what);
    w->opts.log(w->opts.log_data, line.text);
}

static void pass_log(void *data, const char *line)
{
    const struct tutti_cluster_worker *w = data;

    if (w->opts.log != NULL)
        w->opts.log(w->opts.log_data, line);
}

int tutti_cluster_worker_open(const struct tutti_cluster_worker_opts *opts,
                              struct tutti_cluster_worker **ret, struct tutti_err *err)
{
    struct tutti_cluster_worker *w = calloc(1, sizeof(*w));
    struct tutti_frames_opts frames = {.size = sizeof(frames), .log = pass_log, .log_data = w};
    int status = w == NULL
                     ? tutti_nomem(err)
                     : tutti_take("tutti_cluster_worker_opts", &w->opts, sizeof(w->opts), opts,
                                  TUTTI_BYTES_TO(struct tutti_cluster_worker_opts, log_data), err);

    if (status == 0) {
        w->opts.bytes_max = TUTTI_CLUSTER_HEAD_BYTES +
                            (w->opts.bytes_max > 0 ? w->opts.bytes_max : TUTTI_CLUSTER_BYTES_MAX);
        (void)snprintf(w->name, sizeof(w->name), "%s",
                       w->opts.name != NULL ? w->opts.name : "worker");
        frames.secret = w->opts.secret;
        frames.secret_bytes = w->opts.secret_bytes;
        frames.bytes_max = w->opts.bytes_max;
        status = tutti_frames_listen(&frames, w->opts.address, &w->listener, err);
    }
    if (status < 0) {
        free(w);
        return status;
    }
    *ret = w;
    return 0;
}

const char *tutti_cluster_worker_address(const struct tutti_cluster_worker *worker)
{
    return tutti_frames_listener_address(worker->listener);
}

void tutti_cluster_worker_close(struct tutti_cluster_worker *worker)
{
    if (worker == NULL)
        return;
    tutti_frames_listener_close(worker->listener);
    free(worker);
}

/* ---- to the driver --------------------------------------------------------------------------- */

static int send_text(struct tutti_frames *to, enum tutti_cluster_frame type, const char *text)
{
    uint8_t room[TUTTI_CLUSTER_LINE_BYTES + 16];
    struct tutti_frames_writer writer = {.data = room, .room = sizeof(room)};

    tutti_frames_put_text(&writer, text);
    return tutti_frames_send(to, type, (const struct tutti_frames_part[]){{room, writer.bytes}}, 1,
                             NULL);
}

/* What is in the line, which a zero among it would end. */
static int send_line(struct tutti_cluster_worker *w, int which)
{
    struct line *line = &w->lines[which];

    for (size_t i = 0; i < line->bytes; i++)
        if (line->text[i] == '\0')
            line->text[i] = '?';
    line->text[line->bytes] = '\0';
    line->bytes = 0;
    return send_text(w->driver, which == 0 ? TUTTI_CLUSTER_OUT : TUTTI_CLUSTER_NOTE, line->text);
}

static int add_to_line(struct tutti_cluster_worker *w, int which, const char *text, size_t bytes)
{
    struct line *line = &w->lines[which];
    int status = 0;

    for (size_t i = 0; i < bytes && status == 0; i++) {
        bool ends = text[i] == '\n';

        if (!ends)
            line->text[line->bytes++] = text[i];
        if (ends || line->bytes == TUTTI_CLUSTER_LINE_BYTES)
            status = send_line(w, which);
    }
    return status;
}

/* What the child has printed, as far as it is there; to the end of the pipe at most. */
static int pass_output(struct tutti_cluster_worker *w, int which)
{
    int *fd = &w->session.outputs[which];
    int status = 0;

    while (*fd >= 0 && status == 0) {
        char text[TUTTI_CLUSTER_LINE_BYTES];
        ssize_t got = read(*fd, text, sizeof(text));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return 0;
        if (got > 0) {
            status = add_to_line(w, which, text, (size_t)got);
            continue;
        }
        close(*fd);
        *fd = -1;
    }
    return status;
}

/* All of it, also a line without an end: before a result. */
static int pass_outputs(struct tutti_cluster_worker *w)
{
    int status = 0;

    for (int which = 0; which < 2 && status == 0; which++) {
        status = pass_output(w, which);
        if (status == 0 && w->lines[which].bytes > 0)
            status = send_line(w, which);
    }
    return status;
}

/* ---- between driver and child ---------------------------------------------------------------- */

/* A frame of the driver: a call, one at a time. False: it is over. */
static bool take_call(struct tutti_cluster_worker *w)
{
    struct tutti_frames_got got;
    struct tutti_err err = {""};
    struct tutti_frames_part all;

    if (tutti_frames_receive(w->driver, 0, &got, &err) < 0) {
        say(w, "ends:", err.text);
        return false;
    }
    if (got.type == TUTTI_CLUSTER_STOP) {
        (void)kill(w->session.id, SIGTERM);
        return true;
    }
    if (got.type != TUTTI_CLUSTER_CALL || w->calls) {
        say(w, tutti_frames_name(w->driver), "sends what is no call, or calls before an answer");
        return false;
    }
    all = (struct tutti_frames_part){got.data, (size_t)got.bytes};
    w->calls = true;
    return tutti_frames_send(w->session.frames, got.type, &all, 1, NULL) == 0;
}

/* An answer of the child. False: it is over. */
static bool take_answer(struct tutti_cluster_worker *w)
{
    struct tutti_frames_got got;
    struct tutti_frames_part all;

    if (tutti_frames_receive(w->session.frames, 0, &got, NULL) < 0)
        return false;
    all = (struct tutti_frames_part){got.data, (size_t)got.bytes};
    w->calls = false;
    return pass_outputs(w) == 0 && tutti_frames_send(w->driver, got.type, &all, 1, NULL) == 0;
}

/* One who comes while there is a driver is told so. */
static void turn_away(struct tutti_cluster_worker *w)
{
    struct tutti_frames *other = NULL;
    char text[512];

    if (tutti_frames_accept(w->listener, 0, &other, NULL) < 0 || other == NULL)
        return;
    (void)snprintf(text, sizeof(text), "serves another %s", tutti_frames_name(w->driver));
    (void)send_text(other, TUTTI_CLUSTER_BUSY, text);
    tutti_frames_close(other);
}

/* Until one of the two ends. */
static void relay(struct tutti_cluster_worker *w)
{
    bool goes_on = true;

    while (goes_on) {
        struct pollfd polled[5] = {
            {.fd = tutti_frames_fd(w->driver), .events = POLLIN},
            {.fd = tutti_frames_fd(w->session.frames), .events = POLLIN},
            {.fd = w->session.outputs[0], .events = POLLIN},
            {.fd = w->session.outputs[1], .events = POLLIN},
            {.fd = tutti_frames_listener_fd(w->listener), .events = POLLIN},
        };
        bool driver = tutti_frames_ready(w->driver);
        bool child = tutti_frames_ready(w->session.frames);

        if (!driver && !child)
            (void)poll(polled, 5, SERVE_MS);
        for (int which = 0; which < 2 && goes_on; which++)
            if (polled[2 + which].revents != 0)
                goes_on = pass_output(w, which) == 0;
        if (goes_on && tutti_frames_ready(w->driver))
            goes_on = take_call(w);
        if (goes_on && tutti_frames_ready(w->session.frames))
            goes_on = take_answer(w);
        /* One who has come after the driver's end is the next. */
        if (goes_on && polled[4].revents != 0 && !tutti_frames_ready(w->driver))
            turn_away(w);
    }
}

static void close_others(void *data)
{
    struct tutti_cluster_worker *w = data;

    tutti_frames_close(w->driver);
    tutti_frames_listener_close(w->listener);
}

/* From the driver's coming to its end. That nothing can be started now is told, and the next driver
 * may find it otherwise. */
static void serve_driver(struct tutti_cluster_worker *w)
{
    struct tutti_err err = {""};
    char how[128];

    tutti_frames_set_name(w->driver, "driver");
    if (tutti_cluster_session_start(&w->opts, close_others, w, &w->session, &err) < 0) {
        say(w, "cannot serve:", err.text);
        (void)send_text(w->driver, TUTTI_CLUSTER_BUSY, err.text);
        return;
    }
    say(w, "serves", tutti_frames_name(w->driver));
    w->calls = false;
    w->lines[0].bytes = w->lines[1].bytes = 0;
    if (send_text(w->driver, TUTTI_CLUSTER_READY, w->name) == 0)
        relay(w);
    if (!tutti_frames_ended(w->driver))
        (void)pass_outputs(w);
    tutti_cluster_session_end(&w->session, how, sizeof(how));
    if (how[0] != '\0' && !tutti_frames_ended(w->driver)) {
        say(w, "the function's process", how);
        (void)send_text(w->driver, TUTTI_CLUSTER_GONE, how);
    }
    say(w, "waits", "for a driver");
}

int tutti_cluster_worker_serve(struct tutti_cluster_worker *worker, tutti_ps wait_ps,
                               bool *ret_served, struct tutti_err *err)
{
    int status = tutti_frames_accept(worker->listener, wait_ps, &worker->driver, err);

    *ret_served = status == 0 && worker->driver != NULL;
    if (!*ret_served)
        return status;
    serve_driver(worker);
    tutti_frames_close(worker->driver);
    worker->driver = NULL;
    return status;
}
