/* Standing workers and their drivers as processes of a test, with one folder and one secret. */
#ifndef TUTTI_TESTS_TOOLS_STANDING_H
#define TUTTI_TESTS_TOOLS_STANDING_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/test.h"
#include "tests/tools/commands.h"

#define TUTTI  TUTTI_BINARY_DIR "/tutti "
#define TRAIN  TUTTI "train --cluster cluster.json "
#define SECRET "0123456789abcdef0123456789abcdef"

enum { WORKERS = 4 };

static char folder[] = "/tmp/tutti_worker_XXXXXX";
static pid_t workers[WORKERS];
static char addresses[WORKERS][64];

static inline void pause_ms(int ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    (void)nanosleep(&time, NULL);
}

static inline bool make_folder(void)
{
    return strstr(folder, "XXXXXX") == NULL || mkdtemp(folder) != NULL;
}

static inline void remove_folder(void)
{
    char line[100];

    snprintf(line, sizeof(line), "rm -rf '%s'", folder);
    CHECK_INT(system(line), 0);
}

/* Starts a line of shell in the folder, in this process's place. */
static inline pid_t start(const char *line)
{
    pid_t id;

    fflush(stdout);
    id = fork();
    if (id != 0)
        return id;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody stays when a test breaks down */
    if (chdir(folder) == 0)
        (void)execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    _exit(1);
}

/* Waits for a text in a file of the folder; all of the file, or NULL. */
static inline char *wait_for(const char *name, const char *text)
{
    char path[600];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    for (int i = 0; i < 4000; i++) {
        char *seen = test_read_file(path, NULL);

        if (seen != NULL && strstr(seen, text) != NULL)
            return seen;
        free(seen);
        pause_ms(2);
    }
    TEST_FAIL("%s: '%s' does not come", name, text);
    return NULL;
}

static inline void end_workers(void)
{
    for (int i = 0; i < WORKERS; i++) {
        if (workers[i] <= 0)
            continue;
        (void)kill(workers[i], SIGKILL);
        (void)waitpid(workers[i], NULL, 0);
    }
}

/* A script in the folder. */
static inline struct seen script(const char *line)
{
    char command[4000];

    snprintf(command, sizeof(command), "cd %s; export TUTTI_SECRET=" SECRET "; %s", folder, line);
    return run(command);
}

static inline void check_script(const char *line, int exit, const char *out, const char *err)
{
    struct seen seen = script(line);

    if (seen.exit != exit || strstr(text_of(&seen.out), out) == NULL ||
        strstr(text_of(&seen.err), err) == NULL)
        TEST_FAIL("%s: exit %d, printed\n%sand said\n%s, expected exit %d, '%s', '%s'", line,
                  seen.exit, text_of(&seen.out), text_of(&seen.err), exit, out, err);
    seen_done(&seen);
}

#endif
