/* Lines of a text form, and their words. The grammar of schedules stands in text.c, that of models
 * in runtime/workload/model_text.c. */
#ifndef TUTTI_RUNTIME_SCHEDULE_TEXT_H
#define TUTTI_RUNTIME_SCHEDULE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tutti_err;
struct tutti_schedule_desc;
struct tutti_step;

/* A longer text is neither written nor read: a schedule of tens of millions of steps is for a
 * generator. */
enum { TUTTI_TEXT_BYTES_MAX = 1 << 30 };

/* A piece of the text; not zero-terminated. */
struct tutti_word {
    const char *text;
    size_t bytes;
};

/* What is left of a line, without its comment. */
struct tutti_line {
    const char *next;
    const char *end;
    const char *unit; /* "B" or "C": what lengths of steps are counted in */
};

/* The lines of a text. */
struct tutti_lines {
    const char *next;
    const char *end;
    uint64_t number; /* of the last one, as an editor counts: from 1 */
};

/* -TUTTI_EINVAL for a text that is too long. */
int tutti_lines_open(struct tutti_lines *lines, const char *text, size_t bytes,
                     struct tutti_err *err);
/* The next line, of no unit; false: there are no more. */
bool tutti_lines_next(struct tutti_lines *lines, struct tutti_line *ret);

/* For "%.*s": no more of a word than a message has room for. */
#define TUTTI_WORD_SHOW(word) ((word).bytes > 40 ? 40 : (int)(word).bytes), (word).text

bool tutti_word_is(struct tutti_word word, const char *text);

/* The next word; false at the end of the line. */
bool tutti_line_word(struct tutti_line *line, struct tutti_word *ret);

/* The next word is needed: `what` says what is missing otherwise ("a name"). */
int tutti_line_need(struct tutti_line *line, const char *what, struct tutti_word *ret,
                    struct tutti_err *err);

/* The next word must be just this one. */
int tutti_line_expect(struct tutti_line *line, const char *text, struct tutti_err *err);

/* A decimal number from 0 to max. */
int tutti_line_number(struct tutti_line *line, const char *what, uint64_t max, uint64_t *ret,
                      struct tutti_err *err);
int tutti_line_number32(struct tutti_line *line, const char *what, uint32_t *ret,
                        struct tutti_err *err);

/* Nothing may be left. */
int tutti_line_end(struct tutti_line *line, struct tutti_err *err);

/* "out+64" */
int tutti_line_place(struct tutti_line *line, uint8_t *ret_buf, uint64_t *ret_offset,
                     struct tutti_err *err);

/* "1.5us": a time, where the next word does not end with a digit; 1: it does, nothing is read. */
int tutti_line_time(struct tutti_line *line, int64_t *ret_ps, struct tutti_err *err);

/* A step, `kind` being the line's first word. */
int tutti_line_step(struct tutti_line *line, struct tutti_word kind, struct tutti_step *ret,
                    struct tutti_err *err);

/* Axes, work and atomic regions of a head, as they are read. */
struct tutti_text_tables;

struct tutti_text_tables *tutti_text_tables_new(void); /* NULL: no memory */
void tutti_text_tables_free(struct tutti_text_tables *tables);

/* 0 if the word opens a line of a table, which is then read; 1 if it is another word. */
int tutti_text_tables_read(struct tutti_text_tables *tables, struct tutti_line *line,
                           struct tutti_word word, struct tutti_err *err);

/* Lets `desc` point to what was read, which must outlive it. */
int tutti_text_tables_into(struct tutti_text_tables *tables, struct tutti_schedule_desc *desc,
                           struct tutti_err *err);

#endif
