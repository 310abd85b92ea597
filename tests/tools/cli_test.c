/* Golden tests of the command line: runs the real binary on the cases of tests/cli/NAME.txt.
 *
 * A file is a preamble and cases. A case, line by line:
 *   == what it shows            the title
 *   [needs expat]               tags, one a line, see `tags` below
 *   # why                       a comment
 *   + NAME                      makes the file NAME in the (empty) directory the command runs in,
 *   | TEXT                      of these lines
 *   $ tutti doctor              the command, for /bin/sh; several lines make a script
 *     TEXT                      what it prints (indented by two); "..." stands for any characters
 *                               of a line, alone in a line for any number of lines
 *   ! TEXT                      what it says on stderr
 *   exit 0                      its exit code
 * In the commands $FIXTURES is tests/fixtures, $EXAMPLES tools/examples, $DATA the collected data
 * of others; paths below the top of the tree are printed as $SOURCE. A command that fails must
 * say why in exactly one line. A case that plays for real (-B) and does not say what it should is
 * run once more, aloud: its waits and their deadlines are those of a machine that others may
 * stall. What a sanitizer says is never run again. TUTTI_UPDATE_GOLDEN=1 rewrites what has
 * changed; TUTTI_CLI=PATTERN runs only the cases whose "file: title" it matches (grep -E);
 * TUTTI_TEST_FEWER=10 one in five, 20 one in ten, of all files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <regex.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "build.h"
#include "tests/test.h"
#include "tests/tools/cli_mask.h"
#include "tests/tools/cli_text.h"

enum {
    DEADLINE_S = 60,     /* of one command; sanitizers get six times as much */
    BAD_INPUT_MIN = 100, /* commands that fail for what they were given, over all files */
    WORKERS_MAX = 4,
    FILES_MAX = 64,      /* of cases */
    TEXT_MAX = 4u << 20, /* bytes of a golden file, or printed by one command */
};

enum tag {
    TAG_EXPAT = 1,     /* skipped, aloud, in a build without libexpat */
    TAG_NO_EXPAT = 2,  /* skipped in a build with it */
    TAG_DATA = 4,      /* skipped, aloud, where the collected data are absent */
    TAG_DECIMALS = 8,  /* numbers with a decimal point are printed as N, blanks squeezed */
    TAG_NUMBERS = 16,  /* all numbers are printed as N, blanks squeezed */
    TAG_LONG_ERR = 32, /* fails with more than one line on stderr, or none, and may */
    TAG_NOT_BAD = 64,  /* fails, but not for what it was given: not counted as bad input */
};

static const struct {
    const char *text;
    unsigned tag;
} tags[] = {
    {"needs expat", TAG_EXPAT},      {"needs no expat", TAG_NO_EXPAT}, {"needs data", TAG_DATA},
    {"mask decimals", TAG_DECIMALS}, {"mask numbers", TAG_NUMBERS},    {"long error", TAG_LONG_ERR},
    {"not bad input", TAG_NOT_BAD},
};

struct cli_case {
    const char *file; /* "topo.txt" */
    int line;
    char title[256];
    unsigned tags;
    struct text head; /* from the title to the command, as it stands in the file */
    struct text command;
    struct text out;
    struct text err;
    int exit; /* -1: not said */
};

static struct {
    int run;
    int skipped_expat;
    int skipped_data;
    int bad_input;
    int changed;
} sum;

/* ---- reading the cases ------------------------------------------------------------------------
 */

static void take_tag(struct cli_case *c, const char *line, size_t bytes)
{
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
        if (bytes == strlen(tags[i].text) + 2 && memcmp(line + 1, tags[i].text, bytes - 2) == 0 &&
            line[bytes - 1] == ']') {
            c->tags |= tags[i].tag;
            return;
        }
    }
    TEST_FAIL("%s: '%s': unknown tag '%.*s'", c->file, c->title, (int)bytes, line);
}

/* Reads one case from `*at`, just behind the line of its title. Empty lines of the output count
 * only where more output follows. */
