/* Tables of measurements: read, refused with the line, chosen by a filter; those of the tree. */
#include <dirent.h>
#include <math.h>
#include <sys/wait.h>

#include "runtime/status.h"
#include "tests/alloc_fail.h"
#include "topo/topo.h"
#include "traces/measured.h"

#define HEAD "tutti measured 1\n"
#define FACTS                                                                            \
    "site us\nplatform a100-hgx8\nmachine dgx-a100:nodes=2\nranks 16\nnodes 2\ngpus 8\n" \
    "library nccl\ncollective allreduce\ndtype float\nop sum\nquality good\nsource a page\n"
#define ROWS "rows\n8 20.09 17.42\n1024 - 18\n1048576 70.5\nend\n"

static int parse(const char *text, struct tutti_measured *set, struct tutti_err *err)
{
    return tutti_measured_parse("a.measured", text, strlen(text), set, err);
}

TEST(a_table_is_read)
{
    struct tutti_measured set = {0};
    struct tutti_err err;
    const struct tutti_measured_table *table;

    REQUIRE(parse(HEAD "# ours\n\ntable one\r\n" FACTS "nics 8\nnic 200Gb/s\nnet  ib \n"
                       "note of  two words\n" ROWS,
                  &set, &err) == 0);
    REQUIRE(set.table_count == 1);
    table = &set.tables[0];
    CHECK_TEXT(table->id, "one");
    CHECK_TEXT(table->machine, "dgx-a100:nodes=2");
    CHECK_TEXT(table->net, "ib");
    CHECK_TEXT(table->note, "of  two words");
    CHECK_TEXT(table->version, "");
    CHECK_INT(table->collective, TUTTI_ALLREDUCE);
    CHECK_INT(table->rank_count, 16);
    CHECK_INT(table->gpu_count, 8);
    CHECK_INT(table->nic_count, 8);
    CHECK_INT(table->nic_bytes_per_s, 25000000000);
    CHECK(!table->degraded);
    REQUIRE(table->row_count == 3);
    CHECK(table->rows[0].out_us == 20.09 && table->rows[0].in_us == 17.42);
    CHECK(isnan(table->rows[1].out_us) && table->rows[1].in_us == 18);
    CHECK_INT(table->rows[2].bytes, 1048576);
    CHECK(isnan(table->rows[2].in_us));
    tutti_measured_free(&set);
}

TEST(what_is_wrong_is_said_with_the_line)
{
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"", "a.measured: no table of measurements (tutti measured 1)"},
        {"size,time\n", "a.measured: no table of measurements (tutti measured 1)"},
        {HEAD "site us\n", "a.measured: line 2: no table opens with 'site us' (table ID)"},
        {HEAD "table one\ncolour red\n", "a.measured: line 3: unknown key 'colour' (site, "
                                         "platform, machine, ranks, ..., or rows)"},
        {HEAD "table one\nsite us\nsite them\n", "a.measured: line 4: a second value for 'site' "
                                                 "(each key once in a table)"},
        {HEAD "table one\nsite\n",
         "a.measured: line 3: no value for 'site' (a key, a blank, its value)"},
        {HEAD "table one\nsite us\nrows\n8 1\nend\n",
         "a.measured: line 4: table 'one' has no 'platform' (platform VALUE)"},
        {HEAD "table one\n" FACTS,
         "a.measured: line 14: no rows in 'one' (rows, a line a size, then end)"},
        {HEAD "table one\n" FACTS "rows\nend\n",
         "a.measured: line 16: no rows in 'one' (rows, a line a size, then end)"},
        {HEAD "table one\n" FACTS "rows\n8 fast\nend\n",
         "a.measured: line 16: no row of numbers: '8' (bytes, us out of place, us in place, above "
         "0; or end)"},
        {HEAD "table one\n" FACTS "rows\n8 1\n8 2\nend\n",
         "a.measured: line 17: a size that does not rise: '8' (each once, rising)"},
        {HEAD "table one\n" FACTS ROWS "table one\n" FACTS ROWS,
         "a.measured: line 33: a second table 'one' (each id once)"},
        {HEAD "table one\nquality fine\n",
         "a.measured: line 3: unknown quality 'fine' (good or degraded)"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_measured set = {0};
        struct tutti_err err = {""};

        CHECK_INT(parse(cases[i].text, &set, &err), -TUTTI_EINVAL);
        CHECK_TEXT(err.text, cases[i].message);
        CHECK_INT(set.table_count, 0);
        tutti_measured_free(&set);
    }
}

