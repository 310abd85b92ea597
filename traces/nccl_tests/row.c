/* Reading headings and rows of nccl-tests tables. The columns differ by version: redop came with
 * the first public ones where it applies, root stood only in rooted tests before 2022 and in all
 * since, "error" became "#wrong" in 2022, -I and -S add columns, and people cut columns away. */
#include "traces/nccl_tests/row.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prefixes before the columns ("0: ", a pod's name, a date and a time) stand in a few words. */
enum { PREFIX_WORDS_MAX = 8, SIDES_MAX = 2 };

static const struct {
    const char *name;
    uint32_t bytes;
} types[] = {
    {"float", 4},   {"half", 2},       {"bfloat16", 2}, {"double", 8},   {"int8", 1},
    {"uint8", 1},   {"int32", 4},      {"uint32", 4},   {"int64", 8},    {"uint64", 8},
    {"f8e4m3", 1},  {"f8e5m2", 1},     {"fp8_e4m3", 1}, {"fp8_e5m2", 1}, {"fp32", 4},
    {"fp16", 2},    {"bf16", 2},       {"int", 4},      {"float32", 4},  {"float16", 2},
    {"float64", 8}, {"fp8_e4m3fn", 1}, {"char", 1},
};

static const struct {
    const char *name;
    uint8_t kind;
} names[] = {
    {"size", LOG_COLUMN_SIZE},     {"count", LOG_COLUMN_COUNT}, {"type", LOG_COLUMN_TYPE},
    {"redop", LOG_COLUMN_REDOP},   {"root", LOG_COLUMN_ROOT},   {"time", LOG_COLUMN_TIME},
    {"algbw", LOG_COLUMN_ALGBW},   {"busbw", LOG_COLUMN_BUSBW}, {"#wrong", LOG_COLUMN_WRONG},
    {"wrong", LOG_COLUMN_WRONG},   {"error", LOG_COLUMN_WRONG}, {"cputime", LOG_COLUMN_TIME},
    {"time:avg", LOG_COLUMN_TIME},
};

uint32_t tutti_log_type_bytes(const char *type)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(types[i].name, type) == 0)
            return types[i].bytes;
    }
    return 0;
}

/* The kind of the column that `word` heads: the name before a unit in parentheses. */
static uint8_t column_kind(const char *word)
{
    size_t bytes = strcspn(word, "(");

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strlen(names[i].name) == bytes && memcmp(names[i].name, word, bytes) == 0)
            return names[i].kind;
    }
    return LOG_COLUMN_OTHER;
}

static double time_scale(const char *word)
{
    if (strstr(word, "(ns)") != NULL)
        return 1e-3;
    return strstr(word, "(ms)") != NULL ? 1e3 : 1;
}

/* A heading names size first, then at once count, type or time, and further on time and a
 * bandwidth: prose does not. */
static bool heading_from_words(const struct tutti_log_line *line, struct tutti_log_heading *ret)
{
    struct tutti_log_heading heading = {.time_scale = 1};
    uint32_t seen = 0;
    uint32_t first = 0;

    while (first < line->word_count && column_kind(line->word[first]) != LOG_COLUMN_SIZE)
        first++;
    for (uint32_t i = first; i < line->word_count && heading.column_count < LOG_COLUMNS_MAX; i++) {
        uint8_t kind = column_kind(line->word[i]);
        if (i == first + 1 && kind != LOG_COLUMN_COUNT && kind != LOG_COLUMN_TYPE &&
            kind != LOG_COLUMN_TIME)
            return false;
        if (kind == LOG_COLUMN_TIME && (seen & 1u << LOG_COLUMN_TIME) == 0)
            heading.time_scale = time_scale(line->word[i]);
        heading.column[heading.column_count++] = kind;
        seen |= 1u << kind;
    }
    if ((seen & 1u << LOG_COLUMN_TIME) == 0 ||
        (seen & (1u << LOG_COLUMN_ALGBW | 1u << LOG_COLUMN_BUSBW)) == 0)
        return false;
    heading.has_type = (seen & 1u << LOG_COLUMN_TYPE) != 0;
    heading.has_redop = (seen & 1u << LOG_COLUMN_REDOP) != 0;
    heading.has_root = (seen & 1u << LOG_COLUMN_ROOT) != 0;
    *ret = heading;
    return true;
}

