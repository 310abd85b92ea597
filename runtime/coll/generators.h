/* The generators that the table of algorithms names; each stands in the file of its name. */
#ifndef TUTTI_RUNTIME_COLL_GENERATORS_H
#define TUTTI_RUNTIME_COLL_GENERATORS_H

struct tutti_coll_params;
struct tutti_err;
struct tutti_schedule;
struct tutti_shape;

#define GENERATOR(name)                                                                            \
    int tutti_coll_##name(const struct tutti_coll_params *params, const struct tutti_shape *shape, \
                          struct tutti_schedule **ret, struct tutti_err *err)

GENERATOR(ring);
GENERATOR(ring_bidirectional);
GENERATOR(recursive_doubling);
GENERATOR(halving_doubling);
GENERATOR(halving);
GENERATOR(binomial);
GENERATOR(double_binary_tree);
GENERATOR(chain_tree);
GENERATOR(one_shot);
GENERATOR(two_shot);
GENERATOR(direct);
GENERATOR(hierarchical);
GENERATOR(reduce_broadcast);
GENERATOR(torus);

#undef GENERATOR

#endif
