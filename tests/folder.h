/* The files of a folder, in the order of their names. */
#ifndef TUTTI_TESTS_FOLDER_H
#define TUTTI_TESTS_FOLDER_H

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { FOLDER_FILES_MAX = 2048 };

static inline int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Names of the files in `dir` that end in `suffix`, sorted; none where there is no such folder. */
static inline char **list_files(const char *dir, const char *suffix, size_t *ret_count)
{
    DIR *handle = opendir(dir);
    char **files = calloc(FOLDER_FILES_MAX, sizeof(*files));
    size_t count = 0;

    if (files == NULL)
        abort();
    for (struct dirent *entry; handle != NULL && (entry = readdir(handle)) != NULL;) {
        size_t bytes = strlen(entry->d_name);
        size_t suffix_bytes = strlen(suffix);

        if (bytes > suffix_bytes && count < FOLDER_FILES_MAX &&
            strcmp(entry->d_name + bytes - suffix_bytes, suffix) == 0)
            files[count++] = strdup(entry->d_name);
    }
    if (handle != NULL)
        closedir(handle);
    qsort(files, count, sizeof(*files), by_name);
    *ret_count = count;
    return files;
}

static inline void free_files(char **files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(files[i]);
    free(files);
}

#endif
