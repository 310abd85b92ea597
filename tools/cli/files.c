/* Whole files in and out; see files.h. */
#include "tools/cli/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/status.h"
#include "tools/sink.h"

/* A name that no file can be read or written by is wrong usage; what fails under way is not. */
static int wrong(struct tutti_err *err, const char *verb, const char *path, const char *why)
{
    return tutti_fail(err, TUTTI_EINVAL, "cannot %s '%s': %s", verb, path, why);
}

static bool is_of_name(int number)
{
    return number == ENOENT || number == ENOTDIR || number == EISDIR || number == EACCES ||
           number == EPERM || number == EROFS || number == ENAMETOOLONG || number == ELOOP;
}

static int cannot(struct tutti_err *err, const char *verb, const char *path, int number)
{
    if (is_of_name(number))
        return wrong(err, verb, path, strerror(number));
    return tutti_fail(err, TUTTI_EIO, "cannot %s '%s': %s", verb, path, strerror(number));
}

static int read_all(int file, const char *path, char **ret_text, size_t *ret_bytes,
                    struct tutti_err *err)
{
    size_t capacity = (size_t)1 << 16;
    size_t used = 0;
    char *text = malloc(capacity + 1);

    while (text != NULL) {
        ssize_t got = read(file, text + used, capacity - used);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            int number = errno;

            free(text);
            return cannot(err, "read", path, number);
        }
        used += (size_t)got;
        if (got == 0)
            break;
        if (used > TUTTI_FILE_BYTES_MAX) {
            free(text);
            return wrong(err, "read", path, "it is too large (at most 1 GiB)");
        }
        if (used == capacity) {
            char *larger = realloc(text, 2 * capacity + 1);

            if (larger == NULL)
                free(text);
            text = larger;
            capacity *= 2;
        }
    }
    if (text == NULL)
        return tutti_nomem(err);
    text[used] = '\0';
    *ret_text = text;
    *ret_bytes = used;
    return 0;
}

int tutti_file_read(const char *path, char **ret_text, size_t *ret_bytes, struct tutti_err *err)
{
    struct stat info;
    int status;
    int file;

    if (strcmp(path, "-") == 0)
        return read_all(STDIN_FILENO, "-", ret_text, ret_bytes, err);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return cannot(err, "read", path, errno);
    if (fstat(file, &info) == 0 && S_ISDIR(info.st_mode))
        status = wrong(err, "read", path, "it is a directory");
    else if (S_ISREG(info.st_mode) && (uint64_t)info.st_size > TUTTI_FILE_BYTES_MAX)
        status = wrong(err, "read", path, "it is too large (at most 1 GiB)");
    else
        status = read_all(file, path, ret_text, ret_bytes, err);
    close(file);
    return status;
}

static bool write_all(int file, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t put = write(file, text, bytes);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        text += put;
        bytes -= (size_t)put;
    }
    return true;
}

/* What is no ordinary file (a device, a pipe) cannot be replaced: it is written in place. */
static int write_in_place(const char *path, const char *text, size_t bytes, struct tutti_err *err)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    int number = 0;

    if (file < 0)
        return cannot(err, "write", path, errno);
    if (!write_all(file, text, bytes))
        number = errno;
    if (close(file) != 0 && number == 0)
        number = errno;
    return number == 0 ? 0 : cannot(err, "write", path, number);
}

/* Writes `beside`, renames it to `path`; `mode` is that of the old file, or 0 if there is none. */
static int write_beside(const char *path, const char *beside, mode_t mode, const char *text,
                        size_t bytes, struct tutti_err *err)
{
    int file = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int number = 0;

    if (file < 0)
        return cannot(err, "write", path, errno);
    if ((mode != 0 && fchmod(file, mode & 07777) != 0) || !write_all(file, text, bytes))
        number = errno;
    if (close(file) != 0 && number == 0)
        number = errno;
    if (number == 0 && rename(beside, path) != 0)
        number = errno;
    if (number == 0)
        return 0;
    (void)unlink(beside);
    return cannot(err, "write", path, number);
}

int tutti_file_write(const char *path, const char *text, size_t bytes, struct tutti_sink *sink,
                     struct tutti_err *err)
{
    char real[PATH_MAX];
    char beside[PATH_MAX + 32];
    struct stat info;
    bool there = stat(path, &info) == 0;

    if (strcmp(path, "-") == 0) {
        fwrite(text, 1, bytes, sink->out);
        if (fflush(sink->out) != 0)
            return cannot(err, "write", "-", errno);
        return 0;
    }
    if (there && S_ISDIR(info.st_mode))
        return wrong(err, "write", path, "it is a directory");
    if (there && !S_ISREG(info.st_mode))
        return write_in_place(path, text, bytes, err);
    if (there && access(path, W_OK) != 0)
        return cannot(err, "write", path, errno);
    if (there && realpath(path, real) != NULL) /* a link stays one: what it points to is replaced */
        path = real;
    if (snprintf(beside, sizeof(beside), "%s.%ld.part", path, (long)getpid()) >=
        (int)sizeof(beside))
        return cannot(err, "write", path, ENAMETOOLONG);
    return write_beside(path, beside, there ? info.st_mode : 0, text, bytes, err);
}

int tutti_file_check_target(const char *path, struct tutti_err *err)
{
    char folder[PATH_MAX];
    struct stat info;
    const char *slash = strrchr(path, '/');
    int bytes = slash == NULL || slash == path ? 1 : (int)(slash - path);

    if (strcmp(path, "-") == 0)
        return 0;
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode))
            return wrong(err, "write", path, "it is a directory");
        if (access(path, W_OK) != 0)
            return cannot(err, "write", path, errno);
        if (!S_ISREG(info.st_mode))
            return 0;
    }
    /* "/.": a file that may be written and run is no folder. */
    (void)snprintf(folder, sizeof(folder), "%.*s/.", bytes, slash == NULL ? "." : path);
    return access(folder, W_OK | X_OK) == 0 ? 0 : cannot(err, "write", path, errno);
}
