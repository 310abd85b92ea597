/* Reads the tables of a schedule's head: axes, work, atomic regions; the grammar stands in text.c.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/schedule.h"
#include "runtime/schedule/text.h"
#include "runtime/status.h"

/* Regions of an entry: reads, or writes, one after the other in `regions`. */
struct span {
    size_t first;
    uint32_t count;
};

struct entry {
    struct tutti_work work;
    struct span reads;
    struct span writes;
};

struct tutti_text_tables {
    struct tutti_arena *arena; /* names, and the work table once all is read */
    struct tutti_axis *axes;
    uint32_t axis_count;
    uint32_t axis_capacity;
    struct entry *entries;
    uint32_t work_count;
    uint32_t work_capacity;
    struct tutti_region *regions;
    size_t region_count;
    size_t region_capacity;
    struct tutti_region *atomics;
    uint32_t atomic_count;
    uint32_t atomic_capacity;
};

struct tutti_text_tables *tutti_text_tables_new(void)
{
    struct tutti_text_tables *t = calloc(1, sizeof(*t));

    if (t == NULL)
        return NULL;
    t->arena = tutti_arena_new();
    if (t->arena == NULL) {
        free(t);
        return NULL;
    }
    return t;
}

void tutti_text_tables_free(struct tutti_text_tables *tables)
{
    if (tables == NULL)
        return;
    tutti_arena_free(tables->arena);
    free(tables->axes);
    free(tables->entries);
    free(tables->regions);
    free(tables->atomics);
    free(tables);
}

static int read_name(struct tutti_text_tables *t, struct tutti_line *line, const char **ret,
                     struct tutti_err *err)
{
    struct tutti_word word = {NULL, 0};
    int status = tutti_line_need(line, "a name", &word, err);
    char *name;

    if (status < 0)
        return status;
    name = tutti_arena_take(t->arena, word.bytes + 1, 1);
    if (name == NULL)
        return tutti_nomem(err);
    memcpy(name, word.text, word.bytes);
    name[word.bytes] = '\0';
    *ret = name;
    return 0;
}

/* "first 0 width 1 stride 1 size 8 period 8 repeat 4" */
static int read_axis(struct tutti_text_tables *t, struct tutti_line *line, struct tutti_err *err)
{
    struct tutti_axis axis = {0};
    const struct {
        const char *word;
        uint32_t *value;
    } parts[] = {{"first", &axis.first}, {"width", &axis.width},   {"stride", &axis.stride},
                 {"size", &axis.size},   {"period", &axis.period}, {"repeat", &axis.repeat}};
    int status = read_name(t, line, &axis.name, err);

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && status == 0; i++) {
        status = tutti_line_expect(line, parts[i].word, err);
        if (status == 0)
            status = tutti_line_number32(line, "a number", parts[i].value, err);
    }
    if (status < 0)
        return status;
    if (t->axis_count == TUTTI_AXES_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "an axis too many (up to %d)", TUTTI_AXES_MAX);
    if (t->axis_count == t->axis_capacity) {
        uint32_t capacity = t->axis_capacity * 2 + 8;
        struct tutti_axis *axes = realloc(t->axes, capacity * sizeof(*axes));

        if (axes == NULL)
            return tutti_nomem(err);
        t->axes = axes;
        t->axis_capacity = capacity;
    }
    t->axes[t->axis_count++] = axis;
    return 0;
}

/* "1.5us", "1000 flops", "2000 moved", those that there are, in this order. */
static int read_cost(struct tutti_line *line, struct tutti_work *work, struct tutti_err *err)
{
    static const char *const units[] = {"flops", "moved"};
    uint64_t *const values[] = {&work->flops, &work->moved_bytes};
    struct tutti_line rest = *line;
    struct tutti_word word;
    int status = tutti_line_word(&rest, &word) ? tutti_line_time(line, &work->duration_ps, err) : 1;
    size_t next = 0;

    if (status < 0)
        return status;
    for (rest = *line; tutti_line_word(&rest, &word); rest = *line) {
        uint64_t value = 0;

        status = tutti_line_number(line, "a number of flops, or of bytes moved", UINT64_MAX, &value,
                                   err);
        if (status == 0)
            status = tutti_line_need(line, "'flops' or 'moved'", &word, err);
        if (status < 0)
            return status;
        while (next < 2 && !tutti_word_is(word, units[next]))
            next++;
        if (next == 2)
            return tutti_fail(err, TUTTI_EINVAL, "unexpected '%.*s' (flops, then moved)",
                              TUTTI_WORD_SHOW(word));
        *values[next++] = value;
    }
    return 0;
}

