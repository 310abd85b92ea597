/* The parameters of a machine as its ranks feel it, and their text form; see sim/local.h. */
#include "sim/local.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backend.h"
#include "runtime/status.h"

enum { LINE_BYTES = 512 };

enum whose {
    ANY,
    BETWEEN, /* of several processes, */
    LENT,    /* of a backend that lends pages */
    BLOCKS,  /* of ranks on a GPU, which have nothing else */
};

struct entry {
    const char *name;
    const char *says;
    double guess;
    enum whose whose;
};

static const struct entry entries[TUTTI_LOCAL_COUNT] = {
    [TUTTI_LOCAL_LAUNCH] = {"launch_us", "to begin and end", 0.2, ANY},
    [TUTTI_LOCAL_LAUNCH_ALONE] = {"launch_alone_us", "the same of one rank", 0.1, ANY},
    [TUTTI_LOCAL_HOP] = {"hop_us", "until another rank sees what one does", 0.1, ANY},
    [TUTTI_LOCAL_STEP] = {"step_us", "of the rank's own time for a step", 0.05, ANY},
    [TUTTI_LOCAL_READ_OWN] = {"read_own_GBps", "to read from its own cache", 100, ANY},
    [TUTTI_LOCAL_READ_OTHER] = {"read_other_GBps", "what another processor has written", 10, ANY},
    [TUTTI_LOCAL_READ_TWIN] = {"read_twin_GBps", "what another processor has read", 120, ANY},
    [TUTTI_LOCAL_READ_SHARED] = {"read_shared_GBps", "from the shared cache", 25, ANY},
    [TUTTI_LOCAL_READ_CAST] = {"read_cast_GBps", "what another one has cast out", 25, ANY},
    [TUTTI_LOCAL_READ_MEMORY] = {"read_memory_GBps", "from memory", 15, ANY},
    [TUTTI_LOCAL_WRITE_OWN] = {"write_own_GBps", "to write in its own cache", 80, ANY},
    [TUTTI_LOCAL_WRITE_OTHER] = {"write_other_GBps", "what another processor has too", 10, ANY},
    [TUTTI_LOCAL_WRITE_SHARED] = {"write_shared_GBps", "in the shared cache", 20, ANY},
    [TUTTI_LOCAL_WRITE_CAST] = {"write_cast_GBps", "what another one has had too", 20, ANY},
    [TUTTI_LOCAL_WRITE_MEMORY] = {"write_memory_GBps", "in memory, through the cache", 10, ANY},
    [TUTTI_LOCAL_COPY_PAST] = {"copy_past_GBps", "copies past the cache", 15, ANY},
    [TUTTI_LOCAL_REDUCE_PAST] = {"reduce_past_GBps", "reductions past the cache", 12, ANY},
    [TUTTI_LOCAL_PUSH] = {"push_GBps", "a second place for a result, besides writing", 100, ANY},
    [TUTTI_LOCAL_OWN_CACHE] = {"own_cache_KiB", "that a processor keeps for itself", 1024, ANY},
    [TUTTI_LOCAL_SHARED_CACHE] = {"shared_cache_KiB", "that all keep together", 32768, ANY},
    [TUTTI_LOCAL_ALL_SHARED] = {"all_shared_GBps", "of all together, shared cache", 60, ANY},
    [TUTTI_LOCAL_ALL_MEMORY] = {"all_memory_GBps", "of all together, memory", 40, ANY},
    [TUTTI_LOCAL_TOGETHER] = {"together_ratio", "of its speed, while others work", 1, ANY},
    [TUTTI_LOCAL_SEND_NEAR] = {"send_near_GBps", "to send a little to another process", 15,
                               BETWEEN},
    [TUTTI_LOCAL_SEND_FAR] = {"send_far_GBps", "and more than a cache holds", 5, BETWEEN},
    [TUTTI_LOCAL_TAKE_NEAR] = {"take_near_GBps", "to receive a little from it", 15, BETWEEN},
    [TUTTI_LOCAL_TAKE_FAR] = {"take_far_GBps", "and more than a cache holds", 5, BETWEEN},
    [TUTTI_LOCAL_CALL] = {"call_us", "for each piece sent or received", 2, BETWEEN},
    [TUTTI_LOCAL_NEAR] = {"near_KiB", "that may be under way and still be near", 2048, BETWEEN},
    [TUTTI_LOCAL_LEND] = {"lend_GBps", "to hand over pages, which are not copied", 50, LENT},
    [TUTTI_LOCAL_TAKE_LENT] = {"take_lent_GBps", "to receive those, beside reading", 15, LENT},
    [TUTTI_LOCAL_TAKE_MEMORY] = {"take_memory_GBps", "to read them from memory", 5, LENT},
    [TUTTI_LOCAL_BLOCK_LAUNCH] = {"block_launch_us", "from launch to end, nothing done", 9, BLOCKS},
    [TUTTI_LOCAL_BLOCK_HOP] = {"block_hop_us", "until another block sees a counter", 1, BLOCKS},
    [TUTTI_LOCAL_BLOCK_LINE] = {"block_line_us", "until what waits for a line is done", 0.5,
                                BLOCKS},
    [TUTTI_LOCAL_BLOCK_STEP] = {"block_step_us", "for an operation; nccl: for a level", 0.6,
                                BLOCKS},
    [TUTTI_LOCAL_BLOCK_COPY] = {"block_copy_GBps",
                                "of a block, one source; nccl: of a rank's messages", 90, BLOCKS},
    [TUTTI_LOCAL_BLOCK_ADD] = {"block_add_GBps", "of a block, more sources; nccl: of a rank's sums",
                               110, BLOCKS},
    [TUTTI_LOCAL_BLOCK_SUM] = {"block_sum_GBps", "of a block, four sources and more", 110, BLOCKS},
    [TUTTI_LOCAL_BLOCK_MEMORY] = {"block_memory_GBps", "of all together, memory", 2000, BLOCKS},
    [TUTTI_LOCAL_BLOCK_SHARED] = {"block_shared_GBps", "of all together, shared cache", 5000,
                                  BLOCKS},
    [TUTTI_LOCAL_BLOCK_CACHE] = {"block_cache_MiB", "that all blocks keep", 40, BLOCKS},
};

