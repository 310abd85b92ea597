/* What /proc tells of a process. */
#ifndef TUTTI_TESTS_RUNTIME_PROC_H
#define TUTTI_TESTS_RUNTIME_PROC_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "tests/test.h"

/* Still there, and not only waited for by nobody. */
static inline bool is_alive(pid_t id)
{
    char path[64];
    char text[512] = "";
    const char *state;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)id);
    file = fopen(path, "r");
    if (file == NULL)
        return false;
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    state = strrchr(text, ')');
    return state != NULL && state[1] == ' ' && state[2] != 'Z' && state[2] != 'X';
}

/* The processes that `id` has started, by the system's own account; in the order of their start. */
static inline int children_of(pid_t id, pid_t *ret, int max)
{
    char path[128];
    FILE *file;
    int count = 0;
    int child;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)id, (int)id);
    file = fopen(path, "r");
    while (file != NULL && count < max && fscanf(file, "%d", &child) == 1)
        ret[count++] = child;
    if (file != NULL)
        fclose(file);
    return count;
}

static inline long resident_bytes(pid_t pid)
{
    char path[64];
    long total = 0;
    long resident = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%ld %ld", &total, &resident) != 2)
        TEST_FAIL("cannot read %s", path);
    if (file != NULL)
        fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static inline int descriptor_count(pid_t pid)
{
    char command[64];
    int count = -1;
    FILE *pipe;

    snprintf(command, sizeof(command), "ls /proc/%d/fd | wc -l", (int)pid);
    pipe = popen(command, "r");
    if (pipe == NULL || fscanf(pipe, "%d", &count) != 1)
        TEST_FAIL("cannot count the descriptors");
    if (pipe != NULL)
        pclose(pipe);
    return count;
}

#endif
