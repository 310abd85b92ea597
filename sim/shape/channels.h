/* On which rings an algorithm runs, and how many channels it gets, if that is left open. */
#ifndef TUTTI_SIM_SHAPE_CHANNELS_H
#define TUTTI_SIM_SHAPE_CHANNELS_H

#include <stdint.h>

struct tutti_coll_params;
struct tutti_err;
struct tutti_predict_memory;
struct tutti_shape;
struct tutti_topo;

/* Fills params->channel_count, if it is 0, and *ret as tutti_host_rings() does, with
 * the memory's orders where there is one, and no more of them than channels; algorithms that do not
 * run on rings keep both. -TUTTI_EINVAL where the algorithm is for other machines. */
int tutti_shape_channels(const struct tutti_topo *topo, struct tutti_predict_memory *memory,
                         const char *algorithm, struct tutti_coll_params *params,
                         struct tutti_shape *ret, uint32_t **ret_orders, struct tutti_err *err);

#endif
