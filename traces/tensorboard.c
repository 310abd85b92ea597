/* TensorBoard's event files: the writer. */
#include "traces/tensorboard.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/status.h"
#include "traces/protobuf/wire.h"
#include "traces/tensorboard/event.h"
#include "traces/tensorboard/histogram.h"
#include "traces/tensorboard/record.h"

enum { KEPT_BYTES_MAX = 64 << 10, HOST_BYTES = 256, NAMES_MAX = 1000 };

struct tutti_tensorboard {
    char *path;
    int file;
    off_t written_bytes;        /* of whole records */
    struct tutti_protobuf kept; /* records that are not written yet */
    struct tutti_histogram histogram;
};

/* ---- the file ------------------------------------------------------------------------------ */

static int host_name(const char *given, char *ret, struct tutti_err *err)
{
    ret[0] = '\0';
    if (given == NULL)
        (void)gethostname(ret, HOST_BYTES - 1);
    else if (strlen(given) < HOST_BYTES)
        (void)snprintf(ret, HOST_BYTES, "%s", given);
    ret[HOST_BYTES - 1] = '\0';
    if (ret[0] == '\0' || strchr(ret, '/') != NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s' cannot be a host in a file's name (1 to %d bytes, no '/')",
                          given == NULL ? ret : given, HOST_BYTES - 1);
    return 0;
}

/* A file that was not there before; its path in `path`. */
static int file_make(const char *folder, const char *host, long long seconds, char *path,
                     size_t path_bytes, int *ret, struct tutti_err *err)
{
    int file = -1;

    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return tutti_fail(err, TUTTI_EIO, "cannot make the folder '%s': %s", folder,
                          strerror(errno));
    for (int i = 0; i < NAMES_MAX && file < 0; i++) {
        char suffix[16] = "";

        if (i > 0)
            (void)snprintf(suffix, sizeof(suffix), ".%d", i);
        (void)snprintf(path, path_bytes, "%s/events.out.tfevents.%lld.%s%s", folder, seconds, host,
                       suffix);
        file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file < 0 && errno != EEXIST)
            break;
    }
    if (file < 0)
        return tutti_fail(err, TUTTI_EIO, "cannot make '%s': %s", path, strerror(errno));
    *ret = file;
    return 0;
}

int tutti_tensorboard_flush(struct tutti_tensorboard *writer, struct tutti_err *err)
{
    size_t done = 0;

    while (done < writer->kept.count) {
        ssize_t put = pwrite(writer->file, writer->kept.bytes + done, writer->kept.count - done,
                             writer->written_bytes + (off_t)done);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            int cause = put < 0 ? errno : ENOSPC;

            (void)!ftruncate(writer->file, writer->written_bytes); /* no half a record */
            return tutti_fail(err, TUTTI_EIO, "cannot write '%s': %s", writer->path,
                              strerror(cause));
        }
        done += (size_t)put;
    }
    writer->written_bytes += (off_t)done;
    writer->kept.count = 0;
    return 0;
}

/* ---- events -------------------------------------------------------------------------------- */

/* Where the parts of an event begin that are still open. */
struct opened {
    size_t before; /* what was kept before the event */
    size_t record;
    size_t summary;
    size_t value;
};

static size_t event_open(struct tutti_protobuf *kept, double wall_s, int64_t step)
{
    size_t record = tutti_record_open(kept);

    tutti_protobuf_double(kept, TUTTI_EVENT_WALL_TIME, wall_s);
    if (step != 0)
        tutti_protobuf_varint(kept, TUTTI_EVENT_STEP, (uint64_t)step);
    return record;
}

static struct opened value_open(struct tutti_tensorboard *writer, double wall_s, int64_t step,
                                const char *tag)
{
    struct opened opened = {.before = writer->kept.count};

    opened.record = event_open(&writer->kept, wall_s, step);
    opened.summary = tutti_protobuf_open(&writer->kept, TUTTI_EVENT_SUMMARY);
    opened.value = tutti_protobuf_open(&writer->kept, TUTTI_SUMMARY_VALUE);
    tutti_protobuf_text(&writer->kept, TUTTI_VALUE_TAG, tag);
    return opened;
}

