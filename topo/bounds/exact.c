/* Bounds by flows. A least cut is a largest flow, so the worst of all 2^n sets of devices is found
 * by as many flows as there are devices; with integers only, so that it is that set, and no other.
 *
 * All-gather: no set S of devices and switches may have more to send than its links take in time
 *   T: |S| m <= T out(S), for each S that leaves a device out. From a source that is joined to each
 *   device by rate m / T, each device must get all n of those (ForestColl, Zhao et al. 2024). We
 *   begin with the T of a cut; a device that gets less shows a cut with a larger T, so we go on
 *   with that one (Newton, Dinkelbach 1967), until all devices get all. No rounding anywhere.
 *   Reduce-scatter: the same against the links. n flows and a few more.
 *   Reached: by trees that fill the links (Edmonds 1973), and where there are switches that only
 *   forward, by pairing what enters and leaves each (Bang-Jensen, Frank, Jackson 1995; ForestColl),
 *   for which as much must leave each node as enters.
 * Broadcast: the least cut between the root and another device; reduce: the reverse. n flows;
 *   reached as above.
 * All-reduce, devices wired directly and as fast back as there: the partition with the least rate
 *   between the k groups for each group beyond the first; reached by packing trees (Tutte,
 *   Nash-Williams 1961). With x(B) <= cut(B) / 2 - rate for all sets B of devices up to v, x(v) is
 *   as large as it can be by one least cut; sets that are full are joined, and they are the best
 *   partition for that rate (Dilworth's truncation; Cunningham 1985, Barahona 1992). Newton again;
 *   n flows a turn, two or three turns.
 * All-reduce, otherwise: what all devices have must leave each set, and enter it: the least cut
 *   between any two, n flows there and back. If an all-gather takes at most half of the bound, then
 *   a reduce-scatter and an all-gather reach it: n flows again. */
#include "topo/bounds/exact.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "topo/bounds/max_flow.h"

/* Flows times links, at most: about a tenth of a second. */
#define EFFORT_MAX (UINT64_C(1) << 22)

struct work {
    const struct tutti_topo *topo;
    struct tutti_exact *bound;
    struct tutti_max_flow flow;
    bool *side;               /* [node_count]: of a cut */
    struct tutti_wide *level; /* [node_count]: x of the trees; negative: 2^128 less */
    uint32_t *group;          /* [node_count]: union-find of what is full */
};

/* ---- numbers -------------------------------------------------------------------------------- */

static struct tutti_wide common_divisor(struct tutti_wide a, struct tutti_wide b)
{
    while (!tutti_wide_is_zero(b)) {
        struct tutti_wide rest;

        (void)tutti_wide_divide(a, b, &rest);
        a = b;
        b = rest;
    }
    return a;
}

/* Sets the bound, in lowest terms. */
static void set_bound(struct tutti_exact *bound, struct tutti_wide bytes,
                      struct tutti_wide bytes_per_s)
{
    struct tutti_wide divisor = common_divisor(bytes, bytes_per_s);
    struct tutti_wide rest;

    bound->bytes = tutti_wide_divide(bytes, divisor, &rest);
    bound->bytes_per_s = tutti_wide_divide(bytes_per_s, divisor, &rest);
}

static bool is_more(const struct tutti_exact *bound, uint64_t bytes, struct tutti_wide bytes_per_s)
{
    struct tutti_wide left = tutti_wide_times(bound->bytes_per_s, bytes);
    struct tutti_wide right;

    (void)tutti_wide_multiply(bound->bytes, bytes_per_s, &right);
    return tutti_wide_less(right, left);
}

static bool is_negative(struct tutti_wide value)
{
    return value.high >> 63 != 0;
}

/* ---- cuts ----------------------------------------------------------------------------------- */

/* Takes the side that the last flow came from as the set, without what is no node of the machine.
 */
static void take_side(struct work *work)
{
    for (uint32_t v = 0; v < work->topo->node_count; v++)
        work->side[v] = work->flow.level[v] != TUTTI_MAX_FLOW_NONE;
}

static uint32_t ranks_of_side(const struct work *work)
{
    uint32_t count = 0;

    for (uint32_t r = 0; r < work->topo->rank_count; r++)
        count += work->side[tutti_topo_rank_node(work->topo, r)];
    return count;
}

