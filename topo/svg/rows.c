/* Hosts side by side, a row for each kind of node; below them the network: leaves, spines. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "topo/svg/drawing.h"
#include "topo/svg/place.h"

/* Rows from top to bottom. Where a host has PCIe switches or CPUs, their tree stands above the
 * devices and NVSwitches below; else NVSwitches above. A node's box.y is its row until the end. */
enum row { CPU, TREE4, TREE3, TREE2, TREE1, ABOVE, LEAVES, BELOW, NICS, ROW_COUNT, NO_ROW = 255 };

enum { PAD = 12, HOSTS_GAP = 22, HOST_WIDTH_MIN = 90, MORE_WIDTH = 130, ROW_HEIGHT = 58 };

struct rows {
    struct tutti_drawing *drawing;
    const struct tutti_topo *topo;
    uint32_t group_count;  /* hosts, and one for what is in none */
    uint32_t *group_first; /* [group_count + 1]: in members */
    uint32_t *members;     /* [node_count]: nodes of the groups */
    uint8_t *row;          /* [node_count] */
    uint32_t *list;        /* [node_count]: nodes of the row that is being placed */
    bool used[ROW_COUNT];
    bool tree; /* some host has PCIe switches or CPUs */
};

/* Switches outside hosts are the network; all else belongs to a group. */
static uint32_t group_of(const struct rows *rows, uint32_t v)
{
    struct tutti_node node = tutti_topo_node(rows->topo, v);

    if (node.host != UINT32_MAX)
        return node.host;
    return node.kind == TUTTI_NODE_SWITCH ? UINT32_MAX : rows->topo->host_count;
}

static int gather(struct rows *rows, struct tutti_err *err)
{
    const struct tutti_topo *topo = rows->topo;

    rows->group_count = topo->host_count + 1;
    rows->group_first = calloc((size_t)rows->group_count + 2, sizeof(uint32_t));
    rows->members = calloc(topo->node_count, sizeof(uint32_t));
    rows->row = calloc(topo->node_count, sizeof(uint8_t));
    rows->list = calloc(topo->node_count, sizeof(uint32_t));
    if (rows->group_first == NULL || rows->members == NULL || rows->row == NULL ||
        rows->list == NULL)
        return tutti_nomem(err);
    for (uint32_t v = 0; v < topo->node_count; v++)
        if (group_of(rows, v) != UINT32_MAX)
            rows->group_first[group_of(rows, v) + 2]++;
    for (uint32_t g = 0; g < rows->group_count; g++)
        rows->group_first[g + 2] += rows->group_first[g + 1];
    for (uint32_t v = 0; v < topo->node_count; v++)
        if (group_of(rows, v) != UINT32_MAX)
            rows->members[rows->group_first[group_of(rows, v) + 1]++] = v;
    return 0;
}

/* Does v have a link of one of these kinds? */
static bool has_kind(const struct tutti_topo *topo, uint32_t v, uint32_t kinds)
{
    for (uint32_t k = 0; k < tutti_topo_out_count(topo, v); k++)
        if ((kinds >> tutti_topo_link(topo, tutti_topo_out_link(topo, v, k)).kind & 1) != 0)
            return true;
    return false;
}

/* Does v have a neighbour of its group in one of these rows (a bit each)? */
static bool touches(const struct rows *rows, uint32_t v, uint32_t wanted)
{
    const struct tutti_topo *topo = rows->topo;

    for (uint32_t k = 0; k < tutti_topo_out_count(topo, v); k++) {
        uint32_t to = tutti_topo_link(topo, tutti_topo_out_link(topo, v, k)).to;

        if (rows->row[to] != NO_ROW && (wanted >> rows->row[to] & 1) != 0 &&
            group_of(rows, to) == group_of(rows, v))
            return true;
    }
    return false;
}

