/* Measurements from CSV; records as CSV and as a Chrome trace. */
#include <math.h>

#include "runtime/record.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "tests/folder.h"
#include "tests/test.h"
#include "traces/chrome.h"
#include "traces/csv.h"

static int parse(const char *text, struct tutti_nccl_log *log, struct tutti_err *err)
{
    return tutti_csv_measurements_parse("a.csv", text, strlen(text), log, err);
}

TEST(a_table_of_measurements_is_read)
{
    struct tutti_nccl_log log;
    struct tutti_err err;
    const struct tutti_nccl_row *rows;

    REQUIRE(parse("# our cluster\r\nnote,size_bytes,busbw_GBps,time_us,in_place_time_us\r\n"
                  "\"a, b\",1024, 0.11 ,15.6,15.7\r\n\r\n# half way\r\nc,2048,,16e0,N/A\r\n",
                  &log, &err) == 0);
    CHECK_INT(log.table_count, 1);
    REQUIRE(log.tables[0].row_count == 2);
    rows = log.tables[0].rows;
    CHECK(!log.tables[0].has_collective);
    CHECK_INT(rows[0].bytes, 1024);
    CHECK(rows[0].out_of_place.time_us == 15.6);
    CHECK(rows[0].out_of_place.busbw_GBps == 0.11);
    CHECK(isnan(rows[0].out_of_place.algbw_GBps));
    CHECK(rows[0].in_place.time_us == 15.7);
    CHECK_INT(rows[0].line, 3);
    CHECK_INT(rows[1].bytes, 2048);
    CHECK(rows[1].out_of_place.time_us == 16);
    CHECK(isnan(rows[1].out_of_place.busbw_GBps));
    CHECK(isnan(rows[1].in_place.time_us));
    tutti_nccl_log_free(&log);
}

TEST(what_is_no_table_is_refused_with_the_line)
{
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"", "a.csv: no header line (one with size_bytes and time_us is needed)"},
        {"# only\n# remarks\n",
         "a.csv: no header line (one with size_bytes and time_us is needed)"},
        {"size,time\n8,1\n", "a.csv: line 1: no column 'size_bytes' in the header (the "
                             "first is 'size')"},
        {"size_bytes,time_us\n", "a.csv: a header but no rows"},
        {"size_bytes,time_us\n8,fast\n",
         "a.csv: line 2: 'fast' in column time_us is no number from 0"},
        {"size_bytes,time_us\n8,-1\n", "a.csv: line 2: '-1' in column time_us is no number from 0"},
        {"size_bytes,time_us\n8,1e999\n",
         "a.csv: line 2: '1e999' in column time_us is no number from 0"},
        {"size_bytes,time_us\n8.5,1\n", "a.csv: line 2: size '8.5' is no whole number of bytes"},
        {"size_bytes,time_us\n8\n", "a.csv: line 2: no time_us"},
        {"size_bytes,time_us\n,5\n", "a.csv: line 2: no size_bytes"},
        {"size_bytes,time_us,colective\n8,1,allreduce\n",
         "a.csv: line 1: unknown column 'colective' (did you mean 'collective'?)"},
        {"size_bytes,time_us,busbw_GBs\n8,1,2\n",
         "a.csv: line 1: unknown column 'busbw_GBs' (did you mean 'busbw_GBps'?)"},
        {"size_byte,time_us\n8,1\n",
         "a.csv: line 1: unknown column 'size_byte' (did you mean 'size_bytes'?)"},
        {"collective,size_bytes,time_us\nall_reduce,8,1\nallgather,8,1\n",
         "a.csv: line 3: 'allgather' in a table of 'allreduce' (one collective a file)"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_nccl_log log = {.table_count = 77};
        struct tutti_err err;
        CHECK_INT(parse(cases[i].text, &log, &err), -TUTTI_EINVAL);
        CHECK_TEXT(err.text, cases[i].message);
        CHECK_INT(log.table_count, 77);
    }
}

