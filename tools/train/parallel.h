/* `tutti train` with model parallelism: a step of a model that tensor, pipeline, context, expert
 * and data parallelism divide among the devices of a machine. */
#ifndef TUTTI_TOOLS_TRAIN_PARALLEL_H
#define TUTTI_TOOLS_TRAIN_PARALLEL_H

#include <stdbool.h>
#include <stdio.h>

#include "runtime/parallel.h"
#include "sim/parallel.h"
#include "tools/options.h"
#include "tools/train/ask.h"
#include "tools/train/interval.h"

struct tutti_page;
struct tutti_sink;
struct tutti_table;

#define TUTTI_TRAIN_OPTIONS_PARALLEL                                                             \
    {.name = "tp",                                                                               \
     .type = TUTTI_OPTION_COUNT,                                                                 \
     .value = "N",                                                                               \
     .min = 1,                                                                                   \
     .max = 1 << 20,                                                                             \
     .help = "tensor parallelism: devices that share the work and weights of each layer"},       \
        {.name = "pp",                                                                           \
         .type = TUTTI_OPTION_COUNT,                                                             \
         .value = "N",                                                                           \
         .min = 1,                                                                               \
         .max = 1 << 20,                                                                         \
         .help = "pipeline parallelism: devices that have consecutive layers"},                  \
        {.name = "vp",                                                                           \
         .type = TUTTI_OPTION_COUNT,                                                             \
         .value = "N",                                                                           \
         .min = 1,                                                                               \
         .max = 1 << 16,                                                                         \
         .help = "virtual stages: chunks of layers that each device of an interleaved pipeline " \
                 "has"},                                                                         \
        {.name = "cp",                                                                           \
         .type = TUTTI_OPTION_COUNT,                                                             \
         .value = "N",                                                                           \
         .min = 1,                                                                               \
         .max = 1 << 20,                                                                         \
         .help = "context parallelism: devices that share each sequence"},                       \
        {.name = "ep",                                                                           \
         .type = TUTTI_OPTION_COUNT,                                                             \
         .value = "N",                                                                           \
         .min = 1,                                                                               \
         .max = 1 << 20,                                                                         \
         .help = "expert parallelism: devices of --cp x --dp that share the experts of each "    \
                 "layer; divides them"},                                                         \
        {.name = "dp",                                                                           \
         .type = TUTTI_OPTION_COUNT,                                                             \
         .value = "N",                                                                           \
         .min = 1,                                                                               \
         .max = 1 << 20,                                                                         \
         .help = "data parallelism: replicas of the model (if not given: devices / (tp x cp x "  \
                 "pp))"},                                                                        \
        {.name = "order",                                                                        \
         .type = TUTTI_OPTION_TEXT,                                                              \
         .value = "DIM-DIM-...",                                                                 \
         .standard = "tp-cp-ep-dp-pp",                                                           \
         .help = "which devices form groups: of the first those next to each other; what is "    \
                 "left out comes behind in this order"},                                         \
        {.name = "pipeline",                                                                     \
         .type = TUTTI_OPTION_CHOICE,                                                            \
         .value = "gpipe|1f1b|interleaved|zb-h1|zb-h2|zbv",                                      \
         .help = "in which order a device works on micro-batches (if not given: 1f1b, with "     \
                 "--vp interleaved)"},                                                           \
        {.name = "stage-layers",                                                                 \
         .type = TUTTI_OPTION_TEXT,                                                              \
         .value = "N,N,...",                                                                     \
         .help = "how many of the equal layers each stage has, in their order; 0 of the first "  \
                 "and the last alone, for embedding and head by themselves (if not given: "      \
                 "equally many, the first stages one more; of one stage more than layers the "   \
                 "last has none, of two more the first as well)"},                               \
        {.name = "sp",                                                                           \
         .type = TUTTI_OPTION_CHOICE,                                                            \
         .value = "on|off",                                                                      \
         .help = "sequence parallelism: what --tp does not divide is divided by tokens (if not " \
                 "given: on where --tp is more than 1)"},                                        \
        {.name = "async-tp",                                                                     \
         .type = TUTTI_OPTION_FLAG,                                                              \
         .help = "collectives of --tp under the products that they belong to"},                  \
        {.name = "context",                                                                      \
         .type = TUTTI_OPTION_CHOICE,                                                            \
         .value = "ring|ulysses",                                                                \
         .standard = "ring",                                                                     \
         .help = "of --cp: keys and values go round a ring, or all-to-alls divide by heads"},    \
    {                                                                                            \
        .name = "expert-imbalance", .type = TUTTI_OPTION_REAL, .value = "X", .standard = "1",    \
        .min = 1, .max = 1024, .help = "tokens of the busiest expert over the mean of all"       \
    }

