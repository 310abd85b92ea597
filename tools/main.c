/* The command `tutti`: its words are a call of libtutti_cli, printed here. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/cli.h"

int main(int argc, char **argv)
{
    struct tutti_sink sink = {
        .out = stdout,
        .notes = stderr,
        .out_terminal = isatty(STDOUT_FILENO) != 0,
        .notes_terminal = isatty(STDERR_FILENO) != 0,
    };

    /* A reader that went away is an error of writing like any other, said and counted as one. */
    (void)signal(SIGPIPE, SIG_IGN);
    return tutti_cli_call(argc > 0 ? argc - 1 : 0, argv + 1, &sink, NULL);
}
