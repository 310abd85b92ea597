/* Who is not let into a group, what each side is told of it, and who is missing in the end. */
#include <poll.h>
#include <sys/socket.h>

#include "runtime/group/address.h"
#include "runtime/group/progress.h"
#include "runtime/group/talk.h"
#include "tests/runtime/group_world.h"

static const tutti_ps SOON_PS = 10 * TUTTI_PS_PER_S;

static struct group_world world;

/* ---- what process 0 logs ---- */

static struct {
    pthread_mutex_t lock; /* guards the text */
    char text[1 << 16];
    unsigned line_count;
} logged = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void take_line(void *data, const char *line)
{
    size_t used;

    (void)data;
    pthread_mutex_lock(&logged.lock);
    used = strlen(logged.text);
    snprintf(logged.text + used, sizeof(logged.text) - used, "%s\n", line);
    logged.line_count++;
    pthread_mutex_unlock(&logged.lock);
}

static void expect_log(const char *words)
{
    pthread_mutex_lock(&logged.lock);
    if (strstr(logged.text, words) == NULL)
        TEST_FAIL("the log lacks '%s':\n%s", words, logged.text);
    pthread_mutex_unlock(&logged.lock);
}

static int meet(struct group_one *one, struct tutti_err *err)
{
    return tutti_group_exchange(one->group, NULL, 0, NULL, SOON_PS, err);
}

static bool prepare(uint32_t count, const char *secret)
{
    logged.text[0] = '\0';
    logged.line_count = 0;
    if (!group_prepare(&world, count, "127.0.0.1:0", secret, meet))
        return false;
    world.ones[0].opts.log = take_line;
    return true;
}

/* One process too many comes first, then the right ones: they join all the same. */
static void with_one_more(const struct tutti_group_tcp_opts *more, const char *words,
                          const char *log_words)
{
    struct group_world *w = &world;
    struct tutti_group *group = NULL;
    struct tutti_err err = {""};

    group_start(w, 0);
    group_start(w, 1);
    CHECK_INT(tutti_group_tcp_open(more, &group, &err), -TUTTI_EINVAL);
    CHECK(group == NULL);
    if (strstr(err.text, words) == NULL)
        TEST_FAIL("'%s' lacks '%s'", err.text, words);
    for (uint32_t i = 2; i < w->count; i++)
        group_start(w, i);
    for (uint32_t i = 0; i < w->count; i++)
        group_join(w, i);
    group_expect_ok(w);
    expect_log(log_words);
}

TEST(a_wrong_secret_is_refused)
{
    struct tutti_group_tcp_opts more;

    REQUIRE(prepare(3, "open sesame open"));
    more = world.ones[2].opts;
    more.secret = "Open sesame open";
    with_one_more(&more, "has another secret than this process", "it has the wrong secret");
}

TEST(no_secret_is_refused)
{
    struct tutti_group_tcp_opts more;

    REQUIRE(prepare(3, "open sesame open"));
    more = world.ones[2].opts;
    more.secret = NULL;
    with_one_more(&more, "wants a secret, and this process has none", "it has no secret");
}

TEST(a_secret_that_nobody_asked_for_is_refused)
{
    struct tutti_group_tcp_opts more;

    REQUIRE(prepare(3, NULL));
    more = world.ones[2].opts;
    more.secret = "open sesame open";
    more.secret_bytes = 16;
    with_one_more(&more, "has no secret, and this process has one",
                  "it has a secret, and this process none");
}

TEST(another_count_is_shown_to_both)
{
    struct tutti_group_tcp_opts more;

    REQUIRE(prepare(3, "open sesame open"));
    more = world.ones[2].opts;
    more.count = 5;
    with_one_more(&more, "counts 3 processes, this process 5",
                  "it counts 5 processes, process 0 counts 3");
}

