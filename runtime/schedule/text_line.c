/* Lines of a text form, their words and numbers, each looked at once. */
#include <inttypes.h>
#include <string.h>

#include "runtime/schedule/text.h"
#include "runtime/status.h"

int tutti_lines_open(struct tutti_lines *lines, const char *text, size_t bytes,
                     struct tutti_err *err)
{
    *lines = (struct tutti_lines){text, text + bytes, bytes == 0 ? 1 : 0};
    if (bytes > TUTTI_TEXT_BYTES_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "a text of '%zu' bytes (up to %d)", bytes,
                          TUTTI_TEXT_BYTES_MAX);
    return 0;
}

bool tutti_lines_next(struct tutti_lines *lines, struct tutti_line *ret)
{
    const char *text = lines->next;
    const char *stop;
    const char *comment;

    if (text == lines->end)
        return false;
    stop = memchr(text, '\n', (size_t)(lines->end - text));
    stop = stop == NULL ? lines->end : stop;
    comment = memchr(text, '#', (size_t)(stop - text));
    *ret = (struct tutti_line){text, comment == NULL ? stop : comment, NULL};
    lines->next = stop + (stop < lines->end);
    lines->number++;
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

bool tutti_word_is(struct tutti_word word, const char *text)
{
    return strlen(text) == word.bytes && memcmp(word.text, text, word.bytes) == 0;
}

bool tutti_line_word(struct tutti_line *line, struct tutti_word *ret)
{
    const char *begin = line->next;
    const char *end;

    while (begin < line->end && is_blank(*begin))
        begin++;
    for (end = begin; end < line->end && !is_blank(*end);)
        end++;
    line->next = end;
    *ret = (struct tutti_word){begin, (size_t)(end - begin)};
    return end > begin;
}

int tutti_line_need(struct tutti_line *line, const char *what, struct tutti_word *ret,
                    struct tutti_err *err)
{
    struct tutti_word word;

    if (!tutti_line_word(line, &word))
        return tutti_fail(err, TUTTI_EINVAL, "the line ends where %s should stand", what);
    *ret = word;
    return 0;
}

int tutti_line_expect(struct tutti_line *line, const char *text, struct tutti_err *err)
{
    struct tutti_word word = {NULL, 0};

    if (!tutti_line_word(line, &word))
        return tutti_fail(err, TUTTI_EINVAL, "the line ends where '%s' should stand", text);
    if (!tutti_word_is(word, text))
        return tutti_fail(err, TUTTI_EINVAL, "unexpected '%.*s' ('%s')", TUTTI_WORD_SHOW(word),
                          text);
    return 0;
}

int tutti_line_number(struct tutti_line *line, const char *what, uint64_t max, uint64_t *ret,
                      struct tutti_err *err)
{
    struct tutti_word word = {NULL, 0};
    uint64_t value = 0;
    bool fits = true;
    int status = tutti_line_need(line, what, &word, err);

    if (status < 0)
        return status;
    for (size_t i = 0; i < word.bytes && fits; i++) {
        unsigned digit = (unsigned char)word.text[i] - (unsigned)'0';

        fits = digit <= 9 && !__builtin_mul_overflow(value, UINT64_C(10), &value) &&
               !__builtin_add_overflow(value, (uint64_t)digit, &value);
    }
    if (!fits || value > max)
        return tutti_fail(err, TUTTI_EINVAL, "'%.*s' is not %s (0 to %" PRIu64 ")",
                          TUTTI_WORD_SHOW(word), what, max);
    *ret = value;
    return 0;
}

int tutti_line_number32(struct tutti_line *line, const char *what, uint32_t *ret,
                        struct tutti_err *err)
{
    uint64_t value = 0;
    int status = tutti_line_number(line, what, UINT32_MAX, &value, err);

    if (status == 0)
        *ret = (uint32_t)value;
    return status;
}

int tutti_line_end(struct tutti_line *line, struct tutti_err *err)
{
    struct tutti_word word;

    if (tutti_line_word(line, &word))
        return tutti_fail(err, TUTTI_EINVAL, "unexpected '%.*s' (the end of the line)",
                          TUTTI_WORD_SHOW(word));
    return 0;
}
