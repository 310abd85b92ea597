/* Partitions of regular machines, counted by kinds of groups; see regular.h.
 *
 * Grids of rings: each member of the family cuts every ring of an axis alike, so the cut of a group
 * is that of one ring times the rings. One switch: each device has one link. Clusters: hosts are
 * alike, and so are groups of hosts under the same leaves, so the groups of a sample (sample.h)
 * stand for those of all hosts where each lies within one host. A group of all hosts under the same
 * leaves is counted from the rates of its rails. */
#include "topo/bounds/regular.h"

#include <assert.h>
#include <string.h>

#include "runtime/status.h"
#include "topo/bounds/sample.h"
#include "topo/graph/graph.h"
#include "topo/graph/rule.h"

enum { KINDS_MAX = 2 * 256 + 2 }; /* of groups: devices of a host, and the root's own */

struct regular {
    const struct tutti_topo *topo;
    const struct tutti_rule *rule;
    struct tutti_partition partition; /* of the machine; groups point to kinds */
    struct tutti_group kinds[KINDS_MAX];
    tutti_u128 rate; /* of the group that was made last; its `out` and `in` may be cut short */
    void (*visit)(const struct tutti_partition *partition, const struct tutti_family_member *member,
                  void *context);
    void *context;
    const struct tutti_sample *sample;
    bool odd; /* a partition of the sample that says nothing of the machine */
};

static void begin(struct regular *regular)
{
    regular->partition.kind_count = regular->partition.group_count = 0;
    regular->partition.out = regular->partition.in = 0;
    regular->partition.between_reduces = false;
}

static void add_kind(struct regular *regular, const struct tutti_group *group)
{
    struct tutti_partition *partition = &regular->partition;
    uint32_t at = partition->kind_count++;

    assert(at < KINDS_MAX);
    for (; at > 0 && regular->kinds[at - 1].first > group->first; at--)
        regular->kinds[at] = regular->kinds[at - 1];
    regular->kinds[at] = *group;
}

/* Groups alike, the first of which begins with rank group->first. The root's, which begins with
 * rank `root_first`, stands by itself, and the others begin with `next_first` if it was the first.
 */
static void add_groups(struct regular *regular, struct tutti_group group, bool with_root,
                       uint32_t root_first, uint32_t next_first)
{
    struct tutti_partition *partition = &regular->partition;

    partition->group_count += group.count;
    partition->out += regular->rate * group.count;
    partition->in += regular->rate * group.count;
    if (with_root) {
        struct tutti_group own = group;

        own.count = 1;
        own.has_root = true;
        own.first = root_first;
        add_kind(regular, &own);
        group.count--;
        group.first = root_first == group.first ? next_first : group.first;
    }
    if (group.count > 0)
        add_kind(regular, &group);
}

static void tell(struct regular *regular, const struct tutti_family_member *member)
{
    if (regular->partition.group_count >= 2)
        regular->visit(&regular->partition, member, regular->context);
}

static bool has_root(const struct regular *regular)
{
    return regular->partition.root < regular->topo->rank_count;
}

/* ---- grids and switches ---------------------------------------------------------------------- */

/* A group of `links` links each way, all like the first of the machine. */
static struct tutti_group group_of(struct regular *regular, uint32_t ranks, uint32_t links,
                                   uint32_t follow_count)
{
    struct tutti_link link = tutti_topo_link(regular->topo, 0);
    tutti_u128 rate = (tutti_u128)link.bytes_per_s * links;

    regular->rate = rate;

    return (struct tutti_group){
        .count = 1,
        .rank_count = ranks,
        .follow_count = follow_count,
        .link_count = links,
        .link_in_count = links,
        .link_kinds = 1u << link.kind,
        .out = rate > UINT64_MAX ? UINT64_MAX : (uint64_t)rate,
        .in = rate > UINT64_MAX ? UINT64_MAX : (uint64_t)rate,
    };
}

static void visit_devices(struct regular *regular, uint32_t links)
{
    struct tutti_family_member member = {.kind = TUTTI_FAMILY_DEVICES};
    struct tutti_group group = group_of(regular, 1, links, 1);

    begin(regular);
    group.count = regular->topo->rank_count;
    if (links == 1) { /* a switch: up 2r, down 2r + 1; only the first of a kind is named */
        regular->partition.between_reduces = regular->rule->tree.reduces;
        group.link_in = 1;
    }
    add_groups(regular, group, has_root(regular), regular->partition.root, 1);
    tell(regular, &member);
}

