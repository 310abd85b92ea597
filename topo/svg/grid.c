/* Devices on a grid: two axes in a panel, the third from panel to panel; wrap links are cut. */
#include <inttypes.h>
#include <stdio.h>

#include "topo/svg/drawing.h"

enum {
    AXIS_MAX = 16,   /* shown of an axis */
    PANELS_MAX = 16, /* shown of all others together */
    DEVICES_MAX = 512,
    STEP = 20,       /* between devices */
    EDGE = 44,       /* inside a panel's frame: cut links and the ranks they lead to */
    EDGE_PLAIN = 16, /* on an axis without them */
    TITLE = 20,      /* height of a panel's title */
    BETWEEN = 92,    /* panels: their links and the words for them */
    BELOW = 46,      /* a row of panels: the link that closes the ring */
};

struct grid {
    uint32_t shown[2];
    uint32_t panel_count; /* of all */
    uint32_t panels;      /* shown */
    uint32_t per_row;
    int edge[2];
    int panel_width;
    int panel_height;
};

static struct tutti_box panel_box(const struct grid *grid, uint32_t panel)
{
    return (struct tutti_box){
        .x = (int)(panel % grid->per_row) * (grid->panel_width + BETWEEN),
        .y = (int)(panel / grid->per_row) * (grid->panel_height + BELOW),
        .w = grid->panel_width,
        .h = grid->panel_height,
    };
}

static struct grid measure(const struct tutti_drawing *drawing)
{
    const struct tutti_shape *shape = &drawing->topo->shape;
    struct grid grid = {.panel_count = shape->rank_count / shape->dim[0] / shape->dim[1]};

    for (int d = 0; d < 2; d++) {
        grid.shown[d] = shape->dim[d] < AXIS_MAX ? shape->dim[d] : AXIS_MAX;
        grid.edge[d] = shape->wrap[d] || grid.shown[d] < shape->dim[d] ? EDGE : EDGE_PLAIN;
    }
    grid.panels = grid.panel_count < PANELS_MAX ? grid.panel_count : PANELS_MAX;
    if (grid.panels * grid.shown[0] * grid.shown[1] > DEVICES_MAX)
        grid.panels = DEVICES_MAX / (grid.shown[0] * grid.shown[1]);
    grid.panel_width =
        (int)grid.shown[0] * (drawing->device_width + STEP) - STEP + 2 * grid.edge[0];
    grid.panel_height =
        (int)grid.shown[1] * (TUTTI_DEVICE_HEIGHT + STEP) - STEP + 2 * grid.edge[1] + TITLE;
    grid.per_row = (uint32_t)((TUTTI_DRAWING_WIDTH_MAX + BETWEEN) / (grid.panel_width + BETWEEN));
    grid.per_row = grid.per_row == 0 ? 1 : grid.per_row;
    /* as many in each row, as far as that goes */
    grid.per_row = (grid.panels - 1) / ((grid.panels - 1) / grid.per_row + 1) + 1;
    return grid;
}

static void title_panel(struct tutti_drawing *drawing, const struct grid *grid, uint32_t panel)
{
    const struct tutti_shape *shape = &drawing->topo->shape;
    struct tutti_box box = panel_box(grid, panel);
    char text[64] = "";
    size_t used = 0;
    uint32_t rest = panel;

    for (uint32_t d = 2; d < shape->dim_count && used < sizeof(text); d++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%saxis %" PRIu32 ": %" PRIu32,
                                 used > 0 ? ", " : "", d, rest % shape->dim[d]);
        rest /= shape->dim[d];
    }
    if (grid->panel_count > 1)
        tutti_drawing_frame(drawing, &box, "%s", text);
}

static void place_devices(struct tutti_drawing *drawing, const struct grid *grid)
{
    const struct tutti_topo *topo = drawing->topo;
    const uint32_t *dim = topo->shape.dim;

    for (uint32_t r = 0; r < topo->rank_count; r++) {
        uint32_t x = r % dim[0];
        uint32_t y = r / dim[0] % dim[1];
        uint32_t panel = r / dim[0] / dim[1];
        struct tutti_box box;

        if (x >= grid->shown[0] || y >= grid->shown[1] || panel >= grid->panels)
            continue;
        box = panel_box(grid, panel);
        drawing->boxes[tutti_topo_rank_node(topo, r)] = (struct tutti_box){
            .x = box.x + grid->edge[0] + (int)x * (drawing->device_width + STEP),
            .y = box.y + TITLE + grid->edge[1] + (int)y * (TUTTI_DEVICE_HEIGHT + STEP),
            .w = drawing->device_width,
            .h = TUTTI_DEVICE_HEIGHT};
    }
}

