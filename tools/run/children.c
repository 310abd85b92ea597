/* Starts children, passes on what they say, and sees all of them end; see children.h. */
#include "tools/run/children_inside.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ASK_MS = 1000 };

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void done(struct tutti_children *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        children_close_end(&c->children[i].outputs);
        children_close_end(&c->children[i].errors);
        children_close_end(&c->children[i].results);
    }
    if (c->signals >= 0) {
        close(c->signals);
        (void)sigprocmask(SIG_SETMASK, &c->mask, NULL);
    }
    free(c->children);
    free(c->polled);
    free(c);
}

int tutti_children_new(const char *command, uint32_t count, struct tutti_sink *sink,
                       struct tutti_children **ret, struct tutti_err *err)
{
    struct tutti_children *c = calloc(1, sizeof(*c));
    sigset_t set;

    if (c == NULL)
        return tutti_nomem(err);
    *c = (struct tutti_children){.command = command, .sink = sink, .signals = -1};
    c->children = calloc(count, sizeof(c->children[0]));
    c->polled = calloc(2 * (size_t)count + 1, sizeof(c->polled[0]));
    if (c->children == NULL || c->polled == NULL) {
        done(c);
        return tutti_nomem(err);
    }
    c->count = count;
    for (uint32_t i = 0; i < count; i++)
        c->children[i].outputs = c->children[i].errors = c->children[i].results = -1;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &set, &c->mask);
    c->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (c->signals < 0) {
        (void)sigprocmask(SIG_SETMASK, &c->mask, NULL);
        done(c);
        return tutti_fail(err, TUTTI_EIO, "cannot wait for signals: %s", strerror(errno));
    }
    *ret = c;
    return 0;
}

/* ---- starting -------------------------------------------------------------------------------- */

/* Where a child's outputs go: its words, its results if it prints, and why it fails, each [0] to
 * read from; -1 for what it shares with this process. */
struct ends {
    int words[2];
    int results[2];
    int errors[2];
};

static void close_ends(struct ends *ends, int which)
{
    children_close_end(&ends->words[which]);
    children_close_end(&ends->results[which]);
    children_close_end(&ends->errors[which]);
}

/* Child 0, or where some may end before the others any of them. */
static bool prints(const struct tutti_children *c, uint32_t index)
{
    return index == 0 || c->least > 0;
}

static int open_ends(const struct tutti_children *c, uint32_t index, struct ends *ret,
                     struct tutti_err *err)
{
    bool files = tutti_sink_is_files(c->sink);
    int number = 0;

    *ret = (struct ends){.words = {-1, -1}, .results = {-1, -1}, .errors = {-1, -1}};
    if (pipe2(ret->errors, O_CLOEXEC | O_NONBLOCK) != 0)
        number = errno;
    if (number == 0 && (index > 0 || !files) && pipe2(ret->words, O_CLOEXEC) != 0)
        number = errno;
    if (number == 0 && prints(c, index) && !files && pipe2(ret->results, O_CLOEXEC) != 0)
        number = errno;
    if (number == 0)
        return 0;
    close_ends(ret, 0);
    close_ends(ret, 1);
    return tutti_fail(err, TUTTI_EIO, "cannot make a pipe: %s", strerror(number));
}

