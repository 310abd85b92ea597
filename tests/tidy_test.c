/* Holds the tree to its own rules: the rule of the door, sizes, banned words, a file's shape. */
#include <ctype.h>
#include <dirent.h>
#include <sys/stat.h>

#include "tests/test.h"

enum { COLUMNS_MAX = 100, FUNCTION_LINES_MAX = 70, FILE_LINES_MAX = 600, FILES_MAX = 2048 };

static const char *const rooms[] = {"runtime", "topo", "sim", "traces", "tools", "tests"};
enum { ROOM_COUNT = sizeof(rooms) / sizeof(rooms[0]) };

/* stands_on[a] holds the rooms whose doors a file of room a may open, as a bit set. */
static const unsigned stands_on[ROOM_COUNT] = {
    [0] = 0,       /* runtime: the ground floor */
    [1] = 1u << 0, /* topo: runtime */
    [2] = 0x3,     /* sim: runtime, topo */
    [3] = 0x3,     /* traces: runtime, topo */
    [4] = 0xf,     /* tools: all below */
    [5] = 0x1f,    /* tests: see everything, also private headers */
};

static const char *const banned[] = {"sprintf", "strcpy", "strcat", "strtok", "atoi",    "rand",
                                     "alloca",  "usleep", "srand",  "gets",   "vsprintf"};

struct file {
    char path[512]; /* from the top of the tree */
    int room;
    char *text;
};

static struct file files[FILES_MAX];
static size_t file_count;

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text);
    size_t b = strlen(end);

    return a >= b && strcmp(text + a - b, end) == 0;
}

/* Collects .c and .h files breadth-first; `todo` is the queue of directories. */
static void collect(int room)
{
    static char todo[256][512];
    size_t first = 0;
    size_t count = 1;

    snprintf(todo[0], sizeof(todo[0]), "%s", rooms[room]);
    for (; first < count; first++) {
        char full[1200];
        struct dirent *entry;
        DIR *dir;

        snprintf(full, sizeof(full), "%s/%.511s", TUTTI_SOURCE_DIR, todo[first]);
        dir = opendir(full);
        while (dir != NULL && (entry = readdir(dir)) != NULL) {
            char path[512];
            struct stat info;

            if (entry->d_name[0] == '.')
                continue;
            if ((size_t)snprintf(path, sizeof(path), "%s/%s", todo[first], entry->d_name) >=
                sizeof(path))
                continue;
            snprintf(full, sizeof(full), "%s/%s", TUTTI_SOURCE_DIR, path);
            if (stat(full, &info) != 0)
                continue;
            if (S_ISDIR(info.st_mode) && count < 256)
                snprintf(todo[count++], sizeof(todo[0]), "%s", path);
            if (S_ISREG(info.st_mode) && (ends_with(path, ".c") || ends_with(path, ".h")) &&
                file_count < FILES_MAX) {
                struct file *file = &files[file_count++];
                snprintf(file->path, sizeof(file->path), "%s", path);
                file->room = room;
                file->text = test_read_file(full, NULL);
            }
        }
        if (dir != NULL)
            closedir(dir);
    }
}

static void collect_once(void)
{
    if (file_count == 0)
        for (int room = 0; room < ROOM_COUNT; room++)
            collect(room);
}

/* Calls `visit` for each line of each file, without its newline. */
static void each_line(void (*visit)(const struct file *file, int line, const char *text))
{
    static char buf[4096];

    collect_once();
    for (size_t i = 0; i < file_count; i++) {
        int line = 1;
        for (const char *p = files[i].text; p != NULL && *p != '\0'; line++) {
            size_t length = strcspn(p, "\n");
            size_t kept = length < sizeof(buf) - 1 ? length : sizeof(buf) - 1;

            memcpy(buf, p, kept);
            buf[kept] = '\0';
            visit(&files[i], line, buf);
            p += length + (p[length] == '\n');
        }
    }
}

TEST(the_tree_is_there)
{
    collect_once();
    CHECK(file_count > 20);
}

