/* The simulator with `alphabeta` equals closed forms and max-plus recurrences of nested rings and
 * folded exchanges, where ranks do different things, to the picosecond.
 *
 * a is the latency of a message, b(x) the time of x elements on the wire, n the ranks, c the count.
 * A recurrence follows each rank's clock from message to message, as the algorithm is published. */
#include "tests/sim/closed_form.h"

/* One rank: where its program stands, and when its link is free again. */
struct clock {
    tutti_ps now;
    tutti_ps link_free;
};

/* Sends now; returns when the message is there. */
static tutti_ps sends(struct clock *clock, uint64_t elements, const struct cost *cost)
{
    clock->link_free = later(clock->link_free, clock->now) + beta(cost, elements);
    return clock->link_free + alpha(cost);
}

static tutti_ps latest_of(const struct clock *clocks, uint32_t n)
{
    tutti_ps latest = 0;

    for (uint32_t i = 0; i < n; i++)
        latest = later(latest, clocks[i].now);
    return latest;
}

/* ---- nested rings ---------------------------------------------------------------------------- */

struct nest {
    uint32_t n;
    uint32_t axis_count;
    uint32_t size[TUTTI_LEVELS_MAX];
    uint32_t stride[TUTTI_LEVELS_MAX];
    struct cost cost[TUTTI_LEVELS_MAX]; /* of a message along the axis */
    uint32_t slices;
    struct clock clocks[CASE_RANKS_MAX];
    uint64_t share[CASE_RANKS_MAX]; /* first element and count of what a rank looks after */
    uint64_t count[CASE_RANKS_MAX];
};

static uint32_t coordinate(const struct nest *nest, uint32_t axis, uint32_t rank)
{
    return rank / nest->stride[axis] % nest->size[axis];
}

static uint32_t neighbour(const struct nest *nest, uint32_t axis, uint32_t rank, uint32_t by)
{
    uint32_t x = coordinate(nest, axis, rank);
    uint32_t to = (x + by) % nest->size[axis];

    return rank - x * nest->stride[axis] + to * nest->stride[axis];
}

/* `hops` transfers around the rings of an axis: in transfer t the rank at x sends what is `first` +
 * t places behind it; slice by slice a rank passes on what it has got. */
static void go_round(struct nest *nest, uint32_t axis, uint32_t hops, uint32_t first)
{
    static tutti_ps arrival[2][CASE_RANKS_MAX][8];
    uint32_t d = nest->size[axis];

    for (uint32_t t = 0; t <= hops; t++) {
        for (uint32_t r = 0; r < nest->n; r++) {
            uint32_t chunk = (coordinate(nest, axis, r) + 2 * d - (first + t) % d) % d;
            uint64_t elements = part(nest->count[r], chunk, d);
            struct clock *clock = &nest->clocks[r];

            for (uint32_t s = 0; s < nest->slices; s++) {
                if (t > 0)
                    clock->now = later(clock->now, arrival[(t + 1) % 2][r][s]);
                if (t < hops)
                    arrival[t % 2][neighbour(nest, axis, r, 1)][s] =
                        sends(clock, part(elements, s, nest->slices), &nest->cost[axis]);
            }
        }
    }
}

/* Reduce-scatter inwards, all-reduce on the last axis, all-gather outwards. All ranks of a ring
 * look after the same elements before it: counts at each depth are kept for the way back. */
static tutti_ps nested(struct nest *nest, uint64_t c)
{
    uint64_t counts[TUTTI_LEVELS_MAX][CASE_RANKS_MAX];
    uint32_t last = nest->axis_count - 1;

    for (uint32_t r = 0; r < nest->n; r++)
        nest->count[r] = c;
    for (uint32_t axis = 0; axis < last; axis++) {
        memcpy(counts[axis], nest->count, sizeof(nest->count));
        go_round(nest, axis, nest->size[axis] - 1, 1);
        for (uint32_t r = 0; r < nest->n; r++)
            nest->count[r] = part(nest->count[r], coordinate(nest, axis, r), nest->size[axis]);
    }
    go_round(nest, last, 2 * (nest->size[last] - 1), 1);
    for (uint32_t axis = last; axis-- > 0;) {
        memcpy(nest->count, counts[axis], sizeof(nest->count));
        go_round(nest, axis, nest->size[axis] - 1, 0);
    }
    return latest_of(nest->clocks, nest->n);
}

