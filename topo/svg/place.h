/* Placing the nodes of a row of a picture below or above what they are linked to. */
#ifndef TUTTI_TOPO_SVG_PLACE_H
#define TUTTI_TOPO_SVG_PLACE_H

#include <stdint.h>

#include "topo/svg/drawing.h"

struct tutti_err;

enum tutti_place {
    TUTTI_PLACE_LABELLED, /* boxes as wide as their names */
    TUTTI_PLACE_SMALL,    /* boxes as wide as devices */
    TUTTI_PLACE_BARS,     /* as wide as what they are linked to, where no two overlap */
};

/* Places `count` nodes of `list` (which is sorted on the way) in [left, right), each as near as it
 * goes to the middle of its neighbours that are placed already; box.y becomes `row`. */
void tutti_place_row(struct tutti_drawing *drawing, uint32_t *list, uint32_t count, int row,
                     int left, int right, enum tutti_place how);

/* The width that labelled boxes of these nodes take. */
int tutti_place_needs(const struct tutti_drawing *drawing, const uint32_t *list, uint32_t count);

/* The switches outside of hosts, below all else, a row for each hop from the hosts. `list` has room
 * for all nodes. */
int tutti_place_network(struct tutti_drawing *drawing, uint32_t *list, struct tutti_err *err);

/* What a node is called in the picture: its rank, or the last part of its name. */
enum { TUTTI_LABEL_BYTES = 72 };
const char *tutti_node_label(const struct tutti_topo *topo, uint32_t v, char *buf);

#endif
