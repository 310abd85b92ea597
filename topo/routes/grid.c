/* Routes on grids of devices: dimension order, the shorter way round each ring, ties to +1. */
#include <assert.h>
#include <stdlib.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "topo/graph/graph.h"
#include "topo/graph/rule.h"
#include "topo/routes/router.h"

/* Coordinates are those of struct tutti_shape: axis 0 varies fastest. */
struct grid {
    uint32_t dim_count;
    uint32_t dim[TUTTI_DIMS_MAX];
    const uint32_t *skew; /* see TUTTI_ROUTES_GRID */
};

static struct grid grid_of(const struct tutti_topo *topo, const struct tutti_routes *plan)
{
    struct grid grid = {.dim_count = topo->shape.dim_count, .skew = plan->args};

    for (uint32_t d = 0; d < TUTTI_DIMS_MAX; d++)
        grid.dim[d] = d < grid.dim_count ? topo->shape.dim[d] : 1;
    return grid;
}

static void split(const struct grid *grid, uint32_t rank, int64_t *at)
{
    for (uint32_t d = 0; d < grid->dim_count; d++) {
        at[d] = rank % grid->dim[d];
        rank /= grid->dim[d];
    }
}

/* Brings coordinates that went over an edge back, moving the others as the twist says: n0 steps on
 * axis 0 are skew[0] on axis 1 and skew[1] on axis 2, n1 on axis 1 are skew[2] on axis 2. */
static uint32_t join(const struct grid *grid, int64_t *at)
{
    uint32_t rank = 0;
    uint32_t stride = 1;

    for (uint32_t d = 0; d < grid->dim_count; d++) {
        int64_t n = grid->dim[d];
        int64_t laps = at[d] >= 0 ? at[d] / n : -((n - 1 - at[d]) / n);

        at[d] -= laps * n;
        if (d == 0 && grid->dim_count > 1)
            at[1] += laps * grid->skew[0];
        if (d == 0 && grid->dim_count > 2)
            at[2] += laps * grid->skew[1];
        if (d == 1 && grid->dim_count > 2)
            at[2] += laps * grid->skew[2];
        rank += (uint32_t)at[d] * stride;
        stride *= grid->dim[d];
    }
    return rank;
}

static uint32_t neighbour(const struct grid *grid, uint32_t rank, uint32_t axis, int64_t step)
{
    int64_t at[TUTTI_DIMS_MAX];

    split(grid, rank, at);
    at[axis] += step;
    return join(grid, at);
}

/* The first link from one rank's node to another's of a listed machine; UINT32_MAX: none. */
static uint32_t link_between(const struct tutti_topo *topo, uint32_t from, uint32_t to)
{
    const struct tutti_graph *graph = topo->graph;
    uint32_t v = graph->rank_node[from];

    for (uint32_t k = graph->out_first[v]; k < graph->out_first[v + 1]; k++)
        if (graph->links[graph->out_links[k]].to == graph->rank_node[to])
            return graph->out_links[k];
    return UINT32_MAX;
}

static void plain_route(const struct tutti_topo *topo, uint32_t from, uint32_t to,
                        struct tutti_path *path)
{
    const struct tutti_shape *shape = &topo->shape;
    uint32_t stride = 1;
    uint32_t here = from;

    for (uint32_t d = 0; d < shape->dim_count; stride *= shape->dim[d++]) {
        uint32_t n = shape->dim[d];
        uint32_t x = here / stride % n;
        uint32_t end = to / stride % n;
        uint32_t up = (end + n - x) % n;
        bool positive = shape->wrap[d] ? up <= n - up : end > x;

        while (x != end) {
            uint32_t y = positive ? (x + 1) % n : (x + n - 1) % n;
            uint32_t there = here - x * stride + y * stride;

            tutti_path_add(path, link_between(topo, here, there));
            here = there;
            x = y;
        }
    }
    assert(here == to);
}

/* The same where a rule numbers the links: all axes are rings. */
static void rule_route(const struct tutti_topo *topo, uint32_t from, uint32_t to,
                       struct tutti_path *path)
{
    const struct tutti_grid_rule *grid = &topo->graph->rule->grid;
    uint32_t axes = grid->axis_count;
    uint32_t here = from;

    for (uint32_t a = 0; here != to; a++) {
        uint32_t n = grid->length[a];
        uint32_t stride = grid->stride[a];
        uint32_t x = from % n;
        uint32_t end = to / stride % n;
        uint32_t up = end >= x ? end - x : end + n - x;

        from /= n;
        for (; x != end && up <= n - up; x = x + 1 < n ? x + 1 : 0) {
            tutti_path_add(path, 2 * (here * axes + a));
            here = x + 1 < n ? here + stride : here - x * stride;
        }
        for (; x != end; x = x > 0 ? x - 1 : n - 1) {
            here = x > 0 ? here - stride : here + (n - 1) * stride;
            tutti_path_add(path, 2 * (here * axes + a) + 1);
        }
    }
}

