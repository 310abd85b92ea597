/* The greeting of two processes: what is written, what is read, and what is believed. */
#include "runtime/crew/greet.h"

#include <assert.h>
#include <string.h>

#include "runtime/crew/bytes.h"

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
static void prove(const struct tutti_greet *greet, const char *label, size_t bytes,
                  uint8_t ret[TUTTI_SHA256_BYTES])
{
    struct tutti_hmac hmac;

    tutti_hmac_begin(&hmac, greet->secret, greet->secret_bytes);
    tutti_hmac_add(&hmac, label, strlen(label) + 1);
    tutti_hmac_add(&hmac, greet->hello, sizeof(greet->hello));
    tutti_hmac_add(&hmac, greet->challenge, sizeof(greet->challenge));
    tutti_hmac_add(&hmac, greet->last, bytes);
    tutti_hmac_end(&hmac, ret);
}

/* The session key under its pad, or out of it. Both nonces are in the pad: it serves once. */
static void cover(const struct tutti_greet *greet, const uint8_t *from, uint8_t *to)
{
    uint8_t pad[TUTTI_SHA256_BYTES];

    _Static_assert((int)TUTTI_GREET_KEY_BYTES == (int)TUTTI_SHA256_BYTES, "a pad covers a key");
    prove(greet, "tutti crew: pad", 0, pad);
    for (size_t i = 0; i < sizeof(pad); i++)
        to[i] = from[i] ^ pad[i];
}

static void begin(struct tutti_greet *greet, const void *secret, size_t secret_bytes,
                  const uint8_t *nonce)
{
    *greet = (struct tutti_greet){
        .secret = secret, .secret_bytes = secret_bytes, .has_secret = secret != NULL};
    memcpy(greet->nonce, nonce, sizeof(greet->nonce));
}

static void want(struct tutti_greet *greet, enum tutti_greet_state state, uint8_t *in, size_t bytes)
{
    greet->state = state;
    greet->in = in;
    greet->in_bytes = bytes;
}

static void say(struct tutti_greet *greet, const uint8_t *out, size_t bytes)
{
    greet->out = out;
    greet->out_bytes = bytes;
}

static void end(struct tutti_greet *greet, enum tutti_greet_state state)
{
    want(greet, state, NULL, 0);
}

void tutti_greet_host(struct tutti_greet *greet, const void *secret, size_t secret_bytes,
                      const uint8_t nonce[TUTTI_GREET_NONCE_BYTES])
{
    begin(greet, secret, secret_bytes, nonce);
    /* The prefix alone at first: another version's hello may be shorter than ours. */
    want(greet, TUTTI_GREET_WANTS_HELLO, greet->hello, TUTTI_GREET_PREFIX_BYTES);
}

void tutti_greet_guest(struct tutti_greet *greet, const void *secret, size_t secret_bytes,
                       const uint8_t nonce[TUTTI_GREET_NONCE_BYTES],
                       const struct tutti_hello *hello)
{
    uint8_t *to;

    begin(greet, secret, secret_bytes, nonce);
    greet->said = *hello;
    to = greet->hello;
    memcpy(to, magic, sizeof(magic));
    tutti_put32(to + AT_VERSION, TUTTI_GREET_VERSION);
    tutti_put32(to + HELLO_KIND, hello->kind);
    tutti_put32(to + HELLO_FLAGS, greet->has_secret ? FLAG_SECRET : 0);
    tutti_put32(to + HELLO_INDEX, hello->index);
    tutti_put32(to + HELLO_COUNT, hello->count);
    tutti_put32(to + HELLO_PEER, hello->peer);
    tutti_put32(to + HELLO_ROUND, hello->round);
    tutti_put32(to + HELLO_PORT, hello->port);
    tutti_put64(to + HELLO_KEY, hello->key);
    memcpy(to + HELLO_ADDRESS, hello->address, sizeof(hello->address));
    memcpy(to + HELLO_NONCE, greet->nonce, sizeof(greet->nonce));
    say(greet, greet->hello, sizeof(greet->hello));
    want(greet, TUTTI_GREET_WANTS_CHALLENGE, greet->challenge, sizeof(greet->challenge));
}

/* ---- the host ---- */

