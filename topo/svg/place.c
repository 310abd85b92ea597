/* Rows of a picture: middles of neighbours, then what overlaps is pushed apart. */
#include "topo/svg/place.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

enum {
    GAP = 8,
    LABEL_FONT = 10,
    LABELLED_MIN = 40,
    LABELLED_MAX = 110,
    ROW_SHOWN_MAX = 1024,   /* of a row of a host: no host has more, but a file may say so */
    NETWORK_SHOWN_MAX = 32, /* in a row of the network */
    NETWORK_GAP = 78,       /* above a row */
    LEAVES_GAP = 50,        /* above the first */
};

const char *tutti_node_label(const struct tutti_topo *topo, uint32_t v, char *buf)
{
    struct tutti_node node = tutti_topo_node(topo, v);
    char name_buf[TUTTI_NODE_NAME_BYTES];
    const char *whole = tutti_topo_node_name(topo, v, name_buf);
    const char *name = strrchr(whole, '/') != NULL ? strrchr(whole, '/') + 1 : whole;
    size_t digits = strlen(name);

    if (node.kind == TUTTI_NODE_DEVICE) {
        (void)snprintf(buf, TUTTI_LABEL_BYTES, "%" PRIu32, node.rank);
        return buf;
    }
    if (node.kind == TUTTI_NODE_NIC) { /* "nic2.3": 3 */
        while (digits > 0 && isdigit((unsigned char)name[digits - 1]))
            digits--;
        name += name[digits] != '\0' ? digits : 0;
    }
    (void)snprintf(buf, TUTTI_LABEL_BYTES, "%s", name);
    return buf;
}

static int middle(const struct tutti_box *box)
{
    return box->x + box->w / 2;
}

enum { ANY_ROW = -1 };

/* The extent and the mean of the middles of a node's neighbours that are placed, and not in `row`;
 * false: there are none. */
static bool reach(const struct tutti_drawing *drawing, uint32_t v, int row, int *low, int *high,
                  int *mean)
{
    const struct tutti_topo *topo = drawing->topo;
    int64_t sum = 0;
    int count = 0;

    for (uint32_t k = 0; k < tutti_topo_out_count(topo, v); k++) {
        const struct tutti_box *box =
            &drawing->boxes[tutti_topo_link(topo, tutti_topo_out_link(topo, v, k)).to];
        int x = middle(box);

        if (box->w == 0 || box->y == row)
            continue;
        *low = count == 0 || x < *low ? x : *low;
        *high = count == 0 || x > *high ? x : *high;
        sum += x;
        count++;
    }
    *mean = count > 0 ? (int)(sum / count) : 0;
    return count > 0;
}

static int width_of(const struct tutti_drawing *drawing, uint32_t v, enum tutti_place how)
{
    char label[TUTTI_LABEL_BYTES];
    int width;

    if (how == TUTTI_PLACE_SMALL)
        return drawing->device_width;
    width = tutti_text_width(strlen(tutti_node_label(drawing->topo, v, label)), LABEL_FONT) + 8;
    return width < LABELLED_MIN ? LABELLED_MIN : width > LABELLED_MAX ? LABELLED_MAX : width;
}

int tutti_place_needs(const struct tutti_drawing *drawing, const uint32_t *list, uint32_t count)
{
    int width = 0;

    for (uint32_t i = 0; i < count; i++)
        width += width_of(drawing, list[i], TUTTI_PLACE_LABELLED) + GAP;
    return width;
}

/* Sorts by x, stably, so that equal ones keep their order: insertion, as rows are short. */
static void sort_by_x(const struct tutti_drawing *drawing, uint32_t *list, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        uint32_t v = list[i];
        uint32_t at = i;

        for (; at > 0 && middle(&drawing->boxes[list[at - 1]]) > middle(&drawing->boxes[v]); at--)
            list[at] = list[at - 1];
        list[at] = v;
    }
}

/* Pushes to the right what overlaps, then back to the left what went over the edge. */
static void push_apart(struct tutti_drawing *drawing, const uint32_t *list, uint32_t count, int gap,
                       int left, int right)
{
    int edge = left;

    for (uint32_t i = 0; i < count; i++) {
        struct tutti_box *box = &drawing->boxes[list[i]];

        box->x = box->x < edge ? edge : box->x;
        edge = box->x + box->w + gap;
    }
    edge = right;
    for (uint32_t i = count; i-- > 0;) {
        struct tutti_box *box = &drawing->boxes[list[i]];

        box->x = box->x + box->w > edge ? edge - box->w : box->x;
        edge = box->x - gap;
    }
}

/* Bars over what the switches are linked to; false, and nothing is placed, if two would overlap, a
 * name would not fit, or one is linked to nothing in the picture. */
static bool place_bars(struct tutti_drawing *drawing, uint32_t *list, uint32_t count, int row)
{
    int edge = INT32_MIN;
    bool fits = true;

    /* Ends are kept in boxes of no width: neighbours in the row do not count. */
    for (uint32_t i = 0; i < count && fits; i++) {
        struct tutti_box *box = &drawing->boxes[list[i]];
        int mean = 0;

        *box = (struct tutti_box){0};
        fits = reach(drawing, list[i], row, &box->x, &box->y, &mean) && box->x > edge;
        edge = box->y + drawing->device_width;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct tutti_box *box = &drawing->boxes[list[i]];
        int low = box->x - drawing->device_width / 2;
        int high = box->y + drawing->device_width / 2;
        int wide = width_of(drawing, list[i], TUTTI_PLACE_LABELLED);

        fits = fits && (high - low >= wide || count == 1);
        if (high - low < wide) {
            low = (low + high - wide) / 2;
            high = low + wide;
        }
        *box = (struct tutti_box){.x = low, .w = high - low, .y = row};
    }
    for (uint32_t i = 0; i < count && !fits; i++)
        drawing->boxes[list[i]].w = 0;
    return fits;
}