const char *tutti_local_name(enum tutti_local_parameter parameter)
{
    assert((unsigned)parameter < TUTTI_LOCAL_COUNT);
    return entries[parameter].name;
}

bool tutti_local_has(const struct tutti_local *local, enum tutti_local_parameter parameter)
{
    const struct tutti_backend_kind *kind = tutti_backend_kind_find(local->backend);

    assert((unsigned)parameter < TUTTI_LOCAL_COUNT);
    if (entries[parameter].whose == BLOCKS || (kind != NULL && kind->on_gpu))
        return entries[parameter].whose == BLOCKS && kind != NULL && kind->on_gpu;
    if (entries[parameter].whose == LENT && (kind == NULL || !kind->lends))
        return false;
    return entries[parameter].whose == ANY || local->process_count > 1;
}

const char *tutti_local_says(enum tutti_local_parameter parameter)
{
    assert((unsigned)parameter < TUTTI_LOCAL_COUNT);
    return entries[parameter].says;
}

/* Wide, and no sum of them beyond what the clock counts. */
struct range {
    double least;
    double most;
};

static struct range range_of(const char *name)
{
    bool is_time = strstr(name, "_us") != NULL;

    return is_time ? (struct range){1e-9, 1e5} : (struct range){1e-3, 1e9};
}

double tutti_local_within(enum tutti_local_parameter parameter, double value)
{
    struct range range = range_of(tutti_local_name(parameter));

    return isnan(value) ? value : fmin(fmax(value, range.least), range.most);
}

struct tutti_local tutti_local_guess(void)
{
    struct tutti_local local = {.backend = "threads",
                                .processor_count = 1,
                                .process_count = 1,
                                .rank_count = 2,
                                .past_cache_bytes = UINT64_C(8) << 20};

    for (int i = 0; i < TUTTI_LOCAL_COUNT; i++)
        local.values[i] = (struct tutti_local_value){
            .value = entries[i].guess, .low = NAN, .high = NAN, .open = true};
    return local;
}