static void challenge(struct tutti_greet *greet, uint32_t reason, uint32_t value)
{
    uint8_t *to = greet->challenge;

    memset(to, 0, sizeof(greet->challenge));
    memcpy(to, magic, sizeof(magic));
    tutti_put32(to + AT_VERSION, TUTTI_GREET_VERSION);
    tutti_put32(to + CHALLENGE_REASON, reason);
    tutti_put32(to + CHALLENGE_VALUE, value);
    tutti_put32(to + CHALLENGE_FLAGS, greet->has_secret ? FLAG_SECRET : 0);
    memcpy(to + CHALLENGE_NONCE, greet->nonce, sizeof(greet->nonce));
    say(greet, to, sizeof(greet->challenge));
    greet->reason = reason;
    greet->value = value;
    if (reason == TUTTI_GREET_WELCOME)
        want(greet, TUTTI_GREET_WANTS_PROOF, greet->last, TUTTI_GREET_PROOF_BYTES);
    else
        end(greet, TUTTI_GREET_REFUSED);
}

static void hear_prefix(struct tutti_greet *greet)
{
    uint32_t version = tutti_get32(greet->hello + AT_VERSION);

    if (memcmp(greet->hello, magic, sizeof(magic)) != 0) {
        end(greet, TUTTI_GREET_STRANGER);
    } else if (version != TUTTI_GREET_VERSION) {
        challenge(greet, TUTTI_GREET_OTHER_VERSION, TUTTI_GREET_VERSION);
        greet->value = version; /* this side wants to name the other's */
    } else {
        want(greet, TUTTI_GREET_WANTS_HELLO, greet->hello + TUTTI_GREET_PREFIX_BYTES,
             TUTTI_GREET_HELLO_BYTES - TUTTI_GREET_PREFIX_BYTES);
    }
}

static void hear_hello(struct tutti_greet *greet)
{
    const uint8_t *from = greet->hello;
    uint32_t kind = tutti_get32(from + HELLO_KIND);
    bool has_secret = (tutti_get32(from + HELLO_FLAGS) & FLAG_SECRET) != 0;

    if (kind != TUTTI_GREET_JOIN && kind != TUTTI_GREET_LINK) {
        end(greet, TUTTI_GREET_STRANGER);
        return;
    }
    greet->said = (struct tutti_hello){
        .kind = (enum tutti_greet_kind)kind,
        .index = tutti_get32(from + HELLO_INDEX),
        .count = tutti_get32(from + HELLO_COUNT),
        .peer = tutti_get32(from + HELLO_PEER),
        .round = tutti_get32(from + HELLO_ROUND),
        .key = tutti_get64(from + HELLO_KEY),
        .port = tutti_get32(from + HELLO_PORT),
    };
    memcpy(greet->said.address, from + HELLO_ADDRESS, sizeof(greet->said.address));
    if (has_secret == greet->has_secret)
        challenge(greet, TUTTI_GREET_WELCOME, 0);
    else
        challenge(greet, has_secret ? TUTTI_GREET_UNWANTED_SECRET : TUTTI_GREET_NO_SECRET, 0);
}

static void hear_proof(struct tutti_greet *greet)
{
    uint8_t expected[TUTTI_SHA256_BYTES];

    prove(greet, "tutti crew: guest", 0, expected);
    end(greet, TUTTI_GREET_PROVED);
    if (!tutti_bytes_same(greet->last, expected, sizeof(expected)))
        tutti_greet_refuse(greet, TUTTI_GREET_WRONG_SECRET, 0, "");
}

void tutti_greet_welcome(struct tutti_greet *greet, uint32_t wait_ms, const uint8_t *session)
{
    uint8_t *to = greet->last;

    assert(greet->state == TUTTI_GREET_PROVED);
    memset(to, 0, sizeof(greet->last));
    tutti_put32(to + WELCOME_REASON, TUTTI_GREET_WELCOME);
    tutti_put32(to + WELCOME_WAIT, wait_ms);
    if (session != NULL)
        cover(greet, session, to + WELCOME_SESSION);
    prove(greet, "tutti crew: host", WELCOME_PROOF, to + WELCOME_PROOF);
    say(greet, to, sizeof(greet->last));
    end(greet, TUTTI_GREET_DONE);
}

void tutti_greet_refuse(struct tutti_greet *greet, enum tutti_greet_reason reason, uint32_t value,
                        const char *note)
{
    uint8_t *to = greet->last;

    assert(greet->state == TUTTI_GREET_PROVED);
    assert(reason != TUTTI_GREET_WELCOME);
    memset(to, 0, sizeof(greet->last));
    tutti_put32(to + WELCOME_REASON, reason);
    tutti_put32(to + WELCOME_VALUE, value);
    memcpy(to + WELCOME_NOTE, note, strnlen(note, TUTTI_GREET_NOTE_BYTES - 1));
    say(greet, to, sizeof(greet->last));
    greet->reason = reason;
    greet->value = value;
    end(greet, TUTTI_GREET_REFUSED);
}

