/* Sends and receives as NCCL groups them: send/receive and all-to-all; and all-gather as RCCL sends
 * small ones, the same block to all.
 *
 * Price for n ranks: all-to-all sends n-1 messages of one block a rank, whose own block is copied;
 * send/receive one message. A message is cut into parts, one a channel, and these into chunks: as
 * many chunks one after another as the parts of a lane have, at most slot_count of them under way.
 *
 * NCCL 2.28 (enqueue.cc, init.cc): the peers of a rank come in n rounds. Ranks are cut into groups,
 * on one host a single one, on several the largest of up to 8 that fills hosts; in the round of
 * deltas D and d local rank l of group g sends to l + d of g + D and receives from l - d of g - D:
 * D in the order 0, 1, 3, 6, 10, ... modulo a power of two, which visits all; d from 0. A part has
 * the channel of its round, counted with reversed bits, and as many further as parts came before
 * it; a channel works on 8 parts at a time: here lanes, in which parts follow one another. */
#include "runtime/arena.h"
#include "runtime/coll/nccl_chains.h"
#include "runtime/coll/nccl_cut.h"
#include "runtime/coll/nccl_generators.h"

enum {
    GROUP_MAX = 8,
    BATCH = 8, /* parts that a channel works on at a time */
    PART_GRAIN_BYTES = 4096,
    WORKS_MAX = 1 << 26,
};

struct work { /* one part, out and in */
    uint32_t round;
    uint32_t part;
};

struct p2p {
    struct coll coll;
    struct tutti_chains hosts;
    uint32_t group_size;
    uint32_t group_count;
    uint32_t part_count;
    uint64_t part_elements;
    uint64_t chunk_elements;     /* inside a host, */
    uint64_t net_chunk_elements; /* and between hosts */
    uint32_t channel_bits;
    uint32_t *deltas;     /* [group_count]: of groups, in order */
    uint32_t *lane_first; /* [lane + 1] in works */
    struct work *works;
};

/* ---- rounds ---------------------------------------------------------------------------------- */

static uint32_t peer_of(const struct p2p *p2p, uint32_t rank, uint32_t round, bool from)
{
    uint32_t size = p2p->group_size;
    uint32_t group = rank / size;
    uint32_t member = rank % size;
    uint32_t far = p2p->deltas[round / size];
    uint32_t near = round % size;

    if (from)
        return ring_sub(group, far, p2p->group_count) * size + ring_sub(member, near, size);
    return ring_add(group, far, p2p->group_count) * size + ring_add(member, near, size);
}

static bool is_to_all(const struct p2p *p2p)
{
    return p2p->coll.schedule.contract.collective != TUTTI_SENDRECV;
}

/* Whether a rank sends to a peer at all. */
static bool is_meant(const struct p2p *p2p, uint32_t from, uint32_t to)
{
    if (is_to_all(p2p))
        return true;
    return to == ring_add(from, 1, p2p->coll.schedule.rank_count);
}

/* x(x+1)/2 modulo a power of two takes every value once. */
static void lay_deltas(struct p2p *p2p)
{
    uint32_t power = UINT32_C(1) << log2_up(p2p->group_count);
    uint32_t count = 0;

    for (uint64_t x = 0; x < power; x++) {
        uint32_t delta = (uint32_t)(x * (x + 1) / 2 % power);

        if (delta < p2p->group_count)
            p2p->deltas[count++] = delta;
    }
    assert(count == p2p->group_count);
}

static uint32_t channel_of(const struct p2p *p2p, uint32_t round, uint32_t part)
{
    uint32_t base = round;
    uint32_t reversed = 0;

    if (p2p->hosts.host_count > 1)
        base = round / p2p->group_size * (uint32_t)div_up(p2p->group_size, BATCH) +
               round % p2p->group_size / BATCH;
    for (uint32_t i = 0; i < p2p->channel_bits; i++)
        reversed |= (base >> i & 1) << (p2p->channel_bits - 1 - i);
    return (reversed + part) & ((UINT32_C(1) << p2p->channel_bits) - 1);
}

/* ---- a lane ---------------------------------------------------------------------------------- */

/* One way of a part: whom it leads to or comes from, and how it is cut. */
struct way {
    uint32_t peer;
    struct range part;
    uint64_t chunk;       /* elements */
    uint64_t chunk_count; /* 0: there is no such message */
};

