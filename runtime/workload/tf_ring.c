/* TensorFlow's rings with their subdivisions, and its broadcast trees. */
#include <assert.h>
#include <stdlib.h>

#include "runtime/tensorflow.h"

uint32_t tutti_tf_device_count(const struct tutti_tf_cluster *cluster)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < cluster->task_count; i++)
        count += cluster->device[i];
    return count;
}

void tutti_tf_ring_walk(uint32_t count, const uint32_t *strength, uint32_t *ret_order)
{
    assert(count > 0);
    for (uint32_t i = 0; i < count; i++)
        ret_order[i] = i; /* visited ones first, then the others in ascending order */
    for (uint32_t i = 1; i < count; i++) {
        const uint32_t *links = strength + (size_t)ret_order[i - 1] * count;
        uint32_t best = i;
        uint32_t next;

        for (uint32_t j = i + 1; j < count; j++)
            if (links[ret_order[j]] > links[ret_order[best]])
                best = j;
        next = ret_order[best];
        for (uint32_t j = best; j > i; j--)
            ret_order[j] = ret_order[j - 1];
        ret_order[i] = next;
    }
}

uint32_t tutti_tf_subdivisions(const struct tutti_tf_cluster *cluster, uint64_t bytes,
                               int32_t a_device, int32_t *ret_offset)
{
    uint32_t devices = tutti_tf_device_count(cluster);
    uint32_t a_task = devices / cluster->task_count;
    uint64_t most = a_device < 0 ? 1 : (uint64_t)a_task * (a_device == 0 ? 2 : (uint32_t)a_device);
    uint32_t count = 0;
    uint32_t stride;

    assert(devices > 0);
    most = most > TUTTI_TF_SUBDIVISIONS_MAX ? TUTTI_TF_SUBDIVISIONS_MAX : most;
    do {
        count++;
    } while (bytes / ((uint64_t)devices * count) > TUTTI_TF_CHUNK_BYTES_MAX && count < most);
    stride = a_task / count > 0 ? a_task / count : 1;
    for (uint32_t i = 0; i < count; i++)
        ret_offset[i] = i % 2 == 0 ? (int32_t)(stride * i) : -(int32_t)(stride * i);
    return count;
}

void tutti_tf_ring_order(const struct tutti_tf_cluster *cluster, const uint32_t *order,
                         int32_t offset, uint32_t *ret_order)
{
    uint32_t turn = offset < 0 ? 0 - (uint32_t)offset : (uint32_t)offset;
    uint32_t first = 0;

    for (uint32_t t = 0; t < cluster->task_count; t++) {
        uint32_t count = cluster->device[t];

        for (uint32_t i = 0; i < count; i++) {
            uint32_t from = (uint32_t)(((uint64_t)i + turn) % count);
            uint32_t at = first + (offset < 0 ? count - 1 - from : from);

            ret_order[first + i] = order == NULL ? at : order[at];
        }
        first += count;
    }
}

uint32_t tutti_tf_tree_parent(uint32_t count, uint32_t source, uint32_t rank)
{
    assert(source < count);
    assert(rank < count);
    if (rank == source)
        return TUTTI_TF_NONE;
    if (source == 0)
        return (rank - 1) / 2;
    return rank / 2 > 0 ? rank / 2 - 1 : source;
}

void tutti_tf_broadcast_parents(const struct tutti_tf_cluster *cluster, uint32_t source,
                                uint32_t *ret_parent)
{
    uint32_t source_task = 0;
    uint32_t source_first = 0;
    uint32_t first = 0;

    while (source - source_first >= cluster->device[source_task]) {
        source_first += cluster->device[source_task++];
        assert(source_task < cluster->task_count);
    }
    for (uint32_t t = 0; t < cluster->task_count; t++) {
        uint32_t head = t == source_task ? source - source_first : 0;
        uint32_t above = tutti_tf_tree_parent(cluster->task_count, source_task, t);
        uint32_t above_first = 0;

        for (uint32_t i = 0; i < cluster->device[t]; i++) {
            uint32_t parent = tutti_tf_tree_parent(cluster->device[t], head, i);

            ret_parent[first + i] = parent == TUTTI_TF_NONE ? TUTTI_TF_NONE : first + parent;
        }
        for (uint32_t i = 0; above != TUTTI_TF_NONE && i < above; i++)
            above_first += cluster->device[i];
        if (above != TUTTI_TF_NONE) /* the task's head has it from the head of another task */
            ret_parent[first + head] = above == source_task ? source : above_first;
        first += cluster->device[t];
    }
}
