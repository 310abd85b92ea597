/* TFRecords: bytes framed by their length and checksums. */
#ifndef TUTTI_TRACES_TENSORBOARD_RECORD_H
#define TUTTI_TRACES_TENSORBOARD_RECORD_H

#include <stddef.h>
#include <stdint.h>

struct tutti_protobuf;

enum { TUTTI_RECORD_HEAD_BYTES = 12, TUTTI_RECORD_TAIL_BYTES = 4 };

/* CRC-32C (Castagnoli): reflected polynomial 0x82f63b78, all ones before and after. */
uint32_t tutti_crc32c(const uint8_t *bytes, size_t count);

/* A record begins at the end of `wire`: room for its head; returns what `close` wants when all its
 * data are written. */
size_t tutti_record_open(struct tutti_protobuf *wire);
void tutti_record_close(struct tutti_protobuf *wire, size_t opened);

/* The data of the record that `bytes` begin with. 1: *ret and *ret_count; 0: it is cut off, or
 * there is none; -1: a checksum does not hold. */
int tutti_record_next(const uint8_t *bytes, size_t count, const uint8_t **ret, size_t *ret_count);

#endif
