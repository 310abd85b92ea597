/* One line about a schedule that holds, for `schedule check` and `schedule prove`. */
#ifndef TUTTI_TOOLS_SCHEDULE_SCHEDULE_VERDICT_H
#define TUTTI_TOOLS_SCHEDULE_SCHEDULE_VERDICT_H

#include "tools/schedule/schedule_source.h"

struct tutti_sink;

/* "allreduce of 250 float, sum"; returns `buf`. */
enum { TUTTI_CONTRACT_TEXT_BYTES = 160 };
const char *tutti_contract_text(const struct tutti_contract *contract, char *buf);

/* Loads the schedule, has it judged, and prints "ok: ..." in the format that the options ask for:
 * its figures and `holds`, or with NULL what its contract promises. */
int tutti_schedule_verdict(const struct tutti_args *args,
                           int (*judge)(const struct tutti_schedule *schedule,
                                        struct tutti_err *err),
                           const char *holds, struct tutti_sink *sink, struct tutti_err *err);

#endif
