/* Manifests and headers of shards: writing their text. (checkpoint_parse.c reads it.) */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/checkpoint_hash.h"
#include "runtime/train/checkpoint_manifest.h"

static bool grow(struct tutti_checkpoint_text *text, size_t more)
{
    size_t capacity = text->capacity < 4096 ? 4096 : text->capacity;
    char *bigger;

    if (text->no_memory || text->bytes + more < text->capacity)
        return !text->no_memory;
    while (capacity <= text->bytes + more)
        capacity *= 2;
    bigger = realloc(text->text, capacity);
    text->no_memory = bigger == NULL;
    if (bigger != NULL) {
        text->text = bigger;
        text->capacity = capacity;
    }
    return !text->no_memory;
}

void tutti_checkpoint_put(struct tutti_checkpoint_text *text, const char *format, ...)
{
    va_list args;
    int bytes;

    va_start(args, format);
    bytes = vsnprintf(NULL, 0, format, args);
    va_end(args);
    assert(bytes >= 0);
    if (!grow(text, (size_t)bytes + 1))
        return;
    va_start(args, format);
    (void)vsnprintf(text->text + text->bytes, (size_t)bytes + 1, format, args);
    va_end(args);
    text->bytes += (size_t)bytes;
}

static void put_variable(struct tutti_checkpoint_text *text,
                         const struct tutti_checkpoint_variable *v)
{
    tutti_checkpoint_put(text, "variable %s ", v->name);
    for (uint32_t i = 0; i < v->dim_count; i++)
        tutti_checkpoint_put(text, "%s%" PRIu64, i > 0 ? "x" : "", v->dims[i]);
    tutti_checkpoint_put(text, "%s\n", v->dim_count == 0 ? "scalar" : "");
}

static void put_scalar(struct tutti_checkpoint_text *text,
                       const struct tutti_checkpoint_scalar *scalar)
{
    uint64_t bits;

    if (!scalar->is_real) {
        tutti_checkpoint_put(text, "scalar %s integer %" PRIu64 "\n", scalar->name,
                             scalar->integer);
        return;
    }
    memcpy(&bits, &scalar->real, sizeof(bits));
    tutti_checkpoint_put(text, "scalar %s real %016" PRIx64 " # %g\n", scalar->name, bits,
                         scalar->real);
}

void tutti_checkpoint_put_head(struct tutti_checkpoint_text *text,
                               const struct tutti_checkpoint_head *head)
{
    tutti_checkpoint_put(text, "tutti checkpoint 1\nstep %" PRIu64 "\nincarnation %" PRIu64 "\n",
                         head->id.step, head->id.incarnation);
    tutti_checkpoint_put(text, "model %s hash %016" PRIx64 "\nstrategy %s\nranks %" PRIu32 "\n",
                         head->model.name, head->model.hash, head->strategy, head->rank_count);
    for (uint32_t i = 0; i < head->model.variable_count; i++)
        put_variable(text, &head->model.variables[i]);
    for (uint32_t i = 0; i < head->slot_count; i++)
        tutti_checkpoint_put(text, "slot %s %s %s %" PRIu64 "\n", head->slots[i].name,
                             tutti_dtype_name(head->slots[i].dtype),
                             tutti_checkpoint_owner_name(head->slots[i].owner),
                             head->slots[i].elements);
    for (uint32_t i = 0; i < head->scalar_count; i++)
        put_scalar(text, &head->scalars[i]);
}

void tutti_checkpoint_put_piece(struct tutti_checkpoint_text *text,
                                const struct tutti_checkpoint_slot *slots,
                                const struct tutti_checkpoint_piece *piece)
{
    tutti_checkpoint_put(text, "piece %s %" PRIu64 " %" PRIu64 " %016" PRIx64 "\n",
                         slots[piece->slot].name, piece->first, piece->count, piece->hash);
}

void tutti_checkpoint_put_shard(struct tutti_checkpoint_text *text, uint32_t rank,
                                uint64_t header_bytes, uint64_t header_hash)
{
    tutti_checkpoint_put(text, "shard %" PRIu32 " header %" PRIu64 " %016" PRIx64 "\n", rank,
                         header_bytes, header_hash);
}

void tutti_checkpoint_put_end(struct tutti_checkpoint_text *text)
{
    if (!text->no_memory)
        tutti_checkpoint_put(text, "end %016" PRIx64 "\n", tutti_hash_of(text->text, text->bytes));
}

/* The line has the same length whatever the number: it is printed again once that is known. */
static void put_first_line(struct tutti_checkpoint_text *text, uint64_t header_bytes)
{
    tutti_checkpoint_put(text, "tutti shard 1 header %010" PRIu64 "\n", header_bytes);
}

void tutti_checkpoint_put_header(struct tutti_checkpoint_text *text,
                                 const struct tutti_checkpoint_head *head, uint32_t rank,
                                 uint64_t head_hash, const struct tutti_checkpoint_piece *pieces,
                                 size_t piece_count)
{
    size_t whole;
    size_t used;

    assert(text->bytes == 0);
    put_first_line(text, 0);
    tutti_checkpoint_put(text,
                         "step %" PRIu64 "\nincarnation %" PRIu64 "\nrank %" PRIu32 " of %" PRIu32
                         "\nhead %016" PRIx64 "\n",
                         head->id.step, head->id.incarnation, rank, head->rank_count, head_hash);
    for (size_t i = 0; i < piece_count; i++)
        tutti_checkpoint_put_piece(text, head->slots, &pieces[i]);
    if (text->no_memory)
        return;
    used = text->bytes;
    whole = (used + TUTTI_CHECKPOINT_END_BYTES + TUTTI_SHARD_HEADER_ALIGN - 1) /
            TUTTI_SHARD_HEADER_ALIGN * TUTTI_SHARD_HEADER_ALIGN;
    text->bytes = 0;
    put_first_line(text, whole);
    text->text[text->bytes] = 's'; /* the zero after the line stands where "step" begins */
    text->bytes = used;
    tutti_checkpoint_put_end(text);
    if (!grow(text, whole - text->bytes + 1))
        return;
    memset(text->text + text->bytes, '\n', whole - text->bytes);
    text->bytes = whole;
}