static void choose_rows(struct rows *rows)
{
    const struct tutti_topo *topo = rows->topo;
    const uint32_t pcie = 1u << TUTTI_LINK_PCIE | 1u << TUTTI_LINK_CPU;

    for (uint32_t v = 0; v < topo->node_count; v++) {
        struct tutti_node node = tutti_topo_node(topo, v);
        bool tree = node.kind == TUTTI_NODE_CPU ||
                    (group_of(rows, v) != UINT32_MAX && node.kind == TUTTI_NODE_SWITCH &&
                     has_kind(topo, v, pcie));

        rows->tree = rows->tree || tree;
        rows->row[v] = NO_ROW;
        if (node.kind == TUTTI_NODE_DEVICE)
            rows->row[v] = LEAVES;
        else if (node.kind == TUTTI_NODE_CPU)
            rows->row[v] = CPU;
        else if (tree)
            rows->row[v] = TREE4;
        else if (group_of(rows, v) != UINT32_MAX && node.kind == TUTTI_NODE_SWITCH)
            rows->row[v] = ABOVE;
    }
    for (uint32_t v = 0; v < topo->node_count; v++) {
        if (rows->row[v] == ABOVE && rows->tree)
            rows->row[v] = BELOW;
        if (tutti_topo_node(topo, v).kind == TUTTI_NODE_NIC)
            rows->row[v] = touches(rows, v, 1u << CPU | 1u << TREE4) ? LEAVES : NICS;
    }
    /* PCIe switches: as near to the leaves as their links are. */
    for (uint8_t depth = TREE1; depth > TREE4; depth--) {
        for (uint32_t v = 0; v < topo->node_count; v++)
            if (rows->row[v] == TREE4 && touches(rows, v, 1u << (depth + (depth == TREE1 ? 2 : 1))))
                rows->row[v] = depth;
    }
    for (uint32_t v = 0; v < topo->node_count; v++)
        if (rows->row[v] != NO_ROW)
            rows->used[rows->row[v]] = true;
}

/* ---- one host -------------------------------------------------------------------------------- */

/* Adds the leaves under v to the list, depth first; box.w marks what was seen. */
static uint32_t add_leaves(struct rows *rows, uint32_t v, uint32_t count)
{
    enum { DEEP = 8 };
    const struct tutti_topo *topo = rows->topo;
    struct tutti_box *boxes = rows->drawing->boxes;
    uint32_t node[DEEP] = {v};
    uint32_t next[DEEP] = {0}; /* of the links that leave it */
    int depth = 1;

    boxes[v].w = 1;
    while (depth > 0) {
        uint32_t at = node[depth - 1];
        uint32_t to;

        if (next[depth - 1] == tutti_topo_out_count(topo, at)) {
            depth--;
            continue;
        }
        to = tutti_topo_link(topo, tutti_topo_out_link(topo, at, next[depth - 1]++)).to;
        if (boxes[to].w != 0 || rows->row[to] == NO_ROW || rows->row[to] == CPU ||
            group_of(rows, to) != group_of(rows, at))
            continue;
        if (rows->row[to] == LEAVES) {
            boxes[to].w = 1;
            rows->list[count++] = to;
        } else if (rows->row[to] < ABOVE && depth < DEEP) {
            boxes[to].w = 1;
            node[depth] = to;
            next[depth++] = 0;
        }
    }
    return count;
}

/* The leaves of a group from left to right: as they hang in the tree, then by index. */
static uint32_t order_leaves(struct rows *rows, uint32_t group)
{
    uint32_t begin = rows->group_first[group];
    uint32_t end = rows->group_first[group + 1];
    struct tutti_box *boxes = rows->drawing->boxes;
    uint32_t count = 0;

    for (uint8_t row = CPU; row < ABOVE; row++)
        for (uint32_t m = begin; m < end; m++)
            if (rows->row[rows->members[m]] == row && boxes[rows->members[m]].w == 0)
                count = add_leaves(rows, rows->members[m], count);
    for (uint32_t m = begin; m < end; m++)
        if (rows->row[rows->members[m]] == LEAVES && boxes[rows->members[m]].w == 0)
            rows->list[count++] = rows->members[m];
    for (uint32_t m = begin; m < end; m++)
        boxes[rows->members[m]].w = 0;
    return count;
}

