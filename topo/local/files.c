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

/* Puts a name where it belongs among those in `buf`, a blank between two; one that has no room is
 * left out. */
static void insert(const char *name, char buf[TUTTI_FACT_BYTES])
{
    size_t bytes = strlen(name);
    size_t used = strlen(buf);
    size_t at = 0;

    if (used + bytes + 2 > TUTTI_FACT_BYTES || strpbrk(name, " \\\n") != NULL)
        return;
    while (at < used) {
        size_t other = strcspn(buf + at, " ");
        int order = memcmp(buf + at, name, other < bytes ? other : bytes);

        if (order > 0 || (order == 0 && other > bytes))
            break;
        at += other + (buf[at + other] == ' ');
    }
    if (at == used && used > 0) { /* the last: behind a blank of its own */
        buf[used] = ' ';
        memcpy(buf + used + 1, name, bytes + 1);
        return;
    }
    memmove(buf + at + bytes + (used > 0), buf + at, used - at + 1);
    memcpy(buf + at, name, bytes);
    if (used > 0)
        buf[at + bytes] = ' ';
}

/* Names with a blank between two, in order. */
static bool read_folder(const char *path, char buf[TUTTI_FACT_BYTES])
{
    DIR *folder = opendir(path);
    const struct dirent *entry;

    if (folder == NULL)
        return false;
    buf[0] = '\0';
    while ((entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.')
            insert(entry->d_name, buf);
    closedir(folder);
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
