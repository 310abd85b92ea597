/* Trainings that the test starts, as one command or as processes each by itself, and kills members
 * of. */
#ifndef TUTTI_TESTS_TOOLS_TRAIN_CAST_H
#define TUTTI_TESTS_TOOLS_TRAIN_CAST_H

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
#include "tests/runtime/data_files.h"
#include "tests/runtime/ports.h"
#include "tests/runtime/proc.h"
#include "tests/test.h"

#define TUTTI TUTTI_BINARY_DIR "/tutti"

enum {
    PROCESSES_MAX = 3,
    CAST_MAX = 4, /* and one that joins them */
    STEPS = 40,
    ELASTIC_STEPS = 300,
    KILLS_MAX = 2,
    DEADLINE_MS = 20000, /* that the processes are given */
    SLACK_MS = 60000,    /* for a machine that has other work, and sanitizers */
    ARGUMENTS_MAX = 40,
    OUTPUT_BYTES = 1 << 18,
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
    bool elastic;
    int join_line;  /* after so many steps another comes, */
    int leave_line; /* after so many it is told to leave; 0: it stays */
};

struct process {
    pid_t id; /* 0: has ended and been waited for */
    int status;
    int out; /* files in memory */
    int err;
    off_t counted; /* bytes of out, in which there are */
    int lines;     /* so many lines */
};

/* Those that the test has started: one command, or a process each. */
struct cast {
    struct process processes[CAST_MAX];
    int count;
    uint16_t port;
    const char *address; /* that the next one joins */
};

static struct data_folder world;
static char model_path[128];
static char checkpoints[128];

static inline int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void tell(const struct story *s)
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
static inline bool world_open(void)
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

static inline void remove_checkpoints(void)
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

static inline void fill(const struct story *s, const char *address, char text[8][64],
                        const char *ret[])
{
    int n = 0;

#define WORDS(...)                                                                         \
    for (const char *const *w = (const char *const[]){__VA_ARGS__, NULL}; *w != NULL; w++) \
    ret[n++] = *w
    (void)snprintf(text[0], sizeof(text[0]), "%d", s->process_count);
    (void)snprintf(text[1], sizeof(text[1]), "%d", s->save_every);
    (void)snprintf(text[2], sizeof(text[2]), "%d", s->restarts);
    (void)snprintf(text[3], sizeof(text[3]), "%d", s->elastic ? ELASTIC_STEPS : STEPS);
    (void)snprintf(text[4], sizeof(text[4]), "mnist:%.50s", world.path);
    (void)snprintf(text[5], sizeof(text[5]), "%dms", DEADLINE_MS);
    WORDS("tutti", "train", "--model", model_path, "--data", text[4], "--steps", text[3],
          "--global-batch", "48", "--optimizer", "adam", "--strategy", strategies[s->strategy],
          "--no-pin", "--deadline", text[5], "-B", "tcp");
    if (s->elastic)
        WORDS("--elastic", "1:4");
    if (address != NULL)
        WORDS("--join", address);
    else if (s->launched)
        WORDS("--launch", text[0]);
    if (s->restarts > 0)
        WORDS("--restarts", text[2]);
    if (s->saves)
        WORDS("--checkpoint", checkpoints, "--save-every", text[1], "--keep", "3");
#undef WORDS
    ret[n] = NULL;
}

static inline void become(const struct story *s, int index, const struct cast *cast)
{
    const struct process *p = &cast->processes[index];
    char text[8][64];
    const char *arguments[ARGUMENTS_MAX];
    char number[32];

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!s->launched) {
        (void)snprintf(number, sizeof(number), "%d", index);
        (void)setenv("TUTTI_RANK", number, 1);
        (void)snprintf(number, sizeof(number), "%d", s->process_count);
        (void)setenv("TUTTI_SIZE", number, 1);
        (void)snprintf(number, sizeof(number), "127.0.0.1:%d", cast->port);
        (void)setenv("TUTTI_ROOT", number, 1);
    }
    if (!s->launched || s->elastic)
        (void)setenv("TUTTI_SECRET", "of-no-worth-to-anybody", 1);
    (void)dup2(p->out, STDOUT_FILENO);
    (void)dup2(p->err, STDERR_FILENO);
    fill(s, cast->address, text, arguments);
    (void)execv(TUTTI, (char *const *)arguments);
    _exit(99);
}