/* Other columns are nobody's business here, nor a second one like one of ours. */
TEST(a_column_may_say_which_collective_it_is)
{
    struct tutti_nccl_log log;
    struct tutti_err err = {""};

    REQUIRE(parse("collective,size_bytes,time_us,time_ns,min_us,iterations\n"
                  "all_gather,1024,15,15000,14,20\nallgather,2048,16,16000,14,20\n",
                  &log, &err) == 0);
    CHECK(log.tables[0].has_collective);
    CHECK_INT(log.tables[0].collective, TUTTI_ALLGATHER);
    CHECK_INT(log.tables[0].row_count, 2);
    tutti_nccl_log_free(&log);
    CHECK_INT(parse("collective,size_bytes,time_us\nsum,8,1\n", &log, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "a.csv: line 2: ") == err.text);
}

TEST(all_collected_measurements_load)
{
    const char *dir = TUTTI_DATA_DIR "/nccl-tests";
    size_t file_count;
    char **files = list_files(dir, ".csv", &file_count);
    size_t count = 0;
    size_t rows = 0;

    for (size_t i = 0; i < file_count; i++) {
        char path[1024];
        char *text;
        size_t bytes;
        struct tutti_nccl_log log;
        struct tutti_err err;
        /* INDEX.csv and points_*.csv list other things than sweeps. */
        if (strcmp(files[i], "INDEX.csv") == 0 || strncmp(files[i], "points_", 7) == 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
        text = test_read_file(path, &bytes);
        if (tutti_csv_measurements_parse(files[i], text, bytes, &log, &err) == 0) {
            count++;
            rows += log.tables[0].row_count;
            tutti_nccl_log_free(&log);
        } else {
            TEST_FAIL("%s", err.text);
        }
        free(text);
    }
    free_files(files, file_count);
    if (file_count == 0)
        SKIP("no measurements in " TUTTI_DATA_DIR "/nccl-tests");
    printf("%zu tables, %zu rows\n", count, rows);
}

/* What is collected later may be of another kind, and is no failure of what is tested here. */
TEST(collected_files_that_are_on_no_list_are_passed_over)
{
    static const char *const kinds[][2] = {{"nccl-tests", ".csv"},
                                           {"nccl-tests", ".log"},
                                           {"mpi", ".log"},
                                           {"topo-xml", ".xml"},
                                           {"topo-xml/handwritten", ".xml"}};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    fprintf(out, "# The collected files that tests know; the others they pass over.\n");
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        char dir[1024];
        size_t count;
        char **files;

        snprintf(dir, sizeof(dir), "%s/%s", TUTTI_DATA_DIR, kinds[k][0]);
        files = list_files(dir, kinds[k][1], &count);
        for (size_t i = 0; i < count; i++)
            fprintf(out, "%s/%s\n", kinds[k][0], files[i]);
        free_files(files, count);
    }
    fclose(out);
    if (getenv("TUTTI_UPDATE_GOLDEN") != NULL && strchr(text, '\n')[1] != '\0') {
        test_golden("data-files.txt", text);
    } else {
        CHECK(!is_known(TUTTI_DATA_DIR "/nccl-tests", "of-tomorrow.log"));
        CHECK(is_known(TUTTI_DATA_DIR "/topo-xml/handwritten", "h100x8.xml"));
        CHECK(is_known(TUTTI_SOURCE_DIR "/tests/fixtures/nccl-tests", "of-tomorrow.log"));
    }
    free(text);
}

/* Two ranks: 0 sends twice without waiting, 1 receives both and reduces the second. */
static void two_messages(struct tutti_record *record)
{
    static const struct tutti_event events[] = {
        {1500000, 1000000000123, 0, 0, TUTTI_SEND, 0, 1, 0, 4096},
        {1600000, 1000000000200, 0, 0, TUTTI_SEND, 0, 1, 1, 64},
        {0, 1000000000123, 1, 0, TUTTI_RECV, 0, 0, 0, 4096},
        {1000000000123, 1000000000200, 1, 0, TUTTI_RECV, 0, 0, 1, 64},
        {1000000000200, 1000000000200, 1, 0, TUTTI_REDUCE, 0, 0, 2, 64},
        {5, 7, 1, 3, TUTTI_COMPUTE, 0, 0, 0, 0},
    };

    tutti_record_init(record);
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        CHECK_INT(tutti_record_add(record, &events[i]), 0);
}