/* Out of memory: the event is not kept, and those before it are. */
static int record_keep(struct tutti_tensorboard *writer, size_t before, struct tutti_err *err)
{
    if (writer->kept.failed) {
        writer->kept.failed = false;
        writer->kept.count = before;
        return tutti_nomem(err);
    }
    return 0;
}

static int value_close(struct tutti_tensorboard *writer, struct opened opened,
                       struct tutti_err *err)
{
    int status;

    tutti_protobuf_close(&writer->kept, opened.value);
    tutti_protobuf_close(&writer->kept, opened.summary);
    tutti_record_close(&writer->kept, opened.record);
    status = record_keep(writer, opened.before, err);
    if (status == 0 && writer->kept.count >= KEPT_BYTES_MAX)
        status = tutti_tensorboard_flush(writer, err);
    return status;
}

int tutti_tensorboard_scalar(struct tutti_tensorboard *writer, double wall_s, int64_t step,
                             const char *tag, double value, struct tutti_err *err)
{
    struct opened opened = value_open(writer, wall_s, step, tag);

    tutti_protobuf_float(&writer->kept, TUTTI_VALUE_SIMPLE, (float)value);
    return value_close(writer, opened, err);
}

int tutti_tensorboard_histogram(struct tutti_tensorboard *writer, double wall_s, int64_t step,
                                const char *tag, const float *values, size_t count,
                                struct tutti_err *err)
{
    struct opened opened = value_open(writer, wall_s, step, tag);

    tutti_histogram_count(&writer->histogram, values, count);
    tutti_histogram_put(&writer->histogram, &writer->kept, TUTTI_VALUE_HISTOGRAM);
    return value_close(writer, opened, err);
}

/* ---- opening and closing ------------------------------------------------------------------- */

static int version_write(struct tutti_tensorboard *writer, double wall_s, struct tutti_err *err)
{
    size_t record = event_open(&writer->kept, wall_s, 0);
    int status;

    tutti_protobuf_text(&writer->kept, TUTTI_EVENT_FILE_VERSION, "brain.Event:2");
    tutti_record_close(&writer->kept, record);
    status = record_keep(writer, 0, err);
    return status < 0 ? status : tutti_tensorboard_flush(writer, err);
}

static void writer_free(struct tutti_tensorboard *writer)
{
    if (writer->file >= 0)
        (void)close(writer->file);
    free(writer->kept.bytes);
    free(writer->path);
    free(writer);
}

int tutti_tensorboard_open(const char *folder, const char *host, double wall_s,
                           struct tutti_tensorboard **ret, struct tutti_err *err)
{
    char name[HOST_BYTES];
    size_t path_bytes = strlen(folder) + sizeof(name) + 64;
    struct tutti_tensorboard *writer;
    int status = host_name(host, name, err);

    if (status < 0)
        return status;
    writer = calloc(1, sizeof(*writer));
    if (writer == NULL)
        return tutti_nomem(err);
    writer->file = -1;
    tutti_histogram_init(&writer->histogram);
    writer->path = malloc(path_bytes);
    status = writer->path == NULL ? tutti_nomem(err) : 0;
    if (status == 0)
        status = file_make(folder, name, (long long)wall_s, writer->path, path_bytes, &writer->file,
                           err);
    if (status == 0) {
        status = version_write(writer, wall_s, err);
        if (status < 0)
            (void)unlink(writer->path);
    }
    if (status < 0) {
        writer_free(writer);
        return status;
    }
    *ret = writer;
    return 0;
}

const char *tutti_tensorboard_path(const struct tutti_tensorboard *writer)
{
    return writer->path;
}

int tutti_tensorboard_close(struct tutti_tensorboard *writer, struct tutti_err *err)
{
    int status;

    if (writer == NULL)
        return 0;
    status = tutti_tensorboard_flush(writer, err);
    writer_free(writer);
    return status;
}
