/* Tables of measurements from text, and the filter that chooses among them; see measured.h. */
#include "traces/measured.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/data.h"
#include "runtime/status.h"
#include "runtime/units.h"

enum { LINE_BYTES_MAX = 4096, RANKS_MAX = 1 << 24 };

enum field_type { TEXT, COUNT, COLLECTIVE, DTYPE, OP, RATE, QUALITY };

/* Where the value of a key goes; RATE and QUALITY are texts that set a second field as well. */
struct field {
    const char *key;
    enum field_type type;
    bool needed;
    size_t offset;
};

#define AT(member) offsetof(struct tutti_measured_table, member)

static const struct field fields[] = {
    {"id", TEXT, true, AT(id)}, /* the word behind "table" */
    {"site", TEXT, true, AT(site)},
    {"platform", TEXT, true, AT(platform)},
    {"class", TEXT, false, AT(group)},
    {"machine", TEXT, true, AT(machine)},
    {"ranks", COUNT, true, AT(rank_count)},
    {"nodes", COUNT, true, AT(host_count)},
    {"gpus", COUNT, true, AT(gpu_count)},
    {"nics", COUNT, false, AT(nic_count)},
    {"nic", RATE, false, AT(nic)},
    {"net", TEXT, false, AT(net)},
    {"basis", TEXT, false, AT(basis)},
    {"library", TEXT, true, AT(library)},
    {"version", TEXT, false, AT(version)},
    {"env", TEXT, false, AT(env)},
    {"settings", TEXT, false, AT(settings)},
    {"collective", COLLECTIVE, true, AT(collective)},
    {"dtype", DTYPE, true, AT(dtype)},
    {"op", OP, true, AT(op)},
    {"ran", TEXT, false, AT(ran)},
    {"launch", TEXT, false, AT(launch)},
    {"timing", TEXT, false, AT(timing)},
    {"iterations", COUNT, false, AT(iteration_count)},
    {"quality", QUALITY, true, AT(quality)},
    {"caveat", TEXT, false, AT(caveat)},
    {"note", TEXT, false, AT(note)},
    {"source", TEXT, true, AT(source)},
};

enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]) };

static const char *const *text_at(const struct tutti_measured_table *table, size_t offset)
{
    return (const char *const *)(const void *)((const char *)table + offset);
}

static void *value_at(struct tutti_measured_table *table, size_t offset)
{
    return (char *)table + offset;
}

