/* A picture of a machine: title, drawing, legend and the source of the figures, as SVG. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "topo/describe.h"
#include "topo/svg/drawing.h"
#include "topo/topo.h"

enum {
    MARGIN = 24,
    TITLE_HEIGHT = 72,
    WIDTH_MIN = 620,
    LEGEND_LINE = 20,
    LEGEND_COLUMN = 290,
    LEGEND_LINKS_MAX = 12,
    FONT = 12,
    TITLE_FONT = 18,
};

/* ---- words above ----------------------------------------------------------------------------- */

static void write_title(const struct tutti_topo *topo, const struct tutti_description *about,
                        int width, struct tutti_canvas *canvas)
{
    char text[256];
    char a[TUTTI_UNIT_TEXT_BYTES];
    char b[TUTTI_UNIT_TEXT_BYTES];
    size_t fits = (size_t)((width - 2 * MARGIN) * 100 / (TITLE_FONT * 62));
    size_t bytes = strlen(topo->name);
    size_t used;

    /* Of a long path the end says most. */
    fits = fits < 200 ? fits : 200;
    (void)snprintf(text, sizeof(text), "%s%.200s", bytes <= fits ? "" : "...",
                   bytes <= fits ? topo->name : topo->name + bytes - (fits - 3));
    tutti_canvas_text(canvas, MARGIN, 34, TUTTI_ANCHOR_START, "title", text);
    used = (size_t)snprintf(text, sizeof(text), "%" PRIu32 " rank%s", topo->rank_count,
                            topo->rank_count == 1 ? "" : "s");
    if (topo->host_count > 0)
        used += (size_t)snprintf(text + used, sizeof(text) - used, " on %" PRIu32 " host%s",
                                 topo->host_count, topo->host_count == 1 ? "" : "s");
    if (topo->rank_count > 1)
        (void)snprintf(text + used, sizeof(text) - used,
                       "; bisection %s one way; a rank sends %s at most",
                       tutti_print_rate(about->bisection_bytes_per_s, a),
                       tutti_print_rate(about->rank_out_max, b));
    tutti_canvas_text(canvas, MARGIN, 55, TUTTI_ANCHOR_START, "note", text);
}

/* ---- words below ----------------------------------------------------------------------------- */

/* Links of the legend: alike in kind, rate, latency and cables, whatever they join. */
struct legend {
    uint32_t link_count;
    struct tutti_link links[LEGEND_LINKS_MAX];
    uint32_t counts[LEGEND_LINKS_MAX];
    uint32_t more; /* kinds that found no room */
    uint32_t columns;
};

static struct legend legend_of(const struct tutti_topo *topo, const struct tutti_description *about,
                               int width)
{
    struct legend legend = {.columns = (uint32_t)((width - 2 * MARGIN) / LEGEND_COLUMN)};

    legend.columns = legend.columns == 0 ? 1 : legend.columns > 4 ? 4 : legend.columns;
    legend.more = about->link_more > 0;
    for (uint32_t g = 0; g < about->link_group_count; g++) {
        struct tutti_link link = tutti_topo_link(topo, about->link_groups[g].first);
        uint32_t i = 0;

        while (i < legend.link_count && (legend.links[i].kind != link.kind ||
                                         legend.links[i].bytes_per_s != link.bytes_per_s ||
                                         legend.links[i].latency_ps != link.latency_ps ||
                                         legend.links[i].cable_count != link.cable_count))
            i++;
        if (i == LEGEND_LINKS_MAX) {
            legend.more++;
            continue;
        }
        if (i == legend.link_count) {
            legend.counts[i] = 0;
            legend.links[legend.link_count++] = link;
        }
        legend.counts[i] += about->link_groups[g].count;
    }
    return legend;
}

static int legend_height(const struct legend *legend)
{
    uint32_t lines = (legend->link_count + legend->columns - 1) / legend->columns;

    return (int)(lines + 1 + (legend->more > 0)) * LEGEND_LINE + 14;
}

static void write_link(const struct tutti_drawing *drawing, const struct legend *legend, uint32_t i,
                       int x, int y, struct tutti_canvas *canvas)
{
    const struct tutti_link *link = &legend->links[i];
    char text[160];
    char rate[TUTTI_UNIT_TEXT_BYTES];
    char latency[TUTTI_UNIT_TEXT_BYTES];
    char cables[32] = "";

    tutti_canvas_print(canvas, "<path class=\"%s\" stroke-width=\"%.1f\" d=\"M%d %dh26\"/>\n",
                       tutti_link_kind_name((enum tutti_link_kind)link->kind),
                       tutti_link_width(drawing, link->bytes_per_s), x, y - 4);
    if (link->cable_count > 1)
        (void)snprintf(cables, sizeof(cables), ", %" PRIu32 " cables", link->cable_count);
    (void)snprintf(text, sizeof(text), "%s %s, %s%s",
                   tutti_link_kind_name((enum tutti_link_kind)link->kind),
                   tutti_print_rate(link->bytes_per_s, rate),
                   tutti_print_time(link->latency_ps, latency), cables);
    tutti_canvas_text(canvas, x + 34, y, TUTTI_ANCHOR_START, "note", text);
}

