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

enum { TURNS_BYTES_MIN = 1 << 20 };

/* One phase of a route. */
struct phase {
    struct axis axis;
    uint64_t first_round; /* in a piece */
    uint32_t index;       /* 0 .. 2D-2 */
    uint32_t axis_index;  /* nesting depth: axes [0, axis_index) have cut the interval */
    uint64_t transfers;   /* up to twice the ranks */
    uint64_t last_send;   /* step of a piece: the SEND of the last slice of the last transfer */
    bool last_axis;       /* the all-reduce */
};

struct bucket {
    struct coll coll;
    struct bucket_plan plan;
    struct ring_orders orders;
    uint64_t grain_elements;   /* shares and pieces are multiples of it */
    uint64_t grain_count;      /* in the data */
    uint64_t staging_elements; /* scratch of a lane: one slice on its way into a reduction */
    bool takes_turns;          /* routes wait for each other where they follow on the same links */
    uint64_t weights[BUCKET_ROUTES_MAX + 1]; /* of all routes before; of weighted plans */
    uint64_t rounds[BUCKET_ROUTES_MAX];      /* of a piece, by route */
    uint64_t steps[BUCKET_ROUTES_MAX];       /* likewise */
    struct phase phases[BUCKET_ROUTES_MAX][BUCKET_PHASES_MAX]; /* by route */
};

/* One rank on one axis. */
struct seat {
    uint32_t coordinate; /* counted in the direction of travel */
    uint32_t next;       /* ranks */
    uint32_t prev;
};

/* The share of a channel's grains that a route of a weighted plan has. */
static struct range weighted_share(const struct bucket *bucket, uint32_t share)
{
    struct range all = {.first = 0, .count = bucket->grain_count};
    uint32_t routes = bucket->plan.route_count;
    uint32_t route = share % routes;
    struct range channel = part_of(all, share / routes, bucket->coll.share_count / routes);
    uint64_t first = tutti_muldiv(channel.count, bucket->weights[route], bucket->weights[routes]);
    uint64_t end = tutti_muldiv(channel.count, bucket->weights[route + 1], bucket->weights[routes]);

    return (struct range){.first = channel.first + first, .count = end - first};
}

/* Elements that piece `piece` of a share covers. */
static inline struct range bucket_piece(const struct bucket *bucket, uint32_t share, uint64_t piece)
{
    struct range grains = {.first = 0, .count = bucket->grain_count};

    grains = bucket->plan.weighted ? weighted_share(bucket, share)
                                   : part_of(grains, share, bucket->coll.share_count);
    grains = part_of(grains, piece, bucket->coll.piece_count);
    return (struct range){.first = grains.first * bucket->grain_elements,
                          .count = grains.count * bucket->grain_elements};
}

/* No piece has more grains. */
static uint64_t grains_max(const struct bucket *bucket)
{
    uint64_t most = 0;

    if (!bucket->plan.weighted)
        return div_up(div_up(bucket->grain_count, bucket->coll.share_count),
                      bucket->coll.piece_count);
    for (uint32_t share = 0; share < bucket->coll.share_count; share++) {
        uint64_t grains = div_up(weighted_share(bucket, share).count, bucket->coll.piece_count);

        most = grains > most ? grains : most;
    }
    return most;
}

/* Shares and pieces that are multiples of the rank count fall into equal chunks all the way down;
 * so they are cut where that makes none more than 1 % larger than it has to be. */
static void choose_grain(struct bucket *bucket)
{
    uint64_t count = bucket->coll.schedule.contract.count;
    uint32_t n = bucket->coll.schedule.rank_count;
    uint64_t parts = bucket->coll.share_count * bucket->coll.piece_count;

    bucket->grain_elements = n;
    bucket->grain_count = count / n;
    if (count % n == 0 &&
        (bucket->plan.weighted
             ? bucket->grain_count >= 1000 * parts
             : grains_max(bucket) * parts - bucket->grain_count <= bucket->grain_count / 100))
        return;
    bucket->grain_elements = 1;
    bucket->grain_count = count;
}

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

/* Returns the steps of a piece: for each slice a SEND and a RECV of each transfer, and a REDUCE of
 * those that are reduced. */
