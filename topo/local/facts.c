/* The store of facts: read once, kept in order of names, printed and parsed. */
#include "topo/local/facts.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/arena.h"
#include "runtime/status.h"

enum { FACTS_MAX = 1 << 16, CAPACITY_FIRST = 256 };

struct fact {
    const char *name;
    const char *text; /* NULL: there is none */
};

struct tutti_facts {
    struct tutti_arena *arena;
    const char *root; /* NULL: all that is known was parsed */
    struct tutti_nvml *nvml;
    struct fact *facts; /* in order of names */
    uint32_t count;
    uint32_t capacity;
    bool is_lost;
};

static struct tutti_facts *facts_new(void)
{
    struct tutti_facts *facts = calloc(1, sizeof(*facts));

    if (facts == NULL)
        return NULL;
    facts->arena = tutti_arena_new();
    if (facts->arena == NULL) {
        free(facts);
        return NULL;
    }
    return facts;
}

void tutti_facts_free(struct tutti_facts *facts)
{
    if (facts == NULL)
        return;
    tutti_nvml_close(facts->nvml);
    tutti_arena_free(facts->arena);
    free(facts->facts);
    free(facts);
}

/* Where the name is, or would be. */
static uint32_t find(const struct tutti_facts *facts, const char *name, bool *ret_found)
{
    uint32_t low = 0;
    uint32_t high = facts->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (strcmp(facts->facts[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_found = low < facts->count && strcmp(facts->facts[low].name, name) == 0;
    return low;
}

static bool grow(struct tutti_facts *facts)
{
    uint32_t wanted = facts->capacity == 0 ? CAPACITY_FIRST : facts->capacity * 2;
    struct fact *moved;

    if (facts->count < facts->capacity)
        return true;
    if (facts->count >= FACTS_MAX)
        return false;
    moved = realloc(facts->facts, wanted * sizeof(*moved));
    if (moved == NULL)
        return false;
    facts->facts = moved;
    facts->capacity = wanted;
    return true;
}

/* Keeps copies at index `at`. */
static const char *keep(struct tutti_facts *facts, uint32_t at, const char *name, const char *text)
{
    struct fact new = {.name = tutti_arena_copy_text(facts->arena, name)};

    if (text != NULL)
        new.text = tutti_arena_copy_text(facts->arena, text);
    if (new.name == NULL || (text != NULL && new.text == NULL) || !grow(facts)) {
        facts->is_lost = true;
        return NULL;
    }
    memmove(&facts->facts[at + 1], &facts->facts[at], (facts->count - at) * sizeof(*facts->facts));
    facts->facts[at] = new;
    facts->count++;
    return new.text;
}

/* ---- asking -------------------------------------------------------------------------------- */

static const char *look(struct tutti_facts *facts, const char *name)
{
    char text[TUTTI_FACT_BYTES];
    bool found;
    uint32_t at = find(facts, name, &found);

    if (found)
        return facts->facts[at].text;
    if (facts->root == NULL)
        return NULL;
    if (strncmp(name, "nvml/", 5) == 0)
        found = facts->nvml != NULL && tutti_nvml_answer(facts->nvml, name + 5, text);
    else
        found = tutti_facts_from_files(facts->root, name, text);
    return keep(facts, at, name, found ? text : NULL);
}

static const char *look_formatted(struct tutti_facts *facts, const char *format, va_list arguments)
{
    char name[TUTTI_FACT_NAME_BYTES];
    int length = vsnprintf(name, sizeof(name), format, arguments);

    return length < 0 || length >= (int)sizeof(name) ? NULL : look(facts, name);
}

const char *tutti_facts_look(struct tutti_facts *facts, const char *format, ...)
{
    va_list arguments;
    const char *text;

    va_start(arguments, format);
    text = look_formatted(facts, format, arguments);
    va_end(arguments);
    return text;
}

int64_t tutti_facts_number(struct tutti_facts *facts, int64_t absent, const char *format, ...)
{
    va_list arguments;
    const char *text;
    char *end;
    long long number;

    va_start(arguments, format);
    text = look_formatted(facts, format, arguments);
    va_end(arguments);
    if (text == NULL)
        return absent;
    errno = 0;
    number = strtoll(text, &end, 10);
    return errno != 0 || end == text ? absent : number;
}

int tutti_facts_status(const struct tutti_facts *facts, struct tutti_err *err)
{
    return facts->is_lost ? tutti_nomem(err) : 0;
}

bool tutti_facts_word(const char **list, char *buf, size_t buf_bytes)
{
    size_t bytes;

    do {
        *list += strspn(*list, " ");
        bytes = strcspn(*list, " ");
        if (bytes > 0 && bytes < buf_bytes) {
            memcpy(buf, *list, bytes);
            buf[bytes] = '\0';
            *list += bytes;
            return true;
        }
        *list += bytes; /* no name of the kernel's is so long */
    } while (bytes > 0);
    return false;
}

bool tutti_facts_range(const char **list, uint32_t *ret_first, uint32_t *ret_last)
{
    enum { LAST_MAX = 1 << 20 };
    char *end;
    unsigned long first;
    unsigned long last;

    *list += strspn(*list, ", ");
    if (**list < '0' || **list > '9')
        return false;
    first = last = strtoul(*list, &end, 10);
    if (*end == '-')
        last = strtoul(end + 1, &end, 10);
    *list = end;
    if (last < first || last > LAST_MAX)
        return false;
    *ret_first = (uint32_t)first;
    *ret_last = (uint32_t)last;
    return true;
}

/* ---- reading a machine --------------------------------------------------------------------- */

int tutti_facts_read(const struct tutti_topo_local_opts *opts, struct tutti_facts **ret,
                     struct tutti_err *err)
{
    const char *root = opts != NULL ? opts->root : NULL;
    const char *nvml = opts != NULL ? opts->nvml : NULL;
    struct tutti_facts *facts;
    struct stat info;
    int status;

    if (root == NULL)
        root = getenv("TUTTI_LOCAL_ROOT");
    if (nvml == NULL)
        nvml = getenv("TUTTI_NVML_LIBRARY");
    if (root == NULL || root[0] == '\0')
        root = "/";
    if (stat(root, &info) != 0 || !S_ISDIR(info.st_mode))
        return tutti_fail(err, TUTTI_EIO, "'%s' is no folder (one with sys/ and proc/ in it)",
                          root);
    facts = facts_new();
    if (facts == NULL)
        return tutti_nomem(err);
    facts->root = tutti_arena_copy_text(facts->arena, root);
    status = facts->root == NULL ? tutti_nomem(err) : 0;
    if (status == 0 && (nvml == NULL || nvml[0] != '\0'))
        status = tutti_nvml_open(nvml, &facts->nvml, err);
    if (status < 0) {
        tutti_facts_free(facts);
        return status;
    }
    *ret = facts;
    return 0;
}

/* ---- text ---------------------------------------------------------------------------------- */

static void print_text(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n')
            fputs("\\n", out);
        else if (*text == '\\')
            fputs("\\\\", out);
        else
            fputc(*text, out);
    }
    fputc('\n', out);
}

int tutti_facts_print(const struct tutti_facts *facts, char **ret, struct tutti_err *err)
{
    size_t bytes = 0;
    char *text = NULL;
    FILE *out = open_memstream(&text, &bytes);
    bool failed;

    if (out == NULL)
        return tutti_nomem(err);
    fputs("tutti facts 1\n", out);
    for (uint32_t i = 0; i < facts->count; i++) {
        if (facts->facts[i].text == NULL)
            continue;
        fprintf(out, "%s = ", facts->facts[i].name);
        print_text(facts->facts[i].text, out);
    }
    failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        free(text);
        return tutti_nomem(err);
    }
    *ret = text;
    return 0;
}

/* The text of a line, with its escapes undone, into `buf`; false: too long, or no such escape. */
static bool unescape(const char *from, size_t bytes, char buf[TUTTI_FACT_BYTES])
{
    size_t used = 0;

    for (size_t i = 0; i < bytes; i++) {
        char c = from[i];

        if (c == '\\') {
            if (++i == bytes || (from[i] != 'n' && from[i] != '\\'))
                return false;
            c = from[i] == 'n' ? '\n' : '\\';
        }
        if (used + 1 >= TUTTI_FACT_BYTES || (c != '\n' && (c < ' ' || c > '~')))
            return false;
        buf[used++] = c;
    }
    buf[used] = '\0';
    return true;
}

static int parse_line(struct tutti_facts *facts, const char *where, uint32_t line, const char *text,
                      size_t bytes, struct tutti_err *err)
{
    char name[TUTTI_FACT_NAME_BYTES];
    char value[TUTTI_FACT_BYTES];
    size_t length = 0;
    bool found;
    uint32_t at;

    while (length < bytes && text[length] > ' ' && text[length] <= '~')
        length++;
    if (length == 0 || length >= sizeof(name) || bytes < length + 3 ||
        memcmp(text + length, " = ", 3) != 0 ||
        !unescape(text + length + 3, bytes - length - 3, value))
        return tutti_fail(err, TUTTI_EINVAL, "%s: line %" PRIu32 ": no fact (NAME = TEXT)", where,
                          line);
    memcpy(name, text, length);
    name[length] = '\0';
    at = find(facts, name, &found);
    if (found)
        return tutti_fail(err, TUTTI_EINVAL, "%s: line %" PRIu32 ": '%s' again", where, line, name);
    (void)keep(facts, at, name, value);
    return tutti_facts_status(facts, err);
}

int tutti_facts_parse(const char *name, const char *text, size_t bytes, struct tutti_facts **ret,
                      struct tutti_err *err)
{
    static const char head[] = "tutti facts 1\n";
    struct tutti_facts *facts;
    uint32_t line = 1;
    int status = 0;

    if (bytes < sizeof(head) - 1 || memcmp(text, head, sizeof(head) - 1) != 0)
        return tutti_fail(err, TUTTI_EINVAL, "%s: line 1: these are no facts ('tutti facts 1')",
                          name);
    facts = facts_new();
    if (facts == NULL)
        return tutti_nomem(err);
    for (size_t i = sizeof(head) - 1; i < bytes && status == 0;) {
        const char *end = memchr(text + i, '\n', bytes - i);
        size_t length = end == NULL ? bytes - i : (size_t)(end - (text + i));

        line++;
        if (length > 0 && text[i] != '#')
            status = parse_line(facts, name, line, text + i, length, err);
        i += length + 1;
    }
    if (status < 0) {
        tutti_facts_free(facts);
        return status;
    }
    *ret = facts;
    return 0;
}
