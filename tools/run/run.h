/* What `run` and `validate -B` have in common: the options of a real run, and its rows. */
#ifndef TUTTI_TOOLS_RUN_RUN_H
#define TUTTI_TOOLS_RUN_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/cuda.h"
#include "sim/predict.h"
#include "tools/cli/json.h"
#include "tools/cli/own.h"
#include "tools/cli/shared_options.h"
#include "tools/cli/sizes.h"
#include "tools/options.h"
#include "tools/run/perform.h"

enum {
    TUTTI_RUN_RANKS_MAX = 1024,
    TUTTI_RUN_ALGORITHMS_MAX = 32,
    TUTTI_RUN_KINDS_MAX = TUTTI_DTYPE_COUNT * TUTTI_OP_COUNT,
};

/* Of data, and what becomes of them. */
struct tutti_run_kind {
    enum tutti_dtype dtype;
    enum tutti_op op;
};

struct tutti_backend_kind;
struct tutti_backend;
struct tutti_local_beside;

/* What the command line asks for. */
struct tutti_run_command {
    struct tutti_own own; /* algorithms of one's own */
    const struct tutti_backend_kind *backend;
    bool grouped; /* processes meet */
    bool library; /* --library: after the rows of a size one of the library's own collective */
    uint32_t rank_count;
    uint32_t thread_count; /* -t: so many times -g ranks; nccl-tests' threads of a process */
    bool pin;
    enum tutti_cuda_graph graph; /* cuda */
    bool persistent;             /* likewise */
    /* Likewise: over so many GPUs, 0: all there are; and as if they had no peer access. */
    uint32_t gpu_count;
    bool no_peers;
    bool streams;                         /* cuda, nccl: as struct tutti_cuda_opts */
    char places[TUTTI_CUDA_PLACES_BYTES]; /* where ranks were played; "": one GPU, or none */
    bool report_host;                     /* --report-cputime */
    bool emulated;                        /* --emulate: each row has a backend of its own */
    struct tutti_sizes sizes;
    /* All but backend, shape and params.count, which differ by backend and by size. */
    struct tutti_perform perform;
    /* NULL-terminated: names, or "auto" alone; `all`: those that do not fit are left out. */
    const char *algorithms[TUTTI_RUN_ALGORITHMS_MAX + 1];
    bool all;
    /* One after the other; of all that is asked for perform.params has the present one. */
    struct tutti_run_kind kinds[TUTTI_RUN_KINDS_MAX];
    uint32_t kind_count;
    struct tutti_record *record; /* NULL, or the events of the last row, its last iteration */
    /* NULL, or: the machine is looked at beside each row, and predicted as it then is. */
    struct tutti_local_beside *beside;
};

/* Rows of an option table. */
#define TUTTI_OPTION_GPUS                                                                         \
    {                                                                                             \
        .name = "gpus", .type = TUTTI_OPTION_COUNT, .value = "N", .min = 1, .max = 16,            \
        .help = "cuda: over so many GPUs ranks are spread, neighbours together; if not given all" \
    }
#define TUTTI_OPTION_NO_PEERS                                                                    \
    {                                                                                            \
        .name = "no-peers", .type = TUTTI_OPTION_FLAG,                                           \
        .help =                                                                                  \
            "cuda: no GPU touches another's memory: messages between them go through the host's" \
    }
