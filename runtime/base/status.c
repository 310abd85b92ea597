/* Error messages: one line of text, context put before the cause on its way up. */
#include "runtime/status.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Quotes from files may hold anything; a message is one line and moves no terminal's cursor. */
static void make_visible(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

int tutti_fail(struct tutti_err *err, enum tutti_status code, const char *format, ...)
{
    va_list args;

    assert(code > 0);
    if (err != NULL) {
        va_start(args, format);
        (void)vsnprintf(err->text, sizeof(err->text), format, args);
        va_end(args);
        make_visible(err->text);
    }
    return -(int)code;
}

int tutti_wrap(struct tutti_err *err, int status, const char *format, ...)
{
    char cause[TUTTI_ERR_TEXT_BYTES];
    va_list args;
    size_t used;
    int length;

    assert(status < 0);
    if (err == NULL)
        return status;
    memcpy(cause, err->text, sizeof(cause));
    va_start(args, format);
    length = vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    used = length < 0 ? 0 : (size_t)length;
    for (const char *p = ": "; *p != '\0' && used + 1 < sizeof(err->text); p++)
        err->text[used++] = *p;
    for (const char *p = cause; *p != '\0' && used + 1 < sizeof(err->text); p++)
        err->text[used++] = *p;
    err->text[used < sizeof(err->text) ? used : sizeof(err->text) - 1] = '\0';
    make_visible(err->text);
    return status;
}

int tutti_nomem(struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_ENOMEM, "out of memory");
}
