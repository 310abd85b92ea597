/* A disk whose n-th operation fails, and perhaps all after it; and one that forgets what was not
 * flushed when the power goes. */
#ifndef TUTTI_TESTS_RUNTIME_CHECKPOINT_FAULTS_H
#define TUTTI_TESTS_RUNTIME_CHECKPOINT_FAULTS_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include "tests/runtime/checkpoint_world.h"

enum { FAULT_PATH_BYTES = 400, FAULT_FILES_MAX = 256, FAULT_CHANGES_MAX = 1024 };

enum fault_change_kind { CHANGE_CREATE, CHANGE_FOLDER, CHANGE_RENAME, CHANGE_REMOVE, CHANGE_GONE };

/* A name that came, went or changed, and is not on the medium as long as its folder is not flushed.
 * `other`: what it was renamed from, or where what was removed lies meanwhile. */
struct fault_change {
    enum fault_change_kind kind;
    char path[FAULT_PATH_BYTES];
    char other[FAULT_PATH_BYTES];
};

struct fault_file {
    char path[FAULT_PATH_BYTES];
    int number; /* while it is open to be written; else -1 */
    bool is_flushed;
};

struct faults {
    uint64_t fail_at;             /* the number of the operation that fails, from 1; 0: none */
    bool dies;                    /* all after it fail, too: the process is gone */
    int error;                    /* an errno */
    char trash[FAULT_PATH_BYTES]; /* a folder; "": nothing is remembered of what is not flushed */
    pthread_mutex_t lock;         /* guards all below */
    uint64_t count;
    bool failed;
    size_t change_count;
    size_t file_count;
    struct fault_change changes[FAULT_CHANGES_MAX];
    struct fault_file files[FAULT_FILES_MAX];
};

/* 0, or the error that this operation ends with. */
static inline int fault(void *context)
{
    struct faults *f = context;
    int status;

    pthread_mutex_lock(&f->lock);
    f->count++;
    status = f->fail_at > 0 && (f->count == f->fail_at || (f->dies && f->count > f->fail_at))
                 ? -f->error
                 : 0;
    f->failed = f->failed || status < 0;
    pthread_mutex_unlock(&f->lock);
    return status;
}

static inline void fault_note(struct faults *f, enum fault_change_kind kind, const char *path,
                              const char *other)
{
    struct fault_change *change;

    if (f->trash[0] == '\0')
        return;
    pthread_mutex_lock(&f->lock);
    if (f->change_count == FAULT_CHANGES_MAX)
        abort();
    change = &f->changes[f->change_count++];
    change->kind = kind;
    snprintf(change->path, sizeof(change->path), "%s", path);
    snprintf(change->other, sizeof(change->other), "%s", other);
    pthread_mutex_unlock(&f->lock);
}

/* The file of that path, or of that number; NULL: none. The lock is held. */
static inline struct fault_file *fault_file(struct faults *f, const char *path, int number)
{
    for (size_t i = 0; i < f->file_count; i++) {
        if (path != NULL ? strcmp(f->files[i].path, path) == 0 : f->files[i].number == number)
            return &f->files[i];
    }
    return NULL;
}

static inline int fault_make_folder(void *context, const char *path)
{
    int status = fault(context);

    if (status == 0)
        status = tutti_disk_system.make_folder(NULL, path);
    if (status == 0)
        fault_note(context, CHANGE_FOLDER, path, "");
    return status;
}

static inline int fault_create(void *context, const char *path)
{
    struct faults *f = context;
    struct fault_file *file;
    bool is_new = access(path, F_OK) < 0;
    int number = fault(context);

    if (number == 0)
        number = tutti_disk_system.create(NULL, path);
    if (number < 0)
        return number;
    if (is_new)
        fault_note(f, CHANGE_CREATE, path, "");
    pthread_mutex_lock(&f->lock);
    file = fault_file(f, path, -1);
    if (file == NULL) {
        if (f->file_count == FAULT_FILES_MAX)
            abort();
        file = &f->files[f->file_count++];
    }
    snprintf(file->path, sizeof(file->path), "%s", path);
    file->number = number;
    file->is_flushed = false;
    pthread_mutex_unlock(&f->lock);
    return number;
}

static inline int fault_open(void *context, const char *path)
{
    int status = fault(context);

    return status < 0 ? status : tutti_disk_system.open(NULL, path);
}

/* What fails has written half of it before. */
static inline int64_t fault_write(void *context, int file, const void *data, size_t bytes)
{
    int status = fault(context);
    int64_t done = tutti_disk_system.write(NULL, file, data, status < 0 ? bytes / 2 : bytes);

    return status < 0 ? status : done;
}

static inline int64_t fault_read(void *context, int file, void *data, size_t bytes, uint64_t offset)
{
    int status = fault(context);

    return status < 0 ? status : tutti_disk_system.read(NULL, file, data, bytes, offset);
}

static inline int64_t fault_size(void *context, int file)
{
    int status = fault(context);

    return status < 0 ? status : tutti_disk_system.size(NULL, file);
}

static inline int fault_sync(void *context, int number)
{
    struct faults *f = context;
    struct fault_file *file;
    int status = fault(context);

    pthread_mutex_lock(&f->lock);
    file = fault_file(f, NULL, number);
    if (file != NULL && status == 0)
        file->is_flushed = true;
    pthread_mutex_unlock(&f->lock);
    return status;
}