#define TUTTI_TRAIN_PARALLEL_TEXT                                                    \
    "Any of --tp, --pp, --cp, --ep and --dp divides the model itself: replicas and " \
    "micro-batches are derived if not said, and columns say what nothing hides of each."

/* Whether any of the options above is given. */
bool tutti_train_is_parallel(const struct tutti_args *args);
/* -TUTTI_EINVAL where one of them is given and nothing is simulated. */
int tutti_train_parallel_refuse(const struct tutti_args *args, const char *why,
                                struct tutti_err *err);
/* The command, with any of them. */
int tutti_train_parallel(const struct tutti_args *args, struct tutti_sink *sink,
                         struct tutti_err *err);

/* ---- what is asked (parallel_read.c) --------------------------------------------------------- */

struct tutti_train_parallel_question {
    struct tutti_train_question of_train; /* machines, model, strategy, device, prices */
    struct tutti_parallel cut;            /* without what follows from the number of devices */
    uint32_t data;                        /* --dp; 0: not said, as the four below */
    uint32_t micro_batch;
    uint32_t accumulate;
    uint64_t global_batch;
    uint32_t replica_batch;
    uint32_t *stage_layers;
    struct tutti_train_parallel_watch *watch; /* of the machine asked last; NULL: nobody looks */
};

int tutti_train_parallel_read(const struct tutti_args *args,
                              struct tutti_train_parallel_question *ret, struct tutti_err *err);
/* Of it `cut` and stage_layers alone, which is the caller's to free. */
int tutti_train_parallel_cut_read(const struct tutti_args *args,
                                  struct tutti_train_parallel_question *ret, struct tutti_err *err);
void tutti_train_parallel_question_done(struct tutti_train_parallel_question *question);

/* What follows on a machine: replicas, micro-batches, who shares states. -TUTTI_EINVAL with all
 * numbers where something does not divide. Borrows of the question. */
int tutti_train_parallel_derive(const struct tutti_train_parallel_question *question,
                                const struct tutti_topo *topo, struct tutti_parallel *ret,
                                struct tutti_err *err);

/* "tp-cp-ep-dp-pp" */
enum { TUTTI_TRAIN_ORDER_BYTES = 32 };
const char *tutti_train_order_text(const struct tutti_parallel *parallel,
                                   char buf[TUTTI_TRAIN_ORDER_BYTES]);

/* ---- who is grouped with whom (parallel_groups.c) -------------------------------------------- */

struct tutti_train_parallel_group {
    enum tutti_parallel_group kind;
    const char *name; /* "tp"; "cp x dp": of gradients; "edp": replicas of experts */
    const char *what; /* that goes between them */
    struct tutti_axis axis;
    uint32_t host_count; /* that a group lies on, at most; 0: there are none */
    uint32_t of_host;    /* members of a group on one host, at most */
};

enum { TUTTI_TRAIN_GROUPS_MAX = 8 };

struct tutti_train_parallel_groups {
    struct tutti_train_parallel_group group[TUTTI_TRAIN_GROUPS_MAX]; /* of more than one rank */
    uint32_t count;
};

void tutti_train_parallel_groups(const struct tutti_parallel *parallel,
                                 const struct tutti_topo *topo,
                                 struct tutti_train_parallel_groups *ret);
