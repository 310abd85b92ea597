/* Reading checkpoints: the newest sound one, and elements of its slots from whatever shards. */
#include "runtime/train/checkpoint.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/train/checkpoint_disk.h"
#include "runtime/train/checkpoint_folder.h"
#include "runtime/train/checkpoint_hash.h"
#include "runtime/train/checkpoint_manifest.h"

enum { CHUNK_BYTES = 1 << 18 }; /* read at a time: a multiple of every element's size */

struct tutti_checkpoint {
    struct tutti_disk disk;
    struct tutti_manifest *manifest;
    char *folder;
    uint8_t *chunk;
    uint32_t open_rank; /* whose shard `file` is */
    int file;           /* or -1 */
};

/* ---- shards ---------------------------------------------------------------------------------- */

static void close_shard(struct tutti_checkpoint *c)
{
    if (c->file >= 0)
        (void)c->disk.close(c->disk.context, c->file);
    c->file = -1;
}

/* Opens the shard of a rank, unless it is open; its length must be what its pieces say. */
static int open_shard(struct tutti_checkpoint *c, uint32_t rank, struct tutti_err *err)
{
    char path[TUTTI_CHECKPOINT_PATH_BYTES];
    uint64_t bytes = c->manifest->shards[rank].bytes;
    int64_t size;
    int file;

    if (c->file >= 0 && c->open_rank == rank)
        return 0;
    close_shard(c);
    tutti_checkpoint_shard_file(c->folder, rank, path);
    file = c->disk.open(c->disk.context, path);
    if (file < 0)
        return tutti_checkpoint_io_fail(err, "open", path, file);
    c->file = file;
    c->open_rank = rank;
    size = c->disk.size(c->disk.context, file);
    if (size < 0 || (uint64_t)size != bytes) {
        close_shard(c);
        return size < 0 ? tutti_checkpoint_io_fail(err, "read", path, size)
                        : tutti_fail(err, TUTTI_ECHECK, "'%s' has %" PRId64 " bytes (%" PRIu64 ")",
                                     path, size, bytes);
    }
    return 0;
}

/* What becomes of the elements of a piece. */
struct delivery {
    uint8_t *dst; /* of element `first`; NULL: nothing */
    uint64_t first;
    uint64_t count;
    enum tutti_dtype dtype;
    bool add;
};

/* Elements [first, first + count), which lie in `data`. */
static void deliver(const struct delivery *d, uint64_t first, uint64_t count, const uint8_t *data)
{
    size_t width = tutti_dtype_bytes(d->dtype);
    uint64_t begin = first > d->first ? first : d->first;
    uint64_t end = first + count < d->first + d->count ? first + count : d->first + d->count;
    uint8_t *dst;

    if (d->dst == NULL || begin >= end)
        return;
    dst = d->dst + (begin - d->first) * width;
    data += (begin - first) * width;
    if (d->add)
        tutti_reduce(d->dtype, TUTTI_SUM, dst, dst, data, (size_t)(end - begin));
    else
        memcpy(dst, data, (size_t)(end - begin) * width);
}

static int compare_hash(const struct tutti_checkpoint *c, uint32_t rank, uint64_t offset,
                        uint64_t bytes, uint64_t seen, uint64_t expected, struct tutti_err *err)
{
    char path[TUTTI_CHECKPOINT_PATH_BYTES];

    if (seen == expected)
        return 0;
    tutti_checkpoint_shard_file(c->folder, rank, path);
    return tutti_fail(err, TUTTI_ECHECK,
                      "'%s' is damaged: its %" PRIu64 " bytes from %" PRIu64
                      " on have hash %016" PRIx64 " (%016" PRIx64 ")",
                      path, bytes, offset, seen, expected);
}

/* Reads bytes of a shard that is open, compares their hash and delivers them on the way. */
static int read_hashed(struct tutti_checkpoint *c, uint64_t offset, uint64_t bytes,
                       uint64_t expected, uint64_t first, const struct delivery *d,
                       struct tutti_err *err)
{
    char path[TUTTI_CHECKPOINT_PATH_BYTES];
    size_t width = d == NULL ? 1 : tutti_dtype_bytes(d->dtype);
    struct tutti_hash hash;

