/* Lower bounds on collectives: what must cross the cuts of many partitions, and the latency.
 *
 * M: bytes of a rank's buffer. A partition of the ranks into k groups, where group p can send
 * out(p) and take in(p) bytes a second:
 *   all-reduce  T >= M / min(out(p), in(p)) for each p, always; and where no switch between the
 *               groups reduces or multicasts, T >= 2(k-1) M / min(sum out, sum in): each element
 *               is a gossip of k parties by one-way messages, which takes 2k-2 of them (telegraph
 *               gossip), and each leaves one group and enters one
 *   all-gather  what p has must leave it, what it has not must enter (ForestColl's cuts);
 *               reduce-scatter: the reverse, also where switches reduce, as what comes from several
 *               groups and goes to p enters it at least once
 *   broadcast   M must leave the root's group and enter each other one; reduce: the reverse
 *   all-to-all  M/n from each rank to each
 * Any partition gives a bound that holds. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "topo/bounds/binding.h"
#include "topo/bounds/exact.h"
#include "topo/bounds/family.h"
#include "topo/bounds/known.h"
#include "topo/bounds/latency.h"
#include "topo/topo.h"

struct best {
    const struct tutti_topo *topo;
    enum tutti_collective collective;
    uint32_t root;
    struct tutti_exact bound;
};

/* bytes / rate, rounded down, so that it stays a bound. Both are cut to 80 bits, likewise. */
static tutti_ps time_at_least(struct tutti_wide bytes, struct tutti_wide bytes_per_s)
{
    struct tutti_wide rest;
    uint64_t seconds;
    uint64_t ps;

    if (tutti_wide_is_zero(bytes_per_s))
        return 0;
    while (bytes_per_s.high >> 16 != 0) {
        bytes_per_s = tutti_wide_add_word(tutti_wide_half(bytes_per_s), 1);
        bytes = tutti_wide_half(bytes);
    }
    seconds = tutti_wide_word(tutti_wide_divide(bytes, bytes_per_s, &rest));
    rest = tutti_wide_divide(tutti_wide_times(rest, TUTTI_PS_PER_S), bytes_per_s, &rest);
    ps = tutti_plus(tutti_times(seconds, TUTTI_PS_PER_S), rest.low); /* less than a second */
    return ps > INT64_MAX ? INT64_MAX : (tutti_ps)ps;
}

/* Of a block of `bytes`; where that many bytes cannot be counted, of as many as can. */
static tutti_ps time_of(const struct tutti_bound_law *law, uint64_t bytes)
{
    struct tutti_wide all;

    if (tutti_wide_multiply(law->bytes, tutti_wide_of(bytes), &all))
        all = (struct tutti_wide){.high = UINT64_MAX, .low = UINT64_MAX};
    return time_at_least(all, law->bytes_per_s);
}

/* value / 2, rounded up. */
static struct tutti_wide half_up(struct tutti_wide value)
{
    return tutti_wide_add_word(tutti_wide_half(value), value.low & 1);
}

/* Is a/b more than c/d? Where the products overflow, by the upper bits: then equal is not more. */
static bool is_more(struct tutti_wide a, struct tutti_wide b, struct tutti_wide c,
                    struct tutti_wide d)
{
    struct tutti_wide left;
    struct tutti_wide right;

    while (tutti_wide_multiply(a, d, &left) || tutti_wide_multiply(c, b, &right)) {
        a = tutti_wide_half(a);
        b = half_up(b);
        c = tutti_wide_half(c);
        d = half_up(d);
    }
    return tutti_wide_less(right, left);
}

struct crossing {
    const struct tutti_partition *partition;
    const struct tutti_family_member *member;
    struct best *best;
    bool alike;
    bool even;
};

static void consider(const struct crossing *at, const struct tutti_bound_group *group,
                     uint64_t bytes, struct tutti_wide rate, bool inward)
{
    struct tutti_exact *bound = &at->best->bound;

    if (tutti_wide_is_zero(rate) || bytes == 0 ||
        (!tutti_wide_is_zero(bound->bytes_per_s) &&
         !is_more(tutti_wide_of(bytes), rate, bound->bytes, bound->bytes_per_s)))
        return;
    bound->bytes = tutti_wide_of(bytes);
    bound->bytes_per_s = rate;
    bound->binding = (struct tutti_binding){
        .member = *at->member,
        .group = group != NULL ? *group : at->partition->groups[0],
        .group_count = at->partition->group_count,
        .together = tutti_wide_word(rate),
        .all_groups = group == NULL,
        .inward = inward,
        .alike = at->alike,
        .even = at->even,
    };
}