/* Tables of a twisted torus reuse `first`: by difference of positions, 2 * axis + (1: downwards). A
 * twisted torus looks the same from every device, so one table serves all. */
static void twisted_route(const struct tutti_topo *topo, uint32_t from, uint32_t to,
                          struct tutti_path *path)
{
    struct grid grid = grid_of(topo, &topo->router->plan);
    int64_t at[TUTTI_DIMS_MAX];
    int64_t begin[TUTTI_DIMS_MAX];
    uint32_t here = from;

    split(&grid, to, at);
    split(&grid, from, begin);
    for (uint32_t d = 0; d < grid.dim_count; d++)
        at[d] -= begin[d];
    for (uint32_t left = join(&grid, at); left != 0;) {
        uint32_t step = topo->router->first[left];
        int64_t sign = (step & 1) != 0 ? -1 : 1;
        uint32_t there = neighbour(&grid, here, step / 2, sign);

        tutti_path_add(path, link_between(topo, here, there));
        left = neighbour(&grid, left, step / 2, -sign);
        here = there;
    }
    assert(here == to);
}

/* Breadth first from 0: distance of every difference, then the lowest first step that gets nearer.
 */
static int twisted_table(const struct tutti_topo *topo, const struct grid *grid,
                         struct tutti_router *router, struct tutti_err *err)
{
    uint32_t count = topo->rank_count;
    uint32_t *hops = malloc(count * sizeof(*hops));
    uint32_t *queue = malloc(count * sizeof(*queue));
    uint32_t reached = 1;

    router->first = tutti_arena_take(topo->arena, count, sizeof(*router->first));
    if (hops == NULL || queue == NULL || router->first == NULL) {
        free(hops);
        free(queue);
        return tutti_nomem(err);
    }
    for (uint32_t v = 0; v < count; v++)
        hops[v] = UINT32_MAX;
    hops[0] = queue[0] = 0;
    for (uint32_t q = 0; q < reached; q++) {
        for (uint32_t step = 0; step < 2 * grid->dim_count; step++) {
            uint32_t v = neighbour(grid, queue[q], step / 2, (step & 1) != 0 ? -1 : 1);

            if (hops[v] == UINT32_MAX) {
                hops[v] = hops[queue[q]] + 1;
                queue[reached++] = v;
            }
        }
    }
    assert(reached == count);
    for (uint32_t v = 1; v < count; v++) {
        uint32_t step = 0;

        while (hops[neighbour(grid, v, step / 2, (step & 1) != 0 ? 1 : -1)] >= hops[v])
            step++;
        router->first[v] = step;
    }
    free(hops);
    free(queue);
    return 0;
}

static int no_link(const struct tutti_topo *topo, uint32_t from, uint32_t to, uint32_t axis,
                   struct tutti_err *err)
{
    char from_name[TUTTI_NODE_NAME_BYTES];
    char to_name[TUTTI_NODE_NAME_BYTES];

    return tutti_fail(err, TUTTI_EINVAL, "not a grid: no link between '%s' and '%s' on axis %u",
                      tutti_topo_node_name(topo, tutti_topo_rank_node(topo, from), from_name),
                      tutti_topo_node_name(topo, tutti_topo_rank_node(topo, to), to_name), axis);
}

static int check_links(const struct tutti_topo *topo, const struct grid *grid,
                       struct tutti_err *err)
{
    for (uint32_t r = 0; r < topo->rank_count; r++) {
        uint32_t stride = 1;

        for (uint32_t d = 0; d < grid->dim_count; stride *= grid->dim[d++]) {
            uint32_t to = neighbour(grid, r, d, 1);

            if (grid->dim[d] == 1 ||
                (!topo->shape.wrap[d] && r / stride % grid->dim[d] + 1 == grid->dim[d]))
                continue;
            if (to == r) /* a twist that leads back: no link is needed */
                continue;
            if (link_between(topo, r, to) == UINT32_MAX || link_between(topo, to, r) == UINT32_MAX)
                return no_link(topo, r, to, d, err);
        }
    }
    return 0;
}

int tutti_router_grid(const struct tutti_topo *topo, struct tutti_router *router,
                      struct tutti_err *err)
{
    struct grid grid = grid_of(topo, &router->plan);
    bool twisted = false;
    int status;

    if (grid.dim_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "routes on a grid, but the machine has no dims");
    for (uint32_t i = 0; i < TUTTI_ROUTES_ARGS_MAX; i++)
        twisted = twisted || router->plan.args[i] != 0;
    for (uint32_t d = 0; d < grid.dim_count && twisted; d++)
        if (grid.dim_count > 3 || !topo->shape.wrap[d])
            return tutti_fail(err, TUTTI_EINVAL,
                              "a twisted grid has up to 3 dims, all of them rings");
    if (topo->graph->rule != NULL) {
        assert(!twisted);
        router->route = rule_route;
        return 0;
    }
    status = check_links(topo, &grid, err);
    if (status < 0)
        return status;
    router->route = twisted ? twisted_route : plain_route;
    return twisted ? twisted_table(topo, &grid, router, err) : 0;
}
