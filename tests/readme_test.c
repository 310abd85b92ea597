/* Holds the READMEs to the truth: their commands run, their code compiles, their paths exist. */
#include <ctype.h>
#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

enum { README_BYTES_MAX = 8000, WORDS_MIN = 600, WORDS_MAX = 900, TEXT_MAX = 1 << 16 };

static char *read_doc(const char *name)
{
    char path[600];
    char *text;

    snprintf(path, sizeof(path), "%s/%s", TUTTI_SOURCE_DIR, name);
    text = test_read_file(path, NULL);
    if (text == NULL)
        TEST_FAIL("there is no %s", name);
    return text;
}

/* Words outside the fences of code. */
static int words_of(const char *text)
{
    bool fenced = false;
    bool in_word = false;
    int words = 0;

    for (const char *p = text; *p != '\0'; p++) {
        if ((p == text || p[-1] == '\n') && strncmp(p, "```", 3) == 0)
            fenced = !fenced;
        words += !fenced && !isspace((unsigned char)*p) && !in_word;
        in_word = !isspace((unsigned char)*p);
    }
    return words;
}

TEST(it_is_one_page)
{
    char *text = read_doc("README.md");
    int words;

    REQUIRE(text != NULL);
    words = words_of(text);
    printf("%zu bytes, %d words outside code\n", strlen(text), words);
    CHECK(strlen(text) <= README_BYTES_MAX);
    CHECK(words >= WORDS_MIN);
    CHECK(words <= WORDS_MAX);
    free(text);
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* Does the README of a room, or one of its folders named together with others, name this folder? */
static void check_room(const char *room)
{
    char doc[64];
    char path[600];
    struct dirent *entry;
    DIR *dir;
    char *text;

    snprintf(doc, sizeof(doc), "%s/README.md", room);
    text = read_doc(doc);
    REQUIRE(text != NULL);
    snprintf(path, sizeof(path), "%s/%s", TUTTI_SOURCE_DIR, room);
    dir = opendir(path);
    REQUIRE(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        char quoted[300];
        struct stat info;

        snprintf(path, sizeof(path), "%s/%s/%s", TUTTI_SOURCE_DIR, room, entry->d_name);
        if (entry->d_name[0] == '.' || stat(path, &info) != 0)
            continue;
        if (S_ISDIR(info.st_mode))
            snprintf(quoted, sizeof(quoted), "`%s/`", entry->d_name);
        else if (strstr(entry->d_name, ".h") != NULL && strcmp(room, "tools") != 0 &&
                 strcmp(room, "tests") != 0)
            snprintf(quoted, sizeof(quoted), "`%s`", entry->d_name);
        else
            continue;
        if (strstr(text, quoted) == NULL)
            TEST_FAIL("%s does not name %s", doc, quoted);
    }
    closedir(dir);
    free(text);
}

static const char *const rooms[] = {"runtime", "topo", "sim", "traces", "tools", "tests"};

TEST(the_readme_of_a_room_names_its_doors_and_folders)
{
    for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++)
        check_room(rooms[i]);
}

/* Is `word` a path of the tree: from its top, or from the folder of the text? */
static bool is_there(const char *folder, const char *word, size_t bytes)
{
    char path[900];

    snprintf(path, sizeof(path), "%s/%.*s", TUTTI_SOURCE_DIR, (int)bytes, word);
    if (access(path, F_OK) == 0)
        return true;
    snprintf(path, sizeof(path), "%s/%s/%.*s", TUTTI_SOURCE_DIR, folder, (int)bytes, word);
    return access(path, F_OK) == 0;
}

/* What stands in `...` or in ](...) and looks like a path of files: no blanks, with a slash or an
 * ending of ours. Paths of a build or of the reader's own are not of the tree. */
