/* Chaos: processes play together over TCP, and at some moment something happens to one of them.
 * Every other one ends within its deadline, in one line that names the right one, with exit code 1,
 * and prints no result; nothing is left behind. What nobody could notice (a connection that is not
 * used any more) does no harm: then all end well, and the result is right. A story follows from its
 * seed alone, but for what the machine makes of the moment; --full tells 500 of them. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/tcp.h"
#include "tests/runtime/ports.h"
#include "tests/test.h"

#define TUTTI TUTTI_BINARY_DIR "/tutti"

enum {
    PROCESSES_MAX = 4,
    DEADLINE_MS = 3000, /* that the processes are given */
    SLACK_MS = 12000,   /* for a machine that has other work, and sanitizers */
    WELL_MS = 240000,   /* to end well, if nothing was noticed: 62 s at a load of 45 */
    MOMENT_MS_MAX = 700,
    SOCKETS_MAX = 64,
    OUTPUT_BYTES = 4096,
};

enum fault { KILLED, STOPPED, RESET, SHUT, GARBAGE, FAULT_COUNT };

static const char *const fault_names[FAULT_COUNT] = {"killed", "stopped", "reset", "shut",
                                                     "fed garbage"};

struct story {
    uint64_t seed;
    int process_count;
    const char *algorithm;
    const char *engine;
    const char *size;
    const char *iterations;
    bool is_short; /* so few that all may end well */
    int connections;
    enum fault fault;
    int victim;
    int moment_ms;
    uint64_t pick; /* of the connection */
};

struct process {
    pid_t id; /* 0: has ended and been waited for */
    int out;  /* files in memory */
    int err;
    int status;
};

struct cast {
    struct process processes[PROCESSES_MAX];
    int count;
    uint16_t port;
};

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- the world ------------------------------------------------------------------------------- */

static struct story story_of(uint64_t seed)
{
    static const char *const algorithms[] = {"ring", "recursive-doubling", "binomial", "two-shot",
                                             "reduce-broadcast"};
    static const char *const engines[] = {"poll", "uring"};
    static const char *const sizes[] = {"256", "16K", "256K", "3M"};
    static const char *const some[] = {"3000", "2000", "400", "40"}; /* a second or so */
    struct tutti_random random;
    struct tutti_err err;
    uint64_t size;
    struct story story = {.seed = seed};

    tutti_random_seed(&random, seed);
    story.process_count = 2 + (int)tutti_random_below(&random, PROCESSES_MAX - 1);
    story.algorithm = algorithms[tutti_random_below(&random, 5)];
    story.engine = engines[tutti_random_below(&random, 2)];
    if (tutti_tcp_uring_check(&err) < 0)
        story.engine = "poll";
    size = tutti_random_below(&random, 4);
    story.size = sizes[size];
    story.connections = 1 + (int)tutti_random_below(&random, 3);
    story.fault = (enum fault)tutti_random_below(&random, FAULT_COUNT);
    story.is_short = story.fault > STOPPED; /* one that was being made is made again */
    story.iterations = story.is_short ? some[size] : "1000000";
    story.victim = (int)tutti_random_below(&random, (uint64_t)story.process_count);
    story.moment_ms = (int)tutti_random_below(&random, story.fault <= STOPPED ? MOMENT_MS_MAX
                                                                              : MOMENT_MS_MAX / 2);
    story.pick = tutti_random_below(&random, 1u << 30);
    return story;
}

static void tell(const struct story *story)
{
    fprintf(stderr,
            "seed %" PRIu64 ": %d processes, %s of %s by %s, %d connections: process %d is %s "
            "after %d ms\n",
            story->seed, story->process_count, story->algorithm, story->size, story->engine,
            story->connections, story->victim, fault_names[story->fault], story->moment_ms);
}

