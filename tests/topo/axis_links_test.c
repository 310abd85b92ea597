/* Axes of grids that follow a rule: their links as a whole are those of the routes. */
#include "runtime/status.h"
#include "tests/test.h"
#include "topo/topo.h"

static void compare_axis(const struct tutti_topo *topo, uint32_t size, uint32_t stride,
                         bool reversed)
{
    struct tutti_axis_links axis;

    REQUIRE(tutti_topo_axis_links(topo, size, stride, reversed, &axis));
    for (uint32_t rank = 0; rank < topo->rank_count; rank++) {
        uint32_t x = rank / stride % size;
        uint32_t next = rank - x * stride + (reversed ? x + size - 1 : x + 1) % size * stride;
        uint32_t links[2];
        struct tutti_link link;

        REQUIRE(tutti_topo_route(topo, rank, next, links, 2) == 1);
        CHECK_INT(links[0], axis.first + axis.per_rank * (axis.of_next ? next : rank));
        link = tutti_topo_link(topo, links[0]);
        CHECK_INT(link.latency_ps, axis.link.latency_ps);
        CHECK_INT(link.bytes_per_s, axis.link.bytes_per_s);
        CHECK_INT(link.kind, axis.link.kind);
        CHECK(!axis.changed && !tutti_topo_link_is_changed(topo, links[0]));
    }
}

TEST(links_of_an_axis_are_those_of_its_routes)
{
    static const char *const specs[] = {"ring:n=3",    "ring:n=17,bw=7GB/s", "torus:4x4",
                                        "torus:3x5x4", "torus:1x3x1x6",      "torus:3x3x3x3",
                                        "tpu-v4:4x4x8"};
    uint32_t axes = 0;

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct tutti_topo *topo = NULL;
        struct tutti_err err = {.text = ""};
        uint32_t stride = 1;

        CHECK_OK(tutti_topo_from_spec(specs[i], &topo, &err), err);
        for (uint32_t d = 0; d < topo->shape.dim_count; d++) {
            uint32_t size = topo->shape.dim[d];
            struct tutti_axis_links axis;

            if (size > 1 && tutti_topo_axis_links(topo, size, stride, false, &axis)) {
                compare_axis(topo, size, stride, false);
                compare_axis(topo, size, stride, true);
                axes++;
            }
            stride *= size;
        }
        tutti_topo_free(topo);
    }
    printf("%u axes\n", axes);
    CHECK(axes >= 13);
}

static bool has_axis(const char *spec, uint32_t size, uint32_t stride)
{
    struct tutti_axis_links axis;
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {.text = ""};
    bool has;

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    has = tutti_topo_axis_links(topo, size, stride, false, &axis);
    tutti_topo_free(topo);
    return has;
}

TEST(other_rings_are_no_axes)
{
    CHECK(has_axis("torus:4x5", 4, 1));
    CHECK(!has_axis("torus:4x5", 5, 1));
    CHECK(!has_axis("torus:4x5", 20, 1));
    CHECK(!has_axis("mesh:4x4", 4, 1));
    CHECK(!has_axis("torus:2x4", 2, 1));
    CHECK(!has_axis("switch:n=4", 4, 1));
    CHECK(!has_axis("dgx-h100:nodes=2", 8, 1));
}
