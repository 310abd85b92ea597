/* Where the bytes of each buffer lie, by who touched them when; see memory.h. */
#include "sim/local/memory.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/wide.h"

enum { BUFFERS = 3 }; /* in, out, scratch */

static uint64_t buffer_of(uint32_t rank, unsigned buf)
{
    assert(buf >= TUTTI_BUF_IN);
    assert(buf <= TUTTI_BUF_SCRATCH);
    return (uint64_t)rank * BUFFERS + (buf - TUTTI_BUF_IN);
}

/* ---- where steps begin and end --------------------------------------------------------------- */

struct borders {
    uint64_t *offsets;
    size_t count;
    size_t capacity;
};

static int add_border(struct borders *borders, uint64_t offset)
{
    if (borders->count == borders->capacity) {
        size_t capacity = borders->capacity == 0 ? 64 : 2 * borders->capacity;
        uint64_t *larger = realloc(borders->offsets, capacity * sizeof(*larger));

        if (larger == NULL)
            return -TUTTI_ENOMEM;
        borders->offsets = larger;
        borders->capacity = capacity;
    }
    borders->offsets[borders->count++] = offset;
    return 0;
}

static int add_range(struct borders *all, uint32_t rank, unsigned buf, uint64_t offset,
                     uint64_t bytes)
{
    struct borders *borders;
    int status;

    if (bytes == 0 || buf < TUTTI_BUF_IN || buf > TUTTI_BUF_SCRATCH)
        return 0;
    borders = &all[buffer_of(rank, buf)];
    status = add_border(borders, offset);
    return status == 0 ? add_border(borders, offset + bytes) : status;
}

