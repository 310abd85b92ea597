/* Workers that are slow, out of files or against the rules, and one that comes back to a driver
 * whose caller has forgotten the secret. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cluster.h"
#include "runtime/cluster/protocol.h"
#include "runtime/frames/connection.h"
#include "runtime/status.h"
#include "tests/test.h"

static const char secret[] = "0123456789abcdef0123456789abcdef";
static const tutti_ps SOON_PS = 8 * TUTTI_PS_PER_S;

static void pause_ms(int ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    (void)nanosleep(&time, NULL);
}

/* ---- workers --------------------------------------------------------------------------------- */

struct stage {
    char address[TUTTI_CLUSTER_ADDRESS_BYTES]; /* "127.0.0.1:0" at first, then its own */
    pid_t id;
};

static void end_stage(struct stage *stage)
{
    (void)kill(stage->id, SIGKILL);
    (void)waitpid(stage->id, NULL, 0);
}

static int echo(void *context, const void *input, uint64_t bytes, struct tutti_cluster_reply *reply,
                struct tutti_err *err)
{
    (void)context;
    return tutti_cluster_reply(reply, input, bytes, err);
}

/* Of what a process may open so many are left. */
static void leave_files(int count)
{
    struct rlimit limit;
    int next = dup(STDIN_FILENO);

    close(next);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)(next + count);
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* A real worker, with the secret; files >= 0: that it may open so many beside what it has. */
static void start_worker(struct stage *stage, int files)
{
    static const struct tutti_cluster_function functions[] = {{"echo", echo, NULL}};
    const struct tutti_cluster_worker_opts opts = {.size = sizeof(opts),
                                                   .address = stage->address,
                                                   .secret = secret,
                                                   .secret_bytes = strlen(secret),
                                                   .functions = functions,
                                                   .function_count = 1};
    struct tutti_cluster_worker *worker = NULL;
    struct tutti_err err = {""};
    bool served;

    CHECK_OK(tutti_cluster_worker_open(&opts, &worker, &err), err);
    REQUIRE(worker != NULL);
    snprintf(stage->address, sizeof(stage->address), "%s", tutti_cluster_worker_address(worker));
    fflush(stdout);
    stage->id = fork();
    if (stage->id == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (files >= 0)
            leave_files(files);
        while (tutti_cluster_worker_serve(worker, SOON_PS, &served, &err) == 0)
            continue;
        _exit(1);
    }
    tutti_cluster_worker_close(worker);
}

static void say_text(struct tutti_frames *frames, uint32_t type, uint32_t status, const char *text)
{
    uint8_t room[64];
    struct tutti_frames_writer writer = {.data = room, .room = sizeof(room)};

    if (type == TUTTI_CLUSTER_FAILED) {
        tutti_frames_put_u64(&writer, 1);
        tutti_frames_put_u32(&writer, status);
    }
    tutti_frames_put_text(&writer, text);
    (void)tutti_frames_send(frames, type, (const struct tutti_frames_part[]){{room, writer.bytes}},
                            1, NULL);
}

/* One that is ready ready_ms after it was found, and to all calls answers with an error of this
 * status. */
static void start_fake(struct stage *stage, int ready_ms, uint32_t status)
{
    const struct tutti_frames_opts opts = {
        .size = sizeof(opts), .secret = secret, .secret_bytes = strlen(secret)};
    struct tutti_frames_listener *listener = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_frames_listen(&opts, stage->address, &listener, &err), err);
    REQUIRE(listener != NULL);
    snprintf(stage->address, sizeof(stage->address), "%s", tutti_frames_listener_address(listener));
    fflush(stdout);
    stage->id = fork();
    if (stage->id == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            struct tutti_frames *frames = NULL;
            struct tutti_frames_got got;

            if (tutti_frames_accept(listener, SOON_PS, &frames, NULL) < 0 || frames == NULL)
                continue;
            pause_ms(ready_ms);
            say_text(frames, TUTTI_CLUSTER_READY, 0, "fake");
            while (tutti_frames_receive(frames, SOON_PS, &got, NULL) == 0)
                say_text(frames, TUTTI_CLUSTER_FAILED, status, "an error");
            tutti_frames_close(frames);
        }
    }
    tutti_frames_listener_close(listener);
}

/* ---- what drivers see of them ---------------------------------------------------------------- */

static int open_link(const struct stage *stage, struct tutti_cluster_link **ret,
                     struct tutti_err *err)
{
    const struct tutti_cluster_link_opts opts = {.size = sizeof(opts),
                                                 .secret = secret,
                                                 .secret_bytes = strlen(secret),
                                                 .deadline_ps = SOON_PS};

    return tutti_cluster_link_open(&opts, stage->address, "worker 0", ret, err);
}

