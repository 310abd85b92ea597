/* The longest way of a chunk around its ring; see ring_chunks.h.
 *
 * Chunk c begins at seat c and is passed on T times, over the links c, c+1, ...; on link i it takes
 * b_ic, of which the connection is busy for a_ic. If nothing else holds it up, it ends after the
 * sum of T such hops, and no play ends before the latest of these ends.
 *
 * Nor after it, if all ranks begin together, every a is at most every b, and B slots of a
 * connection times the least b are at least the largest b. For in the terms of ring_times.h what
 * holds a chunk up makes paths, which go on with another chunk after a stay behind a busy
 * connection (one round, at most a) or a step back (B rounds with the hop that is done again). Let
 * such a path have hops from seat m to seat e with these chunks, s stays and k steps back, and let
 * c be the longest of its chunks. Chunk c by itself goes over all the links from m to e, too, each
 * of which takes it at least as long; and besides over s + k B others, of which each stay is
 * outweighed by one and each repeated hop by B in a row. (If the path has more steps back than
 * hops, its hops are outweighed likewise.)
 *
 * Price: the ranks of each lane, times the lengths of chunks that differ. */
#include "sim/fold/ring_chunks.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/fold/fold.h"
#include "sim/fold/hops.h"
#include "sim/fold/rings.h"
#include "sim/net/net.h"
#include "sim/play/start.h"
#include "sim/sim.h"
#include "topo/topo.h"

enum { LENGTHS_MAX = 8, LANES_FEW = 64 };

struct chunks {
    const struct tutti_sim_opts *opts;
    const struct tutti_schedule *schedule;
    struct tutti_hops hops;
    struct tutti_hops *known;       /* or NULL */
    uint32_t families[LANES_FEW];   /* [lane] */
    uint64_t lengths[LENGTHS_MAX];  /* of chunks */
    tutti_ps *hop_ps[LENGTHS_MAX];  /* [kind] */
    tutti_ps *busy_ps[LENGTHS_MAX]; /* [kind] */
    uint32_t length_count;
    uint8_t *length; /* [seat]: of the chunk that begins there, of one lane */
    uint64_t reduce_count;
    uint64_t round_count;
    tutti_ps busy_max_ps;
    tutti_ps hop_min_ps;
    tutti_ps hop_max_ps;
    tutti_ps way_max_ps; /* the longest of all chunks */
};

static bool chunk_of(const struct chunks *chunks, uint32_t lane, uint32_t rank,
                     struct tutti_ring_phase *ret)
{
    return chunks->schedule->ops->ring_chunk(chunks->schedule, lane, rank, ret);
}

static int check_lanes(struct chunks *chunks, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = chunks->schedule;
    int status = 0;

    if (schedule->ops->ring_chunk == NULL || schedule->lane_count > LANES_FEW)
        return tutti_fail(err, TUTTI_ELACK, "'%s' is no ring, or many", schedule->name);
    for (uint32_t lane = 0; lane < schedule->lane_count && status == 0; lane++) {
        struct tutti_ring_phase phase;

        if (!chunk_of(chunks, lane, 0, &phase) || phase.size != schedule->rank_count ||
            phase.stride != 1 || (lane > 0 && phase.transfer_count != chunks->round_count))
            return tutti_fail(err, TUTTI_ELACK, "'%s': its lanes are not rings of all ranks alike",
                              schedule->name);
        chunks->round_count = phase.transfer_count;
        chunks->reduce_count = phase.reduce_count;
        status = tutti_hops_add(&chunks->hops, lane, &phase, &chunks->families[lane], err);
    }
    return status;
}

