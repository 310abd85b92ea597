/* Puts cells into a row by the kinds of their columns; see reading.h. */
#include "traces/training/reading.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/arena.h"
#include "runtime/status.h"

enum { TEXT_BYTES = 512 };

void tutti_training_reading_open(struct tutti_training_reading *reading, struct tutti_arena *arena,
                                 struct tutti_training_row *row, const char *file, uint32_t line)
{
    size_t count;
    const struct tutti_training_field *fields = tutti_training_fields(&count);

    *reading =
        (struct tutti_training_reading){.arena = arena, .row = row, .batch = "", .accum = ""};
    *row = (struct tutti_training_row){
        .file = file, .line = line, .why = "", .problem = "", .measured_step_s = NAN};
    for (size_t i = 0; i < count; i++) {
        static const char *const no_text = "";
        static const double no_number = NAN;
        static const int64_t no_count = TUTTI_UNSTATED;
        char *at = (char *)row + fields[i].offset;

        if (fields[i].type == TUTTI_TRAINING_TEXT)
            memcpy(at, &no_text, sizeof(no_text));
        else if (fields[i].type == TUTTI_TRAINING_NUMBER)
            memcpy(at, &no_number, sizeof(no_number));
        else
            memcpy(at, &no_count, sizeof(no_count));
    }
}

/* A copy in the arena; "" where memory ran out. */
static const char *keep(struct tutti_training_reading *reading, const char *text)
{
    const char *kept = tutti_arena_copy_text(reading->arena, text);

    reading->failed = reading->failed || kept == NULL;
    return kept == NULL ? "" : kept;
}

void tutti_training_problem(struct tutti_training_reading *reading, const char *column,
                            const char *format, ...)
{
    char text[2 * TEXT_BYTES];
    struct tutti_training_row *row = reading->row;
    int used;
    va_list list;

    if (row->problem[0] != '\0')
        return;
    used = snprintf(text, sizeof(text), "%.400s: line %u: %s ", row->file, row->line, column);
    assert(used > 0 && used < (int)sizeof(text));
    va_start(list, format);
    vsnprintf(text + used, sizeof(text) - (size_t)used, format, list);
    va_end(list);
    row->problem = keep(reading, text);
}

/* ---- numbers --------------------------------------------------------------------------------- */

bool tutti_training_number(const char *text, double *ret)
{
    char *end;
    double value;

    if (*text == '\0' || strspn(text, "0123456789+-.eE") != strlen(text))
        return false;
    value = strtod(text, &end);
    if (*end != '\0' || !isfinite(value) || value < 0)
        return false;
    *ret = value;
    return true;
}

bool tutti_training_count(const char *text, int64_t least, int64_t *ret)
{
    double value;

    if (!tutti_training_number(text, &value) || value < (double)least || value > 1e15 ||
        value < floor(value) || value > floor(value))
        return false;
    *ret = (int64_t)value;
    return true;
}

static void put_count(struct tutti_training_reading *reading,
                      const struct tutti_training_column *column, const char *text, int64_t least)
{
    char *at = (char *)reading->row + column->offset;
    int64_t value;

    memcpy(&value, at, sizeof(value));
    if (value != TUTTI_UNSTATED)
        return;
    if (!tutti_training_count(text, least, &value)) {
        tutti_training_problem(reading, column->name, "'%.60s' (a whole number from %d)", text,
                               (int)least);
        return;
    }
    memcpy(at, &value, sizeof(value));
}

/* Billions; "1.7B", "760M" and "1T" say of what. */
static bool read_params(const char *text, double scale, double *ret)
{
    char digits[32];
    size_t bytes = strlen(text);
    double unit = bytes == 0               ? 0
                  : text[bytes - 1] == 'B' ? 1
                  : text[bytes - 1] == 'M' ? 1e-3
                  : text[bytes - 1] == 'T' ? 1e3
                                           : 0;

    if (bytes == 0 || bytes >= sizeof(digits))
        return false;
    snprintf(digits, sizeof(digits), "%.*s", (int)(unit > 0 ? bytes - 1 : bytes), text);
    if (!tutti_training_number(digits, ret) || *ret <= 0)
        return false;
    *ret *= unit > 0 ? unit : scale;
    return true;
}

