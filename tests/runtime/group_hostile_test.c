/* Ten thousand hostile streams at a rendezvous that is waiting for its group: it neither falls nor
 * hangs nor grows, lets no stranger in, and the right processes join as if nothing had been. */
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "runtime/group/talk.h"
#include "tests/runtime/group_strangers.h"

static struct group_world world;

static int meet(struct group_one *one, struct tutti_err *err)
{
    uint32_t mine = one->group->index;
    uint32_t all[COUNT];
    int status =
        tutti_group_exchange(one->group, &mine, sizeof(mine), all, 20 * TUTTI_PS_PER_S, err);

    for (uint32_t i = 0; i < COUNT && status == 0; i++)
        if (all[i] != i)
            status = tutti_fail(err, TUTTI_ECHECK, "a stranger sits at %u", i);
    return status;
}

static bool find_port(void)
{
    char host[TUTTI_HOST_BYTES];
    struct tutti_err err;
    uint16_t port;

    return tutti_address_split(world.root, host, &port, &err) == 0 &&
           tutti_address_resolve(host, port, 0, TUTTI_PS_PER_S, &port_address, &err) == 0;
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
    REQUIRE(group_prepare(&world, COUNT, "127.0.0.1:0", secret, meet) && find_port());
    world.ones[0].opts.deadline_ps = 500 * TUTTI_PS_PER_S;
    pid = start_process_0(&world);
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
    CHECK(after - before <= growth_bytes_max);
    CHECK_INT(waitpid(pid, NULL, WNOHANG), 0);
    /* The slow ones are still there while the group comes. */
    group_start(&world, 1);
    group_start(&world, 2);
    group_join(&world, 1);
    group_join(&world, 2);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    CHECK_INT(world.ones[1].status, 0);
    CHECK_INT(world.ones[2].status, 0);
    if (told->status != 0)
        TEST_FAIL("process 0: status %d: %s", told->status, told->text);
    CHECK(descriptors > 0 && descriptors < 20);
    CHECK(told->logged_count > 0 && told->logged_count < 1000);
    see_off_the_slow();
}

/* None is overlooked: each has been refused, but for those that are still there. */
TEST(each_of_them_is_refused)
{
    const double start = seconds();
    uint64_t total = 0;
    unsigned long long refused = 0;
    const char *said;
    pid_t pid;

    tutti_random_seed(&dice, test_seed);
    REQUIRE(share_told());
    REQUIRE(group_prepare(&world, COUNT, "127.0.0.1:0", secret, meet) && find_port());
    world.ones[0].opts.deadline_ps = 4 * TUTTI_PS_PER_S;
    pid = start_process_0(&world);
    for (; total < 2000 && seconds() < start + 2.5; total += 50) /* while it is there */
        attack(50);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    CHECK_INT(told->status, -TUTTI_ETIME);
    said = strchr(told->text, '(');
    if (said == NULL || sscanf(said, "(%llu refused", &refused) != 1 || refused > total ||
        refused + SLOW_MAX < total)
        TEST_FAIL("'%s'", told->text);
    see_off_the_slow();
}

/* ---- members who lose their minds ---- */

/* One with the right secret joins, then sends anything: the group ends, and names it. */
static void join_and_rave(void)
{
    const struct tutti_hello hello = {
        .kind = TUTTI_HANDSHAKE_JOIN, .index = 1, .count = 2, .port = 4242};
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

static int sit(struct group_one *one, struct tutti_err *err)
{
    return tutti_group_exchange(one->group, NULL, 0, NULL, 20 * TUTTI_PS_PER_S, err);
}

TEST(a_member_that_raves_is_named)
{
    tutti_random_seed(&dice, test_seed);
    for (uint64_t i = 0; i < test_count(1000, 100) && test_failures == 0; i++) {
        REQUIRE(group_prepare(&world, 2, "127.0.0.1:0", secret, sit) && find_port());
        group_start(&world, 0);
        join_and_rave();
        group_join(&world, 0);
        if (world.ones[0].status >= 0 || strstr(world.ones[0].err.text, "process 1") == NULL)
            TEST_FAIL("status %d: '%s'", world.ones[0].status, world.ones[0].err.text);
    }
}
