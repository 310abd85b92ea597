/* The greeting of two processes: what is written, what is read, and what is believed. */
#include "runtime/group/handshake.h"

#include <assert.h>
#include <string.h>

#include "runtime/group/bytes.h"

/* Where things lie in the messages. Prefix, reason and value of a challenge are those of every
 * version, so that two that differ can tell each other. */
enum {
    AT_VERSION = 8,
    HELLO_KIND = 12,
    HELLO_FLAGS = 16,
    HELLO_INDEX = 20,
    HELLO_COUNT = 24,
    HELLO_PEER = 28,
    HELLO_ROUND = 32,
    HELLO_PORT = 36,
    HELLO_KEY = 40,
    HELLO_ADDRESS = 48,
    HELLO_NONCE = 64,
    HELLO_INCARNATION = 96, /* 4 bytes that are 0 behind it */
    HELLO_VIEW = 104,
    CHALLENGE_REASON = 12,
    CHALLENGE_VALUE = 16,
    CHALLENGE_FLAGS = 20,
    CHALLENGE_NONCE = 24,
    WELCOME_REASON = 0,
    WELCOME_VALUE = 4,
    WELCOME_WAIT = 8,
    WELCOME_NOTE = 12,
    WELCOME_SESSION = 64,
    WELCOME_PROOF = 96,
    FLAG_SECRET = 1,
};

static const uint8_t magic[AT_VERSION] = {'t', 'u', 't', 't', 'i', 0xc4, 0xe3, '\n'};

/* HMAC of a label, of both greetings, and of `bytes` bytes of the last message. */
static void prove(const struct tutti_handshake *handshake, const char *label, size_t bytes,
                  uint8_t ret[TUTTI_SHA256_BYTES])
{
    struct tutti_hmac hmac;

    tutti_hmac_begin(&hmac, handshake->secret, handshake->secret_bytes);
    tutti_hmac_add(&hmac, label, strlen(label) + 1);
    tutti_hmac_add(&hmac, handshake->hello, sizeof(handshake->hello));
    tutti_hmac_add(&hmac, handshake->challenge, sizeof(handshake->challenge));
    tutti_hmac_add(&hmac, handshake->last, bytes);
    tutti_hmac_end(&hmac, ret);
}

/* The session key under its pad, or out of it. Both nonces are in the pad: it serves once. */
static void cover(const struct tutti_handshake *handshake, const uint8_t *from, uint8_t *to)
{
    uint8_t pad[TUTTI_SHA256_BYTES];

    _Static_assert((int)TUTTI_HANDSHAKE_KEY_BYTES == (int)TUTTI_SHA256_BYTES, "a pad covers a key");
    prove(handshake, "tutti crew: pad", 0, pad);
    for (size_t i = 0; i < sizeof(pad); i++)
        to[i] = from[i] ^ pad[i];
}

static void begin(struct tutti_handshake *handshake, const void *secret, size_t secret_bytes,
                  const uint8_t *nonce)
{
    *handshake = (struct tutti_handshake){
        .secret = secret, .secret_bytes = secret_bytes, .has_secret = secret != NULL};
    memcpy(handshake->nonce, nonce, sizeof(handshake->nonce));
}

static void want(struct tutti_handshake *handshake, enum tutti_handshake_state state, uint8_t *in,
                 size_t bytes)
{
    handshake->state = state;
    handshake->in = in;
    handshake->in_bytes = bytes;
}

static void say(struct tutti_handshake *handshake, const uint8_t *out, size_t bytes)
{
    handshake->out = out;
    handshake->out_bytes = bytes;
}

static void end(struct tutti_handshake *handshake, enum tutti_handshake_state state)
{
    want(handshake, state, NULL, 0);
}

void tutti_handshake_server(struct tutti_handshake *handshake, const void *secret,
                            size_t secret_bytes, const uint8_t nonce[TUTTI_HANDSHAKE_NONCE_BYTES])
{
    begin(handshake, secret, secret_bytes, nonce);
    /* The prefix alone at first: another version's hello may be shorter than ours. */
    want(handshake, TUTTI_HANDSHAKE_WANTS_HELLO, handshake->hello, TUTTI_HANDSHAKE_PREFIX_BYTES);
}