/* In the child, before anything else. A terminal that it writes to must not stop it. */
static void become_child(struct tutti_children *c, uint32_t index, pid_t parent, struct ends *ends)
{
    struct tutti_sink *sink = c->sink;
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int words = ends->words[1] >= 0 ? ends->words[1] : fileno(sink->notes);
    int results = ends->results[1] >= 0 ? ends->results[1] : fileno(sink->out);
    int errors = fcntl(ends->errors[1], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died in between */
        _exit(1);
    (void)signal(SIGTTOU, SIG_IGN);
    if (nothing >= 0)
        (void)dup2(nothing, STDIN_FILENO);
    if (!prints(c, index))
        results = words;
    (void)dup2(results, STDOUT_FILENO);
    (void)dup2(words, STDERR_FILENO);
    close_ends(ends, 0);
    close_ends(ends, 1);
    if (!tutti_sink_become_child(sink, index == 0) || (sink->errors = fdopen(errors, "w")) == NULL)
        _exit(1);
    done(c);
}

static int start(struct tutti_children *c, uint32_t index, bool *ret_child, struct tutti_err *err)
{
    struct tutti_child *child = &c->children[index];
    struct ends ends;
    pid_t parent = getpid();
    pid_t id;
    int status = open_ends(c, index, &ends, err);

    if (status < 0)
        return status;
    fflush(c->sink->out);
    fflush(c->sink->notes);
    id = fork();
    *ret_child = id == 0;
    if (id == 0) {
        become_child(c, index, parent, &ends);
        return 0;
    }
    close_ends(&ends, 1);
    if (id < 0) {
        close_ends(&ends, 0);
        return tutti_fail(err, TUTTI_EIO, "cannot start process %u of %u: %s", index, c->count,
                          strerror(errno));
    }
    (void)setpgid(id, id); /* here as well: whoever comes first */
    *child = (struct tutti_child){
        .id = id, .outputs = ends.words[0], .errors = ends.errors[0], .results = ends.results[0]};
    c->alive++;
    return 0;
}

int tutti_children_start(struct tutti_children *c, bool *ret_child, struct tutti_err *err)
{
    int status;

    assert(c->started < c->count);
    status = start(c, c->started, ret_child, err);
    if (status == 0 && !*ret_child)
        c->started++;
    return status;
}

/* ---- their ends ------------------------------------------------------------------------------ */

static void signal_all(struct tutti_children *c, int number)
{
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->children[i].id > 0 && kill(-c->children[i].id, number) != 0)
            (void)kill(c->children[i].id, number); /* it has no group of its own yet */
    }
}

/* All are to end: asked at `ask_ms`. */
static void begin_end(struct tutti_children *c, int64_t ask_ms)
{
    if (c->ask_ms == 0 || ask_ms < c->ask_ms)
        c->ask_ms = ask_ms;
}

/* Whether it has ended otherwise than a command does that knows why: those codes are 0, 1, 2 and
 * 77, and the one of its own choice. */
static bool is_lost(const struct tutti_children *c, int status)
{
    static const int own[] = {0, 1, 2, 77};
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (code == own[i])
            return false;
    return code != c->stop_code || c->stop_code == 0;
}

/* "process 1 of 3 was ended by signal 9 (Killed)", by name if it has one, and what comes of it: one
 * write. */
