/* Tests of machines whose nodes and links follow a rule: they answer as if all were listed. */
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/machines.h"
#include "tests/test.h"
#include "tests/topo/links.h"
#include "topo/graph/graph.h"
#include "topo/topo.h"

enum { HOPS_MAX = 64 };

/* The same machine, printed and read back: read machines are listed. */
static struct tutti_topo *listed(const struct tutti_topo *topo)
{
    struct tutti_topo *copy = NULL;
    struct tutti_err err = {""};
    char *text = NULL;

    CHECK_OK(tutti_topo_print(topo, &text, &err), err);
    if (text == NULL)
        return NULL;
    CHECK_OK(tutti_topo_parse("printed", text, strlen(text), &copy, &err), err);
    free(text);
    return copy;
}

/* In blocks of two, and one by one. */
static void check_out_links(const struct tutti_topo *topo, uint32_t v)
{
    uint32_t count = tutti_topo_out_count(topo, v);

    for (uint32_t k = 0; k <= count; k++) {
        struct tutti_link some[2];
        uint32_t left = count - k;

        REQUIRE(tutti_graph_out_links(topo, v, k, some, 2) == (left < 2 ? left : 2));
        for (uint32_t i = 0; i < left && i < 2; i++) {
            struct tutti_link link = tutti_topo_link(topo, tutti_topo_out_link(topo, v, k + i));

            CHECK(memcmp(&some[i], &link, sizeof(link)) == 0);
        }
    }
}

static void check_nodes(const struct tutti_topo *a, const struct tutti_topo *b)
{
    char one[TUTTI_NODE_NAME_BYTES];
    char other[TUTTI_NODE_NAME_BYTES];

    for (uint32_t v = 0; v < a->node_count; v++) {
        struct tutti_node x = tutti_topo_node(a, v);
        struct tutti_node y = tutti_topo_node(b, v);

        CHECK_TEXT(tutti_topo_node_name(a, v, one), tutti_topo_node_name(b, v, other));
        CHECK(x.rank == y.rank && x.host == y.host && x.kind == y.kind && x.reduces == y.reduces);
        CHECK(x.flops_per_s == y.flops_per_s && x.mem_bytes_per_s == y.mem_bytes_per_s);
        REQUIRE(tutti_topo_out_count(a, v) == tutti_topo_out_count(b, v));
        for (uint32_t k = 0; k < tutti_topo_out_count(a, v); k++)
            CHECK_INT(tutti_topo_out_link(a, v, k), tutti_topo_out_link(b, v, k));
        check_out_links(a, v);
    }
    for (uint32_t r = 0; r < a->rank_count; r++)
        CHECK_INT(tutti_topo_rank_node(a, r), tutti_topo_rank_node(b, r));
}

static void check_links(const struct tutti_topo *a, const struct tutti_topo *b)
{
    struct tutti_link_class kinds[32]; /* more are only counted */
    struct tutti_link_class same[32];
    uint32_t more;
    uint32_t count = tutti_topo_link_classes(a, kinds, 32, &more);

    for (uint32_t l = 0; l < a->link_count; l++) {
        struct tutti_link x = tutti_topo_link(a, l);
        struct tutti_link y = tutti_topo_link(b, l);

        CHECK(memcmp(&x, &y, sizeof(x)) == 0);
        y = tutti_topo_link_figures(a, l);
        y.from = x.from;
        y.to = x.to;
        CHECK(memcmp(&x, &y, sizeof(x)) == 0);
        for (uint32_t n = 1; n <= 7; n += 3) {
            struct tutti_link some[7];

            REQUIRE(tutti_topo_links(a, l, some, n) ==
                    (a->link_count - l < n ? a->link_count - l : n));
            for (uint32_t i = 0; i < n && l + i < a->link_count; i++) {
                y = tutti_topo_link(b, l + i);
                CHECK(memcmp(&some[i], &y, sizeof(y)) == 0);
            }
        }
    }
    REQUIRE(tutti_topo_link_classes(b, same, 32, &more) == count);
    for (uint32_t c = 0; c < count; c++)
        CHECK(kinds[c].first == same[c].first && kinds[c].count == same[c].count);
}

static void check_routes(const struct tutti_topo *a, const struct tutti_topo *b)
{
    for (uint32_t i = 0; i < a->rank_count * a->rank_count; i++) {
        uint32_t one[HOPS_MAX];
        uint32_t other[HOPS_MAX];
        uint32_t count = tutti_topo_route(a, i / a->rank_count, i % a->rank_count, one, HOPS_MAX);

        REQUIRE(count <= HOPS_MAX);
        REQUIRE(tutti_topo_route(b, i / a->rank_count, i % a->rank_count, other, HOPS_MAX) ==
                count);
        CHECK(memcmp(one, other, count * sizeof(*one)) == 0);
    }
}