/* Bytes that must leave and enter one group, of each byte of a rank's block. */
static void needs_of(const struct best *best, const struct tutti_bound_group *group, uint64_t *out,
                     uint64_t *in)
{
    uint64_t size = group->rank_count;
    uint64_t others = best->topo->rank_count - group->rank_count;

    *out = *in = 0;
    switch (best->collective) {
    case TUTTI_ALLREDUCE:
        *out = *in = 1;
        break;
    case TUTTI_ALLGATHER:
        *out = size;
        *in = others;
        break;
    case TUTTI_REDUCESCATTER:
        *out = others;
        *in = size;
        break;
    case TUTTI_BROADCAST:
        *(group->has_root ? out : in) = 1;
        break;
    case TUTTI_REDUCE_TO_ROOT:
        *(group->has_root ? in : out) = 1;
        break;
    case TUTTI_ALLTOALL:
        *out = *in = size * others;
        break;
    case TUTTI_SENDRECV:
        *out = *in = group->follow_count;
        break;
    case TUTTI_BARRIER:
    case TUTTI_CUSTOM:
    case TUTTI_COLLECTIVE_COUNT:
        break;
    }
}

static bool groups_alike(const struct tutti_partition *partition)
{
    for (uint32_t g = 0; g < partition->kind_count; g++)
        if (partition->groups[g].out != partition->groups[0].out ||
            partition->groups[g].in != partition->groups[0].out)
            return false;
    return true;
}

static bool groups_even(const struct tutti_partition *partition)
{
    for (uint32_t g = 0; g < partition->kind_count; g++)
        if (partition->groups[g].rank_count != partition->groups[0].rank_count)
            return false;
    return true;
}

static void weigh(const struct tutti_partition *partition, const struct tutti_family_member *member,
                  void *context)
{
    struct best *best = context;
    struct crossing at = {.partition = partition,
                          .member = member,
                          .best = best,
                          .alike = groups_alike(partition),
                          .even = groups_even(partition)};

    if (best->collective == TUTTI_ALLREDUCE && !partition->between_reduces) {
        uint64_t bytes = UINT64_C(2) * (partition->group_count - 1);

        consider(&at, NULL, bytes, partition->out, false);
        consider(&at, NULL, bytes, partition->in, true);
    }
    for (uint32_t g = 0; g < partition->kind_count; g++) {
        const struct tutti_bound_group *group = &partition->groups[g];
        uint64_t out;
        uint64_t in;

        needs_of(best, group, &out, &in);
        if (group->out != UINT64_MAX) /* else it is not known how much more */
            consider(&at, group, out, tutti_wide_of(group->out), false);
        if (group->in != UINT64_MAX)
            consider(&at, group, in, tutti_wide_of(group->in), true);
    }
}

static int refuse(const struct tutti_topo *topo, enum tutti_collective collective, uint32_t root,
                  struct tutti_err *err)
{
    bool rooted = tutti_collective_is_rooted(collective);

    if ((unsigned)collective >= TUTTI_CUSTOM)
        return tutti_fail(err, TUTTI_EINVAL,
                          "no bound for a schedule without a contract (a collective has one)");
    if (rooted && root >= topo->rank_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "root %" PRIu32 " of %" PRIu32 " ranks (0 to %" PRIu32 ")", root,
                          topo->rank_count, topo->rank_count - 1);
    return 0;
}

/* The best over the family may be proved to be the best of all; else flows find that. */
static int raise(struct best *best, struct tutti_err *err)
{
    struct tutti_exact *bound = &best->bound;
    int status = tutti_bound_is_reached(best->topo, best->collective,
                                        tutti_wide_double(bound->bytes) /
                                            tutti_wide_double(bound->bytes_per_s),
                                        &bound->exact, err);

    if (status < 0 || bound->exact)
        return status;
    return tutti_exact_raise(best->topo, best->collective, best->root, bound, err);
}

