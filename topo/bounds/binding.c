/* What binds, in words: parts of the machine by the names that a newcomer knows them by. */
#include "topo/bounds/binding.h"

#include <inttypes.h>
#include <stdio.h>

/* The groups of a partition: one of them and how to tell them from others. */
struct words {
    const char *one;  /* "device" */
    const char *many; /* "devices" */
    char more[64];    /* " under one switch", or empty */
    bool numbered;    /* the same everywhere but for how many ranks it has */
};

static struct words words_of(const struct tutti_binding *binding)
{
    const struct tutti_family_member *member = &binding->member;
    struct words words = {.one = "group", .many = "groups", .numbered = true};
    char rate[TUTTI_UNIT_TEXT_BYTES];

    switch (member->kind) {
    case TUTTI_FAMILY_DEVICES:
        return (struct words){.one = "device", .many = "devices"};
    case TUTTI_FAMILY_HOSTS:
        return (struct words){.one = "host", .many = "hosts"};
    case TUTTI_FAMILY_PLANE:
        words = (struct words){.one = "plane", .many = "planes"};
        (void)snprintf(words.more, sizeof(words.more), " across axis %" PRIu32, member->index);
        break;
    case TUTTI_FAMILY_LINE:
        words = (struct words){.one = "line", .many = "lines"};
        (void)snprintf(words.more, sizeof(words.more), " along axis %" PRIu32, member->index);
        break;
    case TUTTI_FAMILY_HALF:
        words = (struct words){.one = "half", .many = "halves"};
        (void)snprintf(words.more, sizeof(words.more), " of axis %" PRIu32, member->index);
        break;
    case TUTTI_FAMILY_FAST:
        (void)snprintf(words.more, sizeof(words.more), " joined by links faster than %s",
                       tutti_print_rate(member->bytes_per_s, rate));
        break;
    case TUTTI_FAMILY_LEAVES:
        (void)snprintf(words.more, sizeof(words.more), " under the same leaf switches");
        break;
    case TUTTI_FAMILY_TWIG:
        (void)snprintf(words.more, sizeof(words.more), " under one switch");
        break;
    default:
        break;
    }
    return words;
}

/* "device lone (rank 0)", "host of rank 4", "group of 3 ranks from rank 2 under one switch" */
static void name_one(const struct tutti_topo *topo, const struct tutti_binding *binding,
                     const struct words *words, char *buf, size_t buf_bytes)
{
    uint32_t first = binding->group.first;
    char name[TUTTI_NODE_NAME_BYTES];

    if (binding->group.rank_count == 1)
        (void)snprintf(buf, buf_bytes, "device %.40s (rank %" PRIu32 ")",
                       tutti_topo_node_name(topo, tutti_topo_rank_node(topo, first), name), first);
    else if (binding->member.kind == TUTTI_FAMILY_HOSTS)
        (void)snprintf(buf, buf_bytes, "host of rank %" PRIu32, first);
    else
        (void)snprintf(buf, buf_bytes, "%s of %" PRIu32 " ranks from rank %" PRIu32 "%s",
                       words->one, binding->group.rank_count, first, words->more);
}

/* "each device", "the 8 NICs of each host", "each group of 4 ranks under one switch" */
static void name_each(const struct tutti_binding *binding, const struct words *words, char *buf,
                      size_t buf_bytes)
{
    const struct tutti_bound_group *group = &binding->group;
    bool net = (group->link_kinds & ~(1u << TUTTI_LINK_NET | 1u << TUTTI_LINK_DCN)) == 0;

    if (binding->member.kind == TUTTI_FAMILY_HOSTS && net && group->link_count > 1)
        (void)snprintf(buf, buf_bytes, "the %" PRIu32 " NICs of each host", group->link_count);
    else if (binding->member.kind == TUTTI_FAMILY_HOSTS && net)
        (void)snprintf(buf, buf_bytes, "the NIC of each host");
    else if (words->numbered)
        (void)snprintf(buf, buf_bytes, "each group of %" PRIu32 " ranks%s", group->rank_count,
                       words->more);
    else
        (void)snprintf(buf, buf_bytes, "each %s%s", words->one, words->more);
}

/* Rounded to six digits: enough to know a rate by, and sums of odd ones stay readable. */
static uint64_t six_digits(uint64_t bytes_per_s)
{
    uint64_t unit = 1;

    while (bytes_per_s / unit >= 1000000)
        unit *= 10;
    if (bytes_per_s % unit < (unit + 1) / 2)
        return bytes_per_s - bytes_per_s % unit;
    return bytes_per_s > UINT64_MAX - unit ? bytes_per_s : (bytes_per_s / unit + 1) * unit;
}

void tutti_binding_name(const struct tutti_topo *topo, const struct tutti_binding *binding,
                        char *buf, size_t buf_bytes)
{
    struct words words = words_of(binding);
    const struct tutti_bound_group *group = &binding->group;
    const char *way = binding->inward ? "in" : "out";
    uint32_t link_count = binding->inward ? group->link_in_count : group->link_count;
    bool one_link = link_count == 1 && binding->member.kind != TUTTI_FAMILY_HOSTS;
    bool each = binding->alike && (binding->even || !words.numbered);
    char name[128];
    char rate[TUTTI_UNIT_TEXT_BYTES];

    (void)tutti_print_rate(six_digits(binding->inward ? group->in : group->out), rate);
    if (each && binding->group_count > 2) {
        name_each(binding, &words, name, sizeof(name));
        (void)snprintf(buf, buf_bytes, "%s: %s %s", name, rate, way);
    } else if (binding->all_groups && !binding->alike) {
        (void)snprintf(buf, buf_bytes, "all %" PRIu32 " %s%s together: %s %s", binding->group_count,
                       words.many, words.more,
                       tutti_print_rate(six_digits(binding->together), rate), way);
    } else if (one_link) {
        struct tutti_link link =
            tutti_topo_link(topo, binding->inward ? group->link_in : group->link_out);
        char from[TUTTI_NODE_NAME_BYTES];
        char to[TUTTI_NODE_NAME_BYTES];

        (void)snprintf(buf, buf_bytes, "link %.40s -> %.40s: %s",
                       tutti_topo_node_name(topo, link.from, from),
                       tutti_topo_node_name(topo, link.to, to), rate);
    } else if (each) {
        name_each(binding, &words, name, sizeof(name));
        (void)snprintf(buf, buf_bytes, "%s: %s %s", name, rate, way);
    } else {
        name_one(topo, binding, &words, name, sizeof(name));
        (void)snprintf(buf, buf_bytes, "%s: %s %s", name, rate, way);
    }
}
