/* The reader of nccl-tests logs: every dialect we know of in small files of our own, and the real
 * logs that were collected, held against the figures others took from them. */
#include <errno.h>
#include <math.h>
#include <regex.h>

#include "runtime/status.h"
#include "tests/folder.h"
#include "tests/test.h"
#include "traces/csv.h"
#include "traces/nccl_tests.h"

static int load(const char *dir, const char *file, struct tutti_nccl_log *log,
                struct tutti_err *err)
{
    char path[1024];
    size_t bytes = 0;
    char *text;
    int status;

    snprintf(path, sizeof(path), "%s/%s", dir, file);
    text = test_read_file(path, &bytes);
    if (text == NULL)
        return tutti_fail(err, TUTTI_EIO, "cannot read '%s'", path);
    status = tutti_nccl_tests_parse(file, text, bytes, log, err);
    free(text);
    return status;
}

static void print_side(FILE *out, const struct tutti_nccl_side *side)
{
    fprintf(out, " | %g us %g %g GB/s", side->time_us, side->algbw_GBps, side->busbw_GBps);
    if (!isnan(side->wrong))
        fprintf(out, " wrong %g", side->wrong);
}

static void print_log(FILE *out, const struct tutti_nccl_log *log)
{
    for (size_t i = 0; i < log->table_count; i++) {
        const struct tutti_nccl_table *table = &log->tables[i];
        fprintf(out, "  table: version '%s' library '%s' collective %d ranks %u hosts %u",
                table->version, table->library, table->has_collective ? (int)table->collective : -1,
                table->rank_count, table->host_count);
        fprintf(out, " device '%s' average %g\n", table->device, table->average_busbw_GBps);
        for (size_t j = 0; j < table->row_count; j++) {
            const struct tutti_nccl_row *row = &table->rows[j];
            fprintf(out, "    line %u: %" PRIu64 " B %" PRIu64 " %s '%s' root %d", row->line,
                    row->bytes, row->count, row->type, row->redop, row->root);
            print_side(out, &row->out_of_place);
            print_side(out, &row->in_place);
            fputc('\n', out);
        }
    }
}

TEST(every_dialect_reads_as_the_golden_file_says)
{
    const char *dir = TUTTI_SOURCE_DIR "/tests/fixtures/nccl-tests";
    size_t count = 0;
    char **files = list_files(dir, ".log", &count);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    CHECK(count == 16);
    for (size_t i = 0; i < count; i++) {
        struct tutti_nccl_log log;
        struct tutti_err err;
        fprintf(out, "%s\n", files[i]);
        if (load(dir, files[i], &log, &err) < 0) {
            fprintf(out, "  refused: %s\n", err.text);
            continue;
        }
        print_log(out, &log);
        tutti_nccl_log_free(&log);
    }
    fclose(out);
    test_golden("nccl_tests_dialects.txt", text);
    free(text);
    free_files(files, count);
}

TEST(a_current_log_says_who_ran_what_where)
{
    struct tutti_nccl_log log;
    struct tutti_err err;
    const struct tutti_nccl_table *table;

    REQUIRE(load(TUTTI_SOURCE_DIR "/tests/fixtures/nccl-tests", "v2.19.log", &log, &err) == 0);
    CHECK_INT(log.table_count, 1);
    table = &log.tables[0];
    CHECK_TEXT(table->version, "2.19.6");
    CHECK_TEXT(table->library, "2.28.9");
    CHECK_TEXT(table->device, "NVIDIA H100 80GB HBM3");
    CHECK(table->has_collective && table->collective == TUTTI_ALLREDUCE);
    CHECK_INT(table->rank_count, 8);
    CHECK_INT(table->host_count, 2);
    CHECK_INT(table->row_count, 4);
    CHECK_INT(table->rows[3].bytes, 1073741824);
    CHECK(table->rows[3].out_of_place.time_us == 3890.5);
    CHECK(table->rows[3].in_place.busbw_GBps == 478.20);
    tutti_nccl_log_free(&log);
}

/* Rows without the column of wrong elements, and without a header that would say so: three figures
 * a side, so that the fourth is the time in place. */