static void check_door(const struct file *file, int line, const char *text)
{
    char target[256];
    char full[1200];
    struct stat info;
    int room = 0;

    if (sscanf(text, "#include \"%255[^\"]\"", target) != 1)
        return;
    if (strcmp(target, "build.h") == 0 || strcmp(target, "tests/together.h") == 0)
        return; /* made by CMake */
    while (room < ROOM_COUNT && (strncmp(target, rooms[room], strlen(rooms[room])) != 0 ||
                                 target[strlen(rooms[room])] != '/'))
        room++;
    if (room == ROOM_COUNT) {
        TEST_FAIL("%s:%d: \"%s\" is not spelt from the root (room/file.h)", file->path, line,
                  target);
        return;
    }
    snprintf(full, sizeof(full), "%s/%s", TUTTI_SOURCE_DIR, target);
    if (stat(full, &info) != 0)
        TEST_FAIL("%s:%d: there is no %s", file->path, line, target);
    if (strcmp(rooms[file->room], "tests") == 0)
        return;
    if (strncmp(target, "tools/fit/", 10) == 0 && strncmp(file->path, "tools/fit/", 10) != 0)
        TEST_FAIL("%s:%d: \"%s\" is the laboratory's, which nothing else stands on", file->path,
                  line, target);
    if (room == file->room)
        return;
    if ((stands_on[file->room] >> room & 1) == 0)
        TEST_FAIL("%s:%d: %s does not stand on %s", file->path, line, rooms[file->room],
                  rooms[room]);
    if (strchr(target + strlen(rooms[room]) + 1, '/') != NULL)
        TEST_FAIL("%s:%d: \"%s\" is private to its room, not a door", file->path, line, target);
}

TEST(the_rule_of_the_door)
{
    each_line(check_door);
}

static void check_columns(const struct file *file, int line, const char *text)
{
    int columns = 0;

    for (const char *p = text; *p != '\0'; p++)
        columns += ((unsigned char)*p & 0xc0) != 0x80; /* count UTF-8 characters, not bytes */
    if (columns > COLUMNS_MAX)
        TEST_FAIL("%s:%d: %d columns (at most %d)", file->path, line, columns, COLUMNS_MAX);
    if (strchr(text, '\t') != NULL)
        TEST_FAIL("%s:%d: a tab", file->path, line);
    if (text[0] != '\0' && isspace((unsigned char)text[strlen(text) - 1]))
        TEST_FAIL("%s:%d: blanks at the end", file->path, line);
}

TEST(lines_are_narrow_and_clean)
{
    each_line(check_columns);
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static void check_words(const struct file *file, int line, const char *text)
{
    for (size_t i = 0; i < sizeof(banned) / sizeof(banned[0]); i++) {
        size_t length = strlen(banned[i]);

        for (const char *p = strstr(text, banned[i]); p != NULL; p = strstr(p + 1, banned[i]))
            if ((p == text || !is_word(p[-1])) && p[length] == '(')
                TEST_FAIL("%s:%d: %s is banned", file->path, line, banned[i]);
    }
    if (ends_with(file->path, ".c") && strncmp(text, "#if", 3) == 0)
        TEST_FAIL("%s:%d: #if in a .c file (let CMake pick NAME.with-LIB.c)", file->path, line);
    if (strncmp(text, "typedef struct", 14) == 0 || strncmp(text, "typedef union", 13) == 0)
        TEST_FAIL("%s:%d: a typedef of a struct", file->path, line);
}

TEST(banned_words_are_absent)
{
    each_line(check_words);
}

/* libtutti and libtutti_cli print nothing by themselves: a command prints to its sink. Programs of
 * their own do: what their main() is made of, and what tools/netlab needs. A member of a struct,
 * ops->abort, is none of libc's. */
static void check_prints(const struct file *file, int line, const char *text)
{
    static const char *const names[] = {"printf(", "vprintf(", "puts(",  "putchar(", "perror(",
                                        "exit(",   "stdout",   "stderr", "abort("};

    if (strcmp(rooms[file->room], "tests") == 0 || strcmp(file->path, "tools/terminal.c") == 0 ||
        strncmp(file->path, "tools/netlab_", 13) == 0 ||
        strncmp(file->path, "tools/examples/", 15) == 0 || !ends_with(file->path, ".c") ||
        strncmp(text, " *", 2) == 0)
        return;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t length = strlen(names[i]);
        bool call = names[i][length - 1] == '(';
        bool quoted = false;

        for (const char *p = text; *p != '\0' && strncmp(p, "/*", 2) != 0; p++) {
            quoted = quoted != (*p == '"' && (p == text || p[-1] != '\\'));
            if (!quoted && strncmp(p, names[i], length) == 0 &&
                (p == text || (!is_word(p[-1]) && p[-1] != '>')) && (call || !is_word(p[length])))
                TEST_FAIL("%s:%d: %s: only a program of its own prints or ends by itself (a sink)",
                          file->path, line, names[i]);
        }
    }
}

