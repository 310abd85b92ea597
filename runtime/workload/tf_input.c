/* Which examples go to which worker and replica, as tf.data rebatches and shards them. */
#include "runtime/status.h"
#include "runtime/tensorflow.h"

#include <assert.h>

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

uint64_t tutti_tf_steps(uint64_t examples, uint64_t global_batch, bool drop_remainder)
{
    assert(global_batch > 0);
    return drop_remainder ? examples / global_batch : divide_up(examples, global_batch);
}

/* [first, first + count) of what there is of `whole`. */
static struct tutti_tf_part part_within(struct tutti_tf_part whole, uint64_t skip, uint64_t count)
{
    uint64_t left = skip < whole.count ? whole.count - skip : 0;

    return (struct tutti_tf_part){.first = whole.first + whole.count - left,
                                  .count = count < left ? count : left};
}

struct tutti_tf_part tutti_tf_rebatch(uint64_t examples, uint64_t global_batch,
                                      uint32_t replica_count, uint64_t step, uint32_t replica)
{
    struct tutti_tf_part all = {.count = examples};
    struct tutti_tf_part batch;
    uint64_t share;

    assert(replica < replica_count);
    if (step >= tutti_tf_steps(examples, global_batch, false))
        return (struct tutti_tf_part){.first = examples};
    batch = part_within(all, step * global_batch, global_batch);
    share = divide_up(batch.count, replica_count);
    return part_within(batch, share * replica, share);
}

int tutti_tf_shard_resolve(enum tutti_tf_shard shard, uint64_t files, uint32_t worker_count,
                           enum tutti_tf_shard *ret, struct tutti_err *err)
{
    if (shard == TUTTI_TF_SHARD_AUTO)
        shard = files >= worker_count ? TUTTI_TF_SHARD_FILE : TUTTI_TF_SHARD_DATA;
    if (shard == TUTTI_TF_SHARD_FILE && files < worker_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%llu' files for %u workers: sharding by file needs one each (or DATA)",
                          (unsigned long long)files, worker_count);
    *ret = shard;
    return 0;
}

struct tutti_tf_part tutti_tf_shard_part(enum tutti_tf_shard shard, uint64_t items,
                                         uint64_t global_batch, uint32_t worker_count,
                                         uint64_t step, uint32_t worker)
{
    struct tutti_tf_part all = {.count = items};
    uint64_t share = divide_up(global_batch, worker_count);

    assert(shard == TUTTI_TF_SHARD_OFF || shard == TUTTI_TF_SHARD_DATA);
    if (shard == TUTTI_TF_SHARD_DATA)
        return tutti_tf_rebatch(items, global_batch, worker_count, step, worker);
    if (step >= divide_up(items, share))
        return (struct tutti_tf_part){.first = items};
    return part_within(all, step * share, share);
}

uint64_t tutti_tf_shard_files(uint64_t files, uint32_t worker_count, uint32_t worker)
{
    assert(worker < worker_count);
    return files / worker_count + (worker < files % worker_count);
}