TEST(six_figures_are_two_sides_of_three)
{
    static const char text[] =
        "  1048576  262144  float  sum  40.2  26.08  45.65  41.0  25.58  44.76\n";
    struct tutti_nccl_log log;
    struct tutti_err err;
    const struct tutti_nccl_row *row;

    REQUIRE(tutti_nccl_tests_parse("a log", text, strlen(text), &log, &err) == 0);
    row = &log.tables[0].rows[0];
    CHECK(row->out_of_place.time_us == 40.2 && row->out_of_place.busbw_GBps == 45.65);
    CHECK(row->in_place.time_us == 41.0);
    CHECK(row->in_place.algbw_GBps == 25.58);
    CHECK(row->in_place.busbw_GBps == 44.76);
    CHECK(isnan(row->out_of_place.wrong));
    tutti_nccl_log_free(&log);
}

/* The header's "warmup iters: 5 iters: 20 agg iters: 1", as different versions wrote it. */
TEST(a_log_says_how_many_it_timed_in_a_row)
{
    static const struct {
        const char *header;
        uint32_t iteration_count;
    } heads[] = {
        {"# nThread 1 nGpus 8 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 100 "
         "validation: 0\n",
         100},
        {"0: # nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 50 iters: 1 "
         "agg iters: 7 validation: 1 graph: 0\n",
         1},
        {"# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 8(bytes) iters: 3\n", 3},
        {"# nThread 1 nGpus 1 minBytes 8 maxBytes 8 (nccl-tests-launcher)\n", 0},
        {"# nThread 1 nGpus 1 minBytes 8 maxBytes 8 warmup iters: 5 agg iters: 1\n", 0},
        {"# nThread 1 nGpus 1 minBytes 8 maxBytes 8 iters: 99999999999 validation: 0\n", 0},
        {"NCCL INFO of something else: 5 iters: 20\n", 0},
        {"", 0},
    };
    static const char row[] = "  1048576  262144  float  sum  -1  40.2  26.08  45.65  0\n";

    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct tutti_nccl_log log;
        struct tutti_err err;
        char text[512];

        snprintf(text, sizeof(text), "%s%s", heads[i].header, row);
        REQUIRE(tutti_nccl_tests_parse("a log", text, strlen(text), &log, &err) == 0);
        CHECK_INT(log.tables[0].iteration_count, heads[i].iteration_count);
        tutti_nccl_log_free(&log);
    }
}

/* Two runs of different -n in one file: each table has its own. */
TEST(a_run_without_a_header_does_not_inherit_how_many_were_timed)
{
    static const char text[] =
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 7 "
        "validation: 0\n"
        "  1048576  262144  float  sum  -1  40.2  26.08  45.65  0\n"
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 8 (another launcher)\n"
        "  1048576  262144  float  sum  -1  40.2  26.08  45.65  0\n";
    struct tutti_nccl_log log;
    struct tutti_err err;

    REQUIRE(tutti_nccl_tests_parse("a log", text, strlen(text), &log, &err) == 0);
    REQUIRE(log.table_count == 2);
    CHECK_INT(log.tables[0].iteration_count, 7);
    CHECK_INT(log.tables[1].iteration_count, 0);
    tutti_nccl_log_free(&log);
}

TEST(a_text_without_a_table_is_refused_and_nothing_is_touched)
{
    static const char *const texts[] = {"",
                                        "\n\n",
                                        "8 2 float sum",
                                        "8 2 float sum -1 abc",
                                        "size count time algbw\n",
                                        "8 27.7 29.8\n16 28.7 29.0\n"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct tutti_nccl_log log = {.table_count = 77};
        struct tutti_err err;
        CHECK_INT(tutti_nccl_tests_parse("a.log", texts[i], strlen(texts[i]), &log, &err),
                  -TUTTI_EINVAL);
        CHECK_TEXT(err.text,
                   "a.log: no nccl-tests table (looked for rows like '  8  2  float  sum ...'; CSV "
                   "names its columns first, size_bytes and time_us)");
        CHECK_INT(log.table_count, 77);
        CHECK_INT(tutti_nccl_tests_parse("a.log", texts[i], strlen(texts[i]), &log, NULL),
                  -TUTTI_EINVAL);
    }
    tutti_nccl_log_free(NULL);
}

TEST(a_line_of_any_length_is_survived)
{
    size_t bytes = 100000;
    char *text = malloc(bytes + 200);
    struct tutti_nccl_log log;
    struct tutti_err err;

    memset(text, '7', bytes);
    for (size_t i = 0; i < bytes; i += 3)
        text[i] = ' ';
    snprintf(text + bytes, 200, "%s", "\n8 2 float sum -1 1.0 2.0 3.0 0 1.5 2.5 3.5 0\n");
    REQUIRE(tutti_nccl_tests_parse("long", text, strlen(text), &log, &err) == 0);
    CHECK_INT(log.tables[0].row_count, 1);
    CHECK_INT(log.tables[0].rows[0].line, 2);
    tutti_nccl_log_free(&log);
    free(text);
}

