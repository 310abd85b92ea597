/* Reading the text of checkpoints line by line, and the head that manifests begin with. */
#ifndef TUTTI_RUNTIME_TRAIN_CHECKPOINT_READER_H
#define TUTTI_RUNTIME_TRAIN_CHECKPOINT_READER_H

#include "runtime/schedule/text.h"
#include "runtime/train/checkpoint_manifest.h"

struct tutti_arena;

struct tutti_manifest_reader {
    const char *text;
    struct tutti_lines lines;
    struct tutti_line line; /* behind its first word */
    struct tutti_word word; /* that; of no bytes: the text is over */
    size_t offset;          /* where the line begins */
    struct tutti_arena *arena;
    const struct tutti_checkpoint_slot *slots; /* that pieces name */
    uint32_t slot_count;
    struct tutti_checkpoint_piece *pieces;
    size_t piece_count;
    size_t piece_capacity;
};

/* To the next line that says something. */
void tutti_manifest_reader_next(struct tutti_manifest_reader *r);

/* Whether the line begins with this word; -TUTTI_EINVAL unless it does. */
bool tutti_manifest_reader_at(const struct tutti_manifest_reader *r, const char *keyword);
int tutti_manifest_reader_expect(const struct tutti_manifest_reader *r, const char *keyword,
                                 struct tutti_err *err);

/* Nothing may be left of the line; to the next. */
int tutti_manifest_reader_end_line(struct tutti_manifest_reader *r, struct tutti_err *err);

/* 16 digits of base 16, small ones. */
int tutti_manifest_reader_hash(struct tutti_manifest_reader *r, uint64_t *ret,
                               struct tutti_err *err);

/* Room for one more of an array in the arena, which has `count` and doubles; NULL: no memory. */
void *tutti_manifest_reader_append(struct tutti_manifest_reader *r, void *items, size_t count,
                                   size_t size);

/* "tutti WHAT 1", of which a later version has another number; the line is not over. */
int tutti_manifest_reader_first(struct tutti_manifest_reader *r, const char *what,
                                struct tutti_err *err);

/* The lines of step and incarnation. */
int tutti_manifest_reader_id(struct tutti_manifest_reader *r, struct tutti_checkpoint_id *id,
                             struct tutti_err *err);

/* The lines of a manifest before the shards. */
int tutti_manifest_reader_head(struct tutti_manifest_reader *r, struct tutti_checkpoint_head *head,
                               struct tutti_err *err);

#endif