static void put_number(struct tutti_training_reading *reading,
                       const struct tutti_training_column *column, const char *text)
{
    char *at = (char *)reading->row + column->offset;
    double value;

    memcpy(&value, at, sizeof(value));
    if (!isnan(value))
        return;
    if (column->kind == TUTTI_COLUMN_PARAMS) {
        if (!read_params(text, column->scale, &value)) {
            tutti_training_problem(reading, column->name,
                                   "'%.60s' (billions above 0, or with B, M or T)", text);
            return;
        }
    } else if (!tutti_training_number(text, &value)) {
        if (column->kind == TUTTI_COLUMN_NUMBER)
            tutti_training_problem(reading, column->name, "'%.60s' (a number from 0)", text);
        else if (reading->row->why[0] == '\0')
            reading->row->why = "a result that is no number";
        return;
    } else {
        value *= column->scale;
    }
    memcpy(at, &value, sizeof(value));
}

/* ---- words ----------------------------------------------------------------------------------- */

static void put_text(struct tutti_training_reading *reading,
                     const struct tutti_training_column *column, const char *text)
{
    memcpy((char *)reading->row + column->offset, &text, sizeof(text));
}

static void put_joined(struct tutti_training_reading *reading,
                       const struct tutti_training_column *column, const char *text)
{
    char joined[TEXT_BYTES];
    const char *before;

    memcpy(&before, (char *)reading->row + column->offset, sizeof(before));
    if (before[0] != '\0') {
        snprintf(joined, sizeof(joined), "%.240s %.240s", before, text);
        text = keep(reading, joined);
    }
    put_text(reading, column, text);
}

/* What some tables write into the variant behind the settings; it is cut off from there. */
static const char *const results_in_variants[] = {
    "train memory", "inference", "Time to train", "Time to Train",       "Speedup",    "Speed-up",
    "DICE",         "Dice",      "Anterior dice", "Mixed precision mAP", "Final Loss", "AUC - ",
};

static void put_variant(struct tutti_training_reading *reading, const char *text)
{
    static const char memory[] = "train memory ";
    struct tutti_training_row *row = reading->row;
    const char *said = strstr(text, memory);
    const char *end = text + strlen(text);
    char *behind;
    char variant[TEXT_BYTES];
    double memory_GB = said == NULL ? 0 : strtod(said + sizeof(memory) - 1, &behind);

    if (memory_GB > 0 && strncmp(behind, " GB", 3) == 0 && isnan(row->results.memory_GB)) {
        row->results.memory_GB = memory_GB;
        row->results.memory = TUTTI_TRAINING_MEMORY_STATED;
    }
    for (size_t i = 0; i < sizeof(results_in_variants) / sizeof(results_in_variants[0]); i++) {
        const char *found = strstr(text, results_in_variants[i]);

        end = found != NULL && found < end ? found : end;
    }
    while (end > text && end[-1] == ' ')
        end--;
    if (*end == '\0') {
        row->settings.variant = text;
        return;
    }
    snprintf(variant, sizeof(variant), "%.*s", (int)(end - text < 500 ? end - text : 500), text);
    row->settings.variant = variant[0] == '\0' ? "" : keep(reading, variant);
}

static void put_named(struct tutti_training_reading *reading, const char *name, const char *text)
{
    const char *before = reading->row->settings.variant;
    char variant[TEXT_BYTES];

    snprintf(variant, sizeof(variant), "%.240s%s%.60s=%.120s", before,
             before[0] == '\0' ? "" : "; ", name, text);
    reading->row->settings.variant = keep(reading, variant);
}

