/* The names of a folder of checkpoints, and whole small files in it. */
#ifndef TUTTI_RUNTIME_TRAIN_CHECKPOINT_FOLDER_H
#define TUTTI_RUNTIME_TRAIN_CHECKPOINT_FOLDER_H

#include "runtime/train/checkpoint.h"

enum { TUTTI_CHECKPOINT_TEXT_BYTES_MAX = 1 << 28 }; /* a longer manifest is not read */

/* A save in the folder, finished or not. */
struct tutti_checkpoint_entry {
    struct tutti_checkpoint_id id;
    bool is_committed;
};

/* All saves, newest first; `*ret` is the caller's to free(). No folder: none. */
int tutti_checkpoint_entries(const struct tutti_disk *disk, const char *dir,
                             struct tutti_checkpoint_entry **ret, size_t *ret_count,
                             struct tutti_err *err);

/* Which of two is newer: < 0: a is older, 0: they are one. */
int tutti_checkpoint_compare(struct tutti_checkpoint_id a, struct tutti_checkpoint_id b);

/* "FOLDER/manifest"; of a path that tutti_checkpoint_path() made, which leaves room for it. */
void tutti_checkpoint_file(const char *folder, const char *file,
                           char ret[TUTTI_CHECKPOINT_PATH_BYTES]);
void tutti_checkpoint_shard_file(const char *folder, uint32_t rank,
                                 char ret[TUTTI_CHECKPOINT_PATH_BYTES]);

/* "cannot VERB 'PATH': REASON": -TUTTI_EIO, of a negated errno. */
int tutti_checkpoint_io_fail(struct tutti_err *err, const char *verb, const char *path,
                             int64_t status);

/* Fills `data` from `offset` on: -TUTTI_ECHECK where the file ends before. */
int tutti_checkpoint_read_at(const struct tutti_disk *disk, int file, const char *path, void *data,
                             size_t bytes, uint64_t offset, struct tutti_err *err);

/* The first `bytes_max` bytes of a file, zero-terminated; `*ret` is the caller's to free(). 1:
 * there is none. */
int tutti_checkpoint_read_text(const struct tutti_disk *disk, const char *path, size_t bytes_max,
                               char **ret, size_t *ret_bytes, struct tutti_err *err);

#endif
