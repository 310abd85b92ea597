/* Holds the README to the truth: its transcripts, its map of the house, its reading path. */
#include <ctype.h>
#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

enum { README_LINES_MAX = 200, TEXT_MAX = 1 << 16 };

static char *readme(void)
{
    char *text = test_read_file(TUTTI_SOURCE_DIR "/README.md", NULL);

    if (text == NULL)
        TEST_FAIL("there is no README.md");
    return text;
}

TEST(it_is_short)
{
    char *text = readme();
    int lines = 0;

    for (const char *p = text; p != NULL && *p != '\0'; p++)
        lines += *p == '\n';
    CHECK(lines <= README_LINES_MAX);
    free(text);
}

/* Every folder of the tree down to the second level stands in the map, and what stands there is. */
static void check_folder(const char *text, const char *folder)
{
    char quoted[300];

    snprintf(quoted, sizeof(quoted), "`%s/`", folder);
    if (strstr(text, quoted) == NULL)
        TEST_FAIL("README.md: the map of the house lacks '%s'", folder);
}

/* The rooms whose folders are concepts; those of tools and tests are named by their last part. */
static void check_room(const char *text, const char *room, bool whole)
{
    char path[600];
    struct dirent *entry;
    DIR *dir;

    check_folder(text, room);
    snprintf(path, sizeof(path), "%s/%s", TUTTI_SOURCE_DIR, room);
    dir = opendir(path);
    REQUIRE(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        char name[520];
        struct stat info;

        snprintf(path, sizeof(path), "%s/%s/%s", TUTTI_SOURCE_DIR, room, entry->d_name);
        if (entry->d_name[0] == '.' || stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
            continue;
        snprintf(name, sizeof(name), "%s%s%s", whole ? room : "", whole ? "/" : "", entry->d_name);
        check_folder(text, name);
    }
    closedir(dir);
}

TEST(the_map_of_the_house_is_true)
{
    char *text = readme();

    REQUIRE(text != NULL);
    check_room(text, "runtime", true);
    check_room(text, "topo", true);
    check_room(text, "sim", true);
    check_room(text, "traces", true);
    check_room(text, "tools", false);
    check_room(text, "tests", false);
    for (const char *p = strstr(text, "| `"); p != NULL; p = strstr(p + 1, "\n| `")) {
        char path[600];
        const char *name = strchr(p, '`') + 1;
        size_t bytes = strcspn(name, "`");

        if (name[bytes - 1] != '/')
            continue;
        snprintf(path, sizeof(path), "%s/%.*s", TUTTI_SOURCE_DIR, (int)bytes, name);
        if (access(path, R_OK) != 0)
            TEST_FAIL("README.md: the map names '%.*s', which is not there", (int)bytes, name);
    }
    free(text);
}

/* "1. `runtime/schedule.h`: ..." up to six, each a file that opens with a comment. */
TEST(the_reading_path_has_six_files_that_open_with_a_sentence)
{
    char *text = readme();
    const char *p = text == NULL ? NULL : strstr(text, "**To read it");

    REQUIRE(p != NULL);
    for (int i = 1; i <= 6; i++) {
        char mark[16];
        char path[600];
        char *file;
        const char *stop;

        snprintf(mark, sizeof(mark), "\n%d. `", i);
        p = strstr(p, mark);
        REQUIRE(p != NULL);
        p += strlen(mark);
        snprintf(path, sizeof(path), "%s/%.*s", TUTTI_SOURCE_DIR, (int)strcspn(p, "`"), p);
        file = test_read_file(path, NULL);
        if (file == NULL) {
            TEST_FAIL("README.md: the reading path names '%s', which is not there", path);
            continue;
        }
        stop = strchr(file, '.');
        if (strncmp(file, "/* ", 3) != 0 || stop == NULL || stop > file + 400)
            TEST_FAIL("%s does not open with one sentence", path);
        free(file);
    }
    free(text);
}

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

/* What a measurement prints differs from run to run: numbers become '#', runs of blanks one blank.
 * Applied to the text from `from` on. */
static void mask(char *from)
{
    char *to = from;

    for (const char *p = from; *p != '\0';) {
        if (isdigit((unsigned char)*p) || (*p == '-' && isdigit((unsigned char)p[1]))) {
            p += *p == '-';
            while (isdigit((unsigned char)*p) || (*p == '.' && isdigit((unsigned char)p[1])))
                p++;
            *to++ = '#';
        } else if (*p == ' ') {
            while (*p == ' ')
                p++;
            *to++ = ' ';
        } else {
            *to++ = *p++;
        }
    }
    *to = '\0';
}

/* Lines that only a machine prints that was disturbed: by others' work, or by its host. */
static void drop_disturbed(char *text)
{
    static const char *const begins[] = {"\n# busy:", "\n# the processors moved:"};

    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        char *line = strstr(text, begins[i]);
        char *end = line == NULL ? NULL : strchr(line + 1, '\n');

        if (end != NULL)
            memmove(line, end, strlen(end) + 1);
    }
}

static void mask_part_three(char *text)
{
    char *third = strstr(text, "\n3. ");

    if (third == NULL)
        return;
    drop_disturbed(third);
    mask(third);
}

static void first_difference(const char *seen, const char *expected)
{
    int line = 1;

    while (*seen != '\0' && *seen == *expected) {
        line += *seen == '\n';
        seen++;
        expected++;
    }
    TEST_FAIL("README.md: the transcript differs in its line %d: '%.*s' is now '%.*s'", line,
              (int)strcspn(expected, "\n"), expected, (int)strcspn(seen, "\n"), seen);
}

TEST(the_transcript_of_quickstart_is_what_it_prints)
{
    static char seen[TEXT_MAX];
    static char expected[TEXT_MAX];
    char *text = readme();
    const char *start;
    size_t bytes;
    FILE *pipe;

    REQUIRE(text != NULL);
    block(text, "$ tools/quickstart\n", expected);
    free(text);
    REQUIRE(expected[0] != '\0');
    pipe = popen("cd '" TUTTI_SOURCE_DIR
                 "' && timeout 240 tools/quickstart --built '" TUTTI_BINARY_DIR "' 2>&1",
                 "r");
    REQUIRE(pipe != NULL);
    bytes = fread(seen, 1, sizeof(seen) - 1, pipe);
    seen[bytes] = '\0';
    CHECK_INT(pclose(pipe), 0);
    if (strstr(seen, "h100x8.topo") != NULL)
        SKIP("this build has no libexpat; the transcript reads XML");
    start = strstr(seen, "1. ");
    REQUIRE(start != NULL);
    memmove(seen, start, strlen(start) + 1);
    start = strstr(seen, "\n\ntutti: done");
    REQUIRE(start != NULL);
    seen[start + 1 - seen] = '\0';
    mask_part_three(seen);
    mask_part_three(expected);
    if (strcmp(seen, expected) != 0)
        first_difference(seen, expected);
}

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

/* The stages that the README shows are the stages that tools/check runs. */
TEST(the_transcript_of_check_names_its_stages)
{
    static char shown[TEXT_MAX];
    char *text = readme();
    char *script = test_read_file(TUTTI_SOURCE_DIR "/tools/check", NULL);
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
            TEST_FAIL("README.md: the transcript of tools/check lacks the stage '%s'", mark + 3);
        stages += bytes + (stages[bytes] == ' ');
    }
    free(text);
    free(script);
}
