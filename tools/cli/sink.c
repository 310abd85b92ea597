/* Files in memory, and files that are functions; see sink.h. */
#include "tools/sink.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int opened(struct tutti_sink *sink, struct tutti_sink *ret, struct tutti_err *err)
{
    if (sink->out != NULL && sink->notes != NULL) {
        *ret = *sink;
        return 0;
    }
    if (sink->out != NULL)
        fclose(sink->out);
    if (sink->notes != NULL)
        fclose(sink->notes);
    return tutti_nomem(err);
}

int tutti_sink_open_text(struct tutti_sink *ret, struct tutti_sink_text *text,
                         struct tutti_err *err)
{
    struct tutti_sink sink = {.out = NULL};
    int status;

    *text = (struct tutti_sink_text){.out = NULL};
    sink.out = open_memstream(&text->out, &text->out_bytes);
    sink.notes = open_memstream(&text->notes, &text->notes_bytes);
    status = opened(&sink, ret, err);
    if (status < 0)
        tutti_sink_text_done(text);
    return status;
}

void tutti_sink_text_done(struct tutti_sink_text *text)
{
    free(text->out);
    free(text->notes);
    *text = (struct tutti_sink_text){.out = NULL};
}

static ssize_t call_out(void *cookie, const char *text, size_t bytes)
{
    const struct tutti_sink_calls *calls = cookie;

    calls->out(calls->data, text, bytes);
    return (ssize_t)bytes;
}

static ssize_t call_notes(void *cookie, const char *text, size_t bytes)
{
    const struct tutti_sink_calls *calls = cookie;

    calls->notes(calls->data, text, bytes);
    return (ssize_t)bytes;
}

int tutti_sink_open_calls(struct tutti_sink *ret, const struct tutti_sink_calls *calls,
                          struct tutti_err *err)
{
    void *cookie = (void *)(uintptr_t)calls; /* the functions of stdio take no const */
    struct tutti_sink sink = {
        .out = fopencookie(cookie, "w", (cookie_io_functions_t){.write = call_out}),
        .notes = fopencookie(cookie, "w", (cookie_io_functions_t){.write = call_notes}),
    };

    if (sink.notes != NULL) /* what is said is heard at once */
        (void)setvbuf(sink.notes, NULL, _IOLBF, 0);
    return opened(&sink, ret, err);
}

static int close_one(FILE *file)
{
    bool failed = ferror(file) != 0;

    return fclose(file) != 0 || failed ? errno != 0 ? errno : EIO : 0;
}

int tutti_sink_close(struct tutti_sink *sink, struct tutti_err *err)
{
    int out = close_one(sink->out);
    int notes = close_one(sink->notes);
    int number = out != 0 ? out : notes;

    *sink = (struct tutti_sink){.out = NULL};
    if (number == ENOMEM)
        return tutti_nomem(err);
    return number == 0 ? 0 : tutti_fail(err, TUTTI_EIO, "cannot print: %s", strerror(number));
}

bool tutti_sink_is_files(const struct tutti_sink *sink)
{
    return fileno(sink->out) >= 0 && fileno(sink->notes) >= 0;
}

bool tutti_sink_become_child(struct tutti_sink *sink, bool terminal)
{
    if (fileno(sink->out) != STDOUT_FILENO)
        sink->out = fdopen(STDOUT_FILENO, "w");
    if (fileno(sink->notes) != STDERR_FILENO)
        sink->notes = fdopen(STDERR_FILENO, "w");
    if (sink->out == NULL || sink->notes == NULL)
        return false;
    sink->out_terminal = sink->out_terminal && terminal;
    sink->notes_terminal = sink->notes_terminal && terminal;
    sink->child = true;
    return true;
}