/* ---- the real logs -------------------------------------------------------------------------- */

/* The figures others took from a log: NAME.csv beside NAME.log. */
static int load_figures(const char *dir, const char *log_name, struct tutti_nccl_log *figures,
                        struct tutti_err *err)
{
    char path[1024];
    char *text;
    size_t bytes = 0;
    int status;

    snprintf(path, sizeof(path), "%s/%.*s.csv", dir, (int)(strlen(log_name) - 4), log_name);
    text = test_read_file(path, &bytes);
    if (text == NULL)
        return tutti_fail(err, TUTTI_EIO, "cannot read '%s'", path);
    status = tutti_csv_measurements_parse(path, text, bytes, figures, err);
    free(text);
    return status;
}

/* Equal within what was rounded away: half a hundredth, or 4 significant digits. A bandwidth that
 * the log does not print was computed by those who made the CSV, and a CSV may leave out a side. */
static bool near(double seen, double expected)
{
    return isnan(seen) || isnan(expected) ||
           fabs(seen - expected) <= fmax(0.0051, 1e-3 * fabs(expected));
}

/* AWS's nccom-test of 2022 printed GiB/s under the heading GB/s; the CSVs have true GB/s. */
static double bandwidth_unit(const char *file)
{
    return strncmp(file, "trn1_", 5) == 0 ? 1.073741824 : 1;
}

static bool equal_side(const struct tutti_nccl_side *seen, const struct tutti_nccl_side *expected,
                       double unit)
{
    return (!isnan(seen->time_us) || isnan(expected->time_us)) &&
           near(seen->time_us, expected->time_us) &&
           near(seen->algbw_GBps, expected->algbw_GBps / unit) &&
           near(seen->busbw_GBps, expected->busbw_GBps / unit);
}

static bool equal(const struct tutti_nccl_row *row, const struct tutti_nccl_row *figure,
                  double unit)
{
    return row->bytes == figure->bytes && !isnan(row->out_of_place.time_us) &&
           equal_side(&row->out_of_place, &figure->out_of_place, unit) &&
           equal_side(&row->in_place, &figure->in_place, unit);
}

/* Whether the tables, one after the other, hold exactly these figures; several runs of one size
 * each make one CSV. */
static bool log_equals(const struct tutti_nccl_log *log, const struct tutti_nccl_table *figures,
                       double unit)
{
    size_t used = 0;

    for (size_t i = 0; i < log->table_count; i++) {
        for (size_t j = 0; j < log->tables[i].row_count; j++, used++) {
            if (used >= figures->row_count ||
                !equal(&log->tables[i].rows[j], &figures->rows[used], unit))
                return false;
        }
    }
    return used == figures->row_count;
}

/* Why a text is none that nccl-tests wrote, by its looks; NULL: cannot tell. */
static const char *refusal_reason(const char *text)
{
    static const struct {
        const char *mark;
        const char *reason;
    } marks[] = {
        {"transcribed", "sizes and times copied out by hand"},
        {"digitised", "read off a plot"},
        {"# see source", "another program's CSV"},
        {"{\"header\":{", "NCCL inspector's JSON lines"},
        {"\"results\"", "another program's JSON"},
        {"| ---", "another table in markdown"},
        {"|---", "another table in markdown"},
        {"|:--", "another table in markdown"},
        {"|\n", "another table in markdown"},
    };

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        if (strstr(text, marks[i].mark) != NULL)
            return marks[i].reason;
    }
    return NULL;
}

struct tally {
    size_t equal;
    size_t refused;
    size_t unexplained;
};

/* A refusal is right if no line has the shape of a row, judged by a regular expression. */
static void judge_refusal(const char *dir, const char *file, const regex_t *row_shape, FILE *list,
                          struct tally *tally)
{
    char path[1024];
    char *text;
    const char *reason;

    snprintf(path, sizeof(path), "%s/%s", dir, file);
    text = test_read_file(path, NULL);
    reason = refusal_reason(text);
    tally->refused++;
    if (regexec(row_shape, text, 0, NULL, 0) == 0) {
        TEST_FAIL("%s was refused but has a row", file);
        tally->unexplained++;
    }
    fprintf(list, "%s: %s\n", file, reason != NULL ? reason : "prose");
    free(text);
}