/* FIELD_COUNT if there is none of that name. */
static size_t find_field(const char *key, size_t bytes)
{
    size_t i = 0;

    while (i < FIELD_COUNT &&
           (strlen(fields[i].key) != bytes || memcmp(fields[i].key, key, bytes) != 0))
        i++;
    return i;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct reader {
    const char *name;
    const char *rest;
    size_t rest_bytes;
    uint32_t line_number;
    char line[LINE_BYTES_MAX];
    struct tutti_measured *set;
    uint32_t seen; /* keys of the open table: bit i is fields[i] */
    struct tutti_measured_row *rows;
    size_t row_count;
    size_t row_capacity;
};

_Static_assert(FIELD_COUNT <= 32, "a bit a key");

static int refuse(const struct reader *reader, struct tutti_err *err, const char *what,
                  const char *thing, const char *accepted)
{
    return tutti_fail(err, TUTTI_EINVAL, "%s: line %" PRIu32 ": %s '%.60s' (%s)", reader->name,
                      reader->line_number, what, thing, accepted);
}

/* Takes the next line that says something, without blanks at its end; 1: there is one, 0: none. */
static int next_line(struct reader *reader, struct tutti_err *err)
{
    while (reader->rest_bytes > 0) {
        const char *newline = memchr(reader->rest, '\n', reader->rest_bytes);
        size_t bytes = newline != NULL ? (size_t)(newline - reader->rest) : reader->rest_bytes;

        reader->line_number++;
        if (bytes >= LINE_BYTES_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "%s: line %" PRIu32 ": longer than %d bytes",
                              reader->name, reader->line_number, LINE_BYTES_MAX - 1);
        memcpy(reader->line, reader->rest, bytes);
        reader->line[bytes] = '\0';
        reader->rest += bytes + (newline != NULL);
        reader->rest_bytes -= bytes + (newline != NULL);
        for (size_t i = 0; i < bytes; i++) {
            unsigned char c = (unsigned char)reader->line[i];

            if ((c < 0x20 && c != '\t' && c != '\r') || c >= 0x7f)
                return tutti_fail(err, TUTTI_EINVAL,
                                  "%s: line %" PRIu32 ": byte 0x%02x (printable ASCII is expected)",
                                  reader->name, reader->line_number, c);
        }
        while (bytes > 0 && strchr(" \t\r", reader->line[bytes - 1]) != NULL)
            reader->line[--bytes] = '\0';
        if (reader->line[0] != '\0' && reader->line[0] != '#')
            return 1;
    }
    return 0;
}

/* The value of the key that the line begins with. */
static char *value_of(struct reader *reader)
{
    char *value = reader->line + strcspn(reader->line, " \t");

    return value + strspn(value, " \t");
}

static int set_count(struct reader *reader, const char *value, uint32_t *ret, struct tutti_err *err)
{
    uint64_t count;
    int status = tutti_read_count(value, 1, RANKS_MAX, &count, err);

    if (status < 0)
        return tutti_wrap(err, status, "%s: line %" PRIu32, reader->name, reader->line_number);
    *ret = (uint32_t)count;
    return 0;
}

static int set_named(struct reader *reader, const struct field *field, const char *value,
                     struct tutti_measured_table *table, struct tutti_err *err)
{
    int status = 0;

    if (field->type == COLLECTIVE)
        status = tutti_collective_find(value, &table->collective, err);
    else if (field->type == DTYPE)
        status = tutti_dtype_find(value, &table->dtype, err);
    else if (field->type == RATE)
        status = tutti_read_rate(value, &table->nic_bytes_per_s, err);
    else if (field->type == OP && strcmp(value, "none") != 0)
        status = tutti_op_find(value, &table->op, err);
    if (status < 0)
        return tutti_wrap(err, status, "%s: line %" PRIu32, reader->name, reader->line_number);
    if (field->type == QUALITY) {
        table->degraded = strcmp(value, "degraded") == 0;
        if (!table->degraded && strcmp(value, "good") != 0)
            return refuse(reader, err, "unknown quality", value, "good or degraded");
    }
    return 0;
}

static int set_field(struct reader *reader, size_t index, const char *value,
                     struct tutti_measured_table *table, struct tutti_err *err)
{
    const struct field *field = &fields[index];
    int status;

    if (value[0] == '\0')
        return refuse(reader, err, "no value for", field->key, "a key, a blank, its value");
    if ((reader->seen >> index & 1) != 0)
        return refuse(reader, err, "a second value for", field->key, "each key once in a table");
    reader->seen |= UINT32_C(1) << index;
    if (field->type == COUNT)
        return set_count(reader, value, value_at(table, field->offset), err);
    status = set_named(reader, field, value, table, err);
    if (status == 0 && (field->type == TEXT || field->type == RATE || field->type == QUALITY)) {
        char *copy = tutti_arena_copy_text(reader->set->arena, value);

        if (copy == NULL)
            return tutti_nomem(err);
        *(const char **)value_at(table, field->offset) = copy;
    }
    return status;
}

/* A time, or NAN for "-". */
static bool read_us(const char *word, double *ret)
{
    char *end;

    *ret = NAN;
    if (strcmp(word, "-") == 0)
        return true;
    if (word[0] == '\0' || strspn(word, "0123456789.e+-") != strlen(word))
        return false;
    *ret = strtod(word, &end);
    return *end == '\0' && isfinite(*ret) && *ret > 0;
}

static int read_row(struct reader *reader, struct tutti_measured_row *row, struct tutti_err *err)
{
    static const char accepted[] = "bytes, us out of place, us in place, above 0; or end";
    char *words[3] = {reader->line, NULL, NULL};
    size_t count = 1;
    int status;

    for (char *p = reader->line; *p != '\0'; p++) {
        if (*p != ' ' && *p != '\t')
            continue;
        *p = '\0';
        if (p[1] == ' ' || p[1] == '\t')
            continue;
        if (count == 3)
            return refuse(reader, err, "one word too many", p + 1, accepted);
        words[count++] = p + 1;
    }
    status = tutti_read_count(words[0], 1, INT64_MAX, &row->bytes, NULL);
    row->in_us = NAN;
    if (status < 0 || count < 2 || !read_us(words[1], &row->out_us) ||
        (count == 3 && !read_us(words[2], &row->in_us)) ||
        (isnan(row->out_us) && isnan(row->in_us)))
        return refuse(reader, err, "no row of numbers:", words[0], accepted);
    if (reader->row_count > 0 && reader->rows[reader->row_count - 1].bytes >= row->bytes)
        return refuse(reader, err, "a size that does not rise:", words[0], "each once, rising");
    return 0;
}

static int read_rows(struct reader *reader, struct tutti_measured_table *table,
                     struct tutti_err *err)
{
    struct tutti_measured_row *rows;
    struct tutti_measured_row row;
    int status;

    reader->row_count = 0;
    while ((status = next_line(reader, err)) == 1 && strcmp(reader->line, "end") != 0) {
        status = read_row(reader, &row, err);
        if (status < 0)
            return status;
        if (reader->row_count == reader->row_capacity) {
            size_t wanted = reader->row_capacity == 0 ? 64 : reader->row_capacity * 2;

            rows = realloc(reader->rows, wanted * sizeof(*rows));
            if (rows == NULL)
                return tutti_nomem(err);
            reader->rows = rows;
            reader->row_capacity = wanted;
        }
        reader->rows[reader->row_count++] = row;
    }
    if (status < 0)
        return status;
    if (status == 0 || reader->row_count == 0)
        return refuse(reader, err, status == 0 ? "no end of" : "no rows in", table->id,
                      "rows, a line a size, then end");
    rows = tutti_arena_take(reader->set->arena, reader->row_count, sizeof(*rows));
    if (rows == NULL)
        return tutti_nomem(err);
    memcpy(rows, reader->rows, reader->row_count * sizeof(*rows));
    table->rows = rows;
    table->row_count = reader->row_count;
    return 0;
}

/* What the keys must say together. */
static int check_table(const struct reader *reader, const struct tutti_measured_table *table,
                       struct tutti_err *err)
{
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (fields[i].needed && (reader->seen >> i & 1) == 0)
            return tutti_fail(
                err, TUTTI_EINVAL, "%s: line %" PRIu32 ": table '%.60s' has no '%s' (%s VALUE)",
                reader->name, reader->line_number, table->id, fields[i].key, fields[i].key);
    }
    if ((uint64_t)table->host_count * table->gpu_count != table->rank_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s: line %" PRIu32 ": table '%.60s': %" PRIu32 " ranks are not %" PRIu32
                          " nodes of %" PRIu32 " gpus",
                          reader->name, reader->line_number, table->id, table->rank_count,
                          table->host_count, table->gpu_count);
    for (size_t i = 0; i < reader->set->table_count; i++) {
        if (strcmp(reader->set->tables[i].id, table->id) == 0)
            return refuse(reader, err, "a second table", table->id, "each id once");
    }
    return 0;
}

