/* Ten thousand hostile streams at the port where a process lets in the links of its group, while
 * the group makes links over and over: it neither falls nor hangs nor grows, no stranger gets in,
 * and every link leads where it should. */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "runtime/group/progress.h"
#include "tests/runtime/group_strangers.h"

enum { LINKS = 2 }; /* of a process: one to each other */

static struct group_world world;

/* What processes share besides. */
static struct shared {
    struct tutti_address port;
    atomic_bool there;
    atomic_bool enough;
    atomic_uint round_count;
} * shared;

/* ---- the group ---- */

/* Each says over it who he is; then all listen. */
static int shake_hands(struct tutti_group *group, int fd, uint32_t peer, bool listen,
                       struct tutti_err *err)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    uint8_t mine = (uint8_t)(100 + group->index);
    uint8_t theirs = 0;

    if (!listen && send(fd, &mine, 1, MSG_NOSIGNAL) == 1)
        return 0;
    if (listen && poll(&one, 1, 20000) == 1 && recv(fd, &theirs, 1, 0) == 1 && theirs == 100 + peer)
        return 0;
    return tutti_fail(err, TUTTI_ECHECK, "a link of process %u to %u says %u", group->index, peer,
                      theirs);
}

static int make_links(struct tutti_group *group, struct tutti_err *err)
{
    struct tutti_group_tcp_link wanted[LINKS];
    int fds[LINKS];
    int status;

    for (uint32_t i = 0; i < LINKS; i++) {
        uint32_t peer = (group->index + 1 + i) % COUNT;

        wanted[i] = (struct tutti_group_tcp_link){.peer = peer, .key = group->index + peer};
    }
    status = tutti_group_tcp_links(group, wanted, LINKS, fds, 60 * TUTTI_PS_PER_S, err);
    for (uint32_t i = 0; i < 2 * LINKS && status == 0; i++)
        status = shake_hands(group, fds[i % LINKS], wanted[i % LINKS].peer, i >= LINKS, err);
    for (uint32_t i = 0; i < LINKS && status == 0; i++)
        close(fds[i]);
    return status;
}

/* Until process 0 has had enough. */
static int link_again_and_again(struct group_one *one, struct tutti_err *err)
{
    struct tutti_group_tcp *group = (struct tutti_group_tcp *)one->group;
    bool first = group->base.index == 0;
    bool enough[COUNT] = {false};
    int status = 0;

    if (first) {
        tutti_address_of_socket(group->links->fd, &shared->port);
        atomic_store(&shared->there, true);
    }
    while (status == 0 && !enough[0]) {
        bool mine = first && atomic_load(&shared->enough);

        status =
            tutti_group_exchange(one->group, &mine, sizeof(mine), enough, 60 * TUTTI_PS_PER_S, err);
        if (status == 0)
            status = make_links(one->group, err);
        if (first && status == 0)
            atomic_fetch_add(&shared->round_count, 1);
    }
    return status;
}

static bool await_group(void)
{
    for (int i = 0; i < 2000 && !atomic_load(&shared->there); i++)
        (void)poll(NULL, 0, 10);
    port_address = shared->port;
    return atomic_load(&shared->there);
}

/* A hundred at a time, and each time until links have been made in spite of them. */
static void attack_rounds(uint64_t total)
{
    for (uint64_t i = 0; i < total && test_failures == 0; i += 100) {
        unsigned before = atomic_load(&shared->round_count);

        attack(100);
        for (int k = 0; k < 6000 && atomic_load(&shared->round_count) == before; k++)
            (void)poll(NULL, 0, 10);
        if (atomic_load(&shared->round_count) == before)
            TEST_FAIL("no link in a minute");
    }
}

TEST(ten_thousand_streams_make_no_link)
{
    uint64_t total = test_count(10000, 10000);
    long before;
    long after;
    unsigned round_count;
    double start;
    pid_t pid;

    tutti_random_seed(&dice, test_seed);
    usual_kind = TUTTI_HANDSHAKE_LINK;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shared != MAP_FAILED);
    REQUIRE(share_told());
    REQUIRE(group_prepare(&world, COUNT, "127.0.0.1:0", secret, link_again_and_again));
    pid = start_process_0(&world);
    REQUIRE(pid > 0);
    group_start(&world, 1);
    group_start(&world, 2);
    REQUIRE(await_group());
    start = seconds();
    attack_rounds(total / 10); /* until the C library has what it wants */
    before = resident_bytes(pid);
    attack_rounds(total - total / 10);
    after = resident_bytes(pid);
    round_count = atomic_load(&shared->round_count);
    printf("%" PRIu64 " streams in %.1f s, %u rounds of links meanwhile; process 0 has %ld KiB, "
           "and had %ld KiB; %u lines logged\n",
           total, seconds() - start, round_count, after >> 10, before >> 10, told->logged_count);
    CHECK(after - before <= growth_bytes_max);
    CHECK(descriptor_count(pid) < 200);
    CHECK_INT(waitpid(pid, NULL, WNOHANG), 0);
    /* The slow ones are still there while the last links are made. */
    atomic_store(&shared->enough, true);
    group_join(&world, 1);
    group_join(&world, 2);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    for (uint32_t i = 1; i < COUNT; i++)
        if (world.ones[i].status != 0)
            TEST_FAIL("process %u: status %d: %s", i, world.ones[i].status, world.ones[i].err.text);
    if (told->status != 0)
        TEST_FAIL("process 0: status %d: %s", told->status, told->text);
    CHECK(atomic_load(&shared->round_count) > 0);
    CHECK(told->logged_count > 0 && told->logged_count < 1000);
    see_off_the_slow();
}
