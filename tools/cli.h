/* The command line as a call: what `tutti WORD...` does, for whoever has the words. */
#ifndef TUTTI_TOOLS_CLI_H
#define TUTTI_TOOLS_CLI_H

#include "runtime/api.h"
#include "runtime/status.h"
#include "tools/sink.h"

TUTTI_API_BEGIN

/* Does what `tutti` does with these words (without "tutti" itself): results go to the sink's `out`,
 * the one line that says why it failed to its `notes`, and the message of that line to err as well.
 * Returns the exit code: 0 done, 1 failed (or a check did not hold), 2 wrong usage, 77 this machine
 * lacks it. Nothing is kept between calls. Where sink->child is set when it returns, this is one of
 * the processes that run --launch has started: it is to end with that code (_exit). */
int tutti_cli_call(int argc, char **argv, struct tutti_sink *sink, struct tutti_err *err);

TUTTI_API_END

#endif
