/* Reads JSON event by event; the state between two calls is where one is and what may follow. */
#include "runtime/launch/json.h"

#include <assert.h>
#include <string.h>

#include "runtime/status.h"

static int refuse(const struct tutti_json_reader *r, const char *what, struct tutti_err *err)
{
    size_t column = (size_t)(r->at - r->start) + 1;

    if (*r->at == '\0')
        return tutti_fail(err, TUTTI_EINVAL, "not JSON: the text ends where %s should be", what);
    return tutti_fail(err, TUTTI_EINVAL, "not JSON: column %zu: '%.20s' where %s should be", column,
                      r->at, what);
}

static void pass_blanks(struct tutti_json_reader *r)
{
    r->at += strspn(r->at, " \t\r\n");
}

static void put(struct tutti_json_reader *r, size_t *used, unsigned byte)
{
    if (*used + 1 < sizeof(r->text))
        r->text[(*used)++] = (char)byte;
    else
        r->cut = true;
    r->text[*used] = '\0';
}

static void put_character(struct tutti_json_reader *r, size_t *used, uint32_t code)
{
    if (code < 0x80) {
        put(r, used, code);
    } else if (code < 0x800) {
        put(r, used, 0xc0 | code >> 6);
        put(r, used, 0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        put(r, used, 0xe0 | code >> 12);
        put(r, used, 0x80 | (code >> 6 & 0x3f));
        put(r, used, 0x80 | (code & 0x3f));
    } else {
        put(r, used, 0xf0 | code >> 18);
        put(r, used, 0x80 | (code >> 12 & 0x3f));
        put(r, used, 0x80 | (code >> 6 & 0x3f));
        put(r, used, 0x80 | (code & 0x3f));
    }
}

static bool read_hex(const char *at, uint32_t *ret)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";

    *ret = 0;
    for (int i = 0; i < 4; i++) {
        const char *digit = at[i] == '\0' ? NULL : strchr(digits, at[i]);

        if (digit == NULL)
            return false;
        *ret = *ret << 4 | (uint32_t)((digit - digits) & 15);
    }
    return true;
}

/* Behind the backslash. Half of a surrogate pair is no character; zero would end a text of C. */
static int read_escape(struct tutti_json_reader *r, size_t *used, struct tutti_err *err)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meant[] = "\"\\/\b\f\n\r\t";
    const char *letter = *r->at == '\0' ? NULL : strchr(letters, *r->at);
    uint32_t code;
    uint32_t low;

    if (letter != NULL) {
        put(r, used, (unsigned char)meant[letter - letters]);
        r->at++;
        return 0;
    }
    if (*r->at != 'u' || !read_hex(r->at + 1, &code) || code == 0 ||
        (code >= 0xdc00 && code < 0xe000))
        return refuse(r, "an escaped character", err);
    r->at += 5;
    if (code >= 0xd800 && code < 0xdc00) {
        if (r->at[0] != '\\' || r->at[1] != 'u' || !read_hex(r->at + 2, &low) || low < 0xdc00 ||
            low >= 0xe000)
            return refuse(r, "the second half of a character", err);
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        r->at += 6;
    }
    put_character(r, used, code);
    return 0;
}

static int read_string(struct tutti_json_reader *r, struct tutti_err *err)
{
    size_t used = 0;

    if (*r->at != '"')
        return refuse(r, "a string", err);
    r->at++;
    while (*r->at != '"') {
        int status = 0;

        if ((unsigned char)*r->at < 0x20)
            return refuse(r, "the end of a string", err);
        if (*r->at == '\\') {
            r->at++;
            status = read_escape(r, &used, err);
        } else {
            put(r, &used, (unsigned char)*r->at++);
        }
        if (status < 0)
            return status;
    }
    r->at++;
    return 0;
}

static bool read_digits(struct tutti_json_reader *r, size_t *used)
{
    const char *before = r->at;

    while (*r->at >= '0' && *r->at <= '9')
        put(r, used, (unsigned char)*r->at++);
    return r->at > before;
}

static int read_number(struct tutti_json_reader *r, struct tutti_err *err)
{
    size_t used = 0;

    if (*r->at == '-')
        put(r, &used, (unsigned char)*r->at++);
    if (*r->at == '0')
        put(r, &used, (unsigned char)*r->at++);
    else if (!read_digits(r, &used))
        return refuse(r, "a value", err);
    if (*r->at == '.') {
        put(r, &used, (unsigned char)*r->at++);
        if (!read_digits(r, &used))
            return refuse(r, "a digit", err);
    }
    if (*r->at == 'e' || *r->at == 'E') {
        put(r, &used, (unsigned char)*r->at++);
        if (*r->at == '+' || *r->at == '-')
            put(r, &used, (unsigned char)*r->at++);
        if (!read_digits(r, &used))
            return refuse(r, "a digit", err);
    }
    return 0;
}

