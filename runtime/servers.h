/* Training by parameter servers, for real: variables lie on servers, workers pull them, compute and
 * push gradients, and coordinators (coordinator.h) say who does what next.
 *
 * Each process is a server, a worker or the chief. A server keeps its shards of the variables and
 * the optimizer's moments, and computes nothing beside updates. Server 0 leads: it has the global
 * step, and what it decides of each gradient goes to all servers in one order, so that all apply
 * the same gradients. The chief sets the model up or restores the newest checkpoint, and saves; a
 * chief of its own computes nothing, and without one worker 0 is the chief as well. A snapshot is
 * taken at one place in that order, so it is of one step over all servers, and nobody is stopped
 * for it.
 *
 * A worker goes through all examples in the order of the seed, beginning at its own part of them;
 * its gradient is that of the mean loss over its batch. Asynchronous: each is applied as it comes.
 * Synchronous: the mean of R makes a step. Clipping is of each worker's own gradient. */
#ifndef TUTTI_RUNTIME_SERVERS_H
#define TUTTI_RUNTIME_SERVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/coordinator.h"
#include "runtime/placement.h"
#include "runtime/train.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_err;

enum tutti_servers_role {
    TUTTI_SERVERS_SERVER = 1,
    TUTTI_SERVERS_CHIEF, /* one that computes nothing */
    TUTTI_SERVERS_WORKER,
};

enum { TUTTI_SERVERS_STALENESS_BINS = TUTTI_STALENESS_BINS };

/* A step, as server 0 has made it. */
struct tutti_servers_told {
    uint64_t step;      /* made, with this one */
    uint32_t worker;    /* whose gradient it is; of several, the last */
    uint32_t gradients; /* that made it: 1, or R */
    uint64_t staleness; /* asynchronous: updates between reading the weights and this one */
    uint64_t dropped;   /* gradients so far that were too old */
    struct tutti_sums sums;
    double gradient_norm; /* of the last one */
    double compute_s;     /* likewise: what the worker took */
    double at_s;          /* since server 0 has begun */
};

/* What came of it all. */
struct tutti_servers_result {
    uint64_t steps; /* the global step */
    bool stopped;   /* before its time */
    uint64_t applied;
    uint64_t dropped_stale; /* gradients of too old a step */
    uint64_t dropped_late;  /* of older incarnations, and of episodes that were over */
    uint64_t lost;          /* episodes that were under way */
    uint64_t set_up;        /* times that the model was set up or restored */
    uint64_t staleness_sum;
    uint64_t staleness_max;
    uint64_t staleness[TUTTI_SERVERS_STALENESS_BINS]; /* how many gradients; the last: or more */
    uint32_t worker_count;
    uint64_t *by_worker; /* [worker_count] gradients applied: room of the caller's; or NULL */
};

/* What who watches asks for: a checkpoint beside training (of the chief); one, and the end. */
enum { TUTTI_SERVERS_SAVE_NOW = 1, TUTTI_SERVERS_STOP = 2 };

/* What a worker does in an episode. */
enum tutti_servers_doing { TUTTI_SERVERS_PULLS, TUTTI_SERVERS_COMPUTES, TUTTI_SERVERS_PUSHES };

/* The pace of another machine: an episode's parts take as long as is said here, or, where that is
 * longer, as they do. */
struct tutti_servers_pacing {
    void (*begin)(void *context, enum tutti_servers_doing doing); /* of this worker */
    tutti_ps (*left)(
        void *context);          /* how long what it does takes still, at least; 0: it is over */
    void (*stop)(void *context); /* it is not wanted any more */
    void *context;
};

