/* From places to SVG: frames, links by kind and width, boxes with their labels, notes. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/svg/drawing.h"
#include "topo/svg/place.h"

enum { STUB = 12 };

/* Told apart also by those who see few colours (after Okabe and Ito), dark enough on white. */
const char *tutti_link_colour(uint8_t kind)
{
    static const char *const colours[TUTTI_LINK_KIND_COUNT] = {
        [TUTTI_LINK_GENERIC] = "#4d4d4d", [TUTTI_LINK_NVLINK] = "#00805e",
        [TUTTI_LINK_XGMI] = "#c44e00",    [TUTTI_LINK_PCIE] = "#0072b2",
        [TUTTI_LINK_C2C] = "#b3468c",     [TUTTI_LINK_CPU] = "#b07d00",
        [TUTTI_LINK_NET] = "#7b4fa3",     [TUTTI_LINK_ICI] = "#2b83ba",
        [TUTTI_LINK_DCN] = "#8c4a2f",
    };

    return kind < TUTTI_LINK_KIND_COUNT ? colours[kind] : "#000000";
}

double tutti_link_width(const struct tutti_drawing *drawing, uint64_t bytes_per_s)
{
    double width = 0.8 + 3.2 * sqrt((double)bytes_per_s / (double)drawing->rate_max);

    width *= drawing->line_factor;
    return width < 0.8 ? 0.8 : width;
}

int tutti_arc_height(int distance)
{
    int height = 8 + abs(distance) / 6;

    return height < 110 ? height : 110;
}

void tutti_drawing_note(struct tutti_drawing *drawing, int x, int y, enum tutti_anchor anchor,
                        const char *format, ...)
{
    struct tutti_note *note;
    va_list args;

    if (drawing->note_count == TUTTI_NOTES_MAX)
        return;
    note = &drawing->notes[drawing->note_count++];
    *note = (struct tutti_note){.x = x, .y = y, .anchor = anchor};
    va_start(args, format);
    (void)vsnprintf(note->text, sizeof(note->text), format, args);
    va_end(args);
}

void tutti_drawing_frame(struct tutti_drawing *drawing, const struct tutti_box *box,
                         const char *format, ...)
{
    struct tutti_svg_frame *frame;
    va_list args;

    if (drawing->frame_count == TUTTI_FRAMES_MAX)
        return;
    frame = &drawing->frames[drawing->frame_count++];
    *frame = (struct tutti_svg_frame){.box = *box};
    va_start(args, format);
    (void)vsnprintf(frame->title, sizeof(frame->title), format, args);
    va_end(args);
}

void tutti_drawing_stroke(struct tutti_drawing *drawing, uint32_t link, const char *format, ...)
{
    struct tutti_stroke *stroke;
    va_list args;

    if (drawing->stroke_count == TUTTI_STROKES_MAX)
        return;
    stroke = &drawing->strokes[drawing->stroke_count++];
    stroke->link = link;
    va_start(args, format);
    (void)vsnprintf(stroke->points, sizeof(stroke->points), format, args);
    va_end(args);
}

void tutti_drawing_shown(struct tutti_drawing *drawing, uint32_t shown, uint32_t of,
                         const char *what)
{
    size_t used = strlen(drawing->shown);
    char text[TUTTI_NOTE_BYTES];

    /* Said once, however many rows or hosts it is true of. */
    (void)snprintf(text, sizeof(text), "%" PRIu32 " of %" PRIu32 " %s", shown, of, what);
    if (shown < of && strstr(drawing->shown, text) == NULL)
        (void)snprintf(drawing->shown + used, sizeof(drawing->shown) - used, "%s%s",
                       used > 0 ? ", " : "Shown: ", text);
}

/* ---- links ----------------------------------------------------------------------------------- */

/* Is there a link the other way of the same kind? Then both are one line. */
static bool has_twin(const struct tutti_topo *topo, const struct tutti_link *link)
{
    for (uint32_t k = 0; k < tutti_topo_out_count(topo, link->to); k++) {
        struct tutti_link other = tutti_topo_link(topo, tutti_topo_out_link(topo, link->to, k));

        if (other.to == link->from && other.kind == link->kind)
            return true;
    }
    return false;
}

static int middle(int from, int size)
{
    return from + size / 2;
}

/* Where a line to another node ends on a box: in its middle, or, on a bar over small boxes, right
 * above or below them. */
static int landing(const struct tutti_box *box, const struct tutti_box *other, bool straight)
{
    int x = middle(other->x, other->w);

    if (straight && box->w > 2 * other->w && x > box->x + 4 && x < box->x + box->w - 4)
        return x;
    return middle(box->x, box->w);
}

static void begin_path(const struct tutti_drawing *drawing, const struct tutti_link *link,
                       struct tutti_canvas *canvas)
{
    tutti_canvas_print(canvas, "<path class=\"%s%s\" stroke-width=\"%.1f\" d=\"",
                       tutti_link_kind_name((enum tutti_link_kind)link->kind),
                       has_twin(drawing->topo, link) ? "" : " oneway",
                       tutti_link_width(drawing, link->bytes_per_s));
}

