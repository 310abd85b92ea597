/* PAT, NCCL's parallel aggregated trees: all-gather and reduce-scatter for one rank a host.
 *
 * Block r + s reaches rank r from rank r + 2^b, with 2^b the lowest bit of s, which had it as the
 * one of r + 2^b and s - 2^b: every block goes along a binomial tree, far first, near last.
 * Reduce-scatter goes the other way, adding. Up to A blocks for the same distance share a message:
 * offsets s that are the same but for the highest log2 A bits; A grows from 1 to n/2 while two
 * messages of A blocks fit into a step (NCCL 2.28 collectives.h, PatAGAlgorithm, PatRSAlgorithm).
 *
 * Price for n ranks, k = log2 n rounded up, and blocks of B bytes: a rank sends (n-1) B bytes;
 * n = 2^k and A = 2^j: in j + 2^(k-j) - 1 messages a chunk, and other n have no more: n-1 without
 * aggregation, k with the most; k messages one after another. Reduce-scatter reduces (n-1) B.
 *
 * Messages of several blocks are packed by copies: in NCCL they are written into the FIFO one by
 * one. Ranks send and receive in step; nobody is more than the slots of a connection ahead. */
#include "runtime/arena.h"
#include "runtime/coll/nccl_cut.h"
#include "runtime/coll/nccl_generators.h"

enum { STEP_BYTES = 524288, PACK = TUTTI_ROUND_STEPS_MAX };

struct phase { /* one message out and one in */
    uint32_t bit;
    uint32_t first; /* in offsets */
    uint32_t count;
    uint64_t first_round; /* of a chunk */
};

struct pat {
    struct coll coll;
    struct nccl_cut cut;
    uint32_t aggregate; /* A */
    uint32_t phase_count;
    struct phase *phases;
    uint32_t *offsets;      /* [n - 1]: s, by phase */
    uint64_t round_count;   /* of a chunk */
    uint64_t lane_elements; /* scratch of a lane: packed, staging area, and partial sums */
    uint64_t chunk_elements;
    uint64_t staging_first;
    uint64_t sums_first;
};

struct context {
    const struct pat *pat;
    uint32_t rank;
    uint32_t lane;
    uint64_t chunk; /* number */
    struct range part;
};

static bool scatters(const struct pat *pat)
{
    return pat->coll.schedule.contract.collective == TUTTI_REDUCESCATTER;
}

/* The block that a rank has as offset s, in `in` or `out` of n blocks. */
static struct place block_at(const struct context *context, enum tutti_buf buf, uint32_t offset)
{
    const struct coll *coll = &context->pat->coll;
    uint32_t block = ring_add(context->rank, offset, coll->schedule.rank_count);

    return at(coll, buf, context->part.first + block * coll->schedule.contract.count);
}

static struct place scratch_at(const struct context *context, uint64_t element)
{
    return at(&context->pat->coll, TUTTI_BUF_SCRATCH,
              context->lane * context->pat->lane_elements + element);
}

static uint64_t part_bytes(const struct context *context)
{
    return context->part.count * context->pat->coll.element_bytes;
}

/* Whether anybody adds to what a rank has as offset s. */
static bool is_sum(const struct pat *pat, uint32_t offset)
{
    return offset % 2 == 0 && offset + 1 < pat->coll.schedule.rank_count;
}

/* What a rank has as offset s: of a reduce-scatter its own part, or the sum so far. */
static struct place holding(const struct context *context, uint32_t offset)
{
    if (!scatters(context->pat))
        return offset == 0 ? at(&context->pat->coll, TUTTI_BUF_IN, context->part.first)
                           : block_at(context, TUTTI_BUF_OUT, offset);
    if (!is_sum(context->pat, offset))
        return block_at(context, TUTTI_BUF_IN, offset);
    if (offset == 0)
        return at(&context->pat->coll, TUTTI_BUF_OUT, context->part.first);
    return scratch_at(context, context->pat->sums_first +
                                   offset / UINT64_C(2) * context->pat->chunk_elements);
}

