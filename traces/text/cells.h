/* Records of CSV (RFC 4180), cut into cells where they lie. */
#ifndef TUTTI_TRACES_TEXT_CELLS_H
#define TUTTI_TRACES_TEXT_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tutti_err;

enum { TUTTI_TRACE_CELLS_MAX = 256 }; /* columns of a table */

/* Cells point into the text, which is overwritten: a quoted cell loses its quotes, every cell gets
 * its zero. */
struct tutti_trace_cells {
    const char *name; /* of messages */
    char *at;         /* what is left to read */
    char *end;        /* a zero stands there */
    uint32_t line;    /* the record's first, from 1 */
    uint32_t next_line;
    bool is_remark; /* the line begins with '#': one cell, without it */
    size_t cell_count;
    char *cell[TUTTI_TRACE_CELLS_MAX];
};

/* `text` has a zero behind its `bytes`. Refuses UTF-16 and zeros in the text. */
int tutti_trace_cells_open(struct tutti_trace_cells *cells, const char *name, char *text,
                           size_t bytes, struct tutti_err *err);

/* The next record or remark; 1: there is one, 0: none. Blank lines are passed over. */
int tutti_trace_cells_next(struct tutti_trace_cells *cells, struct tutti_err *err);

#endif
