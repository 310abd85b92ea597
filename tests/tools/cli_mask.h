/* What commands print, as golden files hold it: what varies from machine to machine is masked. */
#ifndef TUTTI_TESTS_TOOLS_CLI_MASK_H
#define TUTTI_TESTS_TOOLS_CLI_MASK_H

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "tests/tools/cli_text.h"

/* The tree, as commands are told of it: lines are cut by their width, and a name that is as long in
 * every clone leaves them alone. */
#define CLI_SOURCE "../source"

/* Bytes of the number at `p` (0: none), which may be part of no word. */
static size_t number_bytes(const char *start, const char *p, bool decimals_only)
{
    size_t sign = *p == '-' && p > start && p[-1] == ' ';
    size_t digits = strspn(p + sign, "0123456789");
    size_t bytes = sign + digits;

    if (digits == 0 || (p > start && (isalpha((unsigned char)p[-1]) || p[-1] == '_')))
        return 0;
    if (p[bytes] == '.' && isdigit((unsigned char)p[bytes + 1]))
        bytes += 1 + strspn(p + bytes + 1, "0123456789");
    else if (decimals_only)
        return 0;
    if (p[bytes] == 'e' && (p[bytes + 1] == '-' || p[bytes + 1] == '+'))
        bytes += 2 + strspn(p + bytes + 2, "0123456789");
    return bytes;
}

/* Bytes of the tree's own path at `p`, by either name (0: it is not there). */
static size_t source_bytes(const char *p)
{
    if (strncmp(p, TUTTI_SOURCE_DIR, strlen(TUTTI_SOURCE_DIR)) == 0)
        return strlen(TUTTI_SOURCE_DIR);
    return strncmp(p, CLI_SOURCE, strlen(CLI_SOURCE)) == 0 ? strlen(CLI_SOURCE) : 0;
}

/* What was printed, as it is compared: the tree's own path and numbers that vary replaced. */
static void cli_mask(const char *seen, bool masked, bool decimals_only, struct text *ret)
{
    text_add(ret, "", 0);
    for (const char *p = seen; *p != '\0';) {
        size_t number = masked ? number_bytes(seen, p, decimals_only) : 0;
        size_t source = source_bytes(p);

        if (source > 0) {
            text_add(ret, "$SOURCE", 7);
            p += source;
        } else if (number > 0) {
            text_add(ret, "N", 1);
            p += number;
        } else if (isdigit((unsigned char)*p)) { /* all digits of one that stays */
            size_t digits = strspn(p, "0123456789");
            text_add(ret, p, digits);
            p += digits;
        } else if (masked && *p == ' ') {
            text_add(ret, " ", 1);
            p += strspn(p, " ");
        } else {
            text_add(ret, p++, 1);
        }
    }
}

#endif
