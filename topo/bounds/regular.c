/* Partitions of regular machines, counted by kinds of groups; see regular.h.
 *
 * Grids of rings: each member of the family cuts every ring of an axis alike, so the cut of a group
 * is that of one ring times the rings; groups at one of a few slow links stand by themselves. One
 * switch: each device has one link. Clusters: hosts are
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

enum {
    KINDS_MAX = 2 * 256 + 2, /* of groups: devices of a host, and the root's own */
    SLOW_MAX = 4 * TUTTI_DIMS_MAX,
    SINGLES_MAX = 2 * SLOW_MAX + 3,
};

struct regular {
    const struct tutti_topo *topo;
    const struct tutti_rule *rule;
    struct tutti_partition partition; /* of the machine; groups point to kinds */
    struct tutti_bound_group kinds[KINDS_MAX];
    struct tutti_wide
        rate; /* of the group that was made last; its `out` and `in` may be cut short */
    void (*visit)(const struct tutti_partition *partition, const struct tutti_family_member *member,
                  void *context);
    void *context;
    uint32_t usual; /* a link that was not changed */
    uint32_t slow_count;
    uint32_t slow[SLOW_MAX];
    uint32_t single_count;
    uint32_t singles[SINGLES_MAX]; /* groups told by themselves, in order */
    const struct tutti_sample *sample;
    bool odd; /* a partition of the sample that says nothing of the machine */
};

static void begin(struct regular *regular)
{
    regular->partition.kind_count = regular->partition.group_count = 0;
    regular->partition.out = regular->partition.in = tutti_wide_of(0);
    regular->partition.between_reduces = false;
}

