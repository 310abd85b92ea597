/* Two processes handshake each other, without sockets: who is let in, and who is not. */
#include "runtime/group/handshake.h"

#include "tests/test.h"

static const struct tutti_hello hello = {.kind = TUTTI_HANDSHAKE_JOIN,
                                         .index = 3,
                                         .count = 8,
                                         .peer = 5,
                                         .round = 77,
                                         .key = UINT64_C(0x123456789abcdef0),
                                         .port = 4242,
                                         .address = {1, 2, 3}};
static const uint8_t session[TUTTI_HANDSHAKE_KEY_BYTES] = "the key of all members, 32 byte";

static struct tutti_handshake client;
static struct tutti_handshake host;

/* What has been said so far, for those who listen in. */
static struct {
    uint8_t bytes[512];
    size_t count;
} heard;

static void fill(uint8_t nonce[TUTTI_HANDSHAKE_NONCE_BYTES], uint8_t value)
{
    memset(nonce, value, TUTTI_HANDSHAKE_NONCE_BYTES);
}

static void meet(const char *clients_secret, const char *hosts_secret)
{
    uint8_t nonce[TUTTI_HANDSHAKE_NONCE_BYTES];

    fill(nonce, 'g');
    tutti_handshake_client(&client, clients_secret,
                           clients_secret == NULL ? 0 : strlen(clients_secret), nonce, &hello);
    fill(nonce, 'h');
    tutti_handshake_server(&host, hosts_secret, hosts_secret == NULL ? 0 : strlen(hosts_secret),
                           nonce);
    heard.count = 0;
}

/* What one wants to say, to the other, `step` bytes at a time. */
static void carry(struct tutti_handshake *from, struct tutti_handshake *to, size_t step)
{
    while (from->out_bytes > 0 && to->in_bytes > 0) {
        size_t bytes = from->out_bytes < to->in_bytes ? from->out_bytes : to->in_bytes;

        bytes = bytes < step ? bytes : step;
        memcpy(to->in, from->out, bytes);
        memcpy(heard.bytes + heard.count, from->out, bytes);
        heard.count += bytes;
        tutti_handshake_sent(from, bytes);
        tutti_handshake_took(to, bytes);
    }
}

static void talk(size_t step)
{
    carry(&client, &host, step);
    carry(&host, &client, step);
    carry(&client, &host, step);
    if (host.state == TUTTI_HANDSHAKE_PROVED)
        tutti_handshake_welcome(&host, 1234, session);
    carry(&host, &client, step);
}

TEST(who_knows_the_secret_is_let_in)
{
    static const size_t steps[] = {1, 7, 1000};

    for (size_t i = 0; i < 3; i++) {
        meet("open sesame open", "open sesame open");
        talk(steps[i]);
        CHECK_INT(host.state, TUTTI_HANDSHAKE_DONE);
        CHECK_INT(client.state, TUTTI_HANDSHAKE_DONE);
        CHECK_INT(host.said.index, 3);
        CHECK_INT(host.said.count, 8);
        CHECK_INT(host.said.peer, 5);
        CHECK_INT(host.said.round, 77);
        CHECK_INT(host.said.port, 4242);
        CHECK(host.said.key == hello.key);
        CHECK(memcmp(host.said.address, hello.address, sizeof(hello.address)) == 0);
        CHECK_INT(client.wait_ms, 1234);
        CHECK(memcmp(client.session, session, sizeof(session)) == 0);
    }
}

TEST(without_a_secret_all_who_speak_the_protocol_are)
{
    meet(NULL, NULL);
    talk(1000);
    CHECK_INT(client.state, TUTTI_HANDSHAKE_DONE);
    CHECK(memcmp(client.session, session, sizeof(session)) == 0);
}

TEST(secrets_that_differ_are_told_apart)
{
    static const struct {
        const char *clients;
        const char *hosts;
        enum tutti_handshake_reason reason;
    } cases[] = {{"open sesame open", "Open sesame open", TUTTI_HANDSHAKE_WRONG_SECRET},
                 {"", "open sesame open", TUTTI_HANDSHAKE_WRONG_SECRET},
                 {NULL, "open sesame open", TUTTI_HANDSHAKE_NO_SECRET},
                 {"open sesame open", NULL, TUTTI_HANDSHAKE_UNWANTED_SECRET}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        meet(cases[i].clients, cases[i].hosts);
        talk(1000);
        CHECK_INT(host.state, TUTTI_HANDSHAKE_REFUSED);
        CHECK_INT(host.reason, cases[i].reason);
        CHECK_INT(client.state, TUTTI_HANDSHAKE_REFUSED);
        CHECK_INT(client.reason, cases[i].reason);
    }
}

