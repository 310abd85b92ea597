/* One worker, seen by its driver; see cluster.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cluster.h"
#include "runtime/cluster/protocol.h"
#include "runtime/frames/connection.h"
#include "runtime/status.h"

static const tutti_ps DEADLINE_PS = 30 * TUTTI_PS_PER_S;

struct tutti_cluster_link {
    struct tutti_frames *frames;
    bool ended;
    struct tutti_err why;
};

/* The first frame: whether it is this driver's. */
static int hear_ready(struct tutti_frames *frames, tutti_ps deadline_ps, struct tutti_err *err)
{
    struct tutti_frames_got got;
    struct tutti_frames_reader reader;
    const char *text;
    int status = tutti_frames_receive(frames, deadline_ps, &got, err);

    if (status < 0)
        return status == -TUTTI_ETIME ? -TUTTI_EIO : status;
    reader = (struct tutti_frames_reader){.data = got.data, .bytes = (size_t)got.bytes};
    text = tutti_frames_get_text(&reader);
    if (got.type == TUTTI_CLUSTER_BUSY && !reader.bad)
        return tutti_fail(err, TUTTI_EIO, "%s %s", tutti_frames_name(frames), text);
    if (got.type != TUTTI_CLUSTER_READY || reader.bad)
        return tutti_fail(err, TUTTI_EIO, "%s is no standing worker", tutti_frames_name(frames));
    return 0;
}

int tutti_cluster_link_open(const struct tutti_cluster_link_opts *opts, const char *address,
                            const char *what, struct tutti_cluster_link **ret,
                            struct tutti_err *err)
{
    struct tutti_cluster_link_opts own;
    struct tutti_frames_opts frames = {.size = sizeof(frames)};
    struct tutti_cluster_link *link;
    int (*connect)(const struct tutti_frames_opts *, const char *, tutti_ps, const char *,
                   struct tutti_frames **, struct tutti_err *);
    int status = tutti_take("tutti_cluster_link_opts", &own, sizeof(own), opts,
                            TUTTI_BYTES_TO(struct tutti_cluster_link_opts, deadline_ps), err);

    if (status < 0)
        return status;
    link = calloc(1, sizeof(*link));
    if (link == NULL)
        return tutti_nomem(err);
    if (own.deadline_ps <= 0)
        own.deadline_ps = DEADLINE_PS;
    frames.secret = own.secret;
    frames.secret_bytes = own.secret_bytes;
    frames.bytes_max =
        TUTTI_CLUSTER_HEAD_BYTES + (own.bytes_max > 0 ? own.bytes_max : TUTTI_CLUSTER_BYTES_MAX);
    frames.deadline_ps = own.deadline_ps;
    connect = own.once ? tutti_frames_connect_once : tutti_frames_connect;
    status = connect(&frames, address, own.connect_ps > 0 ? own.connect_ps : own.deadline_ps, what,
                     &link->frames, err);
    if (status == 0)
        status = hear_ready(link->frames, own.deadline_ps, err);
    if (status < 0) {
        tutti_cluster_link_close(link);
        return status;
    }
    *ret = link;
    return 0;
}

const char *tutti_cluster_link_name(const struct tutti_cluster_link *link)
{
    return tutti_frames_name(link->frames);
}

int tutti_cluster_link_call(struct tutti_cluster_link *link, uint64_t number, const char *function,
                            const void *input, uint64_t bytes, struct tutti_err *err)
{
    uint8_t head[TUTTI_CLUSTER_FUNCTION_BYTES_MAX + 16];
    struct tutti_frames_writer writer = {.data = head, .room = sizeof(head)};

    tutti_frames_put_u64(&writer, number);
    tutti_frames_put_text(&writer, function);
    if (writer.full)
        return tutti_fail(err, TUTTI_EINVAL, "a function's name of more than %d bytes",
                          TUTTI_CLUSTER_FUNCTION_BYTES_MAX);
    return tutti_frames_send(
        link->frames, TUTTI_CLUSTER_CALL,
        (const struct tutti_frames_part[]){{head, writer.bytes}, {input, (size_t)bytes}}, 2, err);
}