static uint64_t lay_phases(const struct route *route, uint32_t slice_count, struct phase *phases)
{
    uint32_t last = route->axis_count - 1;
    uint64_t first_round = 0;
    uint64_t step = 0;

    for (uint32_t i = 0; i < 2 * last + 1; i++) {
        uint32_t axis_index = i <= last ? i : 2 * last - i;
        uint64_t transfers = phase_transfers(route, i);
        uint64_t reduced = i <= last ? route->axis[axis_index].size - UINT64_C(1) : 0;
        uint64_t stage_last = reduced == transfers ? 2 : 1; /* steps of a slice of the last stage */

        step += (2 * transfers + reduced) * slice_count;
        phases[i] = (struct phase){
            .axis = route->axis[axis_index],
            .first_round = first_round,
            .index = i,
            .axis_index = axis_index,
            .transfers = transfers,
            .last_send = step - stage_last * slice_count - 1,
            .last_axis = i == last,
        };
        first_round += (transfers + 1) * slice_count;
    }
    return step;
}

/* The phase that round `round` of a piece belongs to. */
static const struct phase *find_phase(const struct bucket *bucket, uint32_t route, uint64_t round)
{
    const struct phase *phase = bucket->phases[route];
    uint32_t last = 2 * bucket->plan.route[route].axis_count - 2;

    while (phase->index < last && phase[1].first_round <= round)
        phase++;
    return phase;
}

/* Steps one place along an axis, in the direction of travel or against it. */
static uint32_t step_along(uint32_t x, uint32_t size, bool up)
{
    if (up)
        return x + 1 < size ? x + 1 : 0;
    return x > 0 ? x - 1 : size - 1;
}

static uint32_t coordinate_of(const struct axis *axis, uint32_t rank)
{
    uint32_t place = axis->stride == 1 ? rank : rank / axis->stride;

    return place < axis->size ? place : place % axis->size;
}

static uint32_t reverse(const struct axis *axis, uint32_t x)
{
    return axis->reversed ? ring_sub(0, x, axis->size) : x;
}

static struct seat seat_of(const struct bucket *bucket, uint32_t lane, const struct axis *axis,
                           uint32_t rank)
{
    uint32_t ring = lane / bucket->plan.route_count;
    uint32_t x = bucket->plan.ordered ? ring_position(&bucket->orders, ring, rank)
                                      : coordinate_of(axis, rank);
    uint32_t next = step_along(x, axis->size, !axis->reversed);
    uint32_t prev = step_along(x, axis->size, axis->reversed);

    if (bucket->plan.ordered)
        return (struct seat){.coordinate = reverse(axis, x),
                             .next = ring_rank(&bucket->orders, ring, next),
                             .prev = ring_rank(&bucket->orders, ring, prev)};
    return (struct seat){.coordinate = reverse(axis, x),
                         .next = rank - x * axis->stride + next * axis->stride,
                         .prev = rank - x * axis->stride + prev * axis->stride};
}

/* The chunk that transfer t of a ring of d carries away from position x is x - 1 - t: after d-1
 * transfers of a reduce-scatter a rank has completed chunk x, and the all-reduce just goes on.
 * An all-gather of its own begins with chunk x. */
static uint32_t chunk_sent(const struct phase *phase, uint32_t x, uint64_t transfer, bool scatter)
{
    uint32_t d = phase->axis.size;
    uint64_t back = transfer + (scatter || phase->last_axis ? 1 : 0);

    assert(back < 2 * (uint64_t)d); /* at most twice round */
    return ring_sub(x, (uint32_t)(back < d ? back : back - d), d);
}

/* What all rounds of a rank in one phase of one piece have in common. */
struct context {
    const struct coll *coll;
    const struct phase *phase;
    uint64_t piece;
    struct seat seat;
    struct cut chunks;
    struct place staging;
    enum tutti_buf mine; /* where the rank's own contribution lies */
};

/* The context for a round; leaves in *round its number in the phase. */
static inline __attribute__((always_inline)) struct context
context_of(const struct bucket *bucket, uint32_t rank, uint32_t lane, uint64_t *round)
{
    uint32_t route = bucket->plan.route_count == 1 ? 0 : lane % bucket->plan.route_count;
    uint64_t rounds = bucket->rounds[route];
    uint64_t piece = *round < rounds ? 0 : *round / rounds;
    const struct phase *phase = find_phase(bucket, route, *round - piece * rounds);
    struct range whole = bucket_piece(bucket, lane, piece);

    for (uint32_t i = 0; i < phase->axis_index; i++) {
        const struct axis *axis = &bucket->plan.route[route].axis[i];

        whole = part_of(whole, reverse(axis, coordinate_of(axis, rank)), axis->size);
    }
    *round -= piece * rounds + phase->first_round;
    return (struct context){
        .coll = &bucket->coll,
        .phase = phase,
        .piece = piece,
        .seat = seat_of(bucket, lane, &phase->axis, rank),
        .chunks = cut_of(whole, phase->axis.size),
        .staging = at(&bucket->coll, TUTTI_BUF_SCRATCH, lane * bucket->staging_elements),
        .mine = phase->axis_index == 0 ? TUTTI_BUF_IN : TUTTI_BUF_OUT,
    };
}

