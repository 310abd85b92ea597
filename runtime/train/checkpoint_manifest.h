/* The manifest of a checkpoint: what is saved and where each piece lies. Text, a statement a line,
 * # begins a comment; in this order:
 *
 *     tutti checkpoint 1
 *     step 120
 *     incarnation 3
 *     model mlp hash 0123456789abcdef
 *     strategy fsdp
 *     ranks 2
 *     variable dense/kernel 784x128             its shape, or "scalar"; one or more
 *     slot weights float shared 100352          type, whose, elements; one or more
 *     scalar epoch integer 1                    any number of them
 *     scalar loss_scale real 40e0000000000000   # 32768
 *     shard 0 header 4096 0123456789abcdef      bytes of its header, their hash; one a rank
 *     piece weights 0 50176 0123456789abcdef    first element, how many, their bytes' hash; its
 *     shard 1 header 4096 0123456789abcdef      pieces follow each other behind the header
 *     piece weights 50176 50176 0123456789abcdef
 *     end 0123456789abcdef                      hash of everything before this line
 *
 * A shard begins with a header of the same kind, filled up with empty lines:
 *
 *     tutti shard 1 header 0000004096           its bytes
 *     step 120
 *     incarnation 3
 *     rank 0 of 2
 *     head 0123456789abcdef                     hash of the manifest's lines before the shards
 *     piece weights 0 50176 0123456789abcdef
 *     end 0123456789abcdef
 *
 * Names of files are made of numbers alone. Time and memory grow with the text, whatever stands in
 * it. */
#ifndef TUTTI_RUNTIME_TRAIN_CHECKPOINT_MANIFEST_H
#define TUTTI_RUNTIME_TRAIN_CHECKPOINT_MANIFEST_H

#include "runtime/train/checkpoint.h"

enum {
    TUTTI_SHARD_HEADER_ALIGN = 4096,             /* a header is a multiple of it */
    TUTTI_SHARD_HEADER_BYTES_MAX = 1 << 28,      /* a longer one is not read */
    TUTTI_CHECKPOINT_PIECE_BYTES_MAX = 16 << 20, /* longer ones are cut: a reader of a few elements
                                                  * reads no more than this beside them */
    TUTTI_CHECKPOINT_END_BYTES = 21,             /* of the last line, "end" and a hash */
};

/* The lines before the shards. */
struct tutti_checkpoint_head {
    struct tutti_checkpoint_id id;
    struct tutti_checkpoint_model model;
    const char *strategy;
    uint32_t rank_count;
    const struct tutti_checkpoint_slot *slots;
    uint32_t slot_count;
    const struct tutti_checkpoint_scalar *scalars;
    uint32_t scalar_count;
};

/* Elements of a slot that lie side by side in a shard. */
struct tutti_checkpoint_piece {
    uint32_t slot;  /* index */
    uint32_t rank;  /* whose shard it lies in */
    uint32_t owner; /* that rank, where each has its own; 0 where they share it */
    uint64_t first; /* element */
    uint64_t count;
    uint64_t offset; /* in the shard */
    uint64_t hash;
};

struct tutti_checkpoint_shard {
    uint64_t header_bytes;
    uint64_t header_hash;
    uint64_t bytes; /* of the file */
    size_t first_piece;
    size_t piece_count;
};

struct tutti_manifest {
    struct tutti_arena *arena; /* of everything in it */
    struct tutti_checkpoint_head head;
    struct tutti_checkpoint_shard *shards; /* one of each rank */
    struct tutti_checkpoint_piece *pieces; /* as they lie in the shards */
    struct tutti_checkpoint_piece *sorted; /* by slot, owner and first element */
    size_t piece_count;
    size_t hashed_bytes; /* of the text, before its last line */
    uint64_t hash;       /* that this line says they have */
};

/* What a shard's header says. */
struct tutti_shard_header {
    struct tutti_arena *arena;
    struct tutti_checkpoint_id id;
    uint64_t header_bytes;
    uint32_t rank;
    uint32_t rank_count;
    uint64_t head_hash;
    struct tutti_checkpoint_piece *pieces;
    size_t piece_count;
    uint64_t bytes; /* of the shard, by its pieces */
    size_t hashed_bytes;
    uint64_t hash;
};

/* -TUTTI_EINVAL for what is not a manifest ("NAME: line N: ..."), or whose pieces leave out an
 * element of a slot or hold it twice ("NAME: ..."). Whether the hash holds is for the caller. */
int tutti_manifest_parse(const char *name, const char *text, size_t bytes,
                         struct tutti_manifest **ret, struct tutti_err *err);
void tutti_manifest_free(struct tutti_manifest *manifest);

/* The header of a shard, whose slots are those of `head`. */
int tutti_shard_header_parse(const char *name, const char *text, size_t bytes,
                             const struct tutti_checkpoint_head *head,
                             struct tutti_shard_header **ret, struct tutti_err *err);
void tutti_shard_header_free(struct tutti_shard_header *header);

/* Sorts the pieces into `sorted` and sees that they hold every element of every slot once.
 * -TUTTI_EINVAL: "elements 5 to 9 of slot 'weights' are in no shard". */
int tutti_manifest_sort(struct tutti_manifest *manifest, struct tutti_err *err);

/* The piece, in `sorted`, that holds an element; of a rank's own as that rank has it. */
size_t tutti_manifest_find(const struct tutti_manifest *manifest, uint32_t slot, uint32_t rank,
                           uint64_t element);

/* -TUTTI_EINVAL for names, shapes and counts that cannot be written. */
int tutti_checkpoint_head_check(const struct tutti_checkpoint_head *head, struct tutti_err *err);

/* Text that grows; malloc'ed. */
struct tutti_checkpoint_text {
    char *text;
    size_t bytes;
    size_t capacity;
    bool no_memory;
};

__attribute__((format(printf, 2, 3))) void tutti_checkpoint_put(struct tutti_checkpoint_text *text,
                                                                const char *format, ...);
void tutti_checkpoint_put_head(struct tutti_checkpoint_text *text,
                               const struct tutti_checkpoint_head *head);
void tutti_checkpoint_put_piece(struct tutti_checkpoint_text *text,
                                const struct tutti_checkpoint_slot *slots,
                                const struct tutti_checkpoint_piece *piece);
void tutti_checkpoint_put_shard(struct tutti_checkpoint_text *text, uint32_t rank,
                                uint64_t header_bytes, uint64_t header_hash);
/* The last line: the hash of all that is there. */
void tutti_checkpoint_put_end(struct tutti_checkpoint_text *text);

/* The header of a shard, filled up to its whole length. */
void tutti_checkpoint_put_header(struct tutti_checkpoint_text *text,
                                 const struct tutti_checkpoint_head *head, uint32_t rank,
                                 uint64_t head_hash, const struct tutti_checkpoint_piece *pieces,
                                 size_t piece_count);

#endif
