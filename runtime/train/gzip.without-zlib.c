/* No zlib in this build. */
#include "runtime/gzip.h"

#include <stddef.h>

#include "runtime/status.h"
#include "runtime/train/gzip.h"

const char *tutti_gzip_version(void)
{
    return NULL;
}

int tutti_gzip_read(const char *path, uint64_t bytes_max, uint8_t **ret, uint64_t *ret_bytes,
                    struct tutti_err *err)
{
    (void)bytes_max;
    (void)ret;
    (void)ret_bytes;
    return tutti_fail(err, TUTTI_ELACK,
                      "'%s' is compressed, and this build has no zlib (gunzip '%s')", path, path);
}
