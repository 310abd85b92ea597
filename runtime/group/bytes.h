/* Numbers as bytes of a message: the most significant first. Private to runtime/group. */
#ifndef TUTTI_RUNTIME_GROUP_BYTES_H
#define TUTTI_RUNTIME_GROUP_BYTES_H

#include <stdint.h>

static inline void tutti_put32(uint8_t *to, uint32_t value)
{
    to[0] = (uint8_t)(value >> 24);
    to[1] = (uint8_t)(value >> 16);
    to[2] = (uint8_t)(value >> 8);
    to[3] = (uint8_t)value;
}

static inline void tutti_put64(uint8_t *to, uint64_t value)
{
    tutti_put32(to, (uint32_t)(value >> 32));
    tutti_put32(to + 4, (uint32_t)value);
}

static inline uint32_t tutti_get32(const uint8_t *from)
{
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

static inline uint64_t tutti_get64(const uint8_t *from)
{
    return (uint64_t)tutti_get32(from) << 32 | tutti_get32(from + 4);
}

#endif
