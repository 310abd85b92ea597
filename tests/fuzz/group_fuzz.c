/* Fuzzes all that a group over TCP reads from others: the first byte says what the rest is.
 * Strangers never prove anything, impostors are never believed, members' frames are bounded, and
 * what is read well is written back the same. */
#include <stdlib.h>
#include <string.h>

#include "runtime/group/address.h"
#include "runtime/group/frame.h"
#include "runtime/group/handshake.h"
#include "runtime/group/view.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge.h"

static const uint8_t nonce[TUTTI_HANDSHAKE_NONCE_BYTES] = "0123456789abcdef0123456789abcde";

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* Gives the other side's bytes to a greeting until it wants no more; returns how many. */
static size_t feed(struct tutti_handshake *handshake, const uint8_t *data, size_t bytes)
{
    size_t at = 0;

    for (;;) {
        size_t now = bytes - at < handshake->in_bytes ? bytes - at : handshake->in_bytes;

        tutti_handshake_sent(handshake, handshake->out_bytes);
        if (now == 0)
            return at;
        memcpy(handshake->in, data + at, now);
        tutti_handshake_took(handshake, now);
        at += now;
    }
}

static void be_host(const uint8_t *data, size_t bytes, bool with_secret)
{
    struct tutti_handshake handshake;

    tutti_handshake_server(&handshake, with_secret ? "sesame" : NULL, with_secret ? 6 : 0, nonce);
    must(feed(&handshake, data, bytes) <=
         TUTTI_HANDSHAKE_HELLO_BYTES + TUTTI_HANDSHAKE_PROOF_BYTES);
    must(handshake.state != TUTTI_HANDSHAKE_DONE);
    must(!with_secret || handshake.state != TUTTI_HANDSHAKE_PROVED);
    if (handshake.state != TUTTI_HANDSHAKE_PROVED)
        return;
    /* Without a secret whoever knows the protocol may prove. */
    must(handshake.said.kind == TUTTI_HANDSHAKE_JOIN ||
         handshake.said.kind == TUTTI_HANDSHAKE_LINK);
    tutti_handshake_refuse(&handshake, TUTTI_HANDSHAKE_TWICE, 1, "somewhere");
    must(handshake.out_bytes == TUTTI_HANDSHAKE_WELCOME_BYTES);
}

static void be_client(const uint8_t *data, size_t bytes)
{
    static const struct tutti_hello hello = {
        .kind = TUTTI_HANDSHAKE_JOIN, .index = 1, .count = 2, .port = 3};
    struct tutti_handshake handshake;

    tutti_handshake_client(&handshake, "sesame", 6, nonce, &hello);
    must(feed(&handshake, data, bytes) <=
         TUTTI_HANDSHAKE_CHALLENGE_BYTES + TUTTI_HANDSHAKE_WELCOME_BYTES);
    must(handshake.state != TUTTI_HANDSHAKE_DONE);
    must(memchr(handshake.note, '\0', sizeof(handshake.note)) != NULL);
    must(handshake.state != TUTTI_HANDSHAKE_REFUSED ||
         handshake.reason < TUTTI_HANDSHAKE_REASON_COUNT);
}

static void read_stop(const uint8_t *data, size_t bytes)
{
    struct tutti_ending ending;
    struct tutti_ending again;
    uint8_t out[TUTTI_FRAME_HEAD_BYTES + TUTTI_FRAME_STOP_BYTES + TUTTI_ERR_TEXT_BYTES];
    size_t out_bytes;

    if (!tutti_frame_read_stop(data, bytes, &ending))
        return;
    must(ending.status >= -TUTTI_ECHECK && ending.status <= -TUTTI_EINVAL);
    for (const char *p = ending.err.text; *p != '\0'; p++)
        must((unsigned char)*p >= 0x20 && *p != 0x7f);
    out_bytes = tutti_frame_write_stop(&ending, 1, out);
    must(tutti_frame_read_stop(out + TUTTI_FRAME_HEAD_BYTES, out_bytes - TUTTI_FRAME_HEAD_BYTES,
                               &again));
    must(again.status == ending.status && again.origin == ending.origin);
    must(strcmp(again.err.text, ending.err.text) == 0);
}

/* A view that is read well is written back the same, and so are its addresses. */
static void read_view(const uint8_t *data, size_t bytes)
{
    struct tutti_view view = {0};
    struct tutti_err err;
    uint8_t *out;

    if (tutti_view_read(data, bytes, &view, &err) < 0)
        return;
    must(tutti_view_bytes(view.count) == bytes);
    for (uint32_t i = 0; i < view.count; i++) {
        const struct tutti_member *member = &view.members[i];
        struct tutti_address address;
        uint8_t packed[16];
        char text[TUTTI_ADDRESS_TEXT_BYTES];

        must(member->port <= UINT16_MAX);
        must(tutti_view_find(&view, member->id) == i);
        if (member->like_root)
            continue;
        tutti_address_unpack(member->address, (uint16_t)member->port, 0, &address);
        tutti_address_pack(&address, packed);
        must(memcmp(packed, member->address, sizeof(packed)) == 0);
        must(strlen(tutti_address_text(&address, text)) >= 4);
    }
    out = malloc(bytes);
    must(out != NULL);
    tutti_view_write(&view, out);
    free(out);
    tutti_view_done(&view);
}

static void be_member(const uint8_t *data, size_t bytes)
{
    while (bytes >= TUTTI_FRAME_HEAD_BYTES) {
        struct tutti_frame frame;
        uint8_t out[TUTTI_FRAME_HEAD_BYTES];

        if (!tutti_frame_read_head(data, &frame))
            return;
        must(frame.bytes <= TUTTI_FRAME_ALL_BYTES_MAX);
        tutti_frame_write_head(&frame, out);
        must(memcmp(out, data, sizeof(out)) == 0);
        data += TUTTI_FRAME_HEAD_BYTES;
        bytes -= TUTTI_FRAME_HEAD_BYTES;
        if (frame.bytes > bytes)
            return;
        if (frame.type == TUTTI_FRAME_STOP)
            read_stop(data, frame.bytes);
        if (frame.type == TUTTI_FRAME_MEMBERS || frame.type == TUTTI_FRAME_PROPOSE)
            read_view(data, frame.bytes);
        data += frame.bytes;
        bytes -= frame.bytes;
    }
}

static void read_address(const uint8_t *data, size_t bytes)
{
    char text[600];
    char host[TUTTI_HOST_BYTES];
    char again[sizeof(host) + 16];
    char second[TUTTI_HOST_BYTES];
    struct tutti_err err = {""};
    uint16_t port;
    uint16_t same;
    int status;

    if (bytes >= sizeof(text))
        return;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    status = tutti_address_split(text, host, &port, &err);
    if (status < 0) {
        judge_refusal(status, &err);
        return;
    }
    must(host[0] != '\0');
    snprintf(again, sizeof(again), strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host, port);
    must(tutti_address_split(again, second, &same, &err) == 0);
    must(strcmp(host, second) == 0 && port == same);
    (void)tutti_host_is_loopback(host);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    switch (data[0]) {
    case 'h':
        be_host(data + 1, bytes - 1, true);
        break;
    case 'o':
        be_host(data + 1, bytes - 1, false);
        break;
    case 'g':
        be_client(data + 1, bytes - 1);
        break;
    case 'm':
        be_member(data + 1, bytes - 1);
        break;
    case 'a':
        read_address(data + 1, bytes - 1);
        break;
    default:
        break;
    }
    return 0;
}