/* Which offset of a rank a message carries for the receiver's offset s, and the other way. */
static uint32_t sent_offset(const struct pat *pat, const struct phase *phase, uint32_t i)
{
    uint32_t offset = pat->offsets[phase->first + i];

    return scatters(pat) ? offset : offset - (UINT32_C(1) << phase->bit);
}

static uint32_t taken_offset(const struct pat *pat, const struct phase *phase, uint32_t i)
{
    uint32_t offset = pat->offsets[phase->first + i];

    return scatters(pat) ? offset - (UINT32_C(1) << phase->bit) : offset;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static uint32_t peer_of(const struct pat *pat, uint32_t rank, uint32_t bit, bool up)
{
    uint32_t n = pat->coll.schedule.rank_count;
    uint32_t far = UINT32_C(1) << bit;

    return up ? ring_add(rank, far, n) : ring_sub(rank, far, n);
}

/* A sum of the chunk before is on its way until its SEND is complete: index of that in the lane.
 * Without packing a phase of a reduce-scatter is three steps. */
static uint64_t send_index(const struct context *context, uint32_t offset)
{
    const struct pat *pat = context->pat;
    uint64_t steps = 3 * (uint64_t)pat->phase_count;
    uint32_t p = 0;

    while (pat->offsets[pat->phases[p].first] != offset)
        p++;
    return (context->chunk - 1) * steps + 3 * (uint64_t)p;
}

/* Adds what came in to what the rank has as offset s; the first to be added comes from nearest. */
static void emit_sum(const struct context *context, const struct phase *phase, uint32_t offset,
                     struct place staging, struct tutti_round *out)
{
    struct place sum = holding(context, offset);
    struct place acc = phase->bit == 0 ? block_at(context, TUTTI_BUF_IN, offset) : sum;
    struct tutti_step *step = emit_reduce(out, sum, acc, staging, part_bytes(context));

    if (offset == 0 && phase == &context->pat->phases[context->pat->phase_count - 1])
        emit_last(step);
    if (context->pat->aggregate == 1 && offset > 0 && phase->bit == 0 && context->chunk > 0)
        emit_dep(step, context->lane, send_index(context, offset));
}

static void emit_single(const struct context *context, const struct phase *phase,
                        struct tutti_round *out)
{
    const struct pat *pat = context->pat;
    uint32_t to = peer_of(pat, context->rank, phase->bit, scatters(pat));
    uint32_t from = peer_of(pat, context->rank, phase->bit, !scatters(pat));
    uint32_t taken = taken_offset(pat, phase, 0);

    emit_send(out, to, holding(context, sent_offset(pat, phase, 0)), part_bytes(context));
    if (!scatters(pat)) {
        emit_recv(out, from, block_at(context, TUTTI_BUF_OUT, taken), part_bytes(context));
        return;
    }
    emit_recv(out, from, scratch_at(context, pat->staging_first), part_bytes(context))->flags =
        TUTTI_STEP_FUSE;
    emit_sum(context, phase, taken, scratch_at(context, pat->staging_first), out);
}

/* Where block i of a phase is packed: every phase of every chunk has its own place. */
static struct place packed_at(const struct context *context, const struct phase *phase, uint32_t i)
{
    struct range share = nccl_share(&context->pat->cut, context->lane);
    uint64_t others = context->pat->coll.schedule.rank_count - UINT64_C(1);

    return scratch_at(context, (context->part.first - share.first) * others +
                                   (phase->first + i) * context->part.count);
}

/* Round `round` of a phase whose blocks are packed, up to 16 in a round: pack; send and receive;
 * unpack. */
static void emit_packed(const struct context *context, const struct phase *phase, uint64_t round,
                        struct tutti_round *out)
{
    const struct pat *pat = context->pat;
    uint64_t packs = div_up(phase->count, PACK);
    uint64_t i = (round < packs ? round : round - packs - 1) * PACK;
    uint64_t end = i + PACK < phase->count ? i + PACK : phase->count;

    if (round == packs) {
        emit_send(out, peer_of(pat, context->rank, phase->bit, scatters(pat)),
                  packed_at(context, phase, 0), phase->count * part_bytes(context));
        emit_recv(out, peer_of(pat, context->rank, phase->bit, !scatters(pat)),
                  scratch_at(context, pat->staging_first), phase->count * part_bytes(context));
        return;
    }
    for (; i < end; i++) {
        struct place staging = scratch_at(context, pat->staging_first + i * context->part.count);
        uint32_t taken = taken_offset(pat, phase, (uint32_t)i);

        if (round < packs)
            emit_copy(out, packed_at(context, phase, (uint32_t)i),
                      holding(context, sent_offset(pat, phase, (uint32_t)i)), part_bytes(context));
        else if (scatters(pat))
            emit_sum(context, phase, taken, staging, out);
        else
            emit_copy(out, block_at(context, TUTTI_BUF_OUT, taken), staging, part_bytes(context));
    }
}

static uint64_t pat_round_count(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane)
{
    const struct pat *pat = (const struct pat *)schedule;

    (void)rank;
    return nccl_chunk_count(&pat->cut, lane) * pat->round_count;
}

/* A chunk of an all-gather begins with the copy of the rank's own. */
static void pat_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                     uint64_t round, struct tutti_round *out)
{
    const struct pat *pat = (const struct pat *)schedule;
    struct context context = {
        .pat = pat, .rank = rank, .lane = lane, .chunk = round / pat->round_count};
    const struct phase *phase = pat->phases;

    context.part =
        nccl_piece(nccl_share(&pat->cut, lane), context.chunk, nccl_chunk(&pat->cut, lane));
    round %= pat->round_count;
    if (!scatters(pat) && round == 0) {
        emit_copy(out, block_at(&context, TUTTI_BUF_OUT, 0),
                  at(&pat->coll, TUTTI_BUF_IN, context.part.first), part_bytes(&context));
        return;
    }
    if (pat->aggregate == 1) {
        emit_single(&context, &phase[round - phase->first_round], out);
        return;
    }
    while (phase + 1 < pat->phases + pat->phase_count && phase[1].first_round <= round)
        phase++;
    emit_packed(&context, phase, round - phase->first_round, out);
}

