/* The bytes of a file, or of memory, read at any place by any thread. */
#include "runtime/train/blob.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/status.h"
#include "runtime/train/gzip.h"

enum { UNPACKED_BYTES_MAX = 1 << 30 };

/* FOLDER/NAME, with ".gz" or without; from malloc, or NULL. */
static char *path_of(const char *folder, const char *name, const char *suffix)
{
    size_t bytes = strlen(folder) + strlen(name) + strlen(suffix) + 2;
    char *path = malloc(bytes);

    if (path != NULL)
        (void)snprintf(path, bytes, "%s/%s%s", folder, name, suffix);
    return path;
}

/* FOLDER/NAME.gz, unpacked; `cause` is why FOLDER/NAME cannot be opened. */
static int unpack(const char *folder, const char *name, int cause, struct tutti_blob *blob,
                  struct tutti_err *err)
{
    char *packed = path_of(folder, name, ".gz");
    int status;

    if (packed == NULL)
        return tutti_nomem(err);
    if (cause != ENOENT || access(packed, F_OK) != 0)
        status = tutti_fail(err, cause == ENOENT ? TUTTI_EINVAL : TUTTI_EIO,
                            "cannot open '%s/%s': %s", folder, name, strerror(cause));
    else
        status =
            tutti_gzip_read(packed, UNPACKED_BYTES_MAX, &blob->unpacked, &blob->byte_count, err);
    blob->memory = blob->unpacked;
    free(packed);
    return status;
}

static int look(struct tutti_blob *blob, struct tutti_err *err)
{
    struct stat info = {0};

    if (fstat(blob->file, &info) != 0)
        return tutti_fail(err, TUTTI_EIO, "cannot look at '%s': %s", blob->name, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return tutti_fail(err, TUTTI_EINVAL, "'%s' is no plain file", blob->name);
    blob->byte_count = (uint64_t)info.st_size;
    return 0;
}

int tutti_blob_open(const char *folder, const char *name, struct tutti_blob *ret,
                    struct tutti_err *err)
{
    struct tutti_blob blob = {.file = -1};
    int status;

    blob.name = path_of(folder, name, "");
    if (blob.name == NULL)
        return tutti_nomem(err);
    blob.file = open(blob.name, O_RDONLY | O_CLOEXEC);
    status = blob.file < 0 ? unpack(folder, name, errno, &blob, err) : look(&blob, err);
    if (status < 0)
        tutti_blob_close(&blob);
    else
        *ret = blob;
    return status;
}

int tutti_blob_of_memory(const char *name, const uint8_t *memory, uint64_t byte_count,
                         struct tutti_blob *ret, struct tutti_err *err)
{
    char *copy = strdup(name);

    if (copy == NULL)
        return tutti_nomem(err);
    *ret =
        (struct tutti_blob){.name = copy, .file = -1, .memory = memory, .byte_count = byte_count};
    return 0;
}

void tutti_blob_close(struct tutti_blob *blob)
{
    if (blob->name == NULL)
        return;
    if (blob->file >= 0)
        (void)close(blob->file);
    free(blob->name);
    free(blob->unpacked);
    *blob = (struct tutti_blob){.file = -1};
}

int tutti_blob_read(const struct tutti_blob *blob, uint64_t offset, uint8_t *ret, size_t byte_count,
                    struct tutti_err *err)
{
    size_t done = 0;

    assert(offset <= blob->byte_count);
    assert(byte_count <= blob->byte_count - offset);
    if (blob->file < 0) {
        if (byte_count > 0)
            memcpy(ret, blob->memory + offset, byte_count);
        return 0;
    }
    while (done < byte_count) {
        ssize_t got = pread(blob->file, ret + done, byte_count - done, (off_t)(offset + done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return tutti_fail(err, TUTTI_EIO, "cannot read '%s': %s", blob->name, strerror(errno));
        if (got == 0)
            return tutti_fail(err, TUTTI_EIO,
                              "'%s' ends at byte %llu now, and had %llu when it was opened",
                              blob->name, (unsigned long long)(offset + done),
                              (unsigned long long)blob->byte_count);
        done += (size_t)got;
    }
    return 0;
}
