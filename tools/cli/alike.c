/* The words that a shortened or misspelt one may stand for. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "runtime/status.h"
#include "tools/options.h"

enum {
    WORD_BYTES_MAX = 63,
    SHORT_BYTES_MIN = 3, /* letters of a word that may stand for those it is part of */
};

/* Letters of either case. */
static bool contains(const char *text, size_t text_bytes, const char *part)
{
    size_t part_bytes = strlen(part);

    for (size_t i = 0; i + part_bytes <= text_bytes; i++) {
        if (strncasecmp(text + i, part, part_bytes) == 0)
            return true;
    }
    return false;
}

const char *tutti_alike(const char *text, const char *words, char *buf, size_t buf_bytes)
{
    char near[WORD_BYTES_MAX + 1];
    size_t used = 0;

    for (const char *p = words; *p != '\0' && strlen(text) >= SHORT_BYTES_MIN;
         p += strspn(p, "| ")) {
        size_t length = strcspn(p, "| ");

        if (contains(p, length, text) && used < buf_bytes)
            used += (size_t)snprintf(buf + used, buf_bytes - used, "%s'%.*s'",
                                     used > 0 ? " or " : "", (int)length, p);
        p += length;
    }
    if (used == 0 && tutti_nearest(text, words, near, sizeof(near)) != NULL)
        used = (size_t)snprintf(buf, buf_bytes, "'%s'", near);
    return used == 0 ? NULL : buf;
}
