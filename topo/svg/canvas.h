/* The sheet that a picture is written on: SVG elements, one after the other, and nothing kept. */
#ifndef TUTTI_TOPO_SVG_CANVAS_H
#define TUTTI_TOPO_SVG_CANVAS_H

#include <stdbool.h>
#include <stddef.h>

/* Memory that runs out is remembered, and said once at the end. */
struct tutti_canvas {
    char *text; /* zero-terminated, malloc */
    size_t used;
    size_t capacity;
    bool failed;
};

enum tutti_anchor { TUTTI_ANCHOR_START, TUTTI_ANCHOR_MIDDLE, TUTTI_ANCHOR_END };

struct tutti_box {
    int x;
    int y;
    int w; /* 0: not in the picture */
    int h;
};

__attribute__((format(printf, 2, 3))) void tutti_canvas_print(struct tutti_canvas *canvas,
                                                              const char *format, ...);

/* A rectangle of CSS class `class`. */
void tutti_canvas_box(struct tutti_canvas *canvas, const struct tutti_box *box, const char *class);

/* One line of text; y is its baseline. What XML would misread is escaped, and what is not printable
 * ASCII becomes '?'. */
void tutti_canvas_text(struct tutti_canvas *canvas, int x, int y, enum tutti_anchor anchor,
                       const char *class, const char *text);

/* Text in the middle of a box, cut to its width; `font` is the size of `class` in pixels. */
void tutti_canvas_label(struct tutti_canvas *canvas, const struct tutti_box *box, int font,
                        const char *class, const char *text);

/* How wide a text of so many characters is, or a little less: sans-serif fonts differ. */
int tutti_text_width(size_t characters, int font);

#endif
