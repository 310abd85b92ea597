/* The system's file system, for checkpoints. */
#include "runtime/train/checkpoint_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static int result(int status)
{
    return status < 0 ? -errno : status;
}

static int make_folder(void *context, const char *path)
{
    (void)context;
    return result(mkdir(path, 0777));
}

static int open_file(const char *path, int flags)
{
    int file;

    do
        file = open(path, flags | O_CLOEXEC, 0666);
    while (file < 0 && errno == EINTR);
    return result(file);
}

static int create_file(void *context, const char *path)
{
    (void)context;
    return open_file(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
}

static int open_to_read(void *context, const char *path)
{
    (void)context;
    return open_file(path, O_RDONLY);
}

static int64_t write_file(void *context, int file, const void *data, size_t bytes)
{
    ssize_t done;

    (void)context;
    do
        done = write(file, data, bytes);
    while (done < 0 && errno == EINTR);
    return done < 0 ? -errno : done;
}

static int64_t read_file(void *context, int file, void *data, size_t bytes, uint64_t offset)
{
    ssize_t done;

    (void)context;
    do
        done = pread(file, data, bytes, (off_t)offset);
    while (done < 0 && errno == EINTR);
    return done < 0 ? -errno : done;
}

static int64_t file_size(void *context, int file)
{
    struct stat info;

    (void)context;
    if (fstat(file, &info) < 0)
        return -errno;
    return S_ISREG(info.st_mode) ? info.st_size : -EISDIR;
}

static int sync_file(void *context, int file)
{
    int status;

    (void)context;
    do
        status = fsync(file);
    while (status < 0 && errno == EINTR);
    return result(status);
}

static int close_file(void *context, int file)
{
    (void)context;
    return result(close(file));
}

/* A file system that cannot do this to a folder says EINVAL, and keeps names in its own way. */
static int sync_folder(void *context, const char *path)
{
    int file = open_file(path, O_RDONLY | O_DIRECTORY);
    int status;

    if (file < 0)
        return file;
    status = sync_file(context, file);
    (void)close(file);
    return status == -EINVAL ? 0 : status;
}

static int rename_file(void *context, const char *from, const char *to)
{
    (void)context;
    return result(rename(from, to));
}

static int remove_file(void *context, const char *path)
{
    (void)context;
    return result(unlink(path));
}

static int remove_folder(void *context, const char *path)
{
    (void)context;
    return result(rmdir(path));
}

static int list_folder(void *context, const char *path, int (*visit)(void *data, const char *name),
                       void *data)
{
    DIR *folder = opendir(path);
    int status = 0;

    (void)context;
    if (folder == NULL)
        return -errno;
    while (status == 0) {
        const struct dirent *entry;

        errno = 0;
        entry = readdir(folder);
        if (entry == NULL) {
            status = -errno;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = visit(data, entry->d_name);
    }
    (void)closedir(folder);
    return status;
}

const struct tutti_disk tutti_disk_system = {
    .make_folder = make_folder,
    .create = create_file,
    .open = open_to_read,
    .write = write_file,
    .read = read_file,
    .size = file_size,
    .sync = sync_file,
    .close = close_file,
    .sync_folder = sync_folder,
    .rename = rename_file,
    .remove = remove_file,
    .remove_folder = remove_folder,
    .list = list_folder,
};
