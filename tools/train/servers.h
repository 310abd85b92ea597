/* Parameter servers as `tutti train` is asked for them: how many, where, and by what rules. */
#ifndef TUTTI_TOOLS_TRAIN_SERVERS_H
#define TUTTI_TOOLS_TRAIN_SERVERS_H

#include <stdio.h>

#include "sim/train_servers.h"
#include "tools/cli/json.h"
#include "tools/options.h"
#include "tools/train/losses.h"

struct tutti_tf_tasks;

#define TUTTI_TRAIN_SERVERS_TEXT                                                                 \
    "Of parameter-server a coordinator says while it runs who does what: workers pull weights, " \
    "compute and push gradients in virtual time, over one network card of each host. What they " \
    "wait for servers and network stands under reduce; a step is a synchronous one, or one of "  \
    "every worker. With --sync R and --overlap on, gradients go and weights come variable by "   \
    "variable, so that cards are busy both ways at once." TUTTI_TRAIN_LOSSES_TEXT

#define TUTTI_TRAIN_OPTIONS_SERVERS                                                                \
    {.name = "launch",                                                                             \
     .type = TUTTI_OPTION_TEXT,                                                                    \
     .value = "N|ps=N,worker=M",                                                                   \
     .help = "-B tcp: start N processes on this host, and end all of them if one fails; "          \
             "servers and workers there have no secret unless TUTTI_SECRET is set, for a MAC of "  \
             "every byte costs more than small models; "                                           \
             "simulated: tasks of parameter-server (if not given: a server and a worker a host; "  \
             "on a single host a worker a device)"},                                               \
        {.name = "tf-config",                                                                      \
         .type = TUTTI_OPTION_TEXT,                                                                \
         .value = "FILE|TEXT",                                                                     \
         .help = "the tasks of a TF_CONFIG on hosts like SPEC's: chief, worker, ps"},              \
        {.name = "server-hosts",                                                                   \
         .type = TUTTI_OPTION_CHOICE,                                                              \
         .value = "shared|apart",                                                                  \
         .standard = "shared",                                                                     \
         .help = "servers beside workers, or on hosts of their own"},                              \
        {.name = "sync",                                                                           \
         .type = TUTTI_OPTION_COUNT,                                                               \
         .value = "R",                                                                             \
         .min = 1,                                                                                 \
         .max = 1 << 20,                                                                           \
         .help = "R gradients make a step; fewer than there are workers: the others are backups "  \
                 "(if not given: each is applied as it comes)"},                                   \
        {.name = "late",                                                                           \
         .type = TUTTI_OPTION_CHOICE,                                                              \
         .value = "queued|fresh|aborted",                                                          \
         .standard = "queued",                                                                     \
         .help = "backups that come late: with the token they took, as TensorFlow has it, with a " \
                 "new one, or stopped"},                                                           \
        {.name = "consistency",                                                                    \
         .type = TUTTI_OPTION_CHOICE,                                                              \
         .value = "strong|relaxed",                                                                \
         .standard = "strong",                                                                     \
         .help = "relaxed: weights of the step before, pulled meanwhile"},                         \
        {.name = "placement",                                                                      \
         .type = TUTTI_OPTION_CHOICE,                                                              \
         .value = "round-robin|greedy",                                                            \
         .standard = "round-robin",                                                                \
         .help = "of variables on servers; greedy: to the one with the least bytes"},              \
        {.name = "partition",                                                                      \
         .type = TUTTI_OPTION_TEXT,                                                                \
         .value = "none|fixed:N|min:SIZE|max:SIZE",                                                \
         .standard = "none",                                                                       \
         .help =                                                                                   \
             "of variables into shards: N of each, none below SIZE (at most one a server), or "    \
             "none above SIZE"},                                                                   \
        {.name = "card-rate",                                                                      \
         .type = TUTTI_OPTION_RATE,                                                                \
         .value = "RATE",                                                                          \
         .help = "of a host's network card, to servers (if not given: one card of SPEC's hosts)"}, \
        {.name = "apply-rate",                                                                     \
         .type = TUTTI_OPTION_RATE,                                                                \
         .value = "RATE",                                                                          \
         .help = "at which a server takes gradients (if not given: at once)"},                     \
        {.name = "save-rate",                                                                      \
         .type = TUTTI_OPTION_RATE,                                                                \
         .value = "RATE",                                                                          \
         .help =                                                                                   \
             "simulated: at which checkpoints of servers are written, and read (if not given: "    \
             "at once)"},                                                                          \
        {.name = "spread",                                                                         \
         .type = TUTTI_OPTION_REAL,                                                                \
         .value = "X",                                                                             \
         .standard = "0",                                                                          \
         .min = 0,                                                                                 \
         .max = 10,                                                                                \
         .help = "of what workers take to compute: sigma of its logarithm, drawn each time"},      \
    {                                                                                              \
        .name = "seed", .type = TUTTI_OPTION_COUNT, .value = "N", .standard = "1", .min = 0,       \
        .max = UINT64_MAX, .help = "of what is drawn: the same seed, the same bytes out"           \
    }

/* What was read of all that; `tasks` is NULL without --tf-config. */
struct tutti_train_servers_question {
    struct tutti_train_servers_ask ask; /* without `train`, `steps` and the list of `losses` */
    struct tutti_tf_tasks *tasks;
    struct tutti_train_losses losses;
};

int tutti_train_servers_read(const struct tutti_args *args,
                             struct tutti_train_servers_question *ret, struct tutti_err *err);
void tutti_train_servers_done(struct tutti_train_servers_question *question);

/* --partition. */
int tutti_train_partition_read(const struct tutti_args *args, struct tutti_partitioning *ret,
                               struct tutti_err *err);

/* The strategy that a TF_CONFIG means; NULL: it was not given, or has one task. */
const char *tutti_train_tasks_strategy(const struct tutti_train_servers_question *question);
/* *topo, with as many hosts as the TF_CONFIG has tasks on; `name` is the strategy's. */
int tutti_train_tasks_machine(const struct tutti_train_servers_question *question, const char *name,
                              struct tutti_topo **topo, struct tutti_err *err);
/* -TUTTI_EINVAL: options of servers, and the strategy has none, or what it cannot do. */
int tutti_train_servers_check(const struct tutti_args *args, bool has_servers,
                              struct tutti_err *err);

/* What the servers came to: a line for people, an object in JSON. */
void tutti_train_servers_print(const struct tutti_train_servers_question *question,
                               const struct tutti_train_servers_answer *answer, FILE *out);
void tutti_train_servers_json(const struct tutti_train_servers_question *question,
                              const struct tutti_train_servers_answer *answer,
                              struct tutti_json *json);

#endif