TEST(ranks_are_nodes_times_gpus)
{
    struct tutti_measured set = {0};
    struct tutti_err err;

    REQUIRE(parse(HEAD "table one\n" FACTS ROWS, &set, &err) == 0);
    CHECK_INT(parse(HEAD "table two\nsite us\nplatform p\nmachine -\nranks 15\nnodes 2\ngpus 8\n"
                         "library nccl\ncollective allreduce\ndtype float\nop sum\nquality good\n"
                         "source s\n" ROWS,
                    &set, &err),
              -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "a.measured: line 15: table 'two': 15 ranks are not 2 nodes of 8 gpus");
    CHECK_INT(set.table_count, 1); /* as before */
    tutti_measured_free(&set);
}

static bool chosen(const struct tutti_measured *set, const char *text)
{
    struct tutti_measured_filter filter;
    struct tutti_err err;

    if (tutti_measured_filter_parse(text, &filter, &err) < 0) {
        TEST_FAIL("%s: %s", text, err.text);
        return false;
    }
    return tutti_measured_matches(&filter, &set->tables[0]);
}

TEST(a_filter_chooses)
{
    struct tutti_measured set = {0};
    struct tutti_err err;

    REQUIRE(parse(HEAD "table one\n" FACTS ROWS, &set, &err) == 0);
    CHECK(chosen(&set, NULL));
    CHECK(chosen(&set, ""));
    CHECK(chosen(&set, "platform=a100-*"));
    CHECK(!chosen(&set, "platform=a100"));
    CHECK(chosen(&set, "platform=*1?0*hgx8"));
    CHECK(chosen(&set, "library=rccl|nccl,collective=allreduce,quality=good"));
    CHECK(!chosen(&set, "library=rccl|mpi"));
    CHECK(!chosen(&set, "site!=us"));
    CHECK(chosen(&set, "site!=them"));
    CHECK(chosen(&set, "nodes=2"));
    CHECK(chosen(&set, "nodes=2..4,ranks=..16,gpus=8.."));
    CHECK(!chosen(&set, "nodes=3.."));
    CHECK(chosen(&set, "version="));
    CHECK(!chosen(&set, "version=?*"));
    CHECK_INT(tutti_measured_filter_parse("colour=red", &(struct tutti_measured_filter){0}, &err),
              -TUTTI_EINVAL);
    CHECK(strstr(err.text, "unknown key 'colour' (id site platform class machine") != NULL);
    CHECK_INT(tutti_measured_filter_parse("nodes=few", &(struct tutti_measured_filter){0}, &err),
              -TUTTI_EINVAL);
    CHECK_INT(tutti_measured_filter_parse("nodes", &(struct tutti_measured_filter){0}, &err),
              -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "'nodes' is no term (key=pattern)");
    tutti_measured_free(&set);
}

static int read_two(struct tutti_err *err)
{
    struct tutti_measured set = {0};
    int status = parse(HEAD "table one\n" FACTS ROWS "table two\n" FACTS ROWS, &set, err);

    if (status == 0)
        status = parse(HEAD "table three\n" FACTS ROWS, &set, err);
    tutti_measured_free(&set);
    return status;
}

TEST(every_allocation_fails_cleanly)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(read_two(&err), err);
}

/* ---- the tables of the tree ------------------------------------------------------------------ */

#define FOLDER TUTTI_SOURCE_DIR "/traces/measured"

static void read_folder(struct tutti_measured *set)
{
    DIR *folder = opendir(FOLDER);
    struct dirent *entry;

    REQUIRE(folder != NULL);
    while ((entry = readdir(folder)) != NULL) {
        char path[1024];
        struct tutti_err err;
        size_t bytes;
        char *text;

        if (strstr(entry->d_name, ".measured") == NULL)
            continue;
        snprintf(path, sizeof(path), "%s/%s", FOLDER, entry->d_name);
        text = test_read_file(path, &bytes);
        if (text == NULL || tutti_measured_parse(entry->d_name, text, bytes, set, &err) < 0)
            TEST_FAIL("%s", text == NULL ? path : err.text);
        free(text);
    }
    closedir(folder);
}

static size_t count_chosen(const struct tutti_measured *set, const char *text)
{
    struct tutti_measured_filter filter;
    size_t count = 0;

    if (tutti_measured_filter_parse(text, &filter, NULL) < 0)
        TEST_FAIL("filter '%s' is refused", text);
    for (size_t i = 0; i < set->table_count; i++)
        count += tutti_measured_matches(&filter, &set->tables[i]);
    return count;
}

/* One line: what is plain nonsense in a table, or NULL. */
static const char *nonsense(const struct tutti_measured_table *table)
{
    if (table->row_count > 64)
        return "more than 64 sizes";
    if (table->host_count > 1 && table->nic_bytes_per_s == 0 &&
        strstr(table->platform, "nvl72") == NULL)
        return "several hosts without a network";
    if ((table->nic_count == 0) != (table->basis[0] == '\0') &&
        strcmp(table->basis, "assumed") != 0) /* which may be of a setting */
        return "NICs and how they are known go together";
    for (size_t i = 0; i < table->row_count; i++) {
        double us = isnan(table->rows[i].out_us) ? table->rows[i].in_us : table->rows[i].out_us;

        /* Nothing moves a TB in a second, but degraded tables are reported as they are. */
        if (!table->degraded && (double)table->rows[i].bytes / us > 1e6)
            return "faster than 1 TB/s";
    }
    return NULL;
}