TEST(an_index_comes_once)
{
    struct tutti_group_tcp_opts more;
    struct tutti_group *group = NULL;
    struct tutti_err err = {""};
    int status = 0;

    REQUIRE(prepare(3, "open sesame open"));
    more = world.ones[1].opts;
    group_start(&world, 0);
    group_start(&world, 1);
    /* Whichever of the two comes first has it. */
    world.ones[2].delay_ms = 200;
    group_start(&world, 2);
    status = tutti_group_tcp_open(&more, &group, &err);
    if (status == 0) {
        (void)tutti_group_exchange(group, NULL, 0, NULL, SOON_PS, &err);
        tutti_group_close(group);
    }
    for (uint32_t i = 0; i < 3; i++)
        group_join(&world, i);
    CHECK(status == 0 || world.ones[1].status == 0);
    CHECK(status == -TUTTI_EINVAL || world.ones[1].status == -TUTTI_EINVAL);
    if (status < 0 && strstr(err.text, "process 1 of 3 has already come to '127.0.0.1:") == NULL)
        TEST_FAIL("'%s'", err.text);
    CHECK_INT(world.ones[2].status, 0);
    expect_log("refused process 1 of 3 at '127.0.0.1:");
    expect_log("process 1 has already come, from '127.0.0.1:");
}

/* ---- by hand ---- */

static bool call(struct tutti_call *call, const struct tutti_hello *hello, const char *secret)
{
    char host[TUTTI_HOST_BYTES];
    struct tutti_address to;
    struct tutti_err err = {""};
    uint16_t port;

    CHECK_OK(tutti_address_split(world.root, host, &port, &err), err);
    CHECK_OK(tutti_address_resolve(host, port, 0, TUTTI_PS_PER_S, &to, &err), err);
    return tutti_call_begin(call, &to, secret, secret == NULL ? 0 : strlen(secret), hello, &err);
}

static enum tutti_called finish(struct tutti_call *call, struct tutti_err *err)
{
    enum tutti_called how = TUTTI_CALL_GOING;

    while (how == TUTTI_CALL_GOING) {
        struct pollfd one = {.fd = call->fd, .events = tutti_call_events(call)};

        if (poll(&one, 1, 10000) <= 0)
            return TUTTI_CALL_FAILED;
        how = tutti_call_move(call, "root", err);
    }
    return how;
}

TEST(another_version_is_refused)
{
    const struct tutti_hello hello = {
        .kind = TUTTI_HANDSHAKE_JOIN, .index = 1, .count = 2, .port = 1};
    struct tutti_call caller;
    struct tutti_err err = {""};

    REQUIRE(prepare(2, "open sesame open"));
    group_start(&world, 0);
    REQUIRE(call(&caller, &hello, "open sesame open"));
    caller.handshake.hello[11] = 9;
    CHECK_INT(finish(&caller, &err), TUTTI_CALL_REFUSED);
    CHECK_TEXT(err.text, "'root' has version 2 of the protocol, this process 2");
    tutti_call_end(&caller);
    group_start(&world, 1);
    group_join(&world, 0);
    group_join(&world, 1);
    group_expect_ok(&world);
    expect_log("version 9 of the protocol, not 2");
}

TEST(no_member_is_given_that_is_not_there)
{
    static const struct {
        uint32_t index;
        uint32_t port;
        enum tutti_handshake_kind kind;
    } cases[] = {{0, 1, TUTTI_HANDSHAKE_JOIN},          {2, 1, TUTTI_HANDSHAKE_JOIN},
                 {UINT32_MAX, 1, TUTTI_HANDSHAKE_JOIN}, {1, 0, TUTTI_HANDSHAKE_JOIN},
                 {1, 65536, TUTTI_HANDSHAKE_JOIN},      {1, 1, TUTTI_HANDSHAKE_LINK}};

    REQUIRE(prepare(2, "open sesame open"));
    group_start(&world, 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct tutti_hello hello = {
            .kind = cases[i].kind, .index = cases[i].index, .count = 2, .port = cases[i].port};
        struct tutti_call caller;
        struct tutti_err err = {""};

        REQUIRE(call(&caller, &hello, "open sesame open"));
        CHECK_INT(finish(&caller, &err), TUTTI_CALL_REFUSED);
        tutti_call_end(&caller);
    }
    group_start(&world, 1);
    group_join(&world, 0);
    group_join(&world, 1);
    group_expect_ok(&world);
}

/* ---- who is missing ---- */

TEST(who_has_not_come_is_named_to_all)
{
    REQUIRE(prepare(8, "open sesame open"));
    world.ones[0].opts.deadline_ps = 500 * TUTTI_PS_PER_MS;
    for (uint32_t i = 0; i < 8; i++)
        if (i != 2 && i != 5)
            group_start(&world, i);
    for (uint32_t i = 0; i < 8; i++) {
        if (i == 2 || i == 5)
            continue;
        group_join(&world, i);
        group_expect(&world, i, -TUTTI_ETIME, "processes 2 and 5 of 8 have not come within 500ms");
    }
}

