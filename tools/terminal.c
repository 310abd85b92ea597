/* What every program of commands does around its call; see terminal.h. */
#include "tools/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/sink.h"

/* A standard descriptor that is closed would be taken by the next file or socket, which then gets
 * what is meant for stderr, or is replaced. What is opened here cannot be read or written, as the
 * closed one could not. */
static bool keep_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        int flags = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;

        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", flags) != fd)
            return false;
    }
    return true;
}

/* Open MPI's launcher gives each process a terminal of its own, and copies what it prints to where
 * nobody may be looking. */
static bool is_launched(void)
{
    return getenv("OMPI_COMM_WORLD_RANK") != NULL || getenv("PMIX_RANK") != NULL ||
           getenv("PMI_RANK") != NULL;
}

int tutti_terminal_main(int argc, char **argv,
                        int (*call)(int argc, char **argv, struct tutti_sink *sink,
                                    struct tutti_err *err))
{
    struct tutti_sink sink = {
        .out = stdout,
        .notes = stderr,
        .out_terminal = !is_launched() && isatty(STDOUT_FILENO) != 0,
        .notes_terminal = isatty(STDERR_FILENO) != 0,
    };
    struct winsize size;

    /* Narrow terminals get narrow tables, wide ones what is printed at most. */
    if (sink.out_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 60 &&
        size.ws_col < 100)
        sink.columns = size.ws_col;

    if (!keep_standard_descriptors())
        return 1; /* and where could it be said? */
    /* A reader that went away is an error of writing like any other, said and counted as one. */
    (void)signal(SIGPIPE, SIG_IGN);
    return call(argc > 0 ? argc - 1 : 0, argv + 1, &sink, NULL);
}
