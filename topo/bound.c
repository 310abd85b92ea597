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
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "topo/bounds/family.h"
#include "topo/bounds/known.h"
#include "topo/bounds/latency.h"
#include "topo/topo.h"

struct best {
    const struct tutti_topo *topo;
    const struct tutti_contract *contract;
    uint64_t bytes; /* of `count` elements */
    tutti_ps time_ps;
    struct tutti_family_member member;
    struct tutti_group group; /* that binds */
    uint32_t group_count;
    uint64_t together; /* bytes a second of all groups */
    bool all_groups;   /* all together bind, not one alone */
    bool inward;       /* what enters binds, not what leaves */
    bool alike;        /* groups can all send and take the same */
};

/* bytes / rate, rounded down, so that it stays a bound. Both are cut to 80 bits, likewise. */
static tutti_ps time_at_least(tutti_u128 bytes, tutti_u128 bytes_per_s)
{
    const tutti_u128 second = 1000000000000u;
    tutti_u128 whole;

    if (bytes_per_s == 0)
        return 0;
    while (bytes_per_s >> 80 != 0) {
        bytes_per_s = (bytes_per_s >> 1) + 1;
        bytes >>= 1;
    }
    whole = bytes / bytes_per_s;
    if (whole > INT64_MAX / second)
        return INT64_MAX;
    whole = whole * second + bytes % bytes_per_s * second / bytes_per_s;
    return whole > INT64_MAX ? INT64_MAX : (tutti_ps)whole;
}

struct crossing {
    const struct tutti_partition *partition;
    const struct tutti_family_member *member;
    struct best *best;
    bool alike;
};

static void consider(const struct crossing *at, const struct tutti_group *group, tutti_u128 bytes,
                     tutti_u128 bytes_per_s, bool inward)
{
    struct best *best = at->best;
    tutti_ps time_ps = time_at_least(bytes, bytes_per_s);

    if (time_ps <= best->time_ps)
        return;
    best->time_ps = time_ps;
    best->member = *at->member;
    best->all_groups = group == NULL;
    best->group = group != NULL ? *group : at->partition->groups[0];
    best->group_count = at->partition->group_count;
    best->together = bytes_per_s > UINT64_MAX ? UINT64_MAX : (uint64_t)bytes_per_s;
    best->inward = inward;
    best->alike = at->alike;
}

/* Bytes that must leave and enter one group. */
static void needs_of(const struct best *best, const struct tutti_partition *partition,
                     uint32_t index, tutti_u128 *out, tutti_u128 *in)
{
    const struct tutti_contract *contract = best->contract;
    const struct tutti_group *group = &partition->groups[index];
    tutti_u128 size = group->rank_count;
    tutti_u128 others = best->topo->rank_count - group->rank_count;
    bool root =
        contract->root < best->topo->rank_count && partition->rank_group[contract->root] == index;

    *out = *in = 0;
    switch (contract->collective) {
    case TUTTI_ALLREDUCE:
        *out = *in = best->bytes;
        break;
    case TUTTI_ALLGATHER:
        *out = size * best->bytes;
        *in = others * best->bytes;
        break;
    case TUTTI_REDUCESCATTER:
        *out = others * best->bytes;
        *in = size * best->bytes;
        break;
    case TUTTI_BROADCAST:
        *(root ? out : in) = best->bytes;
        break;
    case TUTTI_REDUCE_TO_ROOT:
        *(root ? in : out) = best->bytes;
        break;
    case TUTTI_ALLTOALL:
        *out = *in = size * others * best->bytes;
        break;
    case TUTTI_SENDRECV:
        *out = *in = (tutti_u128)group->follow_count * best->bytes;
        break;
    case TUTTI_BARRIER:
    case TUTTI_CUSTOM:
    case TUTTI_COLLECTIVE_COUNT:
        break;
    }
}

static bool groups_alike(const struct tutti_partition *partition)
{
    for (uint32_t g = 0; g < partition->group_count; g++)
        if (partition->groups[g].out != partition->groups[0].out ||
            partition->groups[g].in != partition->groups[0].out)
            return false;
    return true;
}

static void weigh(const struct tutti_partition *partition, const struct tutti_family_member *member,
                  void *context)
{
    struct best *best = context;
    struct crossing at = {
        .partition = partition, .member = member, .best = best, .alike = groups_alike(partition)};

    if (best->contract->collective == TUTTI_ALLREDUCE && !partition->between_reduces) {
        tutti_u128 bytes = (tutti_u128)2 * (partition->group_count - 1) * best->bytes;

        consider(&at, NULL, bytes, partition->out, false);
        consider(&at, NULL, bytes, partition->in, true);
    }
    for (uint32_t g = 0; g < partition->group_count; g++) {
        const struct tutti_group *group = &partition->groups[g];
        tutti_u128 out;
        tutti_u128 in;

        needs_of(best, partition, g, &out, &in);
        if (group->out != UINT64_MAX) /* else it is not known how much more */
            consider(&at, group, out, group->out, false);
        if (group->in != UINT64_MAX)
            consider(&at, group, in, group->in, true);
    }
}

