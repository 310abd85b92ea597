/* A writer of JSON: the stable interface of every command that prints results. */
#ifndef TUTTI_TOOLS_CLI_JSON_H
#define TUTTI_TOOLS_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { TUTTI_JSON_DEPTH_MAX = 8 };

/* Objects and arrays of the first two levels are laid out over lines, deeper ones in one line, so
 * that a result is a line and people can read the whole. */
struct tutti_json {
    FILE *out;
    int depth;
    char close[TUTTI_JSON_DEPTH_MAX];
    bool first[TUTTI_JSON_DEPTH_MAX];
};

/* `key` is NULL inside an array and for the outermost value; `bracket` is '{' or '['. */
void tutti_json_open(struct tutti_json *json, const char *key, char bracket);
void tutti_json_close(struct tutti_json *json);

/* Text is escaped; bytes that are not UTF-8 become U+FFFD; NULL becomes null. */
void tutti_json_text(struct tutti_json *json, const char *key, const char *value);
void tutti_json_count(struct tutti_json *json, const char *key, uint64_t value);
/* NaN and infinities become null: JSON has no others. */
void tutti_json_number(struct tutti_json *json, const char *key, double value);
void tutti_json_bool(struct tutti_json *json, const char *key, bool value);

#endif
