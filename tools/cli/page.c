/* Wraps, colours and leaves out lines; see page.h. */
#include "tools/cli/page.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/sink.h"

enum { LABEL_COLUMNS = 14, INDENT_MAX = 32 };

int tutti_page_open(struct tutti_page *page, const struct tutti_sink *sink, struct tutti_err *err)
{
    *page = (struct tutti_page){
        .verbose = sink->verbose,
        .quiet = sink->quiet,
        .colour = sink->colour,
        .columns = sink->columns > 0 ? sink->columns : TUTTI_PAGE_COLUMNS,
        .to = sink->out,
    };
    page->out = open_memstream(&page->text, &page->bytes);
    return page->out == NULL ? tutti_nomem(err) : 0;
}

const char *tutti_page_bold(const struct tutti_page *page)
{
    return page->colour ? "\033[1m" : "";
}

const char *tutti_page_red(const struct tutti_page *page)
{
    return page->colour ? "\033[31m" : "";
}

const char *tutti_page_plain(const struct tutti_page *page)
{
    return page->colour ? "\033[0m" : "";
}

/* "  figures: ..." or "  why         ...": a line of its own below a heading, no row of a table. */
static bool is_labelled(const char *line, size_t bytes)
{
    return bytes > 2 && line[0] == ' ' && line[1] == ' ' && line[2] != ' ';
}

/* "              CollNet is off: ...": more of what stands below a label, as far in as that. */
static bool is_continued(const char *line, size_t bytes)
{
    for (size_t i = 0; i < LABEL_COLUMNS; i++) {
        if (i >= bytes || line[i] != ' ')
            return false;
    }
    return bytes > LABEL_COLUMNS && line[LABEL_COLUMNS] != ' ';
}

/* Where the text begins behind a label, for the lines that follow; 4 if there is none. */
static int indent_of(const char *line, size_t bytes)
{
    size_t at = 2;

    while (at + 1 < bytes && at < LABEL_COLUMNS &&
           !(line[at] == ' ' && (line[at - 1] == ':' || line[at + 1] == ' ')))
        at++;
    if (at + 1 >= bytes || at >= LABEL_COLUMNS)
        return 4;
    while (at < bytes && at < INDENT_MAX && line[at] == ' ')
        at++;
    return (int)at;
}

/* How many bytes of the line to print now: up to a blank, but none before '%', at most `columns`
 * characters, more only where a word is longer than that. */
static size_t part(const char *line, size_t bytes, int columns, size_t least)
{
    size_t end = bytes;
    int column = 0;

    for (size_t i = 0; i < bytes; i++) {
        if (line[i] == ' ' && i > least && !(i + 1 < bytes && line[i + 1] == '%'))
            end = i;
        column += ((unsigned char)line[i] & 0xc0) != 0x80;
        if (column > columns && end < bytes)
            return end;
    }
    return column > columns ? end : bytes;
}

static void print_wrapped(const struct tutti_page *page, const char *line, size_t bytes)
{
    int indent = indent_of(line, bytes);
    char first = line[0];
    int columns = page->columns;
    size_t least = (size_t)indent;

    for (;;) {
        size_t now = part(line, bytes, columns, least);

        fwrite(line, 1, now, page->to);
        while (now < bytes && line[now] == ' ')
            now++;
        line += now;
        bytes -= now;
        if (bytes == 0)
            return;
        fprintf(page->to, "\n%c%*s", first, indent - 1, "");
        columns = page->columns - indent;
        least = 0;
    }
}

/* Prints a line, below one with a label if `labelled`; says whether it is of a label itself. */
static bool print_line(const struct tutti_page *page, bool labelled, const char *line, size_t bytes)
{
    bool title = bytes > 0 && line[0] == TUTTI_PAGE_TITLE[0];
    bool note = bytes > 0 && line[0] == '#';
    bool dim = page->colour && (title || note);

    line += title;
    bytes -= title;
    labelled = is_labelled(line, bytes) || (labelled && is_continued(line, bytes));
    if (note && page->quiet)
        return labelled;
    if (dim)
        fputs("\033[2m", page->to);
    if (note || labelled)
        print_wrapped(page, line, bytes);
    else
        fwrite(line, 1, bytes, page->to);
    fputs(dim ? "\033[0m\n" : "\n", page->to);
    return labelled;
}

int tutti_page_close(struct tutti_page *page, int status, struct tutti_err *err)
{
    size_t at = 0;
    bool labelled = false;

    if (fclose(page->out) != 0 && status == 0)
        status = tutti_nomem(err);
    while (status == 0 && at < page->bytes) {
        const char *line = page->text + at;
        const char *end = memchr(line, '\n', page->bytes - at);
        size_t bytes = end != NULL ? (size_t)(end - line) : page->bytes - at;

        labelled = print_line(page, labelled, line, bytes);
        at += bytes + 1;
    }
    free(page->text);
    page->text = NULL;
    return status;
}
