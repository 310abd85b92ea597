/* Standing workers and a queue of closures: each is done at least once, whoever is killed; and
 * however a driver ends, its workers are idle again and leave nobody behind. */
#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cluster.h"
#include "runtime/cluster/protocol.h"
#include "runtime/frames/connection.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { WORKERS = 3, IDLE_MS = 1000 };

static const tutti_ps SOON_PS = 8 * TUTTI_PS_PER_S;

/* What functions note of themselves, in memory that all processes share. */
struct notes {
    atomic_int runs;
    atomic_int child; /* of the worker, and what that has started */
    atomic_int grandchild;
    atomic_int worker;  /* that runs the function */
    atomic_int fates;   /* how many more runs of "fated" end by a signal */
    atomic_bool queued; /* "refuse" may go on */
};

static struct notes *notes;
static pid_t workers[WORKERS];
static char addresses[WORKERS][TUTTI_CLUSTER_ADDRESS_BYTES];
static const char *address_list[WORKERS] = {addresses[0], addresses[1], addresses[2]};

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void pause_ms(int ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    (void)nanosleep(&time, NULL);
}

/* ---- functions ------------------------------------------------------------------------------- */

static int square(void *context, const void *input, uint64_t bytes,
                  struct tutti_cluster_reply *reply, struct tutti_err *err)
{
    int64_t value;

    (void)context;
    if (bytes != sizeof(value))
        return tutti_fail(err, TUTTI_EINVAL, "a number of %llu bytes", (unsigned long long)bytes);
    memcpy(&value, input, sizeof(value));
    value *= value;
    atomic_fetch_add(&notes->runs, 1);
    return tutti_cluster_reply(reply, &value, sizeof(value), err);
}

static int speak(void *context, const void *input, uint64_t bytes,
                 struct tutti_cluster_reply *reply, struct tutti_err *err)
{
    (void)context;
    printf("heard %.*s\nand no end of a line", (int)bytes, (const char *)input);
    fprintf(stderr, "a note\n");
    return tutti_cluster_reply(reply, input, bytes, err);
}

/* Once all that it is to cancel is queued. */
static int refuse(void *context, const void *input, uint64_t bytes,
                  struct tutti_cluster_reply *reply, struct tutti_err *err)
{
    (void)context;
    (void)reply;
    for (int i = 0; i < 1000 && !atomic_load(&notes->queued); i++)
        pause_ms(10);
    return tutti_fail(err, TUTTI_ECHECK, "the data of shard %.*s are no numbers", (int)bytes,
                      (const char *)input);
}

static int fated(void *context, const void *input, uint64_t bytes,
                 struct tutti_cluster_reply *reply, struct tutti_err *err)
{
    if (atomic_fetch_sub(&notes->fates, 1) > 0)
        (void)raise(SIGKILL);
    return square(context, input, bytes, reply, err);
}

/* Until nobody waits for it: the first time; then it is quick. */
static int linger(void *context, const void *input, uint64_t bytes,
                  struct tutti_cluster_reply *reply, struct tutti_err *err)
{
    if (atomic_fetch_add(&notes->runs, 1) == 0) {
        pid_t id = fork();

        if (id == 0)
            for (;;)
                pause();
        atomic_store(&notes->grandchild, id);
        atomic_store(&notes->worker, getppid());
        atomic_store(&notes->child, getpid());
        for (;;)
            pause();
    }
    (void)context;
    return tutti_cluster_reply(reply, input, bytes, err);
}

static int slow(void *context, const void *input, uint64_t bytes, struct tutti_cluster_reply *reply,
                struct tutti_err *err)
{
    pause_ms(100);
    return square(context, input, bytes, reply, err);
}

static const struct tutti_cluster_function functions[] = {
    {"square", square, NULL}, {"speak", speak, NULL},   {"refuse", refuse, NULL},
    {"fated", fated, NULL},   {"linger", linger, NULL}, {"slow", slow, NULL}};

/* ---- workers --------------------------------------------------------------------------------- */

static void be_worker(struct tutti_cluster_worker *worker)
{
    struct tutti_err err;
    bool served;

    while (getppid() != 1 &&
           tutti_cluster_worker_serve(worker, TUTTI_PS_PER_S / 4, &served, &err) == 0)
        continue;
    _exit(1);
}