static inline bool start_one(const struct story *s, struct cast *cast, int index)
{
    struct process *p = &cast->processes[index];

    fflush(NULL);
    p->id = fork();
    if (p->id == 0)
        become(s, index, cast);
    return p->id > 0;
}

/* Files of its own, to which one that is started again adds. */
static inline bool open_outputs(struct process *p)
{
    p->out = memfd_create("out", MFD_CLOEXEC);
    p->err = memfd_create("err", MFD_CLOEXEC);
    (void)fcntl(p->out, F_SETFL, O_APPEND);
    (void)fcntl(p->err, F_SETFL, O_APPEND);
    return p->out >= 0 && p->err >= 0;
}

static inline bool start(const struct story *s, struct cast *cast)
{
    bool works = true;

    *cast = (struct cast){.count = s->launched ? 1 : s->process_count,
                          .port = test_free_port(s->seed + (uint64_t)now_ms())};
    for (int i = 0; i < cast->count; i++)
        works = works && open_outputs(&cast->processes[i]) && start_one(s, cast, i);
    return works;
}

static inline int read_text(int fd, char text[OUTPUT_BYTES])
{
    ssize_t bytes = pread(fd, text, OUTPUT_BYTES - 1, 0);

    text[bytes > 0 ? bytes : 0] = '\0';
    return bytes > 0 ? (int)bytes : 0;
}

static inline int lines_of(struct process *p)
{
    char text[4096];
    ssize_t bytes;

    while ((bytes = pread(p->out, text, sizeof(text), p->counted)) > 0) {
        for (ssize_t i = 0; i < bytes; i++)
            p->lines += text[i] == '\n';
        p->counted += bytes;
    }
    return p->lines;
}

static inline bool await(struct cast *cast, int64_t end_ms)
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

static inline bool has_ended(struct cast *cast)
{
    return await(cast, 0);
}

static inline void cast_done(struct cast *cast)
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
static inline bool strike(const struct story *s, const struct kill *k, struct cast *cast)
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
        if ((seen = children_of(cast->processes[0].id, ids, PROCESSES_MAX)) < s->process_count)
            (void)poll(NULL, 0, 1);
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

/* The text between `before` and a quote, or "". */
static inline void word_behind(const char *text, const char *before, char *ret, size_t ret_bytes)
{
    const char *at = strstr(text, before);

    ret[0] = '\0';
    if (at == NULL)
        return;
    at += strlen(before);
    (void)snprintf(ret, ret_bytes, "%.*s", (int)strcspn(at, "\"}"), at);
}

static inline bool ended_well(const struct cast *cast)
{
    for (int i = 0; i < cast->count; i++)
        if (!WIFEXITED(cast->processes[i].status) || WEXITSTATUS(cast->processes[i].status) != 0)
            return false;
    return true;
}

static inline void weights_of(const struct cast *cast, char ret[32])
{
    static char out[OUTPUT_BYTES];

    (void)read_text(cast->processes[0].out, out);
    word_behind(out, "\"weights\":\"", ret, 32);
}

static inline void fail(const struct story *s, const struct cast *cast, const char *what)
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

static inline void check_says(const struct story *s, const struct cast *cast, const char *text)
{
    static char err[OUTPUT_BYTES];

    (void)read_text(cast->processes[0].err, err);
    if (strstr(err, text) == NULL) {
        fprintf(stderr, "not said: '%s'\n", text);
        fail(s, cast, "it says something else");
    }
}

#endif