static void say_end(const struct tutti_children *c, uint32_t index, const char *consequence)
{
    int status = c->children[index].status;
    char how[64];
    char called[64] = "";
    char name[96] = "";

    if (c->name != NULL) {
        c->name(c->name_context, index, called, sizeof(called));
        (void)snprintf(name, sizeof(name), "%s, ", called);
    }
    if (WIFSIGNALED(status))
        (void)snprintf(how, sizeof(how), "was ended by signal %d (%s)", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    else
        (void)snprintf(how, sizeof(how), "has ended with code %d", WEXITSTATUS(status));
    fprintf(c->sink->notes, "tutti %s: %sprocess %u of %u%s %s%s\n", c->command, name, index,
            c->count, c->name != NULL ? "," : "", how, consequence);
}

/* Once for all of them: why the first has failed. */
static void tell(struct tutti_children *c, uint32_t index)
{
    const struct tutti_child *child = &c->children[index];
    char text[CHILDREN_LINE_BYTES];
    char more[64] = "";
    ssize_t got;

    if (c->told || c->kill_ms != 0 || c->ended_by != 0)
        return;
    got = WIFSIGNALED(child->status) ? 0 : read(child->errors, text, sizeof(text));
    if (got <= 0 && !is_lost(c, child->status))
        return;
    c->told = true;
    if (got > 0 && index > 0)
        fprintf(c->sink->notes, "[%u] %.*s", index, (int)got, text);
    else if (got > 0)
        fprintf(c->sink->notes, "%.*s", (int)got, text);
    if (got > 0)
        return;
    if (c->restarts > 0)
        (void)snprintf(more, sizeof(more), ", and none is started again any more (%u of %u)",
                       c->restarts, c->restarts_most);
    say_end(c, index, more);
}

/* One that is lost, if it is of those that all others can do without. */
static bool spare(struct tutti_children *c, uint32_t index)
{
    if (index < c->some_first || index - c->some_first >= c->some_count ||
        c->some_count - c->some_lost <= c->some_least)
        return false;
    c->some_lost++;
    c->spared++;
    say_end(c, index, ": the others go on");
    return true;
}

/* One that has ended, and the others go on: it is started again, or they do without it. */
static bool goes_on(struct tutti_children *c, uint32_t index)
{
    struct tutti_child *child = &c->children[index];
    const bool stops = WIFEXITED(child->status) && WEXITSTATUS(child->status) == c->stop_code;
    char more[64];

    if (c->ask_ms != 0)
        return false;
    if (c->over)
        return is_lost(c, child->status) && spare(c, index);
    if (c->least > 0 && stops)
        return c->alive > 0;
    if (!is_lost(c, child->status))
        return false;
    if (c->restarts < c->restarts_most) {
        (void)snprintf(more, sizeof(more), ": started again, restart %u of %u", ++c->restarts,
                       c->restarts_most);
        say_end(c, index, more);
        child->lost = true;
        return true;
    }
    if (c->least == 0 || c->alive < c->least)
        return spare(c, index);
    c->spared++;
    (void)snprintf(more, sizeof(more), ": %u go on", c->alive);
    say_end(c, index, more);
    return true;
}

static void note_end(struct tutti_children *c, uint32_t index, int64_t grace_ms)
{
    int status = c->children[index].status;
    int code = WIFSIGNALED(status) ? 1 : WEXITSTATUS(status);
    const uint32_t spared = c->spared;
    const bool is_first = c->alive == c->count - spared;
    bool goes = false;

    c->children[index].ended = false;
    c->alive--;
    c->over = c->over || code == 0;
    if (code != 0)
        goes = goes_on(c, index);
    if (c->spared == spared)
        c->alike = WIFEXITED(status) && (is_first ? code != 0 : c->alike && code == c->code);
    if (code == 0 || goes)
        return;
    tell(c, index);
    if (c->code == 0)
        c->code = code;
    /* One that has stopped by notice has saved; the others may be about to. */
    if (c->stop_code != 0 && code == c->stop_code && c->save_ms > grace_ms)
        grace_ms = c->save_ms;
    begin_end(c, now_ms() + grace_ms);
}

static void look(struct tutti_children *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        struct tutti_child *child = &c->children[i];
        int status;

        while (child->id > 0 && waitpid(child->id, &status, WNOHANG | WUNTRACED | WCONTINUED) > 0) {
            child->stopped = WIFSTOPPED(status);
            if (!WIFEXITED(status) && !WIFSIGNALED(status))
                continue;
            child->id = 0;
            child->ended = true;
            child->status = status;
        }
    }
}

/* Those that a signal has ended come first. Whoever has failed for one ended later: a second look
 * finds it. */
static void reap(struct tutti_children *c, int64_t grace_ms)
{
    look(c);
    look(c);
    for (uint32_t i = 0; i < c->count; i++)
        if (c->children[i].ended && WIFSIGNALED(c->children[i].status))
            note_end(c, i, grace_ms);
    for (uint32_t i = 0; i < c->count; i++)
        if (c->children[i].ended)
            note_end(c, i, grace_ms);
}

/* Whether nobody is left who could still end by itself. */
static bool all_stopped(const struct tutti_children *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->children[i].id > 0 && !c->children[i].stopped)
            return false;
    }
    return true;
}

