/* The backend `tcp` under the conformance suite: this program is TUTTI_TEST_PROCESSES processes,
 * with the engine of TUTTI_TEST_ENGINE. */
#include "runtime/tcp.h"
#include "tests/runtime/conformance.h"
#include "tests/runtime/conformance_overlap.h"
#include "tests/runtime/processes.h"

static int open_engine(uint32_t rank_count, const char *engine, struct tutti_backend **ret,
                       struct tutti_err *err)
{
    struct tutti_tcp_opts opts = {.size = sizeof(struct tutti_tcp_opts),
                                  .group = processes_group(),
                                  .connections = rank_count % 3, /* small messages are not cut */
                                  .congestion = rank_count == 4 ? "reno" : NULL};

    if (engine != NULL && tutti_tcp_engine_find(engine, &opts.engine, err) < 0)
        return -TUTTI_EINVAL;
    return tutti_tcp_open(&opts, ret, err);
}

/* Asked for io_uring where there is none, all processes alike end the program: skipped. */
static void skip_without_uring(const char *engine)
{
    struct tutti_err why;

    if (engine == NULL || strcmp(engine, "uring") != 0 || tutti_tcp_uring_check(&why) == 0)
        return;
    fprintf(stderr, "skipped: %s\n", why.text);
    _exit(77);
}

static int open_tcp(uint32_t rank_count, struct tutti_backend **ret, struct tutti_err *err)
{
    const char *engine = getenv("TUTTI_TEST_ENGINE");

    skip_without_uring(engine);
    return open_engine(rank_count, engine, ret, err);
}

static const struct conformance_subject subject = {.name = "tcp", .open = open_tcp};