TEST(all_real_logs_give_the_figures_that_others_took_from_them)
{
    const char *dir = TUTTI_DATA_DIR "/nccl-tests";
    struct tally tally = {0};
    regex_t row_shape;
    size_t count = 0;
    char **files = list_files(dir, ".log", &count);
    char *text = NULL;
    size_t bytes = 0;
    FILE *list = open_memstream(&text, &bytes);

    regcomp(&row_shape,
            "(^|[^0-9.])[0-9]+[ |]+[0-9]+[ |]+(float|half|double|bfloat16|u?int(8|32|64))[ |]+"
            "([a-z]+[ |]+)?(-?[0-9]+[ |]+)?[0-9.]+[ |]+[0-9.]+[ |]+[0-9.]+",
            REG_EXTENDED | REG_NOSUB);
    for (size_t i = 0; i < count; i++) {
        struct tutti_nccl_log log;
        struct tutti_err err;
        struct tutti_nccl_log figures;
        if (load(dir, files[i], &log, &err) < 0) {
            judge_refusal(dir, files[i], &row_shape, list, &tally);
            continue;
        }
        CHECK_OK(load_figures(dir, files[i], &figures, &err), err);
        if (log_equals(&log, &figures.tables[0], bandwidth_unit(files[i])))
            tally.equal++;
        else {
            TEST_FAIL("%s: differs from its csv", files[i]);
            tally.unexplained++;
        }
        tutti_nccl_log_free(&log);
        tutti_nccl_log_free(&figures);
    }
    fclose(list);
    regfree(&row_shape);
    free_files(files, count);
    printf("%zu real logs: %zu read and equal, %zu refused, %zu unexplained\n", count, tally.equal,
           tally.refused, tally.unexplained);
    if (count > 0)
        test_golden("nccl_tests_refused.txt", text);
    free(text);
    if (count == 0)
        SKIP("no real logs in " TUTTI_DATA_DIR "/nccl-tests");
    CHECK(tally.equal > 0);
}

/* The value of "key": in a flat JSON text as it stands there, "" if absent or null. */
static void json_value(const char *text, const char *key, char *ret, size_t ret_bytes)
{
    char quoted[64];
    const char *at;

    snprintf(quoted, sizeof(quoted), "\"%s\":", key);
    at = strstr(text, quoted);
    ret[0] = '\0';
    if (at == NULL)
        return;
    at += strlen(quoted) + strspn(at + strlen(quoted), " \"");
    snprintf(ret, ret_bytes, "%.*s", (int)strcspn(at, "\",\n"), at);
    if (strcmp(ret, "null") == 0)
        ret[0] = '\0';
}

static const char *const test_names[TUTTI_COLLECTIVE_COUNT] = {
    [TUTTI_ALLREDUCE] = "all_reduce",  [TUTTI_REDUCESCATTER] = "reduce_scatter",
    [TUTTI_ALLGATHER] = "all_gather",  [TUTTI_BROADCAST] = "broadcast",
    [TUTTI_REDUCE_TO_ROOT] = "reduce", [TUTTI_ALLTOALL] = "alltoall",
    [TUTTI_SENDRECV] = "sendrecv",     [TUTTI_BARRIER] = "barrier",
    [TUTTI_CUSTOM] = "custom",
};

/* ---- what each holds ------------------------------------------------------------------------ */

/* One table in a line; equal tables of one file follow each other often, so they are counted. */
static void describe(const struct tutti_nccl_table *table, char *buf, size_t buf_bytes)
{
    size_t out_of_place = 0;
    size_t in_place = 0;
    const struct tutti_nccl_row *last = &table->rows[table->row_count - 1];

    for (size_t i = 0; i < table->row_count; i++) {
        out_of_place += isnan(table->rows[i].out_of_place.time_us) ? 0 : 1;
        in_place += isnan(table->rows[i].in_place.time_us) ? 0 : 1;
    }
    snprintf(buf, buf_bytes, "%s ranks %u hosts %u rows %zu (%zu + %zu) %" PRIu64 " .. %" PRIu64,
             table->has_collective ? test_names[table->collective] : "?", table->rank_count,
             table->host_count, table->row_count, out_of_place, in_place, table->rows[0].bytes,
             last->bytes);
}

static void print_counted(FILE *out, const char *line, size_t count)
{
    if (count > 1)
        fprintf(out, "  %zu x %s\n", count, line);
    else if (count == 1)
        fprintf(out, "  %s\n", line);
}