void tutti_handshake_expect_members(struct tutti_handshake *handshake, const void *key,
                                    size_t key_bytes)
{
    assert(handshake->state == TUTTI_HANDSHAKE_WANTS_HELLO);
    handshake->members_key = key;
    handshake->members_key_bytes = key_bytes;
}

void tutti_handshake_client(struct tutti_handshake *handshake, const void *secret,
                            size_t secret_bytes, const uint8_t nonce[TUTTI_HANDSHAKE_NONCE_BYTES],
                            const struct tutti_hello *hello)
{
    uint8_t *to;

    begin(handshake, secret, secret_bytes, nonce);
    handshake->said = *hello;
    to = handshake->hello;
    memcpy(to, magic, sizeof(magic));
    tutti_put32(to + AT_VERSION, TUTTI_HANDSHAKE_VERSION);
    tutti_put32(to + HELLO_KIND, hello->kind);
    tutti_put32(to + HELLO_FLAGS, handshake->has_secret ? FLAG_SECRET : 0);
    tutti_put32(to + HELLO_INDEX, hello->index);
    tutti_put32(to + HELLO_COUNT, hello->count);
    tutti_put32(to + HELLO_PEER, hello->peer);
    tutti_put32(to + HELLO_ROUND, hello->round);
    tutti_put32(to + HELLO_PORT, hello->port);
    tutti_put64(to + HELLO_KEY, hello->key);
    memcpy(to + HELLO_ADDRESS, hello->address, sizeof(hello->address));
    memcpy(to + HELLO_NONCE, handshake->nonce, sizeof(handshake->nonce));
    tutti_put32(to + HELLO_INCARNATION, hello->incarnation);
    tutti_put64(to + HELLO_VIEW, hello->view);
    say(handshake, handshake->hello, sizeof(handshake->hello));
    want(handshake, TUTTI_HANDSHAKE_WANTS_CHALLENGE, handshake->challenge,
         sizeof(handshake->challenge));
}

/* ---- the server ---- */

static void challenge(struct tutti_handshake *handshake, uint32_t reason, uint32_t value)
{
    uint8_t *to = handshake->challenge;

    memset(to, 0, sizeof(handshake->challenge));
    memcpy(to, magic, sizeof(magic));
    tutti_put32(to + AT_VERSION, TUTTI_HANDSHAKE_VERSION);
    tutti_put32(to + CHALLENGE_REASON, reason);
    tutti_put32(to + CHALLENGE_VALUE, value);
    tutti_put32(to + CHALLENGE_FLAGS, handshake->has_secret ? FLAG_SECRET : 0);
    memcpy(to + CHALLENGE_NONCE, handshake->nonce, sizeof(handshake->nonce));
    say(handshake, to, sizeof(handshake->challenge));
    handshake->reason = reason;
    handshake->value = value;
    if (reason == TUTTI_HANDSHAKE_WELCOME)
        want(handshake, TUTTI_HANDSHAKE_WANTS_PROOF, handshake->last, TUTTI_HANDSHAKE_PROOF_BYTES);
    else
        end(handshake, TUTTI_HANDSHAKE_REFUSED);
}

static void hear_prefix(struct tutti_handshake *handshake)
{
    uint32_t version = tutti_get32(handshake->hello + AT_VERSION);

    if (memcmp(handshake->hello, magic, sizeof(magic)) != 0) {
        end(handshake, TUTTI_HANDSHAKE_STRANGER);
    } else if (version != TUTTI_HANDSHAKE_VERSION) {
        challenge(handshake, TUTTI_HANDSHAKE_OTHER_VERSION, TUTTI_HANDSHAKE_VERSION);
        handshake->value = version; /* this side wants to name the other's */
    } else {
        want(handshake, TUTTI_HANDSHAKE_WANTS_HELLO,
             handshake->hello + TUTTI_HANDSHAKE_PREFIX_BYTES,
             TUTTI_HANDSHAKE_HELLO_BYTES - TUTTI_HANDSHAKE_PREFIX_BYTES);
    }
}

static bool is_of_members(enum tutti_handshake_kind kind)
{
    return kind == TUTTI_HANDSHAKE_LINK || kind == TUTTI_HANDSHAKE_SHRINK ||
           kind == TUTTI_HANDSHAKE_PAIR;
}

