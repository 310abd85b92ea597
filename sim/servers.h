/* Parameter servers in virtual time: workers that pull weights, compute and push gradients, as a
 * coordinator says, over the network cards of their hosts; elastic groups likewise; and
 * what failures leave of a run. */
#ifndef TUTTI_SIM_SERVERS_H
#define TUTTI_SIM_SERVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/coordinator.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_err;

/* ---- servers --------------------------------------------------------------------------------- */

/* A worker or a server that is lost, or comes: for the first time, or back. */
struct tutti_servers_change {
    bool is_server;
    bool comes;
    bool leaves; /* elastic: at the end of the step, as who has notice of it */
    uint32_t index;
    tutti_ps at_ps;
};

struct tutti_servers_opts {
    size_t size;                             /* sizeof(struct tutti_servers_opts): runtime/api.h */
    const struct tutti_coordinator_ops *ops; /* async or sync */
    struct tutti_coordinator_params params;  /* members are the workers; last_step is needed */
    uint32_t host_count;                     /* >= 1, at most TUTTI_SERVERS_HOSTS_MAX */
    const uint32_t *worker_host;             /* [worker]; NULL: worker w on host w */
    uint32_t server_count;                   /* >= 1 */
    const uint32_t *server_host;  /* [server]; NULL: server s on the host after all workers' + s */
    const uint64_t *server_bytes; /* [server]: of the variables that it keeps */
    uint64_t host_bytes_per_s;    /* of a host's network card, each way at once */
    uint64_t local_bytes_per_s;   /* within a host, each worker by itself; 0: takes no time */
    uint64_t
        apply_bytes_per_s;    /* at which a server takes gradients, one after another; 0: at once */
    tutti_ps latency_ps;      /* of a pull, and of a push */
    tutti_ps compute_ps;      /* of an episode: forward and backward */
    const uint32_t *pace_ppm; /* NULL, or [worker]: its computing takes so many millionths */
    double jitter; /* sigma of the logarithm of what computing takes, drawn anew each time */
    uint64_t seed;
    tutti_ps mtbf_ps;    /* mean time until a worker is lost, or, if supervised, any; 0: never */
    tutti_ps restart_ps; /* until it is back */
    /* Relaxed consistency (staged variables of tf_cnn_benchmarks): an episode computes with the
     * weights that the one before pulled, and pulls meanwhile. They are older by an episode than
     * the staleness counted. */
    bool relaxed;
    /* Instead of `mtbf_ps`, and in order of time: who is lost and who comes. Whose first change is
     * to come is not there at the start; who is lost and does not come again is gone. */
    const struct tutti_servers_change *changes;
    uint32_t change_count;
    /* Worker 0 is the chief of a supervisor: it sets the model up or reads the newest checkpoint
     * and sends it to the servers, then all begin. Without it or a server nobody goes on, and steps
     * since the checkpoint are made again. It saves every so often (0: at the end alone), by
     * pulling all weights beside what it does, and writes them; and at the end, which is waited
     * for. Not supervised, a server may not be lost. Updates go on while a checkpoint is pulled;
     * what it takes to have one of a single step all the same is not modelled. */
    bool supervised;
    tutti_ps save_every_ps;
    uint64_t save_bytes_per_s; /* that are written, or read; 0: takes no time */
};

enum { TUTTI_SERVERS_HOSTS_MAX = 4096, TUTTI_SERVERS_FLOWS_MAX = 1 << 14 };

struct tutti_served {
    tutti_ps total_ps;
    /* Mean of the global steps of the second half; where processes change by a list, or are
     * supervised, of all. */
    tutti_ps step_ps;
    uint64_t steps;
    double gradients_per_s; /* applied, in that time */
    double computing;       /* the part of their time that workers compute, mean */
    double busiest_card;    /* of the time: of the network card that is most used, one way */
    uint64_t failures;
    struct tutti_coordinator_stats stats;
    /* The parts of their time that workers wait for weights, and for gradients to be sent; for
     * servers to take gradients after others; for the coordinator (the slowest of a synchronous
     * step); and that they are not there. Mean. */
    double pulling;
    double pushing;
    double queued;
    double idle;
    double away;
    double busiest_server; /* the part of the time that servers of a host take gradients, most */
    /* Supervised: */
    uint64_t checkpoints;
    uint64_t repeated_steps; /* that were made, and lost with the chief or a server */
    tutti_ps standing_ps;    /* while nobody trained, the first set-up included */
};

/* Transfers under way share the cards of their hosts max-min fairly, as a fluid; the weights that a
 * worker gets are those of when its pull began. The same options,
 * the same result. -TUTTI_EINVAL for what makes no sense, -TUTTI_ECHECK if it stands still. */
int tutti_servers_play(const struct tutti_servers_opts *opts, struct tutti_served *ret,
                       struct tutti_err *err);

/* What the network takes of a synchronous step when gradients go to the servers and weights come
 * back variable by variable, so that both ways of every card are busy at once: the bytes over the
 * busiest one. Beside computing, of which it may hide a part. (tf_cnn_benchmarks'
 * distributed_replicated: with k hosts, each a worker, g of them with a server, (k - 1 + g - 1)/g
 * of all bytes; 2(k-1)/k where g = k.) */
int tutti_servers_exchange(const struct tutti_servers_opts *opts, tutti_ps *ret_ps,
                           struct tutti_err *err);

/* ---- a pacer --------------------------------------------------------------------------------- */

