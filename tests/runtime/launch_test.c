/* Launch identity: each captured or written environment under tests/fixtures/launch/ tells who the
 * process is, or is refused for what it says. */
#include <dirent.h>

#include "runtime/launch.h"
#include "runtime/launch/hostlist.h"
#include "runtime/launch/json.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { VARIABLES_MAX = 256, FIXTURES_MIN = 30 };

/* A fixture: lines of comment (#), of variables (NAME=VALUE), and of what must come of them: "-> "
 * and the identity or the refusal; "--launcher NAME -> " with the launcher chosen. */
struct world {
    char *text;
    const char *names[VARIABLES_MAX];
    const char *values[VARIABLES_MAX];
    size_t count;
};

static const char *get(const void *context, const char *name)
{
    const struct world *world = context;

    for (size_t i = 0; i < world->count; i++) {
        if (strcmp(world->names[i], name) == 0)
            return world->values[i];
    }
    return NULL;
}

static void describe(const struct tutti_launch *l, char *buf, size_t bytes)
{
    char of[32] = "?";
    size_t used;

    if (l->count > 0)
        snprintf(of, sizeof(of), "%u", l->count);
    used = (size_t)snprintf(buf, bytes, "%s: %u of %s", l->name, l->index, of);
    if (!l->member)
        used = (size_t)snprintf(buf, bytes, "%s: plays nothing", l->name);
    if (l->local_count > 0)
        used += (size_t)snprintf(buf + used, bytes - used, ", here %u of %u", l->local_index,
                                 l->local_count);
    if (l->host_count > 0)
        used += (size_t)snprintf(buf + used, bytes - used, ", host %u of %u", l->host_index,
                                 l->host_count);
    if (l->root_host[0] != '\0')
        used += (size_t)snprintf(buf + used, bytes - used, ", root %s", l->root_host);
    if (l->root_port != 0)
        used += (size_t)snprintf(buf + used, bytes - used, " port %u", l->root_port);
    if (l->has_pmi)
        used += (size_t)snprintf(buf + used, bytes - used, ", pmi");
    if (l->role[0] != '\0')
        used += (size_t)snprintf(buf + used, bytes - used, ", as %s", l->role);
    if (l->job[0] != '\0')
        (void)snprintf(buf + used, bytes - used, ", job '%s'", l->job);
}

static void check_line(const char *file, const struct world *world, char *line)
{
    struct tutti_env env = {.get = get, .context = world};
    struct tutti_launch launch;
    struct tutti_err err = {""};
    char seen[2048];
    char *arrow = strstr(line, "-> ");
    char launcher[64];
    bool asked = sscanf(line, "--launcher %63s ->", launcher) == 1;

    if (tutti_launch_read(&env, asked ? launcher : NULL, &launch, &err) < 0)
        snprintf(seen, sizeof(seen), "refused: %s", err.text);
    else
        describe(&launch, seen, sizeof(seen));
    if (strcmp(seen, arrow + 3) != 0)
        TEST_FAIL("%s: %s\n is  %s", file, line, seen);
}

static int check_file(const char *name)
{
    char path[1024];
    struct world world = {.count = 0};
    int checked = 0;

    snprintf(path, sizeof(path), "%s/tests/fixtures/launch/%s", TUTTI_SOURCE_DIR, name);
    world.text = test_read_file(path, NULL);
    if (world.text == NULL) {
        TEST_FAIL("cannot read %s", path);
        return 0;
    }
    for (char *line = world.text; *line != '\0';) {
        char *end = strchr(line, '\n');
        char *equals;

        if (end != NULL)
            *end = '\0';
        equals = strchr(line, '=');
        if (strncmp(line, "-> ", 3) == 0 || strncmp(line, "--launcher ", 11) == 0) {
            check_line(name, &world, line);
            checked++;
        } else if (line[0] != '#' && equals != NULL && world.count < VARIABLES_MAX) {
            *equals = '\0';
            world.names[world.count] = line;
            world.values[world.count++] = equals + 1;
        } else if (line[0] != '#' && line[0] != '\0') {
            TEST_FAIL("%s: what is '%s'?", name, line);
        }
        line = end == NULL ? line + strlen(line) : end + 1;
    }
    if (checked == 0 || world.text[0] != '#')
        TEST_FAIL("%s: tells no story, or checks nothing", name);
    free(world.text);
    return checked;
}

