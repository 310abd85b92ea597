/* The engines of tcp, each alone with a progress context that has no connections: who has been
 * woken does not sleep, whatever it did since. */
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "runtime/exec/transport/tcp/tcp.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { LONG_S = 30 };

/* Whether a rest that may last long ends early. */
static bool rests_briefly(const struct tutti_tcp_engine_ops *engine,
                          struct tutti_tcp_progress *progress)
{
    struct timespec before;
    struct timespec after;

    clock_gettime(CLOCK_MONOTONIC, &before);
    engine->rest(progress, LONG_S * TUTTI_PS_PER_S);
    clock_gettime(CLOCK_MONOTONIC, &after);
    return after.tv_sec - before.tv_sec < LONG_S / 2;
}

/* The story: a rank looks around and finds nothing to do. Now another rank of the process gives it
 * work, and rings. Only then does the first one move, which is of no use, and so it rests. */
static void story(const struct tutti_tcp_engine_ops *engine)
{
    struct tutti_tcp_progress progress = {.event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    struct tutti_err err = {""};

    REQUIRE(progress.event_fd >= 0);
    CHECK_OK(engine->open(&progress, 0, &err), err);
    REQUIRE(progress.state != NULL);
    engine->rest(&progress, TUTTI_PS_PER_MS); /* from now on the sleeper is watched, in moves too */
    for (int i = 0; i < 3; i++) {
        uint64_t rings = 1;

        CHECK_INT(write(progress.event_fd, &rings, sizeof(rings)), sizeof(rings));
        CHECK_INT(engine->move(&progress, &err), 0);
        CHECK(rests_briefly(engine, &progress));
        /* Heard once, it is silent. */
        CHECK_INT(read(progress.event_fd, &rings, sizeof(rings)), -1);
        CHECK_INT(engine->move(&progress, &err), 0);
        engine->rest(&progress, TUTTI_PS_PER_MS);
    }
    engine->close(&progress);
    close(progress.event_fd);
}

TEST(by_poll_a_ring_before_the_move_ends_the_rest_after_it)
{
    story(&tutti_tcp_poll);
}

TEST(by_io_uring_a_ring_before_the_move_ends_the_rest_after_it)
{
    struct tutti_err err = {""};

    if (tutti_tcp_uring_check(&err) < 0)
        SKIP("no io_uring here");
    story(&tutti_tcp_uring);
}
