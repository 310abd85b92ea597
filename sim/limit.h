/* What limits a prediction: what the time that was simulated hangs on. The bound beside it says
 * what limits the machine, whatever the schedule. */
#ifndef TUTTI_SIM_LIMIT_H
#define TUTTI_SIM_LIMIT_H

#include "runtime/api.h"
#include "sim/predict.h"

TUTTI_API_BEGIN

enum { TUTTI_LIMIT_TEXT_BYTES = 160, TUTTI_LIMIT_RANKS_MAX = 65536 };

/* Says what has the largest part in an answer's time, and how large that is: "launch of 12.3us (80
 * %)", "latency of 14 steps (93 %)", "lane rate of protocol ll (70 %)", "overhead of each message
 * (50 %)", "net links of 50GB/s (91 %)" (and the slowest by name, if others of the kind are
 * faster). `ask` is the question that was answered, for one algorithm or "auto". The answer is
 * simulated some four to ten times more: with no launch, with lanes and links of each kind slower
 * by 5 %, with messages as much farther apart, with messages later by a nanosecond; what none of
 * these explains is latency. "not known" where more than TUTTI_LIMIT_RANKS_MAX ranks are simulated,
 * folded or not, under jitter, where a custom schedule hangs on none of those (it may work), and
 * for what could not be simulated so, or would take more than about a second each time. Who asks
 * about several answers gives ask->memory, on which no answer depends. -TUTTI_ENOMEM alone fails.
 */
int tutti_predict_limit(const struct tutti_ask *ask, const struct tutti_answer *answer,
                        char ret[TUTTI_LIMIT_TEXT_BYTES], struct tutti_err *err);

TUTTI_API_END

#endif
