/* Plays what a cluster does with a manifest, on this host: starts the processes of its pods with
 * their environments, names and ports replaced by some of this host, and, as the Job says, starts
 * again those that end. */
#ifndef TUTTI_TESTS_TOOLS_PODS_H
#define TUTTI_TESTS_TOOLS_PODS_H

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/runtime/ports.h"
#include "tests/test.h"
#include "tests/tools/cli_text.h"
#include "tests/tools/yaml.h"

enum { PODS_MAX = 6, POD_WORDS_MAX = 64, POD_DEADLINE_MS = 120000, POD_CODES_MAX = 64 };

struct pod {
    pid_t id; /* 0: it does not run */
    int out;  /* of its newest start: a pipe of a page, so that it does not run ahead of us */
    int err;  /* of all its starts */
    struct text said; /* read from `out` */
    int starts;
    int failures; /* that count */
    bool succeeded;
    struct text words[POD_WORDS_MAX];
    int word_count;
    struct text environment[4]; /* NAME=VALUE */
    int variable_count;
};

struct pods {
    struct pod pods[PODS_MAX];
    int count;
    uint16_t ports[PODS_MAX];
    const struct yaml *rules; /* of the Job; NULL: nothing is started again */
    bool failed;              /* the Job has given up */
    bool over;                /* it is done, by its successPolicy: who still runs is told to end */
    int codes[POD_CODES_MAX]; /* in the order in which they came */
    int code_count;
};

/* ---- what a pod is --------------------------------------------------------------------------- */

/* Kubernetes: "$$" is '$', $(NAME) a variable if there is one; here is none that is asked for. */
static inline void pod_expand(const char *text, struct text *ret)
{
    for (; *text != '\0'; text++) {
        text += text[0] == '$' && text[1] == '$';
        text_add(ret, text, 1);
    }
}

/* The addresses "HOST:PORT" of the pods in a text become those of this host. */
static inline void pod_localise(const char *text, char names[PODS_MAX][160],
                                const uint16_t ports[PODS_MAX], int count, struct text *ret)
{
    text_add(ret, "", 0);
    while (*text != '\0') {
        int i = 0;

        while (i < count && strncmp(text, names[i], strlen(names[i])) != 0)
            i++;
        if (i < count) {
            char local[32];
            int bytes = snprintf(local, sizeof(local), "127.0.0.1:%u", (unsigned)ports[i]);

            text_add(ret, local, (size_t)bytes);
            text += strlen(names[i]);
        } else {
            text_add(ret, text++, 1);
        }
    }
}

static inline void pod_variable(struct pod *pod, const char *name, const char *value)
{
    struct text *variable = &pod->environment[pod->variable_count++];

    text_add(variable, name, strlen(name));
    text_add(variable, "=", 1);
    text_add(variable, value, strlen(value));
}

/* Command and arguments of the container at `path`. */
static inline void pod_words(struct pod *pod, const struct yaml *y, const char *path)
{
    static const char *const parts[] = {"command", "args"};

    for (int part = 0; part < 2; part++) {
        for (int i = 0; pod->word_count < POD_WORDS_MAX - 1; i++) {
            char key[YAML_PATH_BYTES];
            const char *word;

            snprintf(key, sizeof(key), "%.120s.%s.%d", path, parts[part], i);
            word = yaml_at(y, key);
            if (word == NULL)
                break;
            pod_expand(word, &pod->words[pod->word_count++]);
        }
    }
}

static inline void pods_ports(struct pods *pods)
{
    for (int i = 0; i < pods->count; i++) {
        bool taken = true;

        for (uint64_t seed = test_seed; taken; seed++) {
            pods->ports[i] = test_free_port(seed);
            taken = false;
            for (int k = 0; k < i; k++)
                taken = taken || pods->ports[k] == pods->ports[i];
        }
    }
}

/* ---- running --------------------------------------------------------------------------------- */

static inline int64_t pods_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void pod_become(struct pod *pod, int out)
{
    char *words[POD_WORDS_MAX + 1] = {NULL};

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < pod->variable_count; i++)
        (void)putenv(pod->environment[i].at);
    for (int i = 0; i < pod->word_count; i++)
        words[i] = pod->words[i].at;
    (void)setenv("PATH", TUTTI_BINARY_DIR ":/usr/bin:/bin", 1);
    (void)setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(pod->err, STDERR_FILENO);
    (void)execvp(words[0], words);
    _exit(127);
}

static inline void pod_start(struct pod *pod)
{
    int ends[2];

    if (pod->starts++ > 0)
        close(pod->out);
    else
        pod->err = memfd_create("err", MFD_CLOEXEC);
    text_done(&pod->said);
    if (pod->err < 0 || pipe2(ends, O_CLOEXEC) != 0)
        abort();
    (void)fcntl(ends[1], F_SETPIPE_SZ, 4096);
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    pod->out = ends[0];
    fflush(NULL);
    pod->id = fork();
    if (pod->id == 0)
        pod_become(pod, ends[1]);
    if (pod->id < 0)
        abort();
    close(ends[1]);
}

static inline void pods_start(struct pods *pods)
{
    for (int i = 0; i < pods->count; i++)
        pod_start(&pods->pods[i]);
}

static inline void pod_read(int fd, struct text *ret)
{
    char buf[4096];
    off_t at = 0;
    ssize_t bytes;

    text_add(ret, "", 0);
    while ((bytes = pread(fd, buf, sizeof(buf), at)) > 0) {
        text_add(ret, buf, (size_t)bytes);
        at += bytes;
    }
}

