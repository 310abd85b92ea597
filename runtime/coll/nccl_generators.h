/* The generators behind tutti_nccl_generate; each stands in the file of its name. */
#ifndef TUTTI_RUNTIME_COLL_NCCL_GENERATORS_H
#define TUTTI_RUNTIME_COLL_NCCL_GENERATORS_H

struct tutti_chains;
struct tutti_err;
struct tutti_nccl_params;
struct tutti_schedule;
struct tutti_shape;

/* `shape` is flat, of at least two ranks. */
#define GENERATOR(name)                                                                       \
    int tutti_nccl_##name(const struct tutti_nccl_params *params,                             \
                          const struct tutti_chains *chains, const struct tutti_shape *shape, \
                          struct tutti_schedule **ret, struct tutti_err *err)

GENERATOR(ring);
GENERATOR(tree);
GENERATOR(pat);
GENERATOR(p2p);

#undef GENERATOR

#endif
