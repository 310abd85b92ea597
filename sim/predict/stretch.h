/* Costs a little larger than they are, to see what a prediction hangs on. */
#ifndef TUTTI_SIM_PREDICT_STRETCH_H
#define TUTTI_SIM_PREDICT_STRETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/protocol.h"

/* Parts of a million that are left of rates, and what each message waits more. */
struct tutti_stretch {
    bool launched; /* a launch is paid for */
    uint32_t lane_ppm;
    uint32_t slice_ppm; /* as of a rate: what keeps messages apart lasts the longer */
    uint32_t link_ppm[TUTTI_HOP_COUNT];
    tutti_ps message_ps;
};

/* Nothing is stretched. */
struct tutti_stretch tutti_stretch_none(void);

/* A protocol (or NULL) so stretched, which is then *own; by NULL as it is. */
const struct tutti_protocol *tutti_stretch_costs(const struct tutti_stretch *stretch,
                                                 const struct tutti_protocol *protocol,
                                                 struct tutti_protocol *own);

#endif