/* "NAME KIND COST" */
static int read_work(struct tutti_text_tables *t, struct tutti_line *line, struct tutti_err *err)
{
    struct entry entry = {.work = {.name = NULL}};
    struct tutti_word word = {NULL, 0};
    char kind[32] = "";
    int status = read_name(t, line, &entry.work.name, err);

    if (status == 0)
        status = tutti_line_need(line, "a kind of work", &word, err);
    if (status < 0)
        return status;
    memcpy(kind, word.text, word.bytes < sizeof(kind) ? word.bytes : sizeof(kind) - 1);
    status = tutti_work_kind_find(kind, &entry.work.kind, err);
    if (status == 0)
        status = read_cost(line, &entry.work, err);
    if (status < 0)
        return status;
    if (t->work_count == t->work_capacity) {
        uint32_t capacity = t->work_capacity * 2 + 8;
        struct entry *entries = realloc(t->entries, capacity * sizeof(*entries));

        if (entries == NULL)
            return tutti_nomem(err);
        t->entries = entries;
        t->work_capacity = capacity;
    }
    t->entries[t->work_count++] = entry;
    return 0;
}

/* "state+0 64 B", of what is read also "whole 1" */
static int read_region(struct tutti_line *line, bool reads, struct tutti_region *ret,
                       struct tutti_err *err)
{
    struct tutti_region region = {0};
    struct tutti_word word;
    uint64_t axis = 0;
    int status = tutti_line_place(line, &region.buf, &region.offset, err);

    if (status == 0)
        status = tutti_line_number(line, "a length in bytes", UINT64_MAX, &region.bytes, err);
    if (status == 0)
        status = tutti_line_expect(line, "B", err);
    if (status == 0 && tutti_line_word(line, &word)) {
        if (!reads || !tutti_word_is(word, "whole"))
            return tutti_fail(err, TUTTI_EINVAL, "unexpected '%.*s' (%s)", TUTTI_WORD_SHOW(word),
                              reads ? "whole, or the end of the line" : "the end of the line");
        status = tutti_line_number(line, "the number of an axis", TUTTI_AXES_MAX - 1, &axis, err);
        region.whole = (uint8_t)(axis + 1);
    }
    if (status == 0)
        *ret = region;
    return status;
}

static int read_reads_or_writes(struct tutti_text_tables *t, struct tutti_line *line, bool reads,
                                struct tutti_err *err)
{
    struct entry *entry = t->work_count == 0 ? NULL : &t->entries[t->work_count - 1];
    struct tutti_region region = {0};
    struct span *span;
    int status;

    if (entry == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "'%s' before any work (work NAME KIND)",
                          reads ? "reads" : "writes");
    if (reads && entry->writes.count > 0)
        return tutti_fail(err, TUTTI_EINVAL, "'reads' behind 'writes' (what is read first)");
    status = read_region(line, reads, &region, err);
    if (status < 0)
        return status;
    if (t->region_count == t->region_capacity) {
        size_t capacity = t->region_capacity * 2 + 8;
        struct tutti_region *regions = realloc(t->regions, capacity * sizeof(*regions));

        if (regions == NULL)
            return tutti_nomem(err);
        t->regions = regions;
        t->region_capacity = capacity;
    }
    span = reads ? &entry->reads : &entry->writes;
    if (span->count++ == 0)
        span->first = t->region_count;
    t->regions[t->region_count++] = region;
    return 0;
}

static int read_atomic(struct tutti_text_tables *t, struct tutti_line *line, struct tutti_err *err)
{
    struct tutti_region region = {0};
    int status = read_region(line, false, &region, err);

    if (status < 0)
        return status;
    if (t->atomic_count == t->atomic_capacity) {
        uint32_t capacity = t->atomic_capacity * 2 + 8;
        struct tutti_region *atomics = realloc(t->atomics, capacity * sizeof(*atomics));

        if (atomics == NULL)
            return tutti_nomem(err);
        t->atomics = atomics;
        t->atomic_capacity = capacity;
    }
    t->atomics[t->atomic_count++] = region;
    return 0;
}

int tutti_text_tables_read(struct tutti_text_tables *tables, struct tutti_line *line,
                           struct tutti_word word, struct tutti_err *err)
{
    int status;

    if (tutti_word_is(word, "axis"))
        status = read_axis(tables, line, err);
    else if (tutti_word_is(word, "work"))
        status = read_work(tables, line, err);
    else if (tutti_word_is(word, "reads") || tutti_word_is(word, "writes"))
        status = read_reads_or_writes(tables, line, tutti_word_is(word, "reads"), err);
    else if (tutti_word_is(word, "atomic"))
        status = read_atomic(tables, line, err);
    else
        return 1;
    return status < 0 ? status : tutti_line_end(line, err);
}

int tutti_text_tables_into(struct tutti_text_tables *tables, struct tutti_schedule_desc *desc,
                           struct tutti_err *err)
{
    struct tutti_work *work = tutti_arena_take(tables->arena, tables->work_count, sizeof(*work));

    if (work == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < tables->work_count; i++) {
        const struct entry *entry = &tables->entries[i];

        work[i] = entry->work;
        work[i].read_count = entry->reads.count;
        work[i].write_count = entry->writes.count;
        if (entry->reads.count > 0)
            work[i].reads = tables->regions + entry->reads.first;
        if (entry->writes.count > 0)
            work[i].writes = tables->regions + entry->writes.first;
    }
    desc->axes = tables->axes;
    desc->axis_count = tables->axis_count;
    desc->work = work;
    desc->work_count = tables->work_count;
    desc->atomics = tables->atomics;
    desc->atomic_count = tables->atomic_count;
    return 0;
}
