/* The commands: of each the call that does it, and the table of its words, both defined in the file
 * of the same name. A call prints to its sink alone, keeps nothing when it returns, and returns 0
 * or a negative status with the message in err. */
#ifndef TUTTI_TOOLS_COMMANDS_H
#define TUTTI_TOOLS_COMMANDS_H

#include "runtime/api.h"

TUTTI_API_BEGIN

struct tutti_args;
struct tutti_command;
struct tutti_err;
struct tutti_sink;

#define TUTTI_COMMAND(name)                                                          \
    extern const struct tutti_command tutti_cli_##name;                              \
    int tutti_command_##name(const struct tutti_args *args, struct tutti_sink *sink, \
                             struct tutti_err *err)

TUTTI_COMMAND(topo_list);
TUTTI_COMMAND(topo_show);
TUTTI_COMMAND(topo_bound);
TUTTI_COMMAND(topo_convert);
TUTTI_COMMAND(model_list);
TUTTI_COMMAND(model_show);
TUTTI_COMMAND(train);
TUTTI_COMMAND(plan);
TUTTI_COMMAND(launch_kubernetes);
TUTTI_COMMAND(launch_slurm);
TUTTI_COMMAND(worker);
TUTTI_COMMAND(explain);
TUTTI_COMMAND(predict);
TUTTI_COMMAND(compare);
TUTTI_COMMAND(run);
TUTTI_COMMAND(validate);
TUTTI_COMMAND(schedule_show);
TUTTI_COMMAND(schedule_check);
TUTTI_COMMAND(schedule_prove);
TUTTI_COMMAND(schedule_convert);
TUTTI_COMMAND(doctor);
TUTTI_COMMAND(calibrate);
TUTTI_COMMAND(completion);

#undef TUTTI_COMMAND

TUTTI_API_END

#endif
