/* Faults in real training: at some moment a process is killed, or told to stop. Nobody hangs, no
 * checkpoint is harmed, and the same command goes on from the newest complete one to the weights
 * of a training that nothing has happened to, bit by bit. A story follows from its seed alone, but
 * for what the machine makes of the moment; --full tells 200 of kills and 50 of SIGTERM. */
#include <dirent.h>
#include <errno.h>
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
    DEADLINE_MS = 20000, /* that the processes are given */
    SLACK_MS = 60000,    /* for a machine that has other work, and sanitizers */
    ARGUMENTS_MAX = 40,
    OUTPUT_BYTES = 1 << 15,
    LINES_MAX = STEPS - 2,
};

/* 784-8-10: 51 kB of weights and moments. */
static const char model[] = "model net\n"
                            "sample image bytes 785\n"
                            "logits 10\n"
                            "layer hidden\n"
                            "  operation hidden matmul 1 x 784 x 8 first\n"
                            "  operation relu elementwise in 8 out 8\n"
                            "  variable weights elements 6272 rows 784\n"
                            "  variable biases elements 8\n"
                            "layer classes\n"
                            "  operation classes matmul 1 x 8 x 10\n"
                            "  variable weights elements 80 rows 8\n"
                            "  variable biases elements 10\n";

static const char *const strategies[] = {"multiworkermirrored", "zero1", "fsdp"};

enum { STRATEGIES = 3 };

struct story {
    uint64_t seed;
    int process_count; /* 1: threads */
    bool launched;     /* by --launch; else each by hand */
    int strategy;
    int save_every;
    int victim;   /* process_count: the command that has launched the others */
    int line;     /* it happens once so many steps are printed; 0: at any time */
    int delay_us; /* and so much later */
    int stop_code;
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
    pid_t ids[PROCESSES_MAX + 1]; /* of the processes of the training, and of the command */
    int id_count;
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
    s.process_count = 1 + (int)tutti_random_below(&random, 8) % PROCESSES_MAX;
    s.launched = tutti_random_below(&random, 2) == 0 && s.process_count > 1;
    s.strategy = (int)tutti_random_below(&random, STRATEGIES);
    s.save_every = 1 + (int)tutti_random_below(&random, 6);
    s.victim = (int)tutti_random_below(&random, (uint64_t)s.process_count + s.launched);
    s.line = (int)tutti_random_below(&random, LINES_MAX);
    s.delay_us = (int)tutti_random_below(&random, s.line == 0 ? 200000 : 4000);
    s.stop_code = tutti_random_below(&random, 2) == 0 ? 42 : 143;
    return s;
}

