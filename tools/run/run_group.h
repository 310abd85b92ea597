/* Runs of several processes: backends tcp, mpi and nccl. Each process plays its own ranks;
 * process 0 prints. */
#ifndef TUTTI_TOOLS_RUN_RUN_GROUP_H
#define TUTTI_TOOLS_RUN_RUN_GROUP_H

#include "runtime/tcp.h"
#include "tools/run/join.h"
#include "tools/run/run.h"

struct tutti_sink;

struct tutti_backend;
struct tutti_group;

/* Rows of an option table. */
#define TUTTI_OPTIONS_RUN_GROUP                                                                  \
    TUTTI_OPTIONS_JOIN,                                                                          \
        {.name = "engine",                                                                       \
         .type = TUTTI_OPTION_CHOICE,                                                            \
         .value = "auto|poll|uring",                                                             \
         .standard = "auto",                                                                     \
         .help = "tcp: how its sockets are driven; auto: what this machine does best"},          \
        {.name = "connections",                                                                  \
         .type = TUTTI_OPTION_COUNT,                                                             \
         .value = "N",                                                                           \
         .standard = "1",                                                                        \
         .min = 1,                                                                               \
         .max = 16,                                                                              \
         .help = "tcp: of each pair of ranks, for large messages"},                              \
        {.name = "congestion",                                                                   \
         .type = TUTTI_OPTION_TEXT,                                                              \
         .value = "NAME",                                                                        \
         .help = "tcp: congestion control, as reno; if not given, the system's own choice, but " \
                 "reno where bytes do not leave the host"},                                      \
    {                                                                                            \
        .name = "library", .type = TUTTI_OPTION_FLAG,                                            \
        .help = "mpi, nccl: after the other rows of a size, one of the library's own collective" \
    }

/* The processes of a run; zeroed: none, as of threads and sim. */
struct tutti_run_group {
    struct tutti_join join;
    bool mpi;                      /* has been begun */
    struct tutti_group *group;     /* NULL: none */
    struct tutti_tcp_opts tcp;     /* of tcp: how backends are opened */
    struct tutti_backend *backend; /* that all play on; NULL with --emulate */
};

/* Do processes meet, with these options? Some backends play alone where nobody says that there are
 * others. */
bool tutti_run_joins(const struct tutti_args *args, const struct tutti_backend_kind *kind);
bool tutti_run_is_group(const struct tutti_run_command *run);

/* -TUTTI_EINVAL for options that say nothing to the backend. */
int tutti_run_group_check(const struct tutti_args *args, const struct tutti_run_command *run,
                          struct tutti_err *err);

/* Starts the processes if that is asked for, and meets them; ret->group stays NULL where this one
 * has nothing to play any more (it has started the others and they have ended, or its role plays
 * nothing). Chooses as many ranks as there are processes where none are asked for. */
int tutti_run_group_open(const struct tutti_args *args, struct tutti_run_command *run,
                         struct tutti_run_group *ret, struct tutti_sink *sink,
                         struct tutti_err *err);

/* After a loss (--restarts): the processes that are left, each as it learns of it, leave the group
 * and meet again, with the one that was started again; all as at the start, with as many ranks. Who
 * has not come after the deadline is named. */
int tutti_run_group_again(const struct tutti_args *args, struct tutti_run_command *run,
                          struct tutti_run_group *with, struct tutti_sink *sink,
                          struct tutti_err *err);

/* Before an elastic group changes: nothing is played any more. */
void tutti_run_group_rest(struct tutti_run_group *with);
/* Those who make the next group go on as that, one rank a process: it takes the place of the group.
 * Collective. After an error the next one is over. */
int tutti_run_group_next(const struct tutti_args *args, struct tutti_run_command *run,
                         struct tutti_run_group *with, struct tutti_group *next,
                         struct tutti_err *err);

/* Plays all of it; every process gets all rows. */
struct tutti_local; /* NULL, or rows are predicted as that machine would take them */
int tutti_run_group_play(struct tutti_run_command *run, struct tutti_run_group *with,
                         const char *command, const struct tutti_local *local,
                         struct tutti_run_rows *ret, struct tutti_sink *sink,
                         struct tutti_err *err);

/* Whether this process, or one that it starts on this host, is the one that writes files: told by
 * the options of a run, before anybody has met. Of several processes only the first writes. */
bool tutti_run_writes_here(const struct tutti_args *args);

/* What a process finds by itself, such as a file that may lie on one host and not on another:
 * collective; 0 where all have 0, else in each its own failure, or that of the first. `with` NULL
 * or without a group: `status`. */
int tutti_run_group_agree(const struct tutti_run_group *with, int status, tutti_ps deadline_ps,
                          struct tutti_err *err);

/* Opens a backend tcp whose messages take the time that `shaper` says; collective. */
int tutti_run_group_emulate(const struct tutti_run_group *with, struct tutti_shaper *shaper,
                            double slowdown, struct tutti_backend **ret, struct tutti_err *err);

/* Tells the others of a failure of this one, and parts. Returns the status that this process ends
 * with: what all know alike the first one says, and its exit code is that of all, for a launcher
 * ends the others when one fails, perhaps before the first could speak. */
int tutti_run_group_close(struct tutti_run_group *with, int status, tutti_ps deadline_ps,
                          const struct tutti_err *err);

/* "4 processes by tcp"; for the line above the table. */
void tutti_run_group_describe(const struct tutti_run_group *with,
                              const struct tutti_run_command *run, char *buf, size_t buf_bytes);

#endif
