/* Calibrations as text: reading and printing; the grammar is at the top of sim/calib.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/calib/store.h"

enum { LINE_BYTES = 1024, WORDS_MAX = 5, NUMBER_BYTES = 32 };

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Cuts a line into words, in place; returns how many, WORDS_MAX + 1 for more than that. */
static int cut(char *line, char *words[WORDS_MAX])
{
    int count = 0;

    for (char *at = line;; at++) {
        while (is_blank(*at))
            at++;
        if (*at == '\0')
            return count;
        if (count == WORDS_MAX)
            return WORDS_MAX + 1;
        words[count++] = at;
        while (*at != '\0' && !is_blank(*at))
            at++;
        if (*at == '\0')
            return count;
        *at = '\0';
    }
}

/* The rest of a line behind its first `count` words. */
static char *rest_of(char *line, int count)
{
    char *at = line;

    for (int i = 0; i < count; i++) {
        at += strspn(at, " \t");
        at += strcspn(at, " \t");
    }
    return at + strspn(at, " \t");
}

static bool begins_with(const char *line, const char *word)
{
    size_t bytes = strlen(word);

    return strncmp(line, word, bytes) == 0 && (line[bytes] == '\0' || is_blank(line[bytes]));
}

static bool is_number(const char *word)
{
    return (word[0] >= '0' && word[0] <= '9') || word[0] == '.' || word[0] == '-' || word[0] == '+';
}

static int read_number(const char *word, double *ret, struct tutti_err *err)
{
    char *end = NULL;
    double value = strtod(word, &end);

    if (word[strspn(word, "0123456789.eE+-")] != '\0' || end == word || *end != '\0' ||
        !isfinite(value))
        return tutti_fail(err, TUTTI_EINVAL, "'%s' is no number (as 0.62; the name says the unit)",
                          word);
    *ret = value;
    return 0;
}

/* NAME VALUE [LOW HIGH] [WORD] */
static int read_value(struct tutti_calib *calib, char *line, struct tutti_err *err)
{
    struct tutti_calib_value value = {.low = NAN, .high = NAN};
    const struct tutti_calib_value *known = NULL;
    char *words[WORDS_MAX];
    int count = cut(line, words);
    int at = 2;
    int status = tutti_calib_get(calib, words[0], &known, err);

    if (status < 0)
        return status;
    if (known != NULL)
        return tutti_fail(err, TUTTI_EINVAL, "'%s' is given twice (once)", words[0]);
    if (count < 2 || count > WORDS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "'%s' stands with %s (NAME VALUE [LOW HIGH] [SOURCE])",
                          words[0], count < 2 ? "no value" : "too many words");
    status = read_number(words[1], &value.value, err);
    if (status == 0 && count > 3) {
        status = read_number(words[2], &value.low, err);
        if (status == 0)
            status = read_number(words[3], &value.high, err);
        at = 4;
    }
    if (status < 0)
        return status;
    if (at < count) {
        if (is_number(words[at]) || strlen(words[at]) >= sizeof(value.source))
            return tutti_fail(err, TUTTI_EINVAL,
                              "'%s' stands where a source may (NAME VALUE [LOW HIGH] [SOURCE])",
                              words[at]);
        memcpy(value.source, words[at], strlen(words[at]) + 1);
    }
    return tutti_calib_set(calib, words[0], &value, err);
}

/* source WORD TEXT... */
static int read_source(struct tutti_calib *calib, char *line, struct tutti_err *err)
{
    char *text = rest_of(line, 2);
    char *word = rest_of(line, 1);

    if (*text == '\0')
        return tutti_fail(err, TUTTI_EINVAL, "a source without a text (source WORD TEXT)");
    word[strcspn(word, " \t")] = '\0';
    if (tutti_calib_source(calib, word) != NULL)
        return tutti_fail(err, TUTTI_EINVAL, "source '%s' is given twice (once)", word);
    return tutti_calib_set_source(calib, word, text, err);
}

