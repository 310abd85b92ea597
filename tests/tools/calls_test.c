/* Commands as calls (tools/cli.h): into memory, again and again in one process, the same as the
 * command of that name prints; nothing goes to this process's own outputs. */
#include <fcntl.h>
#include <stdint.h>

#include "tests/test.h"
#include "tests/tools/commands.h"
#include "tools/cli.h"
#include "tools/commands.h"
#include "tools/options.h"

enum { WORDS_MAX = 32 };

/* The words of `line`, which is cut into them. */
static int cut(char *line, char **argv)
{
    int argc = 0;

    for (char *at = line; at != NULL && argc < WORDS_MAX; argc++) {
        argv[argc] = at;
        at = strchr(at, ' ');
        if (at != NULL)
            *at++ = '\0';
    }
    return argc;
}

static int call(const char *line, struct tutti_sink_text *ret, struct tutti_err *err)
{
    char words[512];
    char *argv[WORDS_MAX];
    struct tutti_sink sink;
    int code;

    snprintf(words, sizeof(words), "%s", line);
    if (tutti_sink_open_text(&sink, ret, err) < 0)
        abort();
    code = tutti_cli_call(cut(words, argv), argv, &sink, err);
    if (sink.child) { /* one of --launch */
        fflush(sink.out);
        fflush(sink.notes);
        _exit(code);
    }
    CHECK(tutti_sink_close(&sink, NULL) == 0);
    return code;
}

static struct seen run_command(const char *line)
{
    char command[1024];

    snprintf(command, sizeof(command), "'" TUTTI_BINARY_DIR "/tutti' %s", line);
    return run(command);
}

static void same_as_command(const char *line)
{
    struct seen seen = run_command(line);
    struct tutti_err err;
    struct tutti_sink_text text;
    int code = call(line, &text, &err);

    CHECK_INT(code, seen.exit);
    CHECK_TEXT(text.out, text_of(&seen.out));
    CHECK_TEXT(text.notes, text_of(&seen.err));
    CHECK((code != 0) == (err.text[0] != '\0'));
    if (err.text[0] != '\0')
        CHECK(strstr(text.notes, err.text) != NULL);
    tutti_sink_text_done(&text);
    seen_done(&seen);
}

TEST(calls_print_what_the_command_prints_however_often)
{
    static const char *const lines[] = {
        "predict dgx-1v -a ring,nccl -b 1K -e 1M -f 32",
        "compare switch:n=4,bw=50GB/s,lat=1us -b 1K -e 4K --plot ascii",
        "topo show dgx-1v",
        "topo list --format json",
        "explain dgx-1v -b 64M",
        "schedule check -c allreduce -a ring -g 3 -b 28",
        "run -B sim --topo ring:n=4,bw=50GB/s,lat=1us -b 1K",
        "topo convert ring:n=3,bw=50GB/s,lat=1us",
        "help topo",
        "help predict",
        "--version",
        "predict dgx-1v -b nothing",
        "predict no-such-machine",
        "predct dgx-1v",
        "topo",
    };

    for (int again = 0; again < 2; again++) {
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
            same_as_command(lines[i]);
    }
}

/* The call of one command, with words parsed by its table. */
TEST(one_command_is_a_function)
{
    char words[] = "ring:n=4,bw=50GB/s,lat=1us -a ring -b 1M --format csv";
    char *argv[WORDS_MAX];
    struct tutti_sink_text text;
    struct tutti_sink sink;
    struct tutti_args args;
    struct tutti_err err;
    struct seen seen = run_command("predict ring:n=4,bw=50GB/s,lat=1us -a ring -b 1M --format csv");

    REQUIRE(tutti_args_parse(&tutti_cli_predict, cut(words, argv), argv, &args, &err) == 0);
    REQUIRE(tutti_sink_open_text(&sink, &text, &err) == 0);
    CHECK_INT(tutti_command_predict(&args, &sink, &err), 0);
    CHECK(tutti_sink_close(&sink, &err) == 0);
    CHECK_TEXT(text.out, text_of(&seen.out));
    CHECK_TEXT(text.notes, "");
    tutti_sink_text_done(&text);
    tutti_args_done(&args);
    seen_done(&seen);
}

