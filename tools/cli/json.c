/* A writer of JSON; see json.h. */
#include "tools/cli/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The length of the UTF-8 sequence that `p` begins, or 0 if it is none. */
static int utf8_length(const unsigned char *p)
{
    int length = p[0] < 0x80                    ? 1
                 : p[0] >= 0xc2 && p[0] <= 0xdf ? 2
                 : p[0] >= 0xe0 && p[0] <= 0xef ? 3
                 : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
                                                : 0;

    for (int i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    /* Overlong forms, surrogates and what lies beyond U+10FFFF are not UTF-8 (RFC 3629). */
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return length;
}

static void print_text(FILE *out, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;

    fputc('"', out);
    while (*p != '\0') {
        int length = utf8_length(p);

        if (*p == '"' || *p == '\\')
            fprintf(out, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            fprintf(out, "\\u%04x", *p);
        else if (length == 0)
            fputs("\\ufffd", out);
        else
            fwrite(p, 1, (size_t)length, out);
        p += length == 0 ? 1 : length;
    }
    fputc('"', out);
}

/* The comma, the line or blank, and the key before a value. */
static void begin(struct tutti_json *json, const char *key)
{
    if (json->depth > 0) {
        if (!json->first[json->depth - 1])
            fputc(',', json->out);
        if (json->depth <= 2)
            fprintf(json->out, "\n%*s", 2 * json->depth, "");
        else if (!json->first[json->depth - 1])
            fputc(' ', json->out);
        json->first[json->depth - 1] = false;
    }
    if (key != NULL) {
        print_text(json->out, key);
        fputs(": ", json->out);
    }
}

void tutti_json_open(struct tutti_json *json, const char *key, char bracket)
{
    assert(bracket == '{' || bracket == '[');
    assert(json->depth < TUTTI_JSON_DEPTH_MAX);
    begin(json, key);
    fputc(bracket, json->out);
    json->close[json->depth] = bracket == '{' ? '}' : ']';
    json->first[json->depth] = true;
    json->depth++;
}

void tutti_json_close(struct tutti_json *json)
{
    assert(json->depth > 0);
    json->depth--;
    if (json->depth < 2 && !json->first[json->depth])
        fprintf(json->out, "\n%*s", 2 * json->depth, "");
    fputc(json->close[json->depth], json->out);
    if (json->depth == 0)
        fputc('\n', json->out);
}

void tutti_json_text(struct tutti_json *json, const char *key, const char *value)
{
    begin(json, key);
    if (value == NULL)
        fputs("null", json->out);
    else
        print_text(json->out, value);
}

void tutti_json_count(struct tutti_json *json, const char *key, uint64_t value)
{
    begin(json, key);
    fprintf(json->out, "%" PRIu64, value);
}

void tutti_json_number(struct tutti_json *json, const char *key, double value)
{
    begin(json, key);
    if (isfinite(value))
        fprintf(json->out, "%.12g", value);
    else
        fputs("null", json->out);
}

void tutti_json_bool(struct tutti_json *json, const char *key, bool value)
{
    begin(json, key);
    fputs(value ? "true" : "false", json->out);
}
