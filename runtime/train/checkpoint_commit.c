/* Shards and manifests: written, flushed and renamed in the order that makes a commit. */
#include "runtime/train/checkpoint_commit.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "runtime/train/checkpoint_disk.h"
#include "runtime/train/checkpoint_folder.h"
#include "runtime/train/checkpoint_hash.h"

enum { WRITE_BYTES_MAX = 64 << 20 }; /* at a time */

/* ---- files ----------------------------------------------------------------------------------- */

/* One after the other. */
struct part {
    const void *data;
    size_t bytes;
};

static int write_part(const struct tutti_disk *disk, int file, const char *path, struct part part,
                      struct tutti_err *err)
{
    for (size_t done = 0; done < part.bytes;) {
        size_t now = part.bytes - done < WRITE_BYTES_MAX ? part.bytes - done : WRITE_BYTES_MAX;
        int64_t got = disk->write(disk->context, file, (const char *)part.data + done, now);

        if (got <= 0)
            return tutti_checkpoint_io_fail(err, "write", path, got == 0 ? -EIO : got);
        done += (size_t)got;
    }
    return 0;
}

/* A file of some parts, on the medium; its name is so only once the folder is, too. */
static int write_parts(const struct tutti_disk *disk, const char *path, const struct part *parts,
                       size_t part_count, struct tutti_err *err)
{
    int file = disk->create(disk->context, path);
    int status = 0;
    int closed;

    if (file < 0)
        return tutti_checkpoint_io_fail(err, "create", path, file);
    for (size_t i = 0; i < part_count && status == 0; i++)
        status = write_part(disk, file, path, parts[i], err);
    if (status == 0) {
        status = disk->sync(disk->context, file);
        if (status < 0)
            status = tutti_checkpoint_io_fail(err, "flush", path, status);
    }
    closed = disk->close(disk->context, file);
    if (status == 0 && closed < 0) /* network file systems say it this late */
        status = tutti_checkpoint_io_fail(err, "close", path, closed);
    if (status < 0)
        (void)disk->remove(disk->context, path); /* a full disk has room again */
    return status;
}

static int flush_folder(const struct tutti_disk *disk, const char *path, struct tutti_err *err)
{
    int status = disk->sync_folder(disk->context, path);

    return status < 0 ? tutti_checkpoint_io_fail(err, "flush folder", path, status) : 0;
}

/* ---- a shard --------------------------------------------------------------------------------- */

static void hash_pieces(const struct tutti_checkpoint_head *head,
                        struct tutti_checkpoint_piece *pieces, size_t piece_count,
                        const uint8_t *data, size_t *ret_bytes)
{
    size_t bytes = 0;

    for (size_t i = 0; i < piece_count; i++) {
        size_t width = tutti_dtype_bytes(head->slots[pieces[i].slot].dtype);

        pieces[i].hash = tutti_hash_of(data + bytes, (size_t)pieces[i].count * width);
        bytes += (size_t)pieces[i].count * width;
    }
    *ret_bytes = bytes;
}

int tutti_checkpoint_write_shard(const struct tutti_checkpoint_save *save, uint32_t rank,
                                 struct tutti_checkpoint_piece *pieces, size_t piece_count,
                                 const uint8_t *data, struct tutti_err *err)
{
    const struct tutti_disk *disk = save->disk;
    struct tutti_checkpoint_text text = {.text = NULL};
    char folder[TUTTI_CHECKPOINT_PATH_BYTES];
    char path[TUTTI_CHECKPOINT_PATH_BYTES];
    size_t bytes = 0;
    int status = tutti_checkpoint_path(save->dir, save->head->id, folder, err);

    if (status < 0)
        return status;
    hash_pieces(save->head, pieces, piece_count, data, &bytes);
    tutti_checkpoint_put_header(&text, save->head, rank,
                                tutti_hash_of(save->head_text, save->head_bytes), pieces,
                                piece_count);
    tutti_checkpoint_shard_file(folder, rank, path);
    status = text.no_memory ? tutti_nomem(err) : disk->make_folder(disk->context, folder);
    if (!text.no_memory && status < 0)
        status =
            status == -EEXIST ? 0 : tutti_checkpoint_io_fail(err, "make folder", folder, status);
    if (status == 0)
        status = write_parts(disk, path, (struct part[]){{text.text, text.bytes}, {data, bytes}}, 2,
                             err);
    free(text.text);
    return status < 0 ? status : flush_folder(disk, folder, err);
}

/* ---- the commit ------------------------------------------------------------------------------ */

static int check_header(const struct tutti_checkpoint_save *save, const char *path, uint32_t rank,
                        const char *text, const struct tutti_shard_header *h, int64_t file_bytes,
                        struct tutti_err *err)
{
    const struct tutti_checkpoint_head *head = save->head;

