/* `tutti train -B BACKEND`: the strategy's steps really made, on data. */
#ifndef TUTTI_TOOLS_TRAIN_REAL_H
#define TUTTI_TOOLS_TRAIN_REAL_H

#include <signal.h>

#include "runtime/backend.h"
#include "runtime/parallel.h"
#include "runtime/record.h"
#include "runtime/train.h"
#include "tools/options.h"
#include "tools/run/run_group.h"
#include "tools/train/emulate.h"
#include "tools/train/going_on.h"
#include "tools/train/here.h"
#include "tools/train/pieces.h"

struct tutti_sink;
struct tutti_tensorboard;
struct tutti_train_real_page;

#define TUTTI_TRAIN_OPTIONS_REAL                                                                  \
    {.letter = 'B',                                                                               \
     .name = "backend",                                                                           \
     .type = TUTTI_OPTION_TEXT,                                                                   \
     .value = "NAME",                                                                             \
     .help = "really train here, instead of simulating a SPEC: by threads (a rank each), tcp or " \
             "mpi (processes), cuda (ranks on GPUs), nccl (a GPU a rank)"},                       \
        {.letter = 'g',                                                                           \
         .name = "ranks",                                                                         \
         .type = TUTTI_OPTION_COUNT,                                                              \
         .value = "N",                                                                            \
         .min = 1,                                                                                \
         .max = TUTTI_RUN_RANKS_MAX,                                                              \
         .help =                                                                                  \
             "-B: ranks, each a replica unless --tp and --pp divide the model; if not given of "  \
             "threads and cuda 2, of nccl a GPU each, else one a process"},                       \
        {.name = "data",                                                                          \
         .type = TUTTI_OPTION_TEXT,                                                               \
         .value = "NAME[:FOLDER]",                                                                \
         .help = "-B: mnist:FOLDER, fashion-mnist:FOLDER, cifar10:FOLDER, synthetic-mnist, "      \
                 "synthetic-cifar10, synthetic-text or line (if not given: the synthetic set of " \
                 "the model's shape)"},                                                           \
        {.name = "learning-rate",                                                                 \
         .type = TUTTI_OPTION_REAL,                                                               \
         .value = "R",                                                                            \
         .min = 0,                                                                                \
         .max = 1000,                                                                             \
         .help = "-B: of the optimizer (if not given: 0.01, of adam 0.001)"},                     \
        {.name = "warmup-steps",                                                                  \
         .type = TUTTI_OPTION_COUNT,                                                              \
         .value = "N",                                                                            \
         .min = 0,                                                                                \
         .max = 1 << 30,                                                                          \
         .help = "-B: steps until the learning rate is there, in a straight line from 0"},        \
        {.name = "cosine",                                                                        \
         .type = TUTTI_OPTION_FLAG,                                                               \
         .help = "-B: afterwards the learning rate falls to 0 along half a cosine"},              \
        {.name = "clip-norm",                                                                     \
         .type = TUTTI_OPTION_REAL,                                                               \
         .value = "N",                                                                            \
         .min = 0,                                                                                \
         .max = 1e9,                                                                              \
         .help = "-B: gradients are scaled down to this global norm; 0: never"},                  \
        {.name = "dropout",                                                                       \
         .type = TUTTI_OPTION_REAL,                                                               \
         .value = "P",                                                                            \
         .min = 0,                                                                                \
         .max = 1,                                                                                \
         .help = "-B: part of a hidden layer's activations that training leaves out"},            \
        {.name = "outer-rate",                                                                    \
         .type = TUTTI_OPTION_REAL,                                                               \
         .value = "R",                                                                            \
         .min = 0,                                                                                \
         .max = 100,                                                                              \
         .help = "-B: of diloco's outer optimizer, Nesterov with momentum 0.9 (if not given: "    \
                 "0.7)"},                                                                         \
        {.name = "shuffle",                                                                       \
         .type = TUTTI_OPTION_CHOICE,                                                             \
         .value = "on|off",                                                                       \
         .standard = "on",                                                                        \
         .help = "-B: examples in an order that the seed draws for each epoch"},                  \
        {.name = "auto-shard",                                                                    \
         .type = TUTTI_OPTION_CHOICE,                                                             \
         .value = "auto|file|data|off",                                                           \
         .standard = "data",                                                                      \
         .help = "-B: what a worker reads: files of its own, its part of each batch, or all"},    \
        {.name = "evaluate",                                                                      \
         .type = TUTTI_OPTION_TEXT,                                                               \
         .value = "every=N|end",                                                                  \
         .help = "-B: on the held-out examples, each counted once"},                              \
        {.name = "checkpoint",                                                                    \
         .type = TUTTI_OPTION_TEXT,                                                               \
         .value = "FOLDER",                                                                       \
         .help = "-B: saved there, and gone on with from the newest that is whole"},              \
        {.name = "save-every",                                                                    \
         .type = TUTTI_OPTION_COUNT,                                                              \
         .value = "N",                                                                            \
         .min = 1,                                                                                \
         .max = 1 << 30,                                                                          \
         .help = "--checkpoint: after every N steps, beside the end"},                            \
        {.name = "save-secs",                                                                     \
         .type = TUTTI_OPTION_REAL,                                                               \
         .value = "S",                                                                            \
         .min = 0,                                                                                \
         .max = 1000000,                                                                          \
         .help = "--checkpoint: after every S seconds (if neither is given: 600)"},               \
        {.name = "keep",                                                                          \
         .type = TUTTI_OPTION_COUNT,                                                              \
         .value = "N",                                                                            \
         .standard = "5",                                                                         \
         .min = 0,                                                                                \
         .max = 1000000,                                                                          \
         .help = "--checkpoint: the newest N stay; 0: all"},                                      \
        {.name = "stop-code",                                                                     \
         .type = TUTTI_OPTION_COUNT,                                                              \
         .value = "N",                                                                            \
         .standard = "42",                                                                        \
         .min = 1,                                                                                \
         .max = 255,                                                                              \
         .help = "--checkpoint: exit code where SIGTERM to any process has ended training, and "  \
                 "all have saved the same step (TFJob restarts 128 and above: 143)"},             \
        {.name = "evaluate-only",                                                                 \
         .type = TUTTI_OPTION_TEXT,                                                               \
         .value = "FOLDER",                                                                       \
         .help = "-B: no training: the newest whole checkpoint there on the held-out examples"},  \
        {.name = "evaluator-wait",                                                                \
         .type = TUTTI_OPTION_TIME,                                                               \
         .value = "TIME",                                                                         \
         .standard = "1200s",                                                                     \
         .help = "--checkpoint: TF_CONFIG's evaluator fails after so long without a new one"},    \
        {.name = "tensorboard",                                                                   \
         .type = TUTTI_OPTION_TEXT,                                                               \
         .value = "FOLDER",                                                                       \
         .help = "-B: events of each step, for TensorBoard: scalars, and with --evaluate "        \
                 "histograms of the weights; written by process 0 alone"},                        \
        {.name = "check-sync",                                                                    \
         .type = TUTTI_OPTION_FLAG,                                                               \
         .help = "-B: compare the weights of all replicas at every step, by hash"},               \
        {.name = "pin",                                                                           \
         .type = TUTTI_OPTION_FLAG,                                                               \
         .help = "-B: tie each rank to a processor; done by itself where all have one"},          \
        {.name = "no-pin",                                                                        \
         .type = TUTTI_OPTION_FLAG,                                                               \
         .help = "-B: let the system move the ranks about"},                                      \
        {.name = "deadline",                                                                      \
         .type = TUTTI_OPTION_TIME,                                                               \
         .value = "TIME",                                                                         \
         .standard = "30s",                                                                       \
         .help = "-B: no wait of a rank for another lasts longer"},                               \
        TUTTI_OPTIONS_RUN_GROUP

