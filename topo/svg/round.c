/* Devices on a circle, in the order of the first ring: where devices are wired directly. */
#include <math.h>

#include "topo/svg/drawing.h"

enum { SHOWN_MAX = 72, GAP = 22, MARGIN = 30, RADIUS_MIN = 150 };

static const double two_pi = 6.283185307179586;

/* The rank at place i of n: all, or the first half and the last half of what fits. */
static uint32_t rank_at(const struct tutti_topo *topo, uint32_t i, uint32_t shown)
{
    uint32_t place = i < (shown + 1) / 2 ? i : topo->rank_count - shown + i;

    return topo->shape.order_count > 0 ? topo->shape.orders[place] : place;
}

void tutti_lay_out_round(struct tutti_drawing *drawing)
{
    const struct tutti_topo *topo = drawing->topo;
    uint32_t shown = topo->rank_count < SHOWN_MAX ? topo->rank_count : SHOWN_MAX - 2;
    uint32_t places = shown < topo->rank_count ? SHOWN_MAX : shown; /* two for the dots */
    double radius = (double)(places * (uint32_t)(drawing->device_width + GAP)) / two_pi;
    int middle;

    radius = radius < RADIUS_MIN ? RADIUS_MIN : radius;
    middle = (int)radius + drawing->device_width / 2 + MARGIN;
    drawing->style = TUTTI_DRAWING_ROUND;
    drawing->width = drawing->height = 2 * middle;
    for (uint32_t i = 0; i < shown; i++) {
        uint32_t place = i < (shown + 1) / 2 ? i : places - shown + i;
        double angle = two_pi * place / places - two_pi / 4;

        drawing->boxes[tutti_topo_rank_node(topo, rank_at(topo, i, shown))] = (struct tutti_box){
            .x = middle + (int)lround(radius * cos(angle)) - drawing->device_width / 2,
            .y = middle + (int)lround(radius * sin(angle)) - TUTTI_DEVICE_HEIGHT / 2,
            .w = drawing->device_width,
            .h = TUTTI_DEVICE_HEIGHT};
    }
    tutti_drawing_shown(drawing, shown, topo->rank_count,
                        "devices; the others belong into the gap at the bottom");
}