void tutti_train_parallel_groups_print(const struct tutti_train_parallel_groups *groups, FILE *out);
void tutti_train_parallel_groups_json(const struct tutti_train_parallel_groups *groups,
                                      struct tutti_json *json);

/* ---- what is found --------------------------------------------------------------------------- */

/* On one machine. Nothing in it may be moved. */
struct tutti_train_parallel_found {
    struct tutti_parallel cut;
    struct tutti_parallel_answer answer;
    struct tutti_train_parallel_groups groups;
    struct tutti_framework framework; /* with the constants of --calib */
    size_t calibrated_count;
    struct tutti_interval interval; /* of 0 rows: none is known */
    uint32_t device_count;
};

/* A step on one machine. The caller frees the answer in it. */
int tutti_train_parallel_ask(const struct tutti_train_parallel_question *question,
                             const struct tutti_topo *topo, struct tutti_train_parallel_found *ret,
                             struct tutti_err *err);
/* With --anchor: finds how many times what is modelled devices take, and sets it in the question.
 */
int tutti_train_parallel_anchor(struct tutti_train_parallel_question *question,
                                struct tutti_err *err);

struct tutti_train_parallel_found_all {
    struct tutti_train_parallel_found machine[TUTTI_TRAIN_MACHINES_MAX];
    uint32_t count;
    uint32_t left_out;    /* devices of the last machine that was; 0: none */
    struct tutti_err why; /* it was */
};

/* ---- the pipeline, as it goes (parallel_watch.c, parallel_diagram.c) ------------------------- */

/* Tasks of each device of a pipeline, device by device, in order. */
struct tutti_train_parallel_watch {
    struct tutti_parallel cut;
    struct tutti_parallel_note *tasks;
    size_t count;
    size_t room;
    tutti_ps end_ps; /* of the last of them */
    bool lost;       /* no memory for a task */
};

/* For struct tutti_parallel_ask; `context` is a watch. */
void tutti_train_parallel_note(void *context, const struct tutti_parallel_note *note);
void tutti_train_parallel_watch_done(struct tutti_train_parallel_watch *watch);

/* What each stage does when, as text, and what it takes. */
int tutti_train_parallel_explain(const struct tutti_train_parallel_watch *watch,
                                 const struct tutti_page *page, struct tutti_err *err);
/* The latter as a table, which the caller frees, of all stages or of those that are shown. */
int tutti_train_parallel_stages(const struct tutti_train_parallel_watch *watch, bool whole,
                                struct tutti_table **ret, struct tutti_err *err);
/* As tutti_trace_write(): a track a stage. */
int tutti_train_parallel_trace(const struct tutti_train_parallel_watch *watch, const char *path,
                               const char *title, struct tutti_sink *sink, struct tutti_err *err);

/* ---- what is printed (parallel_print.c, parallel_memory.c) ----------------------------------- */

int tutti_train_parallel_print(const struct tutti_args *args,
                               const struct tutti_train_parallel_question *question,
                               const struct tutti_train_parallel_found_all *all,
                               struct tutti_sink *sink, struct tutti_err *err);

/* What each machine's step divides into, and --svg (curve.h). */
int tutti_train_parallel_print_curve(const struct tutti_args *args,
                                     const struct tutti_train_parallel_question *question,
                                     const struct tutti_train_parallel_found_all *all,
                                     struct tutti_sink *sink, struct tutti_err *err);

/* Of many stages a page has the first and the last so many. */
enum { TUTTI_TRAIN_STAGES_SHOWN = 8 };
bool tutti_train_parallel_is_shown(uint32_t stage, uint32_t stage_count);

/* What each stage holds, and whether its device has as much: a table; and in JSON. */
int tutti_train_parallel_memory(const struct tutti_train_parallel_question *question,
                                const struct tutti_train_parallel_found *found,
                                const struct tutti_page *page, struct tutti_err *err);
void tutti_train_parallel_memory_json(const struct tutti_train_parallel_found *found,
                                      struct tutti_json *json);

#endif
