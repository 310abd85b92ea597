/* A group over TCP: who comes, what they exchange, and the connections they make. */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include "runtime/group/address.h"
#include "tests/runtime/group_world.h"
#include "tests/runtime/ports.h"

static const tutti_ps SOON_PS = 10 * TUTTI_PS_PER_S;

static struct group_world world;

/* ---- joining and exchanging ---- */

static int exchange_some(struct group_one *one, struct tutti_err *err)
{
    uint32_t count = one->group->count;
    int status = 0;

    for (uint32_t round = 0; round < 20 && status == 0; round++) {
        uint64_t mine[2] = {one->group->index, round};
        uint64_t all[GROUP_MAX][2] = {{0}};

        status = tutti_group_exchange(one->group, mine, sizeof(mine), all, SOON_PS, err);
        for (uint32_t i = 0; i < count && status == 0; i++)
            if (all[i][0] != i || all[i][1] != round)
                status = tutti_fail(err, TUTTI_ECHECK, "round %u: place %u is wrong", round, i);
        if (status == 0)
            status = tutti_group_exchange(one->group, NULL, 0, NULL, SOON_PS, err);
    }
    return status;
}

TEST(they_come_and_exchange)
{
    static const uint32_t counts[] = {1, 2, 3, 4, 7, 16};

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        REQUIRE(group_prepare(&world, counts[i], "127.0.0.1:0", NULL, exchange_some));
        group_run(&world);
        group_expect_ok(&world);
        if (counts[i] == 1)
            close(world.listen_fd);
    }
}

TEST(over_IPv6_with_a_secret_too)
{
    struct tutti_group_tcp_opts opts = {
        .size = sizeof(struct tutti_group_tcp_opts), .count = 2, .root = "[::1]:0"};
    char address[TUTTI_GROUP_TCP_ADDRESS_BYTES];
    struct tutti_err err;
    int fd;

    if (tutti_group_tcp_listen(&opts, &fd, address, &err) != 0)
        SKIP("no IPv6 loopback here");
    close(fd);
    REQUIRE(group_prepare(&world, 4, "[::1]:0", "open sesame open", exchange_some));
    CHECK(strncmp(world.root, "[::1]:", 6) == 0);
    group_run(&world);
    group_expect_ok(&world);
}