/* What is there to be read: a page at most, or all. */
static inline void pod_listen(struct pod *pod, bool all)
{
    char buf[4096];
    ssize_t bytes;

    do {
        bytes = read(pod->out, buf, sizeof(buf));
        if (bytes > 0)
            text_add(&pod->said, buf, (size_t)bytes);
    } while (all && bytes > 0);
}

static inline int pod_lines(const struct pod *pod)
{
    int lines = 0;

    for (const char *c = text_of(&pod->said); *c != '\0'; c++)
        lines += *c == '\n';
    return lines;
}

/* What the Job's rules say of an exit code: "FailJob", "Ignore", or "Count" where none does. */
static inline const char *pods_action(const struct pods *pods, int code)
{
    for (int rule = 0; rule < 8; rule++) {
        char path[YAML_PATH_BYTES];
        const char *action;

        snprintf(path, sizeof(path), "1.spec.podFailurePolicy.rules.%d.action", rule);
        action = yaml_at(pods->rules, path);
        for (int i = 0; action != NULL && i < 8; i++) {
            const char *value;

            snprintf(path, sizeof(path), "1.spec.podFailurePolicy.rules.%d.onExitCodes.values.%d",
                     rule, i);
            value = yaml_at(pods->rules, path);
            if (value != NULL && strtol(value, NULL, 10) == code)
                return action;
        }
    }
    return "Count";
}

static inline void pods_ended(struct pods *pods, struct pod *pod, int status)
{
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    const char *action;

    pod_listen(pod, true);
    pod->id = 0;
    pod->succeeded = code == 0;
    if (pods->code_count < POD_CODES_MAX)
        pods->codes[pods->code_count++] = code;
    if (code == 0 || pods->rules == NULL || pods->over)
        return;
    action = pods_action(pods, code);
    pod->failures += strcmp(action, "Count") == 0;
    pods->failed =
        pods->failed || strcmp(action, "FailJob") == 0 ||
        pod->failures > strtol(yaml_at(pods->rules, "1.spec.backoffLimitPerIndex"), NULL, 10);
    (void)poll(NULL, 0, 20 * pod->failures); /* of the Job's own pause, a small part */
    if (!pods->failed)
        pod_start(pod);
}

/* Whether all of the pods that the Job's successPolicy names have ended well: "0,3". */
static inline bool pods_are_done(const struct pods *pods)
{
    const char *at = pods->rules == NULL
                         ? NULL
                         : yaml_at(pods->rules, "1.spec.successPolicy.rules.0.succeededIndexes");

    while (at != NULL && *at != '\0') {
        char *end;
        long index = strtol(at, &end, 10);

        if (end == at || index >= pods->count || !pods->pods[index].succeeded)
            return false;
        at = end + (*end == ',');
    }
    return at != NULL;
}

static inline void pods_end(struct pods *pods)
{
    pods->over = true;
    for (int i = 0; i < pods->count; i++)
        if (pods->pods[i].id > 0)
            (void)kill(pods->pods[i].id, SIGTERM);
}

/* One look at all; false: nobody runs any more. */
static inline bool pods_look(struct pods *pods)
{
    bool runs = false;

    for (int i = 0; i < pods->count; i++) {
        struct pod *pod = &pods->pods[i];
        int status;

        if (pod->id > 0)
            pod_listen(pod, false);
        if (pod->id > 0 && waitpid(pod->id, &status, WNOHANG) == pod->id)
            pods_ended(pods, pod, status);
        runs = runs || pod->id > 0;
    }
    if (!pods->over && pods_are_done(pods))
        pods_end(pods);
    return runs && !pods->failed;
}

/* Until nobody runs any more, or `lines` have come from the first pod since its last start. */
static inline void pods_wait(struct pods *pods, int starts, int lines)
{
    const int64_t due_ms = pods_now_ms() + POD_DEADLINE_MS;

    while (pods_look(pods)) {
        if (lines > 0 && pods->pods[0].starts >= starts && pod_lines(&pods->pods[0]) >= lines)
            return;
        if (pods_now_ms() > due_ms) {
            TEST_FAIL("the pods hang");
            return;
        }
        (void)poll(NULL, 0, 2);
    }
}

static inline void pods_done(struct pods *pods)
{
    for (int i = 0; i < pods->count; i++) {
        struct pod *pod = &pods->pods[i];

        if (pod->id > 0) {
            (void)kill(pod->id, SIGKILL);
            (void)waitpid(pod->id, NULL, 0);
        }
        if (pod->starts > 0) {
            close(pod->out);
            close(pod->err);
        }
        text_done(&pod->said);
        for (int k = 0; k < pod->word_count; k++)
            text_done(&pod->words[k]);
        for (int k = 0; k < pod->variable_count; k++)
            text_done(&pod->environment[k]);
    }
}

/* What they said, if the test fails. */
static inline void pods_tell(const struct pods *pods)
{
    for (int i = 0; i < pods->count; i++) {
        struct text said = {.at = NULL};

        pod_read(pods->pods[i].err, &said);
        fprintf(stderr, "pod %d: started %d times, failed %d, said\n%s", i, pods->pods[i].starts,
                pods->pods[i].failures, text_of(&said));
        text_done(&said);
    }
}

#endif
