/* A plugin of two algorithms, the second of which has the name of one that there is. */
#include "runtime/coll.h"

static int generate(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                    struct tutti_schedule **ret, struct tutti_err *err)
{
    return tutti_coll_generate("direct", params, shape, ret, err);
}

static const struct tutti_algorithm algorithms[] = {
    {.size = sizeof(struct tutti_algorithm),
     .name = "mine",
     .collectives = 1u << TUTTI_ALLTOALL,
     .generate = generate},
    {.size = sizeof(struct tutti_algorithm),
     .name = "ring",
     .collectives = 1u << TUTTI_ALLTOALL,
     .generate = generate},
};

extern const struct tutti_plugin tutti_plugin;

const struct tutti_plugin tutti_plugin = {.size = sizeof(struct tutti_plugin),
                                          .version = TUTTI_PLUGIN_VERSION,
                                          .algorithm_count = 2,
                                          .algorithms = algorithms};