/* What leaves the side, or enters it. */
static struct tutti_wide rate_of_side(const struct work *work, bool inward)
{
    struct tutti_wide sum = {.high = 0};

    for (uint32_t l = 0; l < work->topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(work->topo, l);

        if (work->side[link.from] != work->side[link.to] && work->side[link.to] == inward)
            sum = tutti_wide_add_word(sum, link.bytes_per_s);
    }
    return sum;
}

static struct tutti_bound_group group_of_side(const struct work *work)
{
    const struct tutti_topo *topo = work->topo;
    struct tutti_bound_group group = {.first = UINT32_MAX};

    for (uint32_t r = topo->rank_count; r-- > 0;) {
        if (!work->side[tutti_topo_rank_node(topo, r)])
            continue;
        group.rank_count++;
        group.first = r;
    }
    for (uint32_t l = 0; l < topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(topo, l);

        if (work->side[link.from] == work->side[link.to])
            continue;
        if (work->side[link.from]) {
            group.out = tutti_plus(group.out, link.bytes_per_s);
            group.link_count++;
            group.link_kinds |= 1u << link.kind;
            group.link_out = l;
        } else {
            group.in = tutti_plus(group.in, link.bytes_per_s);
            group.link_in_count++;
            group.link_in = l;
        }
    }
    return group;
}

/* Raises the bound to that of the side; names whichever side has fewer ranks. */
static void raise_to_side(struct work *work, uint64_t bytes, bool inward)
{
    const struct tutti_topo *topo = work->topo;
    struct tutti_exact *bound = work->bound;

    set_bound(bound, tutti_wide_of(bytes), rate_of_side(work, inward));
    if (2 * ranks_of_side(work) > topo->rank_count) {
        for (uint32_t v = 0; v < topo->node_count; v++)
            work->side[v] = !work->side[v];
        inward = !inward;
    }
    bound->binding = (struct tutti_binding){
        .member = {.kind = TUTTI_FAMILY_SET},
        .group = group_of_side(work),
        .group_count = 2,
        .inward = inward,
    };
}

/* The links of the machine, each `scale` times its rate; backward: turned round. */
static void lay_links(struct work *work, struct tutti_wide scale, bool backward)
{
    tutti_max_flow_clear(&work->flow);
    for (uint32_t l = 0; l < work->topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(work->topo, l);

        tutti_max_flow_add(&work->flow, backward ? link.to : link.from,
                           backward ? link.from : link.to,
                           tutti_wide_times(scale, link.bytes_per_s), tutti_wide_of(0));
    }
}

/* ---- all-gather, reduce-scatter -------------------------------------------------------------- */

static void lay_gather(struct work *work, const struct tutti_exact *bound, bool backward)
{
    const struct tutti_topo *topo = work->topo;

    lay_links(work, bound->bytes, backward);
    for (uint32_t r = 0; r < topo->rank_count; r++)
        tutti_max_flow_add(&work->flow, topo->node_count, tutti_topo_rank_node(topo, r),
                           bound->bytes_per_s, tutti_wide_of(0));
}

/* Does rank r get all in the time of the bound? */
static bool gets_all(struct work *work, const struct tutti_exact *bound, uint32_t rank)
{
    struct tutti_wide got = tutti_max_flow_between(&work->flow, work->topo->node_count,
                                                   tutti_topo_rank_node(work->topo, rank));

    return tutti_wide_equal(got, tutti_wide_times(bound->bytes_per_s, work->topo->rank_count));
}

static void raise_gather(struct work *work, bool backward)
{
    const struct tutti_topo *topo = work->topo;

    lay_gather(work, work->bound, backward);
    for (uint32_t r = 0; r < topo->rank_count;) {
        if (gets_all(work, work->bound, r)) {
            r++;
            continue;
        }
        take_side(work);
        assert(is_more(work->bound, ranks_of_side(work), rate_of_side(work, backward)));
        raise_to_side(work, ranks_of_side(work), backward);
        lay_gather(work, work->bound, backward);
    }
}

/* Does an all-gather of the n-th part of each block take at most half of the bound? */
static bool gathers_in_half(struct work *work, bool backward)
{
    struct tutti_exact half = *work->bound;

    set_bound(&half, tutti_wide_times(half.bytes, work->topo->rank_count),
              tutti_wide_times(half.bytes_per_s, 2));
    lay_gather(work, &half, backward);
    for (uint32_t r = 0; r < work->topo->rank_count; r++)
        if (!gets_all(work, &half, r))
            return false;
    return true;
}