TEST(who_binds_to_an_address_is_reached_there)
{
    static const char *const cases[][3] = {{"127.0.0.1:0", "127.0.0.2", "127.0.0.2:"},
                                           {"127.0.0.1:0", "lo", "127.0.0.1:"},
                                           {"127.0.0.1:0", "::1", "[::1]:"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_group_tcp_opts opts = {.size = sizeof(struct tutti_group_tcp_opts),
                                            .count = 2,
                                            .root = cases[i][0],
                                            .bind = cases[i][1]};
        char address[TUTTI_GROUP_TCP_ADDRESS_BYTES] = "";
        struct tutti_err err;
        int fd = -1;

        if (tutti_group_tcp_listen(&opts, &fd, address, &err) == -TUTTI_EIO && i == 2)
            SKIP("no IPv6 loopback here");
        close(fd);
        if (strncmp(address, cases[i][2], strlen(cases[i][2])) != 0)
            TEST_FAIL("bound to '%s' it is told to be at '%s'", cases[i][1], address);
    }
}

TEST(in_any_order_and_late)
{
    static const unsigned delays_ms[3][4] = {{0, 30, 60, 90}, {300, 0, 0, 150}, {0, 200, 0, 0}};

    for (size_t i = 0; i < 3; i++) {
        REQUIRE(group_prepare(&world, 4, "localhost:0", "open sesame open", exchange_some));
        for (uint32_t j = 0; j < 4; j++)
            world.ones[j].delay_ms = delays_ms[i][j];
        group_run(&world);
        group_expect_ok(&world);
    }
}

/* The port is free until process 0 comes, late. */
TEST(nobody_minds_that_process_0_is_late)
{
    char where[32]; /* no port that the system may hand out to another meanwhile */

    snprintf(where, sizeof(where), "127.0.0.1:%u", test_free_port(test_seed));
    REQUIRE(group_prepare(&world, 3, where, NULL, exchange_some));
    close(world.listen_fd);
    world.ones[0].opts.has_listen_fd = false;
    world.ones[0].delay_ms = 400;
    group_run(&world);
    group_expect_ok(&world);
}

static int exchange_much(struct group_one *one, struct tutti_err *err)
{
    enum { BYTES = 3 << 20 };
    uint32_t count = one->group->count;
    uint8_t *mine = malloc(BYTES);
    uint8_t *all = malloc((size_t)count * BYTES);
    int status;

    memset(mine, (int)one->group->index + 1, BYTES);
    status = tutti_group_exchange(one->group, mine, BYTES, all, SOON_PS, err);
    for (uint32_t i = 0; i < count && status == 0; i++)
        for (size_t j = 0; j < BYTES && status == 0; j++)
            if (all[(size_t)i * BYTES + j] != i + 1)
                status = tutti_fail(err, TUTTI_ECHECK, "byte %zu of %u is wrong", j, i);
    free(mine);
    free(all);
    return status;
}

TEST(some_MiB_pass_as_well)
{
    REQUIRE(group_prepare(&world, 3, "127.0.0.1:0", NULL, exchange_much));
    group_run(&world);
    group_expect_ok(&world);
}

static int agree_on_much(struct group_one *one, struct tutti_err *err)
{
    int status = tutti_group_same(one->group, "schedule", "ring", SOON_PS, err);

    if (status == 0)
        status = tutti_group_agree(one->group, 0, SOON_PS, err);
    if (status == 0 && one->group->index >= 2)
        status = tutti_fail(err, TUTTI_ELACK, "no such thing here");
    return tutti_group_agree(one->group, status, SOON_PS, err);
}

TEST(they_agree_or_all_know_who_does_not)
{
    REQUIRE(group_prepare(&world, 4, "127.0.0.1:0", NULL, agree_on_much));
    group_run(&world);
    for (uint32_t i = 0; i < 4; i++)
        group_expect(&world, i, -TUTTI_ELACK, "process 2 of 4: no such thing here");
}

static int differ(struct group_one *one, struct tutti_err *err)
{
    return tutti_group_same(one->group, "schedule", one->group->index == 3 ? "tree" : "ring",
                            SOON_PS, err);
}

TEST(a_difference_is_shown_with_both_values)
{
    REQUIRE(group_prepare(&world, 4, "127.0.0.1:0", NULL, differ));
    group_run(&world);
    group_expect(&world, 0, -TUTTI_EINVAL, "process 3 of 4 has schedule 'tree', process 0 'ring'");
    group_expect(&world, 1, -TUTTI_EINVAL, "process 3 of 4 has schedule 'tree', process 1 'ring'");
    group_expect(&world, 3, -TUTTI_EINVAL, "process 0 of 4 has schedule 'ring', process 3 'tree'");
}

/* ---- links ---- */

enum { CONGESTION_BYTES = 16 };

static const char *congestion_of(int fd, char text[CONGESTION_BYTES])
{
    socklen_t bytes = CONGESTION_BYTES;

    memset(text, 0, CONGESTION_BYTES);
    (void)getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, text, &bytes);
    text[CONGESTION_BYTES - 1] = '\0';
    return text;
}

/* Two links with everybody, and three more between 0 and 1; each carries the two indices across. */
static int link_up(struct group_one *one, struct tutti_err *err)
{
    struct tutti_group_tcp_link wanted[2 * GROUP_MAX + 3] = {{.peer = 0}};
    int fds[2 * GROUP_MAX + 3];
    uint32_t me = one->group->index;
    size_t count = 0;
    int status;

    for (uint32_t i = 0; i < one->group->count; i++)
        for (uint64_t key = 0; key < (i + me == 1 ? 5 : 2) && i != me; key++)
            wanted[count++] = (struct tutti_group_tcp_link){.peer = i, .key = key << 40};
    status = tutti_group_tcp_links(one->group, wanted, count, fds, SOON_PS, err);
    for (size_t i = 0; i < count && status == 0; i++) {
        uint64_t out[2] = {me, wanted[i].key};

        if (send(fds[i], out, sizeof(out), 0) != sizeof(out))
            status = tutti_fail(err, TUTTI_EIO, "cannot send");
    }
    for (size_t i = 0; i < count && status == 0; i++) {
        struct pollfd readable = {.fd = fds[i], .events = POLLIN};
        uint64_t in[2] = {99, 99};
        char congestion[CONGESTION_BYTES];
        int on = 0;
        socklen_t bytes = sizeof(on);

        (void)poll(&readable, 1, 10000);
        if (recv(fds[i], in, sizeof(in), 0) != sizeof(in) || in[0] != wanted[i].peer ||
            in[1] != wanted[i].key)
            status = tutti_fail(err, TUTTI_ECHECK, "link %zu leads to %u, not %u", i,
                                (unsigned)in[0], wanted[i].peer);
        (void)getsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &on, &bytes);
        if (on == 0 || (fcntl(fds[i], F_GETFL) & O_NONBLOCK) == 0)
            status = tutti_fail(err, TUTTI_ECHECK, "link %zu delays or blocks", i);
        if (strcmp(congestion_of(fds[i], congestion), "reno") != 0)
            status = tutti_fail(err, TUTTI_ECHECK, "link %zu is paced by %s", i, congestion);
    }
    /* Nobody closes before all have read. */
    if (status == 0)
        status = tutti_group_exchange(one->group, NULL, 0, NULL, SOON_PS, err);
    for (size_t i = 0; i < count && status == 0; i++)
        close(fds[i]);
    return status;
}

