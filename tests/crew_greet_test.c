/* Two processes greet each other, without sockets: who is let in, and who is not. */
#include "runtime/crew/greet.h"

#include "tests/test.h"

static const struct tutti_hello hello = {.kind = TUTTI_GREET_JOIN,
                                         .index = 3,
                                         .count = 8,
                                         .peer = 5,
                                         .round = 77,
                                         .key = UINT64_C(0x123456789abcdef0),
                                         .port = 4242,
                                         .address = {1, 2, 3}};
static const uint8_t session[TUTTI_GREET_KEY_BYTES] = "the key of all members, 32 byte";

static struct tutti_greet guest;
static struct tutti_greet host;

/* What has been said so far, for those who listen in. */
static struct {
    uint8_t bytes[512];
    size_t count;
} heard;

static void fill(uint8_t nonce[TUTTI_GREET_NONCE_BYTES], uint8_t value)
{
    memset(nonce, value, TUTTI_GREET_NONCE_BYTES);
}

static void meet(const char *guests_secret, const char *hosts_secret)
{
    uint8_t nonce[TUTTI_GREET_NONCE_BYTES];

    fill(nonce, 'g');
    tutti_greet_guest(&guest, guests_secret, guests_secret == NULL ? 0 : strlen(guests_secret),
                      nonce, &hello);
    fill(nonce, 'h');
    tutti_greet_host(&host, hosts_secret, hosts_secret == NULL ? 0 : strlen(hosts_secret), nonce);
    heard.count = 0;
}

/* What one wants to say, to the other, `step` bytes at a time. */
static void carry(struct tutti_greet *from, struct tutti_greet *to, size_t step)
{
    while (from->out_bytes > 0 && to->in_bytes > 0) {
        size_t bytes = from->out_bytes < to->in_bytes ? from->out_bytes : to->in_bytes;

        bytes = bytes < step ? bytes : step;
        memcpy(to->in, from->out, bytes);
        memcpy(heard.bytes + heard.count, from->out, bytes);
        heard.count += bytes;
        tutti_greet_sent(from, bytes);
        tutti_greet_took(to, bytes);
    }
}

static void talk(size_t step)
{
    carry(&guest, &host, step);
    carry(&host, &guest, step);
    carry(&guest, &host, step);
    if (host.state == TUTTI_GREET_PROVED)
        tutti_greet_welcome(&host, 1234, session);
    carry(&host, &guest, step);
}

TEST(who_knows_the_secret_is_let_in)
{
    static const size_t steps[] = {1, 7, 1000};

    for (size_t i = 0; i < 3; i++) {
        meet("open sesame open", "open sesame open");
        talk(steps[i]);
        CHECK_INT(host.state, TUTTI_GREET_DONE);
        CHECK_INT(guest.state, TUTTI_GREET_DONE);
        CHECK_INT(host.said.index, 3);
        CHECK_INT(host.said.count, 8);
        CHECK_INT(host.said.peer, 5);
        CHECK_INT(host.said.round, 77);
        CHECK_INT(host.said.port, 4242);
        CHECK(host.said.key == hello.key);
        CHECK(memcmp(host.said.address, hello.address, sizeof(hello.address)) == 0);
        CHECK_INT(guest.wait_ms, 1234);
        CHECK(memcmp(guest.session, session, sizeof(session)) == 0);
    }
}

TEST(without_a_secret_all_who_speak_the_protocol_are)
{
    meet(NULL, NULL);
    talk(1000);
    CHECK_INT(guest.state, TUTTI_GREET_DONE);
    CHECK(memcmp(guest.session, session, sizeof(session)) == 0);
}

