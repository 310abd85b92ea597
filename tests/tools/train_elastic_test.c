/* Elastic training: processes are killed, come and leave, and the others go on. The weights at the
 * end are, bit by bit, those of a training by as many threads at the same steps, one after another
 * from checkpoints. A story follows from its seed alone, but for what the machine makes of the
 * moments; --full tells 30. */
#include "tests/tools/train_cast.h"

static struct story elastic_story_of(uint64_t seed)
{
    struct tutti_random random;
    struct story s = {.seed = seed, .launched = true, .elastic = true};

    tutti_random_seed(&random, seed);
    s.process_count = 2 + (int)tutti_random_below(&random, PROCESSES_MAX - 1);
    s.restarts = (int)tutti_random_below(&random, 2);
    s.join_line = 1 + (int)tutti_random_below(&random, 40);
    s.leave_line = (int)tutti_random_below(&random, 2) * 200;
    s.kill_count = (int)tutti_random_below(&random, (uint64_t)s.process_count);
    for (int i = 0; i < s.kill_count; i++) {
        s.kills[i].victim = (int)tutti_random_below(&random, 2);
        s.kills[i].line = 60 + 80 * i + (int)tutti_random_below(&random, 80);
        s.kills[i].delay_us = (int)tutti_random_below(&random, 2000);
    }
    return s;
}

/* Another process, at the address that the command has said. */
static bool join(const struct story *s, struct cast *cast, char address[64])
{
    static char err[OUTPUT_BYTES];

    (void)read_text(cast->processes[0].err, err);
    word_behind(err, "others may come: --join ", address, 64);
    address[strcspn(address, "\n")] = '\0';
    cast->address = address;
    cast->count = 2;
    return address[0] != '\0' && open_outputs(&cast->processes[1]) && start_one(s, cast, 1);
}

static void wait_for_line(struct cast *cast, int line)
{
    const int64_t end_ms = now_ms() + DEADLINE_MS + SLACK_MS;

    while (lines_of(&cast->processes[0]) < line && cast->processes[0].id > 0 && now_ms() < end_ms) {
        (void)has_ended(cast);
        (void)poll(NULL, 0, 1);
    }
}

/* So many ranks, by threads, up to a step; the weights. */
static void train_part(const struct story *s, unsigned ranks, unsigned long steps, char ret[32])
{
    char command[1024];
    char out[4096] = "";
    FILE *pipe;

    (void)snprintf(command, sizeof(command),
                   "%s train --model %s --data mnist:%s --steps %lu --global-batch 48 --optimizer "
                   "adam --strategy %s --no-pin -B threads -g %u --checkpoint %s 2> /dev/null | "
                   "tail -n 1",
                   TUTTI, model_path, world.path, steps, strategies[s->strategy], ranks,
                   checkpoints);
    pipe = popen(command, "re");
    if (pipe != NULL) {
        out[fread(out, 1, sizeof(out) - 1, pipe)] = '\0';
        (void)pclose(pipe);
    }
    word_behind(out, "\"weights\":\"", ret, 32);
}

/* What the command has said of its members, trained by as many threads. Returns how often they have
 * changed. */
static int retrain(const struct story *s, const struct cast *cast, char ret_weights[32])
{
    static char err[OUTPUT_BYTES];
    unsigned ranks = (unsigned)s->process_count;
    unsigned long made = 0;
    int changes = 0;
    const char *at = err;

    (void)read_text(cast->processes[0].err, err);
    remove_checkpoints();
    while ((at = strstr(at, " go on from step ")) != NULL) {
        const unsigned long step = strtoul(at + strlen(" go on from step "), NULL, 10);
        const char *number = at;

        while (number > err && number[-1] >= '0' && number[-1] <= '9')
            number--;
        if (step > made)
            train_part(s, ranks, step, ret_weights);
        made = step;
        ranks = (unsigned)strtoul(number, NULL, 10);
        at++;
        changes++;
    }
    train_part(s, ranks, ELASTIC_STEPS, ret_weights);
    return changes;
}

/* Returns how often its members have changed. */
static int tell_of_coming_and_going(uint64_t seed)
{
    struct story s = elastic_story_of(seed);
    struct cast cast;
    char address[64];
    char expected[32] = "";
    char seen[32] = "";
    int changes;

    if (!start(&s, &cast)) {
        fail(&s, &cast, "it does not start");
        return 0;
    }
    wait_for_line(&cast, s.join_line);
    if (!join(&s, &cast, address))
        fail(&s, &cast, "nobody can join");
    for (int i = 0; i < s.kill_count; i++)
        (void)strike(&s, &s.kills[i], &cast);
    wait_for_line(&cast, s.leave_line);
    if (s.leave_line > 0 && cast.processes[1].id > 0)
        (void)kill(cast.processes[1].id, SIGTERM);
    wait_for_line(&cast, ELASTIC_STEPS + 1);
    (void)await(&cast, now_ms() + 2000 + (test_is_slow() ? SLACK_MS : 0));
    if (cast.processes[0].id > 0 || !WIFEXITED(cast.processes[0].status) ||
        WEXITSTATUS(cast.processes[0].status) != 0)
        fail(&s, &cast, "it fails, or hangs");
    weights_of(&cast, seen);
    changes = retrain(&s, &cast, expected);
    if (expected[0] == '\0' || strcmp(seen, expected) != 0)
        fail(&s, &cast, "other weights than of as many threads");
    cast_done(&cast);
    return changes;
}

TEST(members_come_and_go_and_weights_are_those_of_as_many_threads)
{
    const uint64_t count = test_count(30, 3);
    int changes = 0;

    REQUIRE(world_open());
    for (uint64_t i = 0; i < count && test_failures == 0; i++)
        changes += tell_of_coming_and_going(test_seed + i);
    fprintf(stderr, "%" PRIu64 " stories, members changed %d times\n", count, changes);
    CHECK(changes >= (int)count / 2);
}
