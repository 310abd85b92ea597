/* `run --emulate`: ranks that really play, while their messages take the time that another machine
 * would take, slowed down. */
#ifndef TUTTI_TOOLS_RUN_RUN_EMULATE_H
#define TUTTI_TOOLS_RUN_RUN_EMULATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/threads.h"
#include "sim/predict.h"
#include "tools/cli/calib.h"
#include "tools/options.h"
#include "tools/run/run.h"

struct tutti_json;
struct tutti_run_group;

struct tutti_emulation {
    const struct tutti_run_group *with; /* NULL: threads of this process alone */
    struct tutti_topo *topo;
    struct tutti_calib_choice calib; /* which `ask` points into: not to be copied */
    struct tutti_ask ask;            /* what is simulated for it, and gives the times */
    uint64_t scale; /* it is played so many times as slow; once run, if `automatic`, too */
    bool automatic; /* --scale auto: the least power of ten that this machine keeps up */
    struct tutti_lateness lateness; /* of all rows */
    uint32_t row_count;
    uint32_t slow_count;  /* rows that took too long: by TUTTI_EMULATE_SLOW_PERCENT or more */
    double worst_percent; /* of all rows, by how much */
};

enum { TUTTI_EMULATE_SLOW_PERCENT = 5, TUTTI_EMULATE_SCALE_MAX = 1000000000 };

/* Reads --emulate, --scale, --nodes, --model, --protocol and --reduce-rate, and lets
 * run->rank_count be as many as the machine has. `with` is borrowed until close; all its processes
 * call this and the next alike. To be closed whatever happens. */
int tutti_emulation_open(const struct tutti_args *args, struct tutti_run_command *run,
                         const struct tutti_run_group *with, struct tutti_emulation *ret,
                         struct tutti_err *err);
void tutti_emulation_close(struct tutti_emulation *emulation);

/* Plays all of it, each row beside what the simulator says of it. */
int tutti_run_emulated(struct tutti_run_command *run, struct tutti_emulation *emulation,
                       const char *command, struct tutti_run_rows *ret, struct tutti_sink *sink,
                       struct tutti_err *err);

/* The lines of '#' above and below the rows, and a member of an open JSON object. */
void tutti_emulation_print_head(const struct tutti_emulation *emulation, bool verbose, FILE *out);
void tutti_emulation_print_tail(const struct tutti_emulation *emulation, FILE *out);
void tutti_emulation_json(const struct tutti_emulation *emulation, struct tutti_json *json);

#define TUTTI_OPTIONS_EMULATE                                                                     \
    {.name = "emulate",                                                                           \
     .type = TUTTI_OPTION_TEXT,                                                                   \
     .value = "SPEC",                                                                             \
     .help =                                                                                      \
         "threads, tcp: let messages take the time that this machine would take, a preset or a "  \
         "file, in its own time; the ranks are its ranks"},                                       \
    {                                                                                             \
        .name = "scale", .type = TUTTI_OPTION_TEXT, .value = "N", .standard = "auto",             \
        .help = "with --emulate: times are N times as long: latencies times N, rates divided by " \
                "N; auto: the least power of ten that this machine keeps up with"                 \
    }

#endif
