/* Values in a payload: little-endian, each checked against the end; see frames.h. */
#include <string.h>

#include "runtime/frames.h"

void tutti_frames_put_bytes(struct tutti_frames_writer *writer, const void *data, size_t bytes)
{
    writer->full = writer->full || bytes > writer->room - writer->bytes;
    if (writer->full || bytes == 0)
        return;
    memcpy(writer->data + writer->bytes, data, bytes);
    writer->bytes += bytes;
}

void tutti_frames_put_u64(struct tutti_frames_writer *writer, uint64_t value)
{
    uint8_t bytes[8];

    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
    tutti_frames_put_bytes(writer, bytes, sizeof(bytes));
}

void tutti_frames_put_u32(struct tutti_frames_writer *writer, uint32_t value)
{
    uint8_t bytes[4];

    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
    tutti_frames_put_bytes(writer, bytes, sizeof(bytes));
}

void tutti_frames_put_double(struct tutti_frames_writer *writer, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    tutti_frames_put_u64(writer, bits);
}

/* Its length, itself, and a zero, so that it can be read where it lies. */
void tutti_frames_put_text(struct tutti_frames_writer *writer, const char *text)
{
    size_t bytes = strlen(text);

    writer->full = writer->full || bytes > UINT32_MAX;
    tutti_frames_put_u32(writer, (uint32_t)bytes);
    tutti_frames_put_bytes(writer, text, bytes + 1);
}

const uint8_t *tutti_frames_get_bytes(struct tutti_frames_reader *reader, size_t bytes)
{
    const uint8_t *at = reader->data + reader->at;

    reader->bad = reader->bad || bytes > reader->bytes - reader->at;
    if (reader->bad)
        return NULL;
    reader->at += bytes;
    return at;
}

static uint64_t get(struct tutti_frames_reader *reader, unsigned bytes)
{
    const uint8_t *from = tutti_frames_get_bytes(reader, bytes);
    uint64_t value = 0;

    for (unsigned i = 0; from != NULL && i < bytes; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}

uint32_t tutti_frames_get_u32(struct tutti_frames_reader *reader)
{
    return (uint32_t)get(reader, 4);
}

uint64_t tutti_frames_get_u64(struct tutti_frames_reader *reader)
{
    return get(reader, 8);
}

double tutti_frames_get_double(struct tutti_frames_reader *reader)
{
    uint64_t bits = get(reader, 8);
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

const char *tutti_frames_get_text(struct tutti_frames_reader *reader)
{
    size_t bytes = tutti_frames_get_u32(reader);
    const uint8_t *text = tutti_frames_get_bytes(reader, bytes + 1);

    if (text == NULL || memchr(text, '\0', bytes + 1) != text + bytes) {
        reader->bad = true;
        return "";
    }
    return (const char *)text;
}

bool tutti_frames_get_all(const struct tutti_frames_reader *reader)
{
    return !reader->bad && reader->at == reader->bytes;
}