/* Keeps of the list what is linked to something in the picture, and of that what fits. */
static uint32_t keep_linked(const struct tutti_drawing *drawing, uint32_t *list, uint32_t count,
                            int width)
{
    uint32_t most = (uint32_t)((width + drawing->pitch - drawing->device_width) / drawing->pitch);
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count && kept < most; i++) {
        int unused[3];

        if (reach(drawing, list[i], ANY_ROW, &unused[0], &unused[1], &unused[2]))
            list[kept++] = list[i];
    }
    return kept;
}

void tutti_place_row(struct tutti_drawing *drawing, uint32_t *list, uint32_t count, int row,
                     int left, int right, enum tutti_place how)
{
    if (how == TUTTI_PLACE_SMALL)
        count = keep_linked(drawing, list, count, right - left);
    count = count < ROW_SHOWN_MAX ? count : ROW_SHOWN_MAX;
    if (how == TUTTI_PLACE_BARS && place_bars(drawing, list, count, row))
        return;
    for (uint32_t i = 0; i < count; i++) {
        struct tutti_box *box = &drawing->boxes[list[i]];
        int low = 0;
        int high = 0;
        int mean = 0;
        int width = width_of(drawing, list[i], how);

        /* Bars that would overlap are spread over the width: they are linked to all alike. */
        if (how == TUTTI_PLACE_BARS || !reach(drawing, list[i], row, &low, &high, &mean))
            mean = left + (int)((2 * i + 1) * (uint32_t)(right - left) / (2 * count));
        *box = (struct tutti_box){.x = mean - width / 2, .w = width, .y = row};
    }
    sort_by_x(drawing, list, count);
    push_apart(drawing, list, count,
               how == TUTTI_PLACE_SMALL ? drawing->pitch - drawing->device_width : GAP, left,
               right);
}

/* ---- the network ----------------------------------------------------------------------------- */

struct network {
    struct tutti_drawing *drawing;
    uint8_t *hops; /* [node_count]: of switches outside hosts: from the hosts, counted from 1 */
};

enum { NETWORK_ROWS_MAX = 8, UNKNOWN = 255 };

static bool is_outside(const struct tutti_topo *topo, uint32_t v)
{
    return tutti_topo_node(topo, v).kind == TUTTI_NODE_SWITCH &&
           tutti_topo_node(topo, v).host == UINT32_MAX;
}

/* Counts over all links, in the picture or not. */
static void count_hops(struct network *network)
{
    const struct tutti_topo *topo = network->drawing->topo;
    bool changed = true;

    for (uint32_t v = 0; v < topo->node_count; v++)
        network->hops[v] = is_outside(topo, v) ? UNKNOWN : 0;
    for (uint8_t hop = 1; hop <= NETWORK_ROWS_MAX && changed; hop++) {
        changed = false;
        for (uint32_t l = 0; l < topo->link_count; l++) {
            struct tutti_link link = tutti_topo_link(topo, l);

            if (network->hops[link.from] != hop - 1 || network->hops[link.to] != UNKNOWN)
                continue;
            network->hops[link.to] = hop;
            changed = true;
        }
    }
}

/* Switches so many hops from the hosts that are linked to what is shown; *all: also to others. */
static uint32_t list_hop(const struct network *network, uint8_t hop, uint32_t *list, uint32_t *all)
{
    const struct tutti_topo *topo = network->drawing->topo;
    uint32_t count = 0;

    *all = 0;
    for (uint32_t v = 0; v < topo->node_count; v++) {
        int unused[3];

        if (network->hops[v] != hop)
            continue;
        ++*all;
        if (reach(network->drawing, v, ANY_ROW, &unused[0], &unused[1], &unused[2]))
            list[count++] = v;
    }
    return count;
}

static void place_network_row(struct network *network, uint32_t *list, uint32_t count, uint32_t all,
                              int y)
{
    struct tutti_drawing *drawing = network->drawing;
    uint32_t shown = count < NETWORK_SHOWN_MAX ? count : NETWORK_SHOWN_MAX;
    int needs;

    /* Boxes must fit side by side; of those that do not the first ones are shown. */
    for (needs = tutti_place_needs(drawing, list, shown);
         needs > drawing->width && needs > TUTTI_DRAWING_WIDTH_MAX && shown > 1;
         needs = tutti_place_needs(drawing, list, --shown))
        continue;
    drawing->width = needs > drawing->width ? needs : drawing->width;
    tutti_place_row(drawing, list, shown, y, 0, drawing->width, TUTTI_PLACE_BARS);
    for (uint32_t i = 0; i < shown; i++)
        drawing->boxes[list[i]].h = TUTTI_DEVICE_HEIGHT;
    tutti_drawing_shown(drawing, shown, all, "switches in a row of the network");
}

int tutti_place_network(struct tutti_drawing *drawing, uint32_t *list, struct tutti_err *err)
{
    struct network network = {.drawing = drawing};

    network.hops = calloc(drawing->topo->node_count, sizeof(*network.hops));
    if (network.hops == NULL)
        return tutti_nomem(err);
    count_hops(&network);
    for (uint8_t hop = 1; hop <= NETWORK_ROWS_MAX; hop++) {
        uint32_t all = 0;
        uint32_t count = list_hop(&network, hop, list, &all);

        if (count == 0)
            break;
        drawing->height += hop == 1 ? LEAVES_GAP : NETWORK_GAP;
        place_network_row(&network, list, count, all, drawing->height);
        drawing->height += TUTTI_DEVICE_HEIGHT;
    }
    free(network.hops);
    return 0;
}
