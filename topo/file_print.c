/* Our own text form of a machine: writing it. The grammar stands in file.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "topo/graph/routes.h"
#include "topo/hardware/text.h"
#include "topo/topo.h"

static void print_flops(FILE *out, uint64_t flops)
{
    static const char suffixes[] = {'K', 'M', 'G', 'T', 'P'};
    int power = 0;

    while (power < 5 && flops != 0 && flops % 1000 == 0) {
        flops /= 1000;
        power++;
    }
    fprintf(out, " flops=%" PRIu64, flops);
    if (power > 0)
        fputc(suffixes[power - 1], out);
}

static void print_node(FILE *out, const struct tutti_topo *topo, uint32_t v)
{
    const struct tutti_node at = tutti_topo_node(topo, v);
    const struct tutti_node *node = &at;
    char name[TUTTI_NODE_NAME_BYTES];
    char buf[TUTTI_UNIT_TEXT_BYTES];

    fprintf(out, "node %s %s", tutti_topo_node_name(topo, v, name),
            tutti_node_kind_name((enum tutti_node_kind)node->kind));
    if (node->kind == TUTTI_NODE_DEVICE)
        fprintf(out, " rank=%" PRIu32, node->rank);
    if (node->host != UINT32_MAX)
        fprintf(out, " host=%" PRIu32, node->host);
    if (node->kind == TUTTI_NODE_DEVICE && node->flops_per_s > 0)
        print_flops(out, node->flops_per_s);
    if (node->kind == TUTTI_NODE_DEVICE && node->mem_bytes_per_s > 0)
        fprintf(out, " mem=%s", tutti_print_rate(node->mem_bytes_per_s, buf));
    fprintf(out, "%s\n", node->reduces ? " reduces" : "");
}

/* Are links l and l + 1 the two directions of one cable? */
static bool is_cable(const struct tutti_topo *topo, uint32_t l)
{
    struct tutti_link a = tutti_topo_link(topo, l);
    struct tutti_link b;

    if (l + 1 == topo->link_count)
        return false;
    b = tutti_topo_link(topo, l + 1);
    return a.from == b.to && a.to == b.from && a.kind == b.kind && a.bytes_per_s == b.bytes_per_s &&
           a.latency_ps == b.latency_ps && a.cable_count == b.cable_count &&
           a.burst_bytes == b.burst_bytes;
}

static void print_links(FILE *out, const struct tutti_topo *topo)
{
    for (uint32_t l = 0; l < topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(topo, l);
        bool cable = is_cable(topo, l);
        char from[TUTTI_NODE_NAME_BYTES];
        char to[TUTTI_NODE_NAME_BYTES];
        char rate[TUTTI_UNIT_TEXT_BYTES];
        char latency[TUTTI_UNIT_TEXT_BYTES];

        fprintf(
            out, "%s %s %s %s %s %s", cable ? "cable" : "link",
            tutti_topo_node_name(topo, link.from, from), tutti_topo_node_name(topo, link.to, to),
            tutti_link_kind_name((enum tutti_link_kind)link.kind),
            tutti_print_rate(link.bytes_per_s, rate), tutti_print_time(link.latency_ps, latency));
        if (link.cable_count != 1)
            fprintf(out, " cables=%" PRIu32, link.cable_count);
        if (link.burst_bytes > 0)
            fprintf(out, " burst=%s", tutti_print_size(link.burst_bytes, rate));
        fputc('\n', out);
        l += cable;
    }
}

static void print_shape(FILE *out, const struct tutti_shape *shape)
{
    for (uint32_t i = 0; i < shape->level_count; i++)
        fprintf(out, "%s%" PRIu32, i == 0 ? "levels " : " ", shape->level[i]);
    fputs(shape->level_count > 0 ? "\n" : "", out);
    for (uint32_t d = 0; d < shape->dim_count; d++)
        fprintf(out, "%s%" PRIu32, d == 0 ? "dims " : "x", shape->dim[d]);
    fputs(shape->dim_count > 0 ? " wrap=" : "", out);
    for (uint32_t d = 0; d < shape->dim_count; d++)
        fputc(shape->wrap[d] ? '1' : '0', out);
    fputs(shape->dim_count > 0 ? "\n" : "", out);
    for (uint32_t o = 0; o < shape->order_count; o++) {
        fputs("order", out);
        for (uint32_t r = 0; r < shape->rank_count; r++)
            fprintf(out, " %" PRIu32, shape->orders[(size_t)o * shape->rank_count + r]);
        fputc('\n', out);
    }
}

static void print_routes(FILE *out, const struct tutti_routes *routes)
{
    const uint32_t *args = routes->args;

    if (routes->kind == TUTTI_ROUTES_GRID && (args[0] | args[1] | args[2]) == 0)
        fputs("routes grid\n", out);
    else if (routes->kind == TUTTI_ROUTES_GRID)
        fprintf(out, "routes grid %" PRIu32 " %" PRIu32 " %" PRIu32 "\n", args[0], args[1],
                args[2]);
    else if (routes->kind == TUTTI_ROUTES_CUBE)
        fputs("routes cube\n", out);
    else if (routes->kind == TUTTI_ROUTES_TREE)
        fprintf(out, "routes tree %" PRIu32 " %" PRIu32 " %" PRIu32 "\n", args[0], args[1],
                args[2]);
    else if (routes->kind == TUTTI_ROUTES_CLUSTER)
        fprintf(out, "routes cluster %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 "\n", args[0],
                args[1], args[2], args[3]);
}

/* Also what is not ASCII. */
static bool visible(char c)
{
    return (unsigned char)c > ' ' && c != 0x7f;
}

/* Names may come from anywhere; a line break in one would end the statement, and blanks round it
 * are not read back. */
static void print_title(FILE *out, const char *statement, const char *text)
{
    size_t length = strlen(text);

    while (length > 0 && !visible(text[length - 1]))
        length--;
    while (length > 0 && !visible(*text)) {
        text++;
        length--;
    }
    if (length == 0)
        return;
    fputs(statement, out);
    for (size_t i = 0; i < length; i++)
        fputc(visible(text[i]) ? text[i] : ' ', out);
    fputc('\n', out);
}

int tutti_topo_print(const struct tutti_topo *topo, char **ret, struct tutti_err *err)
{
    struct tutti_routes routes = tutti_topo_routes(topo);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    bool failed;

    if (out == NULL)
        return tutti_nomem(err);
    print_title(out, "topology ", topo->name);
    print_title(out, "source ", topo->source);
    for (uint32_t v = 0; v < topo->node_count; v++)
        print_node(out, topo, v);
    print_links(out, topo);
    print_shape(out, &topo->shape);
    print_routes(out, &routes);
    if (topo->net_kind != TUTTI_NET_UNKNOWN)
        fprintf(out, "net %s\n", tutti_net_kind_name((enum tutti_net_kind)topo->net_kind));
    if (topo->hardware != NULL)
        tutti_hw_print(out, topo->hardware);
    failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed || text == NULL) {
        free(text);
        return tutti_nomem(err);
    }
    *ret = text;
    return 0;
}