int tutti_cluster_link_stop(struct tutti_cluster_link *link, struct tutti_err *err)
{
    return tutti_frames_send(link->frames, TUTTI_CLUSTER_STOP, NULL, 0, err);
}

/* ---- what comes ------------------------------------------------------------------------------ */

/* From here on it says the same at each call. */
static void end(struct tutti_cluster_link *link, struct tutti_cluster_link_event *ret)
{
    link->ended = true;
    *ret = (struct tutti_cluster_link_event){
        .kind = TUTTI_CLUSTER_LINK_END, .data = link->why.text, .bytes = strlen(link->why.text)};
}

static void set_text(struct tutti_frames_reader *reader, struct tutti_cluster_link_event *ret)
{
    ret->data = tutti_frames_get_text(reader);
    ret->bytes = strlen(ret->data);
}

/* What a frame says. False: it is none of a worker's. */
static bool read_frame(struct tutti_cluster_link *link, const struct tutti_frames_got *got,
                       struct tutti_cluster_link_event *ret)
{
    struct tutti_frames_reader reader = {.data = got->data, .bytes = (size_t)got->bytes};
    uint32_t status;

    switch (got->type) {
    case TUTTI_CLUSTER_OUT:
    case TUTTI_CLUSTER_NOTE:
        ret->kind =
            got->type == TUTTI_CLUSTER_OUT ? TUTTI_CLUSTER_LINK_OUT : TUTTI_CLUSTER_LINK_NOTE;
        set_text(&reader, ret);
        return tutti_frames_get_all(&reader);
    case TUTTI_CLUSTER_DONE:
        ret->kind = TUTTI_CLUSTER_LINK_DONE;
        ret->number = tutti_frames_get_u64(&reader);
        ret->data = (const char *)got->data + reader.at;
        ret->bytes = got->bytes - reader.at;
        return !reader.bad;
    case TUTTI_CLUSTER_FAILED:
        ret->kind = TUTTI_CLUSTER_LINK_FAILED;
        ret->number = tutti_frames_get_u64(&reader);
        status = tutti_frames_get_u32(&reader);
        ret->status = status <= TUTTI_ECHECK ? -(int)status : 0;
        set_text(&reader, ret);
        return tutti_frames_get_all(&reader) && ret->status < 0;
    case TUTTI_CLUSTER_GONE:
        (void)tutti_fail(&link->why, TUTTI_EIO, "%s: the process in which it ran %s",
                         tutti_frames_name(link->frames), tutti_frames_get_text(&reader));
        end(link, ret);
        return !reader.bad;
    default:
        return false;
    }
}

int tutti_cluster_link_next(struct tutti_cluster_link *link, tutti_ps timeout_ps,
                            struct tutti_cluster_link_event *ret, struct tutti_err *err)
{
    struct tutti_frames_got got;
    int status;

    *ret = (struct tutti_cluster_link_event){.kind = TUTTI_CLUSTER_LINK_NOTHING};
    if (link->ended) {
        end(link, ret);
        return 0;
    }
    status = tutti_frames_receive(link->frames, timeout_ps, &got, &link->why);
    if (status == -TUTTI_ETIME)
        return 0;
    if (status == -TUTTI_ENOMEM)
        return tutti_nomem(err);
    if (status < 0) {
        end(link, ret);
    } else if (!read_frame(link, &got, ret)) {
        (void)tutti_fail(&link->why, TUTTI_EIO, "%s sent what no worker says",
                         tutti_frames_name(link->frames));
        end(link, ret);
    }
    return 0;
}

bool tutti_cluster_link_ready(struct tutti_cluster_link *link)
{
    return link->ended || tutti_frames_ready(link->frames);
}

int tutti_cluster_link_fd(const struct tutti_cluster_link *link)
{
    return tutti_frames_fd(link->frames);
}

void tutti_cluster_link_close(struct tutti_cluster_link *link)
{
    if (link == NULL)
        return;
    tutti_frames_close(link->frames);
    free(link);
}
