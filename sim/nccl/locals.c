/* Ports near GPUs (2.28.9 topo.cc ncclTopoGetLocal, ncclTopoGetLocalNet, ncclTopoGetLocalGpu). */
#include "sim/nccl/locals.h"

#include <assert.h>

uint32_t tutti_nccl_nearest_nics(const struct tutti_nccl_system *system,
                                 enum tutti_nccl_kind from_kind, uint32_t from,
                                 enum tutti_nccl_kind to_kind, uint32_t *ret)
{
    int64_t rate = 0;
    uint8_t type = TUTTI_PATH_DIS;
    uint32_t count = 0;

    for (uint32_t i = 0; i < system->counts[to_kind]; i++) {
        const struct tutti_nccl_path *path = tutti_nccl_path(system, from_kind, from, to_kind, i);

        if (path->kbyte_per_s > rate || (path->kbyte_per_s == rate && path->type < type)) {
            rate = path->kbyte_per_s;
            type = path->type;
            count = 0;
        }
        if (path->kbyte_per_s == rate && path->type == type)
            ret[count++] = i;
    }
    return count;
}

/* Reverses the bits of a number below a power of two. */
static uint32_t mirror(uint32_t value, uint32_t power)
{
    uint32_t mirrored = 0;

    for (uint32_t bit = 1, to = power >> 1; bit < power; bit <<= 1, to >>= 1)
        if ((value & bit) != 0)
            mirrored |= to;
    return mirrored;
}

uint32_t tutti_nccl_local_net(const struct tutti_nccl_system *system,
                              const struct tutti_nccl_rules *rules, uint32_t gpu, uint32_t channel,
                              uint32_t *scratch)
{
    uint32_t *nets = scratch;
    uint32_t count = tutti_nccl_nearest_nics(system, TUTTI_NCCL_GPU, gpu, TUTTI_NCCL_NET, nets);
    uint32_t dev = tutti_nccl_gpu(system, gpu)->dev;
    uint32_t of_gpu = count;

    assert(count > 0);
    if (rules->nets_policy == TUTTI_NETS_AUTO) {
        uint32_t gpus =
            tutti_nccl_nearest_nics(system, TUTTI_NCCL_NET, nets[0], TUTTI_NCCL_GPU, nets + count);

        assert(gpus > 0);
        of_gpu = (count + gpus - 1) / gpus;
    } else if (rules->nets_policy == TUTTI_NETS_MAX && rules->nets_max < count) {
        of_gpu = rules->nets_max;
    }
    assert(of_gpu > 0);
    if ((count & (count - 1)) == 0)
        dev = mirror(dev, count);
    return nets[(dev + channel % of_gpu) % count];
}

int32_t tutti_nccl_local_gpu(const struct tutti_nccl_system *system,
                             const struct tutti_nccl_rules *rules, uint32_t net, uint32_t *scratch)
{
    uint32_t *gpus = scratch;
    uint32_t count = tutti_nccl_nearest_nics(system, TUTTI_NCCL_NET, net, TUTTI_NCCL_GPU, gpus);

    /* Preferences repeat after as many channels as there are ports, at most. */
    for (uint32_t c = 0; c < TUTTI_NCCL_CHANNELS_MAX && c < system->counts[TUTTI_NCCL_NET]; c++)
        for (uint32_t i = 0; i < count; i++)
            if (tutti_nccl_local_net(system, rules, gpus[i], c, scratch + count) == net)
                return (int32_t)gpus[i];
    return -1;
}
