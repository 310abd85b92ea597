/* A strict reader of JSON (RFC 8259), event by event, in constant memory: for what launchers leave
 * in a variable. */
#ifndef TUTTI_RUNTIME_LAUNCH_JSON_H
#define TUTTI_RUNTIME_LAUNCH_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tutti_err;

enum { TUTTI_JSON_NEST_MAX = 32, TUTTI_JSON_TEXT_BYTES = 512 };

enum tutti_json_event {
    TUTTI_JSON_OBJECT,     /* { */
    TUTTI_JSON_OBJECT_END, /* } */
    TUTTI_JSON_ARRAY,      /* [ */
    TUTTI_JSON_ARRAY_END,  /* ] */
    TUTTI_JSON_KEY,        /* text: of a member, before its value */
    TUTTI_JSON_STRING,     /* text: a value, UTF-8 */
    TUTTI_JSON_NUMBER,     /* text: as it stands */
    TUTTI_JSON_WORD,       /* text: true, false, null */
    TUTTI_JSON_DONE,       /* behind the one value that a text is */
};

struct tutti_json_reader {
    const char *start;
    const char *at;
    uint32_t depth;
    char nest[TUTTI_JSON_NEST_MAX]; /* '{' or '[' of each level */
    char wanted;                    /* what may come next: v(alue), k(ey), or e(nd) of a level */
    bool first;                     /* nothing has come in this level yet */
    bool cut;                       /* text was longer than this has room for */
    char text[TUTTI_JSON_TEXT_BYTES];
};

/* `text` is borrowed while it is read. */
void tutti_json_read(struct tutti_json_reader *reader, const char *text);

/* The next event. -TUTTI_EINVAL says what is wrong and where. */
int tutti_json_next(struct tutti_json_reader *reader, enum tutti_json_event *ret,
                    struct tutti_err *err);

/* Behind a KEY: passes over its value. */
int tutti_json_skip(struct tutti_json_reader *reader, struct tutti_err *err);

#endif
