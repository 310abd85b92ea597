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
    uint8_t *unpacked;     /* from malloc: those bytes; NULL: they are not the blob's */
    uint64_t byte_count;
};

/* A file's bytes stay in the file. Where there is no FOLDER/NAME, but FOLDER/NAME.gz (as MNIST is
 * distributed), that is unpacked into memory: at most 1 GiB. -TUTTI_EINVAL: there is neither. */
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
