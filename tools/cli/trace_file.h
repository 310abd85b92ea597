/* Writing a record where --trace says: for ui.perfetto.dev, or as CSV. */
#ifndef TUTTI_TOOLS_CLI_TRACE_FILE_H
#define TUTTI_TOOLS_CLI_TRACE_FILE_H

#include <stdbool.h>

struct tutti_err;
struct tutti_sink;
struct tutti_record;
struct tutti_chrome_names;

#define TUTTI_OPTION_TRACE                                                               \
    {                                                                                    \
        .name = "trace", .type = TUTTI_OPTION_TEXT, .value = "FILE",                     \
        .help = "write what happens in the last row: FILE.json for ui.perfetto.dev, or " \
                "FILE.csv"                                                               \
    }

/* Before any work: can the format be told from the name, and, where this process is the one that
 * `writes` it, can it be written? NULL is fine. */
int tutti_trace_check(const char *path, bool writes, struct tutti_err *err);

/* `title` names the run, `names` its lanes and steps (traces/chrome.h); NULL: their numbers do. */
int tutti_trace_write(const char *path, const struct tutti_record *record, const char *title,
                      const struct tutti_chrome_names *names, struct tutti_sink *sink,
                      struct tutti_err *err);

#endif
