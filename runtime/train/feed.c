/* Which examples a rank gets at which step: epochs, shuffling, global batches and their shares. */
#include "runtime/train/feed.h"

#include <assert.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/train/dataset.h"

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- orders ---------------------------------------------------------------------------------- */

enum { FEISTEL_ROUNDS = 4 }; /* each turns both halves */

uint64_t tutti_feed_permute(uint64_t index, uint64_t count, uint64_t seed)
{
    uint32_t bits = 2;
    uint64_t right_mask, left_mask;

    assert(index < count);
    while (bits < 63 && UINT64_C(1) << bits < count)
        bits++;
    right_mask = (UINT64_C(1) << (bits - bits / 2)) - 1;
    left_mask = (UINT64_C(1) << bits / 2) - 1;
    do { /* a cycle that began below `count` comes back there */
        uint64_t right = index & right_mask;
        uint64_t left = index >> (bits - bits / 2);

        for (uint64_t round = 0; round < FEISTEL_ROUNDS; round++) {
            left ^= tutti_random_hash(seed, right, 2 * round, 0) & left_mask;
            right ^= tutti_random_hash(seed, left, 2 * round + 1, 0) & right_mask;
        }
        index = left << (bits - bits / 2) | right;
    } while (index >= count);
    return index;
}

/* Of FILE: the rank's files one after another, `worker`, worker + n, ... */
static uint64_t of_files(const struct tutti_feed *feed, uint64_t index)
{
    uint64_t file = index / feed->file_example_count;

    return (feed->ask.rank + file * feed->ask.rank_count) * feed->file_example_count +
           index % feed->file_example_count;
}

/* Examples in the files of a rank; the last file of all may be shorter than the others. */
static uint64_t file_examples(const struct tutti_feed *feed, uint32_t rank)
{
    uint32_t n = feed->ask.rank_count;
    uint64_t files = tutti_tf_shard_files(feed->file_count, n, rank);
    uint64_t missing = feed->file_count * feed->file_example_count - feed->example_count;

    return files * feed->file_example_count - ((feed->file_count - 1) % n == rank ? missing : 0);
}

/* Examples that a rank goes through in an epoch, where each goes its own way (FILE, OFF). */
static uint64_t own_examples(const struct tutti_feed *feed, uint32_t rank)
{
    return feed->ask.shard == TUTTI_TF_SHARD_FILE ? file_examples(feed, rank) : feed->example_count;
}

