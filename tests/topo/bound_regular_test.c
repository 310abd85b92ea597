/* Tests of bounds on machines that follow a rule: as on the same machine listed link by link. */
#include <stdlib.h>

#include "runtime/random.h"
#include "runtime/schedule.h"
#include "tests/machines.h"
#include "tests/test.h"
#include "tests/topo/links.h"
#include "topo/perturb.h"

/* The same machine, printed and read back: read machines are listed. */
static struct tutti_topo *listed(const struct tutti_topo *topo)
{
    struct tutti_topo *copy = NULL;
    struct tutti_err err = {""};
    char *text = NULL;

    CHECK_OK(tutti_topo_print(topo, &text, &err), err);
    CHECK_OK(tutti_topo_parse("printed", text, strlen(text), &copy, &err), err);
    free(text);
    return copy;
}

static void check_same(const char *spec, const struct tutti_topo *topo,
                       const struct tutti_topo *copy, uint32_t root)
{
    for (int c = 0; c < TUTTI_CUSTOM; c++) {
        enum tutti_collective collective = (enum tutti_collective)c;
        struct tutti_bound_law law;
        struct tutti_bound_law same;
        struct tutti_err err = {""};

        if (!test_takes())
            continue;
        CHECK_OK(tutti_topo_bound_law(topo, collective, root, &law, &err), err);
        CHECK_OK(tutti_topo_bound_law(copy, collective, root, &same, &err), err);
        if (law.latency_ps != same.latency_ps || law.exact != same.exact ||
            !tutti_wide_equal(law.bytes, same.bytes) ||
            !tutti_wide_equal(law.bytes_per_s, same.bytes_per_s) ||
            strcmp(law.rates_bind, same.rates_bind) != 0 ||
            strcmp(law.latency_binds, same.latency_binds) != 0)
            TEST_FAIL("%s, %s, root %u: by rule %s %d %g/%g, %s, listed %s %d %g/%g, %s", spec,
                      tutti_collective_name(collective), root, law.rates_bind, law.exact,
                      tutti_wide_double(law.bytes), tutti_wide_double(law.bytes_per_s),
                      law.latency_binds, same.rates_bind, same.exact, tutti_wide_double(same.bytes),
                      tutti_wide_double(same.bytes_per_s), same.latency_binds);
    }
}

static void check_spec(const char *spec)
{
    struct tutti_topo *topo = machine(spec);
    struct tutti_topo *copy = listed(topo);

    check_same(spec, topo, copy, 0);
    check_same(spec, topo, copy,
               (uint32_t)(tutti_random_hash(test_seed, 1, 0, 0) % topo->rank_count));
    tutti_topo_free(copy);
    tutti_topo_free(topo);
}

TEST(bounds_by_rule_are_those_of_the_listed_machine)
{
    static const char *const specs[] = {
        "ring:n=9",
        "ring:n=12",
        "torus:9",
        "torus:3x3",
        "torus:4x5",
        "torus:5x3x4",
        "torus:1x5x1x3",
        "torus:3x3x3x4,lat=0s",
        "torus:3x7x3,bw=9000000000GB/s,lat=9000000s",
        "hypercube:dims=4",
        "hypercube:dims=5,bw=7GB/s",
        "hypercube:dims=4,lat=0s",
        "switch:n=9",
        "switch:n=40,reduces,lat=1ns",
        "dgx-h100:nodes=10",
        "dgx-h100:nodes=12,group=4",
        "dgx-h100:nodes=12,group=4,over=3",
        "dgx-h100:nodes=12,group=3,over=16,spines=2",
        "dgx-h100:nodes=15,group=5,spines=3,nicbw=10GB/s",
        "dgx-h100:nodes=15,group=5,nicbw=900GB/s",
        "dgx-h100:nodes=12,group=5",
        "dgx-1v:nodes=12",
        "dgx-1v:nodes=12,group=3",
        "dgx-2:nodes=10",
        "mi300x:nodes=12,group=4,spines=1",
        "rail:nodes=12,gpus=1,group=3",
        "rail:nodes=24,gpus=4,nics=2,group=6,spines=4",
        "rail:nodes=24,gpus=3,nics=1,group=8,spines=1,over=2",
        "pcie:nodes=10",
    };

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        check_spec(specs[i]);
}

/* As listed, and changed there. */
static void from_array(const void *context, uint32_t index, struct tutti_link_change *ret)
{
    *ret = ((const struct tutti_link_change *)context)[index];
}