/* All ranks do the same. */
static uint32_t pat_partners(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                             struct tutti_partners *out, uint32_t capacity)
{
    const struct pat *pat = (const struct pat *)schedule;
    uint32_t bits = log2_up(schedule->rank_count);

    (void)lane;
    for (uint32_t bit = 0; bit < bits && bit < capacity; bit++)
        out[bit] = (struct tutti_partners){.to = peer_of(pat, rank, bit, scatters(pat)),
                                           .from = peer_of(pat, rank, bit, !scatters(pat))};
    return bits;
}

static const struct tutti_schedule_ops pat_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = pat_round_count,
    .emit = pat_emit,
    .partners = pat_partners,
};

/* ---- laying it out --------------------------------------------------------------------------- */

/* Adds the phase of the offsets first, first + stride, ... below n, if there are any. */
static void add_phase(struct pat *pat, uint32_t bit, uint64_t first, uint64_t stride)
{
    uint32_t n = pat->coll.schedule.rank_count;
    struct phase *last = &pat->phases[pat->phase_count];
    uint32_t begin = pat->phase_count == 0 ? 0 : last[-1].first + last[-1].count;

    if (first >= n)
        return;
    *last = (struct phase){.bit = bit, .first = begin};
    for (uint64_t s = first; s < n; s += stride)
        pat->offsets[begin + last->count++] = (uint32_t)s;
    pat->phase_count++;
}

/* Far distances first: the blocks that share messages, then the others, a bit at a time; each group
 * of offsets comes from one that is there, 2^bit less, in the order in which those came. */
static void lay_phases(struct pat *pat, uint32_t bits, uint32_t aggregate_bits)
{
    uint32_t low_bits = bits - aggregate_bits;
    uint64_t stride = UINT64_C(1) << low_bits;

    for (uint32_t bit = bits; bit-- > low_bits;)
        add_phase(pat, bit, UINT64_C(1) << bit, UINT64_C(2) << bit);
    for (uint32_t bit = low_bits; bit-- > 0;) {
        for (uint64_t i = 0; i < stride >> (bit + 1); i++) {
            uint64_t group = 0; /* number i of the multiples of 2^(bit + 1), bits reversed */

            for (uint32_t k = bit + 1; k < low_bits; k++)
                group |= (i >> (low_bits - 1 - k) & 1) << k;
            add_phase(pat, bit, group + (UINT64_C(1) << bit), stride);
        }
    }
}

