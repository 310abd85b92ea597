/* Typed quantities (picoseconds, bytes, bytes per second) and the only code that reads or prints
 * human units: inside Tutti nothing else knows what a GB/s or a microsecond is. */
#ifndef TUTTI_RUNTIME_UNITS_H
#define TUTTI_RUNTIME_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

struct tutti_err;

typedef int64_t tutti_ps; /* a time or a duration, in picoseconds */

#define TUTTI_PS_PER_NS INT64_C(1000)
#define TUTTI_PS_PER_US INT64_C(1000000)
#define TUTTI_PS_PER_MS INT64_C(1000000000)
#define TUTTI_PS_PER_S  INT64_C(1000000000000)

enum { TUTTI_UNIT_TEXT_BYTES = 32 };

/* Time to move `bytes` at `bytes_per_s`, rounded up to a picosecond. `bytes_per_s` must not be 0.
 * Saturates at INT64_MAX (106 days). */
tutti_ps tutti_wire_ps(uint64_t bytes, uint64_t bytes_per_s);

/* Readers. Each takes the whole of `text` or refuses it (-TUTTI_EINVAL, with what would have been
 * accepted); `*ret` is untouched on failure.
 *   size:  "12345" bytes; "4K" "16M" "1G" "1T", also "4KiB", are powers of 1024 (as nccl-tests);
 *          "kB" "MB" "GB" are powers of 1000
 *   rate:  "50GB/s" "400Gb/s" "25GiB/s" "100MB/s": B is bytes, b is bits; a unit is required
 *   time:  "500ps" "500ns" "1.5us" "2ms" "1s": a unit is required
 *   count: a decimal number in [min, max] */
int tutti_read_size(const char *text, uint64_t *ret_bytes, struct tutti_err *err);
int tutti_read_rate(const char *text, uint64_t *ret_bytes_per_s, struct tutti_err *err);
int tutti_read_time(const char *text, tutti_ps *ret_ps, struct tutti_err *err);
int tutti_read_count(const char *text, uint64_t min, uint64_t max, uint64_t *ret,
                     struct tutti_err *err);

/* Printers: shortest exact-looking form, e.g. "64KiB", "50GB/s", "1.5us". `buf` has
 * TUTTI_UNIT_TEXT_BYTES; returned for convenience. What they print, the readers accept; sizes and
 * times round-trip exactly, rates are printed in GB/s with as many digits as it takes. */
const char *tutti_print_size(uint64_t bytes, char *buf);
const char *tutti_print_rate(uint64_t bytes_per_s, char *buf);
const char *tutti_print_time(tutti_ps ps, char *buf);

TUTTI_API_END

#endif
