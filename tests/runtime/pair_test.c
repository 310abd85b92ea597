/* Pairs: frames both ways, ends that are events, and a group that goes on beside them. */
#include <poll.h>
#include <pthread.h>

#include "runtime/pair.h"
#include "runtime/random.h"
#include "tests/runtime/kids.h"

enum { FATE_MS_MAX = 8000, SERVER = 0, KEY = 77 };

static const tutti_ps SOON_PS = 8 * TUTTI_PS_PER_S;

static struct tutti_group_tcp_opts outside(void)
{
    struct tutti_group_tcp_opts opts = kids_opts;

    opts.root = kids_root;
    opts.deadline_ps = SOON_PS;
    return opts;
}

static uint8_t byte_of(uint64_t step, uint64_t i)
{
    return (uint8_t)(step * 31 + i * 7 + (i >> 8));
}

static int say(struct tutti_pair *pair, uint32_t kind, uint32_t incarnation, uint64_t step,
               uint64_t bytes, struct tutti_err *err)
{
    uint8_t *data = malloc(bytes + 1);
    struct tutti_pair_frame frame = {
        .kind = kind, .incarnation = incarnation, .step = step, .bytes = bytes, .data = data};
    int status;

    for (uint64_t i = 0; i < bytes; i++)
        data[i] = byte_of(step, i);
    status = tutti_pair_send(pair, &frame, SOON_PS, err);
    free(data);
    return status;
}

/* The next frame, which must be whole and right. */
static int hear(struct tutti_pair *pair, struct tutti_pair_event *ret, struct tutti_err *err)
{
    int status = tutti_pair_recv(pair, SOON_PS, ret, err);
    const uint8_t *data = ret->frame.data;

    if (status == 0 && ret->what != TUTTI_PAIR_FRAME)
        return tutti_fail(err, TUTTI_EIO, "no frame: %s",
                          ret->what == TUTTI_PAIR_END ? ret->why : "nothing comes");
    for (uint64_t i = 0; i < ret->frame.bytes && status == 0; i++)
        if (data[i] != byte_of(ret->frame.step, i))
            status = tutti_fail(err, TUTTI_ECHECK, "byte %llu of step %llu", (unsigned long long)i,
                                (unsigned long long)ret->frame.step);
    return status;
}

/* ---- between members ---- */

static const uint64_t sizes[] = {0, 1, 31, 4096, 70000, 3 << 20};

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* Each answers what it hears by as much. */
static int echo(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    struct tutti_pair *pair = NULL;
    struct tutti_pair_event event;
    int status;

    if (group->index == SERVER) {
        status = tutti_pair_accept(group, SOON_PS, &pair, err);
        if (status == 0 && pair == NULL)
            status = tutti_fail(err, TUTTI_EIO, "nobody comes");
        if (status == 0 && (tutti_pair_peer(pair)->id != 1 || tutti_pair_peer(pair)->key != KEY))
            status =
                tutti_fail(err, TUTTI_ECHECK, "process %u, key %llu", tutti_pair_peer(pair)->id,
                           (unsigned long long)tutti_pair_peer(pair)->key);
    } else {
        status = tutti_pair_open(group, SERVER, KEY, SOON_PS, &pair, err);
        if (status == 0 && tutti_pair_peer(pair)->id != SERVER)
            status = tutti_fail(err, TUTTI_ECHECK, "taken by %u", tutti_pair_peer(pair)->id);
    }
    /* Both send first: as long as each sends one frame nobody waits for ever. */
    for (uint64_t i = 0; i < SIZES && status == 0; i++) {
        status = say(pair, 5, 1, i, sizes[i], err);
        if (status == 0)
            status = hear(pair, &event, err);
        if (status == 0 && (event.frame.bytes != sizes[i] || event.frame.step != i ||
                            event.frame.kind != 5 || event.frame.incarnation != 1))
            status =
                tutti_fail(err, TUTTI_ECHECK, "%llu bytes", (unsigned long long)event.frame.bytes);
    }
    if (status == 0 && group->index == SERVER) {
        status = tutti_pair_recv(pair, SOON_PS, &event, err);
        if (status == 0 &&
            (event.what != TUTTI_PAIR_END || strstr(event.why, "has closed the pair") == NULL))
            status = tutti_fail(err, TUTTI_ECHECK, "no end");
    }
    tutti_pair_close(pair);
    if (status == 0) /* the group has noticed nothing of all this */
        status = tutti_group_exchange(group, NULL, 0, NULL, SOON_PS, err);
    kid_end(kid, group, status, err);
    tutti_group_close(group);
    return status;
}

