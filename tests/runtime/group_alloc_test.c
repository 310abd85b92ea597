/* A group over TCP whose allocations fail, one after the other: all its processes end with the
 * news, and nothing stays behind, neither memory nor descriptors. */
#include <dirent.h>
#include <stdatomic.h>
#include <time.h>

#include "build.h"
#include "runtime/group/progress.h"
#include "runtime/pair.h"
#include "tests/alloc_fail.h"
#include "tests/runtime/group_world.h"

/* A process that got no memory before it came is missed until the deadline. */
static const tutti_ps SHORT_PS = 250 * TUTTI_PS_PER_MS;
static const tutti_ps SOON_PS = 5 * TUTTI_PS_PER_S;

static struct group_world world;

static int do_all(struct group_one *one, struct tutti_err *err)
{
    struct tutti_group_tcp_link wanted[2] = {{.peer = 1 - one->group->index, .key = 1},
                                             {.peer = 1 - one->group->index, .key = 2}};
    uint64_t mine = one->group->index;
    uint64_t all[2];
    int fds[2];
    int status = tutti_group_exchange(one->group, &mine, sizeof(mine), all, SOON_PS, err);

    if (status == 0)
        status = tutti_group_same(one->group, "schedule", "ring", SOON_PS, err);
    if (status == 0)
        status = tutti_group_agree(one->group, 0, SOON_PS, err);
    if (status == 0)
        status = tutti_group_tcp_links(one->group, wanted, 2, fds, SOON_PS, err);
    for (int i = 0; i < 2 && status == 0; i++)
        close(fds[i]);
    return status;
}

/* The three as one: what went wrong for lack of memory, else anything else that went wrong. */
static int run(uint32_t count, int (*play)(struct group_one *, struct tutti_err *),
               struct tutti_err *err)
{
    int status = 0;

    if (!group_prepare(&world, count, "127.0.0.1:0", "open sesame open", play))
        return tutti_fail(err, TUTTI_EIO, "cannot listen");
    for (uint32_t i = 0; i < count; i++)
        world.ones[i].opts.deadline_ps = SHORT_PS;
    group_run(&world);
    for (uint32_t i = 0; i < count; i++) {
        if (world.ones[i].status == 0 || status == -TUTTI_ENOMEM)
            continue;
        status = world.ones[i].status;
        *err = world.ones[i].err;
    }
    return status;
}

static int story(struct tutti_err *err)
{
    int status = run(2, do_all, err);

    /* One alone that succeeds has not heard the news. */
    if (status < 0 && (world.ones[0].status == 0 || world.ones[1].status == 0))
        TEST_FAIL("only one of two ends with an error: '%s'", err->text);
    return status;
}

/* What it takes to open a group has failed above: from here on, once all are there. */
static void count_allocations(bool on)
{
    pthread_mutex_lock(&alloc_fail.lock);
    alloc_fail.armed = on;
    pthread_mutex_unlock(&alloc_fail.lock);
}

/* Process 2 leaves, the others shrink; one that gets no memory is lost to the others. */
static int shrink(struct group_one *one, struct tutti_err *err)
{
    struct tutti_group *next = NULL;
    struct tutti_err lost = {""};
    int status = tutti_group_exchange(one->group, NULL, 0, NULL, SOON_PS, err);

    if (status < 0 || one->group->index == 2)
        return status;
    count_allocations(true);
    status = tutti_group_exchange(one->group, NULL, 0, NULL, SOON_PS, &lost);
    if (status != -TUTTI_EIO && status != -TUTTI_ENOMEM)
        return tutti_fail(err, TUTTI_ECHECK, "status %d: %s", status, lost.text);
    if (status == -TUTTI_ENOMEM)
        *err = lost;
    if (status == -TUTTI_ENOMEM && strstr(lost.text, "process") == NULL)
        return status; /* this one's */
    status = tutti_group_shrink(one->group, 0, SOON_PS, &next, err);
    if (status < 0)
        return status;
    tutti_group_close(one->group);
    one->group = next;
    status = tutti_group_exchange(one->group, NULL, 0, NULL, SOON_PS, &lost);
    if (status < 0)
        *err = lost;
    return status;
}

static int shrink_story(struct tutti_err *err)
{
    count_allocations(false);
    return run(3, shrink, err);
}

static void pause_100_us(void)
{
    struct timespec time = {.tv_nsec = 100000};

    (void)nanosleep(&time, NULL);
}

static struct group_one newcomer;
static atomic_int begun; /* members of the group that are there */

static void *enter(void *data)
{
    struct group_one *one = data;

    while (atomic_load(&begun) < 2)
        pause_100_us();
    one->group = NULL;
    one->status = tutti_group_tcp_join(&one->opts, &one->group, &one->err);
    atomic_fetch_add(&begun, 1); /* it is of no use to wait for it any more */
    if (one->status == 0)
        one->status = tutti_group_exchange(one->group, NULL, 0, NULL, SOON_PS, &one->err);
    tutti_group_close(one->group);
    return NULL;
}