TEST(secrets_that_differ_are_told_apart)
{
    static const struct {
        const char *guests;
        const char *hosts;
        enum tutti_greet_reason reason;
    } cases[] = {{"open sesame open", "Open sesame open", TUTTI_GREET_WRONG_SECRET},
                 {"", "open sesame open", TUTTI_GREET_WRONG_SECRET},
                 {NULL, "open sesame open", TUTTI_GREET_NO_SECRET},
                 {"open sesame open", NULL, TUTTI_GREET_UNWANTED_SECRET}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        meet(cases[i].guests, cases[i].hosts);
        talk(1000);
        CHECK_INT(host.state, TUTTI_GREET_REFUSED);
        CHECK_INT(host.reason, cases[i].reason);
        CHECK_INT(guest.state, TUTTI_GREET_REFUSED);
        CHECK_INT(guest.reason, cases[i].reason);
    }
}

/* The session key, the secret, and anything that would tell a guessed one: nowhere on the wire
 * before the guest has proved; the session key nowhere at all. */
TEST(a_stranger_learns_nothing)
{
    uint8_t first[TUTTI_GREET_CHALLENGE_BYTES];

    meet("open sesame open", "open sesame open");
    talk(1000);
    for (size_t i = 0; i + sizeof(session) <= heard.count; i++)
        CHECK(memcmp(heard.bytes + i, session, sizeof(session)) != 0);
    /* Before that, hosts with different secrets say the very same. */
    meet("x", "open sesame open");
    carry(&guest, &host, 1000);
    CHECK_INT(host.out_bytes, TUTTI_GREET_CHALLENGE_BYTES);
    memcpy(first, host.out, sizeof(first));
    meet("x", "other");
    carry(&guest, &host, 1000);
    CHECK(memcmp(first, host.out, sizeof(first)) == 0);
}

/* All that a guest said, said again: the host's nonce is another, and the proof proves nothing. */
TEST(a_replay_is_refused)
{
    uint8_t nonce[TUTTI_GREET_NONCE_BYTES];
    uint8_t said[TUTTI_GREET_HELLO_BYTES + TUTTI_GREET_PROOF_BYTES];

    meet("open sesame open", "open sesame open");
    memcpy(said, guest.out, TUTTI_GREET_HELLO_BYTES);
    carry(&guest, &host, 1000);
    carry(&host, &guest, 1000);
    memcpy(said + TUTTI_GREET_HELLO_BYTES, guest.out, TUTTI_GREET_PROOF_BYTES);
    fill(nonce, 'i');
    tutti_greet_host(&host, "open sesame open", 6, nonce);
    for (size_t at = 0; at < sizeof(said);) {
        size_t bytes = host.in_bytes;

        memcpy(host.in, said + at, bytes);
        at += bytes;
        tutti_greet_took(&host, bytes);
        if (at < sizeof(said))
            tutti_greet_sent(&host, host.out_bytes);
    }
    CHECK_INT(host.state, TUTTI_GREET_REFUSED);
    CHECK_INT(host.reason, TUTTI_GREET_WRONG_SECRET);
}

/* A host that knows nothing sends the guest's own proof back, or anything else. */
TEST(an_impostor_is_found_out)
{
    uint8_t proof[TUTTI_GREET_PROOF_BYTES];

    meet("open sesame open", "guess");
    carry(&guest, &host, 1000);
    host.challenge[23] |= 1;
    carry(&host, &guest, 1000);
    CHECK_INT(guest.state, TUTTI_GREET_WANTS_WELCOME);
    memcpy(proof, guest.out, sizeof(proof));
    tutti_greet_sent(&guest, guest.out_bytes);
    memset(guest.in, 0, guest.in_bytes);
    memcpy(guest.in + guest.in_bytes - sizeof(proof), proof, sizeof(proof));
    tutti_greet_took(&guest, guest.in_bytes);
    CHECK_INT(guest.state, TUTTI_GREET_IMPOSTOR);
}