static bool looks_like_path(const char *word, size_t bytes)
{
    static const char *const endings[] = {".h", ".c", ".md", ".sh", ".calib", ".measured", ".svg"};
    bool ends = word[bytes - 1] == '/' && bytes > 1;

    for (size_t i = 0; i < bytes; i++) {
        if (strchr(" *<>=:$,{}", word[i]) != NULL)
            return false;
    }
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        size_t length = strlen(endings[i]);

        ends = ends || (bytes > length && memcmp(word + bytes - length, endings[i], length) == 0);
    }
    return ends && word[0] != '/' && strncmp(word, "build", 5) != 0 &&
           strncmp(word, "http", 4) != 0 && strncmp(word, "mine.", 5) != 0;
}

static void check_paths(const char *folder, const char *doc)
{
    char *text = read_doc(doc);

    REQUIRE(text != NULL);
    for (const char *p = text; *p != '\0'; p++) {
        bool quoted = *p == '`' && p[1] != '`';
        bool linked = *p == ']' && p[1] == '(';
        const char *word = p + (linked ? 2 : 1);
        size_t bytes;

        if (!quoted && !linked)
            continue;
        bytes = strcspn(word, quoted ? "`\n" : ")\n");
        if (bytes > 0 && looks_like_path(word, bytes) && !is_there(folder, word, bytes))
            TEST_FAIL("%s names '%.*s', which is not there", doc, (int)bytes, word);
        if (quoted)
            p = word + bytes - (word[bytes] == '\0');
    }
    free(text);
}

TEST(what_looks_like_a_path_is_there)
{
    char doc[64];

    check_paths(".", "README.md");
    for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
        snprintf(doc, sizeof(doc), "%s/README.md", rooms[i]);
        check_paths(rooms[i], doc);
    }
}

/* ---- transcripts and commands ---------------------------------------------------------------- */

/* The text between the line `first` and the next fence, or "" if there is none. */
static void block(const char *text, const char *first, char *buf)
{
    const char *start = strstr(text, first);
    const char *end = start == NULL ? NULL : strstr(start, "\n```");

    buf[0] = '\0';
    if (end == NULL)
        return;
    start = strchr(start, '\n') + 1;
    snprintf(buf, TEXT_MAX, "%.*s", (int)(end + 1 - start), start);
}

static bool same_line(const char *a, const char *b)
{
    size_t bytes = strcspn(a, "\n");

    return bytes == strcspn(b, "\n") && memcmp(a, b, bytes) == 0;
}

static const char *next_line(const char *line)
{
    line += strcspn(line, "\n");
    return *line == '\n' ? line + 1 : line;
}

/* Every line of `shown` stands in `printed`, one behind the other; [...] stands for lines left out.
 */
static void check_excerpt(const char *printed, const char *shown)
{
    bool skips = true;

    for (; *shown != '\0'; shown = next_line(shown)) {
        if (same_line(shown, "[...]")) {
            skips = true;
            continue;
        }
        while (skips && *printed != '\0' && !same_line(printed, shown))
            printed = next_line(printed);
        if (!same_line(printed, shown)) {
            TEST_FAIL("README.md: '%.*s' is not what is printed there, but '%.*s'",
                      (int)strcspn(shown, "\n"), shown, (int)strcspn(printed, "\n"), printed);
            return;
        }
        skips = false;
        printed = next_line(printed);
    }
}

