/* What was asked of a footprint, with what is usual filled in. */
#ifndef TUTTI_SIM_FOOTPRINT_PARAMS_H
#define TUTTI_SIM_FOOTPRINT_PARAMS_H

struct tutti_err;
struct tutti_footprint_params;

/* Fills in what was left at 0; -TUTTI_EINVAL for what does not go together. */
int tutti_footprint_params_complete(const struct tutti_footprint_params *params,
                                    struct tutti_footprint_params *ret, struct tutti_err *err);

#endif