/* The sum over the levels of 2 (g - 1) (a + b), b of c over the product up to this level: for
 * counts that divide (Cho, Finkler & Kung 2019, equation of BlueConnect). */
static tutti_ps sum_of_levels(const struct nest *nest, uint64_t c)
{
    tutti_ps sum = 0;

    for (uint32_t axis = 0; axis < nest->axis_count; axis++) {
        c /= nest->size[axis];
        sum += 2 * (nest->size[axis] - 1) * (alpha(&nest->cost[axis]) + beta(&nest->cost[axis], c));
    }
    return sum;
}

/* Level 0 over NVLink; the others over ever slower networks. */
static struct nest nest_of(const struct tutti_shape *shape, unsigned number)
{
    struct nest nest = {.n = shape->rank_count, .slices = 1};
    uint32_t stride = 1;

    for (uint32_t i = 0; i < shape->level_count; i++) {
        struct cost cost = cost_number(number, i == 0 ? TUTTI_HOP_NVLINK : TUTTI_HOP_NET);

        if (shape->level[i] > 1) {
            cost.bytes_per_s /= nest.axis_count + 1;
            cost.latency_ps += 100000 * nest.axis_count;
            nest.size[nest.axis_count] = shape->level[i];
            nest.stride[nest.axis_count] = stride;
            nest.cost[nest.axis_count++] = cost;
        }
        stride *= shape->level[i];
    }
    return nest;
}

/* A switch for every ring of every axis, and one above them all, as machines are in one piece. */
static struct tutti_topo *machine_nest(const struct nest *nest)
{
    struct tutti_topo_builder *builder;
    uint32_t node = nest->n;
    uint32_t switch_count = 0;

    for (uint32_t axis = 0; axis < nest->axis_count; axis++)
        switch_count += nest->n / nest->size[axis];
    builder = machine_begin(nest->n, switch_count + 1);
    for (uint32_t i = 0; i < switch_count; i++)
        machine_cable(builder, node + i, node + switch_count, &nest->cost[0], 1);
    for (uint32_t axis = 0; axis < nest->axis_count; axis++) {
        for (uint32_t r = 0; r < nest->n; r++) {
            if (coordinate(nest, axis, r) != 0)
                continue;
            for (uint32_t i = 0; i < nest->size[axis]; i++)
                machine_cable(builder, neighbour(nest, axis, r, i), node, &nest->cost[axis],
                              nest->cost[axis].latency_ps / 2);
            node++;
        }
    }
    return machine_end(builder);
}

static void ask_nest(const struct tutti_topo *topo, const struct tutti_shape *shape,
                     struct nest *nest, uint64_t count, uint32_t slices)
{
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_FLOAT32,
                                       .count = count,
                                       .slice_count = slices};
    tutti_ps start = launch(&nest->cost[0]);
    uint64_t even = count / nest->n * nest->n;

    nest->slices = slices;
    memset(nest->clocks, 0, sizeof(nest->clocks));
    expect(topo, "hierarchical", &params, shape, &nest->cost[0], start + nested(nest, count));
    if (slices > 1)
        return;
    params.count = even;
    expect(topo, "hierarchical", &params, shape, &nest->cost[0], start + sum_of_levels(nest, even));
}

/* Pieces of g_0 chunks, one after another; ranks drift apart a little between them. */
static void ask_pieces(const struct tutti_topo *topo, const struct tutti_shape *shape,
                       struct nest *nest, uint64_t count, uint64_t chunk, uint32_t slices)
{
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_FLOAT32,
                                       .count = count,
                                       .chunk_bytes = chunk * ELEMENT_BYTES,
                                       .slice_count = slices};
    uint64_t pieces = up(count, chunk * nest->size[0]);
    tutti_ps time = 0;

    nest->slices = slices;
    memset(nest->clocks, 0, sizeof(nest->clocks));
    for (uint64_t p = 0; p < pieces; p++)
        time = nested(nest, part(count, p, pieces));
    expect(topo, "hierarchical", &params, shape, &nest->cost[0], launch(&nest->cost[0]) + time);
}

static void visit_hierarchy(const struct tutti_shape *shape, void *user)
{
    unsigned *number = user;
    struct nest nest = nest_of(shape, *number % COST_COUNT);
    struct tutti_topo *topo = machine_nest(&nest);

    ask_nest(topo, shape, &nest, size_number(*number % FORM_SIZES, nest.n), 1);
    ask_nest(topo, shape, &nest, 10007, 1 + *number % 4);
    ask_pieces(topo, shape, &nest, 20011, 10011 / nest.size[0], 1 + *number % 3);
    tutti_topo_free(topo);
    ++*number;
}