#define TUTTI_TRAIN_REAL_TEXT                                                                      \
    "With -B nothing is simulated: the schedule of the strategy is played, and the model trained " \
    "on data, by threads of this process, or by processes over tcp or mpi (--launch N, --hosts, "  \
    "or a launcher, as of 'tutti run'; TF_CONFIG as TensorFlow reads it). --batch examples go to " \
    "a replica, or --global-batch to all. Products are OpenBLAS's where this build has it. For "   \
    "one number of ranks, packing and all-reduce the weights are the same to the bit on every "    \
    "backend. A line of JSON a step, of process 0; a table with --format table. With --emulate "   \
    "SPEC gradients are as real, but the pace is that of another machine: times are those that "   \
    "the simulator has for its devices and links, and are printed beside the simulated step, of "  \
    "the same schedule message by message (as train SPEC --exact). --tp and --pp divide the "      \
    "model. The evaluator of a TF_CONFIG, "                                                        \
    "started as the others are, with --checkpoint, looks on: each newest checkpoint on the "       \
    "held-out examples, until that of the last step."

/* What is trained, and how. */
struct tutti_train_real {
    struct tutti_run_command run;
    struct tutti_run_group with;
    struct tutti_backend *backend; /* of with, or its own */
    struct tutti_workload *model;
    struct tutti_strategy strategy;
    struct tutti_algorithm_set *added;
    const char *algorithm; /* of gradients; NULL: ring */
    uint32_t channels;     /* of it; 0: its own */
    const char *remark;    /* what is played instead of what was asked for; NULL: nothing */
    const char *optimizer;
    struct tutti_net_learner_params data;
    struct tutti_net_learner_facts facts;
    struct tutti_learner learner;
    struct tutti_trainer_params params;
    struct tutti_trainer *trainer;
    struct tutti_parallel cut; /* how ranks divide the model; size 0: each has all of it */
    uint32_t *stage_layers;    /* of it */
    uint32_t replicas;         /* of the model: of ranks that have all of it, as many as these */
    bool by_servers;           /* no schedule is played: parameter servers */
    uint64_t steps;
    uint64_t evaluate_every; /* 0: not */
    bool evaluate_end;
    uint32_t breaks; /* times that training was broken off, and went on */
    struct tutti_train_elastic_range elastic;
    uint64_t global_batch;    /* as others have it; 0: as the options say */
    const char *preempt_file; /* that is looked for once a second; NULL: none */
    double looked_s;
    int term_file; /* of SIGTERM; -1: not watched */
    sigset_t signals_before;
    const char *events;   /* folder of TensorBoard's; NULL: none */
    uint32_t first_rank;  /* of this process */
    uint32_t group_ranks; /* of a process, where there are several of several; else 0 */
    struct tutti_train_emulation emulation;
    bool calibrates; /* this process notes what pieces take */
    struct tutti_train_here_notes notes;
    struct tutti_train_parts predicted; /* of a step; step_s 0: nothing is known of it */
    struct tutti_record record;         /* of the last step, where params.record is this */
};

