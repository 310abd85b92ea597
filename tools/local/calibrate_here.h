/* calibrate -B: this machine measured by a backend. */
#ifndef TUTTI_TOOLS_LOCAL_CALIBRATE_HERE_H
#define TUTTI_TOOLS_LOCAL_CALIBRATE_HERE_H

struct tutti_args;
struct tutti_err;
struct tutti_sink;

int tutti_calibrate_here(const struct tutti_args *args, struct tutti_sink *sink,
                         struct tutti_err *err);

#endif