static void expect_status(uint32_t said, enum tutti_cluster_link_kind kind)
{
    struct stage stage = {.address = "127.0.0.1:0"};
    struct tutti_cluster_link *link = NULL;
    struct tutti_cluster_link_event event = {.data = ""};
    struct tutti_err err = {""};

    start_fake(&stage, 0, said);
    CHECK_OK(open_link(&stage, &link, &err), err);
    REQUIRE(link != NULL);
    CHECK_OK(tutti_cluster_link_call(link, 1, "echo", NULL, 0, &err), err);
    CHECK_OK(tutti_cluster_link_next(link, SOON_PS, &event, &err), err);
    CHECK_INT(event.kind, kind);
    if (kind == TUTTI_CLUSTER_LINK_FAILED)
        CHECK_INT(event.status, -(int)said);
    else
        CHECK(strstr(event.data, "sent what no worker says") != NULL);
    tutti_cluster_link_close(link);
    end_stage(&stage);
}

TEST(an_error_has_one_of_the_statuses)
{
    expect_status(TUTTI_EINVAL, TUTTI_CLUSTER_LINK_FAILED);
    expect_status(TUTTI_ECHECK, TUTTI_CLUSTER_LINK_FAILED);
    expect_status(0, TUTTI_CLUSTER_LINK_END);
    expect_status(TUTTI_ECHECK + 1, TUTTI_CLUSTER_LINK_END);
    expect_status(UINT32_C(1) << 31, TUTTI_CLUSTER_LINK_END);
    expect_status(UINT32_MAX, TUTTI_CLUSTER_LINK_END);
}

/* It lives on, and says to each driver why it does not serve it. */
TEST(a_worker_without_files_stands)
{
    struct stage stage = {.address = "127.0.0.1:0"};

    start_worker(&stage, 2); /* a connection, and one of the two ends to a child */
    for (int i = 0; i < 3; i++) {
        struct tutti_cluster_link *link = NULL;
        struct tutti_err err = {""};

        CHECK_INT(open_link(&stage, &link, &err), -TUTTI_EIO);
        if (strstr(err.text, "cannot make a pipe: Too many open files") == NULL)
            TEST_FAIL("'%s'", err.text);
    }
    end_stage(&stage);
}

/* ---- coming back ----------------------------------------------------------------------------- */

static struct tutti_cluster_driver *open_cluster(const struct stage stages[2])
{
    const char *addresses[2] = {stages[0].address, stages[1].address};
    char key[sizeof(secret)];
    const struct tutti_cluster_opts opts = {.size = sizeof(opts),
                                            .addresses = addresses,
                                            .address_count = 2,
                                            .secret = key,
                                            .secret_bytes = strlen(secret),
                                            .deadline_ps = SOON_PS};
    struct tutti_cluster_driver *cluster = NULL;
    struct tutti_err err = {""};

    memcpy(key, secret, sizeof(key));
    CHECK_OK(tutti_cluster_open(&opts, &cluster, &err), err);
    memset(key, 0, sizeof(key)); /* it was lent until open returned */
    return cluster;
}

static void expect_present(struct tutti_cluster_driver *cluster, uint32_t count)
{
    for (int i = 0; i < 400 && tutti_cluster_stats(cluster).present != count; i++) {
        pause_ms(10);
        (void)tutti_cluster_join(cluster, 0, NULL);
    }
    CHECK_INT(tutti_cluster_stats(cluster).present, count);
}

/* Also when it takes half a second until it is ready. */
TEST(a_lost_worker_is_found_again)
{
    struct stage stages[2] = {{.address = "127.0.0.1:0"}, {.address = "127.0.0.1:0"}};
    struct tutti_cluster_driver *cluster;

    for (int i = 0; i < 2; i++)
        start_worker(&stages[i], -1);
    cluster = open_cluster(stages);
    REQUIRE(cluster != NULL);
    end_stage(&stages[0]);
    expect_present(cluster, 1);
    start_worker(&stages[0], -1);
    expect_present(cluster, 2);
    end_stage(&stages[0]);
    expect_present(cluster, 1);
    start_fake(&stages[0], 500, TUTTI_EINVAL);
    expect_present(cluster, 2);
    tutti_cluster_close(cluster);
    for (int i = 0; i < 2; i++)
        end_stage(&stages[i]);
}

/* "For ever" is no moment in the past. */
TEST(the_longest_timeout_is_one)
{
    struct stage stages[2] = {{.address = "127.0.0.1:0"}, {.address = "127.0.0.1:0"}};
    struct tutti_cluster_driver *cluster;
    struct tutti_err err = {""};
    const void *data = NULL;
    uint64_t bytes = 0;
    uint64_t closure = 0;

    for (int i = 0; i < 2; i++)
        start_worker(&stages[i], -1);
    cluster = open_cluster(stages);
    REQUIRE(cluster != NULL);
    CHECK_OK(tutti_cluster_schedule(cluster, "echo", "abc", 3, INT64_MAX, &closure, &err), err);
    CHECK_OK(tutti_cluster_fetch(cluster, closure, INT64_MAX, &data, &bytes, &err), err);
    CHECK_INT(bytes, 3);
    CHECK_OK(tutti_cluster_schedule(cluster, "echo", "abc", 3, INT64_MAX, &closure, &err), err);
    CHECK_OK(tutti_cluster_join(cluster, INT64_MAX, &err), err);
    tutti_cluster_close(cluster);
    for (int i = 0; i < 2; i++)
        end_stage(&stages[i]);
}
