/* Who unpacks data files that are compressed, for `tutti doctor`. */
#ifndef TUTTI_RUNTIME_GZIP_H
#define TUTTI_RUNTIME_GZIP_H

#include "runtime/api.h"

TUTTI_API_BEGIN

/* Loads zlib, if this build uses it and this machine has it: its version, "1.2.13". NULL: files of
 * gzip cannot be read. */
const char *tutti_gzip_version(void);

TUTTI_API_END

#endif