static void print_tables(FILE *out, const struct tutti_nccl_log *log)
{
    char previous[256] = "";
    size_t count = 0;

    for (size_t i = 0; i < log->table_count; i++) {
        char line[256];
        describe(&log->tables[i], line, sizeof(line));
        if (strcmp(line, previous) != 0) {
            print_counted(out, previous, count);
            count = 0;
        }
        count++;
        memcpy(previous, line, sizeof(previous));
    }
    print_counted(out, previous, count);
}

/* Tables of every log of a folder; returns how many files have none. */
static size_t print_logs(FILE *out, const char *dir, size_t *ret_files)
{
    size_t count = 0;
    size_t refused = 0;
    char **files = list_files(dir, ".log", &count);

    for (size_t i = 0; i < count; i++) {
        struct tutti_nccl_log log;
        if (load(dir, files[i], &log, NULL) < 0) {
            refused++;
            continue;
        }
        fprintf(out, "%s\n", files[i]);
        print_tables(out, &log);
        tutti_nccl_log_free(&log);
    }
    free_files(files, count);
    *ret_files = count;
    return refused;
}

/* Out-of-place and in-place rows in brackets. The tables of MPI benchmarks are none of ours. */
TEST(every_real_log_holds_what_the_golden_summary_says)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    size_t files = 0;
    size_t mpi_files = 0;
    size_t refused = print_logs(out, TUTTI_DATA_DIR "/nccl-tests", &files);

    fprintf(out, "%zu files, %zu without a table\n", files, refused);
    refused = print_logs(out, TUTTI_DATA_DIR "/mpi", &mpi_files);
    fprintf(out, "%zu files of MPI benchmarks, %zu without a table\n", mpi_files, refused);
    fclose(out);
    if (files > 0 && mpi_files > 0)
        test_golden("nccl_tests_summary.txt", text);
    free(text);
    if (files == 0 || mpi_files == 0)
        SKIP("no real logs in " TUTTI_DATA_DIR "/nccl-tests and mpi");
}

struct fact_tally {
    size_t known[3]; /* collective, ranks, hosts */
    size_t files;
};

/* What the log states must be what is known of it, wherever both are known. */
static void compare_facts(const char *file, const char *json, const struct tutti_nccl_table *table,
                          struct fact_tally *tally)
{
    char collective[64];
    char ranks[64];
    char nodes[64];

    json_value(json, "collective", collective, sizeof(collective));
    json_value(json, "ranks", ranks, sizeof(ranks));
    json_value(json, "nodes", nodes, sizeof(nodes));
    tally->files++;
    if (table->has_collective && collective[0] != '\0') {
        tally->known[0]++;
        if (strcmp(test_names[table->collective], collective) != 0)
            TEST_FAIL("%s: collective %s, known as %s", file, test_names[table->collective],
                      collective);
    }
    if (table->rank_count > 0 && ranks[0] != '\0') {
        tally->known[1]++;
        if (table->rank_count != strtoul(ranks, NULL, 10))
            TEST_FAIL("%s: %u ranks, known as %s", file, table->rank_count, ranks);
    }
    if (table->host_count > 0 && nodes[0] != '\0') {
        tally->known[2]++;
        /* These name two nodes for a GPU that hangs in another chassis by a PCIe cable: one host
         * runs both ranks, as the log says. */
        if (table->host_count != strtoul(nodes, NULL, 10) &&
            strncmp(file, "a100pcie_2gpu_External_", 23) != 0)
            TEST_FAIL("%s: %u hosts, known as %s", file, table->host_count, nodes);
    }
}

TEST(facts_of_the_real_logs_are_those_known_of_them)
{
    const char *dir = TUTTI_DATA_DIR "/nccl-tests";
    struct fact_tally tally = {0};
    size_t count = 0;
    char **files = list_files(dir, ".log", &count);

    for (size_t i = 0; i < count; i++) {
        struct tutti_nccl_log log;
        char path[1024];
        char *json;
        snprintf(path, sizeof(path), "%s/%.*s.json", dir, (int)(strlen(files[i]) - 4), files[i]);
        json = test_read_file(path, NULL);
        if (json != NULL && load(dir, files[i], &log, NULL) == 0) {
            for (size_t j = 0; j < log.table_count; j++)
                compare_facts(files[i], json, &log.tables[j], &tally);
            tutti_nccl_log_free(&log);
        }
        free(json);
    }
    free_files(files, count);
    printf("%zu tables; both known: collective %zu, ranks %zu, hosts %zu\n", tally.files,
           tally.known[0], tally.known[1], tally.known[2]);
    if (count == 0)
        SKIP("no real logs in " TUTTI_DATA_DIR "/nccl-tests");
}
