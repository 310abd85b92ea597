/* Starts children, passes on what they say, and sees all of them end; see children.h. */
#include "tools/run/children.h"

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

enum { LINE_BYTES = 2048, ASK_MS = 1000 };

struct child {
    pid_t id;     /* 0: not started, or ended and waited for */
    bool stopped; /* by a signal, until it is continued: it can neither end nor say anything */
    bool ended;   /* with `status`, which has not been looked at yet */
    int status;
    int outputs; /* the end to read from, or -1 */
    int errors;  /* of why it fails, likewise */
    size_t used;
    char line[LINE_BYTES];
};

struct tutti_children {
    const char *command;
    struct tutti_sink *sink;
    uint32_t count;
    uint32_t started;
    uint32_t alive;
    int signals;     /* of signalfd: INT, TERM, HUP, CHLD */
    int results;     /* of child 0, where the sink is no file: the end to read from, or -1 */
    sigset_t mask;   /* before */
    int code;        /* of the first that failed */
    bool told;       /* why it has; the others fail for it, and theirs is not told */
    int ended_by;    /* the signal that ends this command, or 0 */
    int64_t ask_ms;  /* when those that are left are asked to end; 0: not yet */
    int64_t kill_ms; /* and made to */
    int64_t save_ms; /* that a SIGTERM leaves them; 0: what any signal does */
    bool alike;      /* all that have ended did so with `code` */
    struct child *children;
    struct pollfd *polled; /* [count + 2]: of the children, signals, results */
};

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void done(struct tutti_children *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->children[i].outputs >= 0)
            close(c->children[i].outputs);
        if (c->children[i].errors >= 0)
            close(c->children[i].errors);
    }
    if (c->results >= 0)
        close(c->results);
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
    *c = (struct tutti_children){.command = command, .sink = sink, .signals = -1, .results = -1};
    c->children = calloc(count, sizeof(c->children[0]));
    c->polled = calloc((size_t)count + 2, sizeof(c->polled[0]));
    if (c->children == NULL || c->polled == NULL) {
        done(c);
        return tutti_nomem(err);
    }
    c->count = count;
    for (uint32_t i = 0; i < count; i++)
        c->children[i].outputs = c->children[i].errors = -1;
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

/* Where a child's outputs go: its words, the results of child 0, and why it fails, each [0] to read
 * from; -1 for what it shares with this process. */
struct ends {
    int words[2];
    int results[2];
    int errors[2];
};

static void close_ends(const struct ends *ends, int which)
{
    if (ends->words[which] >= 0)
        close(ends->words[which]);
    if (ends->results[which] >= 0)
        close(ends->results[which]);
    if (ends->errors[which] >= 0)
        close(ends->errors[which]);
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
    if (number == 0 && index == 0 && !files && pipe2(ret->results, O_CLOEXEC) != 0)
        number = errno;
    if (number == 0)
        return 0;
    close_ends(ret, 0);
    close_ends(ret, 1);
    return tutti_fail(err, TUTTI_EIO, "cannot make a pipe: %s", strerror(number));
}

/* In the child, before anything else. A terminal that it writes to must not stop it. */
static void become_child(struct tutti_children *c, pid_t parent, const struct ends *ends)
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
    if (c->started > 0)
        results = words;
    (void)dup2(results, STDOUT_FILENO);
    (void)dup2(words, STDERR_FILENO);
    close_ends(ends, 0);
    close_ends(ends, 1);
    if (!tutti_sink_become_child(sink, c->started == 0) ||
        (sink->errors = fdopen(errors, "w")) == NULL)
        _exit(1);
    done(c);
}

int tutti_children_start(struct tutti_children *c, bool *ret_child, struct tutti_err *err)
{
    uint32_t index = c->started;
    struct ends ends;
    pid_t parent = getpid();
    pid_t id;
    int status;

    assert(index < c->count);
    status = open_ends(c, index, &ends, err);
    if (status < 0)
        return status;
    fflush(c->sink->out);
    fflush(c->sink->notes);
    id = fork();
    *ret_child = id == 0;
    if (id == 0) {
        become_child(c, parent, &ends);
        return 0;
    }
    close_ends(&ends, 1);
    if (id < 0) {
        close_ends(&ends, 0);
        return tutti_fail(err, TUTTI_EIO, "cannot start process %u of %u: %s", index, c->count,
                          strerror(errno));
    }
    (void)setpgid(id, id); /* here as well: whoever comes first */
    c->children[index].id = id;
    c->children[index].outputs = ends.words[0];
    c->children[index].errors = ends.errors[0];
    if (index == 0)
        c->results = ends.results[0];
    c->started++;
    c->alive++;
    return 0;
}

/* ---- their words ----------------------------------------------------------------------------- */

/* One write a line, so that those of several children do not mix. */
static void pass_line(const struct tutti_children *c, uint32_t index, const char *line,
                      size_t bytes)
{
    fprintf(c->sink->notes, "[%u] %.*s\n", index, (int)bytes, line);
}