static void read_case(struct cli_case *c, const char **at, int *line)
{
    size_t empty = 0;
    const char *p = *at;

    c->exit = -1;
    while (*p != '\0' && strncmp(p, "== ", 3) != 0) {
        size_t bytes = strcspn(p, "\n");

        if (*p == '[')
            take_tag(c, p, bytes);
        if (strncmp(p, "$ ", 2) == 0)
            text_line(&c->command, "", p + 2, bytes - 2);
        if (strchr("[#+|$", *p) != NULL && bytes > 0) {
            text_line(&c->head, "", p, bytes);
        } else if (strncmp(p, "  ", 2) == 0) {
            for (; empty > 0; empty--)
                text_add(&c->out, "\n", 1);
            text_line(&c->out, "", p + 2, bytes - 2);
        } else if (strncmp(p, "! ", 2) == 0) {
            text_line(&c->err, "", p + 2, bytes - 2);
        } else if (sscanf(p, "exit %d", &c->exit) != 1 && bytes > 0) {
            TEST_FAIL("%s:%d: what is '%.*s'?", c->file, *line, (int)bytes, p);
        }
        empty = bytes == 0 && c->out.bytes > 0 ? empty + 1 : 0;
        p += bytes + (p[bytes] == '\n');
        ++*line;
    }
    *at = p;
    if (c->command.bytes == 0)
        TEST_FAIL("%s: '%s': no command", c->file, c->title);
}

/* The files that the head of a case asks for, into `dir`. */
static void make_files(const struct cli_case *c, const char *dir)
{
    FILE *file = NULL;

    for (const char *p = text_of(&c->head); *p != '\0';) {
        size_t bytes = strcspn(p, "\n");

        if (strncmp(p, "+ ", 2) == 0) {
            char path[1024];

            if (file != NULL)
                fclose(file);
            snprintf(path, sizeof(path), "%s/%.*s", dir, (int)bytes - 2, p + 2);
            file = fopen(path, "wb");
            if (file == NULL)
                TEST_FAIL("%s: '%s': cannot write %s", c->file, c->title, path);
        } else if (*p == '|' && file != NULL) {
            size_t skip = bytes > 1 ? 2 : 1;
            fwrite(p + skip, 1, bytes - skip, file);
            fputc('\n', file);
        }
        p += bytes + (p[bytes] == '\n');
    }
    if (file != NULL)
        fclose(file);
}

/* ---- running one ------------------------------------------------------------------------------
 */

static double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The child: `top`/work is its directory, `top`/out and `top`/err take what it prints. */
static void become(const struct cli_case *c, const char *top)
{
    char path[1024];
    int in = open("/dev/null", O_RDONLY);
    int out;
    int err;

    snprintf(path, sizeof(path), "%s/out", top);
    out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    snprintf(path, sizeof(path), "%s/err", top);
    err = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    snprintf(path, sizeof(path), "%s/work", top);
    if (in < 0 || out < 0 || err < 0 || chdir(path) != 0 || setpgid(0, 0) != 0)
        _exit(126);
    snprintf(path, sizeof(path), "%s:/usr/local/bin:/usr/bin:/bin", TUTTI_BINARY_DIR);
    setenv("PATH", path, 1);
    setenv("LC_ALL", "C", 1);
    setenv("FIXTURES", CLI_SOURCE "/tests/fixtures", 1);
    setenv("EXAMPLES", CLI_SOURCE "/tools/examples", 1);
    setenv("DATA", "../data", 1);
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
        _exit(126);
    close(in);
    close(out);
    close(err);
    execl("/bin/sh", "sh", "-c", text_of(&c->command), (char *)NULL);
    _exit(126);
}

/* The exit code; 128 + the signal's number; -1 when the deadline passed and it was ended. */
static int run_in(const struct cli_case *c, const char *top)
{
    double deadline_s = TUTTI_BUILD_SANITIZE[0] != '\0' ? 6.0 * DEADLINE_S : DEADLINE_S;
    const struct timespec pause = {.tv_nsec = 1000000};
    double end = seconds_now() + deadline_s;
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0)
        become(c, top);
    while (child > 0 && waitpid(child, &status, WNOHANG) == 0) {
        if (seconds_now() > end) {
            kill(-child, SIGKILL);
            waitpid(child, &status, 0);
            return -1;
        }
        nanosleep(&pause, NULL);
    }
    if (child < 0)
        TEST_FAIL("cannot fork");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *at)
{
    (void)about;
    (void)at;
    (void)(kind == FTW_DP ? rmdir(path) : unlink(path)); /* what stays does so in /tmp */
    return 0;
}

