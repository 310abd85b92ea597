/* SHA-256 and HMAC-SHA256 against the examples of FIPS 180-4 and RFC 4231. */
#include "runtime/group/sha256.h"
#include "tests/test.h"

static const char *hex(const uint8_t *bytes, size_t count, char *text)
{
    for (size_t i = 0; i < count; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return text;
}

/* In pieces of `step` bytes: what is taken must not depend on how. */
static void check_hash(const char *text, size_t step, const char *expected)
{
    struct tutti_sha256 sha;
    uint8_t hash[TUTTI_SHA256_BYTES];
    char seen[2 * TUTTI_SHA256_BYTES + 1];
    size_t bytes = strlen(text);

    tutti_sha256_begin(&sha);
    for (size_t at = 0; at < bytes; at += step)
        tutti_sha256_add(&sha, text + at, bytes - at < step ? bytes - at : step);
    tutti_sha256_end(&sha, hash);
    CHECK_TEXT(hex(hash, sizeof(hash), seen), expected);
}

TEST(the_examples_of_FIPS_180_4)
{
    static const size_t steps[] = {1, 3, 55, 56, 63, 64, 65, 1000};

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        check_hash("", steps[i],
                   "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        check_hash("abc", steps[i],
                   "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        check_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", steps[i],
                   "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
        check_hash("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
                   "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
                   steps[i], "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    }
}

TEST(a_million_times_a)
{
    char *text = malloc(1000001);

    REQUIRE(text != NULL);
    memset(text, 'a', 1000000);
    text[1000000] = '\0';
    check_hash(text, 1000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(text);
}

static void check_hmac(const void *key, size_t key_bytes, const char *text, const char *expected)
{
    struct tutti_hmac hmac;
    uint8_t code[TUTTI_SHA256_BYTES];
    char seen[2 * TUTTI_SHA256_BYTES + 1];

    tutti_hmac_begin(&hmac, key, key_bytes);
    tutti_hmac_add(&hmac, text, strlen(text) / 2);
    tutti_hmac_add(&hmac, text + strlen(text) / 2, strlen(text) - strlen(text) / 2);
    tutti_hmac_end(&hmac, code);
    (void)hex(code, sizeof(code), seen);
    seen[strlen(expected)] = '\0'; /* one example is cut */
    CHECK_TEXT(seen, expected);
}

TEST(the_examples_of_RFC_4231)
{
    uint8_t key[131];
    char text[51] = "";

    memset(key, 0x0b, 20);
    check_hmac(key, 20, "Hi There",
               "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    check_hmac("Jefe", 4, "what do ya want for nothing?",
               "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, 20);
    memset(text, 0xdd, 50);
    check_hmac(key, 20, text, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    for (size_t i = 0; i < 25; i++)
        key[i] = (uint8_t)(i + 1);
    memset(text, 0xcd, 50);
    check_hmac(key, 25, text, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
    memset(key, 0x0c, 20);
    check_hmac(key, 20, "Test With Truncation", "a3b6167473100ee06e0c796c2955552b");
    memset(key, 0xaa, sizeof(key));
    check_hmac(key, sizeof(key), "Test Using Larger Than Block-Size Key - Hash Key First",
               "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    check_hmac(key, sizeof(key),
               "This is a test using a larger than block-size key and a larger than block-size "
               "data. The key needs to be hashed before being used by the HMAC algorithm.",
               "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(the_empty_key_is_a_key)
{
    check_hmac(NULL, 0, "", "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(a_difference_is_seen_wherever_it_is)
{
    uint8_t a[32] = {0};
    uint8_t b[32] = {0};

    CHECK(tutti_bytes_same(a, b, sizeof(a)));
    for (size_t i = 0; i < 8 * sizeof(b); i++) {
        b[i / 8] ^= (uint8_t)(1 << i % 8);
        CHECK(!tutti_bytes_same(a, b, sizeof(a)));
        b[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    CHECK(tutti_bytes_same(a, b, 0));
}
