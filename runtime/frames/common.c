/* What both sides of a handshake need: options, the clock, random bytes; see connection.h. */
#include <assert.h>
#include <errno.h>
#include <sys/random.h>
#include <time.h>

#include "build.h"
#include "runtime/frames/connection.h"

static const tutti_ps DEADLINE_PS = 30 * TUTTI_PS_PER_S;
static const uint64_t BYTES_MAX = 16 << 20;

enum { WAIT_MS_MAX = 60000 };

int tutti_frames_take(const struct tutti_frames_opts *opts, struct tutti_frames_opts *ret,
                      struct tutti_err *err)
{
    int status = tutti_take("tutti_frames_opts", ret, sizeof(*ret), opts,
                            TUTTI_BYTES_TO(struct tutti_frames_opts, listen_fd), err);

    if (status < 0)
        return status;
    if (ret->secret == NULL)
        ret->secret_bytes = 0;
    else if (ret->secret_bytes < TUTTI_FRAMES_SECRET_BYTES_MIN)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a secret of %zu bytes can be guessed (%d or more, drawn at random)",
                          ret->secret_bytes, TUTTI_FRAMES_SECRET_BYTES_MIN);
    if (ret->bytes_max == 0)
        ret->bytes_max = BYTES_MAX;
    if (ret->deadline_ps <= 0)
        ret->deadline_ps = DEADLINE_PS;
    return 0;
}

tutti_ps tutti_frames_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (tutti_ps)now.tv_sec * TUTTI_PS_PER_S + (tutti_ps)now.tv_nsec * TUTTI_PS_PER_NS;
}

tutti_ps tutti_frames_due(tutti_ps timeout_ps)
{
    const tutti_ps now_ps = tutti_frames_now();

    if (timeout_ps <= 0)
        return now_ps;
    return timeout_ps < INT64_MAX - now_ps ? now_ps + timeout_ps : INT64_MAX;
}

int tutti_frames_left_ms(tutti_ps due_ps)
{
    tutti_ps left_ps = due_ps - tutti_frames_now();
    tutti_ps left_ms = left_ps <= 0 ? 0 : (left_ps - 1) / TUTTI_PS_PER_MS + 1;

    return left_ms > WAIT_MS_MAX ? WAIT_MS_MAX : (int)left_ms;
}

bool tutti_frames_draw(uint8_t *ret, size_t bytes)
{
    assert(bytes <= 256); /* so many come at once, whatever signals do */
    return getrandom(ret, bytes, 0) == (ssize_t)bytes;
}

const char *tutti_frames_version(void)
{
    return TUTTI_BUILD_VERSION;
}
