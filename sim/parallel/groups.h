/* What collectives take among the groups of a model that is cut: predicted on the part of the
 * machine that a group is, and remembered by its shape. */
#ifndef TUTTI_SIM_PARALLEL_GROUPS_H
#define TUTTI_SIM_PARALLEL_GROUPS_H

#include "runtime/coll.h"
#include "runtime/parallel.h"
#include "sim/parallel.h"

struct tutti_price_store;

/* How a group lies on the hosts of a machine. */
struct tutti_group_shape {
    struct tutti_axis axis;
    uint32_t on_host;    /* members on each host that it is on; 0: not equally many */
    uint32_t host_count; /* that it is on */
    bool of_gradients;   /* the question's algorithm is for its all-reduces */
};

/* One kind more: tutti_parallel_kv_axis(). */
#define TUTTI_GROUP_KV ((enum tutti_parallel_group)TUTTI_GROUP_COUNT)

struct tutti_groups {
    const struct tutti_parallel_ask *ask;
    struct tutti_price_store *store;
    uint32_t machine; /* its number in the store */
    struct tutti_group_shape shapes[TUTTI_GROUP_COUNT + 1];
};

/* `parallel` is filled in; both arguments outlive the groups. */
int tutti_groups_open(const struct tutti_parallel_ask *ask, const struct tutti_parallel *parallel,
                      struct tutti_groups *ret, struct tutti_err *err);

struct tutti_group_call {
    enum tutti_parallel_group group;
    enum tutti_collective collective;
    uint64_t count;         /* as in struct tutti_coll_params */
    uint32_t element_bytes; /* 1, 2 or 4 */
};

struct tutti_group_price {
    tutti_ps ps;
    tutti_ps wire_ps; /* of it, for which the busiest link is needed: others wait that long */
    uint32_t share;   /* of a device that it holds, of TUTTI_SHARE_ONE */
};

/* What a collective takes that all groups of the kind play at once; 0 among one rank, or for
 * nothing. */
int tutti_groups_price(struct tutti_groups *groups, struct tutti_group_call call,
                       struct tutti_group_price *ret, struct tutti_err *err);

/* A message from each member of a group to the next one, all at once. */
int tutti_groups_hop(const struct tutti_groups *groups, enum tutti_parallel_group group,
                     uint64_t bytes, tutti_ps *ret, struct tutti_err *err);

#endif
