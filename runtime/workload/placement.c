/* Variables cut into shards, and shards laid on parameter servers. */
#include "runtime/placement.h"

#include <assert.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/units.h"
#include "runtime/wide.h"

enum { MIN_SHARD_BYTES = 256 * 1024 };

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

int tutti_partitioning_read(const char *text, struct tutti_partitioning *ret, struct tutti_err *err)
{
    static const struct {
        const char *word;
        enum tutti_partitioner kind;
    } kinds[] = {{"fixed:", TUTTI_PARTITION_FIXED},
                 {"min:", TUTTI_PARTITION_MIN_SIZE},
                 {"max:", TUTTI_PARTITION_MAX_SIZE}};

    if (strcmp(text, "none") == 0) {
        *ret = (struct tutti_partitioning){.kind = TUTTI_PARTITION_NONE};
        return 0;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const char *value = text + strlen(kinds[i].word);
        uint64_t number = 0;

        if (strncmp(text, kinds[i].word, strlen(kinds[i].word)) != 0 ||
            tutti_read_size(value, &number, NULL) < 0 || number == 0)
            continue;
        *ret = (struct tutti_partitioning){.kind = kinds[i].kind};
        if (ret->kind == TUTTI_PARTITION_FIXED)
            ret->shards = number;
        else
            ret->shard_bytes = number;
        return 0;
    }
    return tutti_fail(err, TUTTI_EINVAL, "'%.60s' (none, fixed:N, min:SIZE or max:SIZE)", text);
}

uint64_t tutti_partitioning_count(const struct tutti_partitioning *partition, uint64_t rows,
                                  uint64_t bytes)
{
    uint64_t count = 1;

    if (rows <= 1)
        return 1;
    switch (partition->kind) {
    case TUTTI_PARTITION_FIXED:
        count = partition->shards;
        break;
    case TUTTI_PARTITION_MIN_SIZE:
        count = divide_up(bytes, partition->shard_bytes > 0 ? partition->shard_bytes
                                                            : (uint64_t)MIN_SHARD_BYTES);
        count = least(count, partition->shards > 0 ? partition->shards : 1);
        break;
    case TUTTI_PARTITION_MAX_SIZE: {
        uint64_t row_bytes = bytes / rows > 0 ? bytes / rows : 1;
        uint64_t shard_rows = partition->shard_bytes / row_bytes;

        count = divide_up(rows, shard_rows > 0 ? shard_rows : 1);
        if (partition->shards > 0)
            count = least(count, partition->shards);
        break;
    }
    default:
        break;
    }
    count = least(count, rows);
    return count > 0 ? count : 1;
}

static int check(const struct tutti_placement_params *params, uint64_t *ret_shards,
                 struct tutti_err *err)
{
    uint64_t all = 0;
    uint64_t shards = 0;

    if (params->server_count == 0 || params->element_bytes == 0 ||
        params->placement > TUTTI_PLACE_GREEDY || params->partition.kind > TUTTI_PARTITION_MAX_SIZE)
        return tutti_fail(err, TUTTI_EINVAL,
                          "no parameter server, elements of no bytes, or an unknown placement");
    for (uint32_t i = 0; i < params->variable_count; i++) {
        uint64_t bytes = tutti_times(params->elements[i], params->element_bytes);

        if (params->rows[i] > 1 && params->elements[i] % params->rows[i] != 0)
            return tutti_fail(
                err, TUTTI_EINVAL,
                "variable %u: '%llu' elements are no whole number of each of %llu rows", i,
                (unsigned long long)params->elements[i], (unsigned long long)params->rows[i]);
        all = tutti_plus(all, bytes);
        shards = tutti_plus(shards,
                            tutti_partitioning_count(&params->partition, params->rows[i], bytes));
    }
    if (all > INT64_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "variables of more than 2^63 bytes");
    if (shards > TUTTI_SHARDS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "'%llu' shards of variables (at most %d)",
                          (unsigned long long)shards, TUTTI_SHARDS_MAX);
    *ret_shards = shards;
    return 0;
}

static uint32_t server_for(const struct tutti_placement_params *params, uint32_t number,
                           const uint64_t *server_bytes)
{
    uint32_t best = 0;

    if (params->placement == TUTTI_PLACE_ROUND_ROBIN)
        return number % params->server_count;
    for (uint32_t i = 1; i < params->server_count; i++)
        if (server_bytes[i] < server_bytes[best])
            best = i;
    return best;
}

static void place(const struct tutti_placement_params *params, struct tutti_shard *shard,
                  uint64_t *server_bytes)
{
    uint32_t number = 0;

    for (uint32_t i = 0; i < params->variable_count; i++) {
        uint64_t rows = params->rows[i] > 0 ? params->rows[i] : 1;
        uint64_t bytes = params->elements[i] * params->element_bytes;
        uint64_t count = tutti_partitioning_count(&params->partition, rows, bytes);
        uint64_t first = 0;

        for (uint64_t k = 0; k < count; k++) {
            uint64_t shard_rows = rows / count + (k < rows % count);
            uint32_t server = server_for(params, number, server_bytes);

            shard[number++] = (struct tutti_shard){.variable = i,
                                                   .server = server,
                                                   .first_row = first,
                                                   .rows = shard_rows,
                                                   .bytes = bytes / rows * shard_rows};
            server_bytes[server] += bytes / rows * shard_rows;
            first += shard_rows;
        }
        assert(first == rows);
    }
}

int tutti_placed_new(const struct tutti_placement_params *given, struct tutti_placed **ret,
                     struct tutti_err *err)
{
    struct tutti_placement_params params;
    struct tutti_arena *arena;
    struct tutti_placed *placed;
    struct tutti_shard *shard;
    uint64_t *server_bytes = NULL;
    uint64_t shards = 0;
    int status = tutti_take("tutti_placement_params", &params, sizeof(params), given,
                            TUTTI_BYTES_TO(struct tutti_placement_params, elements), err);

    if (status == 0)
        status = check(&params, &shards, err);
    if (status < 0)
        return status;
    arena = tutti_arena_new();
    placed = arena == NULL ? NULL : tutti_arena_take(arena, 1, sizeof(*placed));
    shard = placed == NULL ? NULL : tutti_arena_take(arena, (size_t)shards, sizeof(*shard));
    if (shard != NULL)
        server_bytes = tutti_arena_take(arena, params.server_count, sizeof(*server_bytes));
    if (server_bytes == NULL) {
        tutti_arena_free(arena);
        return tutti_nomem(err);
    }
    place(&params, shard, server_bytes);
    *placed = (struct tutti_placed){.shard_count = (uint32_t)shards,
                                    .shard = shard,
                                    .server_count = params.server_count,
                                    .server_bytes = server_bytes,
                                    .arena = arena};
    *ret = placed;
    return 0;
}

void tutti_placed_free(struct tutti_placed *placed)
{
    if (placed != NULL)
        tutti_arena_free(placed->arena);
}