/* The session key, the secret, and anything that would tell a guessed one: nowhere on the wire
 * before the client has proved; the session key nowhere at all. */
TEST(a_stranger_learns_nothing)
{
    uint8_t first[TUTTI_HANDSHAKE_CHALLENGE_BYTES];

    meet("open sesame open", "open sesame open");
    talk(1000);
    for (size_t i = 0; i + sizeof(session) <= heard.count; i++)
        CHECK(memcmp(heard.bytes + i, session, sizeof(session)) != 0);
    /* Before that, hosts with different secrets say the very same. */
    meet("x", "open sesame open");
    carry(&client, &host, 1000);
    CHECK_INT(host.out_bytes, TUTTI_HANDSHAKE_CHALLENGE_BYTES);
    memcpy(first, host.out, sizeof(first));
    meet("x", "other");
    carry(&client, &host, 1000);
    CHECK(memcmp(first, host.out, sizeof(first)) == 0);
}

/* All that a client said, said again: the host's nonce is another, and the proof proves nothing. */
TEST(a_replay_is_refused)
{
    uint8_t nonce[TUTTI_HANDSHAKE_NONCE_BYTES];
    uint8_t said[TUTTI_HANDSHAKE_HELLO_BYTES + TUTTI_HANDSHAKE_PROOF_BYTES];

    meet("open sesame open", "open sesame open");
    memcpy(said, client.out, TUTTI_HANDSHAKE_HELLO_BYTES);
    carry(&client, &host, 1000);
    carry(&host, &client, 1000);
    memcpy(said + TUTTI_HANDSHAKE_HELLO_BYTES, client.out, TUTTI_HANDSHAKE_PROOF_BYTES);
    fill(nonce, 'i');
    tutti_handshake_server(&host, "open sesame open", 6, nonce);
    for (size_t at = 0; at < sizeof(said);) {
        size_t bytes = host.in_bytes;

        memcpy(host.in, said + at, bytes);
        at += bytes;
        tutti_handshake_took(&host, bytes);
        if (at < sizeof(said))
            tutti_handshake_sent(&host, host.out_bytes);
    }
    CHECK_INT(host.state, TUTTI_HANDSHAKE_REFUSED);
    CHECK_INT(host.reason, TUTTI_HANDSHAKE_WRONG_SECRET);
}

/* A host that knows nothing sends the client's own proof back, or anything else. */
TEST(an_impostor_is_found_out)
{
    uint8_t proof[TUTTI_HANDSHAKE_PROOF_BYTES];

    meet("open sesame open", "guess");
    carry(&client, &host, 1000);
    host.challenge[23] |= 1;
    carry(&host, &client, 1000);
    CHECK_INT(client.state, TUTTI_HANDSHAKE_WANTS_WELCOME);
    memcpy(proof, client.out, sizeof(proof));
    tutti_handshake_sent(&client, client.out_bytes);
    memset(client.in, 0, client.in_bytes);
    memcpy(client.in + client.in_bytes - sizeof(proof), proof, sizeof(proof));
    tutti_handshake_took(&client, client.in_bytes);
    CHECK_INT(client.state, TUTTI_HANDSHAKE_IMPOSTOR);
}

