/* How the processes of a real run come together: this command starts them, here or on other hosts,
 * or a launcher has. */
#ifndef TUTTI_TOOLS_RUN_JOIN_H
#define TUTTI_TOOLS_RUN_JOIN_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/group_tcp.h"
#include "runtime/launch.h"
#include "runtime/meet.h"
#include "tools/options.h"

enum { TUTTI_JOIN_LAUNCH_MAX = 256 };

/* Rows of an option table. */
#define TUTTI_OPTION_LAUNCH                                                                   \
    {                                                                                         \
        .name = "launch", .type = TUTTI_OPTION_COUNT, .value = "N", .min = 1,                 \
        .max = TUTTI_JOIN_LAUNCH_MAX,                                                         \
        .help = "tcp, nccl: start N processes on this host, and end all of them if one fails" \
    }

/* Beside that one; a command may have a "launch" of its own, whose text is a number here. */
#define TUTTI_OPTIONS_JOIN                                                                         \
    {.name = "hosts",                                                                              \
     .type = TUTTI_OPTION_TEXT,                                                                    \
     .value = "HOST[:N],...",                                                                      \
     .help = "tcp, nccl: print and run the lines of ssh (or of TUTTI_SSH) that start N processes " \
             "on each; process 0 listens on the first, at a port of --rendezvous or any"},         \
        {.name = "dry-run", .type = TUTTI_OPTION_FLAG, .help = "with --hosts: only print them"},   \
        {.name = "rendezvous",                                                                     \
         .type = TUTTI_OPTION_TEXT,                                                                \
         .value = "HOST:PORT",                                                                     \
         .help = "tcp, nccl: where process 0 listens and the others find it, if the launcher "     \
                 "does not say (also TUTTI_ROOT)"},                                                \
        {.name = "interface",                                                                      \
         .type = TUTTI_OPTION_TEXT,                                                                \
         .value = "NAME",                                                                          \
         .help = "tcp, nccl: the interface, or the address of this host, to be reached at"},       \
        {.name = "open",                                                                           \
         .type = TUTTI_OPTION_FLAG,                                                                \
         .help = "tcp, nccl: let anybody in who can reach process 0, without TUTTI_SECRET"},       \
    {                                                                                              \
        .name = "launcher", .type = TUTTI_OPTION_TEXT, .value = "NAME",                            \
        .help = "tcp, nccl: whose variables say which process this is (tutti, torchrun, horovod, " \
                "openmpi, hydra, lsf, slurm, pmix, tf_config, plain, pytorchjob, jax, indexed, "   \
                "none); if not given, the innermost that has set some"                             \
    }

/* Who this process is, and how it finds the others. */
struct tutti_join {
    const char *command; /* "run": whose messages these are, borrowed from its table */
    struct tutti_launch launch;
    const char *interface; /* NULL: any */
    bool open_to_all;
    bool listens;  /* process 0 of --launch: */
    int listen_fd; /* the parent has seen to that */
    tutti_ps deadline_ps;
    tutti_ps save_ps;  /* that a SIGTERM leaves processes which have something to save; or 0 */
    uint32_t restarts; /* of --restarts: so often a lost process may come again, and all meet */
    int stop_code;     /* of --stop-code, where there is one */
    bool again;        /* this process has been lost, and started again */
    uint32_t least;    /* of --elastic: the fewest that go on without the others; 0: not so */
    bool enters;       /* of --join: a group that has begun, at `root` */
    char root[TUTTI_GROUP_TCP_ADDRESS_BYTES]; /* "": by what the launcher offers */
    char secret[TUTTI_MEET_SECRET_BYTES];     /* "": none */
};

/* Reads who this is. -TUTTI_EINVAL also where the options contradict each other or the launcher. */
int tutti_join_read(const struct tutti_args *args, tutti_ps deadline_ps, struct tutti_join *ret,
                    struct tutti_err *err);

/* With --launch or --hosts, starts the processes and waits for them: *ret_started. Their messages
 * have been passed on; the status is that of the first that failed, with an empty message. In the
 * children of --launch it returns as well, not *ret_started, and *join says which one it is. */
int tutti_join_start(const struct tutti_args *args, struct tutti_join *join, bool *ret_started,
                     struct tutti_sink *sink, struct tutti_err *err);

/* Meets the others; with `restarts` more than once. `sink` is borrowed as long as the group lives:
 * strangers are told of there. */
int tutti_join_group(struct tutti_join *join, struct tutti_sink *sink, struct tutti_group **ret,
                     struct tutti_err *err);
/* Whether a child that is started again finds the others where they met, not as a newcomer. */
bool tutti_join_meets_again(const struct tutti_join *join);
/* Nobody is met any more. */
void tutti_join_done(struct tutti_join *join);

/* Adds to an error what the launcher calls the processes that it speaks of, but for this one:
 * "... (process 1 is worker 1 at '10.0.0.2:2222')". Nothing where the launcher says no such thing.
 */
void tutti_join_name_tasks(const struct tutti_launch *launch, struct tutti_err *err);

#endif
