/* An ordered map from byte ranges to what they stand for; exact for buffers of any size. */
#include "runtime/schedule/value.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool tutti_pieces_add(struct tutti_pieces *pieces, struct tutti_piece piece)
{
    struct tutti_piece *before = pieces->count == 0 ? NULL : &pieces->items[pieces->count - 1];

    assert(piece.offset < piece.end);
    assert(before == NULL || before->end == piece.offset);
    if (before != NULL && before->set == piece.set && before->last == piece.last &&
        before->source + (before->end - before->offset) == piece.source) {
        before->end = piece.end;
        return true;
    }
    if (pieces->count == pieces->capacity) {
        size_t capacity = pieces->capacity == 0 ? 4 : pieces->capacity * 2;
        struct tutti_piece *items = realloc(pieces->items, capacity * sizeof(*items));

        if (items == NULL)
            return false;
        pieces->items = items;
        pieces->capacity = capacity;
    }
    pieces->items[pieces->count++] = piece;
    return true;
}

size_t tutti_value_find(const struct tutti_value_map *map, uint64_t offset)
{
    size_t low = 0;
    size_t high = map->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (map->items[middle].piece.end <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Makes room so that `removed` segments at `first` become `added`, whose contents are undefined. */
static bool resize_gap(struct tutti_value_map *map, size_t first, size_t removed, size_t added)
{
    size_t count = map->count - removed + added;

    assert(first + removed <= map->count);
    if (count > map->capacity) {
        size_t capacity = count * 2 + 8;
        struct tutti_segment *items = realloc(map->items, capacity * sizeof(*items));

        if (items == NULL)
            return false;
        map->items = items;
        map->capacity = capacity;
    }
    if (map->count > first + removed)
        memmove(map->items + first + added, map->items + first + removed,
                (map->count - first - removed) * sizeof(*map->items));
    map->count = count;
    return true;
}

/* Drops the bytes of a segment before `offset`. */
static void cut_front(struct tutti_segment *segment, uint64_t offset)
{
    segment->piece.source += offset - segment->piece.offset;
    segment->piece.offset = offset;
}

/* Ends a segment at `offset` and begins another there, if one unread goes across. */
static bool split_unread(struct tutti_value_map *map, uint64_t offset)
{
    size_t i = tutti_value_find(map, offset);

    if (i == map->count || map->items[i].piece.offset >= offset || map->items[i].read)
        return true;
    if (!resize_gap(map, i, 0, 1))
        return false;
    map->items[i] = map->items[i + 1];
    map->items[i].piece.end = offset;
    cut_front(&map->items[i + 1], offset);
    return true;
}

int tutti_value_read(struct tutti_value_map *map, uint64_t offset, uint64_t end,
                     struct tutti_pieces *out, uint64_t *ret_hole)
{
    uint64_t at = offset;

    if (!split_unread(map, offset) || !split_unread(map, end))
        return -1;
    for (size_t i = tutti_value_find(map, offset); at < end; i++) {
        struct tutti_piece piece;

        if (i == map->count || map->items[i].piece.offset > at) {
            *ret_hole = at;
            return 0;
        }
        map->items[i].read = true;
        piece = map->items[i].piece;
        piece.source += at - piece.offset;
        piece.offset = at - offset;
        at = piece.end < end ? piece.end : end;
        piece.end = at - offset;
        if (!tutti_pieces_add(out, piece))
            return -1;
    }
    return 1;
}

bool tutti_value_write(struct tutti_value_map *map, uint64_t offset, uint64_t end,
                       const struct tutti_pieces *pieces, uint32_t lane, uint64_t step)
{
    size_t first = tutti_value_find(map, offset);
    size_t after = first;
    struct tutti_segment left = {{0}, 0, 0, false};
    struct tutti_segment right = {{0}, 0, 0, false};
    bool has_left = first < map->count && map->items[first].piece.offset < offset;
    bool has_right;

    while (after < map->count && map->items[after].piece.offset < end)
        after++;
    has_right = after > first && map->items[after - 1].piece.end > end;
    if (has_left) {
        left = map->items[first];
        left.piece.end = offset;
    }
    if (has_right) {
        right = map->items[after - 1];
        cut_front(&right, end);
    }
    if (!resize_gap(map, first, after - first, has_left + pieces->count + has_right))
        return false;
    if (has_left)
        map->items[first++] = left;
    for (size_t i = 0; i < pieces->count; i++) {
        struct tutti_segment segment = {pieces->items[i], step, lane, false};

        segment.piece.offset += offset;
        segment.piece.end += offset;
        map->items[first++] = segment;
    }
    if (has_right)
        map->items[first] = right;
    return true;
}

const struct tutti_segment *tutti_value_unread(const struct tutti_value_map *map, uint64_t offset,
                                               uint64_t end)
{
    for (size_t i = tutti_value_find(map, offset);
         i < map->count && map->items[i].piece.offset < end; i++)
        if (!map->items[i].read)
            return &map->items[i];
    return NULL;
}
