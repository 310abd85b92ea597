/* TensorFlow's ring all-reduce: as many rings over the same devices as a tensor is divided into. */
#include <stdlib.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/tensorflow.h"
#include "runtime/wide.h"

/* Whether the devices of each task stand together in an order, task by task. */
static bool is_by_task(const uint32_t *order, uint32_t count, uint32_t a_task)
{
    for (uint32_t i = 0; i < count; i++)
        if (order[i] / a_task != i / a_task)
            return false;
    return true;
}

int tutti_tf_ring_reduce(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                         struct tutti_schedule **ret, struct tutti_err *err)
{
    uint32_t n = shape->rank_count;
    uint32_t a_task = shape->level_count > 0 ? shape->level[0] : n;
    struct tutti_tf_cluster cluster = {.task_count = n / a_task};
    uint64_t bytes = tutti_times(params->count, tutti_dtype_bytes(params->dtype));
    int32_t offset[TUTTI_TF_SUBDIVISIONS_MAX];
    struct tutti_coll_params rings = *params;
    struct tutti_shape on = tutti_shape_flat(n);
    uint32_t *device = malloc(cluster.task_count * sizeof(*device));
    uint32_t *orders = NULL;
    const uint32_t *first = NULL;
    int status = device == NULL ? tutti_nomem(err) : 0;

    if (status == 0) {
        for (uint32_t i = 0; i < cluster.task_count; i++)
            device[i] = a_task;
        cluster.device = device;
        rings.channel_count = tutti_tf_subdivisions(&cluster, bytes, 0, offset);
        orders = malloc(rings.channel_count * (size_t)n * sizeof(*orders));
        status = orders == NULL ? tutti_nomem(err) : 0;
    }
    if (status == 0) {
        if (shape->order_count > 0 && is_by_task(shape->orders, n, a_task))
            first = shape->orders;
        for (uint32_t k = 0; k < rings.channel_count; k++)
            tutti_tf_ring_order(&cluster, first, offset[k], orders + (size_t)k * n);
        on.order_count = rings.channel_count;
        on.orders = orders; /* copied */
        status = tutti_coll_generate("ring", &rings, &on, ret, err);
    }
    free(orders);
    free(device);
    return status;
}
