/* A page of results for people: what is printed on it is wrapped, coloured or left out as the sink
 * asks, when it is closed. JSON and CSV go to the sink itself. */
#ifndef TUTTI_TOOLS_CLI_PAGE_H
#define TUTTI_TOOLS_CLI_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct tutti_err;
struct tutti_sink;

enum { TUTTI_PAGE_COLUMNS = 100 };

/* Before the "#" of a title of a table, which stays on a quiet page and is not wrapped. */
#define TUTTI_PAGE_TITLE "\001"

struct tutti_page {
    FILE *out;    /* memory; lines that begin with "#" are notes, all others results */
    bool verbose; /* the notes are to say all that was resolved, not what matters most */
    bool quiet;   /* no notes: they need not be printed, and are left out if they are */
    bool colour;
    int columns; /* of a line, at most */
    FILE *to;
    char *text;
    size_t bytes;
};

int tutti_page_open(struct tutti_page *page, const struct tutti_sink *sink, struct tutti_err *err);

/* Hands on what was printed, unless `status` is negative; frees the page either way. Notes and
 * lines of labels that are too long go on below where they began. */
int tutti_page_close(struct tutti_page *page, int status, struct tutti_err *err);

/* Around what deserves the eye; nothing where the page has no colour. */
const char *tutti_page_bold(const struct tutti_page *page);
const char *tutti_page_red(const struct tutti_page *page);
const char *tutti_page_plain(const struct tutti_page *page);

#endif