bool tutti_log_heading_read(struct tutti_log_line *line, struct tutti_log_heading *ret)
{
    const char *size = strstr(line->text, "size");

    if (size == NULL || strstr(size, "time") == NULL)
        return false;
    tutti_log_line_cut(line, false);
    if (heading_from_words(line, ret))
        return true;
    tutti_log_line_cut(line, true);
    if (!heading_from_words(line, ret))
        return false;
    ret->commas = true;
    return true;
}

/* The digits of "[STAT]:12288" or "0:8": a prefix that grew into the size when that was wide. */
static const char *without_prefix(const char *word)
{
    const char *start = word;

    for (const char *c = word; *c != '\0'; c++) {
        if (*c == ':' || *c == ']' || *c == '>' || *c == ')')
            start = c + 1;
    }
    return start;
}

static void clear_side(struct tutti_nccl_side *side)
{
    *side = (struct tutti_nccl_side){NAN, NAN, NAN, NAN};
}

static void copy_word(char *to, size_t to_bytes, const char *word)
{
    snprintf(to, to_bytes, "%s", word);
}

/* Which side the next figure belongs to: each time column opens one. */
struct sides {
    struct tutti_nccl_side *side[SIDES_MAX];
    uint32_t open_count;
    double scale;
};

static bool take_figure(struct sides *sides, uint8_t kind, const char *word)
{
    struct tutti_nccl_side *side;
    double value;

    if (!tutti_log_read_double(word, &value) || (value < 0 && kind != LOG_COLUMN_WRONG))
        return false;
    sides->open_count += kind == LOG_COLUMN_TIME;
    if (sides->open_count == 0 || sides->open_count > SIDES_MAX)
        return true;
    side = sides->side[sides->open_count - 1];
    if (kind == LOG_COLUMN_TIME)
        side->time_us = value * sides->scale;
    else if (kind == LOG_COLUMN_ALGBW)
        side->algbw_GBps = value;
    else if (kind == LOG_COLUMN_BUSBW)
        side->busbw_GBps = value;
    else
        side->wrong = value;
    return true;
}

/* One word of a row under a column of that kind; false if it cannot stand there. */
static bool take_word(struct tutti_nccl_row *row, struct sides *sides, uint8_t kind,
                      const char *word)
{
    switch (kind) {
    case LOG_COLUMN_SIZE:
        return tutti_log_read_u64(without_prefix(word), &row->bytes);
    case LOG_COLUMN_COUNT:
        return tutti_log_read_u64(word, &row->count);
    case LOG_COLUMN_TYPE:
        copy_word(row->type, sizeof(row->type), word);
        return tutti_log_type_bytes(word) > 0;
    case LOG_COLUMN_REDOP:
        copy_word(row->redop, sizeof(row->redop), word);
        return word[0] >= 'a' && word[0] <= 'z';
    case LOG_COLUMN_ROOT: {
        char *end = NULL;
        long root = strtol(word, &end, 10);
        row->root = root >= -1 && root <= INT32_MAX ? (int)root : -1;
        return end != word && *end == '\0' && root >= -1 && root <= INT32_MAX;
    }
    case LOG_COLUMN_OTHER:
        return true;
    default:
        return take_figure(sides, kind, word);
    }
}

/* The row from word `first` on. It must reach through the first time and bandwidth. */
static enum tutti_log_row_status row_at(const struct tutti_log_line *line, uint32_t first,
                                        const struct tutti_log_heading *heading,
                                        struct tutti_nccl_row *row)
{
    struct sides sides = {.side = {&row->out_of_place, &row->in_place},
                          .scale = heading->time_scale};
    uint32_t words = line->word_count - first;

