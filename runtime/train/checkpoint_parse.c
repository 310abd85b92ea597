/* Manifests and headers of shards: reading their text, which may be anybody's. */
#include <inttypes.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/train/checkpoint_reader.h"

/* ---- pieces and shards ----------------------------------------------------------------------- */

static int read_slot_name(struct tutti_manifest_reader *r, uint32_t *ret, struct tutti_err *err)
{
    struct tutti_word word = {NULL, 0};
    int status = tutti_line_need(&r->line, "a slot", &word, err);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < r->slot_count; i++) {
        if (tutti_word_is(word, r->slots[i].name)) {
            *ret = i;
            return 0;
        }
    }
    return tutti_fail(err, TUTTI_EINVAL, "there is no slot '%.*s'", TUTTI_WORD_SHOW(word));
}

/* Where the pieces lie follows from their lengths; `*bytes` of the shard are before this one. */
static int read_piece(struct tutti_manifest_reader *r, uint32_t rank, uint64_t *bytes,
                      struct tutti_err *err)
{
    struct tutti_checkpoint_piece p = {.rank = rank, .offset = *bytes};
    uint64_t elements;
    int status = read_slot_name(r, &p.slot, err);

    if (status < 0)
        return status;
    elements = r->slots[p.slot].elements;
    p.owner = r->slots[p.slot].owner == TUTTI_OWNER_SHARED ? 0 : rank;
    status = tutti_line_number(&r->line, "a first element", elements - 1, &p.first, err);
    if (status == 0)
        status =
            tutti_line_number(&r->line, "a number of elements", elements - p.first, &p.count, err);
    if (status == 0 && p.count == 0)
        status = tutti_fail(err, TUTTI_EINVAL, "a piece of no elements (1 or more)");
    if (status == 0)
        status = tutti_manifest_reader_hash(r, &p.hash, err);
    if (status == 0)
        status = tutti_manifest_reader_end_line(r, err);
    if (status == 0)
        *bytes += p.count * tutti_dtype_bytes(r->slots[p.slot].dtype);
    if (status == 0 && *bytes > INT64_MAX)
        status = tutti_fail(err, TUTTI_EINVAL, "a shard of more than 2^63 bytes");
    if (status < 0)
        return status;
    r->pieces = tutti_manifest_reader_append(r, r->pieces, r->piece_count, sizeof(*r->pieces));
    if (r->pieces == NULL)
        return tutti_nomem(err);
    r->pieces[r->piece_count++] = p;
    return 0;
}

static int read_header_bytes(struct tutti_manifest_reader *r, uint64_t *ret, struct tutti_err *err)
{
    int status = tutti_line_expect(&r->line, "header", err);

    if (status == 0)
        status = tutti_line_number(&r->line, "a number of bytes", TUTTI_SHARD_HEADER_BYTES_MAX, ret,
                                   err);
    if (status == 0 && (*ret == 0 || *ret % TUTTI_SHARD_HEADER_ALIGN != 0))
        status = tutti_fail(err, TUTTI_EINVAL, "a header of %" PRIu64 " bytes (a multiple of %d)",
                            *ret, TUTTI_SHARD_HEADER_ALIGN);
    return status;
}

static int read_shard(struct tutti_manifest_reader *r, uint32_t rank,
                      struct tutti_checkpoint_shard *shard, struct tutti_err *err)
{
    uint64_t number = 0;
    int status = tutti_manifest_reader_expect(r, "shard", err);

    if (status == 0)
        status = tutti_line_number(&r->line, "a rank", UINT32_MAX, &number, err);
    if (status == 0 && number != rank)
        status =
            tutti_fail(err, TUTTI_EINVAL, "shard %" PRIu64 " stands where %" PRIu32 " should stand",
                       number, rank);
    if (status == 0)
        status = read_header_bytes(r, &shard->header_bytes, err);
    if (status == 0)
        status = tutti_manifest_reader_hash(r, &shard->header_hash, err);
    if (status == 0)
        status = tutti_manifest_reader_end_line(r, err);
    shard->first_piece = r->piece_count;
    shard->bytes = shard->header_bytes;
    while (status == 0 && tutti_manifest_reader_at(r, "piece"))
        status = read_piece(r, rank, &shard->bytes, err);
    shard->piece_count = r->piece_count - shard->first_piece;
    return status;
}

/* The last line. */
static int read_end(struct tutti_manifest_reader *r, size_t *ret_bytes, uint64_t *ret_hash,
                    struct tutti_err *err)
{
    int status = tutti_manifest_reader_expect(r, "end", err);

    *ret_bytes = r->offset;
    if (status == 0)
        status = tutti_manifest_reader_hash(r, ret_hash, err);
    if (status == 0)
        status = tutti_manifest_reader_end_line(r, err);
    if (status == 0 && r->word.bytes > 0)
        status = tutti_fail(err, TUTTI_EINVAL, "unexpected '%.*s' (the end of the text)",
                            TUTTI_WORD_SHOW(r->word));
    return status;
}

static int read_manifest(struct tutti_manifest_reader *r, struct tutti_manifest *m,
                         struct tutti_err *err)
{
    int status = tutti_manifest_reader_head(r, &m->head, err);
    struct tutti_checkpoint_shard *shards = NULL;