static void visit_planes(struct regular *regular, uint32_t axis, uint32_t inner, uint32_t length)
{
    struct tutti_family_member member = {.kind = TUTTI_FAMILY_PLANE, .index = axis};
    uint32_t ranks = regular->topo->rank_count / length;
    struct tutti_group group = group_of(regular, ranks, 2 * ranks, ranks / inner);
    uint32_t root = regular->partition.root / inner % length;

    begin(regular);
    group.count = length;
    add_groups(regular, group, has_root(regular), root * inner, inner);
    tell(regular, &member);
}

static void visit_halves(struct regular *regular, uint32_t axis, uint32_t inner, uint32_t length)
{
    struct tutti_family_member member = {.kind = TUTTI_FAMILY_HALF, .index = axis};
    uint32_t ranks = regular->topo->rank_count / length;
    uint32_t low = length / 2;
    struct tutti_group group = group_of(regular, low * ranks, 2 * ranks, ranks / inner);
    bool root_low = regular->partition.root / inner % length < low;

    begin(regular);
    add_groups(regular, group, has_root(regular) && root_low, 0, 0);
    group.rank_count = (length - low) * ranks;
    group.first = low * inner;
    add_groups(regular, group, has_root(regular) && !root_low, low * inner, 0);
    tell(regular, &member);
}

/* Rings along one axis: number i begins at rank i % inner + i / inner * inner * length. */
static void visit_lines(struct regular *regular, uint32_t axis, uint32_t inner, uint32_t length)
{
    struct tutti_family_member member = {.kind = TUTTI_FAMILY_LINE, .index = axis};
    const struct tutti_topo *topo = regular->topo;
    uint32_t axes = regular->rule->grid.axis_count;
    struct tutti_group group =
        group_of(regular, length, 2 * (axes - 1) * length, inner == 1 ? 1 : length);
    uint32_t root = regular->partition.root;

    if (topo->shape.dim_count <= 2)
        return;
    begin(regular);
    group.count = topo->rank_count / length;
    add_groups(regular, group, has_root(regular), root - root / inner % length * inner,
               inner == 1 ? length : 1);
    tell(regular, &member);
}

static void visit_grid(struct regular *regular)
{
    const struct tutti_shape *shape = &regular->topo->shape;
    uint32_t inner = 1;

    visit_devices(regular, 2 * regular->rule->grid.axis_count);
    for (uint32_t d = 0; d < shape->dim_count; inner *= shape->dim[d++]) {
        if (shape->dim[d] < 2)
            continue;
        visit_planes(regular, d, inner, shape->dim[d]);
        visit_halves(regular, d, inner, shape->dim[d]);
        visit_lines(regular, d, inner, shape->dim[d]);
    }
}

/* ---- clusters -------------------------------------------------------------------------------- */

/* Does each group of the sample's partition lie within one host (1), or is each all hosts under the
 * same leaves (2)? 0: something else. */
static int spread_of(const struct tutti_partition *partition, const struct tutti_sample *sample)
{
    uint32_t devices = sample->devices;
    uint32_t leaf_ranks = devices * TUTTI_SAMPLE_HOSTS;
    bool local = true;
    bool leaves = partition->group_count == partition->topo->rank_count / leaf_ranks;

    for (uint32_t r = 0; r < partition->topo->rank_count; r++) {
        const struct tutti_group *group = &partition->groups[partition->rank_group[r]];

        local = local && group->first / devices == r / devices;
        leaves = leaves && group->first / leaf_ranks == r / leaf_ranks;
    }
    return local ? 1 : leaves ? 2 : 0;
}

/* The groups of host 0 stand for those of every host. */
static void copy_local(struct regular *regular, const struct tutti_partition *from)
{
    const struct tutti_sample *sample = regular->sample;
    uint32_t devices = sample->devices;
    uint32_t root = regular->partition.root;

    begin(regular);
    regular->partition.between_reduces = from->between_reduces;
    regular->rate = 0; /* the sums are those of the sample, host by host */
    for (uint32_t d = 0; d < devices; d++) {
        struct tutti_group group = from->groups[from->rank_group[d]];
        bool own = has_root(regular) && from->rank_group[root % devices] == from->rank_group[d];

        if (group.first != d)
            continue;
        group.count = regular->rule->host_count;
        group.has_root = false;
        group.link_out = tutti_sample_link(sample, group.link_out);
        group.link_in = tutti_sample_link(sample, group.link_in);
        add_groups(regular, group, own, root - root % devices + d, devices + d);
    }
    regular->partition.out = from->out / sample->topo->host_count * regular->rule->host_count;
    regular->partition.in = from->in / sample->topo->host_count * regular->rule->host_count;
}

