/* Fuzzes what a connection of frames reads from its peer: the first byte says what the rest is.
 * Nothing is taken beyond the bound, with a secret nothing is taken at all that was not sealed, and
 * every end is one of those that frames.h names. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/frames/connection.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge.h"

enum { BYTES_MAX = 4096, INPUT_BYTES_MAX = 1 << 16 };

static void receive_all(const uint8_t *data, size_t bytes, bool with_secret)
{
    const struct tutti_wire_talk talk = {.secret = "sesame", .secret_bytes = with_secret ? 6 : 0};
    const struct tutti_frames_opts opts = {.bytes_max = BYTES_MAX, .deadline_ps = 1};
    struct tutti_frames *frames;
    struct tutti_frames_got got;
    struct tutti_err err = {""};
    size_t taken = 0;
    int status;
    int fds[2];

    JUDGE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    frames = tutti_frames_new(fds[0], &opts, &talk, true);
    JUDGE(frames != NULL);
    JUDGE(send(fds[1], data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)bytes);
    close(fds[1]);
    while ((status = tutti_frames_receive(frames, 0, &got, &err)) == 0) {
        JUDGE(got.bytes <= BYTES_MAX && !with_secret);
        taken += TUTTI_WIRE_HEAD_BYTES + got.bytes;
        for (uint64_t i = 0; i < got.bytes; i++)
            JUDGE(got.data[i] == data[taken - got.bytes + i]);
    }
    JUDGE(taken <= bytes);
    JUDGE(status == -TUTTI_EIO || status == -TUTTI_EINVAL || status == -TUTTI_ECHECK);
    JUDGE(err.text[0] != '\0' && tutti_frames_ended(frames));
    tutti_frames_close(frames);
}

static void read_hello(const uint8_t *data, size_t bytes)
{
    struct tutti_wire_hello hello;

    if (bytes < TUTTI_WIRE_PREFIX_BYTES || !tutti_wire_read_hello(data, &hello))
        return;
    JUDGE(strlen(hello.tutti) <= TUTTI_WIRE_TUTTI_BYTES);
    for (const char *p = hello.tutti; *p != '\0'; p++)
        JUDGE((unsigned char)*p > 0x20 && *p < 0x7f);
}

/* Each byte of the input asks for a value of its kind. */
static void read_values(const uint8_t *data, size_t bytes)
{
    struct tutti_frames_reader reader = {.data = data, .bytes = bytes};
    const char *text;

    for (size_t i = 0; i < bytes && !reader.bad; i++) {
        switch (data[i] % 4) {
        case 0:
            (void)tutti_frames_get_u32(&reader);
            break;
        case 1:
            (void)tutti_frames_get_double(&reader);
            break;
        case 2:
            text = tutti_frames_get_text(&reader);
            JUDGE(strlen(text) <= bytes);
            break;
        default:
            (void)tutti_frames_get_bytes(&reader, data[i]);
            break;
        }
        JUDGE(reader.at <= reader.bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0 || bytes > INPUT_BYTES_MAX)
        return 0;
    switch (data[0]) {
    case 's':
        receive_all(data + 1, bytes - 1, true);
        break;
    case 'o':
        receive_all(data + 1, bytes - 1, false);
        break;
    case 'g':
        read_hello(data + 1, bytes - 1);
        break;
    case 'v':
        read_values(data + 1, bytes - 1);
        break;
    default:
        break;
    }
    return 0;
}
