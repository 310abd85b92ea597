/* Folders of checkpoints: step-STEP.INCARNATION, of which only names that we would write count. */
#include "runtime/train/checkpoint_folder.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/train/checkpoint_disk.h"

/* Room for "/step-20 digits.20 digits" and for "/shard-10 digits". */
enum { NAME_BYTES_MAX = 64, FILE_BYTES_MAX = 32 };

int tutti_checkpoint_io_fail(struct tutti_err *err, const char *verb, const char *path,
                             int64_t status)
{
    assert(status < 0);
    return tutti_fail(err, TUTTI_EIO, "cannot %s '%s': %s", verb, path, strerror((int)-status));
}

static void print_name(struct tutti_checkpoint_id id, char ret[NAME_BYTES_MAX])
{
    (void)snprintf(ret, NAME_BYTES_MAX, "step-%06" PRIu64 ".%" PRIu64, id.step, id.incarnation);
}

int tutti_checkpoint_path(const char *dir, struct tutti_checkpoint_id id,
                          char ret[TUTTI_CHECKPOINT_PATH_BYTES], struct tutti_err *err)
{
    char name[NAME_BYTES_MAX];

    if (strlen(dir) + NAME_BYTES_MAX + FILE_BYTES_MAX > TUTTI_CHECKPOINT_PATH_BYTES)
        return tutti_fail(err, TUTTI_EINVAL, "a folder's name of %zu bytes (up to %d)", strlen(dir),
                          TUTTI_CHECKPOINT_PATH_BYTES - NAME_BYTES_MAX - FILE_BYTES_MAX);
    print_name(id, name);
    (void)snprintf(ret, TUTTI_CHECKPOINT_PATH_BYTES, "%s/%s", dir, name);
    return 0;
}

void tutti_checkpoint_file(const char *folder, const char *file,
                           char ret[TUTTI_CHECKPOINT_PATH_BYTES])
{
    int bytes = snprintf(ret, TUTTI_CHECKPOINT_PATH_BYTES, "%s/%s", folder, file);

    assert(bytes < TUTTI_CHECKPOINT_PATH_BYTES);
}

void tutti_checkpoint_shard_file(const char *folder, uint32_t rank,
                                 char ret[TUTTI_CHECKPOINT_PATH_BYTES])
{
    char name[FILE_BYTES_MAX];

    (void)snprintf(name, sizeof(name), "shard-%06" PRIu32, rank);
    tutti_checkpoint_file(folder, name, ret);
}

/* Digits alone, as many as the text has up to `stop`. */
static bool read_number(const char **text, char stop, uint64_t *ret)
{
    uint64_t value = 0;
    const char *p = *text;

    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            return false;
    }
    if (p == *text || *p != stop)
        return false;
    *ret = value;
    *text = p + 1;
    return true;
}

/* A name that is spelt in another way ("step-1.00") is not ours. */
static bool read_name(const char *name, struct tutti_checkpoint_id *ret)
{
    char again[NAME_BYTES_MAX];
    const char *p = name + 5;

    if (strncmp(name, "step-", 5) != 0 || !read_number(&p, '.', &ret->step) ||
        !read_number(&p, '\0', &ret->incarnation))
        return false;
    print_name(*ret, again);
    return strcmp(again, name) == 0;
}

int tutti_checkpoint_compare(struct tutti_checkpoint_id a, struct tutti_checkpoint_id b)
{
    if (a.incarnation != b.incarnation)
        return a.incarnation < b.incarnation ? -1 : 1;
    return (a.step > b.step) - (a.step < b.step);
}

static int newer_first(const void *left, const void *right)
{
    const struct tutti_checkpoint_entry *a = left;
    const struct tutti_checkpoint_entry *b = right;

    return tutti_checkpoint_compare(b->id, a->id);
}

struct collection {
    struct tutti_checkpoint_entry *entries;
    size_t count;
    size_t capacity;
};

static int collect(void *data, const char *name)
{
    struct collection *c = data;
    struct tutti_checkpoint_id id;

    if (!read_name(name, &id))
        return 0;
    if (c->count == c->capacity) {
        size_t capacity = c->capacity == 0 ? 16 : 2 * c->capacity;
        struct tutti_checkpoint_entry *more = realloc(c->entries, capacity * sizeof(*more));

        if (more == NULL)
            return 1;
        c->entries = more;
        c->capacity = capacity;
    }
    c->entries[c->count++] = (struct tutti_checkpoint_entry){.id = id};
    return 0;
}

/* Whether its manifest is there; damaged or not. */
static int look_for_manifest(const struct tutti_disk *disk, const char *dir,
                             struct tutti_checkpoint_entry *entry, struct tutti_err *err)
{
    char folder[TUTTI_CHECKPOINT_PATH_BYTES];
    char path[TUTTI_CHECKPOINT_PATH_BYTES];
    int status = tutti_checkpoint_path(dir, entry->id, folder, err);
    int file;

