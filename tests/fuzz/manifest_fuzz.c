/* Fuzzes manifests of checkpoints, and headers of shards: what parses is printed and parsed again,
 * and every element of every slot is found in the piece that holds it. */
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/train/checkpoint_manifest.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge.h"

static void put_manifest(struct tutti_checkpoint_text *text, const struct tutti_manifest *m)
{
    tutti_checkpoint_put_head(text, &m->head);
    for (uint32_t rank = 0; rank < m->head.rank_count; rank++) {
        const struct tutti_checkpoint_shard *shard = &m->shards[rank];

        tutti_checkpoint_put_shard(text, rank, shard->header_bytes, shard->header_hash);
        for (size_t i = 0; i < shard->piece_count; i++)
            tutti_checkpoint_put_piece(text, m->head.slots, &m->pieces[shard->first_piece + i]);
    }
    tutti_checkpoint_put_end(text);
    JUDGE(!text->no_memory);
}

static void judge_pieces(const struct tutti_manifest *m)
{
    for (size_t i = 0; i < m->piece_count; i++) {
        const struct tutti_checkpoint_piece *p = &m->sorted[i];

        JUDGE(p->slot < m->head.slot_count && p->rank < m->head.rank_count && p->count > 0);
        JUDGE(p->first + p->count <= m->head.slots[p->slot].elements);
        JUDGE(tutti_manifest_find(m, p->slot, p->rank, p->first) == i);
        JUDGE(tutti_manifest_find(m, p->slot, p->rank, p->first + p->count - 1) == i);
    }
}

/* The header of each shard, printed with these pieces, says the same. */
static void judge_header(const struct tutti_manifest *m, uint32_t rank)
{
    const struct tutti_checkpoint_shard *shard = &m->shards[rank];
    struct tutti_checkpoint_text text = {.text = NULL};
    struct tutti_shard_header *h = NULL;
    struct tutti_err err = {""};

    tutti_checkpoint_put_header(&text, &m->head, rank, 5, m->pieces + shard->first_piece,
                                shard->piece_count);
    JUDGE(!text.no_memory && text.bytes % TUTTI_SHARD_HEADER_ALIGN == 0);
    JUDGE(tutti_shard_header_parse("header", text.text, text.bytes, &m->head, &h, &err) == 0);
    JUDGE(h->header_bytes == text.bytes && h->rank == rank && h->head_hash == 5);
    JUDGE(h->piece_count == shard->piece_count);
    JUDGE(h->bytes - h->header_bytes == shard->bytes - shard->header_bytes);
    tutti_shard_header_free(h);
    free(text.text);
}

static void round_trip(const struct tutti_manifest *m)
{
    struct tutti_checkpoint_text first = {.text = NULL};
    struct tutti_checkpoint_text second = {.text = NULL};
    struct tutti_manifest *back = NULL;
    struct tutti_err err = {""};

    put_manifest(&first, m);
    JUDGE(tutti_manifest_parse("printed", first.text, first.bytes, &back, &err) == 0);
    JUDGE(tutti_checkpoint_same_model(&m->head.model, &back->head.model, &err) == 0);
    put_manifest(&second, back);
    JUDGE(first.bytes == second.bytes && memcmp(first.text, second.text, first.bytes) == 0);
    tutti_manifest_free(back);
    free(first.text);
    free(second.text);
}

/* The text as a header of the first of the slots that any manifest may have. */
static void as_header(const char *text, size_t bytes)
{
    const struct tutti_checkpoint_slot slots[] = {
        {"weights", TUTTI_FLOAT32, TUTTI_OWNER_SHARED, 100},
        {"error", TUTTI_FLOAT64, TUTTI_OWNER_RANK_SUM, TUTTI_CHECKPOINT_ELEMENTS_MAX}};
    const struct tutti_checkpoint_head head = {.slots = slots, .slot_count = 2, .rank_count = 4};
    struct tutti_shard_header *h = NULL;
    struct tutti_err err = {""};
    int status = tutti_shard_header_parse("fuzz", text, bytes, &head, &h, &err);

    if (status < 0)
        judge_refusal(status, &err);
    else
        JUDGE(h->bytes >= h->header_bytes && h->hashed_bytes < bytes);
    tutti_shard_header_free(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tutti_manifest *m = NULL;
    struct tutti_err err = {""};
    int status = tutti_manifest_parse("fuzz", (const char *)data, bytes, &m, &err);

    as_header((const char *)data, bytes);
    if (status < 0) {
        judge_refusal(status, &err);
        JUDGE(strncmp(err.text, "fuzz: ", 6) == 0 || status == -TUTTI_ENOMEM);
        return 0;
    }
    JUDGE(m->hashed_bytes < bytes && m->head.rank_count > 0);
    judge_pieces(m);
    for (uint32_t rank = 0; rank < m->head.rank_count; rank++)
        judge_header(m, rank);
    round_trip(m);
    tutti_manifest_free(m);
    return 0;
}