/* Each bit of each message turned over: nobody is let in who is not what he said. */
static void turn_bit(size_t message, size_t bit)
{
    struct tutti_greet *from = message % 2 == 0 ? &guest : &host;
    struct tutti_greet *to = message % 2 == 0 ? &host : &guest;
    uint8_t wrong[TUTTI_GREET_WELCOME_BYTES];

    meet("open sesame open", "open sesame open");
    for (size_t i = 0; i < message; i++)
        carry(i % 2 == 0 ? &guest : &host, i % 2 == 0 ? &host : &guest, 1000);
    if (host.state == TUTTI_GREET_PROVED)
        tutti_greet_welcome(&host, 1234, session);
    memcpy(wrong, from->out, from->out_bytes);
    wrong[bit / 8] ^= (uint8_t)(1 << bit % 8);
    from->out = wrong;
    carry(from, to, 1000);
    from->out_bytes = 0;
    carry(to, from, 1000);
    carry(from, to, 1000);
    carry(to, from, 1000);
    if (host.state == TUTTI_GREET_PROVED)
        TEST_FAIL("message %zu, bit %zu: the host believes it", message, bit);
    if (guest.state == TUTTI_GREET_DONE)
        TEST_FAIL("message %zu, bit %zu: the guest believes it", message, bit);
}

TEST(no_bit_can_be_turned_on_the_way)
{
    static const size_t bytes[] = {TUTTI_GREET_HELLO_BYTES, TUTTI_GREET_CHALLENGE_BYTES,
                                   TUTTI_GREET_PROOF_BYTES, TUTTI_GREET_WELCOME_BYTES};

    for (size_t message = 0; message < 4; message++)
        for (size_t bit = 0; bit < 8 * bytes[message]; bit++)
            turn_bit(message, bit);
}

TEST(another_version_is_named_on_both_sides)
{
    meet("open sesame open", "open sesame open");
    guest.hello[11] = 9;
    carry(&guest, &host, TUTTI_GREET_PREFIX_BYTES);
    CHECK_INT(host.state, TUTTI_GREET_REFUSED);
    CHECK_INT(host.reason, TUTTI_GREET_OTHER_VERSION);
    CHECK_INT(host.value, 9);
    guest.out_bytes = 0;
    carry(&host, &guest, 1000);
    CHECK_INT(guest.state, TUTTI_GREET_REFUSED);
    CHECK_INT(guest.reason, TUTTI_GREET_OTHER_VERSION);
    CHECK_INT(guest.value, TUTTI_GREET_VERSION);
    /* And a host of another version, by its challenge. */
    meet("open sesame open", "open sesame open");
    carry(&guest, &host, 1000);
    host.challenge[11] = 7;
    carry(&host, &guest, 1000);
    CHECK_INT(guest.state, TUTTI_GREET_REFUSED);
    CHECK_INT(guest.value, 7);
}

TEST(a_browser_is_a_stranger)
{
    static const char request[] = "GET / HTTP/1.1\r\n\r\n";

    meet("open sesame open", "open sesame open");
    memcpy(host.in, request, host.in_bytes);
    tutti_greet_took(&host, host.in_bytes);
    CHECK_INT(host.state, TUTTI_GREET_STRANGER);
    CHECK_INT(host.out_bytes, 0);
    tutti_greet_sent(&guest, guest.out_bytes);
    memset(guest.in, 'x', guest.in_bytes);
    tutti_greet_took(&guest, guest.in_bytes);
    CHECK_INT(guest.state, TUTTI_GREET_STRANGER);
}

/* Refused after the proof: with a value and a note, which is cut and never unterminated. */
TEST(a_refusal_says_why)
{
    char note[100];

    memset(note, 'n', sizeof(note));
    note[sizeof(note) - 1] = '\0';
    memcpy(note, "\033[2J\n\377", 6); /* no screen is cleared by who has proved nothing */
    meet("open sesame open", "open sesame open");
    carry(&guest, &host, 1000);
    carry(&host, &guest, 1000);
    carry(&guest, &host, 1000);
    tutti_greet_refuse(&host, TUTTI_GREET_TWICE, 8, note);
    carry(&host, &guest, 1000);
    CHECK_INT(guest.state, TUTTI_GREET_REFUSED);
    CHECK_INT(guest.reason, TUTTI_GREET_TWICE);
    CHECK_INT(guest.value, 8);
    CHECK_INT(strlen(guest.note), TUTTI_GREET_NOTE_BYTES - 1);
    CHECK_INT(strncmp(guest.note, "?[2J??nnn", 9), 0);
}
