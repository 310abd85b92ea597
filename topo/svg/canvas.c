/* Writing SVG elements to a growing text. */
#include "topo/svg/canvas.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(struct tutti_canvas *canvas, size_t more)
{
    size_t capacity = canvas->capacity == 0 ? 4096 : canvas->capacity;
    char *text;

    while (capacity - canvas->used < more)
        capacity *= 2;
    if (canvas->failed)
        return false;
    if (capacity == canvas->capacity)
        return true;
    text = realloc(canvas->text, capacity);
    if (text == NULL) {
        canvas->failed = true;
        return false;
    }
    canvas->text = text;
    canvas->capacity = capacity;
    return true;
}

void tutti_canvas_print(struct tutti_canvas *canvas, const char *format, ...)
{
    enum { LINE_BYTES_MAX = 1024 };
    va_list args;
    int wrote;

    if (!reserve(canvas, LINE_BYTES_MAX))
        return;
    va_start(args, format);
    wrote = vsnprintf(canvas->text + canvas->used, LINE_BYTES_MAX, format, args);
    va_end(args);
    if (wrote < 0 || wrote >= LINE_BYTES_MAX)
        canvas->failed = true; /* our own mistake: every line is short */
    else
        canvas->used += (size_t)wrote;
}

void tutti_canvas_box(struct tutti_canvas *canvas, const struct tutti_box *box, const char *class)
{
    tutti_canvas_print(canvas,
                       "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
                       "rx=\"3\"/>\n",
                       class, box->x, box->y, box->w, box->h);
}

static void put_escaped(struct tutti_canvas *canvas, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c == '&')
            tutti_canvas_print(canvas, "&amp;");
        else if (c == '<')
            tutti_canvas_print(canvas, "&lt;");
        else if (c == '>')
            tutti_canvas_print(canvas, "&gt;");
        else if (c == '"')
            tutti_canvas_print(canvas, "&quot;");
        else if ((c & 0xc0) != 0x80) /* once for each character of several bytes */
            tutti_canvas_print(canvas, "%c", c < 0x20 || c >= 0x7f ? '?' : c);
    }
}

static void put_text(struct tutti_canvas *canvas, int x, int y, enum tutti_anchor anchor,
                     const char *class, const char *text, size_t bytes)
{
    static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};

    tutti_canvas_print(canvas, "<text class=\"%s\" x=\"%d\" y=\"%d\"%s>", class, x, y,
                       anchors[anchor]);
    put_escaped(canvas, text, bytes);
    tutti_canvas_print(canvas, "</text>\n");
}

void tutti_canvas_text(struct tutti_canvas *canvas, int x, int y, enum tutti_anchor anchor,
                       const char *class, const char *text)
{
    put_text(canvas, x, y, anchor, class, text, strlen(text));
}

int tutti_text_width(size_t characters, int font)
{
    return (int)(characters > 10000 ? 10000 : characters) * font * 60 / 100;
}

void tutti_canvas_label(struct tutti_canvas *canvas, const struct tutti_box *box, int font,
                        const char *class, const char *text)
{
    size_t bytes = strlen(text);

    while (bytes > 1 && tutti_text_width(bytes, font) > box->w)
        bytes--;
    put_text(canvas, box->x + box->w / 2, box->y + box->h / 2 + font * 35 / 100,
             TUTTI_ANCHOR_MIDDLE, class, text, bytes);
}
