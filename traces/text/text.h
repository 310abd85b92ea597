/* A text that grows: what the writers of files print into. */
#ifndef TUTTI_TRACES_TEXT_TEXT_H
#define TUTTI_TRACES_TEXT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero is an empty text. After a failed allocation it stays as it is and `failed` is set; what
 * is added later is dropped, so that writers may check once, at the end. */
struct tutti_trace_text {
    char *bytes; /* zero-terminated once something was added; from malloc */
    size_t count;
    size_t capacity;
    bool failed;
};

__attribute__((format(printf, 2, 3))) void tutti_trace_text_add(struct tutti_trace_text *text,
                                                                const char *format, ...);

/* Adds a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void tutti_trace_text_add_json(struct tutti_trace_text *text, const char *value);

/* Hands the text over: 0 and *ret, which the caller frees, or -TUTTI_ENOMEM. */
struct tutti_err;
int tutti_trace_text_finish(struct tutti_trace_text *text, char **ret, struct tutti_err *err);

/* "send", "recv", ... for an enum tutti_step_kind; "unknown" for any other number. */
const char *tutti_trace_kind_name(uint8_t kind);

#endif
