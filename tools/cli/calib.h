/* The option --calib: which figures protocols cost by, and how that is echoed. */
#ifndef TUTTI_TOOLS_CLI_CALIB_H
#define TUTTI_TOOLS_CLI_CALIB_H

#include <stdbool.h>
#include <stdio.h>

#include "sim/calib.h"
#include "tools/cli/json.h"
#include "tools/options.h"

#define TUTTI_OPTION_CALIB                                                                      \
    {                                                                                           \
        .name = "calib", .type = TUTTI_OPTION_TEXT, .value = "FILE|builtin|none",               \
        .standard = "builtin",                                                                  \
        .help =                                                                                 \
            "what protocols cost, and devices in training: a file, over what this build "       \
            "has; that alone, fitted to public measurements; or nothing but NCCL's own figures" \
    }

struct tutti_topo;

/* The option as it was read. */
struct tutti_calib_option {
    bool given;
    struct tutti_calib *layers[TUTTI_CALIB_LAYERS_MAX]; /* of tutti_calib_compose() ... */
    size_t layer_count; /* ... the last is NCCL's own figures, for any hardware */
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

/* About all machines: what the first of them is called, and a line of '#'. */
const char *tutti_calib_option_title(const struct tutti_calib_option *option);
void tutti_calib_option_print(const struct tutti_calib_option *option, FILE *out);

/* All of it, for one machine; under protocol "none" nothing costs, and nothing is to tell. */
int tutti_calib_choose(const struct tutti_args *args, const struct tutti_topo *topo,
                       const char *protocol, struct tutti_calib_choice *ret, struct tutti_err *err);

/* A line of '#', and the member "costs" of an open JSON object; nothing where it is not told. */
void tutti_calib_print_choice(const struct tutti_calib_choice *choice, FILE *out);
void tutti_calib_json_choice(const struct tutti_calib_choice *choice, struct tutti_json *json);

#endif