uint64_t tutti_feed_example(const struct tutti_feed *feed, const struct tutti_feed_share *share,
                            uint64_t index)
{
    bool is_whole = feed->ask.shard == TUTTI_TF_SHARD_DATA;
    uint64_t count = is_whole ? feed->example_count : own_examples(feed, feed->ask.rank);
    uint64_t at = share->first + index;

    assert(index < share->count);
    assert(at < count);
    if (feed->ask.shuffle)
        at = tutti_feed_permute(at, count,
                                tutti_random_hash(feed->ask.seed, share->position.epoch,
                                                  is_whole ? 0 : feed->ask.rank, 0));
    return feed->ask.shard == TUTTI_TF_SHARD_FILE ? of_files(feed, at) : at;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* What a rank that goes its own way gets at a step of the epoch. */
static struct tutti_tf_part own_part(const struct tutti_feed *feed, uint64_t step, uint32_t rank)
{
    return tutti_tf_shard_part(TUTTI_TF_SHARD_OFF, own_examples(feed, rank), feed->ask.global_batch,
                               feed->ask.rank_count, step, rank);
}

/* The steps of an epoch: until all are through; without the remainder, while all have a full share.
 */
static uint64_t steps_of(const struct tutti_feed *feed)
{
    uint64_t share = divide_up(feed->ask.global_batch, feed->ask.rank_count);
    uint64_t most = 0;
    uint64_t least = UINT64_MAX;

    if (feed->ask.shard == TUTTI_TF_SHARD_DATA)
        return tutti_tf_steps(feed->example_count, feed->ask.global_batch,
                              feed->ask.drop_remainder);
    for (uint32_t rank = 0; rank < feed->ask.rank_count; rank++) {
        uint64_t examples = own_examples(feed, rank);

        most = most > divide_up(examples, share) ? most : divide_up(examples, share);
        least = smaller(least, examples / share);
    }
    return feed->ask.drop_remainder ? least : most;
}

int tutti_feed_init(const struct tutti_feed_ask *ask, const struct tutti_dataset *set,
                    struct tutti_feed *ret, struct tutti_err *err)
{
    struct tutti_feed feed = {
        .ask = *ask,
        .example_count = set->example_count,
        .file_example_count = set->file_example_count,
        .file_count = set->file_count,
    };
    int status;

    assert(ask->rank < ask->rank_count);
    if (ask->global_batch == 0)
        return tutti_fail(err, TUTTI_EINVAL, "a global batch of 0 examples (at least 1)");
    if (set->example_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "the data set has 0 examples (at least 1)");
    status =
        tutti_tf_shard_resolve(ask->shard, set->file_count, ask->rank_count, &feed.ask.shard, err);
    if (status < 0)
        return status;
    feed.epoch_steps = steps_of(&feed);
    if (feed.epoch_steps == 0)
        return tutti_fail(
            err, TUTTI_EINVAL,
            "%llu examples make no whole batch of %llu on %u ranks (a smaller one, or "
            "keep the remainder)",
            (unsigned long long)set->example_count, (unsigned long long)ask->global_batch,
            ask->rank_count);
    *ret = feed;
    return 0;
}

struct tutti_feed_position tutti_feed_at(const struct tutti_feed *feed, uint64_t step)
{
    return (struct tutti_feed_position){.epoch = step / feed->epoch_steps,
                                        .offset =
                                            step % feed->epoch_steps * feed->ask.global_batch};
}

struct tutti_feed_position tutti_feed_next(const struct tutti_feed *feed,
                                           struct tutti_feed_position position)
{
    uint64_t step = position.offset / feed->ask.global_batch + 1;

    if (step == feed->epoch_steps)
        return (struct tutti_feed_position){.epoch = position.epoch + 1};
    position.offset = step * feed->ask.global_batch;
    return position;
}

int tutti_feed_check(const struct tutti_feed *feed, struct tutti_feed_position position,
                     struct tutti_err *err)
{
    if (position.offset % feed->ask.global_batch == 0 &&
        position.offset / feed->ask.global_batch < feed->epoch_steps)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "position %llu of epoch %llu begins no step (a multiple of the global batch "
                      "%llu, below %llu of them)",
                      (unsigned long long)position.offset, (unsigned long long)position.epoch,
                      (unsigned long long)feed->ask.global_batch,
                      (unsigned long long)feed->epoch_steps);
}

struct tutti_feed_share tutti_feed_share(const struct tutti_feed *feed,
                                         struct tutti_feed_position position)
{
    uint64_t step = position.offset / feed->ask.global_batch;
    struct tutti_feed_share share = {.position = position};
    struct tutti_tf_part part;

    assert(step < feed->epoch_steps);
    if (feed->ask.shard == TUTTI_TF_SHARD_DATA) {
        part = tutti_tf_shard_part(TUTTI_TF_SHARD_DATA, feed->example_count, feed->ask.global_batch,
                                   feed->ask.rank_count, step, feed->ask.rank);
        share.global_count =
            smaller(feed->ask.global_batch, feed->example_count - step * feed->ask.global_batch);
    } else {
        part = own_part(feed, step, feed->ask.rank);
        for (uint32_t rank = 0; rank < feed->ask.rank_count; rank++)
            share.global_count += own_part(feed, step, rank).count;
    }
    share.first = part.first;
    share.count = part.count;
    return share;
}