static void reverse_phases(struct pat *pat)
{
    for (uint32_t i = 0; i < pat->phase_count / 2; i++) {
        struct phase phase = pat->phases[i];

        pat->phases[i] = pat->phases[pat->phase_count - 1 - i];
        pat->phases[pat->phase_count - 1 - i] = phase;
    }
}

static void count_rounds(struct pat *pat)
{
    pat->round_count = scatters(pat) ? 0 : 1;
    for (uint32_t p = 0; p < pat->phase_count; p++) {
        pat->phases[p].first_round = pat->round_count;
        pat->round_count +=
            pat->aggregate == 1 ? 1 : 2 * div_up(pat->phases[p].count, PACK) + UINT64_C(1);
    }
}

static int lay_out(struct pat *pat, const struct tutti_nccl_params *params, struct tutti_err *err)
{
    struct coll *coll = &pat->coll;
    uint32_t n = coll->schedule.rank_count;
    uint32_t bits = log2_up(n);
    uint32_t aggregate_bits = 0;
    uint64_t share = nccl_share_max(&pat->cut);
    uint64_t step = params->step_bytes == 0 ? STEP_BYTES : params->step_bytes;
    uint64_t blocks = 1;

    while (share > 0 && step / (share * coll->element_bytes * blocks) >= 2 && blocks < n / 2) {
        blocks *= 2;
        aggregate_bits++;
    }
    pat->aggregate = (uint32_t)blocks;
    pat->phases = tutti_arena_take(coll->schedule.arena, n, sizeof(*pat->phases));
    pat->offsets = tutti_arena_take(coll->schedule.arena, n, sizeof(*pat->offsets));
    if (pat->phases == NULL || pat->offsets == NULL)
        return tutti_nomem(err);
    lay_phases(pat, bits, aggregate_bits);
    if (scatters(pat))
        reverse_phases(pat);
    count_rounds(pat);
    coll->piece_count = nccl_chunk_count_max(&pat->cut);
    pat->chunk_elements = share < pat->cut.chunk ? share : pat->cut.chunk;
    pat->staging_first = blocks > 1 ? share * (n - UINT64_C(1)) : 0;
    pat->sums_first =
        pat->staging_first + (blocks > 1 || scatters(pat) ? blocks * pat->chunk_elements : 0);
    pat->lane_elements = pat->sums_first + (scatters(pat) ? div_up(n, 2) * pat->chunk_elements : 0);
    if (coll->piece_count * 3 * pat->phase_count > UINT32_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "'%llu' chunks are too many for %u ranks",
                          (unsigned long long)coll->piece_count, n);
    return 0;
}

int tutti_nccl_pat(const struct tutti_nccl_params *params, const struct tutti_chains *chains,
                   const struct tutti_shape *shape, struct tutti_schedule **ret,
                   struct tutti_err *err)
{
    struct coll_layout layout = {
        .name = "nccl:pat", .ops = &pat_ops, .struct_bytes = sizeof(struct pat), .whole = true};
    enum tutti_collective collective = params->coll.collective;
    struct coll *coll = NULL;
    struct pat *pat;
    int status;

    if (collective != TUTTI_ALLGATHER && collective != TUTTI_REDUCESCATTER)
        return tutti_fail(err, TUTTI_EINVAL,
                          "NCCL's PAT does not serve '%s' (allgather, reducescatter)",
                          tutti_collective_name(collective));
    if (chains->length != 1)
        return tutti_fail(err, TUTTI_EINVAL, "NCCL's PAT does not serve hosts of '%u' ranks (1)",
                          chains->length);
    status = tutti_coll_new(&layout, &params->coll, shape, &coll, err);
    if (status < 0)
        return status;
    pat = (struct pat *)coll;
    status = tutti_nccl_cut_init(&pat->cut, params, err);
    if (status == 0)
        status = lay_out(pat, params, err);
    if (status < 0) {
        tutti_schedule_free(&coll->schedule);
        return status;
    }
    return tutti_coll_finish(coll, pat->lane_elements, 0, pat->round_count, ret, err);
}