static void become(const struct story *story, int index, uint16_t port, const struct process *p)
{
    char rank[16];
    char size[16];
    char root[32];
    char connections[16];

    snprintf(rank, sizeof(rank), "%d", index);
    snprintf(size, sizeof(size), "%d", story->process_count);
    snprintf(root, sizeof(root), "127.0.0.1:%u", port);
    snprintf(connections, sizeof(connections), "%d", story->connections);
    (void)setenv("TUTTI_RANK", rank, 1);
    (void)setenv("TUTTI_SIZE", size, 1);
    (void)setenv("TUTTI_ROOT", root, 1);
    (void)setenv("TUTTI_SECRET", "chaos on four hosts", 1);
    (void)dup2(p->out, STDOUT_FILENO);
    (void)dup2(p->err, STDERR_FILENO);
    (void)execl(TUTTI, "tutti", "run", "-B", "tcp", "-a", story->algorithm, "-b", story->size, "-e",
                story->size, "-n", story->iterations, "-w", "0", "--deadline", "3s", "--engine",
                story->engine, "--connections", connections, "--format", "csv", (char *)NULL);
    _exit(99);
}

static bool start(const struct story *story, struct cast *cast)
{
    *cast = (struct cast){.count = story->process_count, .port = test_free_port(story->seed)};
    for (int i = 0; i < cast->count; i++) {
        struct process *p = &cast->processes[i];

        p->out = memfd_create("out", MFD_CLOEXEC);
        p->err = memfd_create("err", MFD_CLOEXEC);
        if (p->out < 0 || p->err < 0)
            return false;
        p->id = fork();
        if (p->id == 0)
            become(story, i, cast->port, p);
        if (p->id < 0)
            return false;
    }
    return true;
}

/* ---- what happens ---------------------------------------------------------------------------- */

/* The connected sockets of a process, as descriptors of this one. */
static int take_sockets(pid_t id, int *ret, int max)
{
    char path[64];
    int pid_fd = (int)syscall(SYS_pidfd_open, id, 0);
    struct dirent *entry;
    int count = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)id);
    dir = opendir(path);
    while (dir != NULL && pid_fd >= 0 && count < max && (entry = readdir(dir)) != NULL) {
        struct sockaddr_storage peer;
        socklen_t bytes = sizeof(peer);
        int theirs = (int)strtol(entry->d_name, NULL, 10);
        int fd = entry->d_name[0] == '.' ? -1 : (int)syscall(SYS_pidfd_getfd, pid_fd, theirs, 0);

        if (fd < 0)
            continue;
        if (getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 && peer.ss_family == AF_INET)
            ret[count++] = fd;
        else
            close(fd);
    }
    if (dir != NULL)
        closedir(dir);
    if (pid_fd >= 0)
        close(pid_fd);
    return count;
}

static uint16_t port_of(int fd, bool of_peer)
{
    struct sockaddr_in address = {.sin_port = 0};
    socklen_t bytes = sizeof(address);

    if (of_peer)
        (void)getpeername(fd, (struct sockaddr *)&address, &bytes);
    else
        (void)getsockname(fd, (struct sockaddr *)&address, &bytes);
    return ntohs(address.sin_port);
}

/* The process at the other end of a connection of the victim's, or -1. */
static int find_peer(const struct cast *cast, int victim, int fd)
{
    int found = -1;

    for (int i = 0; i < cast->count && found < 0; i++) {
        int sockets[SOCKETS_MAX];
        int count = i == victim ? 0 : take_sockets(cast->processes[i].id, sockets, SOCKETS_MAX);

        for (int k = 0; k < count; k++) {
            if (port_of(sockets[k], false) == port_of(fd, true) &&
                port_of(sockets[k], true) == port_of(fd, false))
                found = i;
            close(sockets[k]);
        }
    }
    return found;
}