/* Process 0 waits until the newcomer waits, which may have got no memory, and never comes. */
static int admit(struct group_one *one, struct tutti_err *err)
{
    struct tutti_mailbox *mailbox = &((struct tutti_group_tcp *)one->group)->mailbox;
    struct tutti_group *next = NULL;
    int status = tutti_group_exchange(one->group, NULL, 0, NULL, SOON_PS, err);

    count_allocations(true);
    atomic_fetch_add(&begun, 1);
    while (one->group->index == 0 && atomic_load(&mailbox->newcomer_count) == 0 &&
           atomic_load(&begun) <= 2)
        pause_100_us();
    status = tutti_group_exchange(one->group, NULL, 0, NULL, SOON_PS, err);
    if (status == 0)
        status = tutti_group_admit(one->group, 0, SOON_PS, &next, err);
    if (status < 0)
        return status;
    if (next == NULL)
        return tutti_fail(err, TUTTI_ETIME, "nobody has come");
    tutti_group_close(one->group);
    one->group = next;
    return tutti_group_exchange(one->group, NULL, 0, NULL, SOON_PS, err);
}

static int admit_story(struct tutti_err *err)
{
    int status = 0;

    count_allocations(false);
    atomic_store(&begun, 0);
    if (!group_prepare(&world, 2, "127.0.0.1:0", "open sesame open", admit))
        return tutti_fail(err, TUTTI_EIO, "cannot listen");
    newcomer = world.ones[1];
    for (uint32_t i = 0; i < 2; i++)
        group_start(&world, i);
    newcomer.opts.deadline_ps =
        (sizeof(TUTTI_BUILD_SANITIZE) > 1 ? 2000 : 200) * TUTTI_PS_PER_MS; /* if nobody admits it */
    (void)pthread_create(&newcomer.thread, NULL, enter, &newcomer);
    for (uint32_t i = 0; i < 2; i++)
        group_join(&world, i);
    (void)pthread_join(newcomer.thread, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        const struct group_one *one = i < 2 ? &world.ones[i] : &newcomer;

        if (one->status == 0 || status == -TUTTI_ENOMEM)
            continue;
        status = one->status;
        *err = one->err;
    }
    return status;
}

/* ---- a pair ---- */

static struct tutti_pair *called; /* from outside */

static void *call(void *data)
{
    struct group_one *one = data;

    called = NULL;
    one->status = tutti_pair_call(&one->opts, 1, &called, &one->err);
    return NULL;
}

/* One frame, of which the other end makes room. */
static int send_and_hear(struct tutti_pair *from, struct tutti_pair *to, struct tutti_err *err)
{
    static const uint8_t data[10000];
    const struct tutti_pair_frame frame = {.bytes = sizeof(data), .data = data};
    struct tutti_pair_event event;
    size_t at = 0;
    int status = tutti_pair_send(from, &frame, SOON_PS, err);

    if (status == 0)
        status = tutti_pair_wait(&to, 1, SOON_PS, &at, err);
    if (status == 0)
        status = tutti_pair_recv(to, SOON_PS, &event, err);
    if (status == 0 && (event.what != TUTTI_PAIR_FRAME || event.frame.bytes != sizeof(data)))
        status = tutti_fail(err, TUTTI_ECHECK, "no frame");
    return status;
}

/* Who calls while the listener has no memory is asked to call again: then all goes well, and the
 * one that failed is reported here. */
static int pair_story(struct tutti_err *err)
{
    struct tutti_group *group = NULL;
    struct tutti_pair *taken = NULL;
    int status;

    count_allocations(false);
    if (!group_prepare(&world, 1, "127.0.0.1:0", "open sesame open", NULL))
        return tutti_fail(err, TUTTI_EIO, "cannot listen");
    newcomer = world.ones[0];
    newcomer.opts.has_listen_fd = false;
    newcomer.opts.deadline_ps = SOON_PS;
    world.ones[0].opts.admits = true;
    status = tutti_group_tcp_open(&world.ones[0].opts, &group, err);
    if (status < 0)
        return status;
    count_allocations(true);
    (void)pthread_create(&newcomer.thread, NULL, call, &newcomer);
    (void)pthread_join(newcomer.thread, NULL);
    status = newcomer.status;
    if (status < 0)
        *err = newcomer.err;
    if (status == 0)
        status = tutti_pair_accept(group, SOON_PS, &taken, err);
    if (status == 0)
        status = send_and_hear(called, taken, err);
    if (status == 0 && alloc_fail.failed)
        status = tutti_fail(err, TUTTI_ENOMEM, "the listener had no memory at first");
    tutti_pair_close(called);
    tutti_pair_close(taken);
    tutti_group_close(group);
    return status;
}

static int descriptor_count(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        closedir(dir);
    return count;
}

TEST(every_allocation_fails_once)
{
    struct tutti_err err = {""};
    int before = descriptor_count();

    ALLOC_FAIL_EACH(story(&err), err);
    CHECK_INT(descriptor_count(), before);
}

TEST(every_allocation_of_a_shrink_fails_once)
{
    struct tutti_err err = {""};
    int before = descriptor_count();

    ALLOC_FAIL_EACH(shrink_story(&err), err);
    CHECK_INT(descriptor_count(), before);
}

TEST(every_allocation_of_an_admission_fails_once)
{
    struct tutti_err err = {""};
    int before = descriptor_count();

    ALLOC_FAIL_EACH(admit_story(&err), err);
    CHECK_INT(descriptor_count(), before);
}

TEST(every_allocation_of_a_pair_fails_once)
{
    struct tutti_err err = {""};
    int before = descriptor_count();

    ALLOC_FAIL_EACH(pair_story(&err), err);
    CHECK_INT(descriptor_count(), before);
}
