/* One line of a log, cleaned of what terminals and launchers add, and cut into words. */
#ifndef TUTTI_TRACES_NCCL_TESTS_LINE_H
#define TUTTI_TRACES_NCCL_TESTS_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LINE_BYTES_MAX = 4096, LINE_WORDS_MAX = 96 };

/* Longer lines and further words are cut off: no table row comes near. */
struct tutti_log_line {
    char text[LINE_BYTES_MAX];       /* cleaned, zero-terminated */
    char word_bytes[LINE_BYTES_MAX]; /* the words, each zero-terminated */
    const char *word[LINE_WORDS_MAX];
    uint32_t word_count;
};

/* Takes one line without its newline: drops colour codes, carriage returns and Open MPI's
 * "[1,0]<stdout>:" wherever it stands, reads table rules (| and `) and asterisks as blanks. */
void tutti_log_line_clean(const char *text, size_t bytes, struct tutti_log_line *ret);

/* Cuts the cleaned text at blanks, with `commas` also at commas. */
void tutti_log_line_cut(struct tutti_log_line *line, bool commas);

/* Adds the words of `more` behind those of `line` while there is room; the words stay where they
 * are, so `more` must outlive `line`. */
void tutti_log_line_join(struct tutti_log_line *line, const struct tutti_log_line *more);

/* A whole word as an unsigned number; "32_768" is fine; false if it is none or too large. */
bool tutti_log_read_u64(const char *word, uint64_t *ret);

/* A whole word as a decimal number; "N/A", "nan" and "-" are NAN. */
bool tutti_log_read_double(const char *word, double *ret);

#endif