/* What a stage receives it reduces. */
static bool scatters(const struct phase *phase, uint64_t stage)
{
    return phase->last_axis ? stage < phase->axis.size : phase->index == phase->axis_index;
}

/* Stage j receives the chunk that it then sends: that is what a ring does. */
static inline __attribute__((always_inline)) struct range
part_at(const struct context *context, uint64_t stage, uint32_t slice, bool scatter)
{
    uint32_t chunk = chunk_sent(context->phase, context->seat.coordinate, stage, scatter);

    return part_of(cut_part(&context->chunks, chunk), slice, context->coll->slice_count);
}

static void emit_stage(const struct context *context, uint64_t stage, uint32_t slice,
                       struct tutti_round *out)
{
    const struct coll *coll = context->coll;
    const struct phase *phase = context->phase;
    bool scatter = scatters(phase, stage);
    struct range part = part_at(context, stage, slice, scatter);
    struct place dst = at(coll, TUTTI_BUF_OUT, part.first);
    struct place acc = at(coll, context->mine, part.first);
    uint64_t bytes = part.count * coll->element_bytes;

    if (stage > 0) {
        if (!scatter)
            emit_recv(out, context->seat.prev, dst, bytes);
        else if (!phase->last_axis || stage + 1 < phase->axis.size)
            emit_recv_reduce(out, context->seat.prev, context->staging, dst, acc, bytes);
        else
            emit_last(emit_recv_reduce(out, context->seat.prev, context->staging, dst, acc, bytes));
    }
    if (stage < phase->transfers)
        emit_send(out, context->seat.next, stage == 0 && scatter ? acc : dst, bytes);
}

/* The lane whose part went over the links of this phase in the phase before, for routes that turn
 * through the axes: inwards the one that began with the next axis, outwards with the one before. */
static uint32_t lane_before(const struct bucket *bucket, uint32_t lane, const struct phase *phase)
{
    uint32_t routes = bucket->plan.route_count;
    uint32_t route = lane % routes;
    uint32_t ways = routes / bucket->plan.route[0].axis_count;

    if (!bucket->takes_turns || phase->index == 0)
        return TUTTI_LANE_NONE;
    return lane - route +
           (phase->index == phase->axis_index ? route + ways : route + routes - ways) % routes;
}

/* What the first SEND of a phase waits for: a phase of another lane, which *ret_lane is. */
static const struct phase *phase_before(const struct bucket *bucket, uint32_t lane,
                                        const struct phase *phase, uint32_t *ret_lane)
{
    uint32_t route = lane % bucket->plan.route_count;
    const struct turn *after = &bucket->plan.route[route].after[phase->index];

    if (bucket->plan.weighted) {
        if (after->route == BUCKET_ROUTE_NONE)
            return NULL;
        *ret_lane = lane - route + after->route;
        return &bucket->phases[after->route][after->phase];
    }
    *ret_lane = lane_before(bucket, lane, phase);
    return *ret_lane == TUTTI_LANE_NONE
               ? NULL
               : &bucket->phases[*ret_lane % bucket->plan.route_count][phase->index - 1];
}

static void wait_turn(const struct bucket *bucket, uint32_t lane, const struct context *context,
                      struct tutti_step *send)
{
    uint32_t other = 0;
    const struct phase *before = phase_before(bucket, lane, context->phase, &other);

    if (before != NULL)
        emit_dep(send, other,
                 context->piece * bucket->steps[other % bucket->plan.route_count] +
                     before->last_send);
}

static uint64_t bucket_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                   uint32_t lane)
{
    const struct bucket *bucket = (const struct bucket *)schedule;

    (void)rank;
    return bucket->coll.piece_count * bucket->rounds[lane % bucket->plan.route_count];
}