/* At this address, "127.0.0.1:0" at first, then its own again. */
static bool start_worker(uint32_t index, const char *address)
{
    const struct tutti_cluster_worker_opts opts = {.size = sizeof(opts),
                                                   .address = address,
                                                   .bytes_max = 1 << 16,
                                                   .functions = functions,
                                                   .function_count =
                                                       sizeof(functions) / sizeof(functions[0])};
    struct tutti_cluster_worker *worker = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_cluster_worker_open(&opts, &worker, &err), err);
    if (worker == NULL)
        return false;
    snprintf(addresses[index], sizeof(addresses[0]), "%s", tutti_cluster_worker_address(worker));
    fflush(stdout);
    workers[index] = fork();
    if (workers[index] == 0)
        be_worker(worker);
    tutti_cluster_worker_close(worker);
    return workers[index] > 0;
}

static bool start_workers(void)
{
    if (notes == NULL)
        notes =
            mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(notes, 0, sizeof(*notes));
    for (uint32_t i = 0; i < WORKERS; i++)
        if (!start_worker(i, "127.0.0.1:0"))
            return false;
    return true;
}

static void kill_worker(uint32_t index)
{
    (void)kill(workers[index], SIGKILL);
    (void)waitpid(workers[index], NULL, 0);
    workers[index] = 0;
}

static void end_workers(void)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        if (workers[i] > 0)
            kill_worker(i);
}

static struct tutti_cluster_opts opts_of(uint32_t count)
{
    return (struct tutti_cluster_opts){.size = sizeof(struct tutti_cluster_opts),
                                       .addresses = address_list,
                                       .address_count = count,
                                       .bytes_max = 1 << 16,
                                       .deadline_ps = SOON_PS,
                                       .return_ps = SOON_PS};
}

static struct tutti_cluster_driver *open_cluster(uint32_t count)
{
    const struct tutti_cluster_opts opts = opts_of(count);
    struct tutti_cluster_driver *cluster = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_cluster_open(&opts, &cluster, &err), err);
    return cluster;
}

static uint64_t schedule(struct tutti_cluster_driver *cluster, const char *function, int64_t value)
{
    uint64_t closure = 0;
    struct tutti_err err = {""};

    CHECK_OK(
        tutti_cluster_schedule(cluster, function, &value, sizeof(value), SOON_PS, &closure, &err),
        err);
    return closure;
}

static void expect_square(struct tutti_cluster_driver *cluster, uint64_t closure, int64_t of)
{
    const void *data = NULL;
    uint64_t bytes = 0;
    int64_t value = 0;
    struct tutti_err err = {""};

    CHECK_OK(tutti_cluster_fetch(cluster, closure, SOON_PS, &data, &bytes, &err), err);
    if (bytes == sizeof(value))
        memcpy(&value, data, sizeof(value));
    CHECK_INT(value, of * of);
    tutti_cluster_forget(cluster, closure);
}

/* ---- what is scheduled is done --------------------------------------------------------------- */

TEST(closures_run_on_all_workers_and_their_results_come_back)
{
    struct tutti_cluster_driver *cluster;
    uint64_t closures[200];
    struct tutti_err err = {""};

    REQUIRE(start_workers());
    cluster = open_cluster(WORKERS);
    REQUIRE(cluster != NULL);
    for (int64_t i = 0; i < 200; i++)
        closures[i] = schedule(cluster, "square", i);
    CHECK_OK(tutti_cluster_join(cluster, SOON_PS, &err), err);
    CHECK_INT(atomic_load(&notes->runs), 200);
    for (int64_t i = 0; i < 200; i++)
        expect_square(cluster, closures[i], i);
    CHECK_INT(tutti_cluster_fetch(cluster, closures[0], SOON_PS, NULL, NULL, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_cluster_stats(cluster).completed, 200);
    CHECK_INT(tutti_cluster_stats(cluster).present, WORKERS);
    tutti_cluster_close(cluster);
    end_workers();
}

static char seen[512];

static void hear(void *data, uint32_t worker, bool is_note, const char *line)
{
    size_t used = strlen(seen);

    (void)data;
    CHECK_INT(worker, 0);
    if (!is_note)
        snprintf(seen + used, sizeof(seen) - used, "%s|", line);
}

TEST(what_a_function_prints_comes_before_its_result)
{
    struct tutti_cluster_opts opts = opts_of(1);
    struct tutti_cluster_driver *cluster = NULL;
    struct tutti_err err = {""};
    uint64_t closure;
    const void *data;
    uint64_t bytes;

    opts.line = hear;
    REQUIRE(start_workers());
    CHECK_OK(tutti_cluster_open(&opts, &cluster, &err), err);
    REQUIRE(cluster != NULL);
    for (int i = 0; i < 3; i++) {
        seen[0] = '\0';
        CHECK_OK(tutti_cluster_schedule(cluster, "speak", "words", 5, SOON_PS, &closure, &err),
                 err);
        CHECK_OK(tutti_cluster_fetch(cluster, closure, SOON_PS, &data, &bytes, &err), err);
        CHECK_INT(bytes, 5);
        CHECK_TEXT(seen, "heard words|and no end of a line|");
    }
    tutti_cluster_close(cluster);
    end_workers();
}

/* ---- who is lost ----------------------------------------------------------------------------- */

static uint32_t worker_of(int id)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        if (workers[i] == id)
            return i;
    return WORKERS;
}

