/* The bytes of a file, or of memory, read at any place by any thread. */
#ifndef TUTTI_RUNTIME_TRAIN_BLOB_H
#define TUTTI_RUNTIME_TRAIN_BLOB_H

#include <stddef.h>
#include <stdint.h>

struct tutti_err;

struct tutti_blob {
    char *name;            /* for messages; NULL: the blob is not open */
    int file;              /* a descriptor, or -1: the bytes are in memory */
    const uint8_t *memory; /* borrowed */
    uint64_t byte_count;
};

/* A file's bytes stay in the file. -TUTTI_EINVAL where there is no FOLDER/NAME; the message says so
 * if there is a FOLDER/NAME.gz ("gunzip it"). */
int tutti_blob_open(const char *folder, const char *name, struct tutti_blob *ret,
                    struct tutti_err *err);

/* Bytes that stay the caller's, under a name. */
int tutti_blob_of_memory(const char *name, const uint8_t *memory, uint64_t byte_count,
                         struct tutti_blob *ret, struct tutti_err *err);

void tutti_blob_close(struct tutti_blob *blob); /* one that is not open, too */

/* Exactly so many bytes from `offset` on; -TUTTI_EIO where a file has become shorter. */
int tutti_blob_read(const struct tutti_blob *blob, uint64_t offset, uint8_t *ret, size_t byte_count,
                    struct tutti_err *err);

#endif