/* Each bit of each message turned over: nobody is let in who is not what he said. */
static void turn_bit(size_t message, size_t bit)
{
    struct tutti_handshake *from = message % 2 == 0 ? &client : &host;
    struct tutti_handshake *to = message % 2 == 0 ? &host : &client;
    uint8_t wrong[TUTTI_HANDSHAKE_WELCOME_BYTES];

    meet("open sesame open", "open sesame open");
    for (size_t i = 0; i < message; i++)
        carry(i % 2 == 0 ? &client : &host, i % 2 == 0 ? &host : &client, 1000);
    if (host.state == TUTTI_HANDSHAKE_PROVED)
        tutti_handshake_welcome(&host, 1234, session);
    memcpy(wrong, from->out, from->out_bytes);
    wrong[bit / 8] ^= (uint8_t)(1 << bit % 8);
    from->out = wrong;
    carry(from, to, 1000);
    from->out_bytes = 0;
    carry(to, from, 1000);
    carry(from, to, 1000);
    carry(to, from, 1000);
    if (host.state == TUTTI_HANDSHAKE_PROVED)
        TEST_FAIL("message %zu, bit %zu: the host believes it", message, bit);
    if (client.state == TUTTI_HANDSHAKE_DONE)
        TEST_FAIL("message %zu, bit %zu: the client believes it", message, bit);
}

TEST(no_bit_can_be_turned_on_the_way)
{
    static const size_t bytes[] = {TUTTI_HANDSHAKE_HELLO_BYTES, TUTTI_HANDSHAKE_CHALLENGE_BYTES,
                                   TUTTI_HANDSHAKE_PROOF_BYTES, TUTTI_HANDSHAKE_WELCOME_BYTES};

    for (size_t message = 0; message < 4; message++)
        for (size_t bit = 0; bit < 8 * bytes[message]; bit++)
            turn_bit(message, bit);
}

TEST(another_version_is_named_on_both_sides)
{
    meet("open sesame open", "open sesame open");
    client.hello[11] = 9;
    carry(&client, &host, TUTTI_HANDSHAKE_PREFIX_BYTES);
    CHECK_INT(host.state, TUTTI_HANDSHAKE_REFUSED);
    CHECK_INT(host.reason, TUTTI_HANDSHAKE_OTHER_VERSION);
    CHECK_INT(host.value, 9);
    client.out_bytes = 0;
    carry(&host, &client, 1000);
    CHECK_INT(client.state, TUTTI_HANDSHAKE_REFUSED);
    CHECK_INT(client.reason, TUTTI_HANDSHAKE_OTHER_VERSION);
    CHECK_INT(client.value, TUTTI_HANDSHAKE_VERSION);
    /* And a host of another version, by its challenge. */
    meet("open sesame open", "open sesame open");
    carry(&client, &host, 1000);
    host.challenge[11] = 7;
    carry(&host, &client, 1000);
    CHECK_INT(client.state, TUTTI_HANDSHAKE_REFUSED);
    CHECK_INT(client.value, 7);
}

TEST(a_browser_is_a_stranger)
{
    static const char request[] = "GET / HTTP/1.1\r\n\r\n";

    meet("open sesame open", "open sesame open");
    memcpy(host.in, request, host.in_bytes);
    tutti_handshake_took(&host, host.in_bytes);
    CHECK_INT(host.state, TUTTI_HANDSHAKE_STRANGER);
    CHECK_INT(host.out_bytes, 0);
    tutti_handshake_sent(&client, client.out_bytes);
    memset(client.in, 'x', client.in_bytes);
    tutti_handshake_took(&client, client.in_bytes);
    CHECK_INT(client.state, TUTTI_HANDSHAKE_STRANGER);
}

/* Refused after the proof: with a value and a note, which is cut and never unterminated. */
TEST(a_refusal_says_why)
{
    char note[100];

    memset(note, 'n', sizeof(note));
    note[sizeof(note) - 1] = '\0';
    memcpy(note, "\033[2J\n\377", 6); /* no screen is cleared by who has proved nothing */
    meet("open sesame open", "open sesame open");
    carry(&client, &host, 1000);
    carry(&host, &client, 1000);
    carry(&client, &host, 1000);
    tutti_handshake_refuse(&host, TUTTI_HANDSHAKE_TWICE, 8, note);
    carry(&host, &client, 1000);
    CHECK_INT(client.state, TUTTI_HANDSHAKE_REFUSED);
    CHECK_INT(client.reason, TUTTI_HANDSHAKE_TWICE);
    CHECK_INT(client.value, 8);
    CHECK_INT(strlen(client.note), TUTTI_HANDSHAKE_NOTE_BYTES - 1);
    CHECK_INT(strncmp(client.note, "?[2J??nnn", 9), 0);
}
