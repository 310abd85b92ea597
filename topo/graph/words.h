/* The words of one line of text: separated by blanks, ended by a # or the end of the line. */
#ifndef TUTTI_TOPO_GRAPH_WORDS_H
#define TUTTI_TOPO_GRAPH_WORDS_H

struct tutti_err;

enum { TUTTI_WORD_BYTES = 64 }; /* longer words are refused */

struct tutti_words {
    const char *next;
    const char *end;
};

void tutti_words_open(struct tutti_words *words, const char *begin, const char *end);

/* The next word into `word` (TUTTI_WORD_BYTES, padded with zeros): 1, or 0 at the end, or an error
 * for one that is too long or not visible text. */
int tutti_words_next(struct tutti_words *words, char *word, struct tutti_err *err);

/* The same, but an error "missing WHAT" at the end. */
int tutti_words_need(struct tutti_words *words, const char *what, char *word,
                     struct tutti_err *err);

/* 0 if there is no further word, else an error that shows it. */
int tutti_words_end(struct tutti_words *words, struct tutti_err *err);

/* The rest of the line without blanks at its ends, # and all, from malloc; NULL: no memory. */
char *tutti_words_rest(struct tutti_words *words);

#endif
