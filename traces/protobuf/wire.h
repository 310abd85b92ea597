/* Protobuf's wire format, written and read field by field: what messages are made of, without a
 * library and without a schema. https://protobuf.dev/programming-guides/encoding */
#ifndef TUTTI_TRACES_PROTOBUF_WIRE_H
#define TUTTI_TRACES_PROTOBUF_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message that grows. All zero is an empty one. After a failed allocation it stays as it is and
 * `failed` is set; what is added later is dropped, so that writers may check once, at the end. */
struct tutti_protobuf {
    uint8_t *bytes; /* from malloc; freed by who holds the message */
    size_t count;
    size_t capacity;
    bool failed;
};

void tutti_protobuf_raw(struct tutti_protobuf *wire, const void *bytes,
                        size_t count); /* as it is */

void tutti_protobuf_varint(struct tutti_protobuf *wire, uint32_t field, uint64_t value);
void tutti_protobuf_double(struct tutti_protobuf *wire, uint32_t field, double value);
void tutti_protobuf_float(struct tutti_protobuf *wire, uint32_t field, float value);
void tutti_protobuf_bytes(struct tutti_protobuf *wire, uint32_t field, const void *bytes,
                          size_t count);
void tutti_protobuf_text(struct tutti_protobuf *wire, uint32_t field, const char *text);

/* One of a packed field, inside of a message that is opened for it. */
void tutti_protobuf_packed_double(struct tutti_protobuf *wire, double value);

/* A message in a field: `open` returns what `close` wants when all of it is written. */
size_t tutti_protobuf_open(struct tutti_protobuf *wire, uint32_t field);
void tutti_protobuf_close(struct tutti_protobuf *wire, size_t opened);

/* ---- reading ------------------------------------------------------------------------------- */

enum tutti_protobuf_type {
    TUTTI_PROTOBUF_VARINT = 0,
    TUTTI_PROTOBUF_FIXED64 = 1,
    TUTTI_PROTOBUF_BYTES = 2, /* texts, messages, packed numbers */
    TUTTI_PROTOBUF_FIXED32 = 5,
};

struct tutti_protobuf_field {
    uint32_t number;
    enum tutti_protobuf_type type;
    uint64_t value;       /* of a number: its bits */
    const uint8_t *bytes; /* of BYTES */
    size_t count;
};

/* What is left of a message. */
struct tutti_protobuf_reader {
    const uint8_t *bytes;
    size_t count;
};

/* 1: *ret is the next field; 0: the message has ended; -1: it is cut off or malformed. */
int tutti_protobuf_next(struct tutti_protobuf_reader *reader, struct tutti_protobuf_field *ret);

double tutti_protobuf_as_double(uint64_t bits);
float tutti_protobuf_as_float(uint64_t bits);
uint64_t tutti_protobuf_fixed(const uint8_t *bytes, size_t count); /* little endian, of 4 or 8 */
void tutti_protobuf_put_fixed(uint8_t *bytes, size_t count, uint64_t value);

#endif
