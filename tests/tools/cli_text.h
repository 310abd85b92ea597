/* Text of the golden cases: growing, and fitting what is expected, "..." being anything at all. */
#ifndef TUTTI_TESTS_TOOLS_CLI_TEXT_H
#define TUTTI_TESTS_TOOLS_CLI_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct text {
    char *at; /* zero-terminated */
    size_t bytes;
    size_t capacity;
};

__attribute__((unused)) static void text_add(struct text *text, const char *more, size_t bytes)
{
    if (text->bytes + bytes + 1 > text->capacity) {
        text->capacity = 2 * (text->bytes + bytes) + 64;
        text->at = realloc(text->at, text->capacity);
        if (text->at == NULL)
            abort();
    }
    memcpy(text->at + text->bytes, more, bytes);
    text->bytes += bytes;
    text->at[text->bytes] = '\0';
}

__attribute__((unused)) static void text_line(struct text *text, const char *prefix,
                                              const char *line, size_t bytes)
{
    text_add(text, prefix, strlen(prefix));
    text_add(text, line, bytes);
    text_add(text, "\n", 1);
}

__attribute__((unused)) static const char *text_of(const struct text *text)
{
    return text->at == NULL ? "" : text->at;
}

__attribute__((unused)) static void text_done(struct text *text)
{
    free(text->at);
    *text = (struct text){0};
}

/* Does `seen` fit `expected`, where "..." stands for any characters? */
__attribute__((unused)) static bool line_fits(const char *expected, size_t expected_bytes,
                                              const char *seen, size_t seen_bytes)
{
    size_t e = 0;
    size_t s = 0;
    size_t star = SIZE_MAX; /* behind the last "..." */
    size_t star_seen = 0;

    while (s < seen_bytes || e < expected_bytes) {
        if (e + 3 <= expected_bytes && memcmp(expected + e, "...", 3) == 0) {
            e += 3;
            star = e;
            star_seen = s;
        } else if (e < expected_bytes && s < seen_bytes && expected[e] == seen[s]) {
            e++;
            s++;
        } else if (star != SIZE_MAX && star_seen < seen_bytes) {
            e = star;
            s = ++star_seen;
        } else {
            return false;
        }
    }
    return true;
}

/* The same for lines: one of "..." alone stands for any number of lines. */
__attribute__((unused)) static bool text_fits(const char *expected, const char *seen)
{
    const char *star = NULL;
    const char *star_seen = NULL;

    while (*expected != '\0' || *seen != '\0') {
        size_t e = strcspn(expected, "\n");
        size_t s = strcspn(seen, "\n");

        if (e == 3 && memcmp(expected, "...", 3) == 0) {
            expected += e + (expected[e] == '\n');
            star = expected;
            star_seen = seen;
        } else if (*expected != '\0' && *seen != '\0' && line_fits(expected, e, seen, s)) {
            expected += e + (expected[e] == '\n');
            seen += s + (seen[s] == '\n');
        } else if (star != NULL && *star_seen != '\0') {
            s = strcspn(star_seen, "\n");
            star_seen += s + (star_seen[s] == '\n');
            seen = star_seen;
            expected = star;
        } else {
            return false;
        }
    }
    return true;
}

#endif
