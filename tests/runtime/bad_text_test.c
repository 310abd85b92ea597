/* Readers of text given what is none of theirs, or in another encoding: each gives one line that
 * names the file and, where there is one, the line. */
#include "runtime/status.h"
#include "tests/test.h"
#include "topo/topo.h"
#include "traces/csv.h"
#include "traces/nccl_tests.h"

struct bytes {
    char *text;
    size_t count;
};

static struct bytes from(const char *text, size_t count)
{
    struct bytes ret = {malloc(count + 1), count};

    memcpy(ret.text, text, count);
    ret.text[count] = '\0';
    return ret;
}

static struct bytes utf16(const char *text, bool big_endian)
{
    size_t count = strlen(text);
    struct bytes ret = {malloc(2 * count + 3), 2 * count + 2};

    memcpy(ret.text, big_endian ? "\xfe\xff" : "\xff\xfe", 2);
    for (size_t i = 0; i < count; i++) {
        ret.text[2 + 2 * i + (big_endian ? 1 : 0)] = text[i];
        ret.text[2 + 2 * i + (big_endian ? 0 : 1)] = '\0';
    }
    return ret;
}

/* `text` with a line of a MiB before its line number `line` (from 0). */
static struct bytes with_long_line(const char *text, size_t line)
{
    size_t long_count = 1 << 20;
    struct bytes ret = {malloc(strlen(text) + long_count + 2), 0};
    const char *rest = text;

    for (; line > 0; line--)
        rest = strchr(rest, '\n') + 1;
    ret.count = (size_t)(rest - text);
    memcpy(ret.text, text, ret.count);
    memset(ret.text + ret.count, '7', long_count);
    ret.count += long_count;
    ret.text[ret.count++] = '\n';
    memcpy(ret.text + ret.count, rest, strlen(rest) + 1);
    ret.count += strlen(rest);
    return ret;
}

static struct bytes with_ends(const char *text, const char *line_end)
{
    char *out = NULL;
    size_t count = 0;
    FILE *file = open_memstream(&out, &count);

    for (; *text != '\0'; text++) {
        if (*text == '\n')
            fputs(line_end, file);
        else
            fputc(*text, file);
    }
    fclose(file);
    return (struct bytes){out, count};
}

enum format { LOG, CSV, TOPO, FORMAT_COUNT };

/* A good text of each format. */
static const char *const good[FORMAT_COUNT] = {
    [LOG] =
        "# nThread 1 nGpus 2\n"
        "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
        "           8             2     float     sum      -1    10.50    0.00    0.00      0\n"
        "          16             4     float     sum      -1    10.75    0.00    0.00      0\n",
    [CSV] = "# measured\nsize_bytes,time_us,note\n8,10.5,\"a, b\"\n16,10.75,c\n",
    [TOPO] = "topology pair\nnode a device\nnode b device\ncable a b net 50GB/s 1us\n",
};
static const char *const names[FORMAT_COUNT] = {"a.log", "a.csv", "a.topo"};

/* Says what the reader made of it: "2 rows", "2 devices" or the refusal. Frees the text. */
static void tell(FILE *out, const char *what, enum format format, struct bytes bytes)
{
    struct tutti_err err = {""};
    struct tutti_nccl_log log = {0};
    struct tutti_topo *topo = NULL;
    int status;

    if (format == LOG)
        status = tutti_nccl_tests_parse(names[format], bytes.text, bytes.count, &log, &err);
    else if (format == CSV)
        status = tutti_csv_measurements_parse(names[format], bytes.text, bytes.count, &log, &err);
    else
        status = tutti_topo_parse(names[format], bytes.text, bytes.count, &topo, &err);
    fprintf(out, "%-22s ", what);
    if (status < 0) {
        CHECK_INT(status, -TUTTI_EINVAL);
        CHECK(strncmp(err.text, names[format], strlen(names[format])) == 0);
        fprintf(out, "%s\n", err.text);
    } else if (topo != NULL)
        fprintf(out, "%s: %u devices\n", names[format], topo->rank_count);
    else
        fprintf(out, "%s: %zu rows, the first of %" PRIu64 " bytes\n", names[format],
                log.tables[0].row_count, log.tables[0].rows[0].bytes);
    tutti_topo_free(topo);
    if (format != TOPO && status == 0)
        tutti_nccl_log_free(&log);
    free(bytes.text);
}

static void tell_encodings(FILE *out, enum format format)
{
    const char *text = good[format];
    struct bytes with_nul = from(text, strlen(text));
    struct bytes marked = from("\xef\xbb\xbf", 3);

    marked.text = realloc(marked.text, strlen(text) + 4);
    memcpy(marked.text + 3, text, strlen(text) + 1);
    marked.count += strlen(text);
    memset(with_nul.text + strlen(text) / 2, 0, 2);
    tell(out, "as it should be", format, from(text, strlen(text)));
    tell(out, "CR LF", format, with_ends(text, "\r\n"));
    tell(out, "CR alone", format, with_ends(text, "\r"));
    tell(out, "no newline at the end", format, from(text, strlen(text) - 1));
    tell(out, "UTF-8 with a mark", format, marked);
    tell(out, "UTF-16, little endian", format, utf16(text, false));
    tell(out, "UTF-16, big endian", format, utf16(text, true));
    tell(out, "two NULs in the middle", format, with_nul);
    tell(out, "a line of a MiB", format, with_long_line(text, 2));
    tell(out, "cut in the middle", format, from(text, strlen(text) / 2));
}

static void tell_strangers(FILE *out, enum format format)
{
    static const struct {
        const char *what;
        const char *text;
        size_t count;
    } strangers[] = {
        {"empty", "", 0},
        {"blank lines", "\n \n\t\n", 5},
        {"NULs alone", "\0\0\0\0\0\0\0\0", 8},
        {"gzip", "\x1f\x8b\x08\0\x04\xe8\x14\x55\0\x03\x2b\x4e", 12},
        {"ELF", "\177ELF\2\1\1\0\0\0\0\0", 12},
        {"XML", "<system version=\"1\">\n</system>\n", 31},
        {"JSON", "{\"size_bytes\": 8, \"time_us\": 1}\n", 32},
        {"prose", "The cluster was slow on Monday.\n", 32},
        {"an escape sequence", "\033[31mred\033[0m\n", 13},
    };

    for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++)
        tell(out, strangers[i].what, format, from(strangers[i].text, strangers[i].count));
}

TEST(readers_say_what_is_wrong_in_one_line)
{
    char *text = NULL;
    size_t count = 0;
    FILE *out = open_memstream(&text, &count);

    for (int format = 0; format < FORMAT_COUNT; format++) {
        tell_encodings(out, (enum format)format);
        tell_strangers(out, (enum format)format);
    }
    tell(out, "an open quote", CSV, from("size_bytes,time_us\n\"8,1\n16,2\n", 28));
    tell(out, "semicolons", CSV, from("size_bytes;time_us\n8;1\n", 23));
    tell(out, "a comma for a point", CSV, from("size_bytes,time_us\n8,1e\n", 24));
    fclose(out);
    test_golden("bad_text.txt", text);
    free(text);
}