static void hear_hello(struct tutti_handshake *handshake)
{
    const uint8_t *from = handshake->hello;
    uint32_t kind = tutti_get32(from + HELLO_KIND);
    bool has_secret = (tutti_get32(from + HELLO_FLAGS) & FLAG_SECRET) != 0;

    if (kind < TUTTI_HANDSHAKE_JOIN || kind > TUTTI_HANDSHAKE_CALL) {
        end(handshake, TUTTI_HANDSHAKE_STRANGER);
        return;
    }
    handshake->said = (struct tutti_hello){
        .kind = (enum tutti_handshake_kind)kind,
        .index = tutti_get32(from + HELLO_INDEX),
        .count = tutti_get32(from + HELLO_COUNT),
        .peer = tutti_get32(from + HELLO_PEER),
        .round = tutti_get32(from + HELLO_ROUND),
        .key = tutti_get64(from + HELLO_KEY),
        .port = tutti_get32(from + HELLO_PORT),
        .incarnation = tutti_get32(from + HELLO_INCARNATION),
        .view = tutti_get64(from + HELLO_VIEW),
    };
    memcpy(handshake->said.address, from + HELLO_ADDRESS, sizeof(handshake->said.address));
    if (handshake->members_key != NULL && is_of_members(handshake->said.kind)) {
        handshake->secret = handshake->members_key;
        handshake->secret_bytes = handshake->members_key_bytes;
        handshake->has_secret = true;
    }
    if (has_secret == handshake->has_secret)
        challenge(handshake, TUTTI_HANDSHAKE_WELCOME, 0);
    else
        challenge(handshake,
                  has_secret ? TUTTI_HANDSHAKE_UNWANTED_SECRET : TUTTI_HANDSHAKE_NO_SECRET, 0);
}

static void hear_proof(struct tutti_handshake *handshake)
{
    uint8_t expected[TUTTI_SHA256_BYTES];

    prove(handshake, "tutti crew: guest", 0, expected);
    end(handshake, TUTTI_HANDSHAKE_PROVED);
    if (!tutti_bytes_same(handshake->last, expected, sizeof(expected)))
        tutti_handshake_refuse(handshake, TUTTI_HANDSHAKE_WRONG_SECRET, 0, "");
}

void tutti_handshake_welcome(struct tutti_handshake *handshake, uint32_t wait_ms,
                             const uint8_t *session)
{
    uint8_t *to = handshake->last;

    assert(handshake->state == TUTTI_HANDSHAKE_PROVED);
    memset(to, 0, sizeof(handshake->last));
    tutti_put32(to + WELCOME_REASON, TUTTI_HANDSHAKE_WELCOME);
    tutti_put32(to + WELCOME_VALUE, handshake->value);
    tutti_put32(to + WELCOME_WAIT, wait_ms);
    if (session != NULL)
        cover(handshake, session, to + WELCOME_SESSION);
    prove(handshake, "tutti crew: host", WELCOME_PROOF, to + WELCOME_PROOF);
    say(handshake, to, sizeof(handshake->last));
    end(handshake, TUTTI_HANDSHAKE_DONE);
}

void tutti_handshake_refuse(struct tutti_handshake *handshake, enum tutti_handshake_reason reason,
                            uint32_t value, const char *note)
{
    uint8_t *to = handshake->last;

    assert(handshake->state == TUTTI_HANDSHAKE_PROVED);
    assert(reason != TUTTI_HANDSHAKE_WELCOME);
    memset(to, 0, sizeof(handshake->last));
    tutti_put32(to + WELCOME_REASON, reason);
    tutti_put32(to + WELCOME_VALUE, value);
    memcpy(to + WELCOME_NOTE, note, strnlen(note, TUTTI_HANDSHAKE_NOTE_BYTES - 1));
    say(handshake, to, sizeof(handshake->last));
    handshake->reason = reason;
    handshake->value = value;
    end(handshake, TUTTI_HANDSHAKE_REFUSED);
}

/* ---- the client ---- */

static void hear_refusal(struct tutti_handshake *handshake, uint32_t reason, uint32_t value)
{
    handshake->reason = reason;
    handshake->value = value;
    end(handshake,
        reason < TUTTI_HANDSHAKE_REASON_COUNT ? TUTTI_HANDSHAKE_REFUSED : TUTTI_HANDSHAKE_STRANGER);
}

