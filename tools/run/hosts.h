/* --hosts: the processes of a run on other hosts, each started by a line of shell. */
#ifndef TUTTI_TOOLS_RUN_HOSTS_H
#define TUTTI_TOOLS_RUN_HOSTS_H

#include <stdint.h>

#include "runtime/launch.h"
#include "runtime/status.h"

enum { TUTTI_HOSTS_MAX = 256, TUTTI_HOSTS_PROCESSES_MAX = 1024 };

struct tutti_host_entry {
    char name[TUTTI_LAUNCH_HOST_BYTES]; /* as ssh takes it: user@host */
    uint32_t count;                     /* of processes there */
};

struct tutti_hosts {
    struct tutti_host_entry hosts[TUTTI_HOSTS_MAX];
    uint32_t host_count;
    uint32_t process_count; /* of all hosts */
};

/* "a,b:2,user@c", "[fd00::1]:2": a host, and how many processes it gets. */
int tutti_hosts_read(const char *text, struct tutti_hosts *ret, struct tutti_err *err);

/* What all lines have in common. */
struct tutti_hosts_line {
    const char *ssh;     /* "ssh -o BatchMode=yes": words of shell */
    const char *program; /* the path of this command on the hosts */
    const char *command; /* its arguments, words of shell */
    const char *root;    /* HOST:PORT of process 0 */
};

/* The line that starts process `index`: it reads the secret from its input, where no other user of
 * a host sees it. TUTTI_SECRET is set in the environment of the line. -TUTTI_EINVAL if it is longer
 * than ret_bytes. */
int tutti_hosts_print(const struct tutti_hosts *hosts, const struct tutti_hosts_line *line,
                      uint32_t index, char *ret, size_t ret_bytes, struct tutti_err *err);

/* Appends a word to a line, quoted where a shell needs it; false if there is no room. */
bool tutti_shell_add(char *line, size_t line_bytes, const char *word);

#endif