/* ---- broadcast, reduce, and any all-reduce --------------------------------------------------- */

/* All that one device has must reach each other one; backward: come from it. */
static void raise_between(struct work *work, uint32_t root, bool backward)
{
    const struct tutti_topo *topo = work->topo;

    lay_links(work, tutti_wide_of(1), backward);
    for (uint32_t r = 0; r < topo->rank_count; r++) {
        struct tutti_wide rate;

        if (r == root)
            continue;
        rate = tutti_max_flow_between(&work->flow, tutti_topo_rank_node(topo, root),
                                      tutti_topo_rank_node(topo, r));
        if (!is_more(work->bound, 1, rate))
            continue;
        take_side(work);
        raise_to_side(work, 1, backward);
    }
}

/* ---- all-reduce by trees --------------------------------------------------------------------- */

static uint32_t find(uint32_t *group, uint32_t v)
{
    while (group[v] != v)
        v = group[v] = group[group[v]];
    return v;
}

/* x(v) = min over the sets B of v and lower nodes of bytes * cut(B) - 2 * rate - x(the others in
 * B); what is in B is full then, and joined. */
static void fill_node(struct work *work, uint32_t v)
{
    const struct tutti_topo *topo = work->topo;
    struct tutti_max_flow *flow = &work->flow;
    uint32_t outside = topo->node_count;
    struct tutti_wide gains = {.high = 0};
    struct tutti_wide twice = tutti_wide_times(work->bound->bytes_per_s, 2);
    struct tutti_wide most;
    const struct tutti_wide none = {.high = 0};

    tutti_max_flow_clear(flow);
    for (uint32_t l = 0; l < topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(topo, l);

        if (link.from <= v)
            tutti_max_flow_add(flow, link.from, link.to <= v ? link.to : outside,
                               tutti_wide_times(work->bound->bytes, link.bytes_per_s), none);
    }
    for (uint32_t u = 0; u < v; u++) {
        if (is_negative(work->level[u])) {
            tutti_max_flow_add(flow, u, outside, tutti_wide_subtract(none, work->level[u]), none);
        } else if (!tutti_wide_is_zero(work->level[u])) {
            tutti_max_flow_add(flow, v, u, work->level[u], none);
            gains = tutti_wide_add(gains, work->level[u]);
        }
    }
    most = tutti_max_flow_between(flow, v, outside);
    work->level[v] = tutti_wide_subtract(tutti_wide_subtract(most, gains), twice);
    for (uint32_t u = 0; u < v; u++)
        if (flow->level[u] != TUTTI_MAX_FLOW_NONE)
            work->group[find(work->group, u)] = find(work->group, v);
}

/* Raises the bound to that of the groups that are full; false: it is no better. */
static bool raise_to_groups(struct work *work)
{
    const struct tutti_topo *topo = work->topo;
    uint32_t count = 0;
    struct tutti_wide rate = {.high = 0};

    for (uint32_t v = 0; v < topo->node_count; v++)
        count += find(work->group, v) == v;
    for (uint32_t l = 0; l < topo->link_count; l++)
        if (find(work->group, tutti_topo_link(topo, l).from) !=
            find(work->group, tutti_topo_link(topo, l).to))
            rate = tutti_wide_add_word(rate, tutti_topo_link(topo, l).bytes_per_s);
    if (count < 2 || !is_more(work->bound, UINT64_C(2) * (count - 1), rate))
        return false;
    set_bound(work->bound, tutti_wide_of(UINT64_C(2) * (count - 1)), rate);
    work->bound->binding = (struct tutti_binding){
        .member = {.kind = count < topo->node_count ? TUTTI_FAMILY_SET : TUTTI_FAMILY_DEVICES},
        .group = {.rank_count = 2}, /* none in particular */
        .group_count = count,
        .together = tutti_wide_word(rate),
        .all_groups = true,
    };
    return true;
}

static void raise_trees(struct work *work)
{
    do {
        for (uint32_t v = 0; v < work->topo->node_count; v++)
            work->group[v] = v;
        for (uint32_t v = 0; v < work->topo->node_count; v++)
            fill_node(work, v);
    } while (raise_to_groups(work));
}

/* ---- what applies ---------------------------------------------------------------------------- */