static void hear_challenge(struct tutti_handshake *handshake)
{
    const uint8_t *from = handshake->challenge;
    uint32_t reason = tutti_get32(from + CHALLENGE_REASON);
    uint32_t version = tutti_get32(from + AT_VERSION);

    if (memcmp(from, magic, sizeof(magic)) != 0) {
        end(handshake, TUTTI_HANDSHAKE_STRANGER);
    } else if (version != TUTTI_HANDSHAKE_VERSION) {
        hear_refusal(handshake, TUTTI_HANDSHAKE_OTHER_VERSION, version);
    } else if (reason != TUTTI_HANDSHAKE_WELCOME) {
        hear_refusal(handshake, reason, tutti_get32(from + CHALLENGE_VALUE));
    } else if (handshake->has_secret && (tutti_get32(from + CHALLENGE_FLAGS) & FLAG_SECRET) == 0) {
        hear_refusal(handshake, TUTTI_HANDSHAKE_UNWANTED_SECRET, 0);
    } else {
        prove(handshake, "tutti crew: guest", 0, handshake->last);
        say(handshake, handshake->last, TUTTI_HANDSHAKE_PROOF_BYTES);
        /* Sent before it is read over: out comes before in. */
        want(handshake, TUTTI_HANDSHAKE_WANTS_WELCOME, handshake->last,
             TUTTI_HANDSHAKE_WELCOME_BYTES);
    }
}

static void hear_welcome(struct tutti_handshake *handshake)
{
    const uint8_t *from = handshake->last;
    uint32_t reason = tutti_get32(from + WELCOME_REASON);
    uint8_t expected[TUTTI_SHA256_BYTES];

    if (reason != TUTTI_HANDSHAKE_WELCOME) {
        memcpy(handshake->note, from + WELCOME_NOTE, sizeof(handshake->note) - 1);
        /* Nobody has proved who wrote this, and it will be shown. */
        for (size_t i = 0; i < sizeof(handshake->note) - 1 && handshake->note[i] != 0; i++)
            if (handshake->note[i] < 0x20 || handshake->note[i] > 0x7e)
                handshake->note[i] = '?';
        hear_refusal(handshake, reason, tutti_get32(from + WELCOME_VALUE));
        return;
    }
    prove(handshake, "tutti crew: host", WELCOME_PROOF, expected);
    if (!tutti_bytes_same(from + WELCOME_PROOF, expected, sizeof(expected))) {
        end(handshake, TUTTI_HANDSHAKE_IMPOSTOR);
        return;
    }
    handshake->value = tutti_get32(from + WELCOME_VALUE);
    handshake->wait_ms = tutti_get32(from + WELCOME_WAIT);
    cover(handshake, from + WELCOME_SESSION, handshake->session);
    end(handshake, TUTTI_HANDSHAKE_DONE);
}

void tutti_handshake_took(struct tutti_handshake *handshake, size_t bytes)
{
    assert(handshake->out_bytes == 0);
    assert(bytes <= handshake->in_bytes);
    handshake->in += bytes;
    handshake->in_bytes -= bytes;
    if (handshake->in_bytes > 0)
        return;
    switch (handshake->state) {
    case TUTTI_HANDSHAKE_WANTS_HELLO:
        if (handshake->in == handshake->hello + TUTTI_HANDSHAKE_PREFIX_BYTES)
            hear_prefix(handshake);
        else
            hear_hello(handshake);
        break;
    case TUTTI_HANDSHAKE_WANTS_PROOF:
        hear_proof(handshake);
        break;
    case TUTTI_HANDSHAKE_WANTS_CHALLENGE:
        hear_challenge(handshake);
        break;
    case TUTTI_HANDSHAKE_WANTS_WELCOME:
        hear_welcome(handshake);
        break;
    default:
        assert(false); /* nothing is wanted in the other states */
    }
}

void tutti_handshake_sent(struct tutti_handshake *handshake, size_t bytes)
{
    assert(bytes <= handshake->out_bytes);
    if (bytes == 0)
        return; /* `out` may be NULL */
    handshake->out += bytes;
    handshake->out_bytes -= bytes;
}

void tutti_handshake_moved(struct tutti_handshake *handshake, const struct tutti_handshake *from)
{
    if (handshake->in != NULL)
        handshake->in = (uint8_t *)handshake + (handshake->in - (const uint8_t *)from);
    if (handshake->out != NULL)
        handshake->out = (const uint8_t *)handshake + (handshake->out - (const uint8_t *)from);
}