static void add_kind(struct regular *regular, const struct tutti_bound_group *group)
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
static void add_groups(struct regular *regular, struct tutti_bound_group group, bool with_root,
                       uint32_t root_first, uint32_t next_first)
{
    struct tutti_partition *partition = &regular->partition;

    partition->group_count += group.count;
    partition->out = tutti_wide_add(partition->out, tutti_wide_times(regular->rate, group.count));
    partition->in = tutti_wide_add(partition->in, tutti_wide_times(regular->rate, group.count));
    if (with_root) {
        struct tutti_bound_group own = group;

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

/* A partition of a grid: the kind of member, and the axis it is of. */
struct cut {
    struct tutti_family_member member;
    uint32_t inner;  /* ranks between neighbours along the axis */
    uint32_t length; /* of the axis */
    uint32_t group_count;
    uint32_t links;        /* each way, of a group */
    uint32_t rank_count;   /* of a group */
    uint32_t follow_count; /* of a group */
};

static uint32_t group_of(const struct cut *cut, uint32_t rank)
{
    uint32_t x = rank / cut->inner % cut->length;

    switch (cut->member.kind) {
    case TUTTI_FAMILY_PLANE:
        return x;
    case TUTTI_FAMILY_HALF:
        return x >= cut->length / 2;
    case TUTTI_FAMILY_LINE:
        return rank % cut->inner + rank / cut->inner / cut->length * cut->inner;
    default:
        return rank;
    }
}

/* The lowest rank of a group. */
static uint32_t first_of(const struct cut *cut, uint32_t group)
{
    switch (cut->member.kind) {
    case TUTTI_FAMILY_PLANE:
        return group * cut->inner;
    case TUTTI_FAMILY_HALF:
        return group * (cut->length / 2) * cut->inner;
    case TUTTI_FAMILY_LINE:
        return group % cut->inner + group / cut->inner * cut->inner * cut->length;
    default:
        return group;
    }
}

/* Adds a group to those that are told by themselves, in order, each once. */
static void single_out(struct regular *regular, uint32_t group)
{
    uint32_t at = regular->single_count;

    while (at > 0 && regular->singles[at - 1] > group)
        at--;
    if (at > 0 && regular->singles[at - 1] == group)
        return;
    assert(regular->single_count < SINGLES_MAX);
    for (uint32_t i = regular->single_count++; i > at; i--)
        regular->singles[i] = regular->singles[i - 1];
    regular->singles[at] = group;
}

/* What changed links between groups take from the rates of group number `group`. */
static void subtract_changes(const struct regular *regular, const struct cut *cut, uint32_t group,
                             struct tutti_wide *out, struct tutti_wide *in)
{
    for (uint32_t i = 0; i < regular->slow_count; i++) {
        struct tutti_link link = tutti_topo_link(regular->topo, regular->slow[i]);
        struct tutti_wide less =
            tutti_wide_of(regular->rule->grid.cable.bytes_per_s - link.bytes_per_s);
        uint32_t from = group_of(cut, link.from);
        uint32_t to = group_of(cut, link.to);

        if (from == group && to != group)
            *out = tutti_wide_subtract(*out, less);
        if (to == group && from != group)
            *in = tutti_wide_subtract(*in, less);
    }
}

static void tell_cut(struct regular *regular, const struct cut *cut)
{
    struct tutti_partition *partition = &regular->partition;
    struct tutti_link link = tutti_topo_link(regular->topo, regular->usual);
    struct tutti_wide rate = tutti_wide_product(link.bytes_per_s, cut->links);
    uint32_t root = has_root(regular) ? group_of(cut, partition->root) : UINT32_MAX;
    struct tutti_bound_group like = {
        .rank_count = cut->rank_count,
        .follow_count = cut->follow_count,
        .link_count = cut->links,
        .link_in_count = cut->links,
        .link_kinds = 1u << link.kind,
        .out = tutti_wide_word(rate),
        .in = tutti_wide_word(rate),
    };
    uint32_t others = 0; /* the first group of them */

    if (cut->group_count < 2)
        return;
    begin(regular);
    partition->group_count = cut->group_count;
    partition->between_reduces = regular->rule->ops == &tutti_rule_tree && /* then one switch */
                                 regular->rule->tree.reduces;
    regular->single_count = 0;
    if (root != UINT32_MAX)
        single_out(regular, root);
    for (uint32_t g = 0; cut->member.kind == TUTTI_FAMILY_HALF && g < 2; g++)
        single_out(regular, g);
    for (uint32_t i = 0; i < regular->slow_count; i++) {
        single_out(regular, group_of(cut, tutti_topo_link(regular->topo, regular->slow[i]).from));
        single_out(regular, group_of(cut, tutti_topo_link(regular->topo, regular->slow[i]).to));
    }
    for (uint32_t i = 0; i < regular->single_count; i++) {
        struct tutti_bound_group group = like;
        struct tutti_wide out = rate;
        struct tutti_wide in = rate;

        subtract_changes(regular, cut, regular->singles[i], &out, &in);
        group.count = 1;
        group.has_root = regular->singles[i] == root;
        group.first = first_of(cut, regular->singles[i]);
        group.out = tutti_wide_word(out);
        group.in = tutti_wide_word(in);
        if (cut->member.kind == TUTTI_FAMILY_HALF && regular->singles[i] == 1)
            group.rank_count = regular->topo->rank_count - cut->rank_count;
        partition->out = tutti_wide_add(partition->out, out);
        partition->in = tutti_wide_add(partition->in, in);
        others += regular->singles[i] == others;
        add_kind(regular, &group);
    }
    like.count = cut->group_count - regular->single_count;
    like.first = like.count > 0 ? first_of(cut, others) : 0;
    partition->out = tutti_wide_add(partition->out, tutti_wide_times(rate, like.count));
    partition->in = tutti_wide_add(partition->in, tutti_wide_times(rate, like.count));
    if (like.count > 0)
        add_kind(regular, &like);
    regular->visit(partition, &cut->member, regular->context);
}

/* `links` leave a device. Of a switch, of which that is one, only the first of a kind is named. */
static void visit_devices(struct regular *regular, uint32_t links)
{
    struct cut cut = {.member = {.kind = TUTTI_FAMILY_DEVICES},
                      .inner = 1,
                      .length = regular->topo->rank_count,
                      .group_count = regular->topo->rank_count,
                      .links = links,
                      .rank_count = 1,
                      .follow_count = 1};

    tell_cut(regular, &cut);
}

/* Planes across an axis, its halves, and the rings along it. */
static void visit_axis(struct regular *regular, uint32_t axis, uint32_t inner, uint32_t length)
{
    uint32_t plane = regular->topo->rank_count / length;
    struct cut cut = {.member = {.kind = TUTTI_FAMILY_PLANE, .index = axis},
                      .inner = inner,
                      .length = length,
                      .group_count = length,
                      .links = 2 * plane,
                      .rank_count = plane,
                      .follow_count = plane / inner};

    tell_cut(regular, &cut);
    cut.member.kind = TUTTI_FAMILY_HALF;
    cut.group_count = 2;
    cut.rank_count = length / 2 * plane;
    tell_cut(regular, &cut);
    if (regular->topo->shape.dim_count <= 2)
        return;
    cut.member.kind = TUTTI_FAMILY_LINE;
    cut.group_count = plane;
    cut.links = 2 * (regular->rule->grid.axis_count - 1) * length;
    cut.rank_count = length;
    cut.follow_count = inner == 1 ? 1 : length;
    tell_cut(regular, &cut);
}

static void visit_grid(struct regular *regular)
{
    const struct tutti_shape *shape = &regular->topo->shape;
    uint32_t inner = 1;

    visit_devices(regular, 2 * regular->rule->grid.axis_count);
    for (uint32_t d = 0; d < shape->dim_count; inner *= shape->dim[d++])
        if (shape->dim[d] >= 2)
            visit_axis(regular, d, inner, shape->dim[d]);
}

/* Is a grid as its rule says but for less cables than leave a device, and those only slower? Then
 * all the others still join all devices, and no links are faster than theirs. */
static bool list_slow(struct regular *regular)
{
    const struct tutti_link_changes *changes = regular->topo->graph->changes;
    uint32_t words = regular->topo->link_count / 64 + 1;
    uint32_t cables = 0;

    if (changes->count > SLOW_MAX)
        return false;
    for (uint32_t w = 0; w < words; w++) {
        for (uint64_t bits = changes->bits[w]; bits != 0; bits &= bits - 1) {
            uint32_t l = w * 64 + (uint32_t)__builtin_ctzll(bits);
            uint32_t count = regular->slow_count;

            cables += count == 0 || regular->slow[count - 1] / 2 != l / 2;
            regular->usual = l == regular->usual ? l + 1 : regular->usual;
            regular->slow[regular->slow_count++] = l;
            if (tutti_topo_link(regular->topo, l).bytes_per_s >
                regular->rule->grid.cable.bytes_per_s)
                return false;
        }
    }
    return cables < 2 * regular->rule->grid.axis_count;
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
        const struct tutti_bound_group *group = &partition->groups[partition->rank_group[r]];

        local = local && group->first / devices == r / devices;
        leaves = leaves && group->first / leaf_ranks == r / leaf_ranks;
    }
    return local ? 1 : leaves ? 2 : 0;
}

/* Of what the hosts of the sample have, what all hosts have. */
static struct tutti_wide of_all_hosts(const struct regular *regular, struct tutti_wide rate)
{
    struct tutti_wide rest;
    struct tutti_wide hosts = tutti_wide_of(regular->sample->topo->host_count);

    return tutti_wide_times(tutti_wide_divide(rate, hosts, &rest), regular->rule->host_count);
}

/* The groups of host 0 stand for those of every host. */
static void copy_local(struct regular *regular, const struct tutti_partition *from)
{
    const struct tutti_sample *sample = regular->sample;
    uint32_t devices = sample->devices;
    uint32_t root = regular->partition.root;

    begin(regular);
    regular->partition.between_reduces = from->between_reduces;
    regular->rate = tutti_wide_of(0); /* the sums are those of the sample, host by host */
    for (uint32_t d = 0; d < devices; d++) {
        struct tutti_bound_group group = from->groups[from->rank_group[d]];
        bool own = has_root(regular) && from->rank_group[root % devices] == from->rank_group[d];

        if (group.first != d)
            continue;
        group.count = regular->rule->host_count;
        group.has_root = false;
        group.link_out = tutti_sample_link(sample, group.link_out);
        group.link_in = tutti_sample_link(sample, group.link_in);
        add_groups(regular, group, own, root - root % devices + d, devices + d);
    }
    regular->partition.out = of_all_hosts(regular, from->out);
    regular->partition.in = of_all_hosts(regular, from->in);
}

/* All hosts under the same leaves are one group, and a leaf with at least half of its rate to its
 * hosts is with them. */
static void count_leaves(struct regular *regular)
{
    const struct tutti_cluster_rule *cluster = &regular->rule->cluster;
    struct tutti_bound_group group = {.count = cluster->group_count, .follow_count = 1};
    uint32_t root = regular->partition.root;
    struct tutti_wide rate = {.high = 0};

    begin(regular);
    group.rank_count = cluster->group_hosts * cluster->host.rank_count;
    for (uint32_t i = 0; i < cluster->nic_count; i++) {
        struct tutti_wide up =
            tutti_wide_product(cluster->uplinks[i].bytes_per_s, cluster->spine_count);
        struct tutti_wide down =
            tutti_wide_product(cluster->cables[i].bytes_per_s, cluster->group_hosts);
        bool inside = !tutti_wide_less(down, up);

        rate = tutti_wide_add(rate, inside ? up : down);
        group.link_count += inside ? cluster->spine_count : cluster->group_hosts;
        group.link_kinds |= 1u << (inside ? cluster->uplinks[i].kind : cluster->cables[i].kind);
    }
    group.out = group.in = tutti_wide_word(rate);
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

    assert(spread != 0); /* only_look has seen it before */
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
        .topo = topo, .rule = topo->graph->rule, .visit = visit, .context = context};
    struct tutti_sample sample;
    bool grid;
    int status = 0;

    *ret_done = false;
    if (regular.rule == NULL || topo->rank_count <= TUTTI_FAMILY_SMALL)
        return 0;
    grid = regular.rule->ops == &tutti_rule_grid;
    if (topo->graph->changes != NULL && (!grid || !list_slow(&regular)))
        return 0;
    regular.partition.topo = topo;
    regular.partition.root = root;
    regular.partition.groups = regular.kinds;
    if (grid) {
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
