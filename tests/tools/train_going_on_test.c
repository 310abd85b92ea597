/* Training that goes on: processes are killed, and come again (--restarts); the others stay, and
 * all end with the weights of a training that nothing has happened to, bit by bit. A story follows
 * from its seed alone, but for what the machine makes of the moment; --full tells 200. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/train/checkpoint.h"
#include "tests/runtime/data_files.h"
#include "tests/runtime/ports.h"
#include "tests/runtime/proc.h"
#include "tests/test.h"

#define TUTTI TUTTI_BINARY_DIR "/tutti"

enum {
    PROCESSES_MAX = 3,
    STEPS = 40,
    KILLS_MAX = 2,
    DEADLINE_MS = 20000, /* that the processes are given */
    SLACK_MS = 60000,    /* for a machine that has other work, and sanitizers */
    ARGUMENTS_MAX = 40,
    OUTPUT_BYTES = 1 << 16,
    LINE_MAX = STEPS - 10, /* the last after which one is killed */
};

/* 784-16-10 */
static const char model[] = "model net\n"
                            "sample image bytes 785\n"
                            "logits 10\n"
                            "layer hidden\n"
                            "  operation hidden matmul 1 x 784 x 16 first\n"
                            "  operation relu elementwise in 16 out 16\n"
                            "  variable weights elements 12544 rows 784\n"
                            "  variable biases elements 16\n"
                            "layer classes\n"
                            "  operation classes matmul 1 x 16 x 10\n"
                            "  variable weights elements 160 rows 16\n"
                            "  variable biases elements 10\n";

static const char *const strategies[] = {"multiworkermirrored", "fsdp"};

enum { STRATEGIES = 2 };

struct kill {
    int victim;
    int line; /* it happens once so many steps are printed, of all starts */
    int delay_us;
};

struct story {
    uint64_t seed;
    int process_count;
    bool launched; /* by --launch; else each by hand, and so started again */
    bool saves;
    int strategy;
    int save_every;
    int kill_count;
    int restarts;
    struct kill kills[KILLS_MAX];
};

struct process {
    pid_t id; /* 0: has ended and been waited for */
    int status;
    int out; /* files in memory */
    int err;
};

/* Those that the test has started: one command, or a process each. */
struct cast {
    struct process processes[PROCESSES_MAX];
    int count;
    uint16_t port;
};

static struct data_folder world;
static char model_path[128];
static char checkpoints[128];
static char undisturbed[PROCESSES_MAX + 1][STRATEGIES][32]; /* weights; "": not known yet */

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

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

static void tell(const struct story *s)
{
    fprintf(stderr,
            "seed %" PRIu64 ": %d processes%s, %s, saved every %d steps%s, killed:", s->seed,
            s->process_count, s->launched ? " of --launch" : "", strategies[s->strategy],
            s->save_every, s->saves ? "" : " (no, not at all)");
    for (int i = 0; i < s->kill_count; i++)
        fprintf(stderr, " %d after %d steps and %d us;", s->kills[i].victim, s->kills[i].line,
                s->kills[i].delay_us);
    fputc('\n', stderr);
}

/* ---- the world ------------------------------------------------------------------------------- */

/* Some records, in which pixels and classes go together. */
static bool world_open(void)
{
    if (model_path[0] != '\0')
        return true;
    data_folder_open(&world);
    mnist_files(&world, "train", 96);
    mnist_files(&world, "t10k", 32);
    data_file(&world, "net.model", model, strlen(model));
    (void)snprintf(model_path, sizeof(model_path), "%s/net.model", world.path);
    (void)snprintf(checkpoints, sizeof(checkpoints), "%s/checkpoints", world.path);
    return true;
}

static void remove_checkpoints(void)
{
    char command[256];

    (void)snprintf(command, sizeof(command), "rm -rf %s", checkpoints);
    if (system(command) != 0)
        TEST_FAIL("cannot remove %s", checkpoints);
}

