/* The nearest word to a misspelt or shortened one, by edit distance. */
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"

enum {
    WORD_BYTES_MAX = 63,
    SHORT_BYTES_MIN = 3, /* letters that a shortened word must have to be taken for one */
};

static const char separators[] = "|, =";

static size_t lesser(size_t a, size_t b)
{
    return a < b ? a : b;
}

static char lower(char letter)
{
    return (char)tolower((unsigned char)letter);
}

/* Letters put in, left out, mistaken, and neighbours swapped (optimal string alignment); words
 * beyond the bound are far from everything. Either case will do. */
static size_t distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    size_t rows[3][WORD_BYTES_MAX + 1];

    if (a_bytes > WORD_BYTES_MAX || b_bytes > WORD_BYTES_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_bytes; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_bytes; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i - 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= b_bytes; j++) {
            row[j] = lesser(lesser(above[j], row[j - 1]) + 1,
                            above[j - 1] + (lower(a[i - 1]) != lower(b[j - 1])));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = lesser(row[j], rows[(i - 2) % 3][j - 2] + 1);
        }
    }
    return rows[a_bytes % 3][b_bytes];
}

const char *tutti_nearest(const char *text, const char *words, char *buf, size_t buf_bytes)
{
    size_t text_bytes = strlen(text);
    size_t best = SIZE_MAX;
    size_t limit = text_bytes < 6 ? 1 : 2 + text_bytes / 12;

    for (const char *p = words + strspn(words, separators); *p != '\0';
         p += strspn(p, separators)) {
        size_t length = strcspn(p, separators);
        bool shortened = text_bytes >= SHORT_BYTES_MIN && text_bytes < length &&
                         memcmp(p, text, text_bytes) == 0;
        bool joins = length == 2 && memcmp(p, "or", 2) == 0; /* "none, ll or simple" */
        size_t far = shortened ? 0 : distance(text, text_bytes, p, length);

        if (length == text_bytes && memcmp(p, text, length) == 0)
            return NULL; /* known, and refused for something else */
        if (!joins && far < best && far <= limit && far < text_bytes && length < buf_bytes) {
            best = far;
            (void)snprintf(buf, buf_bytes, "%.*s", (int)length, p);
        }
        p += length;
    }
    return best == SIZE_MAX ? NULL : buf;
}

const char *tutti_nearest_hint(const char *text, const char *words, char *buf)
{
    char near[WORD_BYTES_MAX + 1];
    bool found = tutti_nearest(text, words, near, sizeof(near)) != NULL;

    (void)snprintf(buf, TUTTI_HINT_BYTES, found ? "did you mean '%s'? all: " : "%s",
                   found ? near : "");
    return buf;
}