static void write_kinds(const struct tutti_drawing *drawing, const struct tutti_description *about,
                        int y, struct tutti_canvas *canvas)
{
    enum { REDUCES = TUTTI_NODE_KIND_COUNT, TILE, KIND_COUNT };
    static const struct {
        const char *class;
        const char *what;
    } kinds[] = {[TUTTI_NODE_DEVICE] = {"device", "device (its rank)"},
                 [TUTTI_NODE_SWITCH] = {"switch", "switch"},
                 [TUTTI_NODE_NIC] = {"nic", "NIC"},
                 [TUTTI_NODE_CPU] = {"cpu", "CPU"},
                 [REDUCES] = {"reduces", "switch that reduces"},
                 [TILE] = {"tile", "host"}};
    uint32_t counts[KIND_COUNT] = {0};
    int x = MARGIN;

    for (uint32_t g = 0; g < about->node_group_count; g++) {
        struct tutti_node node = tutti_topo_node(drawing->topo, about->node_groups[g].first);

        counts[node.reduces ? REDUCES : node.kind] += about->node_groups[g].count;
    }
    counts[TILE] = drawing->style == TUTTI_DRAWING_GRID && drawing->topo->host_count > 1;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        struct tutti_box box = {.x = x, .y = y - 12, .w = 26, .h = 14};

        if (counts[kind] == 0)
            continue;
        tutti_canvas_box(canvas, &box, kinds[kind].class);
        tutti_canvas_text(canvas, x + 34, y, TUTTI_ANCHOR_START, "note", kinds[kind].what);
        x += 60 + tutti_text_width(strlen(kinds[kind].what), FONT);
    }
}

static void write_legend(const struct tutti_drawing *drawing, const struct legend *legend,
                         const struct tutti_description *about, int y, struct tutti_canvas *canvas)
{
    write_kinds(drawing, about, y, canvas);
    for (uint32_t i = 0; i < legend->link_count; i++) {
        if (i % legend->columns == 0)
            y += LEGEND_LINE;
        write_link(drawing, legend, i, MARGIN + (int)(i % legend->columns) * LEGEND_COLUMN, y,
                   canvas);
    }
    if (legend->more > 0)
        tutti_canvas_text(canvas, MARGIN, y + LEGEND_LINE, TUTTI_ANCHOR_START, "note",
                          "and links of other rates and latencies");
}

/* The source of the figures, broken at blanks; returns the number of lines. Only counts them where
 * canvas is NULL. */
static int write_source(const char *source, int width, int y, struct tutti_canvas *canvas)
{
    size_t fits = (size_t)((width - 2 * MARGIN) * 100 / (FONT * 56));
    int lines = 0;
    char text[256];

    for (const char *at = source; *at != '\0' && lines < 6; lines++) {
        size_t bytes = strlen(at);
        size_t most = fits < sizeof(text) - 1 ? fits : sizeof(text) - 1;

        if (bytes > most) {
            bytes = most;
            while (bytes > most / 2 && at[bytes] != ' ')
                bytes--;
        }
        (void)snprintf(text, sizeof(text), "%.*s", (int)bytes, at);
        if (canvas != NULL)
            tutti_canvas_text(canvas, MARGIN, y + lines * 16, TUTTI_ANCHOR_START, "source", text);
        at += bytes;
        at += *at == ' ';
    }
    return lines;
}

/* ---- the sheet ------------------------------------------------------------------------------- */

static void write_head(struct tutti_canvas *canvas, int width, int height)
{
    tutti_canvas_print(canvas,
                       "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                       "viewBox=\"0 0 %d %d\">\n<style>\n",
                       width, height, width, height);
    tutti_canvas_print(canvas,
                       "text { font-family: \"DejaVu Sans\", Verdana, Helvetica, sans-serif; "
                       "fill: #222 }\n"
                       ".title { font-size: %dpx; font-weight: bold }\n"
                       ".note { font-size: %dpx; fill: #333 }\n"
                       ".source { font-size: 11px; fill: #666 }\n"
                       ".label { font-size: 10px }\n.small { font-size: 8px; fill: #555 }\n",
                       TITLE_FONT, FONT);
    tutti_canvas_print(canvas, "path, polyline { fill: none }\n"
                               ".frame { fill: #f7f7f5; stroke: #b5b5b0; stroke-width: 1 }\n"
                               ".tile { fill: #eeeeea; stroke: #b5b5b0; stroke-width: 1 }\n"
                               ".device { fill: #dcebfa; stroke: #2b5d8a; stroke-width: 1 }\n"
                               ".switch { fill: #fff1cc; stroke: #94700a; stroke-width: 1 }\n"
                               ".reduces { fill: #ffd9b0; stroke: #94500a; stroke-width: 2 }\n"
                               ".nic { fill: #ece0f5; stroke: #6d4593; stroke-width: 1 }\n"
                               ".cpu { fill: #e0f0dd; stroke: #3f7a36; stroke-width: 1 }\n");
    /* A node and a link may be of kinds of the same name. */
    for (uint8_t kind = 0; kind < TUTTI_LINK_KIND_COUNT; kind++)
        tutti_canvas_print(canvas, "path.%s, polyline.%s { stroke: %s }\n",
                           tutti_link_kind_name((enum tutti_link_kind)kind),
                           tutti_link_kind_name((enum tutti_link_kind)kind),
                           tutti_link_colour(kind));
    tutti_canvas_print(canvas, ".oneway { stroke-dasharray: 5 3 }\n</style>\n"
                               "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n");
}

