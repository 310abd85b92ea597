/* What the network models share: saturating times and arrays that double. */
#include "sim/net/net.h"

#include <assert.h>

#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/memory/memory.h"

tutti_ps tutti_stretch_ps(tutti_ps ps, uint64_t stretch_q32)
{
    uint64_t more = tutti_muldiv((uint64_t)ps, stretch_q32, UINT64_C(1) << 32);

    assert(ps >= 0);
    return more > (uint64_t)(INT64_MAX - ps) ? INT64_MAX : ps + (tutti_ps)more;
}

double tutti_stretch_bytes(uint64_t bytes, uint64_t stretch_q32)
{
    double stretched = (double)bytes;

    if (stretch_q32 > 0)
        stretched += stretched * ((double)stretch_q32 * 0x1p-32);
    return stretched;
}

/* Conversions rather than floor() and ceil(): those are calls where the processor is not known. */
static bool is_whole(double value)
{
    return value < 0x1p63 && !((double)(int64_t)value < value);
}

tutti_ps tutti_drain_ps(double bytes, double rate)
{
    double ps;
    tutti_ps down_ps;

    assert(bytes >= 0);
    assert(rate > 0);
    if (is_whole(bytes) && is_whole(rate))
        return tutti_wire_ps((uint64_t)bytes, (uint64_t)rate);
    ps = bytes / rate * (double)TUTTI_PS_PER_S;
    ps -= ps * 0x1p-50;
    if (!(ps < 0x1p63))
        return INT64_MAX;
    down_ps = (tutti_ps)ps;
    return (double)down_ps < ps && down_ps < INT64_MAX ? down_ps + 1 : down_ps;
}

struct tutti_net_bucket tutti_net_route_bucket(const struct tutti_net_links *all,
                                               const uint32_t *links, uint32_t link_count)
{
    struct tutti_net_bucket least = {.burst_bytes = 0};

    for (uint32_t i = 0; i < link_count && all->burst_bytes != NULL; i++) {
        uint32_t burst = all->burst_bytes[links[i]];
        uint64_t rate = all->bytes_per_s[links[i]];

        if (burst > 0 && (least.burst_bytes == 0 || burst < least.burst_bytes))
            least.burst_bytes = burst;
        if (burst == 0 && (least.plain_bytes_per_s == 0 || rate < least.plain_bytes_per_s))
            least.plain_bytes_per_s = rate;
    }
    return least;
}

int tutti_grow(void *memory_pointer, uint32_t *capacity, uint64_t needed, size_t size)
{
    return tutti_memory_grow(NULL, memory_pointer, capacity, needed, size);
}

const struct tutti_net_ops *tutti_net_of(enum tutti_model model)
{
    static const struct tutti_net_ops *const models[] = {
        [TUTTI_MODEL_FAIR] = &tutti_net_fair,
        [TUTTI_MODEL_ALPHABETA] = &tutti_net_alphabeta,
    };

    return models[model];
}