TEST(one_alone_is_named_in_the_singular_and_refusals_are_hinted_at)
{
    REQUIRE(prepare(2, "open sesame open"));
    world.ones[0].opts.deadline_ps = 500 * TUTTI_PS_PER_MS;
    world.ones[1].opts.secret = "Open sesame open";
    group_run(&world);
    group_expect(&world, 0, -TUTTI_ETIME,
                 "process 1 of 2 has not come within 500ms (1 refused, last 127.0.0.1:");
    group_expect(&world, 0, -TUTTI_ETIME, "it has the wrong secret)");
    group_expect(&world, 1, -TUTTI_EINVAL, "has another secret than this process");
}

TEST(a_process_0_that_is_not_there_is_named)
{
    REQUIRE(prepare(2, NULL));
    close(world.listen_fd);
    world.ones[1].opts.deadline_ps = 300 * TUTTI_PS_PER_MS;
    group_start(&world, 1);
    group_join(&world, 1);
    group_expect(&world, 1, -TUTTI_ETIME,
                 "process 0 of 2 has not been reached within 300ms: cannot connect to '127.0.0.1:");
    group_expect(&world, 1, -TUTTI_ETIME, "Connection refused");
}

/* A port at which somebody else listens, who never says a word. */
TEST(a_silent_process_0_is_named)
{
    REQUIRE(prepare(2, NULL));
    world.ones[1].opts.deadline_ps = 300 * TUTTI_PS_PER_MS;
    group_start(&world, 1);
    group_join(&world, 1);
    close(world.listen_fd);
    group_expect(&world, 1, -TUTTI_ETIME,
                 "process 0 of 2 has not been reached within 300ms: no "
                 "answer from '127.0.0.1:");
}

static int come_late(struct group_one *one, struct tutti_err *err)
{
    struct timespec late = {.tv_nsec = 600 * 1000000L};

    if (one->group->index == 1)
        (void)nanosleep(&late, NULL);
    return tutti_group_exchange(one->group, NULL, 0, NULL, 250 * TUTTI_PS_PER_MS, err);
}

TEST(who_comes_too_late_to_an_exchange_is_named)
{
    REQUIRE(prepare(3, NULL));
    for (uint32_t i = 0; i < 3; i++)
        world.ones[i].play = come_late;
    group_run(&world);
    for (uint32_t i = 0; i < 3; i++)
        group_expect(&world, i, -TUTTI_ETIME, "process 1 of 3 has not come within 250ms");
}

/* ---- what is wrong from the start ---- */