/* Every ordered factoring of every n. */
TEST(hierarchies_of_any_levels)
{
    unsigned number = 0;

    for (uint32_t n = 2; n <= CASE_RANKS_MAX; n++) {
        struct tutti_shape flat = tutti_shape_flat(n);

        case_factorings(&flat, n, visit_hierarchy, &number);
    }
    printf("%u hierarchies\n", number);
}

/* The plain ring again, in slices and pieces that differ in size: pieces one after another. */
TEST(rings_of_uneven_pieces_and_slices)
{
    for (uint32_t n = 2; n <= CASE_RANKS_MAX; n++) {
        for (uint32_t i = 0; i < 4; i++) {
            struct nest nest = {.n = n, .axis_count = 1, .size = {n}, .stride = {1}};
            struct tutti_shape shape = tutti_shape_flat(n);
            struct tutti_topo *topo;
            uint64_t pieces = 1 + i;
            uint64_t count = pieces * n * (50 + 100 * i) - n / 2;
            struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                               .dtype = TUTTI_FLOAT32,
                                               .count = count,
                                               .slice_count = 1 + (n + i) % 3};

            nest.cost[0] = cost_number((n + i) % COST_COUNT, TUTTI_HOP_NVLINK);
            nest.slices = params.slice_count;
            params.chunk_bytes = (50 + 100 * i) * ELEMENT_BYTES;
            for (uint64_t p = 0; p < pieces; p++) {
                for (uint32_t r = 0; r < n; r++)
                    nest.count[r] = part(count, p, pieces);
                go_round(&nest, 0, 2 * (n - 1), 1);
            }
            topo = machine_switch(n, &nest.cost[0]);
            expect(topo, "ring", &params, &shape, &nest.cost[0],
                   launch(&nest.cost[0]) + latest_of(nest.clocks, n));
            tutti_topo_free(topo);
        }
    }
}

/* ---- tori ------------------------------------------------------------------------------------ */

/* A cable to the next rank along each axis, and around; one where an axis has two ranks. */
static struct tutti_topo *machine_torus(const struct nest *nest)
{
    struct tutti_topo_builder *builder = machine_begin(nest->n, 0);

    for (uint32_t axis = 0; axis < nest->axis_count; axis++)
        for (uint32_t r = 0; r < nest->n; r++)
            if (nest->size[axis] > 2 || coordinate(nest, axis, r) == 0)
                machine_cable(builder, r, neighbour(nest, axis, r, 1), &nest->cost[0],
                              nest->cost[0].latency_ps);
    return machine_end(builder);
}

/* D axes of d > 2 each, c cut into 2D parts: all are in step, each on links of its own, so one
 * stands for all: the longest (Jain & Sabharwal 2010). */
static void ask_torus(uint32_t d, uint32_t axes, uint64_t count, unsigned number)
{
    struct tutti_shape shape = tutti_shape_flat(1);
    struct cost cost = cost_number(number, TUTTI_HOP_NVLINK);
    struct tutti_topo *topo;
    struct nest nest;
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .count = count};
    tutti_ps time;

    for (uint32_t i = 0; i < axes; i++) {
        case_add(&shape, d);
        shape.rank_count *= d;
    }
    nest = nest_of(&shape, number);
    for (uint32_t i = 0; i < axes; i++)
        nest.cost[i] = cost;
    topo = machine_torus(&nest);
    time = nested(&nest, up(count, UINT64_C(2) * axes));
    expect(topo, "torus", &params, &shape, &cost, launch(&cost) + time);
    if (count % (2 * axes * nest.n) == 0)
        expect(topo, "torus", &params, &shape, &cost,
               launch(&cost) + sum_of_levels(&nest, count / (2 * axes)));
    tutti_topo_free(topo);
}

TEST(tori_of_equal_axes)
{
    for (unsigned i = 0; i < COST_COUNT; i++) {
        for (uint32_t d = 3; d <= CASE_RANKS_MAX; d++)
            ask_torus(d, 1, i % 2 == 0 ? 240 * d : size_number(i / 2, d), i);
        for (uint32_t d = 3; d * d <= CASE_RANKS_MAX; d++)
            ask_torus(d, 2, 4 * UINT64_C(100) * d * d, i);
        for (uint32_t d = 3; d * d * d <= CASE_RANKS_MAX; d++)
            ask_torus(d, 3, 6 * UINT64_C(100) * d * d * d, i);
    }
}