TEST(a_record_as_csv)
{
    struct tutti_record record;
    struct tutti_err err;
    char *text = NULL;

    two_messages(&record);
    CHECK_OK(tutti_csv_record_print(&record, &text, &err), err);
    CHECK_TEXT(text, "start_ps,end_ps,rank,lane,step,kind,peer,bytes\n"
                     "1500000,1000000000123,0,0,0,send,1,4096\n"
                     "1600000,1000000000200,0,0,1,send,1,64\n"
                     "0,1000000000123,1,0,0,recv,0,4096\n"
                     "1000000000123,1000000000200,1,0,1,recv,0,64\n"
                     "1000000000200,1000000000200,1,0,2,reduce,0,64\n"
                     "5,7,1,3,0,compute,0,0\n");
    free(text);
    tutti_record_done(&record);
}

/* ---- a JSON reader that only says whether a text is JSON (RFC 8259) ------------------------- */

enum { JSON_DEPTH_MAX = 64 };

static const char *blanks(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

static const char *json_string(const char *at)
{
    for (at++; *at != '"'; at++) {
        if ((unsigned char)*at < 0x20)
            return NULL;
        if (*at != '\\')
            continue;
        at++;
        if (*at == '\0' || strchr("\"\\/bfnrtu", *at) == NULL)
            return NULL;
        if (*at == 'u' && strspn(at + 1, "0123456789abcdefABCDEF") < 4)
            return NULL;
    }
    return at + 1;
}

/* A string, number or literal; NULL if there is none. */
static const char *json_scalar(const char *at)
{
    static const char *const literals[] = {"true", "false", "null"};
    char *end;

    if (*at == '"')
        return json_string(at);
    for (size_t i = 0; i < 3; i++) {
        if (strncmp(at, literals[i], strlen(literals[i])) == 0)
            return at + strlen(literals[i]);
    }
    if (*at != '-' && (*at < '0' || *at > '9'))
        return NULL;
    strtod(at, &end);
    return end;
}

/* Depth after the brackets and values at `at`; `open` is the stack of brackets. */
static bool is_json(const char *at)
{
    char open[JSON_DEPTH_MAX];
    size_t depth = 0;
    bool value_next = true; /* else a comma or a closing bracket */

    for (at = blanks(at); *at != '\0'; at = blanks(at)) {
        bool in_object = depth > 0 && open[depth - 1] == '{';
        if (!value_next && depth > 0 && (*at == ']' || *at == '}')) {
            if (*at++ != (open[--depth] == '{' ? '}' : ']'))
                return false;
            continue;
        }
        if (!value_next) {
            if (depth == 0 || *at++ != ',')
                return false;
            value_next = true;
            continue;
        }
        if (in_object) {
            if (*at != '"' || (at = json_string(at)) == NULL || *(at = blanks(at)) != ':')
                return false;
            at = blanks(at + 1);
        }
        if (*at == '{' || *at == '[') {
            if (depth == JSON_DEPTH_MAX)
                return false;
            open[depth++] = *at++;
            at = blanks(at);
            value_next = *at != ']' && *at != '}';
            continue;
        }
        if ((at = json_scalar(at)) == NULL)
            return false;
        value_next = false;
    }
    return depth == 0 && !value_next;
}

TEST(the_json_reader_of_this_test_can_say_no)
{
    CHECK(is_json("{\"a\":[1,2.5e3,{}],\"b\":\"x\\u0041\"}"));
    CHECK(!is_json("{\"a\":[1,]}"));
    CHECK(!is_json("{\"a\" 1}"));
    CHECK(!is_json("[1 2]"));
    CHECK(!is_json("[\"a\nb\"]"));
    CHECK(!is_json("[1}"));
    CHECK(!is_json("[1"));
}

static size_t occurrences(const char *text, const char *what)
{
    size_t count = 0;

    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
        count++;
    return count;
}

TEST(a_record_as_a_chrome_trace)
{
    struct tutti_record record;
    struct tutti_err err;
    char *text = NULL;

    two_messages(&record);
    CHECK_OK(tutti_chrome_print(&record, "ring, 2 ranks", &text, &err), err);
    CHECK(is_json(text));
    test_golden("chrome_two_messages.json", text);
    CHECK_INT(occurrences(text, "\"ph\":\"X\""), 6);
    CHECK_INT(occurrences(text, "\"ph\":\"s\""), 2);
    CHECK_INT(occurrences(text, "\"ph\":\"f\""), 2);
    CHECK(strstr(text, "\"ts\":1.500000,\"dur\":999998.500123,\"pid\":0,\"tid\":65536") != NULL);
    CHECK(strstr(text, "\"ts\":1.600000,\"dur\":999998.400200,\"pid\":0,\"tid\":131072") != NULL);
    CHECK(strstr(text, "\"ts\":1000000.000123,\"dur\":0.000077,\"pid\":1,\"tid\":0") != NULL);
    free(text);
    tutti_record_done(&record);
}

/* RFC 3629, section 4: the first and the last of each length pass, and what is none of them becomes
 * a replacement character a byte: overlong forms, surrogates, beyond U+10FFFF, ends too soon. */
TEST(titles_are_utf8_or_are_made_so)
{
    static const struct {
        const char *bytes, *json;
    } cases[] = {
        {"\x7f", "\\u007f"},
        {"\xc2\x80 \xdf\xbf", "\xc2\x80 \xdf\xbf"},
        {"\xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xef\xbf\xbf",
         "\xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xef\xbf\xbf"},
        {"\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"},
        {"\x80", "\\ufffd"},
        {"\xc1\xbf", "\\ufffd\\ufffd"},
        {"\xc2", "\\ufffd"},
        {"\xe0\x9f\xbf", "\\ufffd\\ufffd\\ufffd"},
        {"\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"},
        {"\xef\xbf", "\\ufffd\\ufffd"},
        {"\xf0\x8f\xbf\xbf", "\\ufffd\\ufffd\\ufffd\\ufffd"},
        {"\xf0\x90\x80", "\\ufffd\\ufffd\\ufffd"},
        {"\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"},
        {"\xf5\x80\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"},
        {"\xe2\x82-", "\\ufffd\\ufffd-"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_record record;
        struct tutti_err err;
        char title[64], json[128];
        char *text = NULL;

        tutti_record_init(&record);
        snprintf(title, sizeof(title), "<%s>", cases[i].bytes);
        snprintf(json, sizeof(json), "<%s>", cases[i].json);
        CHECK_OK(tutti_chrome_print(&record, title, &text, &err), err);
        if (strstr(text, json) == NULL)
            TEST_FAIL("case %zu: %s", i, text);
        free(text);
        tutti_record_done(&record);
    }
}

TEST(titles_of_any_bytes_and_empty_records_give_valid_json)
{
    struct tutti_record record;
    struct tutti_err err;
    char *text = NULL;

    tutti_record_init(&record);
    CHECK_OK(tutti_chrome_print(&record, "a \"b\" \\ \n \x01 \xc3\xa9 \xff \xe0\x80", &text, &err),
             err);
    CHECK(is_json(text));
    CHECK(strstr(text, "a \\\"b\\\" \\\\ \\u000a \\u0001 \xc3\xa9 \\ufffd \\ufffd\\ufffd") != NULL);
    free(text);
    tutti_record_done(&record);
}

TEST(a_message_without_its_other_half_gets_no_arrow)
{
    struct tutti_record record;
    struct tutti_err err;
    char *text = NULL;
    struct tutti_event lonely = {0, 9, 4, 1, TUTTI_RECV, 0, 2, 0, 8};

    two_messages(&record);
    CHECK_INT(tutti_record_add(&record, &lonely), 0);
    CHECK_OK(tutti_chrome_print(&record, "t", &text, &err), err);
    CHECK(is_json(text));
    CHECK_INT(occurrences(text, "\"ph\":\"s\""), 2);
    CHECK_INT(occurrences(text, "\"ph\":\"f\""), 2);
    free(text);
    tutti_record_done(&record);
}
