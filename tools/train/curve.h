/* What machines of several sizes make of one training: bars of where a step's time goes, and a
 * chart of the time a sample takes. */
#ifndef TUTTI_TOOLS_TRAIN_CURVE_H
#define TUTTI_TOOLS_TRAIN_CURVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/units.h"
#include "tools/options.h"

#define TUTTI_TRAIN_OPTION_SVG                                                                    \
    {                                                                                             \
        .name = "svg", .type = TUTTI_OPTION_TEXT, .value = "FILE",                                \
        .help = "of --devices: draw the time of a sample by devices as SVG; - draws to standard " \
                "output, and prints nothing else"                                                 \
    }

enum { TUTTI_TRAIN_CURVE_PARTS = 10 };

/* What a part of a step is called, and its letter in bars. */
struct tutti_train_curve_part {
    const char *name;
    char letter;
};

struct tutti_train_curve_point {
    uint32_t device_count;
    tutti_ps step_ps;
    double samples_per_s;
    tutti_ps part[TUTTI_TRAIN_CURVE_PARTS]; /* that the step divides into */
};

/* Below a table, a line a machine: its step beside the longest one, by what the device does and
 * waits for (`parts`). And by --svg the time of a sample by devices, and what it would be if
 * devices were added to the first machine at no cost. */
int tutti_train_curve(const struct tutti_args *args, const char *title,
                      const struct tutti_train_curve_part parts[TUTTI_TRAIN_CURVE_PARTS],
                      const struct tutti_train_curve_point *points, size_t count,
                      struct tutti_sink *sink, struct tutti_err *err);

/* Whether the chart is all that is asked for. */
bool tutti_train_curve_only(const struct tutti_args *args);

/* That --svg has several machines, and a file that can be written. */
int tutti_train_curve_check(const struct tutti_args *args, struct tutti_err *err);

#endif