/* What a command prints, on both streams; its exit code. */
static int output_of(const char *command, char *buf)
{
    FILE *pipe = popen(command, "r");
    int status;

    buf[0] = '\0';
    if (pipe == NULL)
        return -1;
    buf[fread(buf, 1, TEXT_MAX - 1, pipe)] = '\0';
    while (!feof(pipe) && !ferror(pipe)) /* what does not fit is read all the same */
        (void)fgetc(pipe);
    status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(the_transcript_of_quickstart_is_what_it_prints)
{
    static char seen[TEXT_MAX];
    static char shown[TEXT_MAX];
    char *text = read_doc("README.md");

    REQUIRE(text != NULL);
    block(text, "$ tools/quickstart\n", shown);
    free(text);
    REQUIRE(shown[0] != '\0');
    CHECK_INT(output_of("cd '" TUTTI_SOURCE_DIR
                        "' && timeout 240 tools/quickstart --built '" TUTTI_BINARY_DIR "' 2>&1",
                        seen),
              0);
    if (strstr(seen, "h100x8.topo") != NULL)
        SKIP("this build has no libexpat; the transcript reads XML");
    check_excerpt(seen, shown);
}

static void remove_folder(const char *folder)
{
    static char seen[TEXT_MAX];
    char command[600];

    snprintf(command, sizeof(command), "rm -rf '%s'", folder); /* its links, not what they name */
    CHECK_INT(output_of(command, seen), 0);
}

/* A folder in which the README's commands find what they name, and write what they write. */
static void furnish(const char *folder)
{
    char path[600];
    char from[600];

    for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, rooms[i]);
        snprintf(from, sizeof(from), "%s/%s", TUTTI_SOURCE_DIR, rooms[i]);
        CHECK_INT(symlink(from, path), 0);
    }
}

/* The lines of `    tutti ...` or `    cc ...`, each a command that ends well; a run of them in one
 * shell, since a later one may read what an earlier one wrote. */
TEST(every_command_of_the_page_runs)
{
    static char seen[TEXT_MAX];
    char *text = read_doc("README.md");
    char folder[] = "/tmp/tutti-readme-XXXXXX";
    int commands = 0;

    REQUIRE(text != NULL);
    REQUIRE(mkdtemp(folder) != NULL);
    furnish(folder);
    for (const char *p = text; *p != '\0'; p = next_line(p)) {
        char command[2000];

        if (strncmp(p, "    tutti ", 10) != 0 && strncmp(p, "    cc ", 7) != 0)
            continue;
        snprintf(command, sizeof(command),
                 "cd %s && PATH='%s':\"$PATH\" && export PATH && { timeout 120 %.*s\n} 2>&1",
                 folder, TUTTI_BINARY_DIR, (int)strcspn(p + 4, "\n"), p + 4);
        commands++;
        if (output_of(command, seen) != 0)
            TEST_FAIL("README.md: '%.*s' fails: %s", (int)strcspn(p + 4, "\n"), p + 4, seen);
    }
    printf("%d commands\n", commands);
    CHECK(commands >= 15);
    remove_folder(folder);
    free(text);
}