    tutti_checkpoint_shard_file(c->folder, c->open_rank, path);
    tutti_hash_begin(&hash);
    for (uint64_t done = 0; done < bytes;) {
        size_t now = bytes - done < CHUNK_BYTES ? (size_t)(bytes - done) : CHUNK_BYTES;
        int status =
            tutti_checkpoint_read_at(&c->disk, c->file, path, c->chunk, now, offset + done, err);

        if (status < 0)
            return status;
        tutti_hash_add(&hash, c->chunk, now);
        if (d != NULL)
            deliver(d, first + done / width, now / width, c->chunk);
        done += now;
    }
    return compare_hash(c, c->open_rank, offset, bytes, tutti_hash_end(&hash), expected, err);
}

static int read_piece(struct tutti_checkpoint *c, const struct tutti_checkpoint_piece *piece,
                      const struct delivery *d, struct tutti_err *err)
{
    size_t width = tutti_dtype_bytes(c->manifest->head.slots[piece->slot].dtype);
    int status = open_shard(c, piece->rank, err);

    if (status < 0)
        return status;
    return read_hashed(c, piece->offset, piece->count * width, piece->hash, piece->first, d, err);
}

/* Lengths of all shards; and what is in them, if that is asked for. */
static int check_shards(struct tutti_checkpoint *c, bool verify, struct tutti_err *err)
{
    const struct tutti_manifest *m = c->manifest;
    int status = 0;

    for (uint32_t rank = 0; rank < m->head.rank_count && status == 0; rank++) {
        const struct tutti_checkpoint_shard *shard = &m->shards[rank];

        status = open_shard(c, rank, err);
        if (status == 0 && verify)
            status = read_hashed(c, 0, shard->header_bytes, shard->header_hash, 0, NULL, err);
        for (size_t i = 0; i < shard->piece_count && status == 0 && verify; i++)
            status = read_piece(c, &m->pieces[shard->first_piece + i], NULL, err);
    }
    return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* 1: there is no manifest. -TUTTI_ECHECK: there is, but not a sound one. */
static int load_manifest(struct tutti_checkpoint *c, struct tutti_err *err)
{
    char path[TUTTI_CHECKPOINT_PATH_BYTES];
    char *text = NULL;
    size_t bytes = 0;
    int status;

    tutti_checkpoint_file(c->folder, "manifest", path);
    status = tutti_checkpoint_read_text(&c->disk, path, TUTTI_CHECKPOINT_TEXT_BYTES_MAX, &text,
                                        &bytes, err);
    if (status != 0)
        return status;
    status = tutti_manifest_parse(path, text, bytes, &c->manifest, err);
    if (status == -TUTTI_EINVAL)
        status = -TUTTI_ECHECK;
    if (status == 0 && c->manifest->hashed_bytes + TUTTI_CHECKPOINT_END_BYTES != bytes)
        status =
            tutti_fail(err, TUTTI_ECHECK, "%s: something is missing or stands after its end", path);
    if (status == 0 && tutti_hash_of(text, c->manifest->hashed_bytes) != c->manifest->hash)
        status = tutti_fail(err, TUTTI_ECHECK,
                            "%s: its text does not have the hash in its last line", path);
    free(text);
    return status;
}

static int open_folder(struct tutti_checkpoint *c, const struct tutti_checkpoint_source *source,
                       struct tutti_err *err)
{
    int status = load_manifest(c, err);

    if (status != 0)
        return status;
    if (source->model != NULL) {
        status = tutti_checkpoint_same_model(&c->manifest->head.model, source->model, err);
        if (status < 0)
            return tutti_wrap(err, status, "checkpoint '%s'", c->folder);
    }
    return check_shards(c, source->verify, err);
}

/* 1: it is not there. */
static int open_one(const struct tutti_checkpoint_source *source, const char *path,
                    struct tutti_checkpoint **ret, struct tutti_err *err)
{
    struct tutti_checkpoint *c;
    int status;

    if (strlen(path) + 64 > TUTTI_CHECKPOINT_PATH_BYTES)
        return tutti_fail(err, TUTTI_EINVAL, "a folder's name of %zu bytes (less than %d)",
                          strlen(path), TUTTI_CHECKPOINT_PATH_BYTES - 64);
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        return tutti_nomem(err);
    c->disk = source->disk == NULL ? tutti_disk_system : *source->disk;
    c->file = -1;
    c->folder = strdup(path);
    c->chunk = malloc(CHUNK_BYTES);
    if (c->folder == NULL || c->chunk == NULL)
        status = tutti_nomem(err);
    else
        status = open_folder(c, source, err);
    if (status != 0) {
        tutti_checkpoint_close(c);
        return status;
    }
    *ret = c;
    return 0;
}

int tutti_checkpoint_open(const struct tutti_checkpoint_source *source, const char *path,
                          struct tutti_checkpoint **ret, struct tutti_err *err)
{
    int status = open_one(source, path, ret, err);

    if (status == 1)
        return tutti_fail(err, TUTTI_ECHECK, "there is no checkpoint '%s': it has no manifest",
                          path);
    return status;
}

void tutti_checkpoint_close(struct tutti_checkpoint *checkpoint)
{
    if (checkpoint == NULL)
        return;
    close_shard(checkpoint);
    tutti_manifest_free(checkpoint->manifest);
    free(checkpoint->folder);
    free(checkpoint->chunk);
    free(checkpoint);
}

/* A folder of this name holds just this one. */
static int open_entry(const struct tutti_checkpoint_source *source, const char *dir,
                      struct tutti_checkpoint_id id, struct tutti_checkpoint **ret,
                      struct tutti_err *err)
{
    char path[TUTTI_CHECKPOINT_PATH_BYTES];
    struct tutti_checkpoint *c = NULL;
    int status = tutti_checkpoint_path(dir, id, path, err);

    if (status == 0)
        status = open_one(source, path, &c, err);
    if (status != 0)
        return status;
    if (tutti_checkpoint_compare(c->manifest->head.id, id) != 0) {
        status = tutti_fail(err, TUTTI_ECHECK,
                            "'%s/manifest' is of step %" PRIu64 ", incarnation %" PRIu64, path,
                            c->manifest->head.id.step, c->manifest->head.id.incarnation);
        tutti_checkpoint_close(c);
        return status;
    }
    *ret = c;
    return 0;
}

int tutti_checkpoint_open_newest(const struct tutti_checkpoint_source *source, const char *dir,
                                 struct tutti_checkpoint **ret, struct tutti_err *err)
{
    struct tutti_checkpoint_id *ids = NULL;
    struct tutti_checkpoint *found = NULL;
    struct tutti_err why = {""};
    size_t count = 0;
    int status = tutti_checkpoint_list(source->disk, dir, &ids, &count, err);

    if (status < 0)
        return status;
    for (size_t i = 0; i < count && found == NULL && status >= 0; i++) {
        status = open_entry(source, dir, ids[i], &found, &why);
        if (status == -TUTTI_ECHECK || status == -TUTTI_EIO) {
            if (source->note != NULL)
                source->note(source->context, why.text);
            status = 0;
        }
    }
    free(ids);
    if (status < 0)
        return tutti_fail(err, (enum tutti_status) - status, "%s", why.text);
    *ret = found;
    return 0;
}

/* ---- what is in it --------------------------------------------------------------------------- */

struct tutti_checkpoint_id tutti_checkpoint_id(const struct tutti_checkpoint *checkpoint)
{
    return checkpoint->manifest->head.id;
}

const char *tutti_checkpoint_folder(const struct tutti_checkpoint *checkpoint)
{
    return checkpoint->folder;
}

const struct tutti_checkpoint_model *
tutti_checkpoint_model(const struct tutti_checkpoint *checkpoint)
{
    return &checkpoint->manifest->head.model;
}

const char *tutti_checkpoint_strategy(const struct tutti_checkpoint *checkpoint)
{
    return checkpoint->manifest->head.strategy;
}

uint32_t tutti_checkpoint_rank_count(const struct tutti_checkpoint *checkpoint)
{
    return checkpoint->manifest->head.rank_count;
}

const struct tutti_checkpoint_slot *tutti_checkpoint_slot(const struct tutti_checkpoint *checkpoint,
                                                          const char *name)
{
    const struct tutti_checkpoint_head *head = &checkpoint->manifest->head;

    for (uint32_t i = 0; i < head->slot_count; i++) {
        if (strcmp(head->slots[i].name, name) == 0)
            return &head->slots[i];
    }
    return NULL;
}

const struct tutti_checkpoint_scalar *
tutti_checkpoint_scalar(const struct tutti_checkpoint *checkpoint, const char *name)
{
    const struct tutti_checkpoint_head *head = &checkpoint->manifest->head;

    for (uint32_t i = 0; i < head->scalar_count; i++) {
        if (strcmp(head->scalars[i].name, name) == 0)
            return &head->scalars[i];
    }
    return NULL;
}

/* ---- elements -------------------------------------------------------------------------------- */

/* All that is asked for of one owner's. */
static int read_owner(struct tutti_checkpoint *c, uint32_t slot, uint32_t rank,
                      const struct delivery *d, struct tutti_err *err)
{
    const struct tutti_manifest *m = c->manifest;
    int status = 0;

    for (size_t i = tutti_manifest_find(m, slot, rank, d->first); i < m->piece_count && status == 0;
         i++) {
        const struct tutti_checkpoint_piece *piece = &m->sorted[i];

        status = read_piece(c, piece, d, err);
        if (piece->first + piece->count >= d->first + d->count)
            break;
    }
    return status;
}

/* Ranks' own, by another number of ranks. */
static int read_regrouped(struct tutti_checkpoint *c, uint32_t slot,
                          const struct tutti_checkpoint_want *want, struct delivery d,
                          struct tutti_err *err)
{
    enum tutti_checkpoint_owner owner = c->manifest->head.slots[slot].owner;
    uint32_t there_count = c->manifest->head.rank_count;
    bool mean = owner == TUTTI_OWNER_RANK_MEAN;
    int status = 0;

    memset(d.dst, 0, (size_t)want->count * tutti_dtype_bytes(d.dtype));
    if (owner == TUTTI_OWNER_RANK_DROP)
        return 0;
    d.add = true;
    for (uint32_t rank = mean ? 0 : want->rank; rank < there_count && status == 0;
         rank += mean ? 1 : want->rank_count)
        status = read_owner(c, slot, rank, &d, err);
    if (status == 0 && mean)
        tutti_finish(d.dtype, TUTTI_AVG, d.dst, (size_t)want->count, there_count);
    return status;
}

static int check_want(const struct tutti_checkpoint *c, const struct tutti_checkpoint_slot *slot,
                      const struct tutti_checkpoint_want *want, struct tutti_err *err)
{
    if (slot == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "checkpoint '%s' has no slot '%s'", c->folder,
                          want->slot);
    if (slot->dtype != want->dtype)
        return tutti_fail(err, TUTTI_EINVAL, "checkpoint '%s': slot '%s' is of type %s (%s here)",
                          c->folder, want->slot, tutti_dtype_name(slot->dtype),
                          tutti_dtype_name(want->dtype));
    if (want->first > slot->elements || want->count > slot->elements - want->first)
        return tutti_fail(err, TUTTI_EINVAL,
                          "checkpoint '%s': slot '%s' has %" PRIu64 " elements (%" PRIu64
                          " from %" PRIu64 " on are asked for)",
                          c->folder, want->slot, slot->elements, want->count, want->first);
    return 0;
}

int tutti_checkpoint_read(struct tutti_checkpoint *checkpoint,
                          const struct tutti_checkpoint_want *want, void *dst,
                          struct tutti_err *err)
{
    const struct tutti_checkpoint_slot *slot = tutti_checkpoint_slot(checkpoint, want->slot);
    struct delivery d = {dst, want->first, want->count, want->dtype, false};
    int status = check_want(checkpoint, slot, want, err);
    uint32_t index;

    assert(want->rank < want->rank_count);
    if (status < 0 || want->count == 0)
        return status;
    index = (uint32_t)(slot - checkpoint->manifest->head.slots);
    if (slot->owner == TUTTI_OWNER_SHARED ||
        want->rank_count == checkpoint->manifest->head.rank_count)
        return read_owner(checkpoint, index, want->rank, &d, err);
    return read_regrouped(checkpoint, index, want, d, err);
}

bool tutti_checkpoint_regroups(const struct tutti_checkpoint_slot *slot, uint32_t there_count,
                               uint32_t here_count, char *buf, size_t buf_bytes)
{
    if (slot->owner == TUTTI_OWNER_SHARED || there_count == here_count)
        return false;
    if (slot->owner == TUTTI_OWNER_RANK_SUM)
        (void)snprintf(buf, buf_bytes,
                       "slot '%s': those of %" PRIu32 " ranks are summed into %" PRIu32, slot->name,
                       there_count, here_count);
    else if (slot->owner == TUTTI_OWNER_RANK_MEAN)
        (void)snprintf(buf, buf_bytes,
                       "slot '%s': the mean of %" PRIu32 " ranks goes to each of %" PRIu32,
                       slot->name, there_count, here_count);
    else
        (void)snprintf(buf, buf_bytes,
                       "slot '%s': those of %" PRIu32 " ranks are dropped, %" PRIu32
                       " begin with 0",
                       slot->name, there_count, here_count);
    return true;
}