static void put_zero(struct tutti_training_reading *reading, const char *column, const char *text)
{
    static const struct {
        const char *word;
        int64_t stage;
        int64_t group;
    } words[] = {
        {"FSDP", 3, 0},
        {"FULL_SHARD", 3, 0},
        {"HSDP", 3, TUTTI_UNSTATED},
        {"SHARD_GRAD_OP", 2, 0},
        {"NO_SHARD", 0, 0},
        {"HYBRID_SHARD", 3, TUTTI_UNSTATED},
        {"no", 0, 0},
        {"none", 0, 0},
        {"DDP", 0, 0},
    };
    struct tutti_training_row_settings *settings = &reading->row->settings;
    const char *digit = text;
    long group = 0;

    settings->zero = text;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(text, words[i].word) == 0) {
            settings->zero_stage = words[i].stage;
            settings->zero_group = words[i].group;
            return;
        }
    }
    if (strncasecmp(digit, "zero", 4) == 0)
        digit += 4 + (digit[4] == '-' || digit[4] == ' ');
    if (*digit < '0' || *digit > '3' || (digit[1] != '\0' && digit[1] != ' ')) {
        tutti_training_problem(reading, column, "'%.60s' (0, 1, 2, 3, FSDP, HSDP, '1 over 8 GPUs')",
                               text);
        return;
    }
    settings->zero_stage = *digit - '0';
    if (strncmp(digit + 1, " over all", 9) == 0)
        settings->zero_group = 0;
    else if (strncmp(digit + 1, " over ", 6) == 0 && (group = strtol(digit + 7, NULL, 10)) > 0)
        settings->zero_group = group;
}

/* "full (HFU 51.4)" holds a result: the parenthesis goes. */
static void put_recompute(struct tutti_training_reading *reading, const char *column,
                          const char *text)
{
    static const struct {
        const char *word;
        enum tutti_training_recompute mode;
    } words[] = {
        {"none", TUTTI_TRAINING_RECOMPUTE_NONE},  {"no", TUTTI_TRAINING_RECOMPUTE_NONE},
        {"false", TUTTI_TRAINING_RECOMPUTE_NONE}, {"selective", TUTTI_TRAINING_RECOMPUTE_SELECTIVE},
        {"full", TUTTI_TRAINING_RECOMPUTE_FULL},  {"true", TUTTI_TRAINING_RECOMPUTE_FULL},
    };
    struct tutti_training_row_settings *settings = &reading->row->settings;
    size_t bytes = strcspn(text, " (+");
    const char *parenthesis = strchr(text, '(');
    char kept[TEXT_BYTES];

    settings->recompute = text;
    if (parenthesis != NULL) {
        size_t cut = (size_t)(parenthesis - text);

        while (cut > 0 && text[cut - 1] == ' ')
            cut--;
        snprintf(kept, sizeof(kept), "%.*s", (int)(cut < 200 ? cut : 200), text);
        settings->recompute = keep(reading, kept);
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strlen(words[i].word) == bytes && strncasecmp(text, words[i].word, bytes) == 0)
            settings->recompute_mode = words[i].mode;
    }
    if (settings->recompute_mode == TUTTI_UNSTATED)
        tutti_training_problem(reading, column, "'%.60s' (none, selective or full)", text);
    if (strstr(settings->recompute, "sequence parallel") != NULL)
        settings->sequence_parallel = 1;
}