__attribute__((destructor)) static void world_remove(void)
{
    if (model_path[0] == '\0')
        return;
    remove_checkpoints();
    data_folder_remove(&world);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void fill(const struct story *s, char text[8][64], const char *ret[])
{
    int n = 0;

#define WORDS(...)                                                                         \
    for (const char *const *w = (const char *const[]){__VA_ARGS__, NULL}; *w != NULL; w++) \
    ret[n++] = *w
    (void)snprintf(text[0], sizeof(text[0]), "%d", s->process_count);
    (void)snprintf(text[1], sizeof(text[1]), "%d", s->save_every);
    (void)snprintf(text[2], sizeof(text[2]), "%d", s->restarts);
    (void)snprintf(text[3], sizeof(text[3]), "%d", STEPS);
    (void)snprintf(text[4], sizeof(text[4]), "mnist:%.50s", world.path);
    (void)snprintf(text[5], sizeof(text[5]), "%dms", DEADLINE_MS);
    WORDS("tutti", "train", "--model", model_path, "--data", text[4], "--steps", text[3],
          "--global-batch", "48", "--optimizer", "adam", "--strategy", strategies[s->strategy],
          "--no-pin", "--deadline", text[5], "-B", "tcp");
    if (s->launched)
        WORDS("--launch", text[0]);
    if (s->restarts > 0)
        WORDS("--restarts", text[2]);
    if (s->saves)
        WORDS("--checkpoint", checkpoints, "--save-every", text[1], "--keep", "3");
#undef WORDS
    ret[n] = NULL;
}

static void become(const struct story *s, int index, uint16_t port, const struct process *p)
{
    char text[8][64];
    const char *arguments[ARGUMENTS_MAX];
    char number[32];

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!s->launched) {
        (void)snprintf(number, sizeof(number), "%d", index);
        (void)setenv("TUTTI_RANK", number, 1);
        (void)snprintf(number, sizeof(number), "%d", s->process_count);
        (void)setenv("TUTTI_SIZE", number, 1);
        (void)snprintf(number, sizeof(number), "127.0.0.1:%d", port);
        (void)setenv("TUTTI_ROOT", number, 1);
        (void)setenv("TUTTI_SECRET", "of-no-worth-to-anybody", 1);
    }
    (void)dup2(p->out, STDOUT_FILENO);
    (void)dup2(p->err, STDERR_FILENO);
    fill(s, text, arguments);
    (void)execv(TUTTI, (char *const *)arguments);
    _exit(99);
}

static bool start_one(const struct story *s, struct cast *cast, int index)
{
    struct process *p = &cast->processes[index];

    fflush(NULL);
    p->id = fork();
    if (p->id == 0)
        become(s, index, cast->port, p);
    return p->id > 0;
}

static bool start(const struct story *s, struct cast *cast)
{
    bool works = true;

    *cast = (struct cast){.count = s->launched ? 1 : s->process_count,
                          .port = test_free_port(s->seed + (uint64_t)now_ms())};
    for (int i = 0; i < cast->count; i++) {
        struct process *p = &cast->processes[i];

        p->out = memfd_create("out", MFD_CLOEXEC);
        p->err = memfd_create("err", MFD_CLOEXEC);
        (void)fcntl(p->out, F_SETFL, O_APPEND); /* of one that is started again, too */
        (void)fcntl(p->err, F_SETFL, O_APPEND);
        works = works && p->out >= 0 && p->err >= 0 && start_one(s, cast, i);
    }
    return works;
}

static int read_text(int fd, char text[OUTPUT_BYTES])
{
    ssize_t bytes = pread(fd, text, OUTPUT_BYTES - 1, 0);

    text[bytes > 0 ? bytes : 0] = '\0';
    return bytes > 0 ? (int)bytes : 0;
}