/* Trains, and prints. */
int tutti_train_real(const struct tutti_args *args, struct tutti_sink *sink, struct tutti_err *err);

/* ---- its parts, of which an elastic training is made, too ---- */

/* Whether this process prints: of several the first. */
bool tutti_train_real_prints(const struct tutti_train_real *real);
/* Whether this process was told to stop since that was asked last: SIGTERM, or --preempt-file. */
bool tutti_train_real_is_told(struct tutti_train_real *real);
int tutti_train_real_open_trainer(const struct tutti_args *args, struct tutti_train_real *real,
                                  struct tutti_sink *sink, struct tutti_err *err);
/* One step, and what is printed, noted and evaluated after it. */
int tutti_train_real_step(struct tutti_train_real *real, struct tutti_train_real_page *page,
                          struct tutti_trained *ret, struct tutti_err *err);
/* After the last: saves, and prints the end. `stopped`: because it was told to. */
int tutti_train_real_end(const struct tutti_args *args, struct tutti_train_real *real,
                         struct tutti_train_real_page *page, bool stopped, struct tutti_sink *sink,
                         struct tutti_err *err);
/* Steps of whoever is there, from the meeting of the first ones on (real_elastic.c). */
int tutti_train_elastic(const struct tutti_args *args, struct tutti_train_real *real,
                        struct tutti_sink *sink, struct tutti_err *err);

/* Reads the options: model, strategy, data, optimizer, how long. The ranks are known. */
/* Of a step that is simulated: -TUTTI_EINVAL for options that are of real training alone. */
int tutti_train_real_refuse(const struct tutti_args *args, struct tutti_err *err);
int tutti_train_real_read(const struct tutti_args *args, struct tutti_train_real *real,
                          struct tutti_err *err);

/* --tp, --pp, --dp and what else says how ranks divide the model, with the number of ranks that
 * follows; and once they have met, which parts each has. */
int tutti_train_real_cut_read(const struct tutti_args *args, struct tutti_train_real *real,
                              struct tutti_err *err);
int tutti_train_real_cut_complete(struct tutti_train_real *real, struct tutti_err *err);

/* Collective. -TUTTI_EINVAL, in all processes, where they do not hold the same model, strategy,
 * optimizer and data, by hash; the message names what differs, with both values. */