static void read_signals(struct tutti_children *c)
{
    struct signalfd_siginfo info;

    while (read(c->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            continue;
        c->ended_by = (int)info.ssi_signo;
        begin_end(c, now_ms());
    }
}

/* Asks, and makes them, when it is time to; returns how long to sleep: -1 until something comes. */
static int urge(struct tutti_children *c)
{
    int64_t now = now_ms();

    if (c->ask_ms == 0)
        return -1;
    if (c->kill_ms == 0 && all_stopped(c))
        c->kill_ms = now;
    if (c->kill_ms == 0 && now >= c->ask_ms) {
        signal_all(c, SIGTERM);
        c->kill_ms = now + (c->ended_by == SIGTERM && c->save_ms > 0 ? c->save_ms : ASK_MS);
    }
    if (c->kill_ms != 0 && now >= c->kill_ms) {
        signal_all(c, SIGKILL);
        c->kill_ms = now + ASK_MS; /* nobody withstands it, but some take time to end */
    }
    return (int)((c->kill_ms != 0 ? c->kill_ms : c->ask_ms) - now);
}

static void sleep_once(struct tutti_children *c, int timeout_ms)
{
    for (uint32_t i = 0; i < c->count; i++)
        c->polled[i] = (struct pollfd){.fd = c->children[i].outputs, .events = POLLIN};
    for (uint32_t i = 0; i < c->count; i++)
        c->polled[c->count + i] = (struct pollfd){.fd = c->children[i].results, .events = POLLIN};
    c->polled[2 * c->count] = (struct pollfd){.fd = c->signals, .events = POLLIN};
    if (poll(c->polled, 2 * c->count + 1, timeout_ms) <= 0)
        return;
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->polled[i].revents != 0)
            tutti_children_pass_words(c, i);
        if (c->polled[c->count + i].revents != 0)
            tutti_children_pass_results(c, i);
    }
    read_signals(c);
}

void tutti_children_let_save(struct tutti_children *c, tutti_ps time_ps)
{
    c->save_ms = time_ps / TUTTI_PS_PER_MS;
}

void tutti_children_restart(struct tutti_children *c, uint32_t count, int stop_code)
{
    c->restarts_most = count;
    c->stop_code = stop_code;
}

void tutti_children_spare(struct tutti_children *c, uint32_t least, int stop_code)
{
    assert(c->started == 0);
    assert(least > 0);
    c->least = least;
    c->stop_code = stop_code;
}

void tutti_children_spare_some(struct tutti_children *c, uint32_t first, uint32_t count,
                               uint32_t least)
{
    assert(first + count <= c->count);
    c->some_first = first;
    c->some_count = count;
    c->some_least = least;
}

void tutti_children_call(struct tutti_children *c, tutti_children_name_fn name, const void *context)
{
    c->name = name;
    c->name_context = context;
}

/* Those that are lost. In one of those that begin *ret_again is its number. */
static void start_again(struct tutti_children *c, uint32_t *ret_again)
{
    for (uint32_t i = 0; i < c->count; i++) {
        struct tutti_child *child = &c->children[i];
        struct tutti_err err;
        bool is_child = false;

        if (!child->lost)
            continue;
        child->lost = false;
        if (c->ask_ms != 0)
            continue;
        tutti_children_drain(c, i);
        children_close_end(&child->outputs);
        children_close_end(&child->errors);
        children_close_end(&child->results);
        if (start(c, i, &is_child, &err) < 0) {
            fprintf(c->sink->notes, "tutti %s: %s\n", c->command, err.text);
            c->code = 1;
            begin_end(c, now_ms());
        }
        if (!is_child)
            continue;
        *ret_again = i;
        return;
    }
}

int tutti_children_keep(struct tutti_children *c, tutti_ps grace_ps, uint32_t *ret_again)
{
    int64_t grace_ms = grace_ps / TUTTI_PS_PER_MS;
    int ended_by;
    int code;

    *ret_again = TUTTI_CHILDREN_NONE;
    if (c->started < c->count) { /* one could not be started, which has been said */
        c->code = 1;
        begin_end(c, now_ms());
    }
    for (;;) {
        int timeout_ms;

        reap(c, grace_ms);
        start_again(c, ret_again);
        if (*ret_again != TUTTI_CHILDREN_NONE)
            return 0;
        if (c->alive == 0)
            break;
        timeout_ms = urge(c);
        sleep_once(c, timeout_ms < 0 ? -1 : timeout_ms);
    }
    for (uint32_t i = 0; i < c->count; i++)
        tutti_children_drain(c, i);
    ended_by = c->ended_by == SIGTERM && c->save_ms > 0 && c->alike ? 0 : c->ended_by;
    code = c->code;
    done(c);
    if (ended_by != 0) { /* so that who waits for this command learns what ended it */
        (void)signal(ended_by, SIG_DFL);
        (void)raise(ended_by);
    }
    return code;
}

int tutti_children_wait(struct tutti_children *c, tutti_ps grace_ps)
{
    uint32_t again;

    assert(c->restarts_most == 0);
    return tutti_children_keep(c, grace_ps, &again);
}
