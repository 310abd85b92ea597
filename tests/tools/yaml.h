/* A strict reader of the YAML that Tutti prints: maps and lists in blocks, scalars in quotes or
 * plain, literal blocks. What it does not know it refuses. The result is flat: each scalar by its
 * path, "1.spec.template.spec.containers.0.name", first the number of its document. */
#ifndef TUTTI_TESTS_TOOLS_YAML_H
#define TUTTI_TESTS_TOOLS_YAML_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/test.h"
#include "tests/tools/cli_text.h"

enum { YAML_SCALARS_MAX = 512, YAML_PATH_BYTES = 160, YAML_DEPTH_MAX = 24 };

struct yaml {
    const char *at; /* the line that is read */
    int line;
    int depth;
    bool failed;
    bool quiet; /* to be wrong is no failure of the test */
    int count;
    char paths[YAML_SCALARS_MAX][YAML_PATH_BYTES];
    struct text values[YAML_SCALARS_MAX];
};

static void yaml_block(struct yaml *y, int indent, const char *path);

static inline void yaml_fail(struct yaml *y, const char *why)
{
    if (!y->failed && !y->quiet)
        TEST_FAIL("YAML, line %d: %s: '%.*s'", y->line, why, (int)strcspn(y->at, "\n"), y->at);
    y->failed = true;
    y->at = "";
}

static inline void yaml_next(struct yaml *y)
{
    y->at += strcspn(y->at, "\n");
    y->at += *y->at == '\n';
    y->line++;
}

/* Of the line that is read; -1: no such line in this document. Comments are passed over. */
static inline int yaml_indent(struct yaml *y)
{
    while (*y->at == '#')
        yaml_next(y);
    if (*y->at == '\0' || strncmp(y->at, "---\n", 4) == 0)
        return -1;
    if (y->at[strspn(y->at, " ")] == '\n' || memchr(y->at, '\t', strcspn(y->at, "\n")) != NULL)
        yaml_fail(y, "an empty line, or a tab");
    return (int)strspn(y->at, " ");
}

static inline void yaml_add(struct yaml *y, const char *path, const char *value, size_t bytes)
{
    if (y->count == YAML_SCALARS_MAX || strlen(path) >= YAML_PATH_BYTES) {
        yaml_fail(y, "too much");
        return;
    }
    for (int i = 0; i < y->count; i++)
        if (strcmp(y->paths[i], path) == 0)
            yaml_fail(y, "a key for the second time");
    snprintf(y->paths[y->count], YAML_PATH_BYTES, "%s", path);
    text_add(&y->values[y->count++], value, bytes);
}

/* "|": the lines that are further in than `indent`. */
static inline void yaml_literal(struct yaml *y, int indent, const char *path)
{
    struct text all = {.at = NULL};
    int own = yaml_indent(y);

    if (own <= indent)
        yaml_fail(y, "a literal block without lines");
    while (*y->at != '\0' && (int)strspn(y->at, " ") >= own) {
        text_add(&all, y->at + own, strcspn(y->at + own, "\n") + 1);
        yaml_next(y);
    }
    yaml_add(y, path, text_of(&all), all.bytes);
    text_done(&all);
}

static inline void yaml_quoted(struct yaml *y, const char *text, size_t bytes, const char *path)
{
    struct text value = {.at = NULL};
    char quote = text[0];

    if (bytes < 2 || text[bytes - 1] != quote)
        yaml_fail(y, "no quote at the end");
    for (size_t i = 1; !y->failed && i + 1 < bytes; i++) {
        if (quote == '"' && text[i] == '\\' && (text[i + 1] == '"' || text[i + 1] == '\\'))
            i++;
        else if (text[i] == quote || (quote == '"' && text[i] == '\\'))
            yaml_fail(y, "a quote or a backslash within quotes");
        text_add(&value, text + i, 1);
    }
    yaml_add(y, path, text_of(&value), value.bytes);
    text_done(&value);
}