/* What the workers of real servers have to wait for, to go at the pace of such a machine: where
 * each transfer under way is, by the caller's clock. It lies in one block of memory, which
 * processes may share at one address; one of them at a time calls. It takes no memory beside. */
struct tutti_servers_pacer;

enum tutti_servers_pace { TUTTI_PACE_PULL, TUTTI_PACE_COMPUTE, TUTTI_PACE_PUSH };

size_t tutti_servers_pacer_bytes(const struct tutti_servers_opts *opts);
/* In that many bytes, aligned as malloc() does; nothing to be freed. `relaxed` is not heeded, nor
 * who is lost. */
int tutti_servers_pacer_init(void *memory, const struct tutti_servers_opts *opts,
                             struct tutti_servers_pacer **ret, struct tutti_err *err);
/* `now` never runs back. What a worker begins ends what it was at. */
void tutti_servers_pacer_begin(struct tutti_servers_pacer *pacer, uint32_t worker,
                               enum tutti_servers_pace pace, tutti_ps now);
void tutti_servers_pacer_stop(struct tutti_servers_pacer *pacer, uint32_t worker, tutti_ps now);
/* How much longer it takes at least; 0: it has ended. */
tutti_ps tutti_servers_pacer_left(struct tutti_servers_pacer *pacer, uint32_t worker, tutti_ps now);

/* ---- elastic groups -------------------------------------------------------------------------- */

/* What a group takes: a step, and the state from one member to all. */
struct tutti_elastic_price {
    tutti_ps step_ps;
    tutti_ps broadcast_ps;
    uint64_t samples; /* of a step */
};

struct tutti_elastic_opts {
    size_t size; /* sizeof(struct tutti_elastic_opts): runtime/api.h */
    /* Members at most, and at least; the last step. All who are there at the start are the first
     * group. */
    struct tutti_coordinator_params params;
    /* Of a group of so many; asked once for each size that there is. */
    int (*price)(void *context, uint32_t members, struct tutti_elastic_price *ret,
                 struct tutti_err *err);
    void *context;
    tutti_ps rendezvous_ps; /* until a group whose members have changed has met */
    tutti_ps detect_ps;     /* until the others know of a loss, for which they wait in a step */
    tutti_ps save_every_ps; /* 0: nothing is saved, and who is there last has all */
    tutti_ps save_ps;       /* beside the steps */
    tutti_ps restore_ps;    /* where nobody is left who has the weights */
    const struct tutti_servers_change *changes; /* as in struct tutti_servers_opts, of workers */
    uint32_t change_count;
    tutti_ps mtbf_ps; /* instead: likewise */
    tutti_ps restart_ps;
    uint64_t seed;
};

struct tutti_elastic {
    tutti_ps total_ps;
    uint64_t steps;
    uint64_t samples;
    uint64_t failures;
    uint64_t left;       /* members that went with notice */
    uint64_t groups;     /* that met */
    uint64_t broken_off; /* steps, by a loss */
    uint64_t repeated;   /* steps that were done and lost, since nobody had them any more */
    uint64_t checkpoints;
    uint32_t least; /* members of a group, and most */
    uint32_t most;
    tutti_ps rendezvous_ps; /* all of them, */
    tutti_ps broadcast_ps;  /* and who comes is given the state; restored, where nobody has it */
    tutti_ps broken_ps;     /* steps that were broken off, until that is known */
    tutti_ps waiting_ps;    /* with fewer members than the least */
    struct tutti_coordinator_stats stats;
};

/* Synchronous steps of whoever is there, as the elastic coordinator says: each change of the group
 * costs a rendezvous and, if somebody comes, a broadcast; a step in which somebody is lost is made
 * again. -TUTTI_ECHECK if too few are left for ever. */
int tutti_elastic_play(const struct tutti_elastic_opts *opts, struct tutti_elastic *ret,
                       struct tutti_err *err);

/* ---- failures -------------------------------------------------------------------------------- */

struct tutti_goodput_opts {
    size_t size;         /* sizeof(struct tutti_goodput_opts): runtime/api.h */
    tutti_ps step_ps;    /* of a training step */
    uint64_t steps;      /* to be done */
    uint64_t save_steps; /* a checkpoint every so many; 0: none */
    tutti_ps save_ps;    /* during which training stands still */
    tutti_ps mtbf_ps;    /* of the whole job: mean time between failures; 0: none */
    tutti_ps
        restart_ps; /* from a failure until training goes on: to notice, to start, to restore */
    uint64_t seed;
};

struct tutti_goodput {
    double total_s; /* a year is more picoseconds than there is room for */
    double goodput; /* the part of it in which steps were done that were not lost */
    uint64_t failures;
    uint64_t checkpoints;
    uint64_t repeated_steps; /* done again after failures */
};

/* A job under a supervisor's coordinator, with failures drawn from the seed; causes, spares and
 * checkpoints beside training: sim/long_run.h. -TUTTI_ECHECK if it
 * fails more often than it gets on. */
int tutti_goodput_play(const struct tutti_goodput_opts *opts, struct tutti_goodput *ret,
                       struct tutti_err *err);

/* The same expected: Daly 2006, equation 20, with M the mean time between failures and a checkpoint
 * of `save_ps` after each `every_ps` of work; and the interval that Young 1974 has as best, sqrt(2
 * save M). */
double tutti_goodput_expected(tutti_ps every_ps, tutti_ps save_ps, tutti_ps mtbf_ps,
                              tutti_ps restart_ps);
tutti_ps tutti_goodput_interval(tutti_ps save_ps, tutti_ps mtbf_ps);

TUTTI_API_END

#endif
