/* Splitting a line into words; see words.h. */
#include "topo/graph/words.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

void tutti_words_open(struct tutti_words *words, const char *begin, const char *end)
{
    words->next = begin;
    words->end = end;
}

static void skip_blanks(struct tutti_words *words)
{
    while (words->next < words->end && is_blank(*words->next))
        words->next++;
}

int tutti_words_next(struct tutti_words *words, char *word, struct tutti_err *err)
{
    size_t length = 0;

    skip_blanks(words);
    if (words->next == words->end || *words->next == '#')
        return 0;
    memset(word, 0, TUTTI_WORD_BYTES);
    for (; words->next < words->end && !is_blank(*words->next) && *words->next != '#';
         words->next++) {
        if (!isgraph((unsigned char)*words->next))
            return tutti_fail(err, TUTTI_EINVAL, "a byte 0x%02x that is no text",
                              (unsigned)(unsigned char)*words->next);
        if (length + 1 >= TUTTI_WORD_BYTES)
            return tutti_fail(err, TUTTI_EINVAL, "a word too long '%s...' (at most %d characters)",
                              word, TUTTI_WORD_BYTES - 1);
        word[length++] = *words->next;
    }
    return 1;
}

int tutti_words_need(struct tutti_words *words, const char *what, char *word, struct tutti_err *err)
{
    int status = tutti_words_next(words, word, err);

    if (status == 0)
        return tutti_fail(err, TUTTI_EINVAL, "the line ends too early (missing: %s)", what);
    return status < 0 ? status : 0;
}

int tutti_words_end(struct tutti_words *words, struct tutti_err *err)
{
    char word[TUTTI_WORD_BYTES];
    int status = tutti_words_next(words, word, err);

    return status <= 0 ? status
                       : tutti_fail(err, TUTTI_EINVAL, "a word too many '%s' (end of line)", word);
}

char *tutti_words_rest(struct tutti_words *words)
{
    const char *end = words->end;
    char *text;
    size_t length;

    skip_blanks(words);
    while (end > words->next && is_blank(end[-1]))
        end--;
    length = (size_t)(end - words->next);
    text = malloc(length + 1);
    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < length; i++)
        text[i] = iscntrl((unsigned char)words->next[i]) ? ' ' : words->next[i]; /* also UTF-8 */
    text[length] = '\0';
    words->next = words->end;
    return text;
}
