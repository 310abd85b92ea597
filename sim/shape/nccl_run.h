/* What NCCL would run, as a schedule: model A's choice laid out on the chains of its search. */
#ifndef TUTTI_SIM_SHAPE_NCCL_RUN_H
#define TUTTI_SIM_SHAPE_NCCL_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/nccl/in_network.h"

struct tutti_algorithm;
struct tutti_ask;
struct tutti_err;
struct tutti_protocol;
struct tutti_schedule;

struct tutti_nccl_run {
    const struct tutti_algorithm *algorithm; /* "nccl:ring" and the like; has no generator */
    const char *protocol;                    /* "ll", "ll128", "simple" */
    bool chain; /* a broadcast or reduce, of which no rank waits for the last */
    /* What protocols cost where it is something else: each link carries data one way alone, and not
     * from GPU to GPU (tutti_protocol_one_way); GPUs of one host reach each other's memory through
     * a CPU (tutti_protocol_of_peers); sends and receives (tutti_protocol_of_messages). NULL: as
     * it is. */
    struct tutti_protocol (*own_costs)(const struct tutti_protocol *protocol);
    uint64_t channel_bytes_per_s; /* what a channel moves, of a tree either way, as in
                                     tutti_protocol_of_channels(); 0: as the links allow */
    uint32_t part_count;    /* of a chunk, which go on by themselves in a tree by LL or LL128, as
                                  in tutti_protocol_of_lines(); 0: it is none */
    tutti_ps copy_ps;       /* what copying its own block adds to a rank's all-to-all */
    uint32_t channel_count; /* that carry data */
    uint32_t proxy_num;     /* over proxy_den: messages that a rank's thread for networks */
    uint32_t proxy_den;     /* sends, and receives, while a connection carries one; or 0 */
    bool early;             /* tutti_nccl_version_is_early() */
    struct tutti_schedule *schedule;    /* NULL: the switches add up, which is no schedule, but */
    struct tutti_in_network in_network; /* a pipeline; its costs are still to be filled in */
};

/* Is a name "nccl", whatever NCCL picks, or "nccl:" and one of its algorithms? */
bool tutti_is_nccl(const char *name);

/* The name of one of them that lasts; "" for others. */
const char *tutti_nccl_run_name(const char *name);

/* Asks for ask->algorithm, of those names, and makes the schedule, which the caller frees.
 * -TUTTI_EINVAL where nothing may run, or the machine or the parameters leave NCCL no choice;
 * -TUTTI_ELACK for what it would run but is not modelled yet. */
int tutti_nccl_run_new(const struct tutti_ask *ask, struct tutti_nccl_run *ret,
                       struct tutti_err *err);

/* Whether a protocol costs such a run something else than others, which *ret then is: with what its
 * channels add to a launch, which grows with their number whatever the collective, and between
 * hosts with what a message waits for the others of its rank's proxy. */
bool tutti_nccl_run_costs(const struct tutti_nccl_run *run, const struct tutti_protocol *protocol,
                          struct tutti_protocol *ret);

/* The same of a broadcast or reduce, with a schedule of two in a row, to keep time only. */
int tutti_nccl_run_twice(const struct tutti_ask *ask, struct tutti_nccl_run *ret,
                         struct tutti_err *err);

#endif