TEST(each_environment_tells_who_it_is)
{
    DIR *dir = opendir(TUTTI_SOURCE_DIR "/tests/fixtures/launch");
    struct dirent *entry;
    int files = 0;
    int checks = 0;

    REQUIRE(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        size_t bytes = strlen(entry->d_name);

        if (bytes < 5 || strcmp(entry->d_name + bytes - 4, ".env") != 0)
            continue;
        checks += check_file(entry->d_name);
        files++;
    }
    closedir(dir);
    printf("%d environments, %d checks\n", files, checks);
    CHECK(files >= FIXTURES_MIN);
}

static void check_hosts(const char *list, const char *expected)
{
    struct tutti_err err = {""};
    char seen[1024] = "";
    uint32_t count = 0;
    size_t used = 0;

    if (tutti_hostlist_count(list, &count, &err) < 0)
        snprintf(seen, sizeof(seen), "refused");
    for (uint32_t i = 0; i < count && i < 20; i++) {
        char host[64];

        CHECK_OK(tutti_hostlist_at(list, i, host, sizeof(host), &err), err);
        used += (size_t)snprintf(seen + used, sizeof(seen) - used, "%s%s", i > 0 ? " " : "", host);
    }
    if (strcmp(seen, expected) != 0)
        TEST_FAIL("'%s' is '%s', expected '%s' %s", list, seen, expected, err.text);
}

TEST(lists_of_hosts)
{
    check_hosts("gnode[10,20-25]", "gnode10 gnode20 gnode21 gnode22 gnode23 gnode24 gnode25");
    check_hosts("n[001-003],login", "n001 n002 n003 login");
    check_hosts("a[1-2]b[3-4],c", "a1b3 a1b4 a2b3 a2b4 c");
    check_hosts("rack[0-1]-n[08-10].ib",
                "rack0-n08.ib rack0-n09.ib rack0-n10.ib rack1-n08.ib rack1-n09.ib rack1-n10.ib");
    check_hosts("one", "one");
    check_hosts("a,b,,c", "refused");
    check_hosts("", "refused");
    check_hosts("a,", "refused");
    check_hosts("a[", "refused");
    check_hosts("a[1", "refused");
    check_hosts("a[1-", "refused");
    check_hosts("a[2-1]", "refused");
    check_hosts("a[]", "refused");
    check_hosts("a[1,]", "refused");
    check_hosts("a]", "refused");
    check_hosts("a[1]b]", "refused");
    check_hosts("a b", "refused");
    check_hosts("a[0-999999999]", "refused");
    check_hosts("a[0-9999]b[0-9999]", "refused");
    check_hosts("a[12345678901]", "refused");
}

