/* How far a command is that takes its time: on a terminal one line, over which the next is written.
 */
#ifndef TUTTI_TOOLS_CLI_PROGRESS_H
#define TUTTI_TOOLS_CLI_PROGRESS_H

struct tutti_sink;

/* "PROGRAM COMMAND: WHAT DETAIL"; `what` NULL: the line is cleared. */
void tutti_progress_show(const char *program, const char *command, const char *what,
                         const char *detail, struct tutti_sink *sink);

#endif