static bool wait_for(const atomic_int *what)
{
    for (int i = 0; i < 4000 && atomic_load(what) == 0; i++)
        pause_ms(2);
    return atomic_load(what) != 0;
}

/* Whether a process ends within the time that the header states. Where its parent has gone first,
 * nobody may ask for its fate: that it does not run any more counts. */
static bool ends(int id)
{
    for (int64_t until = now_ms() + IDLE_MS; now_ms() < until; pause_ms(2)) {
        char path[64];
        char *stat;
        bool gone;

        snprintf(path, sizeof(path), "/proc/%d/stat", id);
        stat = test_read_file(path, NULL);
        gone = stat == NULL || strstr(stat, ") Z") != NULL;
        free(stat);
        if (gone)
            return true;
    }
    return false;
}

/* The worker of a closure is killed; another does it; started again, the killed one is back. */
TEST(a_worker_killed_in_a_closure_is_replaced_and_comes_back)
{
    struct tutti_cluster_driver *cluster;
    struct tutti_err err = {""};
    uint64_t closure;
    uint64_t others[20];
    uint32_t killed;

    REQUIRE(start_workers());
    cluster = open_cluster(2);
    REQUIRE(cluster != NULL);
    closure = schedule(cluster, "linger", 7);
    REQUIRE(wait_for(&notes->child));
    killed = worker_of(atomic_load(&notes->worker));
    REQUIRE(killed < 2);
    kill_worker(killed);
    CHECK(ends(atomic_load(&notes->child)));
    for (int64_t i = 0; i < 20; i++)
        others[i] = schedule(cluster, "square", i);
    CHECK_OK(tutti_cluster_join(cluster, SOON_PS, &err), err);
    CHECK_INT(tutti_cluster_stats(cluster).lost, 1);
    CHECK_INT(tutti_cluster_stats(cluster).present, 1);
    CHECK_INT(atomic_load(&notes->runs), 22);
    for (int64_t i = 0; i < 20; i++)
        expect_square(cluster, others[i], i);
    REQUIRE(start_worker(killed, addresses[killed]));
    for (int i = 0; i < 400 && tutti_cluster_stats(cluster).present < 2; i++) {
        pause_ms(10);
        (void)tutti_cluster_join(cluster, 0, NULL);
    }
    CHECK_INT(tutti_cluster_stats(cluster).present, 2);
    tutti_cluster_forget(cluster, closure);
    tutti_cluster_close(cluster);
    (void)kill(atomic_load(&notes->grandchild), SIGKILL);
    end_workers();
}

/* A function whose process is killed is tried again; always killed, it is an error by name. */
TEST(a_closure_that_loses_too_many_workers_is_an_error)
{
    struct tutti_cluster_opts opts = opts_of(WORKERS);
    struct tutti_cluster_driver *cluster = NULL;
    struct tutti_err err = {""};

    opts.tries = 3;
    REQUIRE(start_workers());
    CHECK_OK(tutti_cluster_open(&opts, &cluster, &err), err);
    REQUIRE(cluster != NULL);
    atomic_store(&notes->fates, 2);
    expect_square(cluster, schedule(cluster, "fated", 5), 5);
    CHECK_INT(tutti_cluster_stats(cluster).lost, 2);
    atomic_store(&notes->fates, 3);
    (void)schedule(cluster, "fated", 5);
    CHECK_INT(tutti_cluster_join(cluster, SOON_PS, &err), -TUTTI_EIO);
    CHECK(strstr(err.text, "a closure of function 'fated' lost 3 workers") != NULL);
    CHECK(strstr(err.text, "was ended by signal 9 (Killed)") != NULL);
    tutti_cluster_close(cluster);
    end_workers();
}

