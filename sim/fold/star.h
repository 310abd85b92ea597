/* Messages between one rank and several others on a machine that is one switch. */
#ifndef TUTTI_SIM_FOLD_STAR_H
#define TUTTI_SIM_FOLD_STAR_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/protocol.h"

struct tutti_err;
struct tutti_sim_opts;

/* What all routes are: a link from a rank to the switch, and one to the other rank. */
struct tutti_star {
    const struct tutti_sim_opts *opts;
    uint64_t out_bytes_per_s; /* of the links, under the protocol */
    uint64_t in_bytes_per_s;
    tutti_ps latency_ps; /* of a message */
    struct tutti_pace pace;
};

/* -TUTTI_ELACK where the machine is not one switch that all ranks see alike. */
int tutti_star_find(const struct tutti_sim_opts *opts, struct tutti_star *ret,
                    struct tutti_err *err);

/* Sends `count` messages of as many bytes between a rank and others, each over a connection of its
 * own: to that rank if `inwards`, else from it. Message i starts at start_ps[i]; of those that
 * start at once the first is first. Plays them on the network model alone and writes when they
 * arrive. */
int tutti_star_play(const struct tutti_star *star, bool inwards, uint32_t count, uint64_t bytes,
                    const tutti_ps *start_ps, tutti_ps *arrive_ps, struct tutti_err *err);

#endif