TEST(a_rule_answers_as_a_list_does)
{
    static const char *const specs[] = {
        "ring:n=3",
        "ring:n=8",
        "torus:3x4",
        "torus:1x5x1x3",
        "torus:3x4x5,bw=10GB/s",
        "torus:3x3x3x3",
        "hypercube:dims=1",
        "hypercube:dims=5,bw=3GB/s",
        "switch:n=1",
        "switch:n=7,lat=5ns,reduces",
        "fattree:arity=4,levels=2,over=2",
        "fattree:arity=3,levels=4",
        "fattree:arity=2,levels=6",
        "rail:nodes=7,gpus=4,nics=2,group=3,spines=5,over=2",
        "rail:nodes=3,gpus=1",
        "dgx-h100:nodes=5",
        "dgx-h100:nodes=5,group=2",
        "dgx-1v:nodes=3",
        "pcie:nodes=2",
    };

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct tutti_topo *topo = machine(specs[i]);
        struct tutti_topo *copy = listed(topo);

        REQUIRE(copy != NULL);
        CHECK(copy->node_count == topo->node_count && copy->link_count == topo->link_count);
        CHECK(copy->rank_count == topo->rank_count && copy->host_count == topo->host_count);
        CHECK(copy->shape.level_count == topo->shape.level_count);
        check_nodes(topo, copy);
        check_links(topo, copy);
        check_routes(topo, copy);
        tutti_topo_free(copy);
        tutti_topo_free(topo);
    }
}

/* Names that would be read as something else keep the whole of what they were. */
TEST(copies_have_names_of_their_own)
{
    struct tutti_topo *host = read_machine("node a/ device host=0\nnode 1 device host=0\n"
                                           "cable a/ 1 generic 1GB/s 1us\n");
    struct tutti_topo *topo = NULL;
    struct tutti_topo *copy;
    struct tutti_err err = {""};
    char name[TUTTI_NODE_NAME_BYTES];

    CHECK_OK(tutti_topo_replicate(host, 3, 0, &topo, &err), err);
    REQUIRE(topo != NULL);
    CHECK_TEXT(tutti_topo_node_name(topo, 0, name), "host0/a/");
    CHECK_TEXT(tutti_topo_node_name(topo, 5, name), "host2/1");
    copy = listed(topo);
    REQUIRE(copy != NULL);
    check_nodes(topo, copy);
    tutti_topo_free(copy);
    tutti_topo_free(topo);
    tutti_topo_free(host);
}

TEST(a_million_devices_take_next_to_nothing)
{
    static const char *const specs[] = {"ring:n=1048576", "torus:64x128x128", "switch:n=1048576",
                                        "hypercube:dims=20", "dgx-h100:nodes=131072"};

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct tutti_topo *topo = machine(specs[i]);

        CHECK_INT(topo->rank_count, 1 << 20);
        CHECK(tutti_arena_bytes(topo->arena) < 64 << 10);
        tutti_topo_free(topo);
    }
}

/* ---- changed links --------------------------------------------------------------------------- */

/* From an array of changes. */
static void from_array(const void *context, uint32_t index, struct tutti_link_change *ret)
{
    *ret = ((const struct tutti_link_change *)context)[index];
}

static bool ends_in_cpu(const struct tutti_topo *topo, uint32_t node)
{
    return tutti_topo_node(topo, node).kind == TUTTI_NODE_CPU;
}

/* Links that are said to be alike differ in their ends only, and those are as much CPUs. */
static void check_likeness(const struct tutti_topo *topo)
{
    for (uint32_t l = 0; l < topo->link_count; l++) {
        struct tutti_link_likeness likeness = tutti_topo_link_likeness(topo, l);
        struct tutti_link link = tutti_topo_link(topo, l);

        for (uint32_t m = 0; m < l && likeness.rule != NULL; m++) {
            struct tutti_link_likeness other = tutti_topo_link_likeness(topo, m);
            struct tutti_link like = tutti_topo_link(topo, m);

            if (other.rule != likeness.rule || other.change != likeness.change)
                continue;
            CHECK(ends_in_cpu(topo, link.from) == ends_in_cpu(topo, like.from) &&
                  ends_in_cpu(topo, link.to) == ends_in_cpu(topo, like.to));
            like.from = link.from;
            like.to = link.to;
            CHECK(memcmp(&link, &like, sizeof(link)) == 0);
        }
    }
}