/* ---- errors and bounds ----------------------------------------------------------------------- */

TEST(an_error_of_the_application_cancels_what_is_queued)
{
    struct tutti_cluster_driver *cluster;
    struct tutti_err err = {""};
    uint64_t closures[10];
    uint64_t failing = 0;
    const void *data;
    uint64_t bytes;

    REQUIRE(start_workers());
    cluster = open_cluster(1);
    REQUIRE(cluster != NULL);
    CHECK_OK(tutti_cluster_schedule(cluster, "refuse", "9", 1, SOON_PS, &failing, &err), err);
    for (int64_t i = 0; i < 10; i++)
        closures[i] = schedule(cluster, "slow", i);
    atomic_store(&notes->queued, true);
    CHECK_INT(tutti_cluster_join(cluster, SOON_PS, &err), -TUTTI_ECHECK);
    CHECK_TEXT(err.text, "the data of shard 9 are no numbers");
    CHECK_INT(tutti_cluster_fetch(cluster, failing, SOON_PS, &data, &bytes, &err), -TUTTI_ECHECK);
    CHECK_TEXT(err.text, "the data of shard 9 are no numbers");
    CHECK_INT(tutti_cluster_fetch(cluster, closures[9], SOON_PS, &data, &bytes, &err),
              -TUTTI_ECHECK);
    CHECK_TEXT(err.text, "it was cancelled: another closure has failed");
    CHECK_INT(tutti_cluster_stats(cluster).cancelled, 11);
    expect_square(cluster, schedule(cluster, "square", 12), 12); /* told once, then it goes on */
    CHECK_OK(tutti_cluster_join(cluster, SOON_PS, &err), err);
    (void)tutti_cluster_schedule(cluster, "no such", NULL, 0, SOON_PS, &failing, NULL);
    CHECK_INT(tutti_cluster_join(cluster, SOON_PS, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "this worker has no function 'no such'");
    tutti_cluster_close(cluster);
    end_workers();
}

/* The one worker is busy: `bound` wait, and no more. */
static void fill_queue(uint32_t bound, uint32_t asked)
{
    struct tutti_cluster_opts opts = opts_of(1);
    struct tutti_cluster_driver *cluster = NULL;
    struct tutti_err err = {""};
    uint64_t closure;

    opts.queue_bound = asked;
    REQUIRE(start_workers());
    CHECK_OK(tutti_cluster_open(&opts, &cluster, &err), err);
    REQUIRE(cluster != NULL);
    (void)schedule(cluster, "linger", 0);
    for (uint32_t i = 0; i < bound; i++)
        (void)schedule(cluster, "square", i);
    CHECK_INT(tutti_cluster_schedule(cluster, "square", NULL, 0, 0, &closure, &err), -TUTTI_ETIME);
    CHECK(strstr(err.text, "closures wait, and there is no room for more") != NULL);
    CHECK_INT(tutti_cluster_stats(cluster).scheduled, bound + 1);
    CHECK_INT(tutti_cluster_schedule(cluster, "square", NULL, (1 << 16) + 1, 0, &closure, &err),
              -TUTTI_EINVAL);
    tutti_cluster_close(cluster);
    end_workers();
}

TEST(the_queue_is_bounded)
{
    fill_queue(8, 8);
    if (!test_is_slow())
        fill_queue(262144, 0);
}

/* ---- the end of a driver --------------------------------------------------------------------- */

/* However it ends, all that was started for it ends, and the worker serves the next. */
static void end_driver(int number)
{
    struct tutti_cluster_driver *cluster;
    pid_t driver;

    REQUIRE(start_workers());
    driver = fork();
    if (driver == 0) {
        cluster = open_cluster(1);
        (void)schedule(cluster, "linger", 1);
        (void)tutti_cluster_join(cluster, SOON_PS, NULL);
        _exit(0);
    }
    CHECK(wait_for(&notes->child));
    (void)kill(driver, number);
    CHECK(ends(atomic_load(&notes->child)));
    (void)waitpid(driver, NULL, 0);
    cluster = open_cluster(1);
    REQUIRE(cluster != NULL);
    expect_square(cluster, schedule(cluster, "square", 3), 3);
    tutti_cluster_close(cluster);
    CHECK(ends(atomic_load(&notes->grandchild)));
    end_workers();
}

TEST(a_driver_that_ends_leaves_idle_workers_and_no_orphan)
{
    end_driver(SIGINT);
    end_driver(SIGKILL);
}

/* ---- hostile drivers, and many --------------------------------------------------------------- */

static uint64_t memory_of(pid_t id)
{
    char path[64];
    char *text;
    unsigned long pages[3] = {0};

    snprintf(path, sizeof(path), "/proc/%d/statm", id);
    text = test_read_file(path, NULL);
    if (text != NULL)
        (void)sscanf(text, "%lu %lu %lu", &pages[0], &pages[1], &pages[2]);
    free(text);
    return pages[1] - pages[2]; /* resident, and not shared */
}

static size_t files_of(pid_t id)
{
    char path[64];
    size_t count = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/fd", id);
    dir = opendir(path);
    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        closedir(dir);
    return count;
}

/* Frames of any type with any bytes, among them calls that are cut off, after a right handshake. */
static void be_hostile(struct tutti_random *random)
{
    const struct tutti_frames_opts opts = {.size = sizeof(opts), .deadline_ps = SOON_PS};
    struct tutti_frames *frames = NULL;
    struct tutti_err err = {""};
    uint8_t bytes[64];

    CHECK_OK(tutti_frames_connect(&opts, addresses[0], SOON_PS, "the worker", &frames, &err), err);
    for (int i = 0; frames != NULL && i < 8; i++) {
        const struct tutti_frames_part part = {bytes, tutti_random_below(random, sizeof(bytes))};
        uint32_t type = (uint32_t)tutti_random_below(random, 10);

        for (size_t k = 0; k < sizeof(bytes); k++)
            bytes[k] =
                (uint8_t)(tutti_random_below(random, 4) == 0 ? tutti_random_next(random) : 0);
        if (tutti_frames_send(frames, i == 0 ? TUTTI_CLUSTER_CALL : type, &part, 1, NULL) < 0)
            break;
    }
    tutti_frames_close(frames);
}

/* A frame of 2 GiB is announced. */
static void announce_much(void)
{
    const struct tutti_frames_opts opts = {.size = sizeof(opts), .deadline_ps = SOON_PS};
    const struct tutti_wire_head head = {.type = TUTTI_CLUSTER_CALL, .bytes = UINT64_C(2) << 30};
    struct tutti_frames *frames = NULL;
    struct tutti_frames_got got;
    struct tutti_err err = {""};
    uint8_t bytes[TUTTI_WIRE_HEAD_BYTES];

    CHECK_OK(tutti_frames_connect(&opts, addresses[0], SOON_PS, "the worker", &frames, &err), err);
    REQUIRE(frames != NULL);
    CHECK_OK(tutti_frames_receive(frames, SOON_PS, &got, &err), err); /* that it is ready */
    tutti_wire_write_head(&frames->out, &head, bytes);
    CHECK(write(frames->fd, bytes, sizeof(bytes)) == sizeof(bytes));
    CHECK_INT(tutti_frames_receive(frames, SOON_PS, &got, &err), -TUTTI_EIO);
    tutti_frames_close(frames);
}

TEST(hostile_drivers_and_many_jobs_leave_a_worker_as_it_was)
{
    const uint64_t count = test_count(2000, 60);
    struct tutti_random random;
    struct tutti_cluster_driver *cluster;
    uint64_t memory = 0;
    size_t files = 0;

    REQUIRE(start_workers());
    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < 2 * count && test_failures == 0; i++) {
        if (i % 2 == 0)
            be_hostile(&random);
        if (i % 16 == 0)
            announce_much();
        cluster = open_cluster(1);
        REQUIRE(cluster != NULL);
        expect_square(cluster, schedule(cluster, "square", (int64_t)i), (int64_t)i);
        if (i == count) {
            memory = memory_of(workers[0]);
            files = files_of(workers[0]);
        }
        if (i + 1 < 2 * count) {
            tutti_cluster_close(cluster);
            continue;
        }
        CHECK_INT(files_of(workers[0]), files);
        if (memory_of(workers[0]) > memory + 16 || memory == 0)
            TEST_FAIL("%" PRIu64 " pages after %" PRIu64 " drivers, %" PRIu64
                      " after twice as many",
                      memory, count, memory_of(workers[0]));
        tutti_cluster_close(cluster);
    }
    end_workers();
}
