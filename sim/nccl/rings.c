/* Rings that are given; see rings.h. */
#include "sim/nccl/rings.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "sim/nccl/paths.h"

enum { GBYTE_PER_S_MAX = 1000 };

/* "0-1-2-3"; returns where it ends, NULL: it is no ring. */
static const char *read_ring(const char *at, uint8_t *gpus, int64_t *ret_count)
{
    bool seen[TUTTI_NCCL_RING_GPUS_MAX] = {false};
    int64_t count = 0;

    for (;; at++) {
        char *end = NULL;
        long gpu = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : -1;

        if (gpu < 0 || gpu >= TUTTI_NCCL_RING_GPUS_MAX || seen[gpu])
            return NULL;
        seen[gpu] = true;
        gpus[count++] = (uint8_t)gpu;
        at = end;
        if (*at != '-')
            break;
    }
    for (int64_t i = 0; i < count; i++) {
        if (!seen[i])
            return NULL;
    }
    *ret_count = count;
    return at;
}

/* False: not of that form. */
static bool read_all(const char *value, struct tutti_nccl_rings *rings)
{
    char *end = NULL;
    double rate = strtod(value, &end);
    const char *at = end;

    if (at == value || !(rate > 0) || rate > GBYTE_PER_S_MAX || *at != ':')
        return false;
    rings->kbyte_per_s = (int64_t)(rate * 1e6 + 0.5);
    do {
        int64_t count = 0;

        if (rings->count == TUTTI_NCCL_RINGS_MAX)
            return false;
        at = read_ring(at + 1, rings->gpus[rings->count], &count);
        if (at == NULL || (rings->count > 0 && count != rings->gpu_count))
            return false;
        rings->gpu_count = count;
        rings->count++;
    } while (*at == '/');
    return *at == '\0' && rings->gpu_count > 1;
}

int tutti_nccl_read_rings(const char *value, struct tutti_nccl_rings *ret, struct tutti_err *err)
{
    struct tutti_nccl_rings rings = {0};

    if (!read_all(value, &rings))
        return tutti_fail(err, TUTTI_EINVAL,
                          "NCCL_GRAPH_FILE holds no rings: '%s' (no file is read: the GB/s of a "
                          "channel and its GPUs, '12:0-1-2-3/0-3-2-1'; at most %d of %d)",
                          value, TUTTI_NCCL_RINGS_MAX, TUTTI_NCCL_RING_GPUS_MAX);
    *ret = rings;
    return 0;
}

int tutti_nccl_draw_rings(const struct tutti_nccl_system *system,
                          const struct tutti_nccl_rings *rings, struct tutti_arena *arena,
                          struct tutti_nccl_candidate *ret, struct tutti_err *err)
{
    uint32_t gpus = system->counts[TUTTI_NCCL_GPU];
    uint32_t *order;

    assert(rings->count > 0);
    if (system->counts[TUTTI_NCCL_NET] > 0 || gpus != rings->gpu_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "NCCL_GRAPH_FILE: rings of %lld GPUs for a node of %u%s (all GPUs of one "
                          "node)",
                          (long long)rings->gpu_count, gpus,
                          system->counts[TUTTI_NCCL_NET] > 0 ? " of several" : "");
    order = tutti_arena_take(arena, (size_t)rings->count * gpus, sizeof(*order));
    if (order == NULL)
        return tutti_nomem(err);
    *ret = (struct tutti_nccl_candidate){.pattern = TUTTI_PATTERN_RING,
                                         .type_intra = TUTTI_PATH_LOC,
                                         .type_inter = TUTTI_PATH_PIX,
                                         .channels_min = (uint32_t)rings->count,
                                         .channels_max = (uint32_t)rings->count,
                                         .channel_count = (uint32_t)rings->count,
                                         .intra_kbyte_per_s = rings->kbyte_per_s,
                                         .inter_kbyte_per_s = rings->kbyte_per_s,
                                         .gpus = order};
    ret->same_channels = true;
    for (uint32_t c = 0; c < ret->channel_count; c++) {
        const uint8_t *ring = rings->gpus[c];

        ret->same_channels = ret->same_channels && memcmp(ring, rings->gpus[0], gpus) == 0;
        for (uint32_t i = 0; i < gpus; i++) {
            uint8_t type = tutti_nccl_path(system, TUTTI_NCCL_GPU, ring[i], TUTTI_NCCL_GPU,
                                           ring[(i + 1) % gpus])
                               ->type;

            order[c * gpus + i] = ring[i];
            ret->type_intra = type > ret->type_intra ? type : ret->type_intra;
        }
    }
    return 0;
}