static void expect_well(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (kids[i].pid == 0)
            continue;
        (void)kid_reap(i, FATE_MS_MAX);
        if (kids[i].status != 0)
            TEST_FAIL("process %u: status %d: %s", i, kids[i].status, kids[i].text);
    }
}

TEST(frames_go_both_ways_and_an_end_is_an_event)
{
    REQUIRE(kids_start(2, echo));
    expect_well(2);
}

/* ---- a server and its workers, which are no members ---- */

enum { WORKERS = 3, ROUNDS = 200 };

/* Answers workers until all have ended, while the group of two servers goes on exchanging. */
static void *exchange_on(void *data)
{
    struct tutti_group *group = data;
    struct tutti_err err = {""};
    uint32_t mine = 0;
    uint32_t all[2] = {0, 0};
    int status = 0;

    while (status == 0 && (all[0] == 0 || all[1] == 0)) {
        mine = (uint32_t)atomic_load(&kids[group->index].may);
        status = tutti_group_exchange(group, &mine, sizeof(mine), all, SOON_PS, &err);
    }
    atomic_store(&kids[group->index].at_step, status == 0 ? 1 : 2);
    return NULL;
}

static int serve(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    struct tutti_pair *pairs[WORKERS + 1] = {NULL};
    pthread_t thread;
    uint32_t ended = 0;
    size_t count = 0;
    size_t at = 0;
    int status = 0;

    if (pthread_create(&thread, NULL, exchange_on, group) != 0)
        return -TUTTI_EIO;
    atomic_store(&kid->stage, 1);
    while (status == 0 && group->index == SERVER && ended < WORKERS) {
        struct tutti_pair_event event = {.what = TUTTI_PAIR_NOTHING};
        struct tutti_pair *pair = NULL;

        status = tutti_pair_accept(group, count < 1 ? TUTTI_PS_PER_S : 0, &pair, err);
        if (pair != NULL)
            pairs[count++] = pair;
        if (status == 0)
            status = tutti_pair_wait(pairs, count, TUTTI_PS_PER_MS, &at, err);
        if (status < 0 || at == count)
            continue;
        status = tutti_pair_recv(pairs[at], 0, &event, err);
        if (status == 0 && event.what == TUTTI_PAIR_FRAME)
            (void)say(pairs[at], event.frame.kind, 1, event.frame.step, event.frame.bytes, err);
        if (status == 0 && event.what == TUTTI_PAIR_END) {
            size_t used = strlen(kid->log);

            (void)snprintf(kid->log + used, sizeof(kid->log) - used, "%s\n", event.why);
            tutti_pair_close(pairs[at]);
            pairs[at] = pairs[--count];
            ended++;
        }
        at++;
    }
    for (size_t i = 0; i < count; i++)
        tutti_pair_close(pairs[i]);
    atomic_store(&kid->may, 1);
    (void)pthread_join(thread, NULL);
    if (status == 0 && atomic_load(&kid->at_step) != 1)
        status = tutti_fail(err, TUTTI_ECHECK, "the group has ended");
    kid_end(kid, group, status, err);
    tutti_group_close(group);
    return status;
}

static void work(uint32_t number)
{
    struct tutti_group_tcp_opts opts = outside();
    struct tutti_pair *pair = NULL;
    struct tutti_pair_event event;
    struct tutti_err err = {""};
    int status;

    if (!kid_fork(number))
        return;
    status = tutti_pair_call(&opts, number, &pair, &err);
    for (uint32_t k = 0; k < ROUNDS && status == 0; k++) {
        status = say(pair, number, 1, k, 1000 * number, &err);
        if (status == 0)
            status = hear(pair, &event, &err);
        if (status == 0 && (event.frame.kind != number || event.frame.step != k))
            status = tutti_fail(&err, TUTTI_ECHECK, "another's frame");
        atomic_store(&kids[number].at_step, k + 1);
        while (number == 4 && k == ROUNDS / 2) /* to be killed there */
            pause_us(1000);
    }
    kid_end(&kids[number], NULL, status, &err);
    tutti_pair_close(pair);
    _exit(status == 0 ? 0 : 1);
}

TEST(a_worker_that_dies_ends_its_pair_and_nothing_else)
{
    int64_t until_ms = now_ms() + FATE_MS_MAX;

    REQUIRE(kids_start(2, serve));
    (void)kid_reach(SERVER, 1, FATE_MS_MAX);
    for (uint32_t i = 0; i < WORKERS; i++)
        work(2 + i);
    while (atomic_load(&kids[4].at_step) <= ROUNDS / 2 && now_ms() < until_ms)
        pause_us(500);
    (void)kid_strike(4, SIGKILL);
    (void)kid_reap(4, FATE_MS_MAX);
    for (uint32_t i = 2; i < 4; i++)
        (void)kid_reap(i, FATE_MS_MAX);
    (void)kid_reap(SERVER, FATE_MS_MAX);
    expect_well(2);
    CHECK_INT(kids[2].status, 0);
    CHECK_INT(kids[3].status, 0);
    CHECK_INT(kids[SERVER].status, 0);
    if (strstr(kids[SERVER].log, "has gone") == NULL ||
        strstr(kids[SERVER].log, "has closed the pair") == NULL)
        TEST_FAIL("the server has heard:\n%s", kids[SERVER].log);
    kids_kill();
}