    *row = (struct tutti_nccl_row){.root = -1};
    clear_side(&row->out_of_place);
    clear_side(&row->in_place);
    for (uint32_t i = 0; i < heading->column_count && i < words; i++) {
        if (!take_word(row, &sides, heading->column[i], line->word[first + i])) {
            /* Behind the first side anything may follow: another program's output, a remark. */
            words = i;
        }
    }
    /* A time alone is the stump of a side that was cut off. */
    if (isnan(row->in_place.algbw_GBps) && isnan(row->in_place.busbw_GBps))
        clear_side(&row->in_place);
    if (!(row->out_of_place.time_us >= 0) ||
        (isnan(row->out_of_place.algbw_GBps) && isnan(row->out_of_place.busbw_GBps)))
        return LOG_ROW_NONE;
    return words < heading->column_count ? LOG_ROW_CUT : LOG_ROW_WHOLE;
}

/* The columns of a row that has a known type in word `first` + 2, from what the words look like. */
static bool heading_from_row(const struct tutti_log_line *line, uint32_t first,
                             struct tutti_log_heading *ret)
{
    static const uint8_t side[4] = {LOG_COLUMN_TIME, LOG_COLUMN_ALGBW, LOG_COLUMN_BUSBW,
                                    LOG_COLUMN_WRONG};
    struct tutti_log_heading heading = {.time_scale = 1, .column_count = 3, .has_type = true};
    uint32_t next = first + 3;
    uint32_t figures = 0;
    uint32_t side_columns = 4;
    double value;

    heading.column[0] = LOG_COLUMN_SIZE;
    heading.column[1] = LOG_COLUMN_COUNT;
    heading.column[2] = LOG_COLUMN_TYPE;
    if (next < line->word_count && !tutti_log_read_double(line->word[next], &value)) {
        heading.column[heading.column_count++] = LOG_COLUMN_REDOP;
        next++;
    }
    while (next + figures < line->word_count &&
           tutti_log_read_double(line->word[next + figures], &value))
        figures++;
    if (figures % 4 == 1 || figures == 7 || (figures > 0 && strcmp(line->word[next], "-1") == 0)) {
        heading.column[heading.column_count++] = LOG_COLUMN_ROOT;
        figures--;
    }
    if (figures == 3 || figures == 6)
        side_columns = 3;
    for (uint32_t i = 0; i < figures && i < SIDES_MAX * side_columns; i++)
        heading.column[heading.column_count++] = side[i % side_columns];
    *ret = heading;
    return figures >= 3;
}

/* Whether size, count and a known type stand at `first`. */
static bool looks_like_row(const struct tutti_log_line *line, uint32_t first)
{
    uint64_t value;

    return first + 3 < line->word_count &&
           tutti_log_read_u64(without_prefix(line->word[first]), &value) &&
           tutti_log_read_u64(line->word[first + 1], &value) &&
           tutti_log_type_bytes(line->word[first + 2]) > 0;
}

enum tutti_log_row_status tutti_log_row_read(const struct tutti_log_line *line,
                                             const struct tutti_log_heading *heading,
                                             struct tutti_nccl_row *ret)
{
    struct tutti_log_heading guessed;
    enum tutti_log_row_status status = LOG_ROW_NONE;
    uint64_t value;

    /* Without a type column nothing marks a row but that it begins the line with a bare size. */
    if (heading->column_count > 0 && !heading->has_type)
        return line->word_count > 2 && tutti_log_read_u64(line->word[0], &value)
                   ? row_at(line, 0, heading, ret)
                   : LOG_ROW_NONE;
    for (uint32_t first = 0; first <= PREFIX_WORDS_MAX; first++) {
        if (heading->column_count > 0 && heading->column[1] == LOG_COLUMN_COUNT &&
            looks_like_row(line, first))
            status = row_at(line, first, heading, ret);
        if (status == LOG_ROW_NONE && looks_like_row(line, first) &&
            heading_from_row(line, first, &guessed))
            status = row_at(line, first, &guessed, ret);
        if (status != LOG_ROW_NONE)
            return status;
    }
    return LOG_ROW_NONE;
}