    r->slots = m->head.slots;
    r->slot_count = m->head.slot_count;
    for (uint32_t rank = 0; rank < m->head.rank_count && status == 0; rank++) {
        struct tutti_checkpoint_shard shard = {.bytes = 0};

        shards = tutti_manifest_reader_append(r, shards, rank,
                                              sizeof(*shards)); /* no more than lines are there */
        if (shards == NULL)
            return tutti_nomem(err);
        status = read_shard(r, rank, &shard, err);
        shards[rank] = shard;
    }
    m->arena = r->arena;
    m->shards = shards;
    m->pieces = r->pieces;
    m->piece_count = r->piece_count;
    if (status == 0)
        status = read_end(r, &m->hashed_bytes, &m->hash, err);
    return status;
}

static int open_reader(struct tutti_manifest_reader *r, const char *text, size_t bytes,
                       struct tutti_err *err)
{
    int status;

    *r = (struct tutti_manifest_reader){.text = text};
    status = tutti_lines_open(&r->lines, text, bytes, err);
    if (status < 0)
        return status;
    r->arena = tutti_arena_new();
    if (r->arena == NULL)
        return tutti_nomem(err);
    tutti_manifest_reader_next(r);
    return 0;
}

static int say_where(const struct tutti_manifest_reader *r, int status, const char *name,
                     struct tutti_err *err)
{
    return status == -TUTTI_ENOMEM ? status
                                   : tutti_wrap(err, status, "%s: line %" PRIu64, name,
                                                r->lines.number > 0 ? r->lines.number : 1);
}

int tutti_manifest_parse(const char *name, const char *text, size_t bytes,
                         struct tutti_manifest **ret, struct tutti_err *err)
{
    struct tutti_manifest_reader r;
    struct tutti_manifest *m = NULL;
    int status = open_reader(&r, text, bytes, err);

    if (status == 0) {
        m = tutti_arena_take(r.arena, 1, sizeof(*m));
        status = m == NULL ? tutti_nomem(err) : read_manifest(&r, m, err);
    }
    if (status < 0)
        status = say_where(&r, status, name, err);
    else if ((status = tutti_manifest_sort(m, err)) == -TUTTI_EINVAL)
        status = tutti_wrap(err, status, "%s", name);
    if (status < 0) {
        tutti_arena_free(r.arena);
        return status;
    }
    *ret = m;
    return 0;
}

void tutti_manifest_free(struct tutti_manifest *manifest)
{
    if (manifest != NULL)
        tutti_arena_free(manifest->arena);
}

static int read_header(struct tutti_manifest_reader *r, struct tutti_shard_header *h,
                       struct tutti_err *err)
{
    uint64_t rank = 0;
    uint64_t rank_count = 0;
    int status = tutti_manifest_reader_first(r, "shard", err);

    if (status == 0)
        status = read_header_bytes(r, &h->header_bytes, err);
    if (status == 0)
        status = tutti_manifest_reader_end_line(r, err);
    if (status == 0)
        status = tutti_manifest_reader_id(r, &h->id, err);
    if (status == 0)
        status = tutti_manifest_reader_expect(r, "rank", err);
    if (status == 0)
        status = tutti_line_number(&r->line, "a rank", TUTTI_CHECKPOINT_RANKS_MAX, &rank, err);
    if (status == 0)
        status = tutti_line_expect(&r->line, "of", err);
    if (status == 0)
        status = tutti_line_number(&r->line, "a number of ranks", TUTTI_CHECKPOINT_RANKS_MAX,
                                   &rank_count, err);
    if (status == 0)
        status = tutti_manifest_reader_end_line(r, err);
    if (status == 0)
        status = tutti_manifest_reader_expect(r, "head", err);
    if (status == 0)
        status = tutti_manifest_reader_hash(r, &h->head_hash, err);
    if (status == 0)
        status = tutti_manifest_reader_end_line(r, err);
    h->rank = (uint32_t)rank;
    h->rank_count = (uint32_t)rank_count;
    h->bytes = h->header_bytes;
    while (status == 0 && tutti_manifest_reader_at(r, "piece"))
        status = read_piece(r, h->rank, &h->bytes, err);
    h->pieces = r->pieces;
    h->piece_count = r->piece_count;
    return status < 0 ? status : read_end(r, &h->hashed_bytes, &h->hash, err);
}

int tutti_shard_header_parse(const char *name, const char *text, size_t bytes,
                             const struct tutti_checkpoint_head *head,
                             struct tutti_shard_header **ret, struct tutti_err *err)
{
    struct tutti_manifest_reader r;
    struct tutti_shard_header *h = NULL;
    int status = open_reader(&r, text, bytes, err);

    r.slots = head->slots;
    r.slot_count = head->slot_count;
    if (status == 0) {
        h = tutti_arena_take(r.arena, 1, sizeof(*h));
        status = h == NULL ? tutti_nomem(err) : read_header(&r, h, err);
    }
    if (status < 0) {
        tutti_arena_free(r.arena);
        return say_where(&r, status, name, err);
    }
    h->arena = r.arena;
    *ret = h;
    return 0;
}

void tutti_shard_header_free(struct tutti_shard_header *header)
{
    if (header != NULL)
        tutti_arena_free(header->arena);
}