static int lines_of(const struct process *p)
{
    static char text[OUTPUT_BYTES];
    int lines = 0;

    (void)read_text(p->out, text);
    for (const char *c = text; *c != '\0'; c++)
        lines += *c == '\n';
    return lines;
}

static bool await(struct cast *cast, int64_t end_ms)
{
    for (int left = 1; left > 0;) {
        left = 0;
        for (int i = 0; i < cast->count; i++) {
            struct process *p = &cast->processes[i];

            if (p->id > 0 && waitpid(p->id, &p->status, WNOHANG) == p->id)
                p->id = 0;
            left += p->id > 0;
        }
        if (left > 0 && now_ms() > end_ms)
            return false;
        if (left > 0)
            (void)poll(NULL, 0, 3);
    }
    return true;
}

static bool has_ended(struct cast *cast)
{
    return await(cast, 0);
}

static void cast_done(struct cast *cast)
{
    for (int i = 0; i < cast->count; i++) {
        struct process *p = &cast->processes[i];

        if (p->id > 0) {
            (void)kill(p->id, SIGKILL);
            (void)waitpid(p->id, &p->status, 0);
        }
        close(p->out);
        close(p->err);
    }
}

/* Kills the victim; one that nobody else starts again the test does. False: it was too late. */
static bool strike(const struct story *s, const struct kill *k, struct cast *cast)
{
    const struct timespec delay = {.tv_nsec = k->delay_us * 1000L};
    const int64_t end_ms = now_ms() + DEADLINE_MS + SLACK_MS;
    struct process *p = &cast->processes[k->victim];
    pid_t ids[PROCESSES_MAX];
    int seen = 0;

    while (lines_of(&cast->processes[0]) < k->line && !has_ended(cast) && now_ms() < end_ms)
        (void)poll(NULL, 0, 1);
    (void)nanosleep(&delay, NULL);
    while (s->launched && seen < s->process_count && !has_ended(cast) && now_ms() < end_ms)
        seen = children_of(cast->processes[0].id, ids, PROCESSES_MAX);
    if (has_ended(cast))
        return false;
    if (s->launched)
        return kill(ids[k->victim], SIGKILL) == 0;
    if (p->id == 0)
        return false;
    (void)kill(p->id, SIGKILL);
    (void)waitpid(p->id, &p->status, 0);
    return start_one(s, cast, k->victim);
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

/* The text between `before` and a quote, or "". */
static void word_behind(const char *text, const char *before, char *ret, size_t ret_bytes)
{
    const char *at = strstr(text, before);

    ret[0] = '\0';
    if (at == NULL)
        return;
    at += strlen(before);
    (void)snprintf(ret, ret_bytes, "%.*s", (int)strcspn(at, "\"}"), at);
}

static bool ended_well(const struct cast *cast)
{
    for (int i = 0; i < cast->count; i++)
        if (!WIFEXITED(cast->processes[i].status) || WEXITSTATUS(cast->processes[i].status) != 0)
            return false;
    return true;
}

static void weights_of(const struct cast *cast, char ret[32])
{
    static char out[OUTPUT_BYTES];

    (void)read_text(cast->processes[0].out, out);
    word_behind(out, "\"weights\":\"", ret, 32);
}

static void fail(const struct story *s, const struct cast *cast, const char *what)
{
    static char text[OUTPUT_BYTES];

    TEST_FAIL("seed %" PRIu64 ": %s", s->seed, what);
    for (int i = 0; i < cast->count; i++) {
        (void)read_text(cast->processes[i].err, text);
        fprintf(stderr, "process %d, status %x, said\n%s", i, (unsigned)cast->processes[i].status,
                text);
    }
    tell(s);
}

static void check_says(const struct story *s, const struct cast *cast, const char *text)
{
    static char err[OUTPUT_BYTES];

    (void)read_text(cast->processes[0].err, err);
    if (strstr(err, text) == NULL) {
        fprintf(stderr, "not said: '%s'\n", text);
        fail(s, cast, "it says something else");
    }
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