/* ---- what is old, who is wrong, who is slow ---- */

/* One process: a group of one that listens, and a caller in a thread. */
struct caller {
    struct tutti_group_tcp_opts opts;
    struct tutti_pair *pair;
    int status;
    struct tutti_err err;
};

static void *call(void *data)
{
    struct caller *caller = data;

    caller->status = tutti_pair_call(&caller->opts, KEY, &caller->pair, &caller->err);
    return NULL;
}

static struct tutti_group *one_that_listens(struct tutti_err *err)
{
    struct tutti_group_tcp_opts opts = kids_opts;
    struct tutti_group *group = NULL;

    opts.count = 1;
    opts.admits = true;
    opts.has_listen_fd = true;
    CHECK_OK(tutti_group_tcp_listen(&opts, &opts.listen_fd, kids_root, err), *err);
    opts.root = kids_root;
    CHECK_OK(tutti_group_tcp_open(&opts, &group, err), *err);
    return group;
}

static bool both_ends(struct tutti_group *group, struct tutti_pair *ret[2], struct tutti_err *err)
{
    struct caller caller = {.opts = outside()};
    pthread_t thread;

    ret[0] = ret[1] = NULL;
    if (pthread_create(&thread, NULL, call, &caller) != 0)
        return false;
    CHECK_OK(tutti_pair_accept(group, SOON_PS, &ret[0], err), *err);
    (void)pthread_join(thread, NULL);
    CHECK_OK(caller.status, caller.err);
    ret[1] = caller.pair;
    return ret[0] != NULL && ret[1] != NULL;
}

TEST(what_is_older_than_expected_is_dropped)
{
    static const struct {
        uint32_t incarnation;
        uint64_t step;
        bool is_old;
    } cases[] = {{1, 900, true}, {2, 6, true},  {2, 7, false}, {0, UINT64_MAX, true},
                 {2, 8, false},  {3, 0, false}, {2, 5, true}};
    struct tutti_err err = {""};
    struct tutti_group *group = one_that_listens(&err);
    struct tutti_pair *ends[2];
    struct tutti_pair_event event;

    REQUIRE(group != NULL && both_ends(group, ends, &err));
    CHECK(tutti_pair_peer(ends[0])->id == TUTTI_PAIR_NO_MEMBER);
    CHECK_INT(tutti_pair_peer(ends[1])->id, 0);
    tutti_pair_expect(ends[0], 2, 7);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        CHECK_OK(say(ends[1], 1, cases[i].incarnation, cases[i].step, 5000, &err), err);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (cases[i].is_old)
            continue;
        CHECK_OK(hear(ends[0], &event, &err), err);
        CHECK_INT(event.frame.incarnation, cases[i].incarnation);
        CHECK_INT(event.frame.step, cases[i].step);
    }
    CHECK_OK(tutti_pair_recv(ends[0], 20 * TUTTI_PS_PER_MS, &event, &err), err);
    CHECK_INT(event.what, TUTTI_PAIR_NOTHING);
    CHECK_INT(tutti_pair_dropped(ends[0]), 4);
    /* It came before that was expected, and is looked at after. */
    CHECK_OK(say(ends[1], 1, 3, 1, 10, &err), err);
    CHECK_OK(say(ends[1], 1, 4, 0, 10, &err), err);
    pause_us(20000);
    tutti_pair_expect(ends[0], 4, 0);
    CHECK_OK(hear(ends[0], &event, &err), err);
    CHECK_INT(event.frame.incarnation, 4);
    tutti_pair_close(ends[1]);
    CHECK_OK(tutti_pair_recv(ends[0], SOON_PS, &event, &err), err);
    CHECK_INT(event.what, TUTTI_PAIR_END);
    CHECK_INT(say(ends[0], 1, 4, 0, 10, &err), -TUTTI_EIO);
    tutti_pair_close(ends[0]);
    tutti_group_close(group);
}

