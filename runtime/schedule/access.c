/* Segments of a buffer that is covered without gaps: splitting and merging. */
#include "runtime/schedule/access.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

size_t tutti_access_split(struct tutti_access_map *map, uint64_t offset)
{
    size_t low = 0;
    size_t high = map->count;

    while (low < high) { /* the first that ends after `offset` */
        size_t middle = low + (high - low) / 2;

        if (map->items[middle].end <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == map->count || map->items[low].offset == offset)
        return low;
    if (map->count == map->capacity) {
        size_t capacity = map->capacity * 2 + 8;
        struct tutti_access_segment *items = realloc(map->items, capacity * sizeof(*items));

        if (items == NULL)
            return SIZE_MAX;
        map->items = items;
        map->capacity = capacity;
    }
    memmove(map->items + low + 1, map->items + low, (map->count - low) * sizeof(*map->items));
    map->count++;
    map->items[low].end = offset;
    map->items[low + 1].offset = offset;
    return low + 1;
}

void tutti_access_merge(struct tutti_access_map *map, size_t first, size_t count)
{
    size_t after = first + count;

    assert(count > 0);
    assert(after <= map->count);
    map->items[first].end = map->items[after - 1].end;
    memmove(map->items + first + 1, map->items + after, (map->count - after) * sizeof(*map->items));
    map->count -= count - 1;
}