static void harm(int fd, enum fault fault, uint64_t seed)
{
    struct sockaddr nothing = {.sa_family = AF_UNSPEC};
    uint64_t noise[8];

    for (size_t i = 0; i < 8; i++)
        noise[i] = tutti_random_hash(seed, i, 2, 3);
    if (fault == SHUT)
        (void)shutdown(fd, SHUT_RDWR);
    else if (fault == RESET)
        (void)connect(fd, &nothing, sizeof(nothing)); /* dissolves it; the peer gets a reset */
    else
        (void)send(fd, noise, sizeof(noise), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Returns whom one may blame besides the victim; -1: nobody. Who has no connection is killed. */
static int strike(struct story *story, struct cast *cast)
{
    pid_t id = cast->processes[story->victim].id;
    int sockets[SOCKETS_MAX];
    int count = 0;
    int other = -1;

    if (story->fault > STOPPED)
        count = take_sockets(id, sockets, SOCKETS_MAX);
    if (count > 0) {
        int fd = sockets[story->pick % (uint64_t)count];

        other = find_peer(cast, story->victim, fd);
        harm(fd, story->fault, story->seed);
    } else if (story->fault > STOPPED) {
        story->fault = KILLED;
    }
    for (int i = 0; i < count; i++)
        close(sockets[i]);
    if (story->fault == KILLED)
        (void)kill(id, SIGKILL);
    if (story->fault == STOPPED)
        (void)kill(id, SIGSTOP);
    return other;
}

/* ---- what must come of it -------------------------------------------------------------------- */

/* Waits for all but the one who cannot end by himself; true if they did in time. */
static bool await(const struct story *story, struct cast *cast, int64_t end_ms)
{
    int left = 1;

    while (left > 0 && now_ms() < end_ms) {
        left = 0;
        for (int i = 0; i < cast->count; i++) {
            struct process *p = &cast->processes[i];

            if (p->id > 0 && waitpid(p->id, &p->status, WNOHANG) == p->id)
                p->id = 0;
            left += p->id > 0 && (i != story->victim || story->fault != STOPPED);
        }
        (void)poll(NULL, 0, 5);
    }
    return left == 0;
}

static void read_file(int fd, char text[OUTPUT_BYTES])
{
    ssize_t bytes = pread(fd, text, OUTPUT_BYTES - 1, 0);

    text[bytes > 0 ? bytes : 0] = '\0';
}

/* Does it name rank or process `index`, besides the one who reports ("process 1 of 4: ...")? */
static bool names(const char *text, int index)
{
    char rank[32];
    char process[32];
    int reporter;
    int of;
    int bytes = 0;

    text += strlen("tutti run: ");
    while (sscanf(text, "process %d of %d: %n", &reporter, &of, &bytes) == 2 && bytes > 0) {
        text += bytes;
        bytes = 0;
    }
    snprintf(rank, sizeof(rank), "rank %d", index);
    snprintf(process, sizeof(process), "process %d", index);
    return index >= 0 && (strstr(text, rank) != NULL || strstr(text, process) != NULL);
}

/* One row, without a wrong element. */
static bool is_right(const char *csv)
{
    const char *row = strchr(csv, '\n');
    int column = 0;

    for (row = row == NULL ? "" : row + 1; *row != '\0' && column < 11; row++)
        column += *row == ',';
    return strncmp(row, "0,", 2) == 0 && strchr(row, '\n') != NULL;
}

/* Nothing was noticed, and there was nothing to notice: a short run may have been over. */
static bool ended_well(const struct story *story, const struct cast *cast)
{
    char out[OUTPUT_BYTES];

    for (int i = 0; i < cast->count; i++) {
        const struct process *p = &cast->processes[i];
        bool killed = story->fault == KILLED && i == story->victim && WIFSIGNALED(p->status);

        if (!killed && (!WIFEXITED(p->status) || WEXITSTATUS(p->status) != 0))
            return false;
    }
    read_file(cast->processes[0].out, out);
    if (!is_right(out) && (story->fault != KILLED || story->victim != 0))
        TEST_FAIL("seed %" PRIu64 ": a result that is not right:\n%s", story->seed, out);
    return true;
}

/* That a connection was refused while processes met is said at once, and not yet the end. */
static void drop_refusals(char *text)
{
    static const char refused[] = "tutti run: refused ";

    while (strncmp(text, refused, strlen(refused)) == 0 && strchr(text, '\n') != NULL) {
        const char *next = strchr(text, '\n') + 1;

        memmove(text, next, strlen(next) + 1);
    }
}

/* Of the two ends of a connection each may blame the other; one that came to meet the others and
 * was misunderstood takes it for a stranger. */
static bool blames_rightly(const struct story *story, int index, int other, const char *text)
{
    /* Who comes when all is over already has nobody who could tell him. */
    if (strstr(text, "process 0 of ") != NULL && (strstr(text, "has not been reached") != NULL ||
                                                  strstr(text, "has broken off before") != NULL))
        return true;
    if (names(text, story->victim) || names(text, other))
        return true;
    for (int i = 0; i < story->process_count && story->fault > STOPPED && index == story->victim;
         i++)
        if (i != index && names(text, i))
            return true;
    return false;
}

static bool is_stranger(const struct story *story, int index, int other, const struct process *p,
                        const char *text)
{
    if (story->fault != GARBAGE || !WIFEXITED(p->status) || WEXITSTATUS(p->status) != 2)
        return false;
    if (index == story->victim && strstr(text, "has another secret") != NULL)
        return true;
    /* It could make nothing of its welcome, and called again before the first call was seen to be
     * over. */
    return (index == story->victim || index == other) && strstr(text, "has already come") != NULL;
}

static void check_survivor(const struct story *story, const struct cast *cast, int index, int other)
{
    const struct process *p = &cast->processes[index];
    char out[OUTPUT_BYTES];
    char err[OUTPUT_BYTES];
    const char *newline;

    read_file(p->out, out);
    read_file(p->err, err);
    drop_refusals(err);
    newline = strchr(err, '\n');
    if (is_stranger(story, index, other, p, err))
        return;
    if (!WIFEXITED(p->status) || WEXITSTATUS(p->status) != 1)
        TEST_FAIL("seed %" PRIu64 ": process %d ended with status %x: %s", story->seed, index,
                  (unsigned)p->status, err);
    if (out[0] != '\0')
        TEST_FAIL("seed %" PRIu64 ": process %d printed a result:\n%s", story->seed, index, out);
    if (newline == NULL || newline[1] != '\0' || strncmp(err, "tutti run: ", 11) != 0)
        TEST_FAIL("seed %" PRIu64 ": process %d did not say one line:\n%s", story->seed, index,
                  err);
    else if (!blames_rightly(story, index, other, err))
        TEST_FAIL("seed %" PRIu64 ": process %d named neither %d nor %d: %s", story->seed, index,
                  story->victim, other, err);
}

static void end_all(struct cast *cast)
{
    for (int i = 0; i < cast->count; i++) {
        struct process *p = &cast->processes[i];

        if (p->id > 0) {
            (void)kill(p->id, SIGKILL);
            (void)waitpid(p->id, &p->status, 0);
        }
        close(p->out);
        close(p->err);
    }
}

/* Nobody listens any more. */
static bool is_listened_to(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool connected;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    return connected;
}

struct tally {
    int faults[FAULT_COUNT];
    int unnoticed[FAULT_COUNT];
};

static void judge(const struct story *story, const struct cast *cast, int other,
                  struct tally *tally)
{
    tally->faults[story->fault]++;
    if (story->is_short && ended_well(story, cast)) {
        tally->unnoticed[story->fault]++;
        return;
    }
    for (int i = 0; i < cast->count; i++) {
        if (i != story->victim || story->fault > STOPPED)
            check_survivor(story, cast, i, other);
    }
}

static void play(uint64_t seed, struct tally *tally)
{
    struct story story = story_of(seed);
    struct cast cast;
    int before = test_failures;
    int other = -1;

    if (test_full || getenv("TUTTI_CHAOS_TELL") != NULL)
        tell(&story);
    REQUIRE(start(&story, &cast));
    (void)poll(NULL, 0, story.moment_ms);
    other = strike(&story, &cast);
    if (await(&story, &cast, now_ms() + (story.is_short ? WELL_MS : DEADLINE_MS + SLACK_MS)))
        judge(&story, &cast, other, tally);
    for (int i = 0; i < cast.count; i++) {
        if (cast.processes[i].id > 0 && (i != story.victim || story.fault != STOPPED))
            TEST_FAIL("seed %" PRIu64 ": process %d hangs", seed, i);
    }
    if (test_failures > before)
        tell(&story);
    end_all(&cast);
    if (is_listened_to(cast.port))
        TEST_FAIL("seed %" PRIu64 ": somebody still listens on port %u", seed, cast.port);
}

TEST(whatever_happens_to_one_the_others_end_and_name_it)
{
    uint64_t count = test_count(500, 12);
    struct tally tally = {.faults = {0}};

    for (uint64_t i = 0; i < count && test_failures < 20; i++)
        play(test_seed + i, &tally);
    for (int i = 0; i < FAULT_COUNT; i++) {
        printf("%d %s", tally.faults[i], fault_names[i]);
        if (tally.unnoticed[i] > 0)
            printf(" (%d unnoticed)", tally.unnoticed[i]);
        printf(", ");
    }
}
