/* Exchanges at distance 1, 2, 4, ... that need no power of two: Bruck's all-gather, the barrier. */
#ifndef TUTTI_RUNTIME_COLL_DISSEMINATION_H
#define TUTTI_RUNTIME_COLL_DISSEMINATION_H

struct tutti_coll_params;
struct tutti_err;
struct tutti_schedule;
struct tutti_shape;

int tutti_dissemination_allgather(const struct tutti_coll_params *params,
                                  const struct tutti_shape *shape, struct tutti_schedule **ret,
                                  struct tutti_err *err);
int tutti_dissemination_barrier(const struct tutti_coll_params *params,
                                const struct tutti_shape *shape, struct tutti_schedule **ret,
                                struct tutti_err *err);

#endif