static inline int fault_close(void *context, int number)
{
    struct faults *f = context;
    struct fault_file *file;
    int status = fault(context);

    pthread_mutex_lock(&f->lock);
    file = fault_file(f, NULL, number);
    if (file != NULL)
        file->number = -1;
    (void)tutti_disk_system.close(NULL, number); /* a process that is gone has nothing open */
    pthread_mutex_unlock(&f->lock);
    return status;
}

/* Whether `path` lies directly in `folder`. */
static inline bool fault_is_in(const char *path, const char *folder)
{
    size_t bytes = strlen(folder);

    return strncmp(path, folder, bytes) == 0 && path[bytes] == '/' &&
           strchr(path + bytes + 1, '/') == NULL;
}

/* Names in it are on the medium. */
static inline int fault_sync_folder(void *context, const char *path)
{
    struct faults *f = context;
    int status = fault(context);
    size_t kept = 0;

    if (status < 0)
        return status;
    pthread_mutex_lock(&f->lock);
    for (size_t i = 0; i < f->change_count; i++) {
        if (!fault_is_in(f->changes[i].path, path))
            f->changes[kept++] = f->changes[i];
    }
    f->change_count = kept;
    pthread_mutex_unlock(&f->lock);
    return access(path, F_OK) < 0 ? -errno : 0;
}

static inline int fault_rename(void *context, const char *from, const char *to)
{
    struct faults *f = context;
    struct fault_file *file;
    int status = fault(context);

    if (status == 0)
        status = tutti_disk_system.rename(NULL, from, to);
    if (status < 0)
        return status;
    fault_note(f, CHANGE_RENAME, to, from);
    pthread_mutex_lock(&f->lock);
    file = fault_file(f, from, -1);
    if (file != NULL)
        snprintf(file->path, sizeof(file->path), "%s", to);
    pthread_mutex_unlock(&f->lock);
    return 0;
}

static inline int fault_remove(void *context, const char *path)
{
    struct faults *f = context;
    char trash[FAULT_PATH_BYTES + 32];
    int status = fault(context);

    if (status < 0)
        return status;
    if (f->trash[0] == '\0')
        return tutti_disk_system.remove(NULL, path);
    pthread_mutex_lock(&f->lock);
    snprintf(trash, sizeof(trash), "%s/%" PRIu64, f->trash, f->count);
    pthread_mutex_unlock(&f->lock);
    status = tutti_disk_system.rename(NULL, path, trash);
    if (status == 0)
        fault_note(f, CHANGE_REMOVE, path, trash);
    return status;
}

static inline int fault_remove_folder(void *context, const char *path)
{
    int status = fault(context);

    if (status == 0)
        status = tutti_disk_system.remove_folder(NULL, path);
    if (status == 0)
        fault_note(context, CHANGE_GONE, path, "");
    return status;
}

static inline int fault_list(void *context, const char *path,
                             int (*visit)(void *data, const char *name), void *data)
{
    int status = fault(context);

    return status < 0 ? status : tutti_disk_system.list(NULL, path, visit, data);
}

static inline struct tutti_disk fault_disk(struct faults *f, uint64_t fail_at, bool dies, int error)
{
    memset(f, 0, sizeof(*f));
    f->fail_at = fail_at;
    f->dies = dies;
    f->error = error;
    pthread_mutex_init(&f->lock, NULL);
    return (struct tutti_disk){
        .context = f,
        .make_folder = fault_make_folder,
        .create = fault_create,
        .open = fault_open,
        .write = fault_write,
        .read = fault_read,
        .size = fault_size,
        .sync = fault_sync,
        .close = fault_close,
        .sync_folder = fault_sync_folder,
        .rename = fault_rename,
        .remove = fault_remove,
        .remove_folder = fault_remove_folder,
        .list = fault_list,
    };
}

/* ---- the power goes ---------------------------------------------------------------------------*/

static inline void fault_undo(const struct fault_change *change)
{
    switch (change->kind) {
    case CHANGE_CREATE:
        (void)unlink(change->path);
        break;
    case CHANGE_FOLDER:
        world_remove(change->path);
        break;
    case CHANGE_GONE:
        (void)mkdir(change->path, 0777);
        break;
    case CHANGE_RENAME:
        (void)rename(change->path, change->other);
        break;
    default: /* it fails where the folder itself is gone */
        (void)rename(change->other, change->path);
    }
}

/* A file that was not flushed may be cut anywhere, or as long as it was and empty. */
static inline void fault_lose(const struct fault_file *file, struct tutti_random *random)
{
    struct stat info;

    if (file->is_flushed || stat(file->path, &info) < 0 || !S_ISREG(info.st_mode))
        return;
    if (tutti_random_below(random, 3) > 0 &&
        truncate(file->path, (off_t)tutti_random_below(random, (uint64_t)info.st_size + 1)) < 0)
        abort();
    if (tutti_random_below(random, 3) == 0 && truncate(file->path, info.st_size) < 0)
        abort();
}

/* Of what was not flushed, each name is there or not by chance: `undone` of 4 are not. */
static inline void fault_power_goes(struct faults *f, uint64_t undone, struct tutti_random *random)
{
    for (size_t i = f->change_count; i-- > 0;) {
        if (tutti_random_below(random, 4) < undone)
            fault_undo(&f->changes[i]);
    }
    for (size_t i = 0; i < f->file_count; i++)
        fault_lose(&f->files[i], random);
}

#endif