/* ---- the guest ---- */

static void hear_refusal(struct tutti_greet *greet, uint32_t reason, uint32_t value)
{
    greet->reason = reason;
    greet->value = value;
    end(greet, reason < TUTTI_GREET_REASON_COUNT ? TUTTI_GREET_REFUSED : TUTTI_GREET_STRANGER);
}

static void hear_challenge(struct tutti_greet *greet)
{
    const uint8_t *from = greet->challenge;
    uint32_t reason = tutti_get32(from + CHALLENGE_REASON);
    uint32_t version = tutti_get32(from + AT_VERSION);

    if (memcmp(from, magic, sizeof(magic)) != 0) {
        end(greet, TUTTI_GREET_STRANGER);
    } else if (version != TUTTI_GREET_VERSION) {
        hear_refusal(greet, TUTTI_GREET_OTHER_VERSION, version);
    } else if (reason != TUTTI_GREET_WELCOME) {
        hear_refusal(greet, reason, tutti_get32(from + CHALLENGE_VALUE));
    } else if (greet->has_secret && (tutti_get32(from + CHALLENGE_FLAGS) & FLAG_SECRET) == 0) {
        hear_refusal(greet, TUTTI_GREET_UNWANTED_SECRET, 0);
    } else {
        prove(greet, "tutti crew: guest", 0, greet->last);
        say(greet, greet->last, TUTTI_GREET_PROOF_BYTES);
        /* Sent before it is read over: out comes before in. */
        want(greet, TUTTI_GREET_WANTS_WELCOME, greet->last, TUTTI_GREET_WELCOME_BYTES);
    }
}

static void hear_welcome(struct tutti_greet *greet)
{
    const uint8_t *from = greet->last;
    uint32_t reason = tutti_get32(from + WELCOME_REASON);
    uint8_t expected[TUTTI_SHA256_BYTES];

    if (reason != TUTTI_GREET_WELCOME) {
        memcpy(greet->note, from + WELCOME_NOTE, sizeof(greet->note) - 1);
        /* Nobody has proved who wrote this, and it will be shown. */
        for (size_t i = 0; i < sizeof(greet->note) - 1 && greet->note[i] != 0; i++)
            if (greet->note[i] < 0x20 || greet->note[i] > 0x7e)
                greet->note[i] = '?';
        hear_refusal(greet, reason, tutti_get32(from + WELCOME_VALUE));
        return;
    }
    prove(greet, "tutti crew: host", WELCOME_PROOF, expected);
    if (!tutti_bytes_same(from + WELCOME_PROOF, expected, sizeof(expected))) {
        end(greet, TUTTI_GREET_IMPOSTOR);
        return;
    }
    greet->wait_ms = tutti_get32(from + WELCOME_WAIT);
    cover(greet, from + WELCOME_SESSION, greet->session);
    end(greet, TUTTI_GREET_DONE);
}

void tutti_greet_took(struct tutti_greet *greet, size_t bytes)
{
    assert(greet->out_bytes == 0);
    assert(bytes <= greet->in_bytes);
    greet->in += bytes;
    greet->in_bytes -= bytes;
    if (greet->in_bytes > 0)
        return;
    switch (greet->state) {
    case TUTTI_GREET_WANTS_HELLO:
        if (greet->in == greet->hello + TUTTI_GREET_PREFIX_BYTES)
            hear_prefix(greet);
        else
            hear_hello(greet);
        break;
    case TUTTI_GREET_WANTS_PROOF:
        hear_proof(greet);
        break;
    case TUTTI_GREET_WANTS_CHALLENGE:
        hear_challenge(greet);
        break;
    case TUTTI_GREET_WANTS_WELCOME:
        hear_welcome(greet);
        break;
    default:
        assert(false); /* nothing is wanted in the other states */
    }
}

void tutti_greet_sent(struct tutti_greet *greet, size_t bytes)
{
    assert(bytes <= greet->out_bytes);
    if (bytes == 0)
        return; /* `out` may be NULL */
    greet->out += bytes;
    greet->out_bytes -= bytes;
}

void tutti_greet_moved(struct tutti_greet *greet, const struct tutti_greet *from)
{
    if (greet->in != NULL)
        greet->in = (uint8_t *)greet + (greet->in - (const uint8_t *)from);
    if (greet->out != NULL)
        greet->out = (const uint8_t *)greet + (greet->out - (const uint8_t *)from);
}