/* ---- words ---------------------------------------------------------------------------------- */

/* "device", "host", "plane of axis 1", "group within links over 10GB/s" */
static void name_group(const struct tutti_family_member *member, char *buf, size_t buf_bytes)
{
    static const char *const names[TUTTI_FAMILY_KIND_COUNT] = {
        "device",
        "host",
        "group of level",
        "group of hosts under the same leaves",
        "plane across axis",
        "half of axis",
        "line along axis",
        "group within links faster than",
        "subtree of switches",
        "set of devices",
    };
    char rate[TUTTI_UNIT_TEXT_BYTES];

    switch (member->kind) {
    case TUTTI_FAMILY_LEVEL:
    case TUTTI_FAMILY_PLANE:
    case TUTTI_FAMILY_HALF:
    case TUTTI_FAMILY_LINE:
        (void)snprintf(buf, buf_bytes, "%s %" PRIu32, names[member->kind], member->index);
        break;
    case TUTTI_FAMILY_FAST:
        (void)snprintf(buf, buf_bytes, "%s %s", names[member->kind],
                       tutti_print_rate(member->bytes_per_s, rate));
        break;
    default:
        (void)snprintf(buf, buf_bytes, "%s", names[member->kind]);
        break;
    }
}

static void name_binding(const struct best *best, struct tutti_bound *bound)
{
    char group[64];
    char rate[TUTTI_UNIT_TEXT_BYTES];
    uint64_t bytes_per_s = best->inward ? best->group.in : best->group.out;
    const char *way = best->inward ? "in" : "out";

    name_group(&best->member, group, sizeof(group));
    (void)tutti_print_rate(bytes_per_s, rate);
    if (best->alike)
        (void)snprintf(bound->binding, sizeof(bound->binding), "each %s: %s %s", group, rate, way);
    else if (best->all_groups)
        (void)snprintf(bound->binding, sizeof(bound->binding),
                       "%" PRIu32 " together (each %s): %s %s", best->group_count, group,
                       tutti_print_rate(best->together, rate), way);
    else
        (void)snprintf(bound->binding, sizeof(bound->binding), "%s of rank %" PRIu32 ": %s %s",
                       group, best->group.first, rate, way);
}

static int refuse(const struct tutti_topo *topo, const struct tutti_contract *contract,
                  struct tutti_err *err)
{
    bool rooted =
        contract->collective == TUTTI_BROADCAST || contract->collective == TUTTI_REDUCE_TO_ROOT;

    if ((unsigned)contract->collective >= TUTTI_CUSTOM)
        return tutti_fail(err, TUTTI_EINVAL,
                          "no bound for a schedule without a contract (a collective has one)");
    if (rooted && contract->root >= topo->rank_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "root %" PRIu32 " of %" PRIu32 " ranks (0 to %" PRIu32 ")",
                          contract->root, topo->rank_count, topo->rank_count - 1);
    if (contract->count > UINT64_MAX / 8 / topo->rank_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%" PRIu64 " elements on %" PRIu32 " ranks are too many", contract->count,
                          topo->rank_count);
    return 0;
}

int tutti_topo_bound(const struct tutti_topo *topo, const struct tutti_contract *contract,
                     struct tutti_bound *ret, struct tutti_err *err)
{
    struct tutti_bound bound = {.binding = "nothing to do"};
    struct best best = {.topo = topo, .contract = contract};
    struct tutti_latency latency = {0};
    int status = refuse(topo, contract, err);

    if (status < 0)
        return status;
    best.bytes = contract->count * tutti_dtype_bytes(contract->dtype);
    if (topo->rank_count > 1 && (best.bytes > 0 || contract->collective == TUTTI_BARRIER)) {
        status = tutti_latency_bound(topo, contract, &latency, err);
        if (status == 0 && contract->collective != TUTTI_BARRIER)
            status = tutti_family_visit(topo, weigh, &best, err);
        if (status < 0)
            return status;
    }
    bound.bandwidth_ps = best.time_ps;
    bound.latency_ps = latency.latency_ps;
    if (best.time_ps > latency.latency_ps) {
        bound.time_ps = best.time_ps;
        if (best.time_ps < INT64_MAX) /* else it is only known that it takes longer */
            status = tutti_bound_is_reached(topo, contract, best.time_ps, &bound.exact, err);
        if (status < 0)
            return status;
        name_binding(&best, &bound);
    } else if (latency.latency_ps > 0) {
        bound.time_ps = latency.latency_ps;
        (void)snprintf(bound.binding, sizeof(bound.binding),
                       "latency from rank %" PRIu32 " to rank %" PRIu32, latency.from, latency.to);
    }
    *ret = bound;
    return 0;
}
