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

struct tutti_step;
struct tutti_topo;

enum tutti_model {
    TUTTI_MODEL_FAIR,      /* max-min fair sharing of every link on the route; latency first */
    TUTTI_MODEL_ALPHABETA, /* uncontended: a message takes the route's latency plus bytes over its
                              narrowest link; the first link of the route serves one message at a
                              time */
};

/* Memory of the caller's, for a machine without a heap: neither open nor play then takes any other,
 * and times are the same. One backend at a time; closed, it may serve the next.
 *
 *     static _Alignas(16) char bytes[200000];
 *     struct tutti_memory memory = {.start = bytes, .bytes = sizeof(bytes)};
 *     struct tutti_sim_opts opts = {.size = sizeof(opts), .topo = machine, .memory = &memory};
 *
 * It serves plays without data and without a record (else -TUTTI_ELACK), of any model and size; of
 * a schedule that cannot be played to its end a play says that (-TUTTI_ECHECK), and not why. What
 * does not fit ends with -TUTTI_ENOMEM, and `needed` is then more than `bytes`, if perhaps not all.
 * How much it takes in all a play tells where there is a heap: with `start` NULL memory comes from
 * there, and `needed` is afterwards what the same play needs, to the byte where pointers are as
 * long. Machine and schedule are made on the heap, or are constants. */
enum { TUTTI_MEMORY_ALIGN = 16 };
struct tutti_memory {
    void *start; /* a multiple of TUTTI_MEMORY_ALIGN */
    size_t bytes;
    size_t needed; /* the most that was taken or asked for, at any time so far */
    size_t used;   /* these are the simulator's, and 0 at first */
    size_t last_at;
    void *last;
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
    struct tutti_memory *memory; /* borrowed, must outlive; NULL: the heap */
    bool flows; /* play by data flow, many times as fast as by the clock, or not (-TUTTI_ELACK) */
    /* NULL, or what a rank's COMPUTE takes, 0 or more, whatever the step says: of devices that are
     * not alike. Then every step of every rank is played by the engine, which is slower. */
    tutti_ps (*compute_ps)(const void *context, uint32_t rank, const struct tutti_step *step);
    const void *compute_context; /* borrowed, must outlive */
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
