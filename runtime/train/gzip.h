/* A file of gzip, unpacked into memory. */
#ifndef TUTTI_RUNTIME_TRAIN_GZIP_H
#define TUTTI_RUNTIME_TRAIN_GZIP_H

#include <stdint.h>

struct tutti_err;

/* All of it, from malloc: at most so many bytes. -TUTTI_ELACK without zlib, -TUTTI_EINVAL for what
 * is not of gzip, damaged, cut off, or larger; the message names the file. */
int tutti_gzip_read(const char *path, uint64_t bytes_max, uint8_t **ret, uint64_t *ret_bytes,
                    struct tutti_err *err);

#endif
