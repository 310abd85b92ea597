/* Tests of the search for ring orders: found where devices are wired, never over what is not. */
#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/test.h"
#include "topo/topo.h"

/* The same machine without its declared orders. */
static struct tutti_topo *stripped(const char *spec)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    char *text = NULL;
    size_t used = 0;

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    CHECK_OK(tutti_topo_print(topo, &text, &err), err);
    tutti_topo_free(topo);
    topo = NULL;
    if (text == NULL)
        exit(1);
    for (const char *line = text; *line != '\0';) {
        size_t bytes = strcspn(line, "\n") + 1;

        if (strncmp(line, "order ", 6) != 0) {
            memmove(text + used, line, bytes);
            used += bytes;
        }
        line += bytes;
    }
    CHECK_OK(tutti_topo_parse("test", text, used, &topo, &err), err);
    free(text);
    if (topo == NULL)
        exit(1);
    return topo;
}

/* Counts how often the rings go over each link, checks that no link is over its rate in units and
 * that rings are permutations; returns the share of all units that is used, in percent. */
static int check_rings(const struct tutti_topo *topo, uint64_t unit)
{
    uint32_t n = topo->rank_count;
    uint64_t used = 0;
    uint64_t units = 0;

    for (uint32_t o = 0; o < topo->shape.order_count; o++) {
        uint32_t seen = 0;

        for (uint32_t i = 0; i < n; i++)
            seen |= 1u << topo->shape.orders[o * n + i];
        CHECK_INT(seen, (1u << n) - 1);
    }
    for (uint32_t l = 0; l < topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(topo, l);
        uint64_t uses = 0;

        if (link.kind != TUTTI_LINK_NVLINK && link.kind != TUTTI_LINK_XGMI)
            continue;
        for (uint32_t o = 0; o < topo->shape.order_count; o++) {
            for (uint32_t i = 0; i < n; i++) {
                uint32_t a = topo->shape.orders[o * n + i];
                uint32_t b = topo->shape.orders[o * n + (i + 1) % n];

                uses += tutti_topo_rank_node(topo, a) == link.from &&
                        tutti_topo_rank_node(topo, b) == link.to;
            }
        }
        CHECK(uses * unit <= link.bytes_per_s);
        used += uses;
        units += link.bytes_per_s / unit;
    }
    /* every step of every ring goes over a link */
    CHECK_INT(used, (uint64_t)topo->shape.order_count * n);
    return units == 0 ? 0 : (int)(100 * used / units);
}

TEST(the_links_of_known_machines_are_all_used)
{
    static const struct {
        const char *spec;
        uint32_t rings;
        uint64_t unit;
    } cases[] = {
        {"dgx-1v", 6, 25000000000u}, {"dgx-1p", 4, 20000000000u}, {"mi300x", 7, 64000000000u}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_topo *topo = stripped(cases[i].spec);

        CHECK_INT(topo->shape.order_count, cases[i].rings);
        CHECK_INT(check_rings(topo, cases[i].unit), 100);
        tutti_topo_free(topo);
    }
}

TEST(where_there_is_no_ring_ranks_keep_their_order)
{
    static const char *const texts[] = {
        /* a path */
        "node a device\nnode b device\nnode c device\n"
        "cable a b nvlink 1GB/s 1us\ncable b c nvlink 1GB/s 1us\n",
        /* wired, but not by NVLink */
        "node a device\nnode b device\nnode c device\n"
        "cable a b pcie 1GB/s 1us\ncable b c pcie 1GB/s 1us\ncable c a pcie 1GB/s 1us\n",
        /* behind a switch */
        "node a device\nnode b device\nnode c device\nnode s switch\n"
        "cable a s nvlink 1GB/s 1us\ncable b s nvlink 1GB/s 1us\ncable c s nvlink 1GB/s 1us\n",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct tutti_topo *topo = NULL;
        struct tutti_err err = {""};

        CHECK_OK(tutti_topo_parse("test", texts[i], strlen(texts[i]), &topo, &err), err);
        REQUIRE(topo != NULL);
        CHECK_INT(topo->shape.order_count, 0);
        tutti_topo_free(topo);
    }
}

/* One way round only: the ring goes that way. */
TEST(rings_go_the_way_the_links_go)
{
    static const char text[] = "node a device\nnode b device\nnode c device\n"
                               "link a c nvlink 1GB/s 1us\nlink c b nvlink 1GB/s 1us\n"
                               "link b a nvlink 1GB/s 1us\n";
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_parse("test", text, strlen(text), &topo, &err), err);
    REQUIRE(topo != NULL);
    CHECK_INT(topo->shape.order_count, 1);
    CHECK_INT(topo->shape.orders[1], 2);
    CHECK_INT(topo->shape.orders[2], 1);
    tutti_topo_free(topo);
}

TEST(rings_of_random_machines_hold_together)
{
    struct tutti_random random;
    uint32_t found = 0;

    tutti_random_seed(&random, test_seed);
    for (int turn = 0; turn < 200; turn++) {
        char text[16384];
        size_t used = 0;
        uint32_t n = 3 + (uint32_t)tutti_random_below(&random, 14);
        struct tutti_topo *topo = NULL;
        struct tutti_err err = {""};

        for (uint32_t i = 0; i < n; i++)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "node g%u device\n", i);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < i; j++)
                if (j + 1 == i || tutti_random_below(&random, 3) == 0)
                    used += (size_t)snprintf(
                        text + used, sizeof(text) - used, "cable g%u g%u nvlink %dGB/s 1us\n", i, j,
                        j + 1 == i ? 1 : 1 + (int)tutti_random_below(&random, 3));
        CHECK_OK(tutti_topo_parse("test", text, used, &topo, &err), err);
        REQUIRE(topo != NULL);
        (void)check_rings(topo, 1000000000u);
        found += topo->shape.order_count > 0;
        tutti_topo_free(topo);
    }
    printf("        %u of 200 machines have rings\n", found);
    CHECK(found > 100);
}