/* burst / rate of the link where it is most, rounded up. */
static tutti_ps most_burst_ps(const struct tutti_topo *topo)
{
    struct tutti_link links[TUTTI_LINK_BLOCK];
    tutti_ps most = 0;

    for (uint32_t first = 0; topo->has_bursts && first < topo->link_count;
         first += TUTTI_LINK_BLOCK) {
        uint32_t count = tutti_topo_links(topo, first, links, TUTTI_LINK_BLOCK);

        for (uint32_t i = 0; i < count; i++) {
            tutti_ps burst_ps = tutti_wire_ps(links[i].burst_bytes, links[i].bytes_per_s);

            most = burst_ps > most ? burst_ps : most;
        }
    }
    return most;
}

int tutti_topo_bound_law(const struct tutti_topo *topo, enum tutti_collective collective,
                         uint32_t root, struct tutti_bound_law *ret, struct tutti_err *err)
{
    struct tutti_bound_law law = {.exact = false};
    struct best best = {.topo = topo, .collective = collective, .root = root};
    const struct tutti_exact *bound = &best.bound;
    struct tutti_latency latency = {0};
    int status = refuse(topo, collective, root, err);

    if (status == 0 && topo->rank_count > 1)
        status = tutti_latency_bound(topo, collective, root, &latency, err);
    if (status == 0 && topo->rank_count > 1 && collective != TUTTI_BARRIER)
        status = tutti_family_visit(topo, root, weigh, &best, err);
    if (status == 0 && !tutti_wide_is_zero(bound->bytes_per_s))
        status = raise(&best, err);
    if (status < 0)
        return status;
    law.rank_count = topo->rank_count;
    law.exact = bound->exact;
    law.bytes = bound->bytes;
    law.bytes_per_s = bound->bytes_per_s;
    law.latency_ps = latency.latency_ps;
    law.burst_ps = most_burst_ps(topo);
    if (!tutti_wide_is_zero(bound->bytes_per_s))
        tutti_binding_name(topo, &bound->binding, law.rates_bind, sizeof(law.rates_bind));
    (void)snprintf(law.latency_binds, sizeof(law.latency_binds),
                   "latency from rank %" PRIu32 " to rank %" PRIu32, latency.from, latency.to);
    law.moves = collective != TUTTI_BARRIER;
    *ret = law;
    return 0;
}

struct tutti_bound_law tutti_bound_law_none(const struct tutti_topo *topo)
{
    return (struct tutti_bound_law){.rank_count = topo->rank_count, .moves = true};
}

int tutti_bound_law_at(const struct tutti_bound_law *law, uint64_t count, enum tutti_dtype dtype,
                       struct tutti_bound *ret, struct tutti_err *err)
{
    struct tutti_bound bound = {.binding = "nothing to do"};
    uint64_t bytes = count * tutti_dtype_bytes(dtype);

    if (count > UINT64_MAX / 8 / law->rank_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%" PRIu64 " elements on %" PRIu32 " ranks are too many", count,
                          law->rank_count);
    if (bytes > 0 || !law->moves)
        bound.latency_ps = law->latency_ps;
    bound.bandwidth_ps = bytes > 0 ? time_of(law, bytes) : 0;
    if (bound.bandwidth_ps < INT64_MAX)
        bound.bandwidth_ps -=
            law->burst_ps < bound.bandwidth_ps ? law->burst_ps : bound.bandwidth_ps;
    if (bound.bandwidth_ps > bound.latency_ps) {
        bound.time_ps = bound.bandwidth_ps;
        bound.exact = law->exact && bound.time_ps < INT64_MAX; /* else only known to take longer */
        memcpy(bound.binding, law->rates_bind, sizeof(bound.binding));
    } else if (bound.latency_ps > 0) {
        bound.time_ps = bound.latency_ps;
        memcpy(bound.binding, law->latency_binds, sizeof(bound.binding));
    }
    *ret = bound;
    return 0;
}

int tutti_topo_bound(const struct tutti_topo *topo, const struct tutti_contract *contract,
                     struct tutti_bound *ret, struct tutti_err *err)
{
    struct tutti_bound_law law;
    int status = tutti_topo_bound_law(topo, contract->collective, contract->root, &law, err);

    return status < 0 ? status
                      : tutti_bound_law_at(&law, contract->count, contract->dtype, ret, err);
}
