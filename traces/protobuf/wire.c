/* Protobuf's wire format, written and read field by field. */
#include "traces/protobuf/wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_MIN = 256, VARINT_BYTES_MAX = 10, FIELD_MAX = (1 << 29) - 1 };

/* Room for `more` bytes. */
static bool reserve(struct tutti_protobuf *wire, size_t more)
{
    size_t wanted = wire->capacity == 0 ? BYTES_MIN : wire->capacity;
    uint8_t *larger;

    if (more > SIZE_MAX / 4 || wire->count > SIZE_MAX / 4)
        wire->failed = true;
    if (wire->failed)
        return false;
    while (wanted < wire->count + more)
        wanted *= 2;
    if (wanted == wire->capacity)
        return true;
    larger = realloc(wire->bytes, wanted);
    if (larger == NULL) {
        wire->failed = true;
        return false;
    }
    wire->bytes = larger;
    wire->capacity = wanted;
    return true;
}

void tutti_protobuf_raw(struct tutti_protobuf *wire, const void *bytes, size_t count)
{
    if (count == 0 || !reserve(wire, count))
        return;
    memcpy(wire->bytes + wire->count, bytes, count);
    wire->count += count;
}

/* Seven bits a byte, the lowest first. */
static size_t varint_put(uint8_t *bytes, uint64_t value)
{
    size_t count = 0;

    for (; value >= 0x80; value >>= 7)
        bytes[count++] = (uint8_t)(value | 0x80);
    bytes[count++] = (uint8_t)value;
    return count;
}

static void varint_add(struct tutti_protobuf *wire, uint64_t value)
{
    uint8_t bytes[VARINT_BYTES_MAX];

    tutti_protobuf_raw(wire, bytes, varint_put(bytes, value));
}

static void key_add(struct tutti_protobuf *wire, uint32_t field, enum tutti_protobuf_type type)
{
    assert(field > 0);
    assert(field <= FIELD_MAX);
    varint_add(wire, (uint64_t)field << 3 | type);
}

uint64_t tutti_protobuf_fixed(const uint8_t *bytes, size_t count)
{
    uint64_t value = 0;

    assert(count == 4 || count == 8);
    for (size_t i = 0; i < count; i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

void tutti_protobuf_put_fixed(uint8_t *bytes, size_t count, uint64_t value)
{
    assert(count == 4 || count == 8);
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
}

void tutti_protobuf_varint(struct tutti_protobuf *wire, uint32_t field, uint64_t value)
{
    key_add(wire, field, TUTTI_PROTOBUF_VARINT);
    varint_add(wire, value);
}

void tutti_protobuf_packed_double(struct tutti_protobuf *wire, double value)
{
    uint8_t bytes[8];
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    tutti_protobuf_put_fixed(bytes, sizeof(bytes), bits);
    tutti_protobuf_raw(wire, bytes, sizeof(bytes));
}

void tutti_protobuf_double(struct tutti_protobuf *wire, uint32_t field, double value)
{
    key_add(wire, field, TUTTI_PROTOBUF_FIXED64);
    tutti_protobuf_packed_double(wire, value);
}

void tutti_protobuf_float(struct tutti_protobuf *wire, uint32_t field, float value)
{
    uint8_t bytes[4];
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    tutti_protobuf_put_fixed(bytes, sizeof(bytes), bits);
    key_add(wire, field, TUTTI_PROTOBUF_FIXED32);
    tutti_protobuf_raw(wire, bytes, sizeof(bytes));
}

void tutti_protobuf_bytes(struct tutti_protobuf *wire, uint32_t field, const void *bytes,
                          size_t count)
{
    key_add(wire, field, TUTTI_PROTOBUF_BYTES);
    varint_add(wire, count);
    tutti_protobuf_raw(wire, bytes, count);
}

void tutti_protobuf_text(struct tutti_protobuf *wire, uint32_t field, const char *text)
{
    tutti_protobuf_bytes(wire, field, text, strlen(text));
}

size_t tutti_protobuf_open(struct tutti_protobuf *wire, uint32_t field)
{
    key_add(wire, field, TUTTI_PROTOBUF_BYTES);
    return wire->count;
}

/* Moves the message up by the length that goes before it. */
void tutti_protobuf_close(struct tutti_protobuf *wire, size_t opened)
{
    uint8_t length[VARINT_BYTES_MAX];
    size_t count;
    size_t length_count;

    if (wire->failed)
        return;
    assert(opened <= wire->count);
    count = wire->count - opened;
    length_count = varint_put(length, count);
    if (!reserve(wire, length_count))
        return;
    memmove(wire->bytes + opened + length_count, wire->bytes + opened, count);
    memcpy(wire->bytes + opened, length, length_count);
    wire->count += length_count;
}

/* ---- reading ------------------------------------------------------------------------------- */

double tutti_protobuf_as_double(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

float tutti_protobuf_as_float(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;

    memcpy(&value, &low, sizeof(value));
    return value;
}

static void skip(struct tutti_protobuf_reader *reader, size_t count)
{
    assert(count <= reader->count);
    reader->bytes += count;
    reader->count -= count;
}

static bool varint_take(struct tutti_protobuf_reader *reader, uint64_t *ret)
{
    uint64_t value = 0;

    for (size_t i = 0; i < VARINT_BYTES_MAX && i < reader->count; i++) {
        uint64_t seven = reader->bytes[i] & 0x7f;

        if (i == VARINT_BYTES_MAX - 1 && seven > 1)
            return false; /* beyond 64 bits */
        value |= seven << 7 * i;
        if (reader->bytes[i] < 0x80) {
            skip(reader, i + 1);
            *ret = value;
            return true;
        }
    }
    return false;
}

static bool fixed_take(struct tutti_protobuf_reader *reader, size_t count, uint64_t *ret)
{
    if (reader->count < count)
        return false;
    *ret = tutti_protobuf_fixed(reader->bytes, count);
    skip(reader, count);
    return true;
}

static bool bytes_take(struct tutti_protobuf_reader *reader, struct tutti_protobuf_field *field)
{
    uint64_t count;

    if (!varint_take(reader, &count) || count > reader->count)
        return false;
    field->bytes = reader->bytes;
    field->count = (size_t)count;
    skip(reader, (size_t)count);
    return true;
}

int tutti_protobuf_next(struct tutti_protobuf_reader *reader, struct tutti_protobuf_field *ret)
{
    struct tutti_protobuf_field field = {0};
    uint64_t key;
    bool whole = false;

    if (reader->count == 0)
        return 0;
    if (!varint_take(reader, &key) || key >> 3 == 0 || key >> 3 > FIELD_MAX)
        return -1;
    field.number = (uint32_t)(key >> 3);
    field.type = (enum tutti_protobuf_type)(key & 7);
    if (field.type == TUTTI_PROTOBUF_VARINT)
        whole = varint_take(reader, &field.value);
    else if (field.type == TUTTI_PROTOBUF_FIXED64)
        whole = fixed_take(reader, 8, &field.value);
    else if (field.type == TUTTI_PROTOBUF_FIXED32)
        whole = fixed_take(reader, 4, &field.value);
    else if (field.type == TUTTI_PROTOBUF_BYTES)
        whole = bytes_take(reader, &field);
    if (!whole)
        return -1;
    *ret = field;
    return 1;
}