int tutti_train_real_same(const struct tutti_train_real *real, struct tutti_err *err);
/* --calib: what a step is to take; and whether --calibrate is there. */
int tutti_train_real_calib(const struct tutti_args *args, struct tutti_train_real *real,
                           struct tutti_err *err);
/* --calibrate: after each step. */
int tutti_train_real_note_pieces(struct tutti_train_real *real, const struct tutti_trained *step,
                                 struct tutti_err *err);

/* The last step, where --trace says. */
int tutti_train_real_trace(const struct tutti_args *args, const struct tutti_train_real *real,
                           struct tutti_sink *sink, struct tutti_err *err);

/* ---- the sidecar (evaluator.c) ---- */

/* Is this process the evaluator of a TF_CONFIG, and has it checkpoints to look at? */
bool tutti_train_is_evaluator(const struct tutti_args *args, const struct tutti_train_real *real);
/* Evaluates each newest checkpoint until it is that of the last step. -TUTTI_ETIME: there has been
 * no new one for as long as --evaluator-wait says. */
int tutti_train_evaluator(const struct tutti_args *args, struct tutti_train_real *real,
                          struct tutti_sink *sink, struct tutti_err *err);

/* All weights: their hash (not NULL), and to the events how they are distributed. */
int tutti_train_real_look_at_weights(struct tutti_train_real *real,
                                     struct tutti_train_real_page *page, uint64_t *ret_hash,
                                     struct tutti_err *err);
/* Lines for people, of a trainer; `context` is a sink. */
void tutti_train_real_note(void *context, const char *line);

/* ---- what is printed ---- */

struct tutti_train_real_page {
    struct tutti_sink *sink; /* NULL: another process prints */
    bool table;
    bool progress;
    struct tutti_tensorboard *events; /* NULL: none are written */
    struct tutti_train_parts *steps;  /* [steps] so far */
    double *waiting_s;                /* [rank], sums over steps */
    uint64_t count;
    double flushed_s; /* the events */
    struct tutti_sums last;
};

enum { TUTTI_TRAIN_REAL_RANKS_SHOWN = 64 }; /* whose waiting a line of JSON tells one by one */

/* Where a step's time went, on average over ranks; input and update those of the first rank of this
 * process. */
struct tutti_train_parts tutti_train_real_parts(const struct tutti_train_real *real,
                                                const struct tutti_trained *step);
/* In the last step, of any rank: messages, and waiting for them and for others. */
double tutti_train_real_waiting_s(const struct tutti_train_real *real,
                                  const struct tutti_trained *step, uint32_t rank);
/* Of all steps so far: the median of each part, and of the whole. */
struct tutti_train_parts tutti_train_real_median(const struct tutti_train_real_page *page);
/* Lines of '#', and members of an open object: `parts` beside what was predicted, and what ranks
 * waited. */
void tutti_train_real_print_parts(const struct tutti_train_real_page *page,
                                  const struct tutti_train_real *real,
                                  const struct tutti_train_parts *parts);
void tutti_train_real_json_parts(const struct tutti_train_real_page *page,
                                 const struct tutti_train_real *real,
                                 const struct tutti_train_parts *parts);

int tutti_train_real_page_open(const struct tutti_args *args, const struct tutti_train_real *real,
                               struct tutti_sink *sink, struct tutti_train_real_page *ret,
                               struct tutti_err *err);
/* Negative where events cannot be written. */
int tutti_train_real_print_step(struct tutti_train_real_page *page,
                                const struct tutti_train_real *real,
                                const struct tutti_trained *step, struct tutti_err *err);
int tutti_train_real_print_held_out(struct tutti_train_real_page *page,
                                    const struct tutti_train_real *real, uint64_t step,
                                    const struct tutti_sums *sums, struct tutti_err *err);
/* How the weights are distributed, [all elements], to the events. */
int tutti_train_real_note_weights(struct tutti_train_real_page *page,
                                  const struct tutti_train_real *real, const float *weights,
                                  struct tutti_err *err);
int tutti_train_real_print_final(struct tutti_train_real_page *page,
                                 const struct tutti_train_real *real,
                                 const struct tutti_sums *held_out, uint64_t weights_hash,
                                 struct tutti_err *err);
void tutti_train_real_print_stopped(struct tutti_train_real_page *page, uint64_t steps);
int tutti_train_real_page_done(struct tutti_train_real_page *page, struct tutti_err *err);

#endif
