/* What all kinds of groups have in common: ranks laid over processes, agreement, comparison. The
 * kind here is a play-back: the other processes have said beforehand what they will say. */
#include "runtime/group.h"

#include "runtime/random.h"
#include "tests/alloc_fail.h"

enum { COUNT = 4, ROUNDS_MAX = 2, ROUND_BYTES_MAX = 8192 };

static struct {
    struct tutti_group base;
    uint8_t said[ROUNDS_MAX][ROUND_BYTES_MAX]; /* by all in one round; ours is put in */
    uint32_t round;
    int fail; /* status of the next exchange */
    int stopped;
    uint32_t woken_count;
    uint32_t closed_count;
} fake;

static void fake_close(struct tutti_group *group)
{
    (void)group;
    fake.closed_count++;
}

static int fake_exchange(struct tutti_group *group, const void *mine, size_t bytes, void *ret_all,
                         tutti_ps deadline_ps, struct tutti_err *err)
{
    CHECK(deadline_ps == TUTTI_PS_PER_S);
    if (fake.fail < 0)
        return tutti_fail(err, (enum tutti_status) - fake.fail, "it broke");
    CHECK(fake.round < ROUNDS_MAX && bytes * group->count <= ROUND_BYTES_MAX);
    memcpy(ret_all, fake.said[fake.round++], bytes * group->count);
    if (bytes > 0)
        memcpy((uint8_t *)ret_all + group->index * bytes, mine, bytes);
    return 0;
}

static void fake_stop(struct tutti_group *group, int status, const struct tutti_err *err)
{
    (void)group;
    CHECK(err == NULL || err->text[0] != '\0');
    fake.stopped = status;
}

static int fake_wait_stop(struct tutti_group *group, tutti_ps timeout_ps, struct tutti_err *err)
{
    (void)group;
    (void)timeout_ps;
    return fake.stopped < 0 ? tutti_fail(err, TUTTI_EIO, "stopped") : 0;
}

static void fake_wake(struct tutti_group *group)
{
    (void)group;
    fake.woken_count++;
}

static const struct tutti_group_ops fake_ops = {
    .size = sizeof(struct tutti_group_ops),
    .name = "fake",
    .close = fake_close,
    .exchange = fake_exchange,
    .stop = fake_stop,
    .wait_stop = fake_wait_stop,
    .wake = fake_wake,
};

static struct tutti_group *group_of(uint32_t index, uint32_t count)
{
    memset(&fake, 0, sizeof(fake));
    fake.base = (struct tutti_group){.ops = &fake_ops, .index = index, .count = count};
    return &fake.base;
}

TEST(ranks_lie_over_processes_in_even_blocks)
{
    for (uint32_t count = 1; count <= 9; count++) {
        for (uint32_t ranks = 1; ranks <= 40; ranks++) {
            CHECK_INT(tutti_group_first_rank(ranks, count, 0), 0);
            CHECK_INT(tutti_group_first_rank(ranks, count, count), ranks);
            for (uint32_t i = 0; i < count; i++) {
                uint32_t first = tutti_group_first_rank(ranks, count, i);
                uint32_t next = tutti_group_first_rank(ranks, count, i + 1);

                CHECK(next - first == ranks / count || next - first == ranks / count + 1);
                for (uint32_t rank = first; rank < next; rank++)
                    CHECK_INT(tutti_group_of_rank(ranks, count, rank), i);
            }
        }
    }
}

TEST(one_alone_agrees_with_itself_and_asks_nobody)
{
    struct tutti_group *group = group_of(0, 1);
    struct tutti_err err = {"before"};
    uint32_t mine = 7;
    uint32_t all = 0;

    fake.fail = -TUTTI_EIO;
    CHECK_INT(tutti_group_exchange(group, &mine, sizeof(mine), &all, TUTTI_PS_PER_S, &err), 0);
    CHECK_INT(all, 7);
    CHECK_INT(tutti_group_exchange(group, NULL, 0, NULL, TUTTI_PS_PER_S, &err), 0);
    CHECK_INT(tutti_group_agree(group, 0, TUTTI_PS_PER_S, &err), 0);
    CHECK_INT(tutti_group_agree(group, -TUTTI_ELACK, TUTTI_PS_PER_S, &err), -TUTTI_ELACK);
    CHECK_TEXT(err.text, "before");
    CHECK_INT(tutti_group_same(group, "schedule", "ring", TUTTI_PS_PER_S, &err), 0);
    tutti_group_stop(group, -TUTTI_EIO, &err);
    CHECK_INT(fake.stopped, 0);
    tutti_group_wake(group);
    CHECK_INT(fake.woken_count, 1);
    CHECK_INT(tutti_group_wait_stop(group, 0, &err), 0);
    tutti_group_close(group);
    tutti_group_close(NULL);
    CHECK_INT(fake.closed_count, 1);
}

/* As agree lays them out: a status each; then a status and a message each. */
struct said {
    int32_t status;
    struct tutti_err err;
};