/* Not by /bin/rm: to start a process takes as long as many a case. */
static void remove_tree(const char *top)
{
    (void)nftw(top, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static size_t count_lines(const char *text)
{
    size_t count = 0;

    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

static void read_seen(const struct cli_case *c, const char *top, const char *name, struct text *ret)
{
    char path[1024];
    char *seen;
    size_t bytes = 0;

    snprintf(path, sizeof(path), "%s/%s", top, name);
    seen = test_read_file(path, &bytes);
    if (bytes > TEXT_MAX)
        TEST_FAIL("%s:%d: '%s' prints %zu bytes", c->file, c->line, c->title, bytes);
    cli_mask(seen == NULL ? "" : seen, (c->tags & (TAG_DECIMALS | TAG_NUMBERS)) != 0,
             (c->tags & TAG_DECIMALS) != 0, ret);
    if (ret->bytes > 0 && ret->at[ret->bytes - 1] != '\n') {
        const char mark[] = "(no newline at the end)\n";
        text_add(ret, mark, sizeof(mark) - 1);
    }
    free(seen);
}

/* What holds whatever the golden text says. */
static void check_failure(const struct cli_case *c, int code, const struct text *err)
{
    const char *text = text_of(err);

    if (code >= 128)
        TEST_FAIL("%s:%d: '%s' died of signal %d:\n%s", c->file, c->line, c->title, code - 128,
                  text);
    if (code != 1 && code != 2 && code != 77)
        return;
    if ((c->tags & TAG_LONG_ERR) == 0 && (count_lines(text) != 1 || strncmp(text, "tutti", 5) != 0))
        TEST_FAIL("%s:%d: '%s' fails without exactly one line of why, but with:\n%s", c->file,
                  c->line, c->title, text);
    if ((c->tags & TAG_NOT_BAD) == 0 && code != 77)
        sum.bad_input++;
}

static void add_block(struct text *to, const char *prefix, const char *block)
{
    while (*block != '\0') {
        size_t bytes = strcspn(block, "\n");

        text_line(to, bytes > 0 ? prefix : "", block, bytes);
        block += bytes + (block[bytes] == '\n');
    }
}

/* What a case has printed, normalised, and its exit code. */
struct outcome {
    struct text out;
    struct text err;
    int code;
};

static void play_case(const struct cli_case *c, struct outcome *ret)
{
    char top[] = "/tmp/tutti-cli-XXXXXX";
    char work[64];
    char link[64];

    REQUIRE(mkdtemp(top) != NULL);
    snprintf(work, sizeof(work), "%s/work", top);
    REQUIRE(mkdir(work, 0700) == 0);
    snprintf(link, sizeof(link), "%s/source", top);
    REQUIRE(symlink(TUTTI_SOURCE_DIR, link) == 0);
    snprintf(link, sizeof(link), "%s/data", top);
    REQUIRE(symlink(TUTTI_DATA_DIR, link) == 0);
    make_files(c, work);
    ret->code = run_in(c, top);
    read_seen(c, top, "out", &ret->out);
    read_seen(c, top, "err", &ret->err);
    remove_tree(top);
}

static void outcome_done(struct outcome *outcome)
{
    text_done(&outcome->out);
    text_done(&outcome->err);
}

static bool is_as_said(const struct cli_case *c, const struct outcome *seen)
{
    return seen->code == c->exit && text_fits(text_of(&c->out), text_of(&seen->out)) &&
           text_fits(text_of(&c->err), text_of(&seen->err));
}

static bool may_have_stalled(const struct cli_case *c, const struct outcome *seen)
{
    const char *command = text_of(&c->command);
    const char *err = text_of(&seen->err);

    return (strstr(command, "-B threads") != NULL || strstr(command, "-B tcp") != NULL ||
            strstr(command, "-B mpi") != NULL) &&
           seen->code < 128 && strstr(err, "Sanitizer") == NULL &&
           strstr(err, "runtime error") == NULL;
}

/* Runs the case and appends it, as it is now, to `now`. */
static void run_case(struct cli_case *c, struct text *now, bool update)
{
    char exit_line[32];
    struct outcome seen = {.code = 0};
    bool same;

    play_case(c, &seen);
    if (!update && !is_as_said(c, &seen) && may_have_stalled(c, &seen)) {
        printf("%s:%d: '%s': exit %d, says\n%s%s(run once more)\n", c->file, c->line, c->title,
               seen.code, text_of(&seen.out), text_of(&seen.err));
        outcome_done(&seen);
        seen = (struct outcome){.code = 0};
        play_case(c, &seen);
    }
    if (seen.code < 0)
        TEST_FAIL("%s:%d: '%s': not done in time: %s", c->file, c->line, c->title,
                  text_of(&c->command));
    check_failure(c, seen.code, &seen.err);
    same = is_as_said(c, &seen);
    if (!same && !update && seen.code >= 0)
        TEST_FAIL("%s:%d: '%s': $ %sexit %d, expected %d; prints\n%s---- expected\n%s---- says\n"
                  "%s---- expected\n%s",
                  c->file, c->line, c->title, text_of(&c->command), seen.code, c->exit,
                  text_of(&seen.out), text_of(&c->out), text_of(&seen.err), text_of(&c->err));
    sum.changed += !same;
    text_add(now, text_of(&c->head), c->head.bytes);
    add_block(now, "  ", text_of(same ? &c->out : &seen.out));
    add_block(now, "! ", text_of(same ? &c->err : &seen.err));
    snprintf(exit_line, sizeof(exit_line), "exit %d\n", seen.code);
    text_add(now, exit_line, strlen(exit_line));
    outcome_done(&seen);
    sum.run++;
}

/* ---- all of them ------------------------------------------------------------------------------
 */

/* Whether it is one of fewer cases, drawn by its title and the seed. */
static bool is_drawn(const struct cli_case *c)
{
    uint64_t share = test_fewer() < 10 ? 1 : test_fewer() / 2;
    uint64_t bits = test_seed;

    for (const char *p = c->title; *p != '\0'; p++)
        bits = (bits ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
    return share == 1 || (bits >> 32) % share == 0;
}

/* Whether it is of those that TUTTI_CLI, if there is one, asks for. */
static bool is_wanted(const struct cli_case *c)
{
    const char *wanted = getenv("TUTTI_CLI");
    char name[400];
    regex_t pattern;
    bool matches;

    if (wanted == NULL)
        return true;
    snprintf(name, sizeof(name), "%s: %s", c->file, c->title);
    if (regcomp(&pattern, wanted, REG_EXTENDED | REG_NOSUB) != 0)
        return false;
    matches = regexec(&pattern, name, 0, NULL, 0) == 0;
    regfree(&pattern);
    return matches;
}

static bool is_skipped(const struct cli_case *c)
{
    if (!is_wanted(c) || !is_drawn(c))
        return true;
    if ((c->tags & TAG_DATA) != 0 && access(TUTTI_DATA_DIR, R_OK) != 0) {
        sum.skipped_data++;
        return true;
    }
    if ((c->tags & TAG_NO_EXPAT) != 0 && TUTTI_BUILD_HAVE_EXPAT)
        return true;
    if ((c->tags & TAG_EXPAT) == 0 || TUTTI_BUILD_HAVE_EXPAT)
        return false;
    sum.skipped_expat++;
    return true;
}

/* A skipped case stays in the rewritten file as it is. */
static void keep_case(const struct cli_case *c, struct text *now)
{
    char exit_line[32];

    text_add(now, text_of(&c->head), c->head.bytes);
    add_block(now, "  ", text_of(&c->out));
    add_block(now, "! ", text_of(&c->err));
    if (c->exit >= 0) {
        snprintf(exit_line, sizeof(exit_line), "exit %d\n", c->exit);
        text_add(now, exit_line, strlen(exit_line));
    }
}

static void run_file(const char *name, bool update)
{
    char path[1024];
    struct text now = {0};
    const char *p;
    char *text;
    int line = 1;
    int changed = sum.changed;

    snprintf(path, sizeof(path), "%s/tests/cli/%s", TUTTI_SOURCE_DIR, name);
    text = test_read_file(path, NULL);
    REQUIRE(text != NULL);
    for (p = text; *p != '\0' && strncmp(p, "== ", 3) != 0; line++)
        p += strcspn(p, "\n") + (p[strcspn(p, "\n")] == '\n');
    text_add(&now, text, (size_t)(p - text));
    for (bool first = true; *p != '\0'; first = false) {
        struct cli_case c = {.file = name, .line = line++};
        size_t bytes = strcspn(p, "\n");

        snprintf(c.title, sizeof(c.title), "%.*s", (int)bytes - 3, p + 3);
        text_line(&c.head, "", p, bytes);
        p += bytes + (p[bytes] == '\n');
        read_case(&c, &p, &line);
        if (!first)
            text_add(&now, "\n", 1);
        if (is_skipped(&c))
            keep_case(&c, &now);
        else
            run_case(&c, &now, update);
        text_done(&c.head);
        text_done(&c.command);
        text_done(&c.out);
        text_done(&c.err);
    }
    if (update && sum.changed > changed) {
        FILE *file = fopen(path, "wb");

        if (file == NULL || fwrite(now.at, 1, now.bytes, file) != now.bytes || fclose(file) != 0)
            TEST_FAIL("cannot write %s", path);
        printf("%s: %d cases rewritten\n", name, sum.changed - changed);
    }
    text_done(&now);
    free(text);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Files are shared out among as many workers as there are processors, at most WORKERS_MAX; each
 * takes the next that nobody has, and writes its counts into the pipe at the end. */
struct counts {
    int run;
    int skipped_expat;
    int skipped_data;
    int bad_input;
    int failures;
};

static void work(char names[][256], size_t count, bool update, atomic_size_t *next, int out)
{
    struct counts counts;

    for (size_t i = atomic_fetch_add(next, 1); i < count; i = atomic_fetch_add(next, 1))
        run_file(names[i], update);
    counts = (struct counts){.run = sum.run,
                             .skipped_expat = sum.skipped_expat,
                             .skipped_data = sum.skipped_data,
                             .bad_input = sum.bad_input,
                             .failures = test_failures};
    fflush(stdout);
    if (write(out, &counts, sizeof(counts)) != (ssize_t)sizeof(counts))
        _exit(1);
    _exit(0);
}

static void share_out(char names[][256], size_t count, bool update)
{
    atomic_size_t *next =
        mmap(NULL, sizeof(*next), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int workers = processors < 1 ? 1 : processors > WORKERS_MAX ? WORKERS_MAX : (int)processors;
    int ends[2];

    REQUIRE(next != MAP_FAILED && pipe2(ends, O_CLOEXEC) == 0);
    fflush(stdout);
    for (int i = 0; i < workers; i++) {
        pid_t child = fork();

        REQUIRE(child >= 0);
        if (child == 0)
            work(names, count, update, next, ends[1]);
    }
    close(ends[1]);
    for (int i = 0; i < workers; i++) {
        struct counts counts = {.failures = 1}; /* of a worker that died */

        if (read(ends[0], &counts, sizeof(counts)) != (ssize_t)sizeof(counts))
            TEST_FAIL("a worker died");
        sum.run += counts.run;
        sum.skipped_expat += counts.skipped_expat;
        sum.skipped_data += counts.skipped_data;
        sum.bad_input += counts.bad_input;
        test_failures += counts.failures;
        wait(NULL);
    }
    close(ends[0]);
    munmap(next, sizeof(*next));
}

TEST(every_command_says_what_it_should)
{
    static char names[FILES_MAX][256];
    const char *update = getenv("TUTTI_UPDATE_GOLDEN");
    DIR *dir = opendir(TUTTI_SOURCE_DIR "/tests/cli");
    struct dirent *entry;
    size_t count = 0;

    REQUIRE(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        size_t bytes = strlen(entry->d_name);

        if (bytes < 5 || strcmp(entry->d_name + bytes - 4, ".txt") != 0)
            continue;
        REQUIRE(count < FILES_MAX);
        snprintf(names[count++], sizeof(names[0]), "%s", entry->d_name);
    }
    closedir(dir);
    qsort(names, count, sizeof(names[0]), by_name);
    share_out(names, count, update != NULL && strcmp(update, "1") == 0);
    printf("%d cases, %d of them bad input\n", sum.run, sum.bad_input);
    if (sum.skipped_expat > 0)
        printf("skipped: %d cases that read XML (no libexpat in this build)\n", sum.skipped_expat);
    if (sum.skipped_data > 0)
        printf("skipped: %d cases on collected data (no %s)\n", sum.skipped_data, TUTTI_DATA_DIR);
    CHECK(sum.run > 0);
    if (getenv("TUTTI_CLI") == NULL && test_fewer() == 1 && sum.bad_input < BAD_INPUT_MIN)
        TEST_FAIL("%d cases of bad input, at least %d are wanted", sum.bad_input, BAD_INPUT_MIN);
}
