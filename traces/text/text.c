/* Growing texts, JSON strings and the names of steps. */
#include "traces/text/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/schedule.h"
#include "runtime/status.h"

enum { TEXT_BYTES_MIN = 4096 };

/* Room for `more` bytes and a zero. */
static bool reserve(struct tutti_trace_text *text, size_t more)
{
    size_t wanted = text->capacity == 0 ? TEXT_BYTES_MIN : text->capacity;
    char *larger;

    if (text->failed || more > SIZE_MAX / 4 || text->count > SIZE_MAX / 4)
        text->failed = true;
    if (text->failed)
        return false;
    while (wanted < text->count + more + 1)
        wanted *= 2;
    if (wanted == text->capacity)
        return true;
    larger = realloc(text->bytes, wanted);
    if (larger == NULL) {
        text->failed = true;
        return false;
    }
    text->bytes = larger;
    text->capacity = wanted;
    return true;
}

void tutti_trace_text_add(struct tutti_trace_text *text, const char *format, ...)
{
    va_list list;
    int bytes;

    va_start(list, format);
    bytes = vsnprintf(NULL, 0, format, list);
    va_end(list);
    assert(bytes >= 0);
    if (!reserve(text, (size_t)bytes))
        return;
    va_start(list, format);
    vsnprintf(text->bytes + text->count, (size_t)bytes + 1, format, list);
    va_end(list);
    text->count += (size_t)bytes;
}

/* Length of the valid UTF-8 sequence at `at` (RFC 3629), 0 if there is none. */
static size_t utf8_bytes(const unsigned char *at)
{
    size_t bytes = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;

    if (at[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < bytes; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    }
    /* Overlong forms, surrogates, and what lies beyond U+10FFFF. */
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
        (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
        return 0;
    return bytes;
}

void tutti_trace_text_add_json(struct tutti_trace_text *text, const char *value)
{
    const unsigned char *at = (const unsigned char *)value;

    tutti_trace_text_add(text, "\"");
    while (*at != '\0') {
        size_t bytes = utf8_bytes(at);
        if (bytes == 0)
            tutti_trace_text_add(text, "\\ufffd");
        else if (*at == '"' || *at == '\\')
            tutti_trace_text_add(text, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7f)
            tutti_trace_text_add(text, "\\u%04x", *at);
        else
            tutti_trace_text_add(text, "%.*s", (int)bytes, (const char *)at);
        at += bytes == 0 ? 1 : bytes;
    }
    tutti_trace_text_add(text, "\"");
}

int tutti_trace_text_finish(struct tutti_trace_text *text, char **ret, struct tutti_err *err)
{
    if (!reserve(text, 0)) {
        free(text->bytes);
        *text = (struct tutti_trace_text){0};
        return tutti_nomem(err);
    }
    text->bytes[text->count] = '\0';
    *ret = text->bytes;
    *text = (struct tutti_trace_text){0};
    return 0;
}

const char *tutti_trace_kind_name(uint8_t kind)
{
    static const char *const names[] = {
        [TUTTI_SEND] = "send", [TUTTI_RECV] = "recv",       [TUTTI_REDUCE] = "reduce",
        [TUTTI_COPY] = "copy", [TUTTI_COMPUTE] = "compute", [TUTTI_CALL] = "call",
    };

    return kind >= TUTTI_SEND && kind <= TUTTI_CALL ? names[kind] : "unknown";
}