TEST(the_tables_of_the_tree_are_read)
{
    struct tutti_measured set = {0};

    read_folder(&set);
    CHECK(set.table_count > 500);
    CHECK(count_chosen(&set, "quality=good,library=nccl|rccl,collective=allreduce") > 150);
    CHECK(count_chosen(&set, "quality=degraded") > 80);
    CHECK_INT(count_chosen(&set, "basis!=stated|standard|inferred|assumed|"), 0);
    CHECK_INT(count_chosen(&set, "net!=ib|roce|efa|slingshot|tcp|tcpx|tcpxo|"), 0);
    for (size_t i = 0; i < set.table_count; i++) {
        const char *what = nonsense(&set.tables[i]);

        if (what != NULL)
            TEST_FAIL("%s: %s", set.tables[i].id, what);
    }
    tutti_measured_free(&set);
}

/* A table is set aside for what is known to have been wrong, never for being predicted badly. */
TEST(what_is_set_aside_says_why)
{
    struct tutti_measured set = {0};

    read_folder(&set);
    for (size_t i = 0; i < set.table_count; i++) {
        const struct tutti_measured_table *table = &set.tables[i];

        if (table->degraded && table->caveat[0] == '\0' && table->note[0] == '\0')
            TEST_FAIL("%s: degraded, and no reason", table->id);
        if (strcmp(table->basis, "assumed") == 0 && table->nic_count == 0 && table->note[0] == '\0')
            TEST_FAIL("%s: a setting is assumed, and which is not said", table->id);
    }
    tutti_measured_free(&set);
}

/* Every machine that is said can be made, and has the ranks that were measured. */
TEST(the_machines_of_the_tables_can_be_made)
{
    struct tutti_measured set = {0};
    const char *made = "";

    read_folder(&set);
    for (size_t i = 0; i < set.table_count; i++) {
        const struct tutti_measured_table *table = &set.tables[i];
        struct tutti_topo *topo = NULL;
        struct tutti_err err = {""};

        if (strcmp(table->machine, "-") == 0 || strcmp(table->machine, made) == 0)
            continue;
        made = table->machine;
        if (tutti_topo_from_spec(table->machine, &topo, &err) < 0)
            TEST_FAIL("%s: %s: %s", table->id, table->machine, err.text);
        else if (topo->rank_count != table->rank_count)
            TEST_FAIL("%s: %s has %u ranks", table->id, table->machine, topo->rank_count);
        tutti_topo_free(topo);
    }
    tutti_measured_free(&set);
}

/* Where the collected logs lie beside, the converter makes the very same bytes. */
TEST(the_converter_makes_these_tables)
{
    const char *data = getenv("TUTTI_DATA_DIR") != NULL ? getenv("TUTTI_DATA_DIR") : TUTTI_DATA_DIR;
    char command[2048];
    int status;

    snprintf(command, sizeof(command),
             "test -d '%s/nccl-tests' || exit 77; "
             "command -v python3 >/dev/null || exit 77; "
             "python3 '" FOLDER "/convert.py' '%s' --check >/dev/null",
             data, data);
    status = system(command);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("no collected logs, or no python3");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* One collected since, on a machine that nobody has entered: the others are converted as before. */
TEST(the_converter_passes_over_a_table_that_it_does_not_know)
{
    int status = system(
        "command -v python3 >/dev/null || exit 77; "
        "dir=$(mktemp -d) && trap 'rm -rf \"$dir\"' EXIT && mkdir \"$dir/nccl-tests\" && "
        "echo '{\"id\": \"of_tomorrow\", \"dir\": \"nccl-tests\", \"collective\": "
        "\"all_reduce\", \"ranks\": 8, \"nodes\": 1}' >\"$dir/nccl-tests/of_tomorrow.json\" && "
        "{ python3 -B -c 'import sys; sys.path.insert(0, sys.argv[1]); import convert; "
        "print(convert.read_all(sys.argv[2], convert.Map(sys.argv[1] + \"/map.txt\")))' '" FOLDER
        "' \"$dir\" 2>&1 || echo failed; } >\"$dir/said\"; cat \"$dir/said\"; "
        "printf '%s\\n' \"passed over: no line of map.txt fits 'of_tomorrow'\" '[]' | "
        "cmp - \"$dir/said\"");

    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("no python3");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
