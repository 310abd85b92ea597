/* Writes over its own line; see progress.h. */
#include "tools/cli/progress.h"

#include <stddef.h>
#include <stdio.h>

#include "tools/sink.h"

void tutti_progress_show(const char *program, const char *command, const char *what,
                         const char *detail, struct tutti_sink *sink)
{
    if (!sink->notes_terminal)
        return;
    if (what != NULL)
        fprintf(sink->notes, "\r%s %s: %s %s\033[K", program, command, what, detail);
    else
        fprintf(sink->notes, "\r\033[K");
}
