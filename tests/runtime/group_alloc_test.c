/* A group over TCP whose allocations fail, one after the other: all its processes end with the
 * news, and nothing stays behind, neither memory nor descriptors. */
#include <dirent.h>

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

/* The two as one: what went wrong for lack of memory, else anything else that went wrong. */
static int story(struct tutti_err *err)
{
    int status = 0;

    if (!group_prepare(&world, 2, "127.0.0.1:0", "open sesame open", do_all))
        return tutti_fail(err, TUTTI_EIO, "cannot listen");
    for (uint32_t i = 0; i < 2; i++)
        world.ones[i].opts.deadline_ps = SHORT_PS;
    group_run(&world);
    for (uint32_t i = 0; i < 2; i++) {
        if (world.ones[i].status == 0 || status == -TUTTI_ENOMEM)
            continue;
        status = world.ones[i].status;
        *err = world.ones[i].err;
    }
    /* One alone that succeeds has not heard the news. */
    if (status < 0 && (world.ones[0].status == 0 || world.ones[1].status == 0))
        TEST_FAIL("only one of two ends with an error: '%s'", err->text);
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