/* ---- reading --------------------------------------------------------------------------------- */

enum { WORDS_MAX = 4 };

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next word of a line, cut off in place; NULL: there is none. */
static char *next_word(char **at)
{
    char *word;

    while (is_blank(**at))
        (*at)++;
    if (**at == '\0')
        return NULL;
    word = *at;
    while (**at != '\0' && !is_blank(**at))
        (*at)++;
    if (**at != '\0')
        *(*at)++ = '\0';
    return word;
}

static int read_text(const char *key, char *at, char *ret, size_t ret_bytes, struct tutti_err *err)
{
    size_t bytes;

    while (is_blank(*at))
        at++;
    bytes = strlen(at);
    while (bytes > 0 && is_blank(at[bytes - 1]))
        bytes--;
    if (bytes == 0 || bytes >= ret_bytes)
        return tutti_fail(err, TUTTI_EINVAL, "'%s' stands with %s (a text of up to %zu bytes)", key,
                          bytes == 0 ? "nothing" : "too much", ret_bytes - 1);
    if (ret[0] != '\0')
        return tutti_fail(err, TUTTI_EINVAL, "'%s' is given twice (once)", key);
    memcpy(ret, at, bytes);
    ret[bytes] = '\0';
    return 0;
}

static int read_whole(const char *key, char *at, uint64_t max, uint64_t *ret, struct tutti_err *err)
{
    const char *word = next_word(&at);
    int status;

    if (word == NULL || next_word(&at) != NULL)
        return tutti_fail(err, TUTTI_EINVAL, "'%s' stands with %s (one number)", key,
                          word == NULL ? "nothing" : "more than that");
    if (*ret != 0)
        return tutti_fail(err, TUTTI_EINVAL, "'%s' is given twice (once)", key);
    status = tutti_read_count(word, 1, max, ret, err);
    return status < 0 ? tutti_wrap(err, status, "'%s'", key) : 0;
}

static int read_number(const char *name, const char *word, double *ret, struct tutti_err *err)
{
    struct range range = range_of(name);
    char *end = NULL;
    double value = strtod(word, &end);

    if (word[strspn(word, "0123456789.eE+-")] != '\0' || end == word || *end != '\0' ||
        !(value >= range.least && value <= range.most))
        return tutti_fail(err, TUTTI_EINVAL, "'%s' is no number (%g to %g; as 0.62)", word,
                          range.least, range.most);
    *ret = value;
    return 0;
}

/* VALUE [LOW HIGH] [open] */
static int read_value(const char *name, char *at, struct tutti_local_value *ret,
                      struct tutti_err *err)
{
    struct tutti_local_value value = {.low = NAN, .high = NAN};
    char *words[WORDS_MAX + 1];
    int count = 0;
    int status;

    while (count <= WORDS_MAX && (words[count] = next_word(&at)) != NULL)
        count++;
    if (count > 0 && strcmp(words[count - 1], "open") == 0) {
        value.open = true;
        count--;
    }
    if (count != 1 && count != 3)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s' stands with %d numbers (VALUE [LOW HIGH] [open])", name, count);
    if (ret->value > 0)
        return tutti_fail(err, TUTTI_EINVAL, "'%s' is given twice (once)", name);
    status = read_number(name, words[0], &value.value, err);
    if (status == 0 && count == 3)
        status = read_number(name, words[1], &value.low, err);
    if (status == 0 && count == 3)
        status = read_number(name, words[2], &value.high, err);
    if (status == 0 && count == 3 && !(value.low <= value.value && value.value <= value.high))
        status = tutti_fail(err, TUTTI_EINVAL, "'%s' is not within its interval %s %s", words[0],
                            words[1], words[2]);
    if (status < 0)
        return tutti_wrap(err, status, "'%s'", name);
    *ret = value;
    return 0;
}

/* What has been read so far: numbers that have not are 0. */
struct reading {
    struct tutti_local local;
    uint64_t processors, processes, ranks, copies;
    struct tutti_local_value apart; /* of which only the value counts */
    bool begun;                     /* the first line was right */
};