/* From edge to edge of boxes in different rows, else from middle to middle, behind them. */
static void draw_straight(const struct tutti_drawing *drawing, const struct tutti_link *link,
                          struct tutti_canvas *canvas)
{
    const struct tutti_topo *topo = drawing->topo;
    const struct tutti_box *a = &drawing->boxes[link->from];
    const struct tutti_box *b = &drawing->boxes[link->to];
    bool rows = drawing->style == TUTTI_DRAWING_ROWS;
    int ay = middle(a->y, a->h);
    int by = middle(b->y, b->h);

    if (rows && a->y + a->h < b->y) {
        ay = a->y + a->h;
        by = b->y;
    } else if (rows && b->y + b->h < a->y) {
        ay = a->y;
        by = b->y + b->h;
    }
    begin_path(drawing, link, canvas);
    tutti_canvas_print(canvas, "M%d %dL%d %d\"/>\n",
                       landing(a, b, tutti_topo_node(topo, link->to).kind != TUTTI_NODE_SWITCH), ay,
                       landing(b, a, tutti_topo_node(topo, link->from).kind != TUTTI_NODE_SWITCH),
                       by);
}

static void draw_arc(const struct tutti_drawing *drawing, const struct tutti_link *link,
                     struct tutti_canvas *canvas)
{
    const struct tutti_box *a = &drawing->boxes[link->from];
    const struct tutti_box *b = &drawing->boxes[link->to];
    int y = drawing->arcs_below ? a->y + a->h : a->y;
    int height = tutti_arc_height(a->x - b->x);
    int control = drawing->arcs_below ? y + height * 4 / 3 : y - height * 4 / 3;
    /* Ends lean towards each other, so that arcs to both sides do not meet on the box. */
    int lean = a->x < b->x ? a->w / 5 : -a->w / 5;
    int ax = middle(a->x, a->w) + lean;
    int bx = middle(b->x, b->w) - lean;

    begin_path(drawing, link, canvas);
    tutti_canvas_print(canvas, "M%d %dC%d %d %d %d %d %d\"/>\n", ax, y, ax, control, bx, control,
                       bx, y);
}

/* A link that leads off the panel: its first bit, and the rank it goes to. */
static void draw_stub(const struct tutti_drawing *drawing, const struct tutti_link *link,
                      struct tutti_canvas *canvas)
{
    const struct tutti_topo *topo = drawing->topo;
    const uint32_t *dim = topo->shape.dim;
    const struct tutti_box *box = &drawing->boxes[link->from];
    uint32_t from = tutti_topo_node(topo, link->from).rank;
    uint32_t to = tutti_topo_node(topo, link->to).rank;
    uint32_t x = from % dim[0];
    uint32_t y = from / dim[0] % dim[1];
    bool across = x != to % dim[0];
    bool back; /* to the left or up */
    int px = middle(box->x, box->w);
    int py = middle(box->y, box->h);
    char rank[16];

    if (!across && y == to / dim[0] % dim[1])
        return; /* to another panel, in the same place: one line for all of them */
    back = across ? x == 0 : y == 0;
    (void)snprintf(rank, sizeof(rank), "%" PRIu32, to);
    begin_path(drawing, link, canvas);
    if (across) {
        int end = back ? box->x - STUB : box->x + box->w + STUB;

        tutti_canvas_print(canvas, "M%d %dH%d\"/>\n", px, py, end);
        tutti_canvas_text(canvas, back ? end - 3 : end + 3, py + 3,
                          back ? TUTTI_ANCHOR_END : TUTTI_ANCHOR_START, "small", rank);
    } else {
        int end = back ? box->y - STUB : box->y + box->h + STUB;

        tutti_canvas_print(canvas, "M%d %dV%d\"/>\n", px, py, end);
        tutti_canvas_text(canvas, px, back ? end - 3 : end + 9, TUTTI_ANCHOR_MIDDLE, "small", rank);
    }
}

static bool neighbours(const struct tutti_drawing *drawing, const struct tutti_link *link)
{
    const struct tutti_topo *topo = drawing->topo;
    const uint32_t *dim = topo->shape.dim;
    uint32_t a = tutti_topo_node(topo, link->from).rank;
    uint32_t b = tutti_topo_node(topo, link->to).rank;
    uint32_t low = a < b ? a : b;
    uint32_t high = a < b ? b : a;

    if (drawing->boxes[link->to].w == 0 || low / dim[0] / dim[1] != high / dim[0] / dim[1])
        return false;
    return high - low == dim[0] || (high - low == 1 && high % dim[0] != 0);
}

