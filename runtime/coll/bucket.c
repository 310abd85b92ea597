/* The bucket engine: every share is reduce-scattered over its axes one after another, all-reduced
 * over the last, and gathered back out.
 *
 * Phase k < D-1 is a ring reduce-scatter over axis k on what phase k-1 left to this rank; phase D-1
 * a ring all-reduce over axis D-1 (reduce-scatter and all-gather without a break, as NCCL's ring
 * does); phase D-1+k the all-gather over axis D-1-k. In a ring of d a phase has d-1 transfers (the
 * all-reduce 2(d-1)); stage j of a phase receives transfer j-1 and sends transfer j, slice by
 * slice, so that a slice is passed on before the next arrives.
 *
 * Price of one route over axes d_0 .. d_{D-1}, n their product: 2 * sum (d_k - 1) messages one
 * after another; a rank sends and receives 2 (n-1)/n of the share and reduces (n-1)/n of it. */
#include "runtime/coll/bucket.h"

#include <string.h>

#include "runtime/coll/ring_order.h"

struct bucket {
    struct coll coll;
    struct bucket_plan plan;
    struct ring_orders orders;
    uint64_t landing_elements; /* scratch of a lane: one slice on its way into a reduction */
};

/* Where a rank stands in one phase of one piece. */
struct phase {
    const struct axis *axis;
    uint32_t index;      /* 0 .. 2D-2 */
    uint32_t axis_index; /* nesting depth: axes [0, axis_index) have cut the interval */
    uint32_t transfers;
    bool last_axis; /* the all-reduce */
};

/* One rank on one axis. */
struct seat {
    uint32_t coordinate; /* counted in the direction of travel */
    uint32_t next;       /* ranks */
    uint32_t prev;
};

static uint64_t phase_transfers(const struct route *route, uint32_t phase)
{
    uint32_t last = route->axis_count - 1;
    uint64_t hops = route->axis[phase <= last ? phase : 2 * last - phase].size - UINT64_C(1);

    return phase == last ? 2 * hops : hops;
}

static uint64_t rounds_of_piece(const struct route *route, uint32_t slice_count)
{
    uint64_t stages = 0;

    for (uint32_t phase = 0; phase < 2 * route->axis_count - 1; phase++)
        stages += phase_transfers(route, phase) + 1;
    return stages * slice_count;
}

static const struct route *route_of(const struct bucket *bucket, uint32_t lane)
{
    return &bucket->plan.route[lane % bucket->plan.route_count];
}

static uint32_t place_of(const struct bucket *bucket, uint32_t lane, const struct axis *axis,
                         uint32_t rank)
{
    uint32_t x = (rank / axis->stride) % axis->size;

    if (bucket->plan.ordered)
        x = ring_position(&bucket->orders, lane / bucket->plan.route_count, rank);
    return axis->reversed ? ring_sub(0, x, axis->size) : x;
}

static uint32_t rank_at(const struct bucket *bucket, uint32_t lane, const struct axis *axis,
                        uint32_t rank, uint32_t place)
{
    uint32_t x = axis->reversed ? ring_sub(0, place, axis->size) : place;
    uint32_t here;

    if (bucket->plan.ordered)
        return ring_rank(&bucket->orders, lane / bucket->plan.route_count, x);
    here = (rank / axis->stride) % axis->size;
    return rank - here * axis->stride + x * axis->stride;
}

static struct seat seat_of(const struct bucket *bucket, uint32_t lane, const struct axis *axis,
                           uint32_t rank)
{
    uint32_t x = place_of(bucket, lane, axis, rank);

    return (struct seat){
        .coordinate = x,
        .next = rank_at(bucket, lane, axis, rank, ring_add(x, 1, axis->size)),
        .prev = rank_at(bucket, lane, axis, rank, ring_sub(x, 1, axis->size)),
    };
}

/* The phase that round `*round` of a piece belongs to; leaves in *round the round in the phase. */
static struct phase find_phase(const struct route *route, uint32_t slice_count, uint64_t *round)
{
    uint32_t last = route->axis_count - 1;
    struct phase phase = {.index = 0};
    uint64_t rounds = (phase_transfers(route, 0) + 1) * slice_count;

    while (*round >= rounds) {
        *round -= rounds;
        phase.index++;
        assert(phase.index <= 2 * last);
        rounds = (phase_transfers(route, phase.index) + 1) * slice_count;
    }
    phase.axis_index = phase.index <= last ? phase.index : 2 * last - phase.index;
    phase.axis = &route->axis[phase.axis_index];
    phase.transfers = (uint32_t)phase_transfers(route, phase.index);
    phase.last_axis = phase.index == last;
    return phase;
}

/* The chunk that transfer t of a ring of d carries away from position x is x - 1 - t: after d-1
 * transfers of a reduce-scatter a rank has completed chunk x, and the all-reduce just goes on.
 * An all-gather of its own begins with chunk x. */
