/* Where a command prints: to files, to memory or to functions of whoever calls it. */
#ifndef TUTTI_TOOLS_SINK_H
#define TUTTI_TOOLS_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "runtime/api.h"
#include "runtime/status.h"

TUTTI_API_BEGIN

struct tutti_sink {
    FILE *out;           /* results */
    FILE *notes;         /* warnings, progress, the words of other processes */
    bool out_terminal;   /* `out` is one: charts are drawn unasked */
    bool notes_terminal; /* `notes` is one: progress is shown */
    /* Of results for people, which the options -v, -q and --colour of a command line set. */
    int columns;  /* of a line, at most; 0: 100 */
    bool verbose; /* all that was resolved above a table, not what matters most */
    bool quiet;   /* a table alone */
    bool colour;
    /* The command has started copies of its process (run --launch), and this is one of them: when
     * the command returns, its part is done and the process is to end with its exit code. */
    bool child;
    FILE *errors; /* NULL: `notes`; of a child, where it says why it fails: of all one is told */
    /* 0, or what the process is to end with although the command has done what it could: a training
     * that was told to stop, and has saved where it was. */
    int exit_code;
    const char *command; /* whose words these are, where a thread of its own says them; set by it */
};

/* What was printed into memory; tutti_sink_text_done frees it. */
struct tutti_sink_text {
    char *out;
    size_t out_bytes;
    char *notes;
    size_t notes_bytes;
};

/* Called with `data` and what is printed, in order, from whichever thread prints it. */
struct tutti_sink_calls {
    void (*out)(void *data, const char *text, size_t bytes);
    void (*notes)(void *data, const char *text, size_t bytes);
    void *data;
};

/* Both open a sink that tutti_sink_close closes. `text` is complete only then; `calls` is borrowed
 * until then. */
int tutti_sink_open_text(struct tutti_sink *ret, struct tutti_sink_text *text,
                         struct tutti_err *err);
int tutti_sink_open_calls(struct tutti_sink *ret, const struct tutti_sink_calls *calls,
                          struct tutti_err *err);

/* -TUTTI_ENOMEM or -TUTTI_EIO: not all that was printed has arrived. */
int tutti_sink_close(struct tutti_sink *sink, struct tutti_err *err);
void tutti_sink_text_done(struct tutti_sink_text *text);

/* Whether both ends are files of the system, which processes of its own inherit. */
bool tutti_sink_is_files(const struct tutti_sink *sink);

/* In a process that was started and whose descriptors 1 and 2 now lead where it is to print: from
 * here on the sink prints to those. False: no memory. */
bool tutti_sink_become_child(struct tutti_sink *sink, bool terminal);

TUTTI_API_END

#endif