/* Axes of two: the two parts that begin with an axis share its cable, one just behind the other,
 * for L hops inwards and L outwards of c/2L over 2, 4, ..., 2^L. All cables do the same: one stands
 * for all, also for the next that a part goes on to. */
TEST(hypercubes)
{
    for (uint32_t log = 1; log <= 6; log++) {
        for (unsigned i = 0; i < COST_COUNT; i++) {
            struct tutti_shape shape = tutti_shape_flat(UINT32_C(1) << log);
            struct cost cost = cost_number(i, TUTTI_HOP_NVLINK);
            uint64_t share = UINT64_C(640) << (i + log);
            struct tutti_coll_params params = {
                .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .count = 2 * log * share};
            tutti_ps ready[2] = {0, 0};
            tutti_ps link_free = 0;
            struct tutti_topo *topo;
            struct nest nest;

            for (uint32_t axis = 0; axis < log; axis++)
                case_add(&shape, 2);
            nest = nest_of(&shape, i);
            nest.cost[0] = cost;
            topo = machine_torus(&nest);
            for (uint32_t hop = 0; hop < 2 * log; hop++) {
                uint32_t depth = hop < log ? hop + 1 : 2 * log - hop;

                for (uint32_t way = 0; way < 2; way++) {
                    link_free = later(link_free, ready[way]) + beta(&cost, share >> depth);
                    ready[way] = link_free + alpha(&cost);
                }
            }
            expect(topo, "torus", &params, &shape, &cost, launch(&cost) + ready[1]);
            tutti_topo_free(topo);
        }
    }
}

/* Axes of different lengths get out of step and meet on links: no form for their bytes, but empty
 * messages show the hops: 2 sum (d - 1) a. */
static void visit_torus(const struct tutti_shape *shape, void *user)
{
    unsigned *number = user;
    struct nest nest = nest_of(shape, *number % COST_COUNT);
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32};
    struct tutti_topo *topo = machine_torus(&nest);

    for (uint32_t axis = 0; axis < nest.axis_count; axis++)
        nest.cost[axis] = nest.cost[0];
    expect(topo, "torus", &params, shape, &nest.cost[0],
           launch(&nest.cost[0]) + sum_of_levels(&nest, 0));
    tutti_topo_free(topo);
    ++*number;
}

TEST(hops_of_any_torus)
{
    unsigned number = 0;

    for (uint32_t n = 2; n <= CASE_RANKS_MAX; n++) {
        struct tutti_shape flat = tutti_shape_flat(n);

        case_factorings(&flat, n, visit_torus, &number);
    }
    printf("%u tori\n", number);
}

/* ---- folded exchanges ------------------------------------------------------------------------ */

/* 2^L members; the first `surplus` of them stand for another rank too. */
struct folded {
    uint32_t log;
    uint32_t members;
    uint32_t surplus;
    struct cost cost;
    struct clock clock[CASE_RANKS_MAX];
    tutti_ps ended[CASE_RANKS_MAX]; /* of the surplus ranks */
};

static struct folded fold_in(uint32_t n, uint64_t elements, const struct cost *cost)
{
    struct folded f = {.members = 1, .cost = *cost};

    while (f.members * 2 <= n) {
        f.members *= 2;
        f.log++;
    }
    f.surplus = n - f.members;
    for (uint32_t m = 0; m < f.surplus; m++) {
        struct clock other = {.now = 0};

        f.clock[m].now = sends(&other, elements, cost);
    }
    return f;
}

static tutti_ps fold_out(struct folded *f, uint64_t elements)
{
    tutti_ps latest = latest_of(f->clock, f->members);

    for (uint32_t m = 0; m < f->surplus; m++)
        latest = later(latest, sends(&f->clock[m], elements, &f->cost));
    return latest;
}

/* All members exchange with the partner `distance` away; m sends elements[m]. */
static void exchange(struct folded *f, uint32_t distance, const uint64_t *elements)
{
    tutti_ps arrival[CASE_RANKS_MAX];

    for (uint32_t m = 0; m < f->members; m++)
        arrival[m ^ distance] = sends(&f->clock[m], elements[m], &f->cost);
    for (uint32_t m = 0; m < f->members; m++)
        f->clock[m].now = later(f->clock[m].now, arrival[m]);
}

