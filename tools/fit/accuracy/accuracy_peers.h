/* What simpler models forecast for a measured size: the peers that ours has to beat. */
#ifndef TUTTI_TOOLS_FIT_ACCURACY_ACCURACY_PEERS_H
#define TUTTI_TOOLS_FIT_ACCURACY_ACCURACY_PEERS_H

#include "tools/fit/accuracy/accuracy.h"

/* ASTRA-sim's analytical, congestion-unaware network (astra-network-analytical 599a047, ASTRA-sim
 * 518bd51), as its closed form: every collective runs ring by ring, one dimension after the other,
 * dimension 0 the GPUs of a host and dimension 1 the hosts, both as its "Switch". A step in a
 * dimension of N members that moves m bytes takes 2 latencies, the endpoint delay and m / rate, and
 * 3 m / local memory rate where it reduces; m is what is left of the data, divided by N.
 *   reducescatter N - 1 steps a dimension, dimension 0 first, which leaves 1/N for the next;
 *   allgather the same backwards, without reducing; allreduce both; alltoall N - 1 steps of
 *   data / N in each dimension; sendrecv one step of all data in the last.
 * NAN for broadcast and reduce, which it does not have. Constants are those of its examples:
 * 936.25 ns and 1000 ns a link, 10 ns at the endpoint, 1.6 TB/s of memory. Its GB/s are 2^30 bytes
 * a second; here rates are what they are. */
double tutti_astra_us(enum tutti_collective collective, const uint32_t counts[2],
                      const double bytes_per_s[2], uint64_t bytes);

/* The same time as the nearest other platform: among good tables of the same collective, of NCCL or
 * RCCL and another platform, whose sizes reach around the one asked for, that with the least
 * |log2 of the ratio of nodes| + of GPUs a node + of the nominal rate that binds (inside the host
 * on one node, else of the network; 4 where a rate is not known); of equals the first by id.
 * Between two sizes of it the time is interpolated in logarithms. Fills in that forecast of all
 * rows of the table; NAN: there is none. */
int tutti_nearest_forecast(const struct tutti_accuracy *accuracy,
                           struct tutti_accuracy_table *table, struct tutti_err *err);

/* The same time as at other sites with the very same machine: the median of their good tables of
 * the same collective, library and timing whose sizes reach around the one asked for, interpolated
 * as above. What it misses by is how far such machines lie apart: no model of machines can be much
 * better. NAN: nobody else has that machine. */
int tutti_twins_forecast(const struct tutti_accuracy *accuracy, struct tutti_accuracy_table *table,
                         struct tutti_err *err);

#endif