TEST(without_a_secret_loopback_alone_is_served)
{
    static const struct {
        const char *root;
        const char *bind;
        const char *words;
    } cases[] = {
        {"0.0.0.0:0", NULL, "without a secret loopback alone is listened at"},
        {"127.0.0.1:0", "0.0.0.0", "without a secret loopback alone is listened at"},
        {"127.0.0.1", NULL, "no address '127.0.0.1'"},
        {"::1:80", NULL, "an IPv6 one is [IPv6]:port"},
        {"[::1]:65536", NULL, "no port '65536'"},
        {":80", NULL, "no address ':80'"},
        {"[]:80", NULL, "no host"},
        {"127.0.0.1:0", "no-such-interface", "no interface 'no-such-interface'"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_group_tcp_opts opts = {.size = sizeof(struct tutti_group_tcp_opts),
                                            .count = 2,
                                            .root = cases[i].root,
                                            .bind = cases[i].bind};
        char address[TUTTI_GROUP_TCP_ADDRESS_BYTES];
        struct tutti_err err = {""};
        int fd = -1;

        CHECK_INT(tutti_group_tcp_listen(&opts, &fd, address, &err), -TUTTI_EINVAL);
        if (strstr(err.text, cases[i].words) == NULL)
            TEST_FAIL("'%s': '%s' lacks '%s'", cases[i].root, err.text, cases[i].words);
    }
}

TEST(wrong_options_are_named)
{
    struct tutti_group_tcp_opts opts = {
        .size = sizeof(struct tutti_group_tcp_opts), .index = 4, .count = 4, .root = "127.0.0.1:1"};
    struct tutti_group *group = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_group_tcp_open(&opts, &group, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "no process 4 of 4 (1 to 65536, counted from 0)");
    opts.index = 1;
    opts.root = "127.0.0.1:0";
    CHECK_INT(tutti_group_tcp_open(&opts, &group, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "no port of process 0 in '127.0.0.1:0'");
    opts.root = NULL;
    CHECK_INT(tutti_group_tcp_open(&opts, &group, &err), -TUTTI_EINVAL);
    opts = (struct tutti_group_tcp_opts){.size = sizeof(struct tutti_group_tcp_opts),
                                         .count = 2,
                                         .root = "127.0.0.1:0",
                                         .has_listen_fd = true,
                                         .listen_fd = 1};
    CHECK_INT(tutti_group_tcp_open(&opts, &group, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "descriptor 1 is no listening socket");
}

/* Whoever sits at the port of process 0 gets what tells a right guess from a wrong one, and may try
 * as many as he likes. */
TEST(a_secret_that_can_be_guessed_is_refused)
{
    struct tutti_group_tcp_opts opts = {.size = sizeof(struct tutti_group_tcp_opts),
                                        .index = 1,
                                        .count = 2,
                                        .root = "127.0.0.1:1",
                                        .secret = "open sesame open",
                                        .secret_bytes = 15};
    char address[TUTTI_GROUP_TCP_ADDRESS_BYTES];
    struct tutti_group *group = NULL;
    struct tutti_err err = {""};
    int fd = -1;

    CHECK_INT(tutti_group_tcp_open(&opts, &group, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "a secret of 15 bytes can be guessed (16 or more, drawn at random)");
    opts.index = 0;
    opts.root = "127.0.0.1:0";
    CHECK_INT(tutti_group_tcp_listen(&opts, &fd, address, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "a secret of 15 bytes can be guessed (16 or more, drawn at random)");
    opts.secret_bytes = 16;
    CHECK_OK(tutti_group_tcp_listen(&opts, &fd, address, &err), err);
    close(fd);
}

/* ---- where is listened ---- */

static bool listens_at(int fd, const struct tutti_address *address)
{
    struct tutti_address own;

    tutti_address_of_socket(fd, &own);
    tutti_address_set_port(&own, 0);
    return tutti_address_same(&own, address);
}

/* An address of this host that is not its loopback; nothing is sent there (RFC 5737). */
static bool find_own(struct tutti_address *ret)
{
    struct tutti_address away;

    CHECK(tutti_address_of_numbers("192.0.2.1", &away));
    tutti_address_set_port(&away, 9);
    return tutti_address_towards(&away, ret) && !tutti_address_is_loopback(ret);
}

static struct tutti_address expected;

static int meet_there(struct group_one *one, struct tutti_err *err)
{
    const struct tutti_group_tcp *group = (const struct tutti_group_tcp *)one->group;

    CHECK(listens_at(group->links->fd, &expected));
    return meet(one, err);
}

TEST(with_a_secret_an_address_in_numbers_is_listened_at_alone)
{
    char where[TUTTI_ADDRESS_TEXT_BYTES];

    if (!find_own(&expected))
        SKIP("no address here but the loopback's");
    REQUIRE(group_prepare(&world, 3, tutti_address_text(&expected, where), "open sesame open",
                          meet_there));
    CHECK(listens_at(world.listen_fd, &expected));
    group_run(&world);
    group_expect_ok(&world);
}

/* A router may pass on what is sent to an address of its own; and a name may mean another address
 * to others. */
TEST(other_addresses_and_names_are_listened_for_on_all)
{
    static const char *const roots[] = {"192.0.2.1:0", "here.example:0"};
    struct tutti_address all[2];

    tutti_address_any(AF_INET6, false, &all[0]);
    tutti_address_any(AF_INET, false, &all[1]);
    for (size_t i = 0; i < 2; i++) {
        REQUIRE(group_prepare(&world, 2, roots[i], "open sesame open", meet));
        CHECK(listens_at(world.listen_fd, &all[0]) || listens_at(world.listen_fd, &all[1]));
        close(world.listen_fd);
    }
}

/* With a secret, an interface may be chosen by its name, and is told to the others. */
TEST(an_interface_is_chosen_by_name)
{
    REQUIRE(group_prepare(&world, 3, "127.0.0.1:0", "open sesame open", meet));
    for (uint32_t i = 0; i < 3; i++)
        world.ones[i].opts.bind = i == 1 ? "127.0.0.1" : "lo";
    group_run(&world);
    group_expect_ok(&world);
}
