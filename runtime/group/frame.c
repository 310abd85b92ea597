/* Frames as bytes. Whoever sends them has proved to be a member; they are checked all the same. */
#include "runtime/group/frame.h"

#include <assert.h>
#include <string.h>

#include "runtime/group/bytes.h"
#include "runtime/group_tcp.h"

void tutti_frame_write_head(const struct tutti_frame *frame, uint8_t to[TUTTI_FRAME_HEAD_BYTES])
{
    tutti_put32(to, frame->type);
    tutti_put32(to + 4, frame->bytes);
    tutti_put32(to + 8, frame->incarnation);
    tutti_put32(to + 12, frame->wait_ms);
    tutti_put64(to + 16, frame->round);
}

bool tutti_frame_read_head(const uint8_t from[TUTTI_FRAME_HEAD_BYTES], struct tutti_frame *ret)
{
    uint32_t type = tutti_get32(from);
    uint64_t bytes = tutti_get32(from + 4);
    uint64_t least = 0;
    uint64_t most = 0;

    switch (type) {
    case TUTTI_FRAME_PING:
    case TUTTI_FRAME_BYE:
    case TUTTI_FRAME_ACCEPT:
    case TUTTI_FRAME_COMMIT:
        break;
    case TUTTI_FRAME_MEMBERS:
    case TUTTI_FRAME_PROPOSE:
        least = TUTTI_FRAME_VIEW_BYTES + TUTTI_FRAME_MEMBER_BYTES;
        most =
            TUTTI_FRAME_VIEW_BYTES + (uint64_t)TUTTI_GROUP_TCP_COUNT_MAX * TUTTI_FRAME_MEMBER_BYTES;
        break;
    case TUTTI_FRAME_EXCHANGE:
        most = TUTTI_FRAME_ALL_BYTES_MAX;
        break;
    case TUTTI_FRAME_STOP:
        least = TUTTI_FRAME_STOP_BYTES;
        most = TUTTI_FRAME_STOP_BYTES + TUTTI_ERR_TEXT_BYTES - 1;
        break;
    default:
        return false;
    }
    if (bytes < least || bytes > most)
        return false;
    *ret = (struct tutti_frame){.type = (enum tutti_frame_type)type,
                                .bytes = (uint32_t)bytes,
                                .incarnation = tutti_get32(from + 8),
                                .wait_ms = tutti_get32(from + 12),
                                .round = tutti_get64(from + 16)};
    return true;
}

size_t tutti_frame_write_stop(const struct tutti_ending *ending, uint32_t incarnation, uint8_t *to)
{
    size_t text_bytes = strnlen(ending->err.text, TUTTI_ERR_TEXT_BYTES - 1);
    struct tutti_frame frame = {.type = TUTTI_FRAME_STOP,
                                .bytes = (uint32_t)(TUTTI_FRAME_STOP_BYTES + text_bytes),
                                .incarnation = incarnation};

    assert(ending->status < 0);
    tutti_frame_write_head(&frame, to);
    to += TUTTI_FRAME_HEAD_BYTES;
    tutti_put32(to, (uint32_t)-ending->status);
    tutti_put32(to + 4, ending->origin);
    memcpy(to + TUTTI_FRAME_STOP_BYTES, ending->err.text, text_bytes);
    return TUTTI_FRAME_HEAD_BYTES + frame.bytes;
}

bool tutti_frame_read_stop(const uint8_t *from, size_t bytes, struct tutti_ending *ret)
{
    uint32_t code = tutti_get32(from);
    size_t text_bytes = bytes - TUTTI_FRAME_STOP_BYTES;

    assert(bytes >= TUTTI_FRAME_STOP_BYTES);
    assert(text_bytes < TUTTI_ERR_TEXT_BYTES);
    if (code < TUTTI_EINVAL || code > TUTTI_ECHECK)
        return false;
    *ret = (struct tutti_ending){.status = -(int)code, .origin = tutti_get32(from + 4)};
    /* Through fail: whatever came becomes one visible line. */
    (void)tutti_fail(&ret->err, (enum tutti_status)code, "%.*s", (int)text_bytes,
                     (const char *)from + TUTTI_FRAME_STOP_BYTES);
    return true;
}
