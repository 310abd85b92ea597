/* The commands: one table each, defined in the file of the same name. */
#ifndef TUTTI_TOOLS_COMMANDS_H
#define TUTTI_TOOLS_COMMANDS_H

struct tutti_command;

extern const struct tutti_command tutti_command_topo_list;
extern const struct tutti_command tutti_command_topo_show;
extern const struct tutti_command tutti_command_topo_bound;
extern const struct tutti_command tutti_command_topo_convert;
extern const struct tutti_command tutti_command_explain;
extern const struct tutti_command tutti_command_predict;
extern const struct tutti_command tutti_command_compare;
extern const struct tutti_command tutti_command_run;
extern const struct tutti_command tutti_command_validate;
extern const struct tutti_command tutti_command_schedule_show;
extern const struct tutti_command tutti_command_schedule_check;
extern const struct tutti_command tutti_command_schedule_prove;
extern const struct tutti_command tutti_command_schedule_convert;
extern const struct tutti_command tutti_command_doctor;
extern const struct tutti_command tutti_command_calibrate;

#endif