static struct way way_of(const struct p2p *p2p, uint32_t rank, const struct work *work, bool from)
{
    struct range all = {.count = p2p->coll.schedule.contract.count};
    struct way way = {.peer = peer_of(p2p, rank, work->round, from)};
    bool near = way.peer / p2p->hosts.length == rank / p2p->hosts.length;

    way.part = nccl_within(all, work->part * p2p->part_elements, p2p->part_elements);
    way.chunk = near ? p2p->chunk_elements : p2p->net_chunk_elements;
    if (from ? is_meant(p2p, way.peer, rank) : is_meant(p2p, rank, way.peer))
        way.chunk_count = div_up(way.part.count, way.chunk);
    return way;
}

/* A part goes out `slot_count` chunks ahead of what comes in: so neither way waits for the other
 * before its connection does. To oneself it is one copy. */
static uint64_t work_rounds(const struct p2p *p2p, uint32_t rank, const struct work *work)
{
    struct way out = way_of(p2p, rank, work, false);
    struct way in = way_of(p2p, rank, work, true);
    uint64_t last = in.chunk_count == 0 ? 0 : in.chunk_count + p2p->coll.schedule.slot_count;

    if (work->round == 0)
        return out.chunk_count > 0 ? 1 : 0;
    return out.chunk_count > last ? out.chunk_count : last;
}

static uint64_t p2p_round_count(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane)
{
    const struct p2p *p2p = (const struct p2p *)schedule;
    uint64_t rounds = 0;

    for (uint32_t i = p2p->lane_first[lane]; i < p2p->lane_first[lane + 1]; i++)
        rounds += work_rounds(p2p, rank, &p2p->works[i]);
    return rounds;
}

/* Elements of a block in a buffer of one or of n. */
static struct place place_of(const struct p2p *p2p, enum tutti_buf buf, uint32_t block,
                             struct range part)
{
    const struct tutti_contract *contract = &p2p->coll.schedule.contract;
    bool blocks = contract->collective == TUTTI_ALLTOALL ||
                  (contract->collective == TUTTI_ALLGATHER && buf == TUTTI_BUF_OUT);

    return at(&p2p->coll, buf, part.first + (blocks ? block * contract->count : 0));
}

static void emit_work(const struct p2p *p2p, uint32_t rank, const struct work *work, uint64_t round,
                      struct tutti_round *out)
{
    uint32_t ahead = p2p->coll.schedule.slot_count;
    struct way to = way_of(p2p, rank, work, false);
    struct way from = way_of(p2p, rank, work, true);

    if (work->round == 0) {
        emit_copy(out, place_of(p2p, TUTTI_BUF_OUT, rank, to.part),
                  place_of(p2p, TUTTI_BUF_IN, rank, to.part),
                  to.part.count * p2p->coll.element_bytes);
        return;
    }
    if (round >= ahead && round - ahead < from.chunk_count) {
        struct range chunk = nccl_within(from.part, (round - ahead) * from.chunk, from.chunk);

        emit_recv(out, from.peer, place_of(p2p, TUTTI_BUF_OUT, from.peer, chunk),
                  chunk.count * p2p->coll.element_bytes);
    }
    if (round < to.chunk_count) {
        struct range chunk = nccl_within(to.part, round * to.chunk, to.chunk);

        emit_send(out, to.peer, place_of(p2p, TUTTI_BUF_IN, to.peer, chunk),
                  chunk.count * p2p->coll.element_bytes);
    }
}

static void p2p_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                     uint64_t round, struct tutti_round *out)
{
    const struct p2p *p2p = (const struct p2p *)schedule;
    const struct work *work = &p2p->works[p2p->lane_first[lane]];
    uint64_t rounds;

    while (round >= (rounds = work_rounds(p2p, rank, work))) {
        round -= rounds;
        work++;
        assert(work < &p2p->works[p2p->lane_first[lane + 1]]);
    }
    emit_work(p2p, rank, work, round, out);
}

