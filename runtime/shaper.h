/* A shaper: says when messages would arrive on another machine than this one, so that a backend can
 * hold them back until then. A backend may be given one; the simulator has one (sim/shaper.h). */
#ifndef TUTTI_RUNTIME_SHAPER_H
#define TUTTI_RUNTIME_SHAPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_shaper;
struct tutti_step;

#define TUTTI_SHAPER_NONE UINT32_MAX

/* The clock is the caller's, and that of the other machine: `now` never runs back between two
 * resets. Connections and messages are small numbers that the caller gives out. Only open, begin
 * and connect take memory. One thread at a time calls; nothing here waits or calls back. */
struct tutti_shaper_ops {
    size_t size; /* sizeof(struct tutti_shaper_ops) */
    void (*close)(struct tutti_shaper *shaper);
    /* A schedule of so many ranks comes next: forgets all connections. Messages will have numbers
     * less than message_count. -TUTTI_EINVAL if the machine has not as many ranks. */
    int (*begin)(struct tutti_shaper *shaper, uint32_t rank_count, uint32_t message_count,
                 struct tutti_err *err);
    /* Declares the next connection: 0, 1, 2, ... */
    int (*connect)(struct tutti_shaper *shaper, uint32_t from, uint32_t to, uint32_t lane,
                   struct tutti_err *err);
    void (*reset)(struct tutti_shaper *shaper); /* forgets all messages; the clock may run back */
    /* A message of `bytes` of data sets out; its number is free again once it has arrived. */
    void (*start)(struct tutti_shaper *shaper, uint32_t connection, uint32_t message,
                  uint64_t bytes, tutti_ps now);
    /* When something happens next, not before `now`; false: nothing is under way. */
    bool (*next)(struct tutti_shaper *shaper, tutti_ps now, tutti_ps *ret);
    /* Works off what happens up to `now`: a message that has arrived, one a call, or
     * TUTTI_SHAPER_NONE once there is none left. Those of one connection arrive in order. */
    uint32_t (*arrived)(struct tutti_shaper *shaper, tutti_ps now);
    /* How long a rank's REDUCE, COPY and COMPUTE take. */
    tutti_ps (*step_ps)(const struct tutti_shaper *shaper, uint32_t rank,
                        const struct tutti_step *step);
};

/* A shaper embeds this struct as its first member. */
struct tutti_shaper {
    const struct tutti_shaper_ops *ops;
    tutti_ps launch_ps; /* from the start of a run until its first steps */
};

void tutti_shaper_close(struct tutti_shaper *shaper); /* NULL is a no-op */

TUTTI_API_END

#endif