TEST(a_peer_that_does_not_read_is_found_at_the_deadline)
{
    static uint8_t much[64 << 20];
    struct tutti_err err = {""};
    struct tutti_group *group = one_that_listens(&err);
    struct tutti_pair *ends[2];
    struct tutti_pair_event event;
    struct tutti_pair_frame frame = {.bytes = sizeof(much), .data = much};
    int64_t when = now_ms();

    REQUIRE(group != NULL && both_ends(group, ends, &err));
    CHECK_INT(tutti_pair_send(ends[0], &frame, 200 * TUTTI_PS_PER_MS, &err), -TUTTI_ETIME);
    if (strstr(err.text, "a process ('127.0.0.1:") == NULL ||
        strstr(err.text, "has not taken a frame within 200ms") == NULL)
        TEST_FAIL("'%s'", err.text);
    if (now_ms() - when > 3000)
        TEST_FAIL("it took %lld ms", (long long)(now_ms() - when));
    CHECK_OK(tutti_pair_recv(ends[0], 0, &event, &err), err);
    CHECK_INT(event.what, TUTTI_PAIR_END);
    frame.bytes = (uint64_t)TUTTI_PAIR_BYTES_MAX + 1;
    CHECK_INT(tutti_pair_send(ends[1], &frame, SOON_PS, &err), -TUTTI_EINVAL);
    tutti_pair_close(ends[0]);
    tutti_pair_close(ends[1]);
    tutti_group_close(group);
}

TEST(strangers_get_no_pair)
{
    struct tutti_err err = {""};
    struct tutti_group *group = one_that_listens(&err);
    struct tutti_group_tcp_opts opts = outside();
    struct tutti_pair *pair = NULL;
    struct tutti_group alone = {.count = 1};
    struct pollfd one = {.events = POLLIN};

    REQUIRE(group != NULL);
    opts.secret = "open Sesame open";
    CHECK_INT(tutti_pair_call(&opts, KEY, &pair, &err), -TUTTI_EINVAL);
    if (strstr(err.text, "has another secret") == NULL)
        TEST_FAIL("'%s'", err.text);
    one.fd = tutti_pair_accept_fd(group);
    CHECK_INT(poll(&one, 1, 0), 0);
    CHECK_OK(tutti_pair_accept(group, 0, &pair, &err), err);
    CHECK(pair == NULL);
    CHECK_INT(tutti_pair_open(group, 0, KEY, SOON_PS, &pair, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_pair_accept(&alone, 0, &pair, &err), -TUTTI_ELACK);
    tutti_group_close(group);
    opts = outside();
    opts.deadline_ps = 300 * TUTTI_PS_PER_MS;
    CHECK_INT(tutti_pair_call(&opts, KEY, &pair, &err), -TUTTI_ETIME);
}

/* Those that wait when the group changes are the next one's. */
static int accept_late(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    struct tutti_group *next = NULL;
    struct tutti_pair *pair = NULL;
    struct tutti_pair_event event;
    int status = 0;

    atomic_store(&kid->stage, 1);
    if (group->index == 2) {
        kid_wait(kid, 1);
        _exit(0); /* without a word */
    }
    if (group->index == 1) {
        status = tutti_pair_open(group, 0, KEY, SOON_PS, &pair, err);
        if (status == 0)
            status = say(pair, 1, 1, 3, 100, err);
        atomic_store(&kid->stage, 2);
    }
    if (status == 0 && tutti_group_wait_stop(group, SOON_PS, err) == 0)
        status = tutti_fail(err, TUTTI_ECHECK, "nobody is lost");
    if (status == 0)
        status = tutti_group_shrink(group, 2, SOON_PS, &next, err);
    tutti_group_close(group);
    if (status == 0 && next->index == 0) {
        status = tutti_pair_accept(next, SOON_PS, &pair, err);
        if (status == 0 && pair == NULL)
            status = tutti_fail(err, TUTTI_ECHECK, "the pair is lost");
        if (status == 0)
            status = hear(pair, &event, err);
        if (status == 0)
            status = say(pair, 1, 2, 4, 100, err);
    } else if (status == 0) {
        tutti_pair_expect(pair, 2, 0);
        status = hear(pair, &event, err);
    }
    if (status == 0)
        status = tutti_group_exchange(next, NULL, 0, NULL, SOON_PS, err);
    tutti_pair_close(pair);
    kid_end(kid, next, status, err);
    tutti_group_close(next);
    return status;
}

TEST(pairs_outlive_the_group)
{
    REQUIRE(kids_start(3, accept_late));
    (void)kid_reach(1, 2, FATE_MS_MAX);
    (void)kid_reach(2, 1, FATE_MS_MAX);
    atomic_store(&kids[2].may, 1);
    (void)kid_reap(2, FATE_MS_MAX);
    expect_well(2);
    CHECK_INT(kids[0].count, 2);
    CHECK_INT(kids[0].incarnation, 2);
}
