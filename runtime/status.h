/* Status codes and the error message that travels with them. */
#ifndef TUTTI_RUNTIME_STATUS_H
#define TUTTI_RUNTIME_STATUS_H

#include <stdarg.h>
#include <stddef.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

/* Functions that can fail return 0 or one of these, negated. `tutti` maps them to exit codes:
 * TUTTI_EINVAL 2 (wrong usage or input), TUTTI_ELACK 77 (this machine or build lacks it), others 1.
 */
enum tutti_status {
    TUTTI_EINVAL = 1, /* the caller's input is wrong: names, numbers, files, schedules */
    TUTTI_ENOMEM = 2, /* memory ran out */
    TUTTI_EIO = 3,    /* the operating system refused: to read, to write, to start a thread */
    TUTTI_ETIME = 4,  /* a deadline passed; the message names what was waited for */
    TUTTI_ELACK = 5,  /* this build or this machine lacks what is needed */
    TUTTI_ECHECK = 6, /* a check did not hold: a wrong result, a schedule refused, a deadlock */
};

enum { TUTTI_ERR_TEXT_BYTES = 1024 };

/* One line of text, control characters in it replaced by '?', outermost context first:
 * "file: line 3: unknown key 'foo' (bar or baz)".
 * The caller owns it; every function that takes one also takes NULL. */
struct tutti_err {
    char text[TUTTI_ERR_TEXT_BYTES]; /* zero-terminated; cut at the end if too long */
};

/* Write the message and return `-code`, so that `return tutti_fail(err, TUTTI_EINVAL, ...)` works.
 */
__attribute__((format(printf, 3, 4))) int tutti_fail(struct tutti_err *err, enum tutti_status code,
                                                     const char *format, ...);

/* Put "context: " before the message already in `err` and return `status` unchanged (negative). */
__attribute__((format(printf, 3, 4))) int tutti_wrap(struct tutti_err *err, int status,
                                                     const char *format, ...);

/* Out of memory, said in one fixed sentence: returns -TUTTI_ENOMEM. */
int tutti_nomem(struct tutti_err *err);

/* The nearest of `words` (separated by blanks, commas, '|' or '=') to a misspelt or shortened one,
 * in `buf`; NULL: none is near. */
const char *tutti_nearest(const char *text, const char *words, char *buf, size_t buf_bytes);

enum { TUTTI_HINT_BYTES = 96 };

/* What stands before the words accepted in a message that refuses one, in `buf` of
 * TUTTI_HINT_BYTES: "did you mean 'ring'? all: ", or "" where none is near. */
const char *tutti_nearest_hint(const char *text, const char *words, char *buf);

TUTTI_API_END

#endif
