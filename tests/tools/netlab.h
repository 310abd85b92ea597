/* tools/netlab as its tests call it. */
#ifndef TUTTI_TESTS_TOOLS_NETLAB_H
#define TUTTI_TESTS_TOOLS_NETLAB_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#define NETLAB "NETLAB_BUILT='" TUTTI_BINARY_DIR "' '" TUTTI_SOURCE_DIR "/tools/netlab' "

enum { TEXT_BYTES = 1 << 16 };

/* What a shell command prints, errors too; the status it exits with, -1 by a signal. */
static inline int run(const char *command, char text[TEXT_BYTES])
{
    char whole[2048];
    FILE *pipe;
    size_t used = 0;
    int status;

    snprintf(whole, sizeof(whole), "{ %s; } 2>&1", command);
    pipe = popen(whole, "r");
    if (pipe == NULL)
        abort();
    for (size_t got = 1; got > 0; used += got)
        got = fread(text + used, 1, TEXT_BYTES - 1 - used, pipe);
    text[used] = '\0';
    status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