/* The number of a length, which is weighed on all kinds of hops if it is new. */
static int find_length(struct chunks *chunks, uint64_t bytes, uint8_t *ret, struct tutti_err *err)
{
    const struct tutti_hops *hops = &chunks->hops;
    uint32_t i = 0;

    while (i < chunks->length_count && chunks->lengths[i] != bytes)
        i++;
    *ret = (uint8_t)i;
    if (i < chunks->length_count)
        return 0;
    if (i == LENGTHS_MAX)
        return tutti_fail(err, TUTTI_ELACK, "chunks of more than %d lengths", LENGTHS_MAX);
    chunks->hop_ps[i] = calloc((size_t)hops->kind_count + 1, sizeof(*chunks->hop_ps[i]));
    chunks->busy_ps[i] = calloc((size_t)hops->kind_count + 1, sizeof(*chunks->busy_ps[i]));
    chunks->lengths[i] = bytes;
    chunks->length_count++;
    if (chunks->hop_ps[i] == NULL || chunks->busy_ps[i] == NULL)
        return tutti_nomem(err);
    for (uint32_t kind = 0; kind < hops->kind_count; kind++) {
        const struct tutti_route_weight *weight = &hops->kinds[kind];

        chunks->busy_ps[i][kind] = tutti_hop_busy_ps(chunks->opts, weight->pace, bytes);
        chunks->hop_ps[i][kind] = tutti_add_ps(chunks->busy_ps[i][kind], weight->latency_ps);
        chunks->hop_max_ps = tutti_later_ps(chunks->hop_max_ps, chunks->hop_ps[i][kind]);
    }
    if (tutti_times((uint64_t)chunks->hop_max_ps,
                    chunks->round_count + chunks->schedule->rank_count) > INT64_MAX / 4)
        return tutti_fail(err, TUTTI_ELACK, "its times are too long to be added up");
    return 0;
}

/* Reads the chunks of a lane, by seat. */
static int read_lane(struct chunks *chunks, uint32_t lane, struct tutti_err *err)
{
    const struct tutti_ring_phase *way = &chunks->hops.families[chunks->families[lane]].way;
    uint64_t last = UINT64_MAX;
    int status = 0;

    for (uint32_t seat = 0; seat < way->size && status == 0; seat++) {
        struct tutti_ring_phase phase;

        (void)chunk_of(chunks, lane, tutti_ring_rank(way, 0, seat), &phase);
        if (phase.bytes == last)
            chunks->length[seat] = chunks->length[seat - 1];
        else
            status = find_length(chunks, phase.bytes, &chunks->length[seat], err);
        last = phase.bytes;
    }
    return status;
}

/* The longest way of the chunks of one length, of the lane that has been read. */
static void measure_ways(struct chunks *chunks, uint32_t family_number, uint8_t length)
{
    const struct tutti_hop_family *family = &chunks->hops.families[family_number];
    const struct tutti_ring_phase *way = &family->way;
    const tutti_ps *hop_ps = chunks->hop_ps[length];
    const tutti_ps *busy_ps = chunks->busy_ps[length];
    uint32_t end = (uint32_t)(chunks->round_count % way->size);
    tutti_ps lap_ps = 0;
    tutti_ps way_ps = 0;

    for (uint32_t seat = 0; seat < way->size; seat++) {
        uint32_t rank = tutti_ring_rank(way, 0, seat);
        uint32_t kind = family->kinds != NULL ? family->kinds[rank] : family->kind;

        lap_ps += hop_ps[kind];
        way_ps += seat < end ? hop_ps[kind] : 0;
        chunks->busy_max_ps = tutti_later_ps(chunks->busy_max_ps, busy_ps[kind]);
        if (hop_ps[kind] < chunks->hop_min_ps)
            chunks->hop_min_ps = hop_ps[kind];
    }
    way_ps += lap_ps * (tutti_ps)(chunks->round_count / way->size);
    for (uint32_t seat = 0; seat < way->size; seat++) {
        uint32_t rank = tutti_ring_rank(way, 0, seat);
        uint32_t past = tutti_ring_rank(way, 0, end);

        if (chunks->length[seat] == length)
            chunks->way_max_ps = tutti_later_ps(chunks->way_max_ps, way_ps);
        if (family->kinds != NULL)
            way_ps += hop_ps[family->kinds[past]] - hop_ps[family->kinds[rank]];
        end = end + 1 < way->size ? end + 1 : 0;
    }
}

/* Finds the longest way. -TUTTI_ELACK, after it has been found, if that `matters`: 'fair' may make
 * it longer. */
