/* Bytes that a rank sends in a training step, counted. */
#include "runtime/traffic.h"

#include <assert.h>

#include "runtime/status.h"
#include "runtime/wide.h"

enum { INDEX_BYTES = 4, SCALE_BYTES = 4, WORTH = 2, DOT_BYTES = 3 * 8 };

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* A rank leaves out one block while reducing and the next one while gathering. Blocks of q and q +
 * 1 elements are spread evenly, so there are two neighbours of q where more than half have q. */
uint64_t tutti_ring_sent_max(uint64_t elements, uint32_t element_bytes, uint32_t rank_count)
{
    uint64_t left_out;

    if (rank_count <= 1)
        return 0;
    left_out = 2 * (elements / rank_count) + (2 * (elements % rank_count) >= rank_count);
    return tutti_times(2 * elements - left_out, element_bytes);
}

/* Of a ring reduce-scatter or all-gather of padded shards. */
static uint64_t half_sent(uint64_t elements, uint32_t element_bytes, uint32_t rank_count)
{
    return tutti_times(divide_up(elements, rank_count) * (rank_count - 1), element_bytes);
}

static int check(const struct tutti_traffic_params *params, struct tutti_err *err)
{
    if (params->rank_count == 0 || params->sharding > TUTTI_SHARD_ZERO3)
        return tutti_fail(err, TUTTI_EINVAL, "traffic of no ranks, or of an unknown sharding");
    if (params->shard_ranks > 0 && params->rank_count % params->shard_ranks != 0)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' ranks a shard group do not divide %u ranks",
                          params->shard_ranks, params->rank_count);
    if (params->local_steps > 0 && params->sharding != TUTTI_SHARD_NONE)
        return tutti_fail(err, TUTTI_EINVAL, "local steps with sharded states");
    return 0;
}

/* States divided over groups of ranks: inside a group reduce-scatter and all-gather, across groups
 * an all-reduce of what each rank has. */
static void add_sharded(const struct tutti_traffic_params *params, uint64_t micro_batches,
                        struct tutti_traffic *traffic)
{
    const uint32_t shards = params->shard_ranks > 0 ? params->shard_ranks : params->rank_count;
    const uint64_t p = params->parameters;
    uint64_t gathers = 1;

    if (params->sharding == TUTTI_SHARD_ZERO3)
        gathers = tutti_times(micro_batches, params->keep_weights ? 1 : 2);
    traffic->all_gather_bytes = tutti_times(half_sent(p, params->weight_bytes, shards), gathers);
    traffic->reduce_scatter_bytes =
        tutti_times(half_sent(p, params->gradient_bytes, shards),
                    params->sharding == TUTTI_SHARD_ZERO1 ? 1 : micro_batches);
    traffic->all_reduce_bytes = tutti_ring_sent_max(divide_up(p, shards), params->gradient_bytes,
                                                    params->rank_count / shards);
}

int tutti_traffic_of(const struct tutti_traffic_params *given, struct tutti_traffic *ret,
                     struct tutti_err *err)
{
    struct tutti_traffic_params params;
    struct tutti_traffic traffic = {.steps = 1};
    uint64_t micro_batches;
    int status = tutti_take("tutti_traffic_params", &params, sizeof(params), given,
                            TUTTI_BYTES_TO(struct tutti_traffic_params, local_steps), err);

    if (status == 0)
        status = check(&params, err);
    if (status < 0)
        return status;
    micro_batches = params.micro_batches > 0 ? params.micro_batches : 1;
    switch (params.sharding) {
    case TUTTI_SHARD_NONE:
        traffic.steps = params.local_steps > 0 ? params.local_steps : 1;
        traffic.all_reduce_bytes =
            tutti_times(tutti_ring_sent_max(params.parameters,
                                            params.local_steps > 0 ? params.weight_bytes
                                                                   : params.gradient_bytes,
                                            params.rank_count),
                        params.eager && params.local_steps == 0 ? micro_batches : 1);
        break;
    default:
        add_sharded(&params, micro_batches, &traffic);
        break;
    }
    traffic.bytes = tutti_plus(traffic.all_reduce_bytes,
                               tutti_plus(traffic.reduce_scatter_bytes, traffic.all_gather_bytes));
    *ret = traffic;
    return 0;
}