static int add_table(struct tutti_measured *set, const struct tutti_measured_table *table,
                     struct tutti_err *err)
{
    if (set->table_count == set->table_capacity) {
        size_t wanted = set->table_capacity == 0 ? 64 : set->table_capacity * 2;
        struct tutti_measured_table *more = realloc(set->tables, wanted * sizeof(*more));

        if (more == NULL)
            return tutti_nomem(err);
        set->tables = more;
        set->table_capacity = wanted;
    }
    set->tables[set->table_count++] = *table;
    return 0;
}

/* The table that the current line opens. */
static int read_table(struct reader *reader, struct tutti_err *err)
{
    struct tutti_measured_table table = {.op = TUTTI_SUM};
    int status;

    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (fields[i].type == TEXT || fields[i].type == RATE || fields[i].type == QUALITY)
            *(const char **)value_at(&table, fields[i].offset) = "";
    }
    reader->seen = 0;
    status = set_field(reader, 0, value_of(reader), &table, err);
    while (status == 0 && (status = next_line(reader, err)) == 1) {
        size_t bytes = strcspn(reader->line, " \t");
        size_t index = find_field(reader->line, bytes);
        const char *value = value_of(reader);

        if (strcmp(reader->line, "rows") == 0)
            break;
        reader->line[bytes] = '\0';
        if (index == FIELD_COUNT || index == 0)
            return refuse(reader, err, "unknown key", reader->line,
                          "site, platform, machine, ranks, ..., or rows");
        status = set_field(reader, index, value, &table, err);
    }
    if (status < 0)
        return status;
    if (status == 0)
        return refuse(reader, err, "no rows in", table.id, "rows, a line a size, then end");
    status = check_table(reader, &table, err);
    if (status == 0)
        status = read_rows(reader, &table, err);
    return status == 0 ? add_table(reader->set, &table, err) : status;
}