TEST(the_code_of_the_page_compiles_and_runs)
{
    static char code[TEXT_MAX];
    static char seen[TEXT_MAX];
    char *text = read_doc("README.md");
    char folder[] = "/tmp/tutti-readme-XXXXXX";
    char path[600];
    char command[2000];
    FILE *file;

    REQUIRE(text != NULL);
    block(text, "```c\n", code);
    free(text);
    REQUIRE(code[0] != '\0');
    REQUIRE(mkdtemp(folder) != NULL);
    snprintf(path, sizeof(path), "%s/page.c", folder);
    file = fopen(path, "w");
    REQUIRE(file != NULL);
    fputs(code, file);
    fclose(file);
    snprintf(command, sizeof(command),
             "cd %s && { cc -std=c11 -Wall -Wextra -Werror page.c -o page -I '%s' -L '%s' -ltutti "
             "-Wl,-rpath,'%s' && ./page; } 2>&1",
             folder, TUTTI_SOURCE_DIR, TUTTI_BINARY_DIR, TUTTI_BINARY_DIR);
    CHECK_INT(output_of(command, seen), 0);
    printf("%s", seen);
    CHECK(strstr(seen, " us") != NULL);
    remove_folder(folder);
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* Each picture of the page stands in tools/examples and is what the command behind it draws today:
 * ![...](tools/examples/NAME.svg "tutti ... --svg NAME.svg"). */
static void check_picture(const char *link)
{
    static char seen[TEXT_MAX];
    char folder[] = "/tmp/tutti-readme-XXXXXX";
    const char *path = link + 2;
    const char *name = strrchr(path, '/');
    char title[400];
    char picture[600];
    char command[2000];

    for (const char *p = path; *p != ' '; p++)
        name = *p == '/' ? p + 1 : name;
    snprintf(title, sizeof(title), "%.*s", (int)strcspn(strchr(path, '"') + 1, "\""),
             strchr(path, '"') + 1);
    REQUIRE(mkdtemp(folder) != NULL);
    snprintf(picture, sizeof(picture), "%s/%.*s", TUTTI_SOURCE_DIR, (int)strcspn(path, " "), path);
    snprintf(command, sizeof(command), "cd %s && '%s'/%s >/dev/null && %s %.*s '%s' 2>&1", folder,
             TUTTI_BINARY_DIR, title, getenv("TUTTI_UPDATE_GOLDEN") != NULL ? "cp" : "cmp",
             (int)strcspn(name, " "), name, picture);
    if (output_of(command, seen) != 0)
        TEST_FAIL("README.md: '%s' draws another picture today: %s", title, seen);
    remove_folder(folder);
}

TEST(the_pictures_of_the_page_are_what_the_tool_draws)
{
    char *text = read_doc("README.md");
    int pictures = 0;

    REQUIRE(text != NULL);
    for (const char *p = strstr(text, "](tools/examples/"); p != NULL;
         p = strstr(p + 1, "](tools/examples/")) {
        if (strncmp(p + strcspn(p, " )"), " \"tutti", 7) != 0)
            continue;
        check_picture(p);
        pictures++;
    }
    CHECK_INT(pictures, 2);
    free(text);
}

/* ---- what else is said ----------------------------------------------------------------------- */

/* The example in text says what the example in XML says, but for its first two lines. */
TEST(the_two_examples_are_the_same_machine)
{
    static char seen[TEXT_MAX];
    char *text = test_read_file(TUTTI_SOURCE_DIR "/tools/examples/h100x8.topo", NULL);
    const char *expected = text == NULL ? NULL : strstr(text, "\nsource ");
    const char *start;
    size_t bytes;
    FILE *pipe;

    REQUIRE(expected != NULL);
    pipe = popen("'" TUTTI_BINARY_DIR "/tutti' topo convert '" TUTTI_SOURCE_DIR
                 "/tools/examples/h100x8.xml' 2>&1",
                 "r");
    REQUIRE(pipe != NULL);
    bytes = fread(seen, 1, sizeof(seen) - 1, pipe);
    seen[bytes] = '\0';
    if (WEXITSTATUS(pclose(pipe)) == 77)
        SKIP("this build has no libexpat and reads no XML");
    start = strstr(seen, "\nsource ");
    REQUIRE(start != NULL);
    CHECK_TEXT(start, expected);
    free(text);
}

/* The stages that tools/README.md shows are the stages that tools/check runs. */
TEST(the_transcript_of_check_names_its_stages)
{
    static char shown[TEXT_MAX];
    char *text = read_doc("tools/README.md");
    char *script = read_doc("tools/check");
    const char *stages = script == NULL ? NULL : strstr(script, "stages=(layout");

    REQUIRE(text != NULL);
    REQUIRE(stages != NULL);
    block(text, "$ tools/check\n", shown);
    REQUIRE(strstr(shown, "100% tests passed") != NULL);
    stages += strlen("stages=(");
    while (*stages != ')') {
        char mark[64];
        size_t bytes = strcspn(stages, " )");

        snprintf(mark, sizeof(mark), "== %.*s", (int)bytes, stages);
        if (strstr(shown, mark) == NULL)
            TEST_FAIL("tools/README.md: the transcript of tools/check lacks the stage '%s'",
                      mark + 3);
        stages += bytes + (stages[bytes] == ' ');
    }
    free(text);
    free(script);
}