static int write_sheet(const struct tutti_drawing *drawing, const struct tutti_description *about,
                       char **ret, struct tutti_err *err)
{
    struct tutti_canvas canvas = {.text = NULL};
    int width = drawing->width + 2 * MARGIN < WIDTH_MIN ? WIDTH_MIN : drawing->width + 2 * MARGIN;
    struct legend legend = legend_of(drawing->topo, about, width);
    int source_lines = write_source(drawing->topo->source, width, 0, NULL);
    int shown_y = TITLE_HEIGHT + drawing->height + 28;
    int legend_y = shown_y + (drawing->shown[0] != '\0' ? 26 : 2);
    int source_y = legend_y + legend_height(&legend);

    write_head(&canvas, width, source_y + source_lines * 16 + 10);
    write_title(drawing->topo, about, width, &canvas);
    tutti_canvas_print(&canvas, "<g transform=\"translate(%d %d)\">\n",
                       (width - drawing->width) / 2, TITLE_HEIGHT);
    tutti_drawing_render(drawing, &canvas);
    tutti_canvas_print(&canvas, "</g>\n");
    if (drawing->shown[0] != '\0')
        tutti_canvas_text(&canvas, MARGIN, shown_y, TUTTI_ANCHOR_START, "note", drawing->shown);
    write_legend(drawing, &legend, about, legend_y, &canvas);
    (void)write_source(drawing->topo->source, width, source_y, &canvas);
    tutti_canvas_print(&canvas, "</svg>\n");
    if (canvas.failed) {
        free(canvas.text);
        return tutti_nomem(err);
    }
    *ret = canvas.text;
    return 0;
}

/* Many lines are thin ones: they cross more. Grids have theirs side by side. */
static double line_factor(const struct tutti_drawing *drawing)
{
    const struct tutti_topo *topo = drawing->topo;
    uint32_t count = 0;

    for (uint32_t l = 0; l < topo->link_count; l++)
        count += drawing->boxes[tutti_topo_link(topo, l).from].w > 0 &&
                 drawing->boxes[tutti_topo_link(topo, l).to].w > 0;
    if (drawing->style == TUTTI_DRAWING_GRID || count <= 100)
        return 1;
    return count <= 400 ? 0.6 : 0.45;
}

static int lay_out(struct tutti_drawing *drawing, struct tutti_err *err)
{
    const struct tutti_topo *topo = drawing->topo;
    bool direct = topo->node_count == topo->rank_count;

    if (direct && topo->shape.dim_count >= 2 && topo->shape.dim[0] > 1 && topo->shape.dim[1] > 1) {
        tutti_lay_out_grid(drawing);
        return 0;
    }
    if (direct) {
        tutti_lay_out_round(drawing);
        return 0;
    }
    return tutti_lay_out_rows(drawing, err);
}

int tutti_topo_svg(const struct tutti_topo *topo, char **ret, struct tutti_err *err)
{
    struct tutti_drawing *drawing = calloc(1, sizeof(*drawing)); /* too large for a stack */
    struct tutti_description about;
    char rank[16];
    int status = drawing == NULL ? tutti_nomem(err) : tutti_topo_describe(topo, &about, err);

    if (status == 0) {
        drawing->topo = topo;
        drawing->rate_max = 1;
        for (uint32_t l = 0; l < topo->link_count; l++)
            if (tutti_topo_link(topo, l).bytes_per_s > drawing->rate_max)
                drawing->rate_max = tutti_topo_link(topo, l).bytes_per_s;
        drawing->device_width =
            12 + 7 * snprintf(rank, sizeof(rank), "%" PRIu32, topo->rank_count - 1);
        drawing->device_width = drawing->device_width < 26 ? 26 : drawing->device_width;
        drawing->boxes = calloc(topo->node_count, sizeof(*drawing->boxes));
        status = drawing->boxes == NULL ? tutti_nomem(err) : lay_out(drawing, err);
    }
    if (status == 0) {
        drawing->line_factor = line_factor(drawing);
        status = write_sheet(drawing, &about, ret, err);
    }
    if (drawing != NULL)
        free(drawing->boxes);
    free(drawing);
    return status;
}
