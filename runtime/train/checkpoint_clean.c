/* Removing checkpoints: the manifest first, so that one which is half removed does not exist. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/train/checkpoint_commit.h"
#include "runtime/train/checkpoint_disk.h"
#include "runtime/train/checkpoint_folder.h"

struct removal {
    const struct tutti_disk *disk;
    const char *folder;
    struct tutti_err *err;
};

/* What is gone already is as good. */
static int remove_file(const struct removal *r, const char *name)
{
    char path[TUTTI_CHECKPOINT_PATH_BYTES];
    int status;

    tutti_checkpoint_file(r->folder, name, path);
    status = r->disk->remove(r->disk->context, path);
    return status < 0 && status != -ENOENT
               ? tutti_checkpoint_io_fail(r->err, "remove", path, status)
               : 0;
}

/* What is not ours stays. */
static int remove_shard(void *data, const char *name)
{
    const struct removal *r = data;
    size_t digits = strspn(name + (strncmp(name, "shard-", 6) == 0 ? 6 : 0), "0123456789");

    if (digits == 0 || strncmp(name, "shard-", 6) != 0 || name[6 + digits] != '\0' || digits > 10)
        return 0;
    return remove_file(r, name) < 0 ? 1 : 0;
}

static int remove_save(const struct tutti_disk *disk, const char *dir,
                       const struct tutti_checkpoint_entry *entry, struct tutti_err *err)
{
    char folder[TUTTI_CHECKPOINT_PATH_BYTES];
    struct removal r = {disk, folder, err};
    int status = tutti_checkpoint_path(dir, entry->id, folder, err);

    if (status == 0 && entry->is_committed) {
        status = remove_file(&r, "manifest");
        if (status == 0)
            status = disk->sync_folder(disk->context, folder) < 0 ? -TUTTI_EIO : 0;
        if (status < 0)
            return tutti_fail(err, TUTTI_EIO, "cannot remove the manifest in '%s'", folder);
    }
    if (status == 0)
        status = remove_file(&r, "manifest.new");
    if (status < 0)
        return status;
    status = disk->list(disk->context, folder, remove_shard, &r);
    if (status > 0)
        return -TUTTI_EIO; /* it has said why */
    if (status == 0)
        status = disk->remove_folder(disk->context, folder);
    return status == 0 || status == -ENOENT || status == -ENOTEMPTY || status == -EEXIST
               ? 0
               : tutti_checkpoint_io_fail(err, "remove folder", folder, status);
}

/* Whether it can be restored, as far as its manifest and the lengths of its shards tell. 1: yes. */
static int is_sound(const struct tutti_disk *disk, const char *dir, struct tutti_checkpoint_id id,
                    struct tutti_err *err)
{
    const struct tutti_checkpoint_source source = {.disk = disk};
    struct tutti_checkpoint *c = NULL;
    char folder[TUTTI_CHECKPOINT_PATH_BYTES];
    int status = tutti_checkpoint_path(dir, id, folder, err);

    if (status == 0)
        status = tutti_checkpoint_open(&source, folder, &c, err);
    tutti_checkpoint_close(c);
    if (status == -TUTTI_ENOMEM)
        return status;
    return status == 0;
}

int tutti_checkpoint_clean(const struct tutti_disk *disk, const char *dir,
                           struct tutti_checkpoint_id id, uint32_t keep, struct tutti_err *err)
{
    struct tutti_checkpoint_entry *entries = NULL;
    uint32_t kept = 0;
    size_t count = 0;
    int status = tutti_checkpoint_entries(disk, dir, &entries, &count, err);

    for (size_t i = 0; i < count && status == 0; i++) {
        bool too_old = entries[i].is_committed && keep > 0 && kept == keep;
        bool unfinished =
            !entries[i].is_committed && tutti_checkpoint_compare(entries[i].id, id) < 0;

        if (too_old || unfinished) {
            status = remove_save(disk, dir, &entries[i], err);
        } else if (entries[i].is_committed && keep > 0) {
            int sound = is_sound(disk, dir, entries[i].id, err);

            kept += sound == 1;
            status = sound < 0 ? sound : 0;
        }
    }
    free(entries);
    return status;
}