/* Links of axis 2 from panel a to panel b; *first is one of them. */
static uint32_t count_between(const struct tutti_topo *topo, uint32_t a, uint32_t b,
                              uint32_t *first)
{
    uint32_t plane = topo->shape.dim[0] * topo->shape.dim[1];
    uint32_t count = 0;

    for (uint32_t r = a * plane; r < (a + 1) * plane; r++) {
        uint32_t v = tutti_topo_rank_node(topo, r);

        for (uint32_t k = 0; k < tutti_topo_out_count(topo, v); k++) {
            uint32_t to =
                tutti_topo_node(topo, tutti_topo_link(topo, tutti_topo_out_link(topo, v, k)).to)
                    .rank;

            if (to / plane != b || to % plane != r % plane)
                continue;
            *first = tutti_topo_out_link(topo, v, k);
            count++;
        }
    }
    return count;
}

/* The way from one panel to the next on its right, or off the row's end. */
static void join_next(struct tutti_drawing *drawing, const struct grid *grid, uint32_t panel)
{
    struct tutti_box from = panel_box(grid, panel);
    char rate[TUTTI_UNIT_TEXT_BYTES];
    uint32_t link = 0;
    uint32_t count = count_between(drawing->topo, panel, panel + 1, &link);
    bool last = (panel + 1) % grid->per_row == 0;
    int y = from.y + from.h / 2;
    int x = from.x + from.w;
    int length = last ? 16 : BETWEEN;

    if (count == 0)
        return;
    tutti_drawing_stroke(drawing, link, "%d,%d %d,%d", x, y, x + length, y);
    if (last && panel + 1 < grid->panels) /* the row goes on below: its beginning, too */
        tutti_drawing_stroke(drawing, link, "%d,%d %d,%d", 0, y + from.h + BELOW, -16,
                             y + from.h + BELOW);
    if (last)
        return;
    tutti_drawing_note(drawing, x + BETWEEN / 2, y - 9, TUTTI_ANCHOR_MIDDLE, "%" PRIu32 " cables",
                       count);
    tutti_drawing_note(drawing, x + BETWEEN / 2, y + 17, TUTTI_ANCHOR_MIDDLE, "%s each",
                       tutti_print_rate(tutti_topo_link(drawing->topo, link).bytes_per_s, rate));
}

/* From the last panel back to the first, below a row that holds them all. */
static void close_ring(struct tutti_drawing *drawing, const struct grid *grid)
{
    const struct tutti_shape *shape = &drawing->topo->shape;
    struct tutti_box first = panel_box(grid, 0);
    struct tutti_box last;
    char rate[TUTTI_UNIT_TEXT_BYTES];
    uint32_t link = 0;
    uint32_t count;
    int y = first.y + first.h + 18;

    if (shape->dim_count < 3 || !shape->wrap[2] || shape->dim[2] > grid->panels)
        return;
    count = count_between(drawing->topo, shape->dim[2] - 1, 0, &link);
    last = panel_box(grid, shape->dim[2] - 1);
    if (count == 0)
        return;
    if (last.y == first.y)
        tutti_drawing_stroke(drawing, link, "%d,%d %d,%d %d,%d %d,%d", first.x + first.w / 2,
                             first.y + first.h, first.x + first.w / 2, y, last.x + last.w / 2, y,
                             last.x + last.w / 2, last.y + last.h);
    else
        y = last.y + last.h + 6;
    tutti_drawing_note(drawing, drawing->width / 2, y + 16, TUTTI_ANCHOR_MIDDLE,
                       "%" PRIu32 " cables of %s close axis 2 to a ring", count,
                       tutti_print_rate(tutti_topo_link(drawing->topo, link).bytes_per_s, rate));
}

void tutti_lay_out_grid(struct tutti_drawing *drawing)
{
    struct grid grid = measure(drawing);
    struct tutti_box last = panel_box(&grid, grid.panels - 1);

    drawing->style = TUTTI_DRAWING_GRID;
    drawing->width = (int)grid.per_row * (grid.panel_width + BETWEEN) - BETWEEN;
    drawing->height = last.y + last.h;
    place_devices(drawing, &grid);
    for (uint32_t p = 0; p < grid.panels; p++) {
        title_panel(drawing, &grid, p);
        if (drawing->topo->shape.dim_count > 2 && p + 1 < grid.panels &&
            (p + 1) % drawing->topo->shape.dim[2] != 0)
            join_next(drawing, &grid, p);
    }
    if (grid.panels > 1)
        drawing->height += BELOW;
    close_ring(drawing, &grid);
    tutti_drawing_shown(drawing, grid.shown[0], drawing->topo->shape.dim[0], "columns");
    tutti_drawing_shown(drawing, grid.shown[1], drawing->topo->shape.dim[1], "rows");
    tutti_drawing_shown(drawing, grid.panels, grid.panel_count, "layers");
}
