/* The laboratory's commands, as tools/commands.h has those of `tutti`. */
#ifndef TUTTI_TOOLS_FIT_COMMANDS_H
#define TUTTI_TOOLS_FIT_COMMANDS_H

struct tutti_args;
struct tutti_command;
struct tutti_err;
struct tutti_sink;

#define TUTTI_FIT_PROGRAM "tutti-fit"

extern const struct tutti_command tutti_fit_calibrate;
int tutti_command_fit_calibrate(const struct tutti_args *args, struct tutti_sink *sink,
                                struct tutti_err *err);

extern const struct tutti_command tutti_fit_accuracy;
int tutti_command_fit_accuracy(const struct tutti_args *args, struct tutti_sink *sink,
                               struct tutti_err *err);

extern const struct tutti_command tutti_fit_training;
int tutti_command_fit_training(const struct tutti_args *args, struct tutti_sink *sink,
                               struct tutti_err *err);

extern const struct tutti_command tutti_fit_memory;
int tutti_command_fit_memory(const struct tutti_args *args, struct tutti_sink *sink,
                             struct tutti_err *err);

extern const struct tutti_command tutti_fit_residuals;
int tutti_command_fit_residuals(const struct tutti_args *args, struct tutti_sink *sink,
                                struct tutti_err *err);

/* What `tutti-fit WORD...` does with these words; see tutti_cli_call() in tools/cli.h. */
int tutti_fit_call(int argc, char **argv, struct tutti_sink *sink, struct tutti_err *err);

#endif