static void tell(const struct story *s, const char *what)
{
    fprintf(stderr,
            "seed %" PRIu64 ": %d processes%s, %s, saved every %d steps: %s %d is %s after %d "
            "steps and %d us\n",
            s->seed, s->process_count, s->launched ? " of --launch" : "", strategies[s->strategy],
            s->save_every, s->victim < s->process_count ? "process" : "the command", s->victim,
            what, s->line, s->delay_us);
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

static void fill(const struct story *s, bool saves, char text[8][64], const char *ret[])
{
    int n = 0;

#define WORDS(...)                                                                         \
    for (const char *const *w = (const char *const[]){__VA_ARGS__, NULL}; *w != NULL; w++) \
    ret[n++] = *w
    (void)snprintf(text[0], sizeof(text[0]), "%d", s->process_count);
    (void)snprintf(text[1], sizeof(text[1]), "%d", s->save_every);
    (void)snprintf(text[2], sizeof(text[2]), "%d", s->stop_code);
    (void)snprintf(text[3], sizeof(text[3]), "%d", STEPS);
    (void)snprintf(text[4], sizeof(text[4]), "mnist:%.50s", world.path);
    (void)snprintf(text[5], sizeof(text[5]), "%dms", DEADLINE_MS);
    WORDS("tutti", "train", "--model", model_path, "--data", text[4], "--steps", text[3],
          "--global-batch", "16", "--optimizer", "adam", "--strategy", strategies[s->strategy],
          "--no-pin", "--deadline", text[5]);
    if (s->process_count == 1)
        WORDS("-B", "threads", "-g", "2");
    else
        WORDS("-B", "tcp");
    if (s->launched)
        WORDS("--launch", text[0]);
    if (saves)
        WORDS("--checkpoint", checkpoints, "--save-every", text[1], "--stop-code", text[2],
              "--keep", "3");
#undef WORDS
    ret[n] = NULL;
}

static void become(const struct story *s, bool saves, int index, uint16_t port,
                   const struct process *p)
{
    char text[8][64];
    const char *arguments[ARGUMENTS_MAX];
    char number[32];

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (s->process_count > 1 && !s->launched) {
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
    fill(s, saves, text, arguments);
    (void)execv(TUTTI, (char *const *)arguments);
    _exit(99);
}

static bool start(const struct story *s, bool saves, struct cast *cast)
{
    uint16_t port = test_free_port(s->seed + (uint64_t)now_ms());

    *cast = (struct cast){.count = s->launched ? 1 : s->process_count};
    fflush(NULL);
    for (int i = 0; i < cast->count; i++) {
        struct process *p = &cast->processes[i];

        p->out = memfd_create("out", MFD_CLOEXEC);
        p->err = memfd_create("err", MFD_CLOEXEC);
        p->id = p->out < 0 || p->err < 0 ? -1 : fork();
        if (p->id == 0)
            become(s, saves, i, port, p);
        if (p->id < 0)
            return false;
        cast->ids[cast->id_count++] = p->id;
    }
    return true;
}

static int read_text(int fd, char text[OUTPUT_BYTES])
{
    ssize_t bytes = pread(fd, text, OUTPUT_BYTES - 1, 0);

    text[bytes > 0 ? bytes : 0] = '\0';
    return bytes > 0 ? (int)bytes : 0;
}

static int lines_of(const struct process *p)
{
    char text[OUTPUT_BYTES];
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

static bool has_ended(struct cast *cast)
{
    return await(cast, 0);
}

/* Waits for the moment, and sends the victim the signal. With --launch the processes are children
 * of the command, which comes behind them. */
static void strike(const struct story *s, struct cast *cast, int number)
{
    struct timespec delay = {.tv_nsec = s->delay_us * 1000L};
    const int64_t end_ms = now_ms() + DEADLINE_MS + SLACK_MS;
    pid_t command = cast->ids[0];

    for (int seen = 0; s->launched && seen < s->process_count && !has_ended(cast);) {
        seen = children_of(command, cast->ids, PROCESSES_MAX);
        cast->id_count = seen;
        (void)poll(NULL, 0, seen < s->process_count);
    }
    if (s->launched)
        cast->ids[cast->id_count++] = command;
    while (lines_of(&cast->processes[0]) < s->line && !has_ended(cast) && now_ms() < end_ms)
        (void)poll(NULL, 0, 1);
    (void)nanosleep(&delay, NULL);
    if (s->victim >= cast->id_count || has_ended(cast))
        return;
    if (s->launched || cast->processes[s->victim].id > 0)
        (void)kill(cast->ids[s->victim], number);
}

/* ---- what must come of it -------------------------------------------------------------------- */

/* Opens all that are complete, and reads all of them; the newest one's step, 0: there is none. */
static uint64_t check_checkpoints(const struct story *s)
{
    const struct tutti_checkpoint_source source = {.verify = true};
    struct tutti_checkpoint_id *ids = NULL;
    struct tutti_err err = {""};
    size_t count = 0;
    uint64_t newest = 0;
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
    if (count > 0)
        newest = ids[0].step;
    free(ids);
    return newest;
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

/* A training that nothing happens to, from wherever it begins: its weights. */
static void train_on(const struct story *s, bool saves, uint64_t from, char ret_weights[32])
{
    struct cast cast;
    char out[OUTPUT_BYTES];
    char err[OUTPUT_BYTES];
    char restored[64];
    bool ended;

    ret_weights[0] = '\0';
    ended = start(s, saves, &cast) && await(&cast, now_ms() + DEADLINE_MS + SLACK_MS);
    (void)read_text(cast.processes[0].out, out);
    (void)read_text(cast.processes[0].err, err);
    word_behind(out, "\"weights\":\"", ret_weights, 32);
    (void)snprintf(restored, sizeof(restored), "restored step %" PRIu64 " from", from);
    if (!ended || ret_weights[0] == '\0' ||
        (from == 0 ? err[0] != '\0' : strstr(err, restored) == NULL) ||
        (from > 0 && strchr(err, '\n') != err + strlen(err) - 1))
        TEST_FAIL("seed %" PRIu64 ": from step %" PRIu64 " on it has %s:\n%s%s", s->seed, from,
                  ended ? "ended" : "hung", out, err);
    cast_done(&cast);
}

static void check_weights(const struct story *s, uint64_t from)
{
    char *expected = undisturbed[s->process_count][s->strategy];
    char seen[32];

    if (expected[0] == '\0')
        train_on(s, false, 0, expected);
    train_on(s, true, from, seen);
    if (strcmp(seen, expected) != 0)
        TEST_FAIL("seed %" PRIu64 ": weights %s, undisturbed %s", s->seed, seen, expected);
}

static void check_none_left(const struct story *s, const struct cast *cast)
{
    for (int i = 0; i < cast->id_count; i++) {
        for (int turn = 0; turn < 500 && is_alive(cast->ids[i]); turn++)
            (void)poll(NULL, 0, 10);
        if (is_alive(cast->ids[i]))
            TEST_FAIL("seed %" PRIu64 ": process %d is still there", s->seed, i);
    }
}

/* ---- killed ---------------------------------------------------------------------------------- */

/* Who is left fails, and names the one that is lost: or all had ended before. */
static void check_blame(const struct story *s, const struct cast *cast)
{
    char name[32];
    char out[OUTPUT_BYTES];
    char err[OUTPUT_BYTES];

    (void)snprintf(name, sizeof(name), "process %d", s->victim);
    (void)read_text(cast->processes[0].out, out);
    for (int i = 0; i < cast->count; i++) {
        const struct process *p = &cast->processes[i];
        bool well = WIFEXITED(p->status) && WEXITSTATUS(p->status) == 0;

        (void)read_text(p->err, err);
        if ((well && strstr(out, "\"final\"") != NULL) || WIFSIGNALED(p->status))
            continue;
        if (!WIFEXITED(p->status) || WEXITSTATUS(p->status) != 1 || strstr(err, name) == NULL)
            TEST_FAIL("seed %" PRIu64 ": status %x of %d, which said\n%s", s->seed,
                      (unsigned)p->status, i, err);
    }
}

static void tell_of_a_kill(uint64_t seed)
{
    struct story s = story_of(seed);
    struct cast cast;
    const int failures = test_failures;
    bool ended;

    remove_checkpoints();
    REQUIRE(start(&s, true, &cast));
    strike(&s, &cast, SIGKILL);
    ended = await(&cast, now_ms() + DEADLINE_MS + SLACK_MS);
    if (!ended)
        TEST_FAIL("seed %" PRIu64 ": it hangs", seed);
    if (ended)
        check_blame(&s, &cast);
    if (ended)
        check_none_left(&s, &cast);
    cast_done(&cast);
    if (ended)
        check_weights(&s, check_checkpoints(&s));
    if (test_failures > failures)
        tell(&s, "killed");
}

TEST(a_process_that_is_killed_costs_a_few_steps)
{
    const uint64_t count = test_count(200, 60);

    REQUIRE(world_open());
    for (uint64_t i = 0; i < count; i++)
        tell_of_a_kill(test_seed + i);
}

/* ---- told to stop ---------------------------------------------------------------------------- */

/* All have saved one step, the same, and end with the code that was asked for. */
static void check_stopped(const struct story *s, const struct cast *cast, uint64_t newest)
{
    char out[OUTPUT_BYTES];
    char err[OUTPUT_BYTES];
    char step[32];
    bool over;

    (void)read_text(cast->processes[0].out, out);
    over = strstr(out, "\"final\"") != NULL; /* before the signal came */
    word_behind(out, "{\"stopped\":{\"step\":", step, sizeof(step));
    if (!over && (step[0] == '\0' || strtoull(step, NULL, 10) != newest))
        TEST_FAIL("seed %" PRIu64 ": stopped at '%s', and the newest is of %" PRIu64, s->seed, step,
                  newest);
    for (int i = 0; i < cast->count; i++) {
        const struct process *p = &cast->processes[i];

        (void)read_text(p->err, err);
        if (!WIFEXITED(p->status) || WEXITSTATUS(p->status) != (over ? 0 : s->stop_code) ||
            err[0] != '\0')
            TEST_FAIL("seed %" PRIu64 ": status %x of %d, code %d is asked for; it said\n%s%s",
                      s->seed, (unsigned)p->status, i, s->stop_code, out, err);
    }
}

static void tell_of_a_stop(uint64_t seed)
{
    struct story s = story_of(seed);
    struct cast cast;
    const int failures = test_failures;
    uint64_t newest;
    bool ended;

    s.line = s.line > 0 ? s.line : 1; /* before that nobody listens */
    s.delay_us %= 4000;
    remove_checkpoints();
    REQUIRE(start(&s, true, &cast));
    strike(&s, &cast, SIGTERM);
    ended = await(&cast, now_ms() + DEADLINE_MS + SLACK_MS);
    if (!ended)
        TEST_FAIL("seed %" PRIu64 ": it hangs", seed);
    newest = check_checkpoints(&s);
    if (ended)
        check_stopped(&s, &cast, newest);
    if (ended)
        check_none_left(&s, &cast);
    cast_done(&cast);
    if (ended)
        check_weights(&s, newest);
    if (test_failures > failures)
        tell(&s, "told to stop");
}

TEST(one_that_is_told_to_stop_has_all_save_the_same_step)
{
    const uint64_t count = test_count(50, 20);

    REQUIRE(world_open());
    for (uint64_t i = 0; i < count; i++)
        tell_of_a_stop(test_seed + 1000 + i);
}
