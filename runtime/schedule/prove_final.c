/* The end of a proof: what the contract promises is there, and nothing was done in vain. */
#include <assert.h>
#include <inttypes.h>

#include "runtime/schedule/prove.h"
#include "runtime/status.h"

/* What bytes [offset, end) of a rank's out must be. */
struct promise {
    uint32_t rank;
    uint64_t offset;
    uint64_t end;
    uint64_t source; /* of the first byte */
    const struct tutti_rank_set *set;
    bool last;
};

static int hole(const struct promise *p, uint64_t offset, uint64_t end, struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_ECHECK,
                      "rank %u: out bytes %" PRIu64 "..%" PRIu64 " are not written by any step",
                      p->rank, offset, end - 1);
}

static int held(const struct promise *p, const struct tutti_segment *s, uint64_t offset,
                uint64_t end, struct tutti_err *err)
{
    uint64_t source = s->piece.source + (offset - s->piece.offset);
    uint64_t wanted = p->source + (offset - p->offset);
    const char *problem = NULL;
    uint32_t rank = 0;

    if (tutti_rank_set_beyond(p->set, s->piece.set, &rank))
        problem = "lack the contribution of";
    else if (tutti_rank_set_beyond(s->piece.set, p->set, &rank))
        problem = "hold a contribution that does not belong there, of";
    if (problem != NULL)
        return tutti_fail(err, TUTTI_ECHECK,
                          "rank %u: out bytes %" PRIu64 "..%" PRIu64
                          " %s rank %u; last written by lane %u, step %" PRIu64,
                          p->rank, offset, end - 1, problem, rank, s->lane, s->step);
    if (source != wanted)
        return tutti_fail(err, TUTTI_ECHECK,
                          "rank %u: out bytes %" PRIu64 "..%" PRIu64
                          " hold input from byte %" PRIu64 " on, not from %" PRIu64
                          " on; last written by lane %u, step %" PRIu64,
                          p->rank, offset, end - 1, source, wanted, s->lane, s->step);
    if (s->piece.last != p->last)
        return tutti_fail(err, TUTTI_ECHECK,
                          "rank %u: out bytes %" PRIu64 "..%" PRIu64
                          " are %s; last written by lane %u, step %" PRIu64,
                          p->rank, offset, end - 1,
                          p->last ? "complete, but no step flagged LAST has finished them"
                                  : "finished by LAST, though nothing is reduced here",
                          s->lane, s->step);
    return 0;
}

static int keep(const struct tutti_proof *proof, const struct promise *p, struct tutti_err *err)
{
    const struct tutti_value_map *map = &proof->out[p->rank];
    uint64_t at = p->offset;
    int status = 0;

    for (size_t i = tutti_value_find(map, at); at < p->end && status == 0; i++) {
        const struct tutti_segment *s = i == map->count ? NULL : &map->items[i];
        uint64_t end;

        if (s == NULL || s->piece.offset > at)
            return hole(p, at, s == NULL || s->piece.offset > p->end ? p->end : s->piece.offset,
                        err);
        end = s->piece.end < p->end ? s->piece.end : p->end;
        status = held(p, s, at, end, err);
        at = end;
    }
    return status;
}

/* The whole of out, or the block of `out` that rank `from` gives. */
static struct promise promise_of(const struct tutti_proof *proof, uint32_t rank, uint32_t from,
                                 uint64_t block_bytes)
{
    const struct tutti_contract *c = &proof->schedule->contract;
    struct promise p = {rank, from * block_bytes, (from + (uint64_t)1) * block_bytes, 0, NULL,
                        false};

    switch (c->collective) {
    case TUTTI_ALLREDUCE:
    case TUTTI_REDUCE_TO_ROOT:
        return (struct promise){rank, 0, block_bytes, 0, proof->all, true};
    case TUTTI_REDUCESCATTER:
        return (struct promise){rank, 0, block_bytes, rank * block_bytes, proof->all, true};
    case TUTTI_BROADCAST:
        return (struct promise){rank, 0, block_bytes, 0, proof->single[c->root], false};
    case TUTTI_SENDRECV:
        from = (rank + proof->schedule->rank_count - 1) % proof->schedule->rank_count;
        return (struct promise){rank, 0, block_bytes, 0, proof->single[from], false};
    case TUTTI_ALLTOALL:
        p.source = rank * block_bytes;
        break;
    default: /* TUTTI_ALLGATHER: the input from its start */
        break;
    }
    p.set = proof->single[from];
    return p;
}

static int keep_all(const struct tutti_proof *proof, uint32_t rank, struct tutti_err *err)
{
    const struct tutti_schedule *s = proof->schedule;
    const struct tutti_contract *c = &s->contract;
    bool blocks = c->collective == TUTTI_ALLGATHER || c->collective == TUTTI_ALLTOALL;
    uint32_t promise_count = blocks ? s->rank_count : 1;
    int status = 0;

    if (c->collective == TUTTI_CUSTOM)
        return 0;
    if (c->collective == TUTTI_REDUCE_TO_ROOT && rank != c->root)
        return 0;
    for (uint32_t from = 0; from < promise_count && status == 0; from++) {
        struct promise p = promise_of(proof, rank, from, s->out_bytes / promise_count);
        uint64_t in = 0;
        uint64_t out = 0;

        if (proof->in_place)
            (void)tutti_in_place(s, rank, &in, &out);
        p.offset += out;
        p.end += out;
        status = keep(proof, &p, err);
    }
    return status;
}

/* Scratch that was written for nobody. */
static int unused(const struct tutti_proof *proof, uint32_t rank, struct tutti_err *err)
{
    const struct tutti_segment *s =
        tutti_value_unread(&proof->scratch[rank], 0, proof->schedule->scratch_bytes);

    if (s == NULL)
        return 0;
    return tutti_fail(err, TUTTI_ECHECK,
                      "rank %u: scratch bytes %" PRIu64 "..%" PRIu64
                      ", written by lane %u, step %" PRIu64 ", are never read",
                      rank, s->piece.offset, s->piece.end - 1, s->lane, s->step);
}

int tutti_proof_final(const struct tutti_proof *proof, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t rank = 0; rank < proof->schedule->rank_count && status == 0; rank++) {
        status = keep_all(proof, rank, err);
        if (status == 0)
            status = unused(proof, rank, err);
    }
    return status;
}
