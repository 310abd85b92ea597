/* A group in one program: each process of it is a thread, the sockets between them are real. */
#ifndef TUTTI_TESTS_RUNTIME_GROUP_WORLD_H
#define TUTTI_TESTS_RUNTIME_GROUP_WORLD_H

#include <pthread.h>
#include <unistd.h>

#include "runtime/group.h"
#include "runtime/group_tcp.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { GROUP_MAX = 16 };

/* One process: what it is told, what it does once the group is open, and how that ended. */
struct group_one {
    struct tutti_group_tcp_opts opts;
    int (*play)(struct group_one *one, struct tutti_err *err);
    unsigned delay_ms; /* before it opens */
    struct tutti_group *group;
    pthread_t thread;
    int status;
    struct tutti_err err;
};

struct group_world {
    uint32_t count;
    int listen_fd;
    char root[TUTTI_GROUP_TCP_ADDRESS_BYTES];
    struct group_one ones[GROUP_MAX];
};

/* `count` processes of this host; process 0 listens already, at a free port of `where`. */
__attribute__((unused)) static bool
group_prepare(struct group_world *world, uint32_t count, const char *where, const char *secret,
              int (*play)(struct group_one *, struct tutti_err *))
{
    struct tutti_group_tcp_opts opts = {.size = sizeof(struct tutti_group_tcp_opts),
                                        .count = count,
                                        .root = where,
                                        .secret = secret,
                                        .secret_bytes = secret == NULL ? 0 : strlen(secret),
                                        .deadline_ps = 20 * TUTTI_PS_PER_S};
    struct tutti_err err = {""};

    *world = (struct group_world){.count = count, .listen_fd = -1};
    if (tutti_group_tcp_listen(&opts, &world->listen_fd, world->root, &err) != 0) {
        TEST_FAIL("cannot listen: %s", err.text);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        world->ones[i] = (struct group_one){.opts = opts, .play = play};
        world->ones[i].opts.index = i;
        world->ones[i].opts.root = world->root;
    }
    world->ones[0].opts.has_listen_fd = true;
    world->ones[0].opts.listen_fd = world->listen_fd;
    return true;
}

__attribute__((unused)) static void *group_live(void *data)
{
    struct group_one *one = data;
    struct timespec delay = {.tv_sec = (time_t)(one->delay_ms / 1000),
                             .tv_nsec = (long)(one->delay_ms % 1000) * 1000000};

    if (one->delay_ms > 0)
        (void)nanosleep(&delay, NULL);
    one->status = tutti_group_tcp_open(&one->opts, &one->group, &one->err);
    if (one->status < 0) {
        if (one->opts.has_listen_fd)
            close(one->opts.listen_fd);
        return NULL;
    }
    if (one->play != NULL)
        one->status = one->play(one, &one->err);
    tutti_group_close(one->group);
    return NULL;
}

__attribute__((unused)) static void group_start(struct group_world *world, uint32_t index)
{
    if (pthread_create(&world->ones[index].thread, NULL, group_live, &world->ones[index]) != 0)
        TEST_FAIL("no thread");
}

__attribute__((unused)) static void group_join(struct group_world *world, uint32_t index)
{
    (void)pthread_join(world->ones[index].thread, NULL);
}

__attribute__((unused)) static void group_run(struct group_world *world)
{
    for (uint32_t i = 0; i < world->count; i++)
        group_start(world, i);
    for (uint32_t i = 0; i < world->count; i++)
        group_join(world, i);
}

__attribute__((unused)) static void group_expect_ok(const struct group_world *world)
{
    for (uint32_t i = 0; i < world->count; i++)
        if (world->ones[i].status != 0)
            TEST_FAIL("process %u: status %d: %s", i, world->ones[i].status,
                      world->ones[i].err.text);
}

/* Process `index` ended with this status, and a message that holds `words`. */
__attribute__((unused)) static void group_expect(const struct group_world *world, uint32_t index,
                                                 int status, const char *words)
{
    const struct group_one *one = &world->ones[index];

    if (one->status != status || strstr(one->err.text, words) == NULL)
        TEST_FAIL("process %u: status %d, expected %d: '%s' lacks '%s'", index, one->status, status,
                  one->err.text, words);
}

#endif
