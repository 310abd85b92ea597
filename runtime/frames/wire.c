/* Hellos, heads and MACs; see wire.h. */
#include "runtime/frames/wire.h"

#include <assert.h>
#include <string.h>

static const char magic[8] = "tuttifrm";
static const uint32_t HEAD_MAGIC = 0x6d726674; /* "tfrm" */

static void put_u32(uint8_t *to, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t get_u32(const uint8_t *from)
{
    uint32_t value = 0;

    for (unsigned i = 0; i < 4; i++)
        value |= (uint32_t)from[i] << 8 * i;
    return value;
}

static void put_u64(uint8_t *to, uint64_t value)
{
    put_u32(to, (uint32_t)value);
    put_u32(to + 4, (uint32_t)(value >> 32));
}

static uint64_t get_u64(const uint8_t *from)
{
    return get_u32(from) | (uint64_t)get_u32(from + 4) << 32;
}

void tutti_wire_write_hello(enum tutti_wire_word word, const char *tutti,
                            const uint8_t nonce[TUTTI_WIRE_NONCE_BYTES],
                            uint8_t ret[TUTTI_WIRE_HELLO_BYTES])
{
    memset(ret, 0, TUTTI_WIRE_HELLO_BYTES);
    memcpy(ret, magic, sizeof(magic));
    put_u32(ret + 8, TUTTI_WIRE_PROTOCOL);
    put_u32(ret + 12, word);
    memcpy(ret + 16, tutti, strnlen(tutti, TUTTI_WIRE_TUTTI_BYTES));
    memcpy(ret + TUTTI_WIRE_PREFIX_BYTES, nonce, TUTTI_WIRE_NONCE_BYTES);
}

/* What a stranger calls his version is shown: letters that can be shown alone. */
bool tutti_wire_read_hello(const uint8_t prefix[TUTTI_WIRE_PREFIX_BYTES],
                           struct tutti_wire_hello *ret)
{
    if (memcmp(prefix, magic, sizeof(magic)) != 0)
        return false;
    *ret = (struct tutti_wire_hello){.protocol = get_u32(prefix + 8), .word = get_u32(prefix + 12)};
    memcpy(ret->tutti, prefix + 16, TUTTI_WIRE_TUTTI_BYTES);
    for (char *p = ret->tutti; *p != '\0'; p++)
        if (*p <= ' ' || *p >= 0x7f)
            *p = '?';
    return true;
}

static void begin(const struct tutti_wire_talk *talk, const char *what, struct tutti_hmac *ret)
{
    tutti_hmac_begin(ret, talk->secret, talk->secret_bytes);
    tutti_hmac_add(ret, what, strlen(what) + 1);
    tutti_hmac_add(ret, talk->client, sizeof(talk->client));
    tutti_hmac_add(ret, talk->server, sizeof(talk->server));
}

void tutti_wire_prove(const struct tutti_wire_talk *talk, bool server,
                      uint8_t ret[TUTTI_WIRE_PROOF_BYTES])
{
    struct tutti_hmac hmac;

    begin(talk, server ? "tutti frames: the server" : "tutti frames: the client", &hmac);
    tutti_hmac_end(&hmac, ret);
}

void tutti_wire_seal_of(const struct tutti_wire_talk *talk, bool server,
                        struct tutti_wire_seal *ret)
{
    uint8_t key[TUTTI_SHA256_BYTES];
    struct tutti_hmac hmac;

    *ret = (struct tutti_wire_seal){.on = talk->secret_bytes > 0};
    begin(talk, server ? "tutti frames: server's key" : "tutti frames: client's key", &hmac);
    tutti_hmac_end(&hmac, key);
    tutti_hmac_begin(&ret->key, key, sizeof(key));
}

static void tag_of(const struct tutti_wire_seal *seal, char what, const uint8_t head[16],
                   struct tutti_hmac *ret)
{
    uint8_t counted[9];

    counted[0] = (uint8_t)what;
    put_u64(counted + 1, seal->counter);
    *ret = seal->key;
    tutti_hmac_add(ret, counted, sizeof(counted));
    tutti_hmac_add(ret, head, 16);
}

static void head_tag(const struct tutti_wire_seal *seal, const uint8_t head[16],
                     uint8_t ret[TUTTI_WIRE_TAG_BYTES])
{
    struct tutti_hmac hmac;

    memset(ret, 0, TUTTI_WIRE_TAG_BYTES);
    if (!seal->on)
        return;
    tag_of(seal, 'h', head, &hmac);
    tutti_wire_end_tag(&hmac, ret);
}

void tutti_wire_write_head(const struct tutti_wire_seal *seal, const struct tutti_wire_head *head,
                           uint8_t ret[TUTTI_WIRE_HEAD_BYTES])
{
    put_u32(ret, HEAD_MAGIC);
    put_u32(ret + 4, head->type);
    put_u64(ret + 8, head->bytes);
    head_tag(seal, ret, ret + 16);
}

enum tutti_wire_read tutti_wire_read_head(const struct tutti_wire_seal *seal,
                                          const uint8_t head[TUTTI_WIRE_HEAD_BYTES],
                                          uint64_t bytes_max, struct tutti_wire_head *ret)
{
    uint8_t tag[TUTTI_WIRE_TAG_BYTES];

    head_tag(seal, head, tag);
    if (!tutti_bytes_same(tag, head + 16, sizeof(tag)) || get_u32(head) != HEAD_MAGIC)
        return TUTTI_WIRE_FORGED;
    *ret = (struct tutti_wire_head){.type = get_u32(head + 4), .bytes = get_u64(head + 8)};
    return ret->bytes > bytes_max ? TUTTI_WIRE_TOO_LONG : TUTTI_WIRE_READ;
}

void tutti_wire_begin_tag(const struct tutti_wire_seal *seal,
                          const uint8_t head[TUTTI_WIRE_HEAD_BYTES], struct tutti_hmac *ret)
{
    assert(seal->on);
    tag_of(seal, 'p', head, ret);
}

void tutti_wire_end_tag(struct tutti_hmac *hmac, uint8_t ret[TUTTI_WIRE_TAG_BYTES])
{
    uint8_t all[TUTTI_SHA256_BYTES];

    tutti_hmac_end(hmac, all);
    memcpy(ret, all, TUTTI_WIRE_TAG_BYTES);
}
