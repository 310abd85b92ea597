/* Flow: when a message may be taken and when a step is over. Where nothing is held back (flow.c),
 * at once: whoever waits is woken. Where a machine is emulated (emulate/paced_flow.c), when its
 * clock says so. Private to runtime/exec. */
#ifndef TUTTI_RUNTIME_EXEC_HOST_FLOW_H
#define TUTTI_RUNTIME_EXEC_HOST_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/units.h"

struct tutti_connection;
struct tutti_lane_state;
struct tutti_slot;
struct tutti_thread_stage;

struct tutti_flow_ops {
    bool holds; /* a message may be here and not yet be taken; a step done and not yet over */

    /* Between ranks of this process. A message lies in its slot for its receiver; */
    void (*sent)(const struct tutti_thread_stage *stage, struct tutti_connection *connection,
                 struct tutti_slot *slot);
    /* whether that in `slot`, taken next, may be taken; the receiver has taken it. */
    bool (*arrived)(const struct tutti_thread_stage *stage,
                    const struct tutti_connection *connection, const struct tutti_slot *slot);
    void (*released)(const struct tutti_thread_stage *stage, struct tutti_connection *connection);

    /* Likewise to and from other processes: a message is about to be handed to the transport, may
     * be taken now that all of it is here, has been taken; and how many have been taken there. */
    void (*sent_away)(const struct tutti_thread_stage *stage, struct tutti_connection *connection,
                      struct tutti_slot *slot);
    bool (*came)(const struct tutti_thread_stage *stage, const struct tutti_connection *connection);
    void (*took)(const struct tutti_thread_stage *stage, struct tutti_connection *connection);
    uint64_t (*taken_away)(const struct tutti_thread_stage *stage,
                           const struct tutti_connection *connection);

    /* Whether the lane's step, which takes time of its own, is over; the first call starts it. */
    bool (*is_over)(const struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state);
    tutti_ps (*time)(
        const struct tutti_thread_stage *stage); /* for records: the wait set's clock */
};

extern const struct tutti_flow_ops tutti_plain_flow;
extern const struct tutti_flow_ops tutti_paced_flow; /* with the stage's pacer */

#endif
