/* TFRecords: u64 length, u32 checksum of the length, the data, u32 checksum of the data, all little
 * endian; checksums are masked, so that those of data which hold checksums are no weaker. */
#include "traces/tensorboard/record.h"

#include <assert.h>

#include "traces/protobuf/wire.h"

enum { LENGTH_BYTES = 8, CHECKSUM_BYTES = 4 };

uint32_t tutti_crc32c(const uint8_t *bytes, size_t count)
{
    /* What four bits become. */
    static const uint32_t table[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
        0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

static uint32_t masked(const uint8_t *bytes, size_t count)
{
    uint32_t crc = tutti_crc32c(bytes, count);

    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

size_t tutti_record_open(struct tutti_protobuf *wire)
{
    static const uint8_t head[TUTTI_RECORD_HEAD_BYTES];

    tutti_protobuf_raw(wire, head, sizeof(head));
    return wire->count;
}

void tutti_record_close(struct tutti_protobuf *wire, size_t opened)
{
    uint8_t tail[TUTTI_RECORD_TAIL_BYTES];
    uint8_t *head;

    if (wire->failed)
        return;
    assert(opened >= TUTTI_RECORD_HEAD_BYTES);
    assert(opened <= wire->count);
    head = wire->bytes + opened - TUTTI_RECORD_HEAD_BYTES;
    tutti_protobuf_put_fixed(head, LENGTH_BYTES, wire->count - opened);
    tutti_protobuf_put_fixed(head + LENGTH_BYTES, CHECKSUM_BYTES, masked(head, LENGTH_BYTES));
    tutti_protobuf_put_fixed(tail, sizeof(tail),
                             masked(wire->bytes + opened, wire->count - opened));
    tutti_protobuf_raw(wire, tail, sizeof(tail));
}

int tutti_record_next(const uint8_t *bytes, size_t count, const uint8_t **ret, size_t *ret_count)
{
    const uint8_t *data = bytes + TUTTI_RECORD_HEAD_BYTES;
    uint64_t data_count;

    if (count < TUTTI_RECORD_HEAD_BYTES)
        return 0;
    if (tutti_protobuf_fixed(bytes + LENGTH_BYTES, CHECKSUM_BYTES) != masked(bytes, LENGTH_BYTES))
        return -1;
    data_count = tutti_protobuf_fixed(bytes, LENGTH_BYTES);
    count -= TUTTI_RECORD_HEAD_BYTES;
    if (count < TUTTI_RECORD_TAIL_BYTES || data_count > count - TUTTI_RECORD_TAIL_BYTES)
        return 0;
    if (tutti_protobuf_fixed(data + data_count, CHECKSUM_BYTES) != masked(data, (size_t)data_count))
        return -1;
    *ret = data;
    *ret_count = (size_t)data_count;
    return 1;
}
