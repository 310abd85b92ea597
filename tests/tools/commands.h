/* Commands as a user types them: what they print, what they say, how they end. */
#ifndef TUTTI_TESTS_TOOLS_COMMANDS_H
#define TUTTI_TESTS_TOOLS_COMMANDS_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tools/cli_text.h"

struct seen {
    int exit; /* -1: a signal */
    struct text out;
    struct text err;
};

static inline void read_all(FILE *file, struct text *ret)
{
    char buf[4096];
    size_t bytes;

    text_add(ret, "", 0);
    while (file != NULL && (bytes = fread(buf, 1, sizeof(buf), file)) > 0)
        text_add(ret, buf, bytes);
}

/* Runs a script of /bin/sh. */
static inline struct seen run(const char *command)
{
    struct seen seen = {.exit = -1};
    char path[] = "/tmp/tutti-test-XXXXXX";
    int kept = mkstemp(path);
    struct text line = {.at = NULL};
    FILE *out;
    FILE *err;
    int status;

    text_add(&line, "exec 2>", 7);
    text_line(&line, path, "", 0);
    text_add(&line, command, strlen(command));
    out = kept < 0 ? NULL : popen(text_of(&line), "r");
    text_done(&line);
    if (out == NULL)
        abort();
    read_all(out, &seen.out);
    status = pclose(out);
    seen.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    err = fdopen(kept, "r");
    read_all(err, &seen.err);
    if (err != NULL)
        fclose(err);
    unlink(path);
    return seen;
}

static inline void seen_done(struct seen *seen)
{
    text_done(&seen->out);
    text_done(&seen->err);
}

#endif