#define TUTTI_OPTIONS_RUN                                                                         \
    {.letter = 'B',                                                                               \
     .name = "backend",                                                                           \
     .type = TUTTI_OPTION_TEXT,                                                                   \
     .value = "NAME",                                                                             \
     .help = "threads: a thread a rank on this machine; tcp: processes and their sockets; mpi: "  \
             "processes and their MPI; cuda: virtual ranks on GPUs; nccl: GPUs, one a rank, "     \
             "and their NCCL; sim: a virtual clock on a machine of --topo"},                      \
        {.letter = 'g',                                                                           \
         .name = "ranks",                                                                         \
         .type = TUTTI_OPTION_COUNT,                                                              \
         .value = "N",                                                                            \
         .min = 1,                                                                                \
         .max = TUTTI_RUN_RANKS_MAX,                                                              \
         .help = "how many ranks; threads, cuda: 2 if not given; tcp, mpi: one a process; nccl: " \
                 "as many as there are GPUs, or processes; sim: as many as the machine has"},     \
        {.letter = 't',                                                                           \
         .name = "nthreads",                                                                      \
         .type = TUTTI_OPTION_COUNT,                                                              \
         .value = "N",                                                                            \
         .standard = "1",                                                                         \
         .min = 1,                                                                                \
         .max = TUTTI_RUN_RANKS_MAX,                                                              \
         .help = "N times as many ranks as -g says (not given: as 1 a process), as nccl-tests "   \
                 "counts those of N threads; who drives them is the backend's matter"},           \
        {.letter = 'a',                                                                           \
         .name = "algorithm",                                                                     \
         .type = TUTTI_OPTION_TEXT,                                                               \
         .value = "NAME[,NAME]",                                                                  \
         .standard = "auto",                                                                      \
         .help = "algorithms; auto: for each size the fastest in a short trial; all: one row "    \
                 "each; FILE.so: a plugin"},                                                      \
        TUTTI_OPTION_COLLECTIVE, TUTTI_OPTIONS_SIZES("1K", "16M", "4"),                           \
        {.letter = 'w',                                                                           \
         .name = "warmup-iters",                                                                  \
         .type = TUTTI_OPTION_COUNT,                                                              \
         .value = "N",                                                                            \
         .standard = "5",                                                                         \
         .max = 1000000,                                                                          \
         .help = "iterations before the timed ones"},                                             \
        {.letter = 'n',                                                                           \
         .name = "iters",                                                                         \
         .type = TUTTI_OPTION_COUNT,                                                              \
         .value = "N",                                                                            \
         .standard = "20",                                                                        \
         .min = 1,                                                                                \
         .max = 1000000,                                                                          \
         .help = "timed iterations"},                                                             \
        TUTTI_OPTION_SCHEDULE,                                                                    \
        {.letter = 'd',                                                                           \
         .name = "datatype",                                                                      \
         .type = TUTTI_OPTION_TEXT,                                                               \
         .value = "NAME",                                                                         \
         .standard = "float",                                                                     \
         .help = "float, double, half, bfloat16, int32, int64, int8 or uint8; all: one after "    \
                 "the other"},                                                                    \
        {.letter = 'o',                                                                           \
         .name = "op",                                                                            \
         .type = TUTTI_OPTION_TEXT,                                                               \
         .value = "NAME",                                                                         \
         .standard = "sum",                                                                       \
         .help = "sum, prod, min, max or avg; all: one after the other"},                         \
        TUTTI_OPTION_ROOT, TUTTI_OPTION_CHANNELS, TUTTI_OPTION_CHUNK, TUTTI_OPTION_SLICES,        \
        TUTTI_OPTION_SLOTS,                                                                       \
        {.name = "graph",                                                                         \
         .type = TUTTI_OPTION_CHOICE,                                                             \
         .value = "auto|on|off",                                                                  \
         .standard = "auto",                                                                      \
         .help = "cuda: a kernel a level, in a CUDA graph, instead of a block a lane in one "     \
                 "kernel; auto: where that is faster, as few levels of little data are, or "      \
                 "there are too many lanes"},                                                     \
        {.name = "persistent",                                                                    \
         .type = TUTTI_OPTION_FLAG,                                                               \
         .help = "cuda: all iterations in one launch; their times are then without it"},          \
        TUTTI_OPTION_GPUS, TUTTI_OPTION_NO_PEERS,                                                 \
        {.name = "pin",                                                                           \
         .type = TUTTI_OPTION_FLAG,                                                               \
         .help =                                                                                  \
             "real backends: tie each rank to a processor; done by itself where all have one"},   \
        {.name = "no-pin",                                                                        \
         .type = TUTTI_OPTION_FLAG,                                                               \
         .help = "real backends: let the system move the ranks about"},                           \
        {.name = "deadline",                                                                      \
         .type = TUTTI_OPTION_TIME,                                                               \
         .value = "TIME",                                                                         \
         .standard = "30s",                                                                       \
         .help = "no wait of a rank for another lasts longer"},                                   \
    {                                                                                             \
        .name = "seed", .type = TUTTI_OPTION_COUNT, .value = "N", .standard = "42", .min = 0,     \
        .max = UINT64_MAX, .help = "of the data that the ranks start with, and of the jitter"     \
    }

/* Reads them. -TUTTI_ELACK for a backend that this build has not. tutti_run_done ends it. */
int tutti_run_read(const struct tutti_args *args, struct tutti_run_command *ret,
                   struct tutti_err *err);

/* The backend alone, which must be one that measures. */
int tutti_run_read_measuring(const struct tutti_args *args, struct tutti_run_command *run,
                             struct tutti_err *err);

enum { TUTTI_BACKEND_WORDS_BYTES = 64 };

/* The names of all backends, or of those whose costs are fitted, as a list for people. */
void tutti_run_backend_words(bool all, char ret[TUTTI_BACKEND_WORDS_BYTES]);
void tutti_run_done(struct tutti_run_command *run);

/* --gpus and --no-peers. */
int tutti_run_read_gpus(const struct tutti_args *args, struct tutti_run_command *run,
                        struct tutti_err *err);

/* --steps-max, for `auto`; 0: no limit, of what is named. */
uint64_t tutti_run_steps_max(const struct tutti_args *args, const struct tutti_run_command *run);

