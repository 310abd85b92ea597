/* Facts from files, folders and links below a root; see facts.h. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/local/facts.h"

/* The text without blank lines at its end; of several paragraphs, as /proc/cpuinfo has one a
 * processor, the first. */
static bool read_text(const char *path, char buf[TUTTI_FACT_BYTES])
{
    FILE *file = fopen(path, "r");
    size_t bytes = 0;
    char *paragraph;
    bool failed;

    if (file == NULL)
        return false;
    bytes = fread(buf, 1, TUTTI_FACT_BYTES - 1, file);
    failed = ferror(file) != 0; /* the speed of a port that is down, say */
    fclose(file);
    buf[bytes] = '\0';
    paragraph = strstr(buf, "\n\n");
    if (paragraph != NULL)
        *paragraph = '\0';
    for (bytes = strlen(buf); bytes > 0 && strchr(" \n", buf[bytes - 1]) != NULL; bytes--)
        buf[bytes - 1] = '\0';
    for (char *c = buf; *c != '\0'; c++)
        *c = (char)(*c == '\t' ? ' ' : *c != '\n' && (*c < ' ' || *c > '~') ? '?' : *c);
    return !failed;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Names with a blank between two, in order; what has no room is left out. */
static bool read_folder(const char *path, char buf[TUTTI_FACT_BYTES])
{
    enum { NAMES_MAX = 1024 };
    DIR *folder = opendir(path);
    char *names[NAMES_MAX];
    size_t count = 0;
    size_t used = 0;
    const struct dirent *entry;

    if (folder == NULL)
        return false;
    while (count < NAMES_MAX && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        names[count] = strdup(entry->d_name);
        count += names[count] != NULL;
    }
    closedir(folder);
    qsort(names, count, sizeof(names[0]), by_name);
    buf[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        size_t bytes = strlen(names[i]);

        if (used + bytes + 2 < TUTTI_FACT_BYTES && strpbrk(names[i], " \\\n") == NULL)
            used += (size_t)snprintf(buf + used, TUTTI_FACT_BYTES - used, "%s%s",
                                     used > 0 ? " " : "", names[i]);
        free(names[i]);
    }
    return true;
}

/* Where the link leads, below the root. */
static bool read_link(const char *root, const char *path, char buf[TUTTI_FACT_BYTES])
{
    char *base = realpath(root, NULL);
    char *real = base == NULL ? NULL : realpath(path, NULL);
    bool found = false;

    if (real != NULL) {
        size_t bytes = strcmp(base, "/") == 0 ? 0 : strlen(base);

        found = strncmp(real, base, bytes) == 0 && real[bytes] == '/' &&
                strlen(real + bytes + 1) < TUTTI_FACT_BYTES;
        if (found)
            memcpy(buf, real + bytes + 1, strlen(real + bytes + 1) + 1);
    }
    free(base);
    free(real);
    return found;
}

bool tutti_facts_from_files(const char *root, const char *name, char buf[TUTTI_FACT_BYTES])
{
    char path[PATH_MAX];
    size_t bytes = strlen(name);
    int length;

    if (bytes == 0)
        return false;
    length = snprintf(path, sizeof(path), "%s/%s", root, name);
    if (length < 0 || length >= (int)sizeof(path))
        return false;
    if (name[bytes - 1] == '/')
        return read_folder(path, buf);
    if (name[bytes - 1] != '@') {
        char *flags;

        if (!read_text(path, buf))
            return false;
        flags = strstr(buf, "\nflags"); /* of a processor: long, and nothing here goes by them */
        if (flags != NULL)
            *flags = '\0';
        return true;
    }
    path[length - 1] = '\0';
    return read_link(root, path, buf);
}