/* What has come, line by line; a line that is too long is passed on in parts. */
static void pass_on(struct tutti_children *c, uint32_t index)
{
    struct child *child = &c->children[index];
    ssize_t got = read(child->outputs, child->line + child->used, LINE_BYTES - child->used);
    size_t start = 0;

    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got > 0)
        child->used += (size_t)got;
    for (size_t i = 0; i < child->used; i++) {
        if (child->line[i] != '\n')
            continue;
        pass_line(c, index, child->line + start, i - start);
        start = i + 1;
    }
    memmove(child->line, child->line + start, child->used - start);
    child->used -= start;
    if (child->used > 0 && (got <= 0 || child->used == LINE_BYTES)) {
        pass_line(c, index, child->line, child->used);
        child->used = 0;
    }
    if (got <= 0) {
        close(child->outputs);
        child->outputs = -1;
    }
}

/* What child 0 has printed, where the sink is no file. */
static void pass_results(struct tutti_children *c)
{
    char text[LINE_BYTES];
    ssize_t got = read(c->results, text, sizeof(text));

    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got > 0) {
        fwrite(text, 1, (size_t)got, c->sink->out);
        return;
    }
    close(c->results);
    c->results = -1;
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

/* Once for all of them: why the first has failed. */
static void tell(struct tutti_children *c, uint32_t index)
{
    const struct child *child = &c->children[index];
    char text[LINE_BYTES];
    ssize_t got;

    if (c->told || c->kill_ms != 0 || c->ended_by != 0)
        return;
    if (WIFSIGNALED(child->status)) {
        int number = WTERMSIG(child->status);

        fprintf(c->sink->notes, "tutti %s: process %u of %u was ended by signal %d (%s)\n",
                c->command, index, c->count, number, strsignal(number));
        c->told = true;
        return;
    }
    got = read(child->errors, text, sizeof(text));
    if (got <= 0)
        return;
    if (index > 0)
        fprintf(c->sink->notes, "[%u] %.*s", index, (int)got, text);
    else
        fprintf(c->sink->notes, "%.*s", (int)got, text);
    c->told = true;
}

static void note_end(struct tutti_children *c, uint32_t index, int64_t grace_ms)
{
    int status = c->children[index].status;
    int code = WIFSIGNALED(status) ? 1 : WEXITSTATUS(status);

    c->alike =
        WIFEXITED(status) && (c->alive == c->count ? code != 0 : c->alike && code == c->code);
    c->children[index].ended = false;
    c->alive--;
    if (code == 0)
        return;
    tell(c, index);
    if (c->code == 0)
        c->code = code;
    begin_end(c, now_ms() + grace_ms);
}

static void look(struct tutti_children *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        struct child *child = &c->children[i];
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
    c->polled[c->count] = (struct pollfd){.fd = c->signals, .events = POLLIN};
    c->polled[c->count + 1] = (struct pollfd){.fd = c->results, .events = POLLIN};
    if (poll(c->polled, c->count + 2, timeout_ms) <= 0)
        return;
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->polled[i].revents != 0)
            pass_on(c, i);
    }
    if (c->polled[c->count + 1].revents != 0)
        pass_results(c);
    read_signals(c);
}

/* What is left in the pipes; a grandchild may hold them open, which is not waited for. */
static void drain(struct tutti_children *c)
{
    if (c->results >= 0)
        (void)fcntl(c->results, F_SETFL, O_NONBLOCK);
    for (int more = 0; c->results >= 0 && more < 64; more++)
        pass_results(c);
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->children[i].outputs >= 0)
            (void)fcntl(c->children[i].outputs, F_SETFL, O_NONBLOCK);
        for (int more = 0; c->children[i].outputs >= 0 && more < 64; more++)
            pass_on(c, i);
    }
}

void tutti_children_let_save(struct tutti_children *c, tutti_ps time_ps)
{
    c->save_ms = time_ps / TUTTI_PS_PER_MS;
}

int tutti_children_wait(struct tutti_children *c, tutti_ps grace_ps)
{
    int64_t grace_ms = grace_ps / TUTTI_PS_PER_MS;
    int ended_by;
    int code;

    if (c->started < c->count) { /* one could not be started, which has been said */
        c->code = 1;
        begin_end(c, now_ms());
    }
    for (reap(c, grace_ms); c->alive > 0; reap(c, grace_ms)) {
        int timeout_ms = urge(c);

        sleep_once(c, timeout_ms < 0 ? -1 : timeout_ms);
    }
    drain(c);
    ended_by = c->ended_by == SIGTERM && c->save_ms > 0 && c->alike ? 0 : c->ended_by;
    code = c->code;
    done(c);
    if (ended_by != 0) { /* so that who waits for this command learns what ended it */
        (void)signal(ended_by, SIG_DFL);
        (void)raise(ended_by);
    }
    return code;
}