static int read_all(struct reader *reader, struct tutti_err *err)
{
    int status = next_line(reader, err);

    if (status < 0)
        return status;
    if (status == 0 || strcmp(reader->line, "tutti measured 1") != 0)
        return tutti_fail(err, TUTTI_EINVAL, "%s: no table of measurements (tutti measured 1)",
                          reader->name);
    while ((status = next_line(reader, err)) == 1) {
        if (strncmp(reader->line, "table ", 6) != 0)
            return refuse(reader, err, "no table opens with", reader->line, "table ID");
        status = read_table(reader, err);
        if (status < 0)
            return status;
    }
    return status;
}

int tutti_measured_parse(const char *name, const char *text, size_t bytes,
                         struct tutti_measured *set, struct tutti_err *err)
{
    size_t table_count = set->table_count;
    struct reader *reader = calloc(1, sizeof(*reader));
    int status;

    if (reader == NULL)
        return tutti_nomem(err);
    if (set->arena == NULL)
        set->arena = tutti_arena_new();
    if (set->arena == NULL) {
        free(reader);
        return tutti_nomem(err);
    }
    reader->name = name;
    reader->rest = text;
    reader->rest_bytes = bytes;
    reader->set = set;
    status = read_all(reader, err);
    if (status < 0)
        set->table_count = table_count;
    free(reader->rows);
    free(reader);
    return status;
}