static void draw_links(const struct tutti_drawing *drawing, struct tutti_canvas *canvas)
{
    const struct tutti_topo *topo = drawing->topo;

    for (uint32_t l = 0; l < topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(topo, l);
        const struct tutti_box *a = &drawing->boxes[link.from];
        const struct tutti_box *b = &drawing->boxes[link.to];
        bool grid = drawing->style == TUTTI_DRAWING_GRID;

        if (a->w == 0)
            continue;
        if (grid && !neighbours(drawing, &link)) {
            draw_stub(drawing, &link, canvas);
            continue;
        }
        if (b->w == 0 || (link.from > link.to && has_twin(topo, &link)))
            continue;
        if (drawing->style == TUTTI_DRAWING_ROWS &&
            tutti_topo_node(topo, link.from).kind == TUTTI_NODE_DEVICE &&
            tutti_topo_node(topo, link.to).kind == TUTTI_NODE_DEVICE)
            draw_arc(drawing, &link, canvas);
        else
            draw_straight(drawing, &link, canvas);
    }
    for (uint32_t s = 0; s < drawing->stroke_count; s++) {
        struct tutti_link link = tutti_topo_link(topo, drawing->strokes[s].link);

        tutti_canvas_print(canvas, "<polyline class=\"%s\" stroke-width=\"4\" points=\"%s\"/>\n",
                           tutti_link_kind_name((enum tutti_link_kind)link.kind),
                           drawing->strokes[s].points);
    }
}

/* ---- hosts of a grid ---------------------------------------------------------------------- */

static uint32_t host_of(const struct tutti_topo *topo, uint32_t rank)
{
    return tutti_topo_node(topo, tutti_topo_rank_node(topo, rank)).host;
}

/* How many ranks from `rank` on, `stride` apart and at most `most`, are of its host and shown. */
static uint32_t run_of_host(const struct tutti_drawing *drawing, uint32_t rank, uint32_t stride,
                            uint32_t most)
{
    const struct tutti_topo *topo = drawing->topo;
    uint32_t count = 1;

    while (count < most && host_of(topo, rank + count * stride) == host_of(topo, rank) &&
           drawing->boxes[tutti_topo_rank_node(topo, rank + count * stride)].w > 0)
        count++;
    return count;
}

/* A frame round the tile of devices that each host holds of a panel. */
static void draw_tiles(const struct tutti_drawing *drawing, struct tutti_canvas *canvas)
{
    enum { AROUND = 6 };
    const struct tutti_topo *topo = drawing->topo;
    const uint32_t *dim = topo->shape.dim;

    for (uint32_t r = 0; r < topo->rank_count; r++) {
        uint32_t x = r % dim[0];
        uint32_t y = r / dim[0] % dim[1];
        const struct tutti_box *first = &drawing->boxes[tutti_topo_rank_node(topo, r)];
        const struct tutti_box *last;
        struct tutti_box tile;

        if (first->w == 0 || host_of(topo, r) == UINT32_MAX ||
            (x > 0 && host_of(topo, r - 1) == host_of(topo, r)) ||
            (y > 0 && host_of(topo, r - dim[0]) == host_of(topo, r)))
            continue;
        last = &drawing->boxes[tutti_topo_rank_node(
            topo, r + run_of_host(drawing, r, 1, dim[0] - x) - 1 +
                      dim[0] * (run_of_host(drawing, r, dim[0], dim[1] - y) - 1))];
        if (last->w == 0)
            continue;
        tile = (struct tutti_box){.x = first->x - AROUND,
                                  .y = first->y - AROUND,
                                  .w = last->x + last->w - first->x + 2 * AROUND,
                                  .h = last->y + last->h - first->y + 2 * AROUND};
        tutti_canvas_box(canvas, &tile, "tile");
    }
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void draw_node(const struct tutti_drawing *drawing, uint32_t v, struct tutti_canvas *canvas)
{
    struct tutti_node node = tutti_topo_node(drawing->topo, v);
    const struct tutti_box *box = &drawing->boxes[v];
    const char *class = tutti_node_kind_name((enum tutti_node_kind)node.kind);
    char label[TUTTI_LABEL_BYTES];
    char text[TUTTI_LABEL_BYTES + 16];

    (void)tutti_node_label(drawing->topo, v, label);
    (void)snprintf(text, sizeof(text), "%s%s", label, node.reduces ? " (reduces)" : "");
    tutti_canvas_box(canvas, box, node.reduces ? "reduces" : class);
    if (node.reduces && tutti_text_width(12, 10) + 60 < box->w)
        tutti_canvas_label(canvas, box, 10, "label", text);
    else
        tutti_canvas_label(canvas, box, 10, "label", label);
}

void tutti_drawing_render(const struct tutti_drawing *drawing, struct tutti_canvas *canvas)
{
    for (uint32_t f = 0; f < drawing->frame_count; f++) {
        const struct tutti_svg_frame *frame = &drawing->frames[f];

        tutti_canvas_box(canvas, &frame->box, "frame");
        tutti_canvas_text(canvas, frame->box.x + 10, frame->box.y + 17, TUTTI_ANCHOR_START, "note",
                          frame->title);
    }
    if (drawing->style == TUTTI_DRAWING_GRID && drawing->topo->host_count > 1)
        draw_tiles(drawing, canvas);
    draw_links(drawing, canvas);
    for (uint32_t v = 0; v < drawing->topo->node_count; v++)
        if (drawing->boxes[v].w > 0)
            draw_node(drawing, v, canvas);
    for (uint32_t n = 0; n < drawing->note_count; n++)
        tutti_canvas_text(canvas, drawing->notes[n].x, drawing->notes[n].y,
                          drawing->notes[n].anchor, "note", drawing->notes[n].text);
}
