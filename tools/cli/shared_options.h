/* Options that several commands have, written once; rows of an option table. */
#ifndef TUTTI_TOOLS_CLI_SHARED_OPTIONS_H
#define TUTTI_TOOLS_CLI_SHARED_OPTIONS_H

#include "runtime/schedule.h"
#include "sim/predict.h"
#include "tools/options.h"

/* A number of the library as the text of an option. */
#define TUTTI_TEXT_OF(number)       TUTTI_TEXT_OF_WORDS(number)
#define TUTTI_TEXT_OF_WORDS(number) #number

/* Of every command that prints results. */
#define TUTTI_OPTIONS_PAGE                                                               \
    {.letter = 'v',                                                                      \
     .name = "verbose",                                                                  \
     .type = TUTTI_OPTION_FLAG,                                                          \
     .help = "say above a table all that was resolved: links, figures, costs"},          \
        {.letter = 'q',                                                                  \
         .name = "quiet",                                                                \
         .type = TUTTI_OPTION_FLAG,                                                      \
         .help = "print the table alone, without a line of # but its titles"},           \
    {                                                                                    \
        .name = "colour", .type = TUTTI_OPTION_CHOICE, .value = "auto|always|never",     \
        .standard = "auto",                                                              \
        .help = "of tables; auto: on a terminal, unless NO_COLOR is set or TERM is dumb" \
    }

#define TUTTI_OPTIONS_OUTPUT                                          \
    {.name = "format",                                                \
     .type = TUTTI_OPTION_CHOICE,                                     \
     .value = "table|json|csv",                                       \
     .standard = "table",                                             \
     .help = "how to print the results; JSON is a stable interface"}, \
        TUTTI_OPTIONS_PAGE

#define TUTTI_OPTION_NODES                                                                    \
    {                                                                                         \
        .name = "nodes", .type = TUTTI_OPTION_COUNT, .value = "N", .standard = "1", .min = 1, \
        .max = 65536, .help = "join N copies of a one-host machine by a non-blocking network" \
    }

#define TUTTI_OPTION_COLLECTIVE                                                               \
    {                                                                                         \
        .letter = 'c', .name = "collective", .type = TUTTI_OPTION_TEXT, .value = "NAME",      \
        .standard = "allreduce",                                                              \
        .help = "allreduce, reducescatter, allgather, broadcast, reduce, alltoall, sendrecv " \
                "or barrier"                                                                  \
    }

#define TUTTI_OPTION_DTYPE                                                                        \
    {                                                                                             \
        .letter = 'd', .name = "datatype", .type = TUTTI_OPTION_TEXT, .value = "NAME",            \
        .standard = "float", .help = "float, double, half, bfloat16, int32, int64, int8 or uint8" \
    }

#define TUTTI_OPTION_OP                                                          \
    {                                                                            \
        .letter = 'o', .name = "op", .type = TUTTI_OPTION_TEXT, .value = "NAME", \
        .standard = "sum", .help = "sum, prod, min, max or avg"                  \
    }

#define TUTTI_OPTION_ROOT                                                                        \
    {                                                                                            \
        .letter = 'r', .name = "root", .type = TUTTI_OPTION_COUNT, .value = "RANK",              \
        .standard = "0", .min = 0, .max = UINT32_MAX - 1, .help = "root of broadcast and reduce" \
    }

/* `algorithm` is what holds if nothing is given. */
#define TUTTI_OPTION_ALGORITHM(algorithm)                                                       \
    {                                                                                           \
        .letter = 'a', .name = "algorithm", .type = TUTTI_OPTION_TEXT, .value = "NAME[,NAME]",  \
        .standard = algorithm,                                                                  \
        .help = "ring, ring-bidirectional, recursive-doubling, halving-doubling, halving, "     \
                "binomial, double-binary-tree, one-shot, two-shot, direct, hierarchical, "      \
                "reduce-broadcast, torus, chain-tree; nccl: whatever NCCL or RCCL would run, "  \
                "on a machine of GPUs, or of it nccl:ring, nccl:tree and so on; auto: nccl, "   \
                "where that is known, and beside it the fastest of the others; all: every one " \
                "that fits; FILE.so: a plugin"                                                  \
    }

#define TUTTI_OPTION_PROTOCOL                                                                    \
    {                                                                                            \
        .letter = 'p', .name = "protocol", .type = TUTTI_OPTION_CHOICE,                          \
        .value = "auto|ll|ll128|simple|none", .standard = "auto",                                \
        .help = "costs of NCCL's protocols on top of the links; auto: the fastest of the three " \
                "on a machine with NVLink, xGMI or PCIe, none on others"                         \
    }

#define TUTTI_OPTION_MODEL                                                                         \
    {                                                                                              \
        .name = "model", .type = TUTTI_OPTION_CHOICE, .value = "fair|alphabeta",                   \
        .standard = "fair",                                                                        \
        .help = "fair: messages share every link max-min fairly; alphabeta: each is alone on its " \
                "route but for the first link, so it may come out faster than the bound: then a "  \
                "line says so, and JSON and CSV have beats_bound"                                  \
    }