struct tutti_servers_params {
    size_t size; /* sizeof(struct tutti_servers_params): runtime/api.h */
    /* ---- who this is ---- */
    enum tutti_servers_role role;
    uint32_t index; /* among those of its role */
    uint32_t server_count;
    uint32_t worker_count;
    bool has_chief;             /* of its own; else worker 0 is it */
    const char *const *servers; /* [server_count] HOST:PORT */
    bool has_listen_fd;         /* a server: it listens there already, else at its address */
    int listen_fd;              /* the run's, which closes it */
    const char *secret;         /* NULL or "": none, and loopback addresses alone */
    /* ---- what is trained ---- */
    const struct tutti_workload *model;
    const struct tutti_learner *learner; /* made for one replica and a worker's batch; of servers:
                                            NULL will do */
    uint64_t epoch_steps;                /* of that learner: until a worker has seen all */
    uint32_t micro_batches;              /* 0: 1 */
    struct tutti_update_rule optimizer;
    struct tutti_rate rate;
    double clip_norm; /* 0: none */
    uint64_t seed;
    uint64_t steps;   /* in all, those of a checkpoint included */
    const char *same; /* what all processes must have alike beside this: data, batch; or NULL */
    /* ---- by what rules ---- */
    enum tutti_placement placement;
    struct tutti_partitioning partition;
    bool synchronous;
    uint32_t aggregate; /* synchronous: R; 0: as many as workers */
    enum tutti_late late;
    uint32_t slack; /* asynchronous, as struct tutti_coordinator_params has them */
    uint32_t staleness_max;
    tutti_ps deadline_ps; /* of waits: until who is not there, is lost or silent ends all, by name;
                             0: 30 s */
    /* ---- the chief ---- */
    const char *checkpoint; /* as in struct tutti_trainer_params, and the next three */
    uint64_t save_steps;
    tutti_ps save_ps;
    uint32_t keep;
    /* Each step; < 0 ends all. Steps that come faster than it returns may be left out. */
    int (*told)(void *context, const struct tutti_servers_told *told, struct tutti_err *err);
    /* The weights as they are at `step`, restored or last saved: [elements of all variables]. */
    int (*weights)(void *context, uint64_t step, const float *weights, struct tutti_err *err);
    int (*watch)(void *context); /* of every role, asked again and again: what somebody wants */
    void (*note)(void *context, const char *line); /* for people; of every role */
    void *context;
    const struct tutti_servers_pacing *pacing; /* a worker's; NULL: that of this machine */
};

/* ---- by a word ------------------------------------------------------------------------------- */

/* Whether a strategy is "parameter-server", with options or without. */
bool tutti_servers_strategy(const char *text);
/* "parameter-server,sync=2,late=aborted": sets what it says of the rules, by sync=R,
 * late=queued|fresh|aborted, slack=N, staleness=N, placement=round-robin|greedy and
 * partition=none|fixed:N|min:SIZE|max:SIZE. -TUTTI_EINVAL names what it does not know. */
int tutti_servers_options_read(const char *text, struct tutti_servers_params *ret,
                               struct tutti_err *err);

/* ---- a cluster of TensorFlow's --------------------------------------------------------------- */

struct tutti_arena;
struct tutti_env;

/* What TF_CONFIG says of a cluster with servers, and who of it this process is. */
struct tutti_servers_cluster {
    enum tutti_servers_role role; /* 0: an evaluator, who takes no part */
    uint32_t index;
    uint32_t server_count;
    uint32_t worker_count;
    bool has_chief;
    const char *const *servers; /* [server_count] */
    struct tutti_arena *arena;
};

/* *ret is NULL where TF_CONFIG is not set, or its cluster has no "ps". -TUTTI_EINVAL says what is
 * wrong with it: no worker, an address that is two tasks', a task that is not there. */
int tutti_servers_cluster_read(const struct tutti_env *env, struct tutti_servers_cluster **ret,
                               struct tutti_err *err);
void tutti_servers_cluster_free(struct tutti_servers_cluster *cluster); /* NULL is a no-op */

/* ---- training -------------------------------------------------------------------------------- */

/* Takes part until the last step is made and saved. -TUTTI_ETIME, -TUTTI_EIO: who is missing, lost
 * or silent, by name. *ret is known to those that train, not to servers beside server 0. */
int tutti_servers_train(const struct tutti_servers_params *params, struct tutti_servers_result *ret,
                        struct tutti_err *err);

TUTTI_API_END

#endif
