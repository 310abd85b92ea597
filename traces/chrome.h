/* Records as a Chrome/Perfetto trace (JSON trace event format). */
#ifndef TUTTI_TRACES_CHROME_H
#define TUTTI_TRACES_CHROME_H

#include "runtime/api.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_record;

/* One process a rank (pid = rank), one thread a lane (tid = lane), one complete ("X") event a step,
 * flow arrows from each SEND to its RECV; opens in ui.perfetto.dev and chrome://tracing. SENDs lie
 * on threads beside their lane's (tid = lane + k * 65536), because they go on while the lane does.
 * Times in us with six digits: picoseconds. `title` names the run. *ret is freed with free(). */
int tutti_chrome_print(const struct tutti_record *record, const char *title, char **ret,
                       struct tutti_err *err);

TUTTI_API_END

#endif