static void bucket_emit_run(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                            uint64_t round, uint32_t count, struct tutti_round *out)
{
    const struct bucket *bucket = (const struct bucket *)schedule;
    uint32_t slice_count = bucket->coll.slice_count;

    for (uint32_t done = 0; done < count;) {
        uint64_t rest = round + done;
        struct context context = context_of(bucket, rank, lane, &rest);
        uint64_t stage = slice_count == 1 ? rest : rest / slice_count;
        uint32_t slice = (uint32_t)(rest - stage * slice_count);

        for (; done < count && stage <= context.phase->transfers; done++) {
            emit_stage(&context, stage, slice, &out[done]);
            if (stage == 0 && slice == 0)
                wait_turn(bucket, lane, &context, &out[done].step[0]);
            if (++slice == slice_count) {
                slice = 0;
                stage++;
            }
        }
    }
}

static uint32_t bucket_relays(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                              uint64_t round, uint32_t count, struct tutti_relays *ret)
{
    const struct bucket *bucket = (const struct bucket *)schedule;
    uint32_t slice_count = bucket->coll.slice_count;
    struct context context = context_of(bucket, rank, lane, &round);
    uint64_t stage = slice_count == 1 ? round : round / slice_count;
    uint32_t slice = (uint32_t)(round - stage * slice_count);
    bool scatter = scatters(context.phase, stage);
    uint64_t end =
        context.phase->last_axis && scatter ? context.phase->axis.size : context.phase->transfers;
    uint32_t found = 0;

    if (stage == 0)
        return 0; /* sends only */
    ret->from = context.seat.prev;
    ret->to = context.seat.next;
    ret->reduces = scatter;
    count = count < TUTTI_RELAYS_MAX ? count : TUTTI_RELAYS_MAX;
    if (slice_count == 1 && context.chunks.rest == 0) { /* all parts are equal */
        count = end - stage < count ? (uint32_t)(end - stage) : count;
        for (; found < count; found++)
            ret->bytes[found] = context.chunks.quotient * bucket->coll.element_bytes;
        return found;
    }
    for (; found < count && stage < end; found++) {
        ret->bytes[found] =
            part_at(&context, stage, slice, scatter).count * bucket->coll.element_bytes;
        if (++slice == slice_count) {
            slice = 0;
            stage++;
        }
    }
    return found;
}

/* All stages of a phase but the first and the last pass on a chunk; they repeat where chunks are of
 * one length. */
static uint64_t bucket_steady(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                              uint64_t round, uint64_t *ret_period)
{
    const struct bucket *bucket = (const struct bucket *)schedule;
    uint32_t slice_count = bucket->coll.slice_count;
    struct context context = context_of(bucket, rank, lane, &round);
    uint64_t stage = round / slice_count;
    uint64_t end = context.phase->last_axis && stage < context.phase->axis.size
                       ? context.phase->axis.size
                       : context.phase->transfers;

    if (stage == 0 || stage >= end || context.chunks.rest != 0 ||
        context.chunks.quotient % slice_count != 0)
        return 0;
    *ret_period = slice_count;
    return end * slice_count - round;
}

static void bucket_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                        uint64_t round, struct tutti_round *out)
{
    bucket_emit_run(schedule, rank, lane, round, 1, out);
}

/* Parts of equal length all the way down: then programs differ in names and offsets alone. */
static bool is_even(const struct bucket *bucket)
{
    return bucket->grain_elements == bucket->coll.schedule.rank_count;
}

static uint32_t bucket_partners(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                                struct tutti_partners *out, uint32_t capacity)
{
    const struct bucket *bucket = (const struct bucket *)schedule;
    const struct route *route = &bucket->plan.route[lane % bucket->plan.route_count];

    if (!is_even(bucket))
        return 0;
    for (uint32_t i = 0; i < route->axis_count && i < capacity; i++) {
        struct seat seat = seat_of(bucket, lane, &route->axis[i], rank);

        out[i] = (struct tutti_partners){.to = seat.next, .from = seat.prev};
    }
    return route->axis_count;
}

static uint32_t bucket_ring_phases(const struct tutti_schedule *schedule, uint32_t lane,
                                   struct tutti_ring_phase *out, uint32_t capacity)
{
    const struct bucket *bucket = (const struct bucket *)schedule;
    uint32_t route = lane % bucket->plan.route_count;
    uint32_t ring = lane / bucket->plan.route_count;
    uint32_t count = 2 * bucket->plan.route[route].axis_count - 1;
    uint64_t bytes = bucket_piece(bucket, lane, 0).count * bucket->coll.element_bytes;

