/* libtutti.so exports what the doors declare and nothing else; and the doors are C++ as well. */
#include "tests/folder.h"
#include "tests/test.h"
#include "tests/tools/commands.h"

static const char *const rooms[] = {"runtime", "topo", "sim", "traces"};
enum { ROOM_COUNT = sizeof(rooms) / sizeof(rooms[0]), NAMES_MAX = 4096 };

struct names {
    char *name[NAMES_MAX];
    size_t count;
};

static void add(struct names *names, const char *name, size_t bytes)
{
    if (names->count == NAMES_MAX)
        abort();
    names->name[names->count++] = strndup(name, bytes);
}

static bool has(const struct names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->name[i], name) == 0)
            return true;
    }
    return false;
}

static void done(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->name[i]);
    names->count = 0;
}

/* Where a comment, a text or a line of the preprocessor that begins at `p` ends; NULL: none does.
 */
static char *skip(char *p)
{
    char *end = NULL;

    if (strncmp(p, "/*", 2) == 0 && (end = strstr(p, "*/")) != NULL)
        return end + 2;
    if (*p == '"' && (end = strchr(p + 1, '"')) != NULL)
        return end + 1;
    if (*p != '#')
        return NULL;
    for (end = p + strcspn(p, "\n"); end[-1] == '\\'; end += 1 + strcspn(end + 1, "\n"))
        ;
    return end;
}

/* One declaration at a time: the first tutti_ name that an opening bracket follows is that of a
 * function, unless it is static; and an object is the last name of what begins with "extern". */
struct scan {
    int depth; /* of brackets, of both kinds */
    bool is_static;
    bool is_extern;
    bool found;
    const char *name; /* the last at depth 0 */
    size_t bytes;
};

static void scan_word(struct scan *scan, const char *word, size_t bytes, struct names *ret)
{
    if (scan->depth > 0)
        return;
    scan->is_static |= bytes == 6 && strncmp(word, "static", 6) == 0;
    scan->is_extern |= bytes == 6 && strncmp(word, "extern", 6) == 0;
    if (strncmp(word, "tutti_", 6) != 0)
        return;
    scan->name = word;
    scan->bytes = bytes;
    if (word[bytes] != '(' || scan->is_static || scan->found)
        return;
    scan->found = true;
    add(ret, word, bytes);
}

static void scan_sign(struct scan *scan, char sign, struct names *ret)
{
    scan->depth += sign == '(' || sign == '{' ? 1 : sign == ')' || sign == '}' ? -1 : 0;
    if (scan->depth > 0 || (sign != ';' && sign != '}'))
        return;
    if (sign == ';' && scan->is_extern && !scan->found && scan->name != NULL)
        add(ret, scan->name, scan->bytes);
    *scan = (struct scan){.depth = scan->depth};
}

/* Adds the names that a door declares for others to link to. */
static void scan_door(char *text, struct names *ret)
{
    struct scan scan = {.depth = 0};

    for (char *p = text; *p != '\0';) {
        size_t word = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        char *end = skip(p);

        if (word > 0)
            scan_word(&scan, p, word, ret);
        else if (end == NULL)
            scan_sign(&scan, *p, ret);
        p = end != NULL ? end : p + (word > 0 ? word : 1);
    }
    CHECK_INT(scan.depth, 0);
}

/* Calls `visit` with the path of each door below the top of the tree. */
static void each_door(void (*visit)(const char *path, void *data), void *data)
{
    for (size_t i = 0; i < ROOM_COUNT; i++) {
        char path[512];
        size_t count;
        char **doors;

        snprintf(path, sizeof(path), "%s/%s", TUTTI_SOURCE_DIR, rooms[i]);
        doors = list_files(path, ".h", &count);
        CHECK(count > 0);
        for (size_t k = 0; k < count; k++) {
            snprintf(path, sizeof(path), "%s/%s", rooms[i], doors[k]);
            visit(path, data);
        }
        free_files(doors, count);
    }
}

static void read_door(const char *path, void *data)
{
    char whole[512];
    size_t bytes;
    char *text;

    snprintf(whole, sizeof(whole), "%s/%s", TUTTI_SOURCE_DIR, path);
    text = test_read_file(whole, &bytes);
    REQUIRE(text != NULL);
    if (strcmp(path, "runtime/api.h") != 0 && strstr(text, "\nTUTTI_API_BEGIN\n") == NULL)
        TEST_FAIL("%s: no TUTTI_API_BEGIN before its declarations", path);
    scan_door(text, data);
    free(text);
}

/* Names that a library defines for others, sorted; those with two underscores are the compiler's.
 */
static void read_library(const char *nm, const char *library, struct names *ret)
{
    char command[1024];
    struct seen seen;

    snprintf(command, sizeof(command),
             "LC_ALL=C; export LC_ALL; '%s' %s --defined-only '%s' |"
             " sed -n 's/^[^ ]* [A-Z] //p' | grep -v '^__' | sort -u",
             TUTTI_NM, nm, library);
    seen = run(command);
    for (const char *line = text_of(&seen.out); *line != '\0'; line += strspn(line, "\n")) {
        add(ret, line, strcspn(line, "\n"));
        line += strcspn(line, "\n");
    }
    seen_done(&seen);
}

static void check_exports(const struct names *declared, const struct names *exported,
                          const struct names *apart)
{
    struct text text = {.at = NULL};

    for (size_t i = 0; i < exported->count; i++) {
        const char *name = exported->name[i];

        text_line(&text, name, "", 0); /* a name a line */
        if (strncmp(name, "tutti_", 6) != 0)
            TEST_FAIL("'%s' is exported, but does not begin with tutti_", name);
        if (!has(declared, name))
            TEST_FAIL("'%s' is exported, but no door declares it", name);
    }
    for (size_t i = 0; i < declared->count; i++) {
        const char *name = declared->name[i];

        if (!has(exported, name) && !has(apart, name))
            TEST_FAIL("'%s' is declared in a door, but nothing defines it for users", name);
    }
    test_golden("exports.txt", text_of(&text));
    text_done(&text);
}

TEST(the_library_exports_what_the_doors_declare)
{
    struct names declared = {.count = 0};
    struct names exported = {.count = 0};
    struct names apart = {.count = 0}; /* in libraries of their own */

    if (TUTTI_NM[0] == '\0')
        SKIP("no nm here");
    each_door(read_door, &declared);
    read_library("-D", TUTTI_SHARED, &exported);
    read_library("-g", TUTTI_MPI_ARCHIVE, &apart);
    read_library("-g", TUTTI_CUDA_ARCHIVE, &apart);
    read_library("-g", TUTTI_NCCL_ARCHIVE, &apart);
    CHECK(declared.count > 200);
    check_exports(&declared, &exported, &apart);
    done(&declared);
    done(&exported);
    done(&apart);
}

TEST(the_doors_are_cxx_as_well)
{
    struct seen seen;

    if (TUTTI_CXX[0] == '\0')
        SKIP("no compiler of C++ here");
    seen = run("cd '" TUTTI_SOURCE_DIR "' &&"
               " printf '#include \"%s\"\\n' runtime/*.h topo/*.h sim/*.h traces/*.h"
               " tools/cli.h tools/commands.h |"
               " '" TUTTI_CXX "' -x c++ -std=c++11 -Wall -Wextra -pedantic -Werror -I."
               " -fsyntax-only -");
    if (seen.exit != 0)
        TEST_FAIL("%s", text_of(&seen.err));
    seen_done(&seen);
}
