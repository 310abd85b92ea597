/* NCCL's wire protocols LL, LL128 and Simple as costs on top of the topology. */
#ifndef TUTTI_SIM_PROTOCOL_H
#define TUTTI_SIM_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/units.h"

struct tutti_err;

enum { TUTTI_HOP_NVLINK, TUTTI_HOP_PCI, TUTTI_HOP_NET, TUTTI_HOP_COUNT };

/* A protocol adds a launch cost once, a cost to each message by the slowest kind of link on its
 * route, and sends data_bytes * wire_num / wire_den bytes over the wire. Figures: NCCL 2.28 tuning
 * tables (base latency, hardware latency, wire format). This is the seed of the cost model; it is
 * not yet calibrated against measurements. */
struct tutti_protocol {
    const char *name;                     /* "ll", "ll128", "simple" */
    tutti_ps launch_ps;                   /* once a run */
    tutti_ps message_ps[TUTTI_HOP_COUNT]; /* added to the latency of each message */
    uint32_t wire_num;
    uint32_t wire_den;
};

/* The table, and one by name; "none" is found too and gives NULL: no protocol costs. */
const struct tutti_protocol *tutti_protocols(size_t *ret_count);
int tutti_protocol_find(const char *name, const struct tutti_protocol **ret, struct tutti_err *err);

#endif