static int measure(struct chunks *chunks, bool matters, struct tutti_err *err)
{
    int shared;
    int status = check_lanes(chunks, err);

    if (status < 0)
        return status;
    if (chunks->known != NULL &&
        tutti_hops_take(&chunks->hops, chunks->opts->topo, chunks->known) < 0)
        return tutti_nomem(err);
    shared = matters ? tutti_hops_find(&chunks->hops, chunks->opts, false, err)
                     : tutti_hops_find_kinds(&chunks->hops, chunks->opts, err);
    if (shared < 0 && !chunks->hops.shares)
        return shared;
    chunks->length = calloc(chunks->schedule->rank_count, sizeof(*chunks->length));
    if (chunks->length == NULL)
        return tutti_nomem(err);
    chunks->hop_min_ps = INT64_MAX;
    for (uint32_t lane = 0; lane < chunks->schedule->lane_count && status == 0; lane++) {
        status = read_lane(chunks, lane, err);
        for (uint8_t i = 0; i < chunks->length_count && status == 0; i++)
            measure_ways(chunks, chunks->families[lane], i);
    }
    return status < 0 ? status : shared;
}

static void done(struct chunks *chunks)
{
    for (uint32_t i = 0; i < chunks->length_count; i++) {
        free(chunks->hop_ps[i]);
        free(chunks->busy_ps[i]);
    }
    free(chunks->length);
    if (chunks->known != NULL)
        tutti_hops_give(&chunks->hops, chunks->known);
    tutti_hops_done(&chunks->hops);
}

/* Whether nothing holds up the chunk of the longest way. */
static int check_ways(const struct chunks *chunks, struct tutti_err *err)
{
    const struct tutti_hops *hops = &chunks->hops;
    bool alone = hops->exclusive;

    for (uint32_t i = 0; i < hops->family_count && !hops->has_room; i++)
        alone &= hops->families[i].lane_count == 1;
    if (!alone)
        return tutti_fail(err, TUTTI_ELACK, "lanes share links");
    if (chunks->opts->reduce_bytes_per_s > 0 && chunks->reduce_count > 0)
        return tutti_fail(err, TUTTI_ELACK, "reductions take time");
    if (chunks->busy_max_ps > chunks->hop_min_ps ||
        tutti_times((uint64_t)chunks->hop_min_ps, chunks->schedule->slot_count) <
            (uint64_t)chunks->hop_max_ps)
        return tutti_fail(err, TUTTI_ELACK, "chunks may wait for each other");
    return 0;
}

int tutti_ring_chunks_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                           struct tutti_hops *known, struct tutti_folded *ret,
                           struct tutti_err *err)
{
    struct chunks chunks = {.opts = opts, .schedule = schedule, .known = known};
    tutti_ps launch_ps = opts->protocol != NULL ? opts->protocol->launch_ps : 0;
    int status = measure(&chunks, true, err);

    if (status == 0)
        status = check_ways(&chunks, err);
    if (status == 0)
        *ret = (struct tutti_folded){
            .end_ps = tutti_add_ps(tutti_rank_begin_ps(opts, 0, launch_ps), chunks.way_max_ps),
            .step_count = (2 * chunks.round_count + chunks.reduce_count) * schedule->lane_count *
                          schedule->rank_count,
            .class_count = chunks.length_count};
    done(&chunks);
    return status;
}

int tutti_ring_chunks_least(const struct tutti_sim_opts *opts,
                            const struct tutti_schedule *schedule, struct tutti_hops *known,
                            tutti_ps *ret)
{
    struct chunks chunks = {.opts = opts, .schedule = schedule, .known = known};
    int status = schedule->ops->ring_chunk != NULL ? measure(&chunks, false, NULL) : -TUTTI_ELACK;

    *ret = 0; /* times of shared links are rounded as doubles are: a picosecond a hop */
    if (status == 0 && chunks.way_max_ps > (tutti_ps)chunks.round_count)
        *ret = chunks.way_max_ps - (tutti_ps)chunks.round_count;
    done(&chunks);
    return status == -TUTTI_ENOMEM ? status : 0;
}