static uint32_t chunk_sent(const struct phase *phase, uint32_t x, uint64_t transfer, bool scatter)
{
    uint32_t d = phase->axis->size;
    uint32_t back = (uint32_t)((transfer + (scatter || phase->last_axis ? 1 : 0)) % d);

    return ring_sub(x, back, d);
}

static void emit_stage(const struct bucket *bucket, const struct phase *phase,
                       const struct seat *seat, struct range whole, uint64_t stage, uint32_t slice,
                       struct place landing, struct tutti_round *out)
{
    const struct coll *coll = &bucket->coll;
    uint32_t d = phase->axis->size;
    bool scatter = phase->last_axis ? stage < d : phase->index == phase->axis_index;
    bool first_axis = phase->axis_index == 0;
    enum tutti_buf mine = first_axis ? TUTTI_BUF_IN : TUTTI_BUF_OUT;

    if (stage > 0) {
        uint32_t chunk = ring_sub(chunk_sent(phase, seat->coordinate, stage - 1, scatter), 1, d);
        struct range part = part_of(part_of(whole, chunk, d), slice, coll->slice_count);
        uint64_t bytes = part.count * coll->element_bytes;
        struct place dst = at(coll, TUTTI_BUF_OUT, part.first);

        if (!scatter)
            emit_recv(out, seat->prev, dst, bytes);
        else if (!phase->last_axis || stage + 1 < d)
            emit_recv_reduce(out, seat->prev, landing, dst, at(coll, mine, part.first), bytes);
        else
            emit_last(
                emit_recv_reduce(out, seat->prev, landing, dst, at(coll, mine, part.first), bytes));
    }
    if (stage < phase->transfers) {
        uint32_t chunk = chunk_sent(phase, seat->coordinate, stage, scatter);
        struct range part = part_of(part_of(whole, chunk, d), slice, coll->slice_count);
        bool untouched = stage == 0 && scatter;

        emit_send(out, seat->next, at(coll, untouched ? mine : TUTTI_BUF_OUT, part.first),
                  part.count * coll->element_bytes);
    }
}

static uint64_t bucket_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                   uint32_t lane)
{
    const struct bucket *bucket = (const struct bucket *)schedule;

    (void)rank;
    return bucket->coll.piece_count *
           rounds_of_piece(route_of(bucket, lane), bucket->coll.slice_count);
}

static void bucket_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                        uint64_t round, struct tutti_round *out)
{
    const struct bucket *bucket = (const struct bucket *)schedule;
    const struct route *route = route_of(bucket, lane);
    uint32_t slice_count = bucket->coll.slice_count;
    uint64_t rounds = rounds_of_piece(route, slice_count);
    struct range whole = coll_piece(&bucket->coll, lane, round / rounds);
    uint64_t rest = round % rounds;
    struct phase phase = find_phase(route, slice_count, &rest);
    struct seat seat = seat_of(bucket, lane, phase.axis, rank);

    for (uint32_t i = 0; i < phase.axis_index; i++)
        whole = part_of(whole, place_of(bucket, lane, &route->axis[i], rank), route->axis[i].size);
    emit_stage(bucket, &phase, &seat, whole, rest / slice_count, (uint32_t)(rest % slice_count),
               at(&bucket->coll, TUTTI_BUF_SCRATCH, lane * bucket->landing_elements), out);
}

static const struct tutti_schedule_ops bucket_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = bucket_round_count,
    .emit = bucket_emit,
};

/* The largest slice that lands in scratch: of a chunk of the shortest first axis. */
static uint64_t landing_max(const struct bucket *bucket)
{
    uint32_t d = UINT32_MAX;

    for (uint32_t i = 0; i < bucket->plan.route_count; i++)
        d = bucket->plan.route[i].axis[0].size < d ? bucket->plan.route[i].axis[0].size : d;
    return div_up(div_up(coll_piece_max(&bucket->coll), d), bucket->coll.slice_count);
}

int tutti_bucket_new(const struct bucket_plan *plan, const struct tutti_coll_params *params,
                     const struct tutti_shape *shape, struct tutti_schedule **ret,
                     struct tutti_err *err)
{
    struct coll_layout layout = {.name = plan->name,
                                 .ops = &bucket_ops,
                                 .struct_bytes = sizeof(struct bucket),
                                 .shares_per_channel = plan->route_count,
                                 .chunks_per_piece = plan->route[0].axis[0].size};
    struct bucket *bucket = NULL;
    struct coll *coll = NULL;
    int status;

    assert(shape->rank_count >= 2);
    assert(plan->route_count >= 1);
    status = tutti_coll_new(&layout, params, shape, &coll, err);
    if (status < 0)
        return status;
    bucket = (struct bucket *)coll;
    bucket->plan = *plan;
    if (plan->ordered)
        status = tutti_ring_orders_init(&bucket->orders, shape, coll->schedule.arena, err);
    if (status < 0) {
        tutti_schedule_free(&coll->schedule);
        return status;
    }
    bucket->landing_elements = landing_max(bucket);
    return tutti_coll_finish(coll, bucket->landing_elements, 0,
                             rounds_of_piece(&plan->route[0], coll->slice_count), ret, err);
}
