/* What `predict` and `compare` are asked: a machine, algorithms, sizes and a model; their common
 * options, and how what was resolved is echoed. */
#ifndef TUTTI_TOOLS_SWEEP_SWEEP_H
#define TUTTI_TOOLS_SWEEP_SWEEP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/predict.h"
#include "tools/cli/calib.h"
#include "tools/cli/json.h"
#include "tools/cli/nccl_options.h"
#include "tools/cli/own.h"
#include "tools/cli/perturb.h"
#include "tools/cli/shared_options.h"
#include "tools/cli/sizes.h"
#include "tools/options.h"
#include "tools/sweep/job.h"
#include "tools/sweep/points.h"

struct tutti_page;

enum {
    TUTTI_SWEEP_ALGORITHMS_MAX = 32,
    TUTTI_SWEEP_NAME_BYTES = 32,
};

struct tutti_sweep {
    const struct tutti_job *job; /* borrowed; its first process alone prints and writes */
    struct tutti_topo *topo;
    struct tutti_bound_law law; /* of all points, once they are run */
    struct tutti_ask ask;       /* but for the algorithm and the count */
    struct tutti_calib_choice calib;
    struct tutti_sizes sizes;
    uint32_t thread_count;
    bool all;                 /* -a all or auto: what does not fit is left out, and named */
    bool best;                /* -a auto: of all, the fastest at each size is wanted, */
    bool library;             /* beside the first of them, "nccl": where its choice is known */
    uint32_t algorithm_count; /* as asked for, in that order */
    char algorithms[TUTTI_SWEEP_ALGORITHMS_MAX][TUTTI_SWEEP_NAME_BYTES];
    struct tutti_point *points; /* [sizes.count * algorithm_count], by size, then by algorithm */
    size_t point_count;
    struct tutti_perturb perturb; /* what happens to the machine once it has run undisturbed */
    struct tutti_point *calm;     /* [point_count]: as it should be; NULL: nothing is perturbed */
    tutti_ps *start_ps;           /* [rank_count], or NULL */
    struct tutti_nccl_options nccl;
    struct tutti_own own; /* algorithms of one's own */
};

/* The rows of an option table that are the same for both. */
#define TUTTI_OPTIONS_SWEEP                                                                    \
    TUTTI_OPTION_PROTOCOL, TUTTI_OPTION_CALIB, TUTTI_OPTION_MODEL, TUTTI_OPTION_CHANNELS,      \
        TUTTI_OPTION_CHUNK, TUTTI_OPTION_SLICES, TUTTI_OPTION_SLOTS, TUTTI_OPTION_REDUCE_RATE, \
        TUTTI_OPTION_JITTER, TUTTI_OPTION_PERTURB, TUTTI_OPTION_SEED, TUTTI_OPTION_STEPS_MAX,  \
        TUTTI_OPTION_FORCE, TUTTI_OPTION_FOLD, TUTTI_OPTION_AS_NCCL, TUTTI_OPTION_NCCL_ENV,    \
        TUTTI_OPTION_NODES, TUTTI_OPTION_JOBS, TUTTI_OPTION_SCHEDULE, TUTTI_OPTIONS_OUTPUT

/* Reads all of it and makes the points, not yet predicted. This and the run fail in all processes
 * of a job alike. */
int tutti_sweep_open(const struct tutti_args *args, struct tutti_sweep *ret,
                     struct tutti_sink *sink, struct tutti_err *err);
void tutti_sweep_close(struct tutti_sweep *sweep);

/* The protocol that `asked` stands for: auto, on a machine whose links NCCL's protocols are not
 * made for, is none. */
const char *tutti_sweep_protocol(const struct tutti_topo *topo, const char *asked);

/* Predicts the points; where the machine is to be perturbed, first without and then, once more,
 * with that. An algorithm asked for by name that fails is an error; with -a all or auto
 * it may, as long as one is left at each size; then its points keep their status. */
int tutti_sweep_run(struct tutti_sweep *sweep, const char *command, struct tutti_sink *sink,
                    struct tutti_err *err);

/* A failure that --force does without: what it would take in time or memory. */
bool tutti_sweep_may_be_forced(const struct tutti_point *point);

/* For the columns of TUTTI_PERTURB_COLUMNS: what the point took undisturbed, in microseconds, and
 * how many times that it takes; NAN where it is not known, or not perturbed. */
double tutti_sweep_calm_us(const struct tutti_sweep *sweep, const struct tutti_point *point);
double tutti_sweep_times_calm(const struct tutti_sweep *sweep, const struct tutti_point *point);

/* The machine alone: its lines of '#', and the member "topology" of an open JSON object. */
void tutti_sweep_print_machine(const struct tutti_topo *topo, const struct tutti_page *page);
/* Which of a machine's figures nobody has published, in few words: "; latencies assumed". */
void tutti_sweep_print_assumed(const char *source, FILE *out);
void tutti_sweep_json_machine(const struct tutti_topo *topo, struct tutti_json *json);

/* The fastest point of a size, of equals the first; NULL if none was predicted. With -a auto of
 * Tutti's own algorithms, and what NCCL or RCCL would run is the other; NULL where that is not
 * known. */
const struct tutti_point *tutti_sweep_best(const struct tutti_sweep *sweep, uint32_t size_index);
const struct tutti_point *tutti_sweep_library(const struct tutti_sweep *sweep, uint32_t size_index);

/* What Tutti's own algorithms lack at a point where the fastest of them takes over 1.3 times what
 * NCCL or RCCL would, from 1 MiB on; "" where they do not, or the point is another one. `limit` is
 * what tutti_predict_limit() says of the point; "": nobody has asked. */
enum { TUTTI_SWEEP_LACKS_BYTES = 320 };
const char *tutti_sweep_lacks(const struct tutti_sweep *sweep, const struct tutti_point *point,
                              const char *limit, char buf[TUTTI_SWEEP_LACKS_BYTES]);

/* The lines of '#' above a table: version, machine, what was asked for. */
void tutti_sweep_print_head(const struct tutti_sweep *sweep, const char *command,
                            const struct tutti_page *page);
/* The lines below it: what no machine can do, and algorithms that were left out, and why. */
void tutti_sweep_print_left_out(const struct tutti_sweep *sweep, FILE *out);

/* The same as members of an open JSON object: "tutti", "topology", "collective", ... */
void tutti_sweep_json_head(const struct tutti_sweep *sweep, struct tutti_json *json);
void tutti_sweep_json_left_out(const struct tutti_sweep *sweep, struct tutti_json *json);

#endif
