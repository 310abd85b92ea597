/* Cuts records of CSV into cells: commas and line ends in double quotes are text. */
#include "traces/text/cells.h"

#include <assert.h>
#include <string.h>

#include "runtime/status.h"

static uint32_t line_of(const char *text, const char *place)
{
    uint32_t line = 1;

    for (; text < place; text++)
        line += *text == '\n';
    return line;
}

int tutti_trace_cells_open(struct tutti_trace_cells *cells, const char *name, char *text,
                           size_t bytes, struct tutti_err *err)
{
    const char *nul;

    assert(text[bytes] == '\0');
    if (bytes >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
        return tutti_fail(err, TUTTI_EINVAL, "%s: line 1: text in UTF-16 (UTF-8 is expected)",
                          name);
    *cells = (struct tutti_trace_cells){
        .name = name, .at = text, .end = text + bytes, .line = 1, .next_line = 1};
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        cells->at += 3;
    nul = memchr(text, '\0', bytes);
    if (nul != NULL)
        return tutti_fail(err, TUTTI_EINVAL, "%s: line %u: a NUL byte (text in UTF-8 is expected)",
                          name, line_of(text, nul));
    return 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static char *skip_blanks(char *at)
{
    while (is_blank(*at))
        at++;
    return at;
}

/* Ends the text [start, end) with a zero, without the blanks at its end. */
static void close_text(char *start, char *end)
{
    while (end > start && is_blank(end[-1]))
        end--;
    *end = '\0';
}

/* A cell in quotes, of which `at` is the first; returns what stands behind the last, or NULL. */
static char *take_quoted(struct tutti_trace_cells *cells, char *at)
{
    char *out = at;
    char *start = at++;

    for (;; at++) {
        if (at == cells->end)
            return NULL;
        if (*at == '"' && at[1] != '"')
            break;
        at += *at == '"';
        cells->next_line += *at == '\n';
        *out++ = *at;
    }
    *out = '\0';
    cells->cell[cells->cell_count++] = start;
    return skip_blanks(at + 1);
}

static char *take_plain(struct tutti_trace_cells *cells, char *at)
{
    char *start = at;

    at += strcspn(at, ",\n");
    cells->cell[cells->cell_count++] = start;
    return at;
}

static int fail(const struct tutti_trace_cells *cells, const char *what, struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_EINVAL, "%s: line %u: %s", cells->name, cells->line, what);
}

/* Cuts the record that begins at `at`. */
static int take_record(struct tutti_trace_cells *cells, char *at, struct tutti_err *err)
{
    char ended_by;

    do {
        bool quoted;

        if (cells->cell_count == TUTTI_TRACE_CELLS_MAX)
            return fail(cells, "more than 256 cells (a comma apart)", err);
        at = skip_blanks(at);
        quoted = *at == '"';
        at = quoted ? take_quoted(cells, at) : take_plain(cells, at);
        if (at == NULL)
            return fail(cells, "a quote without its end (a quote inside one is doubled)", err);
        ended_by = *at;
        if (ended_by != ',' && ended_by != '\n' && at != cells->end)
            return fail(cells, "text behind a quoted cell (a comma, or the line's end)", err);
        if (!quoted)
            close_text(cells->cell[cells->cell_count - 1], at);
        at += at != cells->end;
    } while (ended_by == ',');
    cells->next_line += ended_by == '\n';
    cells->at = at;
    return 1;
}

static void take_remark(struct tutti_trace_cells *cells, char *at)
{
    char *newline = strchr(at, '\n');
    char *end = newline != NULL ? newline : cells->end;

    cells->at = newline != NULL ? newline + 1 : end;
    cells->next_line += newline != NULL;
    close_text(at, end);
    cells->cell[cells->cell_count++] = skip_blanks(at + 1);
}

int tutti_trace_cells_next(struct tutti_trace_cells *cells, struct tutti_err *err)
{
    char *at = skip_blanks(cells->at);

    for (; *at == '\n'; at = skip_blanks(at + 1))
        cells->next_line++;
    cells->line = cells->next_line;
    cells->cell_count = 0;
    cells->is_remark = *at == '#';
    if (at == cells->end)
        return 0;
    if (!cells->is_remark)
        return take_record(cells, at, err);
    take_remark(cells, at);
    return 1;
}
