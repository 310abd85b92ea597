/* The option --calib: which figures protocols cost by, and how that is echoed. */
#ifndef TUTTI_TOOLS_CALIB_H
#define TUTTI_TOOLS_CALIB_H

#include <stdbool.h>
#include <stdio.h>

#include "sim/calib.h"
#include "tools/json.h"
#include "tools/options.h"

#define TUTTI_OPTION_CALIB                                                                 \
    {                                                                                      \
        .name = "calib", .type = TUTTI_OPTION_TEXT, .value = "FILE|builtin|none",          \
        .standard = "builtin",                                                             \
        .help = "what protocols cost on real hardware: a file, over what this build has; " \
                "that alone; or nothing but NCCL's own figures"                            \
    }

struct tutti_topo;

/* The option as it was read. */
struct tutti_calib_option {
    bool given;
    struct tutti_calib *calib; /* NULL: NCCL's own figures */
    struct tutti_calib *base;  /* NULL, or what the build has, where `calib` is a file */
};
int tutti_calib_option_read(const struct tutti_args *args, struct tutti_calib_option *ret,
                            struct tutti_err *err);
void tutti_calib_option_done(struct tutti_calib_option *option);

/* What it comes to for a machine. */
struct tutti_calib_choice {
    bool is_told; /* it was asked for, or is not what NCCL says: worth a line */
    struct tutti_calibrated made;
};
struct tutti_calib_choice tutti_calib_option_for(const struct tutti_calib_option *option,
                                                 const struct tutti_topo *topo);

/* A line of '#' about all machines, where the option was given. */
void tutti_calib_option_print(const struct tutti_calib_option *option, FILE *out);

/* All of it, for one machine. */
int tutti_calib_choose(const struct tutti_args *args, const struct tutti_topo *topo,
                       struct tutti_calib_choice *ret, struct tutti_err *err);

/* A line of '#', and the member "costs" of an open JSON object; nothing where it is not told. */
void tutti_calib_print_choice(const struct tutti_calib_choice *choice, FILE *out);
void tutti_calib_json_choice(const struct tutti_calib_choice *choice, struct tutti_json *json);

#endif
