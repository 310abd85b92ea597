/* A group of a machine's ranks as a machine of its own: fewer hosts, or fewer GPUs a host. */
#ifndef TUTTI_SIM_TRAIN_PART_H
#define TUTTI_SIM_TRAIN_PART_H

#include "runtime/schedule.h"
#include "topo/topo.h"

/* The machine on which one group of an axis plays while the others do on theirs, of presets that
 * have hosts: consecutive ranks of whole hosts; or of one host; or the ranks of equal number of
 * whole hosts, with their share of the network cards. 1: made; 0: it is none of these;
 * -TUTTI_ENOMEM. */
int tutti_part_of(const struct tutti_topo *topo, const struct tutti_axis *axis,
                  struct tutti_topo **ret);

/* The machine of so many ranks on each of so many hosts, with their share of the network cards; all
 * ranks, or some of a switch, are on one host. As above. */
int tutti_part_of_hosts(const struct tutti_topo *topo, uint32_t on_host, uint32_t host_count,
                        struct tutti_topo **ret);

/* Whether any ranks are to each other as all are: the devices of one switch. */
bool tutti_part_is_flat(const struct tutti_topo *topo);

#endif