/* Words that YAML takes for something else than text would have to be in quotes. */
static inline void yaml_plain(struct yaml *y, const char *text, size_t bytes, const char *path)
{
    static const char all[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "/._-";

    if (bytes == 0 || strspn(text, all) != bytes)
        yaml_fail(y, "a scalar that is neither plain nor in quotes");
    yaml_add(y, path, text, bytes);
}

/* `text` is within the line that is read, and ends it. */
static inline void yaml_scalar(struct yaml *y, const char *text, int indent, const char *path)
{
    size_t bytes = strcspn(text, "\n");

    if (bytes == 1 && *text == '|') {
        yaml_next(y);
        yaml_literal(y, indent, path);
        return;
    }
    if (*text == '"' || *text == '\'')
        yaml_quoted(y, text, bytes, path);
    else
        yaml_plain(y, text, bytes, path);
    if (!y->failed)
        yaml_next(y);
}

/* Bytes of "key" in "key: value" or "key:", or 0. */
static inline size_t yaml_key(const char *text)
{
    size_t bytes = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-./");

    return text[bytes] == ':' && strchr(" \n", text[bytes + 1]) != NULL ? bytes : 0;
}

/* The entries of a map; the first may stand behind "- ", `lead` bytes into its line. */
static inline void yaml_map(struct yaml *y, int indent, size_t lead, const char *path)
{
    do {
        const char *text = y->at + (lead > 0 ? lead : (size_t)indent);
        size_t bytes = yaml_key(text);
        char inner[2 * YAML_PATH_BYTES];

        lead = 0;
        if (bytes == 0) {
            yaml_fail(y, "no key");
            return;
        }
        snprintf(inner, sizeof(inner), "%s.%.*s", path, (int)bytes, text);
        if (text[bytes + 1] == ' ') {
            yaml_scalar(y, text + bytes + 2, indent, inner);
            continue;
        }
        yaml_next(y);
        if (yaml_indent(y) > indent)
            yaml_block(y, yaml_indent(y), inner);
        else if (yaml_indent(y) == indent && y->at[indent] == '-')
            yaml_block(y, indent, inner);
        else
            yaml_fail(y, "a key without a value before this");
    } while (!y->failed && yaml_indent(y) == indent && y->at[indent] != '-');
}

static inline void yaml_list(struct yaml *y, int indent, const char *path)
{
    for (int i = 0; !y->failed && yaml_indent(y) == indent && y->at[indent] == '-'; i++) {
        char inner[2 * YAML_PATH_BYTES];
        const char *text = y->at + indent + 2;

        snprintf(inner, sizeof(inner), "%s.%d", path, i);
        if (text[-1] != ' ')
            yaml_fail(y, "no blank behind '-'");
        else if (yaml_key(text) > 0)
            yaml_map(y, indent + 2, (size_t)indent + 2, inner);
        else
            yaml_scalar(y, text, indent, inner);
    }
}

static inline void yaml_block(struct yaml *y, int indent, const char *path)
{
    if (++y->depth > YAML_DEPTH_MAX)
        yaml_fail(y, "too deep");
    else if (y->at[indent] == '-')
        yaml_list(y, indent, path);
    else
        yaml_map(y, indent, 0, path);
    y->depth--;
    if (!y->failed && yaml_indent(y) > indent)
        yaml_fail(y, "further in than what it belongs to");
}

static inline void yaml_documents(struct yaml *y, const char *text)
{
    y->at = text;
    y->line = 1;
    for (int document = 0; !y->failed && *y->at != '\0'; document++) {
        char path[16];

        snprintf(path, sizeof(path), "%d", document);
        if (yaml_indent(y) != 0)
            yaml_fail(y, "a document that begins further in, or is empty");
        else
            yaml_block(y, 0, path);
        if (!y->failed && yaml_indent(y) >= 0)
            yaml_fail(y, "behind the end of a document");
        if (strncmp(y->at, "---\n", 4) == 0)
            yaml_next(y);
    }
}

/* Whether it is wrong stands in `failed`. Freed with yaml_free. */
static inline struct yaml *yaml_try(const char *text)
{
    struct yaml *y = calloc(1, sizeof(*y));

    if (y == NULL)
        abort();
    y->quiet = true;
    yaml_documents(y, text);
    return y;
}

/* The same; if it is wrong, the test has failed. */
static inline struct yaml *yaml_read(const char *text)
{
    struct yaml *y = calloc(1, sizeof(*y));

    if (y == NULL)
        abort();
    yaml_documents(y, text);
    return y;
}

static inline void yaml_free(struct yaml *y)
{
    for (int i = 0; i < y->count; i++)
        text_done(&y->values[i]);
    free(y);
}

/* NULL: there is none. */
static inline const char *yaml_at(const struct yaml *y, const char *path)
{
    for (int i = 0; i < y->count; i++)
        if (strcmp(y->paths[i], path) == 0)
            return text_of(&y->values[i]);
    return NULL;
}

#endif
