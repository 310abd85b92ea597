/* Training that goes on: processes are killed, and come again (--restarts); the others stay, and
 * all end with the weights of a training that nothing has happened to, bit by bit. A story follows
 * from its seed alone, but for what the machine makes of the moment; --full tells 200. */
#include "runtime/train/checkpoint.h"
#include "tests/tools/train_cast.h"

static char undisturbed[PROCESSES_MAX + 1][STRATEGIES][32]; /* weights; "": not known yet */

static struct story story_of(uint64_t seed)
{
    struct tutti_random random;
    struct story s = {.seed = seed};

    tutti_random_seed(&random, seed);
    s.process_count = 2 + (int)tutti_random_below(&random, PROCESSES_MAX - 1);
    s.launched = tutti_random_below(&random, 3) > 0;
    s.saves = tutti_random_below(&random, 4) > 0;
    s.strategy = (int)tutti_random_below(&random, STRATEGIES);
    s.save_every = 1 + (int)tutti_random_below(&random, 6);
    s.kill_count = 1 + (int)tutti_random_below(&random, KILLS_MAX);
    s.restarts = s.kill_count;
    for (int i = 0; i < s.kill_count; i++) {
        s.kills[i].victim = (int)tutti_random_below(&random, (uint64_t)s.process_count);
        s.kills[i].line = (int)tutti_random_below(&random, LINE_MAX);
        s.kills[i].delay_us = (int)tutti_random_below(&random, s.kills[i].line == 0 ? 50000 : 2000);
        if (i > 0) /* of the start after the one before */
            s.kills[i].line += s.kills[i - 1].line;
    }
    return s;
}

/* ---- what must come of it -------------------------------------------------------------------- */

/* Opens all that are complete, and reads all of them. */
static void check_checkpoints(const struct story *s)
{
    const struct tutti_checkpoint_source source = {.verify = true};
    struct tutti_checkpoint_id *ids = NULL;
    struct tutti_err err = {""};
    size_t count = 0;
    int status = tutti_checkpoint_list(NULL, checkpoints, &ids, &count, &err);

    if (status < 0)
        TEST_FAIL("seed %" PRIu64 ": %s", s->seed, err.text);
    for (size_t i = 0; status == 0 && i < count; i++) {
        struct tutti_checkpoint *c = NULL;
        char path[TUTTI_CHECKPOINT_PATH_BYTES];

        if (tutti_checkpoint_path(checkpoints, ids[i], path, &err) < 0 ||
            tutti_checkpoint_open(&source, path, &c, &err) < 0)
            TEST_FAIL("seed %" PRIu64 ": %s", s->seed, err.text);
        tutti_checkpoint_close(c);
    }
    free(ids);
}

/* What nothing happens to. */
static void train_through(const struct story *story, char ret_weights[32])
{
    struct story s = *story;
    struct cast cast;

    s.restarts = 0;
    ret_weights[0] = '\0';
    if (start(&s, &cast) && await(&cast, now_ms() + DEADLINE_MS + SLACK_MS) && ended_well(&cast))
        weights_of(&cast, ret_weights);
    if (ret_weights[0] == '\0')
        fail(&s, &cast, "training by itself fails");
    cast_done(&cast);
}

static const char *expected_of(const struct story *story)
{
    char *expected = undisturbed[story->process_count][story->strategy];
    struct story s = *story;

    s.saves = false;
    if (expected[0] == '\0')
        train_through(&s, expected);
    return expected;
}

/* True: the last was killed when training was as good as over, of which nobody would come back. */
static bool tell_of_kills(uint64_t seed)
{
    struct story s = story_of(seed);
    const char *expected = expected_of(&s);
    struct cast cast;
    char seen[32] = "";
    int killed = 0;
    bool ended;
    bool late;

    remove_checkpoints();
    ended = start(&s, &cast);
    for (int i = 0; i < s.kill_count && ended; i++)
        killed += strike(&s, &s.kills[i], &cast);
    ended = await(&cast, now_ms() + DEADLINE_MS + SLACK_MS);
    late = ended && !ended_well(&cast);
    if (!ended)
        fail(&s, &cast, "it hangs");
    if (ended && !late && s.launched && killed > 0)
        check_says(&s, &cast, ": started again, restart 1 of ");
    if (ended && !late && !s.saves && killed > 0 && s.launched)
        check_says(&s, &cast, "all begin anew: without '--checkpoint FOLDER' nothing is saved");
    weights_of(&cast, seen);
    if (late && s.saves)
        train_through(&s, seen);
    if (ended && (!late || s.saves) && strcmp(seen, expected) != 0)
        fail(&s, &cast, "other weights than undisturbed");
    cast_done(&cast);
    if (ended && s.saves)
        check_checkpoints(&s);
    return late;
}

TEST(those_that_are_killed_come_again_to_the_same_weights)
{
    const uint64_t count = test_count(200, 20);
    uint64_t late_count = 0;

    REQUIRE(world_open());
    for (uint64_t i = 0; i < count && test_failures == 0; i++)
        late_count += tell_of_kills(test_seed + i);
    fprintf(stderr, "%" PRIu64 " stories, %" PRIu64 " of them too late\n", count, late_count);
    CHECK(late_count <= count / 4);
}

/* ---- by name --------------------------------------------------------------------------------- */

/* The second kill is one too many: it ends, soon, and says who was lost. */
TEST(one_that_is_lost_too_often_ends_all_by_name)
{
    struct story s = {.seed = test_seed,
                      .process_count = 3,
                      .launched = true,
                      .saves = true,
                      .save_every = 5,
                      .kill_count = 2,
                      .restarts = 1,
                      .kills = {{.victim = 1, .line = 8}, {.victim = 2, .line = 20}}};
    struct cast cast;
    int64_t since_ms;

    REQUIRE(world_open());
    remove_checkpoints();
    REQUIRE(start(&s, &cast));
    (void)strike(&s, &s.kills[0], &cast);
    (void)strike(&s, &s.kills[1], &cast);
    since_ms = now_ms();
    if (!await(&cast, since_ms + DEADLINE_MS + SLACK_MS))
        fail(&s, &cast, "it hangs");
    if (!test_is_slow() && now_ms() - since_ms > DEADLINE_MS / 2)
        fail(&s, &cast, "it waits for the deadline");
    if (!ended_well(&cast)) {
        check_says(&s, &cast,
                   "process 1 of 3 was ended by signal 9 (Killed): started again, restart 1 of 1");
        /* The one that came again stands behind the others. */
        check_says(&s, &cast,
                   "process 1 of 3 was ended by signal 9 (Killed), and none is started again any "
                   "more (1 of 1)");
    }
    check_checkpoints(&s);
    cast_done(&cast);
}