static void check_changed(struct tutti_topo *topo)
{
    struct tutti_link_change changes[] = {
        {.link = 1, .bytes_per_s = 7, .latency_ps = 70},
        {.link = 8, .bytes_per_s = 7, .latency_ps = 70},
        {.link = topo->link_count > 62 ? 62 : 9, .bytes_per_s = 8, .latency_ps = 0},
        {.link = topo->link_count - 1, .bytes_per_s = 9, .latency_ps = 90}};
    struct tutti_err err = {""};

    /* One after the other, the last first: the earlier ones stay. */
    for (uint32_t first = 4; first-- > 0;) {
        CHECK_OK(tutti_topo_change_links(topo, 1, from_array, &changes[first], &err), err);
        for (uint32_t l = 0, c = first; l < topo->link_count; l++) {
            struct tutti_link link;

            REQUIRE(tutti_topo_links(topo, l, &link, 1) == 1);
            CHECK(link.bytes_per_s == tutti_topo_link(topo, l).bytes_per_s);
            CHECK(link.bytes_per_s == tutti_topo_link_figures(topo, l).bytes_per_s);
            CHECK(link.latency_ps == tutti_topo_link_figures(topo, l).latency_ps);
            if (c < 4 && changes[c].link == l) {
                CHECK_INT(link.bytes_per_s, changes[c].bytes_per_s);
                CHECK_INT(link.latency_ps, changes[c++].latency_ps);
            } else {
                CHECK(link.bytes_per_s > 10);
            }
        }
    }
    check_likeness(topo);
    for (uint32_t v = 0; v < topo->node_count; v++)
        check_out_links(topo, v);
    changes[2].bytes_per_s = 10;
    CHECK_OK(tutti_topo_change_links(topo, 4, from_array, changes, &err), err);
    CHECK_INT(tutti_topo_link(topo, changes[2].link).bytes_per_s, 10);
    CHECK_INT(tutti_topo_link(topo, 8).bytes_per_s, 7);
}

TEST(links_can_be_changed)
{
    static const char *const specs[] = {"full:n=4", "torus:4x4x4", "fattree:arity=4,levels=2",
                                        "dgx-h100:nodes=5"};

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct tutti_topo *topo = machine(specs[i]);

        check_changed(topo);
        tutti_topo_free(topo);
    }
}

TEST(a_change_counts_its_links_apart)
{
    struct tutti_topo *topo = machine("torus:4x4x4");
    struct tutti_link_change slow = {.link = 5, .bytes_per_s = 1, .latency_ps = 3};
    struct tutti_link_class classes[4];
    struct tutti_err err = {""};
    uint32_t more = 0;

    CHECK_OK(tutti_topo_change_links(topo, 1, from_array, &slow, &err), err);
    CHECK_INT(tutti_topo_link_classes(topo, classes, 4, &more), 2);
    CHECK_INT(classes[0].count, topo->link_count - 1);
    CHECK_INT(classes[1].first, 5);
    CHECK_INT(tutti_topo_link_classes(topo, classes, 1, &more), 1);
    CHECK_INT(more, 1);
    tutti_topo_free(topo);
}

TEST(classes_of_changed_links_are_those_of_the_listed_machine)
{
    static const char *const specs[] = {"torus:3x4x5", "fattree:arity=3,levels=3",
                                        "dgx-h100:nodes=7,group=2"};

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct tutti_topo *topo = machine(specs[i]);
        struct tutti_topo *copy = listed(topo);
        struct tutti_link *links = take_links(topo);
        struct tutti_link *same;

        for (uint32_t l = 0; l < topo->link_count; l++) {
            uint64_t draw = tutti_random_hash(test_seed, l, i, 0);

            links[l].bytes_per_s = draw % 3 == 0 ? links[l].bytes_per_s / 2 : links[l].bytes_per_s;
            links[l].latency_ps += draw / 3 % 4 == 0;
        }
        same = take_links(topo);
        memcpy(same, links, topo->link_count * sizeof(*links));
        put_links(topo, links);
        put_links(copy, same);
        check_links(topo, copy);
        tutti_topo_free(copy);
        tutti_topo_free(topo);
    }
}

TEST(wrong_changes_change_nothing)
{
    static const struct {
        struct tutti_link_change changes[2];
        const char *text;
    } cases[] = {
        {{{384, 1, 1}, {0, 0, 0}}, "a change of link 384 (there are 384 links)"},
        {{{5, 1, 1}, {5, 1, 1}}, "a change of link 5 after one of link 5 (in order, each once)"},
        {{{5, 0, 1}, {6, 1, 1}}, "link 5 changed to no rate (more than 0)"},
        {{{5, 1, 1}, {6, 1, -1}}, "link 6 changed to a negative latency"},
    };
    struct tutti_topo *topo = machine("torus:4x4x4");

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_err err = {""};

        CHECK_INT(tutti_topo_change_links(topo, 2, from_array, cases[i].changes, &err),
                  -TUTTI_EINVAL);
        CHECK_TEXT(err.text, cases[i].text);
        CHECK(tutti_topo_link(topo, 5).bytes_per_s > 1);
    }
    tutti_topo_free(topo);
}
