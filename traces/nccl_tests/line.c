/* Cleaning lines of logs and reading the words in them. */
#include "traces/nccl_tests/line.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ESCAPE = 0x1b };

/* Length of a colour code or other control sequence (ESC [ ... letter) at text[0], else 0. */
static size_t escape_bytes(const char *text, size_t bytes)
{
    size_t i = 2;

    if (bytes < 2 || text[0] != ESCAPE || text[1] != '[')
        return 0;
    while (i < bytes && (text[i] < '@' || text[i] > '~'))
        i++;
    return i < bytes ? i + 1 : i;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Length of "[1,0]<stdout>:" or "[1,0]<stderr>:" at text[0], else 0. */
static size_t launcher_bytes(const char *text, size_t bytes)
{
    static const char tail[2][11] = {"]<stdout>:", "]<stderr>:"};
    size_t i = 1;

    if (bytes < 4 || text[0] != '[')
        return 0;
    while (i < bytes && (is_digit(text[i]) || text[i] == ','))
        i++;
    for (size_t which = 0; which < 2; which++) {
        size_t tail_bytes = sizeof(tail[which]) - 1;
        if (bytes - i >= tail_bytes && memcmp(text + i, tail[which], tail_bytes) == 0)
            return i + tail_bytes;
    }
    return 0;
}

/* Length of srun's label "[3]" at text[0] where it stands right behind something: srun -l puts one
 * before each piece that a process writes, and nccl-tests writes a row in three; else 0. */
static size_t label_bytes(const char *text, size_t bytes, char before)
{
    size_t i = 1;

    if (text[0] != '[' || !(is_digit(before) || before == 'A')) /* a number, or N/A */
        return 0;
    while (i < bytes && is_digit(text[i]))
        i++;
    return i > 1 && i < bytes && text[i] == ']' ? i + 1 : 0;
}

void tutti_log_line_clean(const char *text, size_t bytes, struct tutti_log_line *ret)
{
    size_t used = 0;
    size_t skip;

    for (size_t i = 0; i < bytes && used + 1 < sizeof(ret->text); i++) {
        char c = text[i];
        if ((skip = escape_bytes(text + i, bytes - i)) > 0) {
            i += skip - 1;
            continue;
        }
        if ((skip = launcher_bytes(text + i, bytes - i)) > 0 ||
            (skip = label_bytes(text + i, bytes - i, i > 0 ? text[i - 1] : ' ')) > 0) {
            i += skip - 1;
            c = ' ';
        }
        if (c == '\r' || c == '\0')
            continue;
        ret->text[used++] = c == '|' || c == '`' || c == '*' || c == '\t' ? ' ' : c;
    }
    ret->text[used] = '\0';
    ret->word_count = 0;
}

void tutti_log_line_cut(struct tutti_log_line *line, bool commas)
{
    bool inside = false;

    line->word_count = 0;
    for (size_t i = 0;; i++) {
        char c = line->text[i];
        bool gap = c == ' ' || c == '\0' || (commas && c == ',');
        if (!gap && !inside) {
            if (line->word_count == LINE_WORDS_MAX)
                break;
            line->word[line->word_count++] = line->word_bytes + i;
        }
        line->word_bytes[i] = c;
        if (gap)
            line->word_bytes[i] = '\0';
        inside = !gap;
        if (c == '\0')
            break;
    }
    /* Where the cutting stopped early the last word must still end. */
    line->word_bytes[sizeof(line->word_bytes) - 1] = '\0';
}

void tutti_log_line_join(struct tutti_log_line *line, const struct tutti_log_line *more)
{
    for (uint32_t i = 0; i < more->word_count && line->word_count < LINE_WORDS_MAX; i++)
        line->word[line->word_count++] = more->word[i];
}

bool tutti_log_read_u64(const char *word, uint64_t *ret)
{
    uint64_t value = 0;

    if (!is_digit(word[0]))
        return false;
    for (; *word != '\0'; word++) {
        if (*word == '_' && is_digit(word[1]))
            continue;
        if (!is_digit(*word) || __builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*word - '0'), &value))
            return false;
    }
    *ret = value;
    return true;
}

bool tutti_log_read_double(const char *word, double *ret)
{
    char *end = NULL;
    double value;

    if (strcmp(word, "N/A") == 0 || strcmp(word, "nan") == 0 || strcmp(word, "-nan") == 0 ||
        strcmp(word, "-") == 0) {
        *ret = NAN;
        return true;
    }
    if (word[0] == '\0' || strspn(word, "0123456789+-.eE") != strlen(word))
        return false;
    value = strtod(word, &end);
    if (end == word || *end != '\0' || !isfinite(value))
        return false;
    *ret = value;
    return true;
}
