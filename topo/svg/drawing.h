/* A picture in the making: where each node stands, the frames round them, and what is said. */
#ifndef TUTTI_TOPO_SVG_DRAWING_H
#define TUTTI_TOPO_SVG_DRAWING_H

#include <stdbool.h>
#include <stdint.h>

#include "topo/svg/canvas.h"
#include "topo/topo.h"

struct tutti_err;

enum {
    TUTTI_FRAMES_MAX = 64,
    TUTTI_NOTES_MAX = 128,
    TUTTI_STROKES_MAX = 128,
    TUTTI_NOTE_BYTES = 96,
    TUTTI_SHOWN_BYTES = 256,
    TUTTI_DRAWING_WIDTH_MAX = 2100, /* a layout shows as much as fits, and says what it left out */
    TUTTI_DEVICE_HEIGHT = 24,
};

/* A box round some nodes: a host, a layer of a grid. */
struct tutti_svg_frame {
    struct tutti_box box;
    char title[TUTTI_NOTE_BYTES];
};

struct tutti_note {
    int x;
    int y;
    enum tutti_anchor anchor;
    char text[TUTTI_NOTE_BYTES];
};

/* A line of many points that stands for several links, as "x,y x,y ...". */
struct tutti_stroke {
    uint32_t link; /* whose kind and rate it has */
    char points[TUTTI_NOTE_BYTES];
};

enum tutti_drawing_style {
    TUTTI_DRAWING_ROWS,  /* links are straight, or arcs between devices of a row */
    TUTTI_DRAWING_ROUND, /* links are chords */
    TUTTI_DRAWING_GRID,  /* links between neighbours are straight, those round the edge are cut */
};

struct tutti_drawing {
    const struct tutti_topo *topo;
    enum tutti_drawing_style style;
    int width; /* of what is drawn, from 0, 0 */
    int height;
    int device_width;
    uint64_t rate_max;             /* of all links: the widest line */
    double line_factor;            /* thinner lines where there are many */
    int pitch;                     /* ROWS: from one device to the next */
    bool arcs_below;               /* ROWS: of arcs between devices */
    struct tutti_box *boxes;       /* [node_count] */
    char shown[TUTTI_SHOWN_BYTES]; /* what of the machine is shown, where that is not all */
    uint32_t frame_count;
    uint32_t note_count;
    uint32_t stroke_count;
    struct tutti_svg_frame frames[TUTTI_FRAMES_MAX];
    struct tutti_note notes[TUTTI_NOTES_MAX];
    struct tutti_stroke strokes[TUTTI_STROKES_MAX];
};

/* What does not fit into the lists is left out. */
__attribute__((format(printf, 5, 6))) void tutti_drawing_note(struct tutti_drawing *drawing, int x,
                                                              int y, enum tutti_anchor anchor,
                                                              const char *format, ...);
__attribute__((format(printf, 3, 4))) void tutti_drawing_frame(struct tutti_drawing *drawing,
                                                               const struct tutti_box *box,
                                                               const char *format, ...);
__attribute__((format(printf, 3, 4))) void
tutti_drawing_stroke(struct tutti_drawing *drawing, uint32_t link, const char *format, ...);

/* "5 of 64 hosts": what is shown of something that is too much for a picture. */
void tutti_drawing_shown(struct tutti_drawing *drawing, uint32_t shown, uint32_t of,
                         const char *what);

/* The layouts: they fill in all but topo, boxes (zeroed) and device_width. */
void tutti_lay_out_grid(struct tutti_drawing *drawing);  /* dims of at least 2 axes, devices only */
void tutti_lay_out_round(struct tutti_drawing *drawing); /* devices only */
int tutti_lay_out_rows(struct tutti_drawing *drawing, struct tutti_err *err);

/* Draws frames, links, boxes and notes. */
void tutti_drawing_render(const struct tutti_drawing *drawing, struct tutti_canvas *canvas);

/* Colour of a kind of link, and width of a line for a rate. */
const char *tutti_link_colour(uint8_t kind);
double tutti_link_width(const struct tutti_drawing *drawing, uint64_t bytes_per_s);

/* How far an arc between two devices of a row goes beyond it. */
int tutti_arc_height(int distance);

#endif