void tutti_measured_free(struct tutti_measured *set)
{
    free(set->tables);
    tutti_arena_free(set->arena);
    *set = (struct tutti_measured){0};
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* '*' any bytes, '?' one; a mismatch goes back to the last star alone, so it takes no more than
 * |pattern| * |text| steps. */
static bool fits(const char *pattern, size_t bytes, const char *text)
{
    size_t star = SIZE_MAX;
    const char *again = text;
    size_t i = 0;

    while (*text != '\0') {
        if (i < bytes && pattern[i] == '*') {
            star = i++;
            again = text;
        } else if (i < bytes && (pattern[i] == '?' || pattern[i] == *text)) {
            i++;
            text++;
        } else if (star != SIZE_MAX) {
            i = star + 1;
            text = ++again;
        } else {
            return false;
        }
    }
    while (i < bytes && pattern[i] == '*')
        i++;
    return i == bytes;
}

/* Does one of the alternatives of the pattern fit? */
static bool fits_any(const char *pattern, const char *text)
{
    for (;;) {
        size_t bytes = strcspn(pattern, "|");

        if (fits(pattern, bytes, text))
            return true;
        if (pattern[bytes] == '\0')
            return false;
        pattern += bytes + 1;
    }
}

static bool holds(const struct tutti_measured_term *term, const struct tutti_measured_table *table)
{
    const struct field *field = &fields[term->key];

    switch (field->type) {
    case COUNT: {
        const void *at = (const char *)table + field->offset;
        uint32_t count = *(const uint32_t *)at;

        return count >= term->min && count <= term->max;
    }
    case COLLECTIVE:
        return fits_any(term->pattern, tutti_collective_name(table->collective));
    case DTYPE:
        return fits_any(term->pattern, tutti_dtype_name(table->dtype));
    case OP:
        return fits_any(term->pattern, tutti_op_name(table->op));
    default:
        return fits_any(term->pattern, *text_at(table, field->offset));
    }
}

bool tutti_measured_matches(const struct tutti_measured_filter *filter,
                            const struct tutti_measured_table *table)
{
    for (uint32_t i = 0; i < filter->term_count; i++) {
        if (holds(&filter->terms[i], table) == filter->terms[i].negated)
            return false;
    }
    return true;
}

/* "8", "2..8", "16..", "..4" */
static int read_range(struct tutti_measured_term *term, struct tutti_err *err)
{
    char *dots = strstr(term->pattern, "..");
    int status = 0;

    term->min = 0;
    term->max = UINT64_MAX;
    if (dots == NULL) {
        status = tutti_read_count(term->pattern, 0, RANKS_MAX, &term->min, err);
        term->max = term->min;
        return status;
    }
    *dots = '\0';
    if (term->pattern[0] != '\0')
        status = tutti_read_count(term->pattern, 0, RANKS_MAX, &term->min, err);
    if (status == 0 && dots[2] != '\0')
        status = tutti_read_count(dots + 2, 0, RANKS_MAX, &term->max, err);
    return status;
}

static int unknown_key(const char *key, size_t bytes, struct tutti_err *err)
{
    char known[512];
    size_t at = 0;

    for (size_t i = 0; i < FIELD_COUNT && at < sizeof(known); i++)
        at += (size_t)snprintf(known + at, sizeof(known) - at, "%s%s", i > 0 ? " " : "",
                               fields[i].key);
    return tutti_fail(err, TUTTI_EINVAL, "unknown key '%.*s' (%s)", bytes < 60 ? (int)bytes : 60,
                      key, known);
}

/* The term of `bytes` bytes at `text`. */
static int read_term(const char *text, size_t bytes, struct tutti_measured_term *ret,
                     struct tutti_err *err)
{
    const char *equals = memchr(text, '=', bytes);
    size_t key_bytes;
    size_t index;
    size_t pattern_bytes;

    if (equals == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "'%.*s' is no term (key=pattern)",
                          bytes < 60 ? (int)bytes : 60, text);
    key_bytes = (size_t)(equals - text);
    ret->negated = key_bytes > 0 && text[key_bytes - 1] == '!';
    key_bytes -= ret->negated;
    index = find_field(text, key_bytes);
    if (index == FIELD_COUNT)
        return unknown_key(text, key_bytes, err);
    pattern_bytes = bytes - (size_t)(equals + 1 - text);
    if (pattern_bytes >= sizeof(ret->pattern))
        return tutti_fail(err, TUTTI_EINVAL, "the pattern of '%s' is longer than %zu bytes",
                          fields[index].key, sizeof(ret->pattern) - 1);
    ret->key = (uint8_t)index;
    memcpy(ret->pattern, equals + 1, pattern_bytes);
    ret->pattern[pattern_bytes] = '\0';
    if (fields[index].type == COUNT && read_range(ret, err) < 0)
        return tutti_wrap(err, -TUTTI_EINVAL, "'%s'", fields[index].key);
    return 0;
}

int tutti_measured_filter_parse(const char *text, struct tutti_measured_filter *ret,
                                struct tutti_err *err)
{
    struct tutti_measured_filter filter = {0};

    while (text != NULL && *text != '\0') {
        size_t bytes = strcspn(text, ",");
        int status;

        if (filter.term_count == TUTTI_MEASURED_TERMS_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "a filter has at most %d terms",
                              TUTTI_MEASURED_TERMS_MAX);
        status = read_term(text, bytes, &filter.terms[filter.term_count], err);
        if (status < 0)
            return status;
        filter.term_count++;
        text += bytes + (text[bytes] == ',');
    }
    *ret = filter;
    return 0;
}
