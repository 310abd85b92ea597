/* Everybody with everybody at once: the two-shot all-reduce, and reduce-scatter, all-gather,
 * all-to-all and send/recv without detours.
 *
 * Price for n ranks: reduce-scatter, all-gather and all-to-all of M bytes a rank (n blocks) take 1
 * message after which all is known; a rank sends and receives (n-1)/n * M bytes in n-1 messages
 * (reduce-scatter reduces as much). The two-shot all-reduce of M bytes is a reduce-scatter and an
 * all-gather: 2 messages one after another, 2(n-1)/n * M bytes (MSCCL++, vLLM). send/recv: 1
 * message of M bytes. Rank r begins with r+1 and goes on in shifts, so that nobody is everybody's
 * first.
 *
 * Grain: chunk_bytes is the piece of every block done at a time; 0: the whole share. */
#include "runtime/coll/emit.h"
#include "runtime/coll/generators.h"

/* The parts of a program, each of one step or pair of steps for every peer and slice. */
enum part {
    END,
    SCATTER, /* send to each its block of my input */
    REDUCE,  /* receive my block from each and add it up */
    GATHER,  /* send my block to each */
    OWN,     /* copy my own block; one step in all */
    COLLECT, /* receive from each its block */
    PART_COUNT
};

enum { PARTS_MAX = 5 };

struct direct {
    struct coll coll;
    uint8_t program[PARTS_MAX]; /* enum part, ended by END */
    uint32_t peer_count;        /* n - 1; send/recv: 1 */
    uint64_t staging_elements;
};

static uint64_t part_rounds(const struct direct *direct, uint8_t part)
{
    return part == OWN ? 1 : (uint64_t)direct->peer_count * direct->coll.slice_count;
}

static uint64_t piece_rounds(const struct direct *direct)
{
    uint64_t rounds = 0;

    for (uint32_t i = 0; direct->program[i] != END; i++)
        rounds += part_rounds(direct, direct->program[i]);
    return rounds;
}

/* Block of rank `index` in a buffer that holds one block (whole), the parts of one, or n blocks. */
static struct range block_of(const struct direct *direct, enum tutti_buf buf, uint32_t index,
                             struct range piece)
{
    const struct tutti_contract *contract = &direct->coll.schedule.contract;
    bool many =
        contract->collective == TUTTI_ALLTOALL ||
        contract->collective == (buf == TUTTI_BUF_IN ? TUTTI_REDUCESCATTER : TUTTI_ALLGATHER);

    if (contract->collective == TUTTI_ALLREDUCE)
        return part_of(piece, index, direct->coll.schedule.rank_count);
    if (many)
        piece.first += index * contract->count;
    return piece;
}

static struct range slice_of(const struct direct *direct, enum tutti_buf buf, uint32_t index,
                             struct range piece, uint64_t slice)
{
    return part_of(block_of(direct, buf, index, piece), slice, direct->coll.slice_count);
}

static void emit_reduce_from(const struct direct *direct, uint32_t rank, uint32_t lane,
                             uint32_t shift, struct range piece, uint64_t slice,
                             struct tutti_round *out)
{
    const struct coll *coll = &direct->coll;
    struct range from = slice_of(direct, TUTTI_BUF_IN, rank, piece, slice);
    struct range to = slice_of(direct, TUTTI_BUF_OUT, rank, piece, slice);
    struct place sum = at(coll, TUTTI_BUF_OUT, to.first);
    struct place acc = shift == 1 ? at(coll, TUTTI_BUF_IN, from.first) : sum;
    struct place staging = at(coll, TUTTI_BUF_SCRATCH, lane * direct->staging_elements);
    struct tutti_step *step =
        emit_recv_reduce(out, ring_sub(rank, shift, coll->schedule.rank_count), staging, sum, acc,
                         to.count * coll->element_bytes);

    if (shift == direct->peer_count)
        emit_last(step);
}

static void emit_part(const struct direct *direct, uint8_t part, uint32_t rank, uint32_t lane,
                      uint64_t index, struct range piece, struct tutti_round *out)
{
    const struct coll *coll = &direct->coll;
    uint32_t n = coll->schedule.rank_count;
    uint32_t shift = (uint32_t)(index % direct->peer_count) + 1;
    uint64_t slice = index / direct->peer_count;
    uint32_t to = ring_add(rank, shift, n);
    uint32_t from = ring_sub(rank, shift, n);
    bool two_shot = coll->schedule.contract.collective == TUTTI_ALLREDUCE;
    enum tutti_buf buf = TUTTI_BUF_IN;
    struct range range;

    if (part == REDUCE) {
        emit_reduce_from(direct, rank, lane, shift, piece, slice, out);
    } else if (part == OWN) {
        struct range mine = block_of(direct, TUTTI_BUF_IN, rank, piece);
        struct range there = block_of(direct, TUTTI_BUF_OUT, rank, piece);

        emit_copy(out, at(coll, TUTTI_BUF_OUT, there.first), at(coll, TUTTI_BUF_IN, mine.first),
                  mine.count * coll->element_bytes);
    } else if (part == COLLECT) {
        range = slice_of(direct, TUTTI_BUF_OUT, from, piece, slice);
        emit_recv(out, from, at(coll, TUTTI_BUF_OUT, range.first),
                  range.count * coll->element_bytes);
    } else {
        if (part == GATHER && two_shot)
            buf = TUTTI_BUF_OUT;
        range = slice_of(direct, buf, part == GATHER ? rank : to, piece, slice);
        emit_send(out, to, at(coll, buf, range.first), range.count * coll->element_bytes);
    }
}