static int read_line(struct tutti_calib *calib, char *line, struct tutti_err *err)
{
    size_t bytes = strcspn(line, "#");

    while (bytes > 0 && is_blank(line[bytes - 1]))
        bytes--;
    line[bytes] = '\0';
    line += strspn(line, " \t");
    if (*line == '\0')
        return 0;
    if (begins_with(line, "source"))
        return read_source(calib, line, err);
    if (!begins_with(line, "calibration"))
        return read_value(calib, line, err);
    if (calib->title != NULL)
        return tutti_fail(err, TUTTI_EINVAL, "'calibration' is given twice (once)");
    return tutti_calib_set_title(calib, rest_of(line, 1), err);
}

static int copy_line(const char *begin, size_t bytes, char *line, struct tutti_err *err)
{
    if (bytes > 0 && begin[bytes - 1] == '\r')
        bytes--;
    if (bytes >= LINE_BYTES)
        return tutti_fail(err, TUTTI_EINVAL, "'%zu' bytes are too long a line (fewer than %d)",
                          bytes, LINE_BYTES);
    for (size_t i = 0; i < bytes; i++) {
        if (((unsigned char)begin[i] < 0x20 && begin[i] != '\t') || begin[i] == 0x7f)
            return tutti_fail(err, TUTTI_EINVAL, "byte '0x%02x' is no text",
                              (unsigned)(unsigned char)begin[i]);
    }
    memcpy(line, begin, bytes);
    line[bytes] = '\0';
    return 0;
}

int tutti_calib_parse(const char *name, const char *text, size_t bytes, struct tutti_calib **ret,
                      struct tutti_err *err)
{
    struct tutti_calib *calib = NULL;
    uint64_t number = 0;
    int status = tutti_calib_new(&calib, err);

    for (size_t at = 0; at < bytes && status == 0;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t length = end != NULL ? (size_t)(end - text) - at : bytes - at;
        char line[LINE_BYTES];

        number++;
        status = copy_line(text + at, length, line, err);
        if (status == 0)
            status = read_line(calib, line, err);
        if (status < 0 && status != -TUTTI_ENOMEM)
            status = tutti_wrap(err, status, "%s: line %" PRIu64, name, number);
        at += length + 1;
    }
    if (status < 0) {
        tutti_calib_free(calib);
        return status;
    }
    *ret = calib;
    return 0;
}

/* ---- printing -------------------------------------------------------------------------------- */

/* The shortest decimals that are read back as the same number. */
static const char *print_number(double value, char text[NUMBER_BYTES])
{
    for (int digits = 6; digits <= 17; digits++) {
        (void)snprintf(text, NUMBER_BYTES, "%.*g", digits, value);
        if (!(strtod(text, NULL) < value) && !(strtod(text, NULL) > value))
            break;
    }
    return text;
}

static void print_value(FILE *out, const char *name, const struct tutti_calib_value *value)
{
    char number[NUMBER_BYTES];

    fprintf(out, "%s %s", name, print_number(value->value, number));
    if (!isnan(value->low)) {
        fprintf(out, " %s", print_number(value->low, number));
        fprintf(out, " %s", print_number(value->high, number));
    }
    fprintf(out, "%s%s\n", value->source[0] != '\0' ? " " : "", value->source);
}

int tutti_calib_print(const struct tutti_calib *calib, char **ret, struct tutti_err *err)
{
    char name[TUTTI_CALIB_NAME_BYTES];
    const struct tutti_calib_value *value;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    bool failed;

    if (out == NULL)
        return tutti_nomem(err);
    if (calib->title != NULL)
        fprintf(out, "calibration %s\n", calib->title);
    for (uint32_t i = 0; i < calib->origin_count; i++)
        fprintf(out, "source %s %s\n", calib->origins[i].word, calib->origins[i].text);
    for (size_t i = 0; (value = tutti_calib_at(calib, i, name)) != NULL; i++)
        print_value(out, name, value);
    failed = ferror(out) != 0;
    failed |= fclose(out) != 0;
    if (failed) {
        free(text);
        return tutti_nomem(err);
    }
    *ret = text;
    return 0;
}