static int add_steps(struct borders *all, const struct tutti_schedule *schedule, uint32_t rank,
                     uint32_t lane)
{
    struct tutti_cursor cursor;
    const struct tutti_step *step;
    int status = 0;

    tutti_cursor_open(&cursor, schedule, rank, lane);
    while (status == 0 && (step = tutti_cursor_next(&cursor)) != NULL) {
        if (step->kind == TUTTI_COMPUTE)
            continue;
        status = add_range(all, rank, step->dst_buf, step->dst_offset, step->bytes);
        if (status == 0)
            status = add_range(all, rank, step->src_buf, step->src_offset, step->bytes);
        if (status == 0)
            status = add_range(all, rank, step->acc_buf, step->acc_offset, step->bytes);
    }
    return status;
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

static void sort_borders(struct borders *borders)
{
    size_t kept = 0;

    if (borders->count == 0)
        return;
    qsort(borders->offsets, borders->count, sizeof(*borders->offsets), compare);
    for (size_t i = 0; i < borders->count; i++) {
        if (kept == 0 || borders->offsets[i] != borders->offsets[kept - 1])
            borders->offsets[kept++] = borders->offsets[i];
    }
    borders->count = kept;
}

static int make_segments(struct local_memory *memory, struct borders *all, uint64_t buffer_count)
{
    uint64_t total = 0;

    memory->first = calloc(tutti_size(buffer_count + 1), sizeof(*memory->first));
    if (memory->first == NULL)
        return -TUTTI_ENOMEM;
    for (uint64_t b = 0; b < buffer_count; b++) {
        sort_borders(&all[b]);
        memory->first[b] = total;
        total += all[b].count > 0 ? all[b].count - 1 : 0;
    }
    memory->first[buffer_count] = total;
    memory->segments = calloc(tutti_size(total + 1), sizeof(*memory->segments));
    memory->touched =
        calloc(tutti_size((total + 1) * memory->processor_count), sizeof(*memory->touched));
    memory->own_count = calloc(memory->processor_count, sizeof(uint64_t));
    memory->saved_ps = calloc(memory->rank_count, sizeof(double));
    memory->current = calloc(memory->rank_count, sizeof(uint64_t));
    if (memory->segments == NULL || memory->touched == NULL || memory->own_count == NULL ||
        memory->saved_ps == NULL || memory->current == NULL)
        return -TUTTI_ENOMEM;
    for (uint64_t b = 0; b < buffer_count; b++) {
        struct local_segment *segment = memory->segments + memory->first[b];

        for (size_t i = 0; i + 1 < all[b].count; i++)
            segment[i] = (struct local_segment){.offset = all[b].offsets[i],
                                                .bytes = all[b].offsets[i + 1] - all[b].offsets[i]};
    }
    return 0;
}

int tutti_local_memory_open(const struct tutti_schedule *schedule, uint32_t processor_count,
                            struct local_memory *ret, struct tutti_err *err)
{
    uint64_t buffer_count = (uint64_t)schedule->rank_count * BUFFERS;
    struct local_memory memory = {.processor_count = processor_count,
                                  .rank_count = schedule->rank_count};
    struct borders *all = calloc(tutti_size(buffer_count), sizeof(*all));
    int status = all == NULL ? -TUTTI_ENOMEM : 0;

    for (uint32_t r = 0; status == 0 && r < schedule->rank_count; r++)
        for (uint32_t l = 0; status == 0 && l < schedule->lane_count; l++)
            status = add_steps(all, schedule, r, l);
    if (status == 0)
        status = make_segments(&memory, all, buffer_count);
    for (uint64_t b = 0; all != NULL && b < buffer_count; b++)
        free(all[b].offsets);
    free(all);
    if (status < 0) {
        tutti_local_memory_close(&memory);
        return tutti_nomem(err);
    }
    *ret = memory;
    return 0;
}

void tutti_local_memory_close(struct local_memory *memory)
{
    free(memory->segments);
    free(memory->touched);
    free(memory->first);
    free(memory->saved_ps);
    free(memory->current);
    free(memory->own_count);
    *memory = (struct local_memory){0};
}

void tutti_local_memory_forget(struct local_memory *memory)
{
    uint64_t total = memory->first[(uint64_t)memory->rank_count * BUFFERS];

    for (uint64_t i = 0; i < total; i++) {
        memory->segments[i].holders = 0;
        memory->segments[i].cached = false;
        memory->segments[i].reader = 0;
    }
}

/* ---- touching -------------------------------------------------------------------------------- */

/* What part of what was touched `distance` bytes ago a cache still has. Real ones neither forget
 * the oldest first nor all at once: half at its size, 96 % at two thirds, 4 % at one and a half. */
double tutti_local_kept(uint64_t distance, double cache_bytes)
{
    double ratio = (double)distance / cache_bytes;

    ratio *= ratio;
    ratio *= ratio;
    return 1 / (1 + ratio * ratio);
}

/* The same of a range that was touched in order, by a processor that may have gone on since: its
 * first byte is the furthest back. */
static double kept_of_range(uint64_t count, const struct local_touched *at, double cache_bytes)
{
    enum { PARTS = 8 };
    double first = (double)(count - at->first_at);
    double end = count > at->end_at ? (double)(count - at->end_at) : 0;
    double sum = 0;

    for (int i = 0; i < PARTS; i++)
        sum += tutti_local_kept((uint64_t)(end + (first - end) * (i + 0.5) / PARTS), cache_bytes);
    return sum / PARTS;
}

/* Shares of the bytes of a segment, by where they are for this processor; the sum is 1. */
struct places {
    double own, other, twin, shared, cast, memory;
};

static struct places places_of(const struct local_memory *memory, const struct local_pass *pass,
                               const struct local_segment *segment, bool write)
{
    const struct tutti_local_value *values = pass->local->values;
    const struct local_touched *at =
        memory->touched + (uint64_t)(segment - memory->segments) * memory->processor_count;
    double own_bytes = values[TUTTI_LOCAL_OWN_CACHE].value * 1024;
    double shared_bytes = values[TUTTI_LOCAL_SHARED_CACHE].value * 1024;
    struct places places = {.memory = 1};

    if (!segment->cached)
        return places;
    places = (struct places){.own = 0};
    if ((segment->holders >> pass->processor & 1) != 0)
        places.own = tutti_local_kept(
            memory->own_count[pass->processor] - at[pass->processor].pass_at, own_bytes);
    for (uint32_t c = 0; c < memory->processor_count; c++) {
        double has;

        if (c == pass->processor || (segment->holders >> c & 1) == 0)
            continue;
        /* What two only read they read at the same time, in the same order: as far back as ever. */
        has = write || segment->dirty
                  ? kept_of_range(memory->own_count[c], &at[c], own_bytes)
                  : tutti_local_kept(memory->own_count[c] - at[c].pass_at, own_bytes);
        if (has > places.other)
            places.other = has;
    }
    if (write) /* others lose theirs, whoever has them */
        places.own *= 1 - places.other;
    else
        places.other *= 1 - places.own;
    places.shared = (1 - places.own - places.other) *
                    tutti_local_kept(memory->all_count - segment->all_at, shared_bytes);
    places.memory = 1 - places.own - places.other - places.shared;
    if (!write && !segment->dirty) {
        places.twin = places.other;
        places.other = 0;
    }
    if (write ? (segment->holders & ~(UINT64_C(1) << pass->processor)) != 0
              : segment->dirty && (segment->holders >> pass->processor & 1) == 0) {
        places.cast = places.shared;
        places.shared = 0;
    }
    if (!write && segment->reader > 0 && segment->reader - 1 != pass->rank &&
        memory->current[segment->reader - 1] == segment->serial) {
        places.twin += places.shared; /* another one is just about them */
        places.shared = 0;
    }
    return places;
}

static double rate_ps(const struct local_pass *pass, enum tutti_local_parameter parameter)
{
    return 1000 / pass->local->values[parameter].value; /* of a byte: GB/s are bytes per ns */
}

static double read_ps(const struct local_pass *pass, const struct places *places)
{
    double twin_ps = rate_ps(pass, TUTTI_LOCAL_READ_TWIN);
    double shared_ps = rate_ps(pass, TUTTI_LOCAL_READ_SHARED);

    return places->own * rate_ps(pass, TUTTI_LOCAL_READ_OWN) +
           places->other * rate_ps(pass, TUTTI_LOCAL_READ_OTHER) +
           places->twin * (twin_ps < shared_ps ? twin_ps : shared_ps) +
           places->shared * rate_ps(pass, TUTTI_LOCAL_READ_SHARED) +
           places->cast * rate_ps(pass, TUTTI_LOCAL_READ_CAST) +
           places->memory * rate_ps(pass, pass->far);
}

static double write_ps(const struct local_pass *pass, const struct places *places)
{
    return places->own * rate_ps(pass, TUTTI_LOCAL_WRITE_OWN) +
           places->other * rate_ps(pass, TUTTI_LOCAL_WRITE_OTHER) +
           places->shared * rate_ps(pass, TUTTI_LOCAL_WRITE_SHARED) +
           places->cast * rate_ps(pass, TUTTI_LOCAL_WRITE_CAST) +
           places->memory * rate_ps(pass, TUTTI_LOCAL_WRITE_MEMORY);
}

static void charge(struct local_pass *pass, const struct places *places, uint64_t bytes,
                   enum tutti_local_touch how)
{
    double count = (double)bytes;

    if (how == LOCAL_WRITE_PAST) {
        pass->alone_ps += count * rate_ps(pass, pass->past);
        pass->shared_ps += count * rate_ps(pass, TUTTI_LOCAL_ALL_MEMORY);
        return;
    }
    pass->alone_ps += count * (how == LOCAL_READ ? read_ps(pass, places) : write_ps(pass, places));
    pass->shared_ps +=
        count * (places->shared + places->cast) * rate_ps(pass, TUTTI_LOCAL_ALL_SHARED);
    /* What is written is read before, and written back some time. */
    pass->shared_ps += count * places->memory * (how == LOCAL_WRITE ? 2 : 1) *
                       rate_ps(pass, TUTTI_LOCAL_ALL_MEMORY);
}

/* Two that read the same bytes at the same time take turns to fetch them, so what the second saves
 * is half the first one's. */
static void note_reader(const struct local_memory *memory, const struct local_pass *pass,
                        struct local_segment *segment, const struct places *places, double ps_now)
{
    if (segment->reader > 0 && segment->reader - 1 != pass->rank && places->twin > 0) {
        if (segment->fetched_ps > ps_now)
            pass->saved_ps[segment->reader - 1] +=
                (segment->fetched_ps - ps_now) * (double)segment->bytes;
        segment->reader = 0;
        return;
    }
    segment->reader = pass->rank + 1;
    segment->serial = memory->serial;
    segment->fetched_ps = ps_now;
}

static void mark(struct local_memory *memory, struct local_pass *pass,
                 struct local_segment *segment, enum tutti_local_touch how)
{
    uint64_t bit = UINT64_C(1) << pass->processor;
    bool known = (segment->holders & bit) != 0;

    segment->all_at = memory->all_count;
    if (segment->pass_serial != memory->serial) {
        segment->pass_serial = memory->serial;
        segment->pass_next = pass->touched;
        pass->touched = (uint64_t)(segment - memory->segments) + 1;
    }
    segment->cached = how != LOCAL_WRITE_PAST;
    if (how == LOCAL_READ) {
        segment->dirty = segment->dirty && known && segment->holders == bit;
        segment->holders |= bit;
        return;
    }
    segment->holders = how == LOCAL_WRITE ? bit : 0;
    segment->dirty = how == LOCAL_WRITE;
}

void tutti_local_touch(struct local_memory *memory, struct local_pass *pass, uint32_t rank,
                       unsigned buf, uint64_t offset, uint64_t bytes, enum tutti_local_touch how)
{
    uint64_t b;
    uint64_t low;
    uint64_t high;

    if (bytes == 0)
        return;
    b = buffer_of(rank, buf);
    low = memory->first[b];
    high = memory->first[b + 1];
    while (low < high) { /* the first segment that ends behind offset */
        uint64_t middle = low + (high - low) / 2;

        if (memory->segments[middle].offset + memory->segments[middle].bytes <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < memory->first[b + 1] && memory->segments[low].offset < offset + bytes; low++) {
        struct local_segment *segment = &memory->segments[low];
        struct places places = places_of(memory, pass, segment, how != LOCAL_READ);
        uint64_t begin = segment->offset > offset ? segment->offset : offset;
        uint64_t end = segment->offset + segment->bytes;
        bool whole = end <= offset + bytes; /* touched to its end: piece by piece, perhaps */

        charge(pass, &places, (whole ? end : offset + bytes) - begin, how);
        if (!whole)
            continue;
        if (how == LOCAL_READ)
            note_reader(memory, pass, segment, &places, read_ps(pass, &places));
        else
            segment->reader = 0;
        mark(memory, pass, segment, how);
        segment->pass_offset = begin - offset;
    }
    pass->moved_bytes += bytes;
    if (bytes > pass->length_bytes)
        pass->length_bytes = bytes;
}

void tutti_local_touch_end(struct local_memory *memory, const struct local_pass *pass)
{
    uint64_t at = memory->own_count[pass->processor];
    double operands = (double)pass->moved_bytes / (double)(pass->length_bytes + 1);

    for (uint64_t i = pass->touched; i > 0; i = memory->segments[i - 1].pass_next) {
        const struct local_segment *segment = &memory->segments[i - 1];
        uint64_t end_offset = segment->pass_offset + segment->bytes;

        memory->touched[(i - 1) * memory->processor_count + pass->processor] =
            (struct local_touched){.pass_at = at,
                                   .first_at =
                                       at + (uint64_t)((double)segment->pass_offset * operands),
                                   .end_at = at + (uint64_t)((double)end_offset * operands)};
    }
    memory->own_count[pass->processor] += pass->moved_bytes;
    memory->all_count += pass->moved_bytes;
}