#define TUTTI_OPTION_CHANNELS                                                                 \
    {                                                                                         \
        .name = "channels", .type = TUTTI_OPTION_COUNT, .value = "N", .min = 1, .max = 4096,  \
        .help = "parallel lanes that share the data (if not given: for rings as many as the " \
                "machine has ring orders, else 1)"                                            \
    }

#define TUTTI_OPTION_CHUNK                                                \
    {                                                                     \
        .name = "chunk", .type = TUTTI_OPTION_SIZE, .value = "SIZE",      \
        .help = "grain of pipelining (if not given: the algorithm's own)" \
    }

#define TUTTI_OPTION_SLICES                                                                    \
    {                                                                                          \
        .name = "slices", .type = TUTTI_OPTION_COUNT, .value = "N", .standard = "1", .min = 1, \
        .max = 4096, .help = "messages that a chunk is cut into"                               \
    }

#define TUTTI_OPTION_SLOTS                                                                    \
    {                                                                                         \
        .name = "slots", .type = TUTTI_OPTION_COUNT, .value = "N", .standard = "8", .min = 1, \
        .max = 1 << 20, .help = "messages in flight on a connection"                          \
    }

#define TUTTI_OPTION_REDUCE_RATE                                                              \
    {                                                                                         \
        .name = "reduce-rate", .type = TUTTI_OPTION_RATE, .value = "RATE",                    \
        .help = "rate at which a rank adds and copies (if not given: hidden behind the wire)" \
    }

#define TUTTI_OPTION_JITTER                                                                   \
    {                                                                                         \
        .name = "jitter", .type = TUTTI_OPTION_REAL, .value = "X", .standard = "0", .min = 0, \
        .max = 100, .help = "stretch each message by a factor drawn from 1 to 1 + X"          \
    }

#define TUTTI_OPTION_SEED                                                                       \
    {                                                                                           \
        .name = "seed", .type = TUTTI_OPTION_COUNT, .value = "N",                               \
        .standard = TUTTI_TEXT_OF(TUTTI_STANDARD_SEED), .min = 0, .max = UINT64_MAX,            \
        .help = "of all that is drawn (--jitter, --perturb): the same seed, the same bytes out" \
    }

#define TUTTI_OPTION_FOLD                                                         \
    {                                                                             \
        .name = "fold", .type = TUTTI_OPTION_CHOICE, .value = "auto|on|off",      \
        .standard = TUTTI_STANDARD_FOLD,                                          \
        .help = "simulate one of several ranks that behave alike (on: or refuse)" \
    }

#define TUTTI_OPTION_JOBS                                                                       \
    {                                                                                           \
        .letter = 'j', .name = "jobs", .type = TUTTI_OPTION_COUNT, .value = "N", .min = 1,      \
        .max = 256,                                                                             \
        .help = "threads to simulate with (if not given: one a processor); the results do not " \
                "depend on it"                                                                  \
    }

#define TUTTI_OPTION_STEPS_MAX                                                                     \
    {                                                                                              \
        .name = "steps-max", .type = TUTTI_OPTION_COUNT, .value = "N",                             \
        .standard = TUTTI_TEXT_OF(TUTTI_STANDARD_STEPS), .min = 1, .max = UINT64_MAX,              \
        .help =                                                                                    \
            "auto and all leave out, and name, what takes more steps to simulate at a size, "      \
            "or, folded or round one ring, 8 times as many; in rings that share no link, 16 times" \
    }

#define TUTTI_OPTION_FORCE                                                                       \
    {                                                                                            \
        .name = "force", .type = TUTTI_OPTION_FLAG,                                              \
        .help = "simulate also what would take more than 10 minutes, or more memory than there " \
                "is"                                                                             \
    }

struct tutti_coll_params;

/* What -c, -d, -o and -r say, which the command's table must have; the other fields stay as they
 * are. -TUTTI_EINVAL names the option. */
int tutti_shared_params(const struct tutti_args *args, struct tutti_coll_params *params,
                        struct tutti_err *err);

/* The same where -d and -o may say 'all': then the flag is set, and the field stays as it is. */
int tutti_shared_params_of_all(const struct tutti_args *args, struct tutti_coll_params *params,
                               bool *ret_all_types, bool *ret_all_ops, struct tutti_err *err);

/* "allreduce of float, sum"; with the root where there is one. */
void tutti_shared_print_params(const struct tutti_coll_params *params, FILE *out);

/* -TUTTI_EINVAL: -r is given, and the collective has none. */
int tutti_shared_refuse_root(const struct tutti_args *args, enum tutti_collective collective,
                             struct tutti_err *err);

/* -TUTTI_EINVAL: the collective has a root, and it is not one of the ranks. */
int tutti_shared_check_root(enum tutti_collective collective, uint32_t root, uint32_t rank_count,
                            struct tutti_err *err);

/* Whether --plot (auto|utf8|ascii|none) draws with more than ASCII; auto: as the locale says. */
bool tutti_shared_plot_utf8(const struct tutti_args *args);

/* Whether --plot asks for a chart below the table; auto: on a terminal, unless -q. */
bool tutti_shared_wants_plot(const struct tutti_args *args, bool terminal);

/* -TUTTI_EINVAL: a chart is asked for below a table, and --format asks for no table. */
int tutti_shared_check_plot(const struct tutti_args *args, struct tutti_err *err);

#endif
