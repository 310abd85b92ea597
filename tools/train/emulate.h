/* `tutti train -B threads|tcp --emulate SPEC --scale K`: training that is real, at the pace of
 * another machine: each COMPUTE takes what the simulator says of that machine's device, messages
 * what its links take, both K times as long. */
#ifndef TUTTI_TOOLS_TRAIN_EMULATE_H
#define TUTTI_TOOLS_TRAIN_EMULATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/strategy.h"
#include "runtime/threads.h"
#include "tools/cli/perturb.h"
#include "tools/options.h"
#include "tools/run/run_group.h"
#include "tools/train/here.h"
#include "tools/train/slow.h"

struct tutti_backend;
struct tutti_shaper;
struct tutti_sink;
struct tutti_topo;
struct tutti_train_real;
struct tutti_trained;

#define TUTTI_TRAIN_OPTIONS_EMULATE                                                               \
    {.name = "emulate",                                                                           \
     .type = TUTTI_OPTION_TEXT,                                                                   \
     .value = "SPEC",                                                                             \
     .help = "-B threads, tcp: at the pace of this machine, whose devices are the ranks: layers " \
             "take what is simulated of them, messages what its links take; --slow and "          \
             "--perturb make them uneven"},                                                       \
        {.name = "scale",                                                                         \
         .type = TUTTI_OPTION_TEXT,                                                               \
         .value = "N",                                                                            \
         .standard = "auto",                                                                      \
         .help = "--emulate: N times as slow as that machine, whose times are printed all the "   \
                 "same; auto: the least power of ten that the work here fits into"},              \
        TUTTI_TRAIN_OPTION_CALIBRATE,                                                             \
    {                                                                                             \
        .name = "perturb", .type = TUTTI_OPTION_TEXT, .value = "WHAT=VALUE[,WHAT=VALUE]",         \
        .help =                                                                                   \
            "--emulate: links slow, latencies unequal, or ranks late by start=TIME: as 'tutti "   \
            "predict --help' says; simulated: who is lost and who comes (lost=, comes=, mtbf=)"   \
    }

struct tutti_train_emulation {
    struct tutti_topo *topo; /* NULL: nothing is emulated */
    struct tutti_perturb perturb;
    struct tutti_train_slow slow;
    uint32_t *paces;                 /* [rank] in millionths; NULL: as simulated */
    tutti_ps *starts_ps;             /* [rank]: so much later it has its input; NULL: at once */
    struct tutti_layer_times *times; /* [layer of the model] */
    tutti_ps optimizer_ps;
    tutti_ps *compute_ps; /* [rank]: all that it computes in a step */
    uint64_t scale;
    bool automatic;
    const struct tutti_schedule *schedule; /* of the trainer */
    struct tutti_shaper *shaper;
    struct tutti_lateness lateness; /* of the steps so far */
};

/* Reads the options, and the machine: run->rank_count becomes its ranks. `with` NULL: threads.
 * Nothing without --emulate. To be closed whatever happens. */
int tutti_train_emulation_open(const struct tutti_args *args, struct tutti_run_command *run,
                               const struct tutti_run_group *with,
                               struct tutti_train_emulation *ret, struct tutti_err *err);
void tutti_train_emulation_close(struct tutti_train_emulation *emulation);

/* Once model, strategy and batch are known: what layers take there. */
int tutti_train_emulation_time(const struct tutti_args *args, struct tutti_train_real *real,
                               struct tutti_err *err);

/* What --device, --framework and --precision say; what they do not is NULL. */
struct tutti_device_use;
int tutti_train_emulation_device(const struct tutti_args *args, struct tutti_device_use *use,
                                 struct tutti_err *err);

/* Opens the backend and on it the trainer, at a scale that is found, if need be, by short trials;
 * and finds what a step takes in the simulator: the same schedule, message by message. */
int tutti_train_emulation_train(struct tutti_train_real *real, struct tutti_err *err);

/* A step that was made, in that machine's time. */
void tutti_train_emulation_step(struct tutti_train_emulation *emulation,
                                const struct tutti_backend *backend, struct tutti_trained *step);

/* The schedule of an all-reduce by real->algorithm, on the rings of that machine. */
struct tutti_coll_params;
int tutti_train_emulation_collective(const struct tutti_train_real *real,
                                     const struct tutti_coll_params *params,
                                     struct tutti_schedule **ret, struct tutti_err *err);

/* Lines of '#' above the table. */
void tutti_train_emulation_print_head(const struct tutti_train_emulation *emulation, FILE *out);
/* How the pace was kept: to the notes where it was not; `slow_percent`: by how much the median step
 * was longer than the simulated one. */
void tutti_train_emulation_note(const struct tutti_train_emulation *emulation, double slow_percent,
                                struct tutti_sink *sink);
/* A member of an open object. */
void tutti_train_emulation_json(const struct tutti_train_emulation *emulation, FILE *out);

#endif