/* Where both ways are under way and chunks are whole. */
static uint64_t p2p_steady(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                           uint64_t round, uint64_t *ret_period)
{
    const struct p2p *p2p = (const struct p2p *)schedule;
    const struct work *work = &p2p->works[p2p->lane_first[lane]];
    struct way to;
    struct way from;
    uint64_t rounds;
    uint64_t end;

    while (round >= (rounds = work_rounds(p2p, rank, work))) {
        round -= rounds;
        work++;
    }
    to = way_of(p2p, rank, work, false);
    from = way_of(p2p, rank, work, true);
    end = to.part.count / to.chunk;
    if (from.part.count / from.chunk + schedule->slot_count < end)
        end = from.part.count / from.chunk + schedule->slot_count;
    if (work->round == 0 || to.chunk_count == 0 || from.chunk_count == 0 ||
        round < schedule->slot_count || round >= end)
        return 0;
    *ret_period = 1;
    return end - round;
}

static const struct tutti_schedule_ops p2p_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = p2p_round_count,
    .emit = p2p_emit,
    .steady = p2p_steady,
};

/* ---- laying it out --------------------------------------------------------------------------- */

static uint32_t greatest_common_divisor(uint32_t a, uint32_t b)
{
    while (b > 0) {
        uint32_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* Parts of a message: as many as there are channels for every peer at once, if each then has the
 * least size, and more while parts are too large. */
static void cut_parts(struct p2p *p2p, const struct tutti_nccl_params *params)
{
    uint64_t bytes = p2p->coll.schedule.contract.count * p2p->coll.element_bytes;
    uint64_t least = params->part_bytes_min == 0 ? 1 : params->part_bytes_min;
    uint64_t grain = p2p->coll.element_bytes;
    uint32_t most = params->peer_channel_count == 0 ? 1 : params->peer_channel_count;
    uint64_t parts;
    uint64_t size;

    most = most < p2p->coll.share_count ? most : p2p->coll.share_count;
    parts = most;
    while (parts > 1 && parts * p2p->coll.schedule.rank_count > p2p->coll.share_count)
        parts /= 2;
    parts = div_up(bytes, least) < parts ? div_up(bytes, least) : parts;
    parts = parts == 0 ? 1 : parts;
    while (params->part_bytes_max > 0 && div_up(bytes, parts) > params->part_bytes_max &&
           parts <= most / 2)
        parts *= 2;
    size = div_up(div_up(bytes, parts), PART_GRAIN_BYTES) * PART_GRAIN_BYTES;
    p2p->part_count = (uint32_t)parts;
    p2p->part_elements = size / grain;
}

/* Whether any rank has a message in a round. */
static bool is_used(const struct p2p *p2p, uint32_t round)
{
    uint32_t n = p2p->coll.schedule.rank_count;

    if (is_to_all(p2p))
        return true;
    for (uint32_t rank = 0; rank < n; rank++) {
        if (is_meant(p2p, rank, peer_of(p2p, rank, round, false)))
            return true;
    }
    return false;
}

/* Calls `put` for every work with its lane, in order. */
static void visit_works(struct p2p *p2p, uint32_t *channel_works,
                        void (*put)(struct p2p *p2p, uint32_t lane, struct work work))
{
    uint32_t n = p2p->coll.schedule.rank_count;

    for (uint32_t c = 0; c < p2p->coll.share_count; c++)
        channel_works[c] = 0;
    for (uint32_t round = 0; round < n; round++) {
        for (uint32_t part = 0; part < p2p->part_count && (part > 0 || is_used(p2p, round));
             part++) {
            uint32_t channel = channel_of(p2p, round, part);

            put(p2p, channel * BATCH + channel_works[channel]++ % BATCH,
                (struct work){.round = round, .part = part});
        }
    }
}

static void count_work(struct p2p *p2p, uint32_t lane, struct work work)
{
    (void)work;
    p2p->lane_first[lane + 1]++;
}

/* lane_first[lane + 1] is where the next one of a lane belongs, until all are there. */
static void store_work(struct p2p *p2p, uint32_t lane, struct work work)
{
    p2p->works[p2p->lane_first[lane + 1]++] = work;
}

static int lay_works(struct p2p *p2p, struct tutti_err *err)
{
    struct tutti_schedule *schedule = &p2p->coll.schedule;
    uint32_t *channel_works =
        tutti_arena_take(schedule->arena, p2p->coll.share_count, sizeof(*channel_works));
    uint32_t lanes = schedule->lane_count;
    uint32_t sum = 0;

    p2p->deltas = tutti_arena_take(schedule->arena, p2p->group_count, sizeof(*p2p->deltas));
    p2p->lane_first = tutti_arena_take(schedule->arena, lanes + (size_t)1, sizeof(uint32_t));
    if (channel_works == NULL || p2p->deltas == NULL || p2p->lane_first == NULL)
        return tutti_nomem(err);
    lay_deltas(p2p);
    visit_works(p2p, channel_works, count_work);
    for (uint32_t lane = 1; lane <= lanes; lane++) {
        uint32_t count = p2p->lane_first[lane];

        p2p->lane_first[lane] = sum;
        sum += count;
    }
    p2p->works = tutti_arena_take(schedule->arena, sum, sizeof(*p2p->works));
    if (p2p->works == NULL)
        return tutti_nomem(err);
    visit_works(p2p, channel_works, store_work);
    return 0;
}

static int lay_out(struct p2p *p2p, const struct tutti_nccl_params *params,
                   const struct tutti_chains *chains, struct tutti_err *err)
{
    uint32_t channels = p2p->coll.share_count;
    uint32_t size = chains->host_count == 1 ? chains->length
                                            : greatest_common_divisor(chains->length, GROUP_MAX);
    uint64_t chunk = params->coll.chunk_bytes / p2p->coll.element_bytes;
    uint64_t net_chunk = params->net_chunk_bytes / p2p->coll.element_bytes;

    if ((channels & (channels - 1)) != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%u' channels to send and receive on (a power of two)", channels);
    if (chunk == 0)
        return tutti_fail(err, TUTTI_EINVAL, "a chunk of '%llu' bytes holds no element (%llu)",
                          (unsigned long long)params->coll.chunk_bytes,
                          (unsigned long long)p2p->coll.element_bytes);
    p2p->hosts = *chains;
    p2p->hosts.members = NULL; /* order inside a host does not matter */
    p2p->group_size = size;
    p2p->group_count = p2p->coll.schedule.rank_count / size;
    p2p->channel_bits = log2_up(channels);
    p2p->chunk_elements = chunk;
    p2p->net_chunk_elements = net_chunk == 0 ? chunk : net_chunk;
    cut_parts(p2p, params);
    if ((uint64_t)p2p->part_count * p2p->coll.schedule.rank_count > WORKS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' ranks are too many to send to in %u parts",
                          p2p->coll.schedule.rank_count, p2p->part_count);
    return lay_works(p2p, err);
}

int tutti_nccl_p2p(const struct tutti_nccl_params *params, const struct tutti_chains *chains,
                   const struct tutti_shape *shape, struct tutti_schedule **ret,
                   struct tutti_err *err)
{
    struct coll_layout layout = {.name = "nccl:p2p",
                                 .ops = &p2p_ops,
                                 .struct_bytes = sizeof(struct p2p),
                                 .lanes_per_share = BATCH,
                                 .whole = true};
    enum tutti_collective collective = params->coll.collective;
    struct coll *coll = NULL;
    int status;

    if (collective != TUTTI_ALLTOALL && collective != TUTTI_SENDRECV &&
        collective != TUTTI_ALLGATHER)
        return tutti_fail(err, TUTTI_EINVAL,
                          "NCCL does not send and receive for '%s' (alltoall, sendrecv, allgather)",
                          tutti_collective_name(collective));
    status = tutti_coll_new(&layout, &params->coll, shape, &coll, err);
    if (status < 0)
        return status;
    status = lay_out((struct p2p *)coll, params, chains, err);
    if (status < 0) {
        tutti_schedule_free(&coll->schedule);
        return status;
    }
    return tutti_coll_finish(coll, 0, 0, 1, ret, err);
}

uint32_t tutti_nccl_p2p_channels(const struct tutti_schedule *schedule)
{
    const struct p2p *p2p = (const struct p2p *)schedule;
    uint32_t count = 0;

    if (schedule->rank_count == 1) /* which is laid out without channels */
        return 0;
    assert(schedule->ops == &p2p_ops);
    for (uint32_t c = 0; c < p2p->coll.share_count; c++) /* the first part is in the first lane */
        count += p2p->lane_first[c * BATCH] < p2p->lane_first[c * BATCH + 1];
    return count;
}
