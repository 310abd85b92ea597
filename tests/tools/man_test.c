/* The man pages: one for each command, of this build, and clean to a checker. */
#include <dirent.h>

#include "tests/test.h"

/* What a shell command prints, from malloc. */
static char *output_of(const char *command, int *ret_status)
{
    size_t capacity = 1 << 20;
    char *text = calloc(1, capacity);
    FILE *pipe = popen(command, "r");

    if (pipe == NULL || text == NULL)
        abort();
    if (fread(text, 1, capacity - 1, pipe) == capacity - 1)
        TEST_FAIL("%s prints too much", command);
    *ret_status = pclose(pipe);
    return text;
}

/* Calls `visit` for each page under build/man; returns how many there are. */
static int each_page(void (*visit)(const char *name))
{
    DIR *dir = opendir(TUTTI_BINARY_DIR "/man");
    struct dirent *entry;
    int count = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strstr(entry->d_name, ".1") == NULL)
            continue;
        visit(entry->d_name);
        count++;
    }
    if (dir != NULL)
        closedir(dir);
    return count;
}

/* tutti-topo-show.1 is what `tutti help --man topo show` prints. */
static void compare_page(const char *name)
{
    char command[512] = "";
    char path[512];
    char *seen;
    char *page;
    int status = 0;

    snprintf(command, sizeof(command), "'%s/tutti' help --man %s", TUTTI_BINARY_DIR,
             name + strlen("tutti"));
    command[strlen(command) - 2] = '\0'; /* without .1 */
    for (char *p = strstr(command, "--man ") + 6; *p != '\0'; p++)
        *p = (char)(*p == '-' ? ' ' : *p);
    seen = output_of(command, &status);
    snprintf(path, sizeof(path), "%s/man/%s", TUTTI_BINARY_DIR, name);
    page = test_read_file(path, NULL);
    CHECK_INT(status, 0);
    REQUIRE(page != NULL);
    CHECK_TEXT(page, seen);
    free(seen);
    free(page);
}

TEST(each_page_is_of_this_build)
{
    CHECK(each_page(compare_page) > 5);
}

/* Every command of `tutti help`, between "commands:" and "help [COMMAND]", has its page. */
TEST(each_command_has_a_page)
{
    int status = 0;
    char *usage = output_of("'" TUTTI_BINARY_DIR "/tutti' help", &status);
    char *p = strstr(usage, "commands:\n");

    REQUIRE(p != NULL);
    for (p += 10; strncmp(p, "  help", 6) != 0 && *p != '\0'; p += strcspn(p, "\n") + 1) {
        char path[512];
        char *page;
        int bytes = (int)(strstr(p + 2, "  ") - (p + 2));

        snprintf(path, sizeof(path), "%s/man/tutti-%.*s.1", TUTTI_BINARY_DIR, bytes, p + 2);
        for (char *c = path + strlen(TUTTI_BINARY_DIR); *c != '\0'; c++)
            *c = (char)(*c == ' ' ? '-' : *c);
        page = test_read_file(path, NULL);
        if (page == NULL)
            TEST_FAIL("there is no %s", path);
        free(page);
    }
    free(usage);
}

static void lint_page(const char *name)
{
    char command[1024];
    char *text;
    int status = 0;

    snprintf(command, sizeof(command), "mandoc -Tlint '%s/man/%s' 2>&1", TUTTI_BINARY_DIR, name);
    text = output_of(command, &status);
    CHECK_TEXT(text, "");
    free(text);
}

TEST(mandoc_finds_nothing_wrong)
{
    if (system("command -v mandoc >/dev/null 2>&1") != 0)
        SKIP("no mandoc on this machine (apt install mandoc)");
    CHECK(each_page(lint_page) > 5);
}
