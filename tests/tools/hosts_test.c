/* Lists of hosts, and the lines of shell that start processes there. */
#include "tools/run/hosts.h"

#include <unistd.h>

#include "tests/test.h"

static void check_list(const char *list, const char *expected)
{
    static struct tutti_hosts hosts; /* large */
    struct tutti_err err = {""};
    char seen[1024] = "";
    size_t used = 0;

    if (tutti_hosts_read(list, &hosts, &err) < 0)
        snprintf(seen, sizeof(seen), "%s", err.text);
    else
        for (uint32_t i = 0; i < hosts.host_count; i++)
            used += (size_t)snprintf(seen + used, sizeof(seen) - used, "%s%s*%u", i > 0 ? " " : "",
                                     hosts.hosts[i].name, hosts.hosts[i].count);
    if (strcmp(seen, expected) != 0)
        TEST_FAIL("'%s' is '%s', expected '%s'", list, seen, expected);
}

TEST(lists)
{
    check_list("a", "a*1");
    check_list("a,b:2,me@c.d:10", "a*1 b*2 me@c.d*10");
    check_list("[fd00::1]:2,10.0.0.1", "[fd00::1]*2 10.0.0.1*1");
    check_list("", "option '--hosts': no host '' (NAME, NAME:COUNT or [IPv6]:COUNT)");
    check_list("a,,b", "option '--hosts': no host '' (NAME, NAME:COUNT or [IPv6]:COUNT)");
    check_list("a:0", "option '--hosts': '0' processes on 'a' (1 to 1024)");
    check_list("a:x", "option '--hosts': 'x' processes on 'a' (1 to 1024)");
    check_list("a:", "option '--hosts': '' processes on 'a' (1 to 1024)");
    check_list("a;reboot",
               "option '--hosts': no host 'a;reboot' (NAME, NAME:COUNT or [IPv6]:COUNT)");
    check_list("-oProxyCommand=x",
               "option '--hosts': no host '-oProxyCommand=x' (NAME, NAME:COUNT or [IPv6]:COUNT)");
    check_list("a,b:2,a", "option '--hosts': 'a' is named twice (once, with a COUNT)");
    check_list("a:1000,b:1000", "option '--hosts': '2000' processes (at most 1024)");
}

TEST(a_line_of_shell)
{
    static struct tutti_hosts hosts;
    struct tutti_hosts_line line = {
        .ssh = "ssh", .program = "/opt/tutti", .command = "run -B tcp", .root = "a:7000"};
    struct tutti_err err = {""};
    char text[2048];

    CHECK_OK(tutti_hosts_read("a,b:2", &hosts, &err), err);
    CHECK_OK(tutti_hosts_print(&hosts, &line, 2, text, sizeof(text), &err), err);
    CHECK_TEXT(text, "printf '%s\\n' \"$TUTTI_SECRET\" | ssh b 'IFS= read -r TUTTI_SECRET; export "
                     "TUTTI_SECRET; TUTTI_RANK=2 TUTTI_SIZE=3 TUTTI_LOCAL_RANK=1 "
                     "TUTTI_LOCAL_SIZE=2 TUTTI_ROOT=a:7000 exec /opt/tutti run -B tcp'");
    CHECK_INT(tutti_hosts_print(&hosts, &line, 2, text, 100, &err), -TUTTI_EINVAL);
    CHECK_OK(tutti_hosts_read("me@[fd00::1]:2", &hosts, &err), err); /* ssh wants no brackets */
    CHECK_OK(tutti_hosts_print(&hosts, &line, 0, text, sizeof(text), &err), err);
    CHECK(strstr(text, " | ssh me@fd00::1 'IFS=") != NULL);
}

/* What a shell makes of the words is what they were. */
static void check_words(const char *const *words)
{
    char line[1024] = "printf '%s|'";
    char expected[1024] = "";
    char seen[1024] = "";
    size_t used = 0;
    FILE *shell;

    for (; *words != NULL; words++) {
        CHECK(tutti_shell_add(line, sizeof(line), *words));
        used += (size_t)snprintf(expected + used, sizeof(expected) - used, "%s|", *words);
    }
    shell = popen(line, "r");
    REQUIRE(shell != NULL);
    seen[fread(seen, 1, sizeof(seen) - 1, shell)] = '\0';
    pclose(shell);
    CHECK_TEXT(seen, expected);
}

TEST(words_survive_a_shell)
{
    static const char *const words[] = {"plain",  "two words", "it's",  "",         "$HOME",
                                        "`date`", "a\\b",      "\"q\"", "a;b&c|d>", "*",
                                        "'''",    "~",         "#x",    "a\nb",     NULL};

    check_words(words);
}

TEST(no_room_is_told)
{
    char line[12] = "";

    CHECK(tutti_shell_add(line, sizeof(line), "abc"));
    CHECK(!tutti_shell_add(line, sizeof(line), "a long word"));
    CHECK(strlen(line) < sizeof(line));
}
