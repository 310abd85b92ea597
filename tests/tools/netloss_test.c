/* Packets that are lost between the hosts of a run: some, which TCP repeats, and from one moment
 * on all. Then every rank ends within its deadline, in one line that says rank, step and what it
 * waited for. The hosts are network namespaces (tools/netlab). */
#include "tests/test.h"
#include "tests/tools/netlab.h"

#define RUN "'\"'\"'" TUTTI_BINARY_DIR "/tutti'\"'\"' run -B tcp --format csv "

enum {
    CUT_S = 2,
    DEADLINE_S = 4,
    SLACK_S = 16, /* to start, and for a machine that has other work */
};

static char text[TEXT_BYTES];

/* Why there are no such hosts here, or NULL. */
static const char *lacks(const char *options)
{
    char command[512];

    snprintf(command, sizeof(command), NETLAB "switch:n=2,bw=1Gb/s %s --quiet -- true", options);
    if (run(command, text) != 77)
        return NULL;
    text[strcspn(text, "\n")] = '\0';
    return text;
}

/* The start of the n-th line that host `host` has printed, or NULL. */
static const char *line_of(int host, int n)
{
    char head[16];
    const char *line = text;

    snprintf(head, sizeof(head), "h%d| ", host);
    for (; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, head, strlen(head)) == 0 && n-- == 0)
            return line + strlen(head);
    }
    return NULL;
}

TEST(packets_that_are_lost_are_repeated)
{
    const char *row = text;
    int count = 0;

    if (lacks("--loss 1") != NULL)
        SKIP(text);
    CHECK_INT(run(NETLAB "switch:n=3,bw=1Gb/s --loss 1 --quiet --deadline 120 -- sh -c '" RUN
                         "-a ring,binomial -b 4K -e 1M -f 16 -n 5 --deadline 30s'",
                  text),
              0);
    while ((row = strchr(row, '\n')) != NULL && row[1] != '\0') { /* "...,wrong,," */
        int column = 0;

        for (row++; column < 11 && *row != '\0' && *row != '\n'; row++)
            column += *row == ',';
        CHECK(strncmp(row, "0,", 2) == 0);
        count++;
    }
    CHECK_INT(count, 6);
    if (test_failures > 0)
        fprintf(stderr, "%s", text);
}

/* Host `index` of `count` has ended in time, and said in one line what held it up. */
static void check_ended(int index, int count)
{
    char own[64];
    const char *said = line_of(index, 0);
    const char *ended = line_of(index, 1);
    const char *cause;
    int seconds = -1;
    int code = -1;
    bool names = false;

    if (said == NULL || ended == NULL || strncmp(said, "tutti run: ", 11) != 0 ||
        sscanf(ended, "ended %d after %d s", &code, &seconds) != 2 || line_of(index, 2) != NULL) {
        TEST_FAIL("host %d did not say one line and end", index);
        return;
    }
    CHECK_INT(code, 1);
    if (seconds > CUT_S + DEADLINE_S + SLACK_S)
        TEST_FAIL("host %d took %d s", index, seconds);
    cause = said + 11;
    if (strncmp(cause, "broken off: ", 12) == 0) /* it has heard of it from another */
        cause += 12;
    for (int i = 0; i < count; i++) { /* who is not heard of any more */
        char process[48];

        snprintf(process, sizeof(process), "process %d of %d (", i, count);
        names = names || (i != index && strncmp(cause, process, strlen(process)) == 0);
    }
    snprintf(own, sizeof(own), "rank %d, lane 0, step ", index);
    if (!names && memmem(said, (size_t)(ended - said), "deadline of 4s passed", 21) == NULL)
        TEST_FAIL("host %d names nobody", index);
    if (memmem(said, (size_t)(ended - said), own, strlen(own)) == NULL &&
        memmem(said, (size_t)(ended - said), "before an iteration", 19) == NULL)
        TEST_FAIL("host %d names no step of its own", index);
}

/* Host 1 is cut off in the middle of a long run: nobody tells anybody. */
static void cut(int count, const char *options, const char *size)
{
    char command[1024];

    snprintf(command, sizeof(command),
             NETLAB "switch:n=%d,bw=1Gb/s %s --deadline 100 -- sh -c '"
                    "test $TUTTI_RANK = 1 && (sleep %d; ip link set eth0 down) >/dev/null & "
                    "start=$(date +%%s); " RUN "-a ring -b %s -e %s -n 1000000 --deadline %ds; "
                    "echo ended $? after $(($(date +%%s) - start)) s'",
             count, options, CUT_S, size, size, DEADLINE_S);
    CHECK_INT(run(command, text), 0);
    for (int i = 0; i < count; i++)
        check_ended(i, count);
    if (strstr(text, "has not ended in time") != NULL)
        TEST_FAIL("somebody hangs");
    if (strstr(text, "| bytes,") != NULL)
        TEST_FAIL("a result is printed");
    if (test_failures > 0)
        fprintf(stderr, "%s", text);
}

TEST(a_cable_that_is_cut_is_named_by_both_ends)
{
    if (lacks("") != NULL)
        SKIP(text);
    cut(2, "", "64K");
    cut(2, "", "2M");
}

TEST(likewise_by_all_of_three_where_packets_are_lost_before)
{
    if (lacks("--loss 1") != NULL)
        SKIP(text);
    cut(3, "--loss 1", "16K");
}