/* Where the sink is no file, the processes of --launch print into it all the same. */
TEST(processes_that_a_call_starts_print_to_its_sink)
{
    static const char line[] = "run -B tcp --launch 2 -b 1K -n 1 -w 0 --format csv";

    for (int again = 0; again < 2; again++) {
        struct tutti_sink_text text;
        struct tutti_err err;

        CHECK_INT(call(line, &text, &err), 0);
        CHECK(strncmp(text.out, "bytes,count,type,", 17) == 0);
        CHECK(strstr(text.out, "\n1024,256,float,sum,") != NULL);
        CHECK_TEXT(text.notes, "");
        tutti_sink_text_done(&text);
    }
}

TEST(words_of_started_processes_are_notes)
{
    struct tutti_sink_text text;
    struct tutti_err err;

    CHECK_INT(call("run -B tcp --launch 2 -b 1K --engine none-such", &text, &err), 2);
    CHECK_TEXT(text.out, "");
    CHECK(strstr(text.notes, "none-such") != NULL);
    tutti_sink_text_done(&text);
}

struct heard {
    size_t out_bytes;
    size_t notes_bytes;
};

static void hear_out(void *data, const char *text, size_t bytes)
{
    struct heard *heard = data;

    (void)text;
    heard->out_bytes += bytes;
}

static void hear_notes(void *data, const char *text, size_t bytes)
{
    struct heard *heard = data;

    (void)text;
    heard->notes_bytes += bytes;
}

TEST(a_sink_can_be_two_functions)
{
    struct heard heard = {0};
    struct tutti_sink_calls calls = {.out = hear_out, .notes = hear_notes, .data = &heard};
    char words[] = "topo list";
    char wrong[] = "topo lst";
    char *argv[WORDS_MAX];
    struct tutti_sink sink;
    struct seen seen = run_command("topo list");

    REQUIRE(tutti_sink_open_calls(&sink, &calls, NULL) == 0);
    CHECK_INT(tutti_cli_call(cut(words, argv), argv, &sink, NULL), 0);
    CHECK_INT(tutti_cli_call(cut(wrong, argv), argv, &sink, NULL), 2);
    CHECK(tutti_sink_close(&sink, NULL) == 0);
    CHECK_INT((int)heard.out_bytes, (int)strlen(text_of(&seen.out)));
    CHECK(heard.notes_bytes > 0);
    seen_done(&seen);
}

static int widest(const char *text)
{
    int most = 0;
    int columns = 0;

    for (const char *p = text; *p != '\0'; p++) {
        columns = *p == '\n' ? 0 : columns + (((unsigned char)*p & 0xc0) != 0x80);
        most = columns > most ? columns : most;
    }
    return most;
}

TEST(no_page_is_wider_than_100_columns)
{
    static const char *const lines[] = {
        "predict dgx-h100:nodes=2 -a all -b 1K -e 4G -f 256 -v",
        "predict dgx-h100:nodes=2 -b 4G --perturb latency=1..1.2 -v",
        "compare dgx-h100:nodes=2 -b 1K -e 1G -f 1024 --plot utf8 -v",
        "explain dgx-h100:nodes=2 -b 1K -e 1G -f 32",
        "explain dgx-h100 -b 64M -v",
        "topo list",
        "topo list host",
        "topo show dgx-h100:nodes=2 -v",
        "topo bound dgx-h100:nodes=2 -b 4G -v",
        "model list",
        "model show deepseek-v3 --operations -v",
        "model show mixtral-8x22b --variables",
        "model show llama3-405b",
        "doctor",
        "schedule show -c allreduce -a ring -g 4 -b 1K",
        "run -B sim --topo dgx-h100 -b 4G -v -C 0",
        "run -B threads -g 2 -b 1K -e 1M -f 1024 -n 1 -w 0",
        "run -B threads --emulate switch:n=2,bw=100MB/s -b 1K --scale 1 -n 1 -w 0 -v",
        "validate dgx-h100 --log " TUTTI_SOURCE_DIR "/tests/fixtures/nccl-tests/v2.19.log -v",
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct tutti_sink_text text;
        struct tutti_err err;

        CHECK_INT(call(lines[i], &text, &err), 0);
        if (widest(text.out) > 100)
            TEST_FAIL("tutti %s: %d columns (at most 100):\n%s", lines[i], widest(text.out),
                      text.out);
        tutti_sink_text_done(&text);
    }
}

