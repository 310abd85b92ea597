/* Ten thousand hostile streams at a rendezvous that is waiting for its crew: it neither falls nor
 * hangs nor grows, lets no stranger in, and the right processes join as if nothing had been. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "runtime/crew/address.h"
#include "runtime/crew/frame.h"
#include "runtime/crew/greet.h"
#include "runtime/crew/talk.h"
#include "runtime/random.h"
#include "tests/crew_world.h"

enum {
    COUNT = 3,
    SLOW_MAX = 160,               /* slow ones at a time: more than a door has room for */
    GROWTH_BYTES_MAX = 512 << 10, /* what the C library may take for itself meanwhile */
};

static const char secret[] = "open sesame";

static struct crew_world world;
static struct tutti_address port_address;
static struct tutti_random dice;

/* What process 0, another process, tells. */
static struct told {
    int status;
    uint32_t logged_count;
    char text[TUTTI_ERR_TEXT_BYTES];
    char last_line[300];
} * told;

static uint64_t below(uint64_t most)
{
    return tutti_random_below(&dice, most);
}

static void fill(uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)tutti_random_next(&dice);
}

/* ---- process 0 ---- */

static void take_line(void *data, const char *line)
{
    (void)data;
    told->logged_count++;
    snprintf(told->last_line, sizeof(told->last_line), "%s", line);
}

static int meet(struct crew_one *one, struct tutti_err *err)
{
    uint32_t mine = one->crew->index;
    uint32_t all[COUNT];
    int status = tutti_crew_exchange(one->crew, &mine, sizeof(mine), all, 20 * TUTTI_PS_PER_S, err);

    for (uint32_t i = 0; i < COUNT && status == 0; i++)
        if (all[i] != i)
            status = tutti_fail(err, TUTTI_ECHECK, "a stranger sits at %u", i);
    return status;
}

static pid_t start_process_0(void)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid != 0) {
        close(world.listen_fd);
        return pid;
    }
    world.ones[0].opts.log = take_line;
    (void)crew_live(&world.ones[0]);
    told->status = world.ones[0].status;
    snprintf(told->text, sizeof(told->text), "%s", world.ones[0].err.text);
    _exit(0);
}

static bool share_told(void)
{
    if (told == NULL)
        told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED)
        return false;
    *told = (struct told){.status = 1};
    return true;
}