static struct tutti_compressed power_sgd(const struct tutti_compressor *compressor, uint64_t rows,
                                         uint64_t columns, uint32_t element_bytes,
                                         uint32_t rank_count)
{
    uint64_t rank = compressor->rank;
    uint64_t worth = compressor->worth > 0 ? compressor->worth : (uint64_t)WORTH;
    uint64_t whole = tutti_times(rows, columns);
    uint64_t less = tutti_times(rank, tutti_plus(rows, columns));

    if (rows <= 1 || columns <= 1 || tutti_times(less, worth) >= whole)
        return (struct tutti_compressed){.payload_bytes = tutti_times(whole, element_bytes),
                                         .sent_bytes =
                                             tutti_ring_sent_max(whole, element_bytes, rank_count),
                                         .collectives = 1};
    return (struct tutti_compressed){
        .payload_bytes = tutti_times(less, element_bytes),
        .sent_bytes = tutti_plus(tutti_ring_sent_max(rank * rows, element_bytes, rank_count),
                                 tutti_ring_sent_max(rank * columns, element_bytes, rank_count)),
        .collectives = 2};
}

/* Recursive halving and doubling between partners: S/2 + S/4 + ... each way, and the dot products.
 */
static struct tutti_compressed adasum(uint64_t elements, uint32_t element_bytes,
                                      uint32_t rank_count)
{
    uint64_t bytes = tutti_times(elements, element_bytes);
    struct tutti_compressed result = {.payload_bytes = bytes};
    uint64_t left = elements;

    for (uint64_t k = 1; k < rank_count; k *= 2) {
        uint64_t half = divide_up(left, 2);

        result.sent_bytes += 2 * half * element_bytes + (uint64_t)DOT_BYTES;
        result.collectives++;
        left = half;
    }
    return result;
}

struct tutti_compressed tutti_compressed_of(const struct tutti_compressor *compressor,
                                            uint64_t rows, uint64_t columns, uint32_t element_bytes,
                                            uint32_t rank_count)
{
    uint64_t elements = tutti_times(rows, columns);
    uint64_t kept = compressor->keep < elements ? compressor->keep : elements;
    uint64_t words = divide_up(elements, 32);
    uint32_t bytes =
        compressor->kind == TUTTI_COMPRESS_CAST ? compressor->element_bytes : element_bytes;

    assert(rank_count > 0);
    switch (compressor->kind) {
    case TUTTI_COMPRESS_TOP_K:
        kept = tutti_times(kept, (uint64_t)element_bytes + INDEX_BYTES);
        return (struct tutti_compressed){.payload_bytes = kept,
                                         .sent_bytes = tutti_times(kept, rank_count - 1),
                                         .collectives = 1};
    case TUTTI_COMPRESS_POWER_SGD:
        return power_sgd(compressor, rows, columns, element_bytes, rank_count);
    case TUTTI_COMPRESS_ONE_BIT:
        return (struct tutti_compressed){
            .payload_bytes = 4 * words + SCALE_BYTES,
            .sent_bytes = tutti_plus(tutti_ring_sent_max(words, 4, rank_count),
                                     2 * (uint64_t)SCALE_BYTES * (rank_count - 1)),
            .collectives = 2};
    case TUTTI_COMPRESS_ADASUM:
        return adasum(elements, element_bytes, rank_count);
    default:
        return (struct tutti_compressed){.payload_bytes = tutti_times(elements, bytes),
                                         .sent_bytes =
                                             tutti_ring_sent_max(elements, bytes, rank_count),
                                         .collectives = 1};
    }
}
