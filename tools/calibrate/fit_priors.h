/* What a fit knows of a value before it sees a table: where it begins, whom it is like, and how far
 * it may stray. Names are "GPU.LINK.PROTOCOL.QUANTITY", as in sim/calib.h. */
#ifndef TUTTI_TOOLS_CALIBRATE_FIT_PRIORS_H
#define TUTTI_TOOLS_CALIBRATE_FIT_PRIORS_H

#include <stdint.h>

#include "runtime/status.h"
#include "sim/calib.h"

struct tutti_fit_parts {
    char gpu[14], link[14], protocol[14], quantity[18];
};

struct tutti_fit_parts tutti_fit_split(const char *name);

/* Which links a class of link is of: "nvlink", "pcie", "net", "nvls", "root" or
 * "peer". */
const char *tutti_fit_group(const char *link);

/* What a value shares its first level with, and general values are for: its group, but the class of
 * link alone where that begins elsewhere, as a lane of TCP tells nothing of other networks'. */
const char *tutti_fit_sharers(const struct tutti_fit_parts *parts);

uint8_t tutti_fit_protocol(const char *name);

/* Where it begins; 0: it is not fitted. */
double tutti_fit_start(const struct tutti_fit_parts *parts, const char *group);

/* What it is more than. A launch is no less than 2.5 us, half of the 5 us that the shortest
 * operation of NCCL's rings and trees took (good tables of traces/measured/); without it launches
 * of 0.2 us made up for what channels and steps were fitted too high. A step within a host is no
 * less than 0.3 us, half of NCCL's own 0.6 for LL on NVLink (tuning.cc, hwLat), and between hosts
 * than 1 us, about what one message of RDMA takes (assumed); without it steps of 5 ns did. 0:
 * nothing. */
double tutti_fit_least(const struct tutti_fit_parts *parts);

/* The most that it may be. */
double tutti_fit_most(const struct tutti_fit_parts *parts, const char *group);

/* How far, as a standard deviation of its logarithm, a parameter of a level may stray. */
double tutti_fit_freedom(const char *quantity, const char *group, const char *protocol, int level);

/* What is given and not fitted. */
int tutti_fit_base(struct tutti_calib **ret, struct tutti_err *err);

#endif
