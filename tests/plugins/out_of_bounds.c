/* A plugin whose generator copies past the end of its output. */
#include "runtime/coll.h"

static int generate(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                    struct tutti_schedule **ret, struct tutti_err *err)
{
    const struct tutti_schedule_desc desc = {.name = "past",
                                             .contract = {.collective = params->collective,
                                                          .dtype = params->dtype,
                                                          .op = params->op,
                                                          .count = params->count},
                                             .rank_count = shape->rank_count,
                                             .lane_count = 1};
    struct tutti_step step = tutti_step_copy((struct tutti_buf_at){TUTTI_BUF_OUT, 1 << 30},
                                             (struct tutti_buf_at){TUTTI_BUF_IN, 0}, 4);
    struct tutti_builder *builder = 0;
    int status = tutti_builder_new(&desc, &builder, err);

    if (status < 0)
        return status;
    tutti_builder_add(builder, 0, 0, &step, 0);
    return tutti_builder_finish(builder, ret, err);
}

static const struct tutti_algorithm algorithms[] = {{.size = sizeof(struct tutti_algorithm),
                                                     .name = "past",
                                                     .collectives = 1u << TUTTI_ALLREDUCE,
                                                     .generate = generate}};

extern const struct tutti_plugin tutti_plugin;

const struct tutti_plugin tutti_plugin = {.size = sizeof(struct tutti_plugin),
                                          .version = TUTTI_PLUGIN_VERSION,
                                          .algorithm_count = 1,
                                          .algorithms = algorithms};