TEST(no_host_beyond_the_last)
{
    struct tutti_err err = {""};
    char host[64] = "";

    CHECK_INT(tutti_hostlist_at("a[1-2]", 2, host, sizeof(host), &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "no host number '2' in 'a[1-2]' (0 to 1)");
    CHECK_INT(tutti_hostlist_at("a-very-long-name-of-a-host[1-2]", 1, host, 8, &err), 0);
    CHECK_TEXT(host, "a-very-"); /* cut, never overrun */
}

static int64_t repeated(const char *list, uint32_t index)
{
    uint32_t value = 0;

    return tutti_repeated_at(list, index, &value, NULL) < 0 ? -1 : (int64_t)value;
}

TEST(counts_a_host)
{
    CHECK_INT(repeated("4(x2),3", 0), 4);
    CHECK_INT(repeated("4(x2),3", 1), 4);
    CHECK_INT(repeated("4(x2),3", 2), 3);
    CHECK_INT(repeated("4(x2),3", 3), -1);
    CHECK_INT(repeated("8", 0), 8);
    CHECK_INT(repeated("8(x", 0), -1);
    CHECK_INT(repeated("8(x2", 0), -1);
    CHECK_INT(repeated("", 0), -1);
    CHECK_INT(repeated("4,,3", 1), -1);
}

static void check_address(const char *text, const char *host, int port)
{
    char seen[TUTTI_LAUNCH_HOST_BYTES] = "";
    uint16_t seen_port = 0;
    int status = tutti_launch_address("it", text, seen, &seen_port, NULL);

    if (status != (host == NULL ? -TUTTI_EINVAL : 0))
        TEST_FAIL("address '%s': status %d", text, status);
    if (status == 0 && host != NULL)
        CHECK_TEXT(seen, host);
    if (status == 0)
        CHECK_INT(seen_port, port);
}

TEST(addresses)
{
    check_address("node7:2222", "node7", 2222);
    check_address("10.0.0.1:1", "10.0.0.1", 1);
    check_address("[::1]:65535", "::1", 65535);
    check_address("[fe80::1%eth0]:80", "fe80::1%eth0", 80);
    check_address("node7", NULL, 0);
    check_address("node7:", NULL, 0);
    check_address(":80", NULL, 0);
    check_address("node7:0", NULL, 0);
    check_address("node7:65536", NULL, 0);
    check_address("node7:99999999999", NULL, 0);
    check_address("node7:80x", NULL, 0);
    check_address("::1:80", NULL, 0);
    check_address("[::1]80", NULL, 0);
    check_address("[]:80", NULL, 0);
    check_address("[:80", NULL, 0);
    check_address("a b:80", NULL, 0);
    check_address("http://a:80", NULL, 0);
    check_address("", NULL, 0);
}

/* The events of a text in one line; what is refused ends in '!'. */
static const char *events(const char *text)
{
    static const char signs[] = "{}[]ksnw.";
    static char seen[512];
    struct tutti_json_reader reader;
    enum tutti_json_event event = TUTTI_JSON_OBJECT;
    size_t used = 0;

    tutti_json_read(&reader, text);
    while (event != TUTTI_JSON_DONE && used + 100 < sizeof(seen)) {
        if (tutti_json_next(&reader, &event, NULL) < 0) {
            seen[used++] = '!';
            break;
        }
        seen[used++] = signs[event];
        used += (size_t)snprintf(seen + used, sizeof(seen) - used, "%.60s", reader.text);
    }
    seen[used] = '\0';
    return seen;
}

TEST(json_is_read_strictly)
{
    CHECK_TEXT(events("{\"a\": [1, -2.5e+3, \"x\"], \"b\": {}, \"c\": null} "),
               "{ka[n1n-2.5e+3sx]kb{}kcwnull}.");
    CHECK_TEXT(events(" true "), "wtrue.");
    CHECK_TEXT(events("\"\\u00e9\\n\\ud83d\\ude00\\\\\""), "s\xc3\xa9\n\xf0\x9f\x98\x80\\.");
    CHECK_TEXT(events(""), "!");
    CHECK_TEXT(events("{"), "{!");
    CHECK_TEXT(events("[1,]"), "[n1!");
    CHECK_TEXT(events("[,1]"), "[!");
    CHECK_TEXT(events("{\"a\":1,}"), "{kan1!");
    CHECK_TEXT(events("{\"a\" 1}"), "{!");
    CHECK_TEXT(events("{a:1}"), "{!");
    CHECK_TEXT(events("{\"a\":}"), "{ka!");
    CHECK_TEXT(events("[1 2]"), "[n1!");
    CHECK_TEXT(events("[1}"), "[n1!");
    CHECK_TEXT(events("1 2"), "n1!");
    CHECK_TEXT(events("01"), "n0!");
    CHECK_TEXT(events("1."), "!");
    CHECK_TEXT(events("+1"), "!");
    CHECK_TEXT(events("nul"), "!");
    CHECK_TEXT(events("\"\\u12\""), "!");
    CHECK_TEXT(events("\"\\u0000\""), "!");
    CHECK_TEXT(events("\"\\ud83d\""), "!");
    CHECK_TEXT(events("\"\t\""), "!");
    CHECK_TEXT(events("\"open"), "!");
    CHECK_TEXT(events("'a'"), "!");
}

TEST(json_has_a_floor)
{
    char deep[200];

    memset(deep, '[', sizeof(deep) - 1);
    deep[sizeof(deep) - 1] = '\0';
    CHECK_INT(strlen(events(deep)), TUTTI_JSON_NEST_MAX + 1);
}

TEST(an_unknown_launcher_is_named)
{
    struct tutti_launch launch;
    struct tutti_err err = {""};
    struct world nothing = {.count = 0};
    struct tutti_env env = {.get = get, .context = &nothing};

    CHECK_INT(tutti_launch_read(&env, "slrum", &launch, &err), -TUTTI_EINVAL);
    CHECK(strncmp(err.text, "unknown launcher 'slrum' (did you mean 'slurm'? all: tutti|", 59) ==
          0);
    CHECK(!tutti_launch_by(&env, "slurm", &launch));
}

/* ---- all tasks of a TF_CONFIG ---------------------------------------------------------------- */

/* "chiefs workers servers evaluators hosts: of workers; of servers", or what is wrong. */
static void tasks(const char *text, const char *expected)
{
    struct tutti_tf_tasks *t = NULL;
    struct tutti_err err = {""};
    char said[512];
    int used;

    if (tutti_tf_tasks_parse(text, &t, &err) < 0) {
        CHECK_TEXT(err.text, expected);
        return;
    }
    used = snprintf(said, sizeof(said), "%u %u %u %u %u:", t->chief_count, t->worker_count,
                    t->server_count, t->evaluator_count, t->host_count);
    for (uint32_t i = 0; i < t->worker_count; i++)
        used += snprintf(said + used, sizeof(said) - (size_t)used, " %u", t->worker_host[i]);
    used += snprintf(said + used, sizeof(said) - (size_t)used, ";");
    for (uint32_t i = 0; i < t->server_count; i++)
        used += snprintf(said + used, sizeof(said) - (size_t)used, " %u", t->server_host[i]);
    CHECK_TEXT(said, expected);
    tutti_tf_tasks_free(t);
}

TEST(all_tasks_of_a_tf_config_are_on_hosts)
{
    tasks("{\"cluster\":{\"ps\":[\"a:1681\"],\"worker\":[\"a:1682\",\"a:1683\"]}}",
          "0 2 1 0 1: 0 0; 0");
    tasks("{\"cluster\":{\"worker\":[\"b:1\",\"c:1\"],\"chief\":[\"a:1\"]},"
          "\"task\":{\"type\":\"worker\",\"index\":1}}",
          "1 2 0 0 3: 1 2;");
    tasks("{\"cluster\":{\"ps\":[\"d:1\",\"c:2\",\"a:2\"],\"chief\":[\"a:1\"],"
          "\"worker\":[\"b:1\",\"c:1\"],\"evaluator\":[\"e:1\"]}}",
          "1 2 3 1 4: 0 1; 2 1 3");
    tasks("{\"cluster\":{\"worker\":{\"1\":\"x:1\"}}}", "0 1 0 0 1: 0;");
    tasks("{}", "variable 'TF_CONFIG': its cluster has neither chief nor worker");
    tasks("{\"cluster\":{\"chief\":[\"a:1\",\"b:1\"]}}",
          "variable 'TF_CONFIG': its cluster has '2' chiefs (at most 1)");
    tasks("{\"cluster\":{\"wroker\":[\"a:1\"]}}",
          "variable 'TF_CONFIG': its cluster has tasks of type 'wroker' (chief, worker, ps or "
          "evaluator)");
    tasks("{\"cluster\":{\"worker\":[\":1\"]}}",
          "variable 'TF_CONFIG': its cluster has ':1' for an address (host:port)");
}

static void check_task(const struct world *world, uint32_t index, const char *expected)
{
    const struct tutti_env env = {get, world};
    struct tutti_launch launch;
    struct tutti_err err = {""};
    char task[128] = "";

    CHECK_OK(tutti_launch_read(&env, NULL, &launch, &err), err);
    CHECK(tutti_launch_task(&env, &launch, index, task, sizeof(task)) == (expected[0] != '\0'));
    CHECK_TEXT(task, expected);
}

TEST(processes_of_tf_config_have_names)
{
    struct world world = {
        .names = {"TF_CONFIG"},
        .values = {"{\"cluster\":{\"worker\":[\"b:1\",\"c:2\"],\"ps\":[\"d:3\"],\"chief\":[\"a:4\"]"
                   "},\"task\":{\"type\":\"worker\",\"index\":0}}"},
        .count = 1};

    check_task(&world, 0, "chief 0 at 'a:4'");
    check_task(&world, 2, "worker 1 at 'c:2'");
    check_task(&world, 3, "");
    world.values[0] =
        "{\"cluster\":{\"worker\":[\"b:1\",\"c:2\"]},\"task\":{\"type\":\"worker\",\"index\":0}}";
    check_task(&world, 0, "worker 0 at 'b:1'");
    world.count = 0; /* no launcher */
    check_task(&world, 0, "");
}