static int read_line(struct reading *reading, char *line, struct tutti_err *err)
{
    struct tutti_local *local = &reading->local;
    char *at = line;
    char *key;

    line[strcspn(line, "#")] = '\0';
    key = next_word(&at);
    if (key == NULL)
        return 0;
    if (!reading->begun) {
        const char *second = next_word(&at);
        const char *third = second != NULL ? next_word(&at) : NULL;

        reading->begun = strcmp(key, "tutti") == 0 && third != NULL &&
                         strcmp(second, "local") == 0 && strcmp(third, "1") == 0;
        return reading->begun ? 0
                              : tutti_fail(err, TUTTI_EINVAL,
                                           "'%s' is not how the calibration of a machine begins "
                                           "(tutti local 1, as 'tutti calibrate -B' writes)",
                                           key);
    }
    if (strcmp(key, "backend") == 0)
        return read_text(key, at, local->backend, sizeof(local->backend), err);
    if (strcmp(key, "machine") == 0)
        return read_text(key, at, local->machine, sizeof(local->machine), err);
    if (strcmp(key, "date") == 0)
        return read_text(key, at, local->date, sizeof(local->date), err);
    if (strcmp(key, "processors") == 0)
        return read_whole(key, at, 1 << 20, &reading->processors, err);
    if (strcmp(key, "processes") == 0)
        return read_whole(key, at, 1 << 20, &reading->processes, err);
    if (strcmp(key, "ranks") == 0)
        return read_whole(key, at, 1 << 20, &reading->ranks, err);
    if (strcmp(key, "copies") == 0)
        return read_whole(key, at, 2, &reading->copies, err);
    if (strcmp(key, "apart_ns") == 0)
        return read_value(key, at, &reading->apart, err);
    if (strcmp(key, "past_cache_bytes") == 0)
        return read_whole(key, at, UINT64_C(1) << 50, &local->past_cache_bytes, err);
    for (int p = 0; p < TUTTI_LOCAL_COUNT; p++) {
        if (strcmp(key, entries[p].name) == 0)
            return read_value(key, at, &local->values[p], err);
    }
    return tutti_fail(err, TUTTI_EINVAL,
                      "unknown word '%s' (backend, machine, date, processors, processes, "
                      "ranks, copies, apart_ns, past_cache_bytes, or a parameter as '%s')",
                      key, entries[TUTTI_LOCAL_HOP].name);
}