/* All hosts under the same leaves are one group, and a leaf with at least half of its rate to its
 * hosts is with them. */
static void count_leaves(struct regular *regular)
{
    const struct tutti_cluster_rule *cluster = &regular->rule->cluster;
    struct tutti_group group = {.count = cluster->group_count, .follow_count = 1};
    uint32_t root = regular->partition.root;
    tutti_u128 rate = 0;

    begin(regular);
    group.rank_count = cluster->group_hosts * cluster->host.rank_count;
    for (uint32_t i = 0; i < cluster->nic_count; i++) {
        tutti_u128 up = (tutti_u128)cluster->uplinks[i].bytes_per_s * cluster->spine_count;
        tutti_u128 down = (tutti_u128)cluster->cables[i].bytes_per_s * cluster->group_hosts;
        bool inside = down >= up;

        rate += inside ? up : down;
        group.link_count += inside ? cluster->spine_count : cluster->group_hosts;
        group.link_kinds |= 1u << (inside ? cluster->uplinks[i].kind : cluster->cables[i].kind);
    }
    group.out = group.in = rate > UINT64_MAX ? UINT64_MAX : (uint64_t)rate;
    group.link_in_count = group.link_count;
    /* One link: that of the one rail to the one spine, up and down. */
    group.link_out = tutti_sample_uplink(regular->sample);
    group.link_in = group.link_out + 1;
    regular->rate = rate;
    add_groups(regular, group, has_root(regular), root - root % group.rank_count, group.rank_count);
}

static void visit_sampled(const struct tutti_partition *partition,
                          const struct tutti_family_member *member, void *context)
{
    struct regular *regular = context;
    int spread = spread_of(partition, regular->sample);

    if (spread == 0)
        regular->odd = true;
    if (regular->odd)
        return;
    if (spread == 1)
        copy_local(regular, partition);
    else
        count_leaves(regular);
    tell(regular, member);
}

static void only_look(const struct tutti_partition *partition,
                      const struct tutti_family_member *member, void *context)
{
    struct regular *regular = context;

    (void)member;
    regular->odd = regular->odd || spread_of(partition, regular->sample) == 0;
}

/* Twice: nothing is told if anything is odd. */
static int visit_cluster(struct regular *regular, const struct tutti_sample *sample,
                         struct tutti_err *err)
{
    int status;

    regular->sample = sample;
    status = tutti_family_visit(sample->topo, UINT32_MAX, only_look, regular, err);
    if (status == 0 && !regular->odd)
        status = tutti_family_visit(sample->topo, UINT32_MAX, visit_sampled, regular, err);
    return status;
}

int tutti_regular_visit(const struct tutti_topo *topo, uint32_t root,
                        void (*visit)(const struct tutti_partition *partition,
                                      const struct tutti_family_member *member, void *context),
                        void *context, bool *ret_done, struct tutti_err *err)
{
    struct regular regular = {
        .topo = topo, .rule = tutti_graph_rule(topo), .visit = visit, .context = context};
    struct tutti_sample sample;
    int status = 0;

    *ret_done = false;
    if (regular.rule == NULL || topo->rank_count <= TUTTI_FAMILY_SMALL)
        return 0;
    regular.partition.topo = topo;
    regular.partition.root = root;
    regular.partition.groups = regular.kinds;
    if (regular.rule->ops == &tutti_rule_grid) {
        visit_grid(&regular);
        *ret_done = true;
    } else if (regular.rule->ops == &tutti_rule_tree && regular.rule->tree.tree.levels == 1) {
        visit_devices(&regular, 1);
        *ret_done = true;
    } else if (tutti_sample_fits(topo, true)) {
        status = tutti_sample_open(&sample, topo, err);
        if (status < 0)
            return status;
        status = visit_cluster(&regular, &sample, err);
        tutti_sample_close(&sample);
        *ret_done = !regular.odd;
    }
    return status;
}