static uint32_t list_row(struct rows *rows, uint32_t group, uint8_t row)
{
    uint32_t count = 0;

    for (uint32_t m = rows->group_first[group]; m < rows->group_first[group + 1]; m++)
        if (rows->row[rows->members[m]] == row)
            rows->list[count++] = rows->members[m];
    return count;
}

/* What a host needs in width, for its widest row of labelled boxes. */
static int host_width(struct rows *rows, uint32_t group, uint32_t leaves)
{
    int width = (int)leaves * rows->drawing->pitch + 2 * PAD;

    for (uint8_t row = CPU; row < ABOVE; row++) {
        uint32_t count = list_row(rows, group, row);

        if (tutti_place_needs(rows->drawing, rows->list, count) + 2 * PAD > width)
            width = tutti_place_needs(rows->drawing, rows->list, count) + 2 * PAD;
    }
    return width < HOST_WIDTH_MIN ? HOST_WIDTH_MIN : width;
}

/* How many leaves of a group are shown: all that fit, but whole groups under a switch. */
static uint32_t shown_of(const struct rows *rows, uint32_t leaves)
{
    const struct tutti_shape *shape = &rows->topo->shape;
    uint32_t most = (uint32_t)((TUTTI_DRAWING_WIDTH_MAX - 2 * PAD) / rows->drawing->pitch);

    if (leaves <= most)
        return leaves;
    if (shape->level_count > 1 && shape->level[0] < most && rows->topo->host_count == 0)
        most -= most % shape->level[0];
    return most;
}

/* Places a group from x on; returns its width. Of leaves too many for a picture the first ones. */
static int place_group(struct rows *rows, uint32_t group, int x)
{
    struct tutti_drawing *drawing = rows->drawing;
    uint32_t leaves = order_leaves(rows, group);
    uint32_t shown = shown_of(rows, leaves);
    int width = host_width(rows, group, shown);

    (void)order_leaves(rows, group); /* host_width() used the list */
    for (uint32_t i = 0; i < shown; i++) {
        int middle = (int)((2 * i + 1) * (uint32_t)(width - 2 * PAD) / (2 * shown));

        drawing->boxes[rows->list[i]] =
            (struct tutti_box){.x = x + PAD + middle - drawing->device_width / 2,
                               .w = drawing->device_width,
                               .y = LEAVES};
    }
    for (uint8_t row = TREE1 + 1; row-- > CPU;)
        tutti_place_row(drawing, rows->list, list_row(rows, group, row), row, x + PAD,
                        x + width - PAD, TUTTI_PLACE_LABELLED);
    tutti_place_row(drawing, rows->list, list_row(rows, group, ABOVE), ABOVE, x + PAD,
                    x + width - PAD, TUTTI_PLACE_BARS);
    tutti_place_row(drawing, rows->list, list_row(rows, group, BELOW), BELOW, x + PAD,
                    x + width - PAD, TUTTI_PLACE_BARS);
    tutti_place_row(drawing, rows->list, list_row(rows, group, NICS), NICS, x + PAD,
                    x + width - PAD, TUTTI_PLACE_SMALL);
    tutti_drawing_shown(drawing, shown, leaves,
                        rows->topo->host_count > 0 ? "devices and NICs of a host" : "devices");
    return width;
}

static void hide_group(struct rows *rows, uint32_t group)
{
    for (uint32_t m = rows->group_first[group]; m < rows->group_first[group + 1]; m++)
        rows->drawing->boxes[rows->members[m]] = (struct tutti_box){0};
}

static uint32_t most_devices(const struct rows *rows)
{
    uint32_t most = 0;

    for (uint32_t g = 0; g < rows->group_count; g++) {
        uint32_t count = 0;

        for (uint32_t m = rows->group_first[g]; m < rows->group_first[g + 1]; m++)
            count += rows->row[rows->members[m]] == LEAVES;
        most = count > most ? count : most;
    }
    return most;
}

