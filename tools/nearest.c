/* The nearest word to a misspelt or shortened one, by edit distance. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "tools/options.h"

enum {
    WORD_BYTES_MAX = 63,
    SHORT_BYTES_MIN = 3, /* letters that a shortened word must have to be taken for one */
};

static size_t least(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;

    return ab < c ? ab : c;
}

/* Levenshtein distance with one row; words beyond the bound are far from everything. */
static size_t distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    size_t row[WORD_BYTES_MAX + 1];

    if (a_bytes > WORD_BYTES_MAX || b_bytes > WORD_BYTES_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_bytes; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_bytes; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b_bytes; j++) {
            size_t above = row[j];

            row[j] = least(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[b_bytes];
}

const char *tutti_nearest(const char *text, const char *words, char *buf, size_t buf_bytes)
{
    size_t text_bytes = strlen(text);
    size_t best = SIZE_MAX;
    size_t limit = text_bytes < 6 ? 1 + text_bytes / 4 : 2 + text_bytes / 8;

    for (const char *p = words; *p != '\0';) {
        size_t length = strcspn(p, "| ");
        bool shortened = text_bytes >= SHORT_BYTES_MIN && text_bytes < length &&
                         memcmp(p, text, text_bytes) == 0;
        size_t far = shortened ? 0 : distance(text, text_bytes, p, length);

        if (far < best && far <= limit && far < text_bytes && length < buf_bytes) {
            best = far;
            (void)snprintf(buf, buf_bytes, "%.*s", (int)length, p);
        }
        p += length;
        p += strspn(p, "| ");
    }
    return best == SIZE_MAX ? NULL : buf;
}

/* Letters of either case. */
static bool contains(const char *text, size_t text_bytes, const char *part)
{
    size_t part_bytes = strlen(part);

    for (size_t i = 0; i + part_bytes <= text_bytes; i++) {
        if (strncasecmp(text + i, part, part_bytes) == 0)
            return true;
    }
    return false;
}

const char *tutti_alike(const char *text, const char *words, char *buf, size_t buf_bytes)
{
    char near[WORD_BYTES_MAX + 1];
    size_t used = 0;

    for (const char *p = words; *p != '\0' && strlen(text) >= SHORT_BYTES_MIN;
         p += strspn(p, "| ")) {
        size_t length = strcspn(p, "| ");

        if (contains(p, length, text) && used < buf_bytes)
            used += (size_t)snprintf(buf + used, buf_bytes - used, "%s'%.*s'",
                                     used > 0 ? " or " : "", (int)length, p);
        p += length;
    }
    if (used == 0 && tutti_nearest(text, words, near, sizeof(near)) != NULL)
        used = (size_t)snprintf(buf, buf_bytes, "'%s'", near);
    return used == 0 ? NULL : buf;
}
