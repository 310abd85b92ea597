/* Every allocation of event files made to fail once, writing and reading. */
#include <unistd.h>

#include "tests/alloc_fail.h"
#include "traces/tensorboard.h"

static int write_some(const char *folder, struct tutti_err *err)
{
    static const float values[3] = {1, 2, -3};
    struct tutti_tensorboard *writer = NULL;
    int status = tutti_tensorboard_open(folder, "host", 1, &writer, err);
    int close_status;

    for (int64_t i = 0; status == 0 && i < 4; i++)
        status = tutti_tensorboard_scalar(writer, 1, i, "loss", 1, err);
    for (int64_t i = 0; status == 0 && i < 4; i++)
        status = tutti_tensorboard_histogram(writer, 1, i, "weights", values, 3, err);
    if (writer != NULL)
        (void)unlink(tutti_tensorboard_path(writer));
    close_status = tutti_tensorboard_close(writer, status == 0 ? err : NULL);
    return status < 0 ? status : close_status;
}

static int read_some(const uint8_t *bytes, size_t count, struct tutti_err *err)
{
    struct tutti_tensorboard_log log = {0};
    int status = tutti_tensorboard_parse("file", bytes, count, &log, err);

    tutti_tensorboard_log_free(&log);
    return status;
}

TEST(event_files_fail_cleanly)
{
    char folder[] = "/tmp/tutti_board_XXXXXX";
    struct tutti_tensorboard *writer = NULL;
    struct tutti_err err;
    char *bytes;
    char path[256];
    size_t count;

    REQUIRE(mkdtemp(folder) != NULL);
    ALLOC_FAIL_EACH(write_some(folder, &err), err);
    CHECK_OK(tutti_tensorboard_open(folder, "host", 1, &writer, &err), err);
    for (int64_t i = 0; i < 200; i++) /* the list of events grows */
        CHECK_OK(tutti_tensorboard_histogram(writer, 1, i, "weights", NULL, 0, &err), err);
    snprintf(path, sizeof(path), "%s", tutti_tensorboard_path(writer));
    CHECK_OK(tutti_tensorboard_close(writer, &err), err);
    bytes = test_read_file(path, &count);
    ALLOC_FAIL_EACH(read_some((const uint8_t *)bytes, count, &err), err);
    free(bytes);
    (void)unlink(path);
    (void)rmdir(folder);
}