    if (!is_even(bucket) || bucket->coll.piece_count > 1 || bucket->coll.slice_count > 1 ||
        bucket->plan.weighted)
        return 0;
    for (uint32_t i = 0; i < count && i < capacity; i++) {
        const struct phase *phase = &bucket->phases[route][i];

        bytes = i <= count / 2 ? bytes / phase->axis.size : bytes * phase[-1].axis.size;
        out[i] = (struct tutti_ring_phase){
            .size = phase->axis.size,
            .stride = phase->axis.stride,
            .order = bucket->plan.ordered ? ring_order(&bucket->orders, ring) : NULL,
            .reversed = phase->axis.reversed,
            .transfer_count = phase->transfers,
            .reduce_count = scatters(phase, 1) ? phase->axis.size - UINT64_C(1) : 0,
            .bytes = bytes,
            .after_lane = lane_before(bucket, lane, phase),
        };
    }
    return count;
}

static bool bucket_ring_chunk(const struct tutti_schedule *schedule, uint32_t lane, uint32_t rank,
                              struct tutti_ring_phase *ret)
{
    const struct bucket *bucket = (const struct bucket *)schedule;
    uint32_t route = lane % bucket->plan.route_count;
    const struct phase *phase = &bucket->phases[route][0];
    uint64_t round = 0;
    struct context context;

    if (bucket->plan.route[route].axis_count > 1 || bucket->coll.piece_count > 1 ||
        bucket->coll.slice_count > 1)
        return false;
    context = context_of(bucket, rank, lane, &round);
    *ret = (struct tutti_ring_phase){
        .size = phase->axis.size,
        .stride = phase->axis.stride,
        .order = bucket->plan.ordered ? ring_order(&bucket->orders, lane / bucket->plan.route_count)
                                      : NULL,
        .reversed = phase->axis.reversed,
        .transfer_count = phase->transfers,
        .reduce_count = phase->axis.size - UINT64_C(1),
        .bytes = part_at(&context, 0, 0, true).count * bucket->coll.element_bytes,
        .after_lane = TUTTI_LANE_NONE,
    };
    return true;
}

static const struct tutti_schedule_ops bucket_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = bucket_round_count,
    .emit = bucket_emit,
    .emit_run = bucket_emit_run,
    .partners = bucket_partners,
    .relays = bucket_relays,
    .ring_phases = bucket_ring_phases,
    .ring_chunk = bucket_ring_chunk,
    .steady = bucket_steady,
};

/* The largest slice that lands in scratch: of a chunk of the shortest first axis. */
static uint64_t staging_max(const struct bucket *bucket)
{
    uint32_t d = UINT32_MAX;

    for (uint32_t i = 0; i < bucket->plan.route_count; i++)
        d = bucket->plan.route[i].axis[0].size < d ? bucket->plan.route[i].axis[0].size : d;
    return div_up(div_up(grains_max(bucket) * bucket->grain_elements, d), bucket->coll.slice_count);
}

/* Waiting for turns is for nothing where all routes go through axes of equal length: they are in
 * step. Else the routes of short axes idle, which costs latency, but little beside long messages;
 * and where they would not wait, parts would drive wedges into each other on slow links. */
static bool takes_turns(const struct bucket *bucket)
{
    const struct bucket_plan *plan = &bucket->plan;
    const struct coll *coll = &bucket->coll;
    uint64_t least = UINT64_MAX; /* bytes of a first message */
    bool equal = true;

    for (uint32_t i = 0; i < plan->route_count; i++) {
        uint32_t size = plan->route[i].axis[0].size;
        uint64_t bytes = bucket_piece(bucket, i, 0).count * coll->element_bytes / size;

        least = bytes < least ? bytes : least;
        equal &= size == plan->route[0].axis[0].size;
        if (bucket->steps[i] > UINT32_MAX / coll->piece_count)
            return false; /* steps that cannot be named */
    }
    return plan->turns && plan->route[0].axis_count > 1 && (equal || least >= TURNS_BYTES_MIN);
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
    for (uint32_t i = 0; i < plan->route_count; i++)
        bucket->weights[i + 1] = bucket->weights[i] + plan->route[i].weight;
    choose_grain(bucket);
    bucket->staging_elements = staging_max(bucket);
    for (uint32_t i = 0; i < plan->route_count; i++) {
        bucket->rounds[i] = rounds_of_piece(&plan->route[i], coll->slice_count);
        bucket->steps[i] = lay_phases(&plan->route[i], coll->slice_count, bucket->phases[i]);
    }
    bucket->takes_turns = takes_turns(bucket);
    return tutti_coll_finish(coll, bucket->staging_elements, 0, bucket->rounds[0], ret, err);
}