TEST(libraries_print_nothing_by_themselves)
{
    each_line(check_prints);
}

/* Private words that had a term of the field: transport, process group, wait set, pacer, ... */
static const char *const refused[] = {
    "bystanders", "carrier", "conductor", "crew",  "desk",   "draft",   "ensemble",
    "fellow",     "fellows", "fidelity",  "game",  "greet",  "hall",    "hindrance",
    "island",     "islands", "keeper",    "nap",   "parcel", "parcels", "podium",
    "tempo",      "toll",    "tolls",     "troupe"};

/* A part of a word, between underscores. */
static bool is_refused(const char *part, size_t length)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (strlen(refused[i]) == length && strncasecmp(part, refused[i], length) == 0)
            return true;
    return false;
}

/* In code and comments; what is between quotes may say anything. */
static void check_terms(const struct file *file, int line, const char *text)
{
    bool quoted = false;

    for (const char *p = text; *p != '\0'; p++) {
        size_t length = 0;

        quoted = quoted != (*p == '"' && (p == text || p[-1] != '\\'));
        while (isalnum((unsigned char)p[length]))
            length++;
        if (length == 0)
            continue;
        if (!quoted && is_refused(p, length))
            TEST_FAIL("%s:%d: '%.*s' is a private word (the list has the field's)", file->path,
                      line, (int)length, p);
        p += length - 1;
    }
}

TEST(words_are_those_of_the_field)
{
    each_line(check_terms);
}

/* Definitions of tags that begin with tutti_: NAME -> the file it was first seen in. */
static struct {
    char name[96];
    const char *path;
} tags[4096];
static size_t tag_count;

/* Twins of one name, of which configuration picks one. */
static bool is_twin(const char *path)
{
    return strstr(path, ".with-") != NULL || strstr(path, ".without-") != NULL;
}

static void check_tags(const struct file *file, int line, const char *text)
{
    char name[96];

    if ((sscanf(text, "struct %95[a-z0-9_] {", name) != 1 &&
         sscanf(text, "union %95[a-z0-9_] {", name) != 1 &&
         sscanf(text, "enum %95[a-z0-9_] {", name) != 1) ||
        strncmp(name, "tutti_", 6) != 0 || strchr(text, '{') == NULL || is_twin(file->path))
        return;
    for (size_t i = 0; i < tag_count; i++)
        if (strcmp(tags[i].name, name) == 0)
            TEST_FAIL("%s:%d: %s is defined in %s already", file->path, line, name, tags[i].path);
    REQUIRE(tag_count < sizeof(tags) / sizeof(tags[0]));
    snprintf(tags[tag_count].name, sizeof(tags[0].name), "%s", name);
    tags[tag_count++].path = file->path;
}

TEST(a_tag_has_one_definition)
{
    each_line(check_tags);
    CHECK(tag_count > 100);
}

