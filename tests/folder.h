/* The files of a folder, in the order of their names; of folders of collected data those that are
 * known, by tests/golden/data-files.txt: more may have been collected since. */
#ifndef TUTTI_TESTS_FOLDER_H
#define TUTTI_TESTS_FOLDER_H

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

enum { FOLDER_FILES_MAX = 2048 };

/* Whether `file` in `dir` is no data, or on the list; else it is named. All are while golden files
 * are rewritten. */
static inline bool is_known(const char *dir, const char *file)
{
    size_t data_bytes = strlen(TUTTI_DATA_DIR);
    char *list;
    char line[1024];
    bool known;

    if (strncmp(dir, TUTTI_DATA_DIR, data_bytes) != 0 || getenv("TUTTI_UPDATE_GOLDEN") != NULL)
        return true;
    list = test_read_file(TUTTI_SOURCE_DIR "/tests/golden/data-files.txt", NULL);
    snprintf(line, sizeof(line), "\n%s/%s\n", dir + data_bytes + 1, file);
    known = list != NULL && strstr(list, line) != NULL;
    free(list);
    if (!known)
        printf("passed over: %s/%s, which is on no list\n", dir, file);
    return known;
}

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
            strcmp(entry->d_name + bytes - suffix_bytes, suffix) == 0 &&
            is_known(dir, entry->d_name))
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
