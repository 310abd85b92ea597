/* What the network models share: saturating times and arrays that double. */
#include "sim/net/net.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

tutti_ps tutti_stretch_ps(tutti_ps ps, uint64_t stretch_q32)
{
    tutti_u128 more = ((tutti_u128)(uint64_t)ps * stretch_q32) >> 32;

    assert(ps >= 0);
    return more > (tutti_u128)(INT64_MAX - ps) ? INT64_MAX : ps + (tutti_ps)more;
}

int tutti_grow(void *memory_pointer, uint32_t *capacity, uint64_t needed, size_t size)
{
    uint64_t count = *capacity > 0 ? *capacity : 16;
    void *memory;

    assert(size > 0);
    if (needed <= *capacity)
        return 0;
    while (count < needed)
        count *= 2;
    if (count >= UINT32_MAX || count > SIZE_MAX / size)
        return -TUTTI_ENOMEM;
    memcpy(&memory, memory_pointer, sizeof(memory));
    memory = realloc(memory, (size_t)count * size);
    if (memory == NULL)
        return -TUTTI_ENOMEM;
    memcpy(memory_pointer, &memory, sizeof(memory));
    *capacity = (uint32_t)count;
    return 0;
}