static int check_all(const struct reading *reading, struct tutti_err *err)
{
    struct tutti_local local = reading->local;
    const char *missing = reading->local.backend[0] == '\0'      ? "backend"
                          : reading->processors == 0             ? "processors"
                          : reading->processes == 0              ? "processes"
                          : reading->ranks == 0                  ? "ranks"
                          : reading->local.past_cache_bytes == 0 ? "past_cache_bytes"
                                                                 : NULL;

    local.process_count = (uint32_t)reading->processes;
    if (!reading->begun)
        return tutti_fail(err, TUTTI_EINVAL,
                          "empty (tutti local 1, as 'tutti calibrate -B' writes)");
    for (int p = 0; missing == NULL && p < TUTTI_LOCAL_COUNT; p++) {
        if (!(local.values[p].value > 0) && tutti_local_has(&local, (enum tutti_local_parameter)p))
            missing = entries[p].name;
    }
    if (missing != NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s' is missing (all that 'tutti calibrate -B' writes)", missing);
    return 0;
}

/* What calibrations before 2026-11-22 do not say: there was one rate for the shared cache, whoever
 * had written there, and each processor was a core. */
static void complete(struct tutti_local *local)
{
    struct tutti_local_value *cast = &local->values[TUTTI_LOCAL_READ_CAST];
    struct tutti_local_value *write = &local->values[TUTTI_LOCAL_WRITE_CAST];
    struct tutti_local_value *together = &local->values[TUTTI_LOCAL_TOGETHER];

    if (!(cast->value > 0)) {
        *cast = local->values[TUTTI_LOCAL_READ_SHARED];
        cast->open = true;
    }
    if (!(write->value > 0)) {
        *write = local->values[TUTTI_LOCAL_WRITE_SHARED];
        write->open = true;
    }
    if (!(together->value > 0))
        *together = (struct tutti_local_value){.value = 1, .low = NAN, .high = NAN, .open = true};
}

static void complete_one(struct tutti_local_value *value, double rate)
{
    if (!(value->value > 0))
        *value = (struct tutti_local_value){.value = rate, .low = NAN, .high = NAN, .open = true};
}

/* Nor what is lent: that cost as what is far, and a call for each piece. */
static void complete_lent(struct tutti_local *local)
{
    static const double piece_KB = 65.536;
    struct tutti_local_value *v = local->values;
    double call_us_KB = v[TUTTI_LOCAL_CALL].value / piece_KB;

    complete_one(&v[TUTTI_LOCAL_LEND], 1 / (1 / v[TUTTI_LOCAL_SEND_FAR].value + call_us_KB));
    complete_one(&v[TUTTI_LOCAL_TAKE_LENT], 1 / (1 / v[TUTTI_LOCAL_TAKE_FAR].value + call_us_KB));
    complete_one(&v[TUTTI_LOCAL_TAKE_MEMORY], v[TUTTI_LOCAL_READ_MEMORY].value);
}

int tutti_local_parse(const char *name, const char *text, size_t bytes, struct tutti_local *ret,
                      struct tutti_err *err)
{
    struct reading reading = {.begun = false};
    char line[LINE_BYTES];
    unsigned number = 0;
    int status = 0;

    for (size_t at = 0; status == 0 && at < bytes;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t length = end != NULL ? (size_t)(end - text) - at : bytes - at;

        number++;
        if (length >= sizeof(line) || memchr(text + at, '\0', length) != NULL) {
            status = tutti_fail(err, TUTTI_EINVAL, "no line of text (of up to %zu bytes)",
                                sizeof(line) - 1);
        } else {
            memcpy(line, text + at, length);
            line[length] = '\0';
            status = read_line(&reading, line, err);
        }
        at += length + 1;
    }
    if (status < 0)
        return tutti_wrap(err, status, "%s: line %u", name, number);
    complete(&reading.local);
    if (reading.processes > 1)
        complete_lent(&reading.local);
    status = check_all(&reading, err);
    if (status < 0)
        return tutti_wrap(err, status, "%s", name);
    reading.local.processor_count = (uint32_t)reading.processors;
    reading.local.process_count = (uint32_t)reading.processes;
    reading.local.rank_count = (uint32_t)reading.ranks;
    reading.local.direct = reading.copies == 1;
    reading.local.apart_ns = reading.apart.value;
    *ret = reading.local;
    return 0;
}

/* ---- printing -------------------------------------------------------------------------------- */

int tutti_local_print(const struct tutti_local *local, char **ret, struct tutti_err *err)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    bool failed;

    if (out == NULL)
        return tutti_nomem(err);
    fprintf(out, "tutti local 1\nbackend %s\n", local->backend);
    if (local->machine[0] != '\0')
        fprintf(out, "machine %s\n", local->machine);
    if (local->date[0] != '\0')
        fprintf(out, "date %s\n", local->date);
    fprintf(out,
            "processors %" PRIu32 "\nprocesses %" PRIu32 "\nranks %" PRIu32
            "\npast_cache_bytes %" PRIu64 "\n",
            local->processor_count, local->process_count, local->rank_count,
            local->past_cache_bytes);
    if (local->direct)
        fputs("copies 1\n", out);
    if (local->apart_ns > 0)
        fprintf(out, "apart_ns %.4g\n", local->apart_ns);
    for (int p = 0; p < TUTTI_LOCAL_COUNT; p++) {
        const struct tutti_local_value *value = &local->values[p];

        if (!tutti_local_has(local, (enum tutti_local_parameter)p))
            continue;
        fprintf(out, "%s %.6g", entries[p].name, value->value);
        if (isfinite(value->low) && isfinite(value->high))
            fprintf(out, " %.6g %.6g", value->low, value->high);
        fprintf(out, "%s\n", value->open ? " open" : "");
    }
    failed = ferror(out) != 0;
    failed = fclose(out) != 0 || failed;
    if (failed) {
        free(text);
        return tutti_nomem(err);
    }
    *ret = text;
    return 0;
}
