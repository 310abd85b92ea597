/* Rings for hosts with several NICs, so that all of these carry as much. */
#ifndef TUTTI_SIM_SHAPE_HOST_RINGS_H
#define TUTTI_SIM_SHAPE_HOST_RINGS_H

#include <stdbool.h>
#include <stdint.h>

struct tutti_err;
struct tutti_shape;
struct tutti_topo;

/* Copies the shape of the topology to *ret, with orders of its own if the hosts are alike and have
 * more than one NIC, and rings that the machine declares go from host to host, each alike.
 * *ret_orders is the memory of these orders, or NULL; the caller frees it with free() when the
 * shape is no longer used. */
int tutti_host_rings(const struct tutti_topo *topo, struct tutti_shape *ret, uint32_t **ret_orders,
                     struct tutti_err *err);

/* Are there several hosts of several ranks, all alike, that reach each other by NICs? */
bool tutti_hosts_have_nics(const struct tutti_topo *topo);

#endif
