/* Training by parameter servers predicted: workers and servers over the hosts of a machine, under
 * the coordinators that real processes have (coordinator.h), in virtual time (servers.h). */
#ifndef TUTTI_SIM_TRAIN_SERVERS_H
#define TUTTI_SIM_TRAIN_SERVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/placement.h"
#include "sim/servers.h"
#include "sim/train.h"

TUTTI_API_BEGIN

struct tutti_err;

struct tutti_train_servers_ask {
    size_t size; /* sizeof(struct tutti_train_servers_ask): runtime/api.h */
    /* The machine is that of the workers: equal hosts, or, where it has none, each device one.
     * What it says of collectives is not heeded. A measured step of it is one of a device, without
     * pull and push. */
    const struct tutti_train_ask *train;
    uint32_t worker_count; /* each has as many devices of one host; 0: one a host, or, on a single
                              host, one a device */
    uint32_t server_count; /* 0: as many as hosts */
    const uint32_t *worker_host; /* NULL, or [worker]: in order of the devices; as many on each */
    const uint32_t *server_host; /* NULL, or [server]: hosts from that number on, in turn; hosts
                                    beyond those of the machine have no workers */
    bool apart;                  /* `server_host` NULL: each server on a host of its own */
    bool synchronous;            /* else each gradient is applied as it comes */
    uint32_t aggregate;          /* synchronous: gradients that make a step, R; 0: of all workers */
    enum tutti_late late;        /* synchronous: what becomes of those that come later */
    bool relaxed; /* staged variables: the pull is hidden behind the step before (servers.h) */
    /* Synchronous, of all workers: gradients go and weights come back variable by variable, so that
     * cards are busy both ways at once, as tutti_servers_exchange() has it. */
    bool by_variable;
    enum tutti_placement placement;
    struct tutti_partitioning partition; /* MIN_SIZE, `shards` 0: at most one a server */
    uint64_t card_bytes_per_s; /* of a host, each way; 0: of one of its network cards, as an address
                                   of TF_CONFIG is that of one */
    uint64_t apply_bytes_per_s; /* at which a server takes gradients; 0: at once */
    double jitter;              /* as in struct tutti_servers_opts */
    uint64_t seed;
    uint32_t slack;         /* asynchronous, as in struct tutti_coordinator_params */
    uint32_t staleness_max; /* likewise */
    /* Training from its begin to its end, with losses (servers.h): so many steps; 0: as many as
     * show its pace, with no losses and nobody who supervises. */
    uint64_t steps;
    const struct tutti_servers_change *changes;
    uint32_t change_count;
    tutti_ps mtbf_ps;
    tutti_ps restart_ps;
    bool supervised;
    tutti_ps save_every_ps;
    uint64_t save_bytes_per_s;
    /* NULL, or shown what is played, for who plays it otherwise as well (a pacer); what it points
     * to lasts as long as the call. < 0 ends all. */
    int (*show)(void *context, const struct tutti_servers_opts *opts, struct tutti_err *err);
    void *show_context;
};

struct tutti_train_servers_answer {
    /* A step is a synchronous one; asynchronous: one of every worker, as long as a worker takes.
     * Its reduce_ps is what workers wait for servers and the network. */
    struct tutti_train_answer step;
    uint32_t worker_count;
    uint32_t worker_devices; /* of each */
    uint32_t server_count;
    uint32_t host_count; /* of workers, and servers apart */
    uint64_t card_bytes_per_s;
    uint64_t bytes;          /* that all servers keep, and a worker pulls, and pushes */
    uint32_t fullest_server; /* the one that keeps most, */
    uint64_t fullest_bytes;  /* so much */
    uint32_t busiest_host;   /* whose card carries most, */
    double busiest_card;     /* such a part of the time, one way */
    double gradients_per_s;  /* that are applied */
    double staleness;        /* updates between reading weights and updating them, mean */
    uint64_t applied;        /* while it was simulated: gradients, and */
    uint64_t dropped;        /* those left aside as stale or late */
    double updates_per_s;    /* of the global step: steps, or gradients that are applied */
    /* All that virtual time says, statistics of staleness and waits by cause among them. */
    struct tutti_served served;
};

/* Weights and gradients are of 32 bits; of embeddings rows are moved, those that a batch touches.
 * Devices of a worker hand their gradients to its host, and have weights from there, while they
 * work: a pass takes as long as the longer of the two. A pull and a push take two ways through the
 * network each. Memory is that of a device with all weights, whole tables included.
 * -TUTTI_EINVAL for what does not fit the machine. */
int tutti_train_servers_predict(const struct tutti_train_servers_ask *ask,
                                struct tutti_train_servers_answer *ret, struct tutti_err *err);

TUTTI_API_END

#endif