static void others_say(uint32_t index, int status, const char *text)
{
    struct said said = {.status = status};
    int32_t code = status;

    snprintf(said.err.text, sizeof(said.err.text), "%s", text);
    memcpy(fake.said[0] + index * sizeof(code), &code, sizeof(code));
    memcpy(fake.said[1] + index * sizeof(said), &said, sizeof(said));
}

TEST(all_hear_of_the_first_that_does_not_agree)
{
    struct tutti_group *group = group_of(1, COUNT);
    struct tutti_err err = {""};

    CHECK_INT(tutti_group_agree(group, 0, TUTTI_PS_PER_S, &err), 0);
    CHECK_INT(fake.round, 1);
    group = group_of(1, COUNT);
    others_say(2, -TUTTI_ELACK, "no such thing");
    others_say(3, -TUTTI_EIO, "later");
    CHECK_INT(tutti_group_agree(group, 0, TUTTI_PS_PER_S, &err), -TUTTI_ELACK);
    CHECK_TEXT(err.text, "process 2 of 4: no such thing");
    /* Our own comes before it. */
    group = group_of(1, COUNT);
    others_say(2, -TUTTI_ELACK, "no such thing");
    snprintf(err.text, sizeof(err.text), "mine");
    CHECK_INT(tutti_group_agree(group, -TUTTI_EINVAL, TUTTI_PS_PER_S, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "process 1 of 4: mine");
    group = group_of(1, COUNT);
    CHECK_INT(tutti_group_agree(group, -TUTTI_EINVAL, TUTTI_PS_PER_S, NULL), -TUTTI_EINVAL);
}

TEST(an_exchange_that_fails_is_told_as_it_is)
{
    struct tutti_group *group = group_of(1, COUNT);
    struct tutti_err err = {""};

    fake.fail = -TUTTI_ETIME;
    CHECK_INT(tutti_group_agree(group, 0, TUTTI_PS_PER_S, &err), -TUTTI_ETIME);
    CHECK_TEXT(err.text, "it broke");
    CHECK_INT(tutti_group_same(group, "schedule", "ring", TUTTI_PS_PER_S, &err), -TUTTI_ETIME);
}

static int compare(uint32_t index, const char *const texts[COUNT], struct tutti_err *err)
{
    struct tutti_group *group = group_of(index, COUNT);

    for (size_t i = 0; i < COUNT; i++)
        snprintf((char *)fake.said[0] + 256 * i, 256, "%s", texts[i]);
    return tutti_group_same(group, "schedule", texts[index], TUTTI_PS_PER_S, err);
}

TEST(two_texts_that_differ_are_both_shown_in_all_processes)
{
    static const char *const same[COUNT] = {"ring", "ring", "ring", "ring"};
    static const char *const texts[COUNT] = {"ring", "ring", "tree", "ring"};
    static const char *const first[COUNT] = {"tree", "ring", "ring", "ring"};
    struct tutti_err err = {""};

    for (uint32_t i = 0; i < COUNT; i++) {
        CHECK_INT(compare(i, same, &err), 0);
        CHECK_INT(compare(i, texts, &err), -TUTTI_EINVAL);
        CHECK(strstr(err.text, "'ring'") != NULL && strstr(err.text, "'tree'") != NULL);
        CHECK_INT(compare(i, first, &err), -TUTTI_EINVAL);
        CHECK(strstr(err.text, "'ring'") != NULL && strstr(err.text, "'tree'") != NULL);
    }
    (void)compare(2, texts, &err);
    CHECK_TEXT(err.text, "process 0 of 4 has schedule 'ring', process 2 'tree'");
}

TEST(long_texts_are_compared_as_far_as_said)
{
    char text[2][400];
    const char *texts[COUNT];
    struct tutti_err err = {""};

    memset(text, 'x', sizeof(text));
    text[0][399] = text[1][399] = '\0';
    text[1][300] = 'y';
    for (size_t i = 0; i < COUNT; i++)
        texts[i] = text[i % 2];
    CHECK_INT(compare(1, texts, &err), 0);
    text[1][200] = 'y';
    CHECK_INT(compare(1, texts, &err), -TUTTI_EINVAL);
}

static int agree_and_compare(struct tutti_err *err)
{
    struct tutti_group *group = group_of(1, COUNT);
    int status = tutti_group_agree(group, 0, TUTTI_PS_PER_S, err);

    if (status == 0) {
        memset(fake.said[1], 0, sizeof(fake.said[1]));
        for (size_t i = 0; i < COUNT; i++)
            snprintf((char *)fake.said[1] + 256 * i, 256, "ring");
        status = tutti_group_same(group, "schedule", "ring", TUTTI_PS_PER_S, err);
    }
    /* Whoever has no memory cannot go on, and the others must not wait for it. */
    if (fake.stopped != status)
        TEST_FAIL("status %d, and the others hear %d", status, fake.stopped);
    return status;
}

TEST(every_allocation_fails_once_and_the_others_are_told)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(agree_and_compare(&err), err);
}