    if (status < 0)
        return status;
    tutti_checkpoint_file(folder, "manifest", path);
    file = disk->open(disk->context, path);
    entry->is_committed = file != -ENOENT && file != -ENOTDIR;
    if (file >= 0)
        (void)disk->close(disk->context, file);
    return 0;
}

int tutti_checkpoint_entries(const struct tutti_disk *disk, const char *dir,
                             struct tutti_checkpoint_entry **ret, size_t *ret_count,
                             struct tutti_err *err)
{
    struct collection c = {.entries = NULL};
    int status;

    disk = disk == NULL ? &tutti_disk_system : disk;
    status = disk->list(disk->context, dir, collect, &c);
    if (status > 0)
        status = tutti_nomem(err);
    else if (status < 0 && status != -ENOENT)
        status = tutti_checkpoint_io_fail(err, "read folder", dir, status);
    else
        status = 0;
    for (size_t i = 0; i < c.count && status == 0; i++)
        status = look_for_manifest(disk, dir, &c.entries[i], err);
    if (status < 0) {
        free(c.entries);
        return status;
    }
    if (c.count > 0)
        qsort(c.entries, c.count, sizeof(*c.entries), newer_first);
    *ret = c.entries;
    *ret_count = c.count;
    return 0;
}

int tutti_checkpoint_list(const struct tutti_disk *disk, const char *dir,
                          struct tutti_checkpoint_id **ret, size_t *ret_count,
                          struct tutti_err *err)
{
    struct tutti_checkpoint_entry *entries = NULL;
    struct tutti_checkpoint_id *ids;
    size_t count = 0;
    size_t committed = 0;
    int status = tutti_checkpoint_entries(disk, dir, &entries, &count, err);

    if (status < 0)
        return status;
    ids = calloc(count + 1, sizeof(*ids));
    for (size_t i = 0; i < count && ids != NULL; i++) {
        if (entries[i].is_committed)
            ids[committed++] = entries[i].id;
    }
    free(entries);
    if (ids == NULL)
        return tutti_nomem(err);
    *ret = ids;
    *ret_count = committed;
    return 0;
}

int tutti_checkpoint_next_incarnation(const struct tutti_disk *disk, const char *dir, uint64_t *ret,
                                      struct tutti_err *err)
{
    struct tutti_checkpoint_entry *entries = NULL;
    size_t count = 0;
    int status = tutti_checkpoint_entries(disk, dir, &entries, &count, err);
    uint64_t last;

    if (status < 0)
        return status;
    last = count > 0 ? entries[0].id.incarnation : 0;
    free(entries);
    if (last == UINT64_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "folder '%s' has a save of incarnation %" PRIu64 " (less)", dir, last);
    *ret = count > 0 ? last + 1 : 0;
    return 0;
}

int tutti_checkpoint_read_at(const struct tutti_disk *disk, int file, const char *path, void *data,
                             size_t bytes, uint64_t offset, struct tutti_err *err)
{
    size_t done = 0;

    while (done < bytes) {
        int64_t got =
            disk->read(disk->context, file, (char *)data + done, bytes - done, offset + done);

        if (got < 0)
            return tutti_checkpoint_io_fail(err, "read", path, got);
        if (got == 0)
            return tutti_fail(err, TUTTI_ECHECK,
                              "'%s' ends after %" PRIu64 " bytes (at least %" PRIu64 ")", path,
                              offset + done, offset + bytes);
        done += (size_t)got;
    }
    return 0;
}

int tutti_checkpoint_read_text(const struct tutti_disk *disk, const char *path, size_t bytes_max,
                               char **ret, size_t *ret_bytes, struct tutti_err *err)
{
    int file = disk->open(disk->context, path);
    char *text = NULL;
    int64_t size;
    size_t bytes;
    int status = 0;

    if (file == -ENOENT || file == -ENOTDIR)
        return 1;
    if (file < 0)
        return tutti_checkpoint_io_fail(err, "open", path, file);
    size = disk->size(disk->context, file);
    bytes = size < 0 || (uint64_t)size > bytes_max ? bytes_max : (size_t)size;
    if (size < 0)
        status = tutti_checkpoint_io_fail(err, "read", path, size);
    else if ((text = malloc(bytes + 1)) == NULL)
        status = tutti_nomem(err);
    if (status == 0)
        status = tutti_checkpoint_read_at(disk, file, path, text, bytes, 0, err);
    (void)disk->close(disk->context, file);
    if (status < 0) {
        free(text);
        return status;
    }
    text[bytes] = '\0';
    *ret = text;
    *ret_bytes = bytes;
    return 0;
}
