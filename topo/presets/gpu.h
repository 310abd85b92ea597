/* What the GPU presets share: the network keys of their SPECs, and small hosts built by hand. */
#ifndef TUTTI_TOPO_PRESETS_GPU_H
#define TUTTI_TOPO_PRESETS_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "topo/presets/cluster.h"
#include "topo/presets/plan.h"
#include "topo/presets/preset.h"

/* Reads nodes=, niclat=, hop=, group=, spines=, over=, net= and sharp=, and the rate of a NIC by
 * the key `nic`; refuses too many devices. */
struct tutti_cluster tutti_gpu_read_cluster(struct tutti_spec *spec, uint32_t host_devices,
                                            const char *nic);
/* Reads gdr=: whether NICs reach the memory of GPUs; auto: unless the network is of sockets. */
bool tutti_gpu_read_gdr(struct tutti_spec *spec, const struct tutti_cluster *cluster);

/* Keeps the refusal of a GPU that is not in the catalogue. */
void tutti_gpu_refuse_model(struct tutti_spec *spec, const char *name);
/* Peak and memory rate of a device of that model. */
void tutti_gpu_model_figures(const struct tutti_gpu_model *model, struct tutti_node *node);

/* One host under construction: the first failure is kept and later calls do nothing, so that a
 * machine reads as a list of its parts. */
struct tutti_gpu_host {
    struct tutti_topo_builder *builder;
    struct tutti_err *err;
    int status;
};

struct tutti_gpu_host tutti_gpu_host_begin(struct tutti_spec *spec, struct tutti_err *err);
/* Adds `name` followed by `number`, without one if UINT32_MAX; returns its node index. `like` gives
 * kind, peak and memory rate. */
uint32_t tutti_gpu_host_node(struct tutti_gpu_host *host, const struct tutti_node *like,
                             const char *name, uint32_t number);
/* Joins two nodes both ways, as `like` says. */
void tutti_gpu_host_cable(struct tutti_gpu_host *host, const struct tutti_link *like, uint32_t a,
                          uint32_t b);
/* Joins them one way. */
void tutti_gpu_host_link(struct tutti_gpu_host *host, const struct tutti_link *like, uint32_t from,
                         uint32_t to);
/* Declares the rings of the host; `orders` is borrowed for the call. */
void tutti_gpu_host_rings(struct tutti_gpu_host *host, uint32_t rank_count, const uint32_t *orders,
                          uint32_t order_count);
/* Freezes the host, puts the cluster of it into `builder`, and frees what is its own. */
int tutti_gpu_host_end(struct tutti_gpu_host *host, const struct tutti_cluster *cluster,
                       struct tutti_topo_builder *builder);

#endif
