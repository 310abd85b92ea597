/* A small cluster that stands for a large one of the same hosts and switches. */
#ifndef TUTTI_TOPO_BOUNDS_SAMPLE_H
#define TUTTI_TOPO_BOUNDS_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

struct tutti_err;
struct tutti_topo;

/* Hosts under the same leaves, and such groups: three are enough to tell what is the same, what is
 * the next, and what is any other. No majority of three is another than that of more, so switches
 * lie between groups of ranks in the sample where they do in the machine. */
enum { TUTTI_SAMPLE_HOSTS = 3, TUTTI_SAMPLE_GROUPS = 3 };

struct tutti_sample {
    const struct tutti_topo *machine;
    struct tutti_topo *topo; /* 3 hosts of each of the first 3 groups, and all spines */
    uint32_t devices;        /* of a host */
    uint32_t root;           /* a rank of the machine that has one of its own; 0 at first */
};

/* Is the machine a cluster by rule, of full groups, larger than the sample, with no link changed?
 * Rates may be, unless they matter, too. */
bool tutti_sample_fits(const struct tutti_topo *topo, bool rates_matter);
int tutti_sample_open(struct tutti_sample *sample, const struct tutti_topo *topo,
                      struct tutti_err *err);
void tutti_sample_close(struct tutti_sample *sample);

/* The rank of the machine that a rank of the sample stands for: in the first two hosts of the first
 * two groups that of the same place, else the lowest there is beside sample->root; and back. */
uint32_t tutti_sample_rank(const struct tutti_sample *sample, uint32_t rank);
uint32_t tutti_sample_of_rank(const struct tutti_sample *sample, uint32_t rank);

/* The link of the machine that a link of host 0, or of its NICs, stands for; the first uplink. */
uint32_t tutti_sample_link(const struct tutti_sample *sample, uint32_t link);
uint32_t tutti_sample_uplink(const struct tutti_sample *sample);

#endif