/* All hosts that fit side by side, then how many there are besides. */
static int place_groups(struct rows *rows)
{
    struct tutti_drawing *drawing = rows->drawing;
    uint32_t more = 0;
    int x = 0;

    for (uint32_t g = 0; g < rows->group_count; g++) {
        int room = TUTTI_DRAWING_WIDTH_MAX - (g + 1 < rows->topo->host_count ? MORE_WIDTH : 0);
        int width;

        if (rows->group_first[g] == rows->group_first[g + 1])
            continue;
        width = more > 0 || drawing->frame_count >= TUTTI_FRAMES_MAX - 1 ? room
                                                                         : place_group(rows, g, x);
        if (x > 0 && x + width > room) {
            hide_group(rows, g);
            more++;
            continue;
        }
        if (g < rows->topo->host_count)
            tutti_drawing_frame(drawing, &(struct tutti_box){.x = x, .w = width}, "host %" PRIu32,
                                g);
        x += width + HOSTS_GAP;
    }
    if (more > 0) {
        tutti_drawing_frame(drawing, &(struct tutti_box){.x = x, .w = MORE_WIDTH - HOSTS_GAP},
                            "%" PRIu32 " more host%s", more, more == 1 ? "" : "s");
        x += MORE_WIDTH;
    }
    tutti_drawing_shown(drawing, rows->topo->host_count - more, rows->topo->host_count, "hosts");
    return x - HOSTS_GAP;
}

/* ---- from rows to pixels --------------------------------------------------------------------- */

static int arcs_height(const struct tutti_drawing *drawing)
{
    const struct tutti_topo *topo = drawing->topo;
    int height = 0;

    for (uint32_t l = 0; l < topo->link_count; l++) {
        const struct tutti_box *a = &drawing->boxes[tutti_topo_link(topo, l).from];
        const struct tutti_box *b = &drawing->boxes[tutti_topo_link(topo, l).to];

        if (a->w > 0 && b->w > 0 &&
            tutti_topo_node(topo, tutti_topo_link(topo, l).from).kind == TUTTI_NODE_DEVICE &&
            tutti_topo_node(topo, tutti_topo_link(topo, l).to).kind == TUTTI_NODE_DEVICE &&
            tutti_arc_height(a->x - b->x) > height)
            height = tutti_arc_height(a->x - b->x);
    }
    return height;
}

/* Gives the rows their heights; returns that of all hosts. */
static int place_rows(struct rows *rows)
{
    struct tutti_drawing *drawing = rows->drawing;
    int top[ROW_COUNT];
    int arcs = arcs_height(drawing);
    int y = rows->topo->host_count > 0 ? 30 : 12;

    drawing->arcs_below = rows->tree;
    for (int row = 0; row < ROW_COUNT; row++) {
        if (row == LEAVES && !rows->tree)
            y += arcs;
        top[row] = y;
        if (rows->used[row])
            y += row == NICS ? TUTTI_DEVICE_HEIGHT + 16 : ROW_HEIGHT;
        if (row == LEAVES && rows->tree)
            y += arcs;
    }
    if (!rows->used[NICS])
        y -= ROW_HEIGHT - TUTTI_DEVICE_HEIGHT - 16;
    for (uint32_t g = 0; g < rows->group_count; g++) {
        for (uint32_t m = rows->group_first[g]; m < rows->group_first[g + 1]; m++) {
            struct tutti_box *box = &drawing->boxes[rows->members[m]];

            box->y = box->w > 0 ? top[box->y] : 0;
            box->h = TUTTI_DEVICE_HEIGHT;
        }
    }
    for (uint32_t f = 0; f < drawing->frame_count; f++)
        drawing->frames[f].box.h = y;
    return y;
}

int tutti_lay_out_rows(struct tutti_drawing *drawing, struct tutti_err *err)
{
    struct rows rows = {.drawing = drawing, .topo = drawing->topo};
    int status = gather(&rows, err);

    drawing->style = TUTTI_DRAWING_ROWS;
    if (status == 0) {
        choose_rows(&rows);
        drawing->pitch = drawing->device_width + (most_devices(&rows) > 32 ? 2 : 8);
        drawing->width = place_groups(&rows);
        drawing->height = place_rows(&rows);
        status = tutti_place_network(drawing, rows.list, err);
    }
    free(rows.group_first);
    free(rows.members);
    free(rows.row);
    free(rows.list);
    return status;
}