static long resident_bytes(pid_t pid)
{
    char path[64];
    long total = 0;
    long resident = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%ld %ld", &total, &resident) != 2)
        TEST_FAIL("cannot read %s", path);
    if (file != NULL)
        fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static int descriptor_count(pid_t pid)
{
    char command[64];
    int count = -1;
    FILE *pipe;

    snprintf(command, sizeof(command), "ls /proc/%d/fd | wc -l", (int)pid);
    pipe = popen(command, "r");
    if (pipe == NULL || fscanf(pipe, "%d", &count) != 1)
        TEST_FAIL("cannot count the descriptors");
    if (pipe != NULL)
        pclose(pipe);
    return count;
}

/* ---- strangers ---- */

static int enter(void)
{
    int fd = socket(port_address.as.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, &port_address.as.any, port_address.bytes) != 0) {
        TEST_FAIL("cannot connect: %s", strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

/* Whatever of it is taken: the other side may have closed. */
static void tell(int fd, const uint8_t *bytes, size_t count)
{
    (void)send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void hang_up_at_once(int fd)
{
    const struct linger hard = {.l_onoff = 1};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close(fd);
}

/* A hello as good as one can be without the secret. */
static void make_greet(struct tutti_greet *greet, const char *key)
{
    const struct tutti_hello hello = {.kind = below(4) == 0 ? TUTTI_GREET_LINK : TUTTI_GREET_JOIN,
                                      .index = (uint32_t)below(COUNT + 1),
                                      .count = below(4) == 0 ? (uint32_t)below(9) : COUNT,
                                      .port = (uint32_t)below(65536),
                                      .key = below(1000)};
    uint8_t nonce[TUTTI_GREET_NONCE_BYTES];

    fill(nonce, sizeof(nonce));
    tutti_greet_guest(greet, key, key == NULL ? 0 : strlen(key), nonce, &hello);
}

/* Reads up to `bytes`, for a while. */
static size_t hear(int fd, uint8_t *to, size_t bytes)
{
    size_t used = 0;

    while (used < bytes) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        ssize_t got = poll(&one, 1, 1000) == 1 ? recv(fd, to + used, bytes - used, 0) : 0;

        if (got <= 0)
            return used;
        used += (size_t)got;
    }
    return used;
}

static void say_rubbish(int fd)
{
    static uint8_t rubbish[1 << 17];
    size_t count = below(10) == 0 ? sizeof(rubbish) : (size_t)below(3000);

    fill(rubbish, count);
    tell(fd, rubbish, count);
}

static void say_half(int fd)
{
    struct tutti_greet greet;

    make_greet(&greet, secret);
    tell(fd, greet.out, (size_t)below(greet.out_bytes));
}

static void say_changed(int fd)
{
    struct tutti_greet greet;
    uint8_t proof[TUTTI_GREET_PROOF_BYTES];

    make_greet(&greet, secret);
    for (uint64_t i = 1 + below(4); i > 0; i--)
        greet.hello[below(sizeof(greet.hello))] = (uint8_t)tutti_random_next(&dice);
    tell(fd, greet.out, greet.out_bytes);
    fill(proof, sizeof(proof));
    tell(fd, proof, sizeof(proof));
}

static void say_ones(int fd)
{
    struct tutti_greet greet;
    uint8_t much[4096];

    make_greet(&greet, secret);
    memset(greet.hello + TUTTI_GREET_PREFIX_BYTES, 0xff,
           sizeof(greet.hello) - TUTTI_GREET_PREFIX_BYTES);
    tell(fd, greet.out, greet.out_bytes);
    memset(much, 0xff, sizeof(much));
    tell(fd, much, sizeof(much));
}

/* The right hello, and the proof of a secret that is nearly the right one; then frames as if it had
 * been let in. */
static void guess(int fd)
{
    static const char *const keys[] = {"open Sesame", "", "open sesame ", "sesame"};
    struct tutti_greet greet;
    uint8_t frames[2 * TUTTI_FRAME_HEAD_BYTES] = {0};

    make_greet(&greet, keys[below(4)]);
    tell(fd, greet.out, greet.out_bytes);
    tutti_greet_sent(&greet, greet.out_bytes);
    if (hear(fd, greet.in, greet.in_bytes) < greet.in_bytes)
        return;
    tutti_greet_took(&greet, greet.in_bytes);
    if (greet.out_bytes == 0)
        return;
    tell(fd, greet.out, greet.out_bytes);
    tutti_greet_sent(&greet, greet.out_bytes);
    tutti_frame_write_head(&(struct tutti_frame){.type = TUTTI_FRAME_EXCHANGE, .bytes = 1 << 24},
                           frames);
    tutti_frame_write_head(&(struct tutti_frame){.type = TUTTI_FRAME_BYE},
                           frames + TUTTI_FRAME_HEAD_BYTES);
    tell(fd, frames, sizeof(frames));
    if (hear(fd, greet.in, greet.in_bytes) < greet.in_bytes)
        return;
    tutti_greet_took(&greet, greet.in_bytes);
    if (greet.state == TUTTI_GREET_DONE)
        TEST_FAIL("a stranger is let in");
}

/* What an honest process said on another connection: its hello, and the proof for another nonce. */
static void replay(int fd)
{
    const struct tutti_hello hello = {
        .kind = TUTTI_GREET_JOIN, .index = 1, .count = COUNT, .port = 4242};
    static const uint8_t nonces[2][TUTTI_GREET_NONCE_BYTES] = {"once", "twice"};
    struct tutti_greet honest;
    struct tutti_greet host;
    uint8_t answer[TUTTI_GREET_WELCOME_BYTES];

    tutti_greet_guest(&honest, secret, strlen(secret), nonces[0], &hello);
    tutti_greet_host(&host, secret, strlen(secret), nonces[1]);
    tell(fd, honest.out, honest.out_bytes);
    while (honest.state == TUTTI_GREET_WANTS_CHALLENGE) {
        struct tutti_greet *from = honest.out_bytes > 0 ? &honest : &host;
        struct tutti_greet *to = from == &honest ? &host : &honest;
        size_t bytes = from->out_bytes < to->in_bytes ? from->out_bytes : to->in_bytes;

        memcpy(to->in, from->out, bytes);
        tutti_greet_sent(from, bytes);
        tutti_greet_took(to, bytes);
    }
    tell(fd, honest.out, honest.out_bytes);
    if (hear(fd, answer, TUTTI_GREET_CHALLENGE_BYTES) < TUTTI_GREET_CHALLENGE_BYTES)
        return;
    if (hear(fd, answer, sizeof(answer)) == sizeof(answer) && answer[3] == TUTTI_GREET_WELCOME)
        TEST_FAIL("a replay is let in");
}

static void say_http(int fd)
{
    static const char request[] =
        "POST /rendezvous HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n";

    tell(fd, (const uint8_t *)request, strlen(request));
}

static void say_version(int fd)
{
    struct tutti_greet greet;

    make_greet(&greet, secret);
    fill(greet.hello + 8, 4);
    tell(fd, greet.out, TUTTI_GREET_PREFIX_BYTES + (size_t)below(80));
}

static void say_nothing(int fd)
{
    (void)fd;
}

static void say_no_secret(int fd)
{
    struct tutti_greet greet;

    make_greet(&greet, NULL);
    tell(fd, greet.out, greet.out_bytes);
}

static void (*const sayings[])(int fd) = {say_rubbish, say_half,     say_changed, say_ones,
                                          guess,       replay,       say_http,    say_version,
                                          say_nothing, say_no_secret};

enum { SAYING_COUNT = sizeof(sayings) / sizeof(sayings[0]) };

/* Those who come and do not go, a byte now and then. */
static struct {
    int fds[SLOW_MAX];
    size_t count;
} slow;

static void linger(int fd)
{
    size_t at;

    if (slow.count < SLOW_MAX) {
        slow.fds[slow.count++] = fd;
        return;
    }
    at = (size_t)below(slow.count);
    close(slow.fds[at]);
    slow.fds[at] = fd;
}

static void trickle(void)
{
    uint8_t byte = 't';

    if (slow.count > 0)
        tell(slow.fds[below(slow.count)], &byte, 1);
}

static void attack(uint64_t count)
{
    for (uint64_t i = 0; i < count && test_failures == 0; i++) {
        int fd = enter();
        uint64_t end;

        if (fd < 0)
            return;
        sayings[below(SAYING_COUNT)](fd);
        trickle();
        end = below(100);
        if (end < 3) {
            linger(fd);
        } else if (end < 20) {
            uint8_t rest[256];

            (void)shutdown(fd, SHUT_WR);
            (void)hear(fd, rest, sizeof(rest));
            close(fd);
        } else if (end < 40) {
            hang_up_at_once(fd);
        } else {
            close(fd);
        }
    }
}

static double seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool find_port(void)
{
    char host[TUTTI_HOST_BYTES];
    struct tutti_err err;
    uint16_t port;

    return tutti_address_split(world.root, host, &port, &err) == 0 &&
           tutti_address_resolve(host, port, 0, &port_address, &err) == 0;
}

TEST(ten_thousand_streams_change_nothing)
{
    uint64_t total = test_count(10000, 10000);
    long before;
    long after;
    int descriptors;
    double start;
    pid_t pid;

    tutti_random_seed(&dice, test_seed);
    REQUIRE(share_told());
    REQUIRE(crew_prepare(&world, COUNT, "127.0.0.1:0", secret, meet) && find_port());
    world.ones[0].opts.deadline_ps = 500 * TUTTI_PS_PER_S;
    pid = start_process_0();
    REQUIRE(pid > 0);
    descriptors = descriptor_count(pid);
    start = seconds();
    attack(total / 10); /* until the C library has what it wants */
    before = resident_bytes(pid);
    attack(total - total / 10);
    after = resident_bytes(pid);
    printf("%" PRIu64
           " streams in %.1f s; process 0 has %ld KiB, and had %ld KiB; %u lines logged\n",
           total, seconds() - start, after >> 10, before >> 10, told->logged_count);
    CHECK(after - before <= GROWTH_BYTES_MAX);
    CHECK_INT(waitpid(pid, NULL, WNOHANG), 0);
    /* The slow ones are still there while the crew comes. */
    crew_start(&world, 1);
    crew_start(&world, 2);
    crew_join(&world, 1);
    crew_join(&world, 2);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    CHECK_INT(world.ones[1].status, 0);
    CHECK_INT(world.ones[2].status, 0);
    if (told->status != 0)
        TEST_FAIL("process 0: status %d: %s", told->status, told->text);
    CHECK(descriptors > 0 && descriptors < 20);
    CHECK(told->logged_count > 0 && told->logged_count < 1000);
    while (slow.count > 0)
        close(slow.fds[--slow.count]);
}

/* None is overlooked: each has been refused, but for those that are still there. */
TEST(each_of_them_is_refused)
{
    const uint64_t total = 2000;
    unsigned long long refused = 0;
    const char *said;
    pid_t pid;

    tutti_random_seed(&dice, test_seed);
    REQUIRE(share_told());
    REQUIRE(crew_prepare(&world, COUNT, "127.0.0.1:0", secret, meet) && find_port());
    world.ones[0].opts.deadline_ps = 4 * TUTTI_PS_PER_S;
    pid = start_process_0();
    attack(total);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    CHECK_INT(told->status, -TUTTI_ETIME);
    said = strchr(told->text, '(');
    if (said == NULL || sscanf(said, "(%llu refused", &refused) != 1 || refused > total ||
        refused < total - SLOW_MAX)
        TEST_FAIL("'%s'", told->text);
    while (slow.count > 0)
        close(slow.fds[--slow.count]);
}

/* ---- members who lose their minds ---- */

/* One with the right secret joins, then sends anything: the crew ends, and names it. */
static void join_and_rave(void)
{
    const struct tutti_hello hello = {
        .kind = TUTTI_GREET_JOIN, .index = 1, .count = 2, .port = 4242};
    struct tutti_call call;
    struct tutti_err err = {""};
    enum tutti_called how = TUTTI_CALL_GOING;
    uint8_t noise[4096];

    REQUIRE(tutti_call_begin(&call, &port_address, secret, strlen(secret), &hello, &err));
    while (how == TUTTI_CALL_GOING) {
        struct pollfd one = {.fd = call.fd, .events = tutti_call_events(&call)};

        REQUIRE(poll(&one, 1, 10000) == 1);
        how = tutti_call_move(&call, "root", &err);
    }
    CHECK_INT(how, TUTTI_CALL_DONE);
    fill(noise, sizeof(noise));
    if (below(2) == 0) /* something that begins well */
        tutti_frame_write_head(&(struct tutti_frame){.type = (enum tutti_frame_type)(1 + below(5)),
                                                     .bytes = (uint32_t)below(1 << 20),
                                                     .round = below(2)},
                               noise);
    tell(call.fd, noise, (size_t)below(sizeof(noise)));
    if (below(2) == 0)
        hang_up_at_once(call.fd);
    else
        tutti_call_end(&call);
}

static int sit(struct crew_one *one, struct tutti_err *err)
{
    return tutti_crew_exchange(one->crew, NULL, 0, NULL, 20 * TUTTI_PS_PER_S, err);
}

TEST(a_member_that_raves_is_named)
{
    tutti_random_seed(&dice, test_seed);
    for (uint64_t i = 0; i < test_count(1000, 100) && test_failures == 0; i++) {
        REQUIRE(crew_prepare(&world, 2, "127.0.0.1:0", secret, sit) && find_port());
        crew_start(&world, 0);
        join_and_rave();
        crew_join(&world, 0);
        if (world.ones[0].status >= 0 || strstr(world.ones[0].err.text, "process 1") == NULL)
            TEST_FAIL("status %d: '%s'", world.ones[0].status, world.ones[0].err.text);
    }
}