TEST(quiet_is_a_table_alone_and_colour_is_asked_for)
{
    struct tutti_sink_text text;
    struct tutti_err err;

    CHECK_INT(call("predict dgx-1v -a all -b 1M -q", &text, &err), 0);
    CHECK(strncmp(text.out, "#     size", 10) == 0);
    CHECK(strstr(text.out, "\n# ") == NULL || strstr(text.out, "\n#   ") != NULL);
    CHECK(strstr(text.out, "machine:") == NULL);
    CHECK(strchr(text.out, '\033') == NULL);
    tutti_sink_text_done(&text);
    CHECK_INT(call("predict dgx-1v -a all -b 1M --colour always", &text, &err), 0);
    CHECK(strstr(text.out, "\033[2m# machine:") != NULL);
    CHECK(strstr(text.out, "\033[1m   1048576") != NULL);
    tutti_sink_text_done(&text);
    CHECK_INT(call("predict dgx-1v -b 1M -q -v", &text, &err), 2);
    tutti_sink_text_done(&text);
}

/* The call on a terminal of `columns`. */
static int call_on_terminal(const char *line, int columns, struct tutti_sink_text *ret)
{
    char words[512];
    char *argv[WORDS_MAX];
    struct tutti_sink sink;
    int code;

    snprintf(words, sizeof(words), "%s", line);
    if (tutti_sink_open_text(&sink, ret, NULL) < 0)
        abort();
    sink.columns = columns;
    sink.out_terminal = true;
    sink.notes_terminal = true;
    code = tutti_cli_call(cut(words, argv), argv, &sink, NULL);
    CHECK(tutti_sink_close(&sink, NULL) == 0);
    return code;
}

TEST(a_narrow_page_says_which_columns_it_has_no_room_for)
{
    const char *line = "predict dgx-h100 -b 1M -v --colour never";
    const char *said = "# 80 columns, too few for ";
    struct tutti_sink_text text;
    struct tutti_err err;

    CHECK_INT(call_on_terminal(line, 80, &text), 0);
    CHECK(strstr(text.out, said) != NULL);
    CHECK(strstr(text.out, " (100 show ") != NULL);
    CHECK(widest(text.out) <= 80);
    tutti_sink_text_done(&text);
    CHECK_INT(call_on_terminal(line, 0, &text), 0);
    CHECK(strstr(text.out, "too few") == NULL);
    tutti_sink_text_done(&text);
    CHECK_INT(call(line, &text, &err), 0);
    CHECK(strstr(text.out, "too few") == NULL);
    tutti_sink_text_done(&text);
}

TEST(a_check_that_fails_is_red_on_a_terminal_and_a_wrong_word_is_not)
{
    static const char cycle[] = "schedule cycle\ncontract sendrecv float sum count 1\nranks 2\n"
                                "rank 0 lane 0\n  RECV out+0 4 B from 1\n  SEND in+0 4 B to 1\n"
                                "rank 1 lane 0\n  RECV out+0 4 B from 0\n  SEND in+0 4 B to 0\n";
    char path[] = "/tmp/tutti-calls-XXXXXX";
    char bad[64];
    struct tutti_sink_text text;
    struct tutti_err err;
    int fd = mkstemp(path);

    REQUIRE(fd >= 0);
    REQUIRE(write(fd, cycle, sizeof(cycle) - 1) == (ssize_t)sizeof(cycle) - 1);
    close(fd);
    snprintf(bad, sizeof(bad), "schedule check %s", path);
    REQUIRE(setenv("TERM", "xterm", 1) == 0);
    REQUIRE(unsetenv("NO_COLOR") == 0);
    CHECK_INT(call_on_terminal(bad, 0, &text), 1);
    CHECK(strncmp(text.notes, "\033[31mtutti schedule check: ", 27) == 0);
    CHECK(strstr(text.notes, "\033[0m\n") != NULL);
    tutti_sink_text_done(&text);
    CHECK_INT(call(bad, &text, &err), 1);
    CHECK(strchr(text.notes, '\033') == NULL);
    tutti_sink_text_done(&text);
    CHECK_INT(call_on_terminal("schedule check no-such-file", 0, &text), 2);
    CHECK(strchr(text.notes, '\033') == NULL);
    tutti_sink_text_done(&text);
    unlink(path);
}
