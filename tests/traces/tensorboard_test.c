/* TensorBoard's event files: their bytes, what others read in them, and what is left of a write
 * that fails. */
#include "traces/tensorboard.h"

#include <float.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/test.h"
#include "traces/tensorboard/record.h"

#define WALL_S 1764165600.0

/* A folder that is gone with its file in the end. */
struct run {
    char folder[64];
    struct tutti_tensorboard *writer;
    struct tutti_err err;
};

static void run_open(struct run *run)
{
    *run = (struct run){.folder = "/tmp/tutti_board_XXXXXX"};
    if (mkdtemp(run->folder) == NULL)
        abort();
    CHECK_OK(tutti_tensorboard_open(run->folder, "host", WALL_S, &run->writer, &run->err),
             run->err);
}

/* Closes the file, and returns its bytes. */
static uint8_t *run_finish(struct run *run, size_t *ret_bytes)
{
    char path[256];
    char *bytes;

    snprintf(path, sizeof(path), "%s", tutti_tensorboard_path(run->writer));
    CHECK_OK(tutti_tensorboard_close(run->writer, &run->err), run->err);
    bytes = test_read_file(path, ret_bytes);
    (void)unlink(path);
    (void)rmdir(run->folder);
    return (uint8_t *)bytes;
}

/* RFC 3720 (iSCSI), B.4, and the check value of the catalogues. */
TEST(crc32c_is_castagnolis)
{
    uint8_t bytes[32];

    CHECK_INT(tutti_crc32c((const uint8_t *)"123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof(bytes));
    CHECK_INT(tutti_crc32c(bytes, sizeof(bytes)), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    CHECK_INT(tutti_crc32c(bytes, sizeof(bytes)), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    CHECK_INT(tutti_crc32c(bytes, sizeof(bytes)), 0x46dd794e);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)(31 - i);
    CHECK_INT(tutti_crc32c(bytes, sizeof(bytes)), 0x113fdb5c);
}

static void expect_bytes(const uint8_t *bytes, size_t count, const char *hex)
{
    char text[512] = "";

    for (size_t i = 0; i < count && i < 200; i++)
        snprintf(text + 2 * i, sizeof(text) - 2 * i, "%02x", bytes[i]);
    CHECK_TEXT(text, hex);
}

/* The first record is TensorFlow's, byte by byte; then a scalar: time, step 7, a summary of one
 * value, its tag and 0.5 as a float. */
TEST(a_file_begins_with_its_version)
{
    struct run run;
    uint8_t *bytes;
    size_t count;

    run_open(&run);
    CHECK(strstr(tutti_tensorboard_path(run.writer), "/events.out.tfevents.1764165600.host"));
    CHECK_OK(tutti_tensorboard_scalar(run.writer, WALL_S, 7, "loss", 0.5, &run.err), run.err);
    bytes = run_finish(&run, &count);
    REQUIRE(count == 40 + 12 + 26 + 4);
    expect_bytes(
        bytes, 40,
        "1800000000000000a37f4b2209000000f8c149da411a0d627261696e2e4576656e743a32c6c7915e");
    expect_bytes(bytes + 52, 26, "09000000f8c149da4110072a0d0a0b0a046c6f7373150000003f");
    free(bytes);
}

/* ---- what others read ---- */

static const char expected_print[] =
    "1764165600.000 step 0 brain.Event:2\n"
    "1764165600.250 step 1\n"
    "  train/loss = 2.302585\n"
    "1764165600.500 step 2\n"
    "  train/loss = nan\n"
    "1764165601.000 step 9000000000\n"
    "  weights/hidden: 7 in [-2, 1000], sum 998.5, squares 1.00001e+06\n"
    /* 1.966 is 1e-12 1.1^297, 0.4707 1.1^282, ...; empty buckets in a row are one, 0 has its own */
    "    <=-1.966:1 <=-0.5178:0 <=-0.4707:1 <=-1e-12:0 <=0:3 <=0.9172:0 <=1.009:1 <=964.2:0 "
    "<=1061:1\n"
    "1764165602.000 step 10\n"
    "  empty: 0 in [0, 0], sum 0, squares 0\n"
    "    <=1.798e+308:0\n";

TEST(protobuf_reads_what_is_written)
{
    static const float values[] = {-2.0f, -0.5f, 0.0f, 0.0f, 1.0f, 1000.0f, NAN, INFINITY, 0.0f};
    struct run run;
    char command[1024];
    char *seen;
    size_t count;
    int status;

    run_open(&run);
    CHECK_OK(tutti_tensorboard_scalar(run.writer, WALL_S + 0.25, 1, "train/loss", log(10), NULL),
             run.err);
    CHECK_OK(tutti_tensorboard_scalar(run.writer, WALL_S + 0.5, 2, "train/loss", NAN, NULL),
             run.err);
    CHECK_OK(tutti_tensorboard_histogram(run.writer, WALL_S + 1, 9000000000, "weights/hidden",
                                         values, 9, NULL),
             run.err);
    CHECK_OK(tutti_tensorboard_histogram(run.writer, WALL_S + 2, 10, "empty", values, 0, NULL),
             run.err);
    CHECK_OK(tutti_tensorboard_flush(run.writer, &run.err), run.err);
    snprintf(command, sizeof(command),
             "command -v python3 >/dev/null || exit 77; "
             "python3 -B '" TUTTI_SOURCE_DIR "/tests/traces/tensorboard_read.py' '%s' >'%s/print'",
             tutti_tensorboard_path(run.writer), run.folder);
    status = system(command);
    snprintf(command, sizeof(command), "%s/print", run.folder);
    seen = test_read_file(command, NULL);
    (void)unlink(command);
    free(run_finish(&run, &count));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        free(seen);
        SKIP("no python3, or no protobuf for it (python3-protobuf)");
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    REQUIRE(seen != NULL);
    CHECK_TEXT(seen, expected_print);
    free(seen);
}

/* ---- what we read ---- */

TEST(what_is_written_is_read_again)
{
    struct tutti_tensorboard_log log = {0};
    struct tutti_random random;
    float values[1000];
    struct run run;
    uint8_t *bytes;
    size_t count;
    double sum = 0;
    double counted = 0;

    tutti_random_seed(&random, test_seed);
    for (int i = 0; i < 1000; i++) {
        values[i] = (float)ldexp(tutti_random_unit(&random) - 0.5, (int)(i % 80) - 40);
        sum += (double)values[i];
    }
    run_open(&run);
    for (int64_t step = 0; step < 3000; step++) /* more than is kept */
        CHECK_OK(tutti_tensorboard_scalar(run.writer, WALL_S + (double)step, step, "loss",
                                          1.0 / (double)(step + 1), &run.err),
                 run.err);
    CHECK_OK(tutti_tensorboard_histogram(run.writer, WALL_S, -1, "w", values, 1000, &run.err),
             run.err);
    bytes = run_finish(&run, &count);
    CHECK_OK(tutti_tensorboard_parse("file", bytes, count, &log, &run.err), run.err);
    REQUIRE(log.event_count == 3002);
    CHECK_INT(log.whole_bytes, count);
    CHECK_INT(log.events[0].kind, TUTTI_TENSORBOARD_VERSION);
    CHECK_TEXT(log.events[0].tag, "brain.Event:2");
    CHECK_INT(log.events[3000].kind, TUTTI_TENSORBOARD_SCALAR);
    CHECK_INT(log.events[3000].step, 2999);
    CHECK(log.events[3000].wall_s == WALL_S + 2999);
    CHECK(log.events[3000].value == (double)(float)(1.0 / 3000));
    CHECK_INT(log.events[3001].kind, TUTTI_TENSORBOARD_HISTOGRAM);
    CHECK_INT(log.events[3001].step, -1);
    CHECK(log.events[3001].histogram.sum == sum);
    CHECK(log.events[3001].histogram.num == 1000);
    for (uint32_t i = 0; i < log.events[3001].histogram.bucket_count; i++) {
        const struct tutti_tensorboard_histogram *histogram = &log.events[3001].histogram;
        double low = i == 0 ? -DBL_MAX : histogram->limits[i - 1];
        double here = 0;

        for (int k = 0; k < 1000; k++)
            here += (double)values[k] > low && (double)values[k] <= histogram->limits[i];
        CHECK(histogram->counts[i] == here);
        counted += here;
    }
    CHECK(counted == 1000);
    tutti_tensorboard_log_free(&log);
    free(bytes);
}

/* A file that somebody still writes ends anywhere; one that is damaged is refused at its record. */
TEST(a_cut_file_is_read_and_a_damaged_one_refused)
{
    struct tutti_tensorboard_log log = {0};
    struct run run;
    uint8_t *bytes;
    size_t count;

    run_open(&run);
    CHECK_OK(tutti_tensorboard_scalar(run.writer, WALL_S, 1, "loss", 1, &run.err), run.err);
    bytes = run_finish(&run, &count);
    for (size_t cut = 0; cut <= count; cut++) {
        CHECK_OK(tutti_tensorboard_parse("file", bytes, cut, &log, &run.err), run.err);
        CHECK_INT(log.event_count, cut < 40 ? 0 : (cut < count ? 1 : 2));
        CHECK_INT(log.whole_bytes, cut < 40 ? 0 : (cut < count ? 40 : count));
        tutti_tensorboard_log_free(&log);
    }
    for (size_t at = 40; at < count; at++) {
        bytes[at] ^= 0x10;
        CHECK_INT(tutti_tensorboard_parse("file", bytes, count, &log, &run.err), -TUTTI_EINVAL);
        CHECK_TEXT(run.err.text, "file: record 2, at byte 40: a wrong checksum");
        bytes[at] ^= 0x10;
    }
    free(bytes);
}

/* ---- the file ---- */

/* Two runs begun in the same second do not share a file, and the same run gives the same bytes. */
TEST(a_second_file_of_a_second_has_a_name_of_its_own)
{
    struct tutti_tensorboard *other = NULL;
    uint8_t *mine, *others;
    char path[256];
    size_t count, other_count;
    struct run run;

    run_open(&run);
    CHECK_OK(tutti_tensorboard_open(run.folder, "host", WALL_S, &other, &run.err), run.err);
    snprintf(path, sizeof(path), "%s", tutti_tensorboard_path(other));
    CHECK(strstr(path, "/events.out.tfevents.1764165600.host.1") != NULL);
    CHECK_OK(tutti_tensorboard_close(other, &run.err), run.err);
    others = (uint8_t *)test_read_file(path, &other_count);
    (void)unlink(path);
    mine = run_finish(&run, &count);
    CHECK_INT(other_count, count);
    CHECK(memcmp(mine, others, count) == 0);
    free(mine);
    free(others);
}

TEST(a_folder_or_host_that_will_not_do_is_named)
{
    struct tutti_tensorboard *writer = NULL;
    struct tutti_err err;

    CHECK_INT(tutti_tensorboard_open("/proc/none/there", "host", WALL_S, &writer, &err),
              -TUTTI_EIO);
    CHECK_TEXT(err.text, "cannot make the folder '/proc/none/there': No such file or directory");
    CHECK_INT(tutti_tensorboard_open("/tmp", "a/b", WALL_S, &writer, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "'a/b' cannot be a host in a file's name (1 to 255 bytes, no '/')");
    CHECK(writer == NULL);
}

/* Files may have 60 bytes and no more, as on a disk that is full: the second record does not fit.
 * It is kept, half of it is not left behind, and it is written when there is room. */
TEST(a_full_disk_leaves_whole_records)
{
    struct rlimit old, small;
    struct tutti_tensorboard_log log = {0};
    struct run run;
    uint8_t *bytes;
    size_t count;
    char expected[512];

    run_open(&run);
    REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
    small = (struct rlimit){.rlim_cur = 60, .rlim_max = old.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    CHECK_OK(tutti_tensorboard_scalar(run.writer, WALL_S, 1, "loss", 1, &run.err), run.err);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHECK_INT(tutti_tensorboard_flush(run.writer, &run.err), -TUTTI_EIO);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &old) == 0);
    snprintf(expected, sizeof(expected), "cannot write '%s': File too large",
             tutti_tensorboard_path(run.writer));
    CHECK_TEXT(run.err.text, expected);
    bytes = (uint8_t *)test_read_file(tutti_tensorboard_path(run.writer), &count);
    CHECK_INT(count, 40);
    free(bytes);
    bytes = run_finish(&run, &count);
    CHECK_OK(tutti_tensorboard_parse("file", bytes, count, &log, &run.err), run.err);
    CHECK_INT(log.event_count, 2);
    tutti_tensorboard_log_free(&log);
    free(bytes);
}