/* Sums alternate between two places: one is written again only when the partner of the exchange
 * before has read what it held (the first exchange of a member that is not folded sends `in`). */
static tutti_ps recursive_doubling(uint32_t n, uint64_t c, const struct cost *cost)
{
    struct folded f = fold_in(n, c, cost);
    uint64_t elements[CASE_RANKS_MAX];
    tutti_ps before[CASE_RANKS_MAX];

    for (uint32_t m = 0; m < f.members; m++)
        elements[m] = c;
    for (uint32_t k = 0; k < f.log; k++) {
        for (uint32_t m = 0; m < f.members; m++)
            before[m] = f.clock[m].now;
        exchange(&f, UINT32_C(1) << k, elements);
        for (uint32_t m = 0; m < f.members; m++)
            if (k >= 2 || (k == 1 && m < f.surplus))
                f.clock[m].now = later(f.clock[m].now, before[m ^ (UINT32_C(1) << (k - 1))]);
    }
    return fold_out(&f, c);
}

/* Rabenseifner: halving k splits on bit k of the member's number, doubling goes back the same way.
 */
static uint64_t half_of(const struct folded *f, uint64_t c, uint32_t member, uint32_t halvings)
{
    uint64_t low = 0;
    uint64_t width = f->members;

    for (uint32_t j = 0; j < halvings; j++) {
        width /= 2;
        low += (member >> j & 1) * width;
    }
    return c * (low + width) / f->members - c * low / f->members;
}

static tutti_ps rabenseifner(uint32_t n, uint64_t c, const struct cost *cost)
{
    struct folded f = fold_in(n, c, cost);
    uint64_t elements[CASE_RANKS_MAX];

    for (uint32_t k = 0; k < f.log; k++) {
        for (uint32_t m = 0; m < f.members; m++)
            elements[m] = half_of(&f, c, m ^ (UINT32_C(1) << k), k + 1);
        exchange(&f, UINT32_C(1) << k, elements);
    }
    for (uint32_t k = f.log; k-- > 0;) {
        for (uint32_t m = 0; m < f.members; m++)
            elements[m] = half_of(&f, c, m, k + 1);
        exchange(&f, UINT32_C(1) << k, elements);
    }
    return fold_out(&f, c);
}

/* Recursive halving of n blocks of c: a member that stands for another has that one's block too. */
static tutti_ps recursive_halving(uint32_t n, uint64_t c, const struct cost *cost)
{
    struct folded f = fold_in(n, n * c, cost);
    uint64_t elements[CASE_RANKS_MAX];

    for (uint32_t width = f.members / 2; width > 0; width /= 2) {
        for (uint32_t m = 0; m < f.members; m++) {
            uint32_t low = (m ^ width) / width * width; /* of the half that the partner keeps */

            elements[m] = 0;
            for (uint32_t i = low; i < low + width; i++)
                elements[m] += i < f.surplus ? 2 * c : c;
        }
        exchange(&f, width, elements);
    }
    return fold_out(&f, c);
}

static const struct {
    const char *name;
    enum tutti_collective collective;
    tutti_ps (*time)(uint32_t n, uint64_t c, const struct cost *cost);
} folds[] = {
    {"recursive-doubling", TUTTI_ALLREDUCE, recursive_doubling},
    {"halving-doubling", TUTTI_ALLREDUCE, rabenseifner},
    {"halving", TUTTI_REDUCESCATTER, recursive_halving},
};

TEST(folded_exchanges_of_any_number_of_ranks)
{
    for (uint32_t n = 2; n <= CASE_RANKS_MAX; n++) {
        for (unsigned i = 0; i < COST_COUNT; i++) {
            struct cost cost = cost_number(i, TUTTI_HOP_NVLINK);
            struct tutti_topo *topo = machine_switch(n, &cost);
            struct tutti_shape shape = tutti_shape_flat(n);

            for (size_t a = 0; a < sizeof(folds) / sizeof(folds[0]); a++) {
                for (unsigned s = 0; s < FORM_SIZES; s++) {
                    struct tutti_coll_params params = {.collective = folds[a].collective,
                                                       .dtype = TUTTI_FLOAT32,
                                                       .count = size_number(s, n)};

                    expect(topo, folds[a].name, &params, &shape, &cost,
                           launch(&cost) + folds[a].time(n, params.count, &cost));
                }
            }
            tutti_topo_free(topo);
        }
    }
}
