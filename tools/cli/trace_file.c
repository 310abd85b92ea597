/* Writes a record in the format that the name of the file asks for; see trace_file.h. */
#include "tools/cli/trace_file.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/cli/files.h"
#include "tools/sink.h"
#include "traces/chrome.h"
#include "traces/csv.h"

static bool ends_with(const char *text, const char *end)
{
    size_t text_bytes = strlen(text);
    size_t end_bytes = strlen(end);

    return text_bytes > end_bytes && strcmp(text + text_bytes - end_bytes, end) == 0;
}

int tutti_trace_check(const char *path, bool writes, struct tutti_err *err)
{
    if (path == NULL)
        return 0;
    if (ends_with(path, ".json") || ends_with(path, ".csv")) {
        int status = writes ? tutti_file_check_target(path, err) : 0;

        return status < 0 ? tutti_wrap(err, status, "option '--trace'") : 0;
    }
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--trace': cannot tell the format of '%s' (FILE.json: Chrome and "
                      "Perfetto, FILE.csv)",
                      path);
}

int tutti_trace_write(const char *path, const struct tutti_record *record, const char *title,
                      const struct tutti_chrome_names *names, struct tutti_sink *sink,
                      struct tutti_err *err)
{
    char *text = NULL;
    int status = ends_with(path, ".csv")
                     ? tutti_csv_record_print(record, &text, err)
                     : tutti_chrome_print_named(record, title, names, &text, err);

    if (status == 0)
        status = tutti_file_write(path, text, strlen(text), sink, err);
    free(text);
    return status < 0 ? tutti_wrap(err, status, "option '--trace'") : 0;
}
