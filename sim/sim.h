/* The backend `sim`: plays a schedule on a virtual clock over a topology. */
#ifndef TUTTI_SIM_SIM_H
#define TUTTI_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/backend.h"
#include "sim/protocol.h"

TUTTI_API_BEGIN

struct tutti_topo;

enum tutti_model {
    TUTTI_MODEL_FAIR,      /* max-min fair sharing of every link on the route; latency first */
    TUTTI_MODEL_ALPHABETA, /* uncontended: a message takes the route's latency plus bytes over its
                              narrowest link; the first link of the route serves one message at a
                              time */
};

struct tutti_sim_opts {
    size_t size; /* sizeof(struct tutti_sim_opts): runtime/api.h */
    const struct tutti_topo
        *topo; /* borrowed; must have as many ranks as the schedule, and outlive */
    enum tutti_model model;
    const struct tutti_protocol *protocol; /* NULL: none, raw topology latencies and rates */
    uint64_t seed;                         /* of the jitter */
    double jitter;            /* each message's latency and wire time is stretched by a factor drawn
                      uniformly from [1, 1 + jitter]; 0: none */
    const tutti_ps *start_ps; /* borrowed, must outlive; [rank]: when each rank begins, 0 or more;
                                 NULL: all at 0. Nothing of a rank happens before: what is sent to
                                 it waits in the slots. */
    uint64_t reduce_bytes_per_s; /* rate of REDUCE and COPY; 0: free (hidden behind the wire) */
    uint32_t seconds_max; /* 0, or: a play that would take about longer is refused (-TUTTI_ETIME) */
    bool strict; /* what turns out to take longer is given up, too (-TUTTI_ETIME): by what sharing
                    links has taken, no clock is asked */
    bool force;  /* play whatever it takes, in time and in memory */
    bool carry;  /* move and reduce real data; on by itself when play gives buffers */
};

/* Opens the simulator. The virtual clock starts at 0 in every play, whoever begins later, and stops
 * when the last rank ends; iterations are independent and equal unless there is jitter (iteration i
 * draws from seed + i). Nothing is allocated per event. */
int tutti_sim_open(const struct tutti_sim_opts *opts, struct tutti_backend **ret,
                   struct tutti_err *err);

int tutti_model_find(const char *name, enum tutti_model *ret, struct tutti_err *err);
const char *tutti_model_name(enum tutti_model model);

TUTTI_API_END

#endif
