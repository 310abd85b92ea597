/* The errors of predictions by size, as lines of text: the middle of them, and where nine of ten
 * lie, in each power of two of bytes. */
#ifndef TUTTI_TOOLS_CLI_ERROR_PLOT_H
#define TUTTI_TOOLS_CLI_ERROR_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct tutti_error_point {
    uint64_t bytes; /* of 0 and without a ratio: no point */
    double ratio;   /* predicted over measured */
};

/* Sorts the points. At most 80 wide; without `utf8` of ASCII alone. */
void tutti_error_plot(struct tutti_error_point *points, size_t count, bool utf8, FILE *out);

#endif