/* The element count at size number `index`, of the collective and type asked for. */
uint64_t tutti_run_count(const struct tutti_run_command *run, uint32_t index);

struct tutti_run_row {
    uint64_t count;
    struct tutti_run_kind kind;
    struct tutti_performed performed;
    const char *protocol;   /* sim, and emulated */
    tutti_ps predicted_ps;  /* on the machine that was measured or emulated; 0: not asked for */
    tutti_ps estimate_ps;   /* what the library itself thinks of its collective; 0: nothing */
    tutti_ps calibrated_ps; /* with `beside`: predicted as the machine was when it was calibrated */
    double apart_ns;        /* with `beside`: of the processors, before and after; see local.h */
    bool moved;             /* between the two, however often it was tried */
};

struct tutti_run_rows {
    struct tutti_run_row *rows;
    size_t row_count;
    size_t row_capacity;
    uint64_t wrong_count; /* sum over all rows */
    /* What `auto` left out at all sizes; of the first size that has any, its bytes. */
    struct tutti_left_out left_out;
    uint64_t left_out_bytes;
    uint32_t apart_count; /* rows that were asked for in place, too, and cannot be played so */
    size_t apart_first;   /* the first of them */
};

/* Copies a row to the end. */
int tutti_run_add(struct tutti_run_rows *rows, const struct tutti_run_row *row);
void tutti_run_rows_done(struct tutti_run_rows *rows);

/* Counts what an answer left out, and says so: a line of '#', or a member of an open object. */
void tutti_run_note_left_out(struct tutti_run_rows *rows, const struct tutti_answer *answer);
void tutti_run_print_left_out(const struct tutti_run_rows *rows, FILE *out);
void tutti_run_json_left_out(const struct tutti_run_rows *rows, struct tutti_json *json);

/* Likewise of rows that were not played in place: how many, and why the first was not. */
void tutti_run_print_apart(const struct tutti_run_rows *rows, FILE *out);
void tutti_run_json_apart(const struct tutti_run_rows *rows, struct tutti_json *json);

/* Progress: one line that overwrites itself, and only for somebody who looks; `what` NULL: away
 * with it. */
void tutti_run_show(const char *command, const char *what, const char *detail,
                    struct tutti_sink *sink);

/* All algorithms at one size, that of perform->params.count, on the backend of `perform`. With
 * `local` each row is predicted as that machine would take it. */
struct tutti_local;
int tutti_run_size(const struct tutti_run_command *run, struct tutti_perform *perform,
                   const char *command, const struct tutti_local *local,
                   struct tutti_run_rows *rows, struct tutti_sink *sink, struct tutti_err *err);

/* " as threads on 4 processors, one each", or on which GPU, as the end of a line. */
void tutti_run_print_place(const struct tutti_run_command *run, const char *gpu, FILE *out);

/* All kinds and sizes on the backend of `perform`, which is borrowed. */
int tutti_run_sweep(struct tutti_run_command *run, struct tutti_perform *perform,
                    const char *command, const struct tutti_local *local,
                    struct tutti_run_rows *rows, struct tutti_sink *sink, struct tutti_err *err);

/* The backend of a process by itself; the caller's to close. */
int tutti_run_open_measuring(const struct tutti_run_command *run, struct tutti_backend **ret,
                             struct tutti_err *err); /* for costs: of lanes, not of graphs */
int tutti_run_open_alone(const struct tutti_run_command *run, struct tutti_backend **ret,
                         struct tutti_err *err);

/* Plays all of it in this process, on threads or GPUs; `local` likewise. */
int tutti_run_alone(struct tutti_run_command *run, const char *command,
                    const struct tutti_local *local, struct tutti_run_rows *ret,
                    struct tutti_sink *sink, struct tutti_err *err);

/* What measures this machine, or what is beside a row, of a run on threads or of a group. */
struct tutti_local_ask;
struct tutti_run_group; /* NULL: threads */
struct tutti_local_ask tutti_run_local_ask(const struct tutti_run_command *run,
                                           const struct tutti_run_group *with);

/* This machine: as the file of --calib says, or, without one, measured now. */
int tutti_run_local(const struct tutti_run_command *run, const struct tutti_run_group *with,
                    const char *path, const char *command, struct tutti_local *ret,
                    struct tutti_sink *sink, struct tutti_err *err);

/* Plays all of it in the simulator, as `ask` says (topology, model, protocol, jitter). */
struct tutti_ask;
int tutti_run_sim(struct tutti_run_command *run, const struct tutti_ask *ask, const char *command,
                  struct tutti_run_rows *ret, struct tutti_sink *sink, struct tutti_err *err);

/* How many processors this process may use. */
uint32_t tutti_run_processors(void);

#endif