static int read_word(struct tutti_json_reader *r, struct tutti_err *err)
{
    static const char *const words[] = {"true", "false", "null"};
    size_t used = 0;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strncmp(r->at, words[i], strlen(words[i])) != 0)
            continue;
        for (const char *p = words[i]; *p != '\0'; p++, r->at++)
            put(r, &used, (unsigned char)*p);
        return 0;
    }
    return refuse(r, "a value", err);
}

/* What may follow a value at this depth. */
static void after_value(struct tutti_json_reader *r)
{
    r->first = false;
    r->wanted = r->depth == 0 ? 'e' : r->nest[r->depth - 1] == '{' ? 'k' : 'v';
}

static int open_level(struct tutti_json_reader *r, struct tutti_err *err)
{
    if (r->depth == TUTTI_JSON_NEST_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "not read: JSON nested deeper than %d levels",
                          TUTTI_JSON_NEST_MAX);
    r->nest[r->depth++] = *r->at;
    r->first = true;
    r->wanted = *r->at++ == '{' ? 'k' : 'v';
    return 0;
}

static int read_value(struct tutti_json_reader *r, enum tutti_json_event *ret,
                      struct tutti_err *err)
{
    int status;

    if (*r->at == '{' || *r->at == '[') {
        *ret = *r->at == '{' ? TUTTI_JSON_OBJECT : TUTTI_JSON_ARRAY;
        return open_level(r, err);
    }
    if (*r->at == '"') {
        *ret = TUTTI_JSON_STRING;
        status = read_string(r, err);
    } else if (*r->at == '-' || (*r->at >= '0' && *r->at <= '9')) {
        *ret = TUTTI_JSON_NUMBER;
        status = read_number(r, err);
    } else {
        *ret = TUTTI_JSON_WORD;
        status = read_word(r, err);
    }
    if (status == 0)
        after_value(r);
    return status;
}

/* Inside a level: its end, or the comma before what comes next. */
static int pass_comma(struct tutti_json_reader *r, bool *ret_ended, struct tutti_err *err)
{
    char end = r->nest[r->depth - 1] == '{' ? '}' : ']';

    *ret_ended = *r->at == end;
    if (*ret_ended) {
        r->at++;
        r->depth--;
        after_value(r);
        return 0;
    }
    if (r->first)
        return 0;
    if (*r->at != ',')
        return refuse(r, end == '}' ? "',' or '}'" : "',' or ']'", err);
    r->at++;
    pass_blanks(r);
    return 0;
}

void tutti_json_read(struct tutti_json_reader *reader, const char *text)
{
    *reader = (struct tutti_json_reader){.start = text, .at = text, .wanted = 'v'};
}

int tutti_json_next(struct tutti_json_reader *r, enum tutti_json_event *ret, struct tutti_err *err)
{
    bool value = r->wanted == '=';
    bool ended = false;
    int status = 0;

    r->text[0] = '\0';
    r->cut = false;
    pass_blanks(r);
    if (r->wanted == 'e') {
        *ret = TUTTI_JSON_DONE;
        return *r->at == '\0' ? 0 : refuse(r, "the end", err);
    }
    if (r->depth > 0 && !value) {
        char level = r->nest[r->depth - 1];

        status = pass_comma(r, &ended, err);
        if (status < 0 || ended) {
            *ret = level == '{' ? TUTTI_JSON_OBJECT_END : TUTTI_JSON_ARRAY_END;
            return status;
        }
    }
    if (r->wanted != 'k')
        return read_value(r, ret, err);
    status = read_string(r, err);
    pass_blanks(r);
    if (status == 0 && *r->at != ':')
        status = refuse(r, "':'", err);
    if (status < 0)
        return status;
    r->at++;
    r->wanted = '=';
    *ret = TUTTI_JSON_KEY;
    return 0;
}

int tutti_json_skip(struct tutti_json_reader *reader, struct tutti_err *err)
{
    uint32_t depth = reader->depth;
    enum tutti_json_event event;
    int status = 0;

    assert(reader->wanted == '=');
    for (bool more = true; more && status == 0; more = reader->depth > depth)
        status = tutti_json_next(reader, &event, err);
    return status;
}