    if (tutti_hash_of(text, h->hashed_bytes) != h->hash)
        return tutti_fail(err, TUTTI_ECHECK, "'%s': its header does not have the hash in its end",
                          path);
    if (tutti_checkpoint_compare(h->id, head->id) != 0 || h->rank != rank ||
        h->rank_count != head->rank_count)
        return tutti_fail(err, TUTTI_ECHECK,
                          "'%s' is of step %" PRIu64 ", incarnation %" PRIu64 ", rank %" PRIu32
                          " of %" PRIu32 " (step %" PRIu64 ", incarnation %" PRIu64
                          ", rank %" PRIu32 " of %" PRIu32 ")",
                          path, h->id.step, h->id.incarnation, h->rank, h->rank_count,
                          head->id.step, head->id.incarnation, rank, head->rank_count);
    if (h->head_hash != tutti_hash_of(save->head_text, save->head_bytes))
        return tutti_fail(err, TUTTI_ECHECK,
                          "'%s': its rank saves another model, other slots or other scalars than "
                          "the chief",
                          path);
    if (file_bytes < 0 || (uint64_t)file_bytes != h->bytes)
        return tutti_fail(err, TUTTI_ECHECK, "'%s' has %" PRId64 " bytes (%" PRIu64 ")", path,
                          file_bytes, h->bytes);
    return 0;
}

/* The header's bytes, which its first line tells; malloc'ed. */
static int read_header(const struct tutti_disk *disk, int file, const char *path, char **ret,
                       size_t *ret_bytes, struct tutti_err *err)
{
    static const char first[] = "tutti shard 1 header ";
    char line[sizeof(first) + 10];
    uint64_t bytes;
    char *text;
    int status = tutti_checkpoint_read_at(disk, file, path, line, sizeof(line) - 1, 0, err);

    if (status < 0)
        return status;
    line[sizeof(line) - 1] = '\0';
    bytes = strtoull(line + sizeof(first) - 1, NULL, 10);
    if (bytes == 0 || bytes > TUTTI_SHARD_HEADER_BYTES_MAX)
        return tutti_fail(err, TUTTI_ECHECK, "'%s' does not begin with '%s' and its bytes", path,
                          first);
    text = malloc((size_t)bytes);
    if (text == NULL)
        return tutti_nomem(err);
    status = tutti_checkpoint_read_at(disk, file, path, text, (size_t)bytes, 0, err);
    if (status < 0) {
        free(text);
        return status;
    }
    *ret = text;
    *ret_bytes = (size_t)bytes;
    return 0;
}

/* Adds a shard's lines to the manifest. */
static int add_shard(const struct tutti_checkpoint_save *save, const char *folder, uint32_t rank,
                     struct tutti_checkpoint_text *manifest, struct tutti_err *err)
{
    const struct tutti_disk *disk = save->disk;
    char path[TUTTI_CHECKPOINT_PATH_BYTES];
    struct tutti_shard_header *header = NULL;
    char *text = NULL;
    size_t bytes = 0;
    int64_t file_bytes = 0;
    int status;
    int file;

    tutti_checkpoint_shard_file(folder, rank, path);
    file = disk->open(disk->context, path);
    if (file < 0)
        return tutti_checkpoint_io_fail(err, "open", path, file);
    file_bytes = disk->size(disk->context, file);
    status = read_header(disk, file, path, &text, &bytes, err);
    (void)disk->close(disk->context, file);
    if (status == 0)
        status = tutti_shard_header_parse(path, text, bytes, save->head, &header, err);
    if (status == 0)
        status = check_header(save, path, rank, text, header, file_bytes, err);
    if (status == 0) {
        tutti_checkpoint_put_shard(manifest, rank, bytes, tutti_hash_of(text, bytes));
        for (size_t i = 0; i < header->piece_count; i++)
            tutti_checkpoint_put_piece(manifest, save->head->slots, &header->pieces[i]);
    }
    tutti_shard_header_free(header);
    free(text);
    return status;
}

/* The whole text, read again as anyone will: so nothing is committed that cannot be restored. */
static int make_manifest(const struct tutti_checkpoint_save *save, const char *folder,
                         struct tutti_checkpoint_text *text, struct tutti_err *err)
{
    struct tutti_manifest *again = NULL;
    int status = 0;

    tutti_checkpoint_put(text, "%.*s", (int)save->head_bytes, save->head_text);
    for (uint32_t rank = 0; rank < save->head->rank_count && status == 0; rank++)
        status = add_shard(save, folder, rank, text, err);
    tutti_checkpoint_put_end(text);
    if (status == 0 && text->no_memory)
        status = tutti_nomem(err);
    if (status == 0)
        status = tutti_manifest_parse("manifest", text->text, text->bytes, &again, err);
    tutti_manifest_free(again);
    return status == -TUTTI_EINVAL ? -TUTTI_ECHECK : status;
}

int tutti_checkpoint_commit(const struct tutti_checkpoint_save *save, struct tutti_err *err)
{
    const struct tutti_disk *disk = save->disk;
    struct tutti_checkpoint_text text = {.text = NULL};
    char folder[TUTTI_CHECKPOINT_PATH_BYTES];
    char from[TUTTI_CHECKPOINT_PATH_BYTES];
    char to[TUTTI_CHECKPOINT_PATH_BYTES];
    int status = tutti_checkpoint_path(save->dir, save->head->id, folder, err);

    if (status < 0)
        return status;
    tutti_checkpoint_file(folder, "manifest.new", from);
    tutti_checkpoint_file(folder, "manifest", to);
    status = make_manifest(save, folder, &text, err);
    if (status == 0)
        status = write_parts(disk, from, (struct part[]){{text.text, text.bytes}}, 1, err);
    free(text.text);
    if (status < 0)
        return tutti_wrap(err, status, "checkpoint '%s' is not committed", folder);
    status = disk->rename(disk->context, from, to);
    if (status < 0)
        return tutti_checkpoint_io_fail(err, "rename to", to, status);
    status = flush_folder(disk, folder, err);
    return status < 0 ? status : flush_folder(disk, save->dir, err);
}
