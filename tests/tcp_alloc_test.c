/* Every allocation of a play of two processes over sockets made to fail once. The processes are
 * threads here, and their connections pairs of sockets. */
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/coll.h"
#include "runtime/exec/tcp/tcp.h"
#include "tests/alloc_fail.h"
#include "tests/troupe.h"

enum { PAIRS_MAX = 256 };

/* Connections wanted by one side, until the other side wants them too. */
static struct {
    pthread_mutex_t lock; /* guards all of it */
    struct {
        uint64_t key;
        int fd; /* of the side that has not come; -1: none */
    } waiting[PAIRS_MAX];
    uint32_t count;
} exchange_of_pairs = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int pair_up(uint64_t key)
{
    int fds[2];

    for (uint32_t i = 0; i < exchange_of_pairs.count; i++) {
        if (exchange_of_pairs.waiting[i].key != key || exchange_of_pairs.waiting[i].fd < 0)
            continue;
        fds[0] = exchange_of_pairs.waiting[i].fd;
        exchange_of_pairs.waiting[i] = exchange_of_pairs.waiting[--exchange_of_pairs.count];
        return fds[0];
    }
    if (exchange_of_pairs.count == PAIRS_MAX ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
        abort();
    exchange_of_pairs.waiting[exchange_of_pairs.count].key = key;
    exchange_of_pairs.waiting[exchange_of_pairs.count++].fd = fds[1];
    return fds[0];
}

static int links(struct tutti_crew *crew, const struct tutti_crew_tcp_link *wanted, size_t count,
                 int *ret_fds, tutti_ps deadline_ps, struct tutti_err *err)
{
    (void)crew;
    (void)deadline_ps;
    (void)err;
    pthread_mutex_lock(&exchange_of_pairs.lock);
    for (size_t i = 0; i < count; i++)
        ret_fds[i] = pair_up(wanted[i].key);
    pthread_mutex_unlock(&exchange_of_pairs.lock);
    return 0;
}

/* What an attempt that failed has left behind. */
static void drop_pairs(void)
{
    while (exchange_of_pairs.count > 0)
        close(exchange_of_pairs.waiting[--exchange_of_pairs.count].fd);
}

static int open_tcp(struct tutti_crew *crew, void *data, struct tutti_backend **ret,
                    struct tutti_err *err)
{
    struct tutti_tcp_opts opts = *(const struct tutti_tcp_opts *)data;

    opts.crew = crew;
    return tutti_tcp_open_with(&opts, links, ret, err);
}

static struct tutti_schedule *schedule;

static int play_between_two(enum tutti_tcp_engine engine, struct tutti_err *err)
{
    struct tutti_tcp_opts opts = {.engine = engine, .connections = 2};
    struct tutti_backend *backend = NULL;
    struct tutti_record record;
    struct tutti_played played;
    struct tutti_play play = {
        .schedule = schedule, .iteration_count = 2, .barrier = true, .record = &record};
    int status = troupe_open(2, open_tcp, &opts, &backend, err);

    tutti_record_init(&record);
    if (status == 0)
        status = tutti_backend_play(backend, &play, &played, err);
    tutti_backend_close(backend);
    tutti_record_done(&record);
    drop_pairs();
    return status;
}

static void open_schedule(void)
{
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .count = 1000, .slot_count = 1, .chunk_bytes = 400};
    struct tutti_shape shape = tutti_shape_flat(3);
    struct tutti_err err;

    CHECK_OK(tutti_coll_generate("ring", &params, &shape, &schedule, &err), err);
}

TEST(playing_on_sockets_fails_cleanly)
{
    struct tutti_err err = {""};

    open_schedule();
    REQUIRE(schedule != NULL);
    ALLOC_FAIL_EACH(play_between_two(TUTTI_TCP_POLL, &err), err);
    tutti_schedule_free(schedule);
}

TEST(playing_through_io_uring_fails_cleanly)
{
    struct tutti_err err = {""};

    if (tutti_tcp_uring_check(&err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        SKIP("no io_uring here");
    }
    open_schedule();
    REQUIRE(schedule != NULL);
    ALLOC_FAIL_EACH(play_between_two(TUTTI_TCP_URING, &err), err);
    tutti_schedule_free(schedule);
}