/* Words of letters and a number: "TP8 PP2 DP4 EP32, GBS256 seq4096 bf16". */
static void put_parallelism(struct tutti_training_reading *reading, const char *text)
{
    static const struct {
        const char *letters;
        const char *column;
    } words[] = {
        {"TP", "tp"},           {"PP", "pp"},       {"DP", "dp"},
        {"EP", "ep"},           {"CP", "cp"},       {"GBS", "global_batch"},
        {"MBS", "micro_batch"}, {"seq", "seq_len"}, {"VP", "vp"},
    };

    while (*text != '\0') {
        size_t letters = 0;
        size_t bytes = strcspn(text, " ,");
        char digits[32];

        while (isalpha((unsigned char)text[letters]))
            letters++;
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
            if (letters >= bytes || bytes - letters >= sizeof(digits) ||
                strlen(words[i].letters) != letters ||
                strncmp(text, words[i].letters, letters) != 0)
                continue;
            snprintf(digits, sizeof(digits), "%.*s", (int)(bytes - letters), text + letters);
            put_count(reading, tutti_training_column_find(words[i].column), digits, 1);
        }
        text += bytes;
        text += strspn(text, " ,");
    }
}

/* ---- results --------------------------------------------------------------------------------- */

static void put_memory(struct tutti_training_reading *reading,
                       const struct tutti_training_column *column, const char *text)
{
    struct tutti_training_row_results *results = &reading->row->results;

    if (strcasecmp(text, "OOM") == 0)
        results->memory = TUTTI_TRAINING_MEMORY_OUT;
    else if (strcasecmp(text, "failed") == 0)
        results->memory = TUTTI_TRAINING_MEMORY_FAILED;
    else if (tutti_training_number(text, &results->memory_GB)) {
        results->memory_GB *= column->scale;
        results->memory = TUTTI_TRAINING_MEMORY_STATED;
    }
}

static void put_throughput(struct tutti_training_reading *reading,
                           const struct tutti_training_column *column, const char *text)
{
    struct tutti_training_row_results *results = &reading->row->results;
    bool had = !isnan(results->throughput);

    put_number(reading, column, text);
    if (!had && !isnan(results->throughput) && column->unit != NULL)
        results->unit = column->unit;
}

/* ---- a cell ---------------------------------------------------------------------------------- */

static bool is_unstated(const char *text)
{
    return text[0] == '\0' || strcmp(text, "-") == 0 || strcasecmp(text, "n/a") == 0 ||
           strcasecmp(text, "nan") == 0;
}

void tutti_training_put(struct tutti_training_reading *reading,
                        const struct tutti_training_column *column, const char *text)
{
    if (is_unstated(text))
        return;
    switch (column->kind) {
    case TUTTI_COLUMN_TEXT:
    case TUTTI_COLUMN_UNIT:
        put_text(reading, column, text);
        break;
    case TUTTI_COLUMN_JOINED:
        put_joined(reading, column, text);
        break;
    case TUTTI_COLUMN_NAMED:
        put_named(reading, column->name, text);
        break;
    case TUTTI_COLUMN_VARIANT:
        put_variant(reading, text);
        break;
    case TUTTI_COLUMN_COUNT:
    case TUTTI_COLUMN_COUNT_FROM0:
        put_count(reading, column, text, column->kind == TUTTI_COLUMN_COUNT);
        break;
    case TUTTI_COLUMN_NUMBER:
    case TUTTI_COLUMN_PARAMS:
    case TUTTI_COLUMN_RESULT:
        put_number(reading, column, text);
        break;
    case TUTTI_COLUMN_ZERO:
        put_zero(reading, column->name, text);
        break;
    case TUTTI_COLUMN_RECOMPUTE:
        put_recompute(reading, column->name, text);
        break;
    case TUTTI_COLUMN_PARALLELISM:
        put_parallelism(reading, text);
        break;
    case TUTTI_COLUMN_BATCH:
        reading->batch = text;
        break;
    case TUTTI_COLUMN_ACCUM:
        reading->accum = text;
        break;
    case TUTTI_COLUMN_THROUGHPUT:
        put_throughput(reading, column, text);
        break;
    case TUTTI_COLUMN_MEMORY:
        put_memory(reading, column, text);
        break;
    }
}

void tutti_training_reading_close(struct tutti_training_reading *reading)
{
    tutti_training_read_batch(reading);
    tutti_training_find_step(reading->row);
}
