/* Records as a Chrome/Perfetto trace (JSON trace event format). */
#ifndef TUTTI_TRACES_CHROME_H
#define TUTTI_TRACES_CHROME_H

#include <stdint.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_event;
struct tutti_record;

/* What lanes and steps are called, where that is more than "lane 0" and "compute". */
struct tutti_chrome_names {
    const char *(*lane)(const void *context, uint16_t lane);
    const char *(*step)(const void *context, const struct tutti_event *event);
    const void *context;
};

/* One process a rank (pid = rank), one thread a lane (tid = lane), one complete ("X") event a step,
 * flow arrows from each SEND to its RECV; opens in ui.perfetto.dev and chrome://tracing. SENDs lie
 * on threads beside their lane's (tid = lane + k * 65536), because they go on while the lane does.
 * Times in us with six digits: picoseconds. `title` names the run. *ret is freed with free(). */
int tutti_chrome_print(const struct tutti_record *record, const char *title, char **ret,
                       struct tutti_err *err);
/* Likewise with names of one's own; NULL: none. */
int tutti_chrome_print_named(const struct tutti_record *record, const char *title,
                             const struct tutti_chrome_names *names, char **ret,
                             struct tutti_err *err);

TUTTI_API_END

#endif