/* Is there between any two nodes as much back as there? Links of more than one kind may lie between
 * two, so sums are compared, node by node. */
static bool is_both_ways(struct work *work)
{
    const struct tutti_topo *topo = work->topo;

    for (uint32_t v = 0; v < topo->node_count; v++) {
        for (uint32_t u = 0; u < topo->node_count; u++)
            work->level[u] = tutti_wide_of(0);
        for (uint32_t l = 0; l < topo->link_count; l++) {
            struct tutti_link link = tutti_topo_link(topo, l);
            struct tutti_wide rate = tutti_wide_of(link.bytes_per_s);

            if (link.from == v)
                work->level[link.to] = tutti_wide_add(work->level[link.to], rate);
            if (link.to == v)
                work->level[link.from] = tutti_wide_subtract(work->level[link.from], rate);
        }
        for (uint32_t u = 0; u < topo->node_count; u++)
            if (!tutti_wide_is_zero(work->level[u]))
                return false;
    }
    return true;
}

/* As much leaves each node as enters it. */
static bool is_balanced(struct work *work)
{
    const struct tutti_topo *topo = work->topo;

    for (uint32_t v = 0; v < topo->node_count; v++)
        work->level[v] = tutti_wide_of(0);
    for (uint32_t l = 0; l < topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(topo, l);
        struct tutti_wide rate = tutti_wide_of(link.bytes_per_s);

        work->level[link.from] = tutti_wide_add(work->level[link.from], rate);
        work->level[link.to] = tutti_wide_subtract(work->level[link.to], rate);
    }
    for (uint32_t v = 0; v < topo->node_count; v++)
        if (!tutti_wide_is_zero(work->level[v]))
            return false;
    return true;
}

static void raise_allreduce(struct work *work, bool direct)
{
    bool both_ways = is_both_ways(work);

    if (direct && both_ways) {
        raise_trees(work);
        work->bound->exact = true;
        return;
    }
    raise_between(work, 0, false);
    if (!both_ways)
        raise_between(work, 0, true);
    work->bound->exact = (direct || both_ways || is_balanced(work)) &&
                         gathers_in_half(work, false) && (both_ways || gathers_in_half(work, true));
}

static void raise(struct work *work, enum tutti_collective collective, uint32_t root)
{
    bool direct = work->topo->node_count == work->topo->rank_count;
    bool backward = collective == TUTTI_REDUCESCATTER || collective == TUTTI_REDUCE_TO_ROOT;

    switch (collective) {
    case TUTTI_ALLGATHER:
    case TUTTI_REDUCESCATTER:
        raise_gather(work, backward);
        work->bound->exact = direct || is_balanced(work);
        break;
    case TUTTI_BROADCAST:
    case TUTTI_REDUCE_TO_ROOT:
        raise_between(work, root, backward);
        work->bound->exact = direct || is_balanced(work);
        break;
    case TUTTI_ALLREDUCE:
        raise_allreduce(work, direct);
        break;
    default:
        break;
    }
}

static bool is_affordable(const struct tutti_topo *topo, enum tutti_collective collective)
{
    uint64_t turns = collective == TUTTI_ALLREDUCE ? 2 : 1;

    return turns * topo->rank_count * (topo->link_count + (uint64_t)topo->rank_count) <= EFFORT_MAX;
}

int tutti_exact_raise(const struct tutti_topo *topo, enum tutti_collective collective,
                      uint32_t root, struct tutti_exact *bound, struct tutti_err *err)
{
    struct work work = {.topo = topo, .bound = bound};
    int status;

    if (!is_affordable(topo, collective))
        return 0;
    status = tutti_max_flow_open(&work.flow, topo->node_count + 1,
                                 topo->link_count + topo->node_count, err);
    if (status < 0)
        return status;
    work.side = calloc(topo->node_count, sizeof(*work.side));
    work.level = calloc(topo->node_count, sizeof(*work.level));
    work.group = calloc(topo->node_count, sizeof(*work.group));
    if (work.side == NULL || work.level == NULL || work.group == NULL) {
        status = tutti_nomem(err);
    } else {
        set_bound(bound, bound->bytes, bound->bytes_per_s);
        raise(&work, collective, root);
    }
    free(work.side);
    free(work.level);
    free(work.group);
    tutti_max_flow_close(&work.flow);
    return status;
}
