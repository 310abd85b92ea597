/* The hosts of a machine as parameter servers see them: cards, and ways from devices to memory. */
#ifndef TUTTI_SIM_TRAIN_HOSTS_H
#define TUTTI_SIM_TRAIN_HOSTS_H

#include "topo/topo.h"

struct tutti_server_hosts {
    uint32_t host_count;
    uint32_t devices;          /* of each */
    uint64_t card_bytes_per_s; /* of one network card; 0: there is none */
    uint64_t
        copy_bytes_per_s; /* from each device to the host's memory, all at once; 0: not known */
    tutti_ps latency_ps;  /* from host to host */
};

/* -TUTTI_EINVAL: hosts are not equal. */
int tutti_server_hosts_of(const struct tutti_topo *topo, struct tutti_server_hosts *ret,
                          struct tutti_err *err);

#endif