TEST(a_few_slow_links_of_a_grid_are_told_apart)
{
    static const char *const specs[] = {"ring:n=9",    "ring:n=30",   "torus:3x4",
                                        "torus:5x3x4", "torus:1x5x3", "torus:3x3x3x4"};

    for (uint64_t i = 0; i < 60; i++) {
        const char *spec = specs[i % (sizeof(specs) / sizeof(specs[0]))];
        struct tutti_topo *topo = machine(spec);
        struct tutti_topo *copy = listed(topo);
        uint64_t rate = tutti_topo_link(topo, 0).bytes_per_s;
        uint64_t draw = tutti_random_hash(test_seed, 3, i, 0);
        uint32_t cable = (uint32_t)(draw % (topo->link_count / 2 - 2)) * (draw / 1000 % 8 != 0);
        struct tutti_link_change slow[] = {{.link = 2 * cable, .bytes_per_s = rate / 3},
                                           {.link = 2 * cable + 1, .bytes_per_s = rate / 3},
                                           {.link = 2 * cable + 2, .bytes_per_s = rate / 5},
                                           {.link = 2 * cable + 5, .bytes_per_s = rate}};
        uint32_t count = 1 + (uint32_t)(draw / 8000 % 4);
        struct tutti_err err = {""};

        for (uint32_t s = 0; s < 4; s++)
            slow[s].latency_ps = tutti_topo_link(topo, 0).latency_ps;
        CHECK_OK(tutti_topo_change_links(topo, count, from_array, slow, &err), err);
        CHECK_OK(tutti_topo_change_links(copy, count, from_array, slow, &err), err);
        check_same(spec, topo, copy, 0);
        check_same(spec, topo, copy, (uint32_t)(draw / 64000 % topo->rank_count));
        tutti_topo_free(copy);
        tutti_topo_free(topo);
    }
}

TEST(slow_links_of_clusters_bound_as_listed)
{
    static const char *const specs[] = {"rail:nodes=12,gpus=4,group=4,spines=3",
                                        "rail:nodes=10,gpus=2,nics=1,group=5,spines=2,over=2",
                                        "dgx-1v:nodes=5,group=2", "dgx-h100:nodes=6"};

    for (uint64_t i = 0; i < 24; i++) {
        const char *spec = specs[i % (sizeof(specs) / sizeof(specs[0]))];
        struct tutti_topo *topo = machine(spec);
        struct tutti_topo *copy = listed(topo);
        struct tutti_link *links = take_links(topo);
        struct tutti_link *same = take_links(topo);
        uint32_t spines = topo->node_count - 3; /* or leaves: links between them stay, mostly */

        for (uint32_t l = 0; l < topo->link_count; l++) {
            uint64_t draw = tutti_random_hash(test_seed, 11, i, l);

            if (draw % 10 == 0 && (i % 3 == 0 || (links[l].from < spines && links[l].to < spines)))
                links[l].bytes_per_s = links[l].bytes_per_s * 4 / 5;
            same[l] = links[l];
        }
        put_links(topo, links);
        put_links(copy, same);
        check_same(spec, topo, copy, 1);
        tutti_topo_free(copy);
        tutti_topo_free(topo);
    }
}

/* All that is in them is slower; the other hosts are as the rule says. */
TEST(slow_hosts_bound_as_listed)
{
    static const char *const specs[] = {"dgx-h100:nodes=10,group=5",
                                        "rail:nodes=12,gpus=4,group=4,spines=3",
                                        "dgx-1v:nodes=12,group=3",
                                        "rail:nodes=9,gpus=1,group=3",
                                        "dgx-h100:nodes=11,group=4",
                                        "dgx-h100:nodes=8,group=2,over=3",
                                        "rail:nodes=10,gpus=2,nics=1,group=5,spines=2,over=2"};
    static const char *const words[] = {"slow-node=10%:1.2", "slow-node=host0:2",
                                        "slow-node=50%:20", "slow-node=2:1.5,slow-link=3:3"};

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++) {
            struct tutti_topo *topo = machine(specs[i]);
            struct tutti_perturb perturb = {.item_count = 0};
            struct tutti_topo *copy;
            struct tutti_err err = {""};

            CHECK_OK(tutti_perturb_add(&perturb, words[w], &err), err);
            CHECK_OK(tutti_topo_perturb(topo, &perturb, test_seed, &err), err);
            copy = listed(topo);
            check_same(specs[i], topo, copy, 0);
            check_same(specs[i], topo, copy, topo->rank_count - 1);
            tutti_topo_free(copy);
            tutti_topo_free(topo);
        }
    }
}

/* Machines of three rates and sizes drawn at random. */
TEST(bounds_by_rule_are_those_of_listed_machines_drawn_at_random)
{
    for (uint64_t i = 0; i < 25; i++) {
        static const char *const rates[] = {"5GB/s", "50GB/s", "300GB/s", "2000GB/s"};
        uint64_t draw = tutti_random_hash(test_seed, 7, i, 0);
        uint32_t group = 3 + (uint32_t)(draw % 5);
        uint32_t groups = draw % 3 == 0 ? 1 : 3 + (uint32_t)(draw / 5 % 3);
        uint32_t gpus = 1 + (uint32_t)(draw / 15 % 5);
        char spec[200];

        snprintf(spec, sizeof(spec),
                 "rail:nodes=%u,gpus=%u,nics=%u,group=%u,spines=%u,over=%u,bw=%s,nic=%s",
                 groups == 1 ? group + 7 : group * groups, gpus, 1 + (uint32_t)(draw / 75 % gpus),
                 groups == 1 ? group + 7 : group, 1 + (uint32_t)(draw / 1000 % 6),
                 1 + (uint32_t)(draw / 7000 % 3), rates[draw / 30000 % 4],
                 rates[draw / 130000 % 4]);
        check_spec(spec);
    }
}
