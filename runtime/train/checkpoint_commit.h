/* What a save does to the disk: a shard, the commit, and removing what is over. Each is one call,
 * made by the saver's thread. */
#ifndef TUTTI_RUNTIME_TRAIN_CHECKPOINT_COMMIT_H
#define TUTTI_RUNTIME_TRAIN_CHECKPOINT_COMMIT_H

#include "runtime/train/checkpoint_manifest.h"

/* Where, and of what. */
struct tutti_checkpoint_save {
    const struct tutti_disk *disk;
    const char *dir;
    const struct tutti_checkpoint_head *head; /* its scalars are in the text alone */
    const char *head_text;
    size_t head_bytes;
};

/* Writes the shard of a rank and flushes it, with its name, to the medium: the pieces lie one
 * behind the other in `data`, and get their hashes here. If that fails the file is removed. */
int tutti_checkpoint_write_shard(const struct tutti_checkpoint_save *save, uint32_t rank,
                                 struct tutti_checkpoint_piece *pieces, size_t piece_count,
                                 const uint8_t *data, struct tutti_err *err);

/* Reads the headers of all shards, sees that they are of this save and hold everything, and writes
 * the manifest. -TUTTI_ECHECK: a rank has saved something else. */
int tutti_checkpoint_commit(const struct tutti_checkpoint_save *save, struct tutti_err *err);

/* Removes the newest committed but `keep` (0: none is removed), of which those that are damaged by
 * their sizes do not count, and saves without manifest that are older than `id`. */
int tutti_checkpoint_clean(const struct tutti_disk *disk, const char *dir,
                           struct tutti_checkpoint_id id, uint32_t keep, struct tutti_err *err);

#endif