static uint64_t direct_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                   uint32_t lane)
{
    const struct direct *direct = (const struct direct *)schedule;

    (void)rank;
    (void)lane;
    return direct->coll.piece_count * piece_rounds(direct);
}

static void direct_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                        uint64_t round, struct tutti_round *out)
{
    const struct direct *direct = (const struct direct *)schedule;
    uint64_t rounds = piece_rounds(direct);
    struct range piece = coll_piece(&direct->coll, lane, round / rounds);
    uint64_t rest = round % rounds;
    uint32_t i = 0;

    while (rest >= part_rounds(direct, direct->program[i]))
        rest -= part_rounds(direct, direct->program[i++]);
    assert(direct->program[i] != END);
    emit_part(direct, direct->program[i], rank, lane, rest, piece, out);
}

/* Every slice of a part of the program is an exchange; to copy the own block is none. */
static bool direct_exchange(const struct tutti_schedule *schedule, uint32_t lane, uint64_t part,
                            uint32_t rank, struct tutti_exchange *ret)
{
    const struct direct *direct = (const struct direct *)schedule;
    uint64_t slice_count = direct->coll.slice_count;
    uint8_t parts[PARTS_MAX];
    uint64_t count = 0;
    uint64_t piece;
    uint8_t what;
    bool two_shot = schedule->contract.collective == TUTTI_ALLREDUCE;

    for (uint32_t i = 0; direct->program[i] != END; i++) {
        if (direct->program[i] != OWN)
            parts[count++] = direct->program[i];
    }
    piece = part / (count * slice_count);
    if (piece >= direct->coll.piece_count || direct->peer_count + 1 != schedule->rank_count)
        return false;
    what = parts[part / slice_count % count];
    ret->sends = what == SCATTER || what == GATHER;
    ret->by_sender =
        what == GATHER || (what == COLLECT && parts[0] != SCATTER) || (what == COLLECT && two_shot);
    ret->bytes = direct->coll.element_bytes *
                 slice_of(direct, what == GATHER && !two_shot ? TUTTI_BUF_IN : TUTTI_BUF_OUT, rank,
                          coll_piece(&direct->coll, lane, piece), part % slice_count)
                     .count;
    return true;
}

static const struct tutti_schedule_ops direct_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = direct_round_count,
    .emit = direct_emit,
    .exchange = direct_exchange,
};

static void write_program(struct direct *direct)
{
    static const uint8_t programs[TUTTI_COLLECTIVE_COUNT][PARTS_MAX] = {
        [TUTTI_ALLREDUCE] = {SCATTER, REDUCE, GATHER, COLLECT, END},
        [TUTTI_REDUCESCATTER] = {SCATTER, REDUCE, END},
        [TUTTI_ALLGATHER] = {GATHER, OWN, COLLECT, END},
        [TUTTI_ALLTOALL] = {SCATTER, OWN, COLLECT, END},
        [TUTTI_SENDRECV] = {SCATTER, COLLECT, END},
    };
    enum tutti_collective collective = direct->coll.schedule.contract.collective;

    for (uint32_t i = 0; i < PARTS_MAX; i++)
        direct->program[i] = programs[collective][i];
    direct->peer_count = collective == TUTTI_SENDRECV ? 1 : direct->coll.schedule.rank_count - 1;
}

static int make(const char *name, const struct tutti_coll_params *params,
                const struct tutti_shape *shape, struct tutti_schedule **ret, struct tutti_err *err)
{
    bool two_shot = params->collective == TUTTI_ALLREDUCE;
    bool reduces = two_shot || params->collective == TUTTI_REDUCESCATTER;
    struct coll_layout layout = {.name = name,
                                 .ops = &direct_ops,
                                 .struct_bytes = sizeof(struct direct),
                                 .chunks_per_piece = two_shot ? shape->rank_count : 1};
    struct coll *coll = NULL;
    struct direct *direct;
    int status;

    if (shape->rank_count <= 1)
        return tutti_coll_alone(name, params, shape, ret, err);
    status = tutti_coll_new(&layout, params, shape, &coll, err);
    if (status < 0)
        return status;
    direct = (struct direct *)coll;
    write_program(direct);
    direct->staging_elements = div_up(coll_piece_max(coll), two_shot ? shape->rank_count : 1);
    direct->staging_elements = div_up(direct->staging_elements, coll->slice_count);
    return tutti_coll_finish(coll, reduces ? direct->staging_elements : 0, 0, piece_rounds(direct),
                             ret, err);
}

int tutti_coll_two_shot(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                        struct tutti_schedule **ret, struct tutti_err *err)
{
    return make("two-shot", params, shape, ret, err);
}

int tutti_coll_direct(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                      struct tutti_schedule **ret, struct tutti_err *err)
{
    return make("direct", params, shape, ret, err);
}