/* File-scope `static` objects must be const (tests and benchmarks aside: they are programs). */
static void check_globals(const struct file *file, int line, const char *text)
{
    size_t length = strlen(text);

    if (strcmp(rooms[file->room], "tests") == 0 || strncmp(text, "static ", 7) != 0)
        return;
    if (length > 0 && (text[length - 1] == ';' || strstr(text, " = ") != NULL) &&
        strchr(text, '(') == NULL && strstr(text, "const") == NULL)
        TEST_FAIL("%s:%d: a mutable global", file->path, line);
}

TEST(no_mutable_globals)
{
    each_line(check_globals);
}

/* A function body starts with '{' and ends with '}' in column 1 (clang-format sees to that). */
TEST(functions_and_files_are_short)
{
    collect_once();
    for (size_t i = 0; i < file_count; i++) {
        int line = 1;
        int opened = 0;

        for (const char *p = files[i].text; p != NULL && *p != '\0'; p++) {
            bool first = p == files[i].text || p[-1] == '\n';

            if (first && *p == '{')
                opened = line;
            if (first && *p == '}' && opened > 0) {
                if (line - opened - 1 > FUNCTION_LINES_MAX)
                    TEST_FAIL("%s:%d: a function of %d lines (at most %d)", files[i].path, opened,
                              line - opened - 1, FUNCTION_LINES_MAX);
                opened = 0;
            }
            line += *p == '\n';
        }
        if (line - 1 > FILE_LINES_MAX)
            TEST_FAIL("%s: %d lines (at most %d)", files[i].path, line - 1, FILE_LINES_MAX);
    }
}

TEST(each_file_says_what_it_is)
{
    collect_once();
    for (size_t i = 0; i < file_count; i++)
        if (files[i].text == NULL || strncmp(files[i].text, "/* ", 3) != 0)
            TEST_FAIL("%s: does not open with a sentence that says what it is", files[i].path);
}

/* Headers are guarded by TUTTI_ROOM_FILE_H. */
TEST(headers_are_guarded)
{
    collect_once();
    for (size_t i = 0; i < file_count; i++) {
        if (!ends_with(files[i].path, ".h") || files[i].text == NULL)
            continue;
        if (strstr(files[i].text, "#ifndef TUTTI_") == NULL)
            TEST_FAIL("%s: no include guard TUTTI_ROOM_FILE_H", files[i].path);
    }
}

TEST(the_top_of_the_tree_is_fixed)
{
    static const char *const allowed[] = {"sim",   "runtime",        "topo",      "traces", "tools",
                                          "tests", "CMakeLists.txt", "README.md", "LICENSE"};
    DIR *dir = opendir(TUTTI_SOURCE_DIR);
    struct dirent *entry;

    REQUIRE(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        bool found = entry->d_name[0] == '.' || strncmp(entry->d_name, "build", 5) == 0;

        for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
            found = found || strcmp(entry->d_name, allowed[i]) == 0;
        if (!found)
            TEST_FAIL("'%s' does not belong at the top of the tree", entry->d_name);
    }
    closedir(dir);
}

/* A self-test: the checks above can fail. */
TEST(the_checks_can_fail)
{
    const struct file bad = {.path = "sim/bad.c", .room = 2};
    const struct file tool = {.path = "tools/validate.c", .room = 4};
    int before = test_failures;

    fprintf(stderr, "(the next nine complaints are expected)\n");
    check_door(&bad, 1, "#include \"traces/csv.h\"");
    check_door(&bad, 2, "#include \"runtime/coll/emit.h\"");
    check_words(&bad, 3,
                "    ato"
                "i(text);");
    check_globals(&bad, 4, "static int counter = 0;");
    check_columns(&bad, 5, "\tx");
    check_prints(&bad, 6, "    fprintf(stderr, \"x\");");
    check_terms(&bad, 7,
                "    struct tutti_"
                "cr"
                "ew_tcp tcp;");
    check_tags(&bad, 8, "struct tutti_err {");
    check_door(&tool, 9, "#include \"tools/fit/commands.h\"");
    CHECK(test_failures >= before + 9);
    test_failures = test_failures >= before + 9 ? before : before + 1;
}
