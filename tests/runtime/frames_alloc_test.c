/* Frames, and what lies on them, while each allocation fails once: a clean error, and nothing stays
 * behind. */
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/cluster.h"
#include "runtime/cluster/closures.h"
#include "runtime/frames/connection.h"
#include "tests/alloc_fail.h"

static int listen_once(struct tutti_err *err)
{
    const struct tutti_frames_opts opts = {
        .size = sizeof(opts), .secret = "0123456789abcdef0123456789abcdef", .secret_bytes = 32};
    struct tutti_frames_listener *listener = NULL;
    int status = tutti_frames_listen(&opts, NULL, &listener, err);

    tutti_frames_listener_close(listener);
    return status;
}

TEST(a_listener)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(listen_once(&err), err);
}

/* Two frames each way; what cannot be received for lack of memory is an error, and no end. */
static int talk(struct tutti_frames *one, struct tutti_frames *other, struct tutti_err *err)
{
    static const uint8_t data[5000] = {1, 2, 3};
    const struct tutti_frames_part part = {data, sizeof(data)};
    int status = 0;

    for (uint32_t i = 0; i < 4 && status == 0; i++) {
        struct tutti_frames *from = i % 2 == 0 ? one : other;
        struct tutti_frames *to = i % 2 == 0 ? other : one;
        struct tutti_frames_got got;

        status = tutti_frames_send(from, i, &part, 1, err);
        if (status == 0)
            status = tutti_frames_receive(to, TUTTI_PS_PER_S, &got, err);
        if (status == -TUTTI_ENOMEM)
            CHECK(!tutti_frames_ended(to));
        if (status == 0)
            CHECK(got.type == i && got.bytes == sizeof(data) && got.data[2] == 3);
    }
    return status;
}

static int meet_once(struct tutti_err *err)
{
    const struct tutti_frames_opts opts = {.bytes_max = 8192, .deadline_ps = TUTTI_PS_PER_S};
    const struct tutti_wire_talk with = {.secret = "sesame", .secret_bytes = 6};
    struct tutti_frames *one;
    struct tutti_frames *other;
    int fds[2];
    int status;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
        return tutti_fail(err, TUTTI_EIO, "no sockets");
    one = tutti_frames_new(fds[0], &opts, &with, true);
    other = tutti_frames_new(fds[1], &opts, &with, false);
    status = one == NULL || other == NULL ? tutti_nomem(err) : talk(one, other, err);
    if (one == NULL)
        close(fds[0]);
    if (other == NULL)
        close(fds[1]);
    tutti_frames_close(one);
    tutti_frames_close(other);
    return status;
}

TEST(a_connection)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(meet_once(&err), err);
}

static int read_once(struct tutti_err *err)
{
    static const char text[] = "{\"worker\": [\"a:1\", \"b:1\"], \"ps\": [\"c:1\"], \"chief\": "
                               "[\"d:1\"], \"evaluator\": [\"e:1\"]}";
    struct tutti_cluster_task *tasks = NULL;
    uint32_t count = 0;
    int status = tutti_cluster_read(text, &tasks, &count, err);

    if (status == 0) {
        CHECK_INT(count, 5);
        CHECK_TEXT(tasks[0].address, "d:1"); /* the chief comes first */
        CHECK_TEXT(tasks[2].address, "b:1");
        CHECK_TEXT(tasks[4].type, "evaluator");
    }
    free(tasks);
    return status;
}

TEST(a_file_of_a_cluster)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(read_once(&err), err);
}

/* More than fit at first; those that are forgotten make room, under numbers of their own. */
static int queue_once(struct tutti_err *err)
{
    struct tutti_closures closures;
    uint64_t first = 0;
    int status = 0;

    tutti_closures_init(&closures);
    for (uint64_t i = 0; i < 70 && status == 0; i++) {
        struct tutti_closure *closure = tutti_closures_add(&closures, "f", &i, sizeof(i));
        bool ended = closure != NULL &&
                     tutti_closures_end(&closures, closure, TUTTI_CLOSURE_DONE, 0, "result", 6);

        if (i == 0 && closure != NULL)
            first = closure->number;
        if (i == 0 && ended)
            tutti_closures_forget(&closures, closure);
        status = ended ? 0 : tutti_nomem(err);
    }
    CHECK(status < 0 || closures.open_count == 0);
    CHECK(status < 0 || tutti_closures_find(&closures, first) == NULL);
    tutti_closures_done(&closures);
    return status;
}

TEST(closures)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(queue_once(&err), err);
}
