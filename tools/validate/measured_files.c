/* Finds and reads the tables of measurements; see measured_files.h. */
#include "tools/validate/measured_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "build.h"
#include "runtime/status.h"
#include "tools/cli/files.h"
#include "traces/measured.h"

enum { PATH_BYTES = 4096 };

static bool is_folder(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

const char *tutti_measured_folder(void)
{
    const char *named = getenv("TUTTI_MEASURED_DIR");

    if (named != NULL)
        return named;
    if (is_folder(TUTTI_BUILD_MEASURED_SOURCE))
        return TUTTI_BUILD_MEASURED_SOURCE;
    return is_folder(TUTTI_BUILD_MEASURED_DIR) ? TUTTI_BUILD_MEASURED_DIR : NULL;
}

static int load_file(const char *path, struct tutti_measured *set, struct tutti_err *err)
{
    char *text = NULL;
    size_t bytes = 0;
    int status = tutti_file_read(path, &text, &bytes, err);

    if (status < 0)
        return status;
    status = tutti_measured_parse(path, text, bytes, set, err);
    if (status == -TUTTI_EINVAL && strncmp(text, "tutti measured", 14) != 0)
        status = tutti_fail(err, TUTTI_EINVAL,
                            "%s: no table of measurements (it begins 'tutti measured 1'; a log of "
                            "nccl-tests goes with --log)",
                            path);
    free(text);
    return status;
}

static int is_table(const struct dirent *entry)
{
    static const char end[] = ".measured";
    size_t bytes = strlen(entry->d_name);

    return bytes >= sizeof(end) && strcmp(entry->d_name + bytes - (sizeof(end) - 1), end) == 0;
}

/* By bytes: the same order whatever the locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int load_folder(const char *path, struct tutti_measured *set, struct tutti_err *err)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, is_table, by_name);
    int status = 0;

    if (count < 0)
        return errno == ENOMEM ? tutti_nomem(err)
                               : tutti_fail(err, TUTTI_EINVAL, "cannot read the folder '%s': %s",
                                            path, strerror(errno));
    if (count == 0)
        status =
            tutti_fail(err, TUTTI_EINVAL, "no tables of measurements in '%s' (*.measured)", path);
    for (int i = 0; i < count; i++) {
        char file[PATH_BYTES];
        int bytes = snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);

        if (status == 0 && (bytes < 0 || bytes >= PATH_BYTES))
            status = tutti_fail(err, TUTTI_EINVAL, "the name of '%s' is too long", path);
        if (status == 0)
            status = load_file(file, set, err);
        free(entries[i]);
    }
    free(entries);
    return status;
}

int tutti_measured_load(const char *path, struct tutti_measured *ret, struct tutti_err *err)
{
    struct tutti_measured set = {0};
    int status;

    if (access(path, F_OK) != 0 && errno == ENOENT)
        status = tutti_fail(err, TUTTI_EINVAL,
                            "there is no folder and no file '%s' (tables of measurements, as in "
                            "traces/measured)",
                            path);
    else
        status = is_folder(path) ? load_folder(path, &set, err) : load_file(path, &set, err);
    if (status < 0) {
        tutti_measured_free(&set);
        return status;
    }
    *ret = set;
    return 0;
}