static int link_up_twice(struct group_one *one, struct tutti_err *err)
{
    int status = link_up(one, err);

    return status < 0 ? status : link_up(one, err);
}

TEST(links_lead_where_they_should)
{
    static const uint32_t counts[] = {2, 3, 7};

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        REQUIRE(group_prepare(&world, counts[i], "127.0.0.1:0", i == 1 ? "open sesame open" : NULL,
                              link_up_twice));
        group_run(&world);
        group_expect_ok(&world);
    }
}

/* No network lies between two addresses of loopback, either. */
TEST(who_stays_on_the_host_is_not_paced)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
    struct tutti_address other = {
        .as.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000101)},
        .bytes = sizeof(other.as.v4)};
    int call = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char text[CONGESTION_BYTES];
    struct tutti_err err;
    int listener = -1;
    int client;

    CHECK_OK(tutti_address_listen(&other, &listener, &err), err);
    tutti_address_of_socket(listener, &other);
    tutti_socket_unpaced(call);
    CHECK_INT(bind(call, (struct sockaddr *)&own, sizeof(own)), 0);
    CHECK_INT(connect(call, &other.as.any, other.bytes), 0);
    client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    tutti_socket_tune(call, 1000, true);
    tutti_socket_tune(client, 1000, true);
    CHECK_TEXT(congestion_of(call, text), "reno");
    CHECK_TEXT(congestion_of(client, text), "reno");
    close(client);
    close(call);
    close(listener);
}

/* Congestion is the system's affair of who may lead elsewhere, as one that leads nowhere yet. */
TEST(who_leads_elsewhere_is_paced_as_the_system_will)
{
    int call = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char usual[CONGESTION_BYTES];
    char text[CONGESTION_BYTES];

    (void)congestion_of(call, usual);
    tutti_socket_unpaced(call);
    CHECK_TEXT(congestion_of(call, text), "reno");
    tutti_socket_tune(call, 1000, true);
    CHECK_TEXT(congestion_of(call, text), usual);
    close(call);
}

TEST(addresses_tell_what_is_one_host_for_sure)
{
    static const struct {
        const char *a;
        const char *b;
        bool same;
    } cases[] = {{"10.0.0.1", "10.0.0.1", true},        {"10.0.0.1", "10.0.0.2", false},
                 {"127.0.0.1", "127.0.1.1", true},      {"::1", "::1", true},
                 {"::ffff:10.0.0.1", "10.0.0.1", true}, {"10.0.0.1", "127.0.0.1", true},
                 {"fd00::1", "fd00::2", false},         {"fd00::1", "::1", true}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_address a;
        struct tutti_address b;
        struct tutti_err err;

        CHECK_OK(tutti_address_of_interface(cases[i].a, AF_UNSPEC, &a, &err), err);
        CHECK_OK(tutti_address_of_interface(cases[i].b, AF_UNSPEC, &b, &err), err);
        tutti_address_set_port(&a, 1);
        CHECK_INT(tutti_address_same_host(&a, &b), cases[i].same);
        CHECK_INT(tutti_address_same_host(&b, &a), cases[i].same);
    }
}

static int want_alone(struct group_one *one, struct tutti_err *err)
{
    struct tutti_group_tcp_link wanted = {.peer = 1, .key = 7};
    int fd;

    return tutti_group_tcp_links(one->group, &wanted, one->group->index == 2 ? 1 : 0, &fd, SOON_PS,
                                 err);
}

TEST(a_link_that_one_side_alone_wants_is_refused)
{
    REQUIRE(group_prepare(&world, 3, "127.0.0.1:0", NULL, want_alone));
    group_run(&world);
    for (uint32_t i = 0; i < 3; i++)
        group_expect(&world, i, -TUTTI_EINVAL,
                     "process 2 wants a link with process 1 and key 7, which does not");
}

static int want_in_vain(struct group_one *one, struct tutti_err *err)
{
    struct tutti_group_tcp_link wanted = {.peer = 1, .key = 7};
    int fd;

    return tutti_group_tcp_links(one->group, &wanted, one->group->index == 0 ? 1 : 0, &fd,
                                 300 * TUTTI_PS_PER_MS, err);
}

TEST(a_link_that_nobody_makes_is_named_at_the_deadline)
{
    REQUIRE(group_prepare(&world, 3, "127.0.0.1:0", NULL, want_in_vain));
    group_run(&world);
    for (uint32_t i = 0; i < 3; i++)
        group_expect(&world, i, -TUTTI_ETIME, "no link with process 1 of 3 (key 7) within 300ms");
}
