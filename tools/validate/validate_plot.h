/* What `validate` draws: errors by size on the terminal, measured and predicted times as SVG. */
#ifndef TUTTI_TOOLS_VALIDATE_VALIDATE_PLOT_H
#define TUTTI_TOOLS_VALIDATE_VALIDATE_PLOT_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/options.h"
#include "tools/validate/cases.h"

/* Below the table, if --plot wants it (auto: on a terminal): the errors of the cases. */
int tutti_validate_plot_cases(const struct tutti_args *args, const struct tutti_cases *cases,
                              bool terminal, FILE *out, struct tutti_err *err);

/* To the file of --svg, if it is given: a line each for what was measured and what was predicted,
 * of each log, collective and algorithm played here, and one of the null model of the first. Of a
 * size that a line has several times, as of several types of elements, it is drawn by the means. */
int tutti_validate_svg_cases(const struct tutti_args *args, const struct tutti_cases *cases,
                             struct tutti_sink *sink, struct tutti_err *err);

#endif
