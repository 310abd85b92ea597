/* Rings for hosts with several NICs, where the machine names none: one a NIC. */
#ifndef TUTTI_SIM_SHAPE_HOST_RINGS_H
#define TUTTI_SIM_SHAPE_HOST_RINGS_H

#include <stdint.h>

struct tutti_err;
struct tutti_shape;
struct tutti_topo;

/* Copies the shape of the topology to *ret, with orders added if it has none and its hosts are
 * alike and have more than one NIC. *ret_orders is the memory of added orders, or NULL; the caller
 * frees it with free() when the shape is no longer used. */
int tutti_host_rings(const struct tutti_topo *topo, struct tutti_shape *ret, uint32_t **ret_orders,
                     struct tutti_err *err);

#endif
